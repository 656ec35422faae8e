//! Operators that change the shape of an array or rearrange its elements.

pub(crate) mod axes;
mod depth_to_space;
mod diagonal;
pub(crate) mod flip;
pub(crate) mod join;
pub(crate) mod pad;
mod repeat;
pub mod reshape;
pub(crate) mod slice;
mod sparse;
mod split;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // Permutation, insertion and removal of axes.
    axes::OPS,
    // Rearrangement between channels and blocks of pixels.
    depth_to_space::OPS,
    // Diagonals and triangles.
    diagonal::OPS,
    // Flips, rotations and rolls.
    flip::OPS,
    // Concatenation and stacking.
    join::OPS,
    // Padding.
    pad::OPS,
    // Tiling and repetition.
    repeat::OPS,
    // Reshaping, without copying.
    reshape::OPS,
    // Slicing, and assignment to slices.
    slice::OPS,
    // Splitting.
    split::OPS,
];

#[cfg(test)]
mod tests;
