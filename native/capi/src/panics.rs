//! The messages of caught panics, for both interfaces.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic;
use std::sync::Once;

use ferromx_runtime::error::Error;
use ferromx_runtime::memory::OutOfMemory;
use parking_lot::Mutex;

/// The message and the backtrace of the last panic on any thread; set only if `RUST_BACKTRACE` is set.
static LAST_BACKTRACE: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without message")
}

/// Installs a panic hook that records backtraces, unless it is installed. `catch_unwind` returns only the payload of a panic.
pub(crate) fn remember_backtraces() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let backtrace = Backtrace::capture();
            if backtrace.status() == BacktraceStatus::Captured {
                let text = text_of(info.payload());
                let message = info.location().map_or_else(|| text.to_string(), |at| format!("{text}\nat {at}"));
                *LAST_BACKTRACE.lock() = Some((message, backtrace));
            }
            default(info);
        }));
    });
}

/// The message of a caught panic, with its backtrace if `RUST_BACKTRACE` is set.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(OutOfMemory(bytes)) = payload.downcast_ref() {
        return Error::OutOfMemory(*bytes).to_string();
    }
    let text = text_of(payload);
    // Another thread may have panicked since and replaced the recorded backtrace.
    match LAST_BACKTRACE.lock().take_if(|(message, _)| message.starts_with(text)) {
        Some((message, backtrace)) => Error::Internal(format!("{message}\n{backtrace}")).to_string(),
        None => Error::Internal(text.into()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The environment variable that is set in the child processes of the test.
    const CHILD: &str = "FERROMX_TEST_PANICS";

    /// Panics in a guarded call and prints the message.
    fn panic_and_print() {
        remember_backtraces();
        let payload = panic::catch_unwind(|| assert_eq!(1, 2, "two differs")).unwrap_err();
        write!(std::io::stdout(), "<{}>", panic_message(payload.as_ref())).unwrap();
    }

    /// The message of a panic in a child process, because `RUST_BACKTRACE` is read only once per process.
    fn message(backtrace: &str) -> String {
        let test = ["--exact", "panics::tests::a_panic_keeps_its_backtrace", "--nocapture"];
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(test).env(CHILD, "1").env("RUST_BACKTRACE", backtrace).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text[text.find('<').unwrap()..].to_string()
    }

    #[test]
    fn a_panic_keeps_its_backtrace() {
        if std::env::var_os(CHILD).is_some() {
            return panic_and_print();
        }
        let with = message("1");
        assert!(with.contains("two differs") && with.contains("panic_and_print"), "{with}");
        let without = message("0");
        assert!(without.contains("two differs") && !without.contains("panics.rs"), "{without}");
    }
}
