//! Functions of one array with parameters: `smooth_l1`, `hard_sigmoid`, `clip`, `MakeLoss`, `around`, `nan_to_num`.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::fusion::{Elementwise, Role};
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::TypeOnly;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::map::{Arith, Src, map};
use ferromx_kernels::zip::zip;

use super::family::{Arg, Ternary, apply_three, apply_two, formula, src, with_scalar, with_scalar2};
use super::formulas::Maximum;
use super::predicates::X;
use crate::compose::{Graph, op};
use crate::movement::copy;
use crate::rules::OUTPUT_GRADIENT;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&SMOOTH_L1, &HARD_SIGMOID, &CLIP, &MAKE_LOSS, &AROUND, &NAN_TO_NUM, &BACKWARD_NAN_TO_NUM];

params! {
    /// Parameters of `smooth_l1`.
    pub struct SmoothL1Param {
        /// Sigma; 1 by default.
        scalar: TypeOnly<f32> = (TypeOnly(1.0));
    }
}

pub(super) static SMOOTH_L1: Operator<SmoothL1Param> = Operator::new("smooth_l1")
    .aliases(&["_npx_smooth_l1"])
    .doc(
        "The smooth L1 loss of each element: (sigma x)^2 / 2 where |x| < 1 / sigma^2, and |x| - 0.5 / sigma^2 elsewhere \
         (Girshick, Fast R-CNN, 2015).",
    )
    .inputs(&[arg("data", "The differences.")])
    .ignores(|name| name == "is_int")
    .forward(|ctx, ins, outs| {
        with_scalar::<SmoothL1>(ctx, &ins[0], f64::from(ctx.params::<SmoothL1Param>().scalar.0), &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let scalar = f64::from(ctx.params::<SmoothL1Param>().scalar.0);
            with_scalar2::<SmoothL1Back>(ctx, &ins[0], &ins[1], scalar, &mut outs[0])
        })
        .inputs(Deps::Some(&[0]))
        .inplace(&[(0, 0), (1, 0)])
        .pointwise(),
        Some(SMOOTH_L1_COMPOSE),
    ))
    .inplace(&[(0, 0)])
    .pointwise();

formula!(Binary SmoothL1 = |x, sigma| {
    let threshold = 1.0 / (sigma * sigma);
    if x.abs() < threshold { 0.5 * x * x / threshold } else { x.abs() - 0.5 * threshold }
});

formula!(Ternary SmoothL1Back = |g, x, sigma| g * (sigma * sigma * x).clamp(-1.0, 1.0));

const SMOOTH_L1_COMPOSE: Compose = |graph, n| {
    let sigma = f64::from(n.params.get::<SmoothL1Param>().scalar.0);
    let mut g = Graph(graph);
    let inner = g.scale(n.inputs[0], sigma * sigma)?;
    let clipped = g.op(op!(CLIP(inner), a_min: -1.0, a_max: 1.0))?;
    Ok(vec![Some(g.mul(n.ograds[0], clipped)?)])
};

params! {
    /// Parameters of `hard_sigmoid`.
    pub struct HardSigmoidParam {
        /// The slope.
        alpha: f32 = 0.2;
        /// The value at 0.
        beta: f32 = 0.5;
    }
}

pub(crate) static HARD_SIGMOID: Operator<HardSigmoidParam> = Operator::new("hard_sigmoid")
    .doc("A piecewise linear approximation of the logistic function: max(0, min(1, alpha * x + beta)).")
    .inputs(&[arg("data", "The array, of a floating-point type.")])
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<HardSigmoidParam>();
        require_float(ctx, outs[0].dtype())?;
        let (alpha, beta) = (f64::from(p.alpha), f64::from(p.beta));
        with_two_scalars::<HardSigmoid>(ctx, &ins[0], alpha, beta, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let alpha = ctx.params::<HardSigmoidParam>().alpha;
            with_scalar2::<HardSigmoidBack>(ctx, &ins[0], &ins[1], f64::from(alpha), &mut outs[0])
        })
        .outputs(Deps::Some(&[0]))
        .inplace(&[(0, 0), (1, 0)])
        .pointwise(),
        Some(HARD_SIGMOID_COMPOSE),
    ))
    .inplace(&[(0, 0)])
    .pointwise()
    .role(Role::Function(|p| {
        let HardSigmoidParam { alpha, beta } = p.get::<HardSigmoidParam>();
        Some(Elementwise::HardSigmoid { alpha: (*alpha).into(), beta: (*beta).into() })
    }));

formula!(Ternary HardSigmoid = |x, alpha, beta| (alpha * x + beta).clamp(0.0, 1.0));
formula!(Ternary HardSigmoidBack = |g, y, alpha| if y > 0.0 && y < 1.0 { g * alpha } else { 0.0 });

const HARD_SIGMOID_COMPOSE: Compose = |graph, n| {
    let mut g = Graph(graph);
    let above = g.op(op!(elemwise::scalar::GREATER(n.outputs[0]), scalar: 0.0))?;
    let below = g.op(op!(elemwise::scalar::LESSER(n.outputs[0]), scalar: 1.0))?;
    let inside = g.mul(above, below)?;
    let slope = g.scale(inside, f64::from(n.params.get::<HardSigmoidParam>().alpha))?;
    Ok(vec![Some(g.mul(n.ograds[0], slope)?)])
};

params! {
    /// Parameters of `clip`.
    pub struct ClipParam {
        /// The smallest value of the result.
        a_min: f32 = required;
        /// The largest value of the result.
        a_max: f32 = required;
    }
}

pub(crate) static CLIP: Operator<ClipParam> = Operator::new("clip")
    .aliases(&["_npi_clip", "_sparse_clip"])
    .doc(
        "Limits the elements to an interval: max(a_min, min(a_max, x)); NaN stays NaN. The gradient passes where a_min <= x <= a_max.",
    )
    .inputs(&[arg("data", "The array.")])
    .forward(|ctx, ins, outs| {
        let ClipParam { a_min, a_max } = *ctx.params::<ClipParam>();
        let (low, high) = (f64::from(a_min), f64::from(a_max));
        match integer_range(outs[0].dtype()) {
            None => with_two_scalars::<Clip>(ctx, &ins[0], low, high, &mut outs[0]),
            Some(range) => clip_integers(ctx, &ins[0], (low, high), range, &mut outs[0]),
        }
    })
    .sparse(
        |p, ins, out| {
            let ClipParam { a_min, a_max } = p.get::<ClipParam>();
            if *a_min <= 0.0 && *a_max >= 0.0 { crate::sparse::keeps_zero(p, ins, out) } else { None }
        },
        crate::sparse::on_values,
    )
    .grad(Grad::Kernel(Backward::new(clip_backward).inputs(Deps::Some(&[0])).inplace(&[(0, 0)]), Some(CLIP_COMPOSE)))
    .inplace(&[(0, 0)])
    .pointwise()
    .role(Role::Function(|p| {
        let ClipParam { a_min, a_max } = p.get::<ClipParam>();
        Some(Elementwise::Clamp { low: (*a_min).into(), high: (*a_max).into() })
    }));

formula!(Ternary Clip = |x, low, high| if x > high { high } else if x < low { low } else { x },
    int |x, low, high| if x > high { high } else if x < low { low } else { x });

formula!(Ternary OneOfBounds = |x, low, high| if x > high { high } else { low }, int |x, low, high| if x > high { high } else { low });

formula!(Ternary NotBelow = |g, x, low| if x < low { 0.0 } else { g });
formula!(Ternary NotAbove = |g, x, high| if x > high { 0.0 } else { g });

/// The least and the greatest integer of a type, and None for other types. That of int64 is not a number of double precision: its
/// upper end here is 2^63.
fn integer_range(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::U8 => Some((0.0, 255.0)),
        DType::I8 => Some((-128.0, 127.0)),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::I64 => Some((i64::MIN as f64, i64::MAX as f64)),
        _ => None,
    }
}

/// `clip` of integers. Bounds that are NaN or that no element can exceed have no effect. Where all elements exceed a bound, the result
/// is that bound, converted to the type as MXNet does.
fn clip_integers(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    (low, high): (f64, f64),
    (least, greatest): (f64, f64),
    out: &mut Out<'_>,
) -> Result<()> {
    if high < least {
        return with_two_scalars::<Clip>(ctx, x, high, high, out);
    }
    let is_unbounded = high.is_nan() || high >= greatest;
    if low > greatest {
        return match is_unbounded {
            true => with_two_scalars::<Clip>(ctx, x, low, low, out),
            false => with_two_scalars::<OneOfBounds>(ctx, x, low, high, out),
        };
    }
    let low = low.max(least);
    if is_unbounded {
        apply_two::<Maximum>(ctx, Arg::Array(x), Arg::Number(low), out)
    } else {
        with_two_scalars::<Clip>(ctx, x, low, high, out)
    }
}

fn clip_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, out) = (ctx.params::<ClipParam>(), &mut outs[0]);
    let (mut low, mut high) = (f64::from(p.a_min), f64::from(p.a_max));
    let mut is_unbounded = false;
    if let Some((least, greatest)) = integer_range(out.dtype()) {
        // Integers are compared with the given bounds, not with truncated ones.
        (low, high) = (low.ceil(), high.floor());
        if low > greatest || high < least {
            out.bytes_mut()?.fill(0);
            return Ok(());
        }
        low = low.max(least);
        is_unbounded = high.is_nan() || high >= greatest;
    }
    with_scalar2::<NotBelow>(ctx, &ins[0], &ins[1], low, out)?;
    if is_unbounded {
        return Ok(());
    }
    apply_three::<NotAbove>(ctx, [Arg::Output, Arg::Array(&ins[1]), Arg::Number(high)], out)
}

const CLIP_COMPOSE: Compose = |graph, n| {
    let p = n.params.get::<ClipParam>();
    let mut g = Graph(graph);
    let above = g.op(op!(elemwise::scalar::GREATER_EQUAL(n.inputs[0]), scalar: f64::from(p.a_min)))?;
    let below = g.op(op!(elemwise::scalar::LESSER_EQUAL(n.inputs[0]), scalar: f64::from(p.a_max)))?;
    let inside = g.mul(above, below)?;
    Ok(vec![Some(g.mul(n.ograds[0], inside)?)])
};

/// `out = F(x, a, b)` for two scalars.
fn with_two_scalars<F: Ternary>(ctx: &OpCtx<'_>, x: &In<'_>, a: f64, b: f64, out: &mut Out<'_>) -> Result<()> {
    apply_three::<F>(ctx, [Arg::Array(x), Arg::Number(a), Arg::Number(b)], out)
}

fn require_float(ctx: &OpCtx<'_>, dtype: DType) -> Result<()> {
    if DType::FLOATS.contains(&dtype) { Ok(()) } else { Err(ctx.unsupported(dtype, DType::FLOATS)) }
}

param_enum! {
    /// How a loss normalizes its gradient.
    pub enum Normalization { Batch = "batch", Null = "null", Valid = "valid" }
}

params! {
    /// Parameters of `MakeLoss`.
    pub struct MakeLossParam {
        /// The gradient of each element, before normalization.
        grad_scale: f32 = 1.0;
        /// With normalization='valid', elements above this count as valid.
        valid_thresh: f32 = 0.0;
        /// The divisor of the gradient: `null` 1, `batch` the product of all axes but the last, `valid` the number of
        /// valid elements, at least 1.
        normalization: Normalization = (Normalization::Null);
    }
}

pub(super) static MAKE_LOSS: Operator<MakeLossParam> = Operator::new("MakeLoss").legacy()
    .doc(
        "Makes any expression a loss: the output is the input, and the gradient is grad_scale, normalized by `normalization`, \
         regardless of the output's gradient.",
    )
    .inputs(&[arg("data", "The loss, of a floating-point type.")])
    .forward(|ctx, ins, outs| {
        require_float(ctx, outs[0].dtype())?;
        copy(ctx, ins, outs)
    })
    .grad(Grad::Kernel(Backward::new(make_loss_backward).ograds(Deps::None).inputs(Deps::All), None))
    .inplace(&[(0, 0)]);

fn make_loss_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<MakeLossParam>();
    let (x, out) = (&ins[0], &mut outs[0]);
    ferromx_core::dispatch!(x.dtype(), T in [f32, f64, f16] => {
        let x_items = x.slice::<T>()?;
        let divisor = match p.normalization {
            Normalization::Null => 1.0,
            // MXNet counts the rows of the data as a matrix: one for a vector.
            Normalization::Batch => {
                let axes = x.shape().dims();
                ensure!(!axes.is_empty(), "MakeLoss with normalization='batch' needs an input with a last axis");
                axes[..axes.len() - 1].iter().product::<i64>().max(1) as f64
            }
            Normalization::Valid => x_items.iter().filter(|v| v.to_f32() > p.valid_thresh).count().max(1) as f64,
        };
        out.slice_mut::<T>()?.fill(T::from_f64(f64::from(p.grad_scale) / divisor));
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

params! {
    /// Parameters of `_npi_around`.
    pub struct AroundParam {
        /// The number of decimal places that are kept; negative numbers round to tens, hundreds, ...
        decimals: i32 = 0;
    }
}

formula!(Binary RoundFraction = |x, scale| (x * scale).round_ties_even() / scale);
formula!(Binary RoundToTens = |x, scale| (x / scale).round_ties_even() * scale);

pub(crate) static AROUND: Operator<AroundParam> = Operator::new("_npi_around")
    .doc("Rounds to a number of decimal places, halves to the even neighbor: around([0.5, 1.5, 2.5]) = [0, 2, 2].")
    .inputs(X)
    .forward(|ctx, ins, outs| {
        let (x, decimals, out) = (&ins[0], ctx.params::<AroundParam>().decimals, &mut outs[0]);
        let scale = 10f64.powi(decimals.saturating_abs());
        if out.dtype().is_float() {
            return match decimals >= 0 {
                true => crate::elemwise::family::with_scalar::<RoundFraction>(ctx, x, scale, out),
                false => crate::elemwise::family::with_scalar::<RoundToTens>(ctx, x, scale, out),
            };
        }
        // Integers change only with negative decimals; double precision is exact enough for the rounded result.
        let scale = if decimals >= 0 { 1.0 } else { scale };
        dispatch!(out.dtype(), T in [u8, i8, i32, i64] => {
            zip(src::<T>(x)?, Src::Scalar(0 as T), out.slice_mut::<T>()?, |x: i64, _: i64| x);
            if scale != 1.0 {
                let round = move |x: i64| ((x as f64 / scale).round_ties_even() * scale) as i64;
                map(Src::<T>::InPlace, out.slice_mut::<T>()?, round);
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, crate::elemwise::family::NUMERIC)))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)])
    .pointwise();

params! {
    /// Parameters of `_npi_nan_to_num`.
    pub struct NanToNumParam {
        /// Ignored: the caller decides by passing the output array.
        copy: bool = true;
        /// The replacement of NaN.
        nan: f64 = 0.0;
        /// The replacement of positive infinity; by default the largest number of the type.
        posinf: Option<f64> = None;
        /// The replacement of negative infinity; by default the lowest number of the type.
        neginf: Option<f64> = None;
    }
}

pub(super) static NAN_TO_NUM: Operator<NanToNumParam> = Operator::new("_npi_nan_to_num")
    .names_data()
    .doc("Replaces NaN and infinities by numbers; they get no gradient. Integers stay as they are.")
    .forward(|ctx, ins, outs| {
        let (x, p, out) = (&ins[0], ctx.params::<NanToNumParam>(), &mut outs[0]);
        let largest = match out.dtype() {
            DType::F64 => f64::MAX,
            DType::F16 => f16::MAX.to_f64(),
            DType::BF16 => bf16::MAX.to_f64(),
            _ => f64::from(f32::MAX),
        };
        let (nan, high, low) = (p.nan, p.posinf.unwrap_or(largest), p.neginf.unwrap_or(-largest));
        dispatch!(out.dtype(), T in [f32, f16, bf16] => {
            let (nan, high, low) = (nan as f32, high as f32, low as f32);
            map(src::<T>(x)?, out.slice_mut::<T>()?, move |x: f32| {
                if x.is_nan() { nan } else if x.is_infinite() { if x > 0.0 { high } else { low } } else { x }
            });
            Ok(())
        }, d => match d {
            DType::F64 => {
                map(src::<f64>(x)?, out.slice_mut::<f64>()?, move |x: f64| {
                    if x.is_nan() { nan } else if x.is_infinite() { if x > 0.0 { high } else { low } } else { x }
                });
                Ok(())
            }
            _ => copy(ctx, ins, outs),
        })
    })
    .grad(Grad::Kernel(Backward::new(nan_to_num_backward).inputs(Deps::Some(&[0])), None))
    .inplace(&[(0, 0)]);

fn nan_to_num_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16] => {
        let (g, x) = (src::<T>(&ins[0])?, src::<T>(&ins[1])?);
        type C = <T as Arith>::Lane;
        zip(g, x, outs[0].slice_mut::<T>()?, |g: C, x: C| if x.is_finite() { g } else { 0.0 });
        Ok(())
    }, _d => copy(ctx, &ins[..1], outs))
}

pub(super) static BACKWARD_NAN_TO_NUM: Operator<NanToNumParam> = Operator::new("_npi_backward_nan_to_num")
    .doc("The gradient of `_npi_nan_to_num`: that of the output where the data is finite, else 0.")
    .inputs(&[OUTPUT_GRADIENT, arg("data", "The array.")])
    .listed(0)
    .unlisted_params()
    .forward(nan_to_num_backward);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || vector(DType::F64, &[-3.0, -0.6, 0.1, 0.7, 2.4]);
        Case::new(&SMOOTH_L1, &[("scalar", "0.8")]).check_gradient(&[x()]);
        Case::new(&HARD_SIGMOID, &[("alpha", "0.3")]).check_gradient(&[x()]);
        Case::new(&CLIP, &[("a_min", "-1"), ("a_max", "2")]).check_gradient(&[x()]);
    }

    #[test]
    fn values_match_mxnet() {
        let x = array(&[-3f32, -0.5, 0.1, 2.0, 0.25, 0.04], &[6]);
        let y = Case::new(&SMOOTH_L1, &[("scalar", "2")]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        close(&y, &[2.875, 0.375, 0.02, 1.875, 0.125, 0.0032], 1e-6);
        let x = array(&[-3f32, -2.5, 0.1, 2.5, 3.0], &[5]);
        let y = Case::new(&HARD_SIGMOID, &[]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        close(&y, &[0.0, 0.0, 0.52, 1.0, 1.0], 1e-6);
        let clip = Case::new(&CLIP, &[("a_min", "1"), ("a_max", "2.5")]);
        assert_eq!(clip.run1(&[array(&[0u8, 2, 100], &[3])]).unwrap().to_vec::<u8>().unwrap(), [1, 2, 2]);
        let reversed = Case::new(&CLIP, &[("a_min", "300"), ("a_max", "200")]);
        assert_eq!(reversed.run1(&[array(&[0u8, 100, 253], &[3])]).unwrap().to_vec::<u8>().unwrap(), [44, 44, 200]);
        let reversed = Case::new(&CLIP, &[("a_min", "inf"), ("a_max", "1.5")]);
        assert_eq!(
            reversed.run1(&[array(&[-1, 1, 3], &[3])]).unwrap().to_vec::<i32>().unwrap(),
            [i32::MIN, i32::MIN, 1]
        );
        assert!(clip.run1(&[array(&[f32::NAN], &[1])]).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn the_gradient_of_a_loss_is_its_scale() {
        let shaped = |shape: &[i64]| array(&[-3f32, 0.5, 0.1, 1.0, 3.0, 2.0], shape);
        let grad_of = |x: ferromx_core::ndarray::NDArray, attrs: &[(&str, &str)]| {
            let xs = std::slice::from_ref(&x);
            Case::new(&MAKE_LOSS, attrs).backward(xs, xs).unwrap()[0].to_vec::<f32>().unwrap()
        };
        let grad = |attrs: &[(&str, &str)]| grad_of(shaped(&[2, 3]), attrs);
        assert_eq!(grad(&[("grad_scale", "3")]), [3.0; 6]);
        assert_eq!(grad(&[("normalization", "batch")]), [0.5; 6]);
        assert_eq!(grad_of(shaped(&[6]), &[("normalization", "batch")]), [1.0; 6]);
        assert_eq!(grad_of(shaped(&[1, 3, 2]), &[("normalization", "batch")]), [1.0 / 3.0; 6]);
        assert_eq!(grad(&[("normalization", "valid"), ("valid_thresh", "0.6")]), [1.0 / 3.0; 6]);
        let e = Case::new(&MAKE_LOSS, &[]).run1(&[array(&[1i32], &[1])]).unwrap_err().to_string();
        assert!(e.contains("does not take int32"), "{e}");
    }

    #[test]
    fn halves_are_rounded_to_even() {
        let run = |x, decimals: &str| {
            Case::new(&AROUND, &[("decimals", decimals)]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap()
        };
        assert_eq!(run(vector(DType::F64, &[-2.5, 0.5, 1.5, 1.25]), "0"), [-2.0, 0.0, 2.0, 1.0]);
        assert_eq!(run(vector(DType::F64, &[1.25, -0.75, 3.0]), "1"), [1.2, -0.8, 3.0]);
        assert_eq!(run(vector(DType::I32, &[15.0, 25.0, -1234.0, 19.0]), "-1"), [20.0, 20.0, -1230.0, 20.0]);
        assert_eq!(run(vector(DType::U8, &[7.0, 250.0]), "3"), [7.0, 250.0]);
    }

    #[test]
    fn special_values_are_replaced() {
        Case::new(&NAN_TO_NUM, &[]).check_gradient(&[array(&[0.5, -1.5, 2.0, 1.0], &[2, 2])]);
        let x = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let run = |dtype, attrs: &[(&str, &str)]| {
            Case::new(&NAN_TO_NUM, attrs).run1(&[vector(dtype, &x)]).unwrap().to_vec_as::<f64>().unwrap()
        };
        assert_eq!(run(DType::F64, &[]), [1.0, 0.0, f64::MAX, f64::MIN]);
        assert_eq!(run(DType::F16, &[]), [1.0, 0.0, 65504.0, -65504.0]);
        assert_eq!(run(DType::F32, &[("nan", "7"), ("posinf", "8"), ("neginf", "9")]), [1.0, 7.0, 8.0, 9.0]);
    }
}
