//! Functions that run when the process ends.

#![allow(unsafe_code)] // The C library registers them.

use ferromx_core::ensure;
use ferromx_core::error::Result;

/// Registers a function that the process calls when it ends normally.
///
/// # Errors
/// The C library has no memory for it.
pub(super) fn register(function: extern "C" fn()) -> Result<()> {
    // SAFETY: the function lives as long as the library, which is never unloaded: threads of its pool run in it.
    let status = unsafe { libc::atexit(function) };
    ensure!(status == 0, "the C library cannot register a function for the end of the process");
    Ok(())
}
