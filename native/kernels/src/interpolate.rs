//! Interpolation along an axis: every output element is a weighted sum of a few input elements, as in resizing images.

use crate::float::{Accum, FloatElement};
use crate::par;
use num_traits::Zero;

/// Minimum number of output elements per chunk.
const GRAIN: usize = 1 << 13;

/// The taps of each output element: indices along the input axis, with their weights.
#[derive(Clone, Copy, Debug)]
pub struct Taps<'a, A> {
    /// Number of taps per output element.
    pub taps: usize,
    /// Input indices, (outputs, taps).
    pub indices: &'a [usize],
    /// The weight of each index, (outputs, taps).
    pub weights: &'a [A],
}

impl<A: Accum> Taps<'_, A> {
    fn row(&self, i: usize) -> impl Iterator<Item = (usize, A)> + '_ {
        let range = i * self.taps..(i + 1) * self.taps;
        self.indices[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// Interpolates: `out[o, i, j] = sum over k of weights[i, k] * x[o, indices[i, k], j]`, for `x` (outer, n, inner).
///
/// # Panics
/// Panics if a length does not match or an index is outside the axis.
pub fn combine<T: FloatElement>(x: &[T], (n, inner): (usize, usize), taps: &Taps<'_, T::Acc>, out: &mut [T]) {
    let m = taps.indices.len() / taps.taps.max(1);
    if inner == 1 {
        // Several rows per chunk, because they are short.
        return par::parallel_rows(out, m, (GRAIN / m.max(1)).max(1), |o, out| {
            let x = &x[o * n..(o + 1) * n];
            for (i, out) in out.iter_mut().enumerate() {
                *out = taps.row(i).fold(T::Acc::zero(), |sum, (index, w)| sum + w * T::Acc::of(x[index])).store();
            }
        });
    }
    par::parallel_rows(out, inner, (GRAIN / inner).max(1), |row, out| {
        let (o, i) = (row / m, row % m);
        par::with_scratch(inner, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            for (index, w) in taps.row(i) {
                add_weighted(w, &x[(o * n + index) * inner..][..inner], sums);
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum.store());
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_weighted<T: FloatElement>(weight: T::Acc, x: &[T], sums: &mut [T::Acc]) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * T::Acc::of(*x));
    }
}

/// The gradient of [`combine`] with respect to `x`.
///
/// # Panics
/// As [`combine`].
pub fn combine_backward<T: FloatElement>(dy: &[T], (n, inner): (usize, usize), taps: &Taps<'_, T::Acc>, dx: &mut [T]) {
    let m = taps.indices.len() / taps.taps.max(1);
    par::parallel_rows(dx, n * inner, 1, |o, dx| {
        let mut sums = vec![T::Acc::zero(); n * inner];
        for i in 0..m {
            let dy = &dy[(o * m + i) * inner..][..inner];
            for (index, w) in taps.row(i) {
                add_weighted(w, dy, &mut sums[index * inner..(index + 1) * inner]);
            }
        }
        dx.iter_mut().zip(sums).for_each(|(dx, sum)| *dx = sum.store());
    });
}
