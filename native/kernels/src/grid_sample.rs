//! Sampling of images on a grid (ONNX's `GridSample`), in one to three dimensions: nearest, linear or cubic, with three padding
//! modes.
//!
//! The taps of a point (pixels with their weights) are computed once and used for all channels. The gradient of the images uses
//! the same taps, plane by plane, so it does not depend on the number of threads.

use crate::float::{Accum, FloatElement};
use crate::par;
use ferromx_core::memory;
use num_traits::Zero;

/// Maximum number of spatial dimensions.
pub const MAX_AXES: usize = 3;
/// Points per chunk.
const GRAIN: usize = 256;
/// The coefficient a of cubic convolution, as in most frameworks.
const CUBIC_A: f64 = -0.75;

/// The interpolation between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridInterpolation {
    /// The nearest pixel; ties go to the even one.
    Nearest,
    /// Linear between two pixels per axis.
    Linear,
    /// Cubic convolution of four pixels per axis.
    Cubic,
}

/// The value of pixels outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Zero.
    Zeros,
    /// The nearest pixel of the border.
    Border,
    /// The reflected image.
    Reflection,
}

/// The parameters of [`grid_sample`].
#[derive(Clone, Copy, Debug)]
pub struct GridSampling {
    /// The interpolation between pixels.
    pub interpolation: GridInterpolation,
    /// The value of pixels outside the image.
    pub outside: Outside,
    /// True if -1 and 1 are the centers of the outermost pixels, false if they are their outer edges.
    pub align_corners: bool,
}

/// The shape of images and grids.
#[derive(Clone, Debug)]
pub struct GridShape {
    /// Number of images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Lengths of the spatial axes, at most [`MAX_AXES`].
    pub input: Vec<usize>,
    /// Sampling points per image.
    pub points: usize,
}

impl GridShape {
    fn plane(&self) -> usize {
        self.input.iter().product()
    }
}

/// The taps along one axis: indices and weights of pixels, and the derivatives of the weights with respect to the coordinate.
#[derive(Clone, Copy, Default)]
struct AxisTaps {
    count: usize,
    index: [Option<usize>; 4],
    weight: [f64; 4],
    derivative: [f64; 4],
}

impl GridSampling {
    /// Number of taps of a point.
    fn taps(&self, axes: usize) -> usize {
        let per_axis: usize = match self.interpolation {
            GridInterpolation::Nearest => 1,
            GridInterpolation::Linear => 2,
            GridInterpolation::Cubic => 4,
        };
        per_axis.pow(axes as u32)
    }

    /// The bounds at which an axis is reflected.
    fn mirrors(&self, len: usize) -> (f64, f64) {
        if self.align_corners { (0.0, len as f64 - 1.0) } else { (-0.5, len as f64 - 0.5) }
    }

    /// The pixel for an index that may lie outside the image, or `None` for zero.
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

    /// The taps along an axis of `len` pixels for a grid coordinate.
    fn axis_taps(&self, coordinate: f64, len: usize) -> AxisTaps {
        let n = len as f64;
        let (mut x, mut scale) = match self.align_corners {
            true => ((coordinate + 1.0) / 2.0 * (n - 1.0), (n - 1.0) / 2.0),
            false => (((coordinate + 1.0) * n - 1.0) / 2.0, n / 2.0),
        };
        if self.interpolation == GridInterpolation::Nearest {
            x = libm::rint(x);
        }
        let (low, high) = self.mirrors(len);
        if self.interpolation != GridInterpolation::Cubic && (x < low || x > high) {
            match self.outside {
                Outside::Zeros => {}
                Outside::Border => (x, scale) = (x.clamp(0.0, n - 1.0), 0.0),
                Outside::Reflection => {
                    let (mirrored, sign) = reflected(x, (low, high));
                    (x, scale) = (mirrored, scale * sign);
                }
            }
        }
        let mut taps = AxisTaps::default();
        let base = x.floor();
        let first = base as i64;
        let f = x - base;
        match self.interpolation {
            GridInterpolation::Nearest => taps.push(self.pixel(x as i64, len), 1.0, 0.0),
            GridInterpolation::Linear => {
                taps.push(self.pixel(first, len), 1.0 - f, -scale);
                taps.push(self.pixel(first.saturating_add(1), len), f, scale);
            }
            GridInterpolation::Cubic => {
                for k in -1..=2 {
                    let (weight, derivative) = cubic(f - k as f64);
                    taps.push(self.pixel(first.saturating_add(k), len), weight, derivative * scale);
                }
            }
        }
        taps
    }

    /// The taps of a point, whose coordinates are given with the last axis first.
    fn point_taps<T: FloatElement>(&self, point: &[T], input: &[usize]) -> [AxisTaps; MAX_AXES] {
        let axes = input.len();
        let mut axis_taps = [AxisTaps::default(); MAX_AXES];
        for (k, taps) in axis_taps.iter_mut().take(axes).enumerate() {
            *taps = self.axis_taps(point[axes - 1 - k].to_f64(), input[k]);
        }
        axis_taps
    }
}

impl AxisTaps {
    fn push(&mut self, index: Option<usize>, weight: f64, derivative: f64) {
        (self.index[self.count], self.weight[self.count], self.derivative[self.count]) = (index, weight, derivative);
        self.count += 1;
    }
}

/// A coordinate reflected into a range, and the sign of the derivative.
fn reflected(x: f64, (low, high): (f64, f64)) -> (f64, f64) {
    let range = high - low;
    if range <= 0.0 {
        return (low, 0.0);
    }
    if x >= low && x <= high {
        return (x, 1.0);
    }
    let offset = (x - low).rem_euclid(2.0 * range);
    if offset <= range { (low + offset, 1.0) } else { (low + 2.0 * range - offset, -1.0) }
}

/// The weight of a pixel at the given distance in cubic convolution (Keys, 1981), and its derivative.
fn cubic(distance: f64) -> (f64, f64) {
    let (x, sign) = (distance.abs(), distance.signum());
    let a = CUBIC_A;
    match x {
        x if x <= 1.0 => {
            (((a + 2.0) * x - (a + 3.0)) * x * x + 1.0, sign * (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x)
        }
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x * a - 4.0 * a, sign * ((3.0 * x - 10.0) * x + 8.0) * a),
        _ => (0.0, 0.0),
    }
}

/// Calls `f(pixel, taps)` for every combination of taps of the axes: its offset in the plane, or `None` outside the image, and the
/// index of the tap on each axis.
fn combinations(
    axis_taps: &[AxisTaps; MAX_AXES],
    input: &[usize],
    mut f: impl FnMut(Option<usize>, &[usize; MAX_AXES]),
) {
    let mut taps = [0; MAX_AXES];
    loop {
        let index = input
            .iter()
            .enumerate()
            .try_fold(0, |index, (k, len)| axis_taps[k].index[taps[k]].map(|i| index * len + i));
        f(index, &taps);
        let Some(k) = (0..input.len()).rev().find(|k| taps[*k] + 1 < axis_taps[*k].count) else { return };
        taps[k] += 1;
        taps[k + 1..].fill(0);
    }
}

/// The offset of a pixel in a plane and its weight, which is 0 outside the image.
#[derive(Clone, Copy, Default)]
struct Tap<A> {
    index: usize,
    weight: A,
}

/// The taps of all points of an image: (points, taps).
fn tap_table<T: FloatElement>(params: &GridSampling, shape: &GridShape, grid: &[T]) -> Vec<Tap<T::Acc>> {
    let (axes, taps) = (shape.input.len(), params.taps(shape.input.len()));
    let mut table = memory::filled(Tap { index: 0, weight: T::Acc::zero() }, shape.points * taps);
    par::parallel_rows(&mut table, taps, GRAIN, |p, row| {
        let axis_taps = params.point_taps(&grid[p * axes..(p + 1) * axes], &shape.input);
        let mut row = row.iter_mut();
        combinations(&axis_taps, &shape.input, |index, taps| {
            if let (Some(tap), Some(index)) = (row.next(), index) {
                let weight: f64 = (0..axes).map(|k| axis_taps[k].weight[taps[k]]).product();
                *tap = Tap { index, weight: T::Acc::of(weight) };
            }
        });
    });
    table
}

/// Samples `data` (batch, channels, spatial axes) at `grid` (batch, points, axes) to `out` (batch, channels, points). Grid
/// coordinates run from -1 to 1 and start with that of the last axis.
///
/// # Panics
/// Panics if the lengths do not match or there are more than [`MAX_AXES`] axes.
pub fn grid_sample<T: FloatElement>(params: &GridSampling, shape: &GridShape, data: &[T], grid: &[T], out: &mut [T]) {
    let (axes, plane, taps) = (shape.input.len(), shape.plane(), params.taps(shape.input.len()));
    assert!(axes <= MAX_AXES && grid.len() == shape.batch * shape.points * axes, "elements of the grid");
    let per_image = shape.channels * shape.points;
    for (n, out) in out.chunks_exact_mut(per_image.max(1)).enumerate() {
        let table = tap_table(params, shape, &grid[n * shape.points * axes..(n + 1) * shape.points * axes]);
        par::parallel_rows(out, shape.points, 1, |c, out| {
            let image = &data[(n * shape.channels + c) * plane..][..plane];
            for (out, taps) in out.iter_mut().zip(table.chunks_exact(taps)) {
                let used = taps.iter().filter(|t| t.weight != T::Acc::zero());
                *out = used.fold(T::Acc::zero(), |sum, t| sum + t.weight * T::Acc::of(image[t.index])).store();
            }
        });
    }
}

/// The gradient of [`grid_sample`] with respect to the images.
///
/// # Panics
/// As [`grid_sample`].
pub fn grid_sample_backward_data<T: FloatElement>(
    params: &GridSampling,
    shape: &GridShape,
    grid: &[T],
    dy: &[T],
    dx: &mut [T],
) {
    let (axes, plane, taps) = (shape.input.len(), shape.plane(), params.taps(shape.input.len()));
    for (n, dx) in dx.chunks_exact_mut((shape.channels * plane).max(1)).enumerate() {
        let table = tap_table(params, shape, &grid[n * shape.points * axes..(n + 1) * shape.points * axes]);
        par::parallel_rows(dx, plane, 1, |c, dx| {
            let mut sums = memory::filled(T::Acc::zero(), plane);
            let dy = &dy[(n * shape.channels + c) * shape.points..][..shape.points];
            for (dy, taps) in dy.iter().zip(table.chunks_exact(taps)) {
                for tap in taps {
                    sums[tap.index] += tap.weight * T::Acc::of(*dy);
                }
            }
            dx.iter_mut().zip(sums).for_each(|(dx, sum)| *dx = sum.store());
        });
    }
}

/// The gradient of [`grid_sample`] with respect to the grid.
///
/// # Panics
/// As [`grid_sample`].
pub fn grid_sample_backward_grid<T: FloatElement>(
    params: &GridSampling,
    shape: &GridShape,
    data: &[T],
    grid: &[T],
    dy: &[T],
    dgrid: &mut [T],
) {
    let (axes, plane) = (shape.input.len(), shape.plane());
    par::parallel_rows(dgrid, axes, GRAIN, |point, dgrid| {
        let (n, p) = (point / shape.points, point % shape.points);
        let axis_taps = params.point_taps(&grid[point * axes..(point + 1) * axes], &shape.input);
        let mut sums = [0.0; MAX_AXES];
        combinations(&axis_taps, &shape.input, |index, taps| {
            let Some(index) = index else { return };
            let pixel_grad: f64 = (n * shape.channels..(n + 1) * shape.channels)
                .map(|c| dy[c * shape.points + p].to_f64() * data[c * plane + index].to_f64())
                .sum();
            for (axis, sum) in sums.iter_mut().enumerate().take(axes) {
                let weight =
                    |k: usize| if k == axis { axis_taps[k].derivative[taps[k]] } else { axis_taps[k].weight[taps[k]] };
                *sum += pixel_grad * (0..axes).map(weight).product::<f64>();
            }
        });
        for (k, d) in dgrid.iter_mut().enumerate() {
            *d = T::from_f64(sums[axes - 1 - k]);
        }
    });
}
