//! `onnx run`: runs the model of each folder on its recorded inputs.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions, Imported};
use ferromx_interop::ir::Model;
use ferromx_interop::run::{self, Run};
use ferromx_interop::{Error, Result, onnx};
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error;
use ferromx_runtime::ndarray::NDArray;

use crate::models::say;
use crate::npy;
use crate::progress::Progress;

/// Options of `onnx run`.
pub(crate) struct Options {
    /// Export each imported model again.
    pub export: bool,
    /// Import with dynamic dimensions, without the shapes of the inputs.
    pub dynamic: bool,
}

/// Runs all cases of a folder.
pub(crate) fn run(dir: &Path, options: &Options, progress: Progress) -> Result<()> {
    let io = |e: std::io::Error| Error::Engine(error::Error::io(dir.display(), &e));
    let mut cases: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.join("model.onnx").is_file() {
            cases.push(path);
        }
    }
    cases.sort();
    if cases.is_empty() {
        return Err(Error::value(format!("{}: no folder in it has a model.onnx", dir.display())));
    }
    let mut num_failed = 0usize;
    for (i, case) in cases.iter().enumerate() {
        progress.step_of(i + 1, cases.len(), &case.display().to_string());
        remove_results(case)?;
        if let Err(e) = run_case(case, options) {
            num_failed += 1;
            write_text(&case.join("error.txt"), &format!("{e}\n"))?;
        }
    }
    drop(progress);
    say!("{} of {} models ran", cases.len() - num_failed, cases.len());
    Ok(())
}

/// Removes the results of an earlier run, so that none remain if this run fails.
fn remove_results(case: &Path) -> Result<()> {
    let mut old = vec![case.join("error.txt"), case.join("exported.onnx"), case.join("export_error.txt")];
    old.extend((0..).map(|i| case.join(format!("output_{i}.npy"))).take_while(|p| p.exists()));
    for path in old.iter().filter(|p| p.exists()) {
        std::fs::remove_file(path).map_err(|e| error::Error::io(path.display(), &e))?;
    }
    Ok(())
}

fn run_case(case: &Path, options: &Options) -> Result<()> {
    let model = onnx::load_with_external_data(&case.join("model.onnx"))?;
    let mut inputs = HashMap::new();
    for (i, info) in model.graph.inputs.iter().enumerate() {
        let mut array = npy::read(&case.join(format!("input_{i}.npy")))?;
        // NumPy has no bfloat16, so such inputs are stored as float32.
        if let Some(element) = &info.element {
            let dtype = element.dtype()?;
            if dtype == DType::BF16 && array.dtype() == DType::F32 {
                let converted = NDArray::empty(array.shape(), dtype, array.context())?;
                converted.copy_from_slice_as(&array.to_vec::<f32>()?)?;
                array = converted;
            }
        }
        inputs.insert(info.name.clone(), array);
    }
    let input_list: Vec<(String, NDArray)> = inputs.iter().map(|(n, a)| (n.clone(), a.clone())).collect();
    let (outputs, run) = match options.dynamic {
        true => {
            let imported = import::import(&model, &ImportOptions::default())?;
            (run::bind_and_run(&imported, &inputs)?, Run::Graph(Box::new(imported)))
        }
        false => run::run(&model, inputs)?,
    };
    for (i, (array, info)) in outputs.iter().zip(&model.graph.outputs).enumerate() {
        npy::write(&case.join(format!("output_{i}.npy")), array, info.element.as_ref())?;
    }
    let exported = match run {
        _ if !options.export => Ok(()),
        Run::Graph(imported) if options.dynamic => export_case(case, &model, &imported, &[]),
        Run::Graph(imported) => export_case(case, &model, &imported, &input_list),
        Run::Executed => Err(Error::unsupported(
            "the model was executed node by node, because its shapes depend on data: there is no graph to export",
        )),
    };
    // The model itself ran, so a failed export does not fail the case.
    match exported {
        Ok(()) => Ok(()),
        Err(e) => write_text(&case.join("export_error.txt"), &format!("{e}\n")),
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    Ok(std::fs::write(path, text).map_err(|e| error::Error::io(path.display(), &e))?)
}

/// Exports the imported model for the shapes of these inputs, or for the declared shapes if there are none.
fn export_case(case: &Path, model: &Model, imported: &Imported, inputs: &[(String, NDArray)]) -> Result<()> {
    let params = imported.params();
    let options = ExportOptions {
        shapes: inputs.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect(),
        dtypes: inputs.iter().map(|(n, a)| (n.clone(), a.dtype())).collect(),
        outputs: imported.outputs.clone(),
        inputs: model.graph.inputs.clone(),
        ..ExportOptions::default()
    };
    let model = export::export(&imported.symbol, &params, &options)?;
    onnx::save(&model, &case.join("exported.onnx"))
}
