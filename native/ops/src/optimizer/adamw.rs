//! AdamW: Adam with weight decay that is no part of the gradient.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, ShapeIo, same_shape};
use ferromx_core::op::{ArgDef, OpCtx, OpDef, arg};
use ferromx_core::params;
use ferromx_core::params::{OpParams, Params, Tuple};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::math::Real;

use super::family::{self, Rule, bound, clip, rule};
use super::several::{self, Layout, MAX_WEIGHTS, Several, factor, several};

/// The operators of this file.
pub static OPS: &[&OpDef] = &[&ADAMW_UPDATE, &MP_ADAMW_UPDATE, &MULTI_ADAMW_UPDATE, &MULTI_MP_ADAMW_UPDATE];

const DOC: &str = "A step of AdamW: with g = clip(rescale_grad * grad), mean = beta1 * mean + (1 - beta1) * g and \
    var = beta2 * var + (1 - beta2) * g^2, the result is weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight). \
    Where rescale_grad is 0, infinite or NaN, as after an overflow, weight and states stay as they are (Loshchilov and Hutter, \
    Decoupled Weight Decay Regularization, 2019).";

const FACTOR: ArgDef = arg(
    "rescale_grad",
    "One number, by which the gradient is multiplied; no step is taken if it is 0, infinite or NaN.",
);

/// All that a step on one weight depends on.
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
numbers |p| [
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
        /// Keeps the divisor away from 0.
        epsilon: f32 = 1e-8;
        /// Weight decay, which is not scaled by lr.
        wd: f32 = 0.0;
        /// The factor of the whole step, the schedule multiplier.
        eta: f32 = required;
        /// The elements of the rescaled gradient are limited to [-clip_gradient, clip_gradient]; not if it is negative.
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
        /// Keeps the divisor away from 0.
        epsilon: f32 = 1e-8;
        /// The weight decay of each weight, which is not scaled by its learning rate.
        wds: Tuple<f32> = required;
        /// The factor of the whole step of each weight, the schedule multiplier.
        etas: Tuple<f32> = required;
        /// The elements of the rescaled gradients are limited to [-clip_gradient, clip_gradient]; not if it is negative.
        clip_gradient: f32 = (-1.0);
        /// The number of weights.
        num_weights: i32 = 1, where 1..=MAX_WEIGHTS as i32;
    }
}

impl Several for MultiAdamWParam {
    fn count(&self) -> usize {
        self.num_weights as usize
    }

    fn lists(&self) -> Vec<(&'static str, usize)> {
        vec![("lrs", self.lrs.0.len()), ("wds", self.wds.0.len()), ("etas", self.etas.0.len())]
    }
}

/// The parameters of every weight's step.
trait Steps: OpParams {
    fn weights(&self) -> usize;
    fn of_weight(&self, i: usize, rescale_grad: f64) -> AdamWStep;
}

impl Steps for AdamWParam {
    fn weights(&self) -> usize {
        1
    }

    fn of_weight(&self, _: usize, rescale_grad: f64) -> AdamWStep {
        let AdamWParam { lr, beta1, beta2, epsilon, wd, eta, clip_gradient } = *self;
        AdamWStep { lr, beta1, beta2, epsilon, wd, eta, clip_gradient, rescale_grad }
    }
}

impl Steps for MultiAdamWParam {
    fn weights(&self) -> usize {
        self.count()
    }

    fn of_weight(&self, i: usize, rescale_grad: f64) -> AdamWStep {
        let MultiAdamWParam { beta1, beta2, epsilon, clip_gradient, .. } = *self;
        let (lr, wd, eta) = (self.lrs.0[i], self.wds.0[i], self.etas.0[i]);
        AdamWStep { lr, beta1, beta2, epsilon, wd, eta, clip_gradient, rescale_grad }
    }
}

/// The last input is the factor of the gradients, the others are those of `run`.
fn forward<P: Steps>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    run: impl FnOnce(&[In<'_>], &mut [Out<'_>], usize, &dyn Fn(usize) -> [f64; 8]) -> Result<()>,
) -> Result<()> {
    let p = ctx.params::<P>();
    let Some((last, ins)) = ins.split_last() else { return Ok(()) };
    let rescale = factor(ctx, last)?;
    if rescale == 0.0 || !rescale.is_finite() {
        let stride = ins.len() / p.weights();
        return unchanged(ins, &mut outs[..p.weights()], stride);
    }
    run(ins, outs, p.weights(), &|i| AdamW::numbers(&p.of_weight(i, rescale)))
}

/// Copies the weights to the outputs that are not their own memory.
fn unchanged(ins: &[In<'_>], outs: &mut [Out<'_>], stride: usize) -> Result<()> {
    for (weight, out) in ins.iter().step_by(stride).zip(outs) {
        if out.wanted() && weight.shared_with().is_none() {
            out.bytes_mut()?.copy_from_slice(weight.bytes()?);
        }
    }
    Ok(())
}

fn full<P: Steps>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    forward::<P>(ctx, ins, outs, |ins, outs, n, numbers| family::steps::<AdamW, 8, 3>(ctx, ins, outs, n, numbers))
}

fn mixed<P: Steps>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    forward::<P>(ctx, ins, outs, |ins, outs, n, numbers| family::mixed_steps::<AdamW, 8, 3>(ctx, ins, outs, n, numbers))
}

/// All but the last input, which is the factor, share a shape.
fn shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let n = io.ins.len() - 1;
    same_shape(p, &mut ShapeIo { ins: &mut io.ins[..n], outs: io.outs })
}

/// All but the last input, which is in single precision, share a type.
fn full_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let n = io.ins.len() - 1;
    io.assign_in(n, DType::F32)?;
    ferromx_core::infer::same_dtype(p, &mut DTypeIo { ins: &mut io.ins[..n], outs: io.outs })
}

pub static ADAMW_UPDATE: OpDef = OpDef::new("_adamw_update")
    .doc(DOC)
    .inputs(&[
        arg("weight", "The weight."),
        arg("grad", "Its gradient."),
        arg("mean", "The mean of gradients."),
        arg("var", "The mean of their squares."),
        FACTOR,
    ])
    .params::<AdamWParam>()
    .shape(shape)
    .dtype(full_dtype)
    .mutates(&[2, 3])
    .forward(full::<AdamWParam>)
    .inplace(&[(0, 0)]);

pub static MP_ADAMW_UPDATE: OpDef = OpDef::new("_mp_adamw_update")
    .doc("_adamw_update for a weight in half precision: it changes a copy in single precision, of which the output is the rounding.")
    .inputs(&[
        arg("weight", "The weight, of any floating-point type."),
        arg("grad", "Its gradient."),
        arg("mean", "The mean of gradients, in single precision."),
        arg("var", "The mean of their squares, in single precision."),
        arg("weight32", "The weight in single precision."),
        FACTOR,
    ])
    .params::<AdamWParam>()
    .shape(shape)
    .dtype(family::mixed_dtype)
    .mutates(&[2, 3, 4])
    .forward(mixed::<AdamWParam>)
    .inplace(&[(0, 0)]);

several!(MULTI_ADAMW_UPDATE: "_multi_adamw_update",
    "_adamw_update for several weights in one call. Where rescale_grad is 0, infinite or NaN, all stay as they are.",
    MultiAdamWParam, each ["weight", "grad", "mean", "var"], shared ["rescale_grad"], mixed false, shape shape,
    forward full::<MultiAdamWParam>);

several!(MULTI_MP_ADAMW_UPDATE: "_multi_mp_adamw_update",
    "_mp_adamw_update for several weights in one call. Where rescale_grad is 0, infinite or NaN, all stay as they are.",
    MultiAdamWParam, each ["weight", "grad", "mean", "var", "weight32"], shared ["rescale_grad"], mixed true, shape shape,
    forward mixed::<MultiAdamWParam>);
