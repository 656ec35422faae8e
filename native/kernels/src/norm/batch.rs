//! Batch normalization (Ioffe and Szegedy, 2015; MXNet's `BatchNorm`): statistics per index of the axis.

use super::moments::{Moments, sums};
use super::{COLUMNS, GRAIN};
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::{MatMut, parallel_blocks};
use num_traits::Zero;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The parameters of a batch normalization.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormParams<'a, A> {
    /// Scale per index of the axis; 1 if absent (MXNet's `fix_gamma`).
    pub gamma: Option<&'a [A]>,
    /// Shift per index of the axis.
    pub beta: &'a [A],
    /// Added to the variance.
    pub eps: f64,
}

impl<A: Accum> BatchNormParams<'_, A> {
    fn gamma(&self, channel: usize) -> A {
        self.gamma.map_or(A::one(), |gamma| gamma[channel])
    }

    fn check(&self, axis: usize, others: &[usize]) {
        let lens = [self.beta.len(), self.gamma.map_or(axis, <[A]>::len)];
        assert!(
            lens.iter().chain(others).all(|&len| len == axis),
            "parameters for {axis} channels: {lens:?} {others:?}"
        );
    }
}

/// 1 / sqrt(variance + eps).
fn inverse_deviation<A: Accum>(variance: A, eps: f64) -> A {
    A::of((variance.wide() + eps).sqrt().recip())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f(first, count, block)` in parallel for blocks of whole channels, which stay in the cache for a second pass.
fn for_each_block<T: FloatElement>(shape: AxisShape, out: &mut [T], f: impl Fn(usize, usize, MatMut<'_, T>) + Sync) {
    let AxisShape { outer, axis, inner } = shape;
    if shape.is_empty() {
        return;
    }
    let channels = if inner == 1 { COLUMNS } else { (GRAIN / (outer * inner)).max(1) };
    parallel_blocks(MatMut::row_major(out, outer, axis * inner), outer, channels * inner, |_, column, block| {
        f(column / inner, block.cols() / inner, block);
    });
}

/// The elements of a range of channels at one outer index.
fn channel_range<T>(shape: AxisShape, x: &[T], outer: usize, channel: usize, count: usize) -> &[T] {
    &x[(outer * shape.axis + channel) * shape.inner..][..count * shape.inner]
}

/// Normalizes `x` with its own mean and biased variance into `y`, and writes these to `mean` and `variance`.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn batch_norm_training<T: FloatElement>(
    shape: AxisShape,
    params: &BatchNormParams<'_, T::Acc>,
    x: &[T],
    y: &mut [T],
    mean: &mut [T::Acc],
    variance: &mut [T::Acc],
) {
    shape.check(&[x.len(), y.len()]);
    params.check(shape.axis, &[mean.len(), variance.len()]);
    if shape.is_empty() {
        mean.fill(T::Acc::zero());
        variance.fill(T::Acc::zero());
        return;
    }
    let stats = Mutex::new((mean, variance));
    for_each_block(shape, y, |first, count, mut y| {
        let mut moments = [Moments::default(); COLUMNS];
        for start in (0..count).step_by(COLUMNS) {
            let (len, first) = (COLUMNS.min(count - start), first + start);
            block_moments(shape, x, first, &mut moments[..len]);
            let mut stats = lock(&stats);
            for (i, moments) in moments[..len].iter().enumerate() {
                stats.0[first + i] = T::Acc::of(moments.mean);
                stats.1[first + i] = T::Acc::of(moments.variance());
            }
            drop(stats);
            let channels: [ChannelAffine<T::Acc>; COLUMNS] = std::array::from_fn(|i| {
                let (channel, moments) = (first + i.min(len - 1), moments[i.min(len - 1)]);
                ChannelAffine::new(params, channel, T::Acc::of(moments.mean), T::Acc::of(moments.variance()))
            });
            let block = y.block(0, start * shape.inner, shape.outer, len * shape.inner);
            apply(shape, &channels[..len], x, first, block);
        }
    });
}

/// Normalizes `x` with given statistics (MXNet's moving mean and variance) into `y`.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn batch_norm_inference<T: FloatElement>(
    shape: AxisShape,
    params: &BatchNormParams<'_, T::Acc>,
    mean: &[T::Acc],
    variance: &[T::Acc],
    x: &[T],
    y: &mut [T],
) {
    shape.check(&[x.len(), y.len()]);
    params.check(shape.axis, &[mean.len(), variance.len()]);
    for_each_block(shape, y, |first, count, mut y| {
        for start in (0..count).step_by(COLUMNS) {
            let (len, first) = (COLUMNS.min(count - start), first + start);
            let channels: [ChannelAffine<T::Acc>; COLUMNS] = std::array::from_fn(|i| {
                let channel = first + i.min(len - 1);
                ChannelAffine::new(params, channel, mean[channel], variance[channel])
            });
            let block = y.block(0, start * shape.inner, shape.outer, len * shape.inner);
            apply(shape, &channels[..len], x, first, block);
        }
    });
}

/// The normalization of a channel: `y = (x - mean) scale + shift`.
#[derive(Clone, Copy)]
struct ChannelAffine<A> {
    mean: A,
    scale: A,
    shift: A,
}

impl<A: Accum> ChannelAffine<A> {
    fn new(params: &BatchNormParams<'_, A>, channel: usize, mean: A, variance: A) -> Self {
        let scale = params.gamma(channel) * inverse_deviation(variance, params.eps);
        ChannelAffine { mean, scale, shift: params.beta[channel] }
    }
}

fn block_moments<T: FloatElement>(shape: AxisShape, x: &[T], first: usize, moments: &mut [Moments]) {
    if shape.inner == 1 {
        return column_moments(shape, x, first, moments);
    }
    for (i, moments) in moments.iter_mut().enumerate() {
        let slabs = (0..shape.outer).map(|n| Moments::of(channel_range(shape, x, n, first + i, 1)));
        *moments = slabs.fold(Moments::default(), Moments::merge);
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The moments of neighboring columns, merged from blocks of rows.
    fn column_moments<T: FloatElement>(shape: AxisShape, x: &[T], first: usize, moments: &mut [Moments]) {
        const ROWS: usize = 64;
        moments.fill(Moments::default());
        for start in (0..shape.outer).step_by(ROWS) {
            let rows = start..(start + ROWS).min(shape.outer);
            let count = T::Acc::count(rows.len());
            let (mut means, mut squares) = ([T::Acc::zero(); COLUMNS], [T::Acc::zero(); COLUMNS]);
            for n in rows.clone() {
                let x = channel_range(shape, x, n, first, moments.len());
                means.iter_mut().zip(x).for_each(|(sum, x)| *sum += T::Acc::of(*x));
            }
            means.iter_mut().for_each(|sum| *sum /= count);
            for n in rows.clone() {
                for ((squares, x), mean) in squares.iter_mut().zip(channel_range(shape, x, n, first, moments.len())).zip(&means) {
                    let delta = T::Acc::of(*x) - *mean;
                    *squares += delta * delta;
                }
            }
            for (moments, (mean, squares)) in moments.iter_mut().zip(means.iter().zip(&squares)) {
                *moments = moments.merge(Moments::new(rows.len(), mean.wide(), squares.wide()));
            }
        }
    }
}

fn apply<T: FloatElement>(
    shape: AxisShape,
    channels: &[ChannelAffine<T::Acc>],
    x: &[T],
    first: usize,
    mut y: MatMut<'_, T>,
) {
    for n in 0..shape.outer {
        let x = channel_range(shape, x, n, first, channels.len());
        if shape.inner == 1 {
            apply_columns(channels, x, y.row_mut(n));
        } else {
            let slabs = x.chunks_exact(shape.inner).zip(y.row_mut(n).chunks_exact_mut(shape.inner));
            slabs.zip(channels).for_each(|((x, y), channel)| apply_slab(*channel, x, y));
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn apply_columns<T: FloatElement>(channels: &[ChannelAffine<T::Acc>], x: &[T], y: &mut [T]) {
        for ((y, x), channel) in y.iter_mut().zip(x).zip(channels) {
            *y = ((T::Acc::of(*x) - channel.mean) * channel.scale + channel.shift).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn apply_slab<T: FloatElement>(channel: ChannelAffine<T::Acc>, x: &[T], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = ((T::Acc::of(*x) - channel.mean) * channel.scale + channel.shift).store();
        }
    }
}

/// The gradients that [`batch_norm_backward`] computes.
#[derive(Debug)]
pub struct BatchNormGrads<'a, T: FloatElement> {
    /// The gradient of `x`.
    pub x: &'a mut [T],
    /// The gradient of gamma, one value per index of the axis; computed even if gamma is absent.
    pub gamma: &'a mut [T::Acc],
    /// The gradient of beta.
    pub beta: &'a mut [T::Acc],
}

/// The gradients of batch normalization from the gradient of its result, `y_grad`.
///
/// If `is_training`, `mean` and `variance` were computed from `x` and depend on it; otherwise they are constants (MXNet's
/// `use_global_stats`).
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn batch_norm_backward<T: FloatElement>(
    shape: AxisShape,
    params: &BatchNormParams<'_, T::Acc>,
    (mean, variance, is_training): (&[T::Acc], &[T::Acc], bool),
    x: &[T],
    y_grad: &[T],
    grads: BatchNormGrads<'_, T>,
) {
    shape.check(&[x.len(), y_grad.len(), grads.x.len()]);
    params.check(shape.axis, &[mean.len(), variance.len(), grads.gamma.len(), grads.beta.len()]);
    if shape.is_empty() {
        grads.gamma.fill(T::Acc::zero());
        grads.beta.fill(T::Acc::zero());
        return;
    }
    let count = is_training.then_some((shape.outer * shape.inner) as f64);
    let param_grads = Mutex::new((grads.gamma, grads.beta));
    for_each_block(shape, grads.x, |first, channels, mut x_grad| {
        for start in (0..channels).step_by(COLUMNS) {
            let (len, first) = (COLUMNS.min(channels - start), first + start);
            let mut totals = [[0.0; 2]; COLUMNS];
            block_sums(shape, x, y_grad, first, mean, &mut totals[..len]);
            let mut grad_scales = [GradScales::zero(); COLUMNS];
            let mut param_grads = lock(&param_grads);
            for (i, (scales, [sum, product])) in grad_scales.iter_mut().zip(&totals[..len]).enumerate() {
                let channel = first + i;
                let inverse = inverse_deviation(variance[channel], params.eps).wide();
                param_grads.0[channel] = T::Acc::of(product * inverse);
                param_grads.1[channel] = T::Acc::of(*sum);
                let scale = params.gamma(channel).wide() * inverse;
                *scales = GradScales::new(mean[channel], inverse, scale, [*sum, *product], count);
            }
            drop(param_grads);
            let block = x_grad.block(0, start * shape.inner, shape.outer, len * shape.inner);
            apply_grad_scales(shape, &grad_scales[..len], x, y_grad, first, block);
        }
    });
}

/// The gradient of a channel: `x_grad = y_grad * self.grad + (x - self.mean) * self.x + self.constant`.
#[derive(Clone, Copy)]
struct GradScales<A> {
    mean: A,
    grad: A,
    x: A,
    constant: A,
}

impl<A: Accum> GradScales<A> {
    fn zero() -> Self {
        GradScales { mean: A::zero(), grad: A::zero(), x: A::zero(), constant: A::zero() }
    }

    /// The derivative of `(x - mean) * scale`. `sum` and `product` are those of [`block_sums`]; `count` is the number of elements that the
    /// statistics were computed from, or `None` if they are constants.
    fn new(mean: A, inverse_deviation: f64, scale: f64, [sum, product]: [f64; 2], count: Option<f64>) -> Self {
        let grad = A::of(scale);
        let Some(count) = count else {
            // The gradient does not depend on constant statistics, so an infinite mean must not turn it into NaN.
            return GradScales { grad, ..GradScales::zero() };
        };
        GradScales {
            mean,
            grad,
            x: A::of(-scale * product * inverse_deviation * inverse_deviation / count),
            constant: A::of(-scale * sum / count),
        }
    }

    #[inline(always)]
    fn apply(self, x: A, y_grad: A) -> A {
        // With constant statistics, the gradient does not depend on x, not even if x is NaN.
        let of_statistics = if self.x == A::zero() { A::zero() } else { (x - self.mean) * self.x };
        y_grad * self.grad + (of_statistics + self.constant)
    }
}

/// For each channel starting at `first`, the sums of `y_grad` and of `y_grad (x - mean)`.
fn block_sums<T: FloatElement>(
    shape: AxisShape,
    x: &[T],
    y_grad: &[T],
    first: usize,
    mean: &[T::Acc],
    totals: &mut [[f64; 2]],
) {
    let add = |total: &mut [f64; 2], terms: [f64; 2]| *total = [total[0] + terms[0], total[1] + terms[1]];
    if shape.inner == 1 {
        return column_sums(shape, x, y_grad, first, &mean[first..], totals);
    }
    for (i, total) in totals.iter_mut().enumerate() {
        for n in 0..shape.outer {
            let (grad, x) = (channel_range(shape, y_grad, n, first + i, 1), channel_range(shape, x, n, first + i, 1));
            add(total, sums(grad, x, mean[first + i]));
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn column_sums<T: FloatElement>(
        shape: AxisShape,
        x: &[T],
        y_grad: &[T],
        first: usize,
        mean: &[T::Acc],
        totals: &mut [[f64; 2]]
    ) {
        for n in 0..shape.outer {
            let from = channel_range(shape, y_grad, n, first, totals.len()).iter().zip(channel_range(shape, x, n, first, totals.len()));
            for ((total, (grad, x)), mean) in totals.iter_mut().zip(from).zip(mean) {
                let grad = T::Acc::of(*grad);
                total[0] += grad.wide();
                total[1] += (grad * (T::Acc::of(*x) - *mean)).wide();
            }
        }
    }
}

fn apply_grad_scales<T: FloatElement>(
    shape: AxisShape,
    grad_scales: &[GradScales<T::Acc>],
    x: &[T],
    y_grad: &[T],
    first: usize,
    mut x_grad: MatMut<'_, T>,
) {
    for n in 0..shape.outer {
        let (x, y_grad) = (
            channel_range(shape, x, n, first, grad_scales.len()),
            channel_range(shape, y_grad, n, first, grad_scales.len()),
        );
        let inner = shape.inner;
        if inner == 1 {
            grad_columns(grad_scales, x, y_grad, x_grad.row_mut(n));
        } else {
            let from = x.chunks_exact(inner).zip(y_grad.chunks_exact(inner));
            for ((to, (x, y_grad)), scales) in x_grad.row_mut(n).chunks_exact_mut(inner).zip(from).zip(grad_scales) {
                grad_slab(*scales, x, y_grad, to);
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn grad_columns<T: FloatElement>(grad_scales: &[GradScales<T::Acc>], x: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for ((to, (x, y_grad)), scales) in x_grad.iter_mut().zip(x.iter().zip(y_grad)).zip(grad_scales) {
            *to = scales.apply(T::Acc::of(*x), T::Acc::of(*y_grad)).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn grad_slab<T: FloatElement>(scales: GradScales<T::Acc>, x: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for (to, (x, y_grad)) in x_grad.iter_mut().zip(x.iter().zip(y_grad)) {
            *to = scales.apply(T::Acc::of(*x), T::Acc::of(*y_grad)).store();
        }
    }
}
