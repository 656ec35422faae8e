//! The row_sparse gradient of `Embedding`.

use ferromx_core::dispatch;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_kernels::sparse::{self as kernels, Csr, MulAdd};

use super::cast::to_dense;
use super::dot::summed;
use super::{new_vector, row_len, with_rows};
use crate::index::EmbeddingParam;

/// Storage rule: the gradient of the table is row_sparse if `sparse_grad` is set.
pub fn embedding_rule(p: &Params, _: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    p.get::<EmbeddingParam>().sparse_grad.then_some(StorageType::RowSparse)
}

/// Sums the rows of the gradient that belong to the same row of the table. Inputs: gradient of the output, indices.
pub fn embedding_backward(call: &SparseCall<'_>) -> Result<Vec<Array>> {
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
