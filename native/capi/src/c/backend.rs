//! Backends that take over parts of graphs. This library compiles graphs itself and has none, so that every name is refused.

use std::ffi::{c_char, c_int};

use ferromx_core::error::{Error, Result};

use super::args::{id, text};
use super::guard;
use super::types::{NDArrayHandle, SymbolHandle};
use crate::handle::symbol;

fn find(handle: SymbolHandle, name: *const c_char) -> Result<()> {
    symbol(id(handle))?;
    let name = text(name, "backend")?;
    Err(Error::NotFound(format!(
        "there is no backend '{name}' in this library, which has none: graphs are optimized when they are bound, so leave out \
         optimize_for and the argument backend"
    )))
}

/// Gives a graph whose parts a backend takes over. There is no backend, so that every name is an error.
#[unsafe(no_mangle)]
pub extern "C" fn MXGenBackendSubgraph(
    sym_handle: SymbolHandle,
    backend: *const c_char,
    ret_sym_handle: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let _ = ret_sym_handle;
        find(sym_handle, backend)
    })
}

/// Gives a graph that a backend has partitioned and the arrays that it needs. There is no backend, so that every name is an error.
#[unsafe(no_mangle)]
pub extern "C" fn MXOptimizeForBackend(
    sym_handle: SymbolHandle,
    backend_name: *const c_char,
    dev_type: c_int,
    ret_sym_handle: *mut SymbolHandle,
    args_len: u32,
    in_args_handle: *mut NDArrayHandle,
    aux_len: u32,
    in_aux_handle: *mut NDArrayHandle,
    num_options: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    num_input_shapes: u32,
    input_shape_names: *mut *const c_char,
    input_shape_data: *const i64,
    input_shape_idx: *const u32,
    num_input_dtypes: u32,
    input_dtype_names: *mut *const c_char,
    input_dtypes: *const c_int,
    num_input_stypes: u32,
    input_stype_names: *mut *const c_char,
    input_stypes: *const c_int,
    skip_infer: bool,
    new_args_cnt: *mut c_int,
    new_args_handle: *mut *mut NDArrayHandle,
    new_arg_names_handle: *mut *mut *mut c_char,
    new_aux_cnt: *mut c_int,
    new_aux_handle: *mut *mut NDArrayHandle,
    new_aux_names_handle: *mut *mut *mut c_char,
) -> c_int {
    guard(|| {
        let _ = (dev_type, ret_sym_handle, args_len, in_args_handle, aux_len, in_aux_handle, num_options, keys, vals);
        let _ = (num_input_shapes, input_shape_names, input_shape_data, input_shape_idx, skip_infer);
        let _ = (num_input_dtypes, input_dtype_names, input_dtypes, num_input_stypes, input_stype_names, input_stypes);
        let _ =
            (new_args_cnt, new_args_handle, new_arg_names_handle, new_aux_cnt, new_aux_handle, new_aux_names_handle);
        find(sym_handle, backend_name)
    })
}
