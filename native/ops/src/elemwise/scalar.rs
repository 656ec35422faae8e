//! Arithmetic, comparison and logic of an array and a number.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::map::Elements;

use super::family::{
    Arg, Binary, ChainRule2, Loops, apply_three, apply_two, broadcast_loops, elements, elements_mut, operators, scalar,
    with_scalar, with_scalar2,
};
use super::formulas::*;
use super::identity::convert;
use super::integers::{BitAnd, BitOr, BitXor, Lcm, int_into};
use super::predicates::int_dtype;
use crate::compose::op;
use crate::rules::PASS_BACK;

params! {
    /// Parameters of the operators of an array and a number.
    pub struct ScalarParam {
        /// The number.
        scalar: f64 = 1.0;
        /// Whether the number is an integer. If not, arrays of integers or booleans give a result of type float64.
        is_int: bool = true;
    }
}

/// Storage rule: sparse arrays stay sparse if the operator maps 0 to 0 for this scalar.
fn sparse_if_scalar(
    p: &Params,
    ins: &[StorageType],
    out: Option<StorageType>,
    maps_zero_to_zero: fn(f64) -> bool,
) -> Option<StorageType> {
    if maps_zero_to_zero(p.get::<ScalarParam>().scalar) { crate::sparse::keeps_zero(p, ins, out) } else { None }
}

/// The argument of the operators of an array and a number.
pub(crate) const DATA: &[ArgDef] = &[arg("data", "The array.")];

/// Defines a true division, whose result is floating-point for every array type.
macro_rules! quotient {
    ($name:ident: $op:literal, $doc:literal, $forward:ident, $Df:ident, $backward:ident) => {
        pub(crate) static $name: Operator<ScalarParam> = Operator::new($op)
            .doc($doc)
            .inputs(DATA)
            .dtype(float_dtype)
            .forward($forward)
            .grad(Grad::Kernel(Backward::new($backward::<$Df>).inputs(Deps::Some(&[0])), None));
    };
}

/// Defines an operator of an integer or boolean array and an integer.
macro_rules! int_scalar {
    ($name:ident: $op:literal, $doc:literal, $F:ident) => {
        pub(crate) static $name: Operator<ScalarParam> = Operator::new($op)
            .doc($doc)
            .inputs(DATA)
            .dtype(int_dtype)
            .forward(|ctx, ins, outs| {
                let scalar = ctx.params::<ScalarParam>().scalar;
                let scalar = [if ins[0].dtype() == DType::Bool { i64::from(scalar != 0.0) } else { scalar as i64 }];
                let (n, shape) = (Elements::I64(&scalar), ins[0].shape().to_usize());
                int_into::<$F>(ctx, (elements(&ins[0])?, &shape), (n, &[]), &mut outs[0])
            })
            .grad(Grad::Zero);
    };
}

operators! { OPS [] =
    scalar!(PLUS sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s == 0.0)): "_plus_scalar" ["_PlusScalar"],
        "data + scalar.", Add(x, s), PASS_BACK) numpy "_npi_add_scalar";
    scalar!(MINUS sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s == 0.0)): "_minus_scalar" ["_MinusScalar"],
        "data - scalar.", Sub(x, s), PASS_BACK) numpy "_npi_subtract_scalar";
    scalar!(SCATTER_PLUS sparse(crate::sparse::keeps_zero): "_scatter_plus_scalar",
        "data + scalar; for a sparse array only the stored elements.", Add(x, s), PASS_BACK);
    scalar!(SCATTER_MINUS sparse(crate::sparse::keeps_zero): "_scatter_minus_scalar",
        "data - scalar; for a sparse array only the stored elements.", Sub(x, s), PASS_BACK);
    scalar!(RMINUS: "_rminus_scalar" ["_RMinusScalar"], "scalar - data.",
        Sub(s, x), graph = |g, n, _s| g.op(op!(elemwise::unary::NEGATIVE(n.ograds[0])))) numpy "_npi_rsubtract_scalar";
    scalar!(MUL sparse(crate::sparse::keeps_zero): "_mul_scalar" ["_MulScalar"],
        "data * scalar.", Mul(x, s), graph = |g, n, s| g.scale(n.ograds[0], s)) numpy "_npi_multiply_scalar";
    scalar!(DIV sparse(crate::sparse::keeps_zero): "_div_scalar" ["_DivScalar"], "data / scalar; integers are truncated.",
        Div(x, s), graph = |g, n, s| g.op(op!(DIV(n.ograds[0]), scalar: s)));
    scalar!(RDIV: "_rdiv_scalar" ["_RDivScalar"], "scalar / data; integers are truncated.",
        DivScalar(s, x), df = DivB, graph = |g, n, _s| {
            let d = g.div(n.outputs[0], n.inputs[0])?;
            let d = g.op(op!(elemwise::unary::NEGATIVE(d)))?;
            g.mul(n.ograds[0], d)
        });
    scalar!(MOD: "_mod_scalar" ["_ModScalar"], "The remainder of data / scalar with the sign of the scalar; 0 if the scalar is 0.",
        Mod(x, s), df = ModA, graph = |_g, n, _s| Ok::<_, Error>(n.ograds[0])) numpy "_npi_mod_scalar";
    scalar!(RMOD: "_rmod_scalar" ["_RModScalar"], "The remainder of scalar / data with the sign of data; 0 where data is 0.",
        Mod(s, x), df = ModB, graph = |g, n, s| {
            let q = g.op(op!(RDIV(n.inputs[0]), scalar: s))?;
            let q = g.op(op!(elemwise::unary::FLOOR(q)))?;
            let d = g.op(op!(elemwise::unary::NEGATIVE(q)))?;
            g.mul(n.ograds[0], d)
        }) numpy "_npi_rmod_scalar";
    scalar!(POWER: "_power_scalar" ["_PowerScalar"], "data to the power scalar.",
        Power(x, s), df = PowerA, graph = |g, n, s| {
            let d = g.power(n.inputs[0], s - 1.0)?;
            let d = g.scale(d, s)?;
            g.mul(n.ograds[0], d)
        }) numpy "_npi_power_scalar";
    scalar!(RPOWER: "_rpower_scalar" ["_RPowerScalar"], "The scalar to the power data.",
        Power(s, x), df = PowerB, graph = |g, n, s| {
            let d = g.scale(n.outputs[0], s.ln())?;
            g.mul(n.ograds[0], d)
        }) numpy "_npi_rpower_scalar";
    scalar!(MAXIMUM: "_maximum_scalar" ["_MaximumScalar", "_npi_maximum_scalar"], "The larger of data and scalar.",
        Maximum(x, s), df = MaximumA, graph = |g, n, s| {
            let d = g.op(op!(GREATER_EQUAL(n.inputs[0]), scalar: s))?;
            g.mul(n.ograds[0], d)
        });
    scalar!(MINIMUM: "_minimum_scalar" ["_MinimumScalar", "_npi_minimum_scalar"], "The smaller of data and scalar.",
        Minimum(x, s), df = MinimumA, graph = |g, n, s| {
            let d = g.op(op!(LESSER_EQUAL(n.inputs[0]), scalar: s))?;
            g.mul(n.ograds[0], d)
        });
    scalar!(HYPOT: "_hypot_scalar" ["_HypotScalar", "_npi_hypot_scalar"], "The hypotenuse sqrt(data^2 + scalar^2).",
        Hypot(x, s), df = HypotA, graph = |g, n, _s| {
            let d = g.div(n.inputs[0], n.outputs[0])?;
            g.mul(n.ograds[0], d)
        });
    scalar!(EQUAL sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s != 0.0)): "_equal_scalar" ["_EqualScalar"],
        "1 where data equals the scalar, else 0.", Equal(x, s), Grad::Zero);
    scalar!(NOT_EQUAL sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s == 0.0)): "_not_equal_scalar" ["_NotEqualScalar"],
        "1 where data differs from the scalar, else 0.",
        NotEqual(x, s), Grad::Zero);
    scalar!(GREATER sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s >= 0.0)): "_greater_scalar" ["_GreaterScalar"],
        "1 where data > scalar, else 0.", Greater(x, s), Grad::Zero);
    scalar!(GREATER_EQUAL sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s > 0.0)): "_greater_equal_scalar" ["_GreaterEqualScalar"],
        "1 where data >= scalar, else 0.",
        GreaterEqual(x, s), Grad::Zero);
    scalar!(LESSER sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s <= 0.0)): "_lesser_scalar" ["_LesserScalar"],
        "1 where data < scalar, else 0.", Lesser(x, s), Grad::Zero);
    scalar!(LESSER_EQUAL sparse(|p, ins, out| sparse_if_scalar(p, ins, out, |s| s < 0.0)): "_lesser_equal_scalar" ["_LesserEqualScalar"],
        "1 where data <= scalar, else 0.",
        LesserEqual(x, s), Grad::Zero);
    scalar!(AND: "_logical_and_scalar" ["_LogicalAndScalar"], "1 where data and scalar are not 0, else 0.", And(x, s), Grad::Zero);
    scalar!(OR: "_logical_or_scalar" ["_LogicalOrScalar"], "1 where data or scalar is not 0, else 0.", Or(x, s), Grad::Zero);
    scalar!(XOR: "_logical_xor_scalar" ["_LogicalXorScalar"], "1 where exactly one of data and scalar is not 0, else 0.",
        Xor(x, s), Grad::Zero);
    quotient!(TRUE_DIVIDE: "_npi_true_divide_scalar", "data / scalar; float32 for integers and bool.",
        divide, DivA, forward_backward);
    quotient!(RTRUE_DIVIDE: "_npi_rtrue_divide_scalar", "scalar / data; float32 for integers and bool.",
        divide_by, DivB, reverse_backward);
    scalar!(ARCTAN2: "_npi_arctan2_scalar", "The angle of the point (scalar, data), in radians.",
        Arctan2(x, s), df = Arctan2A, graph = |g, n, s| {
            let d = g.op(op!(elemwise::unary::SQUARE(n.inputs[0])))?;
            let d = g.affine(d, 1.0, s * s)?;
            let d = g.op(op!(RDIV(d), scalar: s))?;
            g.mul(n.ograds[0], d)
        });
    scalar!(RARCTAN2: "_npi_rarctan2_scalar", "The angle of the point (data, scalar), in radians.",
        Arctan2(s, x), df = Arctan2B, graph = |g, n, s| {
            let d = g.op(op!(elemwise::unary::SQUARE(n.inputs[0])))?;
            let d = g.affine(d, 1.0, s * s)?;
            let d = g.op(op!(RDIV(d), scalar: -s))?;
            g.mul(n.ograds[0], d)
        });
    scalar!(COPYSIGN: "_npi_copysign_scalar", "The magnitude of data with the sign of the scalar.",
        Copysign(x, s), df = CopysignA, graph = |g, n, s| {
            // The sign of data as 1 or -1, then that of the scalar.
            let d = g.op(op!(GREATER_EQUAL(n.inputs[0]), scalar: 0.0))?;
            let d = g.affine(d, 2.0, -1.0)?;
            let d = g.scale(d, if s >= 0.0 { 1.0 } else { -1.0 })?;
            g.mul(n.ograds[0], d)
        });
    scalar!(RCOPYSIGN: "_npi_rcopysign_scalar", "The magnitude of the scalar with the sign of data.", Copysign(s, x), Grad::Zero);
    scalar!(LDEXP: "_npi_ldexp_scalar", "data times 2 to the power scalar.",
        Ldexp(x, s), df = LdexpA, graph = |g, n, s| g.scale(n.ograds[0], s.exp2()));
    scalar!(RLDEXP: "_npi_rldexp_scalar", "The scalar times 2 to the power data.",
        Ldexp(s, x), df = LdexpB, graph = |g, n, _s| {
            let d = g.scale(n.outputs[0], std::f64::consts::LN_2)?;
            g.mul(n.ograds[0], d)
        });
    int_scalar!(LCM: "_npi_lcm_scalar", "The least common multiple of |data| and |scalar|.", Lcm);
    int_scalar!(BITWISE_AND: "_npi_bitwise_and_scalar", "The bits that are set in data and the scalar.", BitAnd);
    int_scalar!(BITWISE_OR: "_npi_bitwise_or_scalar", "The bits that are set in data or the scalar.", BitOr);
    int_scalar!(BITWISE_XOR: "_npi_bitwise_xor_scalar", "The bits that are set in exactly one of data and the scalar.", BitXor);
}

/// Type rule: the type of the array, but int64 for bool, and float64 for integers with a fractional scalar.
pub(crate) fn scalar_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let is_int = p.get::<ScalarParam>().is_int;
    match io.ins[0] {
        Some(d) if d.is_float() => io.assign_out(0, d),
        Some(_) if !is_int => io.assign_out(0, DType::F64),
        Some(DType::Bool) => io.assign_out(0, DType::I64),
        Some(d) => io.assign_out(0, d),
        None => match io.outs[0] {
            Some(d) if d.is_float() => io.assign_in(0, d),
            _ => Ok(()),
        },
    }
}

/// `F(x, scalar)`.
pub(crate) fn forward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (x, s, out) = (&ins[0], ctx.params::<ScalarParam>().scalar, &mut outs[0]);
    if x.dtype() == out.dtype() {
        return with_scalar::<F>(ctx, x, s, out);
    }
    convert(x, out)?;
    apply_two::<F>(ctx, Arg::Output, Arg::Number(s), out)
}

/// `F(scalar, x)`.
pub(crate) fn reverse<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (x, s, out) = (&ins[0], ctx.params::<ScalarParam>().scalar, &mut outs[0]);
    if x.dtype() == out.dtype() {
        return apply_two::<F>(ctx, Arg::Number(s), Arg::Array(x), out);
    }
    convert(x, out)?;
    apply_two::<F>(ctx, Arg::Number(s), Arg::Output, out)
}

/// Checks that a fractional scalar did not promote integers to floats. As in MXNet, they would have no gradient.
fn check_not_promoted(g: &In<'_>, x: &In<'_>) -> Result<()> {
    let (expected, got) = (g.dtype(), x.dtype());
    ensure!(
        expected == got,
        "Incompatible attr: expected {expected}, got {got}: no gradient flows to integers through a result of type {expected}; \
         convert them with Cast first"
    );
    Ok(())
}

/// `g * F(x, scalar)`.
pub(crate) fn forward_backward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    check_not_promoted(&ins[0], &ins[1])?;
    with_scalar2::<ChainRule2<F>>(ctx, &ins[0], &ins[1], ctx.params::<ScalarParam>().scalar, &mut outs[0])
}

/// `g * F(scalar, x)`.
pub(crate) fn reverse_backward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    check_not_promoted(&ins[0], &ins[1])?;
    let scalar = Arg::Number(ctx.params::<ScalarParam>().scalar);
    apply_three::<ChainRule2<F>>(ctx, [Arg::Array(&ins[0]), scalar, Arg::Array(&ins[1])], &mut outs[0])
}

fn float_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match io.ins[0] {
        Some(d) => io.assign_out(0, if d.is_float() { d } else { DType::F32 }),
        None => Ok(()),
    }
}

fn divide(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (scalar, n, out) = ([ctx.params::<ScalarParam>().scalar], [ins[0].len()], &mut outs[0]);
    let (x, scalar) = ((Arg::Elements(elements(&ins[0])?), &n[..]), (Arg::Elements(Elements::F64(&scalar)), &[][..]));
    broadcast_loops(ctx, const { &Loops::binary::<Div>() }, out.dtype(), [x, scalar], (elements_mut(out)?, &n))
}

fn divide_by(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (scalar, n, out) = ([ctx.params::<ScalarParam>().scalar], [ins[0].len()], &mut outs[0]);
    let (x, scalar) = ((Arg::Elements(elements(&ins[0])?), &n[..]), (Arg::Elements(Elements::F64(&scalar)), &[][..]));
    broadcast_loops(ctx, const { &Loops::binary::<Div>() }, out.dtype(), [scalar, x], (elements_mut(out)?, &n))
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::AnyOperator;

    use super::*;
    use crate::testing::{Case, array, close, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let takes_floats = |def: &&&'static dyn AnyOperator| Case::new(def, &[]).dtypes(&[Some(DType::F64)]).is_ok();
        for def in OPS.iter().filter(takes_floats) {
            for scalar in ["2.5", "0.75"] {
                let x = vector(DType::F64, &[0.7, 1.9, 5.3]);
                Case::new(def, &[("scalar", scalar), ("is_int", "False")]).check_gradient(&[x]);
            }
        }
    }

    #[test]
    fn fractional_scalars_promote_integers_to_doubles() {
        let x = array(&[7u8, 200, 3, 1], &[4]);
        let run = |def, scalar, is_int| {
            Case::new(def, &[("scalar", scalar), ("is_int", is_int)]).run1(std::slice::from_ref(&x)).unwrap()
        };
        assert_eq!(run(&PLUS, "2.5", "False").to_vec::<f64>().unwrap(), [9.5, 202.5, 5.5, 3.5]);
        assert_eq!(run(&RMINUS, "2", "True").to_vec::<u8>().unwrap(), [251, 58, 255, 1]);
        assert_eq!(run(&RDIV, "2", "True").to_vec::<u8>().unwrap(), [0, 0, 0, 2]);
        close(&run(&RDIV, "2.5", "False").to_vec::<f64>().unwrap(), &[2.5 / 7.0, 0.0125, 2.5 / 3.0, 2.5], 1e-15);
        assert_eq!(run(&GREATER, "2.5", "True").to_vec::<u8>().unwrap(), [1, 1, 1, 0]);
    }

    #[test]
    fn no_gradient_flows_to_integers_through_fractions() {
        for def in [&RDIV, &POWER, &MAXIMUM, &HYPOT] {
            let case = Case::new(def, &[("scalar", "1.5"), ("is_int", "False")]);
            let error = case.backward(&[array(&[3i8], &[1])], &[array(&[1f64], &[1])]).unwrap_err().to_string();
            assert!(error.contains("expected float64, got int8"), "{error}");
        }
    }

    #[test]
    fn booleans_are_promoted_to_numbers() {
        let x = array(&[true, false], &[2]);
        let run =
            |is_int| Case::new(&PLUS, &[("scalar", "2"), ("is_int", is_int)]).run1(std::slice::from_ref(&x)).unwrap();
        assert_eq!(run("True").to_vec::<i64>().unwrap(), [3, 2]);
        assert_eq!(run("False").to_vec::<f64>().unwrap(), [3.0, 2.0]);
    }

    #[test]
    fn half_precision_keeps_its_type() {
        for is_int in ["True", "False"] {
            let y =
                Case::new(&MUL, &[("scalar", "2.5"), ("is_int", is_int)]).run1(&[vector(DType::F16, &[2.0])]).unwrap();
            assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()), (DType::F16, vec![5.0]));
        }
    }

    #[test]
    fn gradients_agree_for_negative_elements_and_scalars() {
        for def in [&TRUE_DIVIDE, &RTRUE_DIVIDE, &ARCTAN2, &RARCTAN2, &COPYSIGN, &RCOPYSIGN, &LDEXP, &RLDEXP] {
            for scalar in ["2.5", "-0.75"] {
                let x = vector(DType::F64, &[0.7, -1.9, 5.3]);
                Case::new(def, &[("scalar", scalar), ("is_int", "False")]).check_gradient(&[x]);
            }
        }
    }

    #[test]
    fn true_division_of_integers_gives_floats() {
        let run = |def, x| Case::new(def, &[("scalar", "2")]).run1(&[x]).unwrap();
        assert_eq!(run(&TRUE_DIVIDE, array(&[3i64, -1], &[2])).to_vec::<f32>().unwrap(), [1.5, -0.5]);
        assert_eq!(run(&RTRUE_DIVIDE, array(&[true, false], &[2])).to_vec::<f32>().unwrap(), [2.0, f32::INFINITY]);
        assert_eq!(run(&TRUE_DIVIDE, vector(DType::F16, &[3.0])).dtype(), DType::F16);
    }

    #[test]
    fn integer_operators_take_negative_scalars() {
        let run = |def, x| Case::new(def, &[("scalar", "-6")]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        assert_eq!(run(&BITWISE_XOR, array(&[4i32, 9], &[2])), [-2.0, -13.0]);
        assert_eq!(run(&BITWISE_AND, array(&[4u8, 255], &[2])), [0.0, 250.0]);
        assert_eq!(run(&BITWISE_OR, array(&[true, false], &[2])), [1.0, 1.0]);
        assert_eq!(run(&BITWISE_AND, array(&[true, false], &[2])), [1.0, 0.0]);
        assert_eq!(run(&LCM, array(&[4i64, 0], &[2])), [12.0, 0.0]);
    }
}
