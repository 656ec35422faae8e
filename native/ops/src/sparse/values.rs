//! Elementwise operators on sparse arrays: the dense kernel runs on the stored values.

use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_kernels::sparse as kernels;

use super::cast::{cast, to_dense};
use super::{csr_components, csr_of, dispatch_any, new_vector, with_rows};
use crate::axes::row_len;
use StorageType::{Csr, Default as Dense, RowSparse};

/// Storage rule of functions with f(0) = 0: the output has the storage type of the input.
pub(crate) fn keeps_zero(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (ins[0] != Dense).then_some(ins[0])
}

/// Storage rule of operators on the stored rows of a row_sparse first input. The second input may have any storage type.
pub(crate) fn scatter_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (ins[0] == RowSparse).then_some(RowSparse)
}

/// The only output of a dense form.
fn only_output(mut outputs: Vec<NDArray>) -> Result<NDArray> {
    outputs.pop().ok_or_else(|| Error::Internal("an operator has no output".into()))
}

/// Runs the dense form on the stored values of the first input.
pub(crate) fn on_values(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let values = a.components()?.data;
    if values.is_empty() {
        return Ok(vec![SparseArray::zeros(a.storage_type(), a.shape(), a.dtype(), a.context())?.into()]);
    }
    Ok(vec![a.with_values(only_output((call.dense)(&[values])?)?)?.into()])
}

/// Like [`on_values`], for operators that read the second input only at the stored elements of the first.
pub(crate) fn each_stored(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let values = a.components()?.data;
    if values.is_empty() {
        return Ok(vec![SparseArray::zeros(a.storage_type(), a.shape(), a.dtype(), a.context())?.into()]);
    }
    let other = gather_stored(a, &to_dense(&call.ins[1])?)?;
    Ok(vec![a.with_values(only_output((call.dense)(&[values, other])?)?)?.into()])
}

/// Storage rule of operators with f(0, 0) = 0, for sparse inputs of one storage type.
pub(crate) fn merged_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (ins[0] != Dense && ins.iter().all(|s| *s == ins[0])).then_some(ins[0])
}

/// Like [`merged_rule`], for row_sparse arrays only.
pub(crate) fn merged_rows_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    ins.iter().all(|s| *s == RowSparse).then_some(RowSparse)
}

/// Runs the dense form on the union of the elements that the inputs store, with zeros where an input stores none.
pub fn merged(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    if call.ins.len() == 1 {
        return on_values(call);
    }
    let arrays = call.ins.iter().map(Array::sparse).collect::<Result<Vec<_>>>()?;
    let Some(first) = arrays.first() else { return Err(Error::Internal("there are no sparse arrays to merge".into())) };
    let result = if first.storage_type() == Csr { merge_csr(call, &arrays)? } else { merge_rows(call, &arrays)? };
    Ok(vec![result.into()])
}

/// Runs the dense form on the union of the stored rows.
fn merge_rows(call: &SparseCall<'_>, arrays: &[&SparseArray]) -> Result<SparseArray> {
    let mut rows: Vec<i64> = Vec::new();
    for a in arrays {
        rows = kernels::union_rows(&rows, &a.components()?.indices.to_vec::<i64>()?);
    }
    let (shape, dtype, context) = (arrays[0].shape(), arrays[0].dtype(), arrays[0].context());
    if rows.is_empty() {
        return SparseArray::zeros(RowSparse, shape, dtype, context);
    }
    let values = arrays.iter().map(|a| rows_at(a, &rows)).collect::<Result<Vec<_>>>()?;
    SparseArray::row_sparse(shape, only_output((call.dense)(&values)?)?, new_vector(&rows, context)?)
}

/// The rows at the given indices, which include all stored rows.
pub(super) fn rows_at(a: &SparseArray, rows: &[i64]) -> Result<NDArray> {
    let components = a.components()?;
    let out = NDArray::zeros(&with_rows(a.shape(), rows.len()), a.dtype(), a.context())?;
    call_once(&[&components.indices, &components.data], &[(&out, Req::Write)], |ins, outs| {
        let indices = kernels::positions(ins[0].slice::<i64>()?, rows);
        dispatch_any!(a.dtype(), T => {
            kernels::scatter_rows(ins[1].slice::<T>()?, &indices, row_len(a.shape(), 1), outs[0].slice_mut()?);
            Ok(())
        })
    })?;
    Ok(out)
}

/// Runs the dense form on the union of the stored elements of two csr matrices.
fn merge_csr(call: &SparseCall<'_>, arrays: &[&SparseArray]) -> Result<SparseArray> {
    let [a, b] = arrays else {
        return Err(Error::Internal(format!("cannot merge {} csr arrays: expected 2", arrays.len())));
    };
    let (pa, pb) = (a.components()?, b.components()?);
    let ([ai, aj, av], [bi, bj, bv]) = (csr_components(&pa)?, csr_components(&pb)?);
    let context = a.context();
    let (indptr, indices, values) = call_once(&[ai, aj, av, bi, bj, bv], &[], |ins, _| {
        dispatch_any!(a.dtype(), T => {
            let (a, b) = (csr_of::<T>(&ins[..3])?, csr_of::<T>(&ins[3..])?);
            let (indptr, indices) = kernels::union_csr(a, b);
            let expand = |m| new_vector(&kernels::expand(m, &indptr, &indices), context);
            let values = vec![expand(a)?, expand(b)?];
            Ok((indptr, indices, values))
        })
    })?;
    if indices.is_empty() {
        return SparseArray::zeros(Csr, a.shape(), a.dtype(), context);
    }
    let values = only_output((call.dense)(&values)?)?;
    SparseArray::csr(a.shape(), values, new_vector(&indptr, context)?, new_vector(&indices, context)?)
}

/// Storage rule of products, which are zero where either input is: the output has the storage type of the sparse input.
pub(crate) fn product_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    match (ins[0], ins[1]) {
        (Dense, s) | (s, Dense) if s != Dense => Some(s),
        (a, b) => (a == b && a != Dense).then_some(a),
    }
}

/// Runs the dense form on the stored elements of the sparse input, or, if both are sparse, on the union of their stored elements.
pub(crate) fn product(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let (sparse, dense, is_swapped) = match (&call.ins[0], &call.ins[1]) {
        (Array::Sparse(a), Array::Dense(b)) => (a, b, false),
        (Array::Dense(b), Array::Sparse(a)) => (a, b, true),
        _ => return merged(call),
    };
    let values = sparse.components()?.data;
    if values.is_empty() {
        let (shape, dtype) = (sparse.shape(), sparse.dtype());
        return Ok(vec![SparseArray::zeros(sparse.storage_type(), shape, dtype, sparse.context())?.into()]);
    }
    let other = gather_stored(sparse, dense)?;
    let operands = if is_swapped { [other, values] } else { [values, other] };
    Ok(vec![sparse.with_values(only_output((call.dense)(&operands)?)?)?.into()])
}

/// Gathers the elements of a dense array at the indices of the elements, or rows, that a sparse array of the same shape stores.
fn gather_stored(sparse: &SparseArray, dense: &NDArray) -> Result<NDArray> {
    let components = sparse.components()?;
    let out = NDArray::empty(components.data.shape(), dense.dtype(), dense.context())?;
    let (target, len) = ([(&out, Req::Write)], row_len(sparse.shape(), 1));
    if sparse.storage_type() == Csr {
        let [indptr, indices, values] = csr_components(&components)?;
        call_once(&[indptr, indices, values, dense], &target, |ins, outs| {
            dispatch_any!(dense.dtype(), T => {
                kernels::gather(csr_of::<T>(&ins[..3])?, ins[3].slice::<T>()?, len, outs[0].slice_mut()?);
                Ok(())
            })
        })?;
    } else {
        call_once(&[&components.indices, dense], &target, |ins, outs| {
            dispatch_any!(dense.dtype(), T => {
                kernels::gather_rows(ins[1].slice::<T>()?, ins[0].slice::<i64>()?, len, outs[0].slice_mut()?);
                Ok(())
            })
        })?;
    }
    Ok(out)
}

/// Storage rule of a csr matrix times, or divided by, a dense array that is broadcast to its shape.
pub(crate) fn broadcast_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (ins == [Csr, Dense]).then_some(Csr)
}

/// Runs the dense form on the stored values and the elements of the broadcast dense input at their indices.
pub(crate) fn broadcast(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let (a, b) = (call.ins[0].sparse()?, call.ins[1].dense()?);
    let fits = b.shape().dims().len() <= 2 && call.shapes[0] == *a.shape();
    if !fits {
        let dense = only_output((call.dense)(&[to_dense(&call.ins[0])?, b.clone()])?)?;
        return Ok(vec![cast(&dense.into(), call.storage_type)?]);
    }
    let components = a.components()?;
    if components.data.is_empty() {
        return Ok(vec![SparseArray::zeros(Csr, a.shape(), a.dtype(), a.context())?.into()]);
    }
    let dims = b.shape().to_usize();
    let columns = dims.last().copied().unwrap_or(1);
    let rows = if dims.len() == 2 { dims[0] } else { 1 };
    let [indptr, indices, values] = csr_components(&components)?;
    let other = NDArray::empty(components.data.shape(), b.dtype(), b.context())?;
    call_once(&[indptr, indices, values, b], &[(&other, Req::Write)], |ins, outs| {
        dispatch_any!(b.dtype(), T => {
            let (indptr, indices, b) = (ins[0].slice::<i64>()?, ins[1].slice::<i64>()?, ins[3].slice::<T>()?);
            let out = outs[0].slice_mut::<T>()?;
            for (r, range) in indptr.windows(2).enumerate() {
                let row = if rows == 1 { b } else { &b[r * columns..(r + 1) * columns] };
                for k in range[0] as usize..range[1] as usize {
                    out[k] = row[if columns == 1 { 0 } else { indices[k] as usize }];
                }
            }
            Ok(())
        })
    })?;
    Ok(vec![a.with_values(only_output((call.dense)(&[components.data.clone(), other])?)?)?.into()])
}

/// Storage rule of zeros: the storage type of the input or, without an input, of the output array.
pub(crate) fn zeros_rule(_: &Params, ins: &[StorageType], out: Option<StorageType>) -> Option<StorageType> {
    ins.first().copied().or(out).filter(|s| *s != Dense)
}

/// An array without stored values.
pub(crate) fn zeros(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let Some(like) = call.ins.first().or(call.outs.first()) else {
        return Err(Error::Internal("zeros got neither an input nor an output array".into()));
    };
    let zeros = SparseArray::zeros(call.storage_type, &call.shapes[0], like.dtype(), like.context())?;
    Ok(vec![zeros.into()])
}
