//! Softmax of a contiguous row.

use super::SoftmaxKind;
use crate::float::{Accum, FloatElement};
use crate::lane::tree_reduce;
use crate::simd::prefetch_at;
use num_traits::{Float, One};

/// Rows are processed in whole blocks of this length, so that no loop over exponentials has a remainder. More vectors would not
/// fit into the registers of AVX2 together with the constants of the exponential.
const LANES: usize = 16;

/// The parameters of a softmax: it is the normalized exponential of `(sign * x - max) * inv_temperature`.
#[derive(Clone, Copy)]
pub(crate) struct Params<A> {
    /// True to compute the logarithm of the softmax.
    pub is_log: bool,
    /// 1, or -1 to negate x.
    pub sign: A,
    /// The reciprocal of the magnitude of the temperature.
    pub inv_temperature: A,
}

/// The length of the scratch buffer for a row.
pub(crate) fn scratch_len(axis: usize) -> usize {
    axis.next_multiple_of(LANES)
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Computes the softmax of `x` into `y`. `exps` is a scratch buffer of [`scratch_len`] elements. Prefetches `ahead` and `y`.
    pub(crate) fn forward<A: Accum>(params: Params<A>, x: &[A], ahead: &[A], exps: &mut [A], y: &mut [A]) {
        let Params { is_log, sign, inv_temperature } = params;
        if (sign, inv_temperature) == (A::one(), A::one()) {
            // Without the products this takes a sixth less time.
            let max = max(x, A::one());
            normalize(is_log, x, |x| *x - max, ahead, exps, y);
        } else {
            let max = max(x, sign);
            // The product with a sign is exact.
            normalize(is_log, x, |x| x.mul_add(sign, -max) * inv_temperature, ahead, exps, y);
        }
    }
}

/// [`forward`], where `shifted` gives the arguments of the exponentials.
#[inline(always)]
fn normalize<A: Accum>(is_log: bool, x: &[A], shifted: impl Fn(&A) -> A, ahead: &[A], exps: &mut [A], y: &mut [A]) {
    // Writing the exponentials to `y` and scaling them there takes a third longer (Zen 4, rows in the L2 cache).
    let sum = exp_sum(x, &shifted, |block, start| {
        exps[start..start + LANES].copy_from_slice(block);
        prefetch_at::<_, LANES>(ahead, start);
        prefetch_at::<_, LANES>(y, start);
    });
    if is_log {
        let log_sum = sum.ln();
        map_row(x, y, |x| shifted(&x) - log_sum);
    } else {
        let scale = sum.recip();
        map_row(exps, y, |exp| exp * scale);
    }
}

/// Sets the elements of `y` to `f` of the elements of `x`, block by block. The last block overlaps the one before it, so that only
/// rows shorter than a block need a loop over single elements.
#[inline(always)]
fn map_row<A: Accum>(x: &[A], y: &mut [A], f: impl Fn(A) -> A) {
    let block = |x: &[A; LANES], y: &mut [A; LANES]| *y = std::array::from_fn(|lane| f(x[lane]));
    let len = y.len();
    let whole = len & !(LANES - 1);
    // A loop over blocks would be vectorized across the blocks, with gathers.
    y[..whole].iter_mut().zip(&x[..whole]).for_each(|(y, x)| *y = f(*x));
    if len.is_multiple_of(LANES) {
        return;
    }
    match (x[..len].last_chunk::<LANES>(), y.last_chunk_mut::<LANES>()) {
        (Some(x), Some(y)) => block(x, y),
        _ => y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x)),
    }
}

/// The sum of the exponentials of `shifted(x)`, which is never positive. Calls `keep(exponentials, start)` for each block; the last
/// block of a long row overlaps the one before it, that of a short row is padded with zeros.
#[inline(always)]
fn exp_sum<T, A: Accum>(x: &[T], shifted: impl Fn(&T) -> A, mut keep: impl FnMut(&[A; LANES], usize)) -> A {
    let mut sums = [A::zero(); LANES];
    let mut exps = [A::zero(); LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for (i, block) in blocks.iter().enumerate() {
        for ((exp, sum), x) in exps.iter_mut().zip(&mut sums).zip(block) {
            *exp = shifted(x).exponential_nonpositive();
            *sum += *exp;
        }
        keep(&exps, i * LANES);
    }
    if rest.is_empty() {
        return tree_reduce(sums, |a, b| a + b);
    }
    if let Some(block) = x.last_chunk::<LANES>() {
        let num_old = LANES - rest.len();
        for (lane, ((exp, sum), x)) in exps.iter_mut().zip(&mut sums).zip(block).enumerate() {
            *exp = shifted(x).exponential_nonpositive();
            *sum += if lane < num_old { A::zero() } else { *exp };
        }
        keep(&exps, x.len() - LANES);
    } else {
        let mut last = [A::neg_infinity(); LANES];
        last.iter_mut().zip(rest).for_each(|(last, x)| *last = shifted(x));
        for ((exp, sum), x) in exps.iter_mut().zip(&mut sums).zip(last) {
            *exp = x.exponential_nonpositive();
            *sum += *exp;
        }
        keep(&exps, 0);
    }
    tree_reduce(sums, |a, b| a + b)
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// The gradient with respect to the row `x`, from the softmax `y` and its gradient. `inv_temperature` is negative for softmin.
    pub(super) fn backward<A: Accum>(kind: SoftmaxKind, inv_temperature: A, y: &[A], grad: &[A], x_grad: &mut [A]) {
        let is_log = kind == SoftmaxKind::LogSoftmax;
        let term = |y: A, grad: A| if is_log { grad } else { grad * y };
        let mut sums = [A::zero(); 2 * LANES];
        let blocks = y.chunks_exact(2 * LANES).zip(grad.chunks_exact(2 * LANES));
        let done = y.len() / (2 * LANES) * (2 * LANES);
        for (y, grad) in blocks {
            sums.iter_mut().zip(y.iter().zip(grad)).for_each(|(sum, (y, grad))| *sum += term(*y, *grad));
        }
        for (sum, (y, grad)) in sums.iter_mut().zip(y[done..].iter().zip(&grad[done..])) {
            *sum += term(*y, *grad);
        }
        let sum = tree_reduce(sums, |a, b| a + b);
        for (x_grad, (y, grad)) in x_grad.iter_mut().zip(y.iter().zip(grad)) {
            let value = if is_log { *grad - y.exponential() * sum } else { *y * (*grad - sum) };
            *x_grad = value * inv_temperature;
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The logarithm of the sum of the exponentials of a row.
    pub(crate) fn log_sum<T: FloatElement>(x: &[T]) -> T::Acc {
        let max = max(x, T::Acc::one());
        max + exp_sum(x, |x| T::Acc::of(*x) - max, |_, _| ()).ln()
    }
}

/// The maximum of `sign * x`; negative infinity if the row is empty.
#[inline(always)]
fn max<T: FloatElement>(x: &[T], sign: T::Acc) -> T::Acc {
    const WIDE: usize = 2 * LANES;
    // NaN is never larger.
    let larger = |a: T::Acc, b: T::Acc| if b > a { b } else { a };
    let mut lanes = [T::Acc::neg_infinity(); WIDE];
    let mut add = |x: &[T]| lanes.iter_mut().zip(x).for_each(|(lane, x)| *lane = larger(*lane, T::Acc::of(*x) * sign));
    let (blocks, rest) = x.as_chunks::<WIDE>();
    blocks.iter().for_each(|block| add(block));
    if !rest.is_empty() {
        match x.last_chunk::<WIDE>() {
            Some(block) => add(block),
            None => add(rest),
        }
    }
    tree_reduce(lanes, larger)
}
