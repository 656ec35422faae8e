//! Mapping files of a program: additional operators, rules and processes, and the results that they compute.

use std::sync::Arc;

use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::ir::Framework;
use ferromx_interop::ir::{Dim, ElementType, Graph, Model, Node, Value, ValueInfo};
use ferromx_interop::mapping::Mappings;
use ferromx_runtime::symbol::Symbol;

const OWN: &str = r#"
domain "org.example"
operator Tanhed@3(X) -> (Y) gain: float = 1.0
rule half(x: number) -> number = x / 2
Tanhed(X) [3..] <-> _mul_scalar(X, scalar: gain)
pair: Tanhed(Relu(X), gain: g) -> _mul_scalar(X, scalar: half(g))
"#;

fn mappings(text: &str) -> ferromx_interop::Result<Mappings> {
    Mappings::read(Framework::Onnx, &[("own.map".into(), text.into())])
}

fn error(text: &str) -> String {
    mappings(text).err().expect("the text must be refused").to_string()
}

fn input(name: &str, dims: Vec<Dim>) -> ValueInfo {
    let element = Some(ElementType::DType(ferromx_core::dtype::DType::F32));
    ValueInfo { name: name.into(), element, dims: Some(dims), non_tensor_kind: None }
}

fn node(domain: &str, op: &str, inputs: &[&str], output: &str) -> Node {
    let inputs = inputs.iter().map(|i| i.to_string()).collect();
    Node {
        name: output.into(),
        domain: domain.into(),
        op: op.into(),
        inputs,
        outputs: vec![output.into()],
        ..Node::default()
    }
}

fn model(nodes: Vec<Node>, inputs: Vec<ValueInfo>) -> Model {
    let outputs = vec![ValueInfo { name: "y".into(), element: None, dims: None, non_tensor_kind: None }];
    let opsets = [(String::new(), 21), ("org.example".to_string(), 3)].into_iter().collect();
    Model { graph: Graph { nodes, inputs, outputs, ..Graph::default() }, opsets, ..Model::default() }
}

#[test]
fn own_processes_are_tried_first_and_in_both_directions() {
    let added = Arc::new(mappings(OWN).unwrap());
    let first = added.table.processes().next().unwrap();
    assert_eq!((first.name.as_str(), first.position.line, added.table.is_added(first)), ("Tanhed", 5, true));
    let all = Framework::Onnx.table().unwrap().processes().count();
    assert_eq!(added.table.processes().count(), all + 2);

    let x = Symbol::variable("x", Attrs::new());
    let scaled = Symbol::op("_mul_scalar", "y", &[x], &[("scalar", "3.0")]).unwrap();
    let shapes = vec![("x".to_string(), Shape::new(&[2, 3]))];
    let options = ExportOptions { mappings: Some(added.clone()), shapes, ..ExportOptions::default() };
    let written = export::export(&scaled, &Default::default(), &options).unwrap();
    let [only] = written.graph.nodes.as_slice() else { panic!("{:?}", written.graph.nodes) };
    assert_eq!(
        (only.domain.as_str(), only.op.as_str(), &only.attributes["gain"]),
        ("org.example", "Tanhed", &Value::Float(3.0))
    );
    assert_eq!(written.opsets.get("org.example"), Some(&3));

    let options = ImportOptions { mappings: Some(added), ..ImportOptions::default() };
    let again = import::check(&written, &options).unwrap();
    assert_eq!(again.symbol.attr("scalar").as_deref(), Some("3"));
    let text = import::check(&written, &ImportOptions::default()).err().unwrap().to_string();
    assert!(text.contains("org.example.Tanhed") && text.contains("is unknown"), "{text}");
}

#[test]
fn a_sequence_of_operators_becomes_one() {
    let ordered = OWN.replace("Tanhed(X) [3..]", "#");
    let added = Arc::new(mappings(&ordered).unwrap());
    let mut last = node("org.example", "Tanhed", &["r"], "y");
    last.attributes.insert("gain".into(), Value::Float(5.0));
    let x = input("x", vec![Dim::Known(2)]);
    let model = model(vec![node("", "Relu", &["x"], "r"), last], vec![x]);
    let options = ImportOptions { mappings: Some(added), ..ImportOptions::default() };
    let imported = import::import(&model, &options).unwrap();
    assert_eq!(imported.symbol.attr("scalar").as_deref(), Some("2.5"));
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    for (text, expected) in [
        ("Relu(X) ->\n  relo(X)", "own.map:2:3: 'relo' is neither a rule nor an operator"),
        ("rule relu(x) = x", "own.map:1:6: 'relu' is the name of an operator"),
        ("rule size(x) = x", "own.map:1:6: a rule size already exists"),
        ("rule a(x) = b(x)\nrule b(x) = x", "own.map:1:13: 'b' is neither a rule nor an operator"),
        ("operator Relu(X) -> (Y)", "own.map:1:10: the framework already has an operator Relu"),
        ("domain \"d\"\noperator A(X) -> (Y) a: real", "own.map:2:25: 'real' is not a kind of attribute"),
        ("rule f(x) = x\nRelu(X) -> relu(f(X, X))", "own.map:2:17: 2 arguments for the rule f(x) -> any"),
        ("domain \"d\"\noperator A(X) -> (Y) a: int = 1\nA(X) -> relu(X)", "own.map:3:1: the attribute a of A"),
    ] {
        let found = error(text);
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn a_check_reports_what_cannot_be_bound() {
    let reshape = |n: usize| {
        let shape = ferromx_core::ndarray::NDArray::from_slice(&[7i64, -1], &[2]).unwrap();
        let dim = if n == 0 { Dim::Named("n".into()) } else { Dim::Known(n) };
        let mut model = model(vec![node("", "Reshape", &["x", "shape"], "y")], vec![input("x", vec![dim])]);
        model.graph.constants.insert("shape".into(), ferromx_interop::ir::Tensor::from_array(&shape));
        model
    };
    assert!(import::check(&reshape(0), &ImportOptions::default()).is_ok());
    assert!(import::check(&reshape(21), &ImportOptions::default()).is_ok());
    assert!(import::check(&reshape(22), &ImportOptions::default()).is_err());
    let fixed = ImportOptions { shapes: [("x".to_string(), vec![22])].into(), ..ImportOptions::default() };
    assert!(import::check(&reshape(0), &fixed).is_err());
    // No lengths fit the two inputs, because dimensions of the same name must be equal.
    let (n, both) = (Dim::Named("n".into()), vec![Dim::Named("n".into()), Dim::Known(2)]);
    let inputs = vec![input("a", vec![n]), input("b", both)];
    let mut last = node("", "Concat", &["a", "b"], "y");
    last.attributes.insert("axis".into(), Value::Int(0));
    let text = import::check(&model(vec![last], inputs), &ImportOptions::default()).err().unwrap().to_string();
    assert!(text.contains("Concat"), "{text}");
}
