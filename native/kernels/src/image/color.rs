//! Color augmentation of images, and conversion to network inputs.

use crate::par;
use ferromx_core::dtype::{DType, Element};

use super::GRAIN;

/// The weights of red, green and blue in the gray level (ITU-R BT.601).
const GRAY: [f32; 3] = [0.299, 0.587, 0.114];

/// Converts to the element type. Integers are truncated and saturated.
#[inline(always)]
pub(crate) fn saturate<T: Element>(x: f32) -> T {
    match T::DTYPE {
        DType::U8 => T::from_f32(x.clamp(0.0, 255.0)),
        DType::I8 => T::from_f32(x.clamp(-128.0, 127.0)),
        _ => T::from_f32(x),
    }
}

/// A color change applied to all pixels of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Multiplies by a scale.
    Brightness(f32),
    /// Multiplies the difference from the mean gray level by a scale.
    Contrast(f32),
    /// Multiplies the difference from the gray level of the pixel by a scale.
    Saturation(f32),
    /// Rotates the hue by this fraction of the color circle.
    Hue(f32),
    /// Adds a color.
    Shift([f32; 3]),
}

#[inline(always)]
fn gray(pixel: [f32; 3]) -> f32 {
    GRAY[0] * pixel[0] + GRAY[1] * pixel[1] + GRAY[2] * pixel[2]
}

/// The mean brightness of an image of one or three channels.
fn gray_mean<T: Element>(image: &[T], channels: usize) -> f32 {
    if image.is_empty() {
        return 0.0;
    }
    let pixel =
        |p: &[T]| if channels == 3 { gray([p[0].to_f32(), p[1].to_f32(), p[2].to_f32()]) } else { p[0].to_f32() };
    let sum: f64 = image.chunks_exact(channels).map(|p| f64::from(pixel(p))).sum();
    (sum / (image.len() / channels) as f64) as f32
}

/// Applies a change. Saturation, hue and color leave images of one channel unchanged.
///
/// # Panics
/// Panics if the lengths differ.
pub fn adjust<T: Element>(src: Option<&[T]>, channels: usize, change: Change, dst: &mut [T]) {
    if let (Some(src), 3, Change::Saturation(_) | Change::Hue(_) | Change::Shift(_)) = (src, channels, change) {
        assert_eq!(src.len(), dst.len(), "the result differs in size");
        return par::parallel_rows(dst, GRAIN * 3, 1, |chunk, block| {
            block.copy_from_slice(&src[chunk * GRAIN * 3..][..block.len()]);
            change_pixels(block, change);
        });
    }
    if let Some(src) = src {
        dst.copy_from_slice(src);
    }
    match change {
        Change::Brightness(scale) => scale_all(dst, scale, 0.0),
        Change::Contrast(scale) => {
            let mean = gray_mean(dst, channels);
            scale_all(dst, scale, (1.0 - scale) * mean);
        }
        _ if channels != 3 => {}
        Change::Saturation(_) | Change::Hue(_) | Change::Shift(_) => {
            par::parallel_rows(dst, GRAIN * 3, 1, |_, block| change_pixels(block, change));
        }
    }
}

fn scale_all<T: Element>(image: &mut [T], scale: f32, offset: f32) {
    par::parallel_rows(image, GRAIN, 1, |_, block| scale_block(block, scale, offset));
}

/// Pixels in a block, whose channels are deinterleaved.
const BLOCK: usize = 64;

crate::simd::per_isa! {
    fn scale_block<T: Element>(image: &mut [T], scale: f32, offset: f32) {
        image.iter_mut().for_each(|x| *x = saturate(x.to_f32() * scale + offset));
    }

}

crate::simd::per_isa! {
    // For AVX-512, the loops over pixels would be compiled with gathers.
    avx512 if false;
    /// Changes pixels of three channels, [`BLOCK`] at a time.
    fn change_pixels<T: Element>(image: &mut [T], change: Change) {
        if let Change::Shift(color) = change {
            let colors: [f32; 3 * BLOCK] = std::array::from_fn(|i| color[i % 3]);
            for block in image.chunks_mut(3 * BLOCK) {
                block.iter_mut().zip(&colors).for_each(|(x, color)| *x = saturate(x.to_f32() + color));
            }
            return;
        }
        let (mut r, mut g, mut b) = ([0f32; BLOCK], [0f32; BLOCK], [0f32; BLOCK]);
        for block in image.chunks_mut(3 * BLOCK) {
            for (i, pixel) in block.as_chunks::<3>().0.iter().enumerate() {
                (r[i], g[i], b[i]) = (pixel[0].to_f32(), pixel[1].to_f32(), pixel[2].to_f32());
            }
            for ((r, g), b) in r.iter_mut().zip(&mut g).zip(&mut b) {
                let pixel = [*r, *g, *b];
                [*r, *g, *b] = match change {
                    Change::Saturation(scale) => {
                        let rest = (1.0 - scale) * gray(pixel);
                        pixel.map(|x| scale * x + rest)
                    }
                    Change::Hue(rotation) => rotate_hue(pixel, rotation),
                    Change::Shift(_) | Change::Brightness(_) | Change::Contrast(_) => pixel,
                };
            }
            for (i, pixel) in block.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                *pixel = [saturate(r[i]), saturate(g[i]), saturate(b[i])];
            }
        }
    }
}

/// Rotates the hue of a color with components up to 255, in the HSL color space.
#[inline(always)]
fn rotate_hue(pixel: [f32; 3], rotation: f32) -> [f32; 3] {
    let [r, g, b] = pixel.map(|x| x / 255.0);
    let (high, low) = (r.max(g).max(b), r.min(g).min(b));
    let (range, lightness) = (high - low, (high + low) / 2.0);
    let saturation = if lightness < 0.5 { range / (high + low) } else { range / (2.0 - high - low) };
    // The hue on a circle of twelve: red at 0, green at 4, blue at 8.
    let hue = if high == r {
        2.0 * (g - b) / range
    } else if high == g {
        2.0 * (b - r) / range + 4.0
    } else {
        2.0 * (r - g) / range + 8.0
    };
    let (hue, amplitude) = (hue + 12.0 * rotation, saturation * lightness.min(1.0 - lightness));
    let rotated = [0.0f32, 8.0, 4.0].map(|offset| {
        let k = offset + hue;
        let k = k - 12.0 * (k / 12.0).floor();
        255.0 * (lightness - amplitude * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0))
    });
    if range <= f32::EPSILON { pixel } else { rotated }
}

/// PCA lighting: the color to add for the given weights of the three principal components of ImageNet's colors (Krizhevsky et
/// al., "ImageNet classification with deep convolutional neural networks", 2012).
pub fn lighting(weights: [f32; 3]) -> [f32; 3] {
    const VALUES: [f32; 3] = [55.46, 4.794, 1.148];
    const VECTORS: [[f32; 3]; 3] = [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]];
    VECTORS.map(|v| (0..3).map(|k| v[k] * VALUES[k] * weights[k]).sum())
}

/// Converts consecutive images (height, width, channels) to (channels, height, width), with elements divided by 255.
///
/// # Panics
/// Panics if the lengths differ.
pub fn to_tensor<T: Element>(src: &[T], (plane, channels): (usize, usize), dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len(), "the result differs in size");
    par::parallel_rows(dst, plane, 1, |row, dst| {
        let (image, channel) = (row / channels, row % channels);
        let src = &src[image * plane * channels + channel..];
        dst.iter_mut().zip(src.iter().step_by(channels)).for_each(|(d, s)| *d = s.to_f32() / 255.0);
    });
}

/// Subtracts the mean of each channel from consecutive images (channels, height, width) and divides by its standard deviation.
/// Without a source, `dst` is changed in place.
///
/// # Panics
/// Panics if the lengths differ.
pub fn normalize<T: Element>(src: Option<&[T]>, plane: usize, mean_std: &[(f32, f32)], dst: &mut [T]) {
    if let Some(src) = src {
        assert_eq!(src.len(), dst.len(), "the result differs in size");
    }
    par::parallel_rows(dst, plane, 1, |row, dst| {
        let (mean, std) = mean_std[row % mean_std.len()];
        let value = |x: T| -> T {
            match T::DTYPE {
                DType::F64 => T::from_f64((x.to_f64() - f64::from(mean)) / f64::from(std)),
                _ => T::from_f32((x.to_f32() - mean) / std),
            }
        };
        match src {
            Some(src) => dst.iter_mut().zip(&src[row * plane..]).for_each(|(d, s)| *d = value(*s)),
            None => dst.iter_mut().for_each(|d| *d = value(*d)),
        }
    });
}
