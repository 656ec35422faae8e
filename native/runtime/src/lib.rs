//! Graphs, execution, automatic differentiation, data and files: the facade that the C and JNI faces call.

pub mod executor;
pub mod graph;
pub mod imperative;
pub mod io;
pub mod passes;
pub mod random;
pub mod symbol;
pub mod symbol_infer;

/// The version that files and `MXGetVersion` give: 1.9.1.
pub const MXNET_VERSION: i32 = 10901;
