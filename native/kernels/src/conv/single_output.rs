//! Convolutions whose kernel covers the whole image, so that there is one output per channel: products of the images (batch, depth)
//! with the transposed weights (channels, depth).

use super::ConvShape;
use super::epilogue::ConvEpilogue;
use crate::float::Accum;
use crate::gemm::{Bias, Epilogue, gemm, gemm_fused};
use crate::par::{MatMut, MatRef};

/// True if the kernel covers the whole image, without padding.
pub(super) fn applies(shape: &ConvShape) -> bool {
    shape.kernel == shape.input && shape.pad == [0; 3] && shape.output_plane() == 1 && shape.depth() > 0
}

/// The input of a group: (batch, depth).
fn images<'a, T: Accum>(shape: &ConvShape, group: usize, input: &'a [T]) -> MatRef<'a, T> {
    let len = shape.depth();
    MatRef::new(&input[group * len..], shape.batch, len, shape.groups * len, 1)
}

/// The outputs of a group, or their gradients: (batch, channels).
fn outputs<'a, T: Accum>(shape: &ConvShape, group: usize, output: &'a [T]) -> MatRef<'a, T> {
    MatRef::new(&output[group * shape.group_out()..], shape.batch, shape.group_out(), shape.out_channels, 1)
}

/// The weights of a group: (channels, depth).
fn weights_of<'a, T: Accum>(shape: &ConvShape, group: usize, weights: &'a [T]) -> MatRef<'a, T> {
    let (rows, len) = (shape.group_out(), shape.depth());
    MatRef::row_major(&weights[group * rows * len..][..rows * len], rows, len)
}

pub(super) fn forward<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let channels = shape.group_out();
    for group in 0..shape.groups {
        let cols = group * channels..(group + 1) * channels;
        let epilogue = Epilogue {
            scale: epilogue.scale.map(|scale| &scale[cols.clone()]),
            bias: epilogue.bias.map_or(Bias::None, |bias| Bias::PerCol(&bias[cols])),
            residual: epilogue.residual.map(|residual| outputs(shape, group, residual)),
            activation: epilogue.activation,
        };
        let c = MatMut::new(&mut output[group * channels..], shape.batch, channels, shape.out_channels);
        let weights = weights_of(shape, group, weights).t();
        gemm_fused(T::one(), images(shape, group, input), weights, T::zero(), c, &epilogue);
    }
}

pub(super) fn backward_data<T: Accum>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    let len = shape.depth();
    for group in 0..shape.groups {
        let grads = outputs(shape, group, output_grad);
        let to = MatMut::new(&mut input_grad[group * len..], shape.batch, len, shape.groups * len);
        gemm(T::one(), grads, weights_of(shape, group, weights), T::zero(), to);
    }
}

pub(super) fn backward_weights<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    let (rows, len) = (shape.group_out(), shape.depth());
    for (group, to) in weights_grad.chunks_exact_mut(rows * len).enumerate() {
        let grads = outputs(shape, group, output_grad).t();
        gemm(T::one(), grads, images(shape, group, input), T::zero(), MatMut::row_major(to, rows, len));
    }
}
