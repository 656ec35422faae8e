//! The forward pass: chooses the algorithm and packs the weights for it.

use super::epilogue::ConvEpilogue;
use super::implicit::{Implicit, Stage, pack_weights};
use super::{ConvShape, check_len, crop, depthwise, output_channel_gemm, single_output, winograd};
use crate::float::{Accum, FloatElement, with_wide, with_wide_mut};
use crate::par::{AlignedVec, MatMut, MatRef, parallel_rows, with_scratch};
use crate::simd::microkernel::{GemmElement, MicroKernel};
use crate::simd::prefetch;

/// The algorithm of a convolution, which determines how its weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Depthwise,
    Winograd,
    /// Implicit GEMM with pixels in the vector lanes.
    Implicit,
    /// Implicit GEMM with output channels in the vector lanes.
    OutputChannels,
}

impl Algorithm {
    fn of<T: Accum>(shape: &ConvShape) -> Self {
        shape.check();
        if depthwise::is_depthwise(shape) {
            Algorithm::Depthwise
        } else if winograd::is_profitable::<T>(shape) {
            Algorithm::Winograd
        } else if output_channel_gemm::is_profitable::<T>(shape) {
            Algorithm::OutputChannels
        } else {
            Algorithm::Implicit
        }
    }

    fn packed_len<T: Accum>(self, shape: &ConvShape, kernel: &MicroKernel<T>) -> usize {
        match self {
            Algorithm::Depthwise => shape.weights_len(),
            Algorithm::Winograd => winograd::weights_len(shape, kernel),
            Algorithm::Implicit => shape.groups * kernel.packed_a_len(shape.group_out(), shape.depth()),
            Algorithm::OutputChannels => shape.groups * kernel.packed_b_len(shape.group_out(), shape.depth()),
        }
    }

    fn pack<T: Accum>(self, shape: &ConvShape, kernel: &MicroKernel<T>, weights: &[T], out: &mut [T]) {
        check_len("weights", weights.len(), shape.weights_len(), shape);
        match self {
            Algorithm::Depthwise => out.copy_from_slice(weights),
            Algorithm::Winograd => {
                winograd::transform_weights(shape, kernel, weights, winograd::WeightOrder::Forward, out)
            }
            Algorithm::Implicit | Algorithm::OutputChannels => {
                let (rows, depth) = (shape.group_out(), shape.depth());
                parallel_rows(out, self.packed_len(shape, kernel) / shape.groups, 1, |group, out| {
                    let weights = MatRef::row_major(&weights[group * rows * depth..], rows, depth);
                    match self {
                        Algorithm::OutputChannels => output_channel_gemm::pack_weights(kernel, weights, out),
                        _ => pack_weights(kernel, weights, out),
                    }
                });
            }
        }
    }
}

/// Packed weights, borrowed.
#[derive(Clone, Copy)]
struct PackedRef<'a, T: 'static> {
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T>,
    data: &'a [T],
}

/// What determines the packed form of weights: the algorithm, and the shape of the convolution without batch and input size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedConvLayout {
    algorithm: Algorithm,
    shape: ConvShape,
}

/// Weights packed once, for the algorithm that suits their convolution, and used many times.
pub struct PackedConvWeights<T: FloatElement> {
    shape: ConvShape,
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T::Acc>,
    data: AlignedVec<T::Acc>,
}

impl<T: FloatElement> PackedConvWeights<T> {
    /// Packs the weights for the best algorithm for `shape`. They can be used with other batch and input sizes.
    ///
    /// # Panics
    /// Panics if `weights` does not have the length that `shape` implies.
    pub fn new(shape: &ConvShape, weights: &[T]) -> Self {
        Self::packed_for(Algorithm::of::<T::Acc>(shape), shape, weights)
    }

    /// Like [`Self::new`], for a given algorithm, which must support `shape`.
    pub(super) fn packed_for(algorithm: Algorithm, shape: &ConvShape, weights: &[T]) -> Self {
        let kernel = T::Acc::microkernel();
        let data = AlignedVec::zeroed(algorithm.packed_len(shape, kernel));
        let mut packed = PackedConvWeights { shape: *shape, algorithm, kernel, data };
        packed.pack(weights);
        packed
    }

    /// The layout of the weights that [`Self::new`] packs for `shape`.
    pub fn layout(shape: &ConvShape) -> PackedConvLayout {
        let algorithm = Algorithm::of::<T::Acc>(shape);
        PackedConvLayout { algorithm, shape: ConvShape { batch: 0, input: [0; 3], ..*shape } }
    }

    /// Packs other weights of the same layout into the same memory.
    ///
    /// # Panics
    /// Panics if `weights` does not have the length that the shape implies.
    pub fn pack(&mut self, weights: &[T]) {
        with_wide(weights, |weights| self.algorithm.pack(&self.shape, self.kernel, weights, &mut self.data));
    }
}

/// Convolves `input` with `weights` into `output`.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn conv_forward<T: FloatElement>(
    shape: &ConvShape,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let (algorithm, kernel) = (Algorithm::of::<T::Acc>(shape), T::Acc::microkernel());
    check_len("weights", weights.len(), shape.weights_len(), shape);
    if let Some(inner) = crop::cropped(shape) {
        return with_scratch(inner.weights_len(), |taps: &mut [T]| {
            crop::crop(shape, weights, &inner, taps);
            conv_forward(&inner, input, taps, epilogue, output);
        });
    }
    if single_output::applies(shape) {
        check_len("input", input.len(), shape.input_len(), shape);
        check_len("output", output.len(), shape.output_len(), shape);
        return epilogue.widened(|epilogue| {
            epilogue.check(shape);
            with_wide(input, |input| {
                with_wide(weights, |weights| {
                    with_wide_mut(output, |output| single_output::forward(shape, input, weights, epilogue, output));
                });
            });
        });
    }
    with_scratch(algorithm.packed_len(shape, kernel), |packed: &mut [T::Acc]| {
        with_wide(weights, |weights| algorithm.pack(shape, kernel, weights, packed));
        forward_widened(shape, input, PackedRef { algorithm, kernel, data: packed }, epilogue, output);
    });
}

/// Like [`conv_forward`], with packed weights.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies, or the weights were packed for a shape that differs in more than
/// batch and input size.
pub fn conv_forward_packed<T: FloatElement>(
    shape: &ConvShape,
    input: &[T],
    weights: &PackedConvWeights<T>,
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let ConvShape { batch, input: size, .. } = *shape;
    assert_eq!(*shape, ConvShape { batch, input: size, ..weights.shape }, "the shape that weights were packed for");
    assert!(
        weights.algorithm != Algorithm::Winograd || winograd::supports(shape),
        "weights packed for two dimensions in a convolution of three"
    );
    let PackedConvWeights { algorithm, kernel, ref data, .. } = *weights;
    forward_widened(shape, input, PackedRef { algorithm, kernel, data }, epilogue, output);
}

/// Convolves in the accumulation type.
fn forward_widened<T: FloatElement>(
    shape: &ConvShape,
    input: &[T],
    weights: PackedRef<'_, T::Acc>,
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    epilogue.widened(|epilogue| {
        with_wide(input, |input| {
            with_wide_mut(output, |output| forward(shape, input, weights, epilogue, output));
        });
    });
}

fn forward<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    weights: PackedRef<'_, T>,
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    shape.check();
    check_len("input", input.len(), shape.input_len(), shape);
    check_len("output", output.len(), shape.output_len(), shape);
    epilogue.check(shape);
    if output.is_empty() {
        return;
    }
    match weights.algorithm {
        Algorithm::Depthwise => depthwise::forward(shape, input, weights.data, epilogue, output),
        Algorithm::Winograd => winograd::forward(shape, weights.kernel, input, weights.data, epilogue, output),
        Algorithm::Implicit | Algorithm::OutputChannels => implicit_gemm(shape, input, weights, epilogue, output),
    }
}

fn implicit_gemm<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    weights: PackedRef<'_, T>,
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let geometry = shape.windows();
    let product = Implicit {
        kernel: weights.kernel,
        geometry: &geometry,
        groups: shape.groups,
        rows: shape.group_out(),
        channels: shape.group_in(),
        weights: weights.data,
        source: input,
    };
    let pixels = geometry.pixels();
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    let on_block = |stage: Stage, row: usize, pixel: usize, block: &mut MatMut<'_, T>| match stage {
        Stage::Before => {
            let residual = epilogue.residual.into_iter();
            let rows = residual.flat_map(|residual| residual.chunks_exact(pixels).skip(row).take(block.rows()));
            rows.for_each(|row| prefetch(&row[pixel..pixel + block.cols()]));
        }
        Stage::Complete if epilogue.is_empty() => {}
        Stage::Complete => epilogue.apply(shape, pixels, row, pixel, block),
    };
    match weights.algorithm {
        Algorithm::OutputChannels => product.run_output_channels(shape.batch, out, &on_block),
        _ => product.run(shape.batch, out, &on_block),
    }
}
