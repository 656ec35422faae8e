//! Bilinear sampling of images on a grid (Jaderberg et al., "Spatial transformer networks", 2015).

use crate::float::{Accum, FloatElement, with_wide_mut};
use crate::par::{parallel_rows, parallel_rows2};
use num_traits::Zero;

/// Elements per chunk.
const GRAIN: usize = 1 << 13;

/// The shape of images and grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Number of images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image.
    pub input: [usize; 2],
    /// Sampling points per image.
    pub points: usize,
}

impl Sampling {
    fn plane(&self) -> usize {
        self.input[0] * self.input[1]
    }

    fn check(&self, data: usize, grid: usize, output: usize) {
        let planes = self.batch * self.channels;
        assert_eq!(data, planes * self.plane(), "elements of the images of {self:?}");
        assert_eq!(grid, self.batch * 2 * self.points, "elements of the grid of {self:?}");
        assert_eq!(output, planes * self.points, "elements of the output of {self:?}");
    }
}

/// The 2 x 2 pixels around a sampling point: upper left, upper right, lower left, lower right. Pixels outside the image count as
/// zero.
#[derive(Clone, Copy)]
pub(crate) struct Corner<A> {
    /// Offset of the upper left pixel in the plane; it may lie outside.
    pub offset: isize,
    /// True for the pixels that lie inside the image.
    pub inside: [bool; 4],
    /// Offset (x, y) of the point from the upper left pixel, in pixels.
    pub fraction: [A; 2],
}

impl<A: Accum> Corner<A> {
    /// The pixels around the point (x, y), whose coordinates run from -1 to 1 over the pixel centers.
    fn new(x: A, y: A, [height, width]: [usize; 2]) -> Corner<A> {
        let scale = |v: A, size: usize| (v + A::one()) * A::count(size.saturating_sub(1)) / A::count(2);
        Corner::at_pixel(scale(x, width), scale(y, height), [height, width])
    }

    /// The pixels around column `x` and row `y`, which may be fractional.
    pub(crate) fn at_pixel(x: A, y: A, [height, width]: [usize; 2]) -> Corner<A> {
        let (left, top) = (x.floor(), y.floor());
        // Points far outside are equivalent to points just outside.
        let index = |v: A, size: usize| v.wide().clamp(-2.0, size as f64 + 1.0) as isize;
        let (column, row) = (index(left, width), index(top, height));
        let column_inside = [column, column + 1].map(|c| (0..width as isize).contains(&c));
        let row_inside = [row, row + 1].map(|r| (0..height as isize).contains(&r));
        Corner {
            offset: row * width as isize + column,
            inside: [0, 1, 2, 3].map(|k: usize| row_inside[k / 2] && column_inside[k % 2]),
            fraction: [x - left, y - top],
        }
    }

    /// The offsets of the four pixels from the upper left one.
    pub(crate) fn offsets(width: usize) -> [isize; 4] {
        [0, 1, width as isize, width as isize + 1]
    }

    /// The values of the four pixels.
    pub(crate) fn pixels<T: FloatElement<Acc = A>>(&self, image: &[T], width: usize) -> [A; 4] {
        let mut pixels = [A::zero(); 4];
        for ((pixel, inside), offset) in pixels.iter_mut().zip(self.inside).zip(Self::offsets(width)) {
            if inside {
                *pixel = A::of(image[(self.offset + offset) as usize]);
            }
        }
        pixels
    }

    /// [`Self::pixels`], without a check of each pixel if all lie inside the image.
    #[inline(always)]
    fn pixels_of<T: FloatElement<Acc = A>>(&self, image: &[T], width: usize) -> [A; 4] {
        if self.inside != [true; 4] {
            return self.pixels(image, width);
        }
        let rows = &image[self.offset as usize..][..width + 2];
        [rows[0], rows[1], rows[width], rows[width + 1]].map(A::of)
    }

    /// The weights of the four pixels.
    pub(crate) fn weights(&self) -> [A; 4] {
        let ([x, y], one) = (self.fraction, A::one());
        [(one - y) * (one - x), (one - y) * x, y * (one - x), y * x]
    }

    /// The derivatives of the interpolated value with respect to x and y.
    pub(crate) fn derivatives(&self, [a, b, c, d]: [A; 4]) -> [A; 2] {
        let ([x, y], one) = (self.fraction, A::one());
        [(b - a) * (one - y) + (d - c) * y, (c - a) * (one - x) + (d - b) * x]
    }
}

/// The corners of all points of the grid of image `n`.
fn corners<'a, T: FloatElement>(
    shape: &'a Sampling,
    grid: &'a [T],
    n: usize,
) -> impl Iterator<Item = Corner<T::Acc>> + 'a {
    let (xs, ys) = grid[n * 2 * shape.points..(n + 1) * 2 * shape.points].split_at(shape.points);
    xs.iter().zip(ys).map(|(x, y)| Corner::new(T::Acc::of(*x), T::Acc::of(*y), shape.input))
}

/// Samples each channel of `x` (batch, channels, height, width) at the points of `grid` (batch, 2, points), whose x and y
/// coordinates run from -1 to 1 over the image. Pixels outside count as zero.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn bilinear_sample<T: FloatElement>(shape: &Sampling, x: &[T], grid: &[T], y: &mut [T]) {
    shape.check(x.len(), grid.len(), y.len());
    let (plane, width, points) = (shape.plane(), shape.input[1], shape.points);
    if y.is_empty() {
        return;
    }
    // The channels of an image share the corners, so a small image is one chunk.
    let channels = GRAIN.div_ceil(points.max(1)).clamp(1, shape.channels.max(1));
    let groups = shape.channels.div_ceil(channels);
    let starts: Vec<_> = (0..shape.batch * groups).map(|i| (i / groups, i % groups * channels)).collect();
    let mut chunks: Vec<_> = Vec::with_capacity(starts.len());
    let mut rest = y;
    for (_, first) in &starts {
        let (chunk, after) = rest.split_at_mut(channels.min(shape.channels - first) * points);
        chunks.push(chunk);
        rest = after;
    }
    parallel_rows(&mut chunks, 1, 1, |i, chunk| {
        let (n, first) = starts[i];
        let images = &x[(n * shape.channels + first) * plane..];
        let corners: Vec<_> = corners(shape, grid, n).map(|corner| (corner, corner.weights())).collect();
        for (c, y) in chunk[0].chunks_exact_mut(points).enumerate() {
            let image = &images[c * plane..(c + 1) * plane];
            for (y, (corner, weights)) in y.iter_mut().zip(&corners) {
                let pixels = corner.pixels_of(image, width);
                *y = (0..4).map(|i| pixels[i] * weights[i]).sum::<T::Acc>().store();
            }
        }
    });
}

/// The gradient of [`bilinear_sample`] with respect to `x`.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn bilinear_sample_backward_data<T: FloatElement>(shape: &Sampling, grid: &[T], y_grad: &[T], x_grad: &mut [T]) {
    shape.check(x_grad.len(), grid.len(), y_grad.len());
    let (plane, width, points) = (shape.plane(), shape.input[1], shape.points);
    let grain = GRAIN.div_ceil((plane + points).max(1));
    parallel_rows(x_grad, shape.channels * plane, 1, |n, x_grad| {
        let corners: Vec<_> = corners(shape, grid, n).map(|corner| (corner, corner.weights())).collect();
        parallel_rows(x_grad, plane, grain, |c, x_grad| {
            let grads = &y_grad[(n * shape.channels + c) * points..][..points];
            with_wide_mut(x_grad, |sums| {
                sums.fill(T::Acc::zero());
                for ((corner, weights), grad) in corners.iter().zip(grads) {
                    let grad = T::Acc::of(*grad);
                    if corner.inside == [true; 4] {
                        let rows = &mut sums[corner.offset as usize..][..width + 2];
                        for (offset, weight) in [0, 1, width, width + 1].into_iter().zip(weights) {
                            rows[offset] += *weight * grad;
                        }
                        continue;
                    }
                    for (k, offset) in Corner::<T::Acc>::offsets(width).into_iter().enumerate() {
                        if corner.inside[k] {
                            sums[(corner.offset + offset) as usize] += weights[k] * grad;
                        }
                    }
                }
            });
        });
    });
}

/// The gradient of [`bilinear_sample`] with respect to the grid.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn bilinear_sample_backward_grid<T: FloatElement>(
    shape: &Sampling,
    x: &[T],
    grid: &[T],
    y_grad: &[T],
    grid_grad: &mut [T],
) {
    shape.check(x.len(), grid.len(), y_grad.len());
    assert_eq!(grid_grad.len(), grid.len(), "elements of the gradient of the grid");
    let (plane, points) = (shape.plane(), shape.points);
    let [height, width] = shape.input;
    let scale = [width, height].map(|size| T::Acc::count(size.saturating_sub(1)) / T::Acc::count(2));
    parallel_rows(grid_grad, 2 * points, 1, |n, grid_grad| {
        let (to_x, to_y) = grid_grad.split_at_mut(points);
        let corners: Vec<_> = corners(shape, grid, n).collect();
        let block = GRAIN.div_ceil(shape.channels.max(1));
        parallel_rows2((to_x, block), (to_y, block), 1, |i, to_x, to_y| {
            let first = i * block;
            let mut sums = vec![[T::Acc::zero(); 2]; to_x.len()];
            for channel in n * shape.channels..(n + 1) * shape.channels {
                let image = &x[channel * plane..(channel + 1) * plane];
                let grads = &y_grad[channel * points + first..][..sums.len()];
                for ((sums, corner), grad) in sums.iter_mut().zip(&corners[first..]).zip(grads) {
                    let ([dx, dy], grad) = (corner.derivatives(corner.pixels_of(image, width)), T::Acc::of(*grad));
                    sums[0] += grad * dx;
                    sums[1] += grad * dy;
                }
            }
            for ((to_x, to_y), sums) in to_x.iter_mut().zip(to_y).zip(sums) {
                *to_x = (sums[0] * scale[0]).store();
                *to_y = (sums[1] * scale[1]).store();
            }
        });
    });
}

/// The grid coordinates of the pixels of an axis, from -1 to 1; 0 for a single pixel.
fn coordinates<A: Accum>(size: usize) -> impl Iterator<Item = A> + Clone {
    let last = size.saturating_sub(1).max(1) as f64;
    (0..size).map(move |i| A::of(if size == 1 { 0.0 } else { i as f64 * 2.0 / last - 1.0 }))
}

/// The grids (batch, 2, height, width) of affine transformations (batch, 2 x 3) of the pixel coordinates of an image.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn affine_grid<T: FloatElement>([height, width]: [usize; 2], matrices: &[T], grid: &mut [T]) {
    assert_eq!(grid.len() / (2 * height * width).max(1), matrices.len() / 6, "grids of affine transformations");
    parallel_rows(grid, width, GRAIN.div_ceil(width.max(1)), |i, grid| {
        let matrix = &matrices[i / height * 3..][..3];
        let [a, b, c] = [0, 1, 2].map(|k| T::Acc::of(matrix[k]));
        let Some(y) = coordinates::<T::Acc>(height).nth(i % height) else { return };
        let start = b * y + c;
        grid.iter_mut().zip(coordinates::<T::Acc>(width)).for_each(|(to, x)| *to = (a * x + start).store());
    });
}

/// The gradient of [`affine_grid`].
///
/// # Panics
/// Panics if the lengths do not match.
pub fn affine_grid_backward<T: FloatElement>([height, width]: [usize; 2], grid_grad: &[T], matrix_grad: &mut [T]) {
    let plane = height * width;
    assert_eq!(grid_grad.len() * 3, matrix_grad.len() * plane, "grids of affine transformations");
    parallel_rows(matrix_grad, 3, GRAIN.div_ceil(plane.max(1)), |i, to| {
        let mut sums = [T::Acc::zero(); 3];
        let lines = grid_grad[i * plane..(i + 1) * plane].chunks_exact(width);
        for (line, y) in lines.zip(coordinates::<T::Acc>(height)) {
            let (mut x_sum, mut sum) = (T::Acc::zero(), T::Acc::zero());
            for (grad, x) in line.iter().zip(coordinates::<T::Acc>(width)) {
                x_sum += T::Acc::of(*grad) * x;
                sum += T::Acc::of(*grad);
            }
            sums[0] += x_sum;
            sums[1] += sum * y;
            sums[2] += sum;
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum.store());
    });
}

/// Pixels per unit of the grid coordinates along an axis: half of `size - 1`, or 1 for a single pixel.
fn pixels_per_unit<A: Accum>(size: usize) -> A {
    A::of(if size > 1 { (size - 1) as f64 / 2.0 } else { 1.0 })
}

/// The grids (batch, 2, height, width) of the pixel coordinates displaced by `flow`, in pixels.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn warp_grid<T: FloatElement>([height, width]: [usize; 2], flow: &[T], grid: &mut [T]) {
    assert_eq!(flow.len(), grid.len(), "elements of a grid and its flow");
    parallel_rows(grid, width, GRAIN.div_ceil(width.max(1)), |i, grid| {
        let flow = flow[i * width..(i + 1) * width].iter().map(|d| T::Acc::of(*d));
        if i / height % 2 == 0 {
            let scale = pixels_per_unit::<T::Acc>(width);
            let shifted = coordinates::<T::Acc>(width).zip(flow);
            grid.iter_mut().zip(shifted).for_each(|(to, (x, d))| *to = (x + d / scale).store());
        } else if let Some(y) = coordinates::<T::Acc>(height).nth(i % height) {
            let scale = pixels_per_unit::<T::Acc>(height);
            grid.iter_mut().zip(flow).for_each(|(to, d)| *to = (y + d / scale).store());
        }
    });
}

/// The gradient of [`warp_grid`].
///
/// # Panics
/// Panics if the lengths do not match.
pub fn warp_grid_backward<T: FloatElement>([height, width]: [usize; 2], grid_grad: &[T], flow_grad: &mut [T]) {
    assert_eq!(flow_grad.len(), grid_grad.len(), "elements of a grid and its flow");
    let plane = height * width;
    parallel_rows(flow_grad, plane, GRAIN.div_ceil(plane.max(1)), |i, to| {
        let scale = pixels_per_unit::<T::Acc>(if i % 2 == 0 { width } else { height });
        let from = &grid_grad[i * plane..(i + 1) * plane];
        to.iter_mut().zip(from).for_each(|(to, grad)| *to = (T::Acc::of(*grad) / scale).store());
    });
}
