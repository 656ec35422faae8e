//! Operators that change shapes and move elements.

pub(crate) mod axes;
mod diag;
pub(crate) mod join;
pub(crate) mod moves;
pub(crate) mod pad;
mod repeat;
mod reshape;
pub(crate) mod slice;

pub(crate) use join::ConcatParam;
pub(crate) use slice::SliceParam;

use ferromx_core::op::OpDef;

/// Views of an array under another shape.
pub static RESHAPE: &[&OpDef] = reshape::OPS;
/// Permutation, insertion, removal and reversal of axes.
pub static AXES: &[&OpDef] = axes::OPS;
/// Diagonals.
pub static DIAG: &[&OpDef] = diag::OPS;
/// Slices, and writing to them.
pub static SLICE: &[&OpDef] = slice::OPS;
/// Joining arrays along an axis, and cutting them apart.
pub static JOIN: &[&OpDef] = join::OPS;
/// Copies side by side.
pub static REPEAT: &[&OpDef] = repeat::OPS;
/// Padding, and blocks of pixels.
pub static PAD: &[&OpDef] = pad::OPS;

#[cfg(test)]
mod tests;
