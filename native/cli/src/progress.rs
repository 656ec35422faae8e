//! How far long work is, on standard error: on a terminal, or where it is asked for.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Reports of a command.
pub struct Progress {
    /// Whether reports are shown at all.
    shown: bool,
    /// Whether a report takes the place of the one before.
    in_place: bool,
    started: Instant,
}

impl Progress {
    /// Reports if standard error is a terminal, and also where it is none if they are wanted.
    pub fn new(wanted: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        Progress { shown: wanted || terminal, in_place: terminal, started: Instant::now() }
    }

    /// What is being done now.
    pub fn step(&self, what: &str) {
        if !self.shown {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        // Nobody may be reading any more; there is nothing to do about that.
        let _ = match self.in_place {
            true => write!(io::stderr(), "\r\x1b[K[{seconds:6.1} s] {what}"),
            false => writeln!(io::stderr(), "[{seconds:6.1} s] {what}"),
        };
    }

    /// What is being done now, as one of several.
    pub fn step_of(&self, number: usize, all: usize, what: &str) {
        if self.shown {
            self.step(&format!("{number} of {all}: {what}"));
        }
    }
}

impl Drop for Progress {
    /// Leaves nothing on a terminal.
    fn drop(&mut self) {
        if self.in_place && self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
