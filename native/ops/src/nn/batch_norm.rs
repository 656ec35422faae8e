//! `BatchNorm`, and the definition that its variants share.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::fusion::Role;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::AxisShape;
use ferromx_kernels::float::{Accum, FloatElement};
use ferromx_kernels::norm::{
    BatchNormGrads, BatchNormParams, batch_norm_backward, batch_norm_inference, batch_norm_training, rectify,
    rectify_backward,
};
use ferromx_kernels::par::with_scratch;

use crate::precision::by_precision;

params! {
    /// Parameters of `BatchNorm`.
    pub struct BatchNormParam {
        /// Added to the variance for numerical stability.
        eps: f64 = (f64::from(1e-3f32));
        /// The momentum of the moving mean and variance: the fraction that a training step keeps.
        momentum: f32 = 0.9;
        /// Whether gamma is fixed at 1 and has no gradient.
        fix_gamma: bool = true;
        /// Whether training also normalizes with the moving mean and variance, without updating them.
        use_global_stats: bool = false;
        /// Whether the mean and the reciprocal of the standard deviation are also outputs.
        output_mean_var: bool = false;
        /// The axis of the channels.
        axis: i32 = 1;
        /// Accepted for compatibility; cuDNN is never used.
        cudnn_off: bool = false;
        /// Used only by the quantized operator.
        min_calib_range: Option<f32> = None;
        /// Used only by the quantized operator.
        max_calib_range: Option<f32> = None;
    }
}

/// The parameters that all batch normalization operators share.
pub(super) struct Settings {
    pub eps: f64,
    pub momentum: f32,
    pub fix_gamma: bool,
    pub use_global_stats: bool,
    pub output_mean_var: bool,
    pub axis: i32,
}

/// The [`Settings`] of a parameter struct.
macro_rules! settings {
    ($param:expr, axis: $axis:expr) => {
        Settings {
            eps: $param.eps.into(),
            momentum: $param.momentum,
            fix_gamma: $param.fix_gamma,
            use_global_stats: $param.use_global_stats,
            output_mean_var: $param.output_mean_var,
            axis: $axis,
        }
    };
}
pub(super) use settings;

/// The parameter struct of a batch normalization operator.
pub(super) trait BatchNormLike: OpParams {
    /// Whether a ReLU follows the normalization.
    const HAS_RELU: bool = false;
    /// Whether the third output is the variance; otherwise it is the reciprocal of the standard deviation.
    const OUTPUTS_VARIANCE: bool = false;

    /// The shared parameters.
    fn settings(&self) -> Settings;

    /// Checks that the statistics of a batch can be computed.
    fn check_training(&self) -> Result<()> {
        Ok(())
    }
}

impl BatchNormLike for BatchNormParam {
    fn settings(&self) -> Settings {
        settings!(self, axis: self.axis)
    }
}

/// The inputs of a batch normalization operator.
pub(super) const ARGS: &[ArgDef] = &[
    arg("data", "The input, with the channels along `axis`, which is 1 unless it is a parameter."),
    arg("gamma", "The scale of each channel; 1 with fix_gamma."),
    arg("beta", "The offset of each channel."),
    arg("moving_mean", "The moving mean of each channel, updated by the backward pass in training."),
    arg("moving_var", "The moving variance of each channel, updated by the backward pass in training."),
];

/// Defines a batch normalization operator.
pub(super) const fn batch_norm<P: BatchNormLike>(name: &'static str) -> Operator<P> {
    let outputs = if P::HAS_RELU { Deps::Some(&[0, 1, 2]) } else { Deps::Some(&[1, 2]) };
    let backward = Backward::new(backward::<P>).ograds(Deps::Some(&[0])).inputs(Deps::Some(&[0, 1, 3, 4]));
    Operator::new(name)
        .names_outputs()
        .inputs(ARGS)
        .mutates(&[3, 4])
        .fills(|p| p.get::<P>().settings().fix_gamma.then_some((1, 1.0)))
        .input_init(&[(3, "[\"zero\", {}]"), (4, "[\"one\", {}]")])
        .outputs(|_| 3)
        .visible(|p| if p.get::<P>().settings().output_mean_var { 3 } else { 1 })
        .output_names_by(|_| vec!["output".into(), "mean".into(), "var".into()])
        .shape(infer_shape::<P>)
        .dtype(infer_dtype)
        .forward(forward::<P>)
        .grad(Grad::Kernel(backward.outputs(outputs).updates(&[3, 4]), None))
}

pub(crate) static BATCH_NORM: Operator<BatchNormParam> = batch_norm("BatchNorm")
    .aliases(&["_npx_batch_norm"])
    .doc(
        "Normalizes each channel: out = (data - mean) / sqrt(var + eps) * gamma + beta (Ioffe and Szegedy, 2015).\n\n\
         In training, mean and (biased) variance are those of the channel in the batch, and the backward pass sets the moving ones to \
         moving * momentum + batch * (1 - momentum). Otherwise, and with use_global_stats, they are the moving ones. gamma, beta, \
         moving_mean and moving_var have one element for each channel, of type float32 for data of a 16-bit type.",
    )
    .role(Role::Normalization(|p, rank| channel_axis(p.get::<BatchNormParam>().axis, rank).ok()));

fn infer_shape<P: BatchNormLike>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<P>();
    io.expect_inputs(&["data", "gamma", "beta", "moving_mean", "moving_var"])?;
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = channel_axis(p.settings().axis, rank)?;
    let channels = Shape::new(&[io.ins[0].dim(axis)]);
    (1..5).try_for_each(|i| io.assign_in(i, &channels))?;
    (1..3).try_for_each(|i| io.assign_out(i, &channels))?;
    let data = io.ins[0].clone();
    io.assign_out(0, &data)
}

/// The axis of the channels as an index. A negative `axis` counts from the end.
pub(crate) fn channel_axis(axis: i32, rank: usize) -> Result<usize> {
    let index = if axis < 0 { i64::from(axis) + rank as i64 } else { i64::from(axis) };
    ensure!(
        (0..rank as i64).contains(&index),
        "Channel axis out of range: {axis}; data of {rank} dimensions has the axes -{rank} to {}",
        rank as i64 - 1
    );
    Ok(index as usize)
}

fn infer_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(data) = io.ins[0].or(io.outs[0]) else { return Ok(()) };
    io.assign_in(0, data)?;
    io.assign_out(0, data)?;
    let param_dtype = if data == DType::F64 { DType::F64 } else { DType::F32 };
    (1..io.ins.len()).try_for_each(|i| io.assign_in(i, param_dtype))?;
    (1..3).try_for_each(|i| io.assign_out(i, param_dtype))
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn forward<P: BatchNormLike>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<P, T>(ctx, ins, outs), d => {
        Err(ctx.unsupported(d, TYPES))
    })
}

fn norm_shape(p: &Settings, data: &Shape) -> Result<AxisShape> {
    let dims = data.to_usize();
    let axis = channel_axis(p.axis, dims.len())?;
    Ok(AxisShape::new(&dims, axis))
}

fn forward_as<P: BatchNormLike, T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = &ctx.params::<P>().settings();
    let [out, out_mean, out_var, moving_mean, moving_var] = outs else {
        return Err(Error::Internal("BatchNorm has three outputs and two states".into()));
    };
    let shape = norm_shape(p, ins[0].shape())?;
    let x = ins[0].slice::<T>()?;
    let (gamma, beta) = (ins[1].slice::<T::Acc>()?, ins[2].slice::<T::Acc>()?);
    let norm = BatchNormParams { gamma: (!p.fix_gamma).then_some(gamma), beta, eps: p.eps };
    let (moving_mean, moving_var) = (&*moving_mean.slice_mut::<T::Acc>()?, &*moving_var.slice_mut::<T::Acc>()?);
    with_scratch(2 * shape.axis, |stats: &mut [T::Acc]| {
        let (mean, var) = stats.split_at_mut(shape.axis);
        let y = out.slice_mut::<T>()?;
        if ctx.is_train && !p.use_global_stats {
            ctx.params::<P>().check_training()?;
            batch_norm_training(shape, &norm, x, y, mean, var);
        } else {
            mean.copy_from_slice(moving_mean);
            var.copy_from_slice(moving_var);
            batch_norm_inference(shape, &norm, mean, var, x, y);
        }
        if P::HAS_RELU {
            rectify(y);
        }
        if out_mean.wanted() {
            out_mean.slice_mut()?.copy_from_slice(mean);
        }
        if out_var.wanted() && P::OUTPUTS_VARIANCE {
            out_var.slice_mut()?.copy_from_slice(var);
        } else if out_var.wanted() {
            for (out, var) in out_var.slice_mut::<T::Acc>()?.iter_mut().zip(&*var) {
                *out = T::Acc::from_f64((var.wide() + p.eps).sqrt().recip());
            }
        }
        Ok(())
    })
}

/// Folds the normalization into one scale and one shift per channel, for inference. On entry `shifts` holds the bias of the preceding
/// product. `ins` are gamma, beta, moving mean and moving variance.
pub(crate) fn scale_and_shift<A: Accum>(
    p: &BatchNormParam,
    ins: &[In<'_>],
    scales: &mut [A],
    shifts: &mut [A],
) -> Result<()> {
    let [gamma, beta, mean, var] = ins else {
        return Err(Error::Internal("BatchNorm has four inputs besides the data".into()));
    };
    let (gamma, beta) = (gamma.slice::<A>()?, beta.slice::<A>()?);
    let (mean, var) = (mean.slice::<A>()?, var.slice::<A>()?);
    for (i, (channel_scale, shift)) in scales.iter_mut().zip(shifts).enumerate() {
        let gamma = if p.fix_gamma { 1.0 } else { gamma[i].wide() };
        let scale = gamma * (var[i].wide() + p.eps).sqrt().recip();
        *channel_scale = A::from_f64(scale);
        *shift = A::from_f64(beta[i].wide() + (shift.wide() - mean[i].wide()) * scale);
    }
    Ok(())
}

/// Updates a moving average with a statistic of the batch.
fn update_moving<A: Accum>(moving: &mut [A], new: &[A], momentum: f32) {
    let (old_weight, new_weight) = (A::of(momentum), A::of(1.0 - momentum));
    for (moving, new) in moving.iter_mut().zip(new) {
        *moving = *moving * old_weight + *new * new_weight;
    }
}

/// Inputs: gradient of the output, data, gamma, moving mean, moving variance, the output if a ReLU follows, mean, the third output.
/// Outputs: gradients of data, gamma, beta; the moving mean and variance, which are updated in training.
fn backward<P: BatchNormLike>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[1].dtype(), T for [F16, BF16] => backward_as::<P, T>(ctx, ins, outs), d => {
        Err(ctx.unsupported(d, TYPES))
    })
}

fn backward_as<P: BatchNormLike, T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let y_grad = ins[0].slice::<T>()?;
    if !P::HAS_RELU {
        return backward_from::<P, T>(ctx, y_grad, &ins[1..], outs);
    }
    with_scratch(y_grad.len(), |relu_grad: &mut [T]| {
        rectify_backward(ins[5].slice::<T>()?, y_grad, relu_grad);
        backward_from::<P, T>(ctx, relu_grad, &ins[1..], outs)
    })
}

/// The variances of the batch from the third output, which holds them or the inverse standard deviations.
fn variances<P: BatchNormLike, A: Accum>(var_or_inv_std: &[A], eps: f64, var: &mut [A]) {
    for (var, x) in var.iter_mut().zip(var_or_inv_std) {
        *var = if P::OUTPUTS_VARIANCE { *x } else { A::from_f64(x.wide().powi(-2) - eps) };
    }
}

/// The gradients, given the gradient `y_grad` of the normalized data before any ReLU. `ins` are the inputs of [`backward`] without the
/// first.
fn backward_from<P: BatchNormLike, T: FloatElement>(
    ctx: &OpCtx<'_>,
    y_grad: &[T],
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let p = &ctx.params::<P>().settings();
    let (x, gamma) = (ins[0].slice::<T>()?, ins[1].slice::<T::Acc>()?);
    let [.., mean, var_or_inv_std] = ins else { return Err(Error::Internal("BatchNorm reads its statistics".into())) };
    let (mean, var_or_inv_std) = (mean.slice::<T::Acc>()?, var_or_inv_std.slice::<T::Acc>()?);
    let (outs, [moving_mean, moving_var]) = outs
        .split_last_chunk_mut()
        .ok_or_else(|| Error::Internal("the gradient of BatchNorm updates two states".into()))?;
    let (moving_mean, moving_var) = (moving_mean.slice_mut::<T::Acc>()?, moving_var.slice_mut::<T::Acc>()?);
    let shape = norm_shape(p, ins[0].shape())?;
    let channels = shape.axis;
    let discarded_len = if outs[0].wanted() { 0 } else { x.len() };
    let use_batch_stats = ctx.is_train && !p.use_global_stats;
    with_scratch(discarded_len, |discarded: &mut [T]| {
        with_scratch(4 * channels, |scratch: &mut [T::Acc]| {
            let (var, rest) = scratch.split_at_mut(channels);
            let (beta, rest) = rest.split_at_mut(channels);
            let (gamma_grad, beta_grad) = rest.split_at_mut(channels);
            variances::<P, T::Acc>(var_or_inv_std, p.eps, var);
            let mean = if use_batch_stats {
                update_moving(moving_mean, mean, p.momentum);
                update_moving(moving_var, var, p.momentum);
                mean
            } else {
                var.copy_from_slice(moving_var);
                &*moving_mean
            };
            let norm = BatchNormParams { gamma: (!p.fix_gamma).then_some(gamma), beta: &*beta, eps: p.eps };
            let grads = BatchNormGrads {
                x: if outs[0].wanted() { outs[0].slice_mut::<T>()? } else { discarded },
                gamma: &mut *gamma_grad,
                beta: &mut *beta_grad,
            };
            batch_norm_backward(shape, &norm, (mean, &*var, use_batch_stats), x, y_grad, grads);
            if p.fix_gamma {
                gamma_grad.fill(T::Acc::from_f64(0.0));
            }
            for (out, grad) in outs[1..].iter_mut().zip([gamma_grad, beta_grad]) {
                if out.wanted() {
                    out.slice_mut()?.copy_from_slice(grad);
                }
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    fn operands() -> Vec<ferromx_core::ndarray::NDArray> {
        let x: Vec<f64> = (0..12).map(|i| f64::from(i * 7 % 11) / 4.0 - 1.0).collect();
        let channels = |a: f64, b: f64| array(&[a, b], &[2]);
        vec![array(&x, &[3, 2, 2]), channels(1.5, 0.5), channels(0.1, -0.2), channels(0.3, 0.6), channels(1.2, 0.8)]
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        Case::new(&BATCH_NORM, &[("fix_gamma", "False")]).train().check_gradient(&operands()[..5]);
        Case::new(&BATCH_NORM, &[("fix_gamma", "False"), ("axis", "-1")]).check_gradient(&operands()[..5]);
    }

    #[test]
    fn the_backward_pass_updates_the_moving_statistics_in_training() {
        let (case, ins) = (|| Case::new(&BATCH_NORM, &[("momentum", "0.75")]), operands());
        case().backward(&ins, &ins[..1]).unwrap();
        case().train().run(&ins).unwrap();
        assert_eq!(ins[3].to_vec::<f64>().unwrap(), [0.3, 0.6]);
        case().train().backward(&ins, &ins[..1]).unwrap();
        let x = ins[0].to_vec::<f64>().unwrap();
        let mean = [0, 1, 4, 5, 8, 9].iter().map(|i| x[*i]).sum::<f64>() / 6.0;
        close(&ins[3].to_vec::<f64>().unwrap()[..1], &[0.3 * 0.75 + mean * 0.25], 1e-7);
    }

    #[test]
    fn axes_out_of_range_are_errors() {
        let shapes = [&[2i64, 3][..], &[3], &[3], &[3], &[3]].map(Shape::new);
        let e = Case::new(&BATCH_NORM, &[("axis", "2")]).shapes(&shapes).unwrap_err().to_string();
        assert!(e.contains("Channel axis out of range: 2"), "{e}");
    }
}
