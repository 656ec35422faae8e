//! `inspect`: prints the content of a file.

use std::io::Write;
use std::path::Path;

use ferromx_interop::{Error, Result, onnx};
use ferromx_runtime::file_format;
use ferromx_runtime::symbol::Symbol;

use crate::models::say;

/// Prints the content of a file; its extension determines the format.
pub(crate) fn inspect(file: &Path) -> Result<()> {
    let name = file.display().to_string();
    match file.extension().and_then(|e| e.to_str()) {
        Some("params") => params(&name),
        Some("json") => symbol(&name),
        Some("onnx") => model(file),
        _ => Err(Error::value(format!("{name}: unknown file type; only .params, .json and .onnx files can be shown"))),
    }
}

fn params(name: &str) -> Result<()> {
    let loaded = file_format::load(name)?;
    let mut elements = 0usize;
    for (i, array) in loaded.arrays.iter().enumerate() {
        let label = loaded.names.get(i).map_or_else(|| format!("#{i}"), Clone::clone);
        match array {
            None => say!("{label}: empty"),
            Some(array) => {
                let n = array.shape().checked_elements()?;
                elements += n;
                say!("{label}: {} {} ({n} elements)", array.dtype(), array.shape());
            }
        }
    }
    say!("{} arrays, {elements} elements", loaded.arrays.len());
    Ok(())
}

fn symbol(name: &str) -> Result<()> {
    let text = std::fs::read_to_string(name).map_err(|e| ferromx_runtime::error::Error::io(name, &e))?;
    let symbol = Symbol::from_json(&text)?;
    for node in symbol.nodes() {
        let Some(op) = node.op() else { continue };
        let inputs: Vec<_> = node.inputs.iter().map(|e| e.node.output_name(e.index as usize)).collect();
        say!("{} '{}' ({})", op.def.name, node.name, inputs.join(", "));
    }
    say!("arguments: {}", symbol.list_arguments().join(", "));
    say!("auxiliary states: {}", symbol.list_auxiliary_states().join(", "));
    say!("outputs: {}", symbol.list_outputs().join(", "));
    Ok(())
}

fn model(file: &Path) -> Result<()> {
    let model = onnx::load_with_external_data(file)?;
    for (domain, version) in &model.opsets {
        say!("operator set '{}' of version {version}", if domain.is_empty() { "ai.onnx" } else { domain });
    }
    for (name, tensor) in &model.graph.constants {
        say!("constant {name}: {} {:?}", tensor.element, tensor.dims);
    }
    for node in &model.graph.nodes {
        say!("{} ({}) -> ({})", node.label(), node.inputs.join(", "), node.outputs.join(", "));
    }
    for (what, values) in [("input", &model.graph.inputs), ("output", &model.graph.outputs)] {
        for v in values {
            let element = v.element.as_ref().map_or("unknown type".to_string(), ToString::to_string);
            say!("{what} {}: {element} {}", v.name, v.shape());
        }
    }
    Ok(())
}
