//! Arithmetic of an array and a number; most operators are those of [`elemwise`](crate::elemwise) under another name.
#![allow(clippy::excessive_precision, clippy::approx_constant)] // The constants serve single and double precision alike.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{Deps, OpCtx, OpDef};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::Elements;

use super::binary::*;
use super::elements;
use super::unary::int_dtype;
use crate::elemwise::family::{Arg, Graph, Loops, broadcast_loops, elements_mut, scalar};
use crate::elemwise::formulas::{Div, DivA, DivB};
use crate::elemwise::scalar::{
    self as plain, DATA, ScalarParam, forward, forward_backward, reverse, reverse_backward, scalar_dtype,
};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &plain::PLUS.renamed("_npi_add_scalar"),
    &plain::MINUS.renamed("_npi_subtract_scalar"),
    &plain::RMINUS.renamed("_npi_rsubtract_scalar"),
    &plain::MUL.renamed("_npi_multiply_scalar"),
    &plain::MOD.renamed("_npi_mod_scalar"),
    &plain::RMOD.renamed("_npi_rmod_scalar"),
    &plain::POWER.renamed("_npi_power_scalar"),
    &plain::RPOWER.renamed("_npi_rpower_scalar"),
    &TRUE_DIVIDE,
    &RTRUE_DIVIDE,
    &ARCTAN2,
    &RARCTAN2,
    &COPYSIGN,
    &RCOPYSIGN,
    &LDEXP,
    &RLDEXP,
    &LCM,
    &BITWISE_AND,
    &BITWISE_OR,
    &BITWISE_XOR,
];

/// Defines a true division, whose result is floating-point for every array type.
macro_rules! quotient {
    ($name:ident: $op:literal, $doc:literal, $forward:ident, $Df:ident, $backward:ident) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc($doc)
            .inputs(DATA)
            .params::<ScalarParam>()
            .dtype(float_dtype)
            .forward($forward)
            .grad(Grad::Kernel(Backward::new($backward::<$Df>).inputs(Deps::Some(&[0])), None));
    };
}

quotient!(TRUE_DIVIDE: "_npi_true_divide_scalar", "data / scalar; float32 for integers and bool.",
    divide, DivA, forward_backward);
quotient!(RTRUE_DIVIDE: "_npi_rtrue_divide_scalar", "scalar / data; float32 for integers and bool.",
    divide_by, DivB, reverse_backward);

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

scalar!(ARCTAN2: "_npi_arctan2_scalar", "The angle of the point (scalar, data), in radians.",
Arctan2(x, s), df = Arctan2A, graph = |g, n, s| {
    let d = g.op("square", n.inputs[0])?;
    let d = g.affine(d, 1.0, s * s)?;
    let d = g.with("_rdiv_scalar", d, s)?;
    g.mul(n.ograds[0], d)
});
scalar!(RARCTAN2: "_npi_rarctan2_scalar", "The angle of the point (data, scalar), in radians.",
Arctan2(s, x), df = Arctan2B, graph = |g, n, s| {
    let d = g.op("square", n.inputs[0])?;
    let d = g.affine(d, 1.0, s * s)?;
    let d = g.with("_rdiv_scalar", d, -s)?;
    g.mul(n.ograds[0], d)
});
scalar!(COPYSIGN: "_npi_copysign_scalar", "The magnitude of data with the sign of the scalar.",
Copysign(x, s), df = CopysignA, graph = |g, n, s| {
    // The sign of data as 1 or -1, then that of the scalar.
    let d = g.with("_greater_equal_scalar", n.inputs[0], 0.0)?;
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

/// Defines an operator of integers (or bool) and a whole number.
macro_rules! int_scalar {
    ($name:ident: $op:literal, $doc:literal, $F:ident) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc($doc)
            .inputs(DATA)
            .params::<ScalarParam>()
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

int_scalar!(LCM: "_npi_lcm_scalar", "The least common multiple of |data| and |scalar|.", Lcm);
int_scalar!(BITWISE_AND: "_npi_bitwise_and_scalar", "The bits that are set in data and the scalar.", BitAnd);
int_scalar!(BITWISE_OR: "_npi_bitwise_or_scalar", "The bits that are set in data or the scalar.", BitOr);
int_scalar!(BITWISE_XOR: "_npi_bitwise_xor_scalar", "The bits that are set in exactly one of data and the scalar.", BitXor);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        for def in [&TRUE_DIVIDE, &RTRUE_DIVIDE, &ARCTAN2, &RARCTAN2, &COPYSIGN, &RCOPYSIGN, &LDEXP, &RLDEXP] {
            for scalar in ["2.5", "-0.75"] {
                let x = vector(DType::F64, &[0.7, -1.9, 5.3]);
                Case::new(def, &[("scalar", scalar), ("is_int", "False")]).check_gradient(&[x]);
            }
        }
    }

    #[test]
    fn quotients_of_integers_are_fractions() {
        let run = |def, x| Case::new(def, &[("scalar", "2")]).run1(&[x]).unwrap();
        assert_eq!(run(&TRUE_DIVIDE, array(&[3i64, -1], &[2])).to_vec::<f32>().unwrap(), [1.5, -0.5]);
        assert_eq!(run(&RTRUE_DIVIDE, array(&[true, false], &[2])).to_vec::<f32>().unwrap(), [2.0, f32::INFINITY]);
        assert_eq!(run(&TRUE_DIVIDE, vector(DType::F16, &[3.0])).dtype(), DType::F16);
    }

    #[test]
    fn bits_of_a_negative_number() {
        let run = |def, x| Case::new(def, &[("scalar", "-6")]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap();
        assert_eq!(run(&BITWISE_XOR, array(&[4i32, 9], &[2])), [-2.0, -13.0]);
        assert_eq!(run(&BITWISE_AND, array(&[4u8, 255], &[2])), [0.0, 250.0]);
        assert_eq!(run(&BITWISE_OR, array(&[true, false], &[2])), [1.0, 1.0]);
        assert_eq!(run(&BITWISE_AND, array(&[true, false], &[2])), [1.0, 0.0]);
        assert_eq!(run(&LCM, array(&[4i64, 0], &[2])), [12.0, 0.0]);
    }
}
