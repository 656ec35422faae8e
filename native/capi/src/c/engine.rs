//! Functions pushed to MXNet's engine. Operators have finished when their call returns, so the dependencies of a pushed function are always
//! satisfied: it runs immediately on the calling thread.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::context::Context;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::args::{id, optional_text, slice};
use super::guard;
use super::types::{
    ContextHandle, EngineAsyncFunc, EngineFnPropertyHandle, EngineFuncParamDeleter, EngineSyncFunc, EngineVarHandle,
    NDArrayHandle,
};
use crate::handle;

/// The context of a pushed function: `mxnet::RunContext` of MXNet's `base.h`.
#[repr(C)]
#[allow(dead_code)] // Foreign functions read the fields.
struct RunContext {
    device: [c_int; 2],
    stream: *mut c_void,
    aux_stream: *mut c_void,
    is_bulk: bool,
}

/// The completion callback of an asynchronous function: `mxnet::engine::CallbackOnComplete` of MXNet's `engine.h`. It is called with the
/// two pointers and an error, which may be null.
#[repr(C)]
#[allow(dead_code)] // Foreign functions read the fields.
struct OnComplete {
    callback: extern "C" fn(*mut c_void, *mut c_void, *const c_void),
    engine: *mut c_void,
    completion: *mut c_void,
}

/// The completion of an asynchronous function.
#[derive(Default)]
struct Completion {
    /// `None` while the function runs, then true if it failed.
    has_failed: Mutex<Option<bool>>,
    changed: Condvar,
}

extern "C" fn complete(_: *mut c_void, completion: *mut c_void, error: *const c_void) {
    // SAFETY: `run_async` created the pointer by `Arc::into_raw`; by the contract of the C API the function calls this callback once.
    let completion = unsafe { Arc::from_raw(completion.cast_const().cast::<Completion>()) };
    let mut has_failed = completion.has_failed.lock();
    *has_failed = Some(!error.is_null());
    completion.changed.notify_all();
}

/// The arguments of a pushed function.
struct Pushed {
    context: ContextHandle,
    parameter: *mut c_void,
    deleter: EngineFuncParamDeleter,
    name: *const c_char,
}

/// Rejects engine variables, which are C++ objects of MXNet.
fn check_variables(read: c_int, written: c_int) -> Result<()> {
    check_counts(read, written)?;
    ensure!(
        read == 0 && written == 0,
        "variables of MXNet's engine do not exist here: pass the arrays that the function uses by MXEnginePushSyncND or \
         MXEnginePushAsyncND"
    );
    Ok(())
}

fn check_counts(read: c_int, written: c_int) -> Result<()> {
    ensure!(read >= 0, "Non-negative number of const vars expected. It is {read}");
    ensure!(written >= 0, "Non-negative number of mutable vars expected. It is {written}");
    Ok(())
}

/// Checks the arrays that a function reads and writes: handles are valid, and no array is written twice or both read and written.
fn check_arrays(read: *const NDArrayHandle, num_read: c_int, written: *const NDArrayHandle, num: c_int) -> Result<()> {
    check_counts(num_read, num)?;
    let read = slice(read, num_read as usize, "const_nds_handle")?;
    let written = slice(written, num as usize, "mutable_nds_handle")?;
    handle::tensors(read.iter().chain(written).map(|h| id(*h)))?;
    for (i, array) in written.iter().enumerate() {
        ensure!(!written[..i].contains(array), "duplicate items found in `mutable_vars`: array {i} was given before");
        ensure!(!read.contains(array), "duplicate items found between `const_vars` and `mutable_vars`: array {i}");
    }
    Ok(())
}

impl Pushed {
    fn run_context(&self) -> Result<RunContext> {
        let device = match self.context.is_null() {
            true => [1, 0],
            false => {
                let codes = slice(self.context.cast::<c_int>(), 2, "ctx_handle")?;
                [codes[0], codes[1]]
            }
        };
        Context::from_codes(device[0], device[1])?;
        Ok(RunContext { device, stream: std::ptr::null_mut(), aux_stream: std::ptr::null_mut(), is_bulk: false })
    }

    /// Runs a synchronous function.
    fn run(self, function: EngineSyncFunc) -> Result<()> {
        let mut context = self.run_context()?;
        let function = function.ok_or_else(|| Error::Value(self.missing("sync_func")))?;
        // SAFETY: by the contract of the C API the function takes a run context, which outlives the call, and its parameter.
        unsafe { function((&raw mut context).cast(), self.parameter) };
        self.delete();
        Ok(())
    }

    /// Runs an asynchronous function and waits for its completion callback, which may come from any thread.
    fn run_async(self, function: EngineAsyncFunc) -> Result<()> {
        let mut context = self.run_context()?;
        let function = function.ok_or_else(|| Error::Value(self.missing("async_func")))?;
        let completion = Arc::new(Completion::default());
        let target = Arc::into_raw(completion.clone()).cast_mut().cast();
        let mut done = OnComplete { callback: complete, engine: std::ptr::null_mut(), completion: target };
        // SAFETY: as in `run`; the run context and the callback live until the callback was called, for which the loop below waits.
        unsafe { function((&raw mut context).cast(), (&raw mut done).cast(), self.parameter) };
        let mut has_failed = completion.has_failed.lock();
        while has_failed.is_none() {
            completion.changed.wait(&mut has_failed);
        }
        self.delete();
        ensure!(*has_failed != Some(true), "the function '{}' reported an error when it finished", self.name());
        Ok(())
    }

    fn delete(&self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: by the contract of the C API the deleter takes the parameter, which nothing uses afterwards.
            unsafe { deleter(self.parameter) };
        }
    }

    fn name(&self) -> String {
        optional_text(self.name).unwrap_or("unnamed".into()).into_owned()
    }

    fn missing(&self, what: &str) -> String {
        format!("the pointer {what} is null: '{}' has no function to run", self.name())
    }
}

/// Runs an asynchronous function and waits for its completion callback; its failure is an error. Then calls `deleter`, unless it is null,
/// with the parameter. Engine variables are not supported: pass arrays by `MXEnginePushAsyncND`.
#[unsafe(no_mangle)]
pub extern "C" fn MXEnginePushAsync(
    async_func: EngineAsyncFunc,
    func_param: *mut c_void,
    deleter: EngineFuncParamDeleter,
    ctx_handle: ContextHandle,
    const_vars_handle: EngineVarHandle,
    num_const_vars: c_int,
    mutable_vars_handle: EngineVarHandle,
    num_mutable_vars: c_int,
    prop_handle: EngineFnPropertyHandle,
    priority: c_int,
    opr_name: *const c_char,
    wait: bool,
) -> c_int {
    guard(|| {
        let _ = (const_vars_handle, mutable_vars_handle, prop_handle, priority, wait);
        check_variables(num_const_vars, num_mutable_vars)?;
        Pushed { context: ctx_handle, parameter: func_param, deleter, name: opr_name }.run_async(async_func)
    })
}

/// Runs a function. Then calls `deleter`, unless it is null, with the parameter. Engine variables are not supported: pass arrays by
/// `MXEnginePushSyncND`.
#[unsafe(no_mangle)]
pub extern "C" fn MXEnginePushSync(
    sync_func: EngineSyncFunc,
    func_param: *mut c_void,
    deleter: EngineFuncParamDeleter,
    ctx_handle: ContextHandle,
    const_vars_handle: EngineVarHandle,
    num_const_vars: c_int,
    mutable_vars_handle: EngineVarHandle,
    num_mutable_vars: c_int,
    prop_handle: EngineFnPropertyHandle,
    priority: c_int,
    opr_name: *const c_char,
) -> c_int {
    guard(|| {
        let _ = (const_vars_handle, mutable_vars_handle, prop_handle, priority);
        check_variables(num_const_vars, num_mutable_vars)?;
        Pushed { context: ctx_handle, parameter: func_param, deleter, name: opr_name }.run(sync_func)
    })
}

/// Like `MXEnginePushAsync`, with the arrays that the function reads and those that it writes.
#[unsafe(no_mangle)]
pub extern "C" fn MXEnginePushAsyncND(
    async_func: EngineAsyncFunc,
    func_param: *mut c_void,
    deleter: EngineFuncParamDeleter,
    ctx_handle: ContextHandle,
    const_nds_handle: *mut NDArrayHandle,
    num_const_nds: c_int,
    mutable_nds_handle: *mut NDArrayHandle,
    num_mutable_nds: c_int,
    prop_handle: EngineFnPropertyHandle,
    priority: c_int,
    opr_name: *const c_char,
    wait: bool,
) -> c_int {
    guard(|| {
        let _ = (prop_handle, priority, wait);
        check_arrays(const_nds_handle, num_const_nds, mutable_nds_handle, num_mutable_nds)?;
        Pushed { context: ctx_handle, parameter: func_param, deleter, name: opr_name }.run_async(async_func)
    })
}

/// Like `MXEnginePushSync`, with the arrays that the function reads and those that it writes.
#[unsafe(no_mangle)]
pub extern "C" fn MXEnginePushSyncND(
    sync_func: EngineSyncFunc,
    func_param: *mut c_void,
    deleter: EngineFuncParamDeleter,
    ctx_handle: ContextHandle,
    const_nds_handle: *mut NDArrayHandle,
    num_const_nds: c_int,
    mutable_nds_handle: *mut NDArrayHandle,
    num_mutable_nds: c_int,
    prop_handle: EngineFnPropertyHandle,
    priority: c_int,
    opr_name: *const c_char,
) -> c_int {
    guard(|| {
        let _ = (prop_handle, priority);
        check_arrays(const_nds_handle, num_const_nds, mutable_nds_handle, num_mutable_nds)?;
        Pushed { context: ctx_handle, parameter: func_param, deleter, name: opr_name }.run(sync_func)
    })
}
