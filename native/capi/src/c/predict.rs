//! Prediction with trained networks, and lists of arrays from files: MXNet's `c_predict_api.h`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::arrays::to_dense;
use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::file_format;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::predict::Network;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::symbol::Symbol;

use super::args::{copy_numbers, count, id, put, put_all, raw, slice, text, texts};
use super::executor::monitor;
use super::guard;
use super::infer::rows;
use super::number::Integer;
use super::ret::{Ret, put_handle};
use super::types::{NDListHandle, PredMonitorCallback, PredictorHandle};
use crate::handle::{self, Object, insert, nd_list, predictor};
use crate::objects::{ListItem, NdList};

/// The network and the device of a new predictor, as arguments of the C API.
struct NetworkArgs {
    symbol: *const c_char,
    params: (*const c_void, c_int),
    device: (c_int, c_int),
}

impl NetworkArgs {
    fn network(self, dtypes: Vec<(String, DType)>) -> Result<Network> {
        let symbol = Symbol::from_json(&text(self.symbol, "symbol_json_str")?)?;
        let bytes = slice(self.params.0.cast::<u8>(), count(self.params.1, "param_size")?, "param_bytes")?;
        let params = file_format::from_bytes(bytes, "the parameters")?;
        Network::new(symbol, params, dtypes, Context::from_codes(self.device.0, self.device.1)?)
    }
}

impl NdList {
    fn read(bytes: &[u8]) -> Result<NdList> {
        let loaded = file_format::from_bytes(bytes, "the buffer")?;
        let mut names = loaded.names.into_iter();
        let item = |array: Option<Array>| {
            let array = array.as_ref().map(to_dense).transpose()?;
            let name = CString::new(names.next().unwrap_or_default().replace('\0', "\\0")).unwrap_or_default();
            let data = array.as_ref().map(NDArray::to_vec_as).transpose()?.unwrap_or_default();
            let dims = array.iter().flat_map(|a| a.shape().dims());
            Ok(ListItem { name, data, shape: dims.map(|d| u32::from_i64(*d)).collect::<Result<_>>()? })
        };
        Ok(NdList(loaded.arrays.into_iter().map(item).collect::<Result<_>>()?))
    }
}

fn inputs(n: u32, keys: *mut *const c_char, starts: *const u32, data: *const u32) -> Result<Vec<(String, Shape)>> {
    let n = n as usize;
    Ok(texts(keys, n, "input_keys")?.into_iter().zip(rows(n, starts, data)?).collect())
}

fn put_predictor(network: &Network, inputs: &[(String, Shape)], out: *mut PredictorHandle) -> Result<()> {
    put_handle(out, || Ok(insert(Object::Predictor(Arc::new(network.bind(inputs)?)))))
}

/// Creates a predictor from a network as JSON and the bytes of a `.params` file. Input `i` has the dimensions
/// `input_shape_data[input_shape_indptr[i] .. input_shape_indptr[i + 1]]`.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredCreate(
    symbol_json_str: *const c_char,
    param_bytes: *const c_void,
    param_size: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_input_nodes: u32,
    input_keys: *mut *const c_char,
    input_shape_indptr: *const u32,
    input_shape_data: *const u32,
    out: *mut PredictorHandle,
) -> c_int {
    guard(|| {
        let args =
            NetworkArgs { symbol: symbol_json_str, params: (param_bytes, param_size), device: (dev_type, dev_id) };
        let inputs = inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)?;
        put_predictor(&args.network(Vec::new())?, &inputs, out)
    })
}

/// Like `MXPredCreate`, with element types of some arguments.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredCreateEx(
    symbol_json_str: *const c_char,
    param_bytes: *const c_void,
    param_size: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_input_nodes: u32,
    input_keys: *mut *const c_char,
    input_shape_indptr: *const u32,
    input_shape_data: *const u32,
    num_provided_arg_dtypes: u32,
    provided_arg_dtype_names: *mut *const c_char,
    provided_arg_dtypes: *const c_int,
    out: *mut PredictorHandle,
) -> c_int {
    guard(|| {
        let args =
            NetworkArgs { symbol: symbol_json_str, params: (param_bytes, param_size), device: (dev_type, dev_id) };
        let inputs = inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)?;
        let codes = slice(provided_arg_dtypes, num_provided_arg_dtypes as usize, "provided_arg_dtypes")?;
        let names = texts(provided_arg_dtype_names, codes.len(), "provided_arg_dtype_names")?;
        let dtypes = names.into_iter().zip(codes).map(|(name, code)| Ok((name, dtype_of_code(*code)?)));
        put_predictor(&args.network(dtypes.collect::<Result<_>>()?)?, &inputs, out)
    })
}

/// Like `MXPredCreate`, with the named outputs or nodes as outputs.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredCreatePartialOut(
    symbol_json_str: *const c_char,
    param_bytes: *const c_void,
    param_size: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_input_nodes: u32,
    input_keys: *mut *const c_char,
    input_shape_indptr: *const u32,
    input_shape_data: *const u32,
    num_output_nodes: u32,
    output_keys: *mut *const c_char,
    out: *mut PredictorHandle,
) -> c_int {
    guard(|| {
        let args =
            NetworkArgs { symbol: symbol_json_str, params: (param_bytes, param_size), device: (dev_type, dev_id) };
        let inputs = inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)?;
        let outputs = texts(output_keys, num_output_nodes as usize, "output_keys")?;
        put_predictor(&args.network(Vec::new())?.with_outputs(&outputs)?, &inputs, out)
    })
}

/// Creates a predictor of the same network for other input shapes. Parameters are shared; the old predictor is unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredReshape(
    num_input_nodes: u32,
    input_keys: *mut *const c_char,
    input_shape_indptr: *const u32,
    input_shape_data: *const u32,
    handle: PredictorHandle,
    out: *mut PredictorHandle,
) -> c_int {
    guard(|| {
        let inputs = inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)?;
        put_predictor(predictor(id(handle))?.network(), &inputs, out)
    })
}

/// Like `MXPredCreate`, with one predictor per thread; they share the parameters. `out` has room for `num_threads` handles.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredCreateMultiThread(
    symbol_json_str: *const c_char,
    param_bytes: *const c_void,
    param_size: c_int,
    dev_type: c_int,
    dev_id: c_int,
    num_input_nodes: u32,
    input_keys: *mut *const c_char,
    input_shape_indptr: *const u32,
    input_shape_data: *const u32,
    num_threads: c_int,
    out: *mut PredictorHandle,
) -> c_int {
    guard(|| {
        put(out, std::ptr::null_mut(), "out")?;
        let args =
            NetworkArgs { symbol: symbol_json_str, params: (param_bytes, param_size), device: (dev_type, dev_id) };
        let inputs = inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)?;
        let all = args.network(Vec::new())?.bind_many(&inputs, count(num_threads, "num_threads")?)?;
        let handles: Vec<_> = all.into_iter().map(|p| raw(insert(Object::Predictor(Arc::new(p))))).collect();
        put_all(out, &handles, "out")
    })
}

/// Returns the shape of an output, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredGetOutputShape(
    handle: PredictorHandle,
    index: u32,
    shape_data: *mut *mut u32,
    shape_ndim: *mut u32,
) -> c_int {
    guard(|| {
        let predictor = predictor(id(handle))?;
        let output = predictor.output(index as usize)?;
        let shape = output.shape();
        let dims = shape.dims().iter().map(|d| u32::from_i64(*d)).collect::<Result<Vec<_>>>()?;
        let mut ret = Ret::new();
        put(shape_ndim, dims.len() as u32, "shape_ndim")?;
        put(shape_data, ret.list(dims), "shape_data")?;
        ret.keep("MXPredGetOutputShape");
        Ok(())
    })
}

/// Returns the element type code of an output.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredGetOutputType(handle: PredictorHandle, out_index: u32, out_dtype: *mut c_int) -> c_int {
    guard(|| put(out_dtype, predictor(id(handle))?.output(out_index as usize)?.dtype().code(), "out_dtype"))
}

/// Overwrites an input of `size` elements.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredSetInput(handle: PredictorHandle, key: *const c_char, data: *const f32, size: u32) -> c_int {
    guard(|| predictor(id(handle))?.set_input(&text(key, "key")?, slice(data, size as usize, "data")?))
}

/// Computes the outputs.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredForward(handle: PredictorHandle) -> c_int {
    guard(|| predictor(id(handle))?.forward())
}

/// Runs one step of the network. Call it with `step` = 0, 1, 2, ... until `step_left`, the number of remaining steps, is 0; then the
/// outputs are valid. A step past the end does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredPartialForward(handle: PredictorHandle, step: c_int, step_left: *mut c_int) -> c_int {
    guard(|| {
        let left = predictor(id(handle))?.partial_forward(count(step, "step")?)?;
        put(step_left, c_int::try_from(left).unwrap_or(c_int::MAX), "step_left")
    })
}

/// Installs a callback that gets the name and array of every output of every node that a run computes, and with `monitor_all` of every
/// input; null removes it. The callee owns the array handle.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredSetMonitorCallback(
    handle: PredictorHandle,
    callback: PredMonitorCallback,
    callback_handle: *mut c_void,
    monitor_all: bool,
) -> c_int {
    guard(|| {
        predictor(id(handle))?.set_monitor(monitor(callback, callback_handle), monitor_all);
        Ok(())
    })
}

/// Copies an output of `size` elements to `data`, converted to float32.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredGetOutput(handle: PredictorHandle, index: u32, data: *mut f32, size: u32) -> c_int {
    guard(|| {
        let numbers = predictor(id(handle))?.output(index as usize)?.to_vec_as::<f32>()?;
        copy_numbers(&numbers, data, size as usize)
    })
}

/// Frees a predictor; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXPredFree(handle: PredictorHandle) -> c_int {
    guard(|| handle::free(id(handle), "Predictor"))
}

/// Creates a list of arrays from the bytes of a file and returns its length.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDListCreate(
    nd_file_bytes: *const c_char,
    nd_file_size: c_int,
    out: *mut NDListHandle,
    out_length: *mut u32,
) -> c_int {
    guard(|| {
        let bytes = slice(nd_file_bytes.cast::<u8>(), count(nd_file_size, "nd_file_size")?, "nd_file_bytes")?;
        let list = NdList::read(bytes)?;
        put(out_length, list.0.len() as u32, "out_length")?;
        put_handle(out, || Ok(insert(Object::NdList(Arc::new(list)))))
    })
}

/// Returns name (empty if it has none), elements and shape of an array, valid until the list is freed.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDListGet(
    handle: NDListHandle,
    index: u32,
    out_key: *mut *const c_char,
    out_data: *mut *const f32,
    out_shape: *mut *const u32,
    out_ndim: *mut u32,
) -> c_int {
    guard(|| {
        let list = nd_list(id(handle))?;
        let item = list.0.get(index as usize).ok_or_else(|| {
            Error::NotFound(format!("array {index} was requested, but the list has {}", list.0.len()))
        })?;
        put(out_key, item.name.as_ptr(), "out_key")?;
        put(out_data, item.data.as_ptr(), "out_data")?;
        put(out_shape, item.shape.as_ptr(), "out_shape")?;
        put(out_ndim, item.shape.len() as u32, "out_ndim")
    })
}

/// Frees a list; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXNDListFree(handle: NDListHandle) -> c_int {
    guard(|| handle::free(id(handle), "NDList"))
}
