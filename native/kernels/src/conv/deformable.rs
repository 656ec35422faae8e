//! Deformable convolution in two dimensions: the taps are displaced by offsets (Dai et al., "Deformable convolutional networks",
//! 2017) and optionally weighted by a mask (Zhu et al., "Deformable ConvNets v2", 2019).

use super::ConvShape;
use crate::float::Accum;
use crate::gemm::{GemmElement, MatMut, MatRef, gemm};
use crate::par::{parallel_rows, with_scratch};
use crate::sampler::Corner;
use std::ops::Range;

/// Multiply-adds per chunk.
const GRAIN: usize = 1 << 14;

/// A deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformShape {
    /// The underlying convolution, in two dimensions.
    pub conv: ConvShape,
    /// Groups of input channels that share offsets; divides the number of input channels.
    pub offset_groups: usize,
    /// True if points up to one pixel outside the image are interpolated with zeros. If false, such points have the value zero, and
    /// points between the center of the last row or column and the edge of the image are clamped to that center.
    pub zero_border: bool,
}

/// The arrays of a deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformInputs<'a, T> {
    /// (batch, channels, height, width).
    pub data: &'a [T],
    /// The y and x offset of each tap, (batch, offset groups x taps x 2, out height, out width).
    pub offset: &'a [T],
    /// The modulation scale of each tap, (batch, offset groups x taps, out height, out width).
    pub mask: Option<&'a [T]>,
    /// The weights of the convolution.
    pub weights: &'a [T],
}

/// The gradients to write; `None` for those that are not needed.
#[derive(Debug)]
pub struct DeformGrads<'a, T> {
    /// With respect to the data.
    pub data: Option<&'a mut [T]>,
    /// With respect to the offsets.
    pub offset: Option<&'a mut [T]>,
    /// With respect to the mask.
    pub mask: Option<&'a mut [T]>,
    /// With respect to the weights.
    pub weights: Option<&'a mut [T]>,
}

/// The point at which a tap of an output pixel samples the image.
#[derive(Clone, Copy)]
struct SamplePoint<A> {
    corner: Corner<A>,
    /// For x and y: true if the value depends on the coordinate, false if it is clamped.
    is_free: [bool; 2],
}

impl DeformShape {
    fn size(&self) -> [usize; 2] {
        [self.conv.input[1], self.conv.input[2]]
    }

    fn pixels(&self) -> usize {
        self.conv.output().iter().product()
    }

    fn taps(&self) -> usize {
        self.conv.kernel.iter().product()
    }

    /// Number of offsets of an image; the mask has half as many elements.
    fn num_offsets(&self) -> usize {
        2 * self.offset_groups * self.taps() * self.pixels()
    }

    /// The elements of image `n` in the data.
    fn image_range(&self, n: usize) -> Range<usize> {
        let len = self.conv.in_channels * self.size().iter().product::<usize>();
        n * len..(n + 1) * len
    }

    /// The offsets of image `n`.
    fn offset_range(&self, n: usize) -> Range<usize> {
        n * self.num_offsets()..(n + 1) * self.num_offsets()
    }

    /// The mask of image `n`.
    fn mask_range(&self, n: usize) -> Range<usize> {
        n * self.num_offsets() / 2..(n + 1) * self.num_offsets() / 2
    }

    /// The sampling points of an image, (offset groups, taps, output pixels).
    fn points<A: GemmElement + Accum>(&self, offset: &[A]) -> Vec<SamplePoint<A>> {
        let (pixels, taps, [height, width]) = (self.pixels(), self.taps(), self.size());
        let ([_, kernel_width], columns) = ([self.conv.kernel[1], self.conv.kernel[2]], self.conv.output()[2]);
        let undisplaced = |axis: usize, out: usize, tap: usize| {
            (out * self.conv.stride[axis] + tap * self.conv.dilate[axis]) as f64 - self.conv.pad[axis] as f64
        };
        let point_of = |i: usize| {
            let (tap, pixel) = (i / pixels, i % pixels);
            let y_index = 2 * tap * pixels + pixel;
            let (row, column) = (tap % taps / kernel_width, tap % taps % kernel_width);
            let y = A::of(undisplaced(1, pixel / columns, row)) + offset[y_index];
            let x = A::of(undisplaced(2, pixel % columns, column)) + offset[y_index + pixels];
            self.point(x, y, [height, width])
        };
        (0..self.offset_groups * taps * pixels).map(point_of).collect()
    }

    fn point<A: Accum>(&self, x: A, y: A, [height, width]: [usize; 2]) -> SamplePoint<A> {
        if self.zero_border {
            return SamplePoint { corner: Corner::at_pixel(x, y, [height, width]), is_free: [true; 2] };
        }
        let within = |v: A, n: usize| v >= A::zero() && v < A::count(n);
        let last = [width, height].map(|n| A::count(n.saturating_sub(1)));
        let mut corner = Corner::at_pixel(x.min(last[0]), y.min(last[1]), [height, width]);
        if !(within(x, width) && within(y, height)) {
            corner.inside = [false; 4];
        }
        SamplePoint { corner, is_free: [x < last[0], y < last[1]] }
    }
}

/// An image (channels, height, width), with the points and scales at which the taps sample it.
struct SampledImage<'a, A> {
    shape: &'a DeformShape,
    image: &'a [A],
    /// (offset groups, taps, output pixels).
    points: Vec<SamplePoint<A>>,
    /// (offset groups, taps, output pixels).
    mask: Option<&'a [A]>,
}

impl<'a, A: GemmElement + Accum> SampledImage<'a, A> {
    /// Image `n` of the batch.
    fn new(shape: &'a DeformShape, inputs: &DeformInputs<'a, A>, n: usize) -> Self {
        SampledImage {
            shape,
            image: &inputs.data[shape.image_range(n)],
            points: shape.points(&inputs.offset[shape.offset_range(n)]),
            mask: inputs.mask.map(|mask| &mask[shape.mask_range(n)]),
        }
    }

    /// Writes the windows, (channels x taps, output pixels).
    fn columns(&self, columns: &mut [A]) {
        let SampledImage { shape, image, points, mask } = self;
        let (pixels, taps, [height, width]) = (shape.pixels(), shape.taps(), shape.size());
        let channels = shape.conv.in_channels / shape.offset_groups;
        parallel_rows(columns, pixels, GRAIN.div_ceil(8 * pixels.max(1)), |row, out| {
            let (channel, tap) = (row / taps, row % taps);
            let first = (channel / channels * taps + tap) * pixels;
            let plane = &image[channel * height * width..(channel + 1) * height * width];
            for (i, (out, point)) in out.iter_mut().zip(&points[first..first + pixels]).enumerate() {
                let (values, weights) = (point.corner.pixels(plane, width), point.corner.weights());
                let value = (0..4).map(|k| values[k] * weights[k]).sum::<A>();
                *out = mask.map_or(value, |mask| value * mask[first + i]);
            }
        });
    }

    /// Computes the gradient of the image from the gradient of its windows.
    fn data_gradient(&self, columns_grad: &[A], image_grad: &mut [A]) {
        let SampledImage { shape, points, mask, .. } = self;
        let (pixels, taps, [height, width]) = (shape.pixels(), shape.taps(), shape.size());
        let channels = shape.conv.in_channels / shape.offset_groups;
        parallel_rows(image_grad, height * width, 1, |channel, to| {
            to.fill(A::zero());
            for tap in 0..taps {
                let first = (channel / channels * taps + tap) * pixels;
                let grads = &columns_grad[(channel * taps + tap) * pixels..][..pixels];
                for (i, (point, grad)) in points[first..first + pixels].iter().zip(grads).enumerate() {
                    let grad = mask.map_or(*grad, |mask| *grad * mask[first + i]);
                    let weights = point.corner.weights();
                    for (k, offset) in Corner::<A>::offsets(width).into_iter().enumerate() {
                        if point.corner.inside[k] {
                            to[(point.corner.offset + offset) as usize] += weights[k] * grad;
                        }
                    }
                }
            }
        });
    }

    /// Computes the gradients of the offsets and the mask from the gradient of the windows.
    fn offset_gradients(&self, columns_grad: &[A], offset_grad: Option<&mut [A]>, mask_grad: Option<&mut [A]>) {
        let SampledImage { shape, image, points, mask } = self;
        let (pixels, taps, [height, width]) = (shape.pixels(), shape.taps(), shape.size());
        let channels = shape.conv.in_channels / shape.offset_groups;
        // For point `i`, three sums over the channels of its offset group: the window's gradient times the sampled value, times the
        // value's derivative in y, and times its derivative in x.
        let sums = |i: usize| {
            let (tap, pixel) = (i / pixels, i % pixels);
            let (group, tap) = (tap / taps, tap % taps);
            let point = &points[i];
            (group * channels..(group + 1) * channels).fold([A::zero(); 3], |[by_value, by_dy, by_dx], channel| {
                let plane = &image[channel * height * width..(channel + 1) * height * width];
                let grad = columns_grad[(channel * taps + tap) * pixels + pixel];
                let (corners, weights) = (point.corner.pixels(plane, width), point.corner.weights());
                let derivatives = point.corner.derivatives(corners);
                let slope = |axis: usize| if point.is_free[axis] { derivatives[axis] * grad } else { A::zero() };
                let value = (0..4).map(|k| corners[k] * weights[k]).sum::<A>();
                [by_value + value * grad, by_dy + slope(1), by_dx + slope(0)]
            })
        };
        if let Some(offset_grad) = offset_grad {
            parallel_rows(offset_grad, 2 * pixels, 1, |tap, to| {
                let (to_dy, to_dx) = to.split_at_mut(pixels);
                for (pixel, (to_dy, to_dx)) in to_dy.iter_mut().zip(to_dx).enumerate() {
                    let i = tap * pixels + pixel;
                    let ([_, dy, dx], scale) = (sums(i), mask.map_or(A::one(), |mask| mask[i]));
                    (*to_dy, *to_dx) = (dy * scale, dx * scale);
                }
            });
        }
        if let Some(mask_grad) = mask_grad {
            parallel_rows(mask_grad, 1, GRAIN.div_ceil(8 * channels.max(1)), |i, to| to[0] = sums(i)[0]);
        }
    }
}

/// The output of a deformable convolution, without bias.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn deform_forward<A: GemmElement + Accum>(shape: &DeformShape, inputs: &DeformInputs<'_, A>, y: &mut [A]) {
    let (pixels, taps) = (shape.pixels(), shape.taps());
    let (groups, filters) = (shape.conv.groups, shape.conv.out_channels / shape.conv.groups);
    let depth = shape.conv.in_channels / groups * taps;
    with_scratch(shape.conv.in_channels * taps * pixels, |columns: &mut [A]| {
        for n in 0..shape.conv.batch {
            SampledImage::new(shape, inputs, n).columns(columns);
            for g in 0..groups {
                let weights = MatRef::row_major(&inputs.weights[g * filters * depth..], filters, depth);
                let windows = MatRef::row_major(&columns[g * depth * pixels..], depth, pixels);
                let out = &mut y[(n * groups + g) * filters * pixels..][..filters * pixels];
                gemm(A::one(), weights, windows, A::zero(), MatMut::row_major(out, filters, pixels));
            }
        }
    });
}

/// The gradients of [`deform_forward`].
///
/// # Panics
/// Panics if the lengths do not match.
pub fn deform_backward<A: GemmElement + Accum>(
    shape: &DeformShape,
    inputs: &DeformInputs<'_, A>,
    y_grad: &[A],
    mut grads: DeformGrads<'_, A>,
) {
    let (pixels, taps) = (shape.pixels(), shape.taps());
    let (groups, filters) = (shape.conv.groups, shape.conv.out_channels / shape.conv.groups);
    let depth = shape.conv.in_channels / groups * taps;
    if let Some(weights) = &mut grads.weights {
        weights.fill(A::zero());
    }
    with_scratch(shape.conv.in_channels * taps * pixels, |columns: &mut [A]| {
        for n in 0..shape.conv.batch {
            let image = SampledImage::new(shape, inputs, n);
            let group_grad =
                |g: usize| MatRef::row_major(&y_grad[(n * groups + g) * filters * pixels..], filters, pixels);
            if let Some(weights) = &mut grads.weights {
                image.columns(columns);
                for g in 0..groups {
                    let windows = MatRef::row_major(&columns[g * depth * pixels..], depth, pixels);
                    let out = &mut weights[g * filters * depth..][..filters * depth];
                    gemm(A::one(), group_grad(g), windows.t(), A::one(), MatMut::row_major(out, filters, depth));
                }
            }
            if grads.data.is_none() && grads.offset.is_none() && grads.mask.is_none() {
                continue;
            }
            for g in 0..groups {
                let weights = MatRef::row_major(&inputs.weights[g * filters * depth..], filters, depth);
                let out = &mut columns[g * depth * pixels..][..depth * pixels];
                gemm(A::one(), weights.t(), group_grad(g), A::zero(), MatMut::row_major(out, depth, pixels));
            }
            if let Some(data) = &mut grads.data {
                image.data_gradient(columns, &mut data[shape.image_range(n)]);
            }
            let offset_grad = grads.offset.as_mut().map(|offset| &mut offset[shape.offset_range(n)]);
            let mask_grad = grads.mask.as_mut().map(|mask| &mut mask[shape.mask_range(n)]);
            image.offset_gradients(columns, offset_grad, mask_grad);
        }
    });
}
