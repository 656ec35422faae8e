//! The facade that the C and JNI interfaces call. They name no other crate of the engine.
//!
//! Each module uses only those before it:
//!
//! - `symbol` has the graphs that users build, `graph` the form that `passes` transform. `symbol_infer` infers shapes of symbols, and
//!   `low_precision` rewrites symbols to 16-bit and 8-bit types;
//! - `arrays` creates arrays and views. `imperative` runs single operators on them and records them for automatic differentiation;
//! - `executor` compiles and runs graphs, also those that operators hold, such as loop bodies. `cached_op` calls graphs like operators, and
//!   `predict` serves them;
//! - `partition` groups nodes for a backend, `kvstore` synchronizes parameters, and `io` reads data.
//!
//! All of them may use `random`, the generators of each device, and `profiler`, which measures operators. `features` lists the features of
//! the build, `view` has views for the crate `ndarray`, and `thread_id` numbers the threads.

pub mod arrays;
pub mod cached_op;
pub mod executor;
pub mod features;
mod graph;
pub mod imperative;
pub mod io;
pub mod kvstore;
pub mod low_precision;
pub mod partition;
mod passes;
pub mod predict;
pub mod profiler;
pub mod random;
pub mod symbol;
pub mod symbol_infer;
mod thread_id;
pub mod view;

pub use ferromx_core::{
    context, dispatch, dtype, ensure, error, file_format, grad, memory, ndarray, op, params, semantics, shape, sparse,
    storage, user_op,
};
pub use ferromx_kernels::par::{parallel_copy, set_num_threads};
pub use ferromx_ops::registry;

/// The version in files and in `MXGetVersion`: 1.9.1.
pub const MXNET_VERSION: i32 = 10901;
