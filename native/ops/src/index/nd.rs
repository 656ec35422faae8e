//! Gather and scatter at coordinates: `gather_nd`, `scatter_nd`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::index::{self, BadIndex};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;

use super::{index_type, no_gradient};
use crate::compose::op;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};
use crate::rules::{first_dtype, one_dtype_of};

const INDICES: &str =
    "The coordinates, of shape (m, ...): indices[i, ...] is an index into axis i, counted from the end if negative.";

pub(super) static GATHER_ND: Operator = Operator::new("gather_nd")
    .aliases(&["_npi_gather_nd", "_npx_gather_nd"])
    .doc(
        "Gathers the elements, or slices of the last axes, at given coordinates: out[y...] = data[indices[0, y...], ..., indices[m-1, \
         y...]]. Coordinates out of range are an error.",
    )
    .inputs(&[arg("data", "The array to gather from."), arg("indices", INDICES)])
    .shape(|_, io| {
        let (Some(rank), Some(index_rank)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
        let Some(m) = num_coordinates(&io.ins[1], index_rank, rank)? else { return Ok(()) };
        let mut dims: Dims = io.ins[1].dims()[1..].into();
        dims.extend_from_slice(&io.ins[0].dims()[m..]);
        io.assign_out(0, &Shape::from(dims))
    })
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let (rows, shape) = rows_nd(ctx, &ins[1], &ins[0].shape().to_usize())?;
        by_size!(ins[0].dtype(), T => {
            index::gather(source::<T>(&ins[0])?, shape, &rows, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(Backward::new(gather_nd_backward).inputs(Deps::Some(&[1])), None));

/// The number of coordinates of an index, or `None` if it is unknown.
fn num_coordinates(indices: &Shape, index_rank: usize, rank: usize) -> Result<Option<usize>> {
    ensure!(
        index_rank > 1,
        "the indices need at least two dimensions, the first one for the coordinates: got {indices}"
    );
    let Ok(m) = usize::try_from(indices.dim(0)) else { return Ok(None) };
    ensure!(m <= rank, "indices of shape {indices} have {m} coordinates, more than the {rank} axes that they index");
    Ok(Some(m))
}

/// The row that each tuple of coordinates selects from data of shape `dims`, and the data's shape as (1, rows, length of a row).
fn rows_nd(ctx: &OpCtx<'_>, indices: &In<'_>, dims: &[usize]) -> Result<(Vec<usize>, (usize, usize, usize))> {
    let (outer, inner) = dims.split_at(indices.shape().dim(0) as usize);
    let shape = (1, outer.iter().product(), inner.iter().product());
    if outer.is_empty() {
        // A tuple without coordinates selects the whole array.
        let tuples: usize = indices.shape().to_usize()[1..].iter().product();
        return Ok((vec![0; if shape.2 == 0 { 0 } else { tuples }], shape));
    }
    let rows = index_type!(ctx, indices.dtype(), |I| index::rows_nd(indices.slice::<I>()?, outer)
        .map_err(|e| index_error(&e, indices.shape())))?;
    Ok((rows, shape))
}

/// The error for coordinates out of range, in MXNet's words. Its Python package recognizes the first one.
fn index_error(e: &BadIndex, indices: &Shape) -> Error {
    let tuples: usize = indices.to_usize()[1..].iter().product();
    let axis = e.position / tuples.max(1);
    Error::Value(format!("IndexError: index {} is out of bounds for axis {axis} with size {}", e.index, e.len))
}

/// Inputs: gradient of the output, coordinates. Outputs: gradients of the data and the coordinates.
fn gather_nd_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let (rows, shape) = rows_nd(ctx, &ins[1], &outs[0].shape().to_usize())?;
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let out = outs[0].slice_mut::<T>()?;
        movement::fill(out, T::default());
        index::scatter_add::<T, <T as Arith>::Lane>(ins[0].slice()?, &rows, shape, out);
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

params! {
    /// Parameters of `scatter_nd`.
    pub struct ScatterNdParam {
        /// The shape of the result.
        shape: Shape = required;
    }
}

pub(super) static SCATTER_ND: Operator<ScatterNdParam> = Operator::new("scatter_nd")
    .doc(
        "Writes elements, or slices of the last axes, to given coordinates of an array of zeros: the inverse of `gather_nd`. \
         If coordinates occur several times, the last element wins.",
    )
    .inputs(&[arg("data", "The elements to write, of shape (..., last axes of the result)."), arg("indices", INDICES)])
    .shape(scatter_nd_shape)
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let (rows, shape) = rows_nd(ctx, &ins[1], &outs[0].shape().to_usize())?;
        outs[0].bytes_mut()?.fill(0);
        by_size!(ins[0].dtype(), T => {
            index::scatter(source::<T>(&ins[0])?, &rows, shape, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(GATHER_ND(n.ograds[0], n.inputs[1])))?), None])));

pub(super) static SCATTER_SET_ND: Operator<ScatterNdParam> = Operator::new("_scatter_set_nd")
    .aliases(&["_npi_scatter_set_nd"])
    .doc(
        "Replaces elements, or slices of the last axes, of lhs at given coordinates by those of rhs, as an assignment to lhs[indices] \
         does. If coordinates occur several times, the last element wins.",
    )
    .inputs(&[
        arg("lhs", "The array in which elements are replaced."),
        arg("rhs", "The new elements, of shape (..., last axes of lhs)."),
        arg("indices", INDICES),
    ])
    .shape(|p, io| {
        io.assign_in(0, &p.get::<ScatterNdParam>().shape)?;
        scatter_nd_shape(p, &mut ShapeIo { ins: &mut io.ins[1..], outs: io.outs })
    })
    .dtype(|_, io| one_dtype_of(io, [0, 1]))
    .forward(|ctx, ins, outs| {
        let (rows, shape) = rows_nd(ctx, &ins[2], &outs[0].shape().to_usize())?;
        if ins[0].shared_with().is_none() {
            outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        }
        by_size!(ins[1].dtype(), T => {
            index::scatter(source::<T>(&ins[1])?, &rows, shape, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::None)
    .inplace(&[(0, 0)]);

fn scatter_nd_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let shape = &p.get::<ScatterNdParam>().shape;
    io.assign_out(0, shape)?;
    let Some(index_rank) = io.ins[1].ndim() else { return Ok(()) };
    let Some(m) = num_coordinates(&io.ins[1], index_rank, shape.dims().len())? else { return Ok(()) };
    let mut dims: Dims = io.ins[1].dims()[1..].into();
    dims.extend_from_slice(&shape.dims()[m..]);
    io.assign_in(0, &Shape::from(dims))
}
