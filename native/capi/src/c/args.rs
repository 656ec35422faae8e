//! Arguments that come as pointers: checked for null, then read.

use std::ffi::{CStr, c_char};

use ferromx_core::error::{Error, Result};

fn null(what: &str) -> Error {
    Error::Value(format!("the pointer {what} is null"))
}

/// A C string. Bytes that are no UTF-8 are replaced.
pub fn text(p: *const c_char, what: &str) -> Result<String> {
    if p.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; by the contract of the C API it points to a string that ends with a zero byte.
    Ok(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

/// Writes a result through a pointer.
pub fn put<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    if out.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; by the contract of the C API it points to memory for one value.
    unsafe { out.write(value) };
    Ok(())
}
