//! The C interface: MXNet 1.9.1's `c_api.h` and NNVM's `c_api.h`. Every function checks its arguments and returns 0, or -1 with a message
//! for `MXGetLastError`.
//!
//! - `types`: the types of the header; `args`: checked access to arguments and out-parameters; `ret`: results that the library owns;
//!   `number`: the integer types of sizes and dimensions.
//! - `ndarray`, `sparse`, `files`, `recordio`, `dlpack`, `shared_memory`: arrays, and their exchange with files, libraries and processes.
//! - `imperative`, `operators`, `autograd`, `cached_op`, `functions`, `packed`: operators and calls of them.
//! - `symbol`, `graph`, `infer`, `backend`, `precision`: symbols, inference, partitioning, conversion to lower precision.
//! - `executor`, `simple_bind`, `predict`: bound graphs.
//! - `custom`: user operators in C; `engine`: functions pushed to MXNet's engine.
//! - `kvstore`, `job`: key-value stores and distributed jobs; `data_iter`: data iterators.
//! - `library`, `profile`: global functions and the profiler; `unavailable`: functions that always fail.
#![allow(unsafe_code)]
#![allow(unreachable_pub)] // Functions are exported by name.

mod args;
mod autograd;
mod backend;
mod cached_op;
mod custom;
mod data_iter;
mod dlpack;
mod engine;
mod executor;
mod files;
mod functions;
mod graph;
mod imperative;
mod infer;
mod job;
mod kvstore;
mod library;
mod ndarray;
mod number;
mod operators;
mod packed;
mod precision;
mod predict;
mod profile;
mod recordio;
mod ret;
#[cfg(unix)]
mod shared_memory;
mod simple_bind;
mod sparse;
mod symbol;
mod types;
mod unavailable;

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferromx_runtime::error::{EXCEPTION_CLASSES, Result};
use ferromx_runtime::profiler;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The name of the exported function whose body is the closure `F`.
fn function_name<F>() -> &'static str {
    let path = std::any::type_name::<F>();
    path.strip_suffix("::{{closure}}").unwrap_or(path).rsplit("::").next().unwrap_or(path)
}

/// Moves the name of an exception class to the front of a message, where MXNet's Python front end expects it.
fn class_first(message: String) -> String {
    let class = EXCEPTION_CLASSES.into_iter().find_map(|class| {
        let start = message.find(class)?;
        (message.starts_with("Error in operator ") && message[..start].ends_with(": ")).then_some((class, start))
    });
    match class {
        Some((class, start)) => format!("{class}{}{}", &message[..start], &message[start + class.len()..]),
        None => message,
    }
}

/// Runs the body of an exported function. Errors and panics become -1 and the message of `MXGetLastError`.
pub(crate) fn guard<F: FnOnce() -> Result<()>>(body: F) -> c_int {
    crate::panics::remember_backtraces();
    let _measured = profiler::api(|| function_name::<F>().into());
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(e)) => class_first(e.to_string()),
        Err(payload) => crate::panics::panic_message(payload.as_ref()),
    };
    set_last_error(&message);
    -1
}

/// Stores a message for `MXGetLastError`.
fn set_last_error(message: &str) {
    // A C string ends at the first null byte.
    let text = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    LAST_ERROR.with_borrow_mut(|last| *last = text);
}

/// Returns the message of the last failed call on this thread. It is valid until the next call fails.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetLastError() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

/// Like `MXGetLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn NNGetLastError() -> *const c_char {
    MXGetLastError()
}
