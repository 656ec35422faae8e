//! `conformance [--all] [FAMILY ...]`: runs goldens in the engine and prints counts and failures.

use std::io::{self, Write};
use std::process::ExitCode;

use ferromx_conformance::engine::Engine;
use ferromx_conformance::golden;
use ferromx_conformance::suite::{self, Known};

/// Failures printed per family unless `--all` is given.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    match report() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _ = writeln!(io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

fn report() -> Result<bool, String> {
    let (options, mut families): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    if let Some(unknown) = options.iter().find(|o| *o != "--all") {
        return Err(format!("unknown option {unknown}; usage: conformance [--all] [FAMILY ...]"));
    }
    if families.is_empty() {
        families = golden::families(&golden::folder())?;
    }
    let known = Known::of_repository()?;
    std::panic::set_hook(Box::new(|_| {})); // a panic is reported with its case
    let mut right = true;
    let mut out = io::stdout().lock();
    for family in families {
        let report = suite::run(&Engine, &golden::folder(), &family, &known)?;
        right &= report.failures.is_empty();
        let print = |e: io::Error| e.to_string();
        writeln!(out, "{report}").map_err(print)?;
        let shown = if options.is_empty() { SHOWN } else { usize::MAX };
        for (id, message) in report.failures.iter().take(shown) {
            writeln!(out, "  {id}: {message}").map_err(print)?;
        }
        if report.failures.len() > shown {
            writeln!(out, "  ... and {} more (--all shows them)", report.failures.len() - shown).map_err(print)?;
        }
    }
    Ok(right)
}
