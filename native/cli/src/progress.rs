//! Progress messages on standard error, if it is a terminal or on request.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Progress messages of a command.
pub(crate) struct Progress {
    /// True if messages are printed.
    shown: bool,
    /// True if a message overwrites the previous one.
    overwrites: bool,
    started: Instant,
}

impl Progress {
    /// Prints messages if standard error is a terminal or if they are wanted.
    pub(crate) fn new(wanted: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        Progress { shown: wanted || terminal, overwrites: terminal, started: Instant::now() }
    }

    /// Reports the current step.
    pub(crate) fn step(&self, what: &str) {
        if !self.shown {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        // Progress is optional, so a closed stream is not an error.
        let _ = match self.overwrites {
            true => write!(io::stderr(), "\r\x1b[K[{seconds:6.1} s] {what}"),
            false => writeln!(io::stderr(), "[{seconds:6.1} s] {what}"),
        };
    }

    /// Reports the current step of several.
    pub(crate) fn step_of(&self, number: usize, all: usize, what: &str) {
        if self.shown {
            self.step(&format!("{number} of {all}: {what}"));
        }
    }
}

impl Drop for Progress {
    /// Clears the message from a terminal.
    fn drop(&mut self) {
        if self.overwrites && self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
