//! Binding to new arrays: `MXExecutorSimpleBind` and its variants.

use std::ffi::{c_char, c_int};

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::executor::{Devices, SimpleBind};
use ferromx_runtime::sparse::StorageType;
use ferromx_runtime::storage::Req;

use super::args::{arrays, devices, get, id, put, slice, text, texts};
use super::executor::{ArraysOut, insert_executor, shared};
use super::guard;
use super::infer::rows;
use super::number::Integer;
use super::ret::{Ret, put_handle};
use super::types::{ExecutorHandle, NDArrayHandle, SymbolHandle};
use crate::handle::symbol;

fn request(text: &str) -> Result<Req> {
    match text {
        "null" => Ok(Req::Null),
        "write" => Ok(Req::Write),
        "add" => Ok(Req::Add),
        "inplace" => Ok(Req::Inplace),
        _ => Err(Error::Value(format!(
            "grad_req={text} is not a valid input in simple_bind; only 'null', 'write', and 'add' are supported"
        ))),
    }
}

/// Gradient requests by argument. `types` is null for none, or has one type for all (`n` is 0), one per argument, or one per name.
fn requests(arguments: &[String], n: u32, names: *mut *const c_char, types: *mut *const c_char) -> Result<Vec<Req>> {
    if types.is_null() {
        return Ok(vec![Req::Null; arguments.len()]);
    }
    if n == 0 {
        return Ok(vec![
            request(&text(get(types, "provided_grad_req_types")?, "provided_grad_req_types")?)?;
            arguments.len()
        ]);
    }
    let types = texts(types, n as usize, "provided_grad_req_types")?;
    let types = types.iter().map(|t| request(t)).collect::<Result<Vec<_>>>()?;
    if names.is_null() {
        ensure!(
            types.len() == arguments.len(),
            "The length of grad_req list does not match the number of input arguments in simple_bind, expected {}, provided {n}",
            arguments.len()
        );
        return Ok(types);
    }
    let names = texts(names, n as usize, "provided_grad_req_names")?;
    let by_name = |a: &String| names.iter().position(|n| n == a).map_or(Req::Null, |i| types[i]);
    Ok(arguments.iter().map(by_name).collect())
}

/// Length, names and values of a list.
type Named<T> = (u32, *mut *const c_char, *const T);

/// The arguments and out-parameters for the buffer of shared arrays. A length of -1 means that there is none.
struct Buffer {
    len: *mut c_int,
    names: *mut *const c_char,
    handles: *mut NDArrayHandle,
    new_names: *mut *mut *const c_char,
    new_handles: *mut *mut NDArrayHandle,
}

/// The arguments of `MXExecutorSimpleBind` and its variants.
struct SimpleBindArgs<D> {
    symbol: SymbolHandle,
    devices: Devices,
    reqs: (u32, *mut *const c_char, *mut *const c_char),
    shapes: (Named<D>, *const u32),
    dtypes: Named<c_int>,
    storage_types: Named<c_int>,
    shared_args: (u32, *mut *const c_char),
    buffer: Buffer,
    shared: ExecutorHandle,
}

impl<D: Integer> SimpleBindArgs<D> {
    fn bind(self, function: &'static str, arrays_out: ArraysOut, out: *mut ExecutorHandle) -> Result<()> {
        let s = symbol(id(self.symbol))?;
        let shared = shared(self.shared)?;
        let ((n, names, data), starts) = self.shapes;
        let shapes =
            texts(names, n as usize, "provided_arg_shape_names")?.into_iter().zip(rows(n as usize, starts, data)?);
        let (n, names, codes) = self.dtypes;
        let codes = slice(codes, n as usize, "provided_arg_dtypes")?;
        let dtypes = (texts(names, n as usize, "provided_arg_dtype_names")?.into_iter().zip(codes))
            .filter(|(_, code)| **code != -1)
            .map(|(name, code)| Ok((name, dtype_of_code(*code)?)));
        let (n, names, codes) = self.storage_types;
        let codes = slice(codes, n as usize, "provided_arg_stypes")?;
        let storage_types = (texts(names, n as usize, "provided_arg_stype_names")?.into_iter().zip(codes))
            .filter(|(_, code)| **code != -1)
            .map(|(name, code)| Ok((name, StorageType::from_code(*code)?)));
        let mut simple_bind = SimpleBind {
            shapes: shapes.collect(),
            dtypes: dtypes.collect::<Result<_>>()?,
            storage_types: Some(storage_types.collect::<Result<_>>()?),
            reqs: requests(&s.list_arguments(), self.reqs.0, self.reqs.1, self.reqs.2)?,
            shared: shared.as_deref(),
            shared_args: texts(self.shared_args.1, self.shared_args.0 as usize, "shared_arg_name_list")?,
            buffer: self.buffer.read()?,
            devices: self.devices,
        };
        let executor = simple_bind.bind(&s)?;
        let mut ret = Ret::new();
        if let Some(buffer) = simple_bind.buffer {
            let (names, arrays): (Vec<_>, Vec<_>) = buffer.into_iter().unzip();
            put(self.buffer.len, names.len() as c_int, "shared_buffer_len")?;
            put(self.buffer.new_names, ret.texts(names), "updated_shared_buffer_name_list")?;
            put(self.buffer.new_handles, ret.arrays(arrays.iter().map(Some)), "updated_shared_buffer_handle_list")?;
        }
        arrays_out.put(&mut ret, &executor)?;
        ret.keep(function);
        put_handle(out, || Ok(insert_executor(executor)))
    }
}

impl Buffer {
    fn read(&self) -> Result<Option<Vec<(String, ferromx_runtime::ndarray::NDArray)>>> {
        let Ok(n) = usize::try_from(if self.len.is_null() { -1 } else { get(self.len, "shared_buffer_len")? }) else {
            return Ok(None);
        };
        let names = texts(self.names, n, "shared_buffer_name_list")?;
        Ok(Some(names.into_iter().zip(arrays(self.handles, n, "shared_buffer_handle_list")?).collect()))
    }
}

/// Binds a symbol to new arrays of zeros, whose shapes and types are inferred from the given ones. There is one gradient request for all
/// arguments (`provided_grad_req_list_len` is 0), one per argument, or one per name. Arguments in `shared_arg_name_list` share the arrays
/// of `shared_exec_handle`; others use memory of the shared buffer unless its length is -1. The caller frees the executor and all handles;
/// the lists are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorSimpleBind(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    num_g2c_keys: u32,
    g2c_keys: *mut *const c_char,
    g2c_dev_types: *const c_int,
    g2c_dev_ids: *const c_int,
    provided_grad_req_list_len: u32,
    provided_grad_req_names: *mut *const c_char,
    provided_grad_req_types: *mut *const c_char,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const u32,
    provided_arg_shape_idx: *const u32,
    num_provided_arg_dtypes: u32,
    provided_arg_dtype_names: *mut *const c_char,
    provided_arg_dtypes: *const c_int,
    num_provided_arg_stypes: u32,
    provided_arg_stype_names: *mut *const c_char,
    provided_arg_stypes: *const c_int,
    num_shared_arg_names: u32,
    shared_arg_name_list: *mut *const c_char,
    shared_buffer_len: *mut c_int,
    shared_buffer_name_list: *mut *const c_char,
    shared_buffer_handle_list: *mut NDArrayHandle,
    updated_shared_buffer_name_list: *mut *mut *const c_char,
    updated_shared_buffer_handle_list: *mut *mut NDArrayHandle,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec_handle: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let args = SimpleBindArgs {
            symbol: symbol_handle,
            devices: devices((dev_type, dev_id), num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids)?,
            reqs: (provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types),
            shapes: (
                (num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data),
                provided_arg_shape_idx,
            ),
            dtypes: (num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes),
            storage_types: (num_provided_arg_stypes, provided_arg_stype_names, provided_arg_stypes),
            shared_args: (num_shared_arg_names, shared_arg_name_list),
            buffer: Buffer {
                len: shared_buffer_len,
                names: shared_buffer_name_list,
                handles: shared_buffer_handle_list,
                new_names: updated_shared_buffer_name_list,
                new_handles: updated_shared_buffer_handle_list,
            },
            shared: shared_exec_handle,
        };
        let arrays = ArraysOut {
            num_args: num_in_args,
            args: in_args,
            grads: arg_grads,
            num_aux: num_aux_states,
            aux: aux_states,
        };
        args.bind("MXExecutorSimpleBind", arrays, out)
    })
}

/// Like `MXExecutorSimpleBind`, with signed dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorSimpleBindEx(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    num_g2c_keys: u32,
    g2c_keys: *mut *const c_char,
    g2c_dev_types: *const c_int,
    g2c_dev_ids: *const c_int,
    provided_grad_req_list_len: u32,
    provided_grad_req_names: *mut *const c_char,
    provided_grad_req_types: *mut *const c_char,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const c_int,
    provided_arg_shape_idx: *const u32,
    num_provided_arg_dtypes: u32,
    provided_arg_dtype_names: *mut *const c_char,
    provided_arg_dtypes: *const c_int,
    num_provided_arg_stypes: u32,
    provided_arg_stype_names: *mut *const c_char,
    provided_arg_stypes: *const c_int,
    num_shared_arg_names: u32,
    shared_arg_name_list: *mut *const c_char,
    shared_buffer_len: *mut c_int,
    shared_buffer_name_list: *mut *const c_char,
    shared_buffer_handle_list: *mut NDArrayHandle,
    updated_shared_buffer_name_list: *mut *mut *const c_char,
    updated_shared_buffer_handle_list: *mut *mut NDArrayHandle,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec_handle: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let args = SimpleBindArgs {
            symbol: symbol_handle,
            devices: devices((dev_type, dev_id), num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids)?,
            reqs: (provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types),
            shapes: (
                (num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data),
                provided_arg_shape_idx,
            ),
            dtypes: (num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes),
            storage_types: (num_provided_arg_stypes, provided_arg_stype_names, provided_arg_stypes),
            shared_args: (num_shared_arg_names, shared_arg_name_list),
            buffer: Buffer {
                len: shared_buffer_len,
                names: shared_buffer_name_list,
                handles: shared_buffer_handle_list,
                new_names: updated_shared_buffer_name_list,
                new_handles: updated_shared_buffer_handle_list,
            },
            shared: shared_exec_handle,
        };
        let arrays = ArraysOut {
            num_args: num_in_args,
            args: in_args,
            grads: arg_grads,
            num_aux: num_aux_states,
            aux: aux_states,
        };
        args.bind("MXExecutorSimpleBindEx", arrays, out)
    })
}

/// Like `MXExecutorSimpleBind`, with 64-bit dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXExecutorSimpleBindEx64(
    symbol_handle: SymbolHandle,
    dev_type: c_int,
    dev_id: c_int,
    num_g2c_keys: u32,
    g2c_keys: *mut *const c_char,
    g2c_dev_types: *const c_int,
    g2c_dev_ids: *const c_int,
    provided_grad_req_list_len: u32,
    provided_grad_req_names: *mut *const c_char,
    provided_grad_req_types: *mut *const c_char,
    num_provided_arg_shapes: u32,
    provided_arg_shape_names: *mut *const c_char,
    provided_arg_shape_data: *const i64,
    provided_arg_shape_idx: *const u32,
    num_provided_arg_dtypes: u32,
    provided_arg_dtype_names: *mut *const c_char,
    provided_arg_dtypes: *const c_int,
    num_provided_arg_stypes: u32,
    provided_arg_stype_names: *mut *const c_char,
    provided_arg_stypes: *const c_int,
    num_shared_arg_names: u32,
    shared_arg_name_list: *mut *const c_char,
    shared_buffer_len: *mut c_int,
    shared_buffer_name_list: *mut *const c_char,
    shared_buffer_handle_list: *mut NDArrayHandle,
    updated_shared_buffer_name_list: *mut *mut *const c_char,
    updated_shared_buffer_handle_list: *mut *mut NDArrayHandle,
    num_in_args: *mut u32,
    in_args: *mut *mut NDArrayHandle,
    arg_grads: *mut *mut NDArrayHandle,
    num_aux_states: *mut u32,
    aux_states: *mut *mut NDArrayHandle,
    shared_exec_handle: ExecutorHandle,
    out: *mut ExecutorHandle,
) -> c_int {
    guard(|| {
        let args = SimpleBindArgs {
            symbol: symbol_handle,
            devices: devices((dev_type, dev_id), num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids)?,
            reqs: (provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types),
            shapes: (
                (num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data),
                provided_arg_shape_idx,
            ),
            dtypes: (num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes),
            storage_types: (num_provided_arg_stypes, provided_arg_stype_names, provided_arg_stypes),
            shared_args: (num_shared_arg_names, shared_arg_name_list),
            buffer: Buffer {
                len: shared_buffer_len,
                names: shared_buffer_name_list,
                handles: shared_buffer_handle_list,
                new_names: updated_shared_buffer_name_list,
                new_handles: updated_shared_buffer_handle_list,
            },
            shared: shared_exec_handle,
        };
        let arrays = ArraysOut {
            num_args: num_in_args,
            args: in_args,
            grads: arg_grads,
            num_aux: num_aux_states,
            aux: aux_states,
        };
        args.bind("MXExecutorSimpleBindEx64", arrays, out)
    })
}
