//! Predicates of one array, whose results are of type bool, and the bitwise complement.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};
use ferromx_kernels::map::{Arith, Elements, ElementsMut, Loop, Operand, apply, map};
use ferromx_kernels::reduce::NumericLane;

use super::family::{Loops, Unary, WithLoop, elements, elements_mut, formula, lane_dtype, operators, src};

/// The argument of most of these operators.
pub(super) const X: &[ArgDef] = &[arg("x", "The array.")];

/// Defines a predicate: an operator on all types whose result is bool.
macro_rules! predicate {
    ($name:ident: $op:literal, $doc:literal, float |$x:ident| $float:expr, int |$i:ident| $int:expr) => {
        pub(crate) static $name: Operator = {
    formula!(Unary F = |$x| if $float { 1.0 } else { 0.0 }, int |$i| if $int { 1 } else { 0 });
            Operator::new($op)
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

operators! { OPS [BITWISE_NOT] =
    predicate!(LOGICAL_NOT: "_npi_logical_not", "Whether the element is 0.", float |x| x == 0.0, int |x| x == 0);
    predicate!(IS_NAN: "_npi_isnan", "Whether the element is NaN.", float |x| x.is_nan(), int |_x| false);
    predicate!(IS_INF: "_npi_isinf", "Whether the element is infinite, of either sign.", float |x| x.is_infinite(), int |_x| false);
    predicate!(IS_FINITE: "_npi_isfinite", "Whether the element is neither infinite nor NaN.", float |x| x.is_finite(), int |_x| true);
    predicate!(IS_POS_INF: "_npi_isposinf", "Whether the element is positive infinity.",
        float |x| x.is_infinite() && x > 0.0, int |_x| false);
    predicate!(IS_NEG_INF: "_npi_isneginf", "Whether the element is negative infinity.",
        float |x| x.is_infinite() && x < 0.0, int |_x| false);
}

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
    loops.select(ctx, lane_dtype(x.dtype()), Predicate(elements(x)?, elements_mut(out)?))
}

/// The types of the bitwise operators.
pub(crate) const INT_OR_BOOL: &[DType] = &[DType::U8, DType::I8, DType::I32, DType::I64, DType::Bool];

/// Type rule of the bitwise operators: integers and bool.
pub(crate) fn int_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(d) = io.first_known() else { return Ok(()) };
    ensure!(INT_OR_BOOL.contains(&d), "bitwise operators take arrays of integers or bool, not {d}");
    io.assign_all(d)
}

pub(super) static BITWISE_NOT: Operator = Operator::new("_npi_bitwise_not")
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
    fn bitwise_not_inverts_every_bit() {
        let run = |x| Case::new(&BITWISE_NOT, &[]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        assert_eq!(run(array(&[0u8, 254], &[2])), [255.0, 1.0]);
        assert_eq!(run(array(&[0i64, -5], &[2])), [-1.0, 4.0]);
        assert_eq!(run(array(&[true, false], &[2])), [0.0, 1.0]);
        let error = Case::new(&BITWISE_NOT, &[]).dtypes(&[Some(DType::F32)]).unwrap_err().to_string();
        assert!(error.contains("not float32"), "{error}");
    }
}
