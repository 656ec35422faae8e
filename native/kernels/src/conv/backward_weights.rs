//! The gradients of weights and bias.

use super::geometry::Geometry;
use super::implicit::with_plans;
use super::{ConvShape, check_len, depthwise};
use crate::float::{Accum, Real, with_wide, with_wide_mut};
use crate::par::{MatMut, MatRef, num_threads, parallel_blocks, parallel_rows, with_scratch};
use crate::simd::microkernel::{MicroKernel, Panel};
use crate::simd::window::{WindowElement, WindowPlan};
use num_traits::Zero;
use std::ops::Range;

/// Pixels that are multiplied at a time: the inner dimension of the microkernel.
const BLOCK: usize = 512;
/// The most parts of the batch whose gradients are computed apart from each other and added at the end.
const PARTS: usize = 4;
/// The most bytes of gradients that are computed apart.
const PART_BYTES: usize = 16 << 20;

/// Writes the gradient of the weights, given that of the output. It is summed over parts of the batch, whose number
/// depends on the shape only, and then over the parts in order.
///
/// # Panics
/// When a slice does not have the elements that `shape` says.
pub fn conv_backward_weights<T: Real>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    with_wide(input, |input| {
        with_wide(output_grad, |output_grad| {
            with_wide_mut(weights_grad, |weights_grad| backward(shape, input, output_grad, weights_grad));
        });
    });
}

fn backward<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    shape.check();
    check_len("input", input.len(), shape.input_len(), shape);
    check_len("output", output_grad.len(), shape.output_len(), shape);
    check_len("weights", weights_grad.len(), shape.weights_len(), shape);
    let geometry = shape.windows();
    if weights_grad.is_empty() {
        return;
    }
    if shape.batch == 0 || geometry.pixels() == 0 {
        return weights_grad.fill(T::zero());
    }
    if depthwise::is_depthwise(shape) {
        return depthwise::backward_weights(shape, input, output_grad, weights_grad);
    }
    let (len, depth) = (weights_grad.len(), shape.depth());
    let parts = PARTS.min(shape.batch).min((PART_BYTES / (len * size_of::<T>())).max(2));
    let product = Product { shape, kernel: T::microkernel(), geometry: &geometry, input, output_grad };
    with_scratch(parts * len, |sums: &mut [T]| {
        // More threads than parts and groups divide the columns, which changes no result.
        let nr = product.kernel.nr();
        let columns = (num_threads().div_ceil(parts * shape.groups)).min(depth.div_ceil(nr));
        let columns = depth.div_ceil(columns).next_multiple_of(nr);
        let out = MatMut::row_major(sums, parts * shape.out_channels, depth);
        parallel_blocks(out, shape.group_out(), columns, |row, column, block| {
            let (part, group) = (row / shape.out_channels, row % shape.out_channels / shape.group_out());
            let images = shape.batch * part / parts..shape.batch * (part + 1) / parts;
            product.columns(group, images, column, block);
        });
        let sums = &*sums;
        parallel_rows(weights_grad, 1 << 14, 1, |i, grad| {
            grad.copy_from_slice(&sums[i << 14..][..grad.len()]);
            for part in 1..parts {
                let from = &sums[part * len + (i << 14)..];
                grad.iter_mut().zip(from).for_each(|(sum, x)| *sum += *x);
            }
        });
    });
}

/// The lanes that the windows of some pixels are collected in.
fn width(pixels: usize) -> usize {
    pixels.next_multiple_of(16)
}

struct Product<'a, T: 'static> {
    shape: &'a ConvShape,
    kernel: &'static MicroKernel<T>,
    geometry: &'a Geometry,
    input: &'a [T],
    output_grad: &'a [T],
}

/// Pixels of an image.
struct Piece {
    image: usize,
    pixels: Range<usize>,
}

impl<T: WindowElement> Product<'_, T> {
    /// The gradient with respect to some columns (channels and taps) of the weights of a group, over some images.
    fn columns(&self, group: usize, images: Range<usize>, column: usize, mut out: MatMut<'_, T>) {
        let (kernel, rows, cols) = (self.kernel, out.rows(), out.cols());
        with_plans(BLOCK / self.geometry.pixels() + 2, |plans| {
            with_scratch(kernel.packed_a_len(rows, BLOCK), |a: &mut [T]| {
                with_scratch(2 * kernel.packed_b_len(kernel.nr(), BLOCK), |buffer: &mut [T]| {
                    let (b, windows) = buffer.split_at_mut(kernel.nr() * BLOCK);
                    let mut first = true;
                    self.blocks(images, |pieces| {
                        let depth: usize = pieces.iter().map(|piece| piece.pixels.len()).sum();
                        self.pack_grads(group, pieces, depth, a);
                        self.plan(pieces, plans);
                        for col in (0..cols).step_by(kernel.nr()) {
                            let columns = column + col..column + cols.min(col + kernel.nr());
                            self.pack_windows(group, pieces, columns.clone(), plans, windows, b);
                            for row in (0..rows).step_by(kernel.mr()) {
                                let tile = out.block(row, col, kernel.mr().min(rows - row), columns.len());
                                let a = Panel { data: &a[row * depth..], step: kernel.mr() };
                                let b = Panel { data: &*b, step: kernel.nr() };
                                kernel.tile(depth, T::one(), a, b, tile, !first);
                            }
                        }
                        first = false;
                    });
                });
            });
        });
    }

    /// Cuts the pixels of the images into blocks of up to `BLOCK`, which may span images.
    fn blocks(&self, images: Range<usize>, mut f: impl FnMut(&[Piece])) {
        let pixels = self.geometry.pixels();
        let total = images.len() * pixels;
        let len = total.div_ceil(total.div_ceil(BLOCK));
        let mut pieces = Vec::with_capacity(len.div_ceil(pixels) + 1);
        for start in (0..total).step_by(len) {
            pieces.clear();
            let mut at = start;
            let end = (start + len).min(total);
            while at < end {
                let (image, pixel) = (at / pixels, at % pixels);
                let count = (pixels - pixel).min(end - at);
                pieces.push(Piece { image: images.start + image, pixels: pixel..pixel + count });
                at += count;
            }
            f(&pieces);
        }
    }

    /// Packs the gradients of the output: a row for each channel of the group, a step for each pixel.
    fn pack_grads(&self, group: usize, pieces: &[Piece], depth: usize, out: &mut [T]) {
        let (rows, pixels, mr) = (self.shape.group_out(), self.geometry.pixels(), self.kernel.mr());
        let mut done = 0;
        for piece in pieces {
            let channel = piece.image * self.shape.out_channels + group * rows;
            let grads = &self.output_grad[channel * pixels + piece.pixels.start..];
            let grads = MatRef::new(grads, rows, piece.pixels.len(), pixels, 1);
            for row in (0..rows).step_by(mr) {
                let panel = &mut out[row * depth + done * mr..][..mr * piece.pixels.len()];
                self.kernel.pack_a(grads.block(row, 0, mr.min(rows - row), piece.pixels.len()), panel);
            }
            done += piece.pixels.len();
        }
    }

    /// Plans the windows of each piece.
    fn plan(&self, pieces: &[Piece], plans: &mut [WindowPlan]) {
        if !self.geometry.is_pointwise() {
            for (piece, plan) in pieces.iter().zip(plans) {
                let len = piece.pixels.len();
                self.geometry.plan(piece.pixels.start, len, width(len), plan);
            }
        }
    }

    /// Packs the windows: a step for each pixel, side by side some columns of the weights.
    fn pack_windows(
        &self,
        group: usize,
        pieces: &[Piece],
        columns: Range<usize>,
        plans: &[WindowPlan],
        windows: &mut [T],
        out: &mut [T],
    ) {
        let (channels, plane) = (self.shape.group_in(), self.geometry.plane());
        let mut done = 0;
        for (piece, plan) in pieces.iter().zip(plans) {
            let len = piece.pixels.len();
            let first = (piece.image * self.shape.in_channels + group * channels) * plane;
            let image = &self.input[first..first + channels * plane];
            let to = &mut out[done * self.kernel.nr()..];
            let rows = if self.geometry.is_pointwise() {
                MatRef::new(&image[columns.start * plane + piece.pixels.start..], columns.len(), len, plane, 1)
            } else {
                T::pack(plan, image, columns.clone(), windows);
                MatRef::new(&*windows, columns.len(), len, width(len), 1)
            };
            self.kernel.pack_b(rows.t(), to);
            done += len;
        }
    }
}

/// Writes the gradient of the bias: the sum of the output's gradient over images and pixels.
///
/// # Panics
/// When a slice does not have the elements that `shape` says.
pub fn conv_backward_bias<T: Real>(shape: &ConvShape, output_grad: &[T], bias_grad: &mut [T]) {
    check_len("output", output_grad.len(), shape.output_len(), shape);
    check_len("bias", bias_grad.len(), shape.out_channels, shape);
    let pixels = shape.output_plane();
    let grain = ((1 << 14) / (shape.batch * pixels).max(1)).max(1);
    parallel_rows(bias_grad, 1, grain, |channel, sum| {
        let planes = (0..shape.batch).map(|n| &output_grad[(n * shape.out_channels + channel) * pixels..][..pixels]);
        sum[0] = planes.map(total).sum::<T::Acc>().store();
    });
}

crate::simd::per_isa! {
    /// The sum of adjacent elements, in lanes.
    fn total<T: Real>(values: &[T]) -> T::Acc {
        const LANES: usize = 32;
        let mut lanes = [T::Acc::zero(); LANES];
        let blocks = values.chunks_exact(LANES);
        lanes.iter_mut().zip(blocks.remainder()).for_each(|(lane, x)| *lane += T::Acc::of(*x));
        for block in blocks {
            lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane += T::Acc::of(*x));
        }
        lanes.into_iter().sum()
    }
}
