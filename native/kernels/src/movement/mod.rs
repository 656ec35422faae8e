//! Kernels that move elements without interpreting them.
//!
//! They take any plain element type, but their loops are compiled once per size, for unsigned integers.
//! Sources and destinations never overlap.
//!
//! - `fill`: filling with a value.
//! - `strided`: slices, broadcasting, flipping, rolling and repetition: copies from and to strided views.
//! - `runs`: the loops of these copies.
//! - `transpose`: permutation of axes.
//! - `join`: concatenation and splitting.
//! - `entries`: joining and splitting by ranges of entries in any order.
//! - `pad`: padding.
//! - `diagonal`: diagonals of two axes.

mod diagonal;
mod entries;
mod fill;
mod join;
mod pad;
mod runs;
mod strided;
#[cfg(test)]
mod tests;
mod transpose;

pub use crate::item::Item;
pub use diagonal::{diagonal, diagonal_assign, diagonal_fill, diagonal_len};
pub use entries::{Entries, join_entries, split_entries};
pub use fill::fill;
pub(crate) use fill::fill_run;
pub use join::{concat, split};
pub use pad::{Padding, pad};
pub use strided::{broadcast_to, flip, permute_flip, repeat, roll, slice, slice_assign, slice_fill, tile};
pub use transpose::transpose;

use smallvec::{SmallVec, smallvec};

/// An axis of a strided view: its length and stride, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    n: usize,
    stride: isize,
}

/// Minimum number of elements moved per chunk.
const GRAIN: usize = 1 << 15;

/// Usually so few axes that nothing is allocated.
type Axes = SmallVec<[Axis; 6]>;

/// Drops axes of length 1 and merges adjacent axes that are contiguous in memory.
fn merge_axes(axes: impl IntoIterator<Item = Axis>) -> Axes {
    let mut merged = Axes::new();
    for axis in axes.into_iter().filter(|a| a.n != 1) {
        match merged.last_mut() {
            Some(last) if last.stride == axis.n as isize * axis.stride => {
                *last = Axis { n: last.n * axis.n, stride: axis.stride };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// The strides of a contiguous array.
fn contiguous(shape: &[usize]) -> SmallVec<[isize; 6]> {
    let mut strides: SmallVec<[isize; 6]> = smallvec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i] as isize;
    }
    strides
}

/// The offset of the `index`-th element of a view in row-major order, relative to the first element.
fn offset_of(axes: &[Axis], mut index: usize) -> isize {
    let mut offset = 0;
    for axis in axes.iter().rev() {
        offset += (index % axis.n) as isize * axis.stride;
        index /= axis.n;
    }
    offset
}

/// Panics unless `len` elements make up `shape`.
#[track_caller]
fn check_permutation(perm: &[usize], shape: &[usize]) {
    let mut sorted = SmallVec::<[usize; 6]>::from_slice(perm);
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..shape.len()), "{perm:?} is not a permutation of the axes of {shape:?}");
}

fn check_shape(len: usize, shape: &[usize]) {
    assert_eq!(len, shape.iter().product(), "{len} elements do not have shape {shape:?}");
}

/// The number of leading axes of `out` that `shape` lacks when it is broadcast.
///
/// # Panics
/// Panics if `shape` has more axes than `out`.
pub(crate) fn missing_axes(shape: &[usize], out: &[usize]) -> usize {
    assert!(shape.len() <= out.len(), "shape {shape:?} has more axes than {out:?}");
    out.len() - shape.len()
}
