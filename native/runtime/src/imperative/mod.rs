//! Imperative execution: operators run on arrays call by call, and are recorded on a tape for gradients.
//!
//! - `invoke` runs an operator on dense arrays, `stored` on arrays of any storage type;
//! - `mode` has the thread's modes: recording and training;
//! - `tape` records operators, `views` records views, `tape_graph` converts the tape to a graph, and `backward` computes gradients;
//! - `calls` caches parsed operator calls;
//! - `stepwise` runs a graph operator by operator;
//! - `copies` copies arrays to others of any type;
//! - `failures` defers errors of kernels until a program waits for the result.

mod backward;
mod calls;
mod copies;
pub(crate) mod failures;
mod invoke;
mod mode;
mod stepwise;
mod stored;
mod tape;
mod tape_graph;
mod views;

pub use backward::{Keep, backward, backward_in_mode};
pub use calls::{PreparedCall, call, prepare};
pub(crate) use copies::converted;
pub use copies::{copy, copy_dense};
pub use failures::{deferring, wait, wait_all};
pub use invoke::{Arrays, Invocation, invoke};
pub(crate) use mode::operator_mode;
pub(crate) use mode::unrecorded;
pub use mode::{is_recording, is_training, set_recording, set_training};
pub use stepwise::Hook;
pub(crate) use stepwise::{InstalledHook, StepwiseGraph, name_node};
pub(crate) use stored::{ArraySpec, GradientCall, write, write_as_requested};
pub use stored::{Stored, invoke_stored};
pub use tape::{GradientRequest, Tensor, Tensors, mark_variables, record, record_function};
pub(crate) use tape::{check_outputs, recorded_constant};
pub use tape_graph::symbol_of;
pub use views::{at, reshape, slice};
