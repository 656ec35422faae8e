//! Models of one or a few operators give the values of ONNX's reference implementation, which `tests/onnx/generate.py` recorded, and
//! still give them after an export and a second import.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use common::{array, difference, hex};
use ferromx_core::ndarray::NDArray;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::ir::Model;
use ferromx_interop::onnx::{self, External};
use ferromx_interop::run::{self, Run};
use ferromx_ops::registry;
use ferromx_runtime::symbol::Symbol;
use indexmap::IndexMap;
use serde_json::Value;

const FAMILIES: &[(&str, &str)] = &[
    ("attention", include_str!("../../../tests/onnx/data/attention.jsonl")),
    ("control", include_str!("../../../tests/onnx/data/control.jsonl")),
    ("elementwise", include_str!("../../../tests/onnx/data/elementwise.jsonl")),
    ("graphs", include_str!("../../../tests/onnx/data/graphs.jsonl")),
    ("images", include_str!("../../../tests/onnx/data/images.jsonl")),
    ("indexing", include_str!("../../../tests/onnx/data/indexing.jsonl")),
    ("layers", include_str!("../../../tests/onnx/data/layers.jsonl")),
    ("losses", include_str!("../../../tests/onnx/data/losses.jsonl")),
    ("microsoft", include_str!("../../../tests/onnx/data/microsoft.jsonl")),
    ("models", include_str!("../../../tests/onnx/data/models.jsonl")),
    ("narrow", include_str!("../../../tests/onnx/data/narrow.jsonl")),
    ("parts", include_str!("../../../tests/onnx/data/parts.jsonl")),
    ("quantized", include_str!("../../../tests/onnx/data/quantized.jsonl")),
    ("recurrent", include_str!("../../../tests/onnx/data/recurrent.jsonl")),
    ("reductions", include_str!("../../../tests/onnx/data/reductions.jsonl")),
    ("sampling", include_str!("../../../tests/onnx/data/sampling.jsonl")),
    ("signal", include_str!("../../../tests/onnx/data/signal.jsonl")),
    ("sequences", include_str!("../../../tests/onnx/data/sequences.jsonl")),
    ("shapes", include_str!("../../../tests/onnx/data/shapes.jsonl")),
];

struct Case {
    name: String,
    model: Model,
    inputs: HashMap<String, NDArray>,
    outputs: Vec<NDArray>,
}

fn case(family: &str, line: &str) -> Case {
    let v: Value = serde_json::from_str(line).unwrap();
    let model = onnx::read(hex(v["model"].as_str().unwrap()).into(), &External::refused()).unwrap();
    let names = model.graph.inputs.iter().map(|i| i.name.clone());
    let inputs = names.zip(v["inputs"].as_array().unwrap().iter().map(array)).collect();
    let outputs = v["outputs"].as_array().unwrap().iter().map(array).collect();
    Case { name: format!("{family}/{}", v["name"].as_str().unwrap()), model, inputs, outputs }
}

fn cases() -> impl Iterator<Item = Case> {
    FAMILIES.iter().flat_map(|(family, text)| text.lines().map(move |line| case(family, line)))
}

#[test]
fn models_give_the_reference_values() {
    let mut wrong = Vec::new();
    for case in cases() {
        let found = match run::run(&case.model, case.inputs) {
            Ok((outputs, _)) => difference(&outputs, &case.outputs),
            Err(e) => Some(e.to_string()),
        };
        wrong.extend(found.map(|why| format!("{}: {why}", case.name)));
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Operators that MXNet lacks are named after the ONNX operators that map to them.
#[test]
fn every_operator_that_mxnet_lacks_is_compared() {
    let named = |op: &str| match op {
        "Interpolate" => "Resize".to_owned(),
        "GeluTanh" => "Gelu".to_owned(),
        "MaxRoiAlign" => "RoiAlign".to_owned(),
        "Full" => "ConstantOfShape".to_owned(),
        other => other.to_owned(),
    };
    let types: HashSet<String> =
        cases().flat_map(|case| case.model.graph.nodes.into_iter().map(|node| node.op)).collect();
    let own = registry::names().iter().filter_map(|name| name.strip_prefix("_onnx_"));
    // ONNX's reference implementation has no CumProd yet.
    let missing: Vec<&str> = own.filter(|op| *op != "CumProd" && !types.contains(&named(op))).collect();
    assert!(missing.is_empty(), "no case has {}", missing.join(", "));
}

#[test]
fn exported_models_give_the_same_values() {
    let (mut wrong, mut unmapped, mut exported) = (Vec::new(), Vec::new(), 0);
    for case in cases() {
        let Ok((outputs, Run::Graph(imported))) = run::run(&case.model, case.inputs.clone()) else { continue };
        let params = imported.params();
        let options = ExportOptions {
            shapes: case.inputs.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect(),
            dtypes: case.inputs.iter().map(|(n, a)| (n.clone(), a.dtype())).collect(),
            outputs: imported.outputs.clone(),
            ..ExportOptions::default()
        };
        let model = match export::export(&imported.symbol, &params, &options) {
            Ok(model) => model,
            Err(e) => {
                unmapped.push(format!("{}: {e}", case.name));
                continue;
            }
        };
        exported += 1;
        let mut names: Vec<_> = model.graph.nodes.iter().map(|n| &n.name).collect();
        names.sort();
        wrong.extend(names.windows(2).find(|n| n[0] == n[1]).map(|n| format!("{}: two nodes are {}", case.name, n[0])));
        let bytes = onnx::to_bytes(&model).unwrap();
        let again = onnx::read(bytes.into(), &External::refused()).and_then(|model| {
            let wanted: Vec<_> = model.graph.inputs.iter().map(|i| i.name.clone()).collect();
            let inputs = case.inputs.into_iter().filter(|(n, _)| wanted.contains(n)).collect();
            run::run(&model, inputs)
        });
        let found = match again {
            Ok((again, _)) => difference(&again, &outputs),
            Err(e) => Some(e.to_string()),
        };
        wrong.extend(found.map(|why| format!("{}: {why}", case.name)));
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(exported >= 200, "only {exported} models could be exported; not:\n{}", unmapped.join("\n"));
}

/// A graph of one MXNet operator, with its inputs and expected outputs.
struct Operator {
    op: String,
    name: String,
    symbol: Symbol,
    params: IndexMap<String, NDArray>,
    inputs: HashMap<String, NDArray>,
    outputs: Vec<NDArray>,
    random: bool,
}

fn operators() -> impl Iterator<Item = Operator> {
    let lines = include_str!("../../../tests/onnx/data/exports.jsonl").lines();
    lines.enumerate().map(|(line, text)| {
        let v: Value = serde_json::from_str(text).unwrap();
        let (mut params, mut inputs, mut variables) = (IndexMap::new(), HashMap::new(), Vec::new());
        for (i, input) in v["inputs"].as_array().unwrap().iter().enumerate() {
            let name = format!("x{i}");
            variables.push(Symbol::variable(&name, Default::default()));
            match input["parameter"].as_bool() {
                Some(true) => drop(params.insert(name, array(input))),
                _ => drop(inputs.insert(name, array(input))),
            }
        }
        let op = v["op"].as_str().unwrap();
        let attrs: Vec<_> =
            v["attrs"].as_object().unwrap().iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap())).collect();
        let symbol = Symbol::op(op, "y", &variables, &attrs).unwrap();
        let outputs: Vec<NDArray> = v["outputs"].as_array().unwrap().iter().map(array).collect();
        let symbol = if outputs.len() == 1 { symbol.output(0).unwrap() } else { symbol };
        let random = v["random"].as_bool().unwrap_or(false);
        Operator { op: op.into(), name: format!("{line} {op} {}", v["attrs"]), symbol, params, inputs, outputs, random }
    })
}

/// The expected values of exported MXNet operators in a version of the operator set, if they differ from MXNet's values.
fn differences(opset: i64, folder: Option<&Path>) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (line, case) in operators().enumerate() {
        let options = ExportOptions {
            shapes: case.inputs.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect(),
            dtypes: case.inputs.iter().map(|(n, a)| (n.clone(), a.dtype())).collect(),
            opset: Some(opset),
            ..ExportOptions::default()
        };
        let again = export::export(&case.symbol, &case.params, &options).and_then(|model| {
            let bytes = onnx::to_bytes(&model)?;
            if let Some(folder) = folder {
                std::fs::write(folder.join(format!("{line}.onnx")), &bytes).unwrap();
            }
            let model = onnx::read(bytes.into(), &External::refused())?;
            let wanted: Vec<_> = model.graph.inputs.iter().map(|i| i.name.clone()).collect();
            run::run(&model, case.inputs.into_iter().filter(|(n, _)| wanted.contains(n)).collect())
        });
        let found = match again {
            Ok((outputs, _)) if case.random => {
                let shapes = |all: &[NDArray]| all.iter().map(|a| (a.shape().clone(), a.dtype())).collect::<Vec<_>>();
                (shapes(&outputs) != shapes(&case.outputs)).then(|| format!("{:?}", shapes(&outputs)))
            }
            Ok((outputs, _)) => difference(&outputs, &case.outputs),
            Err(e) => Some(e.to_string()),
        };
        wrong.extend(found.map(|why| (case.op, format!("{}: {why}", case.name))));
    }
    wrong
}

/// Exports of every operator that MXNet's own exporter supports, and of others, compute MXNet's values. If `FERROMX_EXPORTED` names a
/// folder, the models are written there; `tests/onnx/check_exports.py` runs them in ONNX Runtime.
#[test]
fn exported_operators_give_mxnets_values() {
    let folder = std::env::var_os("FERROMX_EXPORTED").map(PathBuf::from);
    let wrong: Vec<_> = differences(export::DEFAULT_OPSET, folder.as_deref()).into_iter().map(|(_, why)| why).collect();
    assert!(wrong.is_empty(), "{} operators:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn old_versions_lack_only_newer_operators() {
    let newer = [
        "col2im",
        "_contrib_ROIAlign",
        "BilinearSampler",
        "SpatialTransformer",
        "_contrib_ModulatedDeformableConvolution",
    ];
    for (op, why) in differences(*export::OPSETS.start(), None) {
        assert!(newer.contains(&op.as_str()) && why.contains("no process for"), "{why}");
    }
}
