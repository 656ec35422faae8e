//! The backward pass.

use super::forward::{Divisors, divisor, largest};
use super::phases::{BLOCK, Phases, block};
use super::{PlaneWindows, PoolKind, PoolPower, PoolShape, Pooling};
use crate::float::{Accum, FloatElement, with_wide, with_wide_mut};
use crate::par::{grain_for_all_threads, parallel_rows, with_scratch};
use smallvec::SmallVec;
use std::ops::Range;

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
    mut input: &[T],
    mut output: &[T],
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
            output = &[];
        }
        PoolKind::Power(PoolPower::Two | PoolPower::Three) => shape.check(input.len(), output.len()),
        _ => (input, output) = (&[], &[]),
    }
    let pooling = Pooling::new(shape, kind, super::lowest::<T>());
    let (plane, out_plane) = (shape.input_plane(), shape.output_plane());
    let grain = grain_for_all_threads(shape.planes, shape.grain());
    parallel_rows(input_grad, plane * grain, 1, |i, input_grad| {
        let planes = i * grain..i * grain + input_grad.len() / plane;
        let of_planes = |xs, len| part(xs, len, &planes);
        with_wide(of_planes(input, plane), |input| {
            with_wide(of_planes(output, out_plane), |output| {
                with_wide(of_planes(output_grad, out_plane), |output_grad| {
                    with_wide_mut(input_grad, |input_grad| {
                        pooling.backward(&Given { input, output, output_grad }, input_grad)
                    });
                });
            });
        });
    });
}

/// The elements of some planes of `len` elements each; nothing of an empty array.
fn part<'a, T>(xs: &'a [T], len: usize, planes: &Range<usize>) -> &'a [T] {
    if xs.is_empty() { xs } else { &xs[planes.start * len..planes.end * len] }
}

/// The operands of the gradient, for the planes of a chunk. Those that it does not read are empty.
struct Given<'a, A> {
    input: &'a [A],
    output: &'a [A],
    output_grad: &'a [A],
}

impl<A: Accum> Pooling<'_, A> {
    /// Computes the gradient of several planes.
    fn backward(&self, given: &Given<'_, A>, input_grad: &mut [A]) {
        match self.kind {
            PoolKind::Max if self.is_disjoint_pairs => max_pairs(self, given, input_grad),
            PoolKind::Max if self.is_global => max_globally(self, given, input_grad),
            PoolKind::Max if self.shape.inner == 1 => max_planes(self, given, input_grad),
            PoolKind::Max => {
                self.for_each_plane(given, input_grad, |given, sums| max_channels(self, given, sums));
            }
            PoolKind::Power(power @ (PoolPower::Two | PoolPower::Three)) => {
                let raise = |x: A| if power == PoolPower::Three { x * x } else { x };
                self.for_each_plane(given, input_grad, |given, sums| {
                    // d/dx of the p-th root of the sum of p-th powers is (x / y)^(p - 1), or zero where y is zero.
                    let scale = |i: usize, grad: A| {
                        let y = raise(given.output[i]);
                        if y.is_zero() { y } else { grad / y }
                    };
                    sum_plane(self, given.output_grad, scale, sums);
                    sums.iter_mut().zip(given.input).for_each(|(sum, x)| *sum *= raise(*x));
                });
            }
            PoolKind::Average { count_include_pad } if self.is_global => {
                let count = divisor(&self.windows.axes, count_include_pad, [0; 3]);
                fill_planes(self.shape.input_plane(), given.output_grad, A::count(count), input_grad);
            }
            _ if self.is_global => fill_planes(self.shape.input_plane(), given.output_grad, A::one(), input_grad),
            _ => self.for_each_plane(given, input_grad, |given, sums| {
                sum_plane(self, given.output_grad, |_, grad| grad, sums);
            }),
        }
    }

    /// Calls `f(operands, sums)` for each plane, where `sums` is zero and becomes the gradient of the input.
    fn for_each_plane(&self, given: &Given<'_, A>, input_grad: &mut [A], f: impl Fn(&Given<'_, A>, &mut [A])) {
        let (plane, out_plane) = (self.shape.input_plane(), self.shape.output_plane());
        for (i, sums) in input_grad.chunks_exact_mut(plane).enumerate() {
            sums.fill(A::zero());
            let of_plane = |xs, len| part(xs, len, &(i..i + 1));
            let given = Given {
                input: of_plane(given.input, plane),
                output: of_plane(given.output, out_plane),
                output_grad: of_plane(given.output_grad, out_plane),
            };
            f(&given, sums);
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Writes the gradient of each plane to its first maximum, and zero to its other elements.
    fn max_globally<A: Accum>(pooling: &Pooling<'_, A>, given: &Given<'_, A>, input_grad: &mut [A]) {
        let plane = pooling.shape.input_plane();
        input_grad.fill(A::zero());
        let images = input_grad.chunks_exact_mut(plane).zip(given.input.chunks_exact(plane));
        for ((to, image), grad) in images.zip(given.output_grad) {
            let max = largest(image);
            if max > pooling.lowest && let Some(argmax) = image.iter().position(|x| *x == max) {
                to[argmax] = *grad;
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Fills each plane with its gradient divided by `divisor`.
    fn fill_planes<A: Accum>(plane: usize, output_grad: &[A], divisor: A, input_grad: &mut [A]) {
        for (to, grad) in input_grad.chunks_exact_mut(plane).zip(output_grad) {
            let value = *grad / divisor;
            to.as_chunks_mut::<BLOCK>().0.iter_mut().for_each(|block| *block = [value; BLOCK]);
            // The last block overlaps the previous one.
            match to.last_chunk_mut::<BLOCK>() {
                Some(last) => *last = [value; BLOCK],
                None => to.fill(value),
            }
        }
    }
}

/// The index for a window without an element larger than the lowest finite number.
const NO_MAXIMUM: usize = usize::MAX;

fn max_channels<A: Accum>(pooling: &Pooling<'_, A>, given: &Given<'_, A>, sums: &mut [A]) {
    let (windows, inner) = (&pooling.windows, pooling.shape.inner);
    let axes = &windows.axes;
    let row = axes[2].output * inner;
    with_scratch(row, |max: &mut [A]| {
        with_scratch(row, |indices: &mut [usize]| {
            for (r, grad) in given.output_grad.chunks_exact(row.max(1)).enumerate() {
                let row_index = [r / axes[1].output, r % axes[1].output];
                if axes[..2].iter().zip(row_index).any(|(axis, output)| axis.window(output).is_empty()) {
                    continue;
                }
                max.fill(pooling.lowest);
                argmax_row(windows, given.input, row_index, max, indices);
                for (w, (grad, indices)) in grad.chunks_exact(inner).zip(indices.chunks_exact(inner)).enumerate() {
                    if !axes[2].window(w).is_empty() {
                        for (grad, &index) in grad.iter().zip(indices) {
                            if let Some(sum) = sums.get_mut(index) {
                                *sum += *grad;
                            }
                        }
                    }
                }
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Writes the index of the first element of each window of a row of outputs that is the largest and exceeds `max`, or
    /// [`NO_MAXIMUM`].
    fn argmax_row<A: Accum>(
        windows: &PlaneWindows,
        image: &[A],
        row_index: [usize; 2],
        max: &mut [A],
        indices: &mut [usize]
    ) {
        let ([depth, height, width], inner) = (&windows.axes, windows.inner);
        let row_start = |d: usize, h: usize| (d * height.input + h) * width.input * inner;
        indices.fill(NO_MAXIMUM);
        for d in depth.window(row_index[0]) {
            for h in height.window(row_index[1]) {
                for (outputs, coordinate) in windows.offsets.iter() {
                    let start = row_start(d, h) + coordinate * inner;
                    let stride = width.stride * inner;
                    let outputs = outputs.start * inner..outputs.end * inner;
                    let windows = max[outputs.clone()].iter_mut().zip(&mut indices[outputs]);
                    let keep_larger = |(max, argmax): (&mut A, &mut usize), index: usize, x: A| {
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
fn max_planes<A: Accum>(pooling: &Pooling<'_, A>, given: &Given<'_, A>, input_grad: &mut [A]) {
    let (shape, phases) = (pooling.shape, &pooling.phases);
    // Rows that one window contains, unless windows also have a depth.
    let num_rows =
        if shape.input[0] == 1 { shape.kernel[1].min(shape.input[1]) } else { shape.input[0] * shape.input[1] };
    let split_len = num_rows * phases.row_len();
    with_scratch(2 * split_len + phases.scatter_len(), |buffer: &mut [A]| {
        with_scratch(phases.scatter_len(), |argmax: &mut [u32]| {
            let (image, buffer) = buffer.split_at_mut(split_len);
            let (sums, grads) = buffer.split_at_mut(split_len);
            image.fill(A::min_value());
            grads.fill(A::zero());
            argmax.fill(u32::MAX);
            max_chunk(pooling, given, &mut MaxBuffers { image, sums, grads, argmax }, input_grad);
        });
    });
}

/// Scratch memory of [`max_chunk`].
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
    avx512 if A::USE_AVX512;
    /// Adds the gradient of each window of several planes to that of its maximum.
    fn max_chunk<A: Accum>(
        pooling: &Pooling<'_, A>,
        given: &Given<'_, A>,
        buffers: &mut MaxBuffers<'_, A>,
        input_grad: &mut [A]
    ) {
        let (plane, out_plane) = (pooling.shape.input_plane(), pooling.shape.output_plane());
        let images = given.input.chunks_exact(plane).zip(input_grad.chunks_exact_mut(plane));
        for (i, (image, input_grad)) in images.enumerate() {
            max_plane(pooling, image, &given.output_grad[i * out_plane..(i + 1) * out_plane], buffers, input_grad);
        }
    }
}

#[inline(always)]
fn max_plane<A: Accum>(
    pooling: &Pooling<'_, A>,
    from: &[A],
    output_grad: &[A],
    buffers: &mut MaxBuffers<'_, A>,
    input_grad: &mut [A],
) {
    let ([depth, height, width], phases) = (&pooling.windows.axes, &pooling.phases);
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
                input_grad[split * width.input..*first * width.input].fill(A::zero());
                (split, joined) = (*first, *first);
            }
        }
        while split <= *last {
            let slot = split % num_slots * row_len..(split % num_slots + 1) * row_len;
            phases.split(&from[split * width.input..(split + 1) * width.input], &mut image[slot.clone()]);
            sums[slot].fill(A::zero());
            split += 1;
        }
        rows.iter_mut().for_each(|row| *row = *row % num_slots * row_len);
        grads[outputs.clone()].copy_from_slice(grad);
        argmax_blocks(pooling, image, &rows, &mut argmax[outputs.start..][..width.output.next_multiple_of(BLOCK)]);
        for (i, row) in rows.iter().enumerate() {
            let first = (i * width.kernel) as u32;
            phases.scatter(&mut sums[*row..row + row_len], |offset, start, sums| {
                let index = first + offset as u32;
                let windows = argmax[start..].iter().zip(&grads[start..]);
                for (sum, (argmax, grad)) in sums.iter_mut().zip(windows) {
                    *sum += if *argmax == index { *grad } else { A::zero() };
                }
            });
        }
    }
    join_rows(phases, &mut joined, split, sums, input_grad);
    input_grad[split * width.input..].fill(A::zero());
}

/// Writes the gradients of the rows from `joined` up to `end`.
#[inline(always)]
fn join_rows<A: Accum>(phases: &Phases, joined: &mut usize, end: usize, sums: &[A], input_grad: &mut [A]) {
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
fn argmax_blocks<A: Accum>(pooling: &Pooling<'_, A>, image: &[A], rows: &[usize], argmax: &mut [u32]) {
    for (i, argmax) in argmax.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let (mut max, mut indices) = ([pooling.lowest; BLOCK], [u32::MAX; BLOCK]);
        let mut index = 0;
        for row in rows {
            let image = &image[row + i * BLOCK..];
            for start in &pooling.phases.starts {
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
fn sum_plane<A: Accum>(pooling: &Pooling<'_, A>, grad: &[A], scale: impl Fn(usize, A) -> A, sums: &mut [A]) {
    let (axes, phases, inner) = (&pooling.windows.axes, &pooling.phases, pooling.windows.inner);
    let [depth, height, width] = axes;
    let row = width.output * inner;
    let lead = if inner == 1 { phases.lead() } else { 0 };
    let (scales_len, split_len) = if inner == 1 { (phases.scatter_len(), phases.row_len()) } else { (row, 0) };
    with_scratch(scales_len + split_len + width.output + width.input * inner, |buffer: &mut [A]| {
        let (scales, buffer) = buffer.split_at_mut(scales_len);
        let (split, buffer) = buffer.split_at_mut(split_len);
        let (divisors, columns) = buffer.split_at_mut(width.output);
        let mut divisors = Divisors::new(divisors);
        scales.fill(A::zero());
        for (r, grad) in grad.chunks_exact(row).enumerate() {
            let (d, h) = (r / height.output, r % height.output);
            for (i, (to, grad)) in scales[lead..].iter_mut().zip(grad).enumerate() {
                *to = scale(r * row + i, *grad);
            }
            if let PoolKind::Average { count_include_pad } = pooling.kind {
                divisors.update(axes, count_include_pad, [d, h]);
                divide(&mut scales[lead..lead + row], divisors.row, inner);
            }
            if inner == 1 {
                scatter_scales(phases, scales, split, columns);
            } else {
                columns.fill(A::zero());
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
    avx512 if A::USE_AVX512;
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
    avx512 if A::USE_AVX512;
    /// Divides `inner` successive elements by each divisor.
    fn divide<A: Accum>(xs: &mut [A], divisors: &[A], inner: usize) {
        if inner == 1 {
            return xs.iter_mut().zip(divisors).for_each(|(x, size)| *x /= *size);
        }
        xs.chunks_exact_mut(inner).zip(divisors).for_each(|(xs, size)| xs.iter_mut().for_each(|x| *x /= *size));
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    fn add<A: Accum>(xs: &[A], sums: &mut [A]) {
        sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum += *x);
    }
}

/// Max pooling over disjoint pairs of columns: every input element belongs to at most one window, so its gradient is written once.
fn max_pairs<A: Accum>(pooling: &Pooling<'_, A>, given: &Given<'_, A>, input_grad: &mut [A]) {
    if given.output_grad.is_empty() {
        return input_grad.fill(A::zero());
    }
    match pooling.shape.kernel[1] {
        1 => write_pairs::<A, OneRow>(pooling, given, input_grad),
        _ => write_pairs::<A, TwoRows>(pooling, given, input_grad),
    }
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
    avx512 if A::USE_AVX512;
    /// Writes the gradient of each window to its first maximum, and zero to the other elements.
    fn write_pairs<A: Accum, R: NumRows>(pooling: &Pooling<'_, A>, given: &Given<'_, A>, input_grad: &mut [A]) {
        let [_, height, width] = pooling.shape.input;
        let [_, out_height, out_width] = pooling.shape.output;
        let images = given.input.chunks_exact(height * width).zip(input_grad.chunks_exact_mut(height * width));
        for ((image, input_grad), grad) in images.zip(given.output_grad.chunks_exact(out_height * out_width)) {
            let rows = R::ROWS * width;
            input_grad[rows * out_height..].fill(A::zero());
            let rows = image.chunks_exact(rows).zip(input_grad.chunks_exact_mut(rows));
            for ((image, to), grad) in rows.zip(grad.chunks_exact(out_width)) {
                to.chunks_exact_mut(width).for_each(|row| row[2 * out_width..].fill(A::zero()));
                let mut done = 0;
                while done < out_width {
                    let (image, to, grad) = (&image[2 * done..], &mut to[2 * done..], &grad[done..]);
                    done += match out_width - done {
                        16.. => write_windows::<A, R, 16>(pooling.lowest, image, width, grad, to),
                        4.. => write_windows::<A, R, 4>(pooling.lowest, image, width, grad, to),
                        2.. => write_windows::<A, R, 2>(pooling.lowest, image, width, grad, to),
                        _ => write_windows::<A, R, 1>(pooling.lowest, image, width, grad, to),
                    };
                }
            }
        }
    }
}

/// Writes the gradients of N neighboring windows, in loops that the compiler can vectorize. Returns N.
#[inline(always)]
fn write_windows<A: Accum, R: NumRows, const N: usize>(
    lowest: A,
    image: &[A],
    width: usize,
    grad: &[A],
    to: &mut [A],
) -> usize {
    let grad = &grad[..N];
    let (mut max, mut argmax) = ([lowest; N], [u32::MAX; N]);
    for r in 0..R::ROWS {
        let row = &image[r * width..][..2 * N];
        for corner in 0..2 {
            let values: [A; N] = std::array::from_fn(|n| row[2 * n + corner]);
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
            let grad_of = |i: usize| if argmax[n] == i as u32 { grad[n] } else { A::zero() };
            (row[2 * n], row[2 * n + 1]) = (grad_of(2 * r), grad_of(2 * r + 1));
        }
    }
    N
}
