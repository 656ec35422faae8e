//! Sorting: `sort` and `argsort` are in this file; `topk` and `unique` have their own files.
//!
//! Sorting is stable; NaN is larger than every number.

mod topk;
mod unique;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::IndexDType;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, memory, params};
use ferromx_kernels::movement::{self, Item};
use ferromx_kernels::sort::{self, Order, SortKey};

use crate::axes::outer_len_inner;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[&[&SORT, &ARGSORT, &topk::TOPK], unique::OPS];

/// A shape collapsed around an axis to (outer, n, inner); see [`outer_len_inner`].
type OuterLenInner = (usize, usize, usize);

/// The shape as (outer, n, inner) around an axis. Without an axis the array is flattened.
fn rows_along(shape: &Shape, axis: Option<i32>) -> Result<OuterLenInner> {
    let dims = shape.to_usize();
    match axis {
        None => Ok((1, shape.num_elements(), 1)),
        Some(axis) => Ok(outer_len_inner(&dims, Shape::axis(i64::from(axis), dims.len())?)),
    }
}

/// The shape of the sorted array, which is flattened without an axis.
fn sorted_shape(shape: &Shape, axis: Option<i32>) -> Result<Shape> {
    match (axis, shape.ndim()) {
        (_, None) => Ok(Shape::unknown()),
        (None, _) => Ok(Shape::new(&[shape.product(..)])),
        (Some(axis), Some(rank)) => Shape::axis(i64::from(axis), rank).map(|_| shape.clone()),
    }
}

fn order(ascending: bool) -> Order {
    if ascending { Order::Ascending } else { Order::Descending }
}

/// Calls `f` with rows along an axis, transposed if necessary so that each row is contiguous: source rows of `n` elements, destination
/// rows of `k`.
fn with_rows<T: Item, U: Item>(
    src: &[T],
    (outer, n, inner): OuterLenInner,
    (dst, k): (&mut [U], usize),
    f: impl Fn(&[T], &mut [U]),
) {
    if inner == 1 || src.is_empty() {
        return f(src, dst);
    }
    let mut rows = memory::filled(T::default(), src.len());
    movement::transpose(src, &[outer, n, inner], &[0, 2, 1], &mut rows);
    let mut results = memory::filled(U::default(), dst.len());
    f(&rows, &mut results);
    movement::transpose(&results, &[outer, inner, k], &[0, 2, 1], dst);
}

/// Gathers `k` elements of each row along an axis by their indices.
fn gather_along<T: Item>(src: &[T], (outer, n, inner): OuterLenInner, indices: &[i32], k: usize, dst: &mut [T]) {
    for o in 0..outer {
        for j in 0..k {
            for i in 0..inner {
                let offset = (o * k + j) * inner + i;
                dst[offset] = src[(o * n + indices[offset] as usize) * inner + i];
            }
        }
    }
}

/// The gradient of [`gather_along`]: writes each element of `grad` to its index, and zeros elsewhere.
fn scatter_along<T: Item>(
    grad: &[T],
    (outer, n, inner): OuterLenInner,
    indices: &[i32],
    k: usize,
    dst: &mut [T],
) -> Result<()> {
    dst.fill(T::default());
    for o in 0..outer {
        for j in 0..k {
            for i in 0..inner {
                let offset = (o * k + j) * inner + i;
                let index = usize::try_from(indices[offset]).ok().filter(|index| *index < n).ok_or_else(|| {
                    Error::value(format!("index {} is out of bounds for an axis of length {n}", indices[offset]))
                })?;
                dst[(o * n + index) * inner + i] = grad[offset];
            }
        }
    }
    Ok(())
}

/// The indices of the first `k` elements of each row in sorted order.
fn sorted_indices<T: SortKey>(src: &[T], extents: OuterLenInner, k: usize, order: Order) -> Vec<i32> {
    let (outer, n, inner) = extents;
    let mut indices = memory::filled(0i32, outer * k * inner);
    with_rows(src, extents, (&mut indices, k), |src, dst| match k == n {
        true => sort::argsort(src, n, order, dst),
        false => sort::topk(src, n, k, order, dst),
    });
    indices
}

/// Writes indices, converted to the element type of the output.
fn write_indices(ctx: &OpCtx<'_>, indices: &[i32], out: &mut Out<'_>) -> Result<()> {
    dispatch!(out.dtype(), I in [f32, f64, f16, bf16, u8, i32, i64] => {
        for (out, index) in out.slice_mut::<I>()?.iter_mut().zip(indices) {
            *out = I::from_f64(f64::from(*index));
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, &[DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::U8])))
}

/// Runs `$body` with `$T` bound to the element type of the data.
macro_rules! sortable {
    ($ctx:expr, $dtype:expr, |$T:ident| $body:expr) => {
        dispatch!($dtype, $T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => $body,
            d => Err($ctx.unsupported(d, &DType::ALL)))
    };
}
use sortable;

params! {
    /// Parameters of `sort`.
    pub struct SortParam {
        /// The axis along which to sort; None sorts the flattened array.
        axis: Option<i32> = (Some(-1));
        /// Whether the smallest element comes first.
        is_ascend: bool = true;
    }
}

static SORT: Operator<SortParam> = Operator::new("sort")
    .aliases(&["_npi_sort"])
    .doc("Sorts the elements along an axis. A hidden second output holds their indices before sorting, for the gradient.")
    .inputs(&[arg("data", "The array to sort.")])
    .outputs(|_| 2)
    .visible(|_| 1)
    .shape(|p, io| {
        let out = sorted_shape(&io.ins[0], p.get::<SortParam>().axis)?;
        io.assign_out(0, &out)?;
        io.assign_out(1, &out)
    })
    .dtype(|_, io| {
        if let Some(d) = io.ins[0].or(io.outs[0]) {
            io.assign_in(0, d)?;
            io.assign_out(0, d)?;
        }
        io.assign_out(1, DType::I32)
    })
    .forward(sort_forward)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let rows = rows_along(outs[0].shape(), ctx.params::<SortParam>().axis)?;
            sortable!(ctx, ins[0].dtype(), |T| {
                scatter_along(ins[0].slice::<T>()?, rows, ins[1].slice()?, rows.1, outs[0].slice_mut()?)
            })
        })
        .outputs(Deps::Some(&[1])),
        None,
    ));

fn sort_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SortParam>();
    let rows = rows_along(ins[0].shape(), p.axis)?;
    let (out, indices) = outs.split_at_mut(1);
    let (out, indices) = (&mut out[0], &mut indices[0]);
    sortable!(ctx, ins[0].dtype(), |T| {
        let src = ins[0].slice::<T>()?;
        if indices.wanted() {
            indices.slice_mut::<i32>()?.copy_from_slice(&sorted_indices(src, rows, rows.1, order(p.is_ascend)));
        }
        if out.wanted() {
            let to = (out.slice_mut::<T>()?, rows.1);
            with_rows(src, rows, to, |src, dst| sort::sort(src, rows.1, order(p.is_ascend), dst));
        }
        Ok(())
    })
}

params! {
    /// Parameters of `argsort`.
    pub struct ArgSortParam {
        /// The axis along which to sort; None sorts the flattened array.
        axis: Option<i32> = (Some(-1));
        /// Whether the smallest element comes first.
        is_ascend: bool = true;
        /// The type of the result.
        dtype: IndexDType = (IndexDType(DType::F32));
    }
}

static ARGSORT: Operator<ArgSortParam> = Operator::new("argsort")
    .aliases(&["_npi_argsort"])
    .doc("The indices that sort the elements along an axis.")
    .inputs(&[arg("data", "The array to sort.")])
    .shape(|p, io| {
        let out = sorted_shape(&io.ins[0], p.get::<ArgSortParam>().axis)?;
        io.assign_out(0, &out)
    })
    .dtype(|p, io| io.assign_out(0, p.get::<ArgSortParam>().dtype.0))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<ArgSortParam>();
        let rows = rows_along(ins[0].shape(), p.axis)?;
        sortable!(ctx, ins[0].dtype(), |T| {
            let indices = sorted_indices(ins[0].slice::<T>()?, rows, rows.1, order(p.is_ascend));
            write_indices(ctx, &indices, &mut outs[0])
        })
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests;
