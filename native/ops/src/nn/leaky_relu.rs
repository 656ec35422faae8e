//! `LeakyReLU`: rectifiers with a nonzero slope for negative inputs.
#![allow(clippy::excessive_precision, clippy::approx_constant)] // The constants are used in double precision too.

use std::ops::Range;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::fusion::{Elementwise, Role};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out, in_out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::math;
use ferromx_kernels::prelu::Slopes;
use ferromx_kernels::rng::Philox;

use crate::elemwise::family::{formula, unary_backward, unary_kernel, with_scalar, with_scalar2};
use crate::precision::by_precision;

param_enum! {
    /// The functions of `LeakyReLU`.
    pub enum ActType {
        Elu = "elu", Gelu = "gelu", Leaky = "leaky", PRelu = "prelu", RRelu = "rrelu", Selu = "selu"
    }
}

params! {
    /// Parameters of `LeakyReLU`.
    pub struct LeakyReluParam {
        /// The function; see the operator's description.
        act_type: ActType = (ActType::Leaky);
        /// The slope of `leaky` and the scale of `elu` for negative inputs.
        slope: f32 = 0.25;
        /// The smallest slope of `rrelu`.
        lower_bound: f32 = 0.125;
        /// The largest slope of `rrelu`.
        upper_bound: f32 = 0.334;
    }
}

fn act(p: &Params) -> ActType {
    p.get::<LeakyReluParam>().act_type
}

pub(crate) static LEAKY_RELU: Operator<LeakyReluParam> = Operator::new("LeakyReLU").names_data().names_outputs()
    .aliases(&["_npx_leaky_relu"])
    .doc(
        "Applies one of these functions to each element. All but gelu are x, and selu a multiple of it, above 0; below:\n\n\
         leaky: slope * x. prelu: gamma * x, with trainable gamma (He et al., 2015). rrelu: x times a random number between \
         lower_bound and upper_bound in training, times their mean otherwise. elu: slope * (exp(x) - 1) (Clevert et al., 2015). \
         selu: 1.0507 * 1.6733 * (exp(x) - 1), and 1.0507 * x above 0 (Klambauer et al., 2017). gelu: x / 2 * (1 + erf(x / sqrt(2))) \
         everywhere (Hendrycks and Gimpel, 2016).",
    )
    .inputs(&[
        arg("data", "The input, of a floating-point type."),
        arg("gamma", "The slopes of prelu: one for each index of the second axis, or of the first, or of both; or a single one."),
    ])
    .num_inputs_by(|p| if act(p) == ActType::PRelu { 2 } else { 1 })
    .input_init(&[(1, "[\"Constant\", {\"value\": 0.25}]")])
    .outputs(|p| if act(p) == ActType::RRelu { 2 } else { 1 })
    .output_names_by(|p| {
        let mask = (act(p) == ActType::RRelu).then(|| "mask".to_string());
        std::iter::once("output".to_string()).chain(mask).collect()
    })
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).ograds(Deps::Some(&[0])).inputs(Deps::All).outputs(Deps::Some(&[1])), None))
    .inplace(&[(0, 0)])
    .random()
    .role(Role::Function(|p| match act(p) {
        ActType::Leaky => Some(Elementwise::Leaky(p.get::<LeakyReluParam>().slope.into())),
        _ => None,
    }));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let known = io.outs[0].clone();
    io.assign_in(0, &known)?;
    let data = io.ins[0].clone();
    for k in 0..io.outs.len() {
        io.assign_out(k, &data)?;
    }
    let Some(rank) = data.ndim() else { return Ok(()) };
    if act(p) != ActType::PRelu {
        return Ok(());
    }
    io.expect_inputs(&["data", "gamma"])?;
    let slopes = if rank > 1 { data.dim(1) } else { 1 };
    let gamma = &io.ins[1];
    let is_empty = data.is_known() && data.num_elements() == 0;
    if gamma.is_known() && (is_empty || gamma.num_elements() == 1 || slope_axes(&data, gamma).is_some()) {
        return Ok(());
    }
    io.assign_in(1, &Shape::new(&[slopes]))
}

/// The axes of the data along which the slopes vary, or `None` if the shapes do not match. As in MXNet, a vector belongs to axis 1, or to
/// axis 0 if its length is not that of axis 1, and a matrix to both.
fn slope_axes(data: &Shape, slopes: &Shape) -> Option<Range<usize>> {
    let has_len = |axis: usize, n: i64| data.dims().get(axis) == Some(&n);
    match *slopes.dims() {
        [n] | [1, n] if has_len(1, n) => return Some(1..2),
        [n] | [n, 1] if has_len(0, n) && !has_len(1, -1) => return Some(0..1),
        [m, n] if has_len(0, m) && has_len(1, n) => return Some(0..2),
        _ => {}
    }
    let mut non_unit_axes = (0..slopes.dims().len()).filter(|i| slopes.dim(*i) != 1);
    let axis = non_unit_axes.next()?;
    let is_only_axis = non_unit_axes.next().is_none();
    let matches = data.ndim() == slopes.ndim() && data.dim(axis) == slopes.dim(axis) && is_only_axis;
    matches.then_some(axis..axis + 1)
}

formula!(Binary Leaky = |x, slope| if x > 0.0 { x } else { slope * x });
formula!(Ternary LeakyBack = |g, x, slope| if x > 0.0 { g } else { g * slope });
formula!(Binary Elu = |x, slope| if x > 0.0 { x } else { slope * math::expm1(x) });
formula!(Ternary EluBack = |g, x, slope| if x > 0.0 { g } else { g * slope * math::exp(x) });
formula!(Unary Selu = |x| {
    if x > 0.0 { 1.0507009873554805 * x } else { 1.0507009873554805 * 1.6732632423543772 * math::expm1(x) }
});
// As in MXNet, the gradient for x <= 0 is scale * (alpha + y), although the derivative is scale * alpha + y.
formula!(Unary SeluBack = |x| {
    if x > 0.0 {
        1.0507009873554805
    } else {
        1.0507009873554805 * 1.6732632423543772 * (1.0 + 1.0507009873554805 * math::expm1(x))
    }
});
formula!(Unary Gelu = |x| math::gelu(x));
formula!(Unary GeluBack = |x| {
    0.5 * (1.0 + math::erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * math::exp(-0.5 * x * x)
});

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<LeakyReluParam>();
    let d = outs[0].dtype();
    if !TYPES.contains(&d) {
        return Err(ctx.unsupported(d, TYPES));
    }
    let slope = f64::from(p.slope);
    match p.act_type {
        ActType::Leaky => with_scalar::<Leaky>(ctx, &ins[0], slope, &mut outs[0]),
        ActType::Elu => with_scalar::<Elu>(ctx, &ins[0], slope, &mut outs[0]),
        ActType::Selu => unary_kernel::<Selu>(ctx, ins, outs),
        ActType::Gelu => unary_kernel::<Gelu>(ctx, ins, outs),
        ActType::PRelu => {
            by_precision!((ins, outs), d, T for [F16, BF16] => prelu::<T>(&ins[0], &ins[1], &mut outs[0]), d => {
                Err(ctx.unsupported(d, TYPES))
            })
        }
        ActType::RRelu => rrelu(ctx, p, &ins[0], outs),
    }
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<LeakyReluParam>();
    let slope = f64::from(p.slope);
    let (g, x) = (&ins[0], &ins[1]);
    match p.act_type {
        ActType::Leaky => with_scalar2::<LeakyBack>(ctx, g, x, slope, &mut outs[0]),
        ActType::Elu => with_scalar2::<EluBack>(ctx, g, x, slope, &mut outs[0]),
        ActType::Selu => unary_backward::<SeluBack>(ctx, ins, outs),
        ActType::Gelu => unary_backward::<GeluBack>(ctx, ins, outs),
        ActType::PRelu => {
            by_precision!((ins, outs), x.dtype(), T for [F16, BF16] => prelu_backward::<T>(ins, outs), d => {
                Err(ctx.unsupported(d, TYPES))
            })
        }
        ActType::RRelu => dispatch!(x.dtype(), T in [f32, f64, f16, bf16] => {
            let (g, x, mask) = (g.slice::<T>()?, x.slice::<T>()?, ins[2].slice::<T>()?);
            let out = outs[0].slice_mut::<T>()?;
            for (out, (g, (x, mask))) in out.iter_mut().zip(g.iter().zip(x.iter().zip(mask))) {
                *out = if x.to_f32() > 0.0 { *g } else { T::from_f64(g.to_f64() * mask.to_f64()) };
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, TYPES))),
    }
}

/// The slopes of examples of shape `data`.
fn slopes<'a, T: FloatElement>(data: &Shape, gamma: &'a In<'_>) -> Result<Slopes<'a, T>> {
    let (values, dims, shape) = (gamma.slice::<T>()?, data.to_usize(), gamma.shape());
    let inner = match values.len() {
        1 => dims.iter().skip(1).product::<usize>().max(1),
        _ => dims.iter().skip(slope_axes(data, shape).map_or(2, |axes| axes.end)).product(),
    };
    Ok(Slopes { values, inner })
}

fn prelu<T: FloatElement>(x: &In<'_>, gamma: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let slopes = slopes::<T>(x.shape(), gamma)?;
    let (x, out) = in_out::<T, T>(x, out)?;
    slopes.forward(x, out);
    Ok(())
}

fn prelu_backward<T: FloatElement>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (grad, x, slopes) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, slopes::<T>(ins[1].shape(), &ins[2])?);
    if outs[0].wanted() {
        slopes.backward_data(x, grad, outs[0].slice_mut::<T>()?);
    }
    if outs[1].wanted() {
        slopes.backward_slopes(x, grad, outs[1].slice_mut::<T>()?);
    }
    Ok(())
}

/// Stores the slopes in the second output, which the gradient reads.
fn rrelu(ctx: &OpCtx<'_>, p: &LeakyReluParam, x: &In<'_>, outs: &mut [Out<'_>]) -> Result<()> {
    let (low, high) = (f64::from(p.lower_bound), f64::from(p.upper_bound));
    ensure!(low <= high, "lower_bound {low} of rrelu is above upper_bound {high}");
    let key = ctx.random.next_key();
    let [out, mask] = outs else {
        return Err(ferromx_core::error::Error::Internal("rrelu has two outputs".into()));
    };
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16] => {
        let (x, out) = in_out::<T, T>(x, out)?;
        if let Some(x) = x {
            out.copy_from_slice(x);
        }
        let mut saved = if mask.wanted() { Some(mask.slice_mut::<T>()?) } else { None };
        let random = Philox::new(key.seed, key.stream);
        let mut slopes = vec![T::from_f64((low + high) / 2.0); out.len()];
        if ctx.is_train {
            random.fill_uniform(low, high, &mut slopes);
        }
        for (out, slope) in out.iter_mut().zip(&slopes) {
            if out.to_f32() <= 0.0 {
                *out = T::from_f64(out.to_f64() * slope.to_f64());
            }
        }
        if let Some(saved) = &mut saved {
            saved.copy_from_slice(&slopes);
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&[-2.0f64, 0.7, -0.3, 1.9, 0.2, -1.1, 0.4, -0.8], &[2, 2, 2]);
        for act_type in ["elu", "gelu", "leaky", "rrelu"] {
            Case::new(&LEAKY_RELU, &[("act_type", act_type)]).check_gradient(&[x()]);
        }
        let prelu = Case::new(&LEAKY_RELU, &[("act_type", "prelu")]);
        prelu.check_gradient(&[x(), array(&[0.1f64, 0.3], &[2])]);
        prelu.check_gradient(&[x(), array(&[0.2f64], &[1])]);
    }

    #[test]
    fn slopes_of_no_elements_have_any_shape_and_no_gradient() {
        let prelu = Case::new(&LEAKY_RELU, &[("act_type", "prelu")]);
        for dims in [&[0, 3][..], &[2, 0], &[0], &[2, 0, 3]] {
            let (x, slopes) = (array::<f32>(&[], dims), array(&[0.5f32, 1.0, 2.0], &[3]));
            let grads = prelu.backward(&[x.clone(), slopes], &[x]).unwrap();
            assert_eq!(grads[1].to_vec::<f32>().unwrap(), [0.0; 3]);
        }
    }

    #[test]
    fn the_gradient_of_selu_is_mxnets_instead_of_the_derivative() {
        let x = array(&[-1.0f64, 2.0], &[2]);
        let case = Case::new(&LEAKY_RELU, &[("act_type", "selu")]);
        let (y, ones) =
            (case.run1(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap(), array(&[1.0f64, 1.0], &[2]));
        let grad = case.backward(&[x], &[ones]).unwrap()[0].to_vec::<f64>().unwrap();
        let (scale, alpha) = (1.0507009873554805, 1.6732632423543772);
        assert!((grad[0] - scale * (alpha + y[0])).abs() < 1e-12 && (grad[1] - scale).abs() < 1e-12, "{grad:?}");
    }

    #[test]
    fn random_slopes_lie_between_the_bounds() {
        let y = Case::new(&LEAKY_RELU, &[("act_type", "rrelu")]).train().run(&[array(&[-1f32; 100], &[100])]).unwrap();
        let y = y[0].to_vec::<f32>().unwrap();
        assert!(y.iter().all(|y| (0.125..=0.334).contains(&-y)) && y[0] != y[1]);
    }
}
