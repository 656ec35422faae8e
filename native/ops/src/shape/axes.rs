//! Operators that permute, insert and remove axes: `transpose`, `moveaxis`, `SwapAxis`, `expand_dims`, `squeeze`, `atleast_nd`.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape, Sizes};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;

use crate::axes::{numpy_axes, without_axes};
use crate::compose::op;
use crate::movement::{by_size, source, target};
use crate::rules::RESHAPE_BACK;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &TRANSPOSE,
    &NP_TRANSPOSE,
    &MOVEAXIS,
    &SWAP_AXIS,
    &EXPAND_DIMS,
    &SQUEEZE,
    &NP_SQUEEZE,
    &ATLEAST_1D,
    &ATLEAST_2D,
    &ATLEAST_3D,
];

params! {
    /// Parameters of `transpose`.
    pub struct TransposeParam {
        /// The input axis of each output axis; by default the axes are reversed.
        axes: Shape = (Shape::new(&[]));
    }
}

pub(crate) static TRANSPOSE: Operator<TransposeParam> = Operator::new("transpose")
    .doc("Permutes the axes: axis i of the result is axis `axes[i]` of the input.")
    .inputs(&[arg("data", "The array to transpose.")])
    .shape(|p, io| permuted_shape(io, |rank| permutation(p.get(), rank)))
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
        Ok(vec![Some(g.op(op!(TRANSPOSE(n.ograds[0]), axes: Shape::from(inverse)))?)])
    }));

/// The input axis of each output axis, checked to be a permutation of `rank` axes.
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

/// Transposes the input, taken as an array of shape `dims`.
pub(crate) fn permute(input: &In<'_>, dims: &[usize], axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    by_size!(input.dtype(), T => movement::transpose(source::<T>(input)?, dims, axes, target::<T>(out)?));
    Ok(())
}

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_transpose`.
    pub struct NpTransposeParam {
        /// For each axis of the result, the axis of the array that becomes it; by default all axes in reverse order.
        axes: Shape = (Shape::unknown());
    }
}

pub(super) static NP_TRANSPOSE: Operator<NpTransposeParam> = Operator::new("_np_transpose")
    .doc("Permutes the axes: axis i of the result is axis `axes[i]` of the array.")
    .inputs(A)
    .shape(|p, io| permuted_shape(io, |rank| np_permutation(p.get(), rank)))
    .forward(|ctx, ins, outs| {
        let axes = np_permutation(ctx.params(), ins[0].shape().dims().len())?;
        permute(&ins[0], &ins[0].shape().to_usize(), &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let axes = &n.params.get::<NpTransposeParam>().axes;
        let inverse = match axes.ndim() {
            None => Shape::unknown(),
            Some(rank) => {
                let forward = np_permutation(n.params.get(), rank)?;
                Shape::from(
                    (0..rank).map(|i| forward.iter().position(|a| *a == i).unwrap_or(i) as i64).collect::<Dims>(),
                )
            }
        };
        Ok(vec![Some(g.op(op!(NP_TRANSPOSE(n.ograds[0]), axes: inverse))?)])
    }));

/// The input axis of each output axis. Unlike those of `transpose`, negative axes count from the end.
fn np_permutation(p: &NpTransposeParam, rank: usize) -> Result<Vec<usize>> {
    let Some(num_axes) = p.axes.ndim() else { return Ok((0..rank).rev().collect()) };
    ensure!(num_axes == rank, "axes={} does not match the array, which has {rank} axes", p.axes);
    let axes = p.axes.dims().iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.into_iter().eq(0..rank),
        "ValueError: repeated axis in transpose: axes={} is not a permutation: list each of the {rank} axes once",
        p.axes
    );
    Ok(axes)
}

/// Shape rule of permutations. The shapes of input and output are inferred from each other.
pub(super) fn permuted_shape<A: AsRef<[usize]>>(
    io: &mut ShapeIo<'_>,
    permutation: impl Fn(usize) -> Result<A>,
) -> Result<()> {
    let Some(rank) = io.ins[0].ndim().or(io.outs[0].ndim()) else { return Ok(()) };
    let axes = permutation(rank)?;
    let axes = axes.as_ref();
    if io.ins[0].ndim_is_known() {
        let out: Dims = axes.iter().map(|a| io.ins[0].dim(*a)).collect();
        io.assign_out(0, &Shape::from(out))?;
    }
    let mut back: Dims = std::iter::repeat_n(-1, rank).collect();
    for (a, d) in axes.iter().zip(io.outs[0].dims()) {
        back[*a] = *d;
    }
    io.assign_in(0, &Shape::from(back))
}

params! {
    /// Parameters of `_np_moveaxis`.
    pub struct MoveaxisParam {
        /// The axes to move.
        source: Shape = required;
        /// The position of each moved axis in the result; the other axes keep their order.
        destination: Shape = required;
    }
}

pub(crate) static MOVEAXIS: Operator<MoveaxisParam> = Operator::new("_np_moveaxis")
    .doc("Moves axes to other positions; the others keep their order.")
    .inputs(A)
    .shape(|p, io| permuted_shape(io, |rank| moveaxis_permutation(p.get(), rank)))
    .forward(|ctx, ins, outs| {
        let axes = moveaxis_permutation(ctx.params(), ins[0].shape().dims().len())?;
        permute(&ins[0], &ins[0].shape().to_usize(), &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<MoveaxisParam>();
        Ok(vec![Some(g.op(op!(MOVEAXIS(n.ograds[0]), source: &p.destination, destination: &p.source))?)])
    }));

/// The input axis of each output axis after the move.
fn moveaxis_permutation(p: &MoveaxisParam, rank: usize) -> Result<Vec<usize>> {
    let (from, to) = (p.source.dims(), p.destination.dims());
    ensure!(
        from.len() == to.len(),
        "source={} and destination={} must have the same number of axes",
        p.source,
        p.destination
    );
    let resolve = |axes: &[i64], name: &str| {
        let resolved = axes.iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>>>()?;
        let mut sorted = resolved.clone();
        sorted.sort_unstable();
        ensure!(sorted.windows(2).all(|w| w[0] < w[1]), "{name}={} names an axis twice", Shape::new(axes));
        Ok(resolved)
    };
    let (from, to) = (resolve(from, "source")?, resolve(to, "destination")?);
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let axis = |i: usize| to.iter().position(|t| *t == i).map(|k| from[k]);
    Ok((0..rank).map(|i| axis(i).or_else(|| rest.next()).unwrap_or(i)).collect())
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

pub(crate) static SWAP_AXIS: Operator<SwapAxisParam> = Operator::new("SwapAxis")
    .legacy()
    .aliases(&["_npi_swapaxes", "swapaxes"])
    .doc("Swaps the axes dim1 and dim2.")
    .inputs(&[arg("data", "The array whose axes are swapped.")])
    .shape(|p, io| permuted_shape(io, |rank| swapaxes_permutation(p.get(), rank)))
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let axes = swapaxes_permutation(ctx.params(), dims.len())?;
        permute(&ins[0], &dims, &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(SWAP_AXIS(n.ograds[0]), ..n.params.get()))?)])));

/// The input axis of each output axis after the swap.
fn swapaxes_permutation(p: &SwapAxisParam, rank: usize) -> Result<Sizes> {
    let mut axes: Sizes = (0..rank).collect();
    axes.swap(Shape::axis(p.dim1.into(), rank)?, Shape::axis(p.dim2.into(), rank)?);
    Ok(axes)
}

params! {
    /// Parameters of `expand_dims`.
    pub struct ExpandDimParam {
        /// Index of the new axis in the result; -1 is the last axis.
        axis: i32 = required;
    }
}

pub(crate) static EXPAND_DIMS: Operator<ExpandDimParam> = Operator::new("expand_dims")
    .aliases(&["_npi_expand_dims"])
    .doc("Inserts an axis of length 1, without copying.")
    .inputs(&[arg("data", "The array to expand.")])
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

pub(crate) static SQUEEZE: Operator<SqueezeParam> = Operator::new("squeeze")
    .names_data()
    .doc("Removes axes of length 1, without copying. At least one axis is kept.")
    .inputs(&[arg("data", "The array to squeeze.")])
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
    /// Parameters of `_np_squeeze`.
    pub struct NpSqueezeParam {
        /// The axes to remove, all of length 1; by default every axis of length 1.
        axis: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(crate) static NP_SQUEEZE: Operator<NpSqueezeParam> = Operator::new("_np_squeeze")
    .doc("Removes axes of length 1 without a copy.")
    .inputs(A)
    .shape(np_squeeze_shape)
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

fn np_squeeze_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let shape = io.ins[0].clone();
    let Some(rank) = shape.ndim() else { return Ok(()) };
    let removed: Vec<usize> = match &p.get::<NpSqueezeParam>().axis {
        ShapeOrNone(None) if !shape.is_known() => return Ok(()),
        ShapeOrNone(None) => (0..rank).filter(|i| shape.dim(*i) == 1).collect(),
        // MXNet accepts an axis that is listed twice.
        ShapeOrNone(Some(given)) if rank > 0 => {
            given.dims().iter().map(|axis| Shape::axis(*axis, rank)).collect::<Result<Vec<usize>>>()?
        }
        given => numpy_axes(given, rank)?.to_vec(),
    };
    if let Some(axis) = removed.iter().find(|i| shape.dim(**i) > 1 || shape.dim(**i) == 0) {
        return Err(Error::Value(format!("axis {axis} of shape {shape} cannot be removed: its length is not 1")));
    }
    io.assign_out(0, &without_axes(&shape, &removed))
}

params! {
    /// Parameters of `_np_atleast_1d`, `_np_atleast_2d` and `_np_atleast_3d`.
    pub struct AtleastParam {
        /// Number of arrays.
        num_args: i32 = required, where 1..=i32::MAX;
    }
}

/// Defines an operator that gives arrays at least `$n` axes.
macro_rules! atleast {
    ($name:ident: $op:literal, $n:literal, $doc:literal) => {
        pub(crate) static $name: Operator<AtleastParam> = Operator::new($op)
            .doc($doc)
            .variadic("arys", "The arrays.", "num_args")
            .input_names_by(|p| (0..p.get::<AtleastParam>().num_args).map(|i| format!("ary{i}")).collect())
            .outputs(|p| p.get::<AtleastParam>().num_args as usize)
            .shape(|_, io| {
                for i in 0..io.ins.len() {
                    if io.ins[i].ndim_is_known() {
                        let shape = atleast_nd(&io.ins[i], $n);
                        io.assign_out(i, &shape)?;
                    }
                }
                Ok(())
            })
            .dtype(|_, io| (0..io.ins.len()).try_for_each(|i| io.ins[i].map_or(Ok(()), |d| io.assign_out(i, d))))
            .forward(|_, ins, outs| {
                for (x, out) in ins.iter().zip(outs).filter(|(_, out)| out.wanted()) {
                    out.bytes_mut()?.copy_from_slice(x.bytes()?);
                }
                Ok(())
            })
            .grad(Grad::Compose(|g, n| {
                let back = |(x, og)| g.op(op!(shape::reshape::RESHAPE_LIKE(og, x))).map(Some);
                n.inputs.iter().copied().zip(n.ograds.iter().copied()).map(back).collect()
            }));
    };
}

atleast!(ATLEAST_1D: "_np_atleast_1d", 1, "Gives each array at least one axis: a number becomes an array of shape (1).");
atleast!(ATLEAST_2D: "_np_atleast_2d", 2,
    "Gives each array at least two axes: () becomes (1, 1), and (n) becomes (1, n).");
atleast!(ATLEAST_3D: "_np_atleast_3d", 3,
    "Gives each array at least three axes: () becomes (1, 1, 1), (n) becomes (1, n, 1), and (m, n) becomes (m, n, 1).");

/// The shape with axes of length 1 inserted, so that it has at least `n` axes.
pub(super) fn atleast_nd(shape: &Shape, n: usize) -> Shape {
    match (shape.dims(), n) {
        ([], n) => Shape::new(&[1, 1, 1][..n]),
        ([d], 2) => Shape::new(&[1, *d]),
        ([d], 3) => Shape::new(&[1, *d, 1]),
        ([a, b], 3) => Shape::new(&[*a, *b, 1]),
        (dims, _) => Shape::new(dims),
    }
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::{Case, array};

    fn shaped(def: &'static OpDef, dims: &[i64], attrs: &[(&str, &str)]) -> Result<Shape> {
        Case::parse(def, attrs)?.shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
    }

    #[test]
    fn squeeze_removes_axes_of_length_one() {
        let squeeze = |dims: &[i64], axis: &str| shaped(&NP_SQUEEZE, dims, &[("axis", axis)]);
        assert_eq!(squeeze(&[1, 1, 1], "None").unwrap(), Shape::new(&[]));
        assert_eq!(squeeze(&[1, 1, 4], "(0, -2)").unwrap(), [4].into());
        assert!(squeeze(&[2, 1], "0").unwrap_err().to_string().contains("axis 0 of shape [2,1]"));
    }

    #[test]
    fn atleast_adds_axes_of_length_one() {
        let x = [array(&[1f64], &[]), array(&[1f64, 2.0], &[2])];
        for (def, want) in [
            (&ATLEAST_1D, [&[1][..], &[2]]),
            (&ATLEAST_2D, [&[1, 1], &[1, 2]]),
            (&ATLEAST_3D, [&[1, 1, 1], &[1, 2, 1]]),
        ] {
            let case = Case::new(def, &[("num_args", "2")]);
            let shapes: Vec<_> = case.run(&x).unwrap().iter().map(|y| y.shape().clone()).collect();
            assert_eq!(shapes, want.map(Shape::new));
            case.check_gradient(&x);
        }
    }
}
