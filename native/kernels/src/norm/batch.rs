//! Batch normalisation (Ioffe and Szegedy, 2015; MXNet's `BatchNorm`): statistics per index of the axis.

use super::moments::{Moments, sums};
use super::{CHUNK, COLUMNS, NormShape};
use crate::float::{Accum, FloatElement};
use crate::par::{MatMut, parallel_blocks};
use num_traits::Zero;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Scale, shift and epsilon.
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

/// Splits `out` into blocks of whole channels that stay in the cache for a second pass; calls `f(first, count, block)`.
fn blocks<T: FloatElement>(shape: NormShape, out: &mut [T], f: impl Fn(usize, usize, MatMut<'_, T>) + Sync) {
    let NormShape { outer, axis, inner } = shape;
    if shape.is_empty() {
        return;
    }
    let channels = if inner == 1 { COLUMNS } else { (CHUNK / (outer * inner)).max(1) };
    parallel_blocks(MatMut::row_major(out, outer, axis * inner), outer, channels * inner, |_, column, block| {
        f(column / inner, block.cols() / inner, block);
    });
}

/// The elements of one outer index and a range of channels.
fn part<T>(shape: NormShape, x: &[T], outer: usize, channel: usize, count: usize) -> &[T] {
    &x[(outer * shape.axis + channel) * shape.inner..][..count * shape.inner]
}

/// Normalises `x` with its own statistics into `y`, and stores these: `mean` and the biased `variance`.
///
/// # Panics
/// When the lengths do not match the shape.
pub fn batch_norm_training<T: FloatElement>(
    shape: NormShape,
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
    blocks(shape, y, |first, count, mut y| {
        let mut moments = [Moments::default(); COLUMNS];
        let mut at = 0;
        while at < count {
            let some = COLUMNS.min(count - at);
            block_moments(shape, x, first + at, &mut moments[..some]);
            let mut stats = lock(&stats);
            for (i, moments) in moments[..some].iter().enumerate() {
                stats.0[first + at + i] = T::Acc::of(moments.mean);
                stats.1[first + at + i] = T::Acc::of(moments.variance());
            }
            drop(stats);
            let channels: [Channel<T::Acc>; COLUMNS] = std::array::from_fn(|i| {
                let (channel, moments) = (first + at + i.min(some - 1), moments[i.min(some - 1)]);
                Channel::new(params, channel, T::Acc::of(moments.mean), T::Acc::of(moments.variance()))
            });
            let block = y.block(0, at * shape.inner, shape.outer, some * shape.inner);
            apply(shape, &channels[..some], x, first + at, block);
            at += some;
        }
    });
}

/// Normalises `x` with given statistics (MXNet's moving mean and variance) into `y`.
///
/// # Panics
/// When the lengths do not match the shape.
pub fn batch_norm_inference<T: FloatElement>(
    shape: NormShape,
    params: &BatchNormParams<'_, T::Acc>,
    mean: &[T::Acc],
    variance: &[T::Acc],
    x: &[T],
    y: &mut [T],
) {
    shape.check(&[x.len(), y.len()]);
    params.check(shape.axis, &[mean.len(), variance.len()]);
    blocks(shape, y, |first, count, mut y| {
        for at in (0..count).step_by(COLUMNS) {
            let some = COLUMNS.min(count - at);
            let channels: [Channel<T::Acc>; COLUMNS] = std::array::from_fn(|i| {
                let channel = first + at + i.min(some - 1);
                Channel::new(params, channel, mean[channel], variance[channel])
            });
            let block = y.block(0, at * shape.inner, shape.outer, some * shape.inner);
            apply(shape, &channels[..some], x, first + at, block);
        }
    });
}

/// `y = (x - mean) scale + shift`.
#[derive(Clone, Copy)]
struct Channel<A> {
    mean: A,
    scale: A,
    shift: A,
}

impl<A: Accum> Channel<A> {
    fn new(params: &BatchNormParams<'_, A>, channel: usize, mean: A, variance: A) -> Self {
        let scale = params.gamma(channel) * inverse_deviation(variance, params.eps);
        Channel { mean, scale, shift: params.beta[channel] }
    }
}

fn block_moments<T: FloatElement>(shape: NormShape, x: &[T], first: usize, moments: &mut [Moments]) {
    if shape.inner == 1 {
        return column_moments(shape, x, first, moments);
    }
    for (i, moments) in moments.iter_mut().enumerate() {
        let slabs = (0..shape.outer).map(|n| Moments::of(part(shape, x, n, first + i, 1)));
        *moments = slabs.fold(Moments::default(), Moments::join);
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// The moments of neighbouring columns, from groups of rows.
    fn column_moments<T: FloatElement>(shape: NormShape, x: &[T], first: usize, moments: &mut [Moments]) {
        const ROWS: usize = 64;
        moments.fill(Moments::default());
        for start in (0..shape.outer).step_by(ROWS) {
            let rows = start..(start + ROWS).min(shape.outer);
            let count = T::Acc::count(rows.len());
            let (mut means, mut squares) = ([T::Acc::zero(); COLUMNS], [T::Acc::zero(); COLUMNS]);
            for n in rows.clone() {
                let x = part(shape, x, n, first, moments.len());
                means.iter_mut().zip(x).for_each(|(sum, x)| *sum += T::Acc::of(*x));
            }
            means.iter_mut().for_each(|sum| *sum /= count);
            for n in rows.clone() {
                for ((squares, x), mean) in squares.iter_mut().zip(part(shape, x, n, first, moments.len())).zip(&means) {
                    let delta = T::Acc::of(*x) - *mean;
                    *squares += delta * delta;
                }
            }
            for (moments, (mean, squares)) in moments.iter_mut().zip(means.iter().zip(&squares)) {
                *moments = moments.join(Moments::new(rows.len(), mean.wide(), squares.wide()));
            }
        }
    }
}

fn apply<T: FloatElement>(shape: NormShape, channels: &[Channel<T::Acc>], x: &[T], first: usize, mut y: MatMut<'_, T>) {
    for n in 0..shape.outer {
        let x = part(shape, x, n, first, channels.len());
        if shape.inner == 1 {
            apply_columns(channels, x, y.row_mut(n));
        } else {
            let slabs = x.chunks_exact(shape.inner).zip(y.row_mut(n).chunks_exact_mut(shape.inner));
            slabs.zip(channels).for_each(|((x, y), channel)| apply_slab(*channel, x, y));
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    fn apply_columns<T: FloatElement>(channels: &[Channel<T::Acc>], x: &[T], y: &mut [T]) {
        for ((y, x), channel) in y.iter_mut().zip(x).zip(channels) {
            *y = ((T::Acc::of(*x) - channel.mean) * channel.scale + channel.shift).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    fn apply_slab<T: FloatElement>(channel: Channel<T::Acc>, x: &[T], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = ((T::Acc::of(*x) - channel.mean) * channel.scale + channel.shift).store();
        }
    }
}

/// The outputs of [`batch_norm_backward`].
#[derive(Debug)]
pub struct BatchNormGrads<'a, T: FloatElement> {
    /// The gradient of `x`.
    pub x: &'a mut [T],
    /// The gradient of gamma, one value per index of the axis; computed even if gamma is absent.
    pub gamma: &'a mut [T::Acc],
    /// The gradient of beta.
    pub beta: &'a mut [T::Acc],
}

/// The gradients of batch normalisation from the gradient of its result, `y_grad`.
///
/// With `own_statistics`, `mean` and `variance` were computed from `x` and depend on it (training); otherwise they are constants
/// (MXNet's `use_global_stats`).
///
/// # Panics
/// When the lengths do not match the shape.
pub fn batch_norm_backward<T: FloatElement>(
    shape: NormShape,
    params: &BatchNormParams<'_, T::Acc>,
    (mean, variance, own_statistics): (&[T::Acc], &[T::Acc], bool),
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
    let count = (shape.outer * shape.inner) as f64;
    let param_grads = Mutex::new((grads.gamma, grads.beta));
    blocks(shape, grads.x, |first, channels, mut x_grad| {
        for at in (0..channels).step_by(COLUMNS) {
            let (some, first) = (COLUMNS.min(channels - at), first + at);
            let mut totals = [[0.0; 2]; COLUMNS];
            block_sums(shape, x, y_grad, first, mean, &mut totals[..some]);
            let mut slopes =
                [Slope { mean: T::Acc::zero(), grad: T::Acc::zero(), x: T::Acc::zero(), constant: T::Acc::zero() };
                    COLUMNS];
            let mut param_grads = lock(&param_grads);
            for (i, (slope, [sum, product])) in slopes.iter_mut().zip(&totals[..some]).enumerate() {
                let inverse = inverse_deviation(variance[first + i], params.eps).wide();
                param_grads.0[first + i] = T::Acc::of(product * inverse);
                param_grads.1[first + i] = T::Acc::of(*sum);
                let scale = params.gamma(first + i).wide() * inverse;
                // d/dx of (x - mean) / deviation, where mean and deviation depend on x.
                let (constant, x) = if own_statistics {
                    (-scale * sum / count, -scale * product * inverse * inverse / count)
                } else {
                    (0.0, 0.0)
                };
                *slope = Slope {
                    // Without a dependence on the mean, an infinite one must not turn the gradient into NaN.
                    mean: if own_statistics { mean[first + i] } else { T::Acc::zero() },
                    grad: T::Acc::of(scale),
                    x: T::Acc::of(x),
                    constant: T::Acc::of(constant),
                };
            }
            drop(param_grads);
            let block = x_grad.block(0, at * shape.inner, shape.outer, some * shape.inner);
            apply_slopes(shape, &slopes[..some], x, y_grad, first, block);
        }
    });
}

/// `x_grad = y_grad grad + (x - mean) x + constant`.
#[derive(Clone, Copy)]
struct Slope<A> {
    mean: A,
    grad: A,
    x: A,
    constant: A,
}

impl<A: Accum> Slope<A> {
    #[inline(always)]
    fn at(self, x: A, y_grad: A) -> A {
        y_grad * self.grad + ((x - self.mean) * self.x + self.constant)
    }
}

/// For each channel the sums of `y_grad` and of `y_grad (x - mean)`.
fn block_sums<T: FloatElement>(
    shape: NormShape,
    x: &[T],
    y_grad: &[T],
    first: usize,
    mean: &[T::Acc],
    totals: &mut [[f64; 2]],
) {
    let add = |total: &mut [f64; 2], some: [f64; 2]| *total = [total[0] + some[0], total[1] + some[1]];
    if shape.inner == 1 {
        return column_sums(shape, x, y_grad, first, &mean[first..], totals);
    }
    for (i, total) in totals.iter_mut().enumerate() {
        for n in 0..shape.outer {
            let (grad, x) = (part(shape, y_grad, n, first + i, 1), part(shape, x, n, first + i, 1));
            add(total, sums(grad, x, mean[first + i]));
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    fn column_sums<T: FloatElement>(
        shape: NormShape,
        x: &[T],
        y_grad: &[T],
        first: usize,
        mean: &[T::Acc],
        totals: &mut [[f64; 2]]
    ) {
        for n in 0..shape.outer {
            let from = part(shape, y_grad, n, first, totals.len()).iter().zip(part(shape, x, n, first, totals.len()));
            for ((total, (grad, x)), mean) in totals.iter_mut().zip(from).zip(mean) {
                let grad = T::Acc::of(*grad);
                total[0] += grad.wide();
                total[1] += (grad * (T::Acc::of(*x) - *mean)).wide();
            }
        }
    }
}

fn apply_slopes<T: FloatElement>(
    shape: NormShape,
    slopes: &[Slope<T::Acc>],
    x: &[T],
    y_grad: &[T],
    first: usize,
    mut x_grad: MatMut<'_, T>,
) {
    for n in 0..shape.outer {
        let (x, y_grad) = (part(shape, x, n, first, slopes.len()), part(shape, y_grad, n, first, slopes.len()));
        let inner = shape.inner;
        if inner == 1 {
            slope_columns(slopes, x, y_grad, x_grad.row_mut(n));
        } else {
            let from = x.chunks_exact(inner).zip(y_grad.chunks_exact(inner));
            for ((to, (x, y_grad)), slope) in x_grad.row_mut(n).chunks_exact_mut(inner).zip(from).zip(slopes) {
                slope_slab(*slope, x, y_grad, to);
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    fn slope_columns<T: FloatElement>(slopes: &[Slope<T::Acc>], x: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for ((to, (x, y_grad)), slope) in x_grad.iter_mut().zip(x.iter().zip(y_grad)).zip(slopes) {
            *to = slope.at(T::Acc::of(*x), T::Acc::of(*y_grad)).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    fn slope_slab<T: FloatElement>(slope: Slope<T::Acc>, x: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for (to, (x, y_grad)) in x_grad.iter_mut().zip(x.iter().zip(y_grad)) {
            *to = slope.at(T::Acc::of(*x), T::Acc::of(*y_grad)).store();
        }
    }
}
