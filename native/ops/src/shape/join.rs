//! Operators that concatenate arrays along an axis, and split them.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Compose, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::{ParamValue, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;
use smallvec::SmallVec;

use super::moves::{by_size, source, target};
use crate::rules::one_dtype;

/// The operators of this file.
pub(crate) static OPS: &[&OpDef] = &[&CONCAT, &RNN_PARAM_CONCAT, &STACK, &SLICE_CHANNEL, &SPLIT_V2, &SPLIT_V2_BACKWARD];

/// Concatenates the rows of the inputs; `width` is the row_len length of an input.
pub(crate) fn join(ins: &[In<'_>], width: impl Fn(&In<'_>) -> usize, out: &mut Out<'_>) -> Result<()> {
    by_size!(out.dtype(), |T| {
        let parts = ins.iter().map(|x| Ok((source::<T>(x)?, width(x)))).collect::<Result<SmallVec<[_; 8]>>>()?;
        movement::concat(&parts, target::<T>(out)?);
    });
    Ok(())
}

/// Splits rows of `total` elements into the wanted outputs; `width` is the row_len length of an output.
pub(crate) fn cut(input: &In<'_>, total: usize, width: impl Fn(&Out<'_>) -> usize, outs: &mut [Out<'_>]) -> Result<()> {
    let rows = input.len().checked_div(total).unwrap_or(0);
    let mut offset = 0;
    for out in outs {
        let n = width(out);
        if out.wanted() && !out.is_empty() {
            by_size!(input.dtype(), |T| {
                let to = (target::<T>(out)?, &[rows, n][..]);
                movement::slice((source::<T>(input)?, &[rows, total]), &[0, offset], &[1, 1], to);
            });
        }
        offset += n;
    }
    Ok(())
}

/// The number of elements of a row_len: the product of the lengths from `axis` on.
pub(crate) fn row_len(shape: &Shape, axis: usize) -> usize {
    shape.to_usize()[axis..].iter().product()
}

/// The index of an axis; a negative one counts from the end.
fn axis_index(axis: i32, rank: usize) -> Result<usize> {
    Shape::axis(i64::from(axis), rank)
}

params! {
    /// Parameters of `Concat`.
    pub struct ConcatParam {
        /// Number of arrays to concatenate.
        num_args: i32 = required, where 1..=i32::MAX;
        /// The axis to concatenate along; a negative one counts from the end.
        dim: i32 = 1;
    }
}

pub(crate) static CONCAT: OpDef = OpDef::new("Concat")
    .names_outputs()
    .aliases(&["_sparse_concat", "concat"])
    .doc("Concatenates arrays along an axis. The lengths of all other axes must be equal.")
    .variadic("data", "The arrays to concatenate.", "num_args")
    .params::<ConcatParam>()
    .sparse(crate::sparse::concat_rule, crate::sparse::concat)
    .shape(concat_shape)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<ConcatParam>().dim, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axis = axis_index(ctx.params::<ConcatParam>().dim, ins[0].shape().dims().len())?;
            cut(&ins[0], row_len(ins[0].shape(), axis), |x| row_len(x.shape(), axis), outs)
        }),
        Some(CONCAT_BACK),
    ));

pub(crate) static RNN_PARAM_CONCAT: OpDef = OpDef::new("_rnn_param_concat")
    .names_outputs()
    .aliases(&["_npi_rnn_param_concat"])
    .doc("Concatenates the parameters of a recurrent layer, as Concat does.")
    .variadic("data", "The parameters to concatenate.", "num_args")
    .params::<ConcatParam>()
    .shape(|p, io| joined_shape(p, io, true))
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<ConcatParam>().dim, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Compose(CONCAT_BACK));

fn concat_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    joined_shape(p, io, false)
}

/// Infers the shapes of a concatenation. With `even`, several unknown lengths are taken to be equal, as for the directions of an RNN's
/// first layer.
fn joined_shape(p: &Params, io: &mut ShapeIo<'_>, even: bool) -> Result<()> {
    let Some(rank) = io.ins.iter().chain(io.outs.iter()).find_map(Shape::ndim) else { return Ok(()) };
    let axis = axis_index(p.get::<ConcatParam>().dim, rank)?;
    let without_axis = |s: &Shape| {
        let mut s = s.clone();
        if let Some(d) = s.dims_mut().and_then(|d| d.get_mut(axis)) {
            *d = -1;
        }
        s
    };
    let mut common = Shape::of_rank(rank);
    for s in io.ins.iter().chain(io.outs.iter()) {
        let (so_far, given) = (common.clone(), without_axis(s));
        ensure!(
            common.assign(&given),
            "Incompatible input shape: expected {so_far} (any length of axis {axis}), got {s}"
        );
    }
    (0..io.ins.len()).try_for_each(|i| io.assign_in(i, &common))?;
    io.assign_out(0, &common)?;
    let lengths: Vec<i64> = io.ins.iter().map(|s| s.dim(axis)).collect();
    let known: i64 = lengths.iter().filter(|n| **n >= 0).sum();
    let missing: Vec<usize> = (0..lengths.len()).filter(|i| lengths[*i] < 0).collect();
    let of_length = |n: i64| {
        let mut s = common.clone();
        if let Some(dims) = s.dims_mut() {
            dims[axis] = n;
        }
        s
    };
    match (&missing[..], io.outs[0].dim(axis)) {
        ([], _) => io.assign_out(0, &of_length(known)),
        ([one], total) if total >= known => io.assign_in(*one, &of_length(total - known)),
        (several, total) if even && total >= known && (total - known) % several.len() as i64 == 0 => {
            let length = of_length((total - known) / several.len() as i64);
            several.iter().try_for_each(|i| io.assign_in(*i, &length))
        }
        _ => Ok(()),
    }
}

/// Splits the gradient like the inputs. With the joined axis swapped to the front, the first rows are the gradient of the first input,
/// and the remaining rows, as many as the other inputs have together, are split in the same way.
const CONCAT_BACK: Compose = |g: &mut dyn GradGraph, n: &GradNode<'_>| {
    let dim = n.params.get::<ConcatParam>().dim.to_string();
    let swap = [("dim1", "0"), ("dim2", dim.as_str())];
    let first = [("axes", "(0,)")];
    let flip = [("axis", "(0,)")];
    let mut swapped_inputs = Vec::new();
    for x in n.inputs {
        swapped_inputs.push(g.apply1("SwapAxis", &[*x], &swap)?);
    }
    let mut remaining = g.apply1("SwapAxis", &n.ograds[..1], &swap)?;
    let mut grads = Vec::new();
    for (i, like) in swapped_inputs.iter().enumerate() {
        let part = g.apply1("slice_like", &[remaining, *like], &first)?;
        grads.push(Some(g.apply1("SwapAxis", &[part], &swap)?));
        let others = &swapped_inputs[i + 1..];
        if !others.is_empty() {
            let attrs = [("num_args", &*others.len().to_string()), ("dim", "0")];
            let rest = g.apply1("Concat", others, &attrs)?;
            let flipped = g.apply1("reverse", &[remaining], &flip)?;
            let tail = g.apply1("slice_like", &[flipped, rest], &first)?;
            remaining = g.apply1("reverse", &[tail], &flip)?;
        }
    }
    Ok(grads)
};

params! {
    /// Parameters of `stack`.
    pub struct StackParam {
        /// Index of the new axis in the result; a negative one counts from the end.
        axis: i32 = 0;
        /// Number of arrays to stack.
        num_args: i32 = required, where 1..=i32::MAX;
    }
}

pub(crate) static STACK: OpDef = OpDef::new("stack")
    .doc("Stacks arrays of equal shapes along a new axis.")
    .variadic("data", "The arrays to stack.", "num_args")
    .params::<StackParam>()
    .shape(stack_shape)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<StackParam>().axis, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let axis = n.params.get::<StackParam>().axis.to_string();
        let parts = n.inputs.len().to_string();
        let attrs = [("num_outputs", &*parts), ("axis", &*axis), ("squeeze_axis", "True")];
        Ok(g.apply("SliceChannel", &n.ograds[..1], &attrs)?.into_iter().map(Some).collect())
    }));

fn stack_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let mut common = Shape::unknown();
    for s in io.ins.iter() {
        let so_far = common.clone();
        ensure!(common.assign(s), "arrays of shapes {so_far} and {s} cannot be stacked: they must have one shape");
    }
    let Some(rank) = common.ndim() else { return Ok(()) };
    let mut dims: Dims = common.dims().into();
    dims.insert(axis_index(p.get::<StackParam>().axis, rank + 1)?, io.ins.len() as i64);
    io.assign_out(0, &Shape::from(dims))
}

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

pub(crate) static SLICE_CHANNEL: OpDef = OpDef::new("SliceChannel")
    .legacy()
    .aliases(&["split"])
    .doc("Splits an array into num_outputs equal parts along an axis.")
    .inputs(&[arg("data", "The array to split; num_outputs must divide the length of the axis.")])
    .params::<SliceChannelParam>()
    .outputs(|p| p.get::<SliceChannelParam>().num_outputs as usize)
    .shape(slice_channel_shape)
    .dtype(one_dtype)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<SliceChannelParam>().axis, ins[0].shape().dims().len())?;
        let total = row_len(ins[0].shape(), axis);
        let width = total / outs.len();
        cut(&ins[0], total, |_| width, outs)
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<SliceChannelParam>();
        Ok(vec![Some(rejoin(g, n, p.axis, p.squeeze_axis)?)])
    }));

/// The gradient of splitting: the concatenation of the parts' gradients.
fn rejoin(g: &mut dyn GradGraph, n: &GradNode<'_>, axis: i32, squeezed: bool) -> Result<Entry> {
    let (count, axis) = (n.ograds.len().to_string(), axis.to_string());
    match squeezed {
        true => g.apply1("stack", n.ograds, &[("num_args", &count), ("axis", &axis)]),
        false => g.apply1("Concat", n.ograds, &[("num_args", &count), ("dim", &axis)]),
    }
}

fn slice_channel_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SliceChannelParam>();
    let Some(rank) = rank_of_whole(io, p.squeeze_axis) else { return Ok(()) };
    let axis = axis_index(p.axis, rank)?;
    let mut part = Shape::unknown();
    for (i, s) in io.outs.iter().enumerate() {
        let so_far = part.clone();
        ensure!(part.assign(s), "parts of an axis are equal, but output {i} is {s} and those before it are {so_far}");
    }
    io.outs.iter_mut().for_each(|s| s.clone_from(&part));
    whole_from_parts(io, axis, p.squeeze_axis)?;
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

pub(crate) static SPLIT_V2: OpDef = OpDef::new("_split_v2")
    .names_data()
    .aliases(&["_npi_split"])
    .doc("Splits an array along an axis, at given indices or into a number of parts.")
    .inputs(&[arg("data", "The array to split.")])
    .params::<SplitParam>()
    .outputs(|p| split_parts(p.get()))
    .shape(split_shape)
    .dtype(one_dtype)
    .forward(split)
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<SplitParam>();
        Ok(vec![Some(rejoin(g, n, p.axis, p.squeeze_axis)?)])
    }));

pub(crate) static SPLIT_V2_BACKWARD: OpDef = OpDef::new("_split_v2_backward")
    .doc("The gradient of `_split_v2`: the gradients of the parts, concatenated along the axis.")
    .inputs(&[])
    .listed(0)
    .params::<SplitParam>()
    .unlisted_params()
    .num_inputs_by(|p| split_parts(p.get()))
    .input_names_by(|p| (0..split_parts(p.get())).map(|i| format!("grad{i}")).collect())
    .shape(|p, io| {
        let p = p.get::<SplitParam>();
        let Some(rank) = io.ins.first().and_then(Shape::ndim) else { return Ok(()) };
        let axis = axis_index(p.axis, if p.squeeze_axis { rank + 1 } else { rank })?;
        if p.squeeze_axis {
            let mut dims: Dims = io.ins[0].dims().into();
            dims.insert(axis, io.ins.len() as i64);
            return io.assign_out(0, &Shape::from(dims));
        }
        rejoined_shape(io, axis)
    })
    .dtype(one_dtype)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<SplitParam>();
        let axis = axis_index(p.axis, outs[0].shape().dims().len())?;
        let inner = if p.squeeze_axis { row_len(outs[0].shape(), axis) / ins.len() } else { 0 };
        join(ins, |x| if p.squeeze_axis { inner } else { row_len(x.shape(), axis) }, &mut outs[0])
    });

/// Infers the shape of the concatenation of parts along an axis.
pub(crate) fn rejoined_shape(io: &mut ShapeIo<'_>, axis: usize) -> Result<()> {
    let mut whole = io.ins[0].clone();
    let (total, known) = io.ins.iter().fold((0, true), |(total, known), s| {
        let n = if s.ndim_is_known() { s.dim(axis) } else { -1 };
        (total + n, known && n >= 0)
    });
    if let Some(dims) = whole.dims_mut() {
        dims[axis] = if known { total } else { -1 };
    }
    io.assign_out(0, &whole)
}

/// The rank of an array that is split, from its own shape or that of a part.
pub(crate) fn rank_of_whole(io: &ShapeIo<'_>, squeezed: bool) -> Option<usize> {
    io.ins[0].ndim().or_else(|| io.outs.iter().find_map(Shape::ndim).map(|rank| rank + usize::from(squeezed)))
}

/// Infers the array's shape from its parts: the length of the split axis is known if those of all parts are.
pub(crate) fn whole_from_parts(io: &mut ShapeIo<'_>, axis: usize, squeezed: bool) -> Result<()> {
    let mut whole = Shape::unknown();
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
        let so_far = whole.clone();
        ensure!(
            whole.assign(&Shape::from(dims)),
            "output {i} is {part}, which does not fit the parts before it: {so_far}"
        );
    }
    if let (Some(n), Some(dims)) = (total, whole.dims_mut()) {
        dims[axis] = n;
    }
    io.assign_in(0, &whole)
}

/// The number of parts.
pub(crate) fn split_parts(p: &SplitParam) -> usize {
    if p.sections > 0 { p.sections as usize } else { p.indices.dims().len() }
}

/// The length of each part of an axis of length `n`. If `n` is 0, indices are not checked.
pub(crate) fn split_lengths(p: &SplitParam, n: usize) -> Result<Vec<usize>> {
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

pub(crate) fn split_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SplitParam>();
    ensure!(split_parts(p) > 0, "neither indices nor sections were given, so there are no parts: give one of them");
    let Some(rank) = rank_of_whole(io, p.squeeze_axis) else { return Ok(()) };
    let axis = axis_index(p.axis, rank)?;
    whole_from_parts(io, axis, p.squeeze_axis)?;
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

fn split(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axis = axis_index(ctx.params::<SplitParam>().axis, ins[0].shape().dims().len())?;
    let total = row_len(ins[0].shape(), axis);
    let rows = ins[0].len().checked_div(total).unwrap_or(0);
    cut(&ins[0], total, |out| out.len().checked_div(rows).unwrap_or(0), outs)
}
