//! Executors: binding, running, outputs, reshaping, monitors.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::context::Context;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::executor::{BoundStored, Devices, Executor, Monitor, ReshapeOptions};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::kvstore::Key;
use ferromx_runtime::op::Mode;
use ferromx_runtime::semantics;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::storage::Req;

use super::args::{UserData, call_with_parameters, devices, id, optional, put, raw, slice, stored, tensors, texts};
use super::guard;
use super::infer::rows;
use super::number::Integer;
use super::ret::{Ret, put_handle, put_text};
use super::types::{ExecutorHandle, ExecutorMonitorCallback, KVStoreHandle, NDArrayHandle, SymbolHandle};
use crate::handle::{self, Object, executor, insert, insert_symbol, insert_tensor, kv_store, symbol, tensor};

/// The arguments of `MXExecutorBind` and its variants.
struct BindArgs {
    symbol: SymbolHandle,
    devices: Devices,
    len: u32,
    args: *mut NDArrayHandle,
    grads: *mut NDArrayHandle,
    reqs: *mut u32,
    aux_len: u32,
    aux: *mut NDArrayHandle,
    shared: ExecutorHandle,
}

impl BindArgs {
    fn bind(self, out: *mut ExecutorHandle) -> Result<()> {
        let n = self.len as usize;
        let s = symbol(id(self.symbol))?;
        let args = stored(self.args, n, "in_args")?;
        let grads = optional(self.grads, n, |h| tensor(id(h))?.stored())?;
        let codes = if self.grads.is_null() { vec![0; n] } else { slice(self.reqs, n, "grad_req_type")?.to_vec() };
        let reqs = (codes.into_iter().zip(&grads))
            .map(|(code, grad)| if grad.is_none() { Ok(Req::Null) } else { Req::from_code(code) })
            .collect::<Result<_>>()?;
        let aux = stored(self.aux, self.aux_len as usize, "aux_states")?;
        let shared = shared(self.shared)?;
        let is_empty = |a: &Array| a.shape().dims().contains(&0);
        let has_unknown = !semantics::is_numpy_shape() && args.iter().any(is_empty);
        let bound = BoundStored { args, grads, reqs, aux };
        put_handle(out, || {
            let executor = Executor::bind_stored(&s, self.devices, bound, shared.as_deref())?;
            if has_unknown {
                check_outputs(&executor)?;
            }
            Ok(insert_executor(executor))
        })
    }
}

/// Rejects outputs with a dimension of 0, which is unknown in legacy semantics, as MXNet does.
fn check_outputs(executor: &Executor) -> Result<()> {
    match executor.outputs().iter().find(|a| a.shape().dims().contains(&0)) {
        Some(a) => Err(Error::Value(format!(
            "Check failed: dim_size_is_known(*it): Shape dim size cannot be a negative value -1: without NumPy shape semantics the \
             shape {} of an output is unknown; call MXSetIsNumpyShape, or set_np_shape in Python",
            a.shape()
        ))),
        None => Ok(()),
    }
}

pub(super) fn shared(handle: ExecutorHandle) -> Result<Option<Arc<Executor>>> {
    if handle.is_null() { Ok(None) } else { executor(id(handle)).map(Some) }
}

pub(super) fn insert_executor(executor: Executor) -> u64 {
    insert(Object::Executor(Arc::new(executor)))
}

/// The out-parameters for the arrays of a new executor.
pub(super) struct ArraysOut {
    pub num_args: *mut u32,
    pub args: *mut *mut NDArrayHandle,
    pub grads: *mut *mut NDArrayHandle,
    pub num_aux: *mut u32,
    pub aux: *mut *mut NDArrayHandle,
}

impl ArraysOut {
    pub fn put(self, ret: &mut Ret, executor: &Executor) -> Result<()> {
        let (args, grads, aux) = (executor.stored_args(), executor.stored_grads(), executor.stored_aux());
        put(self.num_args, args.len() as u32, "num_in_args")?;
        put(self.args, ret.arrays(args.iter().map(Some)), "in_args")?;
        put(self.grads, ret.arrays(grads.iter().map(Option::as_ref)), "arg_grads")?;
        put(self.num_aux, aux.len() as u32, "num_aux_states")?;
        put(self.aux, ret.arrays(aux.iter().map(Some)), "aux_states")
    }
}

/// The parameters of `MXExecutorReshape` and its variant, under the names of MXNet. `D` is the type of dimensions.
struct ReshapeArgs<D> {
    partial_shaping: c_int,
    allow_up_sizing: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_map_keys: u32,
    map_keys: *mut *const c_char,
    map_dev_types: *const c_int,
    map_dev_ids: *const c_int,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const D,
    provided_arg_shape_idx: *const u32,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec: ExecutorHandle,
    out: *mut ExecutorHandle,
}

impl<D: Integer> ReshapeArgs<D> {
    fn reshape(self, function: &'static str) -> Result<()> {
        let default = (self.dev_type, self.dev_id);
        let context = devices(default, self.num_map_keys, self.map_keys, self.map_dev_types, self.map_dev_ids)?.default;
        let (old, n) = (executor(id(self.shared_exec))?, self.num_provided_arg_shapes as usize);
        ensure!(context == old.context(), "an executor on {} cannot be reshaped on {context}", old.context());
        let names = texts(self.provided_arg_shape_names, n, "provided_arg_shape_names")?;
        let dims = rows(n, self.provided_arg_shape_idx, self.provided_arg_shape_data)?;
        let shapes: Vec<_> = names.into_iter().zip(dims).collect();
        let (partial_shaping, allow_up_sizing) = (self.partial_shaping != 0, self.allow_up_sizing != 0);
        let new = old.reshape(ReshapeOptions { partial_shaping, allow_up_sizing }, &shapes)?;
        let mut ret = Ret::new();
        let arrays = ArraysOut {
            num_args: self.num_in_args,
            args: self.in_args,
            grads: self.arg_grads,
            num_aux: self.num_aux_states,
            aux: self.aux_states,
        };
        arrays.put(&mut ret, &new)?;
        ret.keep(function);
        put_handle(self.out, || Ok(insert_executor(new)))
    }
}

fn head_gradients(n: u32, head_grads: *mut NDArrayHandle) -> Result<Vec<Array>> {
    if head_grads.is_null() { Ok(Vec::new()) } else { stored(head_grads, n as usize, "head_grads") }
}

fn backward(handle: ExecutorHandle, n: u32, head_grads: *mut NDArrayHandle, mode: Mode) -> Result<()> {
    let executor = executor(id(handle))?;
    let grads = head_gradients(n, head_grads)?;
    executor.backward_stored(&grads, mode, None)
}

/// A monitor that calls a C function; `None` for null.
pub(super) fn monitor(callback: ExecutorMonitorCallback, data: *mut c_void) -> Option<Monitor> {
    let data = UserData(data);
    callback.map(|callback| -> Monitor {
        Arc::new(move |name: &str, array: Array| {
            let name = CString::new(name.replace('\0', "\\0")).unwrap_or_default();
            let array = raw(insert_tensor(Tensor::new(array)));
            // SAFETY: by the contract of the C API the callback takes a name, an array handle, which it owns, and the data pointer, as long
            // as it is installed; the name outlives the call.
            unsafe { callback(name.as_ptr(), array, data.pointer()) }
        })
    })
}

fn set_monitor(handle: ExecutorHandle, callback: ExecutorMonitorCallback, data: *mut c_void, all: bool) -> Result<()> {
    executor(id(handle))?.set_monitor(monitor(callback, data), all);
    Ok(())
}

/// Binds a symbol to arrays for its arguments, gradients (null for none) with requests (0 null, 1 write, 3 add), and auxiliary states. The
/// arrays are shared with the caller, whose changes take effect in the next run.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorBind(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    len: u32,
    in_args: *mut NDArrayHandle,
    arg_grad_store: *mut NDArrayHandle,
    grad_req_type: *mut u32,
    aux_states_len: u32,
    aux_states: *mut NDArrayHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let devices = Devices::from(Context::from_codes(dev_type, dev_id)?);
        let (aux_len, aux) = (aux_states_len, aux_states);
        let shared = std::ptr::null_mut();
        let (args, grads, reqs) = (in_args, arg_grad_store, grad_req_type);
        BindArgs { symbol: symbol_handle, devices, len, args, grads, reqs, aux_len, aux, shared }.bind(out)
    })
}

/// Like `MXExecutorBind`, with devices for context groups, which the attribute `ctx_group` of nodes names.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorBindX(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    num_map_keys: u32,
    map_keys: *mut *const c_char,
    map_dev_types: *const c_int,
    map_dev_ids: *const c_int,
    len: u32,
    in_args: *mut NDArrayHandle,
    arg_grad_store: *mut NDArrayHandle,
    grad_req_type: *mut u32,
    aux_states_len: u32,
    aux_states: *mut NDArrayHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let devices = devices((dev_type, dev_id), num_map_keys, map_keys, map_dev_types, map_dev_ids)?;
        let (aux_len, aux) = (aux_states_len, aux_states);
        let shared = std::ptr::null_mut();
        let (args, grads, reqs) = (in_args, arg_grad_store, grad_req_type);
        BindArgs { symbol: symbol_handle, devices, len, args, grads, reqs, aux_len, aux, shared }.bind(out)
    })
}

/// Like `MXExecutorBindX`, sharing the memory of intermediate results with another executor unless `shared_exec` is null.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorBindEX(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    num_map_keys: u32,
    map_keys: *mut *const c_char,
    map_dev_types: *const c_int,
    map_dev_ids: *const c_int,
    len: u32,
    in_args: *mut NDArrayHandle,
    arg_grad_store: *mut NDArrayHandle,
    grad_req_type: *mut u32,
    aux_states_len: u32,
    aux_states: *mut NDArrayHandle,
    shared_exec: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let devices = devices((dev_type, dev_id), num_map_keys, map_keys, map_dev_types, map_dev_ids)?;
        let (aux_len, aux) = (aux_states_len, aux_states);
        let shared = shared_exec;
        let (args, grads, reqs) = (in_args, arg_grad_store, grad_req_type);
        BindArgs { symbol: symbol_handle, devices, len, args, grads, reqs, aux_len, aux, shared }.bind(out)
    })
}

/// Frees an executor; null is ignored. Arrays with handles stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorFree(handle: ExecutorHandle) -> c_int {
    guard(|| handle::free(id(handle), "Executor"))
}

/// Computes the outputs from the current values of the arguments.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorForward(handle: ExecutorHandle, is_train: c_int) -> c_int {
    guard(|| executor(id(handle))?.forward(Mode::training_if(is_train != 0)))
}

/// Computes the gradients after a forward pass in training mode. `head_grads` has the gradients of the outputs; it may be null if all
/// outputs are losses.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorBackward(handle: ExecutorHandle, len: u32, head_grads: *mut NDArrayHandle) -> c_int {
    guard(|| backward(handle, len, head_grads, Mode::Training))
}

/// Like `MXExecutorBackward`, with `is_train` for operators that behave differently in training mode.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorBackwardEx(
    handle: ExecutorHandle,
    len: u32,
    head_grads: *mut NDArrayHandle,
    is_train: c_int,
) -> c_int {
    guard(|| backward(handle, len, head_grads, Mode::training_if(is_train != 0)))
}

/// Like `MXExecutorBackwardEx` and then `MXKVStorePushEx`, but pushes each key as soon as those of its `vals` that are gradients of the
/// executor are complete, so that a distributed store sends them while others are computed. The order of pushes is that of the gradients
/// in the graph, whatever the order of `keys`.
#[unsafe(no_mangle)]
pub extern "C" fn FerroExecutorBackwardPush(
    handle: ExecutorHandle,
    len: u32,
    head_grads: *mut NDArrayHandle,
    is_train: c_int,
    store: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let (executor, store) = (executor(id(handle))?, kv_store(id(store))?);
        let head_grads = head_gradients(len, head_grads)?;
        let keys: Vec<_> = texts(keys, num as usize, "keys")?.into_iter().map(Key::Name).collect();
        let arrays = tensors(vals, num as usize, "vals")?;
        store.push_in_backward(&executor, (&head_grads, Mode::training_if(is_train != 0)), &keys, &arrays)
    })
}

/// Returns new handles of the outputs, which the caller frees; the list is valid until the next call on this thread. The next
/// forward pass overwrites the arrays.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorOutputs(handle: ExecutorHandle, out_size: *mut u32, out: *mut *mut NDArrayHandle) -> c_int {
    guard(|| {
        let executor = executor(id(handle))?;
        let mut ret = Ret::new();
        let outputs = executor.output_tensors();
        put(out_size, outputs.len() as u32, "out_size")?;
        put(out, std::ptr::null_mut(), "out")?;
        put(out, ret.list(outputs.into_iter().map(|y| raw(insert_tensor(y))).collect()), "out")?;
        ret.keep("MXExecutorOutputs");
        Ok(())
    })
}

/// Returns a description of the plan, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorPrint(handle: ExecutorHandle, out_str: *mut *const c_char) -> c_int {
    guard(|| put_text("MXExecutorPrint", &executor(id(handle))?.debug_string(), out_str))
}

/// Creates an executor of the same symbol for other shapes, which shares arrays where possible. The caller frees the executor and the
/// handles of its arrays; the lists are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorReshape(
    partial_shaping: c_int,
    allow_up_sizing: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_map_keys: u32,
    map_keys: *mut *const c_char,
    map_dev_types: *const c_int,
    map_dev_ids: *const c_int,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const u32,
    provided_arg_shape_idx: *const u32,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    call_with_parameters!(ReshapeArgs.reshape("MXExecutorReshape") {
        partial_shaping, allow_up_sizing, dev_type, dev_id, num_map_keys, map_keys, map_dev_types,
        map_dev_ids, num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data,
        provided_arg_shape_idx, num_in_args, in_args, arg_grads, num_aux_states, aux_states, shared_exec,
        out
    })
}

/// Like `MXExecutorReshape`, with signed dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorReshapeEx(
    partial_shaping: c_int,
    allow_up_sizing: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_map_keys: u32,
    map_keys: *mut *const c_char,
    map_dev_types: *const c_int,
    map_dev_ids: *const c_int,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const c_int,
    provided_arg_shape_idx: *const u32,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    call_with_parameters!(ReshapeArgs.reshape("MXExecutorReshapeEx") {
        partial_shaping, allow_up_sizing, dev_type, dev_id, num_map_keys, map_keys, map_dev_types,
        map_dev_ids, num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data,
        provided_arg_shape_idx, num_in_args, in_args, arg_grads, num_aux_states, aux_states, shared_exec,
        out
    })
}

/// Installs a callback that gets the name and array of every output of every node that a run computes; null removes it.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorSetMonitorCallback(
    handle: ExecutorHandle,
    callback: ExecutorMonitorCallback,
    callback_handle: *mut c_void,
) -> c_int {
    let monitor_all = false;
    guard(|| set_monitor(handle, callback, callback_handle, monitor_all))
}

/// Like `MXExecutorSetMonitorCallback`; with `monitor_all`, the callback also gets inputs.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorSetMonitorCallbackEX(
    handle: ExecutorHandle,
    callback: ExecutorMonitorCallback,
    callback_handle: *mut c_void,
    monitor_all: bool,
) -> c_int {
    guard(|| set_monitor(handle, callback, callback_handle, monitor_all))
}

/// Creates a symbol of the graph of an executor, without common subexpressions.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorGetOptimizedSymbol(handle: ExecutorHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let executor = executor(id(handle))?;
        put_handle(out, || Ok(insert_symbol(executor.optimized().clone())))
    })
}
