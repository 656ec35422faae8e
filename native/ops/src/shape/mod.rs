//! Operators that change the shape of an array or rearrange its elements.
//!
//! - `reshape` reshapes without copying; `axes` permutes, inserts and removes axes.
//! - `slice` takes slices and assigns to them; `split`, `join` and `pad` split, concatenate and pad arrays; `repeat` has `tile` and
//!   `repeat`.
//! - `flip` has flips, rotations and rolls, `diagonal` diagonals and triangles.
//! - `depth_to_space` rearranges channels and blocks of pixels.
//! - `sparse` has slices and concatenations of csr matrices.

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
    axes::OPS,
    depth_to_space::OPS,
    diagonal::OPS,
    flip::OPS,
    join::OPS,
    pad::OPS,
    repeat::OPS,
    reshape::OPS,
    slice::OPS,
    split::OPS,
];

#[cfg(test)]
mod tests;
