//! Comparisons of two arrays, and of an array and a number, with results of type bool.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::Elements;

use super::binary::{LHS_RHS, broadcast_shapes};
use crate::elemwise::family::{Arg, Binary, Loops, broadcast_loops, elements, elements_mut, lane_dtype};
use crate::elemwise::formulas::*;
use crate::elemwise::scalar::{DATA, ScalarParam};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &EQUAL,
    &EQUAL_SCALAR,
    &NOT_EQUAL,
    &NOT_EQUAL_SCALAR,
    &GREATER,
    &GREATER_SCALAR,
    &GREATER_EQUAL,
    &GREATER_EQUAL_SCALAR,
    &LESS,
    &LESS_SCALAR,
    &LESS_EQUAL,
    &LESS_EQUAL_SCALAR,
];

/// Defines a comparison of two arrays, and the same comparison of an array and a number.
macro_rules! comparison {
    ($name:ident: $op:literal, $scalar_name:ident: $scalar_op:literal, $relation:literal, $F:ident) => {
        pub(crate) static $name: Operator = Operator::new($op)
            .doc(concat!("Whether lhs ", $relation, " rhs, with broadcasting, as bool. The arrays have one type."))
            .inputs(LHS_RHS)
            .shape(broadcast_shapes)
            .dtype(comparison_dtype)
            .forward(forward::<$F>)
            .grad(Grad::Zero);

        pub(crate) static $scalar_name: Operator<ScalarParam> = Operator::new($scalar_op)
            .names_data()
            .doc(concat!("Whether data ", $relation, " the scalar, as bool."))
            .inputs(DATA)
            .dtype(|_, io| io.assign_out(0, DType::Bool))
            .forward(with_scalar::<$F>)
            .grad(Grad::Zero);
    };
}

comparison!(EQUAL: "_npi_equal", EQUAL_SCALAR: "_npi_equal_scalar", "equals", Equal);
comparison!(NOT_EQUAL: "_npi_not_equal", NOT_EQUAL_SCALAR: "_npi_not_equal_scalar", "differs from", NotEqual);
comparison!(GREATER: "_npi_greater", GREATER_SCALAR: "_npi_greater_scalar", "is greater than", Greater);
comparison!(GREATER_EQUAL: "_npi_greater_equal", GREATER_EQUAL_SCALAR: "_npi_greater_equal_scalar",
    "is greater than or equal to", GreaterEqual);
comparison!(LESS: "_npi_less", LESS_SCALAR: "_npi_less_scalar", "is less than", Lesser);
comparison!(LESS_EQUAL: "_npi_less_equal", LESS_EQUAL_SCALAR: "_npi_less_equal_scalar",
    "is less than or equal to", LesserEqual);

fn comparison_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    if let Some(d) = io.ins[0].or(io.ins[1]) {
        io.assign_in(0, d)?;
        io.assign_in(1, d)?;
    }
    io.assign_out(0, DType::Bool)
}

fn forward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    compare(ctx, const { &Loops::binary::<F>() }, [&ins[0], &ins[1]], &mut outs[0])
}

fn compare(ctx: &OpCtx<'_>, loops: &Loops, [a, b]: [&In<'_>; 2], out: &mut Out<'_>) -> Result<()> {
    let (a_shape, b_shape, shape) = (a.shape().to_usize(), b.shape().to_usize(), out.shape().to_usize());
    let operands = [(Arg::Elements(elements(a)?), &a_shape[..]), (Arg::Elements(elements(b)?), &b_shape[..])];
    broadcast_loops(ctx, loops, lane_dtype(a.dtype()), operands, (elements_mut(out)?, &shape))
}

fn with_scalar<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    compare_scalar(ctx, const { &Loops::binary::<F>() }, &ins[0], &mut outs[0])
}

/// Compares floats in their own type. Integers are compared as int64 with an integer scalar, otherwise in double precision.
fn compare_scalar(ctx: &OpCtx<'_>, loops: &Loops, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let p = ctx.params::<ScalarParam>();
    let (n, integer) = ([x.len()], [p.scalar as i64]);
    let (scalar, dtype) = match x.dtype() {
        float if float.is_float() => (Arg::Number(p.scalar), float),
        _ if p.is_int || p.scalar.fract() == 0.0 => (Arg::Elements(Elements::I64(&integer)), DType::I64),
        _ => (Arg::Number(p.scalar), DType::F64),
    };
    let operands = [(Arg::Elements(elements(x)?), &n[..]), (scalar, &[][..])];
    broadcast_loops(ctx, loops, dtype, operands, (elements_mut(out)?, &n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn comparisons_of_every_type_return_booleans() {
        for dtype in DType::ALL {
            let x = [vector(dtype, &[1.0, 0.0, 1.0]), vector(dtype, &[1.0, 1.0, 0.0])];
            let run = |def| Case::new(def, &[]).run1(&x).unwrap().to_vec::<bool>().unwrap();
            assert_eq!(run(&EQUAL), [true, false, false], "{dtype}");
            assert_eq!(run(&NOT_EQUAL), [false, true, true], "{dtype}");
            assert_eq!(run(&GREATER), [false, false, true], "{dtype}");
            assert_eq!(run(&GREATER_EQUAL), [true, false, true], "{dtype}");
            assert_eq!(run(&LESS), [false, true, false], "{dtype}");
            assert_eq!(run(&LESS_EQUAL), [true, true, false], "{dtype}");
        }
        assert!(Case::new(&EQUAL, &[]).dtypes(&[Some(DType::F32), Some(DType::F64)]).is_err());
    }

    #[test]
    fn scalars_are_not_truncated_to_the_type_of_the_array() {
        let run = |def, x, scalar, is_int| {
            Case::new(def, &[("scalar", scalar), ("is_int", is_int)]).run1(&[x]).unwrap().to_vec::<bool>().unwrap()
        };
        assert_eq!(run(&GREATER_SCALAR, array(&[2i32, 3], &[2]), "2.5", "0"), [false, true]);
        assert_eq!(run(&GREATER_SCALAR, array(&[2u8, 3], &[2]), "-1", "1"), [true, true]);
        assert_eq!(run(&LESS_SCALAR, array(&[true, false], &[2]), "0.5", "0"), [false, true]);
        assert_eq!(run(&EQUAL_SCALAR, array(&[(1i64 << 53) + 1], &[1]), "9007199254740992", "1"), [false]);
        assert_eq!(run(&EQUAL_SCALAR, array(&[0.1f32], &[1]), "0.1", "0"), [true]);
    }
}
