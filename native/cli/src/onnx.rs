//! The commands on ONNX models.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use ferromx_core::file_format;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::Array;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions, Imported};
use ferromx_interop::ir::Model;
use ferromx_interop::mapping::ast::Direction;
use ferromx_interop::run::{self, Run};
use ferromx_interop::{Error, Result, mapping, onnx};
use ferromx_ops::sparse::cast::to_dense;
use ferromx_runtime::symbol::Symbol;
use indexmap::IndexMap;

use crate::npy;

/// Writes a line to standard output.
macro_rules! say {
    ($($arg:tt)*) => {
        writeln!(std::io::stdout(), $($arg)*).map_err(|e| ferromx_core::error::Error::io("standard output", &e))?
    };
}
pub(crate) use say;

/// Maps a model and reports what is wrong.
pub fn check(file: &Path, external_data: bool) -> Result<()> {
    let model = onnx::load(file, external_data)?;
    let imported = import::import(&model, &ImportOptions::default())?;
    say!("{}: all {} nodes can be mapped", file.display(), model.graph.nodes.len());
    describe(&imported)
}

fn describe(imported: &Imported) -> Result<()> {
    for input in &imported.inputs {
        let element = input.element.as_ref().map_or("unknown type".to_string(), ToString::to_string);
        say!("  input   {} {} {}", input.name, element, input.shape());
    }
    for (name, head) in imported.outputs.iter().zip(imported.symbol.list_outputs()) {
        say!("  output  {name} ({head})");
    }
    Ok(())
}

fn shapes(texts: &[String]) -> Result<HashMap<String, Vec<i64>>> {
    let parse = |text: &String| {
        let (name, dims) = text.rsplit_once('=')?;
        let dims: Option<Vec<i64>> =
            dims.split(',').filter(|d| !d.is_empty()).map(|d| d.trim().parse().ok().filter(|d| *d >= -1)).collect();
        Some((name.to_string(), dims?))
    };
    let wrong = |text: &String| Error::value(format!("'{text}' is no shape of an input: write NAME=2,3,224,224"));
    texts.iter().map(|text| parse(text).ok_or_else(|| wrong(text))).collect()
}

/// Writes a model in our formats.
pub fn import(file: &Path, prefix: &str, shape: &[String], external_data: bool) -> Result<()> {
    let options = ImportOptions { shapes: shapes(shape)?, ..ImportOptions::default() };
    let model = onnx::load(file, external_data)?;
    let imported = import::import(&model, &options)?;
    let symbol = format!("{prefix}-symbol.json");
    let params = format!("{prefix}-0000.params");
    imported.symbol.save(&symbol)?;
    let named = |kind: &str, map: &indexmap::IndexMap<String, NDArray>| {
        map.iter().map(|(n, a)| (format!("{kind}:{n}"), Array::Dense(a.clone()))).collect::<Vec<_>>()
    };
    let all = [named("arg", &imported.args), named("aux", &imported.aux)].concat();
    let (names, arrays): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    file_format::save(&params, &arrays, &names)?;
    say!("{symbol}\n{params}");
    describe(&imported)
}

/// Writes a graph of ours as a model.
pub fn export(prefix: &str, epoch: u32, file: &Path, opset: Option<i64>, shape: &[String]) -> Result<()> {
    let symbol = Symbol::load(&format!("{prefix}-symbol.json"))?;
    let path = format!("{prefix}-{epoch:04}.params");
    let loaded = file_format::load(&path)?;
    let mut params = IndexMap::new();
    for (name, array) in loaded.names.iter().zip(&loaded.arrays) {
        let name = name.strip_prefix("arg:").or(name.strip_prefix("aux:")).unwrap_or(name);
        if let Some(array) = array {
            params.insert(name.to_string(), to_dense(array)?);
        }
    }
    let shapes = shapes(shape)?.into_iter().map(|(name, dims)| (name, Shape::new(&dims))).collect();
    let options = ExportOptions { shapes, opset, ..ExportOptions::default() };
    let model = export::export(&symbol, &params, &options)?;
    onnx::save(&model, file)?;
    say!("{}: {} nodes, {} parameters", file.display(), model.graph.nodes.len(), model.graph.constants.len());
    Ok(())
}

/// Lists the mapping processes.
pub fn rules(one_way: bool) -> Result<()> {
    for p in mapping::table()?.processes() {
        let arrow = match p.direction {
            Direction::Both if one_way => continue,
            Direction::Both => "<->",
            Direction::Import => "->",
            Direction::Export => "<-",
        };
        let domain = if p.domain.is_empty() { String::new() } else { format!("{}.", p.domain) };
        let until = if p.until == i64::MAX { String::new() } else { p.until.to_string() };
        say!("{domain}{:<28} {:>2}..{until:<3} {arrow:<4} {}:{}", p.name, p.since, p.file, p.line);
    }
    if !one_way {
        say!("\nRules:");
        for rule in mapping::rules::all() {
            let reverse = if rule.reverse.is_some() { " (both directions)" } else { "" };
            say!("  {}{}{reverse}\n      {}", rule.name, rule.signature, rule.doc);
        }
    }
    Ok(())
}

/// Runs all cases of a folder.
pub fn run(dir: &Path, export: bool) -> Result<()> {
    let io = |e: std::io::Error| Error::Engine(ferromx_core::error::Error::io(dir.display(), &e));
    let mut cases: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.join("model.onnx").is_file() {
            cases.push(path);
        }
    }
    cases.sort();
    if cases.is_empty() {
        return Err(Error::value(format!("{}: there is no folder with a model.onnx in it", dir.display())));
    }
    let mut failed = 0usize;
    for case in &cases {
        remove_results(case)?;
        if let Err(e) = run_case(case, export) {
            failed += 1;
            write_text(&case.join("error.txt"), &format!("{e}\n"))?;
        }
    }
    say!("{} of {} models ran", cases.len() - failed, cases.len());
    Ok(())
}

/// Removes what an earlier run left, so that nobody takes it for a result of this one.
fn remove_results(case: &Path) -> Result<()> {
    let mut old = vec![case.join("error.txt"), case.join("exported.onnx"), case.join("export_error.txt")];
    old.extend((0..).map(|i| case.join(format!("output_{i}.npy"))).take_while(|p| p.exists()));
    for path in old.iter().filter(|p| p.exists()) {
        std::fs::remove_file(path).map_err(|e| ferromx_core::error::Error::io(path.display(), &e))?;
    }
    Ok(())
}

fn run_case(case: &Path, export: bool) -> Result<()> {
    let model = onnx::load(&case.join("model.onnx"), true)?;
    let mut inputs = HashMap::new();
    for (i, info) in model.graph.inputs.iter().enumerate() {
        let mut array = npy::read(&case.join(format!("input_{i}.npy")))?;
        // NumPy has no bfloat16: such inputs come as float32.
        if let Some(element) = &info.element {
            let wanted = element.ours()?;
            if wanted == ferromx_core::dtype::DType::BF16 && array.dtype() == ferromx_core::dtype::DType::F32 {
                let narrow = NDArray::empty(array.shape(), wanted, array.context())?;
                ferromx_runtime::arrays::write_converted(&narrow, array.to_vec::<f32>()?.into_iter())?;
                array = narrow;
            }
        }
        inputs.insert(info.name.clone(), array);
    }
    let given: Vec<(String, NDArray)> = inputs.iter().map(|(n, a)| (n.clone(), a.clone())).collect();
    let (outputs, how) = run::run(&model, inputs)?;
    for (i, array) in outputs.iter().enumerate() {
        npy::write(&case.join(format!("output_{i}.npy")), array)?;
    }
    let exported = match how {
        _ if !export => Ok(()),
        Run::Graph(imported) => export_case(case, &model, &imported, &given),
        Run::Executed => Err(Error::unsupported(
            "the model was executed node by node, since its shapes depend on data: there is no graph that could be exported",
        )),
    };
    // The model ran, so this is no error of the case.
    match exported {
        Ok(()) => Ok(()),
        Err(e) => write_text(&case.join("export_error.txt"), &format!("{e}\n")),
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    Ok(std::fs::write(path, text).map_err(|e| ferromx_core::error::Error::io(path.display(), &e))?)
}

/// Exports what was imported, for inputs of the shapes that were given.
fn export_case(case: &Path, model: &Model, imported: &Imported, inputs: &[(String, NDArray)]) -> Result<()> {
    let params = imported.args.iter().chain(&imported.aux).map(|(n, a)| (n.clone(), a.clone())).collect();
    let options = ExportOptions {
        shapes: inputs.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect(),
        dtypes: inputs.iter().map(|(n, a)| (n.clone(), a.dtype())).collect(),
        outputs: imported.outputs.clone(),
        unused_inputs: model.graph.inputs.clone(),
        opset: None,
    };
    let model = export::export(&imported.symbol, &params, &options)?;
    onnx::save(&model, &case.join("exported.onnx"))
}
