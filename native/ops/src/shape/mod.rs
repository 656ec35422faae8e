//! Operators that change the shape of an array or rearrange its elements.

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

/// Reshaping, without copying.
pub static RESHAPE: &[&OpDef] = reshape::OPS;
/// Permutation, insertion, removal and reversal of axes.
pub static AXES: &[&OpDef] = axes::OPS;
/// Diagonals.
pub static DIAG: &[&OpDef] = diag::OPS;
/// Slicing, and assignment to slices.
pub static SLICE: &[&OpDef] = slice::OPS;
/// Concatenation, stacking and splitting.
pub static JOIN: &[&OpDef] = join::OPS;
/// Tiling and repetition.
pub static REPEAT: &[&OpDef] = repeat::OPS;
/// Padding, and rearrangement between channels and blocks of pixels.
pub static PAD: &[&OpDef] = pad::OPS;

#[cfg(test)]
mod tests;
