//! Elementwise operators of the `contrib` namespace.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::sparse::StorageType;
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::{LaneFn, map};
use ferromx_kernels::zip::zip;

use crate::compose::{Graph, op};
use crate::elemwise::family::{NUMERIC, formula, src, unary_kernel, with_scalar};
use crate::elemwise::formulas::{Div, Mul};
use crate::elemwise::scalar::ScalarParam;
use crate::movement::copy;
use crate::rules::PASS_BACK;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &DIV_SQRT_DIM,
    &QUADRATIC,
    &BACKWARD_QUADRATIC,
    &GRADIENT_MULTIPLIER,
    &BACKWARD_GRADIENT_MULTIPLIER,
    &ROUND_STE,
    &SIGN_STE,
];

pub(super) static DIV_SQRT_DIM: Operator = Operator::new("_contrib_div_sqrt_dim")
    .doc("Divides by the square root of the length of the last axis: data / sqrt(d), as scaled dot-product attention does.")
    .inputs(&[arg("data", "The array, with at least one axis.")])
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().dims();
        ensure!(!dims.is_empty(), "_contrib_div_sqrt_dim needs data with at least one axis, but the data is a scalar");
        with_scalar::<Div>(ctx, &ins[0], (dims[dims.len() - 1] as f64).sqrt(), &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(DIV_SQRT_DIM(n.ograds[0])))?)])))
    .inplace(&[(0, 0)]);

params! {
    /// Parameters of `_contrib_quadratic`.
    pub struct QuadraticParam {
        /// The coefficient of the square.
        a: f32 = 0.0;
        /// The coefficient of the data.
        b: f32 = 0.0;
        /// The constant term.
        c: f32 = 0.0;
    }
}

pub(super) static QUADRATIC: Operator<QuadraticParam> = Operator::new("_contrib_quadratic")
    .names_data()
    .doc("A quadratic function of each element: a * data^2 + b * data + c.")
    .inputs(&[arg("data", "The array.")])
    .forward(|ctx, ins, outs| {
        let (p, x, out) = (ctx.params::<QuadraticParam>(), &ins[0], &mut outs[0]);
        dispatch!(out.dtype(), T in [f32, f16, bf16, u8, i8, i32, i64] => {
            map(src::<T>(x)?, out.slice_mut::<T>()?, Quadratic::<f32> { a: p.a, b: p.b, c: p.c });
        }, other => {
            if other != DType::F64 {
                return Err(ctx.unsupported(other, NUMERIC));
            }
            let f = Quadratic::<f64> { a: p.a.into(), b: p.b.into(), c: p.c.into() };
            map(src::<f64>(x)?, out.slice_mut::<f64>()?, f);
        });
        Ok(())
    })
    .grad(Grad::Compose(|graph, n| {
        let p = n.params.get::<QuadraticParam>();
        Ok(vec![Some(graph.op(op!(BACKWARD_QUADRATIC(n.ograds[0], n.inputs[0]), a: p.a, b: p.b))?)])
    }))
    .inplace(&[(0, 0)])
    .pointwise()
    .sparse(
        |p, ins, _| (ins[0] == StorageType::Csr && p.get::<QuadraticParam>().c == 0.0).then_some(StorageType::Csr),
        crate::sparse::on_values,
    );

pub(super) static BACKWARD_QUADRATIC: Operator<QuadraticParam> = Operator::new("_contrib_backward_quadratic")
    .doc("The gradient of `_contrib_quadratic`: grad * (2 * a * data + b).")
    .inputs(&[arg("grad", "The gradient of the output."), arg("data", "The array.")])
    .listed(0)
    .unlisted_params()
    .forward(|ctx, ins, outs| {
        let (p, out) = (ctx.params::<QuadraticParam>(), &mut outs[0]);
        let (a, b) = (2.0 * p.a, p.b);
        // Integers are multiplied before they are truncated.
        dispatch!(out.dtype(), T in [f32, f16, bf16, u8, i8, i32, i64] => {
            let (grad, x) = (src::<T>(&ins[0])?, src::<T>(&ins[1])?);
            zip(grad, x, out.slice_mut::<T>()?, move |grad: f32, x: f32| grad * (a * x + b));
        }, other => {
            if other != DType::F64 {
                return Err(ctx.unsupported(other, NUMERIC));
            }
            let (grad, x, a, b) = (src::<f64>(&ins[0])?, src::<f64>(&ins[1])?, f64::from(a), f64::from(b));
            zip(grad, x, out.slice_mut::<f64>()?, move |grad: f64, x: f64| grad * (a * x + b));
        });
        Ok(())
    })
    .grad(Grad::Compose(|graph, n| {
        let p = n.params.get::<QuadraticParam>();
        let head = n.ograds[0];
        let by_grad = graph.op(op!(BACKWARD_QUADRATIC(head, n.inputs[1]), a: p.a, b: p.b))?;
        let mut g = Graph(graph);
        let product = g.mul(head, n.inputs[0])?;
        Ok(vec![Some(by_grad), Some(g.affine(product, 2.0 * f64::from(p.a), 0.0)?)])
    }))
    .inplace(&[(0, 0)])
    .pointwise();

/// The function `a x^2 + b x + c` on lanes; integers are computed in single precision.
#[derive(Clone, Copy)]
struct Quadratic<C> {
    a: C,
    b: C,
    c: C,
}

macro_rules! quadratic {
    ($($lane:ident)*) => {$(
        impl LaneFn<($lane,), $lane> for Quadratic<$lane> {
            #[inline(always)]
            fn call(self, (x,): ($lane,)) -> $lane {
                (self.a * x + self.b) * x + self.c
            }
        }
    )*};
}
quadratic!(f32 f64);

pub(super) static GRADIENT_MULTIPLIER: Operator<ScalarParam> = Operator::new("_contrib_gradientmultiplier")
    .doc(
        "Copies the data and scales the gradient by `scalar` in the backward pass; a negative number reverses it (Ganin and Lempitsky, \
         \"Unsupervised domain adaptation by backpropagation\", 2015).",
    )
    .inputs(&[arg("data", "The array.")])
    .forward(copy)
    .grad(Grad::Compose(|graph, n| {
        let scalar = n.params.get::<ScalarParam>().scalar;
        Ok(vec![Some(Graph(graph).op(op!(BACKWARD_GRADIENT_MULTIPLIER(n.ograds[0]), scalar: scalar))?)])
    }))
    .inplace(&[(0, 0)])
    .pointwise();

pub(super) static BACKWARD_GRADIENT_MULTIPLIER: Operator<ScalarParam> =
    Operator::new("_contrib_backward_gradientmultiplier")
        .doc("The gradient of `_contrib_gradientmultiplier`: data * scalar, of the type of the data.")
        .inputs(&[arg("data", "The gradient of the output.")])
        .forward(|ctx, ins, outs| with_scalar::<Mul>(ctx, &ins[0], ctx.params::<ScalarParam>().scalar, &mut outs[0]))
        .grad(Grad::Compose(|graph, n| {
            let scalar = n.params.get::<ScalarParam>().scalar;
            Ok(vec![Some(Graph(graph).op(op!(BACKWARD_GRADIENT_MULTIPLIER(n.ograds[0]), scalar: scalar))?)])
        }))
        .inplace(&[(0, 0)])
        .pointwise();

formula!(Unary Round = |x| x.round(), int |x| x);
formula!(Unary Sign = |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 }, int |x| x.signum());

/// Rounding with a straight-through gradient.
pub(super) static ROUND_STE: Operator = Operator::new("_contrib_round_ste")
    .aliases(&["_sparse__contrib_round_ste"])
    .doc(
        "The nearest integer, halves away from zero. The gradient passes unchanged: a straight-through estimator (Bengio, Leonard \
         and Courville, \"Estimating or propagating gradients through stochastic neurons\", 2013).",
    )
    .inputs(&[arg("data", "The array.")])
    .forward(unary_kernel::<Round>)
    .grad(Grad::Compose(PASS_BACK))
    .inplace(&[(0, 0)])
    .pointwise();

/// The sign with a straight-through gradient.
pub(super) static SIGN_STE: Operator = Operator::new("_contrib_sign_ste")
    .aliases(&["_sparse__contrib_sign_ste"])
    .doc(
        "The sign: -1, 0 or 1. The gradient passes unchanged: a straight-through estimator (Bengio, Leonard and Courville, 2013).",
    )
    .inputs(&[arg("data", "The array.")])
    .forward(unary_kernel::<Sign>)
    .grad(Grad::Compose(PASS_BACK))
    .inplace(&[(0, 0)])
    .pointwise();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&[-1.5, 0.25, 2.0, 3.0], &[2, 2]);
        Case::new(&DIV_SQRT_DIM, &[]).check_gradient(&[x()]);
        Case::new(&QUADRATIC, &[("a", "0.5"), ("b", "-1"), ("c", "3")]).check_gradient(&[x()]);
    }

    #[test]
    fn straight_through_estimators_pass_the_gradient_and_gradientmultiplier_scales_it() {
        let x = || array(&[-1.5, 0.0, 2.25, 3.0], &[4]);
        let back = |def, attrs: &[(&str, &str)]| {
            Case::new(def, attrs).backward(&[x()], &[x()]).unwrap()[0].to_vec::<f64>().unwrap()
        };
        assert_eq!(back(&ROUND_STE, &[]), [-1.5, 0.0, 2.25, 3.0]);
        assert_eq!(back(&SIGN_STE, &[]), [-1.5, 0.0, 2.25, 3.0]);
        close(
            &back(&GRADIENT_MULTIPLIER, &[("scalar", "-0.5"), ("is_int", "False")]),
            &[0.75, 0.0, -1.125, -1.5],
            1e-12,
        );
        assert_eq!(Case::new(&ROUND_STE, &[]).run1(&[x()]).unwrap().to_vec::<f64>().unwrap(), [-2.0, 0.0, 2.0, 3.0]);
    }
}
