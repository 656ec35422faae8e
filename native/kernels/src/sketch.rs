//! Count sketches: projections of rows by a hash (Charikar, Chen, Farach-Colton, Finding Frequent Items in Data Streams, 2002).

use crate::linalg::Scalar;
use crate::par::parallel_rows;

/// Elements per chunk.
const GRAIN: usize = 1 << 13;

/// The hash of each element of a row: its index in the sketch and its sign.
#[derive(Clone, Copy, Debug)]
pub struct SketchHash<'a, T> {
    /// Indices in the sketch.
    pub indices: &'a [usize],
    /// Signs, 1 or -1.
    pub signs: &'a [T],
}

impl<T: Scalar> SketchHash<'_, T> {
    /// Writes the sketches, of `len` elements each, of the rows of `x`: the sums of the signed elements with the same index.
    ///
    /// # Panics
    /// Panics if an index is not below `len`, or `x` has fewer rows than `out`.
    pub fn sketch(&self, x: &[T], len: usize, out: &mut [T]) {
        let d = self.indices.len();
        parallel_rows(out, len, GRAIN / d.max(1), |i, out| {
            out.fill(T::zero());
            for (j, x) in x[i * d..(i + 1) * d].iter().enumerate() {
                out[self.indices[j]] += self.signs[j] * *x;
            }
        });
    }

    /// Writes the gradient of the rows for the gradient `grad` of their sketches, of `len` elements each.
    ///
    /// # Panics
    /// As [`Self::sketch`].
    pub fn backward(&self, grad: &[T], len: usize, out: &mut [T]) {
        let d = self.indices.len();
        parallel_rows(out, d, GRAIN / d.max(1), |i, out| {
            for (j, out) in out.iter_mut().enumerate() {
                *out = self.signs[j] * grad[i * len + self.indices[j]];
            }
        });
    }
}
