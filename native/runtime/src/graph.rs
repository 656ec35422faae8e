//! The graph that passes transform: forward and gradient nodes in topological order.

use std::fmt::Display;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, GradGraph, NodeCopy};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, Forward, KernelFn, OpDef};
use ferromx_core::params::{Attrs, Params};
use hashbrown::{HashMap, HashSet};

use crate::symbol::{Node, OpCall, Symbol, topological};

/// The computation of a node of a [`Graph`].
#[derive(Clone)]
pub(crate) enum Action {
    /// An input of the graph.
    Variable,
    /// An operator.
    Forward(OpCall),
    /// The gradient kernel of the forward node `of`; its outputs are the gradients of that node's inputs.
    Backward {
        /// The forward node.
        of: u32,
        /// Its operator.
        op: OpCall,
        /// The declaration of the kernel and its inputs.
        backward: Backward,
    },
    /// A product with a fused epilogue, or another fusion on integers. Only plans contain such nodes. Only the first output is computed.
    Fused {
        /// The operator that was fused with others.
        op: OpCall,
        /// The kernel.
        kernel: KernelFn,
        /// The kernel's parameters, such as [`Fused`](ferromx_core::fusion::Fused).
        params: Params,
    },
}

/// A node of a [`Graph`].
#[derive(Clone)]
pub(crate) struct GraphNode {
    /// Name for messages and monitors.
    pub name: String,
    /// The computation.
    pub action: Action,
    /// Its inputs.
    pub inputs: Vec<Entry>,
    /// Number of outputs.
    pub num_outputs: usize,
    /// Attributes as text.
    pub attrs: Arc<Attrs>,
    /// State that the node keeps between runs.
    pub cache: Arc<Cache>,
    /// The device that the node runs on.
    pub context: Context,
    /// The forward node whose gradient the node helps to compute.
    pub gradient_of: Option<u32>,
}

impl GraphNode {
    /// The operator, if the node is one.
    pub(crate) fn op(&self) -> Option<&OpCall> {
        match &self.action {
            Action::Variable => None,
            Action::Forward(op) | Action::Backward { op, .. } | Action::Fused { op, .. } => Some(op),
        }
    }

    /// The name in profiles; empty for a variable.
    pub(crate) fn profiled_name(&self) -> String {
        match &self.action {
            Action::Variable => String::new(),
            Action::Forward(op) | Action::Fused { op, .. } => op.profiled_name().into(),
            Action::Backward { op, .. } => op.profiled_gradient(),
        }
    }

    /// Indices of the inputs that the node mutates.
    pub(crate) fn mutated_inputs(&self) -> &[usize] {
        match &self.action {
            Action::Variable | Action::Fused { .. } => &[],
            Action::Forward(op) => op.mutated(),
            Action::Backward { backward, .. } => backward.updates,
        }
    }

    /// Whether the kernel supports requests to add.
    pub(crate) fn accumulates(&self) -> bool {
        match &self.action {
            Action::Variable | Action::Fused { .. } => false,
            Action::Forward(op) => op.def.kernels.is_accumulating,
            Action::Backward { backward, .. } => backward.is_accumulating,
        }
    }

    /// Whether the first output is a view of the first input.
    pub(crate) fn is_view(&self) -> bool {
        matches!(&self.action, Action::Forward(op) if matches!(op.def.kernels.forward, Forward::View))
    }

    /// Number of visible outputs of a forward node.
    pub(crate) fn num_visible(&self) -> usize {
        match &self.action {
            Action::Forward(op) => op.def.num_visible(&op.params),
            _ => self.num_outputs,
        }
    }
}

/// A gradient that a user operator composed, whose shape and type must be checked against its input.
#[derive(Clone)]
pub(crate) struct CheckedGradient {
    /// The forward node.
    pub of: usize,
    /// Index of the input.
    pub input: usize,
    /// The input's gradient.
    pub gradient: Entry,
}

/// Nodes in topological order.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    /// The nodes.
    pub nodes: Vec<GraphNode>,
    /// Gradients whose shapes and types must be checked against their inputs.
    pub checked_gradients: Vec<CheckedGradient>,
}

/// Output `index` of node `node`.
pub(crate) fn entry(node: usize, index: usize) -> Entry {
    Entry { node: node as u32, index: index as u32 }
}

impl Graph {
    /// The graph of a symbol and the entries of its outputs, in the symbol's topological order. If subgraph nodes are expanded, all
    /// variables come first, in that order.
    pub(crate) fn from_symbol(symbol: &Symbol) -> (Graph, Vec<Entry>) {
        let mut nodes = topological(symbol.entries());
        let expanded = symbol.expanded();
        if let Some(flat) = &expanded {
            nodes.retain(|node| node.is_variable());
            let variables: HashSet<*const Node> = nodes.iter().map(Arc::as_ptr).collect();
            nodes.extend(topological(flat.entries()).into_iter().filter(|n| !variables.contains(&Arc::as_ptr(n))));
        }
        let symbol = expanded.as_ref().unwrap_or(symbol);
        let id: HashMap<*const Node, usize> = nodes.iter().enumerate().map(|(i, n)| (Arc::as_ptr(n), i)).collect();
        let find = |e: &crate::symbol::NodeEntry| entry(id[&Arc::as_ptr(&e.node)], e.index as usize);
        let mut graph = Graph::default();
        for node in &nodes {
            let inputs = node.inputs.iter().map(find).collect();
            let action = node.op().cloned().map_or(Action::Variable, Action::Forward);
            graph.push(&node.name, action, inputs, node.attrs.shared());
        }
        (graph, symbol.entries().iter().map(find).collect())
    }

    /// Adds an input of the graph.
    pub(crate) fn variable(&mut self, name: &str, attrs: Attrs) -> Entry {
        self.push(name, Action::Variable, Vec::new(), attrs)
    }

    /// Adds a node and returns its first output.
    pub(crate) fn push(
        &mut self,
        name: &str,
        action: Action,
        inputs: Vec<Entry>,
        attrs: impl Into<Arc<Attrs>>,
    ) -> Entry {
        let num_outputs = match &action {
            Action::Variable | Action::Fused { .. } => 1,
            Action::Forward(op) => op.def.num_outputs(&op.params),
            Action::Backward { of, op, .. } => self.nodes[*of as usize].inputs.len() - op.mutated().len(),
        };
        self.nodes.push(GraphNode {
            name: name.into(),
            action,
            inputs,
            num_outputs,
            attrs: attrs.into(),
            cache: Arc::default(),
            context: Context::default(),
            gradient_of: None,
        });
        entry(self.nodes.len() - 1, 0)
    }

    /// Checks the gradients of user operators against their inputs. `value` returns the `property`, shape or type, of an entry, if known.
    ///
    /// # Errors
    /// A gradient that differs from its input, with operator, node and input.
    pub(crate) fn check_gradients<T: PartialEq + Display>(
        &self,
        property: &str,
        value: impl Fn(Entry) -> Option<T>,
    ) -> Result<()> {
        for CheckedGradient { of, input, gradient } in &self.checked_gradients {
            let node = &self.nodes[*of];
            let (Some(expected), Some(given)) = (value(node.inputs[*input]), value(*gradient)) else { continue };
            if expected != given {
                let text = format!(
                    "the gradient of input {input} has {property} {given}, but the input has {property} {expected}"
                );
                return Err(Error::Value(text).in_operator(node.op().map_or("", OpCall::title), &node.name));
            }
        }
        Ok(())
    }

    /// Whether output 0 of a forward node can be written to a gradient array, because it certainly has the array's shape and type: those of
    /// `first`, input 0, which it may overwrite. User operators may compose gradients of any shape, which are checked later.
    pub(crate) fn can_write_gradient(&self, op: &OpCall, first: &NDArray, array: &NDArray) -> bool {
        let keeps_shape =
            op.def.kernels.inplace.contains(&(0, 0)) && matches!(op.def.kernels.forward, Forward::Kernel(_));
        let is_equal = first.shape() == array.shape() && first.dtype() == array.dtype();
        keeps_shape && is_equal && self.checked_gradients.is_empty()
    }

    /// The entries of the variables, in topological order.
    pub(crate) fn variables(&self) -> impl Iterator<Item = Entry> {
        let variables = self.nodes.iter().enumerate().filter(|(_, node)| matches!(node.action, Action::Variable));
        variables.map(|(i, _)| entry(i, 0))
    }

    /// The node that an entry belongs to.
    pub(crate) fn node(&self, e: Entry) -> &GraphNode {
        &self.nodes[e.node as usize]
    }

    /// For each node, whether one of the targets depends on it. The other nodes are dead code.
    pub(crate) fn needed_for(&self, targets: impl IntoIterator<Item = Entry>) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        for e in targets {
            needed[e.node as usize] = true;
        }
        for i in (0..self.nodes.len()).rev() {
            if needed[i] {
                self.nodes[i].inputs.iter().for_each(|e| needed[e.node as usize] = true);
            }
        }
        needed
    }

    /// The nodes that the targets depend on, in the order of a depth-first search that visits targets and inputs from first to last.
    pub(crate) fn depth_first(&self, targets: impl IntoIterator<Item = Entry>) -> Vec<usize> {
        let mut is_visited = vec![false; self.nodes.len()];
        let mut order = Vec::new();
        for target in targets {
            let mut stack = Vec::new();
            if !std::mem::replace(&mut is_visited[target.node as usize], true) {
                stack.push((target.node as usize, 0));
            }
            while let Some((i, next_input)) = stack.last_mut() {
                let Some(input) = self.nodes[*i].inputs.get(*next_input) else {
                    order.push(*i);
                    stack.pop();
                    continue;
                };
                *next_input += 1;
                if !std::mem::replace(&mut is_visited[input.node as usize], true) {
                    stack.push((input.node as usize, 0));
                }
            }
        }
        order
    }

    /// Moves the nodes from `first` on into the given order, which may leave out dead code. Returns the new index of every node.
    pub(crate) fn reorder(&mut self, first: usize, order: &[usize]) -> Vec<u32> {
        let mut is_listed = vec![false; self.nodes.len()];
        order.iter().for_each(|i| is_listed[*i] = true);
        let listed = order.iter().copied().filter(|i| *i >= first);
        let old: Vec<usize> =
            (0..first).chain(listed).chain((first..self.nodes.len()).filter(|i| !is_listed[*i])).collect();
        let mut new = vec![0; old.len()];
        old.iter().enumerate().for_each(|(to, from)| new[*from] = to as u32);
        let mut nodes: Vec<Option<GraphNode>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = old.iter().filter_map(|i| nodes[*i].take()).collect();
        let inputs = self.nodes[first..].iter_mut().flat_map(|node| &mut node.inputs);
        let gradients = self.checked_gradients.iter_mut().map(|checked| &mut checked.gradient);
        inputs.chain(gradients).for_each(|e| e.node = new[e.node as usize]);
        new
    }
}

/// Adds the operators of composed gradients, named after the node that is differentiated.
pub(crate) struct GradientBuilder<'g> {
    /// The graph to extend.
    pub graph: &'g mut Graph,
    /// Prefix of the names of new nodes.
    pub prefix: String,
}

impl GradientBuilder<'_> {
    fn push(&mut self, call: OpCall, inputs: &[Entry], attrs: Attrs) -> Vec<Entry> {
        let name = format!("{}_{}", self.prefix, call.title());
        let first = self.graph.push(&name, Action::Forward(call), inputs.to_vec(), attrs);
        (0..self.graph.node(first).num_outputs).map(|i| entry(first.node as usize, i)).collect()
    }
}

impl GradGraph for GradientBuilder<'_> {
    fn apply(&mut self, def: &'static OpDef, inputs: &[Entry], attrs: Attrs) -> Result<Vec<Entry>> {
        let call = OpCall { name: def.name, def, params: def.parse(&attrs)? };
        Ok(self.push(call, inputs, attrs))
    }

    fn copy(&mut self, node: &NodeCopy<'_>, inputs: &[Entry]) -> Result<Vec<Entry>> {
        let call = OpCall { name: node.name, def: node.def, params: node.params.clone() };
        Ok(self.push(call, inputs, node.attrs.clone()))
    }
}
