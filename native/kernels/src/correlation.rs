//! Correlation of patches of two feature maps (Fischer et al., "FlowNet: learning optical flow with convolutional networks", 2015).

use crate::float::{Accum, FloatElement};
use crate::movement::{Padding, pad};
use crate::par::{parallel_rows, with_scratch};
use num_traits::{Float, One, Zero};

/// Multiply-adds per chunk.
const GRAIN: usize = 1 << 15;

/// Sizes of a correlation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrelationShape {
    /// Number of image pairs.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image.
    pub input: [usize; 2],
    /// Height and width of a patch; odd.
    pub kernel: usize,
    /// Maximum displacement of the second patch in each direction.
    pub displacement: usize,
    /// Strides of the first patch and of the displacements; at least 1.
    pub strides: [usize; 2],
    /// Zero padding around the images.
    pub pad: usize,
    /// True to multiply pixels, false to take their absolute differences.
    pub is_multiply: bool,
}

impl CorrelationShape {
    /// Height and width of a padded image.
    fn padded(&self) -> [usize; 2] {
        self.input.map(|d| d + 2 * self.pad)
    }

    /// Number of displacements in each direction.
    fn max_steps(&self) -> usize {
        self.displacement / self.strides[1]
    }

    /// Height and width of the output; zero if no patch fits.
    pub fn output(&self) -> [usize; 2] {
        let border = self.displacement + self.kernel.saturating_sub(1) / 2;
        self.padded().map(|d| d.saturating_sub(2 * border).div_ceil(self.strides[0]))
    }

    /// Channels of the output: the number of displacements.
    pub fn displacements(&self) -> usize {
        (2 * self.max_steps() + 1).pow(2)
    }

    /// Row and column of the second patch of displacement `d`, for the first patch at (0, 0).
    fn displaced_start(&self, d: usize) -> [usize; 2] {
        let (width, stride) = (2 * self.max_steps() + 1, self.strides[1]);
        let first = self.displacement - self.max_steps() * stride;
        [first + d / width * stride, first + d % width * stride]
    }

    /// Number of terms in the mean of an output.
    fn terms(&self) -> usize {
        self.kernel * self.kernel * self.channels
    }

    /// Calls `f` with the padded images.
    fn with_padded<T: FloatElement, R>(&self, images: [&[T]; 2], f: impl FnOnce([&[T]; 2]) -> R) -> R {
        let planes = self.batch * self.channels;
        let len = planes * self.padded().iter().product::<usize>();
        with_scratch(2 * len, |buffer: &mut [T]| {
            let (a, b) = buffer.split_at_mut(len);
            for (image, to) in images.into_iter().zip([&mut *a, &mut *b]) {
                let margin = (self.pad, self.pad);
                let shape = [planes, self.input[0], self.input[1]];
                pad(image, &shape, &[(0, 0), margin, margin], Padding::Constant(T::default()), to);
            }
            f([a, b])
        })
    }
}

/// Writes `y` (batch, displacements, height, width): the mean over a patch and all channels of the products (or absolute
/// differences) of the pixels of `a` and the displaced pixels of `b`.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn correlation<T: FloatElement>(s: &CorrelationShape, a: &[T], b: &[T], y: &mut [T]) {
    let ([height, width], count) = (s.output(), s.displacements());
    assert_eq!(y.len(), s.batch * count * height * width, "elements of the output of {s:?}");
    let [padded_height, padded_width] = s.padded();
    let scale = T::Acc::one() / T::Acc::count(s.terms().max(1));
    s.with_padded([a, b], |[a, b]| {
        let grain = GRAIN.div_ceil((width * s.terms()).max(1));
        parallel_rows(y, width, grain, |i, y| {
            let (n, d, row) = (i / (count * height), i / height % count, i % height * s.strides[0]);
            let [dy, dx] = s.displaced_start(d);
            with_scratch(width, |sums: &mut [T::Acc]| {
                sums.fill(T::Acc::zero());
                for (c, h) in (0..s.channels).flat_map(|c| (0..s.kernel).map(move |h| (c, h))) {
                    let line = |at: usize| ((n * s.channels + c) * padded_height + at + h) * padded_width;
                    let (first, displaced_start) = (line(row + s.displacement), line(row + dy));
                    for w in 0..s.kernel {
                        let (a, b) = (&a[first + s.displacement + w..], &b[displaced_start + dx + w..]);
                        match s.is_multiply {
                            true => add_products(s.strides[0], a, b, sums),
                            false => add_differences(s.strides[0], a, b, sums),
                        }
                    }
                }
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = (*sum * scale).store());
            });
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_products<T: FloatElement>(stride: usize, a: &[T], b: &[T], sums: &mut [T::Acc]) {
        if stride == 1 {
            for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += T::Acc::of(*a) * T::Acc::of(*b);
            }
        } else {
            for (sum, (a, b)) in sums.iter_mut().zip(a.iter().step_by(stride).zip(b.iter().step_by(stride))) {
                *sum += T::Acc::of(*a) * T::Acc::of(*b);
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_differences<T: FloatElement>(stride: usize, a: &[T], b: &[T], sums: &mut [T::Acc]) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().step_by(stride).zip(b.iter().step_by(stride))) {
            *sum += (T::Acc::of(*a) - T::Acc::of(*b)).abs();
        }
    }
}

/// The gradients of [`correlation`] with respect to both images; `None` for those that are not needed. The derivative of an
/// absolute difference of zero is 1 with respect to `a` and -1 with respect to `b`.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn correlation_backward<T: FloatElement>(
    s: &CorrelationShape,
    images: [&[T]; 2],
    y_grad: &[T],
    grads: [Option<&mut [T]>; 2],
) {
    s.with_padded(images, |padded| {
        for (input_index, grad) in grads.into_iter().enumerate() {
            if let Some(grad) = grad {
                backward_one(s, padded, input_index, y_grad, grad);
            }
        }
    });
}

/// The gradient with respect to one of the images, plane by plane.
fn backward_one<T: FloatElement>(
    s: &CorrelationShape,
    [a, b]: [&[T]; 2],
    input_index: usize,
    y_grad: &[T],
    grad: &mut [T],
) {
    let ([height, width], count, stride) = (s.output(), s.displacements(), s.strides[0]);
    let [padded_height, padded_width] = s.padded();
    let plane = padded_height * padded_width;
    let scale = T::Acc::one() / T::Acc::count(s.terms().max(1));
    parallel_rows(grad, s.input[0] * s.input[1], 1, |i, grad| {
        let (a, b) = (&a[i * plane..(i + 1) * plane], &b[i * plane..(i + 1) * plane]);
        let grads = &y_grad[i / s.channels * count * height * width..];
        with_scratch(plane, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            for (d, row) in (0..count).flat_map(|d| (0..height).map(move |row| (d, row))) {
                let row_grads = &grads[(d * height + row) * width..][..width];
                let [dy, dx] = s.displaced_start(d);
                for (h, w) in (0..s.kernel).flat_map(|h| (0..s.kernel).map(move |w| (h, w))) {
                    let at = |r: usize, c: usize| (row * stride + r + h) * padded_width + c + w;
                    let first = at(s.displacement, s.displacement);
                    let displaced_start = at(dy, dx);
                    let (a, b) = (&a[first..], &b[displaced_start..]);
                    match (s.is_multiply, input_index) {
                        (true, 0) => add_weighted(stride, row_grads, b, &mut sums[first..]),
                        (true, _) => add_weighted(stride, row_grads, a, &mut sums[displaced_start..]),
                        (false, 0) => add_signs(stride, row_grads, a, b, T::Acc::one(), &mut sums[first..]),
                        (false, _) => add_signs(stride, row_grads, a, b, -T::Acc::one(), &mut sums[displaced_start..]),
                    }
                }
            }
            for (r, grad) in grad.chunks_exact_mut(s.input[1]).enumerate() {
                let line = &sums[(r + s.pad) * padded_width + s.pad..];
                grad.iter_mut().zip(line).for_each(|(to, sum)| *to = (*sum * scale).store());
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_weighted<T: FloatElement>(stride: usize, grads: &[T], x: &[T], sums: &mut [T::Acc]) {
        if stride == 1 {
            for (sum, (grad, x)) in sums.iter_mut().zip(grads.iter().zip(x)) {
                *sum += T::Acc::of(*grad) * T::Acc::of(*x);
            }
        } else {
            for (sum, (grad, x)) in sums.iter_mut().step_by(stride).zip(grads.iter().zip(x.iter().step_by(stride))) {
                *sum += T::Acc::of(*grad) * T::Acc::of(*x);
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add_signs<T: FloatElement>(stride: usize, grads: &[T], a: &[T], b: &[T], one: T::Acc, sums: &mut [T::Acc]) {
        let pixels = a.iter().step_by(stride).zip(b.iter().step_by(stride));
        for (sum, (grad, (a, b))) in sums.iter_mut().step_by(stride).zip(grads.iter().zip(pixels)) {
            let sign = if T::Acc::of(*a) >= T::Acc::of(*b) { one } else { -one };
            *sum += T::Acc::of(*grad) * sign;
        }
    }
}
