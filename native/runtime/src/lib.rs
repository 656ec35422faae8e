//! The facade that the C and JNI interfaces call. They name no other crate of the engine.
//!
//! - `symbol` has the graphs that users build, `graph` the form that `passes` transform, and `symbol_infer` infers shapes of symbols;
//! - `executor` compiles and runs graphs, also for `predict` and, as operators, for `subgraph`;
//! - `imperative` runs single operators and records them for automatic differentiation, on `arrays`;
//! - `partition` groups nodes for a backend, `kvstore` synchronizes parameters, `io` reads data, and `profiler` measures operators;
//! - `random` has the generators of each device, `features` the features of the build, and `view` views for the
//!   crate `ndarray`.

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
pub mod view;

pub use ferromx_core::{
    context, dispatch, dtype, ensure, error, file_format, grad, memory, ndarray, op, params, semantics, shape, sparse,
    storage, user_op,
};
pub use ferromx_kernels::par::set_num_threads;
pub use ferromx_ops::registry;

/// The version in files and in `MXGetVersion`: 1.9.1.
pub const MXNET_VERSION: i32 = 10901;
