//! Imperative execution: operators run on arrays call by call, and are recorded on a tape for gradients.
//!
//! - `invoke` runs an operator on dense arrays, `stored` on arrays of any storage type;
//! - `tape` records operators and computes gradients, and `views` records views;
//! - `calls` caches parsed operator calls;
//! - `cached_op` runs graphs that are called like operators;
//! - `failures` defers errors of kernels until a program waits for the result.

mod cached_op;
mod calls;
mod failures;
mod invoke;
mod stored;
mod tape;
mod views;

pub(crate) use cached_op::Observer;
pub use cached_op::{CachedOp, Hook};
pub use calls::{PreparedCall, call, prepare};
pub use failures::{deferring, wait, wait_all};
pub use invoke::{Arrays, invoke};
pub(crate) use stored::write;
pub use stored::{Stored, invoke_stored};
pub use tape::{
    GradientRequest, Keep, Tensor, Tensors, backward, is_recording, is_training, mark_variables, record,
    record_function, set_recording, set_training, symbol_of,
};
pub(crate) use tape::{in_mode, unrecorded};
pub use views::{at, reshape, slice};
