//! The facade that the C and JNI interfaces call: symbols, execution, automatic differentiation, key-value stores, data iterators and
//! profiling, and what they need of the crates below. The interfaces name no other crate of the engine.

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
