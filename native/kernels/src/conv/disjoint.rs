//! The gradient of the input of convolutions whose windows tile the input, such as the doubling of an image by a deconvolution. Every input
//! element belongs to one window, so the gradient is that of a pointwise convolution with a channel per tap, whose channels are then
//! interleaved.

use super::ConvShape;
use super::phases::interleave;
use crate::float::Accum;
use crate::par::{parallel_rows, with_scratch};

/// True if the windows are disjoint, have several elements and cover the input.
pub(super) fn applies(shape: &ConvShape) -> bool {
    let output = shape.output();
    let tiles = |d: usize| {
        let is_disjoint = shape.kernel[d] == shape.stride[d] && (shape.dilate[d] == 1 || shape.kernel[d] == 1);
        is_disjoint && shape.pad[d] == 0 && output[d] * shape.stride[d] == shape.input[d]
    };
    shape.taps() > 1 && (0..3).all(tiles)
}

/// Elements of the gradient of the pointwise convolution that are computed at a time.
const BLOCK_ELEMENTS: usize = 1 << 18;

/// Computes the gradient of the input, given `pointwise(shape, output_grad, grad)`, which computes that of a pointwise convolution with the
/// same weights.
pub(super) fn backward_data<T: Accum>(
    shape: &ConvShape,
    output_grad: &[T],
    pointwise: impl Fn(&ConvShape, &[T], &mut [T]),
    input_grad: &mut [T],
) {
    let image_len = shape.in_channels * shape.input_plane();
    let images = (BLOCK_ELEMENTS / image_len).clamp(1, shape.batch);
    let output_len = shape.output_len() / shape.batch;
    with_scratch(images * image_len, |grad: &mut [T]| {
        let blocks = input_grad.chunks_mut(images * image_len).zip(output_grad.chunks(images * output_len));
        for (input_grad, output_grad) in blocks {
            let one_tap = ConvShape {
                batch: input_grad.len() / image_len,
                in_channels: shape.in_channels * shape.taps(),
                input: shape.output(),
                kernel: [1; 3],
                stride: [1; 3],
                dilate: [1; 3],
                ..*shape
            };
            let grad = &mut grad[..input_grad.len()];
            pointwise(&one_tap, output_grad, grad);
            interleave_taps(shape, grad, input_grad);
        }
    });
}

/// Interleaves channels of (taps, output plane) to channels of the input.
fn interleave_taps<T: Accum>(shape: &ConvShape, grad: &[T], input_grad: &mut [T]) {
    let (plane, [_, out_height, out_width]) = (shape.input_plane(), shape.output());
    let [depth, height, width] = shape.kernel;
    let tap_len = plane / shape.taps();
    const GRAIN: usize = 1 << 14;
    parallel_rows(input_grad, plane, (GRAIN / plane).max(1), |channel, to| {
        let taps = &grad[channel * plane..(channel + 1) * plane];
        for (row, to) in to.chunks_exact_mut(shape.input[2]).enumerate() {
            let (d, h) = (row / shape.input[1], row % shape.input[1]);
            let tap = (d % depth * height + h % height) * width;
            let start = (d / depth * out_height + h / height) * out_width;
            let row_of = |tap: usize| &taps[tap * tap_len + start..][..out_width];
            if width == 2 {
                interleave(row_of(tap), row_of(tap + 1), to);
                continue;
            }
            for w in 0..width {
                to[w..].iter_mut().step_by(width).zip(row_of(tap + w)).for_each(|(to, x)| *to = *x);
            }
        }
    });
}
