//! Region-of-interest pooling (Girshick, "Fast R-CNN", 2015).

use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, parallel_rows2, with_scratch};
use crate::pool::lowest;
use num_traits::Zero;
use std::ops::Range;

/// Sizes of a ROI pooling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiPoolShape {
    /// Number of images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image.
    pub input: [usize; 2],
    /// Height and width of the output per region.
    pub output: [usize; 2],
    /// Scale from the coordinates of the regions to pixels.
    pub scale: f64,
}

/// The index for a bin without an element larger than the lowest finite number.
const NO_MAXIMUM: i32 = -1;

/// A region in pixels.
struct PixelRegion {
    image: usize,
    /// First row and column; may lie outside the image.
    start: [i64; 2],
    /// Height and width, at least one.
    size: [i64; 2],
}

impl RoiPoolShape {
    /// A region from its five numbers: image index, x and y of the first corner, x and y of the last one. None if the image does not
    /// exist.
    fn region<T: FloatElement>(&self, roi: &[T]) -> Option<PixelRegion> {
        let number = |i: usize| T::Acc::of(roi[i]).wide();
        // The image index is truncated: -0.4 is image 0.
        let image = number(0).trunc();
        let pixel = |i: usize| (number(i) * self.scale).round().clamp(-1e9, 1e9) as i64;
        let ([left, top], [right, bottom]) = ([pixel(1), pixel(2)], [pixel(3), pixel(4)]);
        (image >= 0.0 && image < self.batch as f64).then(|| PixelRegion {
            image: image as usize,
            start: [top, left],
            size: [(bottom - top + 1).max(1), (right - left + 1).max(1)],
        })
    }

    /// The rows (axis 0) or columns (axis 1) of bin `i`.
    fn bin(&self, region: &PixelRegion, axis: usize, i: usize) -> Range<usize> {
        let size = region.size[axis] as f32 / self.output[axis] as f32;
        let edge = |offset: f32| (offset as i64 + region.start[axis]).clamp(0, self.input[axis] as i64) as usize;
        edge((i as f32 * size).floor())..edge(((i + 1) as f32 * size).ceil())
    }

    fn bins(&self) -> usize {
        self.output[0] * self.output[1]
    }

    fn plane(&self) -> usize {
        self.input[0] * self.input[1]
    }
}

/// Writes the maximum of each bin of each region and its index in the plane: (regions, channels, height, width). An empty bin has
/// the value 0, and one in which no element is larger than the lowest finite number has that number; both have the index -1.
/// `rois` is (regions, 5). The bins of a region whose image does not exist are empty.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn roi_pool<T: FloatElement>(s: &RoiPoolShape, x: &[T], rois: &[T], y: &mut [T], argmax: &mut [i32]) {
    let regions: Vec<_> = rois.chunks_exact(5).map(|roi| s.region(roi)).collect();
    let (bins, plane) = (s.bins(), s.plane());
    parallel_rows2((y, bins), (argmax, bins), 8, |i, y, argmax| {
        let Some(region) = &regions[i / s.channels] else {
            y.fill(T::default());
            argmax.fill(NO_MAXIMUM);
            return;
        };
        let image = &x[(region.image * s.channels + i % s.channels) * plane..][..plane];
        for (bin, (y, index)) in y.iter_mut().zip(argmax).enumerate() {
            let (rows, columns) = (s.bin(region, 0, bin / s.output[1]), s.bin(region, 1, bin % s.output[1]));
            let is_empty = rows.is_empty() || columns.is_empty();
            (*y, *index) = (if is_empty { T::default() } else { lowest::<T>().store() }, NO_MAXIMUM);
            for row in rows {
                for column in columns.clone() {
                    let pixel = row * s.input[1] + column;
                    if T::Acc::of(image[pixel]) > T::Acc::of(*y) {
                        (*y, *index) = (image[pixel], pixel as i32);
                    }
                }
            }
        }
    });
}

/// The gradient of [`roi_pool`] with respect to `x`, from the indices of the maxima.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn roi_pool_backward<T: FloatElement>(
    s: &RoiPoolShape,
    rois: &[T],
    argmax: &[i32],
    y_grad: &[T],
    x_grad: &mut [T],
) {
    let (bins, plane) = (s.bins(), s.plane());
    let images: Vec<_> = rois.chunks_exact(5).map(|roi| s.region(roi).map(|r| r.image)).collect();
    parallel_rows(x_grad, plane, 1, |i, x_grad| {
        with_scratch(plane, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            for (r, _) in images.iter().enumerate().filter(|(_, image)| **image == Some(i / s.channels)) {
                let first = (r * s.channels + i % s.channels) * bins;
                for (index, grad) in argmax[first..first + bins].iter().zip(&y_grad[first..first + bins]) {
                    if let Some(sum) = usize::try_from(*index).ok().and_then(|index| sums.get_mut(index)) {
                        *sum += T::Acc::of(*grad);
                    }
                }
            }
            x_grad.iter_mut().zip(&*sums).for_each(|(to, sum)| *to = sum.store());
        });
    });
}
