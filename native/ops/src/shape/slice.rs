//! Slicing: `slice`, `slice_axis`, `slice_like`, and assignment to slices.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{OptTuple, ParamValue, Params};
use ferromx_core::shape::{Dims, Shape, Sizes};
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::movement;
use smallvec::SmallVec;

use crate::compose::op;
use crate::movement::{by_size, copy_unless_in_place, source, target};
use crate::rules::{first_dtype, no_gradient};

/// The operators of this file.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&SLICE, &SLICE_AXIS, &SLICE_LIKE, &SLICE_ASSIGN, &SLICE_ASSIGN_SCALAR];

params! {
    /// Parameters of `slice` and `_slice_assign`.
    pub struct SliceParam {
        /// The first index along each of the leading axes; a negative one counts from the end, None is the natural start.
        begin: OptTuple = required;
        /// The end (exclusive) along each of these axes; None is the natural end.
        end: OptTuple = required;
        /// The step along each of these axes, 1 by default; a negative step goes backwards.
        step: OptTuple = (OptTuple(Vec::new()));
    }
}

params! {
    /// Parameters of `_slice_assign_scalar`.
    pub struct SliceAssignScalarParam {
        /// The value to write.
        scalar: f64 = 0.0;
        /// The first index along each of the leading axes; a negative one counts from the end, None is the natural start.
        begin: OptTuple = required;
        /// The end (exclusive) along each of these axes; None is the natural end.
        end: OptTuple = required;
        /// The step along each of these axes, 1 by default; a negative step goes backwards.
        step: OptTuple = (OptTuple(Vec::new()));
    }
}

/// A strided region of an array, one entry per axis.
#[derive(Debug, Default)]
pub(crate) struct SliceRegion {
    begin: Sizes,
    step: SmallVec<[isize; 6]>,
    /// Number of elements along the axis.
    count: Sizes,
}

impl SliceRegion {
    fn push(&mut self, (begin, step, count): (usize, isize, usize)) {
        self.begin.push(begin);
        self.step.push(step);
        self.count.push(count);
    }

    /// The region that `slice` selects from an array of shape `dims`.
    fn of_slice(dims: &[usize], begin: &OptTuple, end: &OptTuple, step: &OptTuple) -> Result<SliceRegion> {
        check_slice(dims.len(), begin, end, step)?;
        let mut region = SliceRegion::default();
        for (i, n) in dims.iter().enumerate() {
            let entry = |t: &OptTuple| t.0.get(i).copied().flatten();
            region.push(span(*n, entry(begin), entry(end), entry(step).unwrap_or(1)));
        }
        Ok(region)
    }

    /// The region of `count` indices from `begin` along one axis, and all indices along the others.
    fn along(dims: &[usize], axis: usize, begin: usize, count: usize) -> SliceRegion {
        let mut region = SliceRegion::default();
        for (i, n) in dims.iter().enumerate() {
            region.push(if i == axis { (begin, 1, count) } else { (0, 1, *n) });
        }
        region
    }

    /// Copies the region to the output.
    pub(crate) fn read(&self, input: &In<'_>, out: &mut Out<'_>) -> Result<()> {
        let dims = input.shape().to_usize();
        by_size!(input.dtype(), T => {
            let out = (target::<T>(out)?, &self.count[..]);
            movement::slice((source::<T>(input)?, &dims), &self.begin, &self.step, out);
        });
        Ok(())
    }

    /// Writes the input to the region of the output.
    fn write(&self, input: &In<'_>, out: &mut Out<'_>) -> Result<()> {
        let dims = out.shape().to_usize();
        by_size!(input.dtype(), T => {
            let out = (target::<T>(out)?, &dims[..]);
            movement::slice_assign((source::<T>(input)?, &self.count), &self.begin, &self.step, out);
        });
        Ok(())
    }

    /// The gradient of [`SliceRegion::read`]: `ograd` in the region, and zeros elsewhere.
    pub(crate) fn read_backward(&self, ograd: &In<'_>, out: &mut Out<'_>) -> Result<()> {
        out.bytes_mut()?.fill(0);
        self.write(ograd, out)
    }
}

fn check_slice(rank: usize, begin: &OptTuple, end: &OptTuple, step: &OptTuple) -> Result<()> {
    let (b, e, s) = (begin.0.len(), end.0.len(), step.0.len());
    ensure!(b == e && (s == 0 || s == b), "begin has {b} entries, end {e}, step {s}: give the same number of each");
    ensure!(b <= rank, "begin has {b} entries for an array of {rank} dimensions: give at most one for each");
    ensure!(!step.0.contains(&Some(0)), "a step is 0: use positive or negative steps");
    Ok(())
}

/// The first index, the step and the number of indices of a slice of an axis of length `n`, with Python's rules.
fn span(n: usize, begin: Option<i64>, end: Option<i64>, step: i64) -> (usize, isize, usize) {
    let n = n as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let resolve = |x: i64| if x < 0 { x.saturating_add(n) } else { x }.clamp(low, high.max(low));
    let begin = begin.map_or(if step > 0 { 0 } else { n - 1 }, resolve);
    let end = end.map_or(if step > 0 { n } else { -1 }, resolve);
    let distance = if step > 0 { end - begin } else { begin - end };
    let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    (begin.max(0) as usize, step as isize, count as usize)
}

/// The shape of a slice. Unknown dimensions of `shape` stay unknown.
pub(crate) fn slice_shape(shape: &Shape, begin: &OptTuple, end: &OptTuple, step: &OptTuple) -> Result<Shape> {
    let Some(rank) = shape.ndim() else { return Ok(Shape::unknown()) };
    check_slice(rank, begin, end, step)?;
    let dim = |(i, d): (usize, &i64)| {
        let entry = |t: &OptTuple| t.0.get(i).copied().flatten();
        match usize::try_from(*d) {
            Ok(n) => span(n, entry(begin), entry(end), entry(step).unwrap_or(1)).2 as i64,
            Err(_) => -1,
        }
    };
    Ok(Shape::from(shape.dims().iter().enumerate().map(dim).collect::<Dims>()))
}

pub(crate) fn slice_region(p: &SliceParam, shape: &Shape) -> Result<SliceRegion> {
    SliceRegion::of_slice(&shape.to_usize(), &p.begin, &p.end, &p.step)
}

/// Zeros of the shape of `like`, with `ograd` assigned to a region.
fn assign_to_zeros(g: &mut dyn GradGraph, like: Entry, ograd: Entry, region: &SliceParam) -> Result<Entry> {
    let zeros = g.op(op!(elemwise::identity::ZEROS_LIKE(like)))?;
    g.op(op!(SLICE_ASSIGN(zeros, ograd), ..region))
}

/// Storage rule: slices of a csr matrix are csr matrices without `step`, or with one step, which is 1. As in MXNet, two steps of 1 give a
/// dense array.
fn storage_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let steps = &p.get::<SliceParam>().step.0;
    (ins[0] == StorageType::Csr && steps.len() < 2 && steps.iter().all(|s| s.is_none_or(|s| s == 1)))
        .then_some(StorageType::Csr)
}

pub(crate) static SLICE: Operator<SliceParam> = Operator::new("slice")
    .aliases(&["_npi_slice", "_npx_slice", "_sparse_slice", "crop"])
    .doc(
        "The region `data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], ...]`; axes without an entry are taken whole. Out-of-range \
         bounds are clamped, as in Python.",
    )
    .inputs(&[arg("data", "The array to slice.")])
    .shape(|p, io| {
        let p = p.get::<SliceParam>();
        let out = slice_shape(&io.ins[0], &p.begin, &p.end, &p.step)?;
        io.assign_out(0, &out)
    })
    .sparse(storage_rule, |call| super::sparse::slice(call, &call.ctx.params::<SliceParam>().begin.0))
    .forward(|ctx, ins, outs| slice_region(ctx.params(), ins[0].shape())?.read(&ins[0], &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let region = slice_region(ctx.params(), outs[0].shape())?;
            region.read_backward(&ins[0], &mut outs[0])
        }),
        Some(|g, n| Ok(vec![Some(assign_to_zeros(g, n.inputs[0], n.ograds[0], n.params.get())?)])),
    ));

params! {
    /// Parameters of `slice_axis`.
    pub struct SliceAxisParam {
        /// The axis to slice; a negative one counts from the end.
        axis: i32 = required;
        /// The first index along it; a negative one counts from the end.
        begin: i32 = required;
        /// The end (exclusive) along it; None is the end of the axis.
        end: Option<i32> = required;
    }
}

pub(crate) static SLICE_AXIS: Operator<SliceAxisParam> = Operator::new("slice_axis")
    .doc("The slice from begin to end (exclusive) along one axis; it must be within the array and not empty.")
    .inputs(&[arg("data", "The array to slice.")])
    .shape(|p, io| {
        let p = p.get::<SliceAxisParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let axis = Shape::axis(i64::from(p.axis), rank)?;
        let mut dims: Dims = io.ins[0].dims().into();
        if let Ok(n) = usize::try_from(dims[axis]) {
            dims[axis] = axis_span(p, n)?.1 as i64;
        }
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| axis_region(ctx.params(), ins[0].shape())?.read(&ins[0], &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let region = axis_region(ctx.params(), outs[0].shape())?;
            region.read_backward(&ins[0], &mut outs[0])
        }),
        Some(SLICE_AXIS_BACK),
    ));

/// The first index and the number of elements along an axis of length `n`.
fn axis_span(p: &SliceAxisParam, n: usize) -> Result<(usize, usize)> {
    if n == 0 {
        return Ok((0, 0));
    }
    let n = n as i64;
    let resolve = |x: i32| if x < 0 { i64::from(x) + n } else { i64::from(x) };
    let (begin, end) = (resolve(p.begin), p.end.map_or(n, resolve));
    ensure!(
        0 <= begin && begin < end && end <= n,
        "begin={} and end={} must name a range of axis {}, which has {n} elements",
        p.begin,
        p.end.print(),
        p.axis
    );
    Ok((begin as usize, (end - begin) as usize))
}

fn axis_region(p: &SliceAxisParam, shape: &Shape) -> Result<SliceRegion> {
    let dims = shape.to_usize();
    let axis = Shape::axis(i64::from(p.axis), dims.len())?;
    let (begin, count) = axis_span(p, dims[axis])?;
    Ok(SliceRegion::along(&dims, axis, begin, count))
}

/// Assigns the gradient to a slice of zeros. `_slice_assign` needs an entry for every axis up to the sliced one, so that axis is
/// swapped to the front.
const SLICE_AXIS_BACK: Compose = |g: &mut dyn GradGraph, n: &GradNode<'_>| {
    let p = n.params.get::<SliceAxisParam>();
    let swap = |g: &mut dyn GradGraph, x| g.op(op!(shape::axes::SWAP_AXIS(x), dim1: 0, dim2: p.axis));
    let index = |i: Option<i32>| OptTuple(vec![i.map(i64::from)]);
    let region = SliceParam { begin: index(Some(p.begin)), end: index(p.end), step: OptTuple::default() };
    let (data, ograd) = (swap(g, n.inputs[0])?, swap(g, n.ograds[0])?);
    let grad = assign_to_zeros(g, data, ograd, &region)?;
    Ok(vec![Some(swap(g, grad)?)])
};

params! {
    /// Parameters of `slice_like`.
    pub struct SliceLikeParam {
        /// The axes to slice; a negative one counts from the end. By default all.
        axes: Shape = (Shape::new(&[]));
    }
}

pub(crate) static SLICE_LIKE: Operator<SliceLikeParam> = Operator::new("slice_like")
    .doc("Slices the array from index 0 to the lengths of `shape_like`, along all or the given axes.")
    .inputs(&[arg("data", "The array to slice."), arg("shape_like", "The array whose shape is used.")])
    .shape(slice_like_shape)
    .dtype(|p, io| {
        first_dtype(p, io)?;
        match (io.ins[0], io.ins[1]) {
            (Some(d), None) => io.assign_in(1, d),
            _ => Ok(()),
        }
    })
    .forward(|_, ins, outs| leading_region(&outs[0].shape().to_usize()).read(&ins[0], &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|_, ins, outs| {
            if outs[0].wanted() {
                leading_region(&ins[0].shape().to_usize()).read_backward(&ins[0], &mut outs[0])?;
            }
            no_gradient(&mut outs[1])
        }),
        None,
    ));

/// The region of the first `count` indices along each axis.
fn leading_region(count: &[usize]) -> SliceRegion {
    let mut region = SliceRegion::default();
    count.iter().for_each(|n| region.push((0, 1, *n)));
    region
}

fn slice_like_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (data, like) = (io.ins[0].clone(), io.ins[1].clone());
    let (Some(rank), Some(like_rank)) = (data.ndim(), like.ndim()) else { return Ok(()) };
    let axes = p.get::<SliceLikeParam>().axes.dims();
    let mut dims: Dims = data.dims().into();
    let mut shorten = |i: usize, n: i64| {
        ensure!(
            n <= dims[i] || dims[i] < 0,
            "axis {i} of shape {data} is shorter than the {n} that shape_like {like} asks for"
        );
        dims[i] = n;
        Ok(())
    };
    if axes.is_empty() {
        ensure!(
            rank == like_rank,
            "data {data} and shape_like {like} differ in their number of dimensions: name the axes to slice"
        );
        (0..rank).try_for_each(|i| shorten(i, like.dim(i)))?;
    }
    for axis in axes {
        let i = Shape::axis(*axis, rank)?;
        ensure!(i < like_rank, "shape_like {like} has no axis {i}");
        shorten(i, like.dim(i))?;
    }
    io.assign_out(0, &Shape::from(dims))
}

pub(crate) static SLICE_ASSIGN: Operator<SliceParam> = Operator::new("_slice_assign")
    .aliases(&["_crop_assign", "_npi_slice_assign"])
    .doc("A copy of lhs with rhs assigned to the region `lhs[begin[0]:end[0]:step[0], ...]`; see `slice`.")
    .inputs(&[arg("lhs", "The array to assign to."), arg("rhs", "The new elements, of the region's shape.")])
    .shape(|p, io| {
        let p = p.get::<SliceParam>();
        same_lhs(io)?;
        let region = slice_shape(&io.ins[0], &p.begin, &p.end, &p.step)?;
        io.assign_in(1, &region)
    })
    .forward(|ctx, ins, outs| {
        copy_unless_in_place(&ins[0], &mut outs[0])?;
        slice_region(ctx.params(), outs[0].shape())?.write(&ins[1], &mut outs[0])
    })
    .inplace(&[(0, 0)])
    .grad(Grad::Compose(|g, n| {
        let SliceParam { begin, end, step } = n.params.get();
        let lhs = g.op(op!(SLICE_ASSIGN_SCALAR(n.ograds[0]), begin: begin, end: end, step: step))?;
        let rhs = g.op(op!(SLICE(n.ograds[0]), begin: begin, end: end, step: step))?;
        Ok(vec![Some(lhs), Some(rhs)])
    }));

pub(crate) static SLICE_ASSIGN_SCALAR: Operator<SliceAssignScalarParam> = Operator::new("_slice_assign_scalar")
    .aliases(&["_crop_assign_scalar", "_npi_slice_assign_scalar"])
    .doc("A copy of the input with a scalar assigned to the region `data[begin[0]:end[0]:step[0], ...]`; see `slice`.")
    .inputs(&[arg("data", "The array to assign to.")])
    .shape(|p, io| {
        let p = p.get::<SliceAssignScalarParam>();
        same_lhs(io)?;
        slice_shape(&io.ins[0], &p.begin, &p.end, &p.step).map(|_| ())
    })
    .forward(slice_assign_scalar)
    .inplace(&[(0, 0)])
    .grad(Grad::Compose(|g, n| {
        let region = n.params.get();
        Ok(vec![Some(g.op(op!(SLICE_ASSIGN_SCALAR(n.ograds[0]), scalar: 0.0, ..region))?)])
    }));

/// Infers the shapes of the first input and the output from each other: they are equal.
fn same_lhs(io: &mut ShapeIo<'_>) -> Result<()> {
    let known = io.ins[0].clone();
    io.assign_out(0, &known)?;
    let known = io.outs[0].clone();
    io.assign_in(0, &known)
}

fn slice_assign_scalar(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SliceAssignScalarParam>();
    let out = &mut outs[0];
    copy_unless_in_place(&ins[0], out)?;
    let dims = out.shape().to_usize();
    let region = SliceRegion::of_slice(&dims, &p.begin, &p.end, &p.step)?;
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let value = <T as Element>::from_f64(p.scalar);
        movement::slice_fill(value, &region.count, &region.begin, &region.step, (out.slice_mut::<T>()?, &dims));
        Ok(())
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}
