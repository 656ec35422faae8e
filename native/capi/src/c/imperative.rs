//! Imperative execution of operators.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::{self, Tensor, Tensors, deferring};
use ferromx_runtime::op::Forward;
use ferromx_runtime::registry;
use ferromx_runtime::semantics;

use super::args::{count, get, id, pairs, put, tensors};
use super::guard;
use super::ret::invoked;
use super::types::{AtomicSymbolCreator, NDArrayHandle};
use crate::handle::{insert_tensor, operator_of};

/// Runs an operator and returns the storage types of its outputs.
fn invoke(
    creator: AtomicSymbolCreator,
    (inputs, num_inputs): (*mut NDArrayHandle, c_int),
    (outputs, num_outputs): (*mut *mut NDArrayHandle, *mut c_int),
    (keys, values, num_params): (*mut *const c_char, *mut *const c_char, c_int),
) -> Result<*const c_int> {
    let (name, _) = operator_of(id(creator))?;
    let inputs = tensors(inputs, count(num_inputs, "num_inputs")?, "inputs")?;
    let pairs = pairs(keys, values, count(num_params, "num_params")?)?;
    let attrs = pairs.iter().map(|(k, v)| (&**k, &**v));
    with_outputs(outputs, num_outputs, |given| {
        let results = imperative::call(name, attrs, &inputs, given)?;
        if given.is_empty() {
            check_results(name, &inputs, &results)?;
        }
        Ok(results)
    })
}

/// Rejects results of unknown shape, as MXNet does: in legacy semantics, a shape that contains a 0 or has no dimensions is unknown. It is
/// accepted if neither an input nor the parameter `shape` of an operator without inputs has such a shape, or if the shape of the result
/// depends on values.
fn check_results(name: &str, inputs: &[Arc<Tensor>], results: &[Arc<Tensor>]) -> Result<()> {
    let unknown = |t: &Arc<Tensor>| {
        let array = t.stored().ok()?;
        let dims = array.shape().dims();
        (dims.is_empty() || dims.contains(&0)).then(|| array.shape().clone())
    };
    if semantics::is_numpy_shape() {
        return Ok(());
    }
    let Some(shape) = results.iter().find_map(unknown) else { return Ok(()) };
    let def = registry::find(name)?.1;
    let is_requested = inputs.is_empty() && def.fields().iter().any(|field| field.name == "shape");
    let is_accepted = !is_requested && !inputs.iter().any(|t| unknown(t).is_some());
    if is_accepted || matches!(def.kernels.forward, Forward::Dynamic(_)) {
        return Ok(());
    }
    Err(Error::Value(format!(
        "Operator {name} inferring shapes failed.: without NumPy shape semantics the shape {shape} of the result is unknown; call \
         MXSetIsNumpyShape, or set_np_shape in Python"
    )))
}

/// Runs a call that writes to the given outputs, or to new arrays if `*outputs` is null; returns the storage types of the outputs.
pub(super) fn with_outputs(
    outputs: *mut *mut NDArrayHandle,
    num_outputs: *mut c_int,
    call: impl FnOnce(&[Arc<Tensor>]) -> Result<Tensors>,
) -> Result<*const c_int> {
    let given = get(outputs, "outputs")?;
    if given.is_null() {
        put(num_outputs, 0, "num_outputs")?;
        let results = call(&[])?;
        put(num_outputs, results.len() as c_int, "num_outputs")?;
        let (handles, storage_types) = invoked(results.into_iter().map(|t| {
            let storage_type = storage_type(&t);
            (insert_tensor(t), storage_type)
        }));
        put(outputs, handles, "outputs")?;
        return Ok(storage_types);
    }
    let n = count(get(num_outputs, "num_outputs")?, "num_outputs")?;
    let given = tensors(given, n, "outputs")?;
    call(&given)?;
    Ok(invoked(given.iter().map(|t| (0, storage_type(t)))).1)
}

/// The storage type code of a tensor; -1 if it has no array.
fn storage_type(tensor: &Arc<Tensor>) -> c_int {
    tensor.storage_type().map_or(-1, |s| s as c_int)
}

/// Runs an operator. If `*outputs` is null, returns the number and handles of new arrays, which the caller frees; the list is valid until
/// the next call on this thread. Otherwise writes the results to the `*num_outputs` given arrays.
#[unsafe(no_mangle)]
pub extern "C" fn MXImperativeInvoke(
    creator: AtomicSymbolCreator,
    num_inputs: c_int,
    inputs: *mut NDArrayHandle,
    num_outputs: *mut c_int,
    outputs: *mut *mut NDArrayHandle,
    num_params: c_int,
    param_keys: *mut *const c_char,
    param_vals: *mut *const c_char,
) -> c_int {
    guard(|| {
        deferring(|| {
            invoke(creator, (inputs, num_inputs), (outputs, num_outputs), (param_keys, param_vals, num_params))
        })
        .map(|_| ())
    })
}

/// Like `MXImperativeInvoke`; also returns the storage types of the outputs (0 dense, 1 row_sparse, 2 csr), valid until the next call on
/// this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXImperativeInvokeEx(
    creator: AtomicSymbolCreator,
    num_inputs: c_int,
    inputs: *mut NDArrayHandle,
    num_outputs: *mut c_int,
    outputs: *mut *mut NDArrayHandle,
    num_params: c_int,
    param_keys: *mut *const c_char,
    param_vals: *mut *const c_char,
    out_stypes: *mut *const c_int,
) -> c_int {
    guard(|| {
        let types = deferring(|| {
            invoke(creator, (inputs, num_inputs), (outputs, num_outputs), (param_keys, param_vals, num_params))
        })?;
        put(out_stypes, types, "out_stypes")
    })
}
