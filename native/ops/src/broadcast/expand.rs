//! `broadcast_to`, `broadcast_axis`, `broadcast_like`.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;

use super::backward;
use super::backward::sum_to;
use crate::movement::{by_size, source, target};
use crate::rules::{first_dtype, no_gradient};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&BROADCAST_TO, &BROADCAST_AXIS, &BROADCAST_LIKE, &NP_BROADCAST_TO];

params! {
    /// Parameters of `broadcast_to`.
    pub struct BroadcastToParam {
        /// The shape of the result, of the rank of the input; 0 keeps the input's length.
        shape: Shape = (Shape::new(&[]));
    }
}

pub(super) static BROADCAST_TO: Operator<BroadcastToParam> = Operator::new("broadcast_to")
    .doc("Broadcasts axes of length 1 to the lengths in `shape`: an input of shape (2, 1) with shape=(2, 3) gives rows of equal elements.")
    .inputs(&[arg("data", "The array; each axis has length 1 or that of the result.")])
    .shape(|p, io| {
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        let target = p.get::<BroadcastToParam>().shape.dims();
        ensure!(
            target.len() == n,
            "broadcast_to: the input of shape {} has {n} axes, but shape={} has {}: give one length per axis, 0 to keep it",
            io.ins[0],
            Shape::new(target),
            target.len()
        );
        let lengths: Vec<_> = target.iter().copied().enumerate().filter(|(_, d)| *d > 0).collect();
        assign_expanded(&lengths, io)
    })
    .forward(broadcast_to)
    .grad(Grad::Kernel(Backward::new(sum_backward), Some(backward::BROADCAST)));

params! {
    /// Parameters of `broadcast_axis`.
    pub struct BroadcastAxisParam {
        /// The axes to broadcast, each of length 1.
        axis: Shape = (Shape::new(&[]));
        /// The new length of each of these axes.
        size: Shape = (Shape::new(&[]));
    }
}

pub(super) static BROADCAST_AXIS: Operator<BroadcastAxisParam> = Operator::new("broadcast_axis")
    .aliases(&["broadcast_axes"])
    .doc("Broadcasts axes of length 1: an input of shape (1, 2, 1) with axis=(0, 2), size=(3, 4) gives a result of shape (3, 2, 4).")
    .inputs(&[arg("data", "The array.")])
    .shape(|p, io| {
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        let p = p.get::<BroadcastAxisParam>();
        let (axes, sizes) = (p.axis.dims(), p.size.dims());
        ensure!(
            axes.len() == sizes.len(),
            "broadcast_axis: {} axes were given with {} sizes: give one size per axis",
            axes.len(),
            sizes.len()
        );
        let mut lengths = Vec::new();
        for (axis, size) in axes.iter().zip(sizes) {
            let axis = Shape::axis(*axis, n)?;
            ensure!(lengths.iter().all(|(a, _)| *a != axis), "broadcast_axis: axis {axis} is given twice in {}", p.axis);
            ensure!(*size > 0, "broadcast_axis: size {size} of axis {axis} is not positive");
            ensure!(
                io.ins[0].dim(axis) <= 1,
                "broadcast_axis: axis {axis} of shape {} has length {}, only axes of length 1 are repeated",
                io.ins[0],
                io.ins[0].dim(axis)
            );
            lengths.push((axis, *size));
        }
        assign_expanded(&lengths, io)
    })
    .forward(broadcast_to)
    .grad(Grad::Kernel(Backward::new(sum_backward), Some(backward::BROADCAST)));

params! {
    /// Parameters of `broadcast_like`.
    pub struct BroadcastLikeParam {
        /// The axes of lhs to broadcast; by default all.
        lhs_axes: ShapeOrNone = (ShapeOrNone(None));
        /// The axes of rhs whose lengths they take.
        rhs_axes: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(crate) static BROADCAST_LIKE: Operator<BroadcastLikeParam> = Operator::new("broadcast_like")
    .doc("Broadcasts the axes of length 1 of lhs to the lengths of rhs, whose elements are not used.")
    .inputs(&[arg("lhs", "The array to broadcast."), arg("rhs", "The array whose lengths are taken.")])
    .shape(broadcast_like_shape)
    .dtype(first_dtype)
    .forward(broadcast_to)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            no_gradient(&mut outs[1])?;
            if outs[0].wanted() { sum_backward(ctx, ins, outs) } else { Ok(()) }
        }),
        Some(backward::BROADCAST),
    ));

fn broadcast_like_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (Some(l), Some(r)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    let p = p.get::<BroadcastLikeParam>();
    let lengths: Vec<(usize, i64)> = match (&p.lhs_axes.0, &p.rhs_axes.0) {
        (Some(lhs), Some(rhs)) => {
            let (lhs, rhs) = (lhs.dims(), rhs.dims());
            ensure!(
                lhs.len() == rhs.len() && !lhs.is_empty(),
                "broadcast_like: {} axes in lhs_axes and {} in rhs_axes: give the same number of both, at least one",
                lhs.len(),
                rhs.len()
            );
            let pair = |(a, b): (&i64, &i64)| Ok((Shape::axis(*a, l)?, io.ins[1].dim(Shape::axis(*b, r)?)));
            lhs.iter().zip(rhs).map(pair).collect::<Result<_>>()?
        }
        _ => {
            ensure!(
                l == r,
                "broadcast_like: lhs of shape {} and rhs of shape {} differ in their number of axes: give lhs_axes and rhs_axes",
                io.ins[0],
                io.ins[1]
            );
            io.ins[1].dims().iter().copied().enumerate().collect()
        }
    };
    assign_expanded(&lengths, io)
}

/// Infers the shape of the output from the shape of the first input, in which the given (axis, length) pairs are replaced.
fn assign_expanded(lengths: &[(usize, i64)], io: &mut ShapeIo<'_>) -> Result<()> {
    let mut out = io.ins[0].clone();
    let Some(dims) = out.dims_mut() else { return Ok(()) };
    for &(axis, length) in lengths {
        let have = dims[axis];
        ensure!(
            have == 1 || have < 0 || length < 0 || have == length,
            "axis {axis} of shape {} has length {have}, which cannot be broadcast to {length}: only axes of length 1 are repeated",
            io.ins[0]
        );
        dims[axis] = length;
    }
    io.assign_out(0, &out)
}

/// The kernel that broadcasts the first input to the shape of the output.
pub(crate) fn broadcast_to(_: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
    by_size!(ins[0].dtype(), T => {
        movement::broadcast_to(source::<T>(&ins[0])?, &from, (target::<T>(&mut outs[0])?, &to));
    });
    Ok(())
}

/// Sums the gradient over the broadcast axes.
fn sum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
    sum_to(ctx, &ins[0], (&from, &to), &mut outs[0])
}

params! {
    /// Parameters of `_npi_broadcast_to`.
    pub struct NpBroadcastToParam {
        /// The shape of the result; -2 keeps the length of the array.
        shape: Shape = (Shape::new(&[]));
    }
}

pub(crate) static NP_BROADCAST_TO: Operator<NpBroadcastToParam> = Operator::new("_npi_broadcast_to")
    .doc("Repeats the array along axes of length 1, and along new axes in front, to another shape.")
    .inputs(&[arg("array", "The array.")])
    .shape(np_broadcast_to_shape)
    .forward(broadcast_to)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
            sum_to(ctx, &ins[0], (&from, &to), &mut outs[0])
        }),
        None,
    ));

fn np_broadcast_to_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (from, to) = (io.ins[0].clone(), &p.get::<NpBroadcastToParam>().shape);
    let (Some(n), m) = (from.ndim(), to.dims().len()) else { return Ok(()) };
    let mut out: Dims = to.dims().into();
    let mut is_broadcastable = n <= m;
    for i in 0..n.min(m) {
        let (have, want) = (from.dim(n - 1 - i), &mut out[m - 1 - i]);
        if *want == -2 {
            *want = have;
        }
        is_broadcastable &= have < 0 || have == 1 || have == *want;
    }
    ensure!(
        is_broadcastable && out.iter().all(|d| *d >= 0 || !from.is_known()),
        "shape {from} is not broadcastable to {to}"
    );
    io.assign_out(0, &Shape::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn axes_of_length_one_are_broadcast() {
        let x = array(&[1i64 << 60, 2, 3, 4], &[2, 1, 2]);
        let to = Case::new(&BROADCAST_TO, &[("shape", "(2, 2, 0)")]).run1(std::slice::from_ref(&x)).unwrap();
        let b = 1i64 << 60;
        assert_eq!(to.to_vec::<i64>().unwrap(), [b, 2, b, 2, 3, 4, 3, 4]);
        let y = array(&[true, false], &[1, 2, 1]);
        let axis = Case::new(&BROADCAST_AXIS, &[("axis", "(0, 2)"), ("size", "(2, 3)")]).run1(&[y]).unwrap();
        let rows = [true, true, true, false, false, false];
        assert_eq!(axis.to_vec::<bool>().unwrap(), [rows, rows].concat());
        let like = Case::new(&BROADCAST_LIKE, &[]).run1(&[x, array(&[0f32; 12], &[2, 3, 2])]).unwrap();
        assert_eq!(like.to_vec::<i64>().unwrap(), [b, 2, b, 2, b, 2, 3, 4, 3, 4, 3, 4]);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&[0.5, -1.0, 2.0, 3.0], &[2, 1, 2]);
        Case::new(&BROADCAST_TO, &[("shape", "(2, 3, 2)")]).check_gradient(&[x()]);
        Case::new(&BROADCAST_AXIS, &[("axis", "1"), ("size", "5")]).check_gradient(&[x()]);
        Case::new(&BROADCAST_LIKE, &[]).check_gradient(&[x(), array(&[1.0; 8], &[2, 2, 2])]);
        Case::new(&NP_BROADCAST_TO, &[("shape", "(2, 2, 3, 2)")]).check_gradient(&[x()]);
        Case::new(&NP_BROADCAST_TO, &[("shape", "(3, -2)")]).check_gradient(&[array(&[1.0, 2.0], &[1, 2])]);
    }

    #[test]
    fn incompatible_shapes_are_refused() {
        let e = |def, attrs: &[(&str, &str)], ins: &[&[i64]]| {
            let ins: Vec<_> = ins.iter().map(|d| Shape::new(d)).collect();
            Case::new(def, attrs).shapes(&ins).unwrap_err().to_string()
        };
        assert!(e(&BROADCAST_TO, &[("shape", "(2, 5)")], &[&[2, 1, 4]]).contains("has 3 axes, but shape=[2,5] has 2"));
        assert!(e(&BROADCAST_TO, &[("shape", "(3, 5, 4)")], &[&[2, 1, 4]]).contains("cannot be broadcast to 3"));
        assert!(e(&NP_BROADCAST_TO, &[("shape", "(3,)")], &[&[2, 3]]).contains("not broadcastable"));
        assert!(e(&BROADCAST_AXIS, &[("axis", "0"), ("size", "5")], &[&[2, 1, 4]]).contains("has length 2"));
        assert!(e(&BROADCAST_AXIS, &[("axis", "(1, 1)"), ("size", "(5, 5)")], &[&[2, 1, 4]]).contains("given twice"));
        assert!(e(&BROADCAST_LIKE, &[], &[&[2, 1, 4], &[5, 4]]).contains("give lhs_axes and rhs_axes"));
    }

    #[test]
    fn broadcast_like_takes_lengths_of_named_axes() {
        let case = Case::new(&BROADCAST_LIKE, &[("lhs_axes", "(1,)"), ("rhs_axes", "(-1,)")]);
        assert_eq!(case.shapes(&[[2, 1, 4].into(), [2, 7].into()]).unwrap(), [Shape::new(&[2, 7, 4])]);
    }
}
