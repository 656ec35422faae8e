//! Imperative execution: operators run on arrays call by call, and are recorded on a tape for gradients.
//!
//! - `invoke` runs an operator on dense arrays, `stored` on arrays of any storage type;
//! - `tape` records operators and computes gradients, and `views` records views;
//! - `calls` caches parsed operator calls;
//! - `stepwise` runs a graph operator by operator;
//! - `copies` copies arrays to others of any type;
//! - `failures` defers errors of kernels until a program waits for the result.

mod calls;
mod copies;
pub(crate) mod failures;
mod invoke;
mod stepwise;
mod stored;
mod tape;
mod views;

pub use calls::{PreparedCall, call, prepare};
pub use copies::{copy, copy_dense};
pub use failures::{deferring, wait, wait_all};
pub use invoke::{Arrays, invoke};
pub use stepwise::Hook;
pub(crate) use stepwise::{Observer, StepwiseGraph, name_node};
pub(crate) use stored::{ArraySpec, GradientCall, run_node, write, write_as_requested};
pub use stored::{Stored, invoke_stored};
pub use tape::{
    GradientRequest, Keep, Tensor, Tensors, backward, is_recording, is_training, mark_variables, record,
    record_function, set_recording, set_training, symbol_of,
};
pub(crate) use tape::{check_outputs, recorded_constant, unrecorded};
pub use views::{at, reshape, slice};
