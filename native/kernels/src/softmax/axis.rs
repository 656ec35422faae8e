//! Softmax along any axis: contiguous rows one by one, other axes in blocks of adjacent columns.

use super::{Lengths, SoftmaxKind, SoftmaxShape, row};
use crate::float::{Accum, FloatElement};
use crate::par::{MatMut, parallel_blocks, parallel_rows, with_scratch};
use num_traits::{Float, One, Zero};

/// Elements in a thread's chunk.
const CHUNK: usize = 8 * 1024;
/// Columns computed together.
const COLUMNS: usize = 64;

/// Computes `kind` of `x` along the axis into `y`; both have the elements of `shape`. The computation has the precision of `x`
/// (single for 16-bit types).
///
/// # Panics
/// When a slice does not have the length that `shape` implies.
pub fn softmax_forward<T: FloatElement, O: FloatElement>(
    shape: SoftmaxShape,
    kind: SoftmaxKind,
    temperature: f64,
    lengths: Option<Lengths<'_>>,
    x: &[T],
    y: &mut [O],
) {
    check(shape, lengths, [x.len(), y.len()]);
    let SoftmaxShape { outer, axis, inner } = shape;
    let log = kind == SoftmaxKind::LogSoftmax;
    // The sign is applied to x, so that the arguments of the exponentials are never positive.
    let sign = if (kind == SoftmaxKind::Softmin) == (temperature < 0.0) { T::Acc::one() } else { -T::Acc::one() };
    let slope = T::Acc::of(1.0 / temperature.abs());
    if shape.is_empty() {
        return;
    }
    if inner == 1 {
        return parallel_rows(y, axis, CHUNK / axis, |r, y| {
            let len = lengths.map_or(axis, |lengths| lengths.get(r).min(axis));
            y[len..].fill(O::default());
            with_scratch(row::scratch_len(axis), |exps| {
                let (x, ahead) = x[r * axis..].split_at(axis);
                let ahead = &ahead[..axis.min(ahead.len())];
                row::forward(log, sign, slope, &x[..len], ahead, exps, &mut y[..len]);
            });
        });
    }
    parallel_blocks(MatMut::row_major(y, outer * axis, inner), axis, COLUMNS, |row, column, mut y| {
        let lens = lens(shape, lengths, row, column, y.cols());
        let x = &x[row * inner + column..];
        columns_forward(log, sign, slope, x, inner, &lens[..y.cols()], &mut y);
    });
}

/// The gradient of [`softmax_forward`] with respect to `x`, from its result `y` and the gradient of the result.
///
/// # Panics
/// When a slice does not have the length that `shape` implies.
pub fn softmax_backward<T: FloatElement, O: FloatElement>(
    shape: SoftmaxShape,
    kind: SoftmaxKind,
    temperature: f64,
    lengths: Option<Lengths<'_>>,
    y: &[O],
    y_grad: &[O],
    x_grad: &mut [T],
) {
    check(shape, lengths, [y.len(), x_grad.len()]);
    shape.check(y_grad.len());
    let SoftmaxShape { outer, axis, inner } = shape;
    let slope = T::Acc::of(if kind == SoftmaxKind::Softmin { -1.0 / temperature } else { 1.0 / temperature });
    if shape.is_empty() {
        return;
    }
    if inner == 1 {
        return parallel_rows(x_grad, axis, CHUNK / axis, |r, x_grad| {
            let len = lengths.map_or(axis, |lengths| lengths.get(r).min(axis));
            x_grad[len..].fill(T::default());
            let part = r * axis..r * axis + len;
            row::backward(kind, slope, &y[part.clone()], &y_grad[part], &mut x_grad[..len]);
        });
    }
    parallel_blocks(MatMut::row_major(x_grad, outer * axis, inner), axis, COLUMNS, |row, column, mut x_grad| {
        let lens = lens(shape, lengths, row, column, x_grad.cols());
        let start = row * inner + column;
        columns_backward(kind, slope, &y[start..], &y_grad[start..], inner, &lens[..x_grad.cols()], &mut x_grad);
    });
}

fn check(shape: SoftmaxShape, lengths: Option<Lengths<'_>>, slices: [usize; 2]) {
    slices.into_iter().for_each(|len| shape.check(len));
    if let Some(lengths) = lengths {
        assert_eq!(lengths.len(), shape.outer * shape.inner, "lengths for the rows of {shape:?}");
    }
}

/// The lengths of the columns of a block.
fn lens(
    shape: SoftmaxShape,
    lengths: Option<Lengths<'_>>,
    row: usize,
    column: usize,
    columns: usize,
) -> [usize; COLUMNS] {
    let mut lens = [shape.axis; COLUMNS];
    if let Some(lengths) = lengths {
        let first = row / shape.axis * shape.inner + column;
        for (i, len) in lens[..columns].iter_mut().enumerate() {
            *len = lengths.get(first + i).min(shape.axis);
        }
    }
    lens
}

crate::simd::per_isa! {
    /// Up to `COLUMNS` columns of the rows that are `stride` elements apart in `x`.
    fn columns_forward<T: FloatElement, O: FloatElement>(
        log: bool,
        sign: T::Acc,
        slope: T::Acc,
        x: &[T],
        stride: usize,
        lens: &[usize],
        y: &mut MatMut<'_, O>
    ) {
        let columns = lens.len();
        let mut max = [T::Acc::neg_infinity(); COLUMNS];
        for a in 0..y.rows() {
            for ((max, x), len) in max.iter_mut().zip(&x[a * stride..][..columns]).zip(lens) {
                let value = T::Acc::of(*x) * sign;
                *max = if a < *len && value > *max { value } else { *max };
            }
        }
        let mut sums = [T::Acc::zero(); COLUMNS];
        let shifted = |x: &T, max: &T::Acc| (T::Acc::of(*x) * sign - *max) * slope;
        for a in 0..y.rows() {
            let xs = x[a * stride..][..columns].iter().zip(&max);
            for ((sum, (x, max)), len) in sums.iter_mut().zip(xs).zip(lens) {
                let exp = shifted(x, max).exponential_nonpositive();
                *sum += if a < *len { exp } else { T::Acc::zero() };
            }
        }
        sums.iter_mut().for_each(|sum| *sum = if log { sum.ln() } else { sum.recip() });
        for a in 0..y.rows() {
            let xs = x[a * stride..][..columns].iter().zip(&max).zip(&sums);
            for ((y, ((x, max), sum)), len) in y.row_mut(a).iter_mut().zip(xs).zip(lens) {
                let shifted = shifted(x, max);
                let value = if log { shifted - *sum } else { shifted.exponential_nonpositive() * *sum };
                *y = if a < *len { value.store() } else { O::default() };
            }
        }
    }
}

crate::simd::per_isa! {
    fn columns_backward<T: FloatElement, O: FloatElement>(
        kind: SoftmaxKind,
        slope: T::Acc,
        y: &[O],
        y_grad: &[O],
        stride: usize,
        lens: &[usize],
        x_grad: &mut MatMut<'_, T>
    ) {
        let columns = lens.len();
        let log = kind == SoftmaxKind::LogSoftmax;
        let mut sums = [T::Acc::zero(); COLUMNS];
        for a in 0..x_grad.rows() {
            let from = y[a * stride..][..columns].iter().zip(&y_grad[a * stride..][..columns]);
            for ((sum, (y, grad)), len) in sums.iter_mut().zip(from).zip(lens) {
                let grad = T::Acc::of(*grad);
                let term = if log { grad } else { grad * T::Acc::of(*y) };
                *sum += if a < *len { term } else { T::Acc::zero() };
            }
        }
        for a in 0..x_grad.rows() {
            let from = y[a * stride..][..columns].iter().zip(&y_grad[a * stride..][..columns]);
            for ((x_grad, (y, grad)), (sum, len)) in x_grad.row_mut(a).iter_mut().zip(from).zip(sums.iter().zip(lens)) {
                let (y, grad) = (T::Acc::of(*y), T::Acc::of(*grad));
                let value = if log { grad - y.exponential() * *sum } else { y * (grad - *sum) };
                *x_grad = if a < *len { (value * slope).store() } else { T::default() };
            }
        }
    }
}
