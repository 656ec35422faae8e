//! AdamW: Adam with decoupled weight decay.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, ShapeIo, same_shape};
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::{OpParams, Params, Tuple};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::math::{MathFloat, clip};

use super::family::{self, Rule, bound, rule};
use super::multi_tensor::{self, Layout, MAX_WEIGHTS, MultiTensor, multi_tensor, rescale_grad};
use crate::movement::copy_unless_in_place;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&ADAMW_UPDATE, &MP_ADAMW_UPDATE, &MULTI_ADAMW_UPDATE, &MULTI_MP_ADAMW_UPDATE];

const DOC: &str = "A step of AdamW: with g = clip(rescale_grad * grad), mean = beta1 * mean + (1 - beta1) * g and \
    var = beta2 * var + (1 - beta2) * g^2, the result is weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight). \
    If rescale_grad is 0, infinite or NaN, as after an overflow, the update is skipped (Loshchilov and Hutter, \
    Decoupled Weight Decay Regularization, 2019).";

const RESCALE_GRAD: ArgDef =
    arg("rescale_grad", "A scalar that multiplies the gradient; the update is skipped if it is 0, infinite or NaN.");

/// The hyperparameters of a step on one weight.
pub(super) struct AdamWStep {
    lr: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    wd: f32,
    eta: f32,
    clip_gradient: f32,
    rescale_grad: f64,
}

rule!(AdamW, AdamWStep, states [mean, var],
scalars |p| [
    lr = p.lr, beta1 = p.beta1, beta2 = p.beta2, epsilon = p.epsilon, wd = p.wd, eta = p.eta,
    rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let g = clip(rescale * grad, limit);
    let mean = beta1 * mean + (C::ONE - beta1) * g;
    let var = beta2 * var + (C::ONE - beta2) * g * g;
    [weight - eta * (lr * mean / (var.sqrt() + epsilon) + wd * weight), mean, var]
});

params! {
    /// Parameters of `_adamw_update` and `_mp_adamw_update`.
    pub struct AdamWParam {
        /// The learning rate.
        lr: f32 = required;
        /// The decay rate of the mean of gradients.
        beta1: f32 = 0.9;
        /// The decay rate of the mean of squares.
        beta2: f32 = 0.999;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-8;
        /// Weight decay, which is not scaled by lr.
        wd: f32 = 0.0;
        /// The schedule multiplier, which scales the whole step.
        eta: f32 = required;
        /// The rescaled gradient is clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
    }
}

params! {
    /// Parameters of `_multi_adamw_update` and `_multi_mp_adamw_update`.
    pub struct MultiAdamWParam {
        /// The learning rate of each weight.
        lrs: Tuple<f32> = required;
        /// The decay rate of the means of gradients.
        beta1: f32 = 0.9;
        /// The decay rate of the means of squares.
        beta2: f32 = 0.999;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-8;
        /// The weight decay of each weight, which is not scaled by its learning rate.
        wds: Tuple<f32> = required;
        /// The schedule multiplier of each weight, which scales its whole step.
        etas: Tuple<f32> = required;
        /// The rescaled gradients are clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
        /// The number of weights.
        num_weights: i32 = 1, where 1..=MAX_WEIGHTS as i32;
    }
}

impl MultiTensor for MultiAdamWParam {
    fn count(&self) -> usize {
        self.num_weights as usize
    }

    fn lists(&self) -> Vec<(&'static str, usize)> {
        vec![("lrs", self.lrs.0.len()), ("wds", self.wds.0.len()), ("etas", self.etas.0.len())]
    }
}

/// The parameters of an operator that updates one or several weights.
trait Steps: OpParams {
    fn num_weights(&self) -> usize;
    /// The hyperparameters of the step on weight `i`.
    fn of_weight(&self, i: usize, rescale_grad: f64) -> AdamWStep;
}

impl Steps for AdamWParam {
    fn num_weights(&self) -> usize {
        1
    }

    fn of_weight(&self, _: usize, rescale_grad: f64) -> AdamWStep {
        let AdamWParam { lr, beta1, beta2, epsilon, wd, eta, clip_gradient } = *self;
        AdamWStep { lr, beta1, beta2, epsilon, wd, eta, clip_gradient, rescale_grad }
    }
}

impl Steps for MultiAdamWParam {
    fn num_weights(&self) -> usize {
        self.count()
    }

    fn of_weight(&self, i: usize, rescale_grad: f64) -> AdamWStep {
        let MultiAdamWParam { beta1, beta2, epsilon, clip_gradient, .. } = *self;
        let (lr, wd, eta) = (self.lrs.0[i], self.wds.0[i], self.etas.0[i]);
        AdamWStep { lr, beta1, beta2, epsilon, wd, eta, clip_gradient, rescale_grad }
    }
}

/// Reads `rescale_grad`, the last input. Calls `run` with the other inputs, or copies the weights if the update is skipped.
fn forward<P: Steps>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    run: impl FnOnce(&[In<'_>], &mut [Out<'_>], usize, &dyn Fn(usize) -> [f64; 8]) -> Result<()>,
) -> Result<()> {
    let p = ctx.params::<P>();
    let Some((last, ins)) = ins.split_last() else { return Ok(()) };
    let rescale = rescale_grad(ctx, last)?;
    if rescale == 0.0 || !rescale.is_finite() {
        let stride = ins.len() / p.num_weights();
        return copy_weights(ins, &mut outs[..p.num_weights()], stride);
    }
    run(ins, outs, p.num_weights(), &|i| AdamW::scalars(&p.of_weight(i, rescale)))
}

/// Copies each weight to its output, unless they share memory.
fn copy_weights(ins: &[In<'_>], outs: &mut [Out<'_>], stride: usize) -> Result<()> {
    for (weight, out) in ins.iter().step_by(stride).zip(outs) {
        if out.wanted() {
            copy_unless_in_place(weight, out)?;
        }
    }
    Ok(())
}

/// The step with states in the type of the weights.
fn full<P: Steps>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    forward::<P>(ctx, ins, outs, |ins, outs, n, scalars| family::steps::<AdamW, 8, 3>(ctx, ins, outs, n, scalars))
}

/// The step with states in single precision.
fn mixed<P: Steps>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    forward::<P>(ctx, ins, outs, |ins, outs, n, scalars| family::mixed_steps::<AdamW, 8, 3>(ctx, ins, outs, n, scalars))
}

/// Shape rule: all inputs but the last, `rescale_grad`, have one shape.
fn shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let n = io.ins.len() - 1;
    same_shape(p, &mut ShapeIo { ins: &mut io.ins[..n], outs: io.outs })
}

/// Type rule: all inputs but the last have one type; the last, `rescale_grad`, is in single precision.
fn full_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let n = io.ins.len() - 1;
    io.assign_in(n, DType::F32)?;
    ferromx_core::infer::same_dtype(p, &mut DTypeIo { ins: &mut io.ins[..n], outs: io.outs })
}

pub(super) static ADAMW_UPDATE: Operator<AdamWParam> = Operator::new("_adamw_update")
    .doc(DOC)
    .inputs(&[
        arg("weight", "The weight."),
        arg("grad", "Its gradient."),
        arg("mean", "The moving mean of gradients."),
        arg("var", "The moving mean of squared gradients."),
        RESCALE_GRAD,
    ])
    .shape(shape)
    .dtype(full_dtype)
    .mutates(&[2, 3])
    .forward(full::<AdamWParam>)
    .inplace(&[(0, 0)]);

pub(super) static MP_ADAMW_UPDATE: Operator<AdamWParam> = Operator::new("_mp_adamw_update")
    .doc("_adamw_update for a weight in half precision: updates the copy in single precision and rounds it to the output.")
    .inputs(&[
        arg("weight", "The weight, of any floating-point type."),
        arg("grad", "Its gradient."),
        arg("mean", "The moving mean of gradients, in single precision."),
        arg("var", "The moving mean of squared gradients, in single precision."),
        arg("weight32", "The weight in single precision."),
        RESCALE_GRAD,
    ])
    .shape(shape)
    .dtype(family::mixed_dtype)
    .mutates(&[2, 3, 4])
    .forward(mixed::<AdamWParam>)
    .inplace(&[(0, 0)]);

multi_tensor!(MULTI_ADAMW_UPDATE: "_multi_adamw_update",
    "_adamw_update for several weights in one call. If rescale_grad is 0, infinite or NaN, the update of all is skipped.",
    MultiAdamWParam, each ["weight", "grad", "mean", "var"], shared ["rescale_grad"], mixed false, shape shape,
    forward full::<MultiAdamWParam>);

multi_tensor!(MULTI_MP_ADAMW_UPDATE: "_multi_mp_adamw_update",
    "_mp_adamw_update for several weights in one call. If rescale_grad is 0, infinite or NaN, the update of all is skipped.",
    MultiAdamWParam, each ["weight", "grad", "mean", "var", "weight32"], shared ["rescale_grad"], mixed true, shape shape,
    forward mixed::<MultiAdamWParam>);
