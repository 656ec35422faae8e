//! Copies between arrays of any type, storage type and device.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_kernels::par::parallel_copy;
use ferromx_ops::sparse::cast::{assign, to_dense};
use smallvec::smallvec;

use super::invoke::invoke;
use crate::symbol::OpCall;

/// Copies an array to another of the same shape, which may have another type, storage type or device.
///
/// # Errors
/// Different shapes; csr to row_sparse or row_sparse to csr; a read-only target.
pub fn copy(from: &Array, to: &Array) -> Result<()> {
    ensure!(
        from.shape() == to.shape(),
        "operands shape mismatch from.shape = {} to.shape={}: copies need equal shapes",
        from.shape(),
        to.shape()
    );
    let (source, target) = (from.storage_type(), to.storage_type());
    ensure!(
        source == StorageType::Default || target == StorageType::Default || source == target,
        "Copying ndarray of stype = {} to stype = {} is not supported: make it dense first",
        source as i32,
        target as i32
    );
    match (from, to) {
        (Array::Dense(from), Array::Dense(to)) => copy_dense(from, to),
        (Array::Sparse(from), Array::Sparse(to)) if from.dtype() == to.dtype() => to.copy_from(from),
        _ => {
            let dense = to_dense(from)?;
            let converted = NDArray::empty(dense.shape(), to.dtype(), to.context())?;
            copy_dense(&dense, &converted)?;
            assign(to, converted.into())
        }
    }
}

/// An array with the elements converted to a type: the array itself if it has this type, else a dense array.
///
/// # Errors
/// Out of memory.
pub(crate) fn converted(array: &Array, dtype: DType) -> Result<Array> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let converted = NDArray::empty(array.shape(), dtype, array.context())?.into();
    copy(array, &converted)?;
    Ok(converted)
}

/// Copies an array to another of the same length, converted to its type.
///
/// # Errors
/// Different lengths; a read-only target.
pub fn copy_dense(from: &NDArray, to: &NDArray) -> Result<()> {
    to.check_writable()?;
    if from.dtype() == to.dtype() {
        return to.copy_from_with(from, parallel_copy);
    }
    let target = to.reshape(from.shape())?;
    invoke(&OpCall::new("_copyto", &Attrs::new())?, None, std::slice::from_ref(from), &mut smallvec![target])
}
