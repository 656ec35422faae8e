//! Sampling of images at given places, in one to three dimensions: nearest, linear or cubic, with the paddings that frameworks have.
//!
//! The taps of a place (pixels with their weights) are worked out once and used for all channels. The gradient of the images goes
//! through the same taps, plane by plane, so that it does not depend on the number of threads.

use crate::float::{Accum, Real};
use crate::par;
use ferromx_core::memory;
use num_traits::Zero;

/// Spatial dimensions that are supported.
pub const MAX_AXES: usize = 3;
/// Places whose taps one parallel chunk works out.
const GRAIN: usize = 256;
/// Steepness of the cubic interpolation, as most frameworks have it.
const CUBIC: f64 = -0.75;

/// How values between pixels are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest pixel; halves go to the even one.
    Nearest,
    /// Between the two neighbours on each axis.
    Linear,
    /// Through the four neighbours on each axis.
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The nearest pixel of the border.
    Border,
    /// The image, mirrored.
    Reflection,
}

/// How a grid is read.
#[derive(Clone, Copy, Debug)]
pub struct GridSampling {
    /// How values between pixels are made.
    pub interpolation: Interpolation,
    /// What lies outside.
    pub outside: Outside,
    /// Whether -1 and 1 are the centres of the outermost pixels, or their outer edges.
    pub align_corners: bool,
}

/// Images and places.
#[derive(Clone, Debug)]
pub struct GridShape {
    /// Images.
    pub batch: usize,
    /// Channels of each.
    pub channels: usize,
    /// Lengths of the spatial axes, at most [`MAX_AXES`].
    pub input: Vec<usize>,
    /// Places of each image.
    pub points: usize,
}

impl GridShape {
    fn plane(&self) -> usize {
        self.input.iter().product()
    }
}

/// The taps along one axis: places with their weights, and the derivatives of the weights by the coordinate of the grid.
#[derive(Clone, Copy, Default)]
struct Line {
    count: usize,
    at: [Option<usize>; 4],
    weight: [f64; 4],
    slope: [f64; 4],
}

impl GridSampling {
    /// Taps of one place along an axis and in all.
    fn taps(&self, axes: usize) -> usize {
        let each: usize = match self.interpolation {
            Interpolation::Nearest => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic => 4,
        };
        each.pow(axes as u32)
    }

    /// The range between whose ends an axis is mirrored.
    fn mirrors(&self, len: usize) -> (f64, f64) {
        if self.align_corners { (0.0, len as f64 - 1.0) } else { (-0.5, len as f64 - 0.5) }
    }

    /// The pixel that stands at an index.
    fn pixel(&self, index: i64, len: usize) -> Option<usize> {
        let last = len as i64 - 1;
        if (0..=last).contains(&index) {
            return Some(index as usize);
        }
        match self.outside {
            Outside::Zeros => None,
            Outside::Border => Some(index.clamp(0, last) as usize),
            Outside::Reflection => Some((reflected(index as f64, self.mirrors(len)).0 as i64).clamp(0, last) as usize),
        }
    }

    /// The taps along an axis of `len` pixels at a coordinate of the grid.
    fn line(&self, coordinate: f64, len: usize) -> Line {
        let n = len as f64;
        let (mut x, mut scale) = match self.align_corners {
            true => ((coordinate + 1.0) / 2.0 * (n - 1.0), (n - 1.0) / 2.0),
            false => (((coordinate + 1.0) * n - 1.0) / 2.0, n / 2.0),
        };
        if self.interpolation == Interpolation::Nearest {
            x = libm::rint(x);
        }
        let (low, high) = self.mirrors(len);
        if self.interpolation != Interpolation::Cubic && (x < low || x > high) {
            match self.outside {
                Outside::Zeros => {}
                Outside::Border => (x, scale) = (x.clamp(0.0, n - 1.0), 0.0),
                Outside::Reflection => {
                    let (place, sign) = reflected(x, (low, high));
                    (x, scale) = (place, scale * sign);
                }
            }
        }
        let mut line = Line::default();
        let base = x.floor();
        let first = base as i64;
        let f = x - base;
        match self.interpolation {
            Interpolation::Nearest => line.put(self.pixel(x as i64, len), 1.0, 0.0),
            Interpolation::Linear => {
                line.put(self.pixel(first, len), 1.0 - f, -scale);
                line.put(self.pixel(first.saturating_add(1), len), f, scale);
            }
            Interpolation::Cubic => {
                for k in -1..=2 {
                    let (weight, slope) = cubic(f - k as f64);
                    line.put(self.pixel(first.saturating_add(k), len), weight, slope * scale);
                }
            }
        }
        line
    }

    /// The taps of a place, given as coordinates with the last axis first.
    fn lines<T: Real>(&self, place: &[T], input: &[usize]) -> [Line; MAX_AXES] {
        let axes = input.len();
        let mut lines = [Line::default(); MAX_AXES];
        for (k, line) in lines.iter_mut().take(axes).enumerate() {
            *line = self.line(place[axes - 1 - k].to_f64(), input[k]);
        }
        lines
    }
}

impl Line {
    fn put(&mut self, at: Option<usize>, weight: f64, slope: f64) {
        (self.at[self.count], self.weight[self.count], self.slope[self.count]) = (at, weight, slope);
        self.count += 1;
    }
}

/// A coordinate mirrored into a range, and the direction in which it then moves.
fn reflected(x: f64, (low, high): (f64, f64)) -> (f64, f64) {
    let range = high - low;
    if range <= 0.0 {
        return (low, 0.0);
    }
    if x >= low && x <= high {
        return (x, 1.0);
    }
    let turned = (x - low).rem_euclid(2.0 * range);
    if turned <= range { (low + turned, 1.0) } else { (low + 2.0 * range - turned, -1.0) }
}

/// The weight of a pixel at a distance in cubic convolution (Keys, 1981), and its derivative.
fn cubic(distance: f64) -> (f64, f64) {
    let (x, sign) = (distance.abs(), distance.signum());
    let a = CUBIC;
    match x {
        x if x <= 1.0 => {
            (((a + 2.0) * x - (a + 3.0)) * x * x + 1.0, sign * (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x)
        }
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x * a - 4.0 * a, sign * ((3.0 * x - 10.0) * x + 8.0) * a),
        _ => (0.0, 0.0),
    }
}

/// Calls `f` for every combination of taps with its place in a plane, if it is inside, and the taps' numbers.
fn combinations(lines: &[Line; MAX_AXES], input: &[usize], mut f: impl FnMut(Option<usize>, &[usize; MAX_AXES])) {
    let mut taps = [0; MAX_AXES];
    loop {
        let place = input.iter().enumerate().try_fold(0, |at, (k, len)| lines[k].at[taps[k]].map(|i| at * len + i));
        f(place, &taps);
        let Some(k) = (0..input.len()).rev().find(|k| taps[*k] + 1 < lines[*k].count) else { return };
        taps[k] += 1;
        taps[k + 1..].fill(0);
    }
}

/// A pixel of a plane with its weight; weight 0 outside.
#[derive(Clone, Copy, Default)]
struct Tap<A> {
    at: usize,
    weight: A,
}

/// The taps of all places of an image, a row for each place.
fn tap_table<T: Real>(how: &GridSampling, shape: &GridShape, grid: &[T]) -> Vec<Tap<T::Acc>> {
    let (axes, taps) = (shape.input.len(), how.taps(shape.input.len()));
    let mut table = memory::filled(Tap { at: 0, weight: T::Acc::zero() }, shape.points * taps);
    par::parallel_rows(&mut table, taps, GRAIN, |p, row| {
        let lines = how.lines(&grid[p * axes..(p + 1) * axes], &shape.input);
        let mut row = row.iter_mut();
        combinations(&lines, &shape.input, |place, taps| {
            if let (Some(tap), Some(at)) = (row.next(), place) {
                let weight: f64 = (0..axes).map(|k| lines[k].weight[taps[k]]).product();
                *tap = Tap { at, weight: T::Acc::of(weight) };
            }
        });
    });
    table
}

/// `out[n, c, p]` becomes image (n, c) at place `grid[n, p]`, whose coordinates run from -1 to 1, that of the last axis first.
///
/// # Panics
/// If the lengths do not fit or there are more than [`MAX_AXES`] axes.
pub fn grid_sample<T: Real>(how: &GridSampling, shape: &GridShape, data: &[T], grid: &[T], out: &mut [T]) {
    let (axes, plane, taps) = (shape.input.len(), shape.plane(), how.taps(shape.input.len()));
    assert!(axes <= MAX_AXES && grid.len() == shape.batch * shape.points * axes, "the grid does not fit");
    let per_image = shape.channels * shape.points;
    for (n, out) in out.chunks_exact_mut(per_image.max(1)).enumerate() {
        let table = tap_table(how, shape, &grid[n * shape.points * axes..(n + 1) * shape.points * axes]);
        par::parallel_rows(out, shape.points, 1, |c, out| {
            let image = &data[(n * shape.channels + c) * plane..][..plane];
            for (out, taps) in out.iter_mut().zip(table.chunks_exact(taps)) {
                let used = taps.iter().filter(|t| t.weight != T::Acc::zero());
                *out = used.fold(T::Acc::zero(), |sum, t| sum + t.weight * T::Acc::of(image[t.at])).store();
            }
        });
    }
}

/// The gradient of [`grid_sample`] with respect to the images.
///
/// # Panics
/// As [`grid_sample`].
pub fn grid_sample_backward_data<T: Real>(how: &GridSampling, shape: &GridShape, grid: &[T], dy: &[T], dx: &mut [T]) {
    let (axes, plane, taps) = (shape.input.len(), shape.plane(), how.taps(shape.input.len()));
    for (n, dx) in dx.chunks_exact_mut((shape.channels * plane).max(1)).enumerate() {
        let table = tap_table(how, shape, &grid[n * shape.points * axes..(n + 1) * shape.points * axes]);
        par::parallel_rows(dx, plane, 1, |c, dx| {
            let mut sums = memory::filled(T::Acc::zero(), plane);
            let dy = &dy[(n * shape.channels + c) * shape.points..][..shape.points];
            for (dy, taps) in dy.iter().zip(table.chunks_exact(taps)) {
                for tap in taps {
                    sums[tap.at] += tap.weight * T::Acc::of(*dy);
                }
            }
            dx.iter_mut().zip(sums).for_each(|(dx, sum)| *dx = sum.store());
        });
    }
}

/// The gradient of [`grid_sample`] with respect to the places.
///
/// # Panics
/// As [`grid_sample`].
pub fn grid_sample_backward_grid<T: Real>(
    how: &GridSampling,
    shape: &GridShape,
    data: &[T],
    grid: &[T],
    dy: &[T],
    dgrid: &mut [T],
) {
    let (axes, plane) = (shape.input.len(), shape.plane());
    par::parallel_rows(dgrid, axes, GRAIN, |place, dgrid| {
        let (n, p) = (place / shape.points, place % shape.points);
        let lines = how.lines(&grid[place * axes..(place + 1) * axes], &shape.input);
        let mut sums = [0.0; MAX_AXES];
        combinations(&lines, &shape.input, |at, taps| {
            let Some(at) = at else { return };
            let flow: f64 = (n * shape.channels..(n + 1) * shape.channels)
                .map(|c| dy[c * shape.points + p].to_f64() * data[c * plane + at].to_f64())
                .sum();
            for (axis, sum) in sums.iter_mut().enumerate().take(axes) {
                let factor = |k: usize| if k == axis { lines[k].slope[taps[k]] } else { lines[k].weight[taps[k]] };
                *sum += flow * (0..axes).map(factor).product::<f64>();
            }
        });
        for (k, d) in dgrid.iter_mut().enumerate() {
            *d = T::from_f64(sums[axes - 1 - k]);
        }
    });
}
