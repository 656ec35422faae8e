//! LAMB: Adam's direction, scaled for each weight by its norm (You et al., Large Batch Optimization for Deep Learning, 2020).
//!
//! Phase 1 computes the direction of the step, phase 2 scales it by the trust ratio and updates the weight.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::Result;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::{Arith, Lane, LaneFn, Load, Store};
use ferromx_kernels::math::{MathFloat, clip};
use ferromx_kernels::par::{Pod, with_scratch};
use ferromx_kernels::reduce::{NumericLane, SumSquares, reduce};
use ferromx_kernels::update::{Step, update_all};
use smallvec::SmallVec;

use super::family::{self, Rule, bias_correction, bound, rule, slices};
use super::multi_tensor::{self, Layout, MAX_WEIGHTS, MultiTensor, multi_tensor};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &LAMB_UPDATE_PHASE1,
    &LAMB_UPDATE_PHASE2,
    &MP_LAMB_UPDATE_PHASE1,
    &MP_LAMB_UPDATE_PHASE2,
    &MULTI_LAMB_UPDATE,
    &MULTI_MP_LAMB_UPDATE,
];

/// The hyperparameters of phase 1.
pub(super) struct Direction {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    wd: f32,
    rescale_grad: f32,
    clip_gradient: f32,
    /// The step number, from 1, or `None` without bias correction.
    t: Option<i64>,
}

impl Direction {
    /// The divisor of a moving mean with decay rate `beta`.
    fn divisor(&self, beta: f32) -> f64 {
        self.t.map_or(1.0, |t| bias_correction(beta, t))
    }
}

rule!(Lamb, Direction, states [mean, var],
scalars |p| [
    beta1 = p.beta1, beta2 = p.beta2, bias1 = p.divisor(p.beta1), bias2 = p.divisor(p.beta2),
    epsilon = p.epsilon, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let g = clip(rescale * grad, limit);
    let mean = beta1 * mean + (C::ONE - beta1) * g;
    let var = beta2 * var + (C::ONE - beta2) * g * g;
    [(mean / bias1) / ((var / bias2).sqrt() + epsilon) + wd * weight, mean, var]
});

params! {
    /// Parameters of `lamb_update_phase1` and `mp_lamb_update_phase1`.
    pub struct LambPhase1Param {
        /// The decay rate of the mean of gradients.
        beta1: f32 = 0.9;
        /// The decay rate of the mean of squares.
        beta2: f32 = 0.999;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-6;
        /// The step number, from 1.
        t: i32 = required;
        /// Whether the bias of the moving means towards their initial 0 is corrected.
        bias_correction: bool = true;
        /// Weight decay: wd * weight is added to the direction.
        wd: f32 = required;
        /// The gradient is multiplied by this before clipping.
        rescale_grad: f32 = 1.0;
        /// The rescaled gradient is clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
    }
}

impl LambPhase1Param {
    fn direction(&self) -> Direction {
        let LambPhase1Param { beta1, beta2, epsilon, wd, rescale_grad, clip_gradient, .. } = *self;
        let t = self.bias_correction.then_some(i64::from(self.t));
        Direction { beta1, beta2, epsilon, wd, rescale_grad, clip_gradient, t }
    }
}

const PHASE1: &str = "The direction of a step of LAMB: with g = clip(rescale_grad * grad), mean = beta1 * mean + (1 - beta1) * g \
    and var = beta2 * var + (1 - beta2) * g^2, the result is mean / (sqrt(var) + epsilon) + wd * weight, with mean and var \
    first divided by 1 - beta1^t and 1 - beta2^t if bias_correction is set (You et al., 2020).";

pub(super) static LAMB_UPDATE_PHASE1: Operator<LambPhase1Param> = Operator::new("lamb_update_phase1")
    .doc(PHASE1)
    .inputs(&[
        arg("weight", "The weight."),
        arg("grad", "Its gradient."),
        arg("mean", "The moving mean of gradients."),
        arg("var", "The moving mean of squared gradients."),
    ])
    .mutates(&[2, 3])
    .forward(|ctx, ins, outs| {
        let scalars = Lamb::scalars(&ctx.params::<LambPhase1Param>().direction());
        family::steps::<Lamb, 8, 3>(ctx, ins, outs, 1, |_| scalars)
    })
    .inplace(&[(0, 0)]);

pub(super) static MP_LAMB_UPDATE_PHASE1: Operator<LambPhase1Param> = Operator::new("mp_lamb_update_phase1")
    .doc("lamb_update_phase1 for a weight in half precision with a copy in single precision; the direction is in single precision.")
    .inputs(&[
        arg("weight", "The weight, of any floating-point type; it is not read."),
        arg("grad", "Its gradient."),
        arg("mean", "The moving mean of gradients, in single precision."),
        arg("var", "The moving mean of squared gradients, in single precision."),
        arg("weight32", "The weight in single precision."),
    ])
    .dtype(|_, io| {
        (2..5).try_for_each(|i| io.assign_in(i, DType::F32))?;
        if let Some(d) = io.ins[0].or(io.ins[1]) {
            io.assign_in(0, d)?;
            io.assign_in(1, d)?;
        }
        io.assign_out(0, DType::F32)
    })
    .mutates(&[2, 3])
    .forward(|ctx, ins, outs| {
        let scalars = Lamb::scalars(&ctx.params::<LambPhase1Param>().direction()).map(|x| x as f32);
        dispatch!(ins[1].dtype(), T in [f32, f64, half::f16] => {
            let step = Step {
                state: slices::<f32, 3>(outs)?,
                origin: ins[4].slice()?,
                rounded: &mut [] as &mut [f32],
                inputs: [ins[1].slice::<T>()?],
                params: scalars,
            };
            update_all([Ok(step)], Lamb::step::<f32>)
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    });

params! {
    /// Parameters of `lamb_update_phase2` and `mp_lamb_update_phase2`.
    pub struct LambPhase2Param {
        /// The learning rate.
        lr: f32 = required;
        /// The lower bound on the norm of the weight; none if it is negative.
        lower_bound: f32 = (-1.0);
        /// The upper bound on the norm of the weight; none if it is negative.
        upper_bound: f32 = (-1.0);
    }
}

/// The trust ratio: the norm of the weight, clamped to its bounds, divided by the norm of the direction, or 1 if a norm is 0.
fn trust_ratio(weight_norm: f64, direction_norm: f64, lower_bound: f32, upper_bound: f32) -> f64 {
    let mut norm = weight_norm;
    if lower_bound >= 0.0 {
        norm = norm.max(lower_bound.into());
    }
    if upper_bound >= 0.0 {
        norm = norm.min(upper_bound.into());
    }
    if norm == 0.0 || direction_norm == 0.0 { 1.0 } else { norm / direction_norm }
}

/// Shape rule of phase 2: weight and direction have one shape. A norm has shape (1, ...), of which the first element is used.
fn phase2_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let mut common = io.outs[0].clone();
    for _ in 0..2 {
        for i in [0, 1, 4].into_iter().filter(|i| *i < io.ins.len()).collect::<SmallVec<[usize; 3]>>() {
            io.assign_in(i, &common)?;
            common = io.ins[i].clone();
        }
    }
    for norm in 2..4 {
        if io.ins[norm].is_known() {
            let (name, given) = (norm - 1, &io.ins[norm]);
            ensure!(given.dim(0) == 1, "r{name} shape incorrect: its first axis must have length 1, but it is {given}");
            ensure!(!given.dims().contains(&0), "r{name} of shape {given} has no element: give the norm");
        } else {
            io.assign_in(norm, &Shape::new(&[1]))?;
        }
    }
    io.assign_out(0, &common)
}

const PHASE2: &str = "A step of LAMB along the direction g of phase 1: weight - lr * r1 / r2 * g, where the norm r1 of the weight is \
    first clamped to [lower_bound, upper_bound] and r2 is the norm of g. If a norm is 0, r1 / r2 is 1 (You et al., 2020).";

const NORMS: [ArgDef; 2] =
    [arg("r1", "The norm of the weight, as its first element."), arg("r2", "The norm of g, as its first element.")];

pub(super) static LAMB_UPDATE_PHASE2: Operator<LambPhase2Param> = Operator::new("lamb_update_phase2")
    .doc(PHASE2)
    .inputs(&[arg("weight", "The weight."), arg("g", "The direction of the step."), NORMS[0], NORMS[1]])
    .shape(phase2_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<LambPhase2Param>();
        dispatch!(ins[0].dtype(), T in [f32, f64, half::f16] => {
            let norm = |i: usize| ins[i].slice::<T>().map(|x| x[0].to_f64());
            let lr = f64::from(p.lr) * trust_ratio(norm(2)?, norm(3)?, p.lower_bound, p.upper_bound);
            let step = Step {
                state: slices::<T, 1>(outs)?,
                origin: if ins[0].shared_with().is_none() { ins[0].slice()? } else { &[] },
                rounded: &mut [] as &mut [T],
                inputs: [ins[1].slice::<T>()?],
                params: <<T as Arith>::Lane as MathFloat>::of(lr),
            };
            descend([Ok(step)])
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    })
    .inplace(&[(0, 0)]);

pub(super) static MP_LAMB_UPDATE_PHASE2: Operator<LambPhase2Param> = Operator::new("mp_lamb_update_phase2")
    .doc("lamb_update_phase2 for a weight in half precision: updates the copy in single precision and rounds it to the output.")
    .inputs(&[
        arg("weight", "The weight, of any floating-point type; it is not read."),
        arg("g", "The direction of the step, in single precision."),
        NORMS[0],
        NORMS[1],
        arg("weight32", "The weight in single precision."),
    ])
    .shape(phase2_shape)
    .dtype(|_, io| {
        (1..5).try_for_each(|i| io.assign_in(i, DType::F32))?;
        match io.ins[0].or(io.outs[0]) {
            Some(d) => io.assign_in(0, d).and_then(|()| io.assign_out(0, d)),
            None => Ok(()),
        }
    })
    .mutates(&[4])
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<LambPhase2Param>();
        let norm = |i: usize| ins[i].slice::<f32>().map(|x| x[0].to_f64());
        let lr = f64::from(p.lr) * trust_ratio(norm(2)?, norm(3)?, p.lower_bound, p.upper_bound);
        let (weight, states) = outs.split_at_mut(1);
        dispatch!(weight[0].dtype(), T in [f32, f64, half::f16] => {
            let step = Step {
                state: slices::<f32, 1>(states)?,
                origin: &[],
                rounded: weight[0].slice_mut::<T>()?,
                inputs: [ins[1].slice::<f32>()?],
                params: lr as f32,
            };
            descend([Ok(step)])
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    })
    .inplace(&[(0, 0)]);

/// Phase 2: subtracts `params * input` from the state of every step.
fn descend<'a, S, N, C>(steps: impl IntoIterator<Item = Result<Step<'a, S, S, N, C, 1, 1>>>) -> Result<()>
where
    S: Load<C> + Store<C>,
    N: Store<C>,
    C: Lane + MathFloat,
{
    #[derive(Clone, Copy)]
    struct Descend;
    impl<C: MathFloat> LaneFn<(C, [C; 1], [C; 1]), [C; 1]> for Descend {
        #[inline(always)]
        fn call(self, (lr, [weight], [direction]): (C, [C; 1], [C; 1])) -> [C; 1] {
            [weight - lr * direction]
        }
    }
    update_all(steps, Descend)
}

params! {
    /// Parameters of `_multi_lamb_update` and `_multi_mp_lamb_update`.
    pub struct MultiLambParam {
        /// The learning rate of each weight.
        learning_rates: Tuple<f32> = required;
        /// The decay rate of the means of gradients.
        beta1: f32 = 0.9;
        /// The decay rate of the means of squares.
        beta2: f32 = 0.999;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-6;
        /// The weight decay of each weight.
        wds: Tuple<f32> = required;
        /// The gradients are multiplied by this before clipping.
        rescale_grad: f32 = 1.0;
        /// The lower bound on the norm of a weight; none if it is negative.
        lower_bound: f32 = (-1.0);
        /// The upper bound on the norm of a weight; none if it is negative.
        upper_bound: f32 = (-1.0);
        /// The rescaled gradients are clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
        /// Whether the bias of the moving means towards their initial 0 is corrected.
        bias_correction: bool = true;
        /// The step number of each weight, from 1.
        step_count: Shape = required;
        /// The number of weights.
        num_tensors: i32 = 1, where 1..=MAX_WEIGHTS as i32;
    }
}

impl MultiTensor for MultiLambParam {
    fn count(&self) -> usize {
        self.num_tensors as usize
    }

    fn lists(&self) -> Vec<(&'static str, usize)> {
        let steps = self.step_count.ndim().unwrap_or(0);
        vec![("learning_rates", self.learning_rates.0.len()), ("wds", self.wds.0.len()), ("step_count", steps)]
    }
}

impl MultiLambParam {
    fn direction(&self, i: usize) -> Direction {
        let MultiLambParam { beta1, beta2, epsilon, rescale_grad, clip_gradient, .. } = *self;
        let t = self.bias_correction.then(|| self.step_count.dim(i));
        Direction { beta1, beta2, epsilon, wd: self.wds.0[i], rescale_grad, clip_gradient, t }
    }
}

/// The operands of one weight.
struct Weight<'a, S, G> {
    weight: &'a mut [S],
    mean: &'a mut [S],
    var: &'a mut [S],
    /// The output, to which the new weight is rounded; empty if it is not wanted or is `weight` itself.
    rounded: &'a mut [G],
    grad: &'a [G],
}

/// The operands of all weights, without an allocation for up to 16.
type Weights<'a, S, G> = SmallVec<[Weight<'a, S, G>; 16]>;

/// Runs both phases for all weights. Each phase is one parallel loop over the elements of all weights.
fn lamb_steps<S, G, C>(p: &MultiLambParam, weights: &mut Weights<'_, S, G>) -> Result<()>
where
    S: Pod + Load<C> + Store<C> + Load<f32>,
    G: Load<C> + Store<C>,
    C: Lane + MathFloat + NumericLane,
    f64: Load<C> + Store<C>,
{
    let total = weights.iter().map(|w| w.weight.len()).sum();
    with_scratch(total, |directions: &mut [S]| {
        let mut rest = &mut *directions;
        let steps = weights.iter_mut().enumerate().map(|(i, w)| {
            let direction;
            (direction, rest) = std::mem::take(&mut rest).split_at_mut(w.weight.len());
            Ok(Step {
                state: [direction, &mut *w.mean, &mut *w.var],
                origin: &*w.weight,
                rounded: &mut [] as &mut [G],
                inputs: [w.grad],
                params: Lamb::scalars(&p.direction(i)).map(<C as MathFloat>::of),
            })
        });
        update_all(steps, Lamb::step::<C>)?;
        let mut rest = &*directions;
        descend(weights.iter_mut().enumerate().map(|(i, w)| {
            let direction;
            (direction, rest) = rest.split_at(w.weight.len());
            let ratio = trust_ratio(norm::<S, C>(w.weight), norm::<S, C>(direction), p.lower_bound, p.upper_bound);
            Ok(Step {
                state: [&mut *w.weight],
                origin: &[],
                rounded: &mut *w.rounded,
                inputs: [direction],
                params: <C as MathFloat>::of(f64::from(p.learning_rates.0[i]) * ratio),
            })
        }))
    })
}

/// The Euclidean norm.
fn norm<S: Load<C>, C: Lane + NumericLane>(x: &[S]) -> f64
where
    f64: Load<C> + Store<C>,
{
    let mut sum = [0.0];
    reduce::<SumSquares, S, f64, C>(x, &[x.len()], &[0], &mut sum);
    sum[0].sqrt()
}

fn multi(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<MultiLambParam>();
    dispatch!(ins[0].dtype(), T in [f32, half::f16] => {
        lamb_steps::<T, T, f32>(p, &mut full::<T>(ins, outs, p.count())?)
    }, d => dispatch!(d, T in [f64] => {
        lamb_steps::<T, T, f64>(p, &mut full::<T>(ins, outs, p.count())?)
    }, d => Err(ctx.unsupported(d, DType::FLOATS))))
}

fn multi_mixed(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<MultiLambParam>();
    dispatch!(ins[0].dtype(), T in [f32, f64, half::f16] => {
        lamb_steps::<f32, T, f32>(p, &mut mixed::<T>(ins, outs, p.count())?)
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// The operands in one precision. The weights are updated in the outputs.
fn full<'a, T: Element>(ins: &[In<'a>], outs: &'a mut [Out<'_>], num_weights: usize) -> Result<Weights<'a, T, T>> {
    let (weights, states) = outs.split_at_mut(num_weights);
    let mut operands = Weights::new();
    for ((ins, out), states) in
        ins.chunks(4).zip(weights).zip(states.chunks_mut(2)).filter(|((_, out), _)| out.wanted())
    {
        let weight = out.slice_mut::<T>()?;
        if ins[0].shared_with().is_none() {
            weight.copy_from_slice(ins[0].slice()?);
        }
        let [mean, var] = slices(states)?;
        operands.push(Weight { weight, mean, var, rounded: &mut [], grad: ins[1].slice()? });
    }
    Ok(operands)
}

/// The operands in mixed precision. The last state of a weight is its copy in single precision.
fn mixed<'a, T: Element>(ins: &[In<'a>], outs: &'a mut [Out<'_>], num_weights: usize) -> Result<Weights<'a, f32, T>> {
    let (weights, states) = outs.split_at_mut(num_weights);
    let mut operands = Weights::new();
    for ((ins, out), states) in ins.chunks(5).zip(weights).zip(states.chunks_mut(3)) {
        let [mean, var, weight] = slices(states)?;
        let rounded = if out.wanted() { out.slice_mut()? } else { &mut [] };
        operands.push(Weight { weight, mean, var, rounded, grad: ins[1].slice()? });
    }
    Ok(operands)
}

multi_tensor!(MULTI_LAMB_UPDATE: "_multi_lamb_update",
    "Both phases of LAMB for several weights in one call; the norms are computed here. See lamb_update_phase1 and \
     lamb_update_phase2.",
    MultiLambParam, each ["weight", "grad", "mean", "var"], shared [], mixed false, shape shape, forward multi);

multi_tensor!(MULTI_MP_LAMB_UPDATE: "_multi_mp_lamb_update",
    "_multi_lamb_update for weights in half precision, each with a copy in single precision that is updated and rounded to the output.",
    MultiLambParam, each ["weight", "grad", "mean", "var", "weight32"], shared [], mixed true, shape shape,
    forward multi_mixed);
