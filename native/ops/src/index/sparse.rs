//! `take` of csr matrices, and the row_sparse gradient of `Embedding`.

use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_kernels::sparse::{self as kernels, Csr, MulAdd};

use super::{EmbeddingParam, TakeMode, TakeParam};
use crate::sparse::cast::{cast, to_dense};
use crate::sparse::{CsrBuilder, append, moved, new_csr, new_vector, row_len, summed, with_rows};
use StorageType::Default as Dense;

/// Storage rule: the gradient of the table is row_sparse if `sparse_grad` is set.
pub(super) fn embedding_rule(p: &Params, _: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    p.get::<EmbeddingParam>().sparse_grad.then_some(StorageType::RowSparse)
}

/// Sums the rows of the gradient that belong to the same row of the table. Inputs: gradient of the output, indices.
pub(super) fn embedding_backward(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    if call.wanted[0] {
        return Err(Error::NotDifferentiable(
            "Embedding with respect to its indices (data): request no gradient for them (grad_req null)".into(),
        ));
    }
    let (grad, data) = (to_dense(&call.ins[0])?, to_dense(&call.ins[1])?);
    let (shape, context) = (&call.shapes[1], grad.context());
    let last = shape.dim(0) - 1;
    // Pairs (row of the table, row of the gradient).
    let mut lookups: Vec<(i64, i64)> =
        data.to_vec_as::<i64>()?.into_iter().enumerate().map(|(i, row)| (row.clamp(0, last), i as i64)).collect();
    lookups.sort_unstable();
    // The sum is a product with a csr matrix: row k has a one for each row of the gradient that belongs to row `rows[k]` of the table.
    let (mut rows, mut indptr) = (Vec::new(), vec![0]);
    for lookups in lookups.chunk_by(|a, b| a.0 == b.0) {
        rows.push(lookups[0].0);
        indptr.push(indptr[rows.len() - 1] + lookups.len() as i64);
    }
    let columns: Vec<i64> = lookups.iter().map(|(_, i)| *i).collect();
    let out = NDArray::zeros(&with_rows(shape, rows.len()), grad.dtype(), context)?;
    call_once(&[&grad], &[(&out, Req::Write)], |ins, outs| {
        summed!(call, grad.dtype(), T => {
            let ones = vec![<T as MulAdd>::ONE; columns.len()];
            let m = Csr { indptr: &indptr, indices: &columns, data: &ones };
            kernels::product(m, ins[0].slice::<T>()?, row_len(shape), outs[0].slice_mut()?, |r| r);
            Ok(())
        })
    })?;
    let none = SparseArray::zeros(StorageType::RowSparse, &with_rows(&call.shapes[0], 0), data.dtype(), context)?;
    Ok(vec![none.into(), SparseArray::row_sparse(shape, out, new_vector(&rows, context)?)?.into()])
}

/// Runs the dense form on dense copies of the inputs, and converts the result to csr.
fn dense_fallback(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let dense = call.ins.iter().map(to_dense).collect::<Result<Vec<_>>>()?;
    (call.dense)(&dense)?.into_iter().map(|a| cast(&a.into(), call.storage_type)).collect()
}

/// Storage rule: rows of a csr matrix can be gathered by a dense array of indices.
pub(super) fn take_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (p.get::<TakeParam>().axis == 0 && ins == [StorageType::Csr, Dense]).then_some(StorageType::Csr)
}

/// Gathers the rows at the given indices.
pub(super) fn take(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let (a, indices) = (call.ins[0].sparse()?, call.ins[1].dense()?);
    let mode = call.ctx.params::<TakeParam>().mode;
    let n = a.shape().dim(0);
    if indices.shape().dims().len() != 1 || n == 0 || mode == TakeMode::Raise {
        return dense_fallback(call);
    }
    let bounded = |i: i64| if mode == TakeMode::Wrap { i.rem_euclid(n) } else { i.clamp(0, n - 1) };
    let rows: Vec<usize> = indices.to_vec_as::<i64>()?.into_iter().map(|i| bounded(i) as usize).collect();
    let columns = (0, a.shape().dim(1));
    moved!(a.dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        append(a, &mut builder, |b, m| rows.iter().for_each(|r| b.push_row(m, *r, columns)))?;
        Ok(vec![new_csr(&call.shapes[0], builder.parts(), a.context())?.into()])
    })
}
