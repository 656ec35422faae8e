//! The epilogue of fused product kernels: see [`Role::Product`](ferromx_core::fusion::Role::Product).

use ferromx_core::error::{Error, Result};
use ferromx_core::fusion::{Elementwise, Fused};
use ferromx_core::storage::In;
use ferromx_kernels::float::Accum;
use ferromx_kernels::gemm::Activation;
use ferromx_kernels::par::with_scratch;

use super::batch_norm::{self, BatchNormParam};

/// The epilogue `activation(product * scale + bias + residual)`.
pub(super) struct ProductEpilogue<'a, T> {
    pub scale: Option<&'a [T]>,
    pub bias: Option<&'a [T]>,
    pub residual: Option<&'a [T]>,
    pub activation: Activation<T>,
}

/// An element type of fused products.
pub(super) trait FusedElement: Accum {
    /// Selects the activation function for this type.
    fn choose(single: fn(&mut [f32]), double: fn(&mut [f64])) -> fn(&mut [Self]);
}

impl FusedElement for f32 {
    fn choose(single: fn(&mut [f32]), _: fn(&mut [f64])) -> fn(&mut [f32]) {
        single
    }
}

impl FusedElement for f64 {
    fn choose(_: fn(&mut [f32]), double: fn(&mut [f64])) -> fn(&mut [f64]) {
        double
    }
}

/// Calls `f` with the epilogue of a product with `channels` output channels. `ins` are the inputs of the fused kernel after those of the
/// product: the four parameters of a normalization, then the residual, if the epilogue has them.
pub(super) fn with_epilogue<T: FusedElement>(
    fused: &Fused,
    channels: usize,
    bias: Option<&[T]>,
    ins: &[In<'_>],
    f: impl FnOnce(&ProductEpilogue<'_, T>) -> Result<()>,
) -> Result<()> {
    let activation = match fused.function {
        None => Activation::Identity,
        Some(Elementwise::Relu) => Activation::Relu,
        Some(Elementwise::Leaky(slope)) => Activation::Leaky(T::from_f64(slope)),
        Some(Elementwise::Clamp { low, high }) => Activation::Clamp { low: T::from_f64(low), high: T::from_f64(high) },
        Some(Elementwise::HardSigmoid { alpha, beta }) => {
            Activation::HardSigmoid { alpha: T::from_f64(alpha), beta: T::from_f64(beta) }
        }
        Some(Elementwise::HardSwish { alpha, beta }) => {
            Activation::HardSwish { alpha: T::from_f64(alpha), beta: T::from_f64(beta) }
        }
        Some(Elementwise::Map(single, double)) => Activation::Map(T::choose(single, double)),
        Some(Elementwise::Gated(single, double)) => Activation::Gated(T::choose(single, double)),
    };
    let num_norm_inputs = if fused.normalization.is_some() { 4 } else { 0 };
    if ins.len() != num_norm_inputs + usize::from(fused.has_residual) {
        return Err(Error::Internal(format!(
            "the epilogue of a fused product has a wrong number of inputs: {}",
            ins.len()
        )));
    }
    let residual = if fused.has_residual { Some(ins[num_norm_inputs].slice::<T>()?) } else { None };
    let Some(p) = &fused.normalization else {
        return f(&ProductEpilogue { scale: None, bias, residual, activation });
    };
    with_scratch(2 * channels, |scratch: &mut [T]| {
        let (scale, shift) = scratch.split_at_mut(channels);
        match bias {
            Some(bias) => shift.copy_from_slice(bias),
            None => shift.fill(T::of(0.0)),
        }
        batch_norm::scale_and_shift(p.get::<BatchNormParam>(), &ins[..num_norm_inputs], scale, shift)?;
        f(&ProductEpilogue { scale: Some(&*scale), bias: Some(&*shift), residual, activation })
    })
}
