//! The hooks of an export, which take precedence over the table. A hook replaces an MXNet node by a node of any domain, or by other MXNet
//! operators, which are then mapped.

use std::collections::HashSet;
use std::sync::Arc;

use ferromx_runtime::symbol::Symbol;
use indexmap::IndexMap;

use super::{Exporter, Source, bodies};
use crate::emit::{HookNode, HookOutputs, HookTensor, Hooks, RewrittenNode, located};
use crate::error::{Error, Result};
use crate::ir::{Node, Value};
use crate::mxnet::USER_OPERATOR;

/// Maximum nesting depth of hooks that are called for operators of other hooks.
const MAX_DEPTH: usize = 24;

/// The hooks of an export, and the nodes that they wrote.
#[derive(Default)]
pub(super) struct ExportHooks {
    /// The hooks: `before` returns MXNet operators, `prepare` a node of the framework.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// The versions of operator sets that nodes were written in.
    pub opsets: IndexMap<String, i64>,
    /// Nesting depth of hooks that are called for operators of other hooks.
    pub depth: usize,
}

/// An MXNet node as hooks see it. A user-defined operator has its own name; attributes without a value are omitted.
fn shown(node: &Node) -> Node {
    let is_user_operator = node.op == USER_OPERATOR;
    let own_name = node.attributes.get("op_type").filter(|_| is_user_operator);
    let attribute = |value: &Value| match value {
        Value::Bool(b) => Value::Int(i64::from(*b)),
        Value::List(items) if items.iter().any(|v| matches!(v, Value::List(_))) => Value::Text(value.to_string()),
        other => other.clone(),
    };
    let attributes =
        node.attributes.iter().filter(|(key, v)| **v != Value::None && !(is_user_operator && *key == "op_type"));
    Node {
        op: own_name.map_or_else(|| node.op.clone(), Value::to_string),
        attributes: attributes.map(|(key, v)| (key.clone(), attribute(v))).collect(),
        ..node.clone()
    }
}

/// Calls the hooks for an MXNet node. True if a hook replaced it.
///
/// # Errors
/// Errors of the hooks; a replacement that cannot be written.
pub(super) fn write(exporter: &mut Exporter<'_>, source: &Source, i: usize, opset: i64) -> Result<bool> {
    let hooks = exporter.hooks.hooks.clone();
    let Some(hooks) = hooks else { return Ok(false) };
    let node = shown(&source.graph.nodes[i]);
    if !hooks.applies_to(&node).map_err(|e| located(e, &node))? {
        return Ok(false);
    }
    let inputs = node
        .inputs
        .iter()
        .map(|name| Some(HookTensor::of(&exporter.emitter.builder, name, *source.tensor_ids.get(name)?)))
        .collect();
    let hooked = HookNode { node: &node, version: opset, inputs };
    if let Some(replacement) = hooks.before(&hooked).map_err(|e| located(e, &node))? {
        write_symbols(exporter, source, i, &replacement, opset)?;
        return Ok(true);
    }
    let Some(rewritten) = hooks.prepare(&hooked).map_err(|e| located(e, &node))? else { return Ok(false) };
    write_node(exporter, source, i, rewritten, opset)?;
    Ok(true)
}

/// Replaces an MXNet node by other MXNet operators.
fn write_symbols(
    exporter: &mut Exporter<'_>,
    source: &Source,
    i: usize,
    replacement: &HookOutputs,
    opset: i64,
) -> Result<()> {
    let node = &source.graph.nodes[i];
    let graph = Symbol::group(&replacement.outputs);
    if graph.num_outputs() < node.outputs.len() {
        let (given, wanted) = (graph.num_outputs(), node.outputs.len());
        return Err(Error::value(format!("its hook returns {given} outputs, but it has {wanted}")));
    }
    let mut variables = Vec::new();
    for name in graph.list_inputs() {
        let constant = replacement.constants.iter().find(|(known, _)| *known == name);
        variables.push(match (constant, source.tensor_ids.get(&name).filter(|_| node.inputs.contains(&name))) {
            (Some((_, array)), _) => exporter.emitter.builder.constant(&name, array.clone()),
            (None, Some(tensor_id)) => *tensor_id,
            (None, None) => {
                let text =
                    format!("its hook uses a variable '{name}', which is neither an input of the node nor a constant");
                return Err(Error::value(text));
            }
        });
    }
    if exporter.hooks.depth >= MAX_DEPTH {
        return Err(Error::value("its hook creates an operator that the hook itself replaces, endlessly"));
    }
    exporter.hooks.depth += 1;
    let written = bodies::write_composed(exporter, source, i, &graph, &variables, opset);
    exporter.hooks.depth -= 1;
    written
}

/// Replaces an MXNet node by a node of any operator set.
fn write_node(
    exporter: &mut Exporter<'_>,
    source: &Source,
    i: usize,
    rewritten: RewrittenNode,
    opset: i64,
) -> Result<()> {
    let mxnet_node = &source.graph.nodes[i];
    let mut node = rewritten.node;
    let mut added = IndexMap::new();
    for (name, array) in rewritten.constants {
        let tensor_id = exporter.emitter.builder.constant(&name, array);
        added.insert(name, tensor_id);
    }
    for name in node.inputs.iter_mut().filter(|name| !name.is_empty()) {
        let Some(tensor_id) = added.get(name).or_else(|| source.tensor_ids.get(name)) else {
            return Err(Error::value(format!("its hook gives it an input '{name}', which the network does not have")));
        };
        *name = exporter.name_of(&Value::TensorId(*tensor_id))?;
    }
    node.outputs.clone_from(&mxnet_node.outputs);
    let described = exporter.emitter.schema.written_version(&node.domain);
    let version = node.version.take().unwrap_or(if node.domain.is_empty() { opset } else { described });
    let known = if node.domain.is_empty() {
        opset
    } else {
        *exporter.hooks.opsets.entry(node.domain.clone()).or_insert(version)
    };
    if version != known {
        let text =
            format!("its hook writes it in version {version} of the operator set '{}', others in {known}", node.domain);
        return Err(Error::value(text));
    }
    match exporter.emitter.schema.find(&node.domain, &node.op, version) {
        Some(descriptor) => descriptor.check(&node)?,
        None if node.domain.is_empty() => {
            return Err(Error::value(format!(
                "its hook writes {}, which version {version} of ONNX does not have",
                node.op
            )));
        }
        None => {}
    }
    exporter.sink.nodes.push(node);
    Ok(())
}

/// The domains of nodes and of their subgraphs.
pub(super) fn domains(nodes: &[Node], found: &mut HashSet<String>) {
    for node in nodes {
        found.insert(node.domain.clone());
        for value in node.attributes.values() {
            if let Value::Graph(graph) = value {
                domains(&graph.nodes, found);
            }
        }
    }
}
