//! Depthwise convolution: every channel has a kernel of its own, and there is nothing for a matrix product to do.
//!
//! A plane is copied into working memory with its padding, divided by residues of the stride ("phases"), so that each
//! tap reads adjacent elements for neighbouring outputs. Outputs are computed in rows as long as those of the working
//! memory: all of a plane is one loop, whatever its width, and what lies between the rows is dropped.

use super::backward_data::phases;
use super::geometry::Geometry;
use super::{ConvEpilogue, ConvShape};
use crate::float::Accum;
use crate::par::{MatMut, parallel_blocks, with_scratch};

/// Outputs that are computed side by side.
const LANES: usize = 64;
/// Multiply-adds that are worth a chunk of parallel work.
const CHUNK_WORK: usize = 1 << 17;

/// Whether each channel of the output belongs to one of the input.
pub(super) fn is_depthwise(shape: &ConvShape) -> bool {
    shape.groups == shape.in_channels && shape.groups == shape.out_channels
}

/// How a plane is laid out in working memory.
pub(super) struct Layout<'a> {
    geometry: &'a Geometry,
    /// The first place in each dimension, not positive.
    origin: [isize; 3],
    /// Sizes of a phase.
    phase: [usize; 3],
    /// Where each tap of the first output is.
    taps: Vec<usize>,
    /// Outputs to compute, those between rows included.
    outputs: usize,
}

impl<'a> Layout<'a> {
    pub fn new(geometry: &'a Geometry) -> Self {
        let extreme = |d: usize, f: fn(isize, isize) -> isize| geometry.taps.iter().map(|tap| tap[d]).fold(0, f);
        let origin: [isize; 3] = std::array::from_fn(|d| extreme(d, isize::min));
        let phase: [usize; 3] = std::array::from_fn(|d| {
            let last = (geometry.grid[d].saturating_sub(1) * geometry.step[d]) as isize + extreme(d, isize::max);
            let extent = last.max(geometry.source[d] as isize - 1) - origin[d] + 1;
            (extent.max(1) as usize).div_ceil(geometry.step[d])
        });
        let [depth, height, width] = geometry.grid;
        let outputs = if geometry.pixels() == 0 { 0 } else { ((depth - 1) * phase[1] + height - 1) * phase[2] + width };
        let mut layout = Layout { geometry, origin, phase, taps: vec![], outputs };
        layout.taps = geometry.taps.iter().map(|tap| layout.place(*tap)).collect();
        layout
    }

    /// What is laid out.
    pub fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// Where the working memory has the element that a tap of an output of the first plane of the grid reads.
    pub fn tap(&self, tap: usize, row: usize, column: usize) -> usize {
        self.taps[tap] + row * self.phase[2] + column
    }

    /// Elements of working memory for a plane, with room for reading some more than the last outputs.
    pub fn len(&self) -> usize {
        self.phase.iter().chain(&self.geometry.step).product::<usize>() + LANES
    }

    /// Elements of working memory for the outputs.
    fn outputs_len(&self) -> usize {
        self.outputs.next_multiple_of(LANES)
    }

    /// Where the working memory has the element of a place of the source.
    fn place(&self, at: [isize; 3]) -> usize {
        let mut phase = 0;
        let mut offset = 0;
        for (d, at) in at.into_iter().enumerate() {
            let (place, step) = ((at - self.origin[d]) as usize, self.geometry.step[d]);
            phase = phase * step + place % step;
            offset = offset * self.phase[d] + place / step;
        }
        phase * self.phase.iter().product::<usize>() + offset
    }

    /// Copies a plane to `to`, whose other elements are zero.
    pub fn fill<T: Accum>(&self, plane: &[T], to: &mut [T]) {
        let [_, height, width] = self.geometry.source;
        let step = self.geometry.step[2];
        for (row, from) in plane.chunks_exact(width.max(1)).enumerate() {
            let (d, h) = ((row / height) as isize, (row % height) as isize);
            for w in 0..step.min(width) {
                let to = &mut to[self.place([d, h, w as isize])..];
                if step == 1 {
                    to[..width].copy_from_slice(from);
                } else {
                    to.iter_mut().zip(from[w..].iter().step_by(step)).for_each(|(to, x)| *to = *x);
                }
            }
        }
    }

    /// Calls `f(output, place)` for each row of the grid: the places in the output and among the computed ones.
    fn rows(&self, mut f: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>)) {
        let [depth, height, width] = self.geometry.grid;
        for row in 0..depth * height {
            let start = (row / height * self.phase[1] + row % height) * self.phase[2];
            f(row * width..(row + 1) * width, start..start + width);
        }
    }

    /// Planes for a chunk of parallel work.
    fn grain(&self) -> usize {
        (CHUNK_WORK / (self.outputs * self.taps.len().max(1)).max(1)).max(1)
    }
}

crate::simd::per_isa! {
    /// `out[i] = sum over t of weights[t] * from[taps[t] + i]`.
    fn weigh<T: Accum>(weights: &[T], taps: &[usize], from: &[T], out: &mut [T]) {
        for (block, out) in out.chunks_exact_mut(LANES).enumerate() {
            let mut sums = [T::zero(); LANES];
            for (weight, tap) in weights.iter().zip(taps) {
                let from = &from[tap + block * LANES..][..LANES];
                for i in 0..LANES {
                    sums[i] = from[i].mul_add(*weight, sums[i]);
                }
            }
            out.copy_from_slice(&sums);
        }
    }
}

crate::simd::per_isa! {
    /// Adds to `sums[t]` the sum of `grad[i] * from[taps[t] + i]`.
    fn correlate<T: Accum>(grad: &[T], taps: &[usize], from: &[T], sums: &mut [T]) {
        for (sum, tap) in sums.iter_mut().zip(taps) {
            let mut lanes = [T::zero(); LANES];
            let from = &from[*tap..][..grad.len()];
            for (grad, from) in grad.chunks_exact(LANES).zip(from.chunks_exact(LANES)) {
                for i in 0..LANES {
                    lanes[i] = from[i].mul_add(grad[i], lanes[i]);
                }
            }
            let mut width = LANES / 2;
            while width > 0 {
                for i in 0..width {
                    lanes[i] += lanes[i + width];
                }
                width /= 2;
            }
            *sum += lanes[0];
        }
    }
}

/// The forward pass.
pub(super) fn forward<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let geometry = shape.windows();
    let layout = Layout::new(&geometry);
    let (plane, pixels) = (geometry.plane(), geometry.pixels());
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    parallel_blocks(out, layout.grain(), pixels, |first, _, mut out| {
        with_scratch(layout.len() + layout.outputs_len(), |buffer: &mut [T]| {
            let (padded, computed) = buffer.split_at_mut(layout.len());
            padded.fill(T::zero());
            for i in 0..out.rows() {
                let channel = (first + i) % shape.in_channels;
                layout.fill(&input[(first + i) * plane..(first + i + 1) * plane], padded);
                let taps = layout.taps.len();
                weigh(&weights[channel * taps..(channel + 1) * taps], &layout.taps, padded, computed);
                let row = out.row_mut(i);
                layout.rows(|to, from| row[to].copy_from_slice(&computed[from]));
                if !epilogue.is_empty() {
                    epilogue.apply(shape, pixels, first + i, 0, out.block(i, 0, 1, pixels));
                }
            }
        });
    });
}

/// The gradient of the input.
pub(super) fn backward_data<T: Accum>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    let phases = phases(shape);
    let layouts: Vec<Layout<'_>> = phases.iter().map(|phase| Layout::new(&phase.geometry)).collect();
    let (plane, out_plane, taps) = (shape.input_plane(), shape.output_plane(), shape.taps());
    let longest = layouts.iter().map(|layout| layout.len() + layout.outputs_len()).max().unwrap_or(0);
    let grain = layouts.iter().map(Layout::grain).min().unwrap_or(1);
    let out = MatMut::row_major(input_grad, shape.batch * shape.in_channels, plane);
    parallel_blocks(out, grain, plane, |first, _, mut out| {
        with_scratch(longest + taps, |buffer: &mut [T]| {
            let (own, buffer) = buffer.split_at_mut(taps);
            for (phase, layout) in phases.iter().zip(&layouts) {
                let (padded, computed) = buffer.split_at_mut(layout.len());
                let computed = &mut computed[..layout.outputs_len()];
                padded.fill(T::zero());
                for i in 0..out.rows() {
                    let (at, channel) = (first + i, (first + i) % shape.in_channels);
                    layout.fill(&output_grad[at * out_plane..(at + 1) * out_plane], padded);
                    own.iter_mut().zip(&phase.taps).for_each(|(to, tap)| *to = weights[channel * taps + tap]);
                    weigh(&own[..phase.taps.len()], &layout.taps, padded, computed);
                    let to = out.row_mut(i);
                    layout.rows(|part, from| phase.scatter_row(shape, part.start, &computed[from], to));
                }
            }
        });
    });
}

/// The gradient of the weights.
pub(super) fn backward_weights<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    let geometry = shape.windows();
    let layout = Layout::new(&geometry);
    let (plane, pixels, taps) = (geometry.plane(), geometry.pixels(), shape.taps());
    let grain = layout.grain().div_ceil(shape.batch.max(1));
    let out = MatMut::row_major(weights_grad, shape.out_channels, taps);
    parallel_blocks(out, grain, taps, |first, _, mut out| {
        with_scratch(layout.len() + layout.outputs_len(), |buffer: &mut [T]| {
            let (padded, grads) = buffer.split_at_mut(layout.len());
            padded.fill(T::zero());
            grads.fill(T::zero());
            for i in 0..out.rows() {
                let sums = out.row_mut(i);
                sums.fill(T::zero());
                for n in 0..shape.batch {
                    let at = n * shape.in_channels + first + i;
                    layout.fill(&input[at * plane..(at + 1) * plane], padded);
                    let grad = &output_grad[at * pixels..(at + 1) * pixels];
                    layout.rows(|from, to| grads[to].copy_from_slice(&grad[from]));
                    correlate(grads, &layout.taps, padded, sums);
                }
            }
        });
    });
}
