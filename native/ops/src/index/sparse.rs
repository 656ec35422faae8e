//! Lookups in row_sparse tables and csr matrices, and the row_sparse gradient of `Embedding`.

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_kernels::index::Bounds;
use ferromx_kernels::sparse::{self as kernels, Csr, MulAdd, Positions};
use smallvec::SmallVec;

use crate::axes::row_len;
use crate::sparse::cast::to_dense;
use crate::sparse::{
    CsrBuilder, append, dense_fallback, dispatch_any, dispatch_numeric, new_csr, new_vector, stored_rows, with_rows,
};
use StorageType::Default as Dense;

/// Storage rule: rows of a row_sparse table can be looked up by a dense array of indices.
pub(super) fn lookup_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (ins == [Dense, StorageType::RowSparse]).then_some(Dense)
}

/// Looks up rows of a row_sparse table. Rows that it does not store are zero.
pub(super) fn embedding(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let (data, table) = (call.ins[0].dense()?, stored_rows(&call.ins[1])?);
    let num_rows = call.ins[1].shape().dim(0);
    let rows = data.to_vec_as::<i64>()?;
    let invalid = rows.iter().find(|row| !(0..num_rows).contains(*row));
    ensure!(
        invalid.is_none(),
        "SparseEmbedding input contains data out of bound: index {} is outside the row_sparse table, which has {num_rows} rows",
        invalid.unwrap_or(&0)
    );
    let (out, len) = (NDArray::zeros(&call.shapes[0], table.values.dtype(), data.context())?, table.row_len());
    let operands: SmallVec<[&NDArray; 2]> = [&table.values].into_iter().chain(&table.indices).collect();
    call_once(&operands, &[(&out, Req::Write)], |ins, outs| {
        dispatch_any!(table.values.dtype(), T => {
            let (values, out) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
            match ins.get(1) {
                Some(stored) => {
                    let positions = Positions::new(stored.slice::<i64>()?, num_rows as usize, rows.len());
                    kernels::gather_found_rows(values, |k| positions.find(rows[k]), len, out);
                }
                None => kernels::gather_rows(values, &rows, len, out),
            }
            Ok(())
        })
    })?;
    Ok(vec![out.into()])
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
    let lookups: Vec<i64> = memory::collected(data.to_vec_as::<i64>()?.into_iter().map(|row| row.clamp(0, last)));
    let order = kernels::stable_order(&lookups);
    // The sum is a product with a csr matrix: row k has a one for each row of the gradient that belongs to row `rows[k]` of the table.
    let (mut rows, mut indptr) = (Vec::new(), vec![0]);
    for same in order.chunk_by(|a, b| lookups[*a] == lookups[*b]) {
        rows.push(lookups[same[0]]);
        indptr.push(indptr[rows.len() - 1] + same.len() as i64);
    }
    let columns: Vec<i64> = memory::collected(order.into_iter().map(|i| i as i64));
    let out = NDArray::zeros(&with_rows(shape, rows.len()), grad.dtype(), context)?;
    call_once(&[&grad], &[(&out, Req::Write)], |ins, outs| {
        dispatch_numeric!(call, grad.dtype(), T => {
            let ones = vec![<T as MulAdd>::ONE; columns.len()];
            let m = Csr { indptr: &indptr, indices: &columns, data: &ones };
            kernels::product(m, ins[0].slice::<T>()?, row_len(shape, 1), outs[0].slice_mut()?, |r| r);
            Ok(())
        })
    })?;
    let none = SparseArray::zeros(StorageType::RowSparse, &with_rows(&call.shapes[0], 0), data.dtype(), context)?;
    Ok(vec![none.into(), SparseArray::row_sparse(shape, out, new_vector(&rows, context)?)?.into()])
}

/// Gathers the rows of a csr matrix at the given indices.
pub(super) fn take(call: &SparseCall<'_>, bounds: Bounds) -> Result<Vec<Array>> {
    let (a, indices) = (call.ins[0].sparse()?, call.ins[1].dense()?);
    let n = a.shape().dim(0);
    if indices.shape().dims().len() != 1 || n == 0 || bounds == Bounds::Raise {
        return dense_fallback(call);
    }
    let bounded = |i: i64| if bounds == Bounds::Wrap { i.rem_euclid(n) } else { i.clamp(0, n - 1) };
    let rows: Vec<usize> = indices.to_vec_as::<i64>()?.into_iter().map(|i| bounded(i) as usize).collect();
    let columns = (0, a.shape().dim(1));
    dispatch_any!(a.dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        append(a, &mut builder, |b, m| rows.iter().for_each(|r| b.push_row(m, *r, columns)))?;
        Ok(vec![new_csr(&call.shapes[0], builder.components(), a.context())?.into()])
    })
}
