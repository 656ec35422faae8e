//! Functions that this library cannot support, because they need CUDA's runtime compiler or MXNet's own C++ types. Each returns an error
//! that begins with MXNet's text.

use std::ffi::{c_char, c_int, c_uint, c_void};

use ferromx_runtime::error::{Error, Result};

use super::args::text;
use super::guard;
use super::types::{CudaKernelHandle, CudaModuleHandle, NDArrayHandle, RtcHandle};

/// MXNet's error for the functions that `MXRtcCuda*` replaced.
fn old_rtc() -> Result<()> {
    Err(Error::Unsupported("Old rtc API is deprecated. Please use CudaModule".into()))
}

fn no_cuda() -> Result<()> {
    Err(Error::Unsupported(
        "Compile with USE_CUDA=1 and ENABLE_CUDA_RTC=1 to have CUDA runtime compilation. This library runs on CPUs only: write a \
         custom operator instead (mx.operator.CustomOp, MXCustomOpRegister)"
            .into(),
    ))
}

/// Always an error: compiled CUDA code in early versions of MXNet.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCreate(
    name: *mut c_char,
    num_input: u32,
    num_output: u32,
    input_names: *mut *mut c_char,
    output_names: *mut *mut c_char,
    inputs: *mut NDArrayHandle,
    outputs: *mut NDArrayHandle,
    kernel: *mut c_char,
    out: *mut RtcHandle,
) -> c_int {
    guard(|| {
        let _ = (name, num_input, num_output, input_names, output_names, inputs, outputs, kernel, out);
        old_rtc()
    })
}

/// Always an error: ran CUDA code in early versions of MXNet.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcPush(
    handle: RtcHandle,
    num_input: u32,
    num_output: u32,
    inputs: *mut NDArrayHandle,
    outputs: *mut NDArrayHandle,
    grid_dim_x: u32,
    grid_dim_y: u32,
    grid_dim_z: u32,
    block_dim_x: u32,
    block_dim_y: u32,
    block_dim_z: u32,
) -> c_int {
    guard(|| {
        let _ = (handle, num_input, num_output, inputs, outputs);
        let _ = (grid_dim_x, grid_dim_y, grid_dim_z, block_dim_x, block_dim_y, block_dim_z);
        old_rtc()
    })
}

/// Always an error: freed CUDA code in early versions of MXNet.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcFree(handle: RtcHandle) -> c_int {
    guard(|| {
        let _ = handle;
        old_rtc()
    })
}

/// Always an error: compiling CUDA code needs a GPU backend.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCudaModuleCreate(
    source: *const c_char,
    num_options: c_int,
    options: *mut *const c_char,
    num_exports: c_int,
    exports: *mut *const c_char,
    out: *mut CudaModuleHandle,
) -> c_int {
    guard(|| {
        let _ = (source, num_options, options, num_exports, exports, out);
        no_cuda()
    })
}

/// Always an error: compiled CUDA code needs a GPU backend.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCudaModuleFree(handle: CudaModuleHandle) -> c_int {
    guard(|| {
        let _ = handle;
        no_cuda()
    })
}

/// Always an error: CUDA kernels need a GPU backend.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCudaKernelCreate(
    handle: CudaModuleHandle,
    name: *const c_char,
    num_args: c_int,
    is_ndarray: *mut c_int,
    is_const: *mut c_int,
    arg_types: *mut c_int,
    out: *mut CudaKernelHandle,
) -> c_int {
    guard(|| {
        let _ = (handle, name, num_args, is_ndarray, is_const, arg_types, out);
        no_cuda()
    })
}

/// Always an error: CUDA kernels need a GPU backend.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCudaKernelFree(handle: CudaKernelHandle) -> c_int {
    guard(|| {
        let _ = handle;
        no_cuda()
    })
}

/// Always an error: CUDA kernels need a GPU backend.
#[unsafe(no_mangle)]
pub extern "C" fn MXRtcCudaKernelCall(
    handle: CudaKernelHandle,
    dev_id: c_int,
    args: *mut *mut c_void,
    grid_dim_x: u32,
    grid_dim_y: u32,
    grid_dim_z: u32,
    block_dim_x: u32,
    block_dim_y: u32,
    block_dim_z: u32,
    shared_mem: u32,
) -> c_int {
    guard(|| {
        let _ = (handle, dev_id, args, grid_dim_x, grid_dim_y, grid_dim_z, block_dim_x, block_dim_y, block_dim_z);
        let _ = shared_mem;
        no_cuda()
    })
}

/// Always an error: libraries of operators built against `lib_api.h` need MXNet's own C++ types.
#[unsafe(no_mangle)]
pub extern "C" fn MXLoadLib(path: *const c_char, verbose: c_uint) -> c_int {
    guard(|| {
        let _ = verbose;
        Err(Error::Unsupported(format!(
            "Error loading library: '{}'\nlibraries built against lib_api.h are linked to MXNet's own C++ types, which this library does \
             not have: register the operators with MXCustomOpRegister or mx.operator.register instead",
            text(path, "path")?
        )))
    })
}

/// Always an error: TVM's functions need MXNet's own C++ types.
#[unsafe(no_mangle)]
pub extern "C" fn MXTVMBridge(pregister: *mut c_void) -> c_int {
    guard(|| {
        let _ = pregister;
        Err(Error::Unsupported(
            "TVM functions cannot be called with arrays of this library: pass arrays through DLPack (to_dlpack_for_read) instead".into(),
        ))
    })
}
