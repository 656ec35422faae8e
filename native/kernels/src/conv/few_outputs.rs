//! The gradient of the input for kernels nearly as large as the padded image, which have few outputs. Implicit GEMM would mostly
//! multiply padding zeros; here each tap is multiplied only by the outputs that read it.

use super::ConvShape;
use crate::float::Accum;
use crate::gemm::gemm;
use crate::par::{MatMut, MatRef, parallel_rows, with_scratch};
use std::ops::Range;

/// Minimum ratio of the multiplications of the implicit GEMM to those of this algorithm.
const MIN_SAVING: usize = 4;
/// Minimum number of outputs for which GEMM is faster than adding multiples of kernel rows.
const GEMM_OUTPUTS: usize = 8;
/// Elements of the products that are held in memory at a time.
const BLOCK: usize = 1 << 16;

/// True if this algorithm is faster than implicit GEMM.
pub(super) fn is_profitable(shape: &ConvShape) -> bool {
    let strides = shape.stride.iter().fold(1usize, |product, stride| product.saturating_mul(*stride));
    shape.output_plane().saturating_mul(strides).saturating_mul(MIN_SAVING) <= shape.input_plane()
}

/// Writes the gradient of the input. The slice lengths must match `shape`.
pub(super) fn backward_data<T: Accum>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    let (ins, outs, taps, outputs) = (shape.group_in(), shape.group_out(), shape.taps(), shape.output_plane());
    parallel_rows(input_grad, shape.input_plane(), 1, |i, plane| {
        let (image, channel) = (i / shape.in_channels, i % shape.in_channels);
        let (group, channel) = (channel / ins, channel % ins);
        let grads = &output_grad[(image * shape.groups + group) * outs * outputs..][..outs * outputs];
        let weights = &weights[(group * outs * ins + channel) * taps..];
        plane.fill(T::zero());
        if outputs == 0 || outs == 0 {
            return;
        }
        if outputs < GEMM_OUTPUTS {
            for (o, grads) in grads.chunks_exact(outputs).enumerate() {
                add_windows(shape, grads, &weights[o * ins * taps..][..taps], plane);
            }
            return;
        }
        let grads = MatRef::row_major(grads, outs, outputs);
        let len = (BLOCK / outputs).clamp(1, taps);
        with_scratch(len * outputs, |products: &mut [T]| {
            for first in (0..taps).step_by(len) {
                let count = len.min(taps - first);
                let products = &mut products[..count * outputs];
                let by_tap = MatRef::new(&weights[first..], count, outs, 1, ins * taps);
                gemm(T::one(), by_tap, grads, T::zero(), MatMut::row_major(&mut *products, count, outputs));
                for (tap, products) in (first..).zip(products.chunks_exact(outputs)) {
                    add_tap(shape, tap, products, plane);
                }
            }
        });
    });
}

/// The three coordinates of an index.
fn coordinates(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [index / (height * width), index / width % height, index % width]
}

/// The indices `i < count` for which `first + i * stride` lies in `0..len`.
fn inside(first: isize, stride: usize, count: usize, len: usize) -> Range<usize> {
    let begin = first.min(0).unsigned_abs().div_ceil(stride).min(count);
    let room = usize::try_from(len as isize - first).unwrap_or(0);
    begin..room.div_ceil(stride).clamp(begin, count)
}

/// Input coordinate that `output` reads through `tap` along an axis; may lie in the padding.
fn input_coordinate(shape: &ConvShape, axis: usize, output: usize, tap: usize) -> isize {
    (output * shape.stride[axis] + tap * shape.dilate[axis]) as isize - shape.pad[axis] as isize
}

/// Offset of the input row that an output reads through a tap, or `None` in the padding. Ignores the last coordinate of both.
fn row_of(shape: &ConvShape, output: [usize; 3], tap: [usize; 3]) -> Option<usize> {
    let [d, h] = [0, 1].map(|axis| {
        usize::try_from(input_coordinate(shape, axis, output[axis], tap[axis])).ok().filter(|x| *x < shape.input[axis])
    });
    Some((d? * shape.input[1] + h?) * shape.input[2])
}

/// Adds the kernel of one output channel, scaled by the gradient of each output, to the window of the output.
fn add_windows<T: Accum>(shape: &ConvShape, grads: &[T], kernel: &[T], plane: &mut [T]) {
    let (width, stride) = (shape.kernel[2], shape.dilate[2]);
    for (output, grad) in grads.iter().enumerate() {
        let output = coordinates(output, shape.output());
        let first = input_coordinate(shape, 2, output[2], 0);
        let range = inside(first, stride, width, shape.input[2]);
        if range.is_empty() {
            continue;
        }
        let first = (first + (range.start * stride) as isize) as usize;
        for (row, kernel) in kernel.chunks_exact(width).enumerate() {
            let tap = coordinates(row * width, shape.kernel);
            if let Some(start) = row_of(shape, output, tap) {
                add_multiple(*grad, &kernel[range.clone()], stride, &mut plane[start + first..]);
            }
        }
    }
}

/// Adds the products of one tap, one per output, to the elements that the outputs read through this tap.
fn add_tap<T: Accum>(shape: &ConvShape, tap: usize, products: &[T], plane: &mut [T]) {
    let tap = coordinates(tap, shape.kernel);
    let (out, stride) = (shape.output(), shape.stride[2]);
    let first = input_coordinate(shape, 2, 0, tap[2]);
    let range = inside(first, stride, out[2], shape.input[2]);
    if range.is_empty() {
        return;
    }
    let first = (first + (range.start * stride) as isize) as usize;
    for (row, products) in products.chunks_exact(out[2]).enumerate() {
        if let Some(start) = row_of(shape, coordinates(row * out[2], out), tap) {
            add_multiple(T::one(), &products[range.clone()], stride, &mut plane[start + first..]);
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// `to[i * stride] += a * x[i]`.
    fn add_multiple<T: Accum>(a: T, x: &[T], stride: usize, to: &mut [T]) {
        if stride == 1 {
            to.iter_mut().zip(x).for_each(|(to, x)| *to += a * *x);
        } else {
            to.iter_mut().step_by(stride).zip(x).for_each(|(to, x)| *to += a * *x);
        }
    }
}
