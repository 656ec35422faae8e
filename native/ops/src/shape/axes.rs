//! Operators that permute, insert, remove and reverse axes.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Compose, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape, Sizes};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;

use super::moves::{by_size, source, target};
use crate::rules::RESHAPE_BACK;

/// The operators of this file.
pub(crate) static OPS: &[&OpDef] = &[&TRANSPOSE, &SWAP_AXIS, &EXPAND_DIMS, &SQUEEZE, &REVERSE];

params! {
    /// Parameters of `transpose`.
    pub struct TransposeParam {
        /// The input axis of each output axis; by default the axes are reversed.
        axes: Shape = (Shape::new(&[]));
    }
}

pub(crate) static TRANSPOSE: OpDef = OpDef::new("transpose")
    .doc("Permutes the axes: axis i of the result is axis `axes[i]` of the input.")
    .inputs(&[arg("data", "The array to transpose.")])
    .params::<TransposeParam>()
    .shape(transpose_shape)
    .forward(|ctx, ins, outs| {
        let axes = permutation(ctx.params::<TransposeParam>(), ins[0].shape().dims().len())?;
        permute(&ins[0], &ins[0].shape().to_usize(), &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let axes = &n.params.get::<TransposeParam>().axes;
        let mut inverse: Dims = axes.dims().into();
        for (i, axis) in axes.dims().iter().enumerate() {
            if let Some(entry) = usize::try_from(*axis).ok().and_then(|axis| inverse.get_mut(axis)) {
                *entry = i as i64;
            }
        }
        Ok(vec![Some(g.apply1("transpose", &n.ograds[..1], &[("axes", &Shape::from(inverse).to_string())])?)])
    }));

/// The permutation as indices of `rank` axes.
fn permutation(p: &TransposeParam, rank: usize) -> Result<Sizes> {
    if p.axes.dims().is_empty() {
        return Ok((0..rank).rev().collect());
    }
    let axes: Sizes = p.axes.dims().iter().filter_map(|a| usize::try_from(*a).ok()).collect();
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    ensure!(
        axes.len() == p.axes.dims().len() && sorted.iter().copied().eq(0..rank),
        "axes={} is not a permutation of the {rank} axes of the input: list each of 0 to {} once",
        p.axes,
        rank.saturating_sub(1)
    );
    Ok(axes)
}

fn transpose_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let Some(rank) = io.ins[0].ndim().or(io.outs[0].ndim()) else { return Ok(()) };
    let axes = permutation(p.get(), rank)?;
    if io.ins[0].ndim_is_known() {
        let dims = io.ins[0].dims();
        let out: Dims = axes.iter().map(|a| dims[*a]).collect();
        io.assign_out(0, &Shape::from(out))?;
    }
    if io.outs[0].ndim_is_known() {
        let mut back: Dims = std::iter::repeat_n(-1, rank).collect();
        for (a, d) in axes.iter().zip(io.outs[0].dims()) {
            back[*a] = *d;
        }
        io.assign_in(0, &Shape::from(back))?;
    }
    Ok(())
}

/// Transposes the input, taken as an array of shape `dims`.
pub(crate) fn permute(input: &In<'_>, dims: &[usize], axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    by_size!(input.dtype(), |T| movement::transpose(source::<T>(input)?, dims, axes, target::<T>(out)?));
    Ok(())
}

params! {
    /// Parameters of `SwapAxis`.
    pub struct SwapAxisParam {
        /// One axis; a negative one counts from the end.
        dim1: i32 = 0;
        /// The other axis.
        dim2: i32 = 0;
    }
}

pub(crate) static SWAP_AXIS: OpDef = OpDef::new("SwapAxis")
    .legacy()
    .aliases(&["_npi_swapaxes", "swapaxes"])
    .doc("Swaps the axes dim1 and dim2.")
    .inputs(&[arg("data", "The array whose axes are swapped.")])
    .params::<SwapAxisParam>()
    .shape(|p, io| {
        if let Some(rank) = io.ins[0].ndim() {
            let (a, b) = swapped(p.get(), rank)?;
            let mut dims: Dims = io.ins[0].dims().into();
            dims.swap(a, b);
            io.assign_out(0, &Shape::from(dims))?;
        }
        if let Some(rank) = io.outs[0].ndim() {
            let (a, b) = swapped(p.get(), rank)?;
            let mut dims: Dims = io.outs[0].dims().into();
            dims.swap(a, b);
            io.assign_in(0, &Shape::from(dims))?;
        }
        Ok(())
    })
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let (a, b) = swapped(ctx.params(), dims.len())?;
        let mut axes: Sizes = (0..dims.len()).collect();
        axes.swap(a, b);
        permute(&ins[0], &dims, &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.apply1("SwapAxis", &n.ograds[..1], n.attrs)?)])));

fn swapped(p: &SwapAxisParam, rank: usize) -> Result<(usize, usize)> {
    Ok((Shape::axis(i64::from(p.dim1), rank)?, Shape::axis(i64::from(p.dim2), rank)?))
}

params! {
    /// Parameters of `expand_dims`.
    pub struct ExpandDimParam {
        /// Index of the new axis in the result; -1 is the last axis.
        axis: i32 = required;
    }
}

pub(crate) static EXPAND_DIMS: OpDef = OpDef::new("expand_dims")
    .aliases(&["_npi_expand_dims"])
    .doc("Inserts an axis of length 1, without copying.")
    .inputs(&[arg("data", "The array to expand.")])
    .params::<ExpandDimParam>()
    .shape(|p, io| {
        let axis = i64::from(p.get::<ExpandDimParam>().axis);
        if let Some(rank) = io.ins[0].ndim() {
            let mut dims: Dims = io.ins[0].dims().into();
            dims.insert(Shape::axis(axis, rank + 1)?, 1);
            io.assign_out(0, &Shape::from(dims))?;
        }
        if let Some(rank) = io.outs[0].ndim() {
            let mut dims: Dims = io.outs[0].dims().into();
            dims.remove(Shape::axis(axis, rank)?);
            io.assign_in(0, &Shape::from(dims))?;
        }
        Ok(())
    })
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

params! {
    /// Parameters of `squeeze`.
    pub struct SqueezeParam {
        /// The axes to remove, all of length 1; by default every axis of length 1.
        axis: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(crate) static SQUEEZE: OpDef = OpDef::new("squeeze")
    .names_data()
    .doc("Removes axes of length 1, without copying. At least one axis is kept.")
    .inputs(&[arg("data", "The array to squeeze.")])
    .params::<SqueezeParam>()
    .shape(squeeze_shape)
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

fn squeeze_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let shape = io.ins[0].clone();
    let Some(rank) = shape.ndim() else { return Ok(()) };
    let mut removed = vec![false; rank];
    match &p.get::<SqueezeParam>().axis.0 {
        None if !shape.is_known() => return Ok(()),
        None => removed = shape.dims().iter().map(|d| *d == 1).collect(),
        Some(axes) => {
            for axis in axes.dims() {
                let i = Shape::axis(*axis, rank)?;
                ensure!(!removed[i], "axis={axes} names axis {i} twice");
                let n = shape.dim(i);
                ensure!(n == 1 || n < 0, "axis {i} of length {n} cannot be removed from shape {shape}: it must be 1");
                removed[i] = true;
            }
        }
    }
    let mut kept: Dims = shape.dims().iter().zip(&removed).filter(|(_, removed)| !**removed).map(|(d, _)| *d).collect();
    if kept.is_empty() {
        kept.push(1);
    }
    io.assign_out(0, &Shape::from(kept))
}

params! {
    /// Parameters of `reverse`.
    pub struct ReverseParam {
        /// The axes to reverse, counted from 0.
        axis: Shape = required;
    }
}

const REVERSE_BACK: Compose = |g, n| Ok(vec![Some(g.apply1("reverse", &n.ograds[..1], n.attrs)?)]);

pub(crate) static REVERSE: OpDef = OpDef::new("reverse")
    .names_data()
    .aliases(&["flip"])
    .doc("Reverses the order of the elements along the given axes.")
    .inputs(&[arg("data", "The array to reverse.")])
    .params::<ReverseParam>()
    .forward(reverse)
    .grad(Grad::Compose(REVERSE_BACK));

fn reverse(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dims = ins[0].shape().to_usize();
    let axis = |a: &i64| match usize::try_from(*a).ok().filter(|a| *a < dims.len()) {
        Some(a) => Ok(a),
        None => Err(Error::value(format!("axis {a} is out of range for {} dimensions: count them from 0", dims.len()))),
    };
    let given = ctx.params::<ReverseParam>().axis.dims().iter().map(axis).collect::<Result<Sizes>>()?;
    // An axis that is given twice is reversed twice.
    let is_odd = |a: &usize| given.iter().filter(|b| *b == a).count() % 2 == 1;
    let axes: Sizes = (0..dims.len()).filter(is_odd).collect();
    by_size!(ins[0].dtype(), |T| movement::flip(source::<T>(&ins[0])?, &dims, &axes, target::<T>(&mut outs[0])?));
    Ok(())
}
