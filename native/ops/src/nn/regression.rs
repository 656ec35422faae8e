//! Regression outputs: the forward pass returns the prediction, the backward pass the gradient of a loss.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::math;

use crate::elemwise::family::{Ternary, Unary, formula, unary_kernel, with_scalar2};
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&LINEAR, &LOGISTIC, &MAE];

params! {
    /// Parameters of the regression losses.
    pub struct RegressionParam {
        /// Scale of the gradient.
        grad_scale: f32 = 1.0;
    }
}

const INPUTS: &[ArgDef] = &[
    arg("data", "The predictions, with one example per index of the first axis."),
    arg("label", "The values to predict."),
];

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static LINEAR: Operator<RegressionParam> = Operator::new("LinearRegressionOutput")
    .aliases(&["_sparse_LinearRegressionOutput"])
    .doc(
        "Squared loss: returns the data; the gradient is (data - label) * grad_scale / m, where m is the number of outputs of an \
         example. Gradients of the output are not used.",
    )
    .inputs(INPUTS)
    .shape(infer_shape)
    .forward(forward::<Identity>)
    .grad(loss_gradient::<Difference>())
    .inplace(&[(0, 0)]);

pub(super) static LOGISTIC: Operator<RegressionParam> = Operator::new("LogisticRegressionOutput")
    .aliases(&["_sparse_LogisticRegressionOutput"])
    .doc(
        "Logistic loss: returns y = 1 / (1 + exp(-data)); the gradient is (y - label) * grad_scale / m, where m is the number of \
         outputs of an example. Gradients of the output are not used.",
    )
    .inputs(INPUTS)
    .shape(infer_shape)
    .forward(forward::<Sigmoid>)
    .grad(loss_gradient::<Difference>())
    .inplace(&[(0, 0)]);

pub(super) static MAE: Operator<RegressionParam> = Operator::new("MAERegressionOutput")
    .aliases(&["_sparse_MAERegressionOutput"])
    .doc(
        "Absolute loss: returns the data; the gradient is grad_scale / m where data > label and -grad_scale / m elsewhere, where m \
         is the number of outputs of an example. Gradients of the output are not used.",
    )
    .inputs(INPUTS)
    .shape(infer_shape)
    .forward(forward::<Identity>)
    .grad(loss_gradient::<Sign>())
    .inplace(&[(0, 0)]);

formula!(Unary Identity = |x| x);
formula!(Unary Sigmoid = |x| math::sigmoid(x));
formula!(Ternary Difference = |y, label, scale| (y - label) * scale);
formula!(Ternary Sign = |y, label, scale| if y - label > 0.0 { scale } else { -scale });

fn infer_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    io.expect_inputs(&["data", "label"])?;
    let known = io.outs[0].clone();
    io.assign_in(0, &known)?;
    let data = io.ins[0].clone();
    let Some(rank) = data.ndim() else { return Ok(()) };
    io.assign_out(0, &data)?;
    let has_single_output = rank >= 1 && data.is_known() && data.product(1..) == 1;
    let label = &io.ins[1];
    if label.is_known() && label.dim(0) == data.dim(0) && label.product(1..) == data.product(1..) {
        return Ok(());
    }
    // With one output per example, the labels may have shape (batch,).
    match io.ins[1].ndim() {
        Some(given) if given != rank && !data.is_known() => Ok(()),
        None if rank == 2 && has_single_output => io.assign_in(1, &Shape::new(&[data.dim(0)])),
        Some(1) if has_single_output => io.assign_in(1, &Shape::new(&[data.dim(0)])),
        _ => io.assign_in(1, &data),
    }
}

fn forward<F: Unary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if !TYPES.contains(&outs[0].dtype()) {
        return Err(ctx.unsupported(outs[0].dtype(), TYPES));
    }
    unary_kernel::<F>(ctx, ins, outs)
}

/// A gradient computed from the label and the output; the gradient of the output is ignored.
const fn loss_gradient<F: Ternary>() -> Grad {
    Grad::Kernel(Backward::new(backward::<F>).ograds(Deps::None).inputs(Deps::Some(&[1])).outputs(Deps::All), None)
}

fn backward<F: Ternary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (label, y) = (&ins[0], &ins[1]);
    let examples = label.shape().dims().first().copied().unwrap_or(1).max(1) as usize;
    let per_example = (label.len() / examples).max(1);
    let scale = f64::from(ctx.params::<RegressionParam>().grad_scale) / per_example as f64;
    if outs[0].wanted() {
        with_scalar2::<F>(ctx, y, label, scale, &mut outs[0])?;
    }
    no_gradient(&mut outs[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn gradients_are_those_of_the_losses() {
        let (x, label) = (array(&[1f64, -2.0, 0.5, 3.0], &[2, 2]), array(&[0f64, 1.0, 0.5, 1.0], &[2, 2]));
        let grad = |def| {
            let case = Case::new(def, &[("grad_scale", "3")]);
            case.backward(&[x.clone(), label.clone()], std::slice::from_ref(&x)).unwrap()[0].to_vec::<f64>().unwrap()
        };
        close(&grad(&LINEAR), &[1.5, -4.5, 0.0, 3.0], 1e-12);
        close(&grad(&MAE), &[1.5, -1.5, -1.5, 1.5], 1e-12);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        close(&grad(&LOGISTIC)[..1], &[1.5 * sigmoid(1.0)], 1e-12);
    }

    #[test]
    fn labels_may_be_a_vector_if_examples_have_one_output() {
        let shapes = |data: &[i64], label: Shape| {
            Case::new(&LINEAR, &[]).shapes_both(&[Shape::new(data), label], &[]).map(|s| s.0)
        };
        assert_eq!(shapes(&[4, 1], Shape::unknown()).unwrap()[1], Shape::new(&[4]));
        assert_eq!(shapes(&[4, 2], Shape::unknown()).unwrap()[1], Shape::new(&[4, 2]));
        assert!(shapes(&[2, 3], Shape::new(&[6])).is_err());
    }
}
