//! `ravel_multi_index` and `unravel_index`: conversion between coordinates and flat (row-major) indices.

use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{Operator, arg};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::index;

use crate::elemwise::family::NUMERIC;

params! {
    /// Parameters of `_ravel_multi_index` and `_unravel_index`.
    pub struct RavelParam {
        /// The shape of the array that the indices point into; its first length may be -1.
        shape: Shape = (Shape::unknown());
    }
}

const SHAPE_NEEDED: &str = "the parameter shape is needed: the shape of the array that the indices point into";

/// The lengths of all axes but the first, on which the result does not depend.
fn inner_lengths(p: &RavelParam) -> Result<Vec<i64>> {
    ensure!(p.shape.ndim().is_some_and(|n| n > 0), "{SHAPE_NEEDED}");
    let lengths = p.shape.dims()[1..].to_vec();
    ensure!(lengths.iter().all(|n| *n > 0), "shape={} is invalid: only the first length may be unknown", p.shape);
    Ok(lengths)
}

pub(super) static RAVEL_MULTI_INDEX: Operator<RavelParam> = Operator::new("_ravel_multi_index").names_data()
    .aliases(&["ravel_multi_index"])
    .doc(
        "The flat (row-major) indices of elements with given coordinates in an array of the given shape: data of shape (d, n) \
         has the d coordinates of an element in each column. For shape (7, 6), the coordinates (3, 4) give 22.",
    )
    .inputs(&[arg("data", "The coordinates, of shape (d, n).")])
    .shape(|p, io| {
        let p = p.get::<RavelParam>();
        let axes = inner_lengths(p)?.len() + 1;
        let rank = io.ins[0].ndim().or(io.outs[0].ndim().map(|rank| rank + 1));
        let Some(rank) = rank else { return Ok(()) };
        ensure!(rank == 2, "the coordinates must have shape (d, n), not {}", io.ins[0]);
        let n = io.outs[0].dim(0);
        io.assign_in(0, &Shape::new(&[axes as i64, n]))?;
        let n = io.ins[0].dim(1);
        io.assign_out(0, &Shape::new(&[n]))
    })
    .forward(|ctx, ins, outs| {
        let lengths = inner_lengths(ctx.params())?;
        dispatch!(ins[0].dtype(), T in [f32, f64, half::f16, u8, i8, i32, i64] => {
            index::ravel(ins[0].slice::<T>()?, &lengths, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Zero);

pub(super) static UNRAVEL_INDEX: Operator<RavelParam> = Operator::new("_unravel_index").names_data()
    .aliases(&["unravel_index"])
    .doc(
        "The coordinates of elements of an array of the given shape from their flat (row-major) indices: data of shape (n,) gives (d, \
         n), a column for each. For shape (7, 6), 22 gives (3, 4).",
    )
    .inputs(&[arg("data", "The flat indices of the elements, of any shape.")])
    .shape(|p, io| {
        let axes = inner_lengths(p.get())?.len() as i64 + 1;
        if let [_, indices @ ..] = io.outs[0].dims() {
            let indices = Shape::new(indices);
            io.assign_in(0, &indices)?;
        }
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let out: Dims = std::iter::once(axes).chain(io.ins[0].dims().iter().copied()).collect();
        io.assign_out(0, &Shape::from(out))
    })
    .forward(|ctx, ins, outs| {
        let lengths = inner_lengths(ctx.params())?;
        dispatch!(ins[0].dtype(), T in [f32, f64, half::f16, u8, i8, i32, i64] => {
            index::unravel(ins[0].slice::<T>()?, &lengths, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Zero);
