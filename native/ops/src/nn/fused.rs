//! What kernels of products with appended operators share: see [`Role::Product`](ferromx_core::fusion::Role::Product).

use ferromx_core::error::{Error, Result};
use ferromx_core::fusion::{Elementwise, Fused};
use ferromx_core::storage::In;
use ferromx_kernels::float::Accum;
use ferromx_kernels::gemm::Activation;
use ferromx_kernels::par::with_scratch;

use super::batch_norm::{self, BatchNormParam};

/// The result is `activation(product * scale + bias + residual)`.
pub(super) struct Finish<'a, T> {
    pub scale: Option<&'a [T]>,
    pub bias: Option<&'a [T]>,
    pub residual: Option<&'a [T]>,
    pub activation: Activation<T>,
}

/// A type that fused products are computed in.
pub(super) trait Computed: Accum {
    /// The function for this type.
    fn choose(single: fn(&mut [f32]), double: fn(&mut [f64])) -> fn(&mut [Self]);
}

impl Computed for f32 {
    fn choose(single: fn(&mut [f32]), _: fn(&mut [f64])) -> fn(&mut [f32]) {
        single
    }
}

impl Computed for f64 {
    fn choose(_: fn(&mut [f32]), double: fn(&mut [f64])) -> fn(&mut [f64]) {
        double
    }
}

/// Calls `f` with what is to be done to a product of so many channels. `ins` are the inputs of the fused kernel after those of the
/// product.
pub(super) fn with_finish<T: Computed>(
    fused: &Fused,
    channels: usize,
    bias: Option<&[T]>,
    ins: &[In<'_>],
    f: impl FnOnce(&Finish<'_, T>) -> Result<()>,
) -> Result<()> {
    let activation = match fused.function {
        None => Activation::Identity,
        Some(Elementwise::Relu) => Activation::Relu,
        Some(Elementwise::Leaky(slope)) => Activation::Leaky(T::from_f64(slope)),
        Some(Elementwise::Clamp { low, high }) => Activation::Clamp { low: T::from_f64(low), high: T::from_f64(high) },
        Some(Elementwise::Map(single, double)) => Activation::Map(T::choose(single, double)),
    };
    let normalised = if fused.normalisation.is_some() { 4 } else { 0 };
    if ins.len() != normalised + usize::from(fused.residual) {
        return Err(Error::Internal(format!("a fused product has {} more inputs than its operators", ins.len())));
    }
    let residual = if fused.residual { Some(ins[normalised].slice::<T>()?) } else { None };
    let Some(p) = &fused.normalisation else {
        return f(&Finish { scale: None, bias, residual, activation });
    };
    with_scratch(2 * channels, |vectors: &mut [T]| {
        let (scale, summand) = vectors.split_at_mut(channels);
        match bias {
            Some(bias) => summand.copy_from_slice(bias),
            None => summand.fill(T::of(0.0)),
        }
        batch_norm::affine(p.get::<BatchNormParam>(), &ins[..normalised], scale, summand)?;
        f(&Finish { scale: Some(&*scale), bias: Some(&*summand), residual, activation })
    })
}
