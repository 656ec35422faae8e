//! The rectifier that follows a normalization.

use super::GRAIN;
use crate::float::{Accum, FloatElement};
use crate::lane::{replace_if, unchanged};
use crate::par::parallel_rows;
use num_traits::Zero;

/// Replaces negative elements by zero.
pub fn rectify<T: FloatElement>(y: &mut [T]) {
    parallel_rows(y, GRAIN, 1, |_, y| rectify_slice(y));
}

/// The gradient of [`rectify`]: `y_grad` where the result `y` is positive, else zero.
///
/// # Panics
/// Panics if the lengths differ.
pub fn rectify_backward<T: FloatElement>(y: &[T], y_grad: &[T], x_grad: &mut [T]) {
    assert_eq!([y.len(), y_grad.len()], [x_grad.len(); 2], "elements of a gradient");
    parallel_rows(x_grad, GRAIN, 1, |i, to| {
        let range = i * GRAIN..i * GRAIN + to.len();
        mask_gradient(&y[range.clone()], &y_grad[range], to);
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn rectify_slice<T: FloatElement>(y: &mut [T]) {
        let unchanged = unchanged::<T::Acc>();
        for y in y {
            let x = T::Acc::of(*y);
            *y = replace_if(x < T::Acc::zero(), T::Acc::zero(), x, unchanged).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn mask_gradient<T: FloatElement>(y: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for (to, (y, grad)) in x_grad.iter_mut().zip(y.iter().zip(y_grad)) {
            *to = if y.to_f32() > 0.0 { *grad } else { T::default() };
        }
    }
}
