//! Convolutions with one input and one output channel per group, in floating point, which holds their sums exactly.

use super::epilogue::Channels;
use super::{Encoder, Int8, OutputElement};
use crate::conv::{ConvEpilogue, ConvShape, conv_forward};
use crate::float::FloatElement;
use crate::par::{self, with_scratch};
use crate::simd::per_isa;

/// Channels computed at once.
const BLOCK: usize = 8;
/// Largest kernel whose sums of products of 9-bit integers single precision holds.
const SMALL_KERNEL: usize = (1 << 24) / (255 * 255);

/// `out` = the convolution of each plane of `x` with its kernel. `weights` are the terms `w - zero`, `kernel` for each channel.
pub(super) fn depthwise<T: OutputElement>(
    shape: &ConvShape,
    x: Int8<'_>,
    encoder: Encoder,
    weights: &[i32],
    channels: &Channels,
    out: &mut [T],
) {
    match shape.kernel[1] * shape.kernel[2] <= SMALL_KERNEL {
        true => convolve::<f32, T>(shape, x, encoder, weights, channels, out),
        false => convolve::<f64, T>(shape, x, encoder, weights, channels, out),
    }
}

fn convolve<F: FloatElement, T: OutputElement>(
    shape: &ConvShape,
    x: Int8<'_>,
    encoder: Encoder,
    weights: &[i32],
    channels: &Channels,
    out: &mut [T],
) {
    let [_, height, width] = shape.input;
    let [_, rows, cols] = shape.output();
    let (taps, plane, source) = (shape.kernel[1] * shape.kernel[2], rows * cols, height * width);
    if plane == 0 {
        return;
    }
    let image = shape.out_channels * plane;
    for (image, out) in x.bytes.chunks_exact(shape.in_channels * source).zip(out.chunks_exact_mut(image)) {
        par::parallel_rows(out, BLOCK * plane, 1, |block, out| {
            let (first, count) = (block * BLOCK, out.len() / plane);
            let part = ConvShape { batch: 1, groups: count, in_channels: count, out_channels: count, ..*shape };
            with_scratch(count * (source + plane + taps), |numbers: &mut [F]| {
                let (data, numbers) = numbers.split_at_mut(count * source);
                let (kernels, sums) = numbers.split_at_mut(count * taps);
                centre(&image[first * source..][..count * source], encoder, data);
                for (to, from) in kernels.iter_mut().zip(&weights[first * taps..]) {
                    *to = F::from_f64(f64::from(*from));
                }
                conv_forward(&part, data, kernels, &ConvEpilogue::default(), sums);
                for (i, (sums, out)) in sums.chunks_exact(plane).zip(out.chunks_exact_mut(plane)).enumerate() {
                    with_scratch(plane, |integers: &mut [i32]| {
                        round(sums, integers);
                        channels.finish(first + i, integers, out);
                    });
                }
            });
        });
    }
}

per_isa! {
    /// The numbers `x - zero`.
    fn centre<F: FloatElement>(x: &[u8], encoder: Encoder, out: &mut [F]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = F::from_f32((i32::from(x ^ encoder.flip) - encoder.zero) as f32);
        }
    }
}

per_isa! {
    /// Integers stored as floating-point numbers.
    fn round<F: FloatElement>(x: &[F], out: &mut [i32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x.to_f64() as i32;
        }
    }
}
