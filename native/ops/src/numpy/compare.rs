//! Comparisons of two arrays, and of an array and a number, with results of type bool.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{OpCtx, OpDef};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::broadcast::broadcast_any;
use ferromx_kernels::map::{Elements, Src};
use ferromx_kernels::zip::zip;

use super::{elements, lanes_or_bool};
use crate::broadcast::binary::{LHS_RHS, broadcast_shapes};
use crate::elemwise::family::{Binary, lanes};
use crate::elemwise::formulas::*;
use crate::elemwise::scalar::{DATA, ScalarParam};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &EQUAL,
    &NOT_EQUAL,
    &GREATER,
    &GREATER_EQUAL,
    &LESS,
    &LESS_EQUAL,
    &EQUAL_SCALAR,
    &NOT_EQUAL_SCALAR,
    &GREATER_SCALAR,
    &GREATER_EQUAL_SCALAR,
    &LESS_SCALAR,
    &LESS_EQUAL_SCALAR,
];

/// Defines a comparison of two arrays, and the same comparison of an array and a number.
macro_rules! comparison {
    ($name:ident: $op:literal, $scalar_name:ident: $scalar_op:literal, $relation:literal, $F:ident) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc(concat!("Whether lhs ", $relation, " rhs, with broadcasting, as bool. The arrays have one type."))
            .inputs(LHS_RHS)
            .shape(broadcast_shapes)
            .dtype(comparison_dtype)
            .forward(forward::<$F>)
            .grad(Grad::Zero);

        pub(crate) static $scalar_name: OpDef = OpDef::new($scalar_op)
            .doc(concat!("Whether data ", $relation, " the scalar, as bool."))
            .inputs(DATA)
            .params::<ScalarParam>()
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
    let (a, b, out) = (&ins[0], &ins[1], &mut outs[0]);
    let (a_shape, b_shape, shape) = (a.shape().to_usize(), b.shape().to_usize(), out.shape().to_usize());
    let (a_elements, b_elements) = ((elements(a)?, &a_shape[..]), (elements(b)?, &b_shape[..]));
    let out = (out.slice_mut::<bool>()?, &shape[..]);
    lanes_or_bool!(ctx, a.dtype(), F, |_T, f| broadcast_any(a_elements, b_elements, out, f));
    Ok(())
}

/// Floats are compared in their dtype; integers as integers if the scalar is a whole number, otherwise in double precision.
fn with_scalar<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (x, p, out) = (&ins[0], ctx.params::<ScalarParam>(), outs[0].slice_mut::<bool>()?);
    if x.dtype().is_float() {
        lanes!(ctx, x.dtype(), F, |T, f| {
            let scalar = Src::Scalar(<T as ferromx_core::dtype::Element>::from_f64(p.scalar));
            zip(Src::Slice(x.slice::<T>()?), scalar, out, f);
        });
        return Ok(());
    }
    let n = [x.len()];
    let x = (elements(x)?, &n[..]);
    if p.is_int || p.scalar.fract() == 0.0 {
        let scalar = [p.scalar as i64];
        broadcast_any(x, (Elements::I64(&scalar), &[]), (out, &n), F::i64);
    } else {
        broadcast_any(x, (Elements::F64(&[p.scalar]), &[]), (out, &n), F::f64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn every_type_compares_to_booleans() {
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
    fn scalars_are_not_truncated_to_the_arrays_type() {
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
