//! `ferromx`: imports, exports and runs models of other frameworks, and prints the content of files.
//!
//! - `models`: the commands that check, import and export a model or list mappings; `cases`: `onnx run`; `inspect`: `inspect`.
//! - `npy`: NumPy's files; `progress`: progress messages.

mod cases;
mod inspect;
mod models;
mod npy;
mod progress;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cases::Options;
use clap::{Parser, Subcommand};
use ferromx_interop::ir::Framework;
use models::{Export, Source};
use progress::Progress;

/// The part of the help text about exit codes.
const EXIT_CODES: &str = "Exit codes:
  0  success; `onnx run` also succeeds if some models failed, and writes their errors to their folders
  1  a model cannot be mapped, or a file cannot be read or written; the reason is on standard error
  2  the command line is invalid";

/// Imports, exports, checks and runs ONNX and NNEF models, and prints the content of model files.
#[derive(Parser)]
#[command(name = "ferromx", version, about, after_help = EXIT_CODES)]
struct Args {
    /// Shows progress on standard error even if it is not a terminal.
    #[arg(long, global = true)]
    progress: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// ONNX models.
    #[command(subcommand)]
    Onnx(Onnx),
    /// NNEF models.
    #[command(subcommand)]
    Nnef(Nnef),
    /// Prints the content of a .params file, a -symbol.json graph or an ONNX model.
    Inspect {
        /// The file to print.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum Onnx {
    /// Lists everything in a model that cannot be mapped, or the reason why it cannot be bound; the exit code is then 1.
    Check {
        /// The ONNX file to check.
        file: PathBuf,
        /// Fixes the shape of an input: NAME=2,3,224,224; may be repeated. -1 is a dynamic dimension.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        /// Reads tensors from other files in the model's directory.
        #[arg(long)]
        external_data: bool,
        #[command(flatten)]
        added: Added,
    },
    /// Imports a model and writes PREFIX-symbol.json and PREFIX-0000.params.
    Import {
        /// The ONNX file to import.
        file: PathBuf,
        /// Prefix of the written files.
        prefix: String,
        /// Fixes the shape of an input: NAME=2,3,224,224; may be repeated. -1 is a dynamic dimension.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        /// Reads tensors from other files in the model's directory.
        #[arg(long)]
        external_data: bool,
        #[command(flatten)]
        added: Added,
    },
    /// Exports PREFIX-symbol.json with PREFIX-EPOCH.params as an ONNX model.
    Export {
        /// Prefix of the files to export.
        prefix: String,
        /// The epoch, as in the name of the parameter file.
        epoch: u32,
        /// The ONNX file to write.
        file: PathBuf,
        /// The version of ONNX's operator set to use.
        #[arg(long)]
        opset: Option<i64>,
        /// The shape of an input: NAME=2,3,224,224; may be repeated. -1 is a dynamic dimension.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        #[command(flatten)]
        added: Added,
    },
    /// Lists the mapping processes and rules.
    Rules {
        /// Lists only the processes that work in one direction.
        #[arg(long)]
        one_way: bool,
        #[command(flatten)]
        added: Added,
    },
    /// Runs model.onnx in every folder of DIR on input_0.npy, input_1.npy, ... and writes output_0.npy, ... or error.txt.
    Run {
        /// The folder with one folder per model.
        dir: PathBuf,
        /// Also exports each imported model to exported.onnx, or writes export_error.txt.
        #[arg(long)]
        export: bool,
        /// Imports models with dynamic dimensions and binds them for the shapes of the inputs.
        #[arg(long)]
        dynamic: bool,
    },
}

#[derive(Subcommand)]
enum Nnef {
    /// Lists everything in a model that cannot be mapped, or the reason why it cannot be bound; the exit code is then 1.
    Check {
        /// The folder of the model, or its file graph.nnef.
        model: PathBuf,
        #[command(flatten)]
        added: Added,
    },
    /// Imports a model and writes PREFIX-symbol.json and PREFIX-0000.params.
    Import {
        /// The folder of the model, or its file graph.nnef.
        model: PathBuf,
        /// Prefix of the written files.
        prefix: String,
        #[command(flatten)]
        added: Added,
    },
    /// Lists the mapping processes and rules.
    Rules {
        /// Lists only the processes that work in one direction.
        #[arg(long)]
        one_way: bool,
        #[command(flatten)]
        added: Added,
    },
}

// No doc comment: clap would print it as the description of the commands.
#[derive(clap::Args)]
struct Added {
    /// Adds the operators, rules and processes of a mapping file to the built-in ones; may be repeated.
    #[arg(long, value_name = "FILE")]
    mappings: Vec<PathBuf>,
}

fn onnx(command: Onnx, progress: Progress) -> ferromx_interop::Result<()> {
    let source = |file, external_data, mappings| Source { framework: Framework::Onnx, file, external_data, mappings };
    match command {
        Onnx::Check { file, shape, external_data, added } => {
            models::check(source(&file, external_data, &added.mappings), &shape, progress)
        }
        Onnx::Import { file, prefix, shape, external_data, added } => {
            models::import(source(&file, external_data, &added.mappings), &prefix, &shape, progress)
        }
        Onnx::Rules { one_way, added } => models::rules(Framework::Onnx, one_way, &added.mappings),
        Onnx::Run { dir, export, dynamic } => cases::run(&dir, &Options { export, dynamic }, progress),
        Onnx::Export { prefix, epoch, file, opset, shape, added } => {
            models::export(&prefix, epoch, &file, &Export { opset, shape: &shape, mappings: &added.mappings }, progress)
        }
    }
}

fn nnef(command: Nnef, progress: Progress) -> ferromx_interop::Result<()> {
    let source = |file, mappings| Source { framework: Framework::Nnef, file, external_data: true, mappings };
    match command {
        Nnef::Check { model, added } => models::check(source(&model, &added.mappings), &[], progress),
        Nnef::Import { model, prefix, added } => {
            models::import(source(&model, &added.mappings), &prefix, &[], progress)
        }
        Nnef::Rules { one_way, added } => models::rules(Framework::Nnef, one_way, &added.mappings),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let progress = Progress::new(args.progress);
    let result = match args.command {
        Command::Inspect { file } => inspect::inspect(&file),
        Command::Onnx(command) => onnx(command, progress),
        Command::Nnef(command) => nnef(command, progress),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Standard error may be closed; there is nowhere else to report to.
            let _ = writeln!(std::io::stderr(), "ferromx: {e}");
            ExitCode::FAILURE
        }
    }
}
