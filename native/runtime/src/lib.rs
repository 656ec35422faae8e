//! Graphs, execution, automatic differentiation and data.
