//! Softmax along any axis: contiguous rows one by one, short ones transposed ([`short_rows`]), other axes in blocks of columns.

use super::row::{self, Params};
use super::{Lengths, Softmax, SoftmaxKind};
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::map::{Elements, ElementsMut};
use crate::par::{MatMut, grain_for_all_threads, parallel_blocks, parallel_rows, with_scratch};
use crate::short_rows;
use num_traits::One;

/// Elements per chunk.
const GRAIN: usize = 8 * 1024;
/// Columns in a block.
const COLUMNS: usize = 64;

/// Computes the softmax of `x` along the axis into `y`; both have the elements of `shape`. The computation has the precision of `x`
/// (single for 16-bit types).
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn softmax_forward<T: FloatElement, O: FloatElement>(shape: AxisShape, softmax: Softmax<'_>, x: &[T], y: &mut [O]) {
    let Softmax { kind, temperature, lengths } = softmax;
    check(shape, lengths, [x.len(), y.len()]);
    let AxisShape { axis, inner, .. } = shape;
    let params = Params {
        is_log: kind == SoftmaxKind::LogSoftmax,
        // The sign is applied to x before the maximum is taken, so that the arguments of the exponentials are never positive.
        sign: if (kind == SoftmaxKind::Softmin) == (temperature < 0.0) { T::Acc::one() } else { -T::Acc::one() },
        inv_temperature: T::Acc::of(1.0 / temperature.abs()),
    };
    if shape.is_empty() {
        return;
    }
    let x = T::elements(x);
    match inner {
        1 if axis <= short_rows::MAX_LEN => forward_short_rows(shape, lengths, params, x, y),
        1 => forward_rows(axis, lengths, params, x, y),
        _ => forward_columns(shape, lengths, params, x, y),
    }
}

/// [`softmax_forward`] of short contiguous rows, transposed in blocks.
fn forward_short_rows<A: Accum, O: FloatElement>(
    shape: AxisShape,
    lengths: Option<Lengths<'_>>,
    params: Params<A>,
    x: Elements<'_>,
    y: &mut [O],
) {
    let axis = shape.axis;
    let block = axis * short_rows::BLOCK_ROWS;
    parallel_rows(y, block, (GRAIN / block).max(1), |i, y| {
        let (start, rows, len) = (i * block, y.len() / axis, y.len());
        let row_lens = block_lens(shape, lengths, start, 0, rows);
        with_scratch(3 * len, |buffer: &mut [A]| {
            let (buffer, lanes) = buffer.split_at_mut(len);
            let (lanes, result) = lanes.split_at_mut(len);
            short_rows::load(x, start, axis, buffer, lanes);
            let columns = Columns::new(params, lanes, rows, axis, &row_lens[..rows]);
            for (a, (x, y)) in lanes.chunks_exact(rows).zip(result.chunks_exact_mut(rows)).enumerate() {
                columns.row(a, x, y);
            }
            short_rows::store(result, axis, buffer, O::elements_mut(y));
        });
    });
}

/// [`softmax_forward`] of contiguous rows.
fn forward_rows<A: Accum, O: FloatElement>(
    axis: usize,
    lengths: Option<Lengths<'_>>,
    params: Params<A>,
    x: Elements<'_>,
    y: &mut [O],
) {
    let rows = grain_for_all_threads(y.len() / axis, (GRAIN / axis).max(1));
    parallel_rows(y, axis * rows, 1, |block, y| {
        with_scratch(row::scratch_len(axis), |exps: &mut [A]| {
            for (k, y) in y.chunks_exact_mut(axis).enumerate() {
                let r = block * rows + k;
                let len = row_len(axis, lengths, r);
                y[len..].fill(O::default());
                let exps = &mut exps[..row::scratch_len(len)];
                forward_row(params, (x, r * axis, r * axis + len), exps, O::elements_mut(&mut y[..len]));
            }
        });
    });
}

/// [`softmax_forward`] along an axis that is not the last, in blocks of columns.
fn forward_columns<A: Accum, O: FloatElement>(
    shape: AxisShape,
    lengths: Option<Lengths<'_>>,
    params: Params<A>,
    x: Elements<'_>,
    y: &mut [O],
) {
    let AxisShape { outer, axis, inner } = shape;
    parallel_blocks(MatMut::row_major(y, outer * axis, inner), axis, COLUMNS, |row, column, mut y| {
        let row_lens = block_lens(shape, lengths, row, column, y.cols());
        let (columns, from) = (y.cols(), row * inner + column);
        with_scratch(axis * columns, |wide: &mut [A]| {
            let (x, stride) = lanes_of_columns(x, from, inner, columns, wide);
            let statistics = Columns::new(params, x, stride, axis, &row_lens[..columns]);
            for a in 0..axis {
                let x = &x[a * stride..][..columns];
                write_lanes(O::elements_mut(y.row_mut(a)), |y| statistics.row(a, x, y));
            }
        });
    });
}

/// The softmax of the elements `from..to` of `x`. `exps` is the scratch memory of [`row::forward`].
fn forward_row<A: Accum>(
    params: Params<A>,
    (x, from, to): (Elements<'_>, usize, usize),
    exps: &mut [A],
    mut y: ElementsMut<'_>,
) {
    let len = to - from;
    if let (Some(x), Some(y)) = (A::view_any(x), A::view_any_mut(&mut y)) {
        let ahead = &x[to..(to + len).min(x.len())];
        return row::forward(params, &x[from..to], ahead, exps, y);
    }
    with_scratch(2 * len, |lanes: &mut [A]| {
        let (wide, result) = lanes.split_at_mut(len);
        A::load_any(x, from, wide);
        row::forward(params, wide, &[], exps, result);
        A::store_any(result, y.part(0..len));
    });
}

/// The lanes of a block of columns that starts at element `from`, and the stride between their rows: `x` itself, or a copy in
/// `wide`.
fn lanes_of_columns<'s, A: Accum>(
    x: Elements<'s>,
    from: usize,
    stride: usize,
    columns: usize,
    wide: &'s mut [A],
) -> (&'s [A], usize) {
    match A::view_any(x) {
        Some(lanes) => (&lanes[from..], stride),
        None => {
            for (a, row) in wide.chunks_exact_mut(columns).enumerate() {
                A::load_any(x, from + a * stride, row);
            }
            (wide, columns)
        }
    }
}

/// The gradient of [`softmax_forward`] with respect to `x`, from its result `y` and the gradient of the result.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn softmax_backward<T: FloatElement, O: FloatElement>(
    shape: AxisShape,
    softmax: Softmax<'_>,
    y: &[O],
    y_grad: &[O],
    x_grad: &mut [T],
) {
    let Softmax { kind, temperature, lengths } = softmax;
    check(shape, lengths, [y.len(), x_grad.len()]);
    shape.check(&[y_grad.len()]);
    let AxisShape { axis, inner, .. } = shape;
    let params = GradParams {
        kind,
        inv_temperature: T::Acc::of(if kind == SoftmaxKind::Softmin { -1.0 / temperature } else { 1.0 / temperature }),
    };
    if shape.is_empty() {
        return;
    }
    let from = [O::elements(y), O::elements(y_grad)];
    match inner {
        1 if axis <= short_rows::MAX_LEN => backward_short_rows(shape, lengths, params, from, x_grad),
        1 => backward_rows(axis, lengths, params, from, x_grad),
        _ => backward_columns(shape, lengths, params, from, x_grad),
    }
}

/// The parameters of the gradient.
#[derive(Clone, Copy)]
struct GradParams<A> {
    kind: SoftmaxKind,
    /// The reciprocal of the temperature, negative for softmin.
    inv_temperature: A,
}

/// [`softmax_backward`] of short contiguous rows, transposed in blocks.
fn backward_short_rows<T: FloatElement>(
    shape: AxisShape,
    lengths: Option<Lengths<'_>>,
    params: GradParams<T::Acc>,
    [y, y_grad]: [Elements<'_>; 2],
    x_grad: &mut [T],
) {
    let axis = shape.axis;
    let block = axis * short_rows::BLOCK_ROWS;
    parallel_rows(x_grad, block, (GRAIN / block).max(1), |i, x_grad| {
        let (start, rows, len) = (i * block, x_grad.len() / axis, x_grad.len());
        let row_lens = block_lens(shape, lengths, start, 0, rows);
        with_scratch(4 * len, |buffer: &mut [T::Acc]| {
            let (buffer, lanes) = buffer.split_at_mut(len);
            let (y_lanes, lanes) = lanes.split_at_mut(len);
            let (grads, result) = lanes.split_at_mut(len);
            short_rows::load(y, start, axis, buffer, y_lanes);
            short_rows::load(y_grad, start, axis, buffer, grads);
            let sums = column_grad_sums(params.kind, y_lanes, grads, rows, axis, &row_lens[..rows]);
            let from = y_lanes.chunks_exact(rows).zip(grads.chunks_exact(rows));
            for (a, (x_grad, from)) in result.chunks_exact_mut(rows).zip(from).enumerate() {
                grad_row(params, a, &row_lens[..rows], &sums, from, x_grad);
            }
            short_rows::store(result, axis, buffer, T::elements_mut(x_grad));
        });
    });
}

/// [`softmax_backward`] of contiguous rows.
fn backward_rows<T: FloatElement>(
    axis: usize,
    lengths: Option<Lengths<'_>>,
    params: GradParams<T::Acc>,
    from: [Elements<'_>; 2],
    x_grad: &mut [T],
) {
    parallel_rows(x_grad, axis, GRAIN / axis, |r, x_grad| {
        let len = row_len(axis, lengths, r);
        x_grad[len..].fill(T::default());
        let from = from.map(|elements| elements.part(r * axis..r * axis + len));
        backward_row(params, from, T::elements_mut(&mut x_grad[..len]));
    });
}

/// [`softmax_backward`] along an axis that is not the last, in blocks of columns.
fn backward_columns<T: FloatElement>(
    shape: AxisShape,
    lengths: Option<Lengths<'_>>,
    params: GradParams<T::Acc>,
    [y, y_grad]: [Elements<'_>; 2],
    x_grad: &mut [T],
) {
    let AxisShape { outer, axis, inner } = shape;
    parallel_blocks(MatMut::row_major(x_grad, outer * axis, inner), axis, COLUMNS, |row, column, mut x_grad| {
        let row_lens = block_lens(shape, lengths, row, column, x_grad.cols());
        let (columns, from) = (x_grad.cols(), row * inner + column);
        let block = axis * columns;
        with_scratch(2 * block, |lanes: &mut [T::Acc]| {
            let (wide, grads) = lanes.split_at_mut(block);
            let (y, stride) = lanes_of_columns(y, from, inner, columns, wide);
            let (grads, _) = lanes_of_columns(y_grad, from, inner, columns, grads);
            let sums = column_grad_sums(params.kind, y, grads, stride, axis, &row_lens[..columns]);
            for a in 0..axis {
                let from = (&y[a * stride..][..columns], &grads[a * stride..][..columns]);
                write_lanes(T::elements_mut(x_grad.row_mut(a)), |x_grad| {
                    grad_row(params, a, &row_lens[..columns], &sums, from, x_grad);
                });
            }
        });
    });
}

/// The gradient of a contiguous row, from the row of the result and its gradient.
fn backward_row<A: Accum>(params: GradParams<A>, [y, y_grad]: [Elements<'_>; 2], mut x_grad: ElementsMut<'_>) {
    let GradParams { kind, inv_temperature } = params;
    let len = y.len();
    let lanes = (A::view_any(y), A::view_any(y_grad), A::view_any_mut(&mut x_grad));
    if let (Some(y), Some(y_grad), Some(x_grad)) = lanes {
        return row::backward(kind, inv_temperature, y, y_grad, x_grad);
    }
    with_scratch(3 * len, |lanes: &mut [A]| {
        let (wide, result) = lanes.split_at_mut(2 * len);
        let (wide, grads) = wide.split_at_mut(len);
        A::load_any(y, 0, wide);
        A::load_any(y_grad, 0, grads);
        row::backward(kind, inv_temperature, wide, grads, result);
        A::store_any(result, x_grad);
    });
}

fn check(shape: AxisShape, lengths: Option<Lengths<'_>>, slices: [usize; 2]) {
    shape.check(&slices);
    if let Some(lengths) = lengths {
        assert_eq!(lengths.len(), shape.outer * shape.inner, "lengths for the rows of {shape:?}");
    }
}

/// The length of row `r`.
fn row_len(axis: usize, lengths: Option<Lengths<'_>>, r: usize) -> usize {
    lengths.map_or(axis, |lengths| lengths.get(r).min(axis))
}

/// The lengths of the softmax rows that are the columns of a block.
fn block_lens(
    shape: AxisShape,
    lengths: Option<Lengths<'_>>,
    row: usize,
    column: usize,
    columns: usize,
) -> [usize; COLUMNS] {
    let mut lens = [shape.axis; COLUMNS];
    let first = row / shape.axis * shape.inner + column;
    lens[..columns].iter_mut().enumerate().for_each(|(i, len)| *len = row_len(shape.axis, lengths, first + i));
    lens
}

/// Calls `f` with up to [`COLUMNS`] elements as lanes, or with a buffer that is then converted to them.
fn write_lanes<A: Accum>(mut to: ElementsMut<'_>, f: impl FnOnce(&mut [A])) {
    if let Some(lanes) = A::view_any_mut(&mut to) {
        return f(lanes);
    }
    let mut lanes = [A::zero(); COLUMNS];
    let lanes = &mut lanes[..to.len()];
    f(lanes);
    A::store_any(lanes, to);
}

/// The softmax of up to [`COLUMNS`] columns: its parameters and the statistics of each column.
struct Columns<'a, A> {
    params: Params<A>,
    row_lens: &'a [usize],
    /// The least length of a column: rows before it need no masks.
    whole_rows: usize,
    max: [A; COLUMNS],
    /// The reciprocals of the sums of the exponentials; for log-softmax, their logarithms.
    sums: [A; COLUMNS],
}

impl<'a, A: Accum> Columns<'a, A> {
    /// Computes the statistics of columns of `axis` elements, which have the given stride in `x`.
    fn new(params: Params<A>, x: &[A], stride: usize, axis: usize, row_lens: &'a [usize]) -> Self {
        let mut columns = Columns {
            params,
            row_lens,
            whole_rows: whole_rows(row_lens),
            max: [A::neg_infinity(); COLUMNS],
            sums: [A::zero(); COLUMNS],
        };
        column_sums(&mut columns, x, stride, axis);
        columns
    }

    /// Computes row `a` of the result.
    fn row(&self, a: usize, x: &[A], y: &mut [A]) {
        softmax_row(self, a, x, y);
    }

    #[inline(always)]
    fn shifted(&self, x: A, max: A) -> A {
        // The product with a sign is exact.
        x.mul_add(self.params.sign, -max) * self.params.inv_temperature
    }
}

/// The least of the lengths.
fn whole_rows(row_lens: &[usize]) -> usize {
    row_lens.iter().copied().min().unwrap_or(0)
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    fn column_sums<A: Accum>(columns: &mut Columns<'_, A>, x: &[A], stride: usize, axis: usize) {
        let (row_lens, count, sign) = (columns.row_lens, columns.row_lens.len(), columns.params.sign);
        let whole_rows = columns.whole_rows;
        let mut max = [A::neg_infinity(); COLUMNS];
        for a in 0..axis {
            for ((max, x), len) in max.iter_mut().zip(&x[a * stride..][..count]).zip(row_lens) {
                let value = if a < whole_rows || a < *len { *x * sign } else { A::neg_infinity() };
                // NaN is never larger.
                *max = if value > *max { value } else { *max };
            }
        }
        let mut sums = [A::zero(); COLUMNS];
        for a in 0..axis {
            let xs = x[a * stride..][..count].iter().zip(&max);
            for ((sum, (x, max)), len) in sums.iter_mut().zip(xs).zip(row_lens) {
                let exp = columns.shifted(*x, *max).exponential_nonpositive();
                *sum += if a < whole_rows || a < *len { exp } else { A::zero() };
            }
        }
        let is_log = columns.params.is_log;
        sums[..count].iter_mut().for_each(|sum| *sum = if is_log { sum.ln() } else { sum.recip() });
        (columns.max, columns.sums) = (max, sums);
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    fn softmax_row<A: Accum>(columns: &Columns<'_, A>, a: usize, x: &[A], y: &mut [A]) {
        let xs = x.iter().zip(&columns.max).zip(&columns.sums);
        for ((y, ((x, max), sum)), len) in y.iter_mut().zip(xs).zip(columns.row_lens) {
            let shifted = columns.shifted(*x, *max);
            let value = if columns.params.is_log { shifted - *sum } else { shifted.exponential_nonpositive() * *sum };
            *y = if a < columns.whole_rows || a < *len { value } else { A::zero() };
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// For each column, the sum over the axis that the gradient subtracts.
    fn column_grad_sums<A: Accum>(
        kind: SoftmaxKind,
        y: &[A],
        y_grad: &[A],
        stride: usize,
        axis: usize,
        row_lens: &[usize]
    ) -> [A; COLUMNS] {
        let (count, log, whole_rows) = (row_lens.len(), kind == SoftmaxKind::LogSoftmax, whole_rows(row_lens));
        let mut sums = [A::zero(); COLUMNS];
        for a in 0..axis {
            let from = y[a * stride..][..count].iter().zip(&y_grad[a * stride..][..count]);
            for ((sum, (y, grad)), len) in sums.iter_mut().zip(from).zip(row_lens) {
                let grad = *grad;
                let term = if log { grad } else { grad * *y };
                *sum += if a < whole_rows || a < *len { term } else { A::zero() };
            }
        }
        sums
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Computes row `a` of the gradient from row `a` of the result and of its gradient.
    fn grad_row<A: Accum>(
        params: GradParams<A>,
        a: usize,
        row_lens: &[usize],
        sums: &[A],
        from: (&[A], &[A]),
        x_grad: &mut [A]
    ) {
        let GradParams { kind, inv_temperature } = params;
        let log = kind == SoftmaxKind::LogSoftmax;
        let from = from.0.iter().zip(from.1);
        for ((x_grad, (y, grad)), (sum, len)) in x_grad.iter_mut().zip(from).zip(sums.iter().zip(row_lens)) {
            let (y, grad) = (*y, *grad);
            let value = if log { grad - y.exponential() * *sum } else { y * (grad - *sum) };
            *x_grad = if a < *len { value * inv_temperature } else { A::zero() };
        }
    }
}
