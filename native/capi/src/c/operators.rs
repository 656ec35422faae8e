//! Operator names and metadata.

use std::ffi::{c_char, c_int, c_void};

use ferromx_runtime::error::Result;
use ferromx_runtime::op::OpDef;
use ferromx_runtime::registry;

use super::args::{id, put, raw, text};
use super::guard;
use super::ret::{Ret, put_text, put_texts};
use super::types::{AtomicSymbolCreator, OpHandle};
use crate::{gradient_names, handle};

fn put_operators(function: &'static str, size: *mut u32, out: *mut *mut *mut c_void) -> Result<()> {
    let names = registry::all().map(|op| op.name).chain(gradient_names::NAMES.iter().copied());
    let all = names.map(|name| Ok(raw(handle::operator(name)?))).collect::<Result<Vec<_>>>()?;
    let mut ret = Ret::new();
    put(size, all.len() as u32, "out_size")?;
    put(out, ret.list(all), "out_array")?;
    ret.keep(function);
    Ok(())
}

/// All names of operators and gradient operators.
fn names() -> Vec<&'static str> {
    let mut all = [registry::names(), gradient_names::NAMES].concat();
    all.sort_unstable();
    all
}

/// The canonical name of an operator, or the name of a gradient operator.
fn name_of(handle: *mut c_void) -> Result<&'static str> {
    let gradient = handle::gradient_name(id(handle)).map(Ok);
    gradient.unwrap_or_else(|| Ok(handle::operator_of(id(handle))?.1.name))
}

/// Lists the names and aliases of all operators, and the names of gradient operators. The array is valid until the next call on this
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXListAllOpNames(out_size: *mut u32, out_array: *mut *mut *const c_char) -> c_int {
    guard(|| put_texts("MXListAllOpNames", &names(), out_size, out_array))
}

/// Like `MXListAllOpNames`.
#[unsafe(no_mangle)]
pub extern "C" fn NNListAllOpNames(out_size: *mut u32, out_array: *mut *mut *const c_char) -> c_int {
    guard(|| put_texts("NNListAllOpNames", &names(), out_size, out_array))
}

/// Lists the handles of all operators, without aliases, and of all gradient operators. The array is valid until the next call on this
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListAtomicSymbolCreators(
    out_size: *mut u32,
    out_array: *mut *mut AtomicSymbolCreator,
) -> c_int {
    guard(|| put_operators("MXSymbolListAtomicSymbolCreators", out_size, out_array))
}

/// Like `MXSymbolListAtomicSymbolCreators`.
#[unsafe(no_mangle)]
pub extern "C" fn NNListUniqueOps(out_size: *mut u32, out_array: *mut *mut OpHandle) -> c_int {
    guard(|| put_operators("NNListUniqueOps", out_size, out_array))
}

/// Returns the handle of an operator. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn NNGetOpHandle(op_name: *const c_char, op_out: *mut OpHandle) -> c_int {
    guard(|| put(op_out, raw(handle::operator(&text(op_name, "op_name")?)?), "op_out"))
}

/// Returns the canonical name of an operator, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetAtomicSymbolName(creator: AtomicSymbolCreator, name: *mut *const c_char) -> c_int {
    guard(|| put_text("MXSymbolGetAtomicSymbolName", name_of(creator)?, name))
}

/// The out-parameters for an operator's arguments: number, names, type strings and descriptions.
pub(super) type Arguments = (*mut u32, *mut *mut *const c_char, *mut *mut *const c_char, *mut *mut *const c_char);

/// Describes an operator under one of its names. The pointers are into the result, on which the caller calls `Ret::keep`.
pub(super) fn describe(
    op: &str,
    def: Option<&OpDef>,
    (name, description): (*mut *const c_char, *mut *const c_char),
    (num_args, arg_names, arg_type_infos, arg_descriptions): Arguments,
    return_type: *mut *const c_char,
) -> Result<Ret> {
    let arguments = def.map(OpDef::arguments).unwrap_or_default();
    let mut ret = Ret::new();
    put(name, ret.text(op), "name")?;
    put(description, ret.text(def.map_or("The gradient of an operator.", |def| def.metadata.doc)), "description")?;
    put(num_args, arguments.len() as u32, "num_args")?;
    put(arg_names, ret.texts(arguments.iter().map(|a| a.0)), "arg_names")?;
    put(arg_type_infos, ret.texts(arguments.iter().map(|a| &a.1)), "arg_type_infos")?;
    put(arg_descriptions, ret.texts(arguments.iter().map(|a| &a.2)), "arg_descriptions")?;
    if !return_type.is_null() {
        put(return_type, ret.text(""), "return_type")?;
    }
    Ok(ret)
}

/// Describes an operator: name, description, arguments with type strings and descriptions, the argument that counts its inputs (empty if
/// their number is fixed), and return type. A gradient operator has no arguments. All pointers are valid until the next call on this
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetAtomicSymbolInfo(
    creator: AtomicSymbolCreator,
    name: *mut *const c_char,
    description: *mut *const c_char,
    num_args: *mut u32,
    arg_names: *mut *mut *const c_char,
    arg_type_infos: *mut *mut *const c_char,
    arg_descriptions: *mut *mut *const c_char,
    key_var_num_args: *mut *const c_char,
    return_type: *mut *const c_char,
) -> c_int {
    guard(|| {
        let op = name_of(creator)?;
        let def = registry::find(op).ok().map(|(_, def)| def);
        let arguments = (num_args, arg_names, arg_type_infos, arg_descriptions);
        let mut ret = describe(op, def, (name, description), arguments, return_type)?;
        put(key_var_num_args, ret.text(def.map_or("", OpDef::key_var_num_args)), "key_var_num_args")?;
        ret.keep("MXSymbolGetAtomicSymbolInfo");
        Ok(())
    })
}

/// Like `MXSymbolGetAtomicSymbolInfo`; `real_name` is the canonical name.
#[unsafe(no_mangle)]
pub extern "C" fn NNGetOpInfo(
    op: OpHandle,
    real_name: *mut *const c_char,
    description: *mut *const c_char,
    num_doc_args: *mut u32,
    arg_names: *mut *mut *const c_char,
    arg_type_infos: *mut *mut *const c_char,
    arg_descriptions: *mut *mut *const c_char,
    return_type: *mut *const c_char,
) -> c_int {
    guard(|| {
        let name = name_of(op)?;
        let def = registry::find(name).ok().map(|(_, def)| def);
        let arguments = (num_doc_args, arg_names, arg_type_infos, arg_descriptions);
        let ret = describe(name, def, (real_name, description), arguments, return_type)?;
        ret.keep("NNGetOpInfo");
        Ok(())
    })
}
