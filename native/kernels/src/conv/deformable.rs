//! Deformable convolution in two dimensions: the taps are displaced by offsets (Dai et al., "Deformable convolutional networks",
//! 2017) and optionally weighted by a mask (Zhu et al., "Deformable ConvNets v2", 2019).

use super::ConvShape;
use crate::float::Accum;
use crate::gemm::{GemmElement, MatMut, MatRef, gemm};
use crate::par::{parallel_rows, with_scratch};
use crate::sampler::Corner;

/// Multiply-adds in a thread's chunk.
const CHUNK: usize = 1 << 14;

/// A deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformShape {
    /// The underlying convolution, in two dimensions.
    pub conv: ConvShape,
    /// Groups of input channels that share offsets; divides the number of input channels.
    pub offset_groups: usize,
    /// True if points up to a pixel outside the image are interpolated with zeros. Otherwise they count as zero, and points past
    /// the centres of the last row or column are clamped to it.
    pub zero_border: bool,
}

/// The arrays of a deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformInputs<'a, T> {
    /// (batch, channels, height, width).
    pub data: &'a [T],
    /// (batch, offset groups x taps x 2, out height, out width): y and x offset of each tap.
    pub offset: &'a [T],
    /// Weights of the taps, (batch, offset groups x taps, out height, out width).
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

/// The point at which a tap of an output pixel reads the image.
#[derive(Clone, Copy)]
struct SamplePoint<A> {
    corner: Corner<A>,
    /// Whether the value depends on the x and the y coordinate: false where it is clamped.
    moves: [bool; 2],
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

    /// Elements of the offsets of an image; the mask has half as many.
    fn offsets(&self) -> usize {
        2 * self.offset_groups * self.taps() * self.pixels()
    }

    /// The sampling point of each tap of each output pixel of an image, for each offset group.
    fn points<A: GemmElement + Accum>(&self, offset: &[A]) -> Vec<SamplePoint<A>> {
        let (pixels, taps, [height, width]) = (self.pixels(), self.taps(), self.size());
        let ([_, kernel_width], columns) = ([self.conv.kernel[1], self.conv.kernel[2]], self.conv.output()[2]);
        let base = |axis: usize, out: usize, tap: usize| {
            (out * self.conv.stride[axis] + tap * self.conv.dilate[axis]) as f64 - self.conv.pad[axis] as f64
        };
        let point_of = |i: usize| {
            let (tap, pixel) = (i / pixels, i % pixels);
            let at = 2 * tap * pixels + pixel;
            let (row, column) = (tap % taps / kernel_width, tap % taps % kernel_width);
            let y = A::of(base(1, pixel / columns, row)) + offset[at];
            let x = A::of(base(2, pixel % columns, column)) + offset[at + pixels];
            self.point(x, y, [height, width])
        };
        (0..self.offset_groups * taps * pixels).map(point_of).collect()
    }

    fn point<A: Accum>(&self, x: A, y: A, [height, width]: [usize; 2]) -> SamplePoint<A> {
        if self.zero_border {
            return SamplePoint { corner: Corner::at_pixel(x, y, [height, width]), moves: [true; 2] };
        }
        let within = |v: A, n: usize| v >= A::zero() && v < A::count(n);
        let last = [width, height].map(|n| A::count(n.saturating_sub(1)));
        let mut corner = Corner::at_pixel(x.min(last[0]), y.min(last[1]), [height, width]);
        if !(within(x, width) && within(y, height)) {
            corner.inside = [false; 4];
        }
        SamplePoint { corner, moves: [x < last[0], y < last[1]] }
    }

    /// Writes the windows of an image as rows (channels x taps) with one element per output pixel.
    fn columns<A: GemmElement + Accum>(
        &self,
        points: &[SamplePoint<A>],
        image: &[A],
        mask: Option<&[A]>,
        columns: &mut [A],
    ) {
        let (pixels, taps, [height, width]) = (self.pixels(), self.taps(), self.size());
        let channels = self.conv.in_channels / self.offset_groups;
        parallel_rows(columns, pixels, CHUNK.div_ceil(8 * pixels.max(1)), |row, out| {
            let (channel, tap) = (row / taps, row % taps);
            let at = (channel / channels * taps + tap) * pixels;
            let plane = &image[channel * height * width..(channel + 1) * height * width];
            for (i, (out, point)) in out.iter_mut().zip(&points[at..at + pixels]).enumerate() {
                let (values, weights) = (point.corner.pixels(plane, width), point.corner.weights());
                let value = (0..4).map(|k| values[k] * weights[k]).sum::<A>();
                *out = mask.map_or(value, |mask| value * mask[at + i]);
            }
        });
    }
}

/// The output of a deformable convolution, without bias.
///
/// # Panics
/// When the lengths do not match.
pub fn deform_forward<A: GemmElement + Accum>(s: &DeformShape, inputs: &DeformInputs<'_, A>, y: &mut [A]) {
    let (pixels, taps) = (s.pixels(), s.taps());
    let (groups, filters) = (s.conv.groups, s.conv.out_channels / s.conv.groups);
    let depth = s.conv.in_channels / groups * taps;
    let image_len = s.conv.in_channels * s.size().iter().product::<usize>();
    with_scratch(s.conv.in_channels * taps * pixels, |columns: &mut [A]| {
        for n in 0..s.conv.batch {
            let points = s.points(&inputs.offset[n * s.offsets()..(n + 1) * s.offsets()]);
            let mask = inputs.mask.map(|mask| &mask[n * s.offsets() / 2..(n + 1) * s.offsets() / 2]);
            s.columns(&points, &inputs.data[n * image_len..(n + 1) * image_len], mask, columns);
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
/// When the lengths do not match.
pub fn deform_backward<A: GemmElement + Accum>(
    s: &DeformShape,
    inputs: &DeformInputs<'_, A>,
    y_grad: &[A],
    mut grads: DeformGrads<'_, A>,
) {
    let (pixels, taps) = (s.pixels(), s.taps());
    let (groups, filters) = (s.conv.groups, s.conv.out_channels / s.conv.groups);
    let depth = s.conv.in_channels / groups * taps;
    let image_len = s.conv.in_channels * s.size().iter().product::<usize>();
    if let Some(weights) = &mut grads.weights {
        weights.fill(A::zero());
    }
    with_scratch(s.conv.in_channels * taps * pixels, |columns: &mut [A]| {
        for n in 0..s.conv.batch {
            let (image, half) = (n * image_len..(n + 1) * image_len, n * s.offsets() / 2..(n + 1) * s.offsets() / 2);
            let points = s.points(&inputs.offset[2 * half.start..2 * half.end]);
            let mask = inputs.mask.map(|mask| &mask[half.clone()]);
            let head = |g: usize| MatRef::row_major(&y_grad[(n * groups + g) * filters * pixels..], filters, pixels);
            if let Some(weights) = &mut grads.weights {
                s.columns(&points, &inputs.data[image.clone()], mask, columns);
                for g in 0..groups {
                    let windows = MatRef::row_major(&columns[g * depth * pixels..], depth, pixels);
                    let out = &mut weights[g * filters * depth..][..filters * depth];
                    gemm(A::one(), head(g), windows.t(), A::one(), MatMut::row_major(out, filters, depth));
                }
            }
            if grads.data.is_none() && grads.offset.is_none() && grads.mask.is_none() {
                continue;
            }
            for g in 0..groups {
                let weights = MatRef::row_major(&inputs.weights[g * filters * depth..], filters, depth);
                let out = &mut columns[g * depth * pixels..][..depth * pixels];
                gemm(A::one(), weights.t(), head(g), A::zero(), MatMut::row_major(out, depth, pixels));
            }
            if let Some(data) = &mut grads.data {
                data_gradient(s, &points, mask, columns, &mut data[image.clone()]);
            }
            let offset = grads.offset.as_mut().map(|o| &mut o[2 * half.start..2 * half.end]);
            let of_mask = grads.mask.as_mut().map(|m| &mut m[half.clone()]);
            offset_gradients(s, &points, &inputs.data[image], mask, columns, offset, of_mask);
        }
    });
}

/// Computes the gradient of an image from that of its windows.
fn data_gradient<A: GemmElement + Accum>(
    s: &DeformShape,
    points: &[SamplePoint<A>],
    mask: Option<&[A]>,
    columns: &[A],
    image_grad: &mut [A],
) {
    let (pixels, taps, [height, width]) = (s.pixels(), s.taps(), s.size());
    let channels = s.conv.in_channels / s.offset_groups;
    parallel_rows(image_grad, height * width, 1, |channel, to| {
        to.fill(A::zero());
        for tap in 0..taps {
            let at = (channel / channels * taps + tap) * pixels;
            let heads = &columns[(channel * taps + tap) * pixels..][..pixels];
            for (i, (point, head)) in points[at..at + pixels].iter().zip(heads).enumerate() {
                let head = mask.map_or(*head, |mask| *head * mask[at + i]);
                let weights = point.corner.weights();
                for (k, offset) in Corner::<A>::offsets(width).into_iter().enumerate() {
                    if point.corner.inside[k] {
                        to[(point.corner.at + offset) as usize] += weights[k] * head;
                    }
                }
            }
        }
    });
}

/// Computes the gradients of the offsets and the mask of an image from that of its windows.
fn offset_gradients<A: GemmElement + Accum>(
    s: &DeformShape,
    points: &[SamplePoint<A>],
    image: &[A],
    mask: Option<&[A]>,
    columns: &[A],
    offset: Option<&mut [A]>,
    of_mask: Option<&mut [A]>,
) {
    let (pixels, taps, [height, width]) = (s.pixels(), s.taps(), s.size());
    let channels = s.conv.in_channels / s.offset_groups;
    // Sums over the channels of a group of the window's gradient times the value, its y slope and its x slope.
    let sums = |i: usize| {
        let (tap, pixel) = (i / pixels, i % pixels);
        let (group, tap) = (tap / taps, tap % taps);
        let point = &points[i];
        (group * channels..(group + 1) * channels).fold([A::zero(); 3], |[value, dy, dx], channel| {
            let plane = &image[channel * height * width..(channel + 1) * height * width];
            let head = columns[(channel * taps + tap) * pixels + pixel];
            let (around, weights) = (point.corner.pixels(plane, width), point.corner.weights());
            let slopes = point.corner.slopes(around);
            let moved = |axis: usize| if point.moves[axis] { slopes[axis] * head } else { A::zero() };
            let here = (0..4).map(|k| around[k] * weights[k]).sum::<A>();
            [value + here * head, dy + moved(1), dx + moved(0)]
        })
    };
    if let Some(offset) = offset {
        parallel_rows(offset, 2 * pixels, 1, |tap, to| {
            let (to_dy, to_dx) = to.split_at_mut(pixels);
            for (pixel, (to_dy, to_dx)) in to_dy.iter_mut().zip(to_dx).enumerate() {
                let i = tap * pixels + pixel;
                let ([_, dy, dx], weight) = (sums(i), mask.map_or(A::one(), |mask| mask[i]));
                (*to_dy, *to_dx) = (dy * weight, dx * weight);
            }
        });
    }
    if let Some(of_mask) = of_mask {
        parallel_rows(of_mask, 1, CHUNK.div_ceil(8 * channels.max(1)), |i, to| to[0] = sums(i)[0]);
    }
}
