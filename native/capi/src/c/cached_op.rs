//! Cached operators: graphs that are called like operators.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::cached_op::CachedOp;
use ferromx_runtime::error::Result;
use ferromx_runtime::imperative::{Tensor, deferring};
use ferromx_runtime::sparse::Array;

use super::args::{count, id, pairs, put, raw, tensors};
use super::guard;
use super::imperative::with_outputs;
use super::ret::put_handle;
use super::types::{CachedOpHandle, CachedOpMonitorCallback, NDArrayHandle, SymbolHandle};
use crate::handle::{self, Object, cached_op, insert, insert_tensor, symbol};

fn create(
    handle: SymbolHandle,
    (keys, values, n): (*mut *const c_char, *mut *const c_char, c_int),
    out: *mut CachedOpHandle,
) -> Result<()> {
    let flags: Vec<(String, String)> = pairs(keys, values, count(n, "num_flags")?)?
        .into_iter()
        .map(|(k, v)| (k.into_owned(), v.into_owned()))
        .collect();
    let graph = symbol(id(handle))?;
    put_handle(out, || Ok(insert(Object::CachedOp(Arc::new(CachedOp::new(&graph, &flags)?)))))
}

/// Calls a graph and returns the storage types of its outputs.
fn invoke(
    handle: CachedOpHandle,
    (inputs, num_inputs): (*mut NDArrayHandle, c_int),
    (outputs, num_outputs): (*mut *mut NDArrayHandle, *mut c_int),
) -> Result<*const c_int> {
    let op = cached_op(id(handle))?;
    let inputs = tensors(inputs, count(num_inputs, "num_inputs")?, "inputs")?;
    with_outputs(outputs, num_outputs, |given| op.call(&inputs, given))
}

/// Creates an operator from a graph; its inputs are the graph's variables.
#[unsafe(no_mangle)]
pub extern "C" fn MXCreateCachedOp(handle: SymbolHandle, out: *mut CachedOpHandle) -> c_int {
    guard(|| create(handle, (std::ptr::null_mut(), std::ptr::null_mut(), 0), out))
}

/// Like `MXCreateCachedOp`, with flags such as `static_alloc`, `static_shape` and `inline_limit`, which are checked.
#[unsafe(no_mangle)]
pub extern "C" fn MXCreateCachedOpEx(
    handle: SymbolHandle,
    num_flags: c_int,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    out: *mut CachedOpHandle,
) -> c_int {
    guard(|| create(handle, (keys, vals, num_flags), out))
}

/// Like `MXCreateCachedOpEx`. Several threads may call the operator whatever `thread_safe` is.
#[unsafe(no_mangle)]
pub extern "C" fn MXCreateCachedOpEX(
    handle: SymbolHandle,
    num_flags: c_int,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    out: *mut CachedOpHandle,
    thread_safe: bool,
) -> c_int {
    guard(|| {
        let _ = thread_safe;
        create(handle, (keys, vals, num_flags), out)
    })
}

/// Frees a handle; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXFreeCachedOp(handle: CachedOpHandle) -> c_int {
    guard(|| handle::free(id(handle), "CachedOp"))
}

/// Calls the graph. If `*outputs` is null, returns the number and handles of new arrays, which the caller frees; the list is valid until
/// the next call on this thread. Otherwise writes the results to the `*num_outputs` given arrays.
#[unsafe(no_mangle)]
pub extern "C" fn MXInvokeCachedOp(
    handle: CachedOpHandle,
    num_inputs: c_int,
    inputs: *mut NDArrayHandle,
    num_outputs: *mut c_int,
    outputs: *mut *mut NDArrayHandle,
) -> c_int {
    guard(|| deferring(|| invoke(handle, (inputs, num_inputs), (outputs, num_outputs))).map(|_| ()))
}

/// Like `MXInvokeCachedOp`; also returns the storage types of the outputs (0 dense, 1 row_sparse, 2 csr), valid until the next call on this
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXInvokeCachedOpEx(
    handle: CachedOpHandle,
    num_inputs: c_int,
    inputs: *mut NDArrayHandle,
    num_outputs: *mut c_int,
    outputs: *mut *mut NDArrayHandle,
    out_stypes: *mut *const c_int,
) -> c_int {
    guard(|| {
        let types = deferring(|| invoke(handle, (inputs, num_inputs), (outputs, num_outputs)))?;
        put(out_stypes, types, "out_stypes")
    })
}

/// Installs a callback that gets a copy of every output of every operator that runs, and with `monitor_all` of every input; null removes
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn MXCachedOpRegisterOpHook(
    handle: CachedOpHandle,
    callback: CachedOpMonitorCallback,
    monitor_all: bool,
) -> c_int {
    guard(|| {
        let hook = callback.map(|callback| {
            let text = |s: &str| CString::new(s.replace('\0', "\\0")).unwrap_or_default();
            Arc::new(move |name: &str, op: &str, array: Array| {
                let (name, op) = (text(name), text(op));
                let array = raw(insert_tensor(Tensor::new(array)));
                // SAFETY: by the contract of the C API the callback takes two strings, which outlive the call, and an array handle,
                // which it owns.
                unsafe { callback(name.as_ptr(), op.as_ptr(), array) };
            }) as ferromx_runtime::imperative::Hook
        });
        cached_op(id(handle))?.set_hook(hook, monitor_all);
        Ok(())
    })
}
