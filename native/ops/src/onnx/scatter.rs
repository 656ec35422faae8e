//! `GatherElements`, `ScatterElements` and `ScatterND`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::index::{fill_rows, gather, scatter, scatter_by};
use ferromx_kernels::map::Arith;
use ferromx_kernels::math::{maximum, minimum};
use ferromx_kernels::reduce::NumericLane;

use super::integers;
use crate::precision::by_precision;
use crate::rules::{first_dtype, no_gradient, one_dtype_of};

param_enum! {
    /// How an update is combined with the element.
    pub enum Reduction {
        /// The update replaces it.
        Set = "none",
        /// The sum.
        Add = "add",
        /// The product.
        Mul = "mul",
        /// The larger of the two.
        Max = "max",
        /// The smaller of the two.
        Min = "min",
    }
}

params! {
    /// Parameters of `_onnx_ScatterElements`.
    pub struct ScatterElementsParam {
        /// The axis that is indexed; a negative one counts from the end.
        axis: i32 = 0;
        /// How an update is combined with the element.
        reduction: Reduction = (Reduction::Set);
    }
}

params! {
    /// Parameters of `_onnx_ScatterND`.
    pub struct ScatterNdParam {
        /// How an update is combined with the element.
        reduction: Reduction = (Reduction::Set);
    }
}

const INPUTS: &[ArgDef] = &[
    arg("data", "The array to update."),
    arg("indices", "Which elements are updated; negative indices count from the end. Integers."),
    arg("updates", "The updates."),
];

params! {
    /// Parameters of `_onnx_GatherElements`.
    pub struct GatherElementsParam {
        /// The axis that is indexed; a negative one counts from the end.
        axis: i32 = 0;
    }
}

pub(super) static GATHER_ELEMENTS: Operator<GatherElementsParam> = Operator::new("_onnx_GatherElements")
    .doc(
        "Gathers elements along an axis: output[c] is data[c with the coordinate of `axis` replaced by indices[c]].\n\n\
         Shapes: data (d0, ..., dk), indices of the same rank and no longer than data on all other axes, output as indices. \
         Source: GatherElements of ONNX.",
    )
    .inputs(&[
        arg("data", "The array to gather from."),
        arg("indices", "Which elements to gather; negative indices count from the end. Integers."),
    ])
    .shape(|p, io| {
        io.assign_out(0, &io.ins[1].clone())?;
        io.assign_in(1, &io.outs[0].clone())?;
        check_indices_shape(p.get::<GatherElementsParam>().axis, &io.ins[0], &io.ins[1])
    })
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let offsets = element_offsets(ctx.params::<GatherElementsParam>().axis, &ins[1], ins[0].shape())?;
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let data = ins[0].slice::<T>()?;
            gather(data, (1, data.len(), 1), &offsets, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, &DType::ALL)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            no_gradient(&mut outs[1])?;
            if !outs[0].wanted() {
                return Ok(());
            }
            let offsets = element_offsets(ctx.params::<GatherElementsParam>().axis, &ins[1], outs[0].shape())?;
            by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
                let dx = outs[0].slice_mut::<T>()?;
                dx.fill(T::default());
                scatter_by(ins[0].slice::<T>()?, &offsets, (1, dx.len(), 1), dx, |x: <T as Arith>::Lane, y: <T as Arith>::Lane| x.plus(y));
                Ok(())
            }, other => Err(ctx.unsupported(other, &[DType::F16, DType::F32, DType::F64])))
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

/// Checks that the indices have the rank of data, and are no longer than data along all axes but `axis`.
fn check_indices_shape(axis: i32, data: &Shape, indices: &Shape) -> Result<()> {
    let (Some(rank), Some(other)) = (data.ndim(), indices.ndim()) else { return Ok(()) };
    let axis = Shape::axis(axis.into(), rank)?;
    let fits = |k: usize| k == axis || data.dim(k) < 0 || indices.dim(k) <= data.dim(k);
    ensure!(
        rank == other && (0..rank).all(fits),
        "indices of shape {indices} do not match data of shape {data}: expected the same rank, and no longer than data on all axes but \
         {axis}"
    );
    Ok(())
}

pub(super) static SCATTER_ELEMENTS: Operator<ScatterElementsParam> = Operator::new("_onnx_ScatterElements")
    .doc(
        "Data with some elements updated: updates[c] goes to c with the coordinate of `axis` replaced by indices[c]. Updates of one \
         element are applied in order, so without a reduction the last one wins.\n\n\
         Shapes: data (d0, ..., dk), indices of the same rank and no longer than data on all other axes, updates as indices, output as \
         data. Differentiable with the reductions none and add. Source: ScatterElements of ONNX.",
    )
    .inputs(INPUTS)
    .shape(|p, io| {
        io.assign_out(0, &io.ins[0].clone())?;
        io.assign_in(0, &io.outs[0].clone())?;
        io.assign_in(2, &io.ins[1].clone())?;
        io.assign_in(1, &io.ins[2].clone())?;
        check_indices_shape(p.get::<ScatterElementsParam>().axis, &io.ins[0], &io.ins[1])
    })
    .dtype(|_, io| one_dtype_of(io, [0, 2]))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<ScatterElementsParam>();
        let offsets = element_offsets(p.axis, &ins[1], ins[0].shape())?;
        scatter_updates(ctx, p.reduction, ins, &Slices { indices: offsets, len: 1 }, &mut outs[0])
    })
    .grad(Grad::By(|p| match p.get::<ScatterElementsParam>().reduction {
        Reduction::Set | Reduction::Add => Grad::Kernel(
            Backward::new(|ctx, ins, outs| {
                let p = ctx.params::<ScatterElementsParam>();
                let offsets = element_offsets(p.axis, &ins[1], ins[0].shape())?;
                backward(ctx, p.reduction, &ins[0], &Slices { indices: offsets, len: 1 }, outs)
            })
            .inputs(Deps::Some(&[1])),
            None,
        ),
        _ => Grad::None,
    }));

pub(super) static SCATTER_ND: Operator<ScatterNdParam> = Operator::new("_onnx_ScatterND")
    .doc(
        "Data with some slices updated: `indices[i]` holds the leading coordinates of the slice that `updates[i]` goes to. Updates of one \
         slice are applied in order, so without a reduction the last one wins.\n\n\
         Shapes: data (d0, ..., dk), indices (i0, ..., im, n) with n coordinates, updates (i0, ..., im, dn, ..., dk), output as data. \
         Differentiable with the reductions none and add. Source: ScatterND of ONNX.",
    )
    .inputs(INPUTS)
    .shape(nd_shape)
    .dtype(|_, io| one_dtype_of(io, [0, 2]))
    .forward(|ctx, ins, outs| {
        let slices = selected_slices(&ins[1], ins[0].shape())?;
        scatter_updates(ctx, ctx.params::<ScatterNdParam>().reduction, ins, &slices, &mut outs[0])
    })
    .grad(Grad::By(|p| match p.get::<ScatterNdParam>().reduction {
        Reduction::Set | Reduction::Add => Grad::Kernel(
            Backward::new(|ctx, ins, outs| {
                let slices = selected_slices(&ins[1], ins[0].shape())?;
                backward(ctx, ctx.params::<ScatterNdParam>().reduction, &ins[0], &slices, outs)
            })
            .inputs(Deps::Some(&[1])),
            None,
        ),
        _ => Grad::None,
    }));

fn nd_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    io.assign_out(0, &io.ins[0].clone())?;
    io.assign_in(0, &io.outs[0].clone())?;
    let (data, indices) = (io.ins[0].clone(), io.ins[1].clone());
    let (Some(rank), Some(indices_rank)) = (data.ndim(), indices.ndim()) else { return Ok(()) };
    ensure!(indices_rank > 0, "indices is a scalar: its last axis must hold coordinates");
    let Ok(n) = usize::try_from(indices.dim(indices_rank - 1)) else { return Ok(()) };
    ensure!(n <= rank, "indices of shape {indices} hold {n} coordinates, but data has shape {data}");
    let dims: Vec<i64> = indices.dims()[..indices_rank - 1].iter().chain(&data.dims()[n..]).copied().collect();
    io.assign_in(2, &Shape::new(&dims))
}

/// The index from the start of the axis, checked against its length.
fn resolve_index(index: i64, len: usize, axis: usize) -> Result<usize> {
    let from_start = if index < 0 { index.saturating_add(len as i64) } else { index };
    match usize::try_from(from_start).ok().filter(|i| *i < len) {
        Some(i) => Ok(i),
        None => Err(Error::Value(format!("index {index} is outside axis {axis}, which has length {len}"))),
    }
}

/// The offset into data of the element that each index selects.
fn element_offsets(axis: i32, indices: &In<'_>, data: &Shape) -> Result<Vec<usize>> {
    let (lens, dims) = (data.to_usize(), indices.shape().to_usize());
    let axis = Shape::axis(axis.into(), lens.len())?;
    let strides: Vec<usize> = (0..lens.len()).map(|k| lens[k + 1..].iter().product()).collect();
    let mut coordinates = vec![0usize; dims.len()];
    let mut offsets = Vec::with_capacity(indices.len());
    for index in integers("indices", indices)? {
        let base: usize = (0..dims.len()).filter(|k| *k != axis).map(|k| coordinates[k] * strides[k]).sum();
        offsets.push(base + resolve_index(index, lens[axis], axis)? * strides[axis]);
        for k in (0..dims.len()).rev() {
            coordinates[k] += 1;
            if coordinates[k] < dims[k] {
                break;
            }
            coordinates[k] = 0;
        }
    }
    Ok(offsets)
}

/// The slices of an array that updates are written to.
struct Slices {
    /// The index of the slice of each update.
    indices: Vec<usize>,
    /// The number of consecutive elements of a slice.
    len: usize,
}

impl Slices {
    /// The shape of an array as (outer, slices, elements).
    fn shape_of(&self, num_elements: usize) -> (usize, usize, usize) {
        (1, num_elements / self.len.max(1), self.len)
    }
}

/// The slice that each tuple of coordinates selects.
fn selected_slices(indices: &In<'_>, data: &Shape) -> Result<Slices> {
    let lens = data.to_usize();
    let n = indices.shape().dims().last().map_or(0, |n| *n as usize);
    let len = lens[n..].iter().product();
    let count: usize = indices.shape().to_usize().iter().rev().skip(1).product();
    if n == 0 {
        return Ok(Slices { indices: vec![0; count], len });
    }
    let slice_index = |coordinates: &[i64]| {
        coordinates
            .iter()
            .enumerate()
            .try_fold(0, |slice, (k, index)| Ok(slice * lens[k] + resolve_index(*index, lens[k], k)?))
    };
    let indices = integers("indices", indices)?.chunks_exact(n).map(slice_index).collect::<Result<_>>()?;
    Ok(Slices { indices, len })
}

/// Copies data to the output and combines it with the updates.
fn scatter_updates(
    ctx: &OpCtx<'_>,
    reduction: Reduction,
    ins: &[In<'_>],
    slices: &Slices,
    out: &mut Out<'_>,
) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        type C = <T as Arith>::Lane;
        let (updates, out) = (ins[2].slice::<T>()?, out.slice_mut::<T>()?);
        out.copy_from_slice(ins[0].slice::<T>()?);
        let (indices, shape) = (&slices.indices[..], slices.shape_of(out.len()));
        match reduction {
            Reduction::Set => scatter(updates, indices, shape, out),
            Reduction::Add => scatter_by(updates, indices, shape, out, |x: C, y: C| x.plus(y)),
            Reduction::Mul => scatter_by(updates, indices, shape, out, |x: C, y: C| x.times(y)),
            Reduction::Max => scatter_by(updates, indices, shape, out, maximum::<C>),
            Reduction::Min => scatter_by(updates, indices, shape, out, minimum::<C>),
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, &DType::ALL)))
}

/// Outputs: gradients of data, indices and updates. Elements of data that were replaced have gradient 0.
fn backward(ctx: &OpCtx<'_>, reduction: Reduction, dy: &In<'_>, slices: &Slices, outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    let ins = std::slice::from_ref(dy);
    by_precision!((ins, outs), dy.dtype(), T for [F16, BF16] => {
        let dy = ins[0].slice::<T>()?;
        let (indices, shape) = (&slices.indices[..], slices.shape_of(dy.len()));
        if outs[0].wanted() {
            let dx = outs[0].slice_mut::<T>()?;
            dx.copy_from_slice(dy);
            if reduction == Reduction::Set {
                fill_rows(T::default(), indices, shape, dx);
            }
        }
        if outs[2].wanted() {
            gather(dy, shape, indices, outs[2].slice_mut::<T>()?);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn updates_are_applied_in_order() {
        let data = array(&[1i32, 2, 3, 4, 5, 6], &[2, 3]);
        let indices = array(&[0i64, -1, 1, 1], &[2, 2]);
        let updates = array(&[10i32, 20, 30, 40], &[2, 2]);
        let run = |reduction: &str| {
            let case = Case::new(&SCATTER_ELEMENTS, &[("axis", "1"), ("reduction", reduction)]);
            case.run1(&[data.clone(), indices.clone(), updates.clone()]).unwrap().to_vec::<i32>().unwrap()
        };
        assert_eq!(run("none"), [10, 2, 20, 4, 40, 6]);
        assert_eq!(run("add"), [11, 2, 23, 4, 75, 6]);
        assert_eq!(run("mul"), [10, 2, 60, 4, 6000, 6]);
        assert_eq!(run("max"), [10, 2, 20, 4, 40, 6]);
        assert_eq!(run("min"), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn slices_are_updated_by_coordinates() {
        let (data, updates) = (array(&[0.0f64; 8], &[2, 2, 2]), array(&[1.0f64, 2.0, 3.0, 4.0], &[2, 2]));
        let indices = array(&[0i64, 1, 1, -2], &[2, 2]);
        let out = Case::new(&SCATTER_ND, &[]).run1(&[data, indices, updates]).unwrap();
        assert_eq!(out.to_vec::<f64>().unwrap(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    }

    #[test]
    fn replaced_elements_have_no_gradient() {
        let (data, updates) = (array(&[1.0f64; 4], &[4]), array(&[5.0f64, 6.0], &[2]));
        let dy = array(&[1.0f64, 2.0, 3.0, 4.0], &[4]);
        for (reduction, dx) in [("none", [1.0, 0.0, 3.0, 0.0]), ("add", [1.0, 2.0, 3.0, 4.0])] {
            let elements = Case::new(&SCATTER_ELEMENTS, &[("reduction", reduction)]);
            let ins = [data.clone(), array(&[3i64, 1], &[2]), updates.clone()];
            let grads = elements.backward(&ins, std::slice::from_ref(&dy)).unwrap();
            assert_eq!(
                (grads[0].to_vec::<f64>().unwrap(), grads[2].to_vec::<f64>().unwrap()),
                (dx.to_vec(), vec![4.0, 2.0])
            );
            let slices = Case::new(&SCATTER_ND, &[("reduction", reduction)]);
            let ins = [data.clone(), array(&[3i64, 1], &[2, 1]), updates.clone()];
            let grads = slices.backward(&ins, std::slice::from_ref(&dy)).unwrap();
            assert_eq!(
                (grads[0].to_vec::<f64>().unwrap(), grads[2].to_vec::<f64>().unwrap()),
                (dx.to_vec(), vec![4.0, 2.0])
            );
        }
    }

    #[test]
    fn indices_out_of_bounds_are_errors() {
        let case = Case::new(&SCATTER_ELEMENTS, &[]);
        let e = case.run1(&[array(&[1f32; 2], &[2]), array(&[2i64], &[1]), array(&[1f32], &[1])]).unwrap_err();
        assert!(e.to_string().contains("index 2 is outside axis 0"), "{e}");
        assert!(case.shapes(&[[2, 3].into(), [1, 4].into(), [1, 4].into()]).is_err());
        let nd = Case::new(&SCATTER_ND, &[]);
        assert_eq!(
            nd.shapes_both(&[[4, 5, 6].into(), [2, 1].into(), Shape::unknown()], &[]).unwrap().0[2],
            [2, 5, 6].into()
        );
        assert!(nd.shapes(&[[4].into(), [3, 2].into(), [3].into()]).is_err());
    }
}
