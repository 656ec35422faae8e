//! `pick` and `batch_take`: one element of each row.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::index::{self, Bounds};
use ferromx_kernels::map::{Arith, Load};

use super::{bad_index, index_type, no_gradient, row_indices};
use crate::axes::outer_len_inner;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};
use crate::rules::first_dtype;

param_enum! {
    /// How `pick` handles indices out of range.
    pub enum PickMode {
        Clip = "clip",
        Wrap = "wrap",
    }
}

params! {
    /// Parameters of `pick`.
    pub struct PickParam {
        /// The axis along which one element is picked; a negative one counts from the last.
        axis: Option<i32> = (Some(-1));
        /// Whether the axis is kept with length 1.
        keepdims: bool = false;
        /// Indices out of range are clipped to the axis (clip) or wrap around (wrap).
        mode: PickMode = (PickMode::Clip);
    }
}

impl PickParam {
    fn axis(&self, rank: usize) -> Result<usize> {
        let Some(axis) = self.axis else {
            return Err(Error::value("pick needs an axis: axis=None is not supported"));
        };
        Shape::axis(i64::from(axis), rank)
    }

    fn outer_len_inner(&self, shape: &Shape) -> Result<(usize, usize, usize)> {
        let dims = shape.to_usize();
        Ok(outer_len_inner(&dims, self.axis(dims.len())?))
    }

    fn bounds(&self) -> Bounds {
        match self.mode {
            PickMode::Clip => Bounds::Clip,
            PickMode::Wrap => Bounds::Wrap,
        }
    }
}

pub(super) static PICK: Operator<PickParam> = Operator::new("pick")
    .aliases(&["_npx_pick", "choose_element_0index"])
    .doc("Picks one element of each row along an axis: for axis 1 of a matrix, out[i] = data[i, index[i]].")
    .inputs(&[
        arg("data", "The array to pick from."),
        arg("index", "The indices, in the shape of data without the axis, or with length 1 there."),
    ])
    .shape(pick_shape)
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<PickParam>();
        pick(ctx, ins, p.outer_len_inner(ins[0].shape())?, p.bounds(), &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let p = ctx.params::<PickParam>();
            let shape = p.outer_len_inner(outs[0].shape())?;
            pick_backward(ctx, ins, shape, p.bounds(), outs)
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

fn pick_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<PickParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = p.axis(rank)?;
    let mut kept: Dims = io.ins[0].dims().into();
    kept[axis] = 1;
    let mut reduced = kept.clone();
    // Picking from a vector gives shape (1,) in MXNet, even with NumPy semantics.
    if rank > 1 || io.ins[1].ndim() == Some(0) {
        reduced.remove(axis);
    }
    let (kept, reduced) = (Shape::from(kept), Shape::from(reduced));
    let has_axis = match io.ins[1].ndim() {
        Some(n) => n == rank,
        None => p.keepdims,
    };
    io.assign_in(1, if has_axis { &kept } else { &reduced })?;
    io.assign_out(0, if p.keepdims { &kept } else { &reduced })
}

/// The indices into an axis of length `len`. MXNet converts them to 32 bits first: a number out of that range becomes the smallest.
fn picked_indices(ctx: &OpCtx<'_>, indices: &In<'_>, len: usize, bounds: Bounds) -> Result<Vec<usize>> {
    if len > i32::MAX as usize || !(indices.dtype().is_float() || indices.dtype() == DType::I64) {
        return row_indices(ctx, indices, len, bounds);
    }
    let narrow = |index: i64| match indices.dtype() {
        DType::I64 => index as i32,
        _ => i32::try_from(index).unwrap_or(i32::MIN),
    };
    index_type!(ctx, indices.dtype(), |I| {
        let narrowed: Vec<i32> = indices.slice::<I>()?.iter().map(|i| narrow(Load::<i64>::lane(*i))).collect();
        index::rows(&narrowed, len, bounds).map_err(bad_index)
    })
}

fn pick(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    shape: (usize, usize, usize),
    bounds: Bounds,
    out: &mut Out<'_>,
) -> Result<()> {
    let rows = picked_indices(ctx, &ins[1], shape.1, bounds)?;
    by_size!(ins[0].dtype(), T => index::pick(source::<T>(&ins[0])?, shape, &rows, target::<T>(out)?));
    Ok(())
}

/// Inputs: gradient of the output, indices. Outputs: gradients of the data and the indices.
fn pick_backward(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    shape: (usize, usize, usize),
    bounds: Bounds,
    outs: &mut [Out<'_>],
) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let rows = picked_indices(ctx, &ins[1], shape.1, bounds)?;
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let out = outs[0].slice_mut::<T>()?;
        out.fill(T::default());
        index::pick_add::<T, <T as Arith>::Lane>(ins[0].slice()?, shape, &rows, out);
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

pub(super) static BATCH_TAKE: Operator = Operator::new("batch_take")
    .doc("Picks one element of each row along the last axis: out[i] = a[i, indices[i]]. Indices out of range are clipped.")
    .inputs(&[
        arg("a", "The array to pick from."),
        arg("indices", "The indices, of type int32: one for each row of a, in the shape that the result has."),
    ])
    .shape(batch_take_shape)
    .dtype(|p, io: &mut DTypeIo<'_>| {
        io.assign_in(1, DType::I32)?;
        first_dtype(p, io)
    })
    .forward(|ctx, ins, outs| pick(ctx, ins, around_last(ins[0].shape()), Bounds::Clip, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let shape = around_last(outs[0].shape());
            pick_backward(ctx, ins, shape, Bounds::Clip, outs)
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

fn batch_take_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (a, indices) = (io.ins[0].clone(), io.ins[1].clone());
    if let Some(rank) = a.ndim() {
        ensure!(rank >= 1, "batch_take needs at least one axis, but a is a scalar");
        let rows = a.product(..rank - 1);
        ensure!(
            !a.is_known() || !indices.is_known() || rows == indices.num_elements() as i64,
            "a of shape {a} has {rows} rows, but the indices have shape {indices}: give one index for each row"
        );
    }
    io.assign_out(0, &indices)
}

/// The shape as (outer, n, inner) around the last axis.
fn around_last(shape: &Shape) -> (usize, usize, usize) {
    let dims = shape.to_usize();
    outer_len_inner(&dims, dims.len().saturating_sub(1))
}
