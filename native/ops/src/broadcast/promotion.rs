//! Arithmetic of two arrays with broadcasting. Operands of different types are promoted to a common one.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};

use super::backward;
use super::binary::{
    BroadcastSum, LHS_RHS, broadcast_shapes, broadcast_sum, grad_from_both, grad_from_other, grad_negate, grad_pass,
};
use crate::elemwise::family::{
    Arg, Binary, Loops, broadcast_loops, elements, elements_mut, formula, lane_dtype, operators,
};
use crate::elemwise::formulas::*;
use crate::elemwise::integers::{BitAnd, BitOr, BitXor, IntBinary, Lcm, int_into};
use crate::elemwise::predicates::int_dtype;
use crate::rules::one_dtype;

const X1_X2: &[ArgDef] = &[arg("x1", "The first array."), arg("x2", "The second array, broadcast with the first.")];

/// Defines an operator whose operands may have different types.
///
/// - `same` names the gradient kernels for operands of one type.
/// - `mixed` names the partial derivatives, for operands of different types.
/// - `graph` is the gradient composed of operators.
macro_rules! mixed_op {
    ($name:ident: $op:literal, $doc:literal, $F:ident, $dtype:ident, same($lhs:expr, $rhs:expr), mixed($A:ident, $B:ident),
     graph $graph:ident) => {
        pub(crate) static $name: Operator = Operator::new($op)
            .doc(concat!(
                $doc,
                " Operands of different types are promoted; integers get no gradient from a floating-point result."
            ))
            .inputs(LHS_RHS)
            .shape(broadcast_shapes)
            .dtype($dtype)
            .broadcasts()
            .consists_of_loops()
            .forward(forward::<$F>)
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| {
                    let one_type = ins.iter().all(|x| x.dtype() == ins[0].dtype());
                    for (k, out) in outs.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
                        match (one_type, k) {
                            (true, 0) => $lhs(ctx, ins, 0, out)?,
                            (true, _) => $rhs(ctx, ins, 1, out)?,
                            (false, 0) => mixed_gradient::<$A>(ctx, ins, out)?,
                            (false, _) => mixed_gradient::<$B>(ctx, ins, out)?,
                        }
                    }
                    Ok(())
                })
                .inputs(Deps::All),
                Some(backward::$graph),
            ));
    };
}

/// Defines an operator of two operands of one type from a formula and its partial derivatives.
macro_rules! same_op {
    ($name:ident: $op:literal, $doc:literal, $inputs:ident, $F:ident, $dtype:expr, df($A:ident, $B:ident)) => {
        pub(crate) static $name: Operator = Operator::new($op)
            .doc($doc)
            .inputs($inputs)
            .shape(broadcast_shapes)
            .dtype($dtype)
            .forward(forward::<$F>)
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| {
                    if outs[0].wanted() {
                        grad_from_both::<$A>(ctx, ins, 0, &mut outs[0])?;
                    }
                    if outs[1].wanted() {
                        grad_from_both::<$B>(ctx, ins, 1, &mut outs[1])?;
                    }
                    Ok(())
                })
                .inputs(Deps::All),
                None,
            ));
    };
}

/// Defines an operator on integers (and bool) without a gradient.
macro_rules! int_op {
    ($name:ident: $op:literal, $doc:literal, $F:ident) => {
        pub(crate) static $name: Operator = Operator::new($op)
            .doc($doc)
            .inputs(LHS_RHS)
            .shape(broadcast_shapes)
            .dtype(int_dtype)
            .forward(int_forward::<$F>)
            .grad(Grad::Zero);
    };
}

operators! { OPS [] =
    mixed_op!(ADD: "_npi_add", "The sum lhs + rhs with broadcasting.",
        Add, promoted, same(grad_pass, grad_pass), mixed(One, One), graph ADD);
    mixed_op!(SUBTRACT: "_npi_subtract", "The difference lhs - rhs with broadcasting.",
        Sub, promoted, same(grad_pass, grad_negate), mixed(One, MinusOne), graph SUB);
    mixed_op!(MULTIPLY: "_npi_multiply", "The product lhs * rhs with broadcasting.",
        Mul, promoted, same(grad_from_other::<Mul>, grad_from_other::<Mul>), mixed(Second, First), graph MUL);
    mixed_op!(MOD: "_npi_mod", "The remainder of lhs / rhs with broadcasting; it has the sign of rhs, and is 0 where rhs is 0.",
        Mod, promoted, same(grad_from_both::<ModA>, grad_from_both::<ModB>), mixed(ModA, ModB), graph MOD);
    mixed_op!(POWER: "_npi_power", "lhs to the power rhs with broadcasting.",
        Power, promoted, same(grad_from_both::<PowerA>, grad_from_both::<PowerB>), mixed(PowerA, PowerB), graph POWER);
    mixed_op!(TRUE_DIVIDE: "_npi_true_divide", "The quotient lhs / rhs with broadcasting; that of two integers is a float32.",
        Div, promoted_to_float, same(grad_from_other::<Div>, grad_from_both::<DivB>), mixed(DivA, DivB), graph DIV);
    same_op!(COPYSIGN: "_npi_copysign", "The magnitude of lhs with the sign of rhs, with broadcasting; rhs has no gradient.",
        LHS_RHS, Copysign, one_dtype, df(CopysignA, Zero));
    same_op!(LDEXP: "_npi_ldexp", "lhs times 2 to the power rhs, with broadcasting.", LHS_RHS, Ldexp, one_dtype, df(LdexpA, LdexpB));
    same_op!(ARCTAN2: "_npi_arctan2",
        "The angle of the points (x2, x1) from the positive first axis, in radians from -pi to pi, with broadcasting.",
        X1_X2, Arctan2, float_type, df(Arctan2A, Arctan2B));
    same_op!(HYPOT: "_npi_hypot", "The hypotenuse sqrt(x1^2 + x2^2) with broadcasting, without overflow.",
        X1_X2, Hypot, float_type, df(HypotA, HypotB));
    int_op!(LCM: "_npi_lcm", "The least common multiple of |lhs| and |rhs| with broadcasting; 0 where one of them is 0.", Lcm);
    int_op!(BITWISE_AND: "_npi_bitwise_and", "The bits that are set in lhs and rhs, with broadcasting.", BitAnd);
    int_op!(BITWISE_OR: "_npi_bitwise_or", "The bits that are set in lhs or rhs, with broadcasting.", BitOr);
    int_op!(BITWISE_XOR: "_npi_bitwise_xor", "The bits that are set in exactly one of lhs and rhs, with broadcasting.", BitXor);
}

formula!(Binary One = |_a, _b| 1.0, int |_a, _b| 1);
formula!(Binary MinusOne = |_a, _b| -1.0, int |_a, _b| -1);
formula!(Binary First = |a, _b| a, int |a, _b| a);
formula!(Binary Second = |_a, b| b, int |_a, b| b);

/// Type rule: the output has the type to which the operands are promoted.
fn promoted(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match (io.ins[0], io.ins[1]) {
        (Some(a), Some(b)) => io.assign_out(0, promote(a, b)?),
        _ => io.first_known().map_or(Ok(()), |d| io.assign_all(d)),
    }
}

fn promoted_to_float(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let (Some(a), Some(b)) = (io.ins[0], io.ins[1]) else { return Ok(()) };
    let d = promote(a, b)?;
    io.assign_out(0, if d.is_float() { d } else { DType::F32 })
}

/// `out = F(lhs, rhs)` with broadcasting; the operands are converted to the type of the output.
pub(crate) fn forward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    promote_into(ctx, const { &Loops::binary::<F>() }, [&ins[0], &ins[1]], &mut outs[0])
}

fn promote_into(ctx: &OpCtx<'_>, loops: &'static Loops, [a, b]: [&In<'_>; 2], out: &mut Out<'_>) -> Result<()> {
    if let Some(recorder) = ctx.recorder {
        loops.record(recorder, &[Arg::Array(a), Arg::Array(b)], out);
        return Ok(());
    }
    let (a_shape, b_shape, shape) = (a.shape().to_usize(), b.shape().to_usize(), out.shape().to_usize());
    let operands = [(Arg::Elements(elements(a)?), &a_shape[..]), (Arg::Elements(elements(b)?), &b_shape[..])];
    broadcast_loops(ctx, loops, lane_dtype(out.dtype()), operands, (elements_mut(out)?, &shape))
}

/// The gradient of an operand: `g * F(lhs, rhs)` for the output's gradient g, computed in the type of the output.
fn mixed_gradient<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let (g, a, b) = (&ins[0], &ins[1], &ins[2]);
    if g.dtype().is_float() && !out.dtype().is_float() {
        out.bytes_mut()?.fill(0);
        return Ok(());
    }
    let (a_shape, b_shape) = (a.shape().to_usize(), b.shape().to_usize());
    let (shape, to) = (g.shape().to_usize(), out.shape().to_usize());
    let operands = [(Arg::Elements(elements(a)?), &a_shape[..]), (Arg::Elements(elements(b)?), &b_shape[..])];
    let (multiplier, out) = (Some(elements(g)?), elements_mut(out)?);
    broadcast_sum(
        ctx,
        const { &Loops::binary::<F>() },
        g.dtype(),
        BroadcastSum { operands, multiplier, shape: &shape, to: &to, out },
    )
}

fn float_type(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(d) = io.first_known() else { return Ok(()) };
    ensure!(d.is_float(), "expected arrays of a floating-point type, not of {d}: convert them");
    io.assign_all(d)
}

formula!(Binary
    /// The derivative with respect to an operand that has no gradient.
    Zero = |_a, _b| 0.0, int |_a, _b| 0);

fn int_forward<F: IntBinary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (a, b) = (&ins[0], &ins[1]);
    let (a_shape, b_shape) = (a.shape().to_usize(), b.shape().to_usize());
    int_into::<F>(ctx, (elements(a)?, &a_shape), (elements(b)?, &b_shape), &mut outs[0])
}

/// The type to which two operands are promoted: the wider of two floating-point types or of two integer types, the floating-point type
/// of a float and an integer, the other type of bool and any type. float16 and bfloat16 are promoted to float32.
///
/// # Errors
/// int8 and uint8, which have no common type.
pub(super) fn promote(a: DType, b: DType) -> Result<DType> {
    let wider = |a: DType, b: DType| if a.size() >= b.size() { a } else { b };
    Ok(match (a, b) {
        (a, b) if a == b => a,
        (DType::Bool, other) | (other, DType::Bool) => other,
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        (a, b) if a.is_float() && b.is_float() => wider(a, b),
        (a, _) if a.is_float() => a,
        (_, b) if b.is_float() => b,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => {
            return Err(Error::Value("arrays of types int8 and uint8 have no common type: convert one of them".into()));
        }
        (a, b) => wider(a, b),
    })
}

#[cfg(test)]
mod tests {
    use ferromx_core::shape::Shape;

    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let b = array(&[1.2, 0.4, 2.6], &[3, 1]);
        let integer_ops = [LCM.name, BITWISE_AND.name, BITWISE_OR.name, BITWISE_XOR.name];
        for def in OPS.iter().filter(|def| !integer_ops.contains(&def.name)) {
            for dims in [&[2, 1, 2][..], &[1, 4], &[]] {
                let n = dims.iter().product::<i64>() as usize;
                let a = array(&[0.7, 1.9, 5.3, 0.9][..n], dims);
                Case::new(def, &[]).check_gradient(&[a.clone(), b.clone()]);
                Case::new(def, &[]).check_gradient(&[b.clone(), a]);
            }
        }
    }

    #[test]
    fn operands_of_different_types_are_promoted() {
        let dtype = |def, a, b| Case::new(def, &[]).dtypes(&[Some(a), Some(b)]).map(|d| d[0].unwrap());
        use DType::*;
        for (a, b, want) in
            [(F16, F32, F32), (F32, F64, F64), (F16, I64, F16), (I32, I64, I64), (U8, I32, I32), (Bool, I8, I8)]
        {
            assert_eq!((dtype(&ADD, a, b).unwrap(), dtype(&ADD, b, a).unwrap()), (want, want));
        }
        assert_eq!(dtype(&TRUE_DIVIDE, I64, I64).unwrap(), F32);
        assert_eq!(dtype(&TRUE_DIVIDE, F64, I64).unwrap(), F64);
        assert!(dtype(&ADD, U8, I8).unwrap_err().to_string().contains("no common type"));
        assert!(dtype(&ARCTAN2, I32, I32).is_err());
        let y = Case::new(&MULTIPLY, &[]).run1(&[array(&[3i32, -2], &[2]), array(&[0.5f32], &[])]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, -1.0]);
        let y = Case::new(&ADD, &[]).run1(&[array(&[true, true], &[2]), array(&[true, false], &[2])]).unwrap();
        assert_eq!(y.to_vec::<bool>().unwrap(), [true, true]);
    }

    #[test]
    fn gradients_have_the_types_of_the_operands() {
        for (def, a, b) in
            [(&ADD, 1.0, 6.0), (&SUBTRACT, 1.0, -6.0), (&MULTIPLY, 4.0, 14.0), (&TRUE_DIVIDE, 0.25, -14.0 / 16.0)]
        {
            let x = [vector(DType::F64, &[1.0, 2.0, 3.0]), vector(DType::F32, &[4.0])];
            let g = [vector(DType::F64, &[1.0, 2.0, 3.0])];
            let grads = Case::new(def, &[]).backward(&x, &g).unwrap();
            assert_eq!((grads[0].dtype(), grads[1].dtype()), (DType::F64, DType::F32));
            assert_eq!(grads[0].to_vec::<f64>().unwrap()[0], a, "{}", def.name);
            assert_eq!(grads[1].to_vec::<f32>().unwrap(), [b], "{}", def.name);
        }
        let x = [vector(DType::I32, &[1.0]), vector(DType::F32, &[4.0])];
        let grads = Case::new(&ADD, &[]).backward(&x, &[vector(DType::F32, &[2.0])]).unwrap();
        assert_eq!((grads[0].to_vec::<i32>().unwrap(), grads[1].to_vec::<f32>().unwrap()), (vec![0], vec![2.0]));
    }

    #[test]
    fn arctan2_copysign_and_ldexp_handle_special_values() {
        let run = |def, a: &[f64], b: &[f64]| {
            let x = [vector(DType::F64, a), vector(DType::F64, b)];
            Case::new(def, &[]).run1(&x).unwrap().to_vec::<f64>().unwrap()
        };
        let (inf, y) = (f64::INFINITY, [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, f64::INFINITY, 1.0, -2.0]);
        let x = [0.0, 0.0, -0.0, -0.0, 0.0, -0.0, -inf, -inf, -3.0];
        let want: Vec<f64> = y.iter().zip(x).map(|(y, x)| y.atan2(x)).collect();
        crate::testing::close(&run(&ARCTAN2, &y, &x), &want, 1e-15);
        assert_eq!(run(&COPYSIGN, &[2.0, -2.0], &[-0.0, 1.0]), [2.0, 2.0]);
        assert_eq!(run(&LDEXP, &[3.0, -3.0], &[2.0, -1.0]), [12.0, -1.5]);
    }

    #[test]
    fn lcm_and_bitwise_operators_compute_on_integers() {
        let run = |def, a: &[i64], b: &[i64]| {
            let x = [array(a, &[a.len() as i64]), array(b, &[b.len() as i64])];
            Case::new(def, &[]).run1(&x).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(run(&LCM, &[4, 6, 0, 0], &[-6, 4, 5, 0]), [12, 12, 0, 0]);
        assert_eq!(run(&BITWISE_AND, &[6, -1], &[3, 5]), [2, 5]);
        assert_eq!(run(&BITWISE_OR, &[6, -1], &[3, 5]), [7, -1]);
        assert_eq!(run(&BITWISE_XOR, &[6, -1], &[3, 5]), [5, -6]);
        let shape = Case::new(&LCM, &[]).shapes(&[Shape::new(&[2, -1]), Shape::new(&[1, 3])]).unwrap();
        assert_eq!(shape, [Shape::new(&[2, 3])]);
    }
}
