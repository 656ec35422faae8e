//! The backward pass.

use super::forward::{divisor, each_strided};
use super::{PlaneWindows, PoolKind, PoolPower, PoolShape};
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use num_traits::Zero;

/// The gradient of [`pool_forward`](super::pool_forward) with respect to its input.
///
/// `input` and `output` are those of the forward pass, `output_grad` the gradient of `output`; `input_grad` is overwritten.
/// `input` is read for the maximum and for powers, `output` for powers only; otherwise they may be empty.
///
/// # Panics
/// When a slice that is used does not have the length that `shape` implies, or a stride is zero.
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
            if shape.is_disjoint_2x2() {
                return max_2x2(shape, input, output_grad, input_grad);
            }
            for_each_plane(shape, output_grad, input_grad, |plane, grad, sums| {
                max_plane(shape, &input[plane * shape.input_plane()..], grad, sums);
            });
        }
        PoolKind::Average { .. } | PoolKind::Sum | PoolKind::Power(PoolPower::One) if shape.is_global() => {
            let axes = shape.axes();
            let count = match kind {
                PoolKind::Average { count_include_pad } => divisor(&axes, count_include_pad, [0; 3]),
                _ => 1,
            };
            let divisor = T::Acc::count(count);
            parallel_rows(input_grad, shape.input_plane(), shape.grain(), |i, grad| {
                grad.fill((T::Acc::of(output_grad[i]) / divisor).store());
            });
        }
        PoolKind::Average { .. } | PoolKind::Sum | PoolKind::Power(PoolPower::One) => {
            for_each_plane(shape, output_grad, input_grad, |_, grad, sums| sum_plane(shape, kind, grad, sums));
        }
        PoolKind::Power(power) => {
            shape.check(input.len(), output.len());
            for_each_plane(shape, output_grad, input_grad, |plane, grad, sums| {
                let output = &output[plane * shape.output_plane()..];
                power_plane(shape, power, &input[plane * shape.input_plane()..], output, grad, sums);
            });
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
        with_scratch(plane, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            f(i, &output_grad[i * out_plane..(i + 1) * out_plane], sums);
            input_grad.iter_mut().zip(sums.iter()).for_each(|(grad, sum)| *grad = sum.store());
        });
    });
}

/// The index of the maximum of a window in which no element is larger than the lowest finite number.
const NO_MAXIMUM: usize = usize::MAX;

fn max_plane<T: FloatElement>(shape: &PoolShape, image: &[T], grad: &[T], sums: &mut [T::Acc]) {
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
                    if inner == 1 {
                        each_strided(from, stride, windows, |i, x, window| keep_larger(window, start + i * stride, x));
                    } else {
                        for (i, window) in windows.enumerate() {
                            let offset = i / inner * stride + i % inner;
                            keep_larger(window, start + offset, from[offset]);
                        }
                    }
                }
            }
        }
    }
}

fn sum_plane<T: FloatElement>(shape: &PoolShape, kind: PoolKind, grad: &[T], sums: &mut [T::Acc]) {
    let axes = shape.axes();
    let scale = |output: [usize; 3], i: usize| {
        let grad = T::Acc::of(grad[i]);
        match kind {
            PoolKind::Average { count_include_pad } => grad / T::Acc::count(divisor(&axes, count_include_pad, output)),
            _ => grad,
        }
    };
    add_windows(shape, scale, sums, |sum, scale, _| *sum += scale);
}

/// The gradient of the power mean: d/dx of the p-th root of the sum of p-th powers is `(x / y)^(p - 1)`, or zero where y is zero.
fn power_plane<T: FloatElement>(
    shape: &PoolShape,
    power: PoolPower,
    image: &[T],
    output: &[T],
    grad: &[T],
    sums: &mut [T::Acc],
) {
    let raise = |x: T| {
        let x = T::Acc::of(x);
        if power == PoolPower::Three { x * x } else { x }
    };
    let scale = |_, i: usize| {
        let y = raise(output[i]);
        if y.is_zero() { y } else { T::Acc::of(grad[i]) / y }
    };
    add_windows(shape, scale, sums, |sum, scale, i| *sum += scale * raise(image[i]));
}

/// Calls `add(&mut sums[i], scale, i)` for every element `i` of every window. `scale(coordinates, index)` is evaluated once per
/// window.
#[inline(always)]
fn add_windows<A: Accum>(
    shape: &PoolShape,
    scale: impl Fn([usize; 3], usize) -> A,
    sums: &mut [A],
    add: impl Fn(&mut A, A, usize),
) {
    let axes = shape.axes();
    let ([depth, height, width], inner) = (&axes, shape.inner);
    let row = width.output * inner;
    with_scratch(row, |scales: &mut [A]| {
        for r in 0..depth.output * height.output {
            let (d, h) = (r / height.output, r % height.output);
            for (i, to) in scales.iter_mut().enumerate() {
                *to = scale([d, h, i / inner], r * row + i);
            }
            for d in depth.window(d) {
                for h in height.window(h) {
                    let start = (d * height.input + h) * width.input * inner;
                    for (w, scales) in scales.chunks_exact(inner).enumerate() {
                        let window = width.window(w);
                        let window = start + window.start * inner..start + window.end * inner;
                        for (x, sums) in sums[window.clone()].chunks_exact_mut(inner).enumerate() {
                            for (i, (sum, scale)) in sums.iter_mut().zip(scales).enumerate() {
                                add(sum, *scale, window.start + x * inner + i);
                            }
                        }
                    }
                }
            }
        }
    });
}

/// Max pooling over disjoint 2 x 2 windows: every input element belongs to at most one window, so its gradient is written once.
fn max_2x2<T: FloatElement>(shape: &PoolShape, input: &[T], output_grad: &[T], input_grad: &mut [T]) {
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
            max_2x2_image(image, shape.input[2], grad, shape.output[2], input_grad);
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Writes each element of `grad` to the first maximum of its window, and zero to the other elements.
    fn max_2x2_image<T: FloatElement>(image: &[T], width: usize, grad: &[T], out_width: usize, input_grad: &mut [T]) {
        let rows = 2 * width * (grad.len() / out_width);
        input_grad[rows..].fill(T::default());
        let row_pairs = image.chunks_exact(2 * width).zip(input_grad.chunks_exact_mut(2 * width));
        for ((image, to), grad) in row_pairs.zip(grad.chunks_exact(out_width)) {
            let ((a, b), (to_a, to_b)) = (image.split_at(width), to.split_at_mut(width));
            to_a[2 * out_width..].fill(T::default());
            to_b[2 * out_width..].fill(T::default());
            let mut done = 0;
            while done < out_width {
                let (a, b, to_a, to_b) = (&a[2 * done..], &b[2 * done..], &mut to_a[2 * done..], &mut to_b[2 * done..]);
                let grad = &grad[done..];
                done += match out_width - done {
                    16.. => write_windows::<T, 16>(a, b, grad, to_a, to_b),
                    4.. => write_windows::<T, 4>(a, b, grad, to_a, to_b),
                    2.. => write_windows::<T, 2>(a, b, grad, to_a, to_b),
                    _ => write_windows::<T, 1>(a, b, grad, to_a, to_b),
                };
            }
        }
    }
}

/// Writes the gradients of N neighbouring windows of the rows `a` and `b`, in loops that the compiler can vectorise. Returns N.
#[inline(always)]
fn write_windows<T: FloatElement, const N: usize>(
    a: &[T],
    b: &[T],
    grad: &[T],
    to_a: &mut [T],
    to_b: &mut [T],
) -> usize {
    let (a, b, grad) = (&a[..2 * N], &b[..2 * N], &grad[..N]);
    let (to_a, to_b) = (&mut to_a[..2 * N], &mut to_b[..2 * N]);
    let (mut max, mut argmax) = ([super::lowest::<T>(); N], [u32::MAX; N]);
    for (i, (row, corner)) in [(a, 0), (a, 1), (b, 0), (b, 1)].into_iter().enumerate() {
        let values: [T::Acc; N] = std::array::from_fn(|n| T::Acc::of(row[2 * n + corner]));
        for n in 0..N {
            let larger = values[n] > max[n];
            argmax[n] = if larger { i as u32 } else { argmax[n] };
            max[n] = if larger { values[n] } else { max[n] };
        }
    }
    for n in 0..N {
        let grad_of = |i: u32| if argmax[n] == i { grad[n] } else { T::default() };
        (to_a[2 * n], to_a[2 * n + 1]) = (grad_of(0), grad_of(1));
        (to_b[2 * n], to_b[2 * n + 1]) = (grad_of(2), grad_of(3));
    }
    N
}
