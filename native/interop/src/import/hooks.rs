//! The hooks of an import. The import copies the symbols of hooks into the graph operator by operator, so that constant folding, shape
//! inference and execution work as without hooks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::Symbol;

use super::Importer;
use crate::emit::{HookNode, HookOutputs, HookTensor, Hooks, copy_symbols, located};
use crate::error::{Error, Result};
use crate::ir::{Graph, Node, Tensor, Value};

/// The hooks of an import, and the values that they produced.
#[derive(Default)]
pub(super) struct Hooked {
    hooks: Option<Arc<dyn Hooks>>,
    /// Values that hooks produced or replaced. A pattern must not match their producers.
    values: HashSet<String>,
    /// The error that ended the import.
    pub failed: Option<Error>,
}

impl Hooked {
    pub(super) fn new(hooks: Option<Arc<dyn Hooks>>) -> Hooked {
        Hooked { hooks, ..Hooked::default() }
    }

    /// True if a hook produced the value of this name.
    pub(super) fn has_produced(&self, name: &str) -> bool {
        self.values.contains(name)
    }

    /// The hooks, if there is one for the node.
    fn of(&self, node: &Node) -> Result<Option<Arc<dyn Hooks>>> {
        match &self.hooks {
            Some(hooks) if hooks.applies_to(node).map_err(|e| located(e, node))? => Ok(Some(hooks.clone())),
            _ => Ok(None),
        }
    }
}

/// The graph with the nodes that hooks rewrote, or `None` if they rewrote none.
///
/// # Errors
/// Errors of the hooks.
pub(super) fn rewrite_nodes(importer: &Importer<'_>, graph: &Graph) -> Result<Option<Graph>> {
    let mut changed: Option<Graph> = None;
    if importer.hooked.hooks.is_none() {
        return Ok(None);
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        let Some(hooks) = importer.hooked.of(node)? else { continue };
        let inputs = inputs_of(graph, node)?;
        let hook_node = HookNode { node, version: importer.emitter.version_of(node), inputs };
        let Some(rewritten) = hooks.prepare(&hook_node).map_err(|e| located(e, node))? else { continue };
        let graph = changed.get_or_insert_with(|| graph.clone());
        for (name, array) in rewritten.constants {
            let is_taken =
                graph.inputs.iter().any(|i| i.name == name) || graph.nodes.iter().any(|n| n.outputs.contains(&name));
            if is_taken || graph.constants.insert(name.clone(), Tensor::from_array(&array)).is_some() {
                return Err(Error::value(format!(
                    "{}: its hook creates a constant '{name}', which the model already has",
                    node.label()
                )));
            }
        }
        graph.nodes[i] = rewritten.node;
    }
    Ok(changed)
}

/// The inputs of a node, with the values of constants; `None` for an omitted input.
fn inputs_of(graph: &Graph, node: &Node) -> Result<Vec<Option<HookTensor>>> {
    let input = |name: &String| {
        if name.is_empty() {
            return Ok(None);
        }
        let constant = graph.constants.get(name).filter(|t| t.element.dtype().is_ok());
        let value = constant.map(Tensor::to_array).transpose()?;
        let shape = value.as_ref().map_or(Shape::unknown(), |v| v.shape().clone());
        let dtype = value.as_ref().map(NDArray::dtype);
        let symbol = Symbol::variable(name, Attrs::new());
        Ok(Some(HookTensor { name: name.clone(), symbol, shape, dtype, value }))
    };
    node.inputs.iter().map(input).collect()
}

impl Importer<'_> {
    /// A value, as passed to hooks.
    fn hook_tensor(&self, name: &str, value: &Value) -> Option<HookTensor> {
        let Value::TensorId(id) = value else { return None };
        Some(HookTensor::of(&self.emitter.builder, name, *id))
    }

    /// The outputs of a node: from the hook before the mapping or from `table`, then from the hook after the mapping.
    ///
    /// # Errors
    /// Errors of the hooks, with the node's name, and of the table.
    pub(super) fn with_hooks(
        &mut self,
        node: &Node,
        table: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let Some(hooks) = self.hooked.of(node)? else { return table(self) };
        // Hooks are not called for placeholders of nodes that could not be mapped.
        if !self.inputs_from_placeholders(node).is_empty() {
            return Err(Error::Model(Vec::new()));
        }
        let mut known: HashMap<String, Value> = HashMap::new();
        let mut inputs = Vec::new();
        for name in &node.inputs {
            let value = self.value(name)?;
            inputs.push(self.hook_tensor(name, &value));
            known.insert(name.clone(), value);
        }
        let hook_node = HookNode { node, version: self.emitter.version_of(node), inputs };
        let mut values = match hooks.before(&hook_node).map_err(|e| located(e, node))? {
            Some(replacement) => self.insert_outputs(node, replacement, &known)?,
            None => table(self)?,
        };
        let outputs: Vec<_> =
            node.outputs.iter().zip(&values).map(|(name, value)| self.hook_tensor(name, value)).collect();
        if let Some(replacement) = hooks.after(&hook_node, &outputs).map_err(|e| located(e, node))? {
            known.extend(node.outputs.iter().cloned().zip(values));
            values = self.insert_outputs(node, replacement, &known)?;
        }
        self.hooked.values.extend(node.outputs.iter().cloned());
        Ok(values)
    }

    /// Copies the symbols of a hook into the graph and returns the node's outputs. `known` has the values of the symbols' variables.
    fn insert_outputs(
        &mut self,
        node: &Node,
        replacement: HookOutputs,
        known: &HashMap<String, Value>,
    ) -> Result<Vec<Value>> {
        let num_outputs = replacement.outputs.iter().map(|s| s.entries().len()).sum::<usize>();
        if num_outputs < node.outputs.len() {
            return Err(Error::value(format!(
                "its hook returns {num_outputs} outputs, but it has {}",
                node.outputs.len()
            )));
        }
        let mut tensor_ids = HashMap::new();
        for (name, value) in known {
            if let Value::TensorId(id) = value {
                tensor_ids.insert(name.clone(), *id);
            }
        }
        for (name, array) in replacement.constants {
            let constant = self.emitter.builder.constant(&name, array);
            tensor_ids.insert(name, constant);
        }
        let outputs = copy_symbols(&mut self.emitter.builder, &replacement.outputs, &mut tensor_ids)?;
        Ok(outputs.into_iter().take(node.outputs.len()).map(Value::TensorId).collect())
    }
}
