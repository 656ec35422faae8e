//! The sparsity penalty that keeps the mean activation of units near a target (MXNet's `IdentityAttachKLSparseReg`).

use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use num_traits::{One, Zero};

/// Updates the moving mean of each column of `x` (rows, columns): `moving * momentum + mean * (1 - momentum)`.
///
/// # Panics
/// Panics if `x` is not a whole number of rows.
pub fn blend_column_means<T: FloatElement>(momentum: f64, x: &[T], moving: &mut [T]) {
    let columns = moving.len();
    let rows = x.len() / columns.max(1);
    assert_eq!(x.len(), rows * columns, "elements of rows of {columns}");
    with_scratch(columns, |sums: &mut [T::Acc]| {
        sums.fill(T::Acc::zero());
        x.chunks_exact(columns.max(1)).for_each(|row| add(row, sums));
        let (keep, take) = (T::Acc::of(momentum), T::Acc::of((1.0 - momentum) / rows.max(1) as f64));
        for (moving, sum) in moving.iter_mut().zip(&*sums) {
            *moving = (T::Acc::of(*moving) * keep + *sum * take).store();
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add<T: FloatElement>(row: &[T], sums: &mut [T::Acc]) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += T::Acc::of(*x));
    }
}

/// Adds the derivative of the penalty to each column of the gradient:
/// `y_grad + penalty * ((1 - target) / (1 - mean) - target / mean)`.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn sparse_reg_backward<T: FloatElement>(target: f64, penalty: f64, mean: &[T], y_grad: &[T], x_grad: &mut [T]) {
    let columns = mean.len();
    assert_eq!([y_grad.len(), x_grad.len() % columns.max(1)], [x_grad.len(), 0], "elements of rows of {columns}");
    let (target, penalty, one) = (T::Acc::of(target), T::Acc::of(penalty), T::Acc::one());
    with_scratch(columns, |slopes: &mut [T::Acc]| {
        for (slope, mean) in slopes.iter_mut().zip(mean) {
            let mean = T::Acc::of(*mean);
            *slope = penalty * ((one - target) / (one - mean) - target / mean);
        }
        let slopes = &*slopes;
        parallel_rows(x_grad, columns, (1usize << 14).div_ceil(columns.max(1)), |row, to| {
            let from = y_grad[row * columns..].iter().zip(slopes);
            to.iter_mut().zip(from).for_each(|(to, (grad, slope))| *to = (T::Acc::of(*grad) + *slope).store());
        });
    });
}
