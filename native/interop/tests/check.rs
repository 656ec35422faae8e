//! One check of a model reports all its problems, even after nodes that cannot be mapped, and nothing else.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::sync::Arc;

use common::hex;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_interop::error::Problem;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::ir::{Dim, ElementType, Graph, Model, Node, Value, ValueInfo, WidenedInt};
use ferromx_interop::onnx::{self, External};
use ferromx_interop::run;
use ferromx_interop::{Error, Result};

/// Codes of element types in ONNX.
const UINT16: i64 = 4;
const UINT4: i64 = 21;
const INT4: i64 = 22;

/// `outputs = op(inputs)`; names are separated by spaces.
fn node(op: &str, inputs: &str, outputs: &str, attributes: &[(&str, Value)]) -> Node {
    let names = |text: &str| text.split(' ').map(|n| n.trim_matches('-').to_string()).collect();
    Node {
        name: format!("n_{}", outputs.split(' ').next().unwrap()),
        op: op.into(),
        inputs: if inputs.is_empty() { Vec::new() } else { names(inputs) },
        outputs: names(outputs),
        attributes: attributes.iter().map(|(k, v)| (k.to_string(), v.clone())).collect(),
        ..Node::default()
    }
}

fn cast(from: &str, to: &str, code: i64) -> Node {
    node("Cast", from, to, &[("to", Value::Int(code))])
}

fn value(name: &str, element: Option<DType>, dims: Option<&[usize]>) -> ValueInfo {
    let dims = dims.map(|dims| dims.iter().map(|d| Dim::Known(*d)).collect());
    ValueInfo { name: name.into(), element: element.map(ElementType::DType), dims, non_tensor_kind: None }
}

fn graph(inputs: &[&str], nodes: Vec<Node>, outputs: &[&str]) -> Graph {
    Graph {
        inputs: inputs.iter().map(|n| value(n, Some(DType::F32), Some(&[2, 3]))).collect(),
        outputs: outputs.iter().map(|n| value(n, None, None)).collect(),
        nodes,
        ..Graph::default()
    }
}

fn inner(inputs: Vec<ValueInfo>, nodes: Vec<Node>, outputs: &[&str]) -> Value {
    Value::Graph(Arc::new(Graph { inputs, ..graph(&[], nodes, outputs) }))
}

fn problems_of(imported: Result<import::Imported>) -> Vec<Problem> {
    match imported {
        Ok(_) => Vec::new(),
        Err(Error::Model(problems)) => problems,
        Err(other) => panic!("{other}"),
    }
}

fn problems(graph: Graph, opset: i64) -> Vec<Problem> {
    let opsets = [(String::new(), opset)].into_iter().collect();
    problems_of(import::import(&Model { graph, opsets, ..Model::default() }, &ImportOptions::default()))
}

/// Asserts the problems, each given by its location and a part of its message.
fn assert_problems(graph: Graph, opset: i64, expected: &[(&str, &str)]) {
    let found = problems(graph, opset);
    let shown = found.iter().map(|p| format!("  {p}\n")).collect::<String>();
    for (location, message) in expected {
        let here = |p: &Problem| p.location == *location && p.message.contains(message);
        assert_eq!(found.iter().filter(|p| here(p)).count(), 1, "{location}: {message}, in\n{shown}");
    }
    assert_eq!(found.len(), expected.len(), "\n{shown}");
}

#[test]
fn faults_after_faults_are_found() {
    let nodes = vec![
        node("NoSuchOp", "x", "a", &[]),
        node("Relu", "a", "b", &[]),
        cast("b", "c", UINT4),
        node("Transpose", "c", "d", &[]),
        node("BatchNormalization", "d s s s s", "e", &[("spatial", Value::Int(0))]),
        node("Elu", "e", "y", &[("alpha", Value::Int(1)), ("beta", Value::Float(1.0))]),
    ];
    let expected = [
        ("NoSuchOp 'n_a'", "no operator NoSuchOp"),
        ("Cast 'n_c'", "uint4"),
        ("BatchNormalization 'n_e'", "statistics of every pixel"),
        ("Elu 'n_y'", "its attribute alpha is a int instead of Float; it has an attribute 'beta'"),
    ];
    assert_problems(graph(&["x", "s"], nodes, &["y"]), 8, &expected);
}

#[test]
fn declared_types_and_shapes_are_used() {
    let nodes = vec![
        node("NoSuchOp", "x", "a p", &[]),
        node("Split", "a", "b c", &[("axis", Value::Int(7))]),
        node("MatMul", "p x", "y", &[]),
    ];
    let mut model = graph(&["x"], nodes, &["y"]);
    for info in [value("a", Some(DType::F32), Some(&[4, 4])), value("p", Some(DType::F32), Some(&[4, 4]))] {
        model.values.insert(info.name.clone(), info);
    }
    let expected = [("NoSuchOp 'n_a'", "no operator"), ("Split 'n_b'", "axis"), ("MatMul 'n_y'", "")];
    assert_problems(model.clone(), 11, &expected);
    // A placeholder without a declared type may be a suitable tensor.
    model.values.clear();
    assert_problems(model, 11, &expected[..1]);
}

#[test]
fn consequences_of_a_fault_are_not_reported() {
    // Each of these fails as long as its inputs, or their values, are unknown.
    let nodes = vec![
        node("NoSuchOp", "x", "a b c d", &[]),
        node("Reshape", "x a", "r", &[]),
        node("Conv", "b c", "k", &[("auto_pad", Value::from("SAME_UPPER")), ("strides", vec![2, 2].into())]),
        node("Slice", "x a b c d", "t", &[]),
        node("Resize", "b - d", "z", &[]),
        node("Concat", "x r b k t z", "all", &[("axis", Value::Int(1))]),
        node("Gather", "x a", "g", &[]),
        node("MatMul", "g all", "m", &[]),
        node("LSTM", "a b c", "h - i", &[("hidden_size", Value::Int(3))]),
        node(
            "If",
            "a",
            "y",
            &[
                ("then_branch", inner(vec![], vec![node("Add", "m h", "r1", &[])], &["r1"])),
                ("else_branch", inner(vec![], vec![node("Expand", "x b", "r2", &[])], &["r2"])),
            ],
        ),
    ];
    assert_problems(graph(&["x"], nodes, &["y"]), 17, &[("NoSuchOp 'n_a'", "no operator")]);
}

#[test]
fn faults_in_branches_are_found() {
    let branch = |faulty: Node, out: &str| {
        let end = faulty.outputs[0].clone();
        inner(vec![], vec![node("Neg", "a", "n", &[]), faulty, node("Abs", &end, out, &[])], &[out])
    };
    let nodes = vec![
        node("NoSuchOp", "x", "a", &[]),
        cast("a", "c", 9),
        node(
            "If",
            "c",
            "b",
            &[
                ("then_branch", branch(cast("n", "u", INT4), "t")),
                ("else_branch", branch(node("Other", "n", "o", &[]), "e")),
            ],
        ),
        node(
            "If",
            "c",
            "w",
            &[
                ("then_branch", inner(vec![], vec![node("StringConcat", "b b", "v", &[])], &["v"])),
                ("attribute", Value::Int(1)),
            ],
        ),
        cast("w", "y", UINT4),
    ];
    let expected = [
        ("NoSuchOp 'n_a'", "no operator NoSuchOp"),
        ("If 'n_b' / Cast 'n_u'", "int4"),
        ("If 'n_b' / Other 'n_o'", "no operator Other"),
        (
            "If 'n_w'",
            "it has an attribute 'attribute', which If does not have; it has else_branch, then_branch; its attribute \
             else_branch is missing",
        ),
        ("If 'n_w' / StringConcat 'n_v'", "no process"),
        ("Cast 'n_y'", "uint4"),
    ];
    assert_problems(graph(&["x"], nodes, &["y"]), 20, &expected);
}

#[test]
fn faults_in_bodies_of_loops_are_found_once() {
    let scalar = |name: &str, dtype| value(name, Some(dtype), Some(&[]));
    let body = |state: &str| {
        let nodes = vec![
            node("NoSuchOp", &format!("{state} x"), "p", &[]),
            cast("p", "q", UINT4),
            node("Add", &format!("q {state}"), "r", &[]),
            node("Identity", "go", "on", &[]),
        ];
        let inputs = vec![scalar("i", DType::I64), scalar("go", DType::Bool), value(state, Some(DType::F32), None)];
        inner(inputs, nodes, &["on", "r", "q"])
    };
    let step = inner(
        vec![value("s", Some(DType::F32), None), value("row", Some(DType::F32), None)],
        vec![node("Other", "s row", "t", &[]), cast("t", "u", INT4), node("Mul", "u s", "v", &[])],
        &["v", "u"],
    );
    for (opset, trips) in [(16, "five"), (16, "n")] {
        let mut nodes = vec![
            node("Loop", &format!("{trips} - x"), "l rows", &[("body", body("state"))]),
            node("Scan", "l x", "last all", &[("body", step.clone()), ("num_scan_inputs", Value::Int(1))]),
            cast("all", "y", UINT4),
        ];
        nodes.insert(0, node("Constant", "", "five", &[("value_int", Value::Int(5))]));
        let mut model = graph(&["x", "n"], nodes, &["y", "last", "rows"]);
        model.inputs[1] = scalar("n", DType::I64);
        let expected = [
            ("Loop 'n_l' / NoSuchOp 'n_p'", "no operator NoSuchOp"),
            ("Loop 'n_l' / Cast 'n_q'", "uint4"),
            ("Scan 'n_last' / Other 'n_t'", "no operator Other"),
            ("Scan 'n_last' / Cast 'n_u'", "int4"),
            ("Cast 'n_y'", "uint4"),
        ];
        assert_problems(model, opset, &expected);
    }
}

#[test]
fn problems_of_inputs_edges_and_nodes_are_reported_together() {
    let nodes = vec![
        node("Relu", "u", "a", &[]),
        node("Add", "a nowhere", "b", &[]),
        node("Sin", "d", "c", &[]),
        node("Cos", "c", "d", &[]),
        cast("d", "e", UINT4),
        node("NoSuchOp", "b e", "y", &[]),
    ];
    let mut model = graph(&["x", "u"], nodes, &["y", "z"]);
    model.inputs[1].element = Some(ElementType::Unsupported("uint4".into()));
    let expected = [
        ("input 'u'", "element type uint4"),
        ("Add 'n_b'", "'nowhere' is neither"),
        ("Sin 'n_c'", "it depends on its own output"),
        ("Cast 'n_e'", "uint4"),
        ("NoSuchOp 'n_y'", "no operator"),
        ("output 'z'", "no node of the graph computes it"),
    ];
    assert_problems(model, 20, &expected);
}

/// Breaks each node of models that can be mapped, one at a time: the check reports that problem alone. A second fault after the last
/// node is reported, too.
#[test]
fn each_fault_is_reported_as_one_problem() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/onnx/data");
    let (mut wrong, mut broken) = (Vec::new(), 0);
    for file in std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|f| !f.ends_with("exports.jsonl"))
    {
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let model = onnx::read(hex(case["model"].as_str().unwrap()).into(), &External::refused()).unwrap();
            if import::import(&model, &ImportOptions::default()).is_err() {
                continue;
            }
            let count = model.graph.nodes.len();
            for i in (0..count).step_by(count.div_ceil(8)) {
                let mut faulty = model.clone();
                faulty.graph.nodes[i].op = "NoSuchOp".into();
                faulty.graph.nodes[i].domain = String::new();
                broken += 1;
                for faults in [1, 2] {
                    let found = problems_of(import::import(&faulty, &ImportOptions::default()));
                    if found.len() != faults {
                        let found = found.iter().map(|p| format!("\n    {p}")).collect::<String>();
                        wrong.push(format!("{}, node {i}, {faults} faults:{found}", case["name"]));
                    }
                    let last = faulty.graph.outputs[0].name.clone();
                    faulty.graph.nodes.push(cast(&last, "another-fault", UINT4));
                }
            }
        }
    }
    assert!(broken > 500, "only {broken} models");
    assert!(wrong.is_empty(), "{} of {broken} models:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_value_that_is_needed_is_reported_after_a_fault() {
    // The shape is known only when the model runs, whatever the data.
    let nodes = vec![
        node("NoSuchOp", "x", "a", &[]),
        node("Cast", "x", "n", &[("to", Value::Int(7))]),
        node("Reshape", "n flat", "s", &[]),
        node("Reshape", "a s", "y", &[]),
    ];
    let mut model = graph(&["x"], nodes, &["y"]);
    let flat = ferromx_core::ndarray::NDArray::from_slice(&[-1i64], &[1]).unwrap();
    model.constants.insert("flat".into(), ferromx_interop::ir::Tensor::from_array(&flat));
    let expected =
        [("NoSuchOp 'n_a'", "no operator"), ("Reshape 'n_y'", "the shape is known only when the model runs")];
    assert_problems(model, 17, &expected);
}

#[test]
fn the_number_of_attempts_is_bounded() {
    // Ruling out their inputs as the cause takes many attempts.
    let statistics =
        |i: usize| node("BatchNormalization", "a x x x x", &format!("s{i}"), &[("spatial", Value::Int(0))]);
    let mut nodes = vec![node("NoSuchOp", "x", "a", &[])];
    nodes.extend((0..400).map(statistics));
    let found = problems(graph(&["x"], nodes, &["a"]), 8);
    let (last, others) = found.split_last().unwrap();
    assert!(others.len() > 20 && others.len() < 401, "{}", others.len());
    assert!(last.location == "model" && last.message.contains("fix these first"), "{last}");
}

/// 16-bit integers are computed in 32 bits and wrap around; an export declares their original type.
#[test]
fn narrow_integers_wrap_around() {
    let narrow = |name: &str| ValueInfo {
        element: Some(ElementType::Widened(WidenedInt::I16)),
        ..value(name, None, Some(&[3]))
    };
    let mut model = graph(
        &[],
        vec![
            node("Mul", "a b", "product", &[]),
            node("Cast", "product", "unsigned", &[("to", Value::Int(UINT16))]),
            node("Less", "product b", "less", &[]),
        ],
        &["product", "unsigned", "less"],
    );
    model.inputs = vec![narrow("a"), narrow("b")];
    let opsets: indexmap::IndexMap<String, i64> = [(String::new(), 21)].into_iter().collect();
    let model = Model { graph: model, opsets, ..Model::default() };
    let imported = import::import(&model, &ImportOptions::default()).unwrap();
    let array = |items: [i32; 3]| NDArray::from_slice(&items, &[3]).unwrap();
    let inputs = [("a".to_string(), array([300, -300, 7])), ("b".to_string(), array([300, 200, -5]))].into();
    let outputs = run::bind_and_run(&imported, &inputs).unwrap();
    assert_eq!(outputs[0].to_vec::<i32>().unwrap(), [90_000 - 65_536, -60_000 + 65_536, -35]);
    assert_eq!(outputs[1].to_vec::<i32>().unwrap(), [90_000 - 65_536, 5_536, 65_501]);
    assert_eq!(outputs[2].to_vec::<bool>().unwrap(), [false, false, true]);
    let options = ExportOptions {
        shapes: vec![("a".into(), [3].into()), ("b".into(), [3].into())],
        dtypes: vec![("a".into(), DType::I32), ("b".into(), DType::I32)],
        outputs: imported.outputs.clone(),
        ..ExportOptions::default()
    };
    let written = export::export(&imported.symbol, &indexmap::IndexMap::new(), &options).unwrap().graph;
    let types = |infos: &[ValueInfo]| infos.iter().map(|i| i.element.as_ref().unwrap().to_string()).collect::<Vec<_>>();
    assert_eq!(types(&written.inputs), ["int16", "int16"]);
    assert_eq!(types(&written.outputs), ["int16", "uint16", "bool"]);
}

#[test]
fn a_length_may_be_the_sum_of_two_others() {
    let input = |name: &str, rows: usize, length: Dim| {
        let dims = if rows == 3 { vec![Dim::Known(2), Dim::Known(3), length] } else { vec![Dim::Known(6), length] };
        ValueInfo { dims: Some(dims), ..value(name, Some(DType::F32), None) }
    };
    let named = |name: &str| Dim::Named(name.into());
    for length in [named("length"), Dim::Known(5)] {
        // The states of two layers have names of their own, but one length.
        let states = [input("first", 3, named("past_0")), input("second", 3, named("past_1"))];
        let inputs = [input("x", 6, length), input("mask", 6, named("total"))].into_iter().chain(states).collect();
        let nodes = vec![
            node("Concat", "first second", "states", &[("axis", Value::Int(0))]),
            node("Flatten", "first", "rows", &[("axis", Value::Int(2))]),
            node("Concat", "x rows", "all", &[("axis", Value::Int(1))]),
            node("Concat", "all mask", "y", &[("axis", Value::Int(0))]),
        ];
        let graph = Graph { inputs, ..graph(&[], nodes, &["y", "states"]) };
        let opsets = [(String::new(), 17)].into_iter().collect();
        let model = Model { graph, opsets, ..Model::default() };
        let problems = problems_of(import::check(&model, &ImportOptions::default()));
        assert!(problems.is_empty(), "{}", problems[0]);
    }
}
