//! `ferromx`: models of other frameworks in and out, and a look into files.

mod inspect;
mod npy;
mod onnx;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Models of other frameworks in and out of FerroMX, and a look into files.
#[derive(Parser)]
#[command(name = "ferromx", version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// ONNX models.
    #[command(subcommand)]
    Onnx(Onnx),
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
        /// Reads tensors from other files in the model's directory.
        #[arg(long)]
        external_data: bool,
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
    },
    /// Lists the mapping processes and rules.
    Rules {
        /// Only those that work in one direction.
        #[arg(long)]
        one_way: bool,
    },
    /// Runs the model of every folder in DIR: model.onnx on input_0.npy, input_1.npy, ... gives output_0.npy, ... or error.txt.
    Run {
        /// The folder of folders.
        dir: PathBuf,
        /// Also writes exported.onnx, the export of what was imported, or export_error.txt.
        #[arg(long)]
        export: bool,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Inspect { file } => inspect::inspect(&file),
        Command::Onnx(Onnx::Check { file, external_data }) => onnx::check(&file, external_data),
        Command::Onnx(Onnx::Import { file, prefix, shape, external_data }) => {
            onnx::import(&file, &prefix, &shape, external_data)
        }
        Command::Onnx(Onnx::Rules { one_way }) => onnx::rules(one_way),
        Command::Onnx(Onnx::Run { dir, export }) => onnx::run(&dir, export),
        Command::Onnx(Onnx::Export { prefix, epoch, file, opset, shape }) => {
            onnx::export(&prefix, epoch, &file, opset, &shape)
        }
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
