//! Arrays: creation, views, properties, copies, waiting, and autograd state.

use std::ffi::{c_int, c_void};

use ferromx_runtime::context::Context;
use ferromx_runtime::ensure;
use ferromx_runtime::error::Result;
use ferromx_runtime::imperative::{self, Tensor};
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::{arrays, semantics};

use super::args::{array, array_shape, copy_from, copy_to, count, id, put, raw, slice};
use super::guard;
use super::number::Integer;
use super::ret::{Ret, put_handle};
use super::types::NDArrayHandle;
use crate::handle::{self, insert_tensor, tensor};

fn create(shape: &Shape, dev_type: c_int, dev_id: c_int, dtype: c_int, out: *mut NDArrayHandle) -> Result<()> {
    let context = Context::from_codes(dev_type, dev_id)?;
    put_handle(out, || Ok(insert_tensor(Tensor::new(arrays::create(shape, dtype, context)?))))
}

/// Returns the shape of an array; the rank of an array that was not written yet is unknown.
fn put_shape<N: Integer, D: Integer>(
    function: &'static str,
    handle: NDArrayHandle,
    ndim: *mut N,
    data: *mut *const D,
) -> Result<()> {
    let tensor = tensor(id(handle))?;
    let shape = if tensor.is_empty() { Shape::unknown() } else { tensor.stored()?.shape().clone() };
    let dims = semantics::shape_to_user(&shape);
    let mut ret = Ret::new();
    put(ndim, N::from_i64(dims.as_ref().map_or(-1, |d| d.len() as i64))?, "out_dim")?;
    let dims = dims.iter().flatten().map(|d| D::from_i64(*d)).collect::<Result<_>>()?;
    put(data, ret.list(dims).cast_const(), "out_pdata")?;
    ret.keep(function);
    Ok(())
}

/// Creates an empty array, which gets shape and memory when an operator writes its output to it.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateNone(out: *mut NDArrayHandle) -> c_int {
    guard(|| put_handle(out, || Ok(insert_tensor(Tensor::default()))))
}

/// Creates an uninitialized float32 array. Memory is reserved at once, whatever `delay_alloc` is; the system commits it on first use.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreate(
    shape: *const u32,
    ndim: u32,
    dev_type: c_int,
    dev_id: c_int,
    delay_alloc: c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let _ = delay_alloc;
        create(&array_shape(shape, ndim as usize)?, dev_type, dev_id, 0, out)
    })
}

/// Like `MXNDArrayCreate`, with any element type.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateEx(
    shape: *const u32,
    ndim: u32,
    dev_type: c_int,
    dev_id: c_int,
    delay_alloc: c_int,
    dtype: c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let _ = delay_alloc;
        create(&array_shape(shape, ndim as usize)?, dev_type, dev_id, dtype, out)
    })
}

/// Like `MXNDArrayCreateEx`, with 64-bit dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCreateEx64(
    shape: *const i64,
    ndim: c_int,
    dev_type: c_int,
    dev_id: c_int,
    delay_alloc: c_int,
    dtype: c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let _ = delay_alloc;
        create(&array_shape(shape, count(ndim, "ndim")?)?, dev_type, dev_id, dtype, out)
    })
}

/// Frees a handle; null is ignored. The memory is released when no view, executor or recorded operator uses it any more.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayFree(handle: NDArrayHandle) -> c_int {
    guard(|| handle::free(id(handle), "NDArray"))
}

/// Creates a second handle of an array.
#[unsafe(no_mangle)]
pub extern "C" fn MXShallowCopyNDArray(src: NDArrayHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let tensor = tensor(id(src))?;
        put_handle(out, || Ok(insert_tensor(tensor)))
    })
}

/// Creates a view of rows `slice_begin` to `slice_end` (exclusive), recorded like an operator.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySlice(
    handle: NDArrayHandle,
    slice_begin: u32,
    slice_end: u32,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        put_handle(out, || Ok(insert_tensor(imperative::slice(&source, slice_begin.into(), slice_end.into())?)))
    })
}

/// Like `MXNDArraySlice`, with 64-bit indices.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySlice64(
    handle: NDArrayHandle,
    slice_begin: i64,
    slice_end: i64,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        put_handle(out, || Ok(insert_tensor(imperative::slice(&source, slice_begin, slice_end)?)))
    })
}

/// Creates a view of row `idx` without the first axis, recorded like an operator.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayAt(handle: NDArrayHandle, idx: u32, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        put_handle(out, || Ok(insert_tensor(imperative::at(&source, idx.into())?)))
    })
}

/// Like `MXNDArrayAt`, with a 64-bit index.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayAt64(handle: NDArrayHandle, idx: i64, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        put_handle(out, || Ok(insert_tensor(imperative::at(&source, idx)?)))
    })
}

/// Creates a view with another shape, recorded like an operator. The special values 0, -1, -2, -3 and -4 have the same meaning as in the
/// operator `Reshape`.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayReshape(
    handle: NDArrayHandle,
    ndim: c_int,
    dims: *mut c_int,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        let dims: Vec<i64> = slice(dims, count(ndim, "ndim")?, "dims")?.iter().map(|d| i64::from(*d)).collect();
        let reverse = false;
        put_handle(out, || Ok(insert_tensor(imperative::reshape(&source, &dims, reverse)?)))
    })
}

/// Like `MXNDArrayReshape`, with 64-bit dimensions; `reverse` matches special values from the right.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayReshape64(
    handle: NDArrayHandle,
    ndim: c_int,
    dims: *mut i64,
    reverse: bool,
    out: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let source = tensor(id(handle))?;
        let dims = slice(dims, count(ndim, "ndim")?, "dims")?;
        put_handle(out, || Ok(insert_tensor(imperative::reshape(&source, dims, reverse)?)))
    })
}

/// Returns the shape, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetShape(handle: NDArrayHandle, out_dim: *mut u32, out_pdata: *mut *const u32) -> c_int {
    guard(|| put_shape("MXNDArrayGetShape", handle, out_dim, out_pdata))
}

/// Returns the shape with signed dimensions; an unknown rank is -1 in NumPy semantics. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetShapeEx(
    handle: NDArrayHandle,
    out_dim: *mut c_int,
    out_pdata: *mut *const c_int,
) -> c_int {
    guard(|| put_shape("MXNDArrayGetShapeEx", handle, out_dim, out_pdata))
}

/// Returns the shape with 64-bit dimensions, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetShapeEx64(
    handle: NDArrayHandle,
    out_dim: *mut c_int,
    out_pdata: *mut *const i64,
) -> c_int {
    guard(|| put_shape("MXNDArrayGetShapeEx64", handle, out_dim, out_pdata))
}

/// Returns the element type code; -1 for an array that was not written yet.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetDType(handle: NDArrayHandle, out_dtype: *mut c_int) -> c_int {
    guard(|| {
        let tensor = tensor(id(handle))?;
        put(out_dtype, if tensor.is_empty() { -1 } else { tensor.stored()?.dtype().code() }, "out_dtype")
    })
}

/// Returns device type (1 is the CPU) and device id; zeros for an array that was not written yet.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetContext(
    handle: NDArrayHandle,
    out_dev_type: *mut c_int,
    out_dev_id: *mut c_int,
) -> c_int {
    guard(|| {
        let tensor = tensor(id(handle))?;
        let context = if tensor.is_empty() { None } else { Some(tensor.stored()?.context()) };
        put(out_dev_type, context.map_or(0, |c| c.device_type as c_int), "out_dev_type")?;
        put(out_dev_id, context.map_or(0, |c| c.device_id), "out_dev_id")
    })
}

/// Returns the address of the elements, which is valid as long as the array. From now on, the library assumes that the content may change
/// at any time.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetData(handle: NDArrayHandle, out_pdata: *mut *mut c_void) -> c_int {
    guard(|| {
        let array = array(handle)?;
        let start = array.chunk().expose().wrapping_add(array.byte_range().start);
        put(out_pdata, start.cast::<c_void>(), "out_pdata")
    })
}

/// Copies all `size` elements to the caller's memory.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySyncCopyToCPU(handle: NDArrayHandle, data: *mut c_void, size: usize) -> c_int {
    guard(|| {
        let array = array(handle)?;
        imperative::wait(&array)?;
        copy_to(&array, data, size)
    })
}

/// Copies all `size` elements from the caller's memory.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySyncCopyFromCPU(handle: NDArrayHandle, data: *const c_void, size: usize) -> c_int {
    guard(|| {
        let array = array(handle)?;
        imperative::wait(&array)?;
        copy_from(&array, data, size)
    })
}

/// Reports, once, the failure of an operator that the array depends on. There is nothing to wait for: operators have finished when their
/// call returns.
fn wait(handle: NDArrayHandle) -> Result<()> {
    match tensor(id(handle))?.stored() {
        Ok(Array::Dense(array)) => imperative::wait(&array),
        _ => Ok(()),
    }
}

/// Waits until the array can be read. Fails, once, if an operator that it depends on has failed.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayWaitToRead(handle: NDArrayHandle) -> c_int {
    guard(|| wait(handle))
}

/// Waits until the array can be written. Fails like `MXNDArrayWaitToRead`.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayWaitToWrite(handle: NDArrayHandle) -> c_int {
    guard(|| wait(handle))
}

/// Waits for all operators. Fails if a failure was not reported yet.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayWaitAll() -> c_int {
    guard(imperative::wait_all)
}

/// Returns the gradient array of a marked variable, or null. The caller frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetGrad(handle: NDArrayHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| put(out, tensor(id(handle))?.grad().map_or(std::ptr::null_mut(), |g| raw(insert_tensor(g))), "out"))
}

/// Creates an array on the same memory that is not recorded.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayDetach(handle: NDArrayHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let tensor = tensor(id(handle))?;
        put_handle(out, || Ok(insert_tensor(tensor.detach()?)))
    })
}

/// Returns whether the gradient was computed since the flag was last cleared.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayGetGradState(handle: NDArrayHandle, out: *mut c_int) -> c_int {
    guard(|| put(out, c_int::from(tensor(id(handle))?.fresh_gradient()), "out"))
}

/// Sets the flag of `MXNDArrayGetGradState`.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySetGradState(handle: NDArrayHandle, state: c_int) -> c_int {
    guard(|| {
        let tensor = tensor(id(handle))?;
        ensure!(
            tensor.is_recorded(),
            "the array has no gradient: mark it as a variable with MXAutogradMarkVariables first"
        );
        tensor.set_fresh_gradient(state != 0);
        Ok(())
    })
}
