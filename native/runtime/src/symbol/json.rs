//! Symbol files, `prefix-symbol.json`: writes MXNet 1.9.1's JSON and reads that of all versions.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::op::{Inputs, StoredNode};
use ferromx_core::params::Attrs;
use ferromx_core::{file_format, memory};
use ferromx_ops::registry;
use serde_json::Value;

use super::compose::attach;
use super::node::is_subgraph_op;
use super::subgraph_ops::{expand, subgraph_call};
use super::{Node, NodeEntry, OpCall, Symbol, legacy_json};
use crate::{MXNET_VERSION, semantics};

/// Maximum nesting depth of subgraphs.
const MAX_DEPTH: usize = 32;

/// Maximum number of outputs of a node.
const MAX_OUTPUTS: u64 = 1 << 16;

/// Maximum number of outputs of all nodes of a graph: passes over graphs allocate memory for each.
const MAX_GRAPH_OUTPUTS: usize = 1 << 22;

/// Upper bound of the memory that parsed JSON takes per character of text. The worst case are one-digit numbers in arrays.
const JSON_BYTES_PER_CHARACTER: usize = 40;

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

fn close(open: char) -> char {
    if open == '{' { '}' } else { ']' }
}

/// An object or array on one line, or with one item per line if it has more than `max_on_line`.
fn group(open: char, items: &[String], indent: usize, max_on_line: usize) -> String {
    match items.len() > max_on_line {
        true => lines(open, items, indent),
        false => format!("{open}{}{}", items.join(", "), close(open)),
    }
}

/// An object or array with one item per line.
fn lines(open: char, items: &[String], indent: usize) -> String {
    let item_indent = " ".repeat(indent + 2);
    let lines = items.join(&format!(", \n{item_indent}"));
    format!("{open}\n{item_indent}{lines}\n{}{}", " ".repeat(indent), close(open))
}

/// An array of numbers or short arrays. MXNet breaks the line after each item of more than ten.
fn list(items: impl Iterator<Item = String>, indent: usize) -> String {
    let items: Vec<String> = items.collect();
    group('[', &items, indent, 10)
}

fn node_to_json(node: &Node, id: &HashMap<*const Node, usize>, indent: usize) -> String {
    let op = node.op().map_or("null", |op| op.def.name);
    let mut fields = vec![format!("\"op\": {}", quote(op)), format!("\"name\": {}", quote(&node.name))];
    let attrs = node.attrs.read();
    let mut keys: Vec<_> = attrs.iter().collect();
    keys.sort();
    if !keys.is_empty() {
        let attrs: Vec<_> = keys.iter().map(|(k, v)| format!("{}: {}", quote(k), quote(v))).collect();
        fields.push(format!("\"attrs\": {}", group('{', &attrs, indent + 2, 1)));
    }
    let mutates = node.mutated();
    let inputs = node
        .inputs
        .iter()
        .enumerate()
        .map(|(k, e)| format!("[{}, {}, {}]", id[&Arc::as_ptr(&e.node)], e.index, u8::from(mutates.contains(&k))));
    fields.push(format!("\"inputs\": {}", list(inputs, indent + 2)));
    if !node.graphs.is_empty() {
        let graphs: Vec<String> = node.graphs.iter().map(|graph| graph.graph_to_json(indent + 4, None)).collect();
        fields.push(format!("\"subgraphs\": {}", lines('[', &graphs, indent + 2)));
    }
    lines('{', &fields, indent)
}

impl Symbol {
    /// The graph as JSON, in the format and with the white space of MXNet 1.9.1, with `is_np_shape` if NumPy semantics are on.
    pub fn to_json(&self) -> String {
        let mut attrs = vec![format!("\"mxnet_version\": [\"int\", {MXNET_VERSION}]")];
        if semantics::is_numpy_shape() {
            attrs.insert(0, "\"is_np_shape\": [\"int\", 1]".to_string());
        }
        self.graph_to_json(0, Some(format!("\"attrs\": {}", group('{', &attrs, 2, 1))))
    }

    /// The JSON with `attrs` as its last field. Subgraphs have none, since the version is that of the file.
    fn graph_to_json(&self, indent: usize, attrs: Option<String>) -> String {
        let nodes = self.nodes();
        let id: HashMap<*const Node, usize> = nodes.iter().enumerate().map(|(i, n)| (Arc::as_ptr(n), i)).collect();
        let mut row_ptr = vec![0];
        let mut node_texts = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            node_texts.push(node_to_json(node, &id, indent + 4));
            row_ptr.push(row_ptr[i] + node.num_outputs());
        }
        let arg_nodes = (0..nodes.len()).filter(|i| nodes[*i].is_variable()).map(|i| i.to_string());
        let heads = self.outputs.iter().map(|e| format!("[{}, {}, 0]", id[&Arc::as_ptr(&e.node)], e.index));
        let mut fields = vec![
            format!("\"nodes\": {}", lines('[', &node_texts, indent + 2)),
            format!("\"arg_nodes\": {}", list(arg_nodes, indent + 2)),
            format!("\"node_row_ptr\": {}", list(row_ptr.iter().map(usize::to_string), indent + 2)),
            format!("\"heads\": {}", list(heads, indent + 2)),
        ];
        fields.extend(attrs);
        lines('{', &fields, indent)
    }

    /// Writes the JSON to a file atomically.
    ///
    /// # Errors
    /// I/O errors.
    pub fn save(&self, path: &str) -> Result<()> {
        file_format::write_atomically(path, |file| file.write_all(self.to_json().as_bytes()))
    }

    /// Reads a JSON file.
    ///
    /// # Errors
    /// I/O errors; see also [`Symbol::from_json`].
    pub fn load(path: &str) -> Result<Symbol> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
        Symbol::from_json(&text).map_err(|e| match e {
            Error::Format(message) => Error::Format(format!("{path}: {message}")),
            other => other,
        })
    }

    /// Reads a graph written by any version of MXNet or by [`Symbol::to_json`].
    ///
    /// # Errors
    /// Text that is not JSON or not a graph, an unknown operator, parameters that do not parse, an input that is not an earlier node.
    /// The message names the node.
    pub fn from_json(text: &str) -> Result<Symbol> {
        memory::ensure_available(text.len().saturating_mul(JSON_BYTES_PER_CHARACTER))?;
        let root: Value = serde_json::from_str(text).map_err(|e| {
            Error::Format(format!("the symbol file is not complete JSON: {e}; save it or download it again"))
        })?;
        let version = root["attrs"]["mxnet_version"][1].as_i64().unwrap_or(legacy_json::UNVERSIONED);
        Symbol::from_value(&root, Level { version, depth: 0 })
    }

    fn from_value(root: &Value, level: Level) -> Result<Symbol> {
        if level.depth > MAX_DEPTH {
            return Err(invalid(format!("graphs inside operators are nested more than {MAX_DEPTH} deep")));
        }
        let list = root["nodes"].as_array().ok_or_else(|| invalid("the field 'nodes' is missing"))?;
        let mut nodes: Vec<LoadedNode> = memory::with_capacity(list.len());
        let listed_outputs = num_outputs_of_nodes(root, list.len());
        let mut total_outputs = 0;
        for (i, raw) in list.iter().enumerate() {
            memory::check()?;
            let name = raw["name"].as_str().ok_or_else(|| invalid(format!("node {i} has no name")))?;
            let node = read_node(raw, name, level, &nodes, listed_outputs[i]).map_err(|e| {
                let message = format!("node {i} '{name}' of the symbol file: {e}");
                match e.cause() {
                    Some(cause) => Error::Foreign { message, cause: cause.clone() },
                    None => Error::Format(message),
                }
            })?;
            let num_outputs = node.num_outputs();
            total_outputs += num_outputs;
            if total_outputs > MAX_GRAPH_OUTPUTS {
                return Err(invalid(format!("its nodes have more than {MAX_GRAPH_OUTPUTS} outputs")));
            }
            nodes.push(LoadedNode { node, num_outputs });
        }
        let heads = root["heads"].as_array().ok_or_else(|| invalid("the field 'heads' is missing"))?;
        let outputs = heads.iter().map(|h| read_entry(h, &nodes)).collect::<Result<Vec<_>>>()?;
        Ok(Symbol { outputs })
    }
}

/// The graph that is read: that of the file, or one inside an operator.
#[derive(Clone, Copy)]
struct Level {
    /// The version of MXNet that wrote the file.
    version: i64,
    /// Number of operators that the graph is nested in.
    depth: usize,
}

/// A node with its number of outputs, since counting those of a node with subgraphs takes time.
struct LoadedNode {
    node: Arc<Node>,
    num_outputs: usize,
}

fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::Format(format!("the symbol file is not a graph: {reason}"))
}

/// Reads `[node, output, version]`; old files omit the version.
fn read_entry(value: &Value, nodes: &[LoadedNode]) -> Result<NodeEntry> {
    let index_at = |i: usize| value.get(i).and_then(Value::as_u64).map(|x| x as usize);
    let (Some(id), Some(index)) = (index_at(0), index_at(1)) else {
        return Err(invalid(format!("{value} is not a reference to a node; expected [node, output, version]")));
    };
    let loaded = nodes.get(id).ok_or_else(|| invalid(format!("node {id} is used before it is defined")))?;
    let LoadedNode { node, num_outputs } = loaded;
    if index >= *num_outputs {
        return Err(invalid(format!(
            "output {index} of node '{}' is used, but the node has {num_outputs} outputs",
            node.name
        )));
    }
    Ok(NodeEntry { node: node.clone(), index: index as u32 })
}

/// Number of outputs of each node: from `node_row_ptr`, else one more than the largest index that an entry of the file has.
fn num_outputs_of_nodes(root: &Value, num_nodes: usize) -> Vec<usize> {
    let mut counts = vec![1u64; num_nodes];
    let inputs = root["nodes"].as_array().into_iter().flatten().filter_map(|node| node["inputs"].as_array()).flatten();
    for entry in inputs.chain(root["heads"].as_array().into_iter().flatten()) {
        if let (Some(node), Some(index)) = (entry[0].as_u64(), entry[1].as_u64())
            && let Some(count) = counts.get_mut(node as usize)
        {
            *count = (*count).max(index.min(MAX_OUTPUTS - 1) + 1);
        }
    }
    let row_ptr = root["node_row_ptr"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (count, row) in counts.iter_mut().zip(row_ptr.windows(2)) {
        if let (Some(begin), Some(end)) = (row[0].as_u64(), row[1].as_u64())
            && end.checked_sub(begin).is_some_and(|n| (1..=MAX_OUTPUTS).contains(&n))
        {
            *count = end - begin;
        }
    }
    counts.into_iter().map(|count| count as usize).collect()
}

/// The attributes of a node. Files of older versions have them in other fields.
fn read_attrs(raw: &Value) -> Attrs {
    let fields = ["param", "attr", "attrs"].into_iter().filter_map(|field| raw[field].as_object()).flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    fields.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Reads a node whose inputs are among `nodes`. The file refers to `num_outputs` of its outputs.
fn read_node(raw: &Value, name: &str, level: Level, nodes: &[LoadedNode], num_outputs: usize) -> Result<Arc<Node>> {
    let version = level.version;
    let op = raw["op"].as_str().ok_or_else(|| invalid("the field 'op' is missing"))?;
    let mut attrs = read_attrs(raw);
    legacy_json::upgrade_attrs(op, &mut attrs, version);
    let list = raw["inputs"].as_array().ok_or_else(|| invalid("the field 'inputs' is missing"))?;
    let mut inputs = list.iter().map(|v| read_entry(v, nodes)).collect::<Result<Vec<_>>>()?;
    if op == "null" {
        return match inputs.is_empty() {
            true => Ok(Node::variable(name, attrs)),
            false => Err(invalid("a variable has inputs")),
        };
    }
    let graphs = raw["subgraphs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let inner = Level { depth: level.depth + 1, ..level };
    let graphs = graphs.iter().map(|g| Symbol::from_value(g, inner)).collect::<Result<Vec<_>>>()?;
    let (op, def) = registry::find(op)?;
    if is_subgraph_op(def) {
        expand(def, name, &attrs, &inputs, &graphs)?;
        return Ok(Node::new(name, subgraph_call(op, &attrs)?, inputs, graphs, attrs));
    }
    if let Inputs::Variadic { count, .. } = def.signature.inputs {
        attrs.entry(count.into()).or_insert_with(|| inputs.len().to_string());
    }
    legacy_json::move_attrs_of_arguments(def, &mut attrs, &inputs);
    // Auxiliary states are the last inputs, whose reference has a version above 0.
    let num_states = list.iter().rev().take_while(|e| e[2].as_u64().is_some_and(|version| version > 0)).count();
    let states = (inputs.len() - num_states..inputs.len()).collect();
    let stored = StoredNode { inputs: inputs.len(), states, outputs: num_outputs };
    let params = attach(def, def.parse_in_file(&attrs, &stored)?, &graphs)?;
    let expected = def.num_inputs(&params).unwrap_or(inputs.len());
    let call = OpCall { name: op, def, params };
    legacy_json::add_missing_states(name, &call, &attrs, expected, &mut inputs, version);
    if inputs.len() != expected {
        return Err(invalid(format!("{op} takes {expected} inputs, but there are {}", inputs.len())));
    }
    Ok(Node::new(name, call, inputs, graphs, attrs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_survive_a_round_trip() {
        let x = Symbol::variable("x", [("__shape__".to_string(), "(2, 3)".to_string())].into_iter().collect());
        let s = Symbol::op("Reshape", "r", &[x], &[("shape", "(3, 2)")]).unwrap();
        let text = s.to_json();
        let back = Symbol::from_json(&text).unwrap();
        assert_eq!(back.to_json(), text);
        assert_eq!(back.list_arguments(), ["x"]);
        assert_eq!(back.internals().list_outputs(), ["x", "r_output"]);
    }

    /// A convolution with an activation as MXNet writes it after partitioning for oneDNN.
    #[test]
    fn subgraph_nodes_of_a_backend_are_kept() {
        let variable = |name: &str| format!(r#"{{"op": "null", "name": "{name}", "inputs": []}}"#);
        let part = format!(
            r#"{{"nodes": [{}, {}, {{"op": "Convolution", "name": "c", "attrs": {{"kernel": "(1, 1)", "num_filter": "2",
                "no_bias": "True"}}, "inputs": [[0, 0, 0], [1, 0, 0]]}}, {{"op": "Activation", "name": "a",
                "attrs": {{"act_type": "relu"}}, "inputs": [[2, 0, 0]]}}], "arg_nodes": [0, 1], "heads": [[3, 0, 0]]}}"#,
            variable("data0"),
            variable("c_weight0")
        );
        let file = |attrs: &str| {
            format!(
                r#"{{"nodes": [{}, {}, {{"op": "_sg_mkldnn_conv", "name": "sg", "attrs": {{{attrs}}}, "inputs": [[0, 0, 0], [1, 0, 0]],
                    "subgraphs": [{part}]}}, {{"op": "Flatten", "name": "f", "inputs": [[2, 0, 0]]}}], "arg_nodes": [0, 1],
                    "heads": [[2, 0, 0], [3, 0, 0]], "attrs": {{"mxnet_version": ["int", 10901]}}}}"#,
                variable("data"),
                variable("c_weight")
            )
        };
        let s = Symbol::from_json(&file(r#""with_act": "true""#)).unwrap();
        assert_eq!(s.list_inputs(), ["data", "c_weight"]);
        assert_eq!(s.list_outputs(), ["sg_output", "f_output"]);
        assert_eq!(s.internals().list_outputs(), ["data", "c_weight", "sg_output", "f_output"]);
        let flat = s.expanded().unwrap();
        assert_eq!(flat.internals().list_outputs(), ["data", "c_weight", "c_output", "sg_output", "f_output"]);
        assert_eq!(Symbol::from_json(&s.to_json()).unwrap().to_json(), s.to_json());
        let of_1_5 = Symbol::from_json(&file(r#""with_relu": "true""#)).unwrap();
        assert_eq!(of_1_5.to_json(), s.to_json());
        let e = Symbol::from_json(&file(r#""quantized": "true""#)).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("node 2 'sg'") && e.contains("need 4"), "{e}");
    }

    #[test]
    fn damaged_files_are_errors_that_name_the_node() {
        let text = Symbol::op("Flatten", "f", &[], &[]).unwrap().to_json();
        let error = |t: &str| Symbol::from_json(t).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error(&text[..text.len() / 2]).contains("not complete JSON"));
        assert!(error(&text.replace("Flatten", "Flattn")).contains("node 1 'f' of the symbol file: operator 'Flattn'"));
        assert!(error(&text.replace("[[0, 0, 0]]", "[[1, 0, 0]]")).contains("before it is defined"));
        assert!(error("{}").contains("'nodes' is missing"));
    }

    #[test]
    fn the_outputs_of_a_graph_are_limited() {
        let split = |i: usize| {
            format!(
                r#"{{"op": "SliceChannel", "name": "s{i}", "attrs": {{"num_outputs": "65536"}}, "inputs": [[0, 0, 0]]}}"#
            )
        };
        let splits: Vec<String> = (0..65).map(split).collect();
        let text = format!(
            r#"{{"nodes": [{{"op": "null", "name": "x", "inputs": []}}, {}], "heads": [[1, 65535, 0]]}}"#,
            splits.join(", ")
        );
        assert!(Symbol::from_json(&text).err().unwrap().to_string().contains("more than 4194304 outputs"));
        assert!(Symbol::from_json(&text.replace("65536", "64000").replace("65535", "63999")).is_ok());
    }

    #[test]
    fn outputs_are_counted_by_rows_or_by_references() {
        let root = |row_ptr: &str| -> Value {
            serde_json::from_str(&format!(
                r#"{{"nodes": [{{"inputs": []}}, {{"inputs": [[0, 0]]}}, {{"inputs": [[1, 2], [9, 1]]}}], "heads": [[2, 1]]{row_ptr}}}"#
            ))
            .unwrap()
        };
        assert_eq!(num_outputs_of_nodes(&root(""), 3), [1, 3, 2]);
        assert_eq!(num_outputs_of_nodes(&root(r#", "node_row_ptr": [0, 1, 5, 6]"#), 3), [1, 4, 1]);
        assert_eq!(num_outputs_of_nodes(&root(r#", "node_row_ptr": [5, 1, 99999999]"#), 3), [1, 3, 2]);
    }

    #[test]
    fn numbers_of_inputs_and_outputs_are_limited() {
        for (op, key) in [("Concat", "num_args"), ("SliceChannel", "num_outputs"), ("add_n", "num_args")] {
            let e = Symbol::op(op, "n", &[], &[(key, "1000000000")]).map(|_| ()).unwrap_err().to_string();
            assert!(e.contains("1000000000") && e.contains("at most"), "{op}: {e}");
        }
    }
}
