//! Pooling of regions by interpolation: every bin of a region is an average of interpolated points of the picture.
//!
//! A region's points and their weights are worked out once and used for all channels. The gradient goes through the same
//! points, channel by channel, in the order of the regions, so that it does not depend on the number of threads.

use crate::float::{Accum, Real};
use crate::par;
use num_traits::Zero;
use std::ops::Range;

/// Regions whose points are kept at a time in the pass backward.
const BLOCK: usize = 64;

/// The pictures.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// How many.
    pub images: usize,
    /// Channels of each.
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

/// An interpolated point: four places of a channel and their weights.
#[derive(Clone, Copy)]
struct Point<A> {
    at: [u32; 4],
    weight: [A; 4],
}

/// One bin: an average of points of one input channel.
struct Bin<A> {
    /// Which of the channels that belong to one output channel.
    channel: usize,
    points: Range<usize>,
    /// What the sum of the points is multiplied by.
    scale: A,
}

/// The bins of a region.
pub struct Region<A> {
    /// The picture; none for a region that is left out.
    image: Option<usize>,
    /// The first output channel.
    first: usize,
    bins: Vec<Bin<A>>,
    points: Vec<Point<A>>,
}

impl<A: Accum> Region<A> {
    pub(super) fn new(image: Option<usize>, first: usize, bins: usize) -> Self {
        Region { image, first, bins: Vec::with_capacity(bins), points: Vec::new() }
    }

    /// Adds a bin of the points added since the last one.
    pub(super) fn finish_bin(&mut self, channel: usize, count: usize) {
        let start = self.bins.last().map_or(0, |b| b.points.end);
        let scale = if count == 0 { A::zero() } else { A::one() / A::count(count) };
        self.bins.push(Bin { channel, points: start..self.points.len(), scale });
    }

    /// Adds the point (y, x), interpolated between pixels; beyond the last pixel by half of the picture's edge. Points
    /// further out count as zero.
    fn point(&mut self, maps: &Maps, y: f64, x: f64) {
        let (height, width) = (maps.height as f64, maps.width as f64);
        if y < -1.0 || y > height || x < -1.0 || x > width {
            return;
        }
        let (y0, y1, fy) = neighbours(y, maps.height);
        let (x0, x1, fx) = neighbours(x, maps.width);
        self.corners(maps, [y0, y1], [x0, x1], fy, fx);
    }

    /// Adds the pixels of a rectangle.
    pub(super) fn pixels(&mut self, maps: &Maps, rows: Range<usize>, cols: Range<usize>) {
        let places: Vec<u32> =
            rows.flat_map(|y| cols.clone().map(move |x| (y, x))).map(|(y, x)| (y * maps.width + x) as u32).collect();
        for four in places.chunks(4) {
            let at = std::array::from_fn(|k| four[k.min(four.len() - 1)]);
            let weight = std::array::from_fn(|k| if k < four.len() { A::one() } else { A::zero() });
            self.points.push(Point { at, weight });
        }
    }

    /// Adds a point between the rows `y` and the columns `x`, at the distances `fy` and `fx` from the first ones.
    pub(super) fn corners(&mut self, maps: &Maps, y: [usize; 2], x: [usize; 2], fy: f64, fx: f64) {
        let at = |i: usize, j: usize| (y[i] * maps.width + x[j]) as u32;
        let weight = [(1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx];
        self.points.push(Point { at: [at(0, 0), at(0, 1), at(1, 0), at(1, 1)], weight: weight.map(A::of) });
    }
}

/// The pixels around a coordinate and the distance from the first one.
fn neighbours(x: f64, len: usize) -> (usize, usize, f64) {
    let x = x.max(0.0);
    let low = x as usize;
    if low >= len - 1 { (len - 1, len - 1, 0.0) } else { (low, low + 1, x - low as f64) }
}

/// Regions of pictures and how their bins are laid out.
pub trait Regions<A>: Sync {
    /// How many regions, groups of channels counted apart.
    fn count(&self) -> usize;
    /// Output channels of each.
    fn channels(&self) -> usize;
    /// Bins of each.
    fn bins(&self) -> usize;
    /// Input channels that belong to one output channel.
    fn channel_group(&self) -> usize;
    /// Works one out.
    fn region(&self, i: usize) -> Region<A>;
}

/// `out` gets, for each region, its channels with their bins.
///
/// # Panics
/// If the lengths do not fit.
pub fn pool_regions<T: Real>(data: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, out: &mut [T]) {
    let (bins, group) = (regions.bins(), regions.channel_group());
    assert_eq!(out.len(), regions.count() * regions.channels() * bins, "the bins do not fit");
    par::parallel_rows(out, regions.channels() * bins, 1, |i, out| {
        let region = regions.region(i);
        let Some(image) = region.image else { return out.fill(T::default()) };
        for (channel, out) in out.chunks_exact_mut(bins).enumerate() {
            let first = image * maps.channels + (region.first + channel) * group;
            for (bin, out) in region.bins.iter().zip(out) {
                let plane = &data[(first + bin.channel) * maps.plane()..][..maps.plane()];
                let value = |p: &Point<T::Acc>| -> T::Acc {
                    let term = |k: usize| p.weight[k] * T::Acc::of(plane[p.at[k] as usize]);
                    term(0) + term(1) + term(2) + term(3)
                };
                let points = &region.points[bin.points.clone()];
                let sum = points.iter().fold(T::Acc::zero(), |sum, p| sum + value(p));
                *out = (sum * bin.scale).store();
            }
        }
    });
}

/// As [`pool_regions`], but every bin is the largest contribution of a pixel to one of its points, times nothing else.
///
/// # Panics
/// If the lengths do not fit.
pub fn max_of_regions<T: Real>(data: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, out: &mut [T]) {
    let bins = regions.bins();
    assert_eq!(out.len(), regions.count() * regions.channels() * bins, "the bins do not fit");
    par::parallel_rows(out, regions.channels() * bins, 1, |i, out| {
        let region = regions.region(i);
        let Some(image) = region.image else { return out.fill(T::default()) };
        for (channel, out) in out.chunks_exact_mut(bins).enumerate() {
            let plane = &data[(image * maps.channels + channel) * maps.plane()..][..maps.plane()];
            for (bin, out) in region.bins.iter().zip(out) {
                let points = &region.points[bin.points.clone()];
                let values =
                    points.iter().flat_map(|p| (0..4).map(|k| p.weight[k] * T::Acc::of(plane[p.at[k] as usize])));
                // Points outside of the picture contribute zero.
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
/// If the lengths do not fit.
pub fn pool_regions_backward<T: Real>(dy: &[T], maps: &Maps, regions: &impl Regions<T::Acc>, dx: &mut [T]) {
    let (bins, group, channels) = (regions.bins(), regions.channel_group(), regions.channels());
    assert_eq!(dy.len(), regions.count() * channels * bins, "the gradients do not fit");
    let mut wide = vec![T::Acc::of(0.0f32); dx.len()];
    for start in (0..regions.count()).step_by(BLOCK) {
        let block: Vec<_> = (start..(start + BLOCK).min(regions.count())).map(|i| (i, regions.region(i))).collect();
        par::parallel_rows(&mut wide, maps.plane(), 1, |plane, sums| {
            let (image, channel) = (plane / maps.channels, plane % maps.channels);
            let (output, part) = (channel / group, channel % group);
            let mine = |r: &Region<T::Acc>| r.image == Some(image) && (r.first..r.first + channels).contains(&output);
            for (i, region) in block.iter().filter(|(_, r)| mine(r)) {
                let dy = &dy[(i * channels + output - region.first) * bins..];
                for (bin, dy) in region.bins.iter().zip(dy).filter(|(b, _)| b.channel == part) {
                    let gradient = T::Acc::of(*dy) * bin.scale;
                    for point in &region.points[bin.points.clone()] {
                        for (at, weight) in point.at.iter().zip(point.weight) {
                            sums[*at as usize] += weight * gradient;
                        }
                    }
                }
            }
        });
    }
    dx.iter_mut().zip(wide).for_each(|(dx, sum)| *dx = sum.store());
}

/// The bins of regions with even points.
#[derive(Clone, Copy, Debug)]
pub struct AlignShape {
    /// Bins down and across.
    pub bins: (usize, usize),
    /// Pixels of the map for one unit of the regions' coordinates.
    pub scale: f64,
    /// Points of a bin down and across; by default about one for each pixel.
    pub points: Option<usize>,
}

impl AlignShape {
    fn points(&self, size: f64, bins: usize) -> usize {
        // A hostile size must not ask for endless work: more points than this do not change an average.
        self.points.unwrap_or_else(|| (size / bins as f64).ceil().clamp(0.0, 4096.0) as usize)
    }

    /// Adds all bins of a region of a size; `place` maps its points, relative to its first corner, into the picture.
    fn fill<A: Accum>(
        &self,
        region: &mut Region<A>,
        maps: &Maps,
        (height, width): (f64, f64),
        channel: impl Fn(usize) -> usize,
        place: impl Fn(f64, f64) -> (f64, f64),
    ) {
        let (bin_height, bin_width) = (height / self.bins.0 as f64, width / self.bins.1 as f64);
        let (down, across) = (self.points(height, self.bins.0), self.points(width, self.bins.1));
        let at = |bin: usize, size: f64, i: usize, n: usize| bin as f64 * size + (i as f64 + 0.5) * size / n as f64;
        for row in 0..self.bins.0 {
            for col in 0..self.bins.1 {
                for i in 0..down {
                    for j in 0..across {
                        let (y, x) = place(at(row, bin_height, i, down), at(col, bin_width, j, across));
                        region.point(maps, y, x);
                    }
                }
                region.finish_bin(channel(row * self.bins.1 + col), down * across);
            }
        }
    }
}

/// The image of a region, whose number is truncated; a negative one leaves the region out.
pub(super) fn image(x: f64) -> Option<usize> {
    (x > -1.0).then_some(x as usize)
}

/// Regions along the axes: `ROIAlign` (He et al., "Mask R-CNN", 2017).
pub struct RoiAlign<'a, T> {
    /// Rows (picture, left, top, right, bottom).
    pub rois: &'a [T],
    /// The pictures.
    pub maps: Maps,
    /// The bins.
    pub shape: AlignShape,
    /// Whether every bin has input channels of its own.
    pub position_sensitive: bool,
    /// Whether pixels are where their centres are; else they are where their corners are, and regions have at least size 1.
    pub aligned: bool,
}

impl<T: Real> Regions<T::Acc> for RoiAlign<'_, T> {
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

    fn region(&self, i: usize) -> Region<T::Acc> {
        let roi: [f64; 5] = std::array::from_fn(|k| self.rois[5 * i + k].to_f64());
        let offset = if self.aligned { 0.5 } else { 0.0 };
        let corner = |k: usize| roi[k] * self.shape.scale - offset;
        let (x, y) = (corner(1), corner(2));
        let least = if self.aligned { 0.0 } else { 1.0 };
        let size = ((corner(4) - y).max(least), (corner(3) - x).max(least));
        let mut region = Region::new(image(roi[0]), 0, Regions::<T::Acc>::bins(self));
        let channel = |bin: usize| if self.position_sensitive { bin } else { 0 };
        self.shape.fill(&mut region, &self.maps, size, channel, |dy, dx| (y + dy, x + dx));
        region
    }
}

/// Regions that are turned: `RROIAlign` (Ma et al., "Arbitrary-Oriented Scene Text Detection via Rotation Proposals", 2018).
pub struct RotatedAlign<'a, T> {
    /// Rows (picture, x and y of the centre, width, height, degrees).
    pub rois: &'a [T],
    /// The pictures.
    pub maps: Maps,
    /// The bins.
    pub shape: AlignShape,
}

impl<T: Real> Regions<T::Acc> for RotatedAlign<'_, T> {
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

    fn region(&self, i: usize) -> Region<T::Acc> {
        let roi: [f64; 6] = std::array::from_fn(|k| self.rois[6 * i + k].to_f64());
        let [x, y, width, height] = std::array::from_fn(|k| roi[k + 1] * self.shape.scale);
        let (height, width) = (height.max(1.0), width.max(1.0));
        let (sin, cos) = roi[5].to_radians().sin_cos();
        let mut region = Region::new(image(roi[0]), 0, Regions::<T::Acc>::bins(self));
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
