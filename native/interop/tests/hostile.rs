//! Malformed files, invalid models, and models that need too much memory: each gives an error that names the problem and its location.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::HashMap;

use bytes::Bytes;
use ferromx_interop::Error;
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::onnx::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorType, TypeProto, TypeValue, ValueInfoProto,
};
use ferromx_interop::onnx::{self, External};
use prost::Message;

fn value(name: &str) -> ValueInfoProto {
    let tensor = TensorType { elem_type: 1, shape: Some(TensorShapeProto::default()) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let texts = |t: &[&str]| t.iter().map(|s| s.to_string()).collect();
    NodeProto {
        op_type: op.into(),
        name: format!("n_{op}"),
        input: texts(inputs),
        output: texts(outputs),
        ..NodeProto::default()
    }
}

fn model(nodes: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    let graph = GraphProto {
        node: nodes,
        initializer,
        input: vec![value("x")],
        output: vec![value("y")],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 18 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() }
}

/// The error message of reading or mapping a model.
fn error(model: ModelProto) -> String {
    let read = onnx::read(Bytes::from(model.encode_to_vec()), &External::refused());
    let mapped = read.and_then(|m| import::import(&m, &ImportOptions::default()).map(|_| ()));
    mapped.expect_err("the model must be refused").to_string()
}

fn assert_says(model: ModelProto, parts: &[&str]) {
    let text = error(model);
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in: {text}");
    }
}

#[test]
fn bytes_of_any_kind_are_an_error_or_a_model() {
    let good = model(vec![node("Relu", &["x"], &["y"])], vec![]).encode_to_vec();
    assert!(onnx::read(Bytes::from(good.clone()), &External::refused()).is_ok());
    for n in 0..good.len() {
        let _ = onnx::read(Bytes::copy_from_slice(&good[..n]), &External::refused());
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[n] ^= flip;
            if let Ok(model) = onnx::read(Bytes::from(bytes), &External::refused()) {
                let _ = import::import(&model, &ImportOptions::default());
            }
        }
    }
}

#[test]
fn everything_that_cannot_be_mapped_is_reported_at_once() {
    let nodes = vec![
        node("NoSuchOp", &["x"], &["a"]),
        node("Relu", &["x"], &["b"]),
        node("Other", &["a"], &["c"]),
        node("StringConcat", &["c", "a"], &["y"]),
    ];
    let mut model = model(nodes, vec![]);
    model.opset_import[0].version = 20;
    assert_says(
        model,
        &[
            "NoSuchOp 'n_NoSuchOp'",
            "has no operator NoSuchOp",
            "Other 'n_Other'",
            "StringConcat 'n_StringConcat': there is no process",
            "3 problems",
        ],
    );
}

#[test]
fn invalid_nodes_are_named() {
    assert_says(model(vec![node("Relu", &["y"], &["y"])], vec![]), &["n_Relu", "depends on its own output"]);
    assert_says(model(vec![node("Relu", &["z"], &["y"])], vec![]), &["n_Relu", "'z' is neither"]);
    assert_says(model(vec![node("Relu", &["x", "x"], &["y"])], vec![]), &["it has 2 inputs; Relu takes at most 1"]);
    let mut strange = node("Relu", &["x"], &["y"]);
    let attribute =
        AttributeProto { name: "alpha".into(), r#type: AttributeType::Float.into(), ..AttributeProto::default() };
    strange.attribute.push(attribute.clone());
    assert_says(model(vec![strange], vec![]), &["attribute 'alpha', which Relu does not have"]);
    let mut strange = node("Elu", &["x"], &["y"]);
    strange.attribute.push(AttributeProto { r#type: AttributeType::Int.into(), ..attribute });
    assert_says(model(vec![strange], vec![]), &["its attribute alpha is a int instead of Float"]);
}

#[test]
fn tensors_are_checked_before_memory_is_allocated() {
    let tensor = |dims: &[i64], raw: &[u8]| TensorProto {
        name: "w".into(),
        data_type: 1,
        dims: dims.to_vec(),
        raw_data: Some(Bytes::copy_from_slice(raw)),
        ..TensorProto::default()
    };
    let with = |t| model(vec![node("Add", &["x", "w"], &["y"])], vec![t]);
    assert_says(with(tensor(&[1 << 40, 1 << 40], &[])), &["initializer 'w'", "larger than memory"]);
    assert_says(with(tensor(&[1 << 30], &[0; 4])), &["needs 4294967296 bytes, but 4 are given"]);
    assert_says(with(tensor(&[-1], &[])), &["is not a valid shape"]);
    assert_says(with(TensorProto { data_type: 21, ..tensor(&[1], &[0; 2]) }), &["element type uint4"]);
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let outside = TensorProto {
        data_location: 1,
        raw_data: None,
        external_data: vec![entry("location", "../secret")],
        ..tensor(&[1], &[])
    };
    assert_says(with(outside.clone()), &["'../secret'", "reading other files is not allowed"]);
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::write(directory.join("w.bin"), [0u8; 8]).unwrap();
    let within = External::within(directory).unwrap();
    let read = |t: TensorProto| {
        let model = onnx::read(Bytes::from(with(t).encode_to_vec()), &within)?;
        import::import(&model, &ImportOptions::default()).map(|_| ())
    };
    assert!(read(outside.clone()).unwrap_err().to_string().contains("initializer 'w'"));
    let inside = |offset: &str| TensorProto {
        external_data: vec![entry("location", "w.bin"), entry("offset", offset), entry("length", "4")],
        ..outside.clone()
    };
    assert_eq!(read(inside("4")), Ok(()));
    assert!(read(inside("5")).unwrap_err().to_string().contains("is not in the file of 8 bytes"));
    assert!(read(inside("18446744073709551615")).is_err());
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let mut recursive = model(vec![NodeProto { domain: "own".into(), ..node("F", &["x"], &["y"]) }], vec![]);
    let inner = NodeProto { domain: "own".into(), ..node("F", &["a"], &["b"]) };
    recursive.functions.push(FunctionProto {
        name: "F".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![inner],
        ..FunctionProto::default()
    });
    assert_says(recursive.clone(), &["own.F calls itself"]);
    recursive.functions[0].node = vec![node("Relu", &["a"], &["b"])];
    let read = onnx::read(Bytes::from(recursive.encode_to_vec()), &External::refused()).unwrap();
    let imported =
        import::import(&read, &ImportOptions { shapes: HashMap::new(), ..ImportOptions::default() }).unwrap();
    assert_eq!(imported.symbol.nodes().iter().filter(|n| !n.is_variable()).count(), 1);
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind.into(), ..AttributeProto::default() }
}

/// A graph attribute with one output and no inputs.
fn branch(name: &str, nodes: Vec<NodeProto>, output: &str) -> AttributeProto {
    let graph = GraphProto { node: nodes, output: vec![value(output)], name: name.into(), ..GraphProto::default() };
    AttributeProto { g: Some(graph), ..attribute(name, AttributeType::Graph) }
}

/// `If` inside `If`, with `leaf` in the innermost branches.
fn nested(depth: usize, leaf: &str, output: &str) -> NodeProto {
    let names = ["t", "e"].map(|side| format!("{output}{side}"));
    let inner = match depth {
        0 => node(leaf, &["x"], &[&names[0]]),
        _ => nested(depth - 1, leaf, &names[0]),
    };
    let other = node("Neg", &["x"], &[&names[1]]);
    let mut made = NodeProto { name: output.into(), ..node("If", &["c"], &[output]) };
    made.attribute = vec![branch("then_branch", vec![inner], &names[0]), branch("else_branch", vec![other], &names[1])];
    made
}

fn with_condition(nodes: Vec<NodeProto>) -> ModelProto {
    let mut model = model(nodes, vec![]);
    let tensor = TensorType { elem_type: 9, shape: Some(TensorShapeProto::default()) };
    let condition =
        ValueInfoProto { name: "c".into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) };
    model.graph.as_mut().unwrap().input.push(condition);
    model
}

fn read(model: &ModelProto) -> ferromx_interop::Result<ferromx_interop::ir::Model> {
    onnx::read(Bytes::from(model.encode_to_vec()), &External::refused())
}

/// If every level doubled the time, these would take minutes. The limit for files is not much deeper.
#[test]
fn nested_branches_take_linear_time() {
    let deep = read(&with_condition(vec![nested(18, "Relu", "y")])).unwrap();
    let imported = import::check(&deep, &ImportOptions::default()).unwrap();
    let mut arguments = imported.symbol.list_arguments();
    arguments.sort();
    assert_eq!(arguments, ["c", "x"]);
    let wrong = read(&with_condition(vec![nested(18, "NoSuchOp", "y")])).unwrap();
    let Err(Error::Model(problems)) = import::check(&wrong, &ImportOptions::default()) else { panic!("no problems") };
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("NoSuchOp"), "{problems:?}");
}

#[test]
fn the_size_of_folded_constants_is_limited() {
    let mut nodes: Vec<NodeProto> = (0..26)
        .map(|i| {
            let (from, to) = (format!("k{i}"), format!("k{}", i + 1));
            let axis = AttributeProto { i: Some(0), ..attribute("axis", AttributeType::Int) };
            NodeProto { attribute: vec![axis], ..node("Concat", &[&from, &from], &[&to]) }
        })
        .collect();
    nodes.push(node("Add", &["x", "k26"], &["y"]));
    let raw = Some(Bytes::from(vec![0u8; 64]));
    let seed = TensorProto { name: "k0".into(), data_type: 1, dims: vec![16], raw_data: raw, ..TensorProto::default() };
    let model = read(&model(nodes, vec![seed])).unwrap();
    let imported = import::import(&model, &ImportOptions::default()).unwrap();
    let bytes: usize = imported.args.values().map(|a| a.len() * a.dtype().size()).sum();
    assert!((1 << 20..=1 << 28).contains(&bytes), "{bytes} bytes");
    // Operators that are not folded stay in the graph.
    assert!(imported.symbol.nodes().iter().filter(|n| !n.is_variable()).count() > 2);
}

#[test]
fn the_size_of_functions_and_loops_is_limited() {
    let own = |op: &str, from: &str, to: &str| NodeProto { domain: "own".into(), ..node(op, &[from], &[to]) };
    let mut many = model(vec![own("F29", "x", "y")], vec![]);
    for i in 0..30 {
        let inner = match i {
            0 => vec![node("Relu", &["a"], &["b"])],
            _ => vec![own(&format!("F{}", i - 1), "a", "m"), own(&format!("F{}", i - 1), "m", "b")],
        };
        many.functions.push(FunctionProto {
            name: format!("F{i}"),
            domain: "own".into(),
            input: vec!["a".into()],
            output: vec!["b".into()],
            node: inner,
            ..FunctionProto::default()
        });
    }
    assert_says(many, &["after inlining its functions"]);

    // Nested loops with known trip counts are unrolled, up to a maximum number of nodes; longer ones remain loops.
    let number = |name: &str, n: i64| TensorProto {
        name: name.into(),
        data_type: 7,
        raw_data: Some(Bytes::copy_from_slice(&n.to_le_bytes())),
        ..TensorProto::default()
    };
    let input = |name: &str, elem_type| {
        let tensor = TensorType { elem_type, shape: Some(TensorShapeProto::default()) };
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) }
    };
    let always = TensorProto { data_type: 9, raw_data: Some(Bytes::copy_from_slice(&[1])), ..number("always", 0) };
    for (trips, condition) in [(200, ""), (1000, ""), (1000, "always")] {
        let mut inner = node("Neg", &["v0"], &["w0"]);
        for depth in 1..5 {
            let (v, w) = (format!("v{}", depth - 1), format!("w{}", depth - 1));
            let (i, c) = (format!("i{depth}"), format!("c{depth}"));
            let body = GraphProto {
                node: vec![inner, node("Identity", &[&c], &[&format!("{c}o")])],
                input: vec![input(&i, 7), input(&c, 9), input(&v, 1)],
                output: vec![input(&format!("{c}o"), 9), input(&w, 1)],
                ..GraphProto::default()
            };
            let (from, to) = (format!("v{depth}"), format!("w{depth}"));
            inner = NodeProto { name: format!("loop{depth}"), ..node("Loop", &["n", condition, &from], &[&to]) };
            inner.attribute.push(AttributeProto { g: Some(body), ..attribute("body", AttributeType::Graph) });
        }
        inner.input[2] = "x".into();
        inner.output[0] = "y".into();
        let model = model(vec![inner], vec![number("n", trips), always.clone()]);
        let read = onnx::read(Bytes::from(model.encode_to_vec()), &External::refused()).unwrap();
        let imported = import::import(&read, &ImportOptions::default()).unwrap();
        assert!(imported.symbol.to_json().len() < 1 << 20, "{trips} {condition}");
    }
}
