//! Partitioning of graphs for backends. This library compiles whole graphs: subgraph nodes exist for programs and files, and are expanded
//! when a graph is bound.

use std::collections::HashSet;
use std::ffi::{c_char, c_int};

use ferromx_runtime::context::Context;
use ferromx_runtime::error::Result;
use ferromx_runtime::partition;

use super::args::{id, put, tensors, text, texts};
use super::guard;
use super::ret::put_handle;
use super::types::{NDArrayHandle, SymbolHandle};
use crate::handle::{insert_symbol, symbol};

fn names(list: *mut *const c_char, n: u32) -> Result<HashSet<String>> {
    Ok(texts(list, n as usize, "op_names")?.into_iter().collect())
}

/// Partitions a graph for a backend: `MKLDNN` and `MKLDNN_QUANTIZE` group layers with their epilogues, `default` and `default_v2` group the
/// operators whose names were set.
#[unsafe(no_mangle)]
pub extern "C" fn MXGenBackendSubgraph(
    sym_handle: SymbolHandle,
    backend: *const c_char,
    ret_sym_handle: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let partitioned = partition::partition(&symbol(id(sym_handle))?, &text(backend, "backend")?)?;
        put_handle(ret_sym_handle, || Ok(insert_symbol(partitioned)))
    })
}

/// Like `MXGenBackendSubgraph`; there are no new arguments. As in MXNet, an unknown backend leaves the graph unchanged. Shapes and types
/// have no effect.
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
        let _ = (num_options, keys, vals, skip_infer, input_shape_names, input_shape_data, input_shape_idx);
        let _ = (num_input_shapes, num_input_dtypes, input_dtype_names, input_dtypes);
        let _ = (num_input_stypes, input_stype_names, input_stypes);
        let _ = (new_args_handle, new_arg_names_handle, new_aux_handle, new_aux_names_handle);
        check_arrays(dev_type, (args_len, in_args_handle), (aux_len, in_aux_handle))?;
        let optimized = partition::optimize(&symbol(id(sym_handle))?, &text(backend_name, "backend_name")?)?;
        put(new_args_cnt, 0, "new_args_cnt")?;
        put(new_aux_cnt, 0, "new_aux_cnt")?;
        put_handle(ret_sym_handle, || Ok(insert_symbol(optimized)))
    })
}

/// Checks the device and the arrays of a graph; missing arrays are null.
fn check_arrays(device: c_int, args: (u32, *mut NDArrayHandle), aux: (u32, *mut NDArrayHandle)) -> Result<()> {
    Context::from_codes(device, 0)?;
    for (n, handles) in [args, aux] {
        super::args::optional(handles, n as usize, |h| tensors(&h, 1, "arrays"))?;
    }
    Ok(())
}

/// Creates a symbol in which every maximal group of connected operators with these names is a `_CachedOp` node. The backend, `default` or
/// `default_v2`, keeps the names.
#[unsafe(no_mangle)]
pub extern "C" fn MXBuildSubgraphByOpNames(
    sym_handle: SymbolHandle,
    prop_name: *const c_char,
    num_ops: u32,
    op_names: *mut *const c_char,
    ret_sym_handle: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let ops = names(op_names, num_ops)?;
        let (symbol, backend) = (symbol(id(sym_handle))?, text(prop_name, "prop_name")?);
        // As in MXNet, even a backend that ignores the names, or does not exist, groups nothing without names.
        let built = if ops.is_empty() { symbol } else { partition::build(&symbol, &backend, ops)? };
        put_handle(ret_sym_handle, || Ok(insert_symbol(built)))
    })
}

/// Sets the names of operators that backend `MXNET_SUBGRAPH_BACKEND` groups when an executor is bound. Accepted without effect: executors
/// compile whole graphs, where groups change no result.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetSubgraphPropertyOpNames(
    prop_name: *const c_char,
    num_ops: u32,
    op_names: *mut *const c_char,
) -> c_int {
    guard(|| {
        text(prop_name, "prop_name")?;
        names(op_names, num_ops).map(|_| ())
    })
}

/// Sets the names of operators that a backend groups.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetSubgraphPropertyOpNamesV2(
    prop_name: *const c_char,
    num_ops: u32,
    op_names: *mut *const c_char,
) -> c_int {
    guard(|| partition::set_op_names(&text(prop_name, "prop_name")?, names(op_names, num_ops)?))
}

/// Removes the names that `MXSetSubgraphPropertyOpNames` set.
#[unsafe(no_mangle)]
pub extern "C" fn MXRemoveSubgraphPropertyOpNames(prop_name: *const c_char) -> c_int {
    guard(|| text(prop_name, "prop_name").map(|_| ()))
}

/// Removes the names that `MXSetSubgraphPropertyOpNamesV2` set.
#[unsafe(no_mangle)]
pub extern "C" fn MXRemoveSubgraphPropertyOpNamesV2(prop_name: *const c_char) -> c_int {
    guard(|| partition::remove_op_names(&text(prop_name, "prop_name")?))
}
