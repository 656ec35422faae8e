//! Conversion to (channels, height, width) layout, and the subtraction of a mean image.

use std::ops::Range;

use crate::par;
use ferromx_core::dtype::Element;
use ferromx_core::memory;

use super::GRAIN;

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
}
