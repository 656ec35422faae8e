//! One row of adjacent elements.

use super::SoftmaxKind;
use crate::float::{Accum, Real};
use num_traits::{Float, One, Zero};

/// Elements that are computed side by side.
const LANES: usize = 16;
/// Elements of a row are computed in whole blocks of as many, so that no loop over exponentials has a rest.
const BLOCK: usize = 4 * LANES;

/// The length of the working memory for a row.
pub(crate) fn scratch_len(axis: usize) -> usize {
    axis.next_multiple_of(BLOCK)
}

crate::simd::per_isa! {
    /// Computes a row of `x` into `y`. `exps` is working memory of `scratch_len` elements.
    pub(crate) fn forward<T: Real, O: Real>(kind: SoftmaxKind, slope: T::Acc, x: &[T], exps: &mut [T::Acc], y: &mut [O]) {
        let sign = if kind == SoftmaxKind::Softmin { -T::Acc::one() } else { T::Acc::one() };
        let max = max(x, sign);
        let values = &mut exps[..x.len().next_multiple_of(BLOCK)];
        values.iter_mut().zip(x).for_each(|(value, x)| *value = (T::Acc::of(*x) * sign - max) * slope);
        values[x.len()..].fill(T::Acc::neg_infinity());
        if kind == SoftmaxKind::LogSoftmax {
            let log = sum(values, T::Acc::exponential).ln();
            return y.iter_mut().zip(values).for_each(|(y, shifted)| *y = (*shifted - log).store());
        }
        // This length tells the compiler that there is no rest.
        let whole = values.len() & !(BLOCK - 1);
        values[..whole].iter_mut().for_each(|value| *value = value.exponential());
        let scale = sum(values, |exp| exp).recip();
        y.iter_mut().zip(values).for_each(|(y, exp)| *y = (*exp * scale).store());
    }
}

/// The sum of `f` of the values, whole blocks of them.
#[inline(always)]
fn sum<A: Accum>(values: &[A], f: impl Fn(A) -> A) -> A {
    let mut sums = [A::zero(); BLOCK];
    for block in values.chunks_exact(BLOCK) {
        sums.iter_mut().zip(block).for_each(|(sum, value)| *sum += f(*value));
    }
    tree(sums, |a, b| a + b)
}

crate::simd::per_isa! {
    /// The gradient with respect to `x` of a row, from the result `y` and its gradient. `slope` is negative for softmin.
    pub(super) fn backward<T: Real, O: Real>(kind: SoftmaxKind, slope: T::Acc, y: &[O], grad: &[O], x_grad: &mut [T]) {
        let log = kind == SoftmaxKind::LogSoftmax;
        let term = |y: O, grad: O| {
            let grad = T::Acc::of(grad);
            if log { grad } else { grad * T::Acc::of(y) }
        };
        let mut sums = [T::Acc::zero(); 2 * LANES];
        let blocks = y.chunks_exact(2 * LANES).zip(grad.chunks_exact(2 * LANES));
        let done = y.len() / (2 * LANES) * (2 * LANES);
        for (y, grad) in blocks {
            sums.iter_mut().zip(y.iter().zip(grad)).for_each(|(sum, (y, grad))| *sum += term(*y, *grad));
        }
        for (sum, (y, grad)) in sums.iter_mut().zip(y[done..].iter().zip(&grad[done..])) {
            *sum += term(*y, *grad);
        }
        let sum = tree(sums, |a, b| a + b);
        for (x_grad, (y, grad)) in x_grad.iter_mut().zip(y.iter().zip(grad)) {
            let (y, grad) = (T::Acc::of(*y), T::Acc::of(*grad));
            let value = if log { grad - y.exponential() * sum } else { y * (grad - sum) };
            *x_grad = (value * slope).store();
        }
    }
}

crate::simd::per_isa! {
    /// The logarithm of the sum of the exponentials of a row.
    pub(crate) fn log_sum<T: Real>(x: &[T]) -> T::Acc {
        let max = max(x, T::Acc::one());
        let mut sums = [T::Acc::zero(); LANES];
        let blocks = x.chunks_exact(LANES);
        for (sum, x) in sums.iter_mut().zip(blocks.remainder()) {
            *sum += (T::Acc::of(*x) - max).exponential();
        }
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                *sum += (T::Acc::of(*x) - max).exponential();
            }
        }
        max + tree(sums, |a, b| a + b).ln()
    }
}

/// The largest of `sign * x`; negative infinity if there is none.
#[inline(always)]
fn max<T: Real>(x: &[T], sign: T::Acc) -> T::Acc {
    let larger = |a: T::Acc, b: T::Acc| if b > a { b } else { a };
    let mut lanes = [T::Acc::neg_infinity(); 4 * LANES];
    let blocks = x.chunks_exact(4 * LANES);
    for (lane, x) in lanes.iter_mut().zip(blocks.remainder()) {
        *lane = larger(*lane, T::Acc::of(*x) * sign);
    }
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane = larger(*lane, T::Acc::of(*x) * sign));
    }
    tree(lanes, larger)
}

/// Joins neighbours until one value is left; `N` is a power of two.
#[inline(always)]
fn tree<A: Copy, const N: usize>(mut lanes: [A; N], join: impl Fn(A, A) -> A) -> A {
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}
