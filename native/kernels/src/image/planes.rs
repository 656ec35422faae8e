//! Conversion to (channels, height, width) layout, and the subtraction of a mean image.

use std::ops::Range;

use crate::par;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::memory;

use super::color::saturate;
use super::{GRAIN, Image};

/// A rectangle of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crop {
    /// The columns.
    pub x: Range<usize>,
    /// The rows.
    pub y: Range<usize>,
}

/// The planes of a crop, (channels, height, width), of an image given as its samples, its width and its number of channels. Plane i is
/// the channel `sources[i]`.
///
/// # Panics
/// Panics if the crop or a channel is not within the image.
pub fn crop_planes(samples: &[u8], (width, channels): (usize, usize), sources: &[usize], crop: &Crop) -> Vec<u8> {
    assert!(crop.x.end <= width && sources.iter().all(|c| *c < channels), "the crop exceeds the image");
    let mut planes = memory::filled(0u8, sources.len() * crop.y.len() * crop.x.len());
    for (i, row) in planes.chunks_exact_mut(crop.x.len().max(1)).enumerate() {
        let (source, y) = (sources[i / crop.y.len()], crop.y.start + i % crop.y.len());
        let from = &samples[(y * width + crop.x.start) * channels..(y * width + crop.x.end) * channels];
        row.iter_mut().zip(from.chunks_exact(channels)).for_each(|(to, pixel)| *to = pixel[source]);
    }
    planes
}

/// `out[i] = samples[i] - mean[i]`; without a mean, the converted samples.
///
/// # Panics
/// Panics if a length does not match.
pub fn subtract_mean<T: Element>(samples: &[u8], mean: Option<&[T]>, out: &mut [T]) {
    assert!(samples.len() == out.len() && mean.is_none_or(|m| m.len() == out.len()), "the lengths differ");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        let samples = &samples[chunk * GRAIN..][..out.len()];
        match mean {
            None => out.iter_mut().zip(samples).for_each(|(to, x)| *to = T::from_f64((*x).into())),
            Some(mean) => {
                let means = &mean[chunk * GRAIN..];
                let each = out.iter_mut().zip(samples).zip(means);
                each.for_each(|((to, x), mean)| *to = T::from_f64(f64::from(*x) - mean.to_f64()));
            }
        }
    });
}

/// What is subtracted from the samples of a channel.
#[derive(Clone, Copy, Debug)]
pub enum Mean<'a> {
    /// The mean of the channel.
    Channel(f32),
    /// The mean of each pixel.
    Plane(&'a [f32]),
}

/// The normalization of a channel. Samples of type float32 are ((x - mean) * contrast + illumination) * scale. Those of type int8 are
/// x - round(mean), saturated, and those of type uint8 are not normalized.
#[derive(Clone, Copy, Debug)]
pub struct Normalization<'a> {
    /// The mean.
    pub mean: Mean<'a>,
    /// Multiplies the difference from the mean.
    pub contrast: f32,
    /// Added after the contrast.
    pub illumination: f32,
    /// Multiplies the sum.
    pub scale: f32,
    /// True to mirror rows.
    pub mirror: bool,
}

impl Normalization<'_> {
    #[inline(always)]
    fn normalize<T: Element>(&self, x: u8, mean: f32) -> T {
        let x = f32::from(x);
        match T::DTYPE {
            DType::F32 => T::from_f32(((x - mean) * self.contrast + self.illumination) * self.scale),
            DType::I8 => saturate(x - mean.round()),
            _ => saturate(x),
        }
    }
}

/// Normalizes channel `c` of an image. The mean of a pixel is at its position before mirroring.
///
/// # Panics
/// Panics if a plane does not have one element per pixel.
pub fn normalize_plane<T: Element>(image: Image<'_>, c: usize, by: &Normalization<'_>, out: &mut [T]) {
    assert_eq!(out.len(), image.height * image.width, "the plane differs in size");
    match by.mean {
        Mean::Plane(means) => {
            assert_eq!(means.len(), out.len(), "the mean differs in size");
            map_channel(image, c, by.mirror, out, |x, offset| by.normalize(x, means[offset]));
        }
        Mean::Channel(mean) => {
            let table: [T; 256] = std::array::from_fn(|x| by.normalize(x as u8, mean));
            map_channel(image, c, by.mirror, out, |x, _| table[usize::from(x)]);
        }
    }
}

/// Fills a plane with `f(sample, offset)` of channel `c`, where `offset` is the sample's offset in the plane before mirroring.
fn map_channel<T>(image: Image<'_>, c: usize, mirror: bool, out: &mut [T], f: impl Fn(u8, usize) -> T) {
    let (width, n) = (image.width, image.channels);
    let rows = image.samples.chunks_exact(width * n).zip(out.chunks_exact_mut(width));
    for (y, (row, out)) in rows.enumerate() {
        let samples = row[c..].iter().step_by(n).enumerate().map(|(x, s)| f(*s, y * width + x));
        match mirror {
            true => out.iter_mut().rev().zip(samples).for_each(|(o, s)| *o = s),
            false => out.iter_mut().zip(samples).for_each(|(o, s)| *o = s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_of_a_crop() {
        // Two rows of three pixels with two channels.
        let samples = [0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15];
        let crop = Crop { x: 1..3, y: 0..2 };
        assert_eq!(crop_planes(&samples, (3, 2), &[1, 0], &crop), [11, 12, 14, 15, 1, 2, 4, 5]);
        let mut out = [0f32; 2];
        subtract_mean(&[5, 7], Some(&[1.5, 8.0]), &mut out);
        assert_eq!(out, [3.5, -1.0]);
        let mut out = [0i32; 2];
        subtract_mean(&[5, 7], None, &mut out);
        assert_eq!(out, [5, 7]);
    }

    #[test]
    fn normalized_and_mirrored_channels() {
        let image = Image { samples: &[0, 10, 1, 20, 2, 30, 3, 40], height: 2, width: 2, channels: 2 };
        let mean = Mean::Channel(4.0);
        let by = Normalization { mean, contrast: 2.0, illumination: 1.0, scale: 0.5, mirror: false };
        let mut floats = [0f32; 4];
        normalize_plane(image, 1, &by, &mut floats);
        assert_eq!(floats, [6.5, 16.5, 26.5, 36.5]);
        let by = Normalization { mean: Mean::Plane(&[0.0, 1.0, 2.0, 200.0]), mirror: true, ..by };
        let (mut signed, mut unsigned) = ([0i8; 4], [0u8; 4]);
        normalize_plane(image, 1, &by, &mut signed);
        normalize_plane(image, 1, &by, &mut unsigned);
        assert_eq!((signed, unsigned), ([19, 10, -128, 28], [20, 10, 40, 30]));
    }
}
