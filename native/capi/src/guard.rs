//! What both faces do with panics.

use std::any::Any;

/// The message of a caught panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!(
        "internal error: {}; please report it with the program that led here",
        text.unwrap_or("a panic without message")
    )
}
