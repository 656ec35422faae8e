//! DLPack: exchange of arrays between libraries without copying.

use std::ffi::{c_int, c_void};

use ferromx_runtime::context::{Context, DeviceType};
use ferromx_runtime::dtype::DType;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::storage::Chunk;

use super::args::{array, get, put, raw, slice};
use super::guard;
use super::ret::put_handle;
use super::types::{DLManagedTensor, DLManagedTensorHandle, DLTensor, NDArrayHandle};
use crate::handle::insert_tensor;

/// The CPU, the only supported device type.
const DL_CPU: c_int = 1;

/// Element types with their DLPack type code (0 signed, 1 unsigned, 2 floating-point, 4 bfloat) and bits.
const TYPES: &[(DType, u8, u8)] = &[
    (DType::F32, 2, 32),
    (DType::F64, 2, 64),
    (DType::F16, 2, 16),
    (DType::BF16, 4, 16),
    (DType::U8, 1, 8),
    (DType::I8, 0, 8),
    (DType::I32, 0, 32),
    (DType::I64, 0, 64),
    (DType::Bool, 1, 1),
];

/// An exported array: its DLPack tensor, with the array and the shape to which it points.
struct ExportedTensor {
    tensor: DLManagedTensor,
    shape: Vec<i64>,
    _array: NDArray,
}

/// The deleter of tensors from `MXNDArrayToDLPack`.
unsafe extern "C" fn free_exported(tensor: *mut DLManagedTensor) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: by the contract of DLPack the deleter is called once, with a tensor from `export`, whose `manager_ctx` is the box.
    drop(unsafe { Box::from_raw((*tensor).manager_ctx.cast::<ExportedTensor>()) });
}

fn export(array: NDArray) -> Result<*mut DLManagedTensor> {
    let dtype = array.dtype();
    let (_, code, bits) = *TYPES
        .iter()
        .find(|(d, ..)| *d == dtype)
        .ok_or_else(|| Error::Unsupported(format!("arrays of type {dtype} cannot be exported by DLPack")))?;
    let context = array.context();
    ensure!(context.device_type != DeviceType::Gpu, "arrays on {context} cannot be exported by DLPack");
    let dl_tensor = DLTensor {
        data: array.chunk().expose().wrapping_add(array.byte_range().start).cast(),
        device_type: DL_CPU,
        device_id: context.device_id,
        ndim: array.shape().dims().len() as c_int,
        dtype_code: code,
        dtype_bits: bits,
        dtype_lanes: 1,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let tensor = DLManagedTensor { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter: Some(free_exported) };
    let exported =
        Box::into_raw(Box::new(ExportedTensor { tensor, shape: array.shape().dims().to_vec(), _array: array }));
    // SAFETY: `exported` is the only pointer to the box, whose fields have stable addresses from here on.
    unsafe {
        (*exported).tensor.dl_tensor.shape = (*exported).shape.as_mut_ptr();
        (*exported).tensor.manager_ctx = exported.cast();
        Ok(&raw mut (*exported).tensor)
    }
}

/// Memory of another library. Dropping it calls the deleter.
struct ForeignMemory {
    /// A copy of the DLPack tensor, if the caller's is valid only during the call.
    copy: Option<Box<DLManagedTensor>>,
    tensor: *mut DLManagedTensor,
}

// SAFETY: by the contract of DLPack the deleter may be called on any thread; the pointer is used for nothing else.
unsafe impl Send for ForeignMemory {}
// SAFETY: a shared reference gives no access to the pointer.
unsafe impl Sync for ForeignMemory {}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        let tensor = self.copy.as_mut().map_or(self.tensor, |copy| &raw mut **copy);
        // SAFETY: `tensor` points to the copy or to the caller's DLPack tensor, which is valid until its deleter is called, once, here.
        unsafe {
            if let Some(deleter) = (*tensor).deleter {
                deleter(tensor);
            }
        }
    }
}

/// Checks that the tensor is contiguous in row-major order.
fn check_strides(shape: &[i64], strides: *const i64) -> Result<()> {
    if strides.is_null() {
        return Ok(());
    }
    let mut expected = 1;
    for (n, stride) in shape.iter().zip(slice(strides, shape.len(), "strides")?).rev() {
        ensure!(
            *n <= 1 || *stride == expected,
            "the array of shape {} is not contiguous: copy it first",
            Shape::new(shape)
        );
        expected *= (*n).max(1);
    }
    Ok(())
}

fn import(tensor: *mut DLManagedTensor, is_transient: bool) -> Result<NDArray> {
    let described = get(tensor.cast_const(), "dlpack")?;
    let t = described.dl_tensor;
    ensure!(
        t.device_type == DL_CPU,
        "DLPack device type {} is not supported: move the array to the CPU first",
        t.device_type
    );
    let found = TYPES.iter().find(|(_, code, bits)| (*code, *bits, 1) == (t.dtype_code, t.dtype_bits, t.dtype_lanes));
    let (dtype, ..) = *found.ok_or_else(|| {
        let (code, bits, lanes) = (t.dtype_code, t.dtype_bits, t.dtype_lanes);
        Error::Unsupported(format!("DLPack type (code {code}, {bits} bits, {lanes} lanes) is not supported"))
    })?;
    let rank = usize::try_from(t.ndim).map_err(|_| {
        Error::value(format!("the DLPack tensor has {} dimensions: their number cannot be negative", t.ndim))
    })?;
    let dims = slice(t.shape.cast_const(), rank, "shape")?;
    ensure!(dims.iter().all(|d| *d >= 0), "the DLPack shape {} has negative dimensions", Shape::new(dims));
    check_strides(dims, t.strides)?;
    let shape = Shape::new(dims);
    let bytes = shape.checked_elements()? * dtype.size();
    let start = t.data.cast::<u8>().wrapping_add(t.byte_offset as usize);
    ensure!(start.addr().is_multiple_of(dtype.size()), "the DLPack memory is not aligned to elements of {dtype}");
    let context = Context::from_codes(DeviceType::Cpu as i32, t.device_id)?;
    // From here on, the library owns the tensor: dropping `owner` releases the memory, also after an error.
    let copy = is_transient.then(|| Box::new(described));
    let owner = Box::new(ForeignMemory { copy, tensor });
    if dtype == DType::Bool {
        // The owner could write bytes other than 0 and 1 at any time, which are invalid values of `bool`, so the array is a copy.
        let flags: Vec<bool> = slice(start.cast_const(), bytes, "data")?.iter().map(|b| *b != 0).collect();
        return NDArray::from_slice(&flags, dims)?.to_context(context);
    }
    // SAFETY: by the contract of DLPack the memory is valid until the deleter is called, when the chunk drops `owner`.
    let chunk = unsafe { Chunk::foreign(start, bytes, context, owner) }?;
    NDArray::view(chunk, 0, shape, dtype)
}

/// Returns an array as a DLPack tensor on the same memory. The consumer frees it by its deleter or by `MXNDArrayCallDLPackDeleter`. From
/// now on, the library assumes that the array's content may change at any time.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayToDLPack(handle: NDArrayHandle, out_dlpack: *mut DLManagedTensorHandle) -> c_int {
    guard(|| {
        let array = array(handle)?;
        put(out_dlpack, std::ptr::null_mut(), "out_dlpack")?;
        put(out_dlpack, export(array)?.cast::<c_void>(), "out_dlpack")
    })
}

/// Creates an array on the memory of a DLPack tensor, which is released after its last use. Booleans are copied.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayFromDLPack(dlpack: DLManagedTensorHandle, out_handle: *mut NDArrayHandle) -> c_int {
    let is_transient = false;
    guard(|| put_handle(out_handle, || Ok(insert_tensor(Tensor::new(import(dlpack.cast(), is_transient)?)))))
}

/// Like `MXNDArrayFromDLPack`; with `transient_handle`, the tensor description need only be valid during the call.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayFromDLPackEx(
    dlpack: DLManagedTensorHandle,
    transient_handle: bool,
    out_handle: *mut NDArrayHandle,
) -> c_int {
    guard(|| put_handle(out_handle, || Ok(insert_tensor(Tensor::new(import(dlpack.cast(), transient_handle)?)))))
}

/// Frees a DLPack tensor that was not consumed; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayCallDLPackDeleter(dlpack: DLManagedTensorHandle) -> c_int {
    guard(|| {
        if dlpack != raw(0) {
            get(dlpack.cast::<DLManagedTensor>().cast_const(), "dlpack")?;
            drop(ForeignMemory { copy: None, tensor: dlpack.cast() });
        }
        Ok(())
    })
}
