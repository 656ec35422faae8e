//! The forward pass.

use super::implicit::{Implicit, Moment, pack_weights};
use super::{ConvShape, across, check_len, depthwise, winograd};
use crate::float::{Accum, Real, with_wide, with_wide_mut};
use crate::gemm::{Activation, Bias, Epilogue};
use crate::par::{AlignedVec, MatMut, MatRef, parallel_rows, with_scratch};
use crate::simd::microkernel::{Element, MicroKernel};
use crate::simd::prefetch;
use crate::simd::square::Finish;

/// What is done to the output while it is in the cache: activation(output * scale + bias + residual).
#[derive(Clone, Copy)]
pub struct ConvEpilogue<'a, T: Real> {
    /// One factor for each output channel; it needs a bias beside it.
    pub scale: Option<&'a [T]>,
    /// One summand for each output channel.
    pub bias: Option<&'a [T]>,
    /// A tensor of the shape of the output that is added.
    pub residual: Option<&'a [T]>,
    /// The function applied to the sum.
    pub activation: Activation<T::Acc>,
}

impl<T: Real> Default for ConvEpilogue<'_, T> {
    fn default() -> Self {
        ConvEpilogue { scale: None, bias: None, residual: None, activation: Activation::Identity }
    }
}

impl<T: Real> ConvEpilogue<'_, T> {
    /// Calls `f` with the same in the type to compute in.
    fn widened<R>(&self, f: impl FnOnce(&ConvEpilogue<'_, T::Acc>) -> R) -> R {
        with_wide(self.scale.unwrap_or(&[]), |scale| {
            with_wide(self.bias.unwrap_or(&[]), |bias| {
                with_wide(self.residual.unwrap_or(&[]), |residual| {
                    f(&ConvEpilogue {
                        scale: self.scale.map(|_| scale),
                        bias: self.bias.map(|_| bias),
                        residual: self.residual.map(|_| residual),
                        activation: self.activation,
                    })
                })
            })
        })
    }
}

impl<T: Accum> ConvEpilogue<'_, T> {
    fn check(&self, shape: &ConvShape) {
        if let Some(bias) = self.bias {
            check_len("bias", bias.len(), shape.out_channels, shape);
        }
        if let Some(scale) = self.scale {
            check_len("scale", scale.len(), shape.out_channels, shape);
            assert!(self.bias.is_some(), "each factor must have its bias");
        }
        if let Some(residual) = self.residual {
            check_len("residual", residual.len(), shape.output_len(), shape);
        }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.bias.is_none() && self.residual.is_none() && matches!(self.activation, Activation::Identity)
    }

    /// The same for outputs of a channel, unless it is more than that can say, or nothing.
    pub(super) fn finish(&self, channel: usize) -> Option<Finish<T>> {
        let (low, high) = match self.activation {
            Activation::Identity => (T::neg_infinity(), T::infinity()),
            Activation::Relu => (T::zero(), T::infinity()),
            Activation::Clamp { low, high } if low <= high => (low, high),
            _ => return None,
        };
        let (scale, bias) = (
            self.scale.map_or(T::one(), |scale| scale[channel]),
            self.bias.map_or(T::neg_zero(), |bias| bias[channel]),
        );
        (self.residual.is_none() && !self.is_empty()).then_some(Finish { scale, bias, low, high })
    }

    /// Applies it to a block of the output, whose rows are channels: it starts at row `row` of all channels of the
    /// batch, and lies within an image.
    pub(super) fn apply(&self, shape: &ConvShape, pixels: usize, row: usize, pixel: usize, block: &mut MatMut<'_, T>) {
        let channel = row % shape.out_channels;
        let channels = channel..channel + block.rows();
        let epilogue = Epilogue {
            scale: self.scale.map(|scale| &scale[channels.clone()]),
            bias: self.bias.map_or(Bias::None, |bias| Bias::PerRow(&bias[channels])),
            residual: self
                .residual
                .map(|residual| MatRef::new(&residual[row * pixels + pixel..], block.rows(), block.cols(), pixels, 1)),
            activation: self.activation,
        };
        epilogue.apply(0, 0, block);
    }
}

/// How a convolution is computed, and its weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Depthwise,
    Winograd,
    Product,
    /// The product with its sides exchanged.
    Across,
}

impl Algorithm {
    fn of<T: Accum>(shape: &ConvShape) -> Self {
        shape.check();
        if depthwise::is_depthwise(shape) {
            Algorithm::Depthwise
        } else if winograd::pays::<T>(shape) {
            Algorithm::Winograd
        } else if across::pays::<T>(shape) {
            Algorithm::Across
        } else {
            Algorithm::Product
        }
    }

    fn packed_len<T: Accum>(self, shape: &ConvShape, kernel: &MicroKernel<T>) -> usize {
        match self {
            Algorithm::Depthwise => shape.weights_len(),
            Algorithm::Winograd => winograd::weights_len(shape, kernel),
            Algorithm::Product => shape.groups * kernel.packed_a_len(shape.group_out(), shape.depth()),
            Algorithm::Across => shape.groups * kernel.packed_b_len(shape.group_out(), shape.depth()),
        }
    }

    fn pack<T: Accum>(self, shape: &ConvShape, kernel: &MicroKernel<T>, weights: &[T], out: &mut [T]) {
        check_len("weights", weights.len(), shape.weights_len(), shape);
        match self {
            Algorithm::Depthwise => out.copy_from_slice(weights),
            Algorithm::Winograd => winograd::transform_weights(shape, kernel, weights, false, out),
            Algorithm::Product | Algorithm::Across => {
                let (rows, depth) = (shape.group_out(), shape.depth());
                parallel_rows(out, self.packed_len(shape, kernel) / shape.groups, 1, |group, out| {
                    let weights = MatRef::row_major(&weights[group * rows * depth..], rows, depth);
                    match self {
                        Algorithm::Across => across::pack_weights(kernel, weights, out),
                        _ => pack_weights(kernel, weights, out),
                    }
                });
            }
        }
    }
}

/// Weights in the form in which the algorithm for their convolution reads them, to be used many times.
pub struct PackedConvWeights<T: Real> {
    shape: ConvShape,
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T::Acc>,
    data: AlignedVec<T::Acc>,
}

impl<T: Real> PackedConvWeights<T> {
    /// Packs the weights of a convolution. Of `shape`, batch and input may differ from those of later uses, but the
    /// algorithm is chosen for those given here.
    ///
    /// # Panics
    /// When `weights` does not have the elements that `shape` says.
    pub fn new(shape: &ConvShape, weights: &[T]) -> Self {
        Self::packed_for(Algorithm::of::<T::Acc>(shape), shape, weights)
    }

    /// [`Self::new`] for an algorithm that computes `shape`.
    pub(super) fn packed_for(algorithm: Algorithm, shape: &ConvShape, weights: &[T]) -> Self {
        let kernel = T::Acc::microkernel();
        let mut data = AlignedVec::zeroed(algorithm.packed_len(shape, kernel));
        with_wide(weights, |weights| algorithm.pack(shape, kernel, weights, &mut data));
        PackedConvWeights { shape: *shape, algorithm, kernel, data }
    }
}

/// Convolves `input` with `weights` into `output`.
///
/// # Panics
/// When a slice does not have the elements that `shape` says.
pub fn conv_forward<T: Real>(
    shape: &ConvShape,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let (algorithm, kernel) = (Algorithm::of::<T::Acc>(shape), T::Acc::microkernel());
    with_scratch(algorithm.packed_len(shape, kernel), |packed: &mut [T::Acc]| {
        with_wide(weights, |weights| algorithm.pack(shape, kernel, weights, packed));
        widened(shape, algorithm, kernel, input, packed, epilogue, output);
    });
}

/// [`conv_forward`] with weights that were packed beforehand.
///
/// # Panics
/// When a slice does not have the elements that `shape` says, or the weights were packed for a shape that differs in more
/// than batch and input.
pub fn conv_forward_packed<T: Real>(
    shape: &ConvShape,
    input: &[T],
    weights: &PackedConvWeights<T>,
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let ConvShape { batch, input: size, .. } = *shape;
    assert_eq!(*shape, ConvShape { batch, input: size, ..weights.shape }, "the shape that weights were packed for");
    assert!(
        weights.algorithm != Algorithm::Winograd || winograd::fits(shape),
        "weights packed for two dimensions in a convolution of three"
    );
    widened(shape, weights.algorithm, weights.kernel, input, &weights.data, epilogue, output);
}

fn widened<T: Real>(
    shape: &ConvShape,
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T::Acc>,
    input: &[T],
    weights: &[T::Acc],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    epilogue.widened(|epilogue| {
        with_wide(input, |input| {
            with_wide_mut(output, |output| forward(shape, algorithm, kernel, input, weights, epilogue, output));
        });
    });
}

fn forward<T: Accum>(
    shape: &ConvShape,
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T>,
    input: &[T],
    weights: &[T],
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
    match algorithm {
        Algorithm::Depthwise => depthwise::forward(shape, input, weights, epilogue, output),
        Algorithm::Winograd => winograd::forward(shape, kernel, input, weights, epilogue, output),
        Algorithm::Product | Algorithm::Across => {
            product(shape, algorithm, kernel, input, weights, epilogue, output);
        }
    }
}

fn product<T: Accum>(
    shape: &ConvShape,
    algorithm: Algorithm,
    kernel: &'static MicroKernel<T>,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let geometry = shape.windows();
    let product = Implicit {
        kernel,
        geometry: &geometry,
        groups: shape.groups,
        rows: shape.group_out(),
        channels: shape.group_in(),
        weights,
        source: input,
    };
    let pixels = geometry.pixels();
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    let finish = |moment: Moment, row: usize, pixel: usize, block: &mut MatMut<'_, T>| match moment {
        Moment::Before => {
            let residual = epilogue.residual.into_iter();
            let rows = residual.flat_map(|residual| residual.chunks_exact(pixels).skip(row).take(block.rows()));
            rows.for_each(|row| prefetch(&row[pixel..pixel + block.cols()]));
        }
        Moment::Complete if epilogue.is_empty() => {}
        Moment::Complete => epilogue.apply(shape, pixels, row, pixel, block),
    };
    match algorithm {
        Algorithm::Across => product.run_across(shape.batch, out, &finish),
        _ => product.run(shape.batch, out, &finish),
    }
}
