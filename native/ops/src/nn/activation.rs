//! `Activation`: elementwise activation functions.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::fusion::{Elementwise, Role};
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::storage::{In, Out};
use ferromx_core::{param_enum, params};
use ferromx_kernels::math;

use crate::compose::{Graph, op};
use crate::elemwise::family::{elementwise_epilogue, formula, unary_backward, unary_kernel};

param_enum! {
    /// The functions of `Activation`.
    pub enum ActType { Relu = "relu", Sigmoid = "sigmoid", SoftRelu = "softrelu", SoftSign = "softsign", Tanh = "tanh" }
}

params! {
    /// Parameters of `Activation`.
    pub struct ActivationParam {
        /// The function: `relu` max(x, 0), `sigmoid` 1 / (1 + exp(-x)), `softrelu` log(1 + exp(x)), `softsign` x / (1 + |x|),
        /// `tanh`.
        act_type: ActType = required;
    }
}

pub(crate) static ACTIVATION: Operator<ActivationParam> = Operator::new("Activation")
    .names_outputs()
    .aliases(&["_npx_activation"])
    .doc("Applies an activation function to each element: see act_type.")
    .inputs(&[arg("data", "The input, of a floating-point type.")])
    .forward(forward)
    .grad(Grad::By(|p| match p.get::<ActivationParam>().act_type {
        ActType::SoftSign => Grad::Kernel(BACKWARD.inputs(Deps::Some(&[0])), Some(COMPOSE)),
        _ => Grad::Kernel(BACKWARD.outputs(Deps::Some(&[0])), Some(COMPOSE)),
    }))
    .inplace(&[(0, 0)])
    .pointwise()
    .consists_of_loops()
    .role(Role::Function(|p| match p.get::<ActivationParam>().act_type {
        ActType::Relu => Some(Elementwise::Relu),
        ActType::Sigmoid => Some(elementwise_epilogue::<Sigmoid>()),
        ActType::SoftRelu => Some(elementwise_epilogue::<SoftRelu>()),
        ActType::SoftSign => Some(elementwise_epilogue::<SoftSign>()),
        ActType::Tanh => Some(elementwise_epilogue::<Tanh>()),
    }));

/// The gradient kernel, which reads the output. That of softsign reads the input, since rounding to the output loses large inputs.
const BACKWARD: Backward = Backward::new(backward).inplace(&[(0, 0), (1, 0)]).pointwise().consists_of_loops();

formula!(cheap Unary Relu = |x| if x <= 0.0 { 0.0 } else { x });
formula!(cheap Unary ReluBack = |y| if y <= 0.0 { 0.0 } else if y > 0.0 { 1.0 } else { y });
formula!(Unary Sigmoid = |x| math::sigmoid(x));
formula!(Unary SigmoidBack = |y| y * (1.0 - y));
formula!(Unary SoftRelu = |x| math::softrelu(x));
formula!(Unary SoftReluBack = |y| -math::expm1(-y));
formula!(Unary SoftSign = |x| x / (1.0 + x.abs()));
formula!(Unary SoftSignBack = |x| 1.0 / ((1.0 + x.abs()) * (1.0 + x.abs())));
formula!(Unary Tanh = |x| math::tanh(x));
formula!(Unary TanhBack = |y| 1.0 - y * y);

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn check(ctx: &OpCtx<'_>, out: &Out<'_>) -> Result<ActType> {
    if !TYPES.contains(&out.dtype()) {
        return Err(ctx.unsupported(out.dtype(), TYPES));
    }
    Ok(ctx.params::<ActivationParam>().act_type)
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match check(ctx, &outs[0])? {
        ActType::Relu => unary_kernel::<Relu>(ctx, ins, outs),
        ActType::Sigmoid => unary_kernel::<Sigmoid>(ctx, ins, outs),
        ActType::SoftRelu => unary_kernel::<SoftRelu>(ctx, ins, outs),
        ActType::SoftSign => unary_kernel::<SoftSign>(ctx, ins, outs),
        ActType::Tanh => unary_kernel::<Tanh>(ctx, ins, outs),
    }
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match check(ctx, &outs[0])? {
        ActType::Relu => unary_backward::<ReluBack>(ctx, ins, outs),
        ActType::Sigmoid => unary_backward::<SigmoidBack>(ctx, ins, outs),
        ActType::SoftRelu => unary_backward::<SoftReluBack>(ctx, ins, outs),
        ActType::SoftSign => unary_backward::<SoftSignBack>(ctx, ins, outs),
        ActType::Tanh => unary_backward::<TanhBack>(ctx, ins, outs),
    }
}

const COMPOSE: Compose = |graph, n| {
    let mut g = Graph(graph);
    let (x, y) = (n.inputs[0], n.outputs[0]);
    let derivative = match n.params.get::<ActivationParam>().act_type {
        ActType::Relu => g.op(op!(elemwise::scalar::GREATER(x), scalar: 0.0))?,
        ActType::Sigmoid => {
            let complement = g.affine(y, -1.0, 1.0)?;
            g.mul(y, complement)?
        }
        ActType::SoftRelu => g.op(op!(elemwise::unary::SIGMOID(x)))?,
        ActType::SoftSign => {
            let magnitude = g.op(op!(elemwise::unary::ABS(x)))?;
            let divisor = g.affine(magnitude, 1.0, 1.0)?;
            g.power(divisor, -2.0)?
        }
        ActType::Tanh => {
            let square = g.op(op!(elemwise::unary::SQUARE(y)))?;
            g.affine(square, -1.0, 1.0)?
        }
    };
    Ok(vec![Some(g.mul(n.ograds[0], derivative)?)])
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        for act_type in ["relu", "sigmoid", "softrelu", "softsign", "tanh"] {
            let x = vector(DType::F64, &[-3.0, -0.6, 0.1, 0.7, 2.4]);
            Case::new(&ACTIVATION, &[("act_type", act_type)]).check_gradient(&[x]);
        }
    }

    #[test]
    fn the_gradient_of_softsign_is_precise_for_large_inputs() {
        let x = array(&[f32::INFINITY, -1e4, 0.0], &[3]);
        let ograd = array(&[1e8f32; 3], &[3]);
        let gradients = Case::new(&ACTIVATION, &[("act_type", "softsign")]).backward(&[x], &[ograd]).unwrap();
        close(&gradients[0].to_vec_as::<f64>().unwrap(), &[0.0, 1e8 / 10_001f64.powi(2), 1e8], 1e-6);
    }

    #[test]
    fn relu_keeps_nan_and_refuses_integers() {
        let relu = Case::new(&ACTIVATION, &[("act_type", "relu")]);
        let y = relu.run1(&[array(&[-1f32, f32::NAN, 2.0], &[3])]).unwrap().to_vec::<f32>().unwrap();
        assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 2.0);
        assert!(relu.run1(&[array(&[1i32], &[1])]).unwrap_err().to_string().contains("int32"));
    }
}
