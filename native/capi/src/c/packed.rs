//! Packed functions, of which this library has none: everything that can be called is an operator or stands in the C API.

use std::ffi::{c_char, c_int};

use super::args::{put, text};
use super::guard;
use super::types::MXNetFunctionHandle;

/// Lists the packed functions. There are none.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncListGlobalNames(out_size: *mut c_int, out_array: *mut *mut *const c_char) -> c_int {
    guard(|| {
        put(out_size, 0, "out_size")?;
        put(out_array, std::ptr::null_mut(), "out_array")
    })
}

/// Gives the packed function of a name; null says that there is none.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncGetGlobal(name: *const c_char, out: *mut MXNetFunctionHandle) -> c_int {
    guard(|| {
        text(name, "name")?;
        put(out, std::ptr::null_mut(), "out")
    })
}
