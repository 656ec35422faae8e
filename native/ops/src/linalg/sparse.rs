//! `dot` of a sparse and a dense matrix.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_kernels::sparse::{self as kernels, MulAdd};

use super::dot::DotParam;
use crate::sparse::cast::{cast, to_dense};
use crate::sparse::{Storage, csr_of, csr_parts, new_csr, new_vector, summed, with_rows};
use StorageType::{Csr, Default as Dense, RowSparse};

/// Storage rule of products, unless `forward_stype` sets it. csr times dense or row_sparse is dense, or row_sparse if csr is transposed.
/// dense times csr is csr.
pub(super) fn dot_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<DotParam>();
    let default = match (ins[0], ins[1]) {
        (Csr, Dense | RowSparse) if p.transpose_a && !p.transpose_b => Some(RowSparse),
        (Csr, Dense | RowSparse) => Some(Dense),
        (Dense, Csr) if !p.transpose_a => Some(Csr),
        _ => None,
    };
    p.forward_stype.map(Storage::storage_type).or(default)
}

/// The sparse matrix product.
pub(super) fn dot(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let p = call.ctx.params::<DotParam>();
    let product = match (&call.ins[0], &call.ins[1]) {
        (Array::Dense(lhs), Array::Sparse(rhs))
            if rhs.storage_type() == Csr && !p.transpose_a && !p.transpose_b && lhs.shape().dims().len() == 2 =>
        {
            dense_csr(call, lhs, rhs)?.into()
        }
        (Array::Sparse(lhs), rhs) if lhs.storage_type() == Csr && !p.transpose_b => {
            let rhs = to_dense(rhs)?;
            csr_dense(call, lhs, p.transpose_a, &rhs, &call.shapes[0])?
        }
        (lhs, rhs) => {
            let mut product = (call.dense)(&[to_dense(lhs)?, to_dense(rhs)?])?;
            product.pop().ok_or_else(|| Error::Internal("dot has no output".into()))?.into()
        }
    };
    Ok(vec![cast(&product, call.storage_type)?])
}

/// The product of a csr matrix, transposed if `transpose_lhs`, and a dense array. It is dense, or row_sparse with the rows that are not
/// empty in the matrix.
fn csr_dense(
    call: &SparseCall<'_>,
    lhs: &SparseArray,
    transpose_lhs: bool,
    rhs: &NDArray,
    shape: &Shape,
) -> Result<Array> {
    ensure!(lhs.dtype() == rhs.dtype(), "dot takes operands of equal types, not {} and {}", lhs.dtype(), rhs.dtype());
    summed!(call, lhs.dtype(), T => {
        if transpose_lhs {
            multiply::<T>(&transpose::<T>(lhs)?, rhs, shape, call.storage_type)
        } else {
            multiply::<T>(lhs, rhs, shape, call.storage_type)
        }
    })
}

/// The transpose of a csr matrix.
fn transpose<T: Element + MulAdd>(a: &SparseArray) -> Result<SparseArray> {
    let parts = a.parts()?;
    let columns = a.shape().dim(1);
    let transposed =
        call_once(&csr_parts(&parts)?, &[], |ins, _| Ok(kernels::transpose(csr_of::<T>(ins)?, columns as usize)))?;
    new_csr(&Shape::new(&[columns, a.shape().dim(0)]), transposed, a.context())
}

/// The product of a csr matrix and a dense array, dense or row_sparse.
fn multiply<T: Element + MulAdd>(
    a: &SparseArray,
    rhs: &NDArray,
    shape: &Shape,
    storage_type: StorageType,
) -> Result<Array> {
    let parts = a.parts()?;
    let [indptr, indices, values] = csr_parts(&parts)?;
    let n = rhs.len().checked_div(rhs.shape().dim(0) as usize).unwrap_or(0);
    let run = |out: &NDArray, rows: Option<&[i64]>| {
        call_once(&[indptr, indices, values, rhs], &[(out, Req::Write)], |ins, outs| {
            let (m, rhs, out) = (csr_of::<T>(&ins[..3])?, ins[3].slice::<T>()?, outs[0].slice_mut::<T>()?);
            match rows {
                Some(rows) => kernels::product(m, rhs, n, out, |k| rows[k] as usize),
                None => kernels::product(m, rhs, n, out, |r| r),
            }
            Ok(())
        })
    };
    if storage_type != RowSparse {
        let out = NDArray::zeros(shape, T::DTYPE, a.context())?;
        run(&out, None)?;
        return Ok(out.into());
    }
    let starts = indptr.to_vec::<i64>()?;
    let rows: Vec<i64> =
        (0..starts.len() as i64 - 1).filter(|r| starts[*r as usize] < starts[*r as usize + 1]).collect();
    let out = NDArray::zeros(&with_rows(shape, rows.len()), T::DTYPE, a.context())?;
    run(&out, Some(&rows))?;
    Ok(SparseArray::row_sparse(shape, out, new_vector(&rows, a.context())?)?.into())
}

/// The product of a dense and a csr matrix.
fn dense_csr(call: &SparseCall<'_>, lhs: &NDArray, rhs: &SparseArray) -> Result<NDArray> {
    ensure!(lhs.dtype() == rhs.dtype(), "dot takes operands of equal types, not {} and {}", lhs.dtype(), rhs.dtype());
    let parts = rhs.parts()?;
    let [indptr, indices, values] = csr_parts(&parts)?;
    let out = NDArray::zeros(&call.shapes[0], lhs.dtype(), lhs.context())?;
    let columns = rhs.shape().dim(1) as usize;
    call_once(&[indptr, indices, values, lhs], &[(&out, Req::Write)], |ins, outs| {
        summed!(call, lhs.dtype(), T => {
            kernels::dense_product(ins[3].slice::<T>()?, csr_of::<T>(&ins[..3])?, columns, outs[0].slice_mut()?);
            Ok(())
        })
    })?;
    Ok(out)
}

/// Storage rule of the gradients of csr times another matrix. That of the right operand is also a product of a csr matrix.
pub(super) fn dot_backward_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<DotParam>();
    let is_product = ins[1] == Csr && !p.transpose_b && (ins[0] == Dense || ins[0] == RowSparse && !p.transpose_a);
    is_product.then_some(if p.transpose_a { Dense } else { RowSparse })
}

/// The gradients of C = A B for a csr matrix A: dB = A^T dC. dA is dense, and only computed if it is wanted.
pub(super) fn dot_backward(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let p = call.ctx.params::<DotParam>();
    let (grad, lhs) = (&to_dense(&call.ins[0])?, call.ins[1].sparse()?);
    let mut grads = if call.wanted[0] {
        let operands = call.ins.iter().map(to_dense).collect::<Result<Vec<_>>>()?;
        (call.dense)(&operands)?.into_iter().map(Array::Dense).take(1).collect()
    } else {
        vec![SparseArray::zeros(Csr, &call.shapes[0], lhs.dtype(), lhs.context())?.into()]
    };
    grads.push(csr_dense(call, lhs, !p.transpose_a, grad, &call.shapes[1])?);
    Ok(grads)
}
