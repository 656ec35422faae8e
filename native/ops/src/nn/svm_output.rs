//! `SVMOutput`: the identity, with the gradient of a hinge loss.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::svm::{MarginLoss, margin_loss_gradient};

use crate::precision::by_precision;
use crate::rules::no_gradient;

params! {
    /// Parameters of `SVMOutput`.
    pub struct SvmOutputParam {
        /// The margin.
        margin: f32 = 1.0;
        /// Scale of the gradient.
        regularization_coefficient: f32 = 1.0;
        /// Whether violations of the margin are penalised linearly (L1-SVM) instead of squared (L2-SVM).
        use_linear: bool = false;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static SVM_OUTPUT: Operator<SvmOutputParam> = Operator::new("SVMOutput").legacy()
    .doc(
        "Copies the scores, and in the backward pass gives the gradient of the loss of a support vector machine, one class against \
         all others: regularization_coefficient * sum over classes k of max(0, margin - s_k * data_k)^2, or without the square \
         with use_linear, where s_k is 1 for the class of the label and -1 for the others (Tang, \"Deep learning using linear \
         support vector machines\", 2013). It does not depend on the gradient of the output.\n\n\
         Shapes: data (..., classes), label the same without the last axis, output as the data.",
    )
    .inputs(&[
        arg("data", "The scores, with the classes along the last axis."),
        arg("label", "The class of each row, from 0; the shape of the data without the last axis."),
    ])
    .shape(infer_shape)
    .forward(|_, ins, outs| {
        outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        Ok(())
    })
    .grad(Grad::Kernel(Backward::new(backward).ograds(Deps::None).inputs(Deps::All), None));

fn infer_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    let data = io.ins[0].clone();
    let Some(n) = data.ndim() else { return Ok(()) };
    io.assign_out(0, &data)?;
    // A scalar is the score of one class.
    io.assign_in(1, &Shape::new(&data.dims()[..n.saturating_sub(1)]))
}

/// Inputs: data, label. Outputs: their gradients.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let p = ctx.params::<SvmOutputParam>();
    let (margin, scale) = (f64::from(p.margin), f64::from(p.regularization_coefficient));
    let loss = MarginLoss { margin, scale, use_linear: p.use_linear };
    let classes = ins[0].shape().dims().last().map_or(1, |d| *d as usize);
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (x, labels) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        margin_loss_gradient(&loss, classes, x, labels, outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn gradients_are_those_of_the_squared_and_the_linear_hinge_loss() {
        let ins = [array(&[0.5, 2.0, -1.0, 0.0, 0.3, 0.2], &[2, 3]), array(&[0.0, 2.0], &[2])];
        let grad = |attrs: &[(&str, &str)]| {
            let grads = Case::new(&SVM_OUTPUT, attrs).backward(&ins, &[]).unwrap();
            grads[0].to_vec::<f64>().unwrap()
        };
        close(&grad(&[]), &[-1.0, 6.0, 0.0, 2.0, 2.6, -1.6], 1e-12);
        let linear = [("use_linear", "1"), ("margin", "0.5"), ("regularization_coefficient", "2")];
        close(&grad(&linear), &[0.0, 2.0, 0.0, 2.0, 2.0, -2.0], 1e-12);
    }
}
