//! Operator names and metadata.

use std::ffi::{c_char, c_int, c_void};

use ferromx_ops::registry;

use super::args::{put, text};
use super::guard;
use super::ret::Ret;
use crate::handle;

/// Lists the names and aliases of all operators. The array is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXListAllOpNames(out_size: *mut u32, out_array: *mut *const *const c_char) -> c_int {
    guard(|| {
        let mut ret = Ret::new();
        put(out_size, registry::names().len() as u32, "out_size")?;
        put(out_array, ret.texts(registry::names()), "out_array")?;
        ret.keep("MXListAllOpNames");
        Ok(())
    })
}

/// Gives the handle of an operator. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn NNGetOpHandle(op_name: *const c_char, op_out: *mut *const c_void) -> c_int {
    guard(|| put(op_out, handle::operator(&text(op_name, "op_name")?)? as usize as *const c_void, "op_out"))
}

/// Describes an operator: its name, description, arguments with type strings and descriptions, the argument that counts its inputs
/// (empty if their number is fixed), and its return type. All pointers are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetAtomicSymbolInfo(
    creator: *const c_void,
    name: *mut *const c_char,
    description: *mut *const c_char,
    num_args: *mut u32,
    arg_names: *mut *const *const c_char,
    arg_type_infos: *mut *const *const c_char,
    arg_descriptions: *mut *const *const c_char,
    key_var_num_args: *mut *const c_char,
    return_type: *mut *const c_char,
) -> c_int {
    guard(|| {
        let (op, def) = handle::operator_of(creator as usize as u64)?;
        let arguments = def.arguments();
        let mut ret = Ret::new();
        put(name, ret.text(op), "name")?;
        put(description, ret.text(def.doc), "description")?;
        put(num_args, arguments.len() as u32, "num_args")?;
        put(arg_names, ret.texts(arguments.iter().map(|a| a.0)), "arg_names")?;
        put(arg_type_infos, ret.texts(arguments.iter().map(|a| &a.1)), "arg_type_infos")?;
        put(arg_descriptions, ret.texts(arguments.iter().map(|a| a.2)), "arg_descriptions")?;
        put(key_var_num_args, ret.text(def.key_var_num_args()), "key_var_num_args")?;
        if !return_type.is_null() {
            put(return_type, ret.text(""), "return_type")?;
        }
        ret.keep("MXSymbolGetAtomicSymbolInfo");
        Ok(())
    })
}
