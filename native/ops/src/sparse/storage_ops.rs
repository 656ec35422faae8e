//! `cast_storage`, `retain`, `getnnz`, `edge_id`: operators on storage types and stored values.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, SparseCall, arg};
use ferromx_core::params;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{In, Out, Req, call_once};
use ferromx_kernels::sparse::{self as kernels, Positions};
use smallvec::SmallVec;

use super::{Storage, cast, csr_components, csr_of, dispatch_any, new_vector, stored_rows, with_rows};
use crate::axes::row_len;
use crate::compose::op;
use crate::movement::copy;
use StorageType::{Csr, Default as Dense, RowSparse};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&CAST_STORAGE, &RETAIN, &GETNNZ, &EDGE_ID];

params! {
    /// Parameters of `cast_storage`.
    pub struct CastStorageParam {
        /// The storage type of the result.
        stype: Storage = required;
    }
}

pub(super) static CAST_STORAGE: Operator<CastStorageParam> = Operator::new("cast_storage")
    .aliases(&["_sparse_cast_storage"])
    .doc("Converts an array to another storage type: default, row_sparse, or, for matrices, csr. Zeros are not stored.")
    .inputs(&[arg("data", "The array, of any storage type.")])
    .forward(copy)
    .grad(Grad::Compose(crate::rules::PASS_BACK))
    .inplace(&[(0, 0)])
    .sparse_from_dense(
        |_| true,
        |p, ins, _| {
            let stype = p.get::<CastStorageParam>().stype.storage_type();
            (ins[0] != Dense || stype != Dense).then_some(stype)
        },
        |call| {
            let out = match (&call.ins[0], call.storage_type) {
                (Array::Sparse(a), stype) if a.storage_type() == stype => a.to_context(a.context())?.into(),
                (other, stype) => cast::cast(other, stype)?,
            };
            Ok(vec![out])
        },
    );

pub(super) static RETAIN: Operator = Operator::new("_sparse_retain")
    .doc("Keeps the rows of the given indices, which are stored even if they are zero; all other rows become zero.")
    .inputs(&[
        arg("data", "A row_sparse array."),
        arg("indices", "The indices of the rows to retain: a vector of any element type."),
    ])
    .shape(|_, io| {
        ensure!(io.ins[0].ndim() != Some(0), "_sparse_retain needs data with rows, not a scalar");
        io.tie(0, 0)
    })
    .dtype(|_, io| io.ins[0].map_or(Ok(()), |d| io.assign_out(0, d)))
    .forward(retain_dense)
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(RETAIN(n.ograds[0], n.inputs[1])))?), None])))
    .sparse(|_, ins, _| (ins == [RowSparse, Dense]).then_some(RowSparse), retain);

/// Checks that indices are within the first axis.
fn check_rows(indices: &[i64], rows: i64) -> Result<()> {
    match indices.iter().find(|i| **i < 0 || **i >= rows) {
        Some(i) => Err(Error::Value(format!("row {i} is outside the first axis, which has {rows} rows"))),
        None => Ok(()),
    }
}

fn retain_dense(_: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (rows, len) = (ins[0].shape().dim(0), row_len(ins[0].shape(), 1));
    let indices: Vec<i64> = dispatch!(ins[1].dtype(), I in [f32, f64, half::f16, u8, i32, i8, i64, bool, half::bf16] => {
        ins[1].slice::<I>()?.iter().map(|i| i.to_f64() as i64).collect()
    }, d => return Err(Error::Internal(format!("no indices of type {d}"))));
    check_rows(&indices, rows)?;
    dispatch_any!(ins[0].dtype(), T => {
        let (data, out) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
        out.fill(T::default());
        for i in indices {
            let range = i as usize * len..(i as usize + 1) * len;
            out[range.clone()].copy_from_slice(&data[range]);
        }
        Ok(())
    })
}

fn retain(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let mut rows = call.ins[1].dense()?.to_vec_as::<i64>()?;
    check_rows(&rows, a.shape().dim(0))?;
    rows = kernels::sorted_distinct(&rows);
    let stored = stored_rows(&call.ins[0])?;
    if stored.values.is_empty() {
        rows.clear();
    }
    let (num_rows, len) = (a.shape().dim(0) as usize, stored.row_len());
    let values = NDArray::zeros(&with_rows(a.shape(), rows.len()), a.dtype(), a.context())?;
    let operands: SmallVec<[&NDArray; 2]> = [&stored.values].into_iter().chain(&stored.indices).collect();
    call_once(&operands, &[(&values, Req::Write)], |ins, outs| {
        dispatch_any!(a.dtype(), T => {
            let (data, out) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
            match ins.get(1) {
                Some(stored) => {
                    let positions = Positions::new(stored.slice::<i64>()?, num_rows, rows.len());
                    kernels::gather_found_rows(data, |k| positions.find(rows[k]), len, out);
                }
                None => kernels::gather_rows(data, &rows, len, out),
            }
            Ok(())
        })
    })?;
    Ok(vec![SparseArray::row_sparse(a.shape(), values, new_vector(&rows, a.context())?)?.into()])
}

params! {
    /// Parameters of `_contrib_getnnz`.
    pub struct GetNnzParam {
        /// 0 counts in each column, 1 in each row; None in the whole matrix.
        axis: Option<i32> = None;
    }
}

pub(super) static GETNNZ: Operator<GetNnzParam> = Operator::new("_contrib_getnnz")
    .doc("The number of stored values of a csr matrix, explicit zeros included, as int64: in all, of shape (1), by column, or by row.")
    .inputs(&[arg("data", "A csr matrix.")])
    .shape(|p, io| {
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(n == 2, "_contrib_getnnz counts in matrices, not in arrays of shape {}", io.ins[0]);
        let count = match p.get::<GetNnzParam>().axis {
            None => 1,
            Some(0 | -2) => io.ins[0].dim(1),
            Some(1 | -1) => io.ins[0].dim(0),
            Some(axis) => return Err(Error::Value(format!("axis {axis} is out of range for a matrix: use 0, 1 or None"))),
        };
        io.assign_out(0, &Shape::new(&[count]))
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(|_, ins, _| (ins == [Csr]).then_some(Dense), getnnz);

/// The kernel of operators that have no dense form: an error.
pub(super) fn only_csr(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Unsupported(format!("{} works on csr matrices: convert with cast_storage(stype = 'csr') first", ctx.op)))
}

fn getnnz(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let components = a.components()?;
    let [indptr, indices, _] = csr_components(&components)?;
    let counts = match call.ctx.params::<GetNnzParam>().axis {
        None => vec![indices.len() as i64],
        Some(0 | -2) => {
            let mut counts = vec![0; a.shape().dim(1) as usize];
            indices.to_vec::<i64>()?.into_iter().for_each(|c| counts[c as usize] += 1);
            counts
        }
        Some(_) => indptr.to_vec::<i64>()?.windows(2).map(|w| w[1] - w[0]).collect(),
    };
    Ok(vec![new_vector(&counts, a.context())?.into()])
}

pub(super) static EDGE_ID: Operator = Operator::new("_contrib_edge_id")
    .doc("The values that a csr matrix stores at (u[i], v[i]), or -1 where it stores none: the edge ids of a graph.")
    .inputs(&[
        arg("data", "A csr matrix."),
        arg("u", "A vector of row indices."),
        arg("v", "A vector of column indices, as long as u."),
    ])
    .shape(|_, io| {
        let v = io.ins[2].clone();
        io.assign_in(1, &v)?;
        io.tie(1, 0)?;
        io.tie(2, 0)
    })
    .dtype(|_, io| io.ins[0].map_or(Ok(()), |d| io.assign_out(0, d)))
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(|_, ins, _| (ins[0] == Csr).then_some(Dense), edge_id);

fn edge_id(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let indices = |i: usize| cast::to_dense(&call.ins[i])?.to_vec_as::<i64>();
    let (u, v) = (indices(1)?, indices(2)?);
    check_rows(&u, a.shape().dim(0))?;
    let out = NDArray::empty(&call.shapes[0], a.dtype(), a.context())?;
    call_once(&csr_components(&a.components()?)?, &[(&out, Req::Write)], |ins, outs| {
        dispatch!(a.dtype(), T in [f32, f64, half::f16, i32, i64, i8, u8] => {
            let m = csr_of::<T>(ins)?;
            for ((to, u), v) in outs[0].slice_mut::<T>()?.iter_mut().zip(&u).zip(&v) {
                let (columns, values) = m.row(*u as usize);
                *to = columns.binary_search(v).map_or(T::from_f64(-1.0), |k| values[k]);
            }
            Ok(())
        }, d => Err(Error::Internal(format!("no edges of type {d}"))))
    })?;
    Ok(vec![out.into()])
}
