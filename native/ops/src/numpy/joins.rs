//! Concatenation and stacking of arrays, and splits.

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params;
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, parse_field, refuse_unknown};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};

use super::views::with_axes;
use crate::shape::join::{self, ConcatParam, SplitParam, cut, join, row_len};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &join::STACK.renamed("_npi_stack"),
    &CONCATENATE,
    &VSTACK,
    &HSTACK,
    &DSTACK,
    &COLUMN_STACK,
    &HSPLIT,
    &HSPLIT_BACKWARD,
    &DSPLIT,
];

/// Maps an input's shape to the shape with added axes under which it is joined, and the axis of the join.
type JoinView = fn(&Params, &Shape) -> Result<(Shape, usize)>;

/// Shape rule: all axes but the joined one are equal; the lengths along the joined axis add up.
fn joined_shape(p: &Params, io: &mut ShapeIo<'_>, view: JoinView) -> Result<()> {
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
            // Only an input that keeps its rank can take lengths from the output.
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

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>], view: JoinView) -> Result<()> {
    let width = |x: &In<'_>| view(ctx.params, x.shape()).map_or(0, |(shape, axis)| row_len(&shape, axis));
    join(ins, width, &mut outs[0])
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>], view: JoinView) -> Result<()> {
    let width = |x: &Out<'_>| view(ctx.params, x.shape()).map_or(0, |(shape, axis)| row_len(&shape, axis));
    let total = outs.iter().map(width).sum();
    cut(&ins[0], total, width, outs)
}

/// Defines an operator that joins arrays; the closure is its [`JoinView`].
macro_rules! joining {
    ($name:ident: $op:literal ($data:literal, $names:literal), $doc:literal, $P:ident, |$p:ident, $s:ident| $view:expr) => {
        pub(crate) static $name: OpDef = {
            const VIEW: JoinView = |$p, $s| $view;
            OpDef::new($op)
                .doc($doc)
                .variadic($data, "The arrays, all of one type.", "num_args")
                .params::<$P>()
                .input_names_by(|p| (0..p.get::<$P>().num_args).map(|i| format!(concat!($names, "{}"), i)).collect())
                .shape(|p, io| joined_shape(p, io, VIEW))
                .forward(|ctx, ins, outs| forward(ctx, ins, outs, VIEW))
                .grad(Grad::Kernel(Backward::new(|ctx, ins, outs| backward(ctx, ins, outs, VIEW)), None))
        };
    };
}

params! {
    /// Parameters of `_npi_vstack` and `_npi_column_stack`.
    pub struct StackParam {
        /// Number of arrays to join.
        num_args: i32 = required, where 1..=i32::MAX;
    }
}

joining!(VSTACK: "_npi_vstack" ("data", "arg"),
    "Stacks arrays along axis 0 after giving them at least two axes.",
    StackParam, |_p, s| Ok((with_axes(s, 2), 0)));
joining!(COLUMN_STACK: "_npi_column_stack" ("data", "arg"),
"Stacks arrays along axis 1; vectors and scalars become columns.",
StackParam, |_p, s| Ok(match s.dims() {
    [] => (Shape::new(&[1, 1]), 1),
    [n] => (Shape::new(&[*n, 1]), 1),
    dims => (Shape::new(dims), 1),
}));
joining!(HSTACK: "_npi_hstack" ("data", "data"),
"Stacks arrays along axis 1; vectors and scalars along axis 0. `dim` is ignored.",
ConcatParam, |_p, s| {
    let shape = with_axes(s, 1);
    let axis = usize::from(shape.dims().len() > 1);
    Ok((shape, axis))
});
joining!(DSTACK: "_npi_dstack" ("data", "data"),
"Stacks arrays along axis 2 after giving them at least three axes. `dim` is ignored.",
ConcatParam, |_p, s| Ok((with_axes(s, 3), 2)));
joining!(CONCATENATE: "_npi_concatenate" ("data", "data"),
"Joins arrays along an axis; None flattens them first. All their other axes have equal lengths.",
ConcatenateParam, |p, s| {
    let Some(axis) = p.get::<ConcatenateParam>().axis else {
        return Ok((Shape::new(&[s.product(..)]), 0));
    };
    ensure!(s.ndim() != Some(0), "zero-dimensional arrays cannot be joined along an axis");
    Ok((s.clone(), Shape::axis(axis.into(), s.dims().len())?))
});

/// Parameters of `_npi_concatenate`: MXNet's metadata lists `dim`, but the operator reads `axis`.
pub(super) struct ConcatenateParam {
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
            return Err(Error::Param(format!(
                "value {num_args} for parameter num_args is out of range: give 1 or more"
            )));
        }
        Ok(ConcatenateParam { num_args, axis: parse_field(attrs, "axis", Some(Some(0)))? })
    }
}

/// Defines an operator that splits an array along a fixed axis.
macro_rules! splitting {
    ($name:ident: $op:literal, $doc:literal, |$rank:ident| $axis:expr) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc(concat!($doc, " The argument `axis` is ignored."))
            .inputs(&[arg("data", "The array to split.")])
            .params::<SplitParam>()
            .outputs(|p| join::split_parts(p.get()))
            .shape(|p, io| {
                let p = p.get::<SplitParam>();
                let Some($rank) = join::rank_of_whole(io, p.squeeze_axis) else { return Ok(()) };
                split_shape(p, io, $axis?)
            })
            .dtype(|_, io| io.first_known().map_or(Ok(()), |d| io.assign_all(d)))
            .forward(|_, ins, outs| {
                let $rank = ins[0].shape().dims().len();
                let axis = $axis?;
                cut(&ins[0], row_len(ins[0].shape(), axis), |out| row_len(out.shape(), axis), outs)
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
    |rank| axis_of("hsplit", rank, 1, usize::from(rank > 1)));
pub(super) static HSPLIT_BACKWARD: OpDef = OpDef::new("_npi_hsplit_backward")
    .doc("The gradient of `_npi_hsplit`: the gradients of the parts, joined along the axis.")
    .inputs(&[])
    .listed(0)
    .params::<SplitParam>()
    .unlisted_params()
    .num_inputs_by(|p| join::split_parts(p.get()))
    .input_names_by(|p| (0..join::split_parts(p.get())).map(|i| format!("grad{i}")).collect())
    .shape(|_, io| match io.ins.first().and_then(Shape::ndim) {
        Some(rank) => join::rejoined_shape(io, axis_of("hsplit", rank, 1, usize::from(rank > 1))?),
        None => Ok(()),
    })
    .dtype(crate::rules::one_dtype)
    .forward(|_, ins, outs| {
        let axis = usize::from(outs[0].shape().dims().len() > 1);
        join(ins, |x| row_len(x.shape(), axis), &mut outs[0])
    });

splitting!(DSPLIT: "_npi_dsplit", "Splits an array along axis 2, at indices or into a number of parts.",
    |rank| axis_of("dsplit", rank, 3, 2));

fn axis_of(split: &str, rank: usize, least: usize, axis: usize) -> Result<usize> {
    ensure!(
        rank >= least,
        "ValueError: {split} only works on arrays of {least} or more dimensions, but this one has {rank}"
    );
    Ok(axis)
}

fn split_shape(p: &SplitParam, io: &mut ShapeIo<'_>, axis: usize) -> Result<()> {
    ensure!(join::split_parts(p) > 0, "there is nothing to split into: give indices or sections");
    join::whole_from_parts(io, axis, p.squeeze_axis)?;
    let Ok(n) = usize::try_from(io.ins[0].dim(axis)) else { return Ok(()) };
    for (i, length) in join::split_lengths(p, n)?.into_iter().enumerate() {
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
    use ferromx_core::ndarray::NDArray;

    use super::*;
    use crate::testing::{Case, array};

    fn counted(dims: &[i64]) -> NDArray {
        array(&(0..dims.iter().product::<i64>()).map(|i| i as f64).collect::<Vec<_>>(), dims)
    }

    fn joined(def: &'static OpDef, axis: Option<&str>, dims: &[&[i64]]) -> Result<Shape> {
        let n = dims.len().to_string();
        let mut attrs = vec![("num_args", n.as_str())];
        attrs.extend(axis.map(|a| ("axis", a)));
        let shapes: Vec<_> = dims.iter().map(|d| Shape::new(d)).collect();
        let shape = Case::new(def, &attrs).shapes(&shapes)?[0].clone();
        Case::new(def, &attrs).check_gradient(&dims.iter().map(|d| counted(d)).collect::<Vec<_>>());
        Ok(shape)
    }

    #[test]
    fn arrays_get_enough_axes() {
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

    #[test]
    fn the_axis_of_a_split_is_fixed() {
        for (def, dims, attrs, want) in [
            (&HSPLIT, &[2, 3, 4][..], [("indices", "()"), ("sections", "2")], [&[2, 2, 4][..], &[2, 1, 4]]),
            (&HSPLIT, &[3], [("indices", "(0, 1)"), ("sections", "0")], [&[1], &[2]]),
            (&HSPLIT, &[2, 2], [("indices", "(0, 1)"), ("squeeze_axis", "1")], [&[2], &[2]]),
            (&DSPLIT, &[2, 3, 4], [("indices", "(0, 1)"), ("sections", "0")], [&[2, 3, 1], &[2, 3, 3]]),
        ] {
            let case = Case::new(def, &attrs);
            assert_eq!(case.shapes(&[Shape::new(dims)]).unwrap(), want.map(Shape::new), "{attrs:?}");
            case.check_gradient(&[counted(dims)]);
        }
        assert!(Case::new(&DSPLIT, &[("indices", "()"), ("sections", "2")]).shapes(&[[2, 3].into()]).is_err());
    }
}
