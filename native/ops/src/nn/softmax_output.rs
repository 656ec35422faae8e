//! `SoftmaxOutput`: softmax, with the gradient of the cross entropy loss.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::AxisShape;
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::softmax::{
    Softmax, SoftmaxTarget, softmax_forward, softmax_output_backward, softmax_output_backward_dense, valid_labels,
};

use crate::precision::by_precision;

param_enum! {
    /// The divisor of the gradient.
    pub enum Normalization { Batch = "batch", Null = "null", Valid = "valid" }
}

params! {
    /// Parameters of `SoftmaxOutput`.
    pub struct SoftmaxOutputParam {
        /// Scale of the gradient.
        grad_scale: f32 = 1.0;
        /// The label of rows without gradient, if `use_ignore`.
        ignore_label: f32 = (-1.0);
        /// Whether the classes lie along axis 1, with a label for every position of the other axes.
        multi_output: bool = false;
        /// Whether rows with the label `ignore_label` have no gradient.
        use_ignore: bool = false;
        /// Whether the classes lie along the last axis; otherwise all axes but the first are flattened. Ignored with `multi_output`.
        preserve_shape: bool = false;
        /// The divisor of the gradient: none, the number of rows, or the number of labels that are not ignored.
        normalization: Normalization = (Normalization::Null);
        /// Whether the gradient is multiplied by the gradient of the output.
        out_grad: bool = false;
        /// Label smoothing: the probability taken from the label and spread evenly over the other classes, from 0 to 1.
        smooth_alpha: f32 = 0.0, where 0.0..=1.0;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64];

pub(super) static SOFTMAX_OUTPUT: Operator<SoftmaxOutputParam> = Operator::new("SoftmaxOutput").names_outputs()
    .aliases(&["Softmax"])
    .doc(
        "Computes softmax, and in the backward pass the gradient of the cross entropy between it and the label.\n\n\
         p = exp(x) / sum(exp(x)) along the classes; the gradient of x is grad_scale * (p - onehot(label)), whatever the \
         gradient of the output (unless out_grad is set). Shapes: data (batch, classes), label (batch,), output as data. \
         With multi_output, data (batch, classes, \
         d1, ...) and label (batch, d1, ...). A label of the shape of the data is taken as probabilities.",
    )
    .inputs(&[arg("data", "The scores."), arg("label", "The class of each row, from 0, or probabilities of the shape of the data.")])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(
        Backward::new(backward)
            .ograds_if(|p| p.get::<SoftmaxOutputParam>().out_grad)
            .inputs(Deps::Some(&[1]))
            .outputs(Deps::All),
        None,
    ));

impl SoftmaxOutputParam {
    /// The data as (outer, classes, inner).
    fn softmax_shape(&self, data: &Shape) -> AxisShape {
        let dims = data.to_usize();
        match (self.multi_output, self.preserve_shape) {
            (true, _) => AxisShape::new(&dims, 1),
            (false, true) => AxisShape::new(&dims, dims.len() - 1),
            (false, false) => AxisShape { outer: dims[0], axis: dims[1..].iter().product(), inner: 1 },
        }
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SoftmaxOutputParam>();
    io.expect_inputs(&["data", "label"])?;
    let known = io.outs[0].clone();
    io.assign_in(0, &known)?;
    let data = io.ins[0].clone();
    let Some(n) = data.ndim() else { return Ok(()) };
    ensure!(n >= 1, "the data of SoftmaxOutput is a scalar; it needs a dimension of classes");
    io.assign_out(0, &data)?;
    let dims = data.dims();
    let label: Dims = if p.multi_output {
        ensure!(n >= 2, "multi_output needs data of at least two dimensions, but it is {data}");
        dims[..1].iter().chain(&dims[2..]).copied().collect()
    } else {
        dims[..n - 1].into()
    };
    let label = Shape::from(label);
    // Labels may also be probabilities, of the shape of the data. With multi_output and data (batch, classes, d1, ...), labels of shape
    // (batch, d1 * ...) and (batch, 1, d1, ...) are accepted too.
    let label_shape = &io.ins[1];
    let flat = Shape::new(&[data.dim(0), label.product(1..)]);
    let mut keepdims: Dims = dims.into();
    keepdims.iter_mut().skip(1).take(1).for_each(|d| *d = 1);
    if p.multi_output && !label_shape.ndim_is_known() {
        // MXNet infers the flat form.
        return if data.is_known() { io.assign_in(1, &flat) } else { Ok(()) };
    }
    let others = [flat, Shape::from(keepdims)];
    if label_shape.is_known() && (*label_shape == data || (p.multi_output && others.contains(label_shape))) {
        return Ok(());
    }
    // Labels of the same rank as the data may still turn out to be probabilities.
    if label_shape.ndim() == Some(n) && !(label_shape.is_known() && data.is_known()) {
        return Ok(());
    }
    io.assign_in(1, &label)
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = ctx.params::<SoftmaxOutputParam>().softmax_shape(ins[0].shape());
    softmax_forward(shape, Softmax::PLAIN, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
    Ok(())
}

/// Inputs: with `out_grad` the gradient of the output; label; output. Outputs: gradients of data and label.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SoftmaxOutputParam>();
    let (head_grad, ins) = if p.out_grad { (Some(ins[0].slice::<T>()?), &ins[1..]) } else { (None, ins) };
    let (label, y) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
    if outs[1].wanted() {
        outs[1].slice_mut::<T>()?.fill(T::default());
    }
    if !outs[0].wanted() {
        return Ok(());
    }
    let shape = p.softmax_shape(ins[1].shape());
    let dx = outs[0].slice_mut::<T>()?;
    let ignore_label = p.use_ignore.then_some(f64::from(p.ignore_label));
    let divisor = match p.normalization {
        Normalization::Null if p.multi_output => shape.inner,
        Normalization::Null => 1,
        Normalization::Batch => shape.outer * shape.inner,
        Normalization::Valid => valid_labels(label, f64::from(p.ignore_label)).max(1),
    };
    let scale = f64::from(p.grad_scale) / divisor.max(1) as f64;
    if ins[0].shape() == ins[1].shape() {
        // As in MXNet, `normalization` has no effect if the labels are probabilities.
        softmax_output_backward_dense(f64::from(p.grad_scale), y, label, head_grad, dx);
    } else {
        ensure!(
            label.len() == shape.outer * shape.inner,
            "SoftmaxOutput: {} labels of shape {}, but {} rows of {} classes in data of shape {}; set preserve_shape where the \
             classes lie along the last axis, multi_output where they lie along axis 1",
            label.len(),
            ins[0].shape(),
            shape.outer * shape.inner,
            shape.axis,
            ins[1].shape()
        );
        let smooth_alpha = f64::from(p.smooth_alpha);
        softmax_output_backward(&SoftmaxTarget { shape, ignore_label, smooth_alpha, scale }, y, label, head_grad, dx);
    }
    Ok(())
}
