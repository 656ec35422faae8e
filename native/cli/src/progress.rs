//! Progress messages on standard error, if it is a terminal or on request.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Progress messages of a command.
pub(crate) struct Progress {
    /// True if messages are printed.
    is_shown: bool,
    /// True if a message overwrites the previous one.
    is_overwriting: bool,
    started: Instant,
}

impl Progress {
    /// Prints messages if standard error is a terminal, or if `is_requested` is true.
    pub(crate) fn new(is_requested: bool) -> Progress {
        let is_terminal = io::stderr().is_terminal();
        Progress { is_shown: is_requested || is_terminal, is_overwriting: is_terminal, started: Instant::now() }
    }

    /// Reports the current step.
    pub(crate) fn step(&self, what: &str) {
        if !self.is_shown {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        // Progress is optional, so a closed stream is not an error.
        let _ = match self.is_overwriting {
            true => write!(io::stderr(), "\r\x1b[K[{seconds:6.1} s] {what}"),
            false => writeln!(io::stderr(), "[{seconds:6.1} s] {what}"),
        };
    }

    /// Reports the current step of several.
    pub(crate) fn step_of(&self, number: usize, num_steps: usize, what: &str) {
        if self.is_shown {
            self.step(&format!("{number} of {num_steps}: {what}"));
        }
    }
}

impl Drop for Progress {
    /// Clears the message from a terminal.
    fn drop(&mut self) {
        if self.is_overwriting && self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
