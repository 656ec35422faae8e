//! The structure of imported models: fused subgraphs, branches and loops as control flow operators.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::collections::HashMap;

use common::hex;
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions, Imported};
use ferromx_interop::ir::Dim;
use ferromx_interop::onnx::{self, External};
use ferromx_interop::run;
use ferromx_runtime::op::Mode;
use ferromx_runtime::symbol::Symbol;
use serde_json::Value;

/// A case of the conformance data, imported with dynamic or given shapes.
fn imported(family: &str, name: &str, options: &ImportOptions) -> Imported {
    let path = format!("{}/../../tests/onnx/data/{family}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let case = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|c| c["name"] == name).unwrap();
    let model = onnx::read(hex(case["model"].as_str().unwrap()).into(), &External::refused()).unwrap();
    import::import(&model, options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The operators of a case.
fn operators(family: &str, name: &str, options: &ImportOptions) -> HashMap<String, usize> {
    let imported = imported(family, name, options);
    let mut counts = HashMap::new();
    for op in imported.symbol.nodes().iter().filter_map(|n| n.op()) {
        *counts.entry(op.def.name.to_string()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn data_dependent_control_flow_becomes_operators_with_subgraphs() {
    let made = |name: &str| operators("control", name, &ImportOptions::default());
    assert_eq!(made("If of data")["_cond"], 1);
    assert_eq!(made("Loop until")["_while_loop"], 1);
    assert_eq!(made("Loop of a computed length")["_while_loop"], 1);
    assert_eq!(made("Scan of 300 steps")["_foreach"], 1);
    assert_eq!(made("Scan of numbers")["_foreach"], 1);
    assert_eq!(made("Scan of a large batch")["_foreach"], 1);
    // Known branches are inlined.
    for scan in ["Scan", "Scan of lengths from their ends"].map(made) {
        assert!(!scan.contains_key("_foreach"), "{scan:?}");
    }
}

#[test]
fn control_flow_operators_are_exported_as_such() {
    let cases = [
        ("If of data", "If"),
        ("Loop until", "Loop"),
        ("Loop of a computed length", "Loop"),
        ("Loop of 300 rounds with rows", "Loop"),
        ("Scan of numbers", "Scan"),
        ("Scan of a large batch", "Scan"),
        ("Scan of lengths of a large batch", "Scan"),
    ];
    for (name, op) in cases {
        let made = imported("control", name, &ImportOptions::default());
        let params = made.params();
        let options = ExportOptions { outputs: made.outputs.clone(), ..ExportOptions::default() };
        let model = export::export(&made.symbol, &params, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(model.graph.nodes.iter().filter(|n| n.op == op).count(), 1, "{name}");
    }
}

#[test]
fn subgraphs_are_fused_into_one_operator() {
    for name in ["LayerNorm of opset 13", "LayerNorm of opset 18"] {
        let made = operators("graphs", name, &ImportOptions::default());
        assert_eq!((made.len(), made["LayerNorm"]), (1, 1), "{name}: {made:?}");
    }
    for name in ["Gelu, halved first", "Gelu, halved last"] {
        let made = operators("graphs", name, &ImportOptions::default());
        assert_eq!((made.len(), made["LeakyReLU"]), (1, 1), "{name}: {made:?}");
    }
    let made = operators("graphs", "Linear, bias first", &ImportOptions::default());
    assert_eq!((made.len(), made["FullyConnected"]), (1, 1), "{made:?}");
    // A value inside the pattern with another reader keeps its operator.
    let made = operators("graphs", "LayerNorm with its center", &ImportOptions::default());
    assert!(!made.contains_key("LayerNorm"), "{made:?}");
}

#[test]
fn attention_and_gelu_are_fused_into_one_operator() {
    for how in ["function", "causal", "scaled after", "multiplied after", "scaled before", "truth values"] {
        for exporter in ["", ", new exporter"] {
            let name = format!("attention, {how}{exporter}");
            let made = operators("parts", &name, &ImportOptions::default());
            assert_eq!(made.get("_onnx_Attention"), Some(&1), "{name}: {made:?}");
            for inside in ["softmax", "_npi_matmul", "_npi_add"] {
                assert!(!made.contains_key(inside), "{name}: {made:?}");
            }
        }
    }
    for how in ["version 17", "new exporter, version 18", "version 20", "written out"] {
        let made = operators("parts", &format!("gelu by tanh, {how}"), &ImportOptions::default());
        assert_eq!((made.len(), made["_onnx_GeluTanh"]), (1, 1), "{how}: {made:?}");
    }
}

/// Weights stay integers if the data are integers, too.
#[test]
fn weights_of_quantized_layers_stay_integers() {
    let weights = |name: &str| {
        let made = imported("quantized", name, &ImportOptions::default());
        let matrices = made.args.values().filter(|array| array.shape().dims().len() > 1).map(|array| array.dtype());
        matrices.collect::<Vec<_>>()
    };
    assert_eq!(weights("convolutions between quantized tensors"), [DType::I8; 2]);
    let mut matrices = weights("matrix products between quantized tensors");
    matrices.sort_by_key(|dtype| dtype.name());
    assert_eq!(matrices, [DType::I8, DType::U8]);
    assert_eq!(weights("quantized weights"), [DType::F32]);
}

#[test]
fn attention_is_exported_as_each_version_defines_it() {
    let cases = ["attention, scaled after", "attention, truth values"].map(|n| [(n, 17, 0, 1), (n, 23, 1, 0)]);
    for (name, opset, attention, softmax) in cases.into_iter().flatten() {
        let made = imported("parts", name, &ImportOptions::default());
        let params = made.params();
        let shapes = [("x0", [2, 5, 8].into()), ("x1", [2, 1, 5, 5].into())];
        let shapes = shapes.into_iter().map(|(n, s): (&str, Shape)| (n.to_string(), s)).collect();
        let options = ExportOptions { opset: Some(opset), shapes, ..ExportOptions::default() };
        let model = export::export(&made.symbol, &params, &options).unwrap();
        let count = |op: &str| model.graph.nodes.iter().filter(|n| n.op == op).count();
        assert_eq!((count("Attention"), count("Softmax")), (attention, softmax), "version {opset}");
        // A second import fuses it again.
        let again = import::import(&model, &ImportOptions::default()).unwrap();
        let nodes = again.symbol.nodes();
        let ops: Vec<_> = nodes.iter().filter_map(|n| n.op()).map(|op| op.def.name).collect();
        assert_eq!(ops.iter().filter(|n| **n == "_onnx_Attention").count(), 1, "version {opset}: {ops:?}");
    }
}

#[test]
fn convolution_and_normalization_stay_separate_nodes_and_run_as_one_step() {
    let made = imported("parts", "convolution and normalization", &ImportOptions::default());
    let nodes = made.symbol.nodes();
    let ops: Vec<_> = nodes.iter().filter_map(|n| n.op()).map(|op| op.def.name).collect();
    assert_eq!(ops, ["Convolution", "BatchNorm"]);
    let x = NDArray::zeros(&[2, 3, 6, 5].into(), DType::F32, Context::default()).unwrap();
    let executor = run::bind(&made, &[("x0".to_string(), x)].into_iter().collect()).unwrap();
    executor.forward(Mode::Inference).unwrap();
    let plan = executor.debug_string();
    assert!(plan.contains("Plan: 1 forward and 0 gradient steps"), "{plan}");
}

#[test]
fn models_with_dynamic_shapes_are_mapped_to_layers() {
    let made = operators("models", "bert", &ImportOptions::default());
    assert_eq!(made["LayerNorm"], 5, "{made:?}");
    assert_eq!(made["LeakyReLU"], 2, "{made:?}");
    let made = operators("models", "attention", &ImportOptions::default());
    assert_eq!((made["FullyConnected"], made["LayerNorm"]), (4, 1), "{made:?}");
}

#[test]
fn names_of_dynamic_dimensions_are_kept_in_files() {
    let path = format!("{}/../../tests/onnx/data/elementwise.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let case = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|c| c["name"] == "Add_broadcast");
    let model = case.unwrap()["model"].as_str().map(hex).unwrap();
    let mut model = onnx::read(model.into(), &External::refused()).unwrap();
    let named = |name: &str| Dim::Named(name.into());
    let dims = [vec![named("batch"), named("a, b")], vec![Dim::Unknown]];
    model.graph.inputs.iter_mut().zip(&dims).for_each(|(i, dims)| i.dims = Some(dims.clone()));
    let made = import::import(&model, &ImportOptions::default()).unwrap();
    let symbol = Symbol::from_json(&made.symbol.to_json()).unwrap();
    let options = ExportOptions::default();
    let again = export::export(&symbol, &Default::default(), &options).unwrap();
    let found: Vec<_> = again.graph.inputs.iter().map(|i| i.dims.clone().unwrap()).collect();
    assert_eq!(found, dims);
    // A given shape takes precedence.
    let shapes = vec![("x0".to_string(), Shape::new(&[2, -1]))];
    let again = export::export(&symbol, &Default::default(), &ExportOptions { shapes, ..options }).unwrap();
    assert_eq!(again.graph.inputs[0].dims, Some(vec![Dim::Known(2), named("a, b")]));
}
