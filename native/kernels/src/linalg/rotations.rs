//! Givens rotations of neighboring rows, applied in batches.

use super::Scalar;
use crate::gemm::MatMut;
use crate::par::{List, parallel_blocks, with_scratch};
use crate::simd::multiversion::per_isa;

/// Columns in a block that is rotated at a time, so that its rows stay in the cache between rotations.
const WIDTH: usize = 64;
/// The same for matrices with fewer columns.
const NARROW_WIDTH: usize = 16;

/// Rotations per row that are collected before they are applied.
const PENDING_PER_ROW: usize = 16;

/// An unreduced block `begin..=end` of a bidiagonal or tridiagonal matrix, and the direction of a sweep through it. A reversed sweep counts
/// elements from the end.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub begin: usize,
    pub end: usize,
    pub is_reversed: bool,
}

impl Block {
    /// The index of diagonal element k.
    pub(super) fn d(self, k: usize) -> usize {
        if self.is_reversed { self.end - k } else { self.begin + k }
    }

    /// The index of the element between diagonal elements k and k + 1.
    pub(super) fn e(self, k: usize) -> usize {
        if self.is_reversed { self.end - 1 - k } else { self.begin + k }
    }
}

/// A matrix whose rows are rotated. Rotations are collected and applied in batches, because a single one reads two rows for little
/// arithmetic.
pub(super) struct Rotations<'a, T: 'static> {
    rows: &'a mut [T],
    n: usize,
    pending: List<(usize, T, T)>,
}

impl<'a, T: Scalar> Rotations<'a, T> {
    /// Wraps rows of `n` elements.
    pub(super) fn new(rows: &'a mut [T], n: usize) -> Self {
        Rotations { rows, n, pending: List::default() }
    }

    /// Replaces the rows x = `i` and y = `i` + 1 by c x + s y and c y - s x.
    pub(super) fn rotate(&mut self, i: usize, c: T, s: T) {
        self.pending.push((i, c, s));
        if self.pending.len() >= PENDING_PER_ROW * self.rows.len() / self.n.max(1) {
            self.apply();
        }
    }

    /// Applies the collected rotations.
    pub(super) fn apply(&mut self) {
        let (n, pending) = (self.n, &self.pending[..]);
        if pending.is_empty() {
            return;
        }
        let width = if n <= NARROW_WIDTH { NARROW_WIDTH } else { WIDTH };
        let rows = self.rows.len() / n;
        parallel_blocks(MatMut::row_major(self.rows, rows, n), rows, width, |_, _, mut block| {
            let cols = block.cols();
            with_scratch(rows * width, |panel: &mut [T]| {
                for (i, to) in panel.chunks_exact_mut(width).enumerate() {
                    to[..cols].copy_from_slice(block.row_mut(i));
                    to[cols..].fill(T::zero());
                }
                match width {
                    NARROW_WIDTH => {
                        rotate_all::<T, [T; NARROW_WIDTH]>(pending, panel.as_chunks_mut::<NARROW_WIDTH>().0)
                    }
                    _ => rotate_all::<T, [T; WIDTH]>(pending, panel.as_chunks_mut::<WIDTH>().0),
                }
                for (i, from) in panel.chunks_exact(width).enumerate() {
                    block.row_mut(i).copy_from_slice(&from[..cols]);
                }
            });
        });
        self.pending.clear();
    }
}

per_isa! {
    fn rotate_all<T: Scalar, R: AsMut<[T]>>(rotations: &[(usize, T, T)], rows: &mut [R]) {
        for (i, c, s) in rotations {
            if let [x, y, ..] = &mut rows[*i..] {
                let (x, y) = (x.as_mut(), y.as_mut());
                for k in 0..x.len() {
                    (x[k], y[k]) = (*c * x[k] + *s * y[k], *c * y[k] - *s * x[k]);
                }
            }
        }
    }
}
