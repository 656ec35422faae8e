//! Crops kernels: removes taps that read only padding, such as the border of a 3 x 3 kernel on an image of one pixel.

use super::ConvShape;
use ferromx_core::dtype::Element;

/// The equivalent convolution without the outer taps that read only padding for every output, the same number on both sides of an
/// axis; `None` if there are no such taps.
pub(super) fn cropped(shape: &ConvShape) -> Option<ConvShape> {
    let output = shape.output();
    let crop: [usize; 3] = std::array::from_fn(|d| {
        let (kernel, pad, dilate) = (shape.kernel[d], shape.pad[d], shape.dilate[d]);
        let is_unused = |tap: usize| {
            (output[d].saturating_sub(1) * shape.stride[d] + tap * dilate) < pad
                && (kernel - 1 - tap) * dilate >= pad + shape.input[d]
                && (tap + 1) * dilate <= pad
        };
        (0..kernel.saturating_sub(1) / 2).take_while(|tap| is_unused(*tap)).count()
    });
    (crop != [0; 3]).then(|| ConvShape {
        kernel: std::array::from_fn(|d| shape.kernel[d] - 2 * crop[d]),
        pad: std::array::from_fn(|d| shape.pad[d] - crop[d] * shape.dilate[d]),
        ..*shape
    })
}

/// Calls `f(full, cropped)` for each remaining row of taps, with its offset in the weights of `shape` and in those of `inner`.
fn each_row(shape: &ConvShape, inner: &ConvShape, mut f: impl FnMut(usize, usize)) {
    let [planes, height, width] = inner.kernel;
    let first: [usize; 3] = std::array::from_fn(|d| (shape.kernel[d] - inner.kernel[d]) / 2);
    let mut cropped = 0;
    for kernel in 0..inner.weights_len() / (planes * height * width) {
        for plane in 0..planes {
            let from = (kernel * shape.kernel[0] + first[0] + plane) * shape.kernel[1] + first[1];
            for row in from..from + height {
                f(row * shape.kernel[2] + first[2], cropped);
                cropped += width;
            }
        }
    }
}

/// Copies the weights of the cropped convolution `inner` to `to`.
pub(super) fn crop<T: Element>(shape: &ConvShape, weights: &[T], inner: &ConvShape, to: &mut [T]) {
    let len = inner.kernel[2];
    each_row(shape, inner, |full, cropped| {
        to[cropped..cropped + len].copy_from_slice(&weights[full..full + len]);
    });
}

/// The inverse of [`crop`] for gradients: removed taps have gradient zero.
pub(super) fn extend<T: Element>(shape: &ConvShape, weights: &mut [T], inner: &ConvShape, from: &[T]) {
    let len = inner.kernel[2];
    weights.fill(T::default());
    each_row(shape, inner, |full, cropped| {
        weights[full..full + len].copy_from_slice(&from[cropped..cropped + len]);
    });
}
