//! Arrays in files and buffers.

use std::ffi::{c_char, c_int, c_void};

use ferromx_runtime::error::Result;
use ferromx_runtime::file_format::{self, Loaded};
use ferromx_runtime::imperative::{self, Tensor};

use super::args::{id, put, raw, slice, stored, text, texts};
use super::guard;
use super::ret::{Ret, put_handle};
use super::types::NDArrayHandle;
use crate::handle::{insert_tensor, tensor};

fn put_loaded(
    function: &'static str,
    loaded: Loaded,
    size: *mut u32,
    handles: *mut *mut NDArrayHandle,
    name_size: *mut u32,
    names: *mut *mut *const c_char,
) -> Result<()> {
    let mut ret = Ret::new();
    put(name_size, loaded.names.len() as u32, "out_name_size")?;
    put(names, ret.texts(&loaded.names), "out_names")?;
    put(size, loaded.arrays.len() as u32, "out_size")?;
    put(handles, std::ptr::null_mut(), "out_arr")?;
    let tensors = loaded.arrays.into_iter().map(|a| a.map_or_else(Tensor::default, Tensor::new));
    put(handles, ret.list(tensors.map(|t| raw(insert_tensor(t))).collect()), "out_arr")?;
    ret.keep(function);
    Ok(())
}

/// Saves arrays to a file, with names unless `keys` is null.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySave(
    fname: *const c_char,
    num_args: u32,
    args: *mut NDArrayHandle,
    keys: *mut *const c_char,
) -> c_int {
    guard(|| {
        let arrays = stored(args, num_args as usize, "args")?;
        arrays.iter().filter_map(|a| a.dense().ok()).try_for_each(imperative::wait)?;
        let names = if keys.is_null() { Vec::new() } else { texts(keys, num_args as usize, "keys")? };
        file_format::save(&text(fname, "fname")?, &arrays, &names)
    })
}

/// Loads arrays from a file. The caller frees their handles; the lists are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayLoad(
    fname: *const c_char,
    out_size: *mut u32,
    out_arr: *mut *mut NDArrayHandle,
    out_name_size: *mut u32,
    out_names: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        let loaded = file_format::load(&text(fname, "fname")?)?;
        put_loaded("MXNDArrayLoad", loaded, out_size, out_arr, out_name_size, out_names)
    })
}

/// Like `MXNDArrayLoad`, from the bytes of a file.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayLoadFromBuffer(
    ndarray_buffer: *const c_void,
    size: usize,
    out_size: *mut u32,
    out_arr: *mut *mut NDArrayHandle,
    out_name_size: *mut u32,
    out_names: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        let bytes = slice(ndarray_buffer.cast::<u8>(), size, "ndarray_buffer")?;
        let loaded = file_format::from_bytes(bytes, "the buffer")?;
        put_loaded("MXNDArrayLoadFromBuffer", loaded, out_size, out_arr, out_name_size, out_names)
    })
}

/// Serializes an array to bytes, which are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArraySaveRawBytes(
    handle: NDArrayHandle,
    out_size: *mut usize,
    out_buf: *mut *const c_char,
) -> c_int {
    guard(|| {
        let bytes = file_format::array_to_bytes(&tensor(id(handle))?.stored()?)?;
        let mut ret = Ret::new();
        put(out_size, bytes.len(), "out_size")?;
        put(out_buf, ret.list(bytes).cast::<c_char>().cast_const(), "out_buf")?;
        ret.keep("MXNDArraySaveRawBytes");
        Ok(())
    })
}

/// Deserializes an array from the bytes of `MXNDArraySaveRawBytes`.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDArrayLoadFromRawBytes(buf: *const c_void, size: usize, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let array = file_format::array_from_bytes(slice(buf.cast::<u8>(), size, "buf")?)?;
        put_handle(out, || Ok(insert_tensor(Tensor::new(array))))
    })
}
