//! Position-sensitive pooling: every bin of a region has input channels of its own (Dai et al., "R-FCN", 2016), and bins may
//! be moved (Dai et al., "Deformable Convolutional Networks", 2017).

use std::ops::Range;

use crate::float::{Accum, Real};
use crate::par;

use super::regions::{Maps, Region, Regions, image};

/// How bins are laid out over a region and over channels.
#[derive(Clone, Copy, Debug)]
pub struct BinGroups {
    /// Bins down and across.
    pub bins: usize,
    /// Groups of input channels down and across.
    pub groups: usize,
    /// Pixels of the map for one unit of the regions' coordinates.
    pub scale: f64,
}

/// A region in the map.
struct Place {
    image: Option<usize>,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl BinGroups {
    /// Which of the channels of an output channel the bin reads.
    fn channel(&self, row: usize, col: usize) -> usize {
        let group = |i: usize| i * self.groups / self.bins;
        group(row) * self.groups + group(col)
    }

    /// The region of a row (picture, left, top, right, bottom), moved by `shift` pixels of the map.
    fn place<T: Real>(&self, roi: &[T], shift: f64) -> Place {
        let start = |k: usize| round(roi[k].to_f64()) * self.scale + shift;
        let end = |k: usize| (round(roi[k].to_f64()) + 1.0) * self.scale + shift;
        let (x, y) = (start(1), start(2));
        Place { image: image(roi[0].to_f64()), x, y, width: (end(3) - x).max(0.1), height: (end(4) - y).max(0.1) }
    }
}

/// To the nearest integer, halves away from zero.
fn round(x: f64) -> f64 {
    x.round()
}

/// Averages of all pixels of a bin: `PSROIPooling`.
pub struct PositionSensitive<'a, T> {
    /// Rows (picture, left, top, right, bottom).
    pub rois: &'a [T],
    /// The pictures.
    pub maps: Maps,
    /// The bins.
    pub layout: BinGroups,
    /// Output channels.
    pub channels: usize,
}

impl<T: Real> Regions<T::Acc> for PositionSensitive<'_, T> {
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

    fn region(&self, i: usize) -> Region<T::Acc> {
        let (n, maps) = (self.layout.bins, &self.maps);
        let place = self.layout.place(&self.rois[5 * i..], 0.0);
        let mut region = Region::new(place.image, 0, n * n);
        // The bounds of bins are computed in the element type, as their rounding decides which pixels belong to them.
        let span = |i: usize, size: f64, start: f64, len: usize| -> Range<usize> {
            let (size, start) = (T::Acc::of(size) / T::Acc::count(n), T::Acc::of(start));
            let low = (T::Acc::count(i) * size + start).wide().floor().clamp(0.0, len as f64);
            let high = (T::Acc::count(i + 1) * size + start).wide().ceil().clamp(0.0, len as f64);
            low as usize..high as usize
        };
        for row in 0..n {
            for col in 0..n {
                let rows = span(row, place.height, place.y, maps.height);
                let cols = span(col, place.width, place.x, maps.width);
                let count = rows.len() * cols.len();
                region.pixels(maps, rows, cols);
                region.finish_bin(self.layout.channel(row, col), count);
            }
        }
        region
    }
}

/// Averages of points of bins that may be moved: `DeformablePSROIPooling`.
pub struct DeformableBins<'a, T> {
    /// Rows (picture, left, top, right, bottom).
    pub rois: &'a [T],
    /// Offsets of the bins, for each region (classes, x and y, parts, parts); none if bins stay in their places.
    pub offsets: Option<&'a [T]>,
    /// The pictures.
    pub maps: Maps,
    /// The bins.
    pub layout: BinGroups,
    /// Output channels, of all classes together.
    pub channels: usize,
    /// Classes of channels that have offsets of their own.
    pub classes: usize,
    /// Parts of a region, down and across, that have offsets of their own.
    pub parts: usize,
    /// Points of a bin, down and across.
    pub points: usize,
    /// What offsets are multiplied by.
    pub factor: f64,
}

impl<T: Real> DeformableBins<'_, T> {
    /// The places of a bin's x and y offsets.
    fn offset_places(&self, i: usize, row: usize, col: usize) -> (usize, usize) {
        let part = |i: usize| i * self.parts / self.layout.bins;
        let plane = self.parts * self.parts;
        let x = 2 * i * plane + part(row) * self.parts + part(col);
        (x, x + plane)
    }

    /// Calls `f(y, x)` for the points of a bin that lie in the picture.
    fn each_point(&self, i: usize, place: &Place, row: usize, col: usize, mut f: impl FnMut(f64, f64)) {
        let n = self.layout.bins as f64;
        let (bin_height, bin_width) = (place.height / n, place.width / n);
        let (x, y) = self.offset_places(i, row, col);
        let offset = |at: usize| self.offsets.map_or(0.0, |o| o[at].to_f64() * self.factor);
        let left = col as f64 * bin_width + place.x + offset(x) * place.width;
        let top = row as f64 * bin_height + place.y + offset(y) * place.height;
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

    fn place(&self, i: usize) -> Place {
        self.layout.place(&self.rois[5 * (i / self.classes)..], -0.5)
    }
}

/// The pixels around a coordinate, equal where it is a whole number, and the distance from the first one.
fn around(x: f64) -> ([usize; 2], f64) {
    ([x.floor() as usize, x.ceil() as usize], x - x.floor())
}

impl<T: Real> Regions<T::Acc> for DeformableBins<'_, T> {
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

    fn region(&self, i: usize) -> Region<T::Acc> {
        let n = self.layout.bins;
        let place = self.place(i);
        let first = i % self.classes * (self.channels / self.classes);
        let mut region = Region::new(place.image, first, n * n);
        for row in 0..n {
            for col in 0..n {
                let mut count = 0;
                self.each_point(i, &place, row, col, |y, x| {
                    let ((y, fy), (x, fx)) = (around(y), around(x));
                    region.corners(&self.maps, y, x, fy, fx);
                    count += 1;
                });
                region.finish_bin(self.layout.channel(row, col), count);
            }
        }
        region
    }
}

/// The gradient with respect to the offsets, from that of the output.
///
/// # Panics
/// If the lengths do not fit.
pub fn offsets_backward<T: Real>(dy: &[T], data: &[T], how: &DeformableBins<'_, T>, offsets: &mut [T]) {
    let (n, maps) = (how.layout.bins, &how.maps);
    let (channels, group) = (Regions::<T::Acc>::channels(how), Regions::<T::Acc>::channel_group(how));
    let plane = 2 * how.parts * how.parts;
    par::parallel_rows(offsets, plane, 1, |i, offsets| {
        let mut sums = vec![0.0f64; plane];
        let place = how.place(i);
        let first = i % how.classes * channels;
        for (row, col) in (0..n).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let Some(image) = place.image else { continue };
            let mut points = Vec::new();
            how.each_point(i, &place, row, col, |y, x| points.push((around(y), around(x))));
            let (mut dx, mut dy_) = (0.0, 0.0);
            for channel in 0..channels {
                let gradient = dy[((i * channels + channel) * n + row) * n + col].to_f64() / points.len().max(1) as f64;
                let input = image * maps.channels + (first + channel) * group + how.layout.channel(row, col);
                let pixels = &data[input * maps.plane()..][..maps.plane()];
                for ((y, fy), (x, fx)) in &points {
                    let value = |a: usize, b: usize| pixels[y[a] * maps.width + x[b]].to_f64();
                    dx += gradient * ((value(1, 1) - value(1, 0)) * fy + (value(0, 1) - value(0, 0)) * (1.0 - fy));
                    dy_ += gradient * ((value(1, 1) - value(0, 1)) * fx + (value(1, 0) - value(0, 0)) * (1.0 - fx));
                }
            }
            let (x, y) = how.offset_places(0, row, col);
            sums[x] += dx * how.factor * place.width;
            sums[y] += dy_ * how.factor * place.height;
        }
        offsets.iter_mut().zip(sums).for_each(|(o, sum)| *o = T::from_f64(sum));
    });
}
