//! Normalization of each row by its own mean and variance: layer normalization (Ba, Kiros and Hinton, 2016), group
//! normalization (Wu and He, 2018) and instance normalization (Ulyanov, Vedaldi and Lempitsky, 2016).
//!
//! A row is the set of elements that share a mean. For MXNet's `LayerNorm` rows run along the axis; for `GroupNorm` and
//! `InstanceNorm` a row is a group of channels, or one channel, of one image.

use super::GRAIN;
use super::moments::{Moments, correction, dot, sums};
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, parallel_rows2, with_scratch};
use crate::short_rows;
use num_traits::{Float, One, Zero};
use std::ops::Range;

/// Rows in a chunk of [`row_norm_backward`], whose contributions to the gradients of gamma and beta are summed separately.
const CHUNK_ROWS: usize = 32;

/// Scales (gamma) and shifts (beta) applied after normalization.
#[derive(Clone, Copy, Debug)]
pub enum Affine<'a, A> {
    /// Gamma and beta per element of a row (`LayerNorm`).
    PerElement(&'a [A], &'a [A]),
    /// Gamma and beta per row, repeated periodically (`GroupNorm`: one per group, `InstanceNorm`: one per channel).
    PerRow(&'a [A], &'a [A]),
}

impl<A: Accum> Affine<'_, A> {
    fn check(&self, shape: AxisShape) {
        let (gamma, beta, fits) = match self {
            Affine::PerElement(gamma, beta) => (gamma, beta, gamma.len() == shape.axis),
            Affine::PerRow(gamma, beta) => {
                let rows = shape.outer * shape.inner;
                (gamma, beta, rows == 0 || (!gamma.is_empty() && rows.is_multiple_of(gamma.len())))
            }
        };
        assert!(
            fits && gamma.len() == beta.len(),
            "{} scales and {} shifts for rows of {shape:?}",
            gamma.len(),
            beta.len()
        );
    }
}

/// Normalizes the rows of `x`, which run along the axis of `shape`, into `y`, and stores the mean and the deviation
/// `sqrt(variance + eps)` of each of the `outer` x `inner` rows.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn row_norm_forward<T: FloatElement>(
    shape: AxisShape,
    affine: Affine<'_, T::Acc>,
    eps: f64,
    x: &[T],
    y: &mut [T],
    (mean, deviation): (&mut [T::Acc], &mut [T::Acc]),
) {
    let AxisShape { outer, axis, inner } = shape;
    shape.check(&[x.len(), y.len()]);
    affine.check(shape);
    assert_eq!([mean.len(), deviation.len()], [outer * inner; 2], "statistics for the rows of {shape:?}");
    if inner > 1 {
        let rows = AxisShape { outer: outer * inner, axis, inner: 1 };
        return with_scratch(2 * x.len(), |buffer: &mut [T]| {
            let (x_rows, y_rows) = buffer.split_at_mut(x.len());
            transpose(shape, x, x_rows);
            row_norm_forward(rows, affine, eps, x_rows, y_rows, (mean, deviation));
            transpose(AxisShape { outer, axis: inner, inner: axis }, y_rows, y);
        });
    }
    if (1..=short_rows::MAX_LEN).contains(&axis) {
        return short_forward(axis, affine, eps, x, y, (mean, deviation));
    }
    let (axis, grain) = (axis.max(1), GRAIN.div_ceil(axis.max(1)));
    parallel_rows2((mean, 1), (deviation, 1), grain, |i, mean, deviation| {
        let moments = Moments::of(&x[(i * axis).min(x.len())..((i + 1) * axis).min(x.len())]);
        mean[0] = T::Acc::of(moments.mean);
        deviation[0] = T::Acc::of((moments.variance() + eps).sqrt());
    });
    parallel_rows(y, axis, grain, |i, y| {
        normalize(affine, i, mean[i], deviation[i].recip(), &x[i * axis..(i + 1) * axis], y);
    });
}

/// [`row_norm_forward`] for short rows, transposed in blocks.
fn short_forward<T: FloatElement>(
    axis: usize,
    affine: Affine<'_, T::Acc>,
    eps: f64,
    x: &[T],
    y: &mut [T],
    (mean, deviation): (&mut [T::Acc], &mut [T::Acc]),
) {
    let (block, x) = (axis * short_rows::BLOCK_ROWS, T::elements(x));
    let grain = GRAIN.div_ceil(block);
    parallel_rows2(
        (&mut *mean, short_rows::BLOCK_ROWS),
        (&mut *deviation, short_rows::BLOCK_ROWS),
        grain,
        |i, mean, deviation| {
            let len = axis * mean.len();
            with_scratch(2 * len, |buffer: &mut [T::Acc]| {
                let (buffer, lanes) = buffer.split_at_mut(len);
                short_rows::load(x, i * block, axis, buffer, lanes);
                column_moments(T::Acc::of(eps), lanes, mean, deviation);
            });
        },
    );
    parallel_rows(y, block, grain, |i, y| {
        let (len, rows) = (y.len(), y.len() / axis);
        let statistics = i * short_rows::BLOCK_ROWS..i * short_rows::BLOCK_ROWS + rows;
        let mut inverse = [T::Acc::one(); short_rows::BLOCK_ROWS];
        inverse.iter_mut().zip(&deviation[statistics.clone()]).for_each(|(inverse, x)| *inverse = x.recip());
        let (mean, inverse) = (&mean[statistics.clone()], &inverse[..rows]);
        with_scratch(2 * len, |buffer: &mut [T::Acc]| {
            let (buffer, lanes) = buffer.split_at_mut(len);
            short_rows::load(x, i * block, axis, buffer, lanes);
            match affine {
                Affine::PerElement(gamma, beta) => normalize_columns(mean, inverse, (gamma, beta), lanes),
                Affine::PerRow(gamma, beta) => {
                    let mut scales = [(T::Acc::one(), T::Acc::zero()); short_rows::BLOCK_ROWS];
                    let rows = statistics.map(|row| row % gamma.len());
                    scales.iter_mut().zip(rows).for_each(|(scale, row)| *scale = (gamma[row], beta[row]));
                    normalize_rows(mean, inverse, &scales, lanes);
                }
            }
            short_rows::store(lanes, axis, buffer, T::elements_mut(y));
        });
    });
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// The mean and the deviation of each column.
    fn column_moments<A: Accum>(eps: A, lanes: &[A], mean: &mut [A], deviation: &mut [A]) {
        let rows = mean.len();
        let count = A::count(lanes.len() / rows);
        let (mut sums, mut squares) = ([A::zero(); short_rows::BLOCK_ROWS], [A::zero(); short_rows::BLOCK_ROWS]);
        mean.fill(A::zero());
        for row in lanes.chunks_exact(rows) {
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += *x);
        }
        mean.iter_mut().for_each(|mean| *mean /= count);
        for row in lanes.chunks_exact(rows) {
            for ((x, mean), (sum, squares)) in row.iter().zip(&*mean).zip(sums.iter_mut().zip(&mut squares)) {
                let difference = *x - *mean;
                *sum += difference;
                *squares += difference * difference;
            }
        }
        for ((mean, deviation), (sum, squares)) in mean.iter_mut().zip(deviation).zip(sums.iter().zip(&squares)) {
            // Corrects for the rounding of the mean.
            let shift = correction(*sum / count);
            *mean += shift;
            let squares = if squares.is_finite() { *squares - *sum * shift } else { *squares };
            *deviation = ((if squares < A::zero() { A::zero() } else { squares }) / count + eps).sqrt();
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Normalizes columns with a gamma and beta per element of a column.
    fn normalize_columns<A: Accum>(mean: &[A], inverse: &[A], affine: (&[A], &[A]), lanes: &mut [A]) {
        for (row, (gamma, beta)) in lanes.chunks_exact_mut(mean.len()).zip(affine.0.iter().zip(affine.1)) {
            for (x, (mean, inverse)) in row.iter_mut().zip(mean.iter().zip(inverse)) {
                *x = (*x - *mean) * *inverse * *gamma + *beta;
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Normalizes columns with a gamma and beta per column.
    fn normalize_rows<A: Accum>(mean: &[A], inverse: &[A], affine: &[(A, A)], lanes: &mut [A]) {
        for row in lanes.chunks_exact_mut(mean.len()) {
            for ((x, (gamma, beta)), (mean, inverse)) in row.iter_mut().zip(affine).zip(mean.iter().zip(inverse)) {
                *x = (*x - *mean) * (*gamma * *inverse) + *beta;
            }
        }
    }
}

/// Transposes (outer, axis, inner) to (outer, inner, axis).
fn transpose<T: FloatElement>(shape: AxisShape, from: &[T], to: &mut [T]) {
    let AxisShape { axis, inner, .. } = shape;
    parallel_rows(to, axis.max(1), GRAIN.div_ceil(axis.max(1)), |i, to| {
        let start = i / inner * axis * inner + i % inner;
        to.iter_mut().zip(from[start..].iter().step_by(inner)).for_each(|(to, from)| *to = *from);
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn normalize<T: FloatElement>(affine: Affine<'_, T::Acc>, i: usize, mean: T::Acc, inverse: T::Acc, x: &[T], y: &mut [T]) {
        match affine {
            Affine::PerElement(gamma, beta) => {
                for ((y, x), (gamma, beta)) in y.iter_mut().zip(x).zip(gamma.iter().zip(beta)) {
                    *y = ((T::Acc::of(*x) - mean) * inverse * *gamma + *beta).store();
                }
            }
            Affine::PerRow(gamma, beta) => {
                let (scale, shift) = (gamma[i % gamma.len()] * inverse, beta[i % gamma.len()]);
                for (y, x) in y.iter_mut().zip(x) {
                    *y = ((T::Acc::of(*x) - mean) * scale + shift).store();
                }
            }
        }
    }
}

/// The gradients that [`row_norm_backward`] computes.
#[derive(Debug)]
pub struct RowNormGrads<'a, T: FloatElement> {
    /// The gradient of `x`.
    pub x: &'a mut [T],
    /// The gradient of gamma.
    pub gamma: &'a mut [T::Acc],
    /// The gradient of beta.
    pub beta: &'a mut [T::Acc],
}

/// The gradients of [`row_norm_forward`] from the gradient of its result, `y_grad`, and the statistics that it stored.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn row_norm_backward<T: FloatElement>(
    shape: AxisShape,
    affine: Affine<'_, T::Acc>,
    (mean, deviation): (&[T::Acc], &[T::Acc]),
    x: &[T],
    y_grad: &[T],
    grads: RowNormGrads<'_, T>,
) {
    let AxisShape { outer, axis, inner } = shape;
    shape.check(&[x.len(), y_grad.len(), grads.x.len()]);
    affine.check(shape);
    let (Affine::PerElement(gamma, _) | Affine::PerRow(gamma, _)) = affine;
    assert_eq!([mean.len(), deviation.len()], [outer * inner; 2], "statistics for the rows of {shape:?}");
    assert_eq!([grads.gamma.len(), grads.beta.len()], [gamma.len(); 2], "gradients of the parameters");
    if inner > 1 {
        return backward_transposed(shape, affine, (mean, deviation), x, y_grad, grads);
    }
    grads.gamma.fill(T::Acc::zero());
    grads.beta.fill(T::Acc::zero());
    if shape.is_empty() {
        return;
    }
    // The gradients of the parameters are summed within chunks of rows, then over the chunks in order.
    let (chunk, values) = match affine {
        Affine::PerElement(..) => (CHUNK_ROWS, axis),
        Affine::PerRow(..) => (1, 1),
    };
    let grain = (GRAIN / (chunk * axis)).max(1);
    with_scratch(2 * values * outer.div_ceil(chunk), |partial: &mut [T::Acc]| {
        parallel_rows2((grads.x, chunk * axis), (&mut *partial, 2 * values), grain, |i, x_grad, partial| {
            let rows = i * chunk..i * chunk + x_grad.len() / axis;
            let from = (&x[rows.start * axis..rows.end * axis], &y_grad[rows.start * axis..rows.end * axis]);
            chunk_gradients(affine, (mean, deviation), rows, from, x_grad, partial.split_at_mut(values));
        });
        for (i, partial) in partial.chunks_exact(2 * values).enumerate() {
            let (gamma_terms, beta_terms) = partial.split_at(values);
            let first = if matches!(affine, Affine::PerRow(..)) { i % grads.gamma.len() } else { 0 };
            grads.gamma[first..].iter_mut().zip(gamma_terms).for_each(|(sum, term)| *sum += *term);
            grads.beta[first..].iter_mut().zip(beta_terms).for_each(|(sum, term)| *sum += *term);
        }
    });
}

/// [`row_norm_backward`] along an axis that is not the last, on transposed copies.
fn backward_transposed<T: FloatElement>(
    shape: AxisShape,
    affine: Affine<'_, T::Acc>,
    statistics: (&[T::Acc], &[T::Acc]),
    x: &[T],
    y_grad: &[T],
    grads: RowNormGrads<'_, T>,
) {
    let AxisShape { outer, axis, inner } = shape;
    let rows = AxisShape { outer: outer * inner, axis, inner: 1 };
    with_scratch(3 * x.len(), |buffer: &mut [T]| {
        let (x_rows, buffer) = buffer.split_at_mut(x.len());
        let (y_grad_rows, x_grad_rows) = buffer.split_at_mut(x.len());
        transpose(shape, x, x_rows);
        transpose(shape, y_grad, y_grad_rows);
        let RowNormGrads { x: x_grad, gamma, beta } = grads;
        let grads = RowNormGrads { x: &mut *x_grad_rows, gamma, beta };
        row_norm_backward(rows, affine, statistics, x_rows, y_grad_rows, grads);
        transpose(AxisShape { outer, axis: inner, inner: axis }, x_grad_rows, x_grad);
    });
}

/// The gradients of a chunk of rows, whose elements are `x` and `y_grad`; those of gamma and beta are sums over its rows, or those of its
/// only row.
fn chunk_gradients<T: FloatElement>(
    affine: Affine<'_, T::Acc>,
    (mean, deviation): (&[T::Acc], &[T::Acc]),
    rows: Range<usize>,
    (x, y_grad): (&[T], &[T]),
    x_grad: &mut [T],
    (gamma_grad, beta_grad): (&mut [T::Acc], &mut [T::Acc]),
) {
    let axis = x_grad.len() / rows.len();
    gamma_grad.fill(T::Acc::zero());
    beta_grad.fill(T::Acc::zero());
    with_scratch(2 * axis, |buffer: &mut [T::Acc]| {
        let (scaled_grad, normalized) = buffer.split_at_mut(axis);
        let from = x.chunks_exact(axis).zip(y_grad.chunks_exact(axis));
        for (row, (x_grad, (x, y_grad))) in rows.zip(x_grad.chunks_exact_mut(axis).zip(from)) {
            let inverse = deviation[row].recip();
            let gamma = match affine {
                Affine::PerElement(gamma, _) => {
                    let sums = (&mut *gamma_grad, &mut *beta_grad);
                    widen_and_sum(gamma, (mean[row], inverse), (x, y_grad), scaled_grad, normalized, sums);
                    T::Acc::one()
                }
                Affine::PerRow(gamma, _) => {
                    widen((mean[row], inverse), x, y_grad, scaled_grad, normalized);
                    gamma[row % gamma.len()]
                }
            };
            let ([sum, _], product) = (sums(scaled_grad, scaled_grad, T::Acc::zero()), dot(scaled_grad, normalized));
            if let Affine::PerRow(..) = affine {
                (gamma_grad[0], beta_grad[0]) = (T::Acc::of(product), T::Acc::of(sum));
            }
            let means = [sum, product].map(|total| T::Acc::of(total / axis as f64));
            project(inverse * gamma, means, scaled_grad, normalized, x_grad);
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Writes the normalized row to `normalized` and the gradient of its output to `scaled_grad`, in the accumulation type.
    fn widen<T: FloatElement>(stats: (T::Acc, T::Acc), x: &[T], y_grad: &[T], scaled_grad: &mut [T::Acc], normalized: &mut [T::Acc]) {
        for ((scaled_grad, normalized), (x, y_grad)) in scaled_grad.iter_mut().zip(normalized).zip(x.iter().zip(y_grad)) {
            *normalized = (T::Acc::of(*x) - stats.0) * stats.1;
            *scaled_grad = T::Acc::of(*y_grad);
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Like [`widen`], with the gradient multiplied by gamma; also adds to the gradients of gamma and beta. `row` is `x` and
    /// `y_grad`.
    fn widen_and_sum<T: FloatElement>(
        gamma: &[T::Acc],
        stats: (T::Acc, T::Acc),
        row: (&[T], &[T]),
        scaled_grad: &mut [T::Acc],
        normalized: &mut [T::Acc],
        parameter_grads: (&mut [T::Acc], &mut [T::Acc]),
    ) {
        let len = gamma.len();
        let (x, y_grad, scaled_grad, normalized) = (&row.0[..len], &row.1[..len], &mut scaled_grad[..len], &mut normalized[..len]);
        let (gamma_grad, beta_grad) = (&mut parameter_grads.0[..len], &mut parameter_grads.1[..len]);
        for i in 0..len {
            let grad = T::Acc::of(y_grad[i]);
            normalized[i] = (T::Acc::of(x[i]) - stats.0) * stats.1;
            scaled_grad[i] = grad * gamma[i];
            gamma_grad[i] += grad * normalized[i];
            beta_grad[i] += grad;
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Removes the components of `scaled_grad` along the constant row and along the normalized one, then scales.
    fn project<T: FloatElement>(scale: T::Acc, means: [T::Acc; 2], scaled_grad: &[T::Acc], normalized: &[T::Acc], x_grad: &mut [T]) {
        for (x_grad, (scaled_grad, normalized)) in x_grad.iter_mut().zip(scaled_grad.iter().zip(normalized)) {
            *x_grad = ((*scaled_grad - means[0] - *normalized * means[1]) * scale).store();
        }
    }
}
