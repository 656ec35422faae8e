//! Models with dynamic dimensions: an import keeps shape arithmetic dynamic, it works for inputs of any size, and it can be exported.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions, Imported};
use ferromx_interop::ir::{Dim, ElementType, Graph, Model, Node, Tensor, Value, ValueInfo};
use ferromx_interop::run;
use ferromx_runtime::symbol::Symbol;

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[(&str, Value)]) -> Node {
    Node {
        name: output.into(),
        op: op.into(),
        inputs: inputs.iter().map(|i| i.to_string()).collect(),
        outputs: vec![output.into()],
        attributes: attributes.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        ..Node::default()
    }
}

fn dynamic(name: &str, dims: &[&str]) -> ValueInfo {
    let dim = |d: &&str| d.parse().map_or_else(|_| Dim::Named(d.to_string()), Dim::Known);
    let (element, dims) = (Some(ElementType::DType(DType::F32)), Some(dims.iter().map(dim).collect()));
    ValueInfo { name: name.into(), element, dims, non_tensor_kind: None }
}

fn integers(items: &[i64]) -> Tensor {
    Tensor::from_array(&NDArray::from_slice(items, &[items.len() as i64]).unwrap())
}

/// y = reshape(x, (length, 2 batch, 2)) + expand(z) + range(length) + table[:length], with z of shape (1, 2), and repeated.
fn model() -> Model {
    let nodes = vec![
        node("Shape", &["x"], "shape", &[]),
        node("Gather", &["shape", "zero"], "batch", &[]),
        node("Gather", &["shape", "one"], "length", &[]),
        node("Mul", &["batch", "two"], "twice", &[]),
        node("Concat", &["length", "twice", "two"], "target", &[("axis", Value::Int(0))]),
        node("Reshape", &["x", "target"], "reshaped", &[]),
        node("Expand", &["z", "target"], "expanded", &[]),
        node("Squeeze", &["length", "zero"], "count", &[]),
        node("Squeeze", &["zero", "zero"], "start", &[]),
        node("Squeeze", &["one", "zero"], "step", &[]),
        node("Range", &["start", "count", "step"], "range", &[]),
        node("Cast", &["range"], "numbers", &[("to", Value::Int(1))]),
        node("Slice", &["table", "zero", "length", "zero"], "part", &[]),
        node("Add", &["numbers", "part"], "row", &[]),
        node("Unsqueeze", &["row", "last_axes"], "column", &[]),
        node("Add", &["reshaped", "expanded"], "sum", &[]),
        node("Add", &["sum", "column"], "all", &[]),
        node("Concat", &["one", "batch", "one"], "times", &[("axis", Value::Int(0))]),
        node("Tile", &["all", "times"], "y", &[]),
    ];
    let table: Vec<f32> = (0..16).map(|i| (i * i) as f32).collect();
    let constants = [
        ("zero", integers(&[0])),
        ("one", integers(&[1])),
        ("two", integers(&[2])),
        ("last_axes", integers(&[1, 2])),
        ("table", Tensor::from_array(&NDArray::from_slice(&table, &[16]).unwrap())),
    ];
    let graph = Graph {
        nodes,
        // The graph needs x first.
        inputs: vec![dynamic("z", &["1", "2"]), dynamic("x", &["batch", "length", "4"])],
        outputs: vec![ValueInfo { name: "y".into(), element: None, dims: None, non_tensor_kind: None }],
        constants: constants.map(|(name, tensor)| (name.to_string(), tensor)).into_iter().collect(),
        ..Graph::default()
    };
    Model { graph, opsets: [(String::new(), 17)].into_iter().collect(), ..Model::default() }
}

fn expected(x: &[f32], z: &[f32], batch: usize, length: usize) -> Vec<f32> {
    let one = |i: usize, j: usize, k: usize| x[(i * 2 * batch + j) * 2 + k] + z[k] + i as f32 + (i * i) as f32;
    let rows =
        |i: usize| (0..batch).flat_map(move |_| (0..2 * batch).flat_map(move |j| (0..2).map(move |k| (i, j, k))));
    (0..length).flat_map(rows).map(|(i, j, k)| one(i, j, k)).collect()
}

fn check(imported: &Imported) {
    for (batch, length) in [(1usize, 1usize), (2, 3), (3, 7), (5, 2)] {
        let x: Vec<f32> = (0..batch * length * 4).map(|i| i as f32 * 0.5).collect();
        let z = [10.0f32, 20.0];
        let inputs = HashMap::from([
            ("x".to_string(), NDArray::from_slice(&x, &[batch as i64, length as i64, 4]).unwrap()),
            ("z".to_string(), NDArray::from_slice(&z, &[1, 2]).unwrap()),
        ]);
        let made = run::bind_and_run(imported, &inputs).unwrap();
        assert_eq!(made[0].shape().dims(), [length as i64, 2 * (batch * batch) as i64, 2]);
        assert_eq!(made[0].to_vec::<f32>().unwrap(), expected(&x, &z, batch, length));
    }
}

#[test]
fn graphs_with_dynamic_dimensions_fit_inputs_of_any_size() {
    let imported = import::import(&model(), &ImportOptions::default()).unwrap();
    check(&imported);
    // As it comes from a file.
    let symbol = Symbol::from_json(&imported.symbol.to_json()).unwrap();
    check(&Imported { symbol, ..imported });
}

#[test]
fn dynamic_dimensions_and_the_order_of_inputs_survive_an_export() {
    let imported = import::import(&model(), &ImportOptions::default()).unwrap();
    let params = imported.args.iter().map(|(n, a)| (n.clone(), a.clone())).collect();
    for opset in [14, 21] {
        let options = ExportOptions { outputs: vec!["y".into()], opset: Some(opset), ..ExportOptions::default() };
        let written = export::export(&imported.symbol, &params, &options).unwrap();
        let names: Vec<_> = written.graph.inputs.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["z", "x"]);
        check(&import::import(&written, &ImportOptions::default()).unwrap());
    }
    // Unused inputs keep their positions.
    let inputs = vec![dynamic("unused", &["3"]), dynamic("x", &["batch", "length", "4"])];
    let options = ExportOptions { inputs, ..ExportOptions::default() };
    let written = export::export(&imported.symbol, &params, &options).unwrap();
    let names: Vec<_> = written.graph.inputs.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["unused", "x", "z"]);
}

/// Nodes whose lengths depend on those of x: a sort along an axis, circular and computed padding, pooling with a last, incomplete window, a
/// table shorter than the sample lengths, and rows selected by a mask.
fn varied() -> Model {
    let list = |items: &[i64]| Value::from(items.to_vec());
    let mut nodes = vec![
        node("Shape", &["x"], "shape", &[]),
        node("Gather", &["shape", "one"], "length", &[]),
        node("TopK", &["x", "length"], "sorted", &[("axis", Value::Int(1))]),
        node("Pad", &["x", "pads"], "circular", &[("mode", Value::Text("wrap".into()))]),
        node("Mod", &["length", "four"], "rest", &[]),
        node("Concat", &["zero", "zero", "zero", "zero", "rest", "zero"], "computed", &[("axis", Value::Int(0))]),
        node("Pad", &["x", "computed"], "padded", &[]),
        node("Slice", &["table", "zero", "length", "zero"], "first", &[]),
        node("Unsqueeze", &["first", "one"], "column", &[]),
        node("Add", &["x", "column"], "sum", &[]),
        node("Reshape", &["sum", "split"], "halves", &[]),
        node("Shape", &["halves"], "halves_shape", &[]),
        node("Greater", &["x", "half"], "mask", &[]),
        node("NonZero", &["mask"], "indices", &[]),
        node("Transpose", &["indices"], "rows", &[("perm", list(&[1, 0]))]),
        node("GatherND", &["x", "rows"], "selected", &[]),
        node("Shape", &["selected"], "count", &[]),
    ];
    for (op, output) in [("MaxPool", "max"), ("AveragePool", "average")] {
        let window = [("kernel_shape", list(&[2])), ("strides", list(&[2])), ("ceil_mode", Value::Int(1))];
        nodes.push(node(op, &["x"], output, &window));
    }
    let table: Vec<f32> = (0..20).map(|i| i as f32).collect();
    let constants = [
        ("zero", integers(&[0])),
        ("one", integers(&[1])),
        ("four", integers(&[4])),
        ("pads", integers(&[0, 1, 0, 0, 1, 0])),
        ("split", integers(&[0, 0, 2, -1])),
        ("half", Tensor::from_array(&NDArray::from_slice(&[0.5f32], &[]).unwrap())),
        ("table", Tensor::from_array(&NDArray::from_slice(&table, &[20]).unwrap())),
    ];
    let outputs = ["sorted", "circular", "padded", "halves_shape", "selected", "count", "max", "average"];
    let output = |name: &str| ValueInfo { name: name.into(), element: None, dims: None, non_tensor_kind: None };
    let graph = Graph {
        nodes,
        inputs: vec![dynamic("x", &["batch", "length", "6"])],
        outputs: outputs.map(output).into(),
        constants: constants.map(|(name, tensor)| (name.to_string(), tensor)).into_iter().collect(),
        ..Graph::default()
    };
    Model { graph, opsets: [(String::new(), 19)].into_iter().collect(), ..Model::default() }
}

#[test]
fn dynamic_graphs_compute_the_same_as_node_by_node_execution() {
    let imported = import::import(&varied(), &ImportOptions::default()).unwrap();
    for (batch, length) in [(1usize, 3usize), (2, 5), (3, 8)] {
        let x: Vec<f32> = (0..batch * length * 6).map(|i| (i as f32 * 0.7).sin()).collect();
        let x = NDArray::from_slice(&x, &[batch as i64, length as i64, 6]).unwrap();
        let inputs = HashMap::from([("x".to_string(), x)]);
        let made = run::bind_and_run(&imported, &inputs).unwrap();
        let wanted = import::execute(&varied(), inputs).unwrap();
        for (k, (made, wanted)) in made.iter().zip(&wanted).enumerate() {
            assert_eq!(made.shape(), wanted.shape(), "output {k}");
            assert_eq!(made.to_vec_as::<f64>().unwrap(), wanted.to_vec_as::<f64>().unwrap(), "output {k}");
        }
    }
}
