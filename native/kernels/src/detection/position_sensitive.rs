//! Position-sensitive pooling: each bin of a region reads its own input channels (Dai et al., "R-FCN", 2016). Deformable bins are
//! shifted by learned offsets (Dai et al., "Deformable Convolutional Networks", 2017).

use std::ops::Range;

use crate::float::{Accum, FloatElement};
use crate::par;

use super::regions::{Maps, RegionBins, Regions, image_index};

/// The division of a region into bins and of the channels into groups.
#[derive(Clone, Copy, Debug)]
pub struct BinGroups {
    /// Bins per axis.
    pub bins: usize,
    /// Channel groups per axis.
    pub groups: usize,
    /// Scale from the coordinates of the regions to the feature map.
    pub scale: f64,
}

/// A region in coordinates of the feature map.
struct RoiBounds {
    image: Option<usize>,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl BinGroups {
    /// Index of the channel that a bin reads, among those of an output channel.
    fn channel(&self, row: usize, col: usize) -> usize {
        let group = |i: usize| i * self.groups / self.bins;
        group(row) * self.groups + group(col)
    }

    /// The bounds of a region (image, left, top, right, bottom), shifted by `shift` pixels of the feature map.
    fn bounds<T: FloatElement>(&self, roi: &[T], shift: f64) -> RoiBounds {
        let start = |k: usize| roi[k].to_f64().round() * self.scale + shift;
        let end = |k: usize| (roi[k].to_f64().round() + 1.0) * self.scale + shift;
        let (x, y) = (start(1), start(2));
        RoiBounds {
            image: image_index(roi[0].to_f64()),
            x,
            y,
            width: (end(3) - x).max(0.1),
            height: (end(4) - y).max(0.1),
        }
    }
}

/// Averages all pixels of a bin: `PSROIPooling`.
pub struct PositionSensitive<'a, T> {
    /// Rows (image, left, top, right, bottom).
    pub rois: &'a [T],
    /// The shape of the feature maps.
    pub maps: Maps,
    /// The layout of the bins.
    pub layout: BinGroups,
    /// Number of output channels.
    pub channels: usize,
}

impl<T: FloatElement> Regions<T::Acc> for PositionSensitive<'_, T> {
    fn count(&self) -> usize {
        self.rois.len() / 5
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn bins(&self) -> usize {
        self.layout.bins * self.layout.bins
    }

    fn channel_group(&self) -> usize {
        self.layout.groups * self.layout.groups
    }

    fn region(&self, i: usize) -> RegionBins<T::Acc> {
        let (n, maps) = (self.layout.bins, &self.maps);
        let bounds = self.layout.bounds(&self.rois[5 * i..], 0.0);
        let mut region = RegionBins::new(bounds.image, 0, n * n);
        // The bounds of bins are computed in the element type, because their rounding decides which pixels they contain.
        let span = |i: usize, size: f64, start: f64, len: usize| -> Range<usize> {
            let (size, start) = (T::Acc::of(size) / T::Acc::count(n), T::Acc::of(start));
            let low = (T::Acc::count(i) * size + start).wide().floor().clamp(0.0, len as f64);
            let high = (T::Acc::count(i + 1) * size + start).wide().ceil().clamp(0.0, len as f64);
            low as usize..high as usize
        };
        for row in 0..n {
            for col in 0..n {
                let rows = span(row, bounds.height, bounds.y, maps.height);
                let cols = span(col, bounds.width, bounds.x, maps.width);
                let count = rows.len() * cols.len();
                region.add_pixels(maps, rows, cols);
                region.finish_bin(self.layout.channel(row, col), count);
            }
        }
        region
    }
}

/// Averages sampling points of shifted bins: `DeformablePSROIPooling`.
pub struct DeformableBins<'a, T> {
    /// Rows (image, left, top, right, bottom).
    pub rois: &'a [T],
    /// Offsets of the bins, (regions, classes, x and y, parts, parts); `None` if the bins are not shifted.
    pub offsets: Option<&'a [T]>,
    /// The shape of the feature maps.
    pub maps: Maps,
    /// The layout of the bins.
    pub layout: BinGroups,
    /// Number of output channels, over all classes.
    pub channels: usize,
    /// Number of channel classes, each with its own offsets.
    pub classes: usize,
    /// Parts of a region per axis that have their own offsets.
    pub parts: usize,
    /// Sampling points of a bin per axis.
    pub points: usize,
    /// Multiplier of the offsets.
    pub offset_scale: f64,
}

impl<T: FloatElement> DeformableBins<'_, T> {
    /// Indices of the x and y offset of a bin.
    fn offset_indices(&self, i: usize, row: usize, col: usize) -> (usize, usize) {
        let part = |i: usize| i * self.parts / self.layout.bins;
        let plane = self.parts * self.parts;
        let x = 2 * i * plane + part(row) * self.parts + part(col);
        (x, x + plane)
    }

    /// Calls `f(y, x)` for the sampling points of a bin that lie within the image.
    fn for_each_point(&self, i: usize, bounds: &RoiBounds, row: usize, col: usize, mut f: impl FnMut(f64, f64)) {
        let n = self.layout.bins as f64;
        let (bin_height, bin_width) = (bounds.height / n, bounds.width / n);
        let (x, y) = self.offset_indices(i, row, col);
        let offset = |index: usize| self.offsets.map_or(0.0, |o| o[index].to_f64() * self.offset_scale);
        let left = col as f64 * bin_width + bounds.x + offset(x) * bounds.width;
        let top = row as f64 * bin_height + bounds.y + offset(y) * bounds.height;
        let (width, height) = (self.maps.width as f64, self.maps.height as f64);
        for a in 0..self.points {
            for b in 0..self.points {
                let y = top + a as f64 * bin_height / self.points as f64;
                let x = left + b as f64 * bin_width / self.points as f64;
                if x >= -0.5 && x <= width - 0.5 && y >= -0.5 && y <= height - 0.5 {
                    f(y.clamp(0.0, height - 1.0), x.clamp(0.0, width - 1.0));
                }
            }
        }
    }

    fn bounds(&self, i: usize) -> RoiBounds {
        self.layout.bounds(&self.rois[5 * (i / self.classes)..], -0.5)
    }
}

/// The pixels on either side of a coordinate (equal if it is an integer), and its fraction.
fn neighbors(x: f64) -> ([usize; 2], f64) {
    ([x.floor() as usize, x.ceil() as usize], x - x.floor())
}

impl<T: FloatElement> Regions<T::Acc> for DeformableBins<'_, T> {
    fn count(&self) -> usize {
        self.rois.len() / 5 * self.classes
    }

    fn channels(&self) -> usize {
        self.channels / self.classes
    }

    fn bins(&self) -> usize {
        self.layout.bins * self.layout.bins
    }

    fn channel_group(&self) -> usize {
        self.layout.groups * self.layout.groups
    }

    fn region(&self, i: usize) -> RegionBins<T::Acc> {
        let n = self.layout.bins;
        let bounds = self.bounds(i);
        let first = i % self.classes * (self.channels / self.classes);
        let mut region = RegionBins::new(bounds.image, first, n * n);
        for row in 0..n {
            for col in 0..n {
                let mut count = 0;
                self.for_each_point(i, &bounds, row, col, |y, x| {
                    let ((y, fy), (x, fx)) = (neighbors(y), neighbors(x));
                    region.add_interpolated(&self.maps, y, x, fy, fx);
                    count += 1;
                });
                region.finish_bin(self.layout.channel(row, col), count);
            }
        }
        region
    }
}

/// The gradient with respect to the offsets.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn offsets_backward<T: FloatElement>(dy: &[T], data: &[T], params: &DeformableBins<'_, T>, offsets: &mut [T]) {
    let (n, maps) = (params.layout.bins, &params.maps);
    let (channels, group) = (Regions::<T::Acc>::channels(params), Regions::<T::Acc>::channel_group(params));
    let plane = 2 * params.parts * params.parts;
    par::parallel_rows(offsets, plane, 1, |i, offsets| {
        let mut sums = vec![0.0f64; plane];
        let bounds = params.bounds(i);
        let first = i % params.classes * channels;
        for (row, col) in (0..n).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let Some(image) = bounds.image else { continue };
            let mut points = Vec::new();
            params.for_each_point(i, &bounds, row, col, |y, x| points.push((neighbors(y), neighbors(x))));
            let (mut dx, mut dy_) = (0.0, 0.0);
            for channel in 0..channels {
                let gradient = dy[((i * channels + channel) * n + row) * n + col].to_f64() / points.len().max(1) as f64;
                let input = image * maps.channels + (first + channel) * group + params.layout.channel(row, col);
                let pixels = &data[input * maps.plane()..][..maps.plane()];
                for ((y, fy), (x, fx)) in &points {
                    let value = |a: usize, b: usize| pixels[y[a] * maps.width + x[b]].to_f64();
                    dx += gradient * ((value(1, 1) - value(1, 0)) * fy + (value(0, 1) - value(0, 0)) * (1.0 - fy));
                    dy_ += gradient * ((value(1, 1) - value(0, 1)) * fx + (value(1, 0) - value(0, 0)) * (1.0 - fx));
                }
            }
            let (x, y) = params.offset_indices(0, row, col);
            sums[x] += dx * params.offset_scale * bounds.width;
            sums[y] += dy_ * params.offset_scale * bounds.height;
        }
        offsets.iter_mut().zip(sums).for_each(|(o, sum)| *o = T::from_f64(sum));
    });
}
