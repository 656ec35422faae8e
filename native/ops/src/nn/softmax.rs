//! `softmax` and its variants.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{FloatDType, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, param_enum, params};
use ferromx_kernels::AxisShape;
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::softmax::{
    Lengths, Softmax, SoftmaxKind, cross_entropy_backward, cross_entropy_forward, softmax_backward, softmax_forward,
};

use crate::compose::{Graph, op};
use crate::precision::{by_precision, without_half};
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&SOFTMAX, &LOG_SOFTMAX, &SOFTMIN, &SOFTMAX_ACTIVATION, &SOFTMAX_CROSS_ENTROPY];

params! {
    /// Parameters of `softmax`, `log_softmax` and `softmin`.
    pub struct SoftmaxParam {
        /// The axis along which the result sums to 1; a negative one counts from the end.
        axis: i32 = (-1);
        /// The input is divided by this before softmax; `None` is 1.
        temperature: Option<f64> = None;
        /// The element type of the result; `None` is that of the input.
        dtype: Option<FloatDType> = None;
        /// Whether `length` gives the number of valid leading elements of each row; the others yield 0. Only `softmax` supports it.
        use_length: Option<bool> = (Some(false));
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static SOFTMAX: Operator<SoftmaxParam> = Operator::new("softmax")
    .names_data()
    .names_outputs()
    .aliases(&["_npx_softmax"])
    .doc("exp(x / t) / sum(exp(x / t)) along an axis, where t is the temperature.")
    .inputs(&[
        arg("data", "The input, of a floating-point type."),
        arg(
            "length",
            "With use_length, the lengths of the rows, of type int32 or int64: the shape of data without the axis.",
        ),
    ])
    .num_inputs_by(|p| if uses_length(p) { 2 } else { 1 })
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(|ctx, ins, outs| along_axis(ctx, SoftmaxKind::Softmax, ins, outs))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| along_axis_backward(ctx, SoftmaxKind::Softmax, ins, outs))
            .inputs(Deps::Some(&[1]))
            .outputs(Deps::All),
        Some(|graph, n| compose(graph, n, SoftmaxKind::Softmax)),
    ));

pub(super) static LOG_SOFTMAX: Operator<SoftmaxParam> = Operator::new("log_softmax")
    .names_data()
    .aliases(&["_npx_log_softmax"])
    .doc("The logarithm of softmax along an axis, x / t - log(sum(exp(x / t))), where t is the temperature.")
    .inputs(&[arg("data", "The input, of a floating-point type.")])
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(|ctx, ins, outs| along_axis(ctx, SoftmaxKind::LogSoftmax, ins, outs))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| along_axis_backward(ctx, SoftmaxKind::LogSoftmax, ins, outs)).outputs(Deps::All),
        Some(|graph, n| compose(graph, n, SoftmaxKind::LogSoftmax)),
    ));

pub(super) static SOFTMIN: Operator<SoftmaxParam> = Operator::new("softmin")
    .names_data()
    .names_outputs()
    .doc("The softmax of -x along an axis: exp(-x / t) / sum(exp(-x / t)), where t is the temperature.")
    .inputs(&[arg("data", "The input, of a floating-point type.")])
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(|ctx, ins, outs| along_axis(ctx, SoftmaxKind::Softmin, ins, outs))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| along_axis_backward(ctx, SoftmaxKind::Softmin, ins, outs)).outputs(Deps::All),
        Some(|graph, n| compose(graph, n, SoftmaxKind::Softmin)),
    ));

/// The gradient, composed of operators that are themselves differentiable: y (g - sum(g y)) for softmax y, or g - exp(y) sum(g) for
/// log-softmax y, divided by the temperature.
fn compose(graph: &mut dyn GradGraph, n: &GradNode<'_>, kind: SoftmaxKind) -> Result<Vec<Option<Entry>>> {
    let p = n.params.get::<SoftmaxParam>();
    if p.dtype.is_some() {
        let what = "softmax with dtype (a second time): convert its input with Cast instead";
        return Err(Error::NotDifferentiable(what.into()));
    }
    let mut g = Graph(graph);
    let (dy, y) = (n.ograds[0], n.outputs[0]);
    let axis_sum = |g: &mut Graph<'_>, x| g.op(op!(reduce::sums::SUM(x), axis: [p.axis.into()], keepdims: true));
    let dx = if kind == SoftmaxKind::LogSoftmax {
        let (sum, softmax) = (axis_sum(&mut g, dy)?, g.op(op!(elemwise::unary::EXP(y)))?);
        let weighted = g.op(op!(broadcast::binary::MUL(softmax, sum)))?;
        g.sub(dy, weighted)?
    } else {
        let product = g.mul(dy, y)?;
        let sum = axis_sum(&mut g, product)?;
        let centered = g.op(op!(broadcast::binary::SUB(dy, sum)))?;
        g.mul(y, centered)?
    };
    let sign = if kind == SoftmaxKind::Softmin { -1.0 } else { 1.0 };
    let dx = g.scale(dx, sign / p.temperature.unwrap_or(1.0))?;
    Ok(std::iter::once(Some(dx)).chain(n.inputs[1..].iter().map(|_| None)).collect())
}

fn uses_length(p: &Params) -> bool {
    p.get::<SoftmaxParam>().use_length == Some(true)
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ensure!(io.ins.len() == 2 || !uses_length(p), "use_length is an option of softmax only: apply log to its output");
    let known = io.outs[0].clone();
    io.assign_in(0, &known)?;
    let data = io.ins[0].clone();
    io.assign_out(0, &data)?;
    let Some(rank) = data.ndim() else { return Ok(()) };
    let axis = if rank == 0 { 0 } else { Shape::axis(i64::from(p.get::<SoftmaxParam>().axis), rank)? };
    if io.ins.len() > 1 {
        let rows: Dims = data.dims().iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, d)| *d).collect();
        io.assign_in(1, &Shape::from(rows))?;
    }
    Ok(())
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    if let Some(FloatDType(d)) = p.get::<SoftmaxParam>().dtype {
        return io.assign_out(0, d);
    }
    match io.ins[0].or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    }
}

/// The data as (outer, axis, inner). A scalar has an axis of one element.
fn softmax_shape(data: &Shape, axis: i32) -> Result<AxisShape> {
    let dims = data.to_usize();
    if dims.is_empty() {
        return Ok(AxisShape { outer: 1, axis: 1, inner: 1 });
    }
    Ok(AxisShape::new(&dims, Shape::axis(i64::from(axis), dims.len())?))
}

fn lengths<'a>(ctx: &OpCtx<'_>, length: Option<&In<'a>>) -> Result<Option<Lengths<'a>>> {
    let Some(length) = length else { return Ok(None) };
    match length.dtype() {
        DType::I32 => Ok(Some(Lengths::I32(length.slice()?))),
        DType::I64 => Ok(Some(Lengths::I64(length.slice()?))),
        d => Err(ctx.unsupported(d, &[DType::I32, DType::I64])),
    }
}

fn along_axis(ctx: &OpCtx<'_>, kind: SoftmaxKind, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SoftmaxParam>();
    let shape = softmax_shape(ins[0].shape(), p.axis)?;
    let (lengths, temperature) = (lengths(ctx, ins.get(1))?, p.temperature.unwrap_or(1.0));
    without_half(ins, outs, &mut |ins, outs| {
        dispatch!(ins[0].dtype(), T in [f32, f64] => dispatch!(outs[0].dtype(), U in [f32, f64] => {
            softmax_forward(shape, Softmax { kind, temperature, lengths }, ins[0].slice::<T>()?, outs[0].slice_mut::<U>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, TYPES))), d => Err(ctx.unsupported(d, TYPES)))
    })
}

fn along_axis_backward(ctx: &OpCtx<'_>, kind: SoftmaxKind, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SoftmaxParam>();
    let lengths = lengths(ctx, if ins.len() > 2 { ins.get(1) } else { None })?;
    let shape = softmax_shape(ins[0].shape(), p.axis)?;
    let temperature = p.temperature.unwrap_or(1.0);
    if let Some(length_grad) = outs.get_mut(1) {
        no_gradient(length_grad)?;
    }
    if !outs[0].wanted() {
        return Ok(());
    }
    without_half(ins, outs, &mut |ins, outs| {
        let (y_grad, y) = (&ins[0], &ins[ins.len() - 1]);
        dispatch!(outs[0].dtype(), T in [f32, f64] => dispatch!(y.dtype(), U in [f32, f64] => {
            let (y, y_grad) = (y.slice::<U>()?, y_grad.slice::<U>()?);
            softmax_backward(shape, Softmax { kind, temperature, lengths }, y, y_grad, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, TYPES))), d => Err(ctx.unsupported(d, TYPES)))
    })
}

param_enum! {
    /// The axis of `SoftmaxActivation`: the channels, or the last one.
    pub enum ActivationMode { Channel = "channel", Instance = "instance" }
}

params! {
    /// Parameters of `SoftmaxActivation`.
    pub struct SoftmaxActivationParam {
        /// `instance`: rows run along the last axis. `channel`: rows run along the second axis.
        mode: ActivationMode = (ActivationMode::Instance);
    }
}

pub(super) static SOFTMAX_ACTIVATION: Operator<SoftmaxActivationParam> = Operator::new("SoftmaxActivation")
    .names_outputs()
    .doc("Softmax along the last axis, or over the channels at each position. `softmax` is more general.")
    .inputs(&[arg("data", "The input, of a floating-point type.")])
    .forward(|ctx, ins, outs| {
        let shape = activation_shape(ctx, ins[0].shape())?;
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            softmax_forward(shape, Softmax::PLAIN, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            // MXNet computes the gradient along axis 1 in mode `instance` too.
            let shape = channels(ins[1].shape());
            by_precision!((ins, outs), ins[1].dtype(), T for [F16, BF16] => {
                let (y, y_grad) = (ins[1].slice::<T>()?, ins[0].slice::<T>()?);
                softmax_backward(shape, Softmax::PLAIN, y, y_grad, outs[0].slice_mut::<T>()?);
                Ok(())
            }, d => Err(ctx.unsupported(d, TYPES)))
        })
        .outputs(Deps::All),
        None,
    ));

fn activation_shape(ctx: &OpCtx<'_>, data: &Shape) -> Result<AxisShape> {
    let dims = data.to_usize();
    let mode = ctx.params::<SoftmaxActivationParam>().mode;
    let min_rank = if mode == ActivationMode::Channel { 3 } else { 1 };
    ensure!(
        dims.len() >= min_rank,
        "SoftmaxActivation in this mode needs data of {min_rank} or more dimensions, not {data}"
    );
    Ok(match mode {
        ActivationMode::Instance => AxisShape::new(&dims, dims.len() - 1),
        ActivationMode::Channel => channels(data),
    })
}

/// The data as (outer, axis, inner) around axis 1, or around the only axis.
fn channels(data: &Shape) -> AxisShape {
    let dims = data.to_usize();
    match dims.len() {
        0 => AxisShape { outer: 1, axis: 1, inner: 1 },
        rank => AxisShape::new(&dims, usize::from(rank > 1)),
    }
}

pub(super) static SOFTMAX_CROSS_ENTROPY: Operator = Operator::new("softmax_cross_entropy")
    .doc("The sum over the rows of -log(softmax(data)[label]): a loss, of shape (1,).")
    .inputs(&[
        arg("data", "The input, of shape (rows, classes)."),
        arg("label", "The class of each row, of the data's type."),
    ])
    .shape(|_, io| {
        io.assign_in(0, &Shape::of_rank(2))?;
        let rows = Shape::new(&[io.ins[0].dim(0)]);
        io.assign_in(1, &rows)?;
        let data = Shape::new(&[io.ins[1].dim(0), -1]);
        io.assign_in(0, &data)?;
        io.assign_out(0, &Shape::new(&[1]))
    })
    .forward(|ctx, ins, outs| {
        let classes = ins[0].shape().dim(1) as usize;
        by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
            outs[0].slice_mut::<T>()?[0] = cross_entropy_forward(classes, ins[0].slice::<T>()?, ins[1].slice::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))
    })
    .grad(Grad::Kernel(Backward::new(cross_entropy_gradients).inputs(Deps::All), None));

/// Inputs: gradient of the loss, data, label. Outputs: gradients of data and label.
fn cross_entropy_gradients(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    by_precision!((ins, outs), ins[1].dtype(), T for [F16] => {
        let (head_grad, x, labels) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        data_gradient(ins[1].shape(), head_grad[0], x, labels, outs[0].slice_mut::<T>()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

fn data_gradient<T: FloatElement>(data: &Shape, head_grad: T, x: &[T], labels: &[T], grad: &mut [T]) {
    let classes = data.dim(1) as usize;
    let shape = AxisShape { outer: labels.len(), axis: classes, inner: 1 };
    with_scratch(x.len(), |probabilities: &mut [T]| {
        softmax_forward(shape, Softmax::PLAIN, x, probabilities);
        cross_entropy_backward(classes, probabilities, labels, head_grad, grad);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&[0.3f64, -1.0, 2.0, 0.1, 0.7, -0.4, 1.1, 0.0], &[2, 2, 2]);
        for def in [&SOFTMAX, &LOG_SOFTMAX, &SOFTMIN] {
            Case::new(def, &[("axis", "1"), ("temperature", "1.5")]).check_gradient(&[x()]);
        }
        Case::new(&SOFTMAX_ACTIVATION, &[("mode", "channel")]).check_gradient(&[x()]);
        let lengths = array(&[1i32, 2, 2, 0], &[2, 2]);
        Case::new(&SOFTMAX, &[("use_length", "True")]).check_gradient(&[x(), lengths]);
        let case = Case::new(&SOFTMAX_CROSS_ENTROPY, &[]);
        let data = array(&[0.3f64, -1.0, 2.0, 0.1, 0.7, -0.4], &[2, 3]);
        let (g, h) = (array(&[2f64], &[1]), 1e-6);
        let label = array(&[2f64, 0.0], &[2]);
        let grad = case.backward(&[data.clone(), label.clone()], &[g]).unwrap()[0].to_vec::<f64>().unwrap();
        let loss_at = |shift: f64| {
            let mut shifted = data.to_vec::<f64>().unwrap();
            shifted[1] += shift;
            case.run1(&[array(&shifted, &[2, 3]), label.clone()]).unwrap().to_vec::<f64>().unwrap()[0]
        };
        assert!((grad[1] - 2.0 * (loss_at(h) - loss_at(-h)) / (2.0 * h)).abs() < 1e-5);
    }

    #[test]
    fn axes_out_of_range_are_errors() {
        assert!(Case::new(&SOFTMAX, &[("axis", "2")]).shapes(&[Shape::new(&[2, 3])]).is_err());
    }
}
