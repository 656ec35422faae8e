//! Runs goldens and prints counts and failures.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ferromx_conformance::Runner;
use ferromx_conformance::c_api::Library;
use ferromx_conformance::engine::Engine;
use ferromx_conformance::golden;
use ferromx_conformance::process::Process;
use ferromx_conformance::suite::{self, Known};

/// Failures printed per family unless `--all` is given.
const SHOWN: usize = 10;

/// Compares the engine's answers with MXNet's.
#[derive(Parser)]
struct Options {
    /// Print all failures, not only the first ten of a family.
    #[arg(long)]
    all: bool,
    /// Call the C API of this library instead of the engine in this program.
    #[arg(long)]
    library: Option<PathBuf>,
    /// Ask this program instead; its command line, separated by spaces.
    #[arg(long, conflicts_with = "library")]
    program: Option<String>,
    /// The families to run; by default all.
    families: Vec<String>,
}

fn main() -> ExitCode {
    match report(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _ = writeln!(io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

fn report(options: Options) -> Result<bool, String> {
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let runner: Box<dyn Runner> = match (&options.library, &options.program) {
        (Some(path), _) => Box::new(Library::open(path)?),
        (None, Some(command)) => Box::new(Process::start(&words(command))?),
        (None, None) => Box::new(Engine),
    };
    let mut families = options.families;
    if families.is_empty() {
        families = golden::families(&golden::folder())?;
    }
    let known = Known::of_repository()?;
    std::panic::set_hook(Box::new(|_| {})); // a panic is reported with its case
    let mut right = true;
    let mut out = io::stdout().lock();
    for family in families {
        let report = suite::run(&*runner, &golden::folder(), &family, &known)?;
        right &= report.failures.is_empty();
        let print = |e: io::Error| e.to_string();
        writeln!(out, "{report}").map_err(print)?;
        let shown = if options.all { usize::MAX } else { SHOWN };
        for (id, message) in report.failures.iter().take(shown) {
            writeln!(out, "  {id}: {message}").map_err(print)?;
        }
        if report.failures.len() > shown {
            writeln!(out, "  ... and {} more (--all shows them)", report.failures.len() - shown).map_err(print)?;
        }
    }
    Ok(right)
}
