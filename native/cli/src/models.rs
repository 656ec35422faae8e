//! The commands that check, import and export models of other frameworks, and list mappings.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions, Imported};
use ferromx_interop::ir::{Framework, Model};
use ferromx_interop::mapping::Mappings;
use ferromx_interop::mapping::ast::Direction;
use ferromx_interop::{Error, Result, nnef, onnx};
use ferromx_runtime::arrays::to_dense;
use ferromx_runtime::file_format;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::symbol::Symbol;
use indexmap::IndexMap;

use crate::progress::Progress;

/// Writes a line to standard output.
macro_rules! say {
    ($($arg:tt)*) => {
        writeln!(std::io::stdout(), $($arg)*).map_err(|e| ferromx_runtime::error::Error::io("standard output", &e))?
    };
}
pub(crate) use say;

/// A model of another framework.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Its framework.
    pub framework: Framework,
    /// Its file, or folder for NNEF.
    pub file: &'a Path,
    /// True if tensors may be in other files of the directory. For NNEF they always are.
    pub external_data: bool,
    /// Mapping files besides the built-in ones.
    pub mappings: &'a [PathBuf],
}

impl Source<'_> {
    fn load(&self, progress: &Progress) -> Result<Model> {
        progress.step(&format!("reading {}", self.file.display()));
        match self.framework {
            Framework::Onnx if self.external_data => onnx::load_with_external_data(self.file),
            Framework::Onnx => onnx::load(self.file),
            Framework::Nnef => nnef::load(self.file),
        }
    }

    /// Loads the model, and returns the options of an import with these shapes of inputs.
    fn prepare(&self, shape: &[String], progress: &Progress) -> Result<(Model, ImportOptions)> {
        let mappings = mappings(self.framework, self.mappings)?;
        let options = ImportOptions { shapes: shapes(shape)?, mappings, ..ImportOptions::default() };
        let model = self.load(progress)?;
        progress.step(&format!("mapping {} nodes", model.graph.nodes.len()));
        Ok((model, options))
    }
}

/// Maps a model and reports its problems.
pub(crate) fn check(source: Source<'_>, shape: &[String], progress: Progress) -> Result<()> {
    let (model, options) = source.prepare(shape, &progress)?;
    let imported = import::check(&model, &options)?;
    drop(progress);
    let file = source.file;
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

/// The framework's mappings extended by files, or `None` if there are no files.
fn mappings(framework: Framework, files: &[PathBuf]) -> Result<Option<Arc<Mappings>>> {
    let read = |file: &PathBuf| {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|e| ferromx_runtime::error::Error::io(&name, &e))?;
        Ok((name, text))
    };
    let files = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    if files.is_empty() { Ok(None) } else { Ok(Some(Arc::new(Mappings::read(framework, &files)?))) }
}

fn shapes(texts: &[String]) -> Result<HashMap<String, Vec<i64>>> {
    let parse = |text: &String| {
        let (name, dims) = text.rsplit_once('=')?;
        let dims: Option<Vec<i64>> =
            dims.split(',').filter(|d| !d.is_empty()).map(|d| d.trim().parse().ok().filter(|d| *d >= -1)).collect();
        Some((name.to_string(), dims?))
    };
    let error = |text: &String| Error::value(format!("'{text}' is not the shape of an input: write NAME=2,3,224,224"));
    texts.iter().map(|text| parse(text).ok_or_else(|| error(text))).collect()
}

/// Imports a model and writes it as a checkpoint.
pub(crate) fn import(source: Source<'_>, prefix: &str, shape: &[String], progress: Progress) -> Result<()> {
    let (model, options) = source.prepare(shape, &progress)?;
    let imported = import::import(&model, &options)?;
    let symbol = format!("{prefix}-symbol.json");
    let params = format!("{prefix}-0000.params");
    progress.step(&format!("writing {params}"));
    imported.symbol.save(&symbol)?;
    let named = |kind: &str, map: &IndexMap<String, NDArray>| {
        map.iter().map(|(n, a)| (format!("{kind}:{n}"), Array::Dense(a.clone()))).collect::<Vec<_>>()
    };
    let all = [named("arg", &imported.args), named("aux", &imported.aux)].concat();
    let (names, arrays): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    file_format::save(&params, &arrays, &names)?;
    drop(progress);
    say!("{symbol}\n{params}");
    describe(&imported)
}

/// Options of an export.
pub(crate) struct Export<'a> {
    /// The version of the operator set.
    pub opset: Option<i64>,
    /// Shapes of inputs.
    pub shape: &'a [String],
    /// Mapping files besides the built-in ones.
    pub mappings: &'a [PathBuf],
}

/// Exports a checkpoint as a model.
pub(crate) fn export(prefix: &str, epoch: u32, file: &Path, options: &Export<'_>, progress: Progress) -> Result<()> {
    progress.step(&format!("reading {prefix}"));
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
    let shapes = shapes(options.shape)?.into_iter().map(|(name, dims)| (name, Shape::new(&dims))).collect();
    let mappings = mappings(Framework::Onnx, options.mappings)?;
    let options = ExportOptions { shapes, opset: options.opset, mappings, ..ExportOptions::default() };
    progress.step(&format!("mapping {} nodes", symbol.nodes().len()));
    let model = export::export(&symbol, &params, &options)?;
    progress.step(&format!("writing {}", file.display()));
    onnx::save(&model, file)?;
    drop(progress);
    say!("{}: {} nodes, {} parameters", file.display(), model.graph.nodes.len(), model.graph.constants.len());
    Ok(())
}

/// Lists a framework's mapping processes and the rules that they call.
pub(crate) fn rules(framework: Framework, one_way: bool, files: &[PathBuf]) -> Result<()> {
    let added = mappings(framework, files)?;
    let table = match &added {
        Some(added) => &added.table,
        None => framework.table()?,
    };
    for p in table.processes().filter(|p| !one_way || p.direction != Direction::Both) {
        let arrow = p.direction.arrow();
        let domain = if p.domain.is_empty() { String::new() } else { format!("{}.", p.domain) };
        let until = if p.until == i64::MAX { String::new() } else { p.until.to_string() };
        say!("{domain}{:<28} {:>2}..{until:<3} {arrow:<4} {}:{}", p.name, p.since, p.file, p.position.line);
    }
    if !one_way {
        say!("\nRules:");
        for rule in ferromx_interop::emit::rules::all() {
            let reverse = if rule.reverse.is_some() { " (both directions)" } else { "" };
            say!("  {}{reverse}\n      {}", rule.signature, rule.doc);
        }
        for rule in table.definitions() {
            say!("  {}\n      {}:{}", rule.signature, rule.file, rule.position.line);
        }
    }
    Ok(())
}
