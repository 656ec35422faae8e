//! The gradient of the input of a convolution.

use super::implicit::{Implicit, pack_weights};
use super::phases::{Bands, PerPhase, Phase, PhaseGrad, phases, scatter};
use super::strided_compaction::Compact;
use super::{
    ConvEpilogue, ConvShape, check_len, crop, depthwise, disjoint, few_outputs, output_channel_gemm, single_output,
    winograd,
};
use crate::float::{Accum, FloatElement, with_wide, with_wide_mut};
use crate::gemm::depth_blocks;
use crate::par::{MatMut, MatRef, parallel_blocks, parallel_rows, with_scratch};
use crate::simd::microkernel::MicroKernel;
use crate::simd::window::WindowElement;
use std::ops::Range;

/// Computes the gradient of the input from the gradient of the output.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn conv_backward_data<T: FloatElement>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    with_wide(output_grad, |output_grad| {
        with_wide(weights, |weights| {
            with_wide_mut(input_grad, |input_grad| backward(shape, output_grad, weights, input_grad));
        });
    });
}

fn backward<T: Accum>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    shape.check();
    check_len("output", output_grad.len(), shape.output_len(), shape);
    check_len("weights", weights.len(), shape.weights_len(), shape);
    check_len("input", input_grad.len(), shape.input_len(), shape);
    if input_grad.is_empty() {
        return;
    }
    if let Some(inner) = crop::cropped(shape) {
        return with_scratch(inner.weights_len(), |taps: &mut [T]| {
            crop::crop(shape, weights, &inner, taps);
            backward(&inner, output_grad, taps, input_grad);
        });
    }
    if single_output::applies(shape) {
        return single_output::backward_data(shape, output_grad, weights, input_grad);
    }
    if few_outputs::is_profitable(shape) && !depthwise::is_depthwise(shape) {
        return few_outputs::backward_data(shape, output_grad, weights, input_grad);
    }
    if let Some(compact) = Compact::new(shape) {
        return with_scratch(compact.shape.input_len(), |grad: &mut [T]| {
            backward(&compact.shape, output_grad, weights, grad);
            compact.scatter(shape, grad, input_grad);
        });
    }
    if depthwise::is_depthwise(shape) {
        return depthwise::backward_data(shape, output_grad, weights, input_grad);
    }
    let kernel = T::microkernel();
    if winograd::supports(shape) && winograd::is_profitable::<T>(&winograd::adjoint(shape)) {
        let adjoint = winograd::adjoint(shape);
        return with_scratch(winograd::weights_len(&adjoint, kernel), |transformed: &mut [T]| {
            winograd::transform_weights(&adjoint, kernel, weights, winograd::WeightOrder::Adjoint, transformed);
            winograd::forward(&adjoint, kernel, output_grad, transformed, &ConvEpilogue::default(), input_grad);
        });
    }
    if let Some(adjoint) = pointwise_adjoint(shape)
        && output_channel_gemm::is_profitable::<T>(&adjoint)
    {
        return backward_pointwise(&adjoint, output_grad, weights, input_grad);
    }
    if disjoint::applies(shape) {
        let pointwise =
            |shape: &ConvShape, output_grad: &[T], grad: &mut [T]| backward(shape, output_grad, weights, grad);
        return disjoint::backward_data(shape, output_grad, pointwise, input_grad);
    }
    backward_phases(shape, kernel, output_grad, weights, input_grad);
}

/// Computes each phase by an implicit GEMM.
fn backward_phases<T: Accum>(
    shape: &ConvShape,
    kernel: &'static MicroKernel<T>,
    output_grad: &[T],
    weights: &[T],
    input_grad: &mut [T],
) {
    let mut phases = phases(shape);
    let mut len = 0;
    for phase in &mut phases {
        phase.weights_start = len;
        len += shape.groups * kernel.packed_a_len(shape.group_in(), shape.group_out() * phase.taps.len());
    }
    with_scratch(len, |packed: &mut [T]| {
        for phase in &phases {
            pack_phase(shape, kernel, &phase.taps, weights, &mut packed[phase.weights_start..]);
        }
        let products: PerPhase<Implicit<'_, T>> = phases
            .iter()
            .map(|phase| Implicit {
                kernel,
                geometry: &phase.geometry,
                groups: shape.groups,
                rows: shape.group_in(),
                channels: shape.group_out(),
                weights: &packed[phase.weights_start..],
                source: output_grad,
            })
            .collect();
        if let ([phase], [product]) = (&phases[..], &products[..])
            && phase.geometry.grid == shape.input
        {
            let out = MatMut::row_major(input_grad, shape.batch * shape.in_channels, shape.input_plane());
            return product.run(shape.batch, out, &|_, _, _, _| {});
        }
        compute_bands(shape, &phases, &products, input_grad);
    });
}

/// Computes the phases band by band and scatters them into the input gradient. A chunk is a band of an image with all its phases.
fn compute_bands<T: Accum>(shape: &ConvShape, phases: &[Phase], products: &[Implicit<'_, T>], input_grad: &mut [T]) {
    let bands = Bands::new(shape, phases);
    let blockings: PerPhase<_> = products.iter().map(|product| product.blocking(bands.rows, 1)).collect();
    let out = MatMut::row_major(input_grad, shape.batch * shape.in_channels, shape.input_plane());
    parallel_blocks(out, shape.in_channels, bands.elements(shape), |row, element, mut band| {
        let (image, first_row) = (row / shape.in_channels, element / bands.elements(shape) * bands.rows);
        with_scratch(bands.side_by_side * bands.grad_len(shape), |grads: &mut [T]| {
            for first in (0..phases.len()).step_by(bands.side_by_side) {
                let neighbors = first..phases.len().min(first + bands.side_by_side);
                let mut parts = PerPhase::new();
                for (i, grad) in neighbors.zip(grads.chunks_exact_mut(bands.grad_len(shape))) {
                    let (pixel, pixels) = bands.pixels(&phases[i], first_row);
                    if pixels > 0 {
                        let mut out = MatMut::row_major(&mut *grad, shape.in_channels, pixels);
                        products[i].compute_images(&blockings[i], image, pixel, &mut out, &|_, _, _, _| {});
                    }
                    parts.push(PhaseGrad { phase: &phases[i], grad, pixels });
                }
                scatter(shape, &parts, &mut band);
            }
        });
    });
}

/// The pointwise convolution that computes the input gradient of an unstrided, unpadded pointwise convolution.
fn pointwise_adjoint(shape: &ConvShape) -> Option<ConvShape> {
    let adjoint = ConvShape { in_channels: shape.out_channels, out_channels: shape.in_channels, ..*shape };
    adjoint.windows().is_pointwise().then_some(adjoint)
}

/// Convolves the output gradient with the transposed weights, with input channels in the vector lanes.
fn backward_pointwise<T: Accum>(adjoint: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    let (kernel, rows, depth) = (T::microkernel(), adjoint.group_out(), adjoint.depth());
    let len = kernel.packed_b_len(rows, depth);
    with_scratch(adjoint.groups * len, |packed: &mut [T]| {
        for (packed, weights) in packed.chunks_exact_mut(len).zip(weights.chunks_exact(rows * depth)) {
            output_channel_gemm::pack_weights(kernel, MatRef::new(weights, rows, depth, 1, rows), packed);
        }
        let geometry = adjoint.windows();
        let product = Implicit {
            kernel,
            geometry: &geometry,
            groups: adjoint.groups,
            rows,
            channels: depth,
            weights: packed,
            source: output_grad,
        };
        let out = MatMut::row_major(input_grad, adjoint.batch * adjoint.out_channels, geometry.pixels());
        product.run_output_channels(adjoint.batch, out, &|_, _, _, _| {});
    });
}

/// Packs the weights of a phase: for every group, a matrix (input channels, output channels x taps).
fn pack_phase<T: WindowElement>(
    shape: &ConvShape,
    kernel: &'static MicroKernel<T>,
    taps: &[usize],
    weights: &[T],
    out: &mut [T],
) {
    let (rows, outs, kernel_taps) = (shape.group_in(), shape.group_out(), shape.taps());
    let depth = outs * taps.len();
    for group in 0..shape.groups {
        let weights = &weights[group * outs * rows * kernel_taps..][..outs * rows * kernel_taps];
        let out = &mut out[group * kernel.packed_a_len(rows, depth)..];
        if kernel_taps == 1 && depth > 0 {
            pack_weights(kernel, MatRef::new(weights, rows, outs, 1, rows), out);
            continue;
        }
        let Some(longest) = depth_blocks::<T>(depth).next() else { continue };
        let (len, out) = (kernel.packed_a_len(rows, longest.len()), &mut out[..kernel.packed_a_len(rows, depth)]);
        parallel_rows(out, len, 1, |i, out| {
            let block = i * longest.len()..((i + 1) * longest.len()).min(depth);
            PhaseWeights { weights, rows, kernel_taps, taps }.pack_block(kernel, block, out);
        });
    }
}

/// The weights of a group, (output channels, rows, kernel taps), viewed as the matrix (rows, output channels x taps of a phase).
struct PhaseWeights<'a, T> {
    weights: &'a [T],
    /// Input channels of the group.
    rows: usize,
    kernel_taps: usize,
    /// The taps of the phase.
    taps: &'a [usize],
}

impl<T: WindowElement> PhaseWeights<'_, T> {
    /// Packs the columns in `block` of all rows. Goes channel by channel, because their weights are close together in memory.
    fn pack_block(&self, kernel: &'static MicroKernel<T>, block: Range<usize>, out: &mut [T]) {
        let PhaseWeights { weights, rows, kernel_taps, taps } = *self;
        let (mr, num_taps) = (kernel.mr(), taps.len());
        for channel in block.start / num_taps..block.end.div_ceil(num_taps) {
            let columns = block.start.max(channel * num_taps)..block.end.min((channel + 1) * num_taps);
            let taps = &taps[columns.start - channel * num_taps..columns.end - channel * num_taps];
            let is_contiguous = taps.iter().zip(taps[0]..).all(|(tap, next)| *tap == next);
            for row in (0..rows).step_by(mr) {
                let lanes = mr.min(rows - row);
                let from = &weights[(channel * rows + row) * kernel_taps..][..lanes * kernel_taps];
                let out = &mut out[row * block.len() + (columns.start - block.start) * mr..][..columns.len() * mr];
                if is_contiguous {
                    kernel.pack_lanes(MatRef::new(&from[taps[0]..], lanes, taps.len(), kernel_taps, 1), mr, out);
                } else {
                    for (out, tap) in out.chunks_exact_mut(mr).zip(taps) {
                        let from = from[*tap..].iter().step_by(kernel_taps);
                        out.iter_mut().zip(from).for_each(|(to, weight)| *to = *weight);
                    }
                }
            }
        }
    }
}
