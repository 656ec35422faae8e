//! Hooks: user code that replaces or adjusts the mapping of nodes.
//!
//! A hook may rewrite a node before it is mapped, replace the table's process, or replace the outputs of the process. It returns symbols
//! whose variables stand for the node's tensors.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{self, Symbol, topological};

use super::Builder;
use crate::error::{Error, Result};
use crate::ir::{Node, Value};

/// An input or output of a node, as passed to hooks.
pub struct HookTensor {
    /// Name of the value in the model.
    pub name: String,
    /// The variable of the tensor in the hook's symbols.
    pub symbol: Symbol,
    /// Shape, -1 for dimensions that are not known.
    pub shape: Shape,
    /// Element type, if it is known.
    pub dtype: Option<DType>,
    /// The elements of a constant.
    pub value: Option<NDArray>,
}

/// A node, as passed to hooks.
pub struct HookNode<'a> {
    /// The node in the neutral form.
    pub node: &'a Node,
    /// Operator set version of the node.
    pub version: i64,
    /// Its inputs; `None` for absent optional ones.
    pub inputs: Vec<Option<HookTensor>>,
}

/// The outputs of a node from a hook.
#[derive(Default)]
pub struct HookOutputs {
    /// The outputs of the node in order; a symbol may have several.
    pub outputs: Vec<Symbol>,
    /// The arrays of the variables that the hook added.
    pub constants: Vec<(String, NDArray)>,
}

/// A node that a hook rewrote.
pub struct RewrittenNode {
    /// The node.
    pub node: Node,
    /// Constants for inputs that the model does not have.
    pub constants: Vec<(String, NDArray)>,
}

/// Hooks. Their errors end the import.
pub trait Hooks: Send + Sync {
    /// True if there is a hook for the node's name or operator.
    ///
    /// # Errors
    /// Errors of the hook.
    fn applies_to(&self, node: &Node) -> Result<bool>;

    /// The node to map instead of this one. Called before the mapping, when only constant inputs are known.
    ///
    /// # Errors
    /// Errors of the hook.
    fn prepare(&self, node: &HookNode<'_>) -> Result<Option<RewrittenNode>>;

    /// Outputs of a node that replace those of the table. Called before the node is mapped.
    ///
    /// # Errors
    /// Errors of the hook.
    fn before(&self, node: &HookNode<'_>) -> Result<Option<HookOutputs>>;

    /// Outputs of a node that replace `outputs`. Called after the node was mapped.
    ///
    /// # Errors
    /// Errors of the hook.
    fn after(&self, node: &HookNode<'_>, outputs: &[Option<HookTensor>]) -> Result<Option<HookOutputs>>;
}

impl HookTensor {
    /// A tensor of the graph under a name of the model.
    pub(crate) fn of(builder: &Builder, name: &str, tensor_id: usize) -> HookTensor {
        let info = builder.info(tensor_id);
        HookTensor {
            name: name.into(),
            symbol: Symbol::variable(name, Attrs::new()),
            shape: info.shape.clone(),
            dtype: info.dtype,
            value: info.value.clone(),
        }
    }
}

/// Adds the node to an error of user code, keeping its cause.
pub(crate) fn located(e: Error, node: &Node) -> Error {
    match e {
        Error::Engine(e) => {
            let name = node.outputs.first().filter(|_| node.name.is_empty()).unwrap_or(&node.name);
            Error::Engine(e.in_operator(&node.op, name))
        }
        other => other,
    }
}

/// Copies the operators of symbols into a graph and returns the tensors of the symbols' outputs. `known` has the tensors of variables;
/// other variables become inputs.
///
/// # Errors
/// Errors of the operators.
pub(crate) fn copy_symbols(
    builder: &mut Builder,
    symbols: &[Symbol],
    known: &mut HashMap<String, usize>,
) -> Result<Vec<usize>> {
    let entries = || symbols.iter().flat_map(Symbol::entries);
    let mut tensors: HashMap<*const symbol::Node, Vec<usize>> = HashMap::new();
    for node in topological(entries()) {
        let outputs = match node.op() {
            None => match known.get(node.name.as_str()) {
                Some(tensor_id) => vec![*tensor_id],
                None => {
                    let tensor_id = builder.input(&node.name, Shape::unknown(), None, None);
                    known.insert(node.name.to_string(), tensor_id);
                    vec![tensor_id]
                }
            },
            Some(op) => {
                let ins = node.inputs.iter().map(|e| Value::TensorId(tensors[&Arc::as_ptr(&e.node)][e.index as usize]));
                let ins: Vec<Value> = ins.collect();
                let attrs = node.attrs.read().clone();
                builder.apply_with(op.name, &node.name, &ins, attrs, &node.graphs)?
            }
        };
        tensors.insert(Arc::as_ptr(&node), outputs);
    }
    Ok(entries().map(|e| tensors[&Arc::as_ptr(&e.node)][e.index as usize]).collect())
}
