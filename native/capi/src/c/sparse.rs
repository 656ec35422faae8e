//! Sparse arrays: creation, storage types, index arrays and values.

use std::ffi::c_int;

use ferromx_runtime::arrays;
use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::ensure;
use ferromx_runtime::error::Result;
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::sparse::{FormatCheck, SparseArray, StorageType};

use super::args::{array_shape, count, id, put, slice};
use super::guard;
use super::number::Integer;
use super::ret::put_handle;
use super::types::NDArrayHandle;
use crate::handle::{insert_tensor, tensor};
use crate::sparse;

fn create<D: Integer>(
    storage_type: c_int,
    (shape, ndim): (*const D, usize),
    device: (c_int, c_int),
    dtype: c_int,
    (num_aux, aux_type): (u32, *const c_int),
    out: *mut NDArrayHandle,
) -> Result<()> {
    let storage_type = StorageType::from_code(storage_type)?;
    let n = storage_type.num_aux();
    ensure!(num_aux as usize == n, "num_aux is {num_aux}, but a {storage_type} array has {n} index arrays");
    for code in slice(aux_type, n, "aux_type")? {
        sparse::check_index_type(arrays::dtype_of_code(*code)?)?;
    }
    let shape = array_shape(shape, ndim)?;
    let (dtype, context) = (arrays::dtype_of_code(dtype)?, Context::from_codes(device.0, device.1)?);
    put_handle(out, || Ok(insert_tensor(Tensor::new(SparseArray::zeros(storage_type, &shape, dtype, context)?))))
}

/// Creates an empty sparse array (storage type 1 is row_sparse, 2 csr). `MXNDArraySyncCopyFromNDArray` sets its values and index arrays
/// with their shapes. Index arrays are of type int64.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateSparseEx(
    storage_type: c_int,
    shape: *const u32,
    ndim: u32,
    dev_type: c_int,
    dev_id: c_int,
    delay_alloc: c_int,
    dtype: c_int,
    num_aux: u32,
    aux_type: *mut c_int,
    aux_ndims: *mut u32,
    aux_shape: *const u32,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let _ = (delay_alloc, aux_ndims, aux_shape);
        create(storage_type, (shape, ndim as usize), (dev_type, dev_id), dtype, (num_aux, aux_type), out)
    })
}

/// Like `MXNDArrayCreateSparseEx`, with 64-bit dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateSparseEx64(
    storage_type: c_int,
    shape: *const i64,
    ndim: c_int,
    dev_type: c_int,
    dev_id: c_int,
    delay_alloc: c_int,
    dtype: c_int,
    num_aux: u32,
    aux_type: *mut c_int,
    aux_ndims: *mut c_int,
    aux_shape: *const i64,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let _ = (delay_alloc, aux_ndims, aux_shape);
        create(storage_type, (shape, count(ndim, "ndim")?), (dev_type, dev_id), dtype, (num_aux, aux_type), out)
    })
}

/// Returns the storage type: 0 dense, 1 row_sparse, 2 csr, or -1 for an array that has not been written yet.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetStorageType(handle: NDArrayHandle, out_storage_type: *mut c_int) -> c_int {
    guard(|| {
        let storage_type = tensor(id(handle))?.storage_type();
        put(out_storage_type, storage_type.map_or(-1, |s| s as c_int), "out_storage_type")
    })
}

fn put_index_type(handle: NDArrayHandle, i: i64, out: *mut c_int) -> Result<()> {
    sparse::index_array(&tensor(id(handle))?, i)?;
    put(out, DType::I64.code(), "out_type")
}

/// Returns the element type of index array `i` of a sparse array (csr: 0 row pointers, 1 columns; row_sparse: 0 rows).
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetAuxType(handle: NDArrayHandle, i: u32, out_type: *mut c_int) -> c_int {
    guard(|| put_index_type(handle, i.into(), out_type))
}

/// Like `MXNDArrayGetAuxType`, with a 64-bit index.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetAuxType64(handle: NDArrayHandle, i: i64, out_type: *mut c_int) -> c_int {
    guard(|| put_index_type(handle, i, out_type))
}

fn put_index_array(handle: NDArrayHandle, i: i64, out: *mut NDArrayHandle) -> Result<()> {
    let array = sparse::index_array(&tensor(id(handle))?, i)?;
    put_handle(out, || Ok(insert_tensor(Tensor::new(array))))
}

/// Creates a copy of index array `i` of a sparse array, in the order of `MXNDArrayGetAuxType`.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetAuxNDArray(handle: NDArrayHandle, i: u32, out: *mut NDArrayHandle) -> c_int {
    guard(|| put_index_array(handle, i.into(), out))
}

/// Like `MXNDArrayGetAuxNDArray`, with a 64-bit index.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetAuxNDArray64(handle: NDArrayHandle, i: i64, out: *mut NDArrayHandle) -> c_int {
    guard(|| put_index_array(handle, i, out))
}

/// Creates a copy of the stored values of a sparse array.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetDataNDArray(handle: NDArrayHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let values = sparse::values(&tensor(id(handle))?)?;
        put_handle(out, || Ok(insert_tensor(Tensor::new(values))))
    })
}

/// Copies an array to another. For a sparse destination, `i` is the index array to set, or -1 for the values.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySyncCopyFromNDArray(
    handle_dst: NDArrayHandle,
    handle_src: NDArrayHandle,
    i: c_int,
) -> c_int {
    guard(|| sparse::copy_component(&tensor(id(handle_dst))?, &tensor(id(handle_src))?, i))
}

/// Checks the consistency of a sparse array: the lengths of its values and index arrays and, with `full_check`, the range and order of the
/// indices. Dense arrays are always consistent.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySyncCheckFormat(handle: NDArrayHandle, full_check: bool) -> c_int {
    let scope = if full_check { FormatCheck::Full } else { FormatCheck::Lengths };
    guard(|| sparse::check_format(&tensor(id(handle))?, scope))
}
