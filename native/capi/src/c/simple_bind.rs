//! Binding to new arrays: `MXExecutorSimpleBind` and its variants.

use std::ffi::{c_char, c_int};

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::executor::SimpleBind;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::sparse::StorageType;
use ferromx_runtime::storage::Req;

use super::args::{arrays, call_with_parameters, devices, get, id, put, slice, text, texts};
use super::executor::{ArraysOut, insert_executor, shared};
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

/// The parameters of `MXExecutorSimpleBind` and its variants, under the names of MXNet. `D` is the type of dimensions.
struct SimpleBindArgs<D> {
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
    provided_arg_shape_data: *const D,
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
}

impl<D: Integer> SimpleBindArgs<D> {
    fn bind(self, function: &'static str) -> Result<()> {
        let default = (self.dev_type, self.dev_id);
        let devices = devices(default, self.num_g2c_keys, self.g2c_keys, self.g2c_dev_types, self.g2c_dev_ids)?;
        let s = symbol(id(self.symbol_handle))?;
        let shared = shared(self.shared_exec_handle)?;
        let reqs = (self.provided_grad_req_list_len, self.provided_grad_req_names, self.provided_grad_req_types);
        let n = self.num_provided_arg_shapes as usize;
        let names = texts(self.provided_arg_shape_names, n, "provided_arg_shape_names")?;
        let shapes = names.into_iter().zip(rows(n, self.provided_arg_shape_idx, self.provided_arg_shape_data)?);
        let n = self.num_provided_arg_dtypes as usize;
        let codes = slice(self.provided_arg_dtypes, n, "provided_arg_dtypes")?;
        let dtypes = (texts(self.provided_arg_dtype_names, n, "provided_arg_dtype_names")?.into_iter().zip(codes))
            .filter(|(_, code)| **code != -1)
            .map(|(name, code)| Ok((name, dtype_of_code(*code)?)));
        let n = self.num_provided_arg_stypes as usize;
        let codes = slice(self.provided_arg_stypes, n, "provided_arg_stypes")?;
        let storage_types =
            (texts(self.provided_arg_stype_names, n, "provided_arg_stype_names")?.into_iter().zip(codes))
                .filter(|(_, code)| **code != -1)
                .map(|(name, code)| Ok((name, StorageType::from_code(*code)?)));
        let mut simple_bind = SimpleBind {
            shapes: shapes.collect(),
            dtypes: dtypes.collect::<Result<_>>()?,
            storage_types: Some(storage_types.collect::<Result<_>>()?),
            reqs: requests(&s.list_arguments(), reqs.0, reqs.1, reqs.2)?,
            shared: shared.as_deref(),
            shared_args: texts(self.shared_arg_name_list, self.num_shared_arg_names as usize, "shared_arg_name_list")?,
            buffer: self.buffer()?,
            devices,
        };
        let executor = simple_bind.bind(&s)?;
        let mut ret = Ret::new();
        if let Some(buffer) = simple_bind.buffer {
            let (names, arrays): (Vec<_>, Vec<_>) = buffer.into_iter().unzip();
            let (new_names, new_handles) =
                (self.updated_shared_buffer_name_list, self.updated_shared_buffer_handle_list);
            put(self.shared_buffer_len, names.len() as c_int, "shared_buffer_len")?;
            put(new_names, ret.texts(names), "updated_shared_buffer_name_list")?;
            put(new_handles, ret.arrays(arrays.iter().map(Some)), "updated_shared_buffer_handle_list")?;
        }
        let arrays_out = ArraysOut {
            num_args: self.num_in_args,
            args: self.in_args,
            grads: self.arg_grads,
            num_aux: self.num_aux_states,
            aux: self.aux_states,
        };
        arrays_out.put(&mut ret, &executor)?;
        ret.keep(function);
        put_handle(self.out, || Ok(insert_executor(executor)))
    }

    /// The arrays of the shared buffer; `None` if its length is -1.
    fn buffer(&self) -> Result<Option<Vec<(String, NDArray)>>> {
        let len = self.shared_buffer_len;
        let Ok(n) = usize::try_from(if len.is_null() { -1 } else { get(len, "shared_buffer_len")? }) else {
            return Ok(None);
        };
        let names = texts(self.shared_buffer_name_list, n, "shared_buffer_name_list")?;
        let arrays = arrays(self.shared_buffer_handle_list, n, "shared_buffer_handle_list")?;
        Ok(Some(names.into_iter().zip(arrays).collect()))
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
    call_with_parameters!(SimpleBindArgs.bind("MXExecutorSimpleBind") {
        symbol_handle, dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids,
        provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types,
        num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data, provided_arg_shape_idx,
        num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes, num_provided_arg_stypes,
        provided_arg_stype_names, provided_arg_stypes, num_shared_arg_names, shared_arg_name_list,
        shared_buffer_len, shared_buffer_name_list, shared_buffer_handle_list,
        updated_shared_buffer_name_list, updated_shared_buffer_handle_list, num_in_args, in_args, arg_grads,
        num_aux_states, aux_states, shared_exec_handle, out
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
    call_with_parameters!(SimpleBindArgs.bind("MXExecutorSimpleBindEx") {
        symbol_handle, dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids,
        provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types,
        num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data, provided_arg_shape_idx,
        num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes, num_provided_arg_stypes,
        provided_arg_stype_names, provided_arg_stypes, num_shared_arg_names, shared_arg_name_list,
        shared_buffer_len, shared_buffer_name_list, shared_buffer_handle_list,
        updated_shared_buffer_name_list, updated_shared_buffer_handle_list, num_in_args, in_args, arg_grads,
        num_aux_states, aux_states, shared_exec_handle, out
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
    call_with_parameters!(SimpleBindArgs.bind("MXExecutorSimpleBindEx64") {
        symbol_handle, dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids,
        provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types,
        num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data, provided_arg_shape_idx,
        num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes, num_provided_arg_stypes,
        provided_arg_stype_names, provided_arg_stypes, num_shared_arg_names, shared_arg_name_list,
        shared_buffer_len, shared_buffer_name_list, shared_buffer_handle_list,
        updated_shared_buffer_name_list, updated_shared_buffer_handle_list, num_in_args, in_args, arg_grads,
        num_aux_states, aux_states, shared_exec_handle, out
    })
}
