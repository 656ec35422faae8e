//! Operators that repeat axes of length 1: arithmetic, comparison and logic of two arrays, and the repetition alone.

pub(crate) mod backward;
pub(crate) mod binary;
mod expand;

use ferromx_core::op::OpDef;

/// Arithmetic, comparison and logic of two arrays.
pub static BINARY: &[&OpDef] = binary::OPS;
/// The gradient of repetition.
pub static BACKWARD: &[&OpDef] = backward::OPS;
/// Repetition of axes.
pub static EXPAND: &[&OpDef] = expand::OPS;
