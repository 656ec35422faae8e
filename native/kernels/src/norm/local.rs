//! Local response normalization across channels (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep
//! convolutional neural networks", 2012): MXNet's `LRN`.

use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::{MatMut, parallel_blocks, with_scratch};
use num_traits::{Float, Zero};

/// Columns of a block: enough that the loop over a channel takes longer than its call.
const COLUMNS_PER_BLOCK: usize = 256;

/// The parameters of a local response normalization.
#[derive(Clone, Copy, Debug)]
pub struct LocalNorm {
    /// Number of channels in a window: `(window - 1) / 2`, rounded down, on either side of its center.
    pub window: usize,
    /// Scale of the mean square of a window.
    pub alpha: f64,
    /// The negated exponent.
    pub beta: f64,
    /// Added to the scaled mean square.
    pub bias: f64,
}

impl LocalNorm {
    /// The window around a channel, clipped to the channels, with the same number on either side: an even window is one channel
    /// narrower, as in MXNet.
    fn window_around(&self, channel: usize, channels: usize) -> std::ops::Range<usize> {
        let half = self.window.saturating_sub(1) / 2;
        channel.saturating_sub(half)..(channel + half + 1).min(channels)
    }

    /// Scale of a sum of squares.
    fn weight(&self) -> f64 {
        self.alpha / self.window as f64
    }
}

/// Computes `norm = bias + alpha / window * sum of x^2 over the window` and `y = x * norm^-beta`; the channels lie along the
/// axis, and windows are clipped at the first and last channel.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn local_norm_forward<T: FloatElement>(shape: AxisShape, p: &LocalNorm, x: &[T], y: &mut [T], norm: &mut [T]) {
    shape.check(&[x.len(), y.len(), norm.len()]);
    let AxisShape { outer, axis, inner } = shape;
    parallel_blocks(
        MatMut::row_major(&mut *norm, outer * axis, inner),
        axis,
        COLUMNS_PER_BLOCK,
        |row, column, mut norm| {
            let columns = norm.cols();
            for channel in 0..axis {
                let mut squares = [T::Acc::zero(); COLUMNS_PER_BLOCK];
                for c in p.window_around(channel, axis) {
                    let start = (row + c) * inner + column;
                    add_squares(&x[start..start + columns], &mut squares[..columns]);
                }
                scale_and_add(T::Acc::of(p.weight()), T::Acc::of(p.bias), &squares[..columns], norm.row_mut(channel));
            }
        },
    );
    let norm = &*norm;
    parallel_blocks(MatMut::row_major(y, outer * axis, inner), axis, COLUMNS_PER_BLOCK, |row, column, mut y| {
        for channel in 0..axis {
            let start = (row + channel) * inner + column;
            let range = start..start + y.cols();
            let mut scales = [T::Acc::zero(); COLUMNS_PER_BLOCK];
            let scales = &mut scales[..y.cols()];
            powers(p.beta, &norm[range.clone()], scales);
            scale(&x[range], scales, y.row_mut(channel));
        }
    });
}

/// The gradient of [`local_norm_forward`] with respect to `x`, from `norm` and the gradient of `y`:
/// `y_grad * norm^-beta - 2 beta alpha / window * x * sum of (y_grad x norm^(-beta - 1)) over the window`.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn local_norm_backward<T: FloatElement>(
    shape: AxisShape,
    p: &LocalNorm,
    x: &[T],
    norm: &[T],
    y_grad: &[T],
    x_grad: &mut [T],
) {
    shape.check(&[x.len(), norm.len(), y_grad.len(), x_grad.len()]);
    let AxisShape { outer, axis, inner } = shape;
    let scale = T::Acc::of(2.0 * p.beta * p.weight());
    parallel_blocks(
        MatMut::row_major(x_grad, outer * axis, inner),
        axis,
        COLUMNS_PER_BLOCK,
        |row, column, mut x_grad| {
            let columns = x_grad.cols();
            with_scratch(2 * axis * columns, |buffer: &mut [T::Acc]| {
                let (direct, window_terms) = buffer.split_at_mut(axis * columns);
                for channel in 0..axis {
                    let start = (row + channel) * inner + column;
                    let range = start..start + columns;
                    let to = channel * columns..(channel + 1) * columns;
                    let (direct, window_terms) = (&mut direct[to.clone()], &mut window_terms[to]);
                    powers(p.beta, &norm[range.clone()], direct);
                    terms(&x[range.clone()], &norm[range.clone()], &y_grad[range], direct, window_terms);
                }
                for channel in 0..axis {
                    let mut sums = [T::Acc::zero(); COLUMNS_PER_BLOCK];
                    for c in p.window_around(channel, axis) {
                        add(&window_terms[c * columns..(c + 1) * columns], &mut sums[..columns]);
                    }
                    let start = (row + channel) * inner + column;
                    let direct = &direct[channel * columns..(channel + 1) * columns];
                    subtract_window_sums(
                        scale,
                        direct,
                        &x[start..start + columns],
                        &sums[..columns],
                        x_grad.row_mut(channel),
                    );
                }
            });
        },
    );
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_squares<T: FloatElement>(x: &[T], sums: &mut [T::Acc]) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += T::Acc::of(*x) * T::Acc::of(*x);
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn scale_and_add<T: FloatElement>(weight: T::Acc, bias: T::Acc, sums: &[T::Acc], norm: &mut [T]) {
        norm.iter_mut().zip(sums).for_each(|(norm, sum)| *norm = (bias + weight * *sum).store());
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// `norm^-beta`.
    fn powers<T: FloatElement>(beta: f64, norm: &[T], powers: &mut [T::Acc]) {
        if beta == 0.75 {
            for (power, norm) in powers.iter_mut().zip(norm) {
                let root = T::Acc::of(*norm).sqrt();
                *power = (root * root.sqrt()).recip();
            }
        } else {
            let exponent = T::Acc::of(-beta);
            // A loop: a closure that contains a function as large as `power` would not be inlined, and so not vectorized.
            for (power, norm) in powers.iter_mut().zip(norm) {
                *power = T::Acc::of(*norm).power(exponent);
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn scale<T: FloatElement>(x: &[T], powers: &[T::Acc], y: &mut [T]) {
        y.iter_mut().zip(x.iter().zip(powers)).for_each(|(y, (x, power))| *y = (T::Acc::of(*x) * *power).store());
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Multiplies `powers` by `y_grad`; `window_terms` becomes the product times `x / norm`, the terms of the sums over windows.
    fn terms<T: FloatElement>(x: &[T], norm: &[T], y_grad: &[T], powers: &mut [T::Acc], window_terms: &mut [T::Acc]) {
        let from = x.iter().zip(norm).zip(y_grad);
        for ((power, window_terms), ((x, norm), grad)) in powers.iter_mut().zip(window_terms).zip(from) {
            *power *= T::Acc::of(*grad);
            *window_terms = *power * T::Acc::of(*x) / T::Acc::of(*norm);
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    fn add<A: Accum>(x: &[A], sums: &mut [A]) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x);
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn subtract_window_sums<T: FloatElement>(scale: T::Acc, direct: &[T::Acc], x: &[T], sums: &[T::Acc], x_grad: &mut [T]) {
        let from = direct.iter().zip(x).zip(sums);
        for (to, ((direct, x), sum)) in x_grad.iter_mut().zip(from) {
            *to = (*direct - scale * T::Acc::of(*x) * *sum).store();
        }
    }
}
