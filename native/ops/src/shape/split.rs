//! Splitting of an array along an axis: `SliceChannel`, `split_v2`, NumPy's `hsplit` and `dsplit`.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{ParamValue, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};

use super::join::{axis_index, join, split_rows};
use crate::axes::row_len;
use crate::compose::op;
use crate::rules::one_dtype;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&SLICE_CHANNEL, &SPLIT_V2, &SPLIT_V2_BACKWARD, &HSPLIT, &HSPLIT_BACKWARD, &DSPLIT];

params! {
    /// Parameters of `SliceChannel`.
    pub struct SliceChannelParam {
        /// The number of equal parts.
        num_outputs: i32 = required, where 1..=i32::MAX;
        /// The axis to split; a negative one counts from the end.
        axis: i32 = 1;
        /// Whether the axis is removed, which needs parts of length 1.
        squeeze_axis: bool = false;
    }
}

pub(crate) static SLICE_CHANNEL: Operator<SliceChannelParam> = Operator::new("SliceChannel")
    .legacy()
    .aliases(&["split"])
    .doc("Splits an array into num_outputs equal parts along an axis.")
    .inputs(&[arg("data", "The array to split; num_outputs must divide the length of the axis.")])
    .outputs(|p| p.get::<SliceChannelParam>().num_outputs as usize)
    .output_names_by(|p| (0..p.get::<SliceChannelParam>().num_outputs).map(|i| format!("output{i}")).collect())
    .shape(slice_channel_shape)
    .dtype(one_dtype)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<SliceChannelParam>().axis, ins[0].shape().dims().len())?;
        let total = row_len(ins[0].shape(), axis);
        let width = total / outs.len();
        split_rows(&ins[0], total, |_| width, outs)
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<SliceChannelParam>();
        Ok(vec![Some(join_gradients(g, n, p.axis, p.squeeze_axis)?)])
    }));

/// The gradient of splitting: the gradients of the parts, concatenated, or stacked if the axis was removed.
fn join_gradients(g: &mut dyn GradGraph, n: &GradNode<'_>, axis: i32, squeezed: bool) -> Result<Entry> {
    let parts = n.ograds.iter().copied();
    g.op(if squeezed {
        op!(shape::join::STACK(..parts), axis: axis)
    } else {
        op!(shape::join::CONCAT(..parts), dim: axis)
    })
}

fn slice_channel_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SliceChannelParam>();
    let Some(rank) = input_rank(io, p.squeeze_axis) else { return Ok(()) };
    let axis = axis_index(p.axis, rank)?;
    let mut part = Shape::unknown();
    for (i, s) in io.outs.iter().enumerate() {
        let so_far = part.clone();
        ensure!(
            part.assign(s),
            "the parts must have equal shapes, but output {i} is {s} and the previous outputs are {so_far}"
        );
    }
    io.outs.iter_mut().for_each(|s| s.clone_from(&part));
    infer_input_shape(io, axis, p.squeeze_axis)?;
    let (n, parts) = (io.ins[0].dim(axis), i64::from(p.num_outputs));
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    let mut dims: Dims = io.ins[0].dims().into();
    ensure!(n < 0 || n % parts == 0, "num_outputs={parts} does not divide axis {axis} of {}", io.ins[0]);
    if p.squeeze_axis {
        ensure!(
            n < 0 || n == parts,
            "squeeze_axis needs as many outputs as axis {axis} of {} has indices, but num_outputs={parts}",
            io.ins[0]
        );
        dims.remove(axis);
    } else if n >= 0 {
        dims[axis] = n / parts;
    }
    let part = Shape::from(dims);
    (0..io.outs.len()).try_for_each(|i| io.assign_out(i, &part))
}

params! {
    /// Parameters of `_split_v2`.
    pub struct SplitParam {
        /// The start index of each part, the first one 0; ignored if sections is given.
        indices: Shape = required;
        /// The axis to split; a negative one counts from the end.
        axis: i32 = 1;
        /// Whether the axis is removed, which needs parts of length 1.
        squeeze_axis: bool = false;
        /// If not 0, the number of parts; if they cannot be equal, the first ones are longer by one.
        sections: i32 = 0, where 0..=i32::MAX;
    }
}

pub(crate) static SPLIT_V2: Operator<SplitParam> = Operator::new("_split_v2")
    .names_data()
    .aliases(&["_npi_split"])
    .doc("Splits an array along an axis, at given indices or into a number of parts.")
    .inputs(&[arg("data", "The array to split.")])
    .outputs(|p| num_parts(p.get()))
    .shape(split_shape)
    .dtype(one_dtype)
    .forward(split)
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<SplitParam>();
        Ok(vec![Some(join_gradients(g, n, p.axis, p.squeeze_axis)?)])
    }));

/// The operator that computes the gradient of a split from the gradients of the parts.
const fn split_backward(name: &'static str, doc: &'static str) -> Operator<SplitParam> {
    Operator::new(name)
        .doc(doc)
        .inputs(&[])
        .listed(0)
        .unlisted_params()
        .num_inputs_by(|p| num_parts(p.get()))
        .input_names_by(|p| (0..num_parts(p.get())).map(|i| format!("grad{i}")).collect())
        .dtype(one_dtype)
}

pub(crate) static SPLIT_V2_BACKWARD: Operator<SplitParam> = split_backward(
    "_split_v2_backward",
    "The gradient of `_split_v2`: the gradients of the parts, concatenated along the axis.",
)
.shape(|p, io| {
    let p = p.get::<SplitParam>();
    let Some(rank) = io.ins.first().and_then(Shape::ndim) else { return Ok(()) };
    let axis = axis_index(p.axis, if p.squeeze_axis { rank + 1 } else { rank })?;
    if p.squeeze_axis {
        let mut dims: Dims = io.ins[0].dims().into();
        dims.insert(axis, io.ins.len() as i64);
        return io.assign_out(0, &Shape::from(dims));
    }
    joined_shape(io, axis)
})
.forward(|ctx, ins, outs| {
    let p = ctx.params::<SplitParam>();
    let axis = axis_index(p.axis, outs[0].shape().dims().len())?;
    let inner = if p.squeeze_axis { row_len(outs[0].shape(), axis) / ins.len() } else { 0 };
    join(ins, |x| if p.squeeze_axis { inner } else { row_len(x.shape(), axis) }, &mut outs[0])
});

/// Infers the shape of the array from its parts along an axis.
fn joined_shape(io: &mut ShapeIo<'_>, axis: usize) -> Result<()> {
    let mut shape = io.ins[0].clone();
    let (total, known) = io.ins.iter().fold((0, true), |(total, known), s| {
        let n = if s.ndim_is_known() { s.dim(axis) } else { -1 };
        (total + n, known && n >= 0)
    });
    if let Some(dims) = shape.dims_mut() {
        dims[axis] = if known { total } else { -1 };
    }
    io.assign_out(0, &shape)
}

/// The rank of the array to split, from its own shape or that of a part.
fn input_rank(io: &ShapeIo<'_>, squeezed: bool) -> Option<usize> {
    io.ins[0].ndim().or_else(|| io.outs.iter().find_map(Shape::ndim).map(|rank| rank + usize::from(squeezed)))
}

/// Infers the shape of the input from the parts. The length along the axis is known if the lengths of all parts are.
fn infer_input_shape(io: &mut ShapeIo<'_>, axis: usize, squeezed: bool) -> Result<()> {
    let mut shape = Shape::unknown();
    let mut total = Some(0);
    for (i, part) in io.outs.iter().enumerate() {
        let Some(rank) = part.ndim() else {
            total = None;
            continue;
        };
        ensure!(
            axis < rank + usize::from(squeezed),
            "output {i} of shape {part} cannot be a part of an array that is split along axis {axis}"
        );
        let mut dims: Dims = part.dims().into();
        if squeezed {
            dims.insert(axis, -1);
            total = total.map(|n| n + 1);
        } else {
            let n = std::mem::replace(&mut dims[axis], -1);
            total = total.filter(|_| n >= 0).map(|sum: i64| sum + n);
        }
        let so_far = shape.clone();
        ensure!(
            shape.assign(&Shape::from(dims)),
            "output {i} is {part}, which does not match the previous parts: {so_far}"
        );
    }
    if let (Some(n), Some(dims)) = (total, shape.dims_mut()) {
        dims[axis] = n;
    }
    io.assign_in(0, &shape)
}

/// The number of parts.
fn num_parts(p: &SplitParam) -> usize {
    if p.sections > 0 { p.sections as usize } else { p.indices.dims().len() }
}

/// The length of each part of an axis of length `n`. If `n` is 0, indices are not checked.
fn split_lengths(p: &SplitParam, n: usize) -> Result<Vec<usize>> {
    if p.sections > 0 {
        let parts = p.sections as usize;
        return Ok((0..parts).map(|i| n / parts + usize::from(i < n % parts)).collect());
    }
    let starts = p.indices.dims();
    if n == 0 {
        return Ok(vec![0; starts.len()]);
    }
    ensure!(starts.first() == Some(&0), "indices={} must begin with 0, the start of the first part", p.indices);
    let ends = starts[1..].iter().copied().chain([n as i64]);
    let length = |(begin, end): (&i64, i64)| {
        usize::try_from(end - begin).ok().filter(|_| end <= n as i64).ok_or_else(|| {
            Error::value(format!("indices={} must ascend within the axis of length {n}", p.indices.print()))
        })
    };
    starts.iter().zip(ends).map(length).collect()
}

fn split_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SplitParam>();
    ensure!(num_parts(p) > 0, "neither indices nor sections were given: give one of them");
    let Some(rank) = input_rank(io, p.squeeze_axis) else { return Ok(()) };
    split_along(p, io, axis_index(p.axis, rank)?)
}

fn split(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axis = axis_index(ctx.params::<SplitParam>().axis, ins[0].shape().dims().len())?;
    let total = row_len(ins[0].shape(), axis);
    let rows = ins[0].len().checked_div(total).unwrap_or(0);
    split_rows(&ins[0], total, |out| out.len().checked_div(rows).unwrap_or(0), outs)
}

/// Defines an operator that splits an array along an axis that only depends on the rank.
macro_rules! splitting {
    ($name:ident: $op:literal, $doc:literal, |$rank:ident| $axis:expr) => {
        pub(crate) static $name: Operator<SplitParam> = Operator::new($op)
            .names_data()
            .doc(concat!($doc, " The argument `axis` is ignored."))
            .inputs(&[arg("data", "The array to split.")])
            .outputs(|p| num_parts(p.get()))
            .shape(|p, io| {
                let p = p.get::<SplitParam>();
                let Some($rank) = input_rank(io, p.squeeze_axis) else { return Ok(()) };
                ensure!(num_parts(p) > 0, "no parts were specified: give indices or sections");
                split_along(p, io, $axis?)
            })
            .dtype(one_dtype)
            .forward(|_, ins, outs| {
                let $rank = ins[0].shape().dims().len();
                let axis = $axis?;
                split_rows(&ins[0], row_len(ins[0].shape(), axis), |out| row_len(out.shape(), axis), outs)
            })
            .grad(Grad::Kernel(
                Backward::new(|_, ins, outs| {
                    let $rank = outs[0].shape().dims().len();
                    let axis = $axis?;
                    join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
                }),
                None,
            ));
    };
}

splitting!(HSPLIT: "_npi_hsplit", "Splits an array along axis 1 (a vector along axis 0), at indices or into a number of parts.",
    |rank| hsplit_axis(rank));

pub(super) static HSPLIT_BACKWARD: Operator<SplitParam> = split_backward(
    "_npi_hsplit_backward",
    "The gradient of `_npi_hsplit`: the gradients of the parts, concatenated along the axis.",
)
.shape(|_, io| match io.ins.first().and_then(Shape::ndim) {
    Some(rank) => joined_shape(io, hsplit_axis(rank)?),
    None => Ok(()),
})
.forward(|_, ins, outs| {
    let axis = hsplit_axis(outs[0].shape().dims().len())?;
    join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
});

splitting!(DSPLIT: "_npi_dsplit", "Splits an array along axis 2, at indices or into a number of parts.",
    |rank| checked_axis("dsplit", rank, 3, 2));

/// The axis of `hsplit`: 1, or 0 for vectors.
fn hsplit_axis(rank: usize) -> Result<usize> {
    checked_axis("hsplit", rank, 1, usize::from(rank > 1))
}

/// The axis of `hsplit` or `dsplit`, after a check of the rank.
fn checked_axis(split: &str, rank: usize, min_rank: usize, axis: usize) -> Result<usize> {
    ensure!(
        rank >= min_rank,
        "ValueError: {split} only works on arrays of {min_rank} or more dimensions, but this one has {rank}"
    );
    Ok(axis)
}

/// Shape rule of a split along an axis.
fn split_along(p: &SplitParam, io: &mut ShapeIo<'_>, axis: usize) -> Result<()> {
    infer_input_shape(io, axis, p.squeeze_axis)?;
    let Ok(n) = usize::try_from(io.ins[0].dim(axis)) else { return Ok(()) };
    for (i, length) in split_lengths(p, n)?.into_iter().enumerate() {
        let mut dims: Dims = io.ins[0].dims().into();
        if p.squeeze_axis {
            ensure!(
                length == 1,
                "squeeze_axis needs parts of length 1, but part {i} of axis {axis} has length {length}"
            );
            dims.remove(axis);
        } else {
            dims[axis] = length as i64;
        }
        io.assign_out(i, &Shape::from(dims))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, numbers};

    #[test]
    fn hsplit_and_dsplit_ignore_the_parameter_axis() {
        for (def, dims, attrs, want) in [
            (&HSPLIT, &[2, 3, 4][..], [("indices", "()"), ("sections", "2")], [&[2, 2, 4][..], &[2, 1, 4]]),
            (&HSPLIT, &[3], [("indices", "(0, 1)"), ("sections", "0")], [&[1], &[2]]),
            (&HSPLIT, &[2, 2], [("indices", "(0, 1)"), ("squeeze_axis", "1")], [&[2], &[2]]),
            (&DSPLIT, &[2, 3, 4], [("indices", "(0, 1)"), ("sections", "0")], [&[2, 3, 1], &[2, 3, 3]]),
        ] {
            let case = Case::new(def, &attrs);
            assert_eq!(case.shapes(&[Shape::new(dims)]).unwrap(), want.map(Shape::new), "{attrs:?}");
            case.check_gradient(&[numbers(dims)]);
        }
        assert!(Case::new(&DSPLIT, &[("indices", "()"), ("sections", "2")]).shapes(&[[2, 3].into()]).is_err());
    }
}
