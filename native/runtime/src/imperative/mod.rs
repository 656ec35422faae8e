//! Operators on arrays, one call at a time, recorded on a tape where gradients are wanted.

mod cached_op;
mod calls;
mod invoke;
mod stored;
mod tape;
mod views;

pub use cached_op::{CachedOp, Hook};
pub use calls::{PreparedCall, call, prepare};
pub use invoke::{Arrays, invoke, run};
pub use stored::{Stored, invoke_stored};
pub(crate) use tape::unrecorded;
pub use tape::{
    GradientRequest, Tensor, Tensors, backward, is_recording, is_training, mark_variables, record, record_function,
    set_recording, set_training, symbol_of,
};
pub use views::{at, reshape, slice};
