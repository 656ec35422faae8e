//! MXNet as a framework: symbols in framework-neutral form, and operator descriptors from the registry.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::op::{Inputs, OpDef};
use ferromx_runtime::symbol::{Node as SymbolNode, Symbol};
use indexmap::IndexMap;

use crate::error::{Error, Result};
use crate::ir::{
    ArgDescriptor, Arity, AttributeDescriptor, AttributeKind, Graph, Node, OpDescriptor, Value, ValueInfo,
};

/// The name of a node's output in the neutral form. The first output has the name of the node.
pub(crate) fn value_name(node: &SymbolNode, index: usize) -> String {
    if index == 0 { node.name.to_string() } else { format!("{}:{index}", node.name) }
}

/// The attribute of a variable that names a dynamic dimension.
pub(crate) fn dim_name_key(axis: usize) -> String {
    format!("__dim_{axis}__")
}

/// The attribute of a variable with its index among the inputs of the imported model.
pub(crate) const INPUT_INDEX: &str = "__input_index__";

/// The attribute of an input or output with its element type in the imported model, if its elements are stored in a wider type.
pub(crate) const ELEMENT_TYPE: &str = "__element_type__";

/// The operator of user-defined operators; their name is its attribute `op_type`.
pub(crate) const USER_OPERATOR: &str = "Custom";

/// A symbol in framework-neutral form, without subgraphs. All variables are inputs; the caller adds the values of parameters.
///
/// # Errors
/// Two nodes with the same name.
pub(crate) fn graph(symbol: &Symbol) -> Result<Graph> {
    let value = |name: String| ValueInfo { name, element: None, dims: None, non_tensor_kind: None };
    let mut graph = Graph::default();
    let mut seen: HashMap<String, Arc<SymbolNode>> = HashMap::new();
    for node in symbol.nodes() {
        if seen.insert(node.name.to_string(), node.clone()).is_some() {
            return Err(Error::value(format!("two nodes are named '{}': names must differ to be written", node.name)));
        }
        let Some(op) = node.op() else {
            graph.inputs.push(value(node.name.to_string()));
            continue;
        };
        let descriptor = descriptor(op.def);
        let written = node.attrs.read();
        let attributes = descriptor.attributes.iter().map(|a| {
            let value = written.get(&a.name).map_or_else(|| a.default.clone(), |text| typed(text, a.kind));
            (a.name.clone(), value)
        });
        // The descriptor of `Custom` does not have the attributes of user-defined operators.
        let own = written
            .iter()
            .filter(|(key, _)| op.def.name == USER_OPERATOR && *key != "op_type" && !key.starts_with("__"));
        let attributes = attributes.chain(own.map(|(key, text)| (key.clone(), Value::Text(text.clone()))));
        graph.nodes.push(Node {
            name: node.name.to_string(),
            domain: String::new(),
            op: op.def.name.to_string(),
            inputs: node.inputs.iter().map(|e| value_name(&e.node, e.index as usize)).collect(),
            outputs: (0..node.num_visible()).map(|k| value_name(&node, k)).collect(),
            attributes: attributes.collect::<IndexMap<_, _>>(),
            ..Node::default()
        });
    }
    graph.outputs = symbol.entries().iter().map(|e| value(value_name(&e.node, e.index as usize))).collect();
    Ok(graph)
}

/// The descriptor of a registered operator.
pub(crate) fn descriptor(def: &OpDef) -> OpDescriptor {
    let inputs = match def.signature.inputs {
        Inputs::Fixed(args) => args.iter().map(|a| ArgDescriptor { name: a.name.into(), arity: Arity::One }).collect(),
        Inputs::Variadic { arg, .. } => vec![ArgDescriptor { name: arg.name.into(), arity: Arity::Many }],
    };
    let attributes = def.fields().into_iter().map(|f| {
        let (kind, is_required) = (kind(&f.type_string), f.type_string.contains("required"));
        let default =
            f.type_string.split_once("default=").map_or(Value::None, |(_, text)| typed(text.trim_matches('\''), kind));
        AttributeDescriptor { name: f.name.into(), kind, default, is_required }
    });
    let outputs = vec![ArgDescriptor { name: "output".into(), arity: Arity::Many }];
    OpDescriptor { name: def.name.into(), since: 1, inputs, outputs, attributes: attributes.collect() }
}

/// The kind of a parameter from its type string in the metadata.
fn kind(type_string: &str) -> AttributeKind {
    let head = type_string.split(", ").next().unwrap_or(type_string);
    match head {
        t if t.starts_with('{') || t.starts_with("string") => AttributeKind::Text,
        t if t.starts_with("Shape") || t.starts_with("tuple of") => AttributeKind::Ints,
        t if t.starts_with("float") || t.starts_with("double") => AttributeKind::Float,
        t if t.starts_with("int") || t.starts_with("long") || t.starts_with("boolean") => AttributeKind::Int,
        _ => AttributeKind::Text,
    }
}

/// The value of a parameter from its text.
fn typed(text: &str, kind: AttributeKind) -> Value {
    let text = text.trim();
    match kind {
        _ if text == "None" => Value::None,
        AttributeKind::Text => Value::Text(text.into()),
        _ => list(text).unwrap_or_else(|| number(text)),
    }
}

fn number(text: &str) -> Value {
    match text {
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        "None" => Value::None,
        _ => match (text.trim_end_matches('L').parse(), text.parse()) {
            (Ok(i), _) => Value::Int(i),
            (_, Ok(x)) => Value::Float(x),
            _ => Value::Text(text.into()),
        },
    }
}

/// A tuple, possibly of tuples.
fn list(text: &str) -> Option<Value> {
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    let inner = inner.or_else(|| text.strip_prefix('[').and_then(|t| t.strip_suffix(']')))?;
    let (mut items, mut depth, mut from) = (Vec::new(), 0, 0);
    for (i, c) in inner.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&inner[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    items.push(&inner[from..]);
    let items = items.into_iter().map(str::trim).filter(|t| !t.is_empty());
    Some(Value::List(items.map(|t| list(t).unwrap_or_else(|| number(t))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_by_their_types() {
        let (_, def) = ferromx_ops::registry::find("Convolution").unwrap();
        let d = descriptor(def);
        assert_eq!(d.attribute("num_group").unwrap().default, Value::Int(1));
        assert_eq!(d.attribute("stride").unwrap().default, Value::List(vec![]));
        assert!(d.attribute("kernel").unwrap().is_required);
        assert_eq!(typed("((0, 1), (2,3))", AttributeKind::Ints).to_string(), "((0, 1), (2, 3))");
        assert_eq!(typed("True", AttributeKind::Int), Value::Bool(true));
    }

    #[test]
    fn symbols_are_converted_to_graphs() {
        let x = Symbol::variable("x", Default::default());
        let s = Symbol::op("Activation", "a", &[x], &[("act_type", "relu")]).unwrap();
        let g = graph(&s).unwrap();
        assert_eq!((g.inputs[0].name.as_str(), g.outputs[0].name.as_str()), ("x", "a"));
        assert_eq!(g.nodes[0].attributes["act_type"], Value::from("relu"));
    }
}
