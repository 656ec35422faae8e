//! `argmax` and `argmin`: indices of the largest and smallest elements.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::reduce;

use crate::axes::{Axes, numpy_axes, numpy_reduced, outer_len_inner, reduced, without_axes};
use crate::elemwise::family::NUMERIC;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&ARGMAX, &ARGMIN, &ARGMAX_CHANNEL, &NP_ARGMAX, &NP_ARGMIN];

params! {
    /// Parameters of `argmax` and `argmin`.
    pub struct ArgParam {
        /// The axis to search; a negative one counts from the end. None searches the flattened array.
        axis: Option<i32> = None;
        /// Whether the reduced axis is kept with length 1.
        keepdims: bool = false;
    }
}

pub(super) static ARGMAX: Operator<ArgParam> = Operator::new("argmax")
    .doc("The index of the first largest element along an axis, in the type of the input. NaN is the largest.")
    .inputs(&[arg("data", "The array.")])
    .shape(arg_shape)
    .forward(|ctx, ins, outs| arg_extremum::<true>(ctx, &ins[0], ctx.params::<ArgParam>().axis, &mut outs[0]))
    .grad(Grad::Zero);

pub(super) static ARGMIN: Operator<ArgParam> = Operator::new("argmin")
    .doc("The index of the first smallest element along an axis, in the type of the input. NaN is the smallest.")
    .inputs(&[arg("data", "The array.")])
    .shape(arg_shape)
    .forward(|ctx, ins, outs| arg_extremum::<false>(ctx, &ins[0], ctx.params::<ArgParam>().axis, &mut outs[0]))
    .grad(Grad::Zero);

pub(super) static ARGMAX_CHANNEL: Operator = Operator::new("argmax_channel")
    .doc("The index of the first largest element along axis 1, in the type of the input: the class of each row of scores.")
    .inputs(&[arg("data", "The array, of at least two axes.")])
    .shape(|_, io| {
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(n >= 2, "argmax_channel needs at least two axes, but the input has shape {}", io.ins[0]);
        let out = without_axes(&io.ins[0], &[1]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| arg_extremum::<true>(ctx, &ins[0], Some(1), &mut outs[0]));

fn arg_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ArgParam>();
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let axes: Axes = match p.axis {
        Some(axis) => Axes::from_slice(&[Shape::axis(i64::from(axis), n)?]),
        None => (0..n).collect(),
    };
    let out = reduced(&io.ins[0], &axes, p.keepdims);
    io.assign_out(0, &out)
}

/// Writes the indices of the largest or smallest elements in the type of the input.
fn arg_extremum<const LARGEST: bool>(ctx: &OpCtx<'_>, x: &In<'_>, axis: Option<i32>, out: &mut Out<'_>) -> Result<()> {
    let shape = x.shape().to_usize();
    let dims = match axis {
        None => (1, x.len(), 1),
        Some(axis) => {
            let axis = Shape::axis(i64::from(axis), shape.len())?;
            (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
        }
    };
    ensure!(dims.1 > 0, "{}: cannot search an empty axis of shape {}", ctx.op, x.shape());
    if out.is_empty() {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let (x, out) = (x.slice::<T>()?, out.slice_mut::<T>()?);
        match LARGEST {
            true => reduce::argmax::<T, T, <T as Arith>::Lane>(x, dims, out),
            false => reduce::argmin::<T, T, <T as Arith>::Lane>(x, dims, out),
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

params! {
    /// Parameters of `_npi_argmax` and `_npi_argmin`.
    pub struct NpArgParam {
        /// The axis to reduce; negative ones count from the last. None means the flattened array.
        axis: Option<i32> = None;
        /// Whether the reduced axis is kept with length 1.
        keepdims: bool = false;
    }
}

pub(super) static NP_ARGMAX: Operator<NpArgParam> =
    arg_op("_npi_argmax", "The index of the first largest element along an axis, as int64; NaN counts as the largest.")
        .forward(|ctx, ins, outs| {
            np_arg_extremum(ctx, &ins[0], &mut outs[0], |x, dims, out| {
                dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
                reduce::argmax::<T, i64, <T as Arith>::Lane>(x.slice()?, dims, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, NUMERIC)))
            })
        });

pub(super) static NP_ARGMIN: Operator<NpArgParam> = arg_op(
    "_npi_argmin",
    "The index of the first smallest element along an axis, as int64; NaN counts as the smallest.",
)
.forward(|ctx, ins, outs| {
    np_arg_extremum(ctx, &ins[0], &mut outs[0], |x, dims, out| {
        dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
                reduce::argmin::<T, i64, <T as Arith>::Lane>(x.slice()?, dims, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
});

/// The common part of the definitions of `_npi_argmax` and `_npi_argmin`.
const fn arg_op(name: &'static str, doc: &'static str) -> Operator<NpArgParam> {
    Operator::new(name)
        .doc(doc)
        .shape(|p, io| {
            let p = p.get::<NpArgParam>();
            let Some(n) = io.ins[0].ndim() else { return Ok(()) };
            let axis = ShapeOrNone(p.axis.map(|a| Shape::new(&[a.into()])));
            let out = numpy_reduced(&io.ins[0], &numpy_axes(&axis, n)?, p.keepdims);
            io.assign_out(0, &out)
        })
        .dtype(|_, io| io.assign_out(0, DType::I64))
        .grad(Grad::Zero)
}

/// Writes the indices that `find` finds, as int64. The axis must not be empty.
fn np_arg_extremum(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    out: &mut Out<'_>,
    find: impl Fn(&In<'_>, (usize, usize, usize), &mut [i64]) -> Result<()>,
) -> Result<()> {
    let shape = x.shape().to_usize();
    let dims = match ctx.params::<NpArgParam>().axis {
        Some(axis) if !shape.is_empty() => outer_len_inner(&shape, Shape::axis(axis.into(), shape.len())?),
        _ => (1, x.len(), 1),
    };
    ensure!(dims.1 > 0, "argmax and argmin need a non-empty axis, but the shape is {}", x.shape());
    if out.is_empty() {
        return Ok(());
    }
    find(x, dims, out.slice_mut::<i64>()?)
}

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;

    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn indices_are_found_for_every_type() {
        for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
            let x = vector(dtype, &[1.0, 3.0, 3.0, 7.0, 0.0, 7.0]).reshape(&[2, 3].into()).unwrap();
            let run = |def, attrs: &[(&str, &str)]| {
                let y = Case::new(def, attrs).run1(std::slice::from_ref(&x)).unwrap();
                assert_eq!(y.dtype(), dtype);
                y.to_vec_as::<f64>().unwrap()
            };
            assert_eq!(run(&ARGMAX, &[("axis", "1")]), [1.0, 0.0]);
            assert_eq!(run(&ARGMIN, &[("axis", "-1")]), [0.0, 1.0]);
            assert_eq!(run(&ARGMAX, &[("axis", "0")]), [1.0, 0.0, 1.0]);
            assert_eq!(run(&ARGMAX, &[]), [3.0]);
            assert_eq!(run(&ARGMAX_CHANNEL, &[]), [1.0, 0.0]);
        }
        let x = array(&[1f32, f32::NAN, 3.0, f32::NAN], &[4]);
        assert_eq!(Case::new(&ARGMAX, &[("axis", "0")]).run1(&[x]).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    }

    #[test]
    fn the_axis_is_removed_or_kept_and_must_not_be_empty() {
        let shapes = |def, attrs: &[(&str, &str)], x: &[i64]| {
            Case::new(def, attrs).shapes(&[Shape::new(x)]).map(|s| s[0].clone())
        };
        assert_eq!(shapes(&ARGMAX, &[], &[2, 3, 4]).unwrap(), [1].into());
        assert_eq!(shapes(&ARGMAX, &[("axis", "1"), ("keepdims", "True")], &[2, 3, 4]).unwrap(), [2, 1, 4].into());
        assert_eq!(shapes(&ARGMAX_CHANNEL, &[], &[2, 3, 4]).unwrap(), [2, 4].into());
        assert!(shapes(&ARGMAX, &[("axis", "5")], &[2, 3, 4]).is_err());
        assert!(shapes(&ARGMAX_CHANNEL, &[], &[2]).is_err());
        let e = Case::new(&ARGMAX, &[("axis", "0")]).run1(&[array::<f32>(&[], &[0, 3])]).unwrap_err().to_string();
        assert!(e.contains("empty axis of shape [0,3]"), "{e}");
        for def in [&*ARGMAX, &*NP_ARGMIN] {
            assert!(Case::new(def, &[("axis", "1")]).run1(&[array::<f32>(&[], &[0, 0])]).is_err());
        }
    }
}
