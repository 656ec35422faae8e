//! Resizing of planes: bilinear interpolation, adaptive average pooling, and nearest-neighbor upsampling.

use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use num_traits::{One, Zero};
use std::ops::Range;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// Sizes of the planes before and after resizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of the output.
    pub output: [usize; 2],
}

impl Resize {
    fn planes(&self) -> [usize; 2] {
        [self.input[0] * self.input[1], self.output[0] * self.output[1]]
    }

    /// Checks the lengths and returns the number of planes.
    fn check(&self, input: usize, output: usize) -> usize {
        let [from, to] = self.planes();
        let count = input.checked_div(from).unwrap_or(output / to.max(1));
        assert_eq!([input, output], [count * from, count * to], "elements of planes of {self:?}");
        count
    }

    fn grain(&self) -> usize {
        GRAIN.div_ceil(self.planes().into_iter().sum::<usize>().max(1))
    }
}

/// The interpolation of an output coordinate along one axis: `(1 - weight) * x[first] + weight * x[second]`.
#[derive(Clone, Copy)]
struct AxisTap<A> {
    first: usize,
    second: usize,
    weight: A,
}

/// The interpolation of each output coordinate of an axis.
fn axis_taps<A: Accum>(input: usize, output: usize, align_corners: bool) -> Vec<AxisTap<A>> {
    let ratio = match align_corners {
        _ if output == 1 => 0.0,
        true => (input - 1) as f64 / (output - 1) as f64,
        false => input as f64 / output as f64,
    };
    let tap = |i: usize| {
        let x = if align_corners { i as f64 * ratio } else { ((i as f64 + 0.5) * ratio - 0.5).max(0.0) };
        let first = (x as usize).min(input - 1);
        AxisTap { first, second: (first + 1).min(input - 1), weight: A::of(x - first as f64) }
    };
    (0..output).map(tap).collect()
}

/// Bilinear interpolation of each plane. With `align_corners` the centers of the corner pixels of input and output coincide,
/// otherwise their outer edges do. An axis of one output pixel takes the first input pixel.
///
/// # Panics
/// Panics if the lengths do not match, or the input is empty but the output is not.
pub fn bilinear_resize<T: FloatElement>(shape: &Resize, align_corners: bool, x: &[T], y: &mut [T]) {
    let count = shape.check(x.len(), y.len());
    if y.is_empty() {
        return;
    }
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let rows = axis_taps::<T::Acc>(height, out_height, align_corners);
    let columns = axis_taps::<T::Acc>(width, out_width, align_corners);
    let [plane, _] = shape.planes();
    debug_assert_eq!(count * plane, x.len());
    parallel_rows(y, out_width, GRAIN.div_ceil(out_width + 2 * width), |i, y| {
        let image = &x[i / out_height * plane..];
        let row = rows[i % out_height];
        let image_row = |r: usize| &image[r * width..(r + 1) * width];
        let (upper, lower) = (image_row(row.first), image_row(row.second));
        if 4 * out_width < width {
            // Only a few pixels of the rows are read, so only these are interpolated.
            let lerp_at =
                |c: usize| T::Acc::of(upper[c]) * (T::Acc::one() - row.weight) + T::Acc::of(lower[c]) * row.weight;
            for (y, column) in y.iter_mut().zip(&columns) {
                let (a, b) = (lerp_at(column.first), lerp_at(column.second));
                *y = (a + (b - a) * column.weight).store();
            }
            return;
        }
        with_scratch(width, |blend: &mut [T::Acc]| {
            lerp(row.weight, upper, lower, blend);
            for (y, column) in y.iter_mut().zip(&columns) {
                let (a, b) = (blend[column.first], blend[column.second]);
                *y = (a + (b - a) * column.weight).store();
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn lerp<T: FloatElement>(weight: T::Acc, a: &[T], b: &[T], out: &mut [T::Acc]) {
        for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
            *out = T::Acc::of(*a) * (T::Acc::one() - weight) + T::Acc::of(*b) * weight;
        }
    }
}

/// The gradient of [`bilinear_resize`].
///
/// # Panics
/// As [`bilinear_resize`].
pub fn bilinear_resize_backward<T: FloatElement>(shape: &Resize, align_corners: bool, y_grad: &[T], x_grad: &mut [T]) {
    shape.check(x_grad.len(), y_grad.len());
    if y_grad.is_empty() {
        return x_grad.fill(T::default());
    }
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let rows = axis_taps::<T::Acc>(height, out_height, align_corners);
    let columns = axis_taps::<T::Acc>(width, out_width, align_corners);
    let [plane, out_plane] = shape.planes();
    parallel_rows(x_grad, plane, shape.grain(), |i, x_grad| {
        with_scratch(plane + width, |buffer: &mut [T::Acc]| {
            let (sums, row_sums) = buffer.split_at_mut(plane);
            sums.fill(T::Acc::zero());
            let grads = y_grad[i * out_plane..(i + 1) * out_plane].chunks_exact(out_width);
            for (row, grads) in rows.iter().zip(grads) {
                row_sums.fill(T::Acc::zero());
                for (column, grad) in columns.iter().zip(grads) {
                    let grad = T::Acc::of(*grad);
                    row_sums[column.first] += grad * (T::Acc::one() - column.weight);
                    row_sums[column.second] += grad * column.weight;
                }
                add_scaled(T::Acc::one() - row.weight, row_sums, &mut sums[row.first * width..(row.first + 1) * width]);
                add_scaled(row.weight, row_sums, &mut sums[row.second * width..(row.second + 1) * width]);
            }
            x_grad.iter_mut().zip(&*sums).for_each(|(to, sum)| *to = sum.store());
        });
    });
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    fn add_scaled<A: Accum>(scale: A, x: &[A], sums: &mut [A]) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += scale * *x);
    }
}

/// The range of an axis of `input` pixels that output pixel `i` of `output` averages; adjacent ranges may overlap.
fn pooling_range(i: usize, input: usize, output: usize) -> Range<usize> {
    i * input / output..((i + 1) * input).div_ceil(output)
}

/// Adaptive average pooling: averages each plane over `output` ranges per axis of nearly equal size, which may overlap by a pixel.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn average_resize<T: FloatElement>(shape: &Resize, x: &[T], y: &mut [T]) {
    shape.check(x.len(), y.len());
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let [plane, out_plane] = shape.planes();
    parallel_rows(y, out_plane, shape.grain(), |i, y| {
        let image = &x[i * plane..(i + 1) * plane];
        with_scratch(width, |sums: &mut [T::Acc]| {
            for (row, y) in y.chunks_exact_mut(out_width).enumerate() {
                let rows = pooling_range(row, height, out_height);
                sums.fill(T::Acc::zero());
                rows.clone().for_each(|r| add(&image[r * width..(r + 1) * width], sums));
                for (column, y) in y.iter_mut().enumerate() {
                    let columns = pooling_range(column, width, out_width);
                    let count = T::Acc::count(rows.len() * columns.len());
                    *y = (sums[columns].iter().copied().sum::<T::Acc>() / count).store();
                }
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add<T: FloatElement>(x: &[T], sums: &mut [T::Acc]) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += T::Acc::of(*x));
    }
}

/// The gradient of [`average_resize`].
///
/// # Panics
/// Panics if the lengths do not match.
pub fn average_resize_backward<T: FloatElement>(shape: &Resize, y_grad: &[T], x_grad: &mut [T]) {
    shape.check(x_grad.len(), y_grad.len());
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let [plane, out_plane] = shape.planes();
    parallel_rows(x_grad, plane, shape.grain(), |i, x_grad| {
        with_scratch(plane + width, |buffer: &mut [T::Acc]| {
            let (sums, row_sums) = buffer.split_at_mut(plane);
            sums.fill(T::Acc::zero());
            for (row, grads) in y_grad[i * out_plane..(i + 1) * out_plane].chunks_exact(out_width).enumerate() {
                let rows = pooling_range(row, height, out_height);
                row_sums.fill(T::Acc::zero());
                for (column, grad) in grads.iter().enumerate() {
                    let columns = pooling_range(column, width, out_width);
                    let mean = T::Acc::of(*grad) / T::Acc::count(rows.len() * columns.len());
                    row_sums[columns].iter_mut().for_each(|sum| *sum += mean);
                }
                rows.for_each(|r| add_scaled(T::Acc::one(), row_sums, &mut sums[r * width..(r + 1) * width]));
            }
            x_grad.iter_mut().zip(&*sums).for_each(|(to, sum)| *to = sum.store());
        });
    });
}

/// Nearest-neighbor upsampling: repeats each pixel. The output size must be a multiple of the input size. With `add` the result is
/// added to `y`.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn nearest_resize<T: FloatElement>(shape: &Resize, add: bool, x: &[T], y: &mut [T]) {
    shape.check(x.len(), y.len());
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let [repeat_y, repeat_x] = [out_height / height.max(1), out_width / width.max(1)];
    parallel_rows(y, out_width, GRAIN.div_ceil(out_width.max(1)), |i, y| {
        let row = i / out_height * height + i % out_height / repeat_y;
        let x = &x[row * width..(row + 1) * width];
        match (add, repeat_x) {
            (false, 1) => y.copy_from_slice(x),
            (false, 2) => y.as_chunks_mut::<2>().0.iter_mut().zip(x).for_each(|(y, x)| *y = [*x; 2]),
            (false, _) => y.chunks_exact_mut(repeat_x).zip(x).for_each(|(y, x)| y.fill(*x)),
            (true, _) => y.chunks_exact_mut(repeat_x).zip(x).for_each(|(y, x)| {
                y.iter_mut().for_each(|y| *y = (T::Acc::of(*y) + T::Acc::of(*x)).store());
            }),
        }
    });
}

/// The gradient of [`nearest_resize`]: the sum over the copies of each pixel.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn nearest_resize_backward<T: FloatElement>(shape: &Resize, y_grad: &[T], x_grad: &mut [T]) {
    shape.check(x_grad.len(), y_grad.len());
    let ([height, width], [out_height, out_width]) = (shape.input, shape.output);
    let [repeat_y, repeat_x] = [out_height / height.max(1), out_width / width.max(1)];
    parallel_rows(x_grad, width, GRAIN.div_ceil((width * repeat_y * repeat_x).max(1)), |i, x_grad| {
        let first = (i / height * out_height + i % height * repeat_y) * out_width;
        with_scratch(out_width, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            y_grad[first..first + repeat_y * out_width]
                .chunks_exact(out_width)
                .for_each(|row_sums| add(row_sums, sums));
            for (to, sums) in x_grad.iter_mut().zip(sums.chunks_exact(repeat_x)) {
                *to = sums.iter().copied().sum::<T::Acc>().store();
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_columns_are_those_of_many() {
        let (height, width) = (7, 40);
        let x: Vec<f32> = (0..2 * height * width).map(|i| ((i * 37) % 101) as f32 / 8.0).collect();
        for align in [true, false] {
            let mut few = vec![0f32; 2 * 3 * 5];
            bilinear_resize(&Resize { input: [height, width], output: [3, 5] }, align, &x, &mut few);
            for (i, y) in few.iter().enumerate() {
                let (plane, row, column) = (i / 15, i / 5 % 3, i % 5);
                let at = |i: usize, n: usize, m: usize| match align {
                    true => i as f64 * (n - 1) as f64 / (m - 1) as f64,
                    false => ((i as f64 + 0.5) * n as f64 / m as f64 - 0.5).max(0.0),
                };
                let (r, c) = (at(row, height, 3), at(column, width, 5));
                let pixel = |r: f64, c: f64| {
                    let (r, c) = ((r as usize).min(height - 1), (c as usize).min(width - 1));
                    f64::from(x[(plane * height + r) * width + c])
                };
                let row_sums = |r: f64| pixel(r, c) * (1.0 - c.fract()) + pixel(r, c + 1.0) * c.fract();
                let want = row_sums(r) * (1.0 - r.fract()) + row_sums(r + 1.0) * r.fract();
                assert!((f64::from(*y) - want).abs() < 1e-5, "{align} {i}: {y} instead of {want}");
            }
        }
    }

    #[test]
    fn corners_and_edges() {
        let shape = Resize { input: [1, 3], output: [1, 5] };
        let mut y = [0f32; 5];
        for (align_corners, want) in [(true, [0.0, 0.5, 1.0, 1.5, 2.0]), (false, [0.0, 0.4, 1.0, 1.6, 2.0])] {
            bilinear_resize(&shape, align_corners, &[0.0, 1.0, 2.0], &mut y);
            y.iter().zip(want).for_each(|(y, want)| assert!((y - want).abs() < 1e-6));
        }
        average_resize(&shape, &[0.0, 1.0, 2.0], &mut y);
        assert_eq!(y, [0.0, 0.5, 1.0, 1.5, 2.0]);
        let (mut y, add) = ([1f64; 6], true);
        nearest_resize(&Resize { input: [1, 3], output: [1, 6] }, add, &[0.0, 1.0, 2.0], &mut y);
        assert_eq!(y, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    }
}
