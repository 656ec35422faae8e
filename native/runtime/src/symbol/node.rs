//! Nodes of a symbolic graph. Nodes are shared and immutable, except for their names, attributes and parameters.

use std::borrow::Cow;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{Cache, Forward, Mode, OpCtx, OpDef};
use ferromx_core::params::{Attrs, Params};
use ferromx_ops::contrib::{FusedConvolutionParam, FusedFullyConnectedParam};
use ferromx_ops::registry;
use hashbrown::HashSet;
use parking_lot::{MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Symbol;
use super::replaceable::Replaceable;
use crate::random;

/// An operator with its parameters.
#[derive(Clone)]
pub struct OpCall {
    /// The name used in the call: the operator's name or an alias.
    pub name: &'static str,
    /// The definition.
    pub def: &'static OpDef,
    /// The parsed parameters.
    pub params: Params,
}

impl OpCall {
    /// A call of an operator, by name or alias, with its parameters as text.
    ///
    /// # Errors
    /// An unknown operator; parameters that it does not accept.
    pub fn new(name: &str, attrs: &Attrs) -> Result<OpCall> {
        let (name, def) = registry::find(name)?;
        Ok(OpCall { name, def, params: def.parse(attrs)? })
    }

    /// What the kernel gets besides its operands, for a call on a device.
    pub(crate) fn ctx<'a>(&'a self, context: Context, mode: Mode, cache: Option<&'a Cache>) -> OpCtx<'a> {
        let (random, is_train) = (random::source(context), mode.is_training());
        OpCtx { op: self.name, params: &self.params, is_train, random, cache, context, recorder: None }
    }

    /// Indices of the inputs that the operator mutates.
    pub fn mutated(&self) -> &[usize] {
        self.def.mutated(&self.params)
    }

    /// Whether the output shapes depend on the values of the inputs.
    pub fn is_dynamic(&self) -> bool {
        matches!(self.def.kernels.forward, Forward::Dynamic(_))
    }

    /// The name in messages: the registered name of a user operator, or else [`OpCall::name`].
    pub fn title(&self) -> &str {
        self.def.title(&self.params).unwrap_or(self.name)
    }

    /// The name in profiles: the registered name of a user operator, or else the operator's name, also if an alias was called.
    pub(crate) fn profiled_name(&self) -> &str {
        self.def.title(&self.params).unwrap_or(self.def.name)
    }

    /// The name of the gradient in profiles. MXNet's gradients are operators of their own.
    pub(crate) fn profiled_gradient(&self) -> String {
        format!("_backward_{}", self.profiled_name().trim_start_matches('_'))
    }

    /// Adds operator, node and argument name to an error of inference or of a kernel. The call has `inputs` inputs.
    pub fn locate(&self, error: Error, node: &str, inputs: usize) -> Error {
        error.name_argument(&self.def.input_names(&self.params, inputs)).in_operator(self.title(), node)
    }

    /// The names of the inputs in reports to a monitor.
    pub(crate) fn monitored_input_names(&self, n: usize) -> Vec<String> {
        let names = self.def.input_names(&self.params, n);
        match names.as_slice() {
            [name] if name == "data" && !self.def.metadata.has_data_name => vec!["input0".into()],
            _ => names,
        }
    }

    /// The names of the outputs in calls of a cached operator's hook.
    pub(crate) fn hooked_output_names(&self) -> Vec<String> {
        let mut names = self.def.output_names(&self.params);
        for (k, name) in names.iter_mut().enumerate().filter(|_| !self.def.metadata.has_output_names) {
            if *name == "output" || *name == format!("output{k}") {
                *name = k.to_string();
            }
        }
        names
    }
}

/// Whether an attribute with this key is not a parameter of an operator.
pub(super) fn is_hidden(key: &str) -> bool {
    key.starts_with("__") && key.ends_with("__")
}

/// Whether the operator is a cached operator, whose outputs are those of its graph.
pub(super) fn is_cached_op(def: &OpDef) -> bool {
    matches!(def.name, "_CachedOp" | "_CachedOpThreadSafe")
}

/// Whether nodes of the operator hold a subgraph.
pub(super) fn is_subgraph_op(def: &OpDef) -> bool {
    def.signature.is_expanded || is_cached_op(def)
}

/// The attributes of a node, copied on write.
pub struct NodeAttrs(RwLock<Arc<Attrs>>);

impl NodeAttrs {
    /// Attributes.
    pub fn new(attrs: Attrs) -> NodeAttrs {
        NodeAttrs(RwLock::new(Arc::new(attrs)))
    }

    /// The attributes, locked for reading.
    pub fn read(&self) -> MappedRwLockReadGuard<'_, Attrs> {
        RwLockReadGuard::map(self.0.read(), |attrs| &**attrs)
    }

    /// The attributes, locked for writing.
    pub fn write(&self) -> MappedRwLockWriteGuard<'_, Attrs> {
        RwLockWriteGuard::map(self.0.write(), Arc::make_mut)
    }

    /// A snapshot of the attributes.
    pub fn shared(&self) -> Arc<Attrs> {
        self.0.read().clone()
    }
}

impl Clone for NodeAttrs {
    fn clone(&self) -> NodeAttrs {
        NodeAttrs(RwLock::new(self.shared()))
    }
}

/// A variable or an operator in a graph.
pub struct Node {
    /// Name; unique by convention only.
    pub name: Replaceable<String>,
    /// The operator, if it is not a variable.
    pub op: Replaceable<Option<OpCall>>,
    /// Inputs, auxiliary states last.
    pub inputs: Vec<NodeEntry>,
    /// Subgraphs of the operator, such as the body of a loop.
    pub graphs: Vec<Symbol>,
    /// Attributes as text: the operator's parameters and those that users attach (`__shape__`, `ctx_group`, ...).
    pub attrs: NodeAttrs,
}

/// One output of a node.
#[derive(Clone)]
pub struct NodeEntry {
    /// The node.
    pub node: Arc<Node>,
    /// Index of the output.
    pub index: u32,
}

impl NodeEntry {
    /// Whether both are the same output of the same node.
    pub(crate) fn is_same(&self, other: &NodeEntry) -> bool {
        Arc::ptr_eq(&self.node, &other.node) && self.index == other.index
    }
}

impl Node {
    /// A node of an operator, or a variable if `op` is `None`.
    pub(crate) fn new(
        name: impl Into<String>,
        op: impl Into<Option<OpCall>>,
        inputs: Vec<NodeEntry>,
        graphs: Vec<Symbol>,
        attrs: Attrs,
    ) -> Arc<Node> {
        let (name, op): (String, Option<OpCall>) = (name.into(), op.into());
        Arc::new(Node { name: name.into(), op: op.into(), inputs, graphs, attrs: NodeAttrs::new(attrs) })
    }

    /// A variable.
    pub fn variable(name: &str, attrs: Attrs) -> Arc<Node> {
        Node::new(name, None, Vec::new(), Vec::new(), attrs)
    }

    /// A node of an operator without subgraphs.
    ///
    /// # Errors
    /// An unknown operator; invalid parameters.
    pub(crate) fn operator(op: &str, name: String, inputs: Vec<NodeEntry>, attrs: Attrs) -> Result<Arc<Node>> {
        let call = OpCall::new(op, &attrs)?;
        Ok(Node::new(name, call, inputs, Vec::new(), attrs))
    }

    /// A copy of the node with other inputs.
    pub(crate) fn with_inputs(&self, inputs: Vec<NodeEntry>) -> Arc<Node> {
        let (name, op, graphs) = (self.name.clone(), self.op.clone(), self.graphs.clone());
        Arc::new(Node { name, op, inputs, graphs, attrs: self.attrs.clone() })
    }

    /// The operator; `None` for a variable.
    pub fn op(&self) -> Option<&OpCall> {
        self.op.as_ref()
    }

    /// Whether the node is a variable.
    pub fn is_variable(&self) -> bool {
        self.op().is_none()
    }

    /// The subgraph that the node computes, if its operator is a subgraph operator.
    pub fn subgraph(&self) -> Option<&Symbol> {
        self.op().filter(|op| is_subgraph_op(op.def)).and_then(|_| self.graphs.first())
    }

    /// Output names of a node that holds a subgraph: those of a cached operator's graph, or `output`, and the ends of its range if it is
    /// quantized.
    fn subgraph_outputs(&self) -> Option<Vec<String>> {
        let (subgraph, op) = (self.subgraph()?, self.op()?);
        if is_cached_op(op.def) {
            return Some(subgraph.list_outputs());
        }
        let convolution = op.params.downcast::<FusedConvolutionParam>().map(|p| p.quantized && !p.enable_float_output);
        let dense = op.params.downcast::<FusedFullyConnectedParam>().map(|p| p.quantized && !p.enable_float_output);
        let is_quantized = convolution.or(dense).unwrap_or(false);
        let names = ["output", "output_min", "output_max"];
        Some(names[..if is_quantized { 3 } else { 1 }].iter().map(|name| name.to_string()).collect())
    }

    /// Indices of the inputs that the node mutates.
    pub fn mutated(&self) -> Cow<'_, [usize]> {
        match (self.subgraph(), self.op()) {
            (Some(subgraph), _) => {
                let variables = subgraph.variables().into_iter().enumerate();
                variables.filter(|(_, v)| v.is_aux).map(|(i, _)| i).collect()
            }
            (None, Some(op)) => Cow::Borrowed(op.mutated()),
            (None, None) => Cow::Borrowed(&[]),
        }
    }

    /// Number of outputs, hidden ones included.
    pub fn num_outputs(&self) -> usize {
        if let Some(names) = self.subgraph_outputs() {
            return names.len();
        }
        self.op().map_or(1, |op| op.def.num_outputs(&op.params))
    }

    /// Number of outputs without hidden ones.
    pub fn num_visible(&self) -> usize {
        if let Some(names) = self.subgraph_outputs() {
            return names.len();
        }
        self.op().map_or(1, |op| op.def.num_visible(&op.params))
    }

    /// Name of output `index` as listings show it: the variable's own, or `node_output`.
    pub fn output_name(&self, index: usize) -> String {
        self.output_names().into_iter().nth(index).unwrap_or_else(|| format!("{}_output{index}", self.name))
    }

    /// Names of all outputs as listings show them.
    pub(super) fn output_names(&self) -> Vec<String> {
        let Some(op) = self.op() else { return vec![self.name.to_string()] };
        let names = self.subgraph_outputs().unwrap_or_else(|| op.def.output_names(&op.params));
        names.into_iter().map(|output| format!("{}_{output}", self.name)).collect()
    }
}

/// All nodes that the entries depend on, in depth-first topological order. Argument lists have this order.
pub fn topological<'a>(outputs: impl IntoIterator<Item = &'a NodeEntry>) -> Vec<Arc<Node>> {
    let mut order = Vec::new();
    let mut visited: HashSet<*const Node> = HashSet::new();
    let mut stack: Vec<(&Arc<Node>, usize)> = Vec::new();
    for out in outputs {
        if !visited.insert(Arc::as_ptr(&out.node)) {
            continue;
        }
        stack.push((&out.node, 0));
        while let Some((node, next)) = stack.last_mut() {
            match node.inputs.get(*next) {
                Some(input) => {
                    *next += 1;
                    if visited.insert(Arc::as_ptr(&input.node)) {
                        stack.push((&input.node, 0));
                    }
                }
                None => {
                    order.push(Arc::clone(node));
                    stack.pop();
                }
            }
        }
    }
    order
}

impl Drop for Node {
    /// Drops inputs iteratively: recursion would overflow the stack on deep graphs.
    fn drop(&mut self) {
        let mut pending: Vec<NodeEntry> = std::mem::take(&mut self.inputs);
        while let Some(entry) = pending.pop() {
            if let Some(mut node) = Arc::into_inner(entry.node) {
                pending.append(&mut node.inputs);
            }
        }
    }
}
