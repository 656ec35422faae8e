//! The backward pass.

use super::forward::{Divisors, divisor, largest};
use super::phases::{BLOCK, Phases, block};
use super::{PlaneWindows, PoolKind, PoolPower, PoolShape};
use crate::float::{Accum, FloatElement, with_wide_mut};
use crate::par::{parallel_rows, with_scratch};
use num_traits::{Float, Zero};
use smallvec::SmallVec;

/// The gradient of [`pool_forward`](super::pool_forward) with respect to its input.
///
/// `input` and `output` are those of the forward pass, `output_grad` the gradient of `output`; `input_grad` is overwritten.
/// `input` is read for the maximum and for powers, `output` for powers only; otherwise they may be empty.
///
/// # Panics
/// Panics if a slice that is used does not have the length that `shape` implies, or a stride is zero.
pub fn pool_backward<T: FloatElement>(
    shape: &PoolShape,
    kind: PoolKind,
    input: &[T],
    output: &[T],
    output_grad: &[T],
    input_grad: &mut [T],
) {
    shape.check(input_grad.len(), output_grad.len());
    if input_grad.is_empty() {
        return;
    }
    match kind {
        PoolKind::Max => {
            shape.check(input.len(), output_grad.len());
            if shape.is_disjoint_pairs() {
                return max_pairs(shape, input, output_grad, input_grad);
            }
            if shape.is_global() {
                let (plane, grain) = (shape.input_plane(), shape.grain());
                return parallel_rows(input_grad, plane * grain, 1, |i, grad| {
                    max_globally(plane, &input[i * grain * plane..], &output_grad[i * grain..], grad);
                });
            }
            if shape.inner == 1 {
                return max_planes(shape, input, output_grad, input_grad);
            }
            for_each_plane(shape, output_grad, input_grad, |plane, grad, sums| {
                max_channels(shape, &input[plane * shape.input_plane()..], grad, sums);
            });
        }
        PoolKind::Average { .. } | PoolKind::Sum | PoolKind::Power(PoolPower::One) if shape.is_global() => {
            let axes = shape.axes();
            let count = match kind {
                PoolKind::Average { count_include_pad } => divisor(&axes, count_include_pad, [0; 3]),
                _ => 1,
            };
            let divisor = T::Acc::count(count);
            let (plane, grain) = (shape.input_plane(), shape.grain());
            parallel_rows(input_grad, plane * grain, 1, |i, grad| {
                fill_planes(plane, &output_grad[i * grain..], divisor, grad);
            });
        }
        PoolKind::Average { .. } | PoolKind::Sum | PoolKind::Power(PoolPower::One) => {
            let scale = |_, grad| grad;
            for_each_plane(shape, output_grad, input_grad, |_, grad, sums| sum_plane(shape, kind, grad, scale, sums));
        }
        PoolKind::Power(power) => {
            shape.check(input.len(), output.len());
            let raise = |x: T| {
                let x = T::Acc::of(x);
                if power == PoolPower::Three { x * x } else { x }
            };
            for_each_plane(shape, output_grad, input_grad, |plane, grad, sums| {
                // d/dx of the p-th root of the sum of p-th powers is (x / y)^(p - 1), or zero where y is zero.
                let output = &output[plane * shape.output_plane()..];
                let scale = |i: usize, grad: T::Acc| {
                    let y = raise(output[i]);
                    if y.is_zero() { y } else { grad / y }
                };
                sum_plane(shape, kind, grad, scale, sums);
                let image = &input[plane * shape.input_plane()..];
                sums.iter_mut().zip(image).for_each(|(sum, x)| *sum *= raise(*x));
            });
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Writes the gradient of each plane to its first maximum, and zero to its other elements.
    fn max_globally<T: FloatElement>(plane: usize, input: &[T], output_grad: &[T], input_grad: &mut [T]) {
        input_grad.fill(T::default());
        for ((to, image), grad) in input_grad.chunks_exact_mut(plane).zip(input.chunks_exact(plane)).zip(output_grad) {
            let max = largest(image);
            if max > super::lowest::<T>() && let Some(argmax) = image.iter().position(|x| T::Acc::of(*x) == max) {
                to[argmax] = *grad;
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Fills each plane with its gradient divided by `divisor`.
    fn fill_planes<T: FloatElement>(plane: usize, output_grad: &[T], divisor: T::Acc, input_grad: &mut [T]) {
        for (to, grad) in input_grad.chunks_exact_mut(plane).zip(output_grad) {
            let value = (T::Acc::of(*grad) / divisor).store();
            to.as_chunks_mut::<BLOCK>().0.iter_mut().for_each(|block| *block = [value; BLOCK]);
            // The last block overlaps the previous one.
            match to.last_chunk_mut::<BLOCK>() {
                Some(last) => *last = [value; BLOCK],
                None => to.fill(value),
            }
        }
    }
}

/// Calls `f(plane, output_grad, sums)` for each plane, where `sums` is zero and becomes the gradient of the input.
fn for_each_plane<T: FloatElement>(
    shape: &PoolShape,
    output_grad: &[T],
    input_grad: &mut [T],
    f: impl Fn(usize, &[T], &mut [T::Acc]) + Sync,
) {
    let (plane, out_plane) = (shape.input_plane(), shape.output_plane());
    parallel_rows(input_grad, plane, shape.grain(), |i, input_grad| {
        with_wide_mut(input_grad, |sums| {
            sums.fill(T::Acc::zero());
            f(i, &output_grad[i * out_plane..(i + 1) * out_plane], sums);
        });
    });
}

/// The index for a window without an element larger than the lowest finite number.
const NO_MAXIMUM: usize = usize::MAX;

fn max_channels<T: FloatElement>(shape: &PoolShape, image: &[T], grad: &[T], sums: &mut [T::Acc]) {
    let windows = shape.plane_windows();
    let axes = &windows.axes;
    let row = axes[2].output * shape.inner;
    with_scratch(row, |max: &mut [T::Acc]| {
        with_scratch(row, |indices: &mut [usize]| {
            for (r, grad) in grad.chunks_exact(row.max(1)).enumerate() {
                let row_index = [r / axes[1].output, r % axes[1].output];
                if axes[..2].iter().zip(row_index).any(|(axis, output)| axis.window(output).is_empty()) {
                    continue;
                }
                argmax_row(&windows, image, row_index, max, indices);
                for (w, (grad, indices)) in
                    grad.chunks_exact(shape.inner).zip(indices.chunks_exact(shape.inner)).enumerate()
                {
                    if !axes[2].window(w).is_empty() {
                        for (grad, &index) in grad.iter().zip(indices) {
                            if let Some(sum) = sums.get_mut(index) {
                                *sum += T::Acc::of(*grad);
                            }
                        }
                    }
                }
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Writes the index of the first maximum of each window of a row of outputs, or [`NO_MAXIMUM`].
    fn argmax_row<T: FloatElement>(
        windows: &PlaneWindows,
        image: &[T],
        row_index: [usize; 2],
        max: &mut [T::Acc],
        indices: &mut [usize]
    ) {
        let ([depth, height, width], inner) = (&windows.axes, windows.inner);
        let row_start = |d: usize, h: usize| (d * height.input + h) * width.input * inner;
        max.fill(super::lowest::<T>());
        indices.fill(NO_MAXIMUM);
        for d in depth.window(row_index[0]) {
            for h in height.window(row_index[1]) {
                for (outputs, coordinate) in windows.offsets.iter() {
                    let start = row_start(d, h) + coordinate * inner;
                    let stride = width.stride * inner;
                    let outputs = outputs.start * inner..outputs.end * inner;
                    let windows = max[outputs.clone()].iter_mut().zip(&mut indices[outputs]);
                    let keep_larger = |(max, argmax): (&mut T::Acc, &mut usize), index: usize, x: T| {
                        let x = T::Acc::of(x);
                        let is_larger = x > *max;
                        *max = if is_larger { x } else { *max };
                        *argmax = if is_larger { index } else { *argmax };
                    };
                    let from = &image[start..];
                    for (i, window) in windows.enumerate() {
                        let offset = i / inner * stride + i % inner;
                        keep_larger(window, start + offset, from[offset]);
                    }
                }
            }
        }
    }
}

/// Max pooling with one element per coordinate.
fn max_planes<T: FloatElement>(shape: &PoolShape, input: &[T], output_grad: &[T], input_grad: &mut [T]) {
    let (plane, out_plane, grain) = (shape.input_plane(), shape.output_plane(), shape.grain());
    let windows = shape.plane_windows();
    let phases = Phases::new(windows.axes[2]);
    // Rows that one window contains, unless windows also have a depth.
    let num_rows =
        if shape.input[0] == 1 { shape.kernel[1].min(shape.input[1]) } else { shape.input[0] * shape.input[1] };
    let split_len = num_rows * phases.row_len();
    parallel_rows(input_grad, plane * grain, 1, |i, to| {
        with_scratch(2 * split_len + phases.scatter_len(), |buffer: &mut [T::Acc]| {
            with_scratch(phases.scatter_len(), |argmax: &mut [u32]| {
                let (image, buffer) = buffer.split_at_mut(split_len);
                let (sums, grads) = buffer.split_at_mut(split_len);
                image.fill(T::Acc::min_value());
                grads.fill(T::Acc::zero());
                argmax.fill(u32::MAX);
                let mut buffers = MaxBuffers { image, sums, grads, argmax };
                for (k, to) in to.chunks_exact_mut(plane).enumerate() {
                    let i = i * grain + k;
                    let grad = &output_grad[i * out_plane..(i + 1) * out_plane];
                    max_plane(&windows, &phases, &input[i * plane..(i + 1) * plane], grad, &mut buffers, to);
                }
            });
        });
    });
}

/// Scratch memory of [`max_plane`].
struct MaxBuffers<'a, A> {
    /// The split rows of the windows of a row of outputs.
    image: &'a mut [A],
    /// The split rows of their gradients.
    sums: &'a mut [A],
    /// The gradients of a row of outputs, between zeros.
    grads: &'a mut [A],
    /// The index of the maximum within each window of the row.
    argmax: &'a mut [u32],
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Adds the gradient of each window of a plane to that of its maximum.
    fn max_plane<T: FloatElement>(
        windows: &PlaneWindows,
        phases: &Phases,
        from: &[T],
        output_grad: &[T],
        buffers: &mut MaxBuffers<'_, T::Acc>,
        input_grad: &mut [T]
    ) {
        let [depth, height, width] = &windows.axes;
        let MaxBuffers { image, sums, grads, argmax } = buffers;
        let row_len = phases.row_len();
        let num_slots = image.len() / row_len;
        let outputs = phases.lead()..phases.lead() + width.output;
        // Rows that were split, and rows whose gradients are complete.
        let (mut split, mut joined) = (0, 0);
        let mut rows = SmallVec::<[usize; 32]>::new();
        for (r, grad) in output_grad.chunks_exact(width.output).enumerate() {
            rows.clear();
            let heights = height.window(r % height.output);
            rows.extend(depth.window(r / height.output).flat_map(|d| heights.clone().map(move |h| d * height.input + h)));
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { continue };
            if depth.input == 1 {
                join_rows(phases, &mut joined, (*first).min(split), sums, input_grad);
                if split < *first {
                    // No window contains the rows between.
                    input_grad[split * width.input..*first * width.input].fill(T::default());
                    (split, joined) = (*first, *first);
                }
            }
            while split <= *last {
                let slot = split % num_slots * row_len..(split % num_slots + 1) * row_len;
                phases.split(&from[split * width.input..(split + 1) * width.input], &mut image[slot.clone()]);
                sums[slot].fill(T::Acc::zero());
                split += 1;
            }
            rows.iter_mut().for_each(|row| *row = *row % num_slots * row_len);
            grads[outputs.clone()].iter_mut().zip(grad).for_each(|(to, grad)| *to = T::Acc::of(*grad));
            argmax_blocks::<T>(phases, image, &rows, &mut argmax[outputs.start..][..width.output.next_multiple_of(BLOCK)]);
            for (i, row) in rows.iter().enumerate() {
                let first = (i * width.kernel) as u32;
                phases.scatter(&mut sums[*row..row + row_len], |offset, start, sums| {
                    let index = first + offset as u32;
                    let windows = argmax[start..].iter().zip(&grads[start..]);
                    for (sum, (argmax, grad)) in sums.iter_mut().zip(windows) {
                        *sum += if *argmax == index { *grad } else { T::Acc::zero() };
                    }
                });
            }
        }
        join_rows(phases, &mut joined, split, sums, input_grad);
        input_grad[split * width.input..].fill(T::default());
    }
}

/// Writes the gradients of the rows from `joined` up to `end`.
#[inline(always)]
fn join_rows<T: FloatElement>(phases: &Phases, joined: &mut usize, end: usize, sums: &[T::Acc], input_grad: &mut [T]) {
    let row_len = phases.row_len();
    let num_slots = sums.len() / row_len;
    while *joined < end {
        phases.join(&sums[*joined % num_slots * row_len..][..row_len], *joined, input_grad);
        *joined += 1;
    }
}

/// Writes the index of the first maximum within each window of a row of outputs. `rows` are the starts of the split rows in
/// the windows; an element is its row times the width of a window plus its offset.
#[inline(always)]
fn argmax_blocks<T: FloatElement>(phases: &Phases, image: &[T::Acc], rows: &[usize], argmax: &mut [u32]) {
    for (i, argmax) in argmax.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let (mut max, mut indices) = ([super::lowest::<T>(); BLOCK], [u32::MAX; BLOCK]);
        let mut index = 0;
        for row in rows {
            let image = &image[row + i * BLOCK..];
            for start in &phases.starts {
                let xs = block(image, *start);
                for ((max, argmax), x) in max.iter_mut().zip(&mut indices).zip(xs) {
                    let is_larger = x > *max;
                    *max = if is_larger { x } else { *max };
                    *argmax = if is_larger { index } else { *argmax };
                }
                index += 1;
            }
        }
        *argmax = indices;
    }
}

/// The gradient of sums and averages: adds `scale(i, gradient)` of each window `i` to all elements of the window.
fn sum_plane<T: FloatElement>(
    shape: &PoolShape,
    kind: PoolKind,
    grad: &[T],
    scale: impl Fn(usize, T::Acc) -> T::Acc,
    sums: &mut [T::Acc],
) {
    let (axes, inner) = (shape.axes(), shape.inner);
    let [depth, height, width] = &axes;
    let phases = Phases::new(axes[2]);
    let row = width.output * inner;
    let lead = if inner == 1 { phases.lead() } else { 0 };
    let (scales_len, split_len) = if inner == 1 { (phases.scatter_len(), phases.row_len()) } else { (row, 0) };
    with_scratch(scales_len + split_len + width.output + width.input * inner, |buffer: &mut [T::Acc]| {
        let (scales, buffer) = buffer.split_at_mut(scales_len);
        let (split, buffer) = buffer.split_at_mut(split_len);
        let (divisors, columns) = buffer.split_at_mut(width.output);
        let mut divisors = Divisors::new(divisors);
        scales.fill(T::Acc::zero());
        for (r, grad) in grad.chunks_exact(row).enumerate() {
            let (d, h) = (r / height.output, r % height.output);
            for (i, (to, grad)) in scales[lead..].iter_mut().zip(grad).enumerate() {
                *to = scale(r * row + i, T::Acc::of(*grad));
            }
            if let PoolKind::Average { count_include_pad } = kind {
                divisors.update(&axes, count_include_pad, [d, h]);
                divide(&mut scales[lead..lead + row], divisors.row, inner);
            }
            if inner == 1 {
                scatter_scales(&phases, scales, split, columns);
            } else {
                columns.fill(T::Acc::zero());
                for (w, scales) in scales.chunks_exact(inner).enumerate() {
                    for x in width.window(w) {
                        add(scales, &mut columns[x * inner..(x + 1) * inner]);
                    }
                }
            }
            for d in depth.window(d) {
                for h in height.window(h) {
                    add(columns, &mut sums[(d * height.input + h) * columns.len()..][..columns.len()]);
                }
            }
        }
    });
}

crate::simd::per_isa! {
    avx512 if A::EVERY_LEVEL;
    /// Adds the scale of each window to the columns of the window.
    fn scatter_scales<A: Accum>(phases: &Phases, scales: &[A], split: &mut [A], columns: &mut [A]) {
        split.fill(A::zero());
        phases.scatter(split, |_, start, sums| {
            sums.iter_mut().zip(&scales[start..]).for_each(|(sum, scale)| *sum += *scale);
        });
        phases.join(split, 0, columns);
    }
}

crate::simd::per_isa! {
    avx512 if A::EVERY_LEVEL;
    /// Divides `inner` successive elements by each divisor.
    fn divide<A: Accum>(xs: &mut [A], divisors: &[A], inner: usize) {
        if inner == 1 {
            return xs.iter_mut().zip(divisors).for_each(|(x, size)| *x /= *size);
        }
        xs.chunks_exact_mut(inner).zip(divisors).for_each(|(xs, size)| xs.iter_mut().for_each(|x| *x /= *size));
    }
}

crate::simd::per_isa! {
    avx512 if A::EVERY_LEVEL;
    fn add<A: Accum>(xs: &[A], sums: &mut [A]) {
        sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum += *x);
    }
}

/// Max pooling over disjoint pairs of columns: every input element belongs to at most one window, so its gradient is written once.
fn max_pairs<T: FloatElement>(shape: &PoolShape, input: &[T], output_grad: &[T], input_grad: &mut [T]) {
    let (plane, out_plane) = (shape.input_plane(), shape.output_plane());
    let depth_plane = shape.input[1] * shape.input[2];
    let out_depth_plane = (shape.output[1] * shape.output[2]).max(1);
    parallel_rows(input_grad, plane, shape.grain(), |i, input_grad| {
        let image = &input[i * plane..(i + 1) * plane];
        let grad = &output_grad[i * out_plane..(i + 1) * out_plane];
        if grad.is_empty() {
            return input_grad.fill(T::default());
        }
        let images = image.chunks_exact(depth_plane).zip(input_grad.chunks_exact_mut(depth_plane));
        for ((image, input_grad), grad) in images.zip(grad.chunks_exact(out_depth_plane)) {
            match shape.kernel[1] {
                1 => max_pairs_image::<T, OneRow>(image, shape.input[2], grad, shape.output[2], input_grad),
                _ => max_pairs_image::<T, TwoRows>(image, shape.input[2], grad, shape.output[2], input_grad),
            }
        }
    });
}

/// The number of rows of a window, as a type.
trait NumRows {
    const ROWS: usize;
}

struct OneRow;

impl NumRows for OneRow {
    const ROWS: usize = 1;
}

struct TwoRows;

impl NumRows for TwoRows {
    const ROWS: usize = 2;
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Writes each element of `grad` to the first maximum of its window, and zero to the other elements.
    fn max_pairs_image<T: FloatElement, R: NumRows>(
        image: &[T],
        width: usize,
        grad: &[T],
        out_width: usize,
        input_grad: &mut [T]
    ) {
        let rows = R::ROWS * width;
        input_grad[rows * (grad.len() / out_width)..].fill(T::default());
        let rows = image.chunks_exact(rows).zip(input_grad.chunks_exact_mut(rows));
        for ((image, to), grad) in rows.zip(grad.chunks_exact(out_width)) {
            to.chunks_exact_mut(width).for_each(|row| row[2 * out_width..].fill(T::default()));
            let mut done = 0;
            while done < out_width {
                let (image, to, grad) = (&image[2 * done..], &mut to[2 * done..], &grad[done..]);
                done += match out_width - done {
                    16.. => write_windows::<T, R, 16>(image, width, grad, to),
                    4.. => write_windows::<T, R, 4>(image, width, grad, to),
                    2.. => write_windows::<T, R, 2>(image, width, grad, to),
                    _ => write_windows::<T, R, 1>(image, width, grad, to),
                };
            }
        }
    }
}

/// Writes the gradients of N neighbouring windows, in loops that the compiler can vectorize. Returns N.
#[inline(always)]
fn write_windows<T: FloatElement, R: NumRows, const N: usize>(
    image: &[T],
    width: usize,
    grad: &[T],
    to: &mut [T],
) -> usize {
    let grad = &grad[..N];
    let (mut max, mut argmax) = ([super::lowest::<T>(); N], [u32::MAX; N]);
    for r in 0..R::ROWS {
        let row = &image[r * width..][..2 * N];
        for corner in 0..2 {
            let values: [T::Acc; N] = std::array::from_fn(|n| T::Acc::of(row[2 * n + corner]));
            for n in 0..N {
                let larger = values[n] > max[n];
                argmax[n] = if larger { (2 * r + corner) as u32 } else { argmax[n] };
                max[n] = if larger { values[n] } else { max[n] };
            }
        }
    }
    for r in 0..R::ROWS {
        let row = &mut to[r * width..][..2 * N];
        for n in 0..N {
            let grad_of = |i: usize| if argmax[n] == i as u32 { grad[n] } else { T::default() };
            (row[2 * n], row[2 * n + 1]) = (grad_of(2 * r), grad_of(2 * r + 1));
        }
    }
    N
}
