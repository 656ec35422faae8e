//! Deformable convolution in two dimensions: taps are read at places that are moved by offsets (Dai et al., "Deformable
//! convolutional networks", 2017), and maybe weighted (Zhu et al., "Deformable ConvNets v2", 2019).

use super::ConvShape;
use crate::float::Accum;
use crate::gemm::{Element, MatMut, MatRef, gemm};
use crate::par::{parallel_rows, with_scratch};
use crate::sampler::Corner;

/// Multiply-adds of a chunk of parallel work.
const CHUNK: usize = 1 << 14;

/// A deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformShape {
    /// The convolution, in two dimensions.
    pub conv: ConvShape,
    /// Groups of input channels with offsets of their own; a divisor of the number of input channels.
    pub offset_groups: usize,
    /// Whether a place up to a pixel outside the image takes a part of the pixels at the border; otherwise it counts as
    /// zero, and a place beyond the centres of the last row or column as lying on it.
    pub fade: bool,
}

/// The arrays of a deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformInputs<'a, T> {
    /// (batch, channels, height, width).
    pub data: &'a [T],
    /// (batch, offset groups x taps x 2, out height, out width): down and across for each tap.
    pub offset: &'a [T],
    /// Factors of the taps, (batch, offset groups x taps, out height, out width).
    pub mask: Option<&'a [T]>,
    /// As those of a convolution.
    pub weights: &'a [T],
}

/// Where the gradients go, those that are wanted.
#[derive(Debug)]
pub struct DeformGrads<'a, T> {
    /// Of the data.
    pub data: Option<&'a mut [T]>,
    /// Of the offsets.
    pub offset: Option<&'a mut [T]>,
    /// Of the factors.
    pub mask: Option<&'a mut [T]>,
    /// Of the weights.
    pub weights: Option<&'a mut [T]>,
}

/// Where a tap of an output pixel is read.
#[derive(Clone, Copy)]
struct Place<A> {
    corner: Corner<A>,
    /// Whether moving the place across or down changes the value.
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

    /// Elements of the offsets of an image; half of them in the factors.
    fn offsets(&self) -> usize {
        2 * self.offset_groups * self.taps() * self.pixels()
    }

    /// The place of each tap of each output pixel of an image, for each offset group.
    fn places<A: Element + Accum>(&self, offset: &[A]) -> Vec<Place<A>> {
        let (pixels, taps, [height, width]) = (self.pixels(), self.taps(), self.size());
        let ([_, kernel_width], columns) = ([self.conv.kernel[1], self.conv.kernel[2]], self.conv.output()[2]);
        let base = |axis: usize, out: usize, tap: usize| {
            (out * self.conv.stride[axis] + tap * self.conv.dilate[axis]) as f64 - self.conv.pad[axis] as f64
        };
        let place = |i: usize| {
            let (tap, pixel) = (i / pixels, i % pixels);
            let at = 2 * tap * pixels + pixel;
            let (row, column) = (tap % taps / kernel_width, tap % taps % kernel_width);
            let y = A::of(base(1, pixel / columns, row)) + offset[at];
            let x = A::of(base(2, pixel % columns, column)) + offset[at + pixels];
            self.place(x, y, [height, width])
        };
        (0..self.offset_groups * taps * pixels).map(place).collect()
    }

    fn place<A: Accum>(&self, x: A, y: A, [height, width]: [usize; 2]) -> Place<A> {
        if self.fade {
            return Place { corner: Corner::at_pixel(x, y, [height, width]), moves: [true; 2] };
        }
        let within = |v: A, n: usize| v >= A::zero() && v < A::count(n);
        let last = [width, height].map(|n| A::count(n.saturating_sub(1)));
        let mut corner = Corner::at_pixel(x.min(last[0]), y.min(last[1]), [height, width]);
        if !(within(x, width) && within(y, height)) {
            corner.inside = [false; 4];
        }
        Place { corner, moves: [x < last[0], y < last[1]] }
    }

    /// Writes the windows of an image as rows (channels x taps) of one element for each output pixel.
    fn columns<A: Element + Accum>(&self, places: &[Place<A>], image: &[A], mask: Option<&[A]>, columns: &mut [A]) {
        let (pixels, taps, [height, width]) = (self.pixels(), self.taps(), self.size());
        let channels = self.conv.in_channels / self.offset_groups;
        parallel_rows(columns, pixels, CHUNK.div_ceil(8 * pixels.max(1)), |row, out| {
            let (channel, tap) = (row / taps, row % taps);
            let at = (channel / channels * taps + tap) * pixels;
            let plane = &image[channel * height * width..(channel + 1) * height * width];
            for (i, (out, place)) in out.iter_mut().zip(&places[at..at + pixels]).enumerate() {
                let (values, weights) = (place.corner.pixels(plane, width), place.corner.weights());
                let value = (0..4).map(|k| values[k] * weights[k]).sum::<A>();
                *out = mask.map_or(value, |mask| value * mask[at + i]);
            }
        });
    }
}

/// The output of a deformable convolution, without bias.
///
/// # Panics
/// When the lengths do not fit.
pub fn deform_forward<A: Element + Accum>(s: &DeformShape, inputs: &DeformInputs<'_, A>, y: &mut [A]) {
    let (pixels, taps) = (s.pixels(), s.taps());
    let (groups, filters) = (s.conv.groups, s.conv.out_channels / s.conv.groups);
    let depth = s.conv.in_channels / groups * taps;
    let image_len = s.conv.in_channels * s.size().iter().product::<usize>();
    with_scratch(s.conv.in_channels * taps * pixels, |columns: &mut [A]| {
        for n in 0..s.conv.batch {
            let places = s.places(&inputs.offset[n * s.offsets()..(n + 1) * s.offsets()]);
            let mask = inputs.mask.map(|mask| &mask[n * s.offsets() / 2..(n + 1) * s.offsets() / 2]);
            s.columns(&places, &inputs.data[n * image_len..(n + 1) * image_len], mask, columns);
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
/// When the lengths do not fit.
pub fn deform_backward<A: Element + Accum>(
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
            let places = s.places(&inputs.offset[2 * half.start..2 * half.end]);
            let mask = inputs.mask.map(|mask| &mask[half.clone()]);
            let head = |g: usize| MatRef::row_major(&y_grad[(n * groups + g) * filters * pixels..], filters, pixels);
            if let Some(weights) = &mut grads.weights {
                s.columns(&places, &inputs.data[image.clone()], mask, columns);
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
                data_gradient(s, &places, mask, columns, &mut data[image.clone()]);
            }
            let offset = grads.offset.as_mut().map(|o| &mut o[2 * half.start..2 * half.end]);
            let of_mask = grads.mask.as_mut().map(|m| &mut m[half.clone()]);
            place_gradients(s, &places, &inputs.data[image], mask, columns, offset, of_mask);
        }
    });
}

/// The gradient of an image from that of its windows.
fn data_gradient<A: Element + Accum>(
    s: &DeformShape,
    places: &[Place<A>],
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
            for (i, (place, head)) in places[at..at + pixels].iter().zip(heads).enumerate() {
                let head = mask.map_or(*head, |mask| *head * mask[at + i]);
                let weights = place.corner.weights();
                for (k, offset) in Corner::<A>::offsets(width).into_iter().enumerate() {
                    if place.corner.inside[k] {
                        to[(place.corner.at + offset) as usize] += weights[k] * head;
                    }
                }
            }
        }
    });
}

/// The gradients of the offsets and factors of an image from that of its windows.
fn place_gradients<A: Element + Accum>(
    s: &DeformShape,
    places: &[Place<A>],
    image: &[A],
    mask: Option<&[A]>,
    columns: &[A],
    offset: Option<&mut [A]>,
    of_mask: Option<&mut [A]>,
) {
    let (pixels, taps, [height, width]) = (s.pixels(), s.taps(), s.size());
    let channels = s.conv.in_channels / s.offset_groups;
    // The sums over the channels of a group of head times value, slope down, slope across.
    let sums = |i: usize| {
        let (tap, pixel) = (i / pixels, i % pixels);
        let (group, tap) = (tap / taps, tap % taps);
        let place = &places[i];
        (group * channels..(group + 1) * channels).fold([A::zero(); 3], |[value, down, across], channel| {
            let plane = &image[channel * height * width..(channel + 1) * height * width];
            let head = columns[(channel * taps + tap) * pixels + pixel];
            let (around, weights) = (place.corner.pixels(plane, width), place.corner.weights());
            let slopes = place.corner.slopes(around);
            let moved = |axis: usize| if place.moves[axis] { slopes[axis] * head } else { A::zero() };
            let here = (0..4).map(|k| around[k] * weights[k]).sum::<A>();
            [value + here * head, down + moved(1), across + moved(0)]
        })
    };
    if let Some(offset) = offset {
        parallel_rows(offset, 2 * pixels, 1, |tap, to| {
            let (to_down, to_across) = to.split_at_mut(pixels);
            for (pixel, (to_down, to_across)) in to_down.iter_mut().zip(to_across).enumerate() {
                let i = tap * pixels + pixel;
                let ([_, down, across], factor) = (sums(i), mask.map_or(A::one(), |mask| mask[i]));
                (*to_down, *to_across) = (down * factor, across * factor);
            }
        });
    }
    if let Some(of_mask) = of_mask {
        parallel_rows(of_mask, 1, CHUNK.div_ceil(8 * channels.max(1)), |i, to| to[0] = sums(i)[0]);
    }
}
