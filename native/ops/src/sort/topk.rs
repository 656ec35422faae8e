//! `topk`.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::{IndexDType, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, param_enum, params};

use super::{OuterLenInner, gather_along, order, rows_along, scatter_along, sortable, sorted_indices, write_indices};

param_enum! {
    /// What `topk` returns.
    pub enum TopKReturn {
        Both = "both",
        Indices = "indices",
        Mask = "mask",
        Value = "value",
    }
}

params! {
    /// Parameters of `topk`.
    pub struct TopKParam {
        /// The axis along which to select; None selects from the flattened array.
        axis: Option<i32> = (Some(-1));
        /// How many elements; less than 1 means all.
        k: i32 = 1;
        /// The results: the elements, their indices along the axis, both, or a mask of data's shape with ones at their indices.
        ret_typ: TopKReturn = (TopKReturn::Indices);
        /// Whether the smallest elements are selected, instead of the largest.
        is_ascend: bool = false;
        /// The type of the indices.
        dtype: IndexDType = (IndexDType(DType::F32));
    }
}

impl TopKParam {
    /// The number of elements to select from a row of `n`.
    fn count(&self, n: usize) -> Result<usize> {
        let k = usize::try_from(self.k).ok().filter(|k| *k > 0).unwrap_or(n);
        ensure!(k <= n, "k must be at most {n}, the number of elements to select from: {k} was given");
        Ok(k)
    }

    /// True if the first output holds elements and the second one their indices.
    fn has_values(&self) -> bool {
        matches!(self.ret_typ, TopKReturn::Both | TopKReturn::Value)
    }
}

pub(super) static TOPK: Operator<TopKParam> = Operator::new("topk")
    .aliases(&["_npx_topk"])
    .doc(
        "The k largest (or smallest) elements along an axis, in sorted order; of equal ones the first. See ret_typ for what is \
         returned. With ret_typ='value' a hidden second output holds the indices, for the gradient.",
    )
    .inputs(&[arg("data", "The array to select from.")])
    .outputs(|p| if p.get::<TopKParam>().has_values() { 2 } else { 1 })
    .visible(|p| if p.get::<TopKParam>().ret_typ == TopKReturn::Both { 2 } else { 1 })
    .shape(topk_shape)
    .dtype(topk_dtype)
    .forward(topk)
    .grad(Grad::Kernel(
        Backward::new(topk_backward).ograds(Deps::Some(&[0])).outputs(Deps::Some(&[1])),
        None,
    ));

fn topk_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<TopKParam>();
    let shape = io.ins[0].clone();
    let Some(rank) = shape.ndim() else { return Ok(()) };
    let axis = p.axis.map(|axis| Shape::axis(i64::from(axis), rank)).transpose()?;
    let n = axis.map_or(shape.product(..), |axis| shape.dim(axis));
    let Ok(n) = usize::try_from(n) else { return Ok(()) };
    let k = p.count(n)? as i64;
    let out = match axis {
        _ if p.ret_typ == TopKReturn::Mask => shape,
        None => Shape::new(&[k]),
        Some(axis) => {
            let mut dims: Dims = shape.dims().into();
            dims[axis] = k;
            Shape::from(dims)
        }
    };
    (0..io.outs.len()).try_for_each(|i| io.assign_out(i, &out))
}

fn topk_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<TopKParam>();
    match p.ret_typ {
        TopKReturn::Indices => return io.assign_out(0, p.dtype.0),
        TopKReturn::Both => io.assign_out(1, p.dtype.0)?,
        TopKReturn::Value => io.assign_out(1, DType::I32)?,
        TopKReturn::Mask => {}
    }
    let Some(d) = io.ins[0].or(io.outs[0]) else { return Ok(()) };
    io.assign_in(0, d)?;
    io.assign_out(0, d)
}

fn topk(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TopKParam>();
    let rows = rows_along(ins[0].shape(), p.axis)?;
    let k = p.count(rows.1)?;
    sortable!(ctx, ins[0].dtype(), |T| {
        let src = ins[0].slice::<T>()?;
        let indices = sorted_indices(src, rows, k, order(p.is_ascend));
        match p.ret_typ {
            TopKReturn::Indices => write_indices(ctx, &indices, &mut outs[0]),
            TopKReturn::Mask => {
                let ones = memory::filled(<T as Element>::from_f64(1.0), indices.len());
                scatter_along(&ones, rows, &indices, k, outs[0].slice_mut::<T>()?)
            }
            TopKReturn::Both | TopKReturn::Value => {
                if outs[0].wanted() {
                    gather_along(src, rows, &indices, k, outs[0].slice_mut::<T>()?);
                }
                if outs[1].wanted() { write_indices(ctx, &indices, &mut outs[1]) } else { Ok(()) }
            }
        }
    })
}

/// Inputs: gradient of the selected elements, and their indices if the forward pass returned elements.
fn topk_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TopKParam>();
    let out = &mut outs[0];
    if !p.has_values() {
        out.bytes_mut()?.fill(0);
        return Ok(());
    }
    let rows: OuterLenInner = rows_along(out.shape(), p.axis)?;
    let indices = read_indices(ctx, &ins[1])?;
    let k = p.count(rows.1)?;
    sortable!(ctx, ins[0].dtype(), |T| scatter_along(ins[0].slice::<T>()?, rows, &indices, k, out.slice_mut()?))
}

fn read_indices(ctx: &OpCtx<'_>, input: &In<'_>) -> Result<Vec<i32>> {
    dispatch!(input.dtype(), I in [f32, f64, f16, bf16, u8, i32, i64] => {
        Ok(input.slice::<I>()?.iter().map(|i| Element::to_f64(*i) as i32).collect())
    }, d => Err(ctx.unsupported(d, &[DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::U8])))
}
