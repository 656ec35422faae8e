//! SGD on several weights in one call. The operators `preloaded_*` read learning rates and weight decays from arrays.

use ferromx_core::error::Result;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx};
use ferromx_core::params;
use ferromx_core::params::Tuple;
use ferromx_core::storage::{In, Out};

use super::family::{self, Rule};
use super::multi_tensor::{self, Layout, MAX_WEIGHTS, MultiTensor, multi_tensor};
use super::sgd::{Sgd, SgdMom, SgdMomParam, SgdParam};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &MULTI_SGD_UPDATE,
    &MULTI_SGD_MOM_UPDATE,
    &MULTI_MP_SGD_UPDATE,
    &MULTI_MP_SGD_MOM_UPDATE,
    &PRELOADED_MULTI_SGD_UPDATE,
    &PRELOADED_MULTI_SGD_MOM_UPDATE,
    &PRELOADED_MULTI_MP_SGD_UPDATE,
    &PRELOADED_MULTI_MP_SGD_MOM_UPDATE,
];

/// The source of the learning rates and weight decays.
trait Rates: MultiTensor {
    /// The learning rates and weight decays, from the parameters or the last two inputs.
    fn rates<'a>(&'a self, ins: &[In<'a>]) -> Result<(&'a [f32], &'a [f32])>;
}

/// Conversion to the parameters `P` of the operator on one weight.
trait Single<P> {
    /// The parameters of a weight with the given learning rate and weight decay.
    fn single(&self, lr: f32, wd: f32) -> P;
}

/// Declares the parameters of an operator: the lists of rates, its own, then those that all operators share.
macro_rules! multi_params {
    ($(#[$meta:meta])* $name:ident { $($rates:tt)* } { $($own:tt)* }) => {
        params! {
            $(#[$meta])*
            pub struct $name {
                $($rates)*
                $($own)*
                /// The gradients are multiplied by this before clipping.
                rescale_grad: f32 = 1.0;
                /// The rescaled gradients are clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
                clip_gradient: f32 = (-1.0);
                /// The number of weights.
                num_weights: i32 = 1, where 1..=MAX_WEIGHTS as i32;
            }
        }
    };
}

/// Declares the parameters of an operator whose rates are parameters.
macro_rules! listed_params {
    ($(#[$meta:meta])* $name:ident { $($own:tt)* }) => {
        multi_params! {
            $(#[$meta])*
            $name {
                /// The learning rate of each weight.
                lrs: Tuple<f32> = required;
                /// The weight decay of each weight: wd * weight is added to its gradient.
                wds: Tuple<f32> = required;
            } { $($own)* }
        }

        impl MultiTensor for $name {
            fn count(&self) -> usize {
                self.num_weights as usize
            }

            fn lists(&self) -> Vec<(&'static str, usize)> {
                vec![("lrs", self.lrs.0.len()), ("wds", self.wds.0.len())]
            }
        }

        impl Rates for $name {
            fn rates<'a>(&'a self, _: &[In<'a>]) -> Result<(&'a [f32], &'a [f32])> {
                Ok((&self.lrs.0, &self.wds.0))
            }
        }
    };
}

/// Declares the parameters of an operator whose rates are its last two inputs.
macro_rules! preloaded_params {
    ($(#[$meta:meta])* $name:ident { $($own:tt)* }) => {
        multi_params! { $(#[$meta])* $name {} { $($own)* } }

        impl MultiTensor for $name {
            fn count(&self) -> usize {
                self.num_weights as usize
            }

            fn lists(&self) -> Vec<(&'static str, usize)> {
                Vec::new()
            }
        }

        impl Rates for $name {
            fn rates<'a>(&'a self, ins: &[In<'a>]) -> Result<(&'a [f32], &'a [f32])> {
                Ok((ins[ins.len() - 2].slice()?, ins[ins.len() - 1].slice()?))
            }
        }
    };
}

listed_params! {
    /// Parameters of `multi_sgd_update` and `multi_mp_sgd_update`.
    MultiSgdParam {}
}

listed_params! {
    /// Parameters of `multi_sgd_mom_update` and `multi_mp_sgd_mom_update`.
    MultiSgdMomParam {
        /// The momentum: the fraction of the last step that is added to the next.
        momentum: f32 = 0.0;
    }
}

preloaded_params! {
    /// Parameters of `preloaded_multi_sgd_update` and `preloaded_multi_mp_sgd_update`.
    PreloadedParam {}
}

preloaded_params! {
    /// Parameters of `preloaded_multi_sgd_mom_update` and `preloaded_multi_mp_sgd_mom_update`.
    PreloadedMomParam {
        /// The momentum: the fraction of the last step that is added to the next.
        momentum: f32 = 0.0;
    }
}

/// Implements [`Single`].
macro_rules! single {
    ($($P:ty => $Q:ident { $($momentum:ident)? };)*) => {$(
        impl Single<$Q> for $P {
            fn single(&self, lr: f32, wd: f32) -> $Q {
                let (rescale_grad, clip_gradient) = (self.rescale_grad, self.clip_gradient);
                $Q { lr, wd, rescale_grad, clip_gradient, lazy_update: true $(, $momentum: self.$momentum)? }
            }
        }
    )*};
}
single! {
    MultiSgdParam => SgdParam {};
    PreloadedParam => SgdParam {};
    MultiSgdMomParam => SgdMomParam { momentum };
    PreloadedMomParam => SgdMomParam { momentum };
}

/// The number of weights, and the scalars of each weight's step.
fn scalars<'a, R: Rule<K, S>, P: Rates + Single<R::Params>, const K: usize, const S: usize>(
    ctx: &'a OpCtx<'_>,
    ins: &[In<'a>],
) -> Result<(usize, impl Fn(usize) -> [f64; K] + 'a)> {
    let p = ctx.params::<P>();
    let (lrs, wds) = p.rates(ins)?;
    Ok((p.count(), move |i| R::scalars(&p.single(lrs[i], wds[i]))))
}

fn full<R: Rule<K, S>, P: Rates + Single<R::Params>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let (count, scalars) = scalars::<R, P, K, S>(ctx, ins)?;
    family::steps::<R, K, S>(ctx, ins, outs, count, scalars)
}

fn mixed<R: Rule<K, S>, P: Rates + Single<R::Params>, const K: usize, const S: usize>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let (count, scalars) = scalars::<R, P, K, S>(ctx, ins)?;
    family::mixed_steps::<R, K, S>(ctx, ins, outs, count, scalars)
}

multi_tensor!(MULTI_SGD_UPDATE: "multi_sgd_update",
    "sgd_update for several weights: weight - lr * (clip(rescale_grad * grad) + wd * weight) for each.",
    MultiSgdParam, each ["weight", "grad"], shared [], mixed false, shape shape,
    forward full::<Sgd, MultiSgdParam, 4, 1>);

multi_tensor!(MULTI_SGD_MOM_UPDATE: "multi_sgd_mom_update",
    "sgd_mom_update for several weights: mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * weight), then weight + mom \
     for each.",
    MultiSgdMomParam, each ["weight", "grad", "mom"], shared [], mixed false, shape shape,
    forward full::<SgdMom, MultiSgdMomParam, 5, 2>);

multi_tensor!(MULTI_MP_SGD_UPDATE: "multi_mp_sgd_update",
    "mp_sgd_update for several weights in half precision, each with a copy in single precision that is updated and rounded to the output.",
    MultiSgdParam, each ["weight", "grad", "weight32"], shared [], mixed true, shape shape,
    forward mixed::<Sgd, MultiSgdParam, 4, 1>);

multi_tensor!(MULTI_MP_SGD_MOM_UPDATE: "multi_mp_sgd_mom_update",
    "mp_sgd_mom_update for several weights in half precision, each with a copy in single precision that is updated and rounded \
     to the output.",
    MultiSgdMomParam, each ["weight", "grad", "mom", "weight32"], shared [], mixed true, shape shape,
    forward mixed::<SgdMom, MultiSgdMomParam, 5, 2>);

multi_tensor!(PRELOADED_MULTI_SGD_UPDATE: "preloaded_multi_sgd_update",
    "multi_sgd_update with the learning rates and weight decays in arrays of one element for each weight.",
    PreloadedParam, each ["weight", "grad"], shared ["lrs", "wds"], mixed false, shape shape_of_rates,
    forward full::<Sgd, PreloadedParam, 4, 1>);

multi_tensor!(PRELOADED_MULTI_SGD_MOM_UPDATE: "preloaded_multi_sgd_mom_update",
    "multi_sgd_mom_update with the learning rates and weight decays in arrays of one element for each weight.",
    PreloadedMomParam, each ["weight", "grad", "mom"], shared ["lrs", "wds"], mixed false, shape shape_of_rates,
    forward full::<SgdMom, PreloadedMomParam, 5, 2>);

multi_tensor!(PRELOADED_MULTI_MP_SGD_UPDATE: "preloaded_multi_mp_sgd_update",
    "multi_mp_sgd_update with the learning rates and weight decays in arrays of one element for each weight.",
    PreloadedParam, each ["weight", "grad", "weight32"], shared ["lrs", "wds"], mixed true, shape shape_of_rates,
    forward mixed::<Sgd, PreloadedParam, 4, 1>);

multi_tensor!(PRELOADED_MULTI_MP_SGD_MOM_UPDATE: "preloaded_multi_mp_sgd_mom_update",
    "multi_mp_sgd_mom_update with the learning rates and weight decays in arrays of one element for each weight.",
    PreloadedMomParam, each ["weight", "grad", "mom", "weight32"], shared ["lrs", "wds"], mixed true, shape shape_of_rates,
    forward mixed::<SgdMom, PreloadedMomParam, 5, 2>);
