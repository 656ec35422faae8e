//! Arrays in memory that is shared between processes.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd};

use ferromx_runtime::arrays;
use ferromx_runtime::context::{Context, DeviceType};
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::storage::Chunk;

use super::args::{array, array_shape, count, put};
use super::guard;
use super::ret::put_handle;
use super::types::NDArrayHandle;
use crate::handle::insert_tensor;

/// The device of shared arrays.
const SHARED: Context = Context { device_type: DeviceType::CpuShared, device_id: 0 };

fn io(e: &std::io::Error) -> Error {
    Error::io("shared memory", e)
}

/// A file descriptor of an array's memory. It is borrowed from the array, unless the array had to be copied: then the caller owns it.
fn export(array: &NDArray) -> Result<c_int> {
    // The receiving process gets no offset, so a view is copied.
    if let (true, Some(file)) = (array.byte_range() == (0..array.chunk().bytes()), array.chunk().shared_file()) {
        return Ok(file.as_raw_fd());
    }
    let copy = array.to_context(SHARED)?;
    let file = copy.chunk().shared_file().ok_or_else(|| Error::Internal("shared memory has no file".into()))?;
    Ok(file.try_clone().map_err(|e| io(&e))?.into_raw_fd())
}

/// The file of a descriptor. Takes ownership of a descriptor from another process; duplicates one of this process.
fn import(pid: c_int, descriptor: c_int) -> Result<File> {
    ensure!(descriptor >= 0, "shared_id is {descriptor}: a file descriptor was expected");
    if i64::from(pid) == i64::from(std::process::id()) {
        // SAFETY: the borrow ends with this call; duplicating a descriptor that is not open fails.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        return Ok(borrowed.try_clone_to_owned().map_err(|e| io(&e))?.into());
    }
    // SAFETY: by the contract of `MXNDArrayCreateFromSharedMem` the caller passes ownership of the descriptor.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn create(pid: c_int, descriptor: c_int, shape: &Shape, dtype: c_int, out: *mut NDArrayHandle) -> Result<()> {
    let dtype = arrays::dtype_of_code(dtype)?;
    ensure!(
        dtype != ferromx_runtime::dtype::DType::Bool,
        "arrays of type bool cannot be shared: convert them to uint8 first"
    );
    put_handle(out, || {
        let chunk = Chunk::of_file(import(pid, descriptor)?, shape.checked_elements()? * dtype.size(), SHARED)?;
        Ok(insert_tensor(Tensor::new(NDArray::view(chunk, 0, shape.clone(), dtype)?)))
    })
}

/// Returns the id of this process and a file descriptor of the array's memory to send to another process. The descriptor is valid as long
/// as the array. For an array that is not on `cpu_shared`, it refers to a copy and the caller closes it.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetSharedMemHandle(
    handle: NDArrayHandle,
    shared_pid: *mut c_int,
    shared_id: *mut c_int,
) -> c_int {
    guard(|| {
        let array = array(handle)?;
        put(shared_pid, std::process::id() as c_int, "shared_pid")?;
        put(shared_id, -1, "shared_id")?;
        put(shared_id, export(&array)?, "shared_id")
    })
}

/// Creates an array on memory that process `shared_pid` shares. Takes over the file descriptor `shared_id`, except if `shared_pid` is this
/// process.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateFromSharedMem(
    shared_pid: c_int,
    shared_id: c_int,
    shape: *const u32,
    ndim: u32,
    dtype: c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| create(shared_pid, shared_id, &array_shape(shape, ndim as usize)?, dtype, out))
}

/// Like `MXNDArrayCreateFromSharedMem`, with signed dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateFromSharedMemEx(
    shared_pid: c_int,
    shared_id: c_int,
    shape: *const c_int,
    ndim: c_int,
    dtype: c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| create(shared_pid, shared_id, &array_shape(shape, count(ndim, "ndim")?)?, dtype, out))
}
