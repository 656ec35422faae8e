//! Flips, rotations by 90 degrees and rolls: `reverse`, `flip`, `rot90`, `roll`.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::ShapeOrNone;
use ferromx_core::shape::{Dims, Shape, Sizes};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;

use super::axes::permuted_shape;
use crate::axes::{numpy_axes, outer_len_inner};
use crate::compose::op;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&REVERSE, &FLIP, &ROT90, &ROLL];

params! {
    /// Parameters of `reverse`.
    pub struct ReverseParam {
        /// The axes to reverse, counted from 0.
        axis: Shape = required;
    }
}

pub(crate) static REVERSE: Operator<ReverseParam> = Operator::new("reverse")
    .names_data()
    .aliases(&["flip"])
    .doc("Reverses the order of the elements along the given axes.")
    .inputs(&[arg("data", "The array to reverse.")])
    .forward(reverse)
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(REVERSE(n.ograds[0]), ..n.params.get()))?)])));

fn reverse(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dims = ins[0].shape().to_usize();
    let axis = |a: &i64| match usize::try_from(*a).ok().filter(|a| *a < dims.len()) {
        Some(a) => Ok(a),
        None => Err(Error::value(format!("axis {a} is out of range for {} dimensions: count them from 0", dims.len()))),
    };
    let given = ctx.params::<ReverseParam>().axis.dims().iter().map(axis).collect::<Result<Sizes>>()?;
    let axes = odd_axes(&given, dims.len());
    by_size!(ins[0].dtype(), T => movement::flip(source::<T>(&ins[0])?, &dims, &axes, target::<T>(&mut outs[0])?));
    Ok(())
}

params! {
    /// Parameters of `_npi_flip`.
    pub struct FlipParam {
        /// The axes to reverse; negative ones count from the last, () reverses nothing,
        /// None reverses all.
        axis: Shape = required;
    }
}

pub(crate) static FLIP: Operator<FlipParam> = Operator::new("_npi_flip")
    .names_data()
    .doc("Reverses the order of the elements along some axes.")
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let axes = flipped_axes(&ctx.params::<FlipParam>().axis, dims.len())?;
        by_size!(ins[0].dtype(), T => movement::flip(source::<T>(&ins[0])?, &dims, &axes, target::<T>(&mut outs[0])?));
        Ok(())
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(FLIP(n.ograds[0]), ..n.params.get()))?)])));

/// The axes to reverse; None reverses all.
fn flipped_axes(axis: &Shape, rank: usize) -> Result<Sizes> {
    if !axis.ndim_is_known() {
        return Ok((0..rank).collect());
    }
    let given = axis.dims().iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Sizes>>()?;
    Ok(odd_axes(&given, rank))
}

/// The axes that are listed an odd number of times: reversing an axis again restores it.
fn odd_axes(given: &[usize], rank: usize) -> Sizes {
    (0..rank).filter(|a| given.iter().filter(|g| *g == a).count() % 2 == 1).collect()
}

params! {
    /// Parameters of `_npi_rot90`.
    pub struct Rot90Param {
        /// The number of rotations by 90 degrees; negative numbers rotate the other way.
        k: i32 = 1;
        /// The two axes of the plane; the rotation is from the first towards the second.
        axes: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(super) static ROT90: Operator<Rot90Param> = Operator::new("_npi_rot90")
    .names_data()
    .doc("Rotates by k times 90 degrees in the plane of two axes.")
    .shape(|p, io| {
        let p = p.get::<Rot90Param>();
        permuted_shape(io, |rank| Ok(rotation(p, rank)?.0))
    })
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let (perm, flipped) = rotation(ctx.params(), dims.len())?;
        by_size!(ins[0].dtype(), T => {
            movement::permute_flip(source::<T>(&ins[0])?, &dims, &perm, &flipped, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<Rot90Param>();
        Ok(vec![Some(g.op(op!(ROT90(n.ograds[0]), k: -p.k.rem_euclid(4), axes: &p.axes))?)])
    }));

/// A rotation as a transposition: the input axis of each output axis, and whether the elements along it are reversed.
fn rotation(p: &Rot90Param, rank: usize) -> Result<(Vec<usize>, Vec<bool>)> {
    let given = p.axes.0.as_ref().map_or(&[][..], Shape::dims);
    let [a, b] = given[..] else {
        ensure!(false, "axes must be the two axes of a plane, {} were given", given.len());
        return Ok((Vec::new(), Vec::new()));
    };
    let k = p.k.rem_euclid(4);
    if k == 0 {
        // MXNet accepts any axes if the rotation changes nothing.
        return Ok(((0..rank).collect(), vec![false; rank]));
    }
    let (a, b) = (Shape::axis(a, rank)?, Shape::axis(b, rank)?);
    ensure!(a != b, "axes={} must be two different axes", Shape::new(given));
    let mut perm: Vec<usize> = (0..rank).collect();
    if k % 2 == 1 {
        perm.swap(a, b);
    }
    let mut flipped = vec![false; rank];
    flipped[a] = k >= 2;
    flipped[b] = k == 1 || k == 2;
    Ok((perm, flipped))
}

params! {
    /// Parameters of `_np_roll`.
    pub struct RollParam {
        /// The shift: one number, or one for each axis.
        shift: ShapeOrNone = (ShapeOrNone(None));
        /// The axes to roll; by default the flattened array is rolled.
        axis: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(super) static ROLL: Operator<RollParam> = Operator::new("_np_roll")
    .names_data()
    .doc("Rolls the elements along axes; those beyond the last position re-enter at the first.")
    .shape(|p, io| {
        if let Some(rank) = io.ins[0].ndim() {
            rolls(p.get(), rank)?;
        }
        ferromx_core::infer::same_shape(p, io)
    })
    .forward(roll)
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<RollParam>();
        let back: Dims = p.shift.0.as_ref().map_or(&[][..], Shape::dims).iter().map(|s| s.saturating_neg()).collect();
        Ok(vec![Some(g.op(op!(ROLL(n.ograds[0]), shift: Shape::from(back), axis: &p.axis))?)])
    }));

/// The axes to roll and their shifts. An axis of `None` rolls the flattened array.
fn rolls(p: &RollParam, rank: usize) -> Result<Vec<(Option<usize>, i64)>> {
    let Some(shift) = &p.shift.0 else {
        ensure!(false, "shift is missing: give a number, or one for each axis");
        return Ok(Vec::new());
    };
    let Some(axis) = &p.axis.0 else {
        ensure!(shift.dims().len() == 1, "shift={shift} must be one number if no axis is given");
        return Ok(vec![(None, shift.dim(0))]);
    };
    let (shifts, n) = (shift.dims(), axis.dims().len());
    ensure!(shifts.len() == n || shifts.len() == 1, "shift={shift} and axis={axis} must have the same length");
    numpy_axes(&p.axis, rank)?;
    let each = axis.dims().iter().enumerate();
    each.map(|(i, a)| Ok((Some(Shape::axis(*a, rank)?), shifts[if shifts.len() == 1 { 0 } else { i }]))).collect()
}

fn roll(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dims = ins[0].shape().to_usize();
    if ins[0].is_empty() {
        return Ok(());
    }
    let mut steps = Vec::new();
    for (axis, shift) in rolls(ctx.params(), dims.len())? {
        let extents = axis.map_or((1, ins[0].len(), 1), |axis| outer_len_inner(&dims, axis));
        steps.push((extents, shift.rem_euclid(extents.1 as i64) as usize));
    }
    by_size!(ins[0].dtype(), T => {
        let (src, dst) = (source::<T>(&ins[0])?, target::<T>(&mut outs[0])?);
        match &steps[..] {
            [] => dst.copy_from_slice(src),
            [(extents, shift), rest @ ..] => {
                movement::roll(src, *extents, *shift, dst);
                for (extents, shift) in rest {
                    with_scratch(dst.len(), |src: &mut [T]| {
                        src.copy_from_slice(dst);
                        movement::roll(src, *extents, *shift, dst);
                    });
                }
            }
        }
    });
    Ok(())
}
