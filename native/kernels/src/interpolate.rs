//! Linear combinations along an axis: every new element is a sum of a few old ones with weights, as in resizing images.

use crate::float::{Accum, Real};
use crate::par;
use num_traits::Zero;

/// Elements that one parallel chunk makes, at least.
const GRAIN: usize = 1 << 13;

/// Which old elements make the new ones: `taps` places with weights for each.
#[derive(Clone, Copy, Debug)]
pub struct Taps<'a, A> {
    /// Old elements for each new one.
    pub taps: usize,
    /// Their places, a row for each new element.
    pub places: &'a [usize],
    /// Their weights.
    pub weights: &'a [A],
}

impl<A: Accum> Taps<'_, A> {
    fn row(&self, i: usize) -> impl Iterator<Item = (usize, A)> + '_ {
        let range = i * self.taps..(i + 1) * self.taps;
        self.places[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// `out[o, i, j]` = sum over k of weight (i, k) times `x[o, place (i, k), j]`, with x of shape (outer, n, inner).
///
/// # Panics
/// If a length does not fit or a place is outside of the axis.
pub fn combine<T: Real>(x: &[T], (n, inner): (usize, usize), taps: &Taps<'_, T::Acc>, out: &mut [T]) {
    let m = taps.places.len() / taps.taps.max(1);
    if inner == 1 {
        // Rows are short jobs: several make a chunk.
        return par::parallel_rows(out, m, (GRAIN / m.max(1)).max(1), |o, out| {
            let x = &x[o * n..(o + 1) * n];
            for (i, out) in out.iter_mut().enumerate() {
                *out = taps.row(i).fold(T::Acc::zero(), |sum, (at, w)| sum + w * T::Acc::of(x[at])).store();
            }
        });
    }
    par::parallel_rows(out, inner, (GRAIN / inner).max(1), |row, out| {
        let (o, i) = (row / m, row % m);
        let mut sums = vec![T::Acc::zero(); inner];
        for (at, w) in taps.row(i) {
            let x = &x[(o * n + at) * inner..][..inner];
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += w * T::Acc::of(*x));
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum.store());
    });
}

/// The gradient of [`combine`] with respect to `x`.
///
/// # Panics
/// As [`combine`].
pub fn combine_backward<T: Real>(dy: &[T], (n, inner): (usize, usize), taps: &Taps<'_, T::Acc>, dx: &mut [T]) {
    let m = taps.places.len() / taps.taps.max(1);
    par::parallel_rows(dx, n * inner, 1, |o, dx| {
        let mut sums = vec![T::Acc::zero(); n * inner];
        for i in 0..m {
            let dy = &dy[(o * m + i) * inner..][..inner];
            for (at, w) in taps.row(i) {
                let sums = &mut sums[at * inner..(at + 1) * inner];
                sums.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += w * T::Acc::of(*dy));
            }
        }
        dx.iter_mut().zip(sums).for_each(|(dx, sum)| *dx = sum.store());
    });
}
