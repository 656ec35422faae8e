//! Recording operators and computing gradients.

use std::ffi::c_int;

use ferromx_runtime::error::Result;
use ferromx_runtime::imperative::{self, GradientRequest, Keep, deferring};
use ferromx_runtime::op::Mode;
use ferromx_runtime::storage::Req;

use super::args::{id, optional, put, raw, slice, tensors};
use super::guard;
use super::ret::{Ret, put_handle};
use super::types::{NDArrayHandle, SymbolHandle};
use crate::handle::{insert_symbol, insert_tensor, tensor};

fn backward(n: u32, heads: *mut NDArrayHandle, head_grads: *mut NDArrayHandle, keep: Keep) -> Result<()> {
    let heads = tensors(heads, n as usize, "output_handles")?;
    let head_grads = optional(head_grads, n as usize, |h| tensor(id(h)))?;
    deferring(|| imperative::backward(&heads, &head_grads, &[], keep))?;
    Ok(())
}

/// Switches recording on this thread on or off and returns the previous state.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradSetIsRecording(is_recording: c_int, prev: *mut c_int) -> c_int {
    guard(|| {
        put(prev, c_int::from(imperative::is_recording()), "prev")?;
        imperative::set_recording(is_recording != 0);
        Ok(())
    })
}

/// Switches training mode on this thread on or off and returns the previous state.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradSetIsTraining(is_training: c_int, prev: *mut c_int) -> c_int {
    guard(|| {
        put(prev, c_int::from(imperative::is_training()), "prev")?;
        imperative::set_training(is_training != 0);
        Ok(())
    })
}

/// Returns whether operators on this thread are recorded.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradIsRecording(curr: *mut bool) -> c_int {
    guard(|| put(curr, imperative::is_recording(), "curr"))
}

/// Returns whether operators on this thread run in training mode.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradIsTraining(curr: *mut bool) -> c_int {
    guard(|| put(curr, imperative::is_training(), "curr"))
}

/// Marks arrays as variables, each with a gradient array and a request: 0 null, 1 write, 3 add.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradMarkVariables(
    num_var: u32,
    var_handles: *mut NDArrayHandle,
    reqs_array: *mut u32,
    grad_handles: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let n = num_var as usize;
        let variables = tensors(var_handles, n, "var_handles")?;
        let gradients = tensors(grad_handles, n, "grad_handles")?;
        let requests = (gradients.into_iter().zip(slice(reqs_array, n, "reqs_array")?))
            .map(|(array, req)| Ok(GradientRequest { array, req: Req::from_code(*req)? }))
            .collect::<Result<Vec<_>>>()?;
        imperative::mark_variables(&variables, &requests)
    })
}

/// Computes the gradients of recorded outputs and writes them to the gradient arrays of the variables. A null head gradient means ones.
/// Unless `retain_graph` is set, the recorded graph is freed, and a second backward pass is an error.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradBackward(
    num_output: u32,
    output_handles: *mut NDArrayHandle,
    ograd_handles: *mut NDArrayHandle,
    retain_graph: c_int,
) -> c_int {
    let keep = if retain_graph != 0 { Keep::Graph } else { Keep::Nothing };
    guard(|| backward(num_output, output_handles, ograd_handles, keep))
}

/// Like `MXAutogradBackward`. With variables, returns their gradients instead, as new handles, which the caller frees, with their storage
/// types; the lists are valid until the next call on this thread. `create_graph` records the computation of the gradients for
/// higher-order gradients.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradBackwardEx(
    num_output: u32,
    output_handles: *mut NDArrayHandle,
    ograd_handles: *mut NDArrayHandle,
    num_variables: u32,
    var_handles: *mut NDArrayHandle,
    retain_graph: c_int,
    create_graph: c_int,
    is_train: c_int,
    grad_handles: *mut *mut NDArrayHandle,
    grad_stypes: *mut *mut c_int,
) -> c_int {
    guard(|| {
        let keep = match (create_graph, retain_graph) {
            (0, 0) => Keep::Nothing,
            (0, _) => Keep::Graph,
            _ => Keep::Gradients,
        };
        let n = num_output as usize;
        let heads = tensors(output_handles, n, "output_handles")?;
        let head_grads = optional(ograd_handles, n, |h| tensor(id(h)))?;
        let variables = tensors(var_handles, num_variables as usize, "var_handles")?;
        let gradients = deferring(|| {
            imperative::backward_in_mode(&heads, &head_grads, &variables, keep, Mode::training_if(is_train != 0))
        })?;
        if num_variables == 0 {
            return Ok(());
        }
        let mut ret = Ret::new();
        let types = gradients.iter().map(|g| g.stored().map(|a| a.storage_type() as c_int));
        put(grad_stypes, ret.list(types.collect::<Result<_>>()?), "grad_stypes")?;
        put(grad_handles, ret.list(gradients.into_iter().map(|g| raw(insert_tensor(g))).collect()), "grad_handles")?;
        ret.keep("MXAutogradBackwardEx");
        Ok(())
    })
}

/// Like `MXAutogradBackward`, with head gradients of ones.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradComputeGradient(num_output: u32, output_handles: *mut NDArrayHandle) -> c_int {
    guard(|| backward(num_output, output_handles, std::ptr::null_mut(), Keep::Nothing))
}

/// Creates a symbol from the recorded computation of an array.
#[unsafe(no_mangle)]
pub extern "C" fn MXAutogradGetSymbol(handle: NDArrayHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let tensor = tensor(id(handle))?;
        put_handle(out, || imperative::symbol_of(&tensor).map(insert_symbol))
    })
}
