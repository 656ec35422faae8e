//! `ferromx`: models of other frameworks in and out, and a look into files.

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
use ferromx_interop::framework::Framework;
use models::{Export, Source};
use progress::Progress;

/// What the exit codes mean.
const EXIT_CODES: &str = "Exit codes:
  0  done; also of `onnx run`, which writes what goes wrong with a model into its folder
  1  a model cannot be mapped, or a file cannot be read or written: the reason is on standard error
  2  the command line is wrong";

/// Models of other frameworks in and out of FerroMX, and a look into files.
#[derive(Parser)]
#[command(name = "ferromx", version, about, after_help = EXIT_CODES)]
struct Args {
    /// Shows how far the work is on standard error, also where that is no terminal.
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
    /// Shows what is in a file: a .params file, a -symbol.json graph or an ONNX model.
    Inspect {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum Onnx {
    /// Lists everything in a model that cannot be mapped; exit code 1 if there is something.
    Check {
        /// The model.
        file: PathBuf,
        /// Fixes the shape of an input: NAME=2,3,224,224; may be given several times. -1 leaves a dimension open.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        /// Reads tensors from other files in the model's directory.
        #[arg(long)]
        external_data: bool,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Writes a model as PREFIX-symbol.json and PREFIX-0000.params.
    Import {
        /// The model.
        file: PathBuf,
        /// Where the files go.
        prefix: String,
        /// Fixes the shape of an input: NAME=2,3,224,224; may be given several times. -1 leaves a dimension open.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        /// Reads tensors from other files in the model's directory.
        #[arg(long)]
        external_data: bool,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Writes PREFIX-symbol.json with PREFIX-EPOCH.params as a model.
    Export {
        /// Where the files lie.
        prefix: String,
        /// The number of the parameter file.
        epoch: u32,
        /// The model.
        file: PathBuf,
        /// The version of the operator set.
        #[arg(long)]
        opset: Option<i64>,
        /// The shape of an input: NAME=2,3,224,224; may be given several times. -1 leaves a dimension open.
        #[arg(long, value_name = "NAME=DIMS")]
        shape: Vec<String>,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Lists the mapping processes and rules.
    Rules {
        /// Only those that work in one direction.
        #[arg(long)]
        one_way: bool,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Runs the model of every folder in DIR: model.onnx on input_0.npy, input_1.npy, ... gives output_0.npy, ... or error.txt.
    Run {
        /// The folder of folders.
        dir: PathBuf,
        /// Also writes exported.onnx, the export of what was imported, or export_error.txt.
        #[arg(long)]
        export: bool,
        /// Imports models as they come, with their dimensions open, and binds them for the inputs.
        #[arg(long)]
        open: bool,
    },
}

#[derive(Subcommand)]
enum Nnef {
    /// Lists everything in a model that cannot be mapped; exit code 1 if there is something.
    Check {
        /// The folder of the model, or its file graph.nnef.
        model: PathBuf,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Writes a model as PREFIX-symbol.json and PREFIX-0000.params.
    Import {
        /// The folder of the model, or its file graph.nnef.
        model: PathBuf,
        /// Where the files go.
        prefix: String,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
    /// Lists the mapping processes and rules.
    Rules {
        /// Only those that work in one direction.
        #[arg(long)]
        one_way: bool,
        /// Adds operators, rules and processes from a mapping file to the built-in ones; may be given several times.
        #[arg(long, value_name = "FILE")]
        mappings: Vec<PathBuf>,
    },
}

fn onnx(command: Onnx, progress: Progress) -> ferromx_interop::Result<()> {
    let source = |file, external_data, mappings| Source { framework: Framework::Onnx, file, external_data, mappings };
    match command {
        Onnx::Check { file, shape, external_data, mappings } => {
            models::check(source(&file, external_data, &mappings), &shape, progress)
        }
        Onnx::Import { file, prefix, shape, external_data, mappings } => {
            models::import(source(&file, external_data, &mappings), &prefix, &shape, progress)
        }
        Onnx::Rules { one_way, mappings } => models::rules(Framework::Onnx, one_way, &mappings),
        Onnx::Run { dir, export, open } => cases::run(&dir, &Options { export, open }, progress),
        Onnx::Export { prefix, epoch, file, opset, shape, mappings } => {
            models::export(&prefix, epoch, &file, &Export { opset, shape: &shape, mappings: &mappings }, progress)
        }
    }
}

fn nnef(command: Nnef, progress: Progress) -> ferromx_interop::Result<()> {
    let source = |file, mappings| Source { framework: Framework::Nnef, file, external_data: true, mappings };
    match command {
        Nnef::Check { model, mappings } => models::check(source(&model, &mappings), &[], progress),
        Nnef::Import { model, prefix, mappings } => models::import(source(&model, &mappings), &prefix, &[], progress),
        Nnef::Rules { one_way, mappings } => models::rules(Framework::Nnef, one_way, &mappings),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let progress = Progress::new(args.progress);
    let done = match args.command {
        Command::Inspect { file } => inspect::inspect(&file),
        Command::Onnx(command) => onnx(command, progress),
        Command::Nnef(command) => nnef(command, progress),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Nobody may be reading any more; there is nothing to do about that.
            let _ = writeln!(std::io::stderr(), "ferromx: {e}");
            ExitCode::FAILURE
        }
    }
}
