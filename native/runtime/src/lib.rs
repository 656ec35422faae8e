//! Graphs, execution, automatic differentiation, data and files: the facade that the C and JNI faces call.

pub mod arrays;
pub mod executor;
pub mod features;
pub mod graph;
pub mod imperative;
pub mod io;
pub mod kvstore;
pub mod partition;
pub mod passes;
pub mod predict;
pub mod profiler;
pub mod random;
mod subgraph;
pub mod symbol;
pub mod symbol_infer;

pub use ferromx_core::semantics;

/// The version that files and `MXGetVersion` give: 1.9.1.
pub const MXNET_VERSION: i32 = 10901;
