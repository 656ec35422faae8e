//! Panic messages, for both interfaces.

use std::any::Any;

use ferromx_core::error::Error;
use ferromx_core::memory::OutOfMemory;

/// The message of a caught panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(OutOfMemory(bytes)) = payload.downcast_ref() {
        return Error::OutOfMemory(*bytes).to_string();
    }
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Error::Internal(text.unwrap_or("a panic without message").into()).to_string()
}
