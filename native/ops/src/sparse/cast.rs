//! Conversion between storage types.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::{Array, FormatCheck, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once, read_slice, write_bytes};
use ferromx_kernels::sparse as kernels;

use super::{csr_components, csr_of, dispatch_any, new_csr, new_vector, stored_rows, with_rows};
use crate::axes::row_len;
use crate::rules::new_array;

/// Converts an array to a dense one. A dense array is returned without a copy.
///
/// # Errors
/// Inconsistent row pointers or indices; too little memory.
pub fn to_dense(array: &Array) -> Result<NDArray> {
    let a = match array {
        Array::Dense(a) => return Ok(a.clone()),
        Array::Sparse(a) => a,
    };
    let out = NDArray::zeros(a.shape(), a.dtype(), a.context())?;
    scatter(a, &out)?;
    Ok(out)
}

/// Writes the stored elements of an array to a dense array of zeros.
fn scatter(a: &SparseArray, out: &NDArray) -> Result<()> {
    let (components, target) = (a.components()?, [(out, Req::Write)]);
    if a.storage_type() == StorageType::Csr {
        return call_once(&csr_components(&components)?, &target, |ins, outs| {
            dispatch_any!(a.dtype(), T => {
                kernels::to_dense(csr_of::<T>(ins)?, row_len(a.shape(), 1), outs[0].slice_mut()?);
                Ok(())
            })
        });
    }
    call_once(&[&components.indices, &components.data], &target, |ins, outs| {
        dispatch_any!(a.dtype(), T => {
            let indices = ins[0].slice::<i64>()?;
            kernels::scatter_rows(ins[1].slice::<T>()?, indices, row_len(a.shape(), 1), outs[0].slice_mut()?);
            Ok(())
        })
    })
}

/// A dense array with the same elements, to be read only. It shares the memory of a dense array, and of a row_sparse array that stores all
/// rows.
///
/// # Errors
/// See [`to_dense`].
pub fn read_dense(array: &Array) -> Result<NDArray> {
    let rows = stored_rows(array)?;
    if rows.indices.is_none() { Ok(rows.values) } else { to_dense(array) }
}

/// Converts an array to a storage type. An array that already has it is returned without a copy.
///
/// # Errors
/// csr for a rank other than 2; row_sparse for a scalar; too little memory.
pub fn cast(array: &Array, storage_type: StorageType) -> Result<Array> {
    if array.storage_type() == storage_type {
        return Ok(array.clone());
    }
    let dense = to_dense(array)?;
    match storage_type {
        StorageType::Default => Ok(dense.into()),
        _ => dispatch_any!(dense.dtype(), T => Ok(to_sparse::<T>(&dense, storage_type)?.into())),
    }
}

fn to_sparse<T: Element>(dense: &NDArray, storage_type: StorageType) -> Result<SparseArray> {
    let (shape, context) = (dense.shape(), dense.context());
    let n = shape.dims().len();
    if storage_type == StorageType::Csr {
        ensure!(n == 2, "only arrays of 2 dimensions can be stored as csr, not {shape}");
        let (rows, columns) = (shape.dim(0) as usize, shape.dim(1) as usize);
        let components = read_slice(dense, |x: &[T]| kernels::dense_to_csr(x, rows, columns))?;
        return new_csr(shape, components, context);
    }
    ensure!(n >= 1, "a scalar cannot be stored as row_sparse");
    let (rows, len) = (shape.dim(0) as usize, row_len(shape, 1));
    let (indices, values) = read_slice(dense, |x: &[T]| {
        let indices = kernels::nonzero_rows(x, rows, len);
        let mut values = memory::filled(T::default(), indices.len() * len);
        kernels::gather_rows(x, &indices, len, &mut values);
        (indices, values)
    })?;
    let values = new_array(&values, &with_rows(shape, indices.len()), context)?;
    SparseArray::row_sparse(shape, values, new_vector(&indices, context)?)
}

/// Overwrites an array of any storage type with `value`, whose memory it takes over if both are sparse.
///
/// # Errors
/// A different shape or element type.
pub fn assign(target: &Array, value: Array) -> Result<()> {
    ensure!(
        target.shape() == value.shape() && target.dtype() == value.dtype(),
        "the result is {} {}, but the output array is {} {}",
        value.shape(),
        value.dtype(),
        target.shape(),
        target.dtype()
    );
    match target {
        Array::Dense(to) => match value {
            Array::Dense(from) => to.copy_from(&from),
            Array::Sparse(from) => {
                to.check_writable()?;
                write_bytes(to, |bytes| bytes.fill(0));
                scatter(&from, to)
            }
        },
        Array::Sparse(to) => match cast(&value, to.storage_type())? {
            Array::Sparse(from) if to.is_same(&from) => Ok(()),
            Array::Sparse(from) => to.take(from),
            Array::Dense(_) => to.check_format(FormatCheck::Full),
        },
    }
}
