//! Givens rotations of neighbouring rows, applied in batches.

use super::Scalar;
use crate::gemm::MatMut;
use crate::par::{List, parallel_blocks, with_scratch};
use crate::simd::multiversion::per_isa;

/// Columns that are rotated at a time, so that rows stay in the cache between rotations; `NARROW` for small matrices.
const WIDE: usize = 64;
const NARROW: usize = 16;

/// Number of rotations per row that are collected before they are applied.
const COLLECTED: usize = 16;

/// A matrix whose rows are rotated. Rotations are collected: applying each at once would move two rows through the cache for
/// little arithmetic.
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

    /// Takes rows x = `i` and y = `i` + 1 to c x + s y and c y - s x.
    pub(super) fn rotate(&mut self, i: usize, c: T, s: T) {
        self.pending.push((i, c, s));
        if self.pending.len() >= COLLECTED * self.rows.len() / self.n.max(1) {
            self.apply();
        }
    }

    /// Applies the collected rotations.
    pub(super) fn apply(&mut self) {
        let (n, pending) = (self.n, &self.pending[..]);
        if pending.is_empty() {
            return;
        }
        let width = if n <= NARROW { NARROW } else { WIDE };
        let rows = self.rows.len() / n;
        parallel_blocks(MatMut::row_major(self.rows, rows, n), rows, width, |_, _, mut block| {
            let cols = block.cols();
            with_scratch(rows * width, |panel: &mut [T]| {
                for (i, to) in panel.chunks_exact_mut(width).enumerate() {
                    to[..cols].copy_from_slice(block.row_mut(i));
                    to[cols..].fill(T::zero());
                }
                match width {
                    NARROW => rotate_all::<T, [T; NARROW]>(pending, panel.as_chunks_mut::<NARROW>().0),
                    _ => rotate_all::<T, [T; WIDE]>(pending, panel.as_chunks_mut::<WIDE>().0),
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
