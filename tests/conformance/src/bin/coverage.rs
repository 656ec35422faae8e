//! `coverage`: writes `docs/op-coverage.md`.

use std::io::{self, Write};
use std::process::ExitCode;

use ferromx_conformance::coverage;

fn main() -> ExitCode {
    let written = coverage::page().and_then(|page| {
        let path = coverage::path();
        std::fs::write(&path, page).map_err(|e| format!("{}: {e}", path.display()))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}
