//! Concatenation and stacking of arrays: `Concat`, `stack`, and NumPy's `concatenate`, `vstack`, `hstack`, `dstack`, `column_stack`.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Compose, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, parse_field, range_error, refuse_unknown};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;
use smallvec::SmallVec;

use super::axes::atleast_nd;
use crate::axes::row_len;
use crate::compose::op;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &CONCAT,
    &RNN_PARAM_CONCAT,
    &STACK,
    &STACK.renamed("_npi_stack"),
    &CONCATENATE,
    &VSTACK,
    &HSTACK,
    &DSTACK,
    &COLUMN_STACK,
];

/// Concatenates the inputs row by row; `width` is the row length of an input.
pub(crate) fn join(ins: &[In<'_>], width: impl Fn(&In<'_>) -> usize, out: &mut Out<'_>) -> Result<()> {
    by_size!(out.dtype(), T => {
        let parts = ins.iter().map(|x| Ok((source::<T>(x)?, width(x)))).collect::<Result<SmallVec<[_; 8]>>>()?;
        movement::concat(&parts, target::<T>(out)?);
    });
    Ok(())
}

/// Splits rows of `total` elements into the outputs; `width` is the row length of an output.
pub(crate) fn split_rows(
    input: &In<'_>,
    total: usize,
    width: impl Fn(&Out<'_>) -> usize,
    outs: &mut [Out<'_>],
) -> Result<()> {
    let rows = input.len().checked_div(total).unwrap_or(0);
    let mut offset = 0;
    for out in outs {
        let n = width(out);
        if out.wanted() && !out.is_empty() {
            by_size!(input.dtype(), T => {
                let to = (target::<T>(out)?, &[rows, n][..]);
                movement::slice((source::<T>(input)?, &[rows, total]), &[0, offset], &[1, 1], to);
            });
        }
        offset += n;
    }
    Ok(())
}

/// The index of an axis; a negative one counts from the end.
pub(super) fn axis_index(axis: i32, rank: usize) -> Result<usize> {
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

pub(crate) static CONCAT: Operator<ConcatParam> = Operator::new("Concat")
    .names_outputs()
    .aliases(&["_sparse_concat", "concat"])
    .doc("Concatenates arrays along an axis. The lengths of all other axes must be equal.")
    .variadic("data", "The arrays to concatenate.", "num_args")
    .sparse(
        |p, ins, _| {
            let is_by_row = p.get::<ConcatParam>().dim == 0 && ins.iter().all(|s| *s == StorageType::Csr);
            is_by_row.then_some(StorageType::Csr)
        },
        super::sparse::concat,
    )
    .shape(concat_shape)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<ConcatParam>().dim, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axis = axis_index(ctx.params::<ConcatParam>().dim, ins[0].shape().dims().len())?;
            split_rows(&ins[0], row_len(ins[0].shape(), axis), |x| row_len(x.shape(), axis), outs)
        }),
        Some(CONCAT_BACK),
    ));

pub(crate) static RNN_PARAM_CONCAT: Operator<ConcatParam> = Operator::new("_rnn_param_concat")
    .names_outputs()
    .aliases(&["_npi_rnn_param_concat"])
    .doc("Concatenates the parameters of a recurrent layer, as Concat does.")
    .variadic("data", "The parameters to concatenate.", "num_args")
    .shape(|p, io| joined_shape(p, io, UnknownLengths::Equal))
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<ConcatParam>().dim, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Compose(CONCAT_BACK));

fn concat_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    joined_shape(p, io, UnknownLengths::Independent)
}

/// What inference assumes if several inputs have an unknown length along the axis of concatenation.
#[derive(Clone, Copy, PartialEq)]
enum UnknownLengths {
    Independent,
    /// All are equal, like those of the directions of an RNN's first layer.
    Equal,
}

/// Infers the shapes of a concatenation and of its inputs.
fn joined_shape(p: &Params, io: &mut ShapeIo<'_>, unknown: UnknownLengths) -> Result<()> {
    let Some(rank) = io.ins.iter().chain(io.outs.iter()).find_map(Shape::ndim) else { return Ok(()) };
    let axis = axis_index(p.get::<ConcatParam>().dim, rank)?;
    let mut common = Shape::of_rank(rank);
    for s in io.ins.iter().chain(io.outs.iter()) {
        let (so_far, given) = (common.clone(), without_axis(s, axis));
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
        (several, total)
            if unknown == UnknownLengths::Equal && total >= known && (total - known) % several.len() as i64 == 0 =>
        {
            let length = of_length((total - known) / several.len() as i64);
            several.iter().try_for_each(|i| io.assign_in(*i, &length))
        }
        _ => Ok(()),
    }
}

/// Splits the gradient by `slice_like`, which takes the first rows. The axis of concatenation is swapped to the front. The remaining
/// rows are taken from the back by reversing the gradient twice, and split in the same way.
const CONCAT_BACK: Compose = |g: &mut dyn GradGraph, n: &GradNode<'_>| {
    let dim = n.params.get::<ConcatParam>().dim;
    let swap = |g: &mut dyn GradGraph, x| g.op(op!(shape::axes::SWAP_AXIS(x), dim1: 0, dim2: dim));
    let first = |g: &mut dyn GradGraph, x, like| g.op(op!(shape::slice::SLICE_LIKE(x, like), axes: [0]));
    let flip = |g: &mut dyn GradGraph, x| g.op(op!(shape::flip::REVERSE(x), axis: [0]));
    let swapped_inputs = n.inputs.iter().map(|x| swap(g, *x)).collect::<Result<Vec<_>>>()?;
    let mut remaining = swap(g, n.ograds[0])?;
    let mut grads = Vec::new();
    for (i, like) in swapped_inputs.iter().enumerate() {
        let grad = first(g, remaining, *like)?;
        grads.push(Some(swap(g, grad)?));
        let others = &swapped_inputs[i + 1..];
        if !others.is_empty() {
            let rest = g.op(op!(CONCAT(..others.iter().copied()), dim: 0))?;
            let flipped = flip(g, remaining)?;
            let tail = first(g, flipped, rest)?;
            remaining = flip(g, tail)?;
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

pub(crate) static STACK: Operator<StackParam> = Operator::new("stack")
    .doc("Stacks arrays of equal shapes along a new axis.")
    .variadic("data", "The arrays to stack.", "num_args")
    .shape(stack_shape)
    .forward(|ctx, ins, outs| {
        let axis = axis_index(ctx.params::<StackParam>().axis, outs[0].shape().dims().len())?;
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let (axis, num_outputs) = (n.params.get::<StackParam>().axis, n.inputs.len() as i32);
        let split =
            op!(shape::split::SLICE_CHANNEL(n.ograds[0]), num_outputs: num_outputs, axis: axis, squeeze_axis: true);
        Ok(g.outputs(split)?.into_iter().map(Some).collect())
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

/// For the shape of an input, the shape to which it is reshaped before the concatenation, and the axis of the concatenation.
type JoinView = fn(&Params, &Shape) -> Result<(Shape, usize)>;

/// Shape rule of a concatenation of reshaped inputs: lengths add up along the axis and are equal along all others.
fn joined_view_shape(p: &Params, io: &mut ShapeIo<'_>, view: JoinView) -> Result<()> {
    let (mut common, mut total, mut axis) = (Shape::unknown(), 0i64, 0);
    for i in 0..io.ins.len() {
        if !io.ins[i].ndim_is_known() {
            total = -1;
            continue;
        }
        let (shape, along) = view(p, &io.ins[i])?;
        axis = along;
        let others = without_axis(&shape, along);
        let so_far = common.clone();
        ensure!(
            common.assign(&others),
            "Incompatible input shape: expected {so_far} (any length of axis {along}), got {} for array {i}",
            io.ins[i]
        );
        let n = shape.dim(along);
        total = if total < 0 || n < 0 { -1 } else { total + n };
    }
    let Some(rank) = common.ndim() else { return Ok(()) };
    if let Some(d) = common.dims_mut().and_then(|d| d.get_mut(axis)) {
        *d = total;
    }
    io.assign_out(0, &common)?;
    let out = io.outs[0].clone();
    let mut missing = Vec::new();
    let mut known = 0;
    for i in 0..io.ins.len() {
        match io.ins[i].ndim() {
            // Lengths are inferred from the output only for an input that is not reshaped.
            Some(n) if n == rank && view(p, &io.ins[i])?.0.ndim() == Some(n) => {
                io.assign_in(i, &without_axis(&out, axis))?;
                let n = io.ins[i].dim(axis);
                if n < 0 { missing.push(i) } else { known += n }
            }
            Some(_) => known += view(p, &io.ins[i])?.0.dim(axis).max(0),
            None => return Ok(()),
        }
    }
    match missing[..] {
        [one] if out.dim(axis) >= known => {
            let mut shape = out;
            if let Some(dims) = shape.dims_mut() {
                dims[axis] -= known;
            }
            io.assign_in(one, &shape)
        }
        _ => Ok(()),
    }
}

/// The shape with an unknown length along one axis.
fn without_axis(shape: &Shape, axis: usize) -> Shape {
    let mut shape = shape.clone();
    if let Some(d) = shape.dims_mut().and_then(|d| d.get_mut(axis)) {
        *d = -1;
    }
    shape
}

fn join_views(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>], view: JoinView) -> Result<()> {
    let width = |x: &In<'_>| view(ctx.params, x.shape()).map_or(0, |(shape, axis)| row_len(&shape, axis));
    join(ins, width, &mut outs[0])
}

fn split_views(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>], view: JoinView) -> Result<()> {
    let width = |x: &Out<'_>| view(ctx.params, x.shape()).map_or(0, |(shape, axis)| row_len(&shape, axis));
    let total = outs.iter().map(width).sum();
    split_rows(&ins[0], total, width, outs)
}

/// Defines an operator that reshapes arrays by a [`JoinView`] and concatenates them. Takes the operator's name and the names of its data
/// argument, its numbered inputs and its output.
macro_rules! joining {
    (
        $name:ident: $op:literal ($data:literal, $names:literal, $output:literal),
        $doc:literal, $P:ident, |$p:ident, $s:ident| $view:expr
    ) => {
        pub(crate) static $name: Operator<$P> = {
            const VIEW: JoinView = |$p, $s| $view;
            Operator::new($op)
                .doc($doc)
                .variadic($data, "The arrays, all of one type.", "num_args")
                .input_names_by(|p| (0..p.get::<$P>().num_args).map(|i| format!(concat!($names, "{}"), i)).collect())
                .output_names_by(|_| vec![$output.into()])
                .shape(|p, io| joined_view_shape(p, io, VIEW))
                .forward(|ctx, ins, outs| join_views(ctx, ins, outs, VIEW))
                .grad(Grad::Kernel(Backward::new(|ctx, ins, outs| split_views(ctx, ins, outs, VIEW)), None))
        };
    };
}

params! {
    /// Parameters of `_npi_vstack` and `_npi_column_stack`.
    pub struct VstackParam {
        /// Number of arrays to join.
        num_args: i32 = required, where 1..=i32::MAX;
    }
}

joining!(VSTACK: "_npi_vstack" ("data", "arg", "output"),
    "Stacks arrays along axis 0 after giving them at least two axes.",
    VstackParam, |_p, s| Ok((atleast_nd(s, 2), 0)));

joining!(COLUMN_STACK: "_npi_column_stack" ("data", "arg", "output"),
"Stacks arrays along axis 1; vectors and scalars become columns.",
VstackParam, |_p, s| Ok(match s.dims() {
    [] => (Shape::new(&[1, 1]), 1),
    [n] => (Shape::new(&[*n, 1]), 1),
    dims => (Shape::new(dims), 1),
}));

joining!(HSTACK: "_npi_hstack" ("data", "data", "out"),
"Stacks arrays along axis 1; vectors and scalars along axis 0. `dim` is ignored.",
ConcatParam, |_p, s| {
    let shape = atleast_nd(s, 1);
    let axis = usize::from(shape.dims().len() > 1);
    Ok((shape, axis))
});

joining!(DSTACK: "_npi_dstack" ("data", "data", "out"),
"Stacks arrays along axis 2 after giving them at least three axes. `dim` is ignored.",
ConcatParam, |_p, s| Ok((atleast_nd(s, 3), 2)));

joining!(CONCATENATE: "_npi_concatenate" ("data", "data", "out"),
"Joins arrays along an axis; None flattens them first. All their other axes have equal lengths.",
ConcatenateParam, |p, s| {
    let Some(axis) = p.get::<ConcatenateParam>().axis else {
        return Ok((Shape::new(&[s.product(..)]), 0));
    };
    ensure!(s.ndim() != Some(0), "zero-dimensional arrays cannot be joined along an axis");
    Ok((s.clone(), Shape::axis(axis.into(), s.dims().len())?))
});

/// Parameters of `_npi_concatenate`: MXNet's metadata lists `dim`, but the operator reads `axis`.
pub(crate) struct ConcatenateParam {
    /// Number of arrays to join.
    pub num_args: i32,
    /// The axis along which they are joined.
    pub axis: Option<i32>,
}

impl OpParams for ConcatenateParam {
    fn fields() -> Vec<FieldInfo> {
        let mut fields = ConcatParam::fields();
        fields[1].doc = "Ignored; the axis is given as `axis` (0 by default, None to flatten the arrays).".into();
        fields
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        refuse_unknown(attrs, &["num_args", "axis"])?;
        let num_args: i32 = parse_field(attrs, "num_args", None)?;
        if num_args < 1 {
            return Err(Error::Param(range_error(&num_args, "num_args", &(1..=i32::MAX))));
        }
        Ok(ConcatenateParam { num_args, axis: parse_field(attrs, "axis", Some(Some(0)))? })
    }
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, numbers};

    fn joined(def: &'static OpDef, axis: Option<&str>, dims: &[&[i64]]) -> Result<Shape> {
        let n = dims.len().to_string();
        let mut attrs = vec![("num_args", n.as_str())];
        attrs.extend(axis.map(|a| ("axis", a)));
        let shapes: Vec<_> = dims.iter().map(|d| Shape::new(d)).collect();
        let shape = Case::new(def, &attrs).shapes(&shapes)?[0].clone();
        Case::new(def, &attrs).check_gradient(&dims.iter().map(|d| numbers(d)).collect::<Vec<_>>());
        Ok(shape)
    }

    #[test]
    fn inputs_are_reshaped_before_they_are_concatenated() {
        assert_eq!(joined(&VSTACK, None, &[&[3], &[2, 3]]).unwrap(), [3, 3].into());
        assert_eq!(joined(&VSTACK, None, &[&[], &[]]).unwrap(), [2, 1].into());
        assert_eq!(joined(&HSTACK, None, &[&[3], &[]]).unwrap(), [4].into());
        assert_eq!(joined(&HSTACK, None, &[&[2, 1], &[2, 3]]).unwrap(), [2, 4].into());
        assert_eq!(joined(&DSTACK, None, &[&[3], &[3]]).unwrap(), [1, 3, 2].into());
        assert_eq!(joined(&COLUMN_STACK, None, &[&[2], &[2, 3]]).unwrap(), [2, 4].into());
        assert_eq!(joined(&CONCATENATE, Some("-1"), &[&[2, 1], &[2, 3]]).unwrap(), [2, 4].into());
        assert_eq!(joined(&CONCATENATE, Some("None"), &[&[2, 1], &[3]]).unwrap(), [5].into());
        assert!(
            joined(&CONCATENATE, None, &[&[2, 1], &[2, 3]])
                .unwrap_err()
                .to_string()
                .contains("Incompatible input shape")
        );
        assert!(joined(&CONCATENATE, None, &[&[], &[]]).is_err());
    }
}
