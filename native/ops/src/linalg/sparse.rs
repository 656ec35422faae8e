//! `dot` of a sparse and a dense matrix.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once, read_slice};
use ferromx_kernels::sparse::{self as kernels, Csr, MulAdd};
use smallvec::SmallVec;

use crate::sparse::cast::{cast, read_dense, to_dense};
use crate::sparse::{StoredRows, csr_components, csr_of, dispatch_numeric, new_vector, stored_rows, with_rows};
use StorageType::{Default as Dense, RowSparse};

/// The operands of a product that are transposed.
#[derive(Clone, Copy)]
pub(super) struct Transposed {
    pub lhs: bool,
    pub rhs: bool,
}

/// The sparse matrix product.
pub(super) fn dot(call: &SparseCall<'_>, transposed: Transposed) -> Result<Vec<Array>> {
    let product = match (&call.ins[0], &call.ins[1]) {
        (Array::Dense(lhs), Array::Sparse(rhs))
            if rhs.storage_type() == StorageType::Csr
                && !transposed.lhs
                && !transposed.rhs
                && lhs.shape().dims().len() == 2 =>
        {
            dense_csr(call, lhs, rhs)?
        }
        (Array::Sparse(lhs), rhs) if lhs.storage_type() == StorageType::Csr && !transposed.rhs => {
            csr_product(call, (lhs, transposed.lhs), rhs, &call.shapes[0], call.storage_type)?
        }
        (lhs, rhs) => {
            let mut product = (call.dense)(&[read_dense(lhs)?, read_dense(rhs)?])?;
            product.pop().ok_or_else(|| Error::Internal("dot has no output".into()))?.into()
        }
    };
    Ok(vec![cast(&product, call.storage_type)?])
}

/// The product of a csr matrix, transposed if the flag is set, and an array. Rows that a row_sparse array does not store are skipped. A
/// row_sparse product stores the rows that have terms.
fn csr_product(
    call: &SparseCall<'_>,
    (lhs, is_transposed): (&SparseArray, bool),
    rhs: &Array,
    shape: &Shape,
    storage_type: StorageType,
) -> Result<Array> {
    ensure!(lhs.dtype() == rhs.dtype(), "dot takes operands of equal types, not {} and {}", lhs.dtype(), rhs.dtype());
    let rhs = stored_rows(rhs)?;
    dispatch_numeric!(call, lhs.dtype(), T => match is_transposed {
        true => transposed_product::<T>(lhs, &rhs, shape, storage_type),
        false => Ok(product::<T>(lhs, &rhs, shape)?.into()),
    })
}

/// The arrays of a product for a kernel: those of the matrix, the values of the other operand and, if it does not store all rows, their
/// indices.
fn operands<'a>(matrix: [&'a NDArray; 3], rhs: &'a StoredRows) -> SmallVec<[&'a NDArray; 5]> {
    matrix.into_iter().chain([&rhs.values]).chain(&rhs.indices).collect()
}

/// The product of a csr matrix and an array.
fn product<T: Element + MulAdd>(a: &SparseArray, rhs: &StoredRows, shape: &Shape) -> Result<NDArray> {
    let components = a.components()?;
    let out = NDArray::zeros(shape, T::DTYPE, a.context())?;
    call_once(&operands(csr_components(&components)?, rhs), &[(&out, Req::Write)], |ins, outs| {
        let (m, values, out) = (csr_of::<T>(&ins[..3])?, ins[3].slice::<T>()?, outs[0].slice_mut::<T>()?);
        match ins.get(4) {
            Some(rows) => {
                let (indptr, indices, data) =
                    kernels::select_columns(m, rows.slice::<i64>()?, a.shape().dim(1) as usize);
                let m = Csr { indptr: &indptr, indices: &indices, data: &data };
                kernels::product(m, values, rhs.row_len(), out, |r| r);
            }
            None => kernels::product(m, values, rhs.row_len(), out, |r| r),
        }
        Ok(())
    })?;
    Ok(out)
}

/// The product of the transpose of a csr matrix and an array.
fn transposed_product<T: Element + MulAdd>(
    a: &SparseArray,
    rhs: &StoredRows,
    shape: &Shape,
    storage_type: StorageType,
) -> Result<Array> {
    let (components, n) = (a.components()?, rhs.row_len());
    let (rows, (indptr, indices, data)) = call_once(&operands(csr_components(&components)?, rhs), &[], |ins, _| {
        let m = csr_of::<T>(&ins[..3])?;
        let Some(rows) = ins.get(4) else { return Ok(kernels::transpose_stored(m)) };
        let (indptr, indices, data) = kernels::select_rows(m, rows.slice::<i64>()?);
        Ok(kernels::transpose_stored(Csr { indptr: &indptr, indices: &indices, data: &data }))
    })?;
    let out = NDArray::zeros(&with_rows(shape, rows.len()), T::DTYPE, a.context())?;
    call_once(&[&rhs.values], &[(&out, Req::Write)], |ins, outs| {
        let m = Csr { indptr: &indptr, indices: &indices, data: &data };
        kernels::product(m, ins[0].slice::<T>()?, n, outs[0].slice_mut::<T>()?, |r| r);
        Ok(())
    })?;
    let product = SparseArray::row_sparse(shape, out, new_vector(&rows, a.context())?)?.into();
    if storage_type == RowSparse { Ok(product) } else { Ok(to_dense(&product)?.into()) }
}

/// The product of a dense and a csr matrix. A csr product stores the columns that are not empty in the matrix, as in MXNet.
fn dense_csr(call: &SparseCall<'_>, lhs: &NDArray, rhs: &SparseArray) -> Result<Array> {
    ensure!(lhs.dtype() == rhs.dtype(), "dot takes operands of equal types, not {} and {}", lhs.dtype(), rhs.dtype());
    let components = rhs.components()?;
    let [indptr, indices, values] = csr_components(&components)?;
    let (shape, num_columns) = (&call.shapes[0], rhs.shape().dim(1) as usize);
    if call.storage_type != StorageType::Csr {
        let out = NDArray::zeros(shape, lhs.dtype(), lhs.context())?;
        call_once(&[indptr, indices, values, lhs], &[(&out, Req::Write)], |ins, outs| {
            dispatch_numeric!(call, lhs.dtype(), T => {
                let (dense, m) = (ins[3].slice::<T>()?, csr_of::<T>(&ins[..3])?);
                kernels::dense_product(dense, m, num_columns, outs[0].slice_mut()?);
                Ok(())
            })
        })?;
        return Ok(out.into());
    }
    let columns = read_slice(indices, kernels::sorted_distinct)?;
    let (rows, n) = (shape.dim(0), columns.len());
    let out = NDArray::zeros(&Shape::new(&[rows * n as i64]), lhs.dtype(), lhs.context())?;
    call_once(&[indptr, indices, values, lhs], &[(&out, Req::Write)], |ins, outs| {
        dispatch_numeric!(call, lhs.dtype(), T => {
            let (indptr, indices, data) = kernels::select_columns(csr_of::<T>(&ins[..3])?, &columns, num_columns);
            let m = Csr { indptr: &indptr, indices: &indices, data: &data };
            kernels::dense_product(ins[3].slice::<T>()?, m, n, outs[0].slice_mut()?);
            Ok(())
        })
    })?;
    let indices: Vec<i64> = memory::collected((0..rows).flat_map(|_| columns.iter().copied()));
    let indptr: Vec<i64> = memory::collected((0..=rows).map(|r| r * n as i64));
    let (indptr, indices) = (new_vector(&indptr, lhs.context())?, new_vector(&indices, lhs.context())?);
    Ok(SparseArray::csr(shape, out, indptr, indices)?.into())
}

/// The gradients of C = A B for a csr matrix A: dB = A^T dC. dA is dense, and only computed if it is wanted.
pub(super) fn dot_backward(call: &SparseCall<'_>, transposed: Transposed) -> Result<Vec<Array>> {
    let lhs = call.ins[1].sparse()?;
    let mut grads = if call.wanted[0] {
        let operands = call.ins.iter().map(read_dense).collect::<Result<Vec<_>>>()?;
        (call.dense)(&operands)?.into_iter().map(Array::Dense).take(1).collect()
    } else {
        vec![SparseArray::zeros(StorageType::Csr, &call.shapes[0], lhs.dtype(), lhs.context())?.into()]
    };
    let storage_type = if transposed.lhs { Dense } else { RowSparse };
    grads.push(csr_product(call, (lhs, !transposed.lhs), &call.ins[0], &call.shapes[1], storage_type)?);
    Ok(grads)
}
