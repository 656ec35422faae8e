//! Operators on arrays, one call at a time, recorded on a tape where gradients are wanted.

mod calls;
mod invoke;
mod stored;
mod tape;
mod views;

pub use calls::{PreparedCall, call, prepare};
pub use invoke::{Arrays, invoke, run};
pub use stored::{Stored, invoke_stored};
pub use tape::{
    GradientRequest, Tensor, Tensors, backward, is_recording, is_training, mark_variables, record, set_recording,
    set_training,
};
pub use views::{at, reshape, slice};
