//! The epilogue of a convolution.

use super::{ConvShape, check_len};
use crate::float::{Accum, FloatElement, with_wide};
use crate::gemm::{Activation, Bias, Epilogue};
use crate::par::{MatMut, MatRef};
use crate::simd::depthwise::ScaleClamp;

/// The epilogue of a convolution: activation(output * scale + bias + residual).
#[derive(Clone, Copy)]
pub struct ConvEpilogue<'a, T: FloatElement> {
    /// Scale per output channel; requires a bias.
    pub scale: Option<&'a [T]>,
    /// Bias per output channel.
    pub bias: Option<&'a [T]>,
    /// Added to the output; has its shape.
    pub residual: Option<&'a [T]>,
    /// Applied last.
    pub activation: Activation<T::Acc>,
}

impl<T: FloatElement> Default for ConvEpilogue<'_, T> {
    fn default() -> Self {
        ConvEpilogue { scale: None, bias: None, residual: None, activation: Activation::Identity }
    }
}

impl<T: FloatElement> ConvEpilogue<'_, T> {
    /// Calls `f` with this epilogue converted to the accumulation type.
    pub(super) fn widened<R>(&self, f: impl FnOnce(&ConvEpilogue<'_, T::Acc>) -> R) -> R {
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
    /// # Panics
    /// Panics if a slice does not have the length that `shape` implies, or there is a scale without a bias.
    pub(super) fn check(&self, shape: &ConvShape) {
        if let Some(bias) = self.bias {
            check_len("bias", bias.len(), shape.out_channels, shape);
        }
        if let Some(scale) = self.scale {
            check_len("scale", scale.len(), shape.out_channels, shape);
            assert!(self.bias.is_some(), "a scale needs a bias");
        }
        if let Some(residual) = self.residual {
            check_len("residual", residual.len(), shape.output_len(), shape);
        }
    }

    /// True if the epilogue leaves the output unchanged.
    pub(super) fn is_empty(&self) -> bool {
        self.bias.is_none() && self.residual.is_none() && matches!(self.activation, Activation::Identity)
    }

    /// The epilogue of one output channel as scale, bias and clamp; `None` if it is the identity, or has a residual or another
    /// activation.
    pub(super) fn scale_clamp(&self, channel: usize) -> Option<ScaleClamp<T>> {
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
        (self.residual.is_none() && !self.is_empty()).then_some(ScaleClamp { scale, bias, low, high })
    }

    /// Applies the epilogue to a (channels, pixels) block of the output, which lies within one image and starts at (`row`,
    /// `pixel`). `row` counts channels over the whole batch; `pixels` is the number of pixels of an output plane.
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
