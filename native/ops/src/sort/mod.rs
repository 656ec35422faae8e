//! Sorting: `sort`, `argsort`, `topk`.
//!
//! Equal elements keep their order; NaN counts as larger than every number.

mod topk;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{Deps, OpCtx, OpDef, arg};
use ferromx_core::params::IndexDType;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, memory, params};
use ferromx_kernels::movement::{self, Item};
use ferromx_kernels::sort::{self, Order, SortKey};

use crate::shape::moves::around;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&SORT, &ARGSORT, &topk::TOPK];

/// The rows along an axis: how many elements stand before it, along it, after it.
type Around = (usize, usize, usize);

/// The rows of an array along an axis, or all its elements as one row.
fn rows_along(shape: &Shape, axis: Option<i32>) -> Result<Around> {
    let dims = shape.to_usize();
    match axis {
        None => Ok((1, shape.num_elements(), 1)),
        Some(axis) => Ok(around(&dims, Shape::axis(i64::from(axis), dims.len())?)),
    }
}

/// The shape after sorting: as before, or a vector where all elements are sorted together.
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

/// Calls `f` with the source and destination such that the rows of `n`, of which `k` are kept, lie in one piece.
fn with_rows<T: Item, U: Item>(
    src: &[T],
    (outer, n, inner): Around,
    (dst, k): (&mut [U], usize),
    f: impl Fn(&[T], &mut [U]),
) {
    if inner == 1 || src.is_empty() {
        return f(src, dst);
    }
    let mut rows = memory::filled(T::default(), src.len());
    movement::transpose(src, &[outer, n, inner], &[0, 2, 1], &mut rows);
    let mut found = memory::filled(U::default(), dst.len());
    f(&rows, &mut found);
    movement::transpose(&found, &[outer, inner, k], &[0, 2, 1], dst);
}

/// The elements of rows along an axis at `places`, of which there are `k` for each row.
fn at_places<T: Item>(src: &[T], (outer, n, inner): Around, places: &[i32], k: usize, dst: &mut [T]) {
    for o in 0..outer {
        for j in 0..k {
            for i in 0..inner {
                let to = (o * k + j) * inner + i;
                dst[to] = src[(o * n + places[to] as usize) * inner + i];
            }
        }
    }
}

/// The gradient of taking elements at `places`: zeros but there.
fn to_places<T: Item>(grad: &[T], (outer, n, inner): Around, places: &[i32], k: usize, dst: &mut [T]) -> Result<()> {
    dst.fill(T::default());
    for o in 0..outer {
        for j in 0..k {
            for i in 0..inner {
                let from = (o * k + j) * inner + i;
                let place = usize::try_from(places[from])
                    .ok()
                    .filter(|p| *p < n)
                    .ok_or_else(|| Error::value(format!("{} is no place in a row of {n} elements", places[from])))?;
                dst[(o * n + place) * inner + i] = grad[from];
            }
        }
    }
    Ok(())
}

/// The places of the `k` first elements of each row in sorted order.
fn first_places<T: SortKey>(src: &[T], around: Around, k: usize, order: Order) -> Vec<i32> {
    let (outer, n, inner) = around;
    let mut places = memory::filled(0i32, outer * k * inner);
    with_rows(src, around, (&mut places, k), |src, dst| match k == n {
        true => sort::argsort(src, n, order, dst),
        false => sort::topk(src, n, k, order, dst),
    });
    places
}

/// Writes places as the element type of the output.
fn write_places(ctx: &OpCtx<'_>, places: &[i32], out: &mut Out<'_>) -> Result<()> {
    dispatch!(out.dtype(), I in [f32, f64, f16, bf16, u8, i32, i64] => {
        for (o, p) in out.slice_mut::<I>()?.iter_mut().zip(places) {
            *o = I::from_f64(f64::from(*p));
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, &[DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::U8])))
}

/// Runs `$body` with `$T` bound to the element type of what is sorted.
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
        /// The axis along which to sort; None sorts all elements together.
        axis: Option<i32> = (Some(-1));
        /// Whether the smallest element comes first.
        is_ascend: bool = true;
    }
}

static SORT: OpDef = OpDef::new("sort")
    .aliases(&["_npi_sort"])
    .doc("Sorts the elements along an axis. A hidden second output holds their places before, for the gradient.")
    .inputs(&[arg("data", "The array to sort.")])
    .params::<SortParam>()
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
                to_places(ins[0].slice::<T>()?, rows, ins[1].slice()?, rows.1, outs[0].slice_mut()?)
            })
        })
        .outputs(Deps::Some(&[1])),
        None,
    ));

fn sort_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SortParam>();
    let rows = rows_along(ins[0].shape(), p.axis)?;
    let (out, places) = outs.split_at_mut(1);
    let (out, places) = (&mut out[0], &mut places[0]);
    sortable!(ctx, ins[0].dtype(), |T| {
        let src = ins[0].slice::<T>()?;
        if places.wanted() {
            places.slice_mut::<i32>()?.copy_from_slice(&first_places(src, rows, rows.1, order(p.is_ascend)));
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
        /// The axis along which to sort; None sorts all elements together.
        axis: Option<i32> = (Some(-1));
        /// Whether the smallest element comes first.
        is_ascend: bool = true;
        /// The type of the result.
        dtype: IndexDType = (IndexDType(DType::F32));
    }
}

static ARGSORT: OpDef = OpDef::new("argsort")
    .aliases(&["_npi_argsort"])
    .doc("The places along an axis that the elements have, listed in sorted order.")
    .inputs(&[arg("data", "The array to sort.")])
    .params::<ArgSortParam>()
    .shape(|p, io| {
        let out = sorted_shape(&io.ins[0], p.get::<ArgSortParam>().axis)?;
        io.assign_out(0, &out)
    })
    .dtype(|p, io| io.assign_out(0, p.get::<ArgSortParam>().dtype.0))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<ArgSortParam>();
        let rows = rows_along(ins[0].shape(), p.axis)?;
        sortable!(ctx, ins[0].dtype(), |T| {
            let places = first_places(ins[0].slice::<T>()?, rows, rows.1, order(p.is_ascend));
            write_places(ctx, &places, &mut outs[0])
        })
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests;
