//! Functions of one array; most are those of [`elemwise`](crate::elemwise) under another name.

use ferromx_core::dispatch;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{ArgDef, OpCtx, OpDef, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Arith, Elements, ElementsMut, Loop, Operand, Src, apply, map};
use ferromx_kernels::reduce::NumericLane;
use ferromx_kernels::zip::zip;

use super::{elements, elements_mut};
use crate::broadcast::binary::lanes_of_sums;
use crate::elemwise::family::{Loops, Unary, WithLoop, formula, src};
use crate::elemwise::{identity, unary};

/// The argument of most of these operators.
const X: &[ArgDef] = &[arg("x", "The array.")];

/// An existing operator under its name in the NumPy interface.
const fn numpy_alias(name: &'static str, def: &OpDef) -> OpDef {
    def.renamed(name).inputs(X)
}

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &numpy_alias("_npi_absolute", &unary::ABS).aliases(&["_npi_abs"]),
    &numpy_alias("_npi_arccos", &unary::ARCCOS),
    &numpy_alias("_npi_arccosh", &unary::ARCCOSH),
    &numpy_alias("_npi_arcsin", &unary::ARCSIN),
    &numpy_alias("_npi_arcsinh", &unary::ARCSINH),
    &numpy_alias("_npi_arctan", &unary::ARCTAN),
    &numpy_alias("_npi_arctanh", &unary::ARCTANH),
    &numpy_alias("_npi_cbrt", &unary::CBRT),
    &numpy_alias("_npi_ceil", &unary::CEIL),
    &numpy_alias("_npi_cos", &unary::COS),
    &numpy_alias("_npi_cosh", &unary::COSH),
    &numpy_alias("_npi_degrees", &unary::DEGREES),
    &numpy_alias("_npi_exp", &unary::EXP),
    &numpy_alias("_npi_expm1", &unary::EXPM1),
    &numpy_alias("_npi_fix", &unary::FIX),
    &numpy_alias("_npi_floor", &unary::FLOOR),
    &numpy_alias("_npi_log", &unary::LOG),
    &numpy_alias("_npi_log10", &unary::LOG10),
    &numpy_alias("_npi_log1p", &unary::LOG1P),
    &numpy_alias("_npi_log2", &unary::LOG2),
    &numpy_alias("_npi_negative", &unary::NEGATIVE),
    &numpy_alias("_npi_radians", &unary::RADIANS),
    &numpy_alias("_npi_reciprocal", &unary::RECIPROCAL),
    &numpy_alias("_npi_rint", &unary::RINT),
    &numpy_alias("_npi_sign", &unary::SIGN),
    &numpy_alias("_npi_sin", &unary::SIN),
    &numpy_alias("_npi_sinh", &unary::SINH),
    &numpy_alias("_npi_sqrt", &unary::SQRT),
    &numpy_alias("_npi_square", &unary::SQUARE),
    &numpy_alias("_npi_tan", &unary::TAN),
    &numpy_alias("_npi_tanh", &unary::TANH),
    &numpy_alias("_npi_trunc", &unary::TRUNC),
    &unary::RELU.renamed("_npx_relu"),
    &unary::SIGMOID.renamed("_npx_sigmoid"),
    &identity::COPY.renamed("_np_copy").inputs(&[arg("a", "The array to copy.")]),
    &LOGICAL_NOT,
    &IS_NAN,
    &IS_INF,
    &IS_FINITE,
    &IS_POS_INF,
    &IS_NEG_INF,
    &BITWISE_NOT,
    &AROUND,
];

/// Defines a predicate: an operator on all types whose result is bool.
macro_rules! predicate {
    ($name:ident: $op:literal, $doc:literal, float |$x:ident| $float:expr, int |$i:ident| $int:expr) => {
        pub(crate) static $name: OpDef = {
    formula!(Unary F = |$x| if $float { 1.0 } else { 0.0 }, int |$i| if $int { 1 } else { 0 });
            OpDef::new($op)
                .doc($doc)
                .inputs(X)
                .dtype(|_, io| match io.outs[0] {
                    Some(given) if given != DType::Bool => Err(Error::Value(format!(
                        "TypeError: the `out` parameter should be a boolean array, but it is of type {given}"
                    ))),
                    _ => io.assign_out(0, DType::Bool),
                })
                .forward(predicate::<F>)
                .grad(Grad::Zero)
        };
    };
}

predicate!(LOGICAL_NOT: "_npi_logical_not", "Whether the element is 0.", float |x| x == 0.0, int |x| x == 0);
predicate!(IS_NAN: "_npi_isnan", "Whether the element is NaN.", float |x| x.is_nan(), int |_x| false);
predicate!(IS_INF: "_npi_isinf", "Whether the element is infinite, of either sign.", float |x| x.is_infinite(), int |_x| false);
predicate!(IS_FINITE: "_npi_isfinite", "Whether the element is neither infinite nor NaN.", float |x| x.is_finite(), int |_x| true);
predicate!(IS_POS_INF: "_npi_isposinf", "Whether the element is positive infinity.",
    float |x| x.is_infinite() && x > 0.0, int |_x| false);
predicate!(IS_NEG_INF: "_npi_isneginf", "Whether the element is negative infinity.",
    float |x| x.is_infinite() && x < 0.0, int |_x| false);

fn predicate<F: Unary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    apply_predicate(ctx, const { &Loops::unary::<F>() }, &ins[0], &mut outs[0])
}

fn apply_predicate(ctx: &OpCtx<'_>, loops: &Loops, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    struct Predicate<'a, 'x>(Elements<'a>, ElementsMut<'x>);

    impl WithLoop for Predicate<'_, '_> {
        fn run<C: NumericLane>(self, formula: &Loop<C>) -> Result<()> {
            apply(formula, &[Operand::Elements(self.0)], self.1);
            Ok(())
        }
    }
    loops.select(ctx, lanes_of_sums(x.dtype()), Predicate(elements(x)?, elements_mut(out)?))
}

/// The types of the bitwise operators.
pub(super) const INT_OR_BOOL: &[DType] = &[DType::U8, DType::I8, DType::I32, DType::I64, DType::Bool];

/// Type rule of the bitwise operators: integers and bool.
pub(super) fn int_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(d) = io.first_known() else { return Ok(()) };
    ferromx_core::ensure!(INT_OR_BOOL.contains(&d), "bitwise operators take arrays of integers or bool, not {d}");
    io.assign_all(d)
}

pub(super) static BITWISE_NOT: OpDef = OpDef::new("_npi_bitwise_not")
    .doc("Every bit inverted: -x - 1 for signed integers, 255 - x for uint8, the negation for bool.")
    .inputs(X)
    .dtype(int_dtype)
    .forward(|ctx, ins, outs| {
        let (x, out) = (&ins[0], &mut outs[0]);
        dispatch!(x.dtype(), T in [u8, i8, i32, i64] => {
            map(src::<T>(x)?, out.slice_mut::<T>()?, |x: <T as Arith>::Lane| !x);
            Ok(())
        }, d => dispatch!(d, T in [bool] => {
            map(src::<T>(x)?, out.slice_mut::<T>()?, |x: i32| x ^ 1);
            Ok(())
        }, d => Err(ctx.unsupported(d, INT_OR_BOOL))))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)])
    .pointwise();

params! {
    /// Parameters of `_npi_around`.
    pub struct AroundParam {
        /// The number of decimal places that are kept; negative numbers round to tens, hundreds, ...
        decimals: i32 = 0;
    }
}

formula!(Binary RoundFraction = |x, scale| (x * scale).round_ties_even() / scale);
formula!(Binary RoundToTens = |x, scale| (x / scale).round_ties_even() * scale);

pub(crate) static AROUND: OpDef = OpDef::new("_npi_around")
    .doc("Rounds to a number of decimal places, halves to the even neighbour: around([0.5, 1.5, 2.5]) = [0, 2, 2].")
    .inputs(X)
    .params::<AroundParam>()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn predicates_return_booleans_for_all_types() {
        let x = array(&[0.0f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0], &[5]);
        let run = |def, x| Case::new(def, &[]).run1(&[x]).unwrap().to_vec::<bool>().unwrap();
        assert_eq!(run(&LOGICAL_NOT, x.clone()), [true, false, false, false, false]);
        assert_eq!(run(&IS_NAN, x.clone()), [false, true, false, false, false]);
        assert_eq!(run(&IS_INF, x.clone()), [false, false, true, true, false]);
        assert_eq!(run(&IS_FINITE, x.clone()), [true, false, false, false, true]);
        assert_eq!(run(&IS_POS_INF, x.clone()), [false, false, true, false, false]);
        assert_eq!(run(&IS_NEG_INF, x), [false, false, false, true, false]);
        for dtype in DType::ALL {
            assert_eq!(run(&LOGICAL_NOT, vector(dtype, &[0.0, 1.0])), [true, false]);
            assert_eq!(run(&IS_FINITE, vector(dtype, &[0.0, 1.0])), [true, true]);
        }
    }

    #[test]
    fn bits_are_inverted() {
        let run = |x| Case::new(&BITWISE_NOT, &[]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        assert_eq!(run(array(&[0u8, 254], &[2])), [255.0, 1.0]);
        assert_eq!(run(array(&[0i64, -5], &[2])), [-1.0, 4.0]);
        assert_eq!(run(array(&[true, false], &[2])), [0.0, 1.0]);
        let error = Case::new(&BITWISE_NOT, &[]).dtypes(&[Some(DType::F32)]).unwrap_err().to_string();
        assert!(error.contains("not float32"), "{error}");
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
}
