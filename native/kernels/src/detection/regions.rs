//! Pooling of regions by bilinear sampling: each bin of a region averages sampled points of the feature map.
//!
//! The sampling points and weights of a region are computed once and used for all channels. The gradient uses the same points,
//! channel by channel, in the order of the regions, so it does not depend on the number of threads.

use crate::float::{Accum, FloatElement};
use crate::par;
use num_traits::Zero;
use std::ops::Range;

/// Regions in a block of the backward pass, whose points are held in memory.
const BLOCK: usize = 64;

/// The shape of the feature maps.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// Number of images.
    pub images: usize,
    /// Number of channels.
    pub channels: usize,
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

impl Maps {
    pub(super) fn plane(&self) -> usize {
        self.height * self.width
    }
}

/// A sampling point: the offsets of four pixels in a plane, and their weights.
#[derive(Clone, Copy)]
struct Point<A> {
    offsets: [u32; 4],
    weight: [A; 4],
}

/// One bin: an average of sampling points of one input channel.
struct Bin<A> {
    /// Index among the channels that belong to one output channel.
    channel: usize,
    points: Range<usize>,
    /// Multiplier of the sum of the points.
    scale: A,
}

/// The bins of a region.
pub struct RegionBins<A> {
    /// Index of the image; `None` if the region is ignored.
    image: Option<usize>,
    /// The first output channel.
    first_channel: usize,
    bins: Vec<Bin<A>>,
    points: Vec<Point<A>>,
}

impl<A: Accum> RegionBins<A> {
    pub(super) fn new(image: Option<usize>, first_channel: usize, bins: usize) -> Self {
        RegionBins { image, first_channel, bins: Vec::with_capacity(bins), points: Vec::new() }
    }

    /// Ends a bin: the points added since the previous one, averaged over `count`.
    pub(super) fn finish_bin(&mut self, channel: usize, count: usize) {
        let start = self.bins.last().map_or(0, |b| b.points.end);
        let scale = if count == 0 { A::zero() } else { A::one() / A::count(count) };
        self.bins.push(Bin { channel, points: start..self.points.len(), scale });
    }

    /// Adds the sampling point (y, x). Points up to one pixel past the outermost pixel centers are clamped to
    /// them; points further out count as zero.
    fn add_point(&mut self, maps: &Maps, y: f64, x: f64) {
        let (height, width) = (maps.height as f64, maps.width as f64);
        if y < -1.0 || y > height || x < -1.0 || x > width {
            return;
        }
        let (y0, y1, fy) = neighbors(y, maps.height);
        let (x0, x1, fx) = neighbors(x, maps.width);
        self.add_interpolated(maps, [y0, y1], [x0, x1], fy, fx);
    }

    /// Adds the pixels of a rectangle.
    pub(super) fn add_pixels(&mut self, maps: &Maps, rows: Range<usize>, cols: Range<usize>) {
        let pixels: Vec<u32> =
            rows.flat_map(|y| cols.clone().map(move |x| (y, x))).map(|(y, x)| (y * maps.width + x) as u32).collect();
        for four in pixels.chunks(4) {
            let offsets = std::array::from_fn(|k| four[k.min(four.len() - 1)]);
            let weight = std::array::from_fn(|k| if k < four.len() { A::one() } else { A::zero() });
            self.points.push(Point { offsets, weight });
        }
    }

    /// Adds a point between the rows `y` and the columns `x`, at the fractions `fy` and `fx` of the way.
    pub(super) fn add_interpolated(&mut self, maps: &Maps, y: [usize; 2], x: [usize; 2], fy: f64, fx: f64) {
        let offset = |i: usize, j: usize| (y[i] * maps.width + x[j]) as u32;
        let weight = [(1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx];
        let offsets = [offset(0, 0), offset(0, 1), offset(1, 0), offset(1, 1)];
        self.points.push(Point { offsets, weight: weight.map(A::of) });
    }
}

/// The pixels on either side of a coordinate, and its fraction.
fn neighbors(x: f64, len: usize) -> (usize, usize, f64) {
    let x = x.max(0.0);
    let low = x as usize;
    if low >= len - 1 { (len - 1, len - 1, 0.0) } else { (low, low + 1, x - low as f64) }
}

/// Regions and the layout of their bins.
pub trait Regions<A>: Sync {
    /// Number of regions; channel groups count separately.
    fn count(&self) -> usize;
    /// Output channels of a region.
    fn channels(&self) -> usize;
    /// Bins of a region.
    fn bins(&self) -> usize;
    /// Input channels that belong to one output channel.
    fn channel_group(&self) -> usize;
    /// Computes the sampling points of region `i`.
    fn region(&self, i: usize) -> RegionBins<A>;
}

/// Writes the pooled regions, (regions, channels, bins).
///
/// # Panics
/// Panics if the lengths do not match.
pub fn pool_regions<T: FloatElement>(data: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, out: &mut [T]) {
    let (bins, group) = (regions.bins(), regions.channel_group());
    assert_eq!(out.len(), regions.count() * regions.channels() * bins, "number of bins");
    par::parallel_rows(out, regions.channels() * bins, 1, |i, out| {
        let region = regions.region(i);
        let Some(image) = region.image else { return out.fill(T::default()) };
        for (channel, out) in out.chunks_exact_mut(bins).enumerate() {
            let first = image * maps.channels + (region.first_channel + channel) * group;
            for (bin, out) in region.bins.iter().zip(out) {
                let plane = &data[(first + bin.channel) * maps.plane()..][..maps.plane()];
                let value = |p: &Point<T::Acc>| -> T::Acc {
                    let term = |k: usize| p.weight[k] * T::Acc::of(plane[p.offsets[k] as usize]);
                    term(0) + term(1) + term(2) + term(3)
                };
                let points = &region.points[bin.points.clone()];
                let sum = points.iter().fold(T::Acc::zero(), |sum, p| sum + value(p));
                *out = (sum * bin.scale).store();
            }
        }
    });
}

/// Like [`pool_regions`], but each bin is the largest weighted pixel of its sampling points.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn max_pool_regions<T: FloatElement>(data: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, out: &mut [T]) {
    let bins = regions.bins();
    assert_eq!(out.len(), regions.count() * regions.channels() * bins, "number of bins");
    par::parallel_rows(out, regions.channels() * bins, 1, |i, out| {
        let region = regions.region(i);
        let Some(image) = region.image else { return out.fill(T::default()) };
        for (channel, out) in out.chunks_exact_mut(bins).enumerate() {
            let plane = &data[(image * maps.channels + channel) * maps.plane()..][..maps.plane()];
            for (bin, out) in region.bins.iter().zip(out) {
                let points = &region.points[bin.points.clone()];
                let values =
                    points.iter().flat_map(|p| (0..4).map(|k| p.weight[k] * T::Acc::of(plane[p.offsets[k] as usize])));
                // Points outside the image contribute zero.
                let outside = (T::Acc::count(points.len()) * bin.scale < T::Acc::of(0.999f32)).then(T::Acc::zero);
                let larger = |a: T::Acc, b: T::Acc| if b > a { b } else { a };
                *out = values.chain(outside).reduce(larger).unwrap_or(T::Acc::zero()).store();
            }
        }
    });
}

/// The gradient of [`pool_regions`] with respect to the data.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn pool_regions_backward<T: FloatElement>(dy: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, dx: &mut [T]) {
    let (bins, group, channels) = (regions.bins(), regions.channel_group(), regions.channels());
    assert_eq!(dy.len(), regions.count() * channels * bins, "number of gradients");
    let mut wide = vec![T::Acc::of(0.0f32); dx.len()];
    for start in (0..regions.count()).step_by(BLOCK) {
        let block: Vec<_> = (start..(start + BLOCK).min(regions.count())).map(|i| (i, regions.region(i))).collect();
        par::parallel_rows(&mut wide, maps.plane(), 1, |plane, sums| {
            let (image, channel) = (plane / maps.channels, plane % maps.channels);
            let (output, bin_channel) = (channel / group, channel % group);
            let contributes = |r: &RegionBins<T::Acc>| {
                r.image == Some(image) && (r.first_channel..r.first_channel + channels).contains(&output)
            };
            for (i, region) in block.iter().filter(|(_, r)| contributes(r)) {
                let dy = &dy[(i * channels + output - region.first_channel) * bins..];
                for (bin, dy) in region.bins.iter().zip(dy).filter(|(b, _)| b.channel == bin_channel) {
                    let gradient = T::Acc::of(*dy) * bin.scale;
                    for point in &region.points[bin.points.clone()] {
                        for (offset, weight) in point.offsets.iter().zip(point.weight) {
                            sums[*offset as usize] += weight * gradient;
                        }
                    }
                }
            }
        });
    }
    dx.iter_mut().zip(wide).for_each(|(dx, sum)| *dx = sum.store());
}

/// The layout of bins with evenly spaced sampling points.
#[derive(Clone, Copy, Debug)]
pub struct AlignShape {
    /// Number of bins (y, x).
    pub bins: (usize, usize),
    /// Scale from the coordinates of the regions to the feature map.
    pub scale: f64,
    /// Sampling points per bin and axis; `None` means `ceil(size / bins)`.
    pub points: Option<usize>,
}

impl AlignShape {
    fn points(&self, size: f64, bins: usize) -> usize {
        // Bounds the work for huge regions. More points hardly change the average.
        self.points.unwrap_or_else(|| (size / bins as f64).ceil().clamp(0.0, 4096.0) as usize)
    }

    /// Adds all bins of a region of size (height, width). `to_map` maps (y, x) relative to the corner of the region to
    /// coordinates of the feature map.
    fn fill<A: Accum>(
        &self,
        region: &mut RegionBins<A>,
        maps: &Maps,
        (height, width): (f64, f64),
        channel: impl Fn(usize) -> usize,
        to_map: impl Fn(f64, f64) -> (f64, f64),
    ) {
        let (bin_height, bin_width) = (height / self.bins.0 as f64, width / self.bins.1 as f64);
        let (mut points_y, mut points_x) = (self.points(height, self.bins.0), self.points(width, self.bins.1));
        let is_finite = height.is_finite() && width.is_finite();
        if !is_finite {
            (points_y, points_x) = (0, 0);
        }
        let coordinate =
            |bin: usize, size: f64, i: usize, n: usize| bin as f64 * size + (i as f64 + 0.5) * size / n as f64;
        for row in 0..self.bins.0 {
            for col in 0..self.bins.1 {
                for i in 0..points_y {
                    for j in 0..points_x {
                        let (y, x) =
                            to_map(coordinate(row, bin_height, i, points_y), coordinate(col, bin_width, j, points_x));
                        region.add_point(maps, y, x);
                    }
                }
                region.finish_bin(channel(row * self.bins.1 + col), points_y * points_x);
                if let (false, Some(bin)) = (is_finite, region.bins.last_mut()) {
                    bin.scale = A::of(f32::NAN);
                }
            }
        }
    }
}

/// The truncated image index of a region; `None` for negative ones, whose regions are ignored.
pub(super) fn image_index(x: f64) -> Option<usize> {
    (x > -1.0).then_some(x as usize)
}

/// Axis-aligned regions: `ROIAlign` (He et al., "Mask R-CNN", 2017).
pub struct RoiAlign<'a, T> {
    /// Rows (image, left, top, right, bottom).
    pub rois: &'a [T],
    /// The shape of the feature maps.
    pub maps: Maps,
    /// The layout of the bins.
    pub shape: AlignShape,
    /// True if each bin reads its own input channels.
    pub position_sensitive: bool,
    /// True if coordinates refer to pixel centers. Otherwise they refer to pixel corners, and regions are at least one pixel large.
    pub aligned: bool,
}

impl<T: FloatElement> Regions<T::Acc> for RoiAlign<'_, T> {
    fn count(&self) -> usize {
        self.rois.len() / 5
    }

    fn channels(&self) -> usize {
        self.maps.channels / self.channel_group()
    }

    fn bins(&self) -> usize {
        self.shape.bins.0 * self.shape.bins.1
    }

    fn channel_group(&self) -> usize {
        if self.position_sensitive { Regions::<T::Acc>::bins(self) } else { 1 }
    }

    fn region(&self, i: usize) -> RegionBins<T::Acc> {
        let roi: [f64; 5] = std::array::from_fn(|k| self.rois[5 * i + k].to_f64());
        let offset = if self.aligned { 0.5 } else { 0.0 };
        let corner = |k: usize| roi[k] * self.shape.scale - offset;
        let (x, y) = (corner(1), corner(2));
        let least = if self.aligned { 0.0 } else { 1.0 };
        // NaN is kept, so that the bins become NaN.
        let at_least = |size: f64| if size < least { least } else { size };
        let size = (at_least(corner(4) - y), at_least(corner(3) - x));
        let mut region = RegionBins::new(image_index(roi[0]), 0, Regions::<T::Acc>::bins(self));
        let channel = |bin: usize| if self.position_sensitive { bin } else { 0 };
        self.shape.fill(&mut region, &self.maps, size, channel, |dy, dx| (y + dy, x + dx));
        region
    }
}

/// Rotated regions: `RROIAlign` (Ma et al., "Arbitrary-Oriented Scene Text Detection via Rotation Proposals", 2018).
pub struct RotatedAlign<'a, T> {
    /// Rows (image, center x, center y, width, height, degrees).
    pub rois: &'a [T],
    /// The shape of the feature maps.
    pub maps: Maps,
    /// The layout of the bins.
    pub shape: AlignShape,
}

impl<T: FloatElement> Regions<T::Acc> for RotatedAlign<'_, T> {
    fn count(&self) -> usize {
        self.rois.len() / 6
    }

    fn channels(&self) -> usize {
        self.maps.channels
    }

    fn bins(&self) -> usize {
        self.shape.bins.0 * self.shape.bins.1
    }

    fn channel_group(&self) -> usize {
        1
    }

    fn region(&self, i: usize) -> RegionBins<T::Acc> {
        let roi: [f64; 6] = std::array::from_fn(|k| self.rois[6 * i + k].to_f64());
        let [x, y, width, height] = std::array::from_fn(|k| roi[k + 1] * self.shape.scale);
        let (height, width) = (height.max(1.0), width.max(1.0));
        let (sin, cos) = roi[5].to_radians().sin_cos();
        let mut region = RegionBins::new(image_index(roi[0]), 0, Regions::<T::Acc>::bins(self));
        self.shape.fill(
            &mut region,
            &self.maps,
            (height, width),
            |_| 0,
            |dy, dx| {
                let (dy, dx) = (dy - height / 2.0, dx - width / 2.0);
                (dy * cos - dx * sin + y, dx * cos + dy * sin + x)
            },
        );
        region
    }
}
