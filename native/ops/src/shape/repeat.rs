//! `tile` and `repeat`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape, Sizes};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;
use ferromx_kernels::reduce::{self, Sum};
use smallvec::SmallVec;

use crate::axes::outer_len_inner;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&TILE, &REPEAT];

params! {
    /// Parameters of `tile`.
    pub struct TileParam {
        /// The number of repetitions along each axis, aligned at the last axis; missing numbers are 1, and missing axes of the array
        /// have length 1.
        reps: Shape = required;
    }
}

pub(super) static TILE: Operator<TileParam> = Operator::new("tile")
    .names_data()
    .aliases(&["_npi_tile"])
    .doc("Repeats the whole array along its axes.")
    .inputs(&[arg("data", "The array to repeat.")])
    .shape(tile_shape)
    .forward(|ctx, ins, outs| {
        let (dims, reps) = (ins[0].shape().to_usize(), ctx.params::<TileParam>().reps.to_usize());
        by_size!(ins[0].dtype(), T => {
            movement::tile(source::<T>(&ins[0])?, &dims, &reps, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let (dims, reps) = (outs[0].shape().to_usize(), ctx.params::<TileParam>().reps.to_usize());
            let rank = dims.len().max(reps.len());
            let aligned = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
            let shape: SmallVec<[usize; 12]> = (0..rank).flat_map(|i| [aligned(&reps, i), aligned(&dims, i)]).collect();
            let axes: Sizes = (0..rank).map(|i| 2 * i).collect();
            sum(ctx, &ins[0], &shape, &axes, &mut outs[0])
        }),
        None,
    ));

/// Sums the input, taken as an array of shape `shape`, over `axes`.
fn sum(ctx: &OpCtx<'_>, input: &In<'_>, shape: &[usize], axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    if input.dtype() == DType::Bool {
        reduce::reduce::<Sum, bool, bool, i32>(input.slice()?, shape, axes, out.slice_mut()?);
        return Ok(());
    }
    dispatch!(input.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        reduce::reduce::<Sum, T, T, <T as Arith>::Lane>(input.slice()?, shape, axes, out.slice_mut()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn tile_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let reps = &p.get::<TileParam>().reps;
    ensure!(reps.dims().iter().all(|r| *r >= 0), "reps={reps} has a negative number");
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let rank = n.max(reps.dims().len());
    // Shapes are aligned at the last axis.
    let aligned = |s: &Shape, i: usize| (i + s.dims().len()).checked_sub(rank).map_or(1, |i| s.dim(i));
    let dim = |i: usize| match aligned(&io.ins[0], i) {
        d if d < 0 => -1,
        d => d * aligned(reps, i),
    };
    let out = Shape::from((0..rank).map(dim).collect::<Dims>());
    io.assign_out(0, &out)
}

params! {
    /// Parameters of `repeat`.
    pub struct RepeatParam {
        /// The number of repetitions of each element.
        repeats: i32 = required;
        /// The axis along which elements are repeated; by default the array is flattened first.
        axis: Option<i32> = None;
    }
}

pub(super) static REPEAT: Operator<RepeatParam> = Operator::new("repeat")
    .names_data()
    .aliases(&["_np_repeat"])
    .doc("Repeats each element along an axis; its copies are adjacent.")
    .inputs(&[arg("data", "The array whose elements are repeated.")])
    .shape(repeat_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<RepeatParam>();
        let shape = repeat_around(p, ins[0].shape())?;
        by_size!(ins[0].dtype(), T => {
            movement::repeat(source::<T>(&ins[0])?, shape, p.repeats as usize, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let p = ctx.params::<RepeatParam>();
            let (outer, n, inner) = repeat_around(p, outs[0].shape())?;
            sum(ctx, &ins[0], &[outer * n, p.repeats as usize, inner], &[1], &mut outs[0])
        }),
        None,
    ));

/// The shape as (outer, n, inner) around the axis of repetition.
fn repeat_around(p: &RepeatParam, shape: &Shape) -> Result<(usize, usize, usize)> {
    let dims = shape.to_usize();
    match p.axis {
        None => Ok((1, shape.num_elements(), 1)),
        Some(axis) => Ok(outer_len_inner(&dims, Shape::axis(i64::from(axis), dims.len())?)),
    }
}

fn repeat_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<RepeatParam>();
    ensure!(p.repeats >= 0, "repeats cannot be a negative number: {} was given", p.repeats);
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let times = |n: i64| if n < 0 { -1 } else { n * i64::from(p.repeats) };
    let out = match p.axis {
        // MXNet drops the other axes.
        _ if p.repeats == 0 => Shape::new(&[0]),
        None => Shape::new(&[times(io.ins[0].product(..))]),
        Some(axis) => {
            let axis = Shape::axis(i64::from(axis), rank)?;
            let mut dims: Dims = io.ins[0].dims().into();
            dims[axis] = times(dims[axis]);
            Shape::from(dims)
        }
    };
    io.assign_out(0, &out)
}
