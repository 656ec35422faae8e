//! Mean and variance of rows (MXNet's `moments`).

use super::GRAIN;
use super::moments::Moments;
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, parallel_rows2};

/// The mean and the biased variance of each row of `len` elements.
///
/// # Panics
/// Panics unless there is one mean and one variance per row.
pub fn row_moments<T: FloatElement>(len: usize, x: &[T], mean: &mut [T], variance: &mut [T]) {
    assert_eq!([mean.len() * len, variance.len() * len], [x.len(); 2], "elements of {} rows", mean.len());
    parallel_rows2((mean, 1), (variance, 1), GRAIN.div_ceil(len.max(1)), |i, mean, variance| {
        let moments = Moments::of(&x[i * len..(i + 1) * len]);
        mean[0] = T::Acc::of(moments.mean).store();
        variance[0] = T::Acc::of(moments.variance()).store();
    });
}

/// The gradient of [`row_moments`]: `(mean_grad + 2 (x - mean) variance_grad) / len`.
///
/// # Panics
/// Panics unless there is one mean and one gradient of each kind per row.
pub fn row_moments_backward<T: FloatElement>(
    len: usize,
    x: &[T],
    mean: &[T],
    [mean_grad, variance_grad]: [&[T]; 2],
    x_grad: &mut [T],
) {
    let rows = [mean.len(), mean_grad.len(), variance_grad.len()];
    assert!(rows.iter().all(|rows| rows * len == x.len()) && x_grad.len() == x.len(), "elements of {rows:?} rows");
    let count = T::Acc::count(len.max(1));
    parallel_rows(x_grad, len, GRAIN.div_ceil(len.max(1)), |i, x_grad| {
        let slope = T::Acc::of(variance_grad[i]) * T::Acc::count(2) / count;
        add_scaled_deviation(
            T::Acc::of(mean_grad[i]) / count,
            slope,
            T::Acc::of(mean[i]),
            &x[i * len..(i + 1) * len],
            x_grad,
        );
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_scaled_deviation<T: FloatElement>(constant: T::Acc, slope: T::Acc, mean: T::Acc, x: &[T], x_grad: &mut [T]) {
        x_grad.iter_mut().zip(x).for_each(|(to, x)| *to = (constant + slope * (T::Acc::of(*x) - mean)).store());
    }
}
