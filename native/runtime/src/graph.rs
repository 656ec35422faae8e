//! The graph as the passes see it: nodes in a vector, inputs before their users, forward and gradient operators alike.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Copied, Entry, GradGraph};
use ferromx_core::op::{Cache, KernelFn, OpDef};
use ferromx_core::params::{Attrs, Params};
use ferromx_ops::registry;

use crate::symbol::{Node, OpCall, Symbol, topological};

/// What a node of a [`Graph`] does.
#[derive(Clone)]
pub enum Action {
    /// A value from outside.
    Variable,
    /// An operator.
    Forward(OpCall),
    /// The gradient kernel of the forward node `of`; its outputs are the gradients of that node's inputs.
    Backward {
        /// The forward node.
        of: u32,
        /// Its operator.
        op: OpCall,
        /// The kernel and what it reads.
        backward: Backward,
    },
    /// A product with what follows it, as the plan makes it: only the first output is computed.
    Fused {
        /// The product's operator.
        op: OpCall,
        /// The kernel.
        kernel: KernelFn,
        /// The kernel's parameters, [`Fused`](ferromx_core::fusion::Fused).
        params: Params,
    },
}

/// A node of a [`Graph`].
#[derive(Clone)]
pub struct GraphNode {
    /// Name for messages and monitors.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Its inputs.
    pub inputs: Vec<Entry>,
    /// Number of outputs.
    pub num_outputs: usize,
    /// Attributes as text.
    pub attrs: Arc<Attrs>,
    /// What the node keeps between runs.
    pub cache: Arc<Cache>,
    /// The device that it runs on.
    pub context: Context,
    /// The forward node whose gradient the node helps to compute.
    pub gradient_of: Option<u32>,
}

impl GraphNode {
    /// The operator, if the node is one.
    pub fn op(&self) -> Option<&OpCall> {
        match &self.action {
            Action::Variable => None,
            Action::Forward(op) | Action::Backward { op, .. } | Action::Fused { op, .. } => Some(op),
        }
    }

    /// Whether its kernel can add to what is there.
    pub fn accumulates(&self) -> bool {
        match &self.action {
            Action::Variable | Action::Fused { .. } => false,
            Action::Forward(op) => op.def.accumulates,
            Action::Backward { backward, .. } => backward.accumulates,
        }
    }

    /// Number of visible outputs of a forward node.
    pub fn num_visible(&self) -> usize {
        match &self.action {
            Action::Forward(op) => op.def.num_visible(&op.params),
            _ => self.num_outputs,
        }
    }
}

/// A gradient that user code composed: nothing guarantees that it is like the input that it belongs to.
#[derive(Clone)]
pub struct CheckedGradient {
    /// The forward node.
    pub of: usize,
    /// Which of its inputs.
    pub input: usize,
    /// The input's gradient.
    pub gradient: Entry,
}

/// Nodes in topological order.
#[derive(Clone, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: Vec<GraphNode>,
    /// Gradients whose shapes and types are to be compared with those of their inputs.
    pub checked_gradients: Vec<CheckedGradient>,
}

/// Output `index` of node `node`.
pub fn entry(node: usize, index: usize) -> Entry {
    Entry { node: node as u32, index: index as u32 }
}

impl Graph {
    /// The graph of a symbol, and the entries of its outputs. Nodes keep the symbol's topological order.
    pub fn from_symbol(symbol: &Symbol) -> (Graph, Vec<Entry>) {
        let nodes = topological(symbol.entries());
        let id: HashMap<*const Node, usize> = nodes.iter().enumerate().map(|(i, n)| (Arc::as_ptr(n), i)).collect();
        let find = |e: &crate::symbol::NodeEntry| entry(id[&Arc::as_ptr(&e.node)], e.index as usize);
        let mut graph = Graph::default();
        for node in &nodes {
            let inputs = node.inputs.iter().map(find).collect();
            let attrs = node.attrs.read().clone();
            match &node.op {
                None => graph.variable(&node.name, attrs),
                Some(op) => graph.push(&node.name, Action::Forward(op.clone()), inputs, attrs),
            };
        }
        (graph, symbol.entries().iter().map(find).collect())
    }

    /// Adds a value from outside.
    pub fn variable(&mut self, name: &str, attrs: Attrs) -> Entry {
        self.push(name, Action::Variable, Vec::new(), attrs)
    }

    /// Adds a node and returns its first output.
    pub fn push(&mut self, name: &str, action: Action, inputs: Vec<Entry>, attrs: Attrs) -> Entry {
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
            attrs: Arc::new(attrs),
            cache: Arc::default(),
            context: Context::default(),
            gradient_of: None,
        });
        entry(self.nodes.len() - 1, 0)
    }

    /// Compares the gradients that user code composed with their inputs; `value` gives the shape or the type of an entry, if known.
    ///
    /// # Errors
    /// A gradient that is not like its input, with operator, node and input.
    pub fn check_gradients<T: PartialEq + Display>(
        &self,
        what: &str,
        value: impl Fn(Entry) -> Option<T>,
    ) -> Result<()> {
        for CheckedGradient { of, input, gradient } in &self.checked_gradients {
            let node = &self.nodes[*of];
            let (Some(expected), Some(given)) = (value(node.inputs[*input]), value(*gradient)) else { continue };
            if expected != given {
                let text =
                    format!("the gradient of input {input} has {what} {given}, but the input has {what} {expected}");
                return Err(Error::Value(text).in_operator(node.op().map_or("", OpCall::title), &node.name));
            }
        }
        Ok(())
    }

    /// The node that an entry belongs to.
    pub fn node(&self, e: Entry) -> &GraphNode {
        &self.nodes[e.node as usize]
    }

    /// Which nodes the entries depend on.
    pub fn needed_for(&self, targets: impl IntoIterator<Item = Entry>) -> Vec<bool> {
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
}

/// Parses an operator call by name.
pub fn op_call(name: &str, attrs: &Attrs) -> Result<OpCall> {
    let (name, def): (_, &'static OpDef) = registry::find(name)?;
    let params: Params = def.parse(attrs)?;
    Ok(OpCall { name, def, params })
}

/// Adds the operators of composed gradients, named after the node whose gradient it is.
pub struct Builder<'g> {
    /// The graph that grows.
    pub graph: &'g mut Graph,
    /// Prefix of the new nodes' names.
    pub prefix: String,
}

impl Builder<'_> {
    fn push(&mut self, call: OpCall, inputs: &[Entry], attrs: Attrs) -> Vec<Entry> {
        let name = format!("{}_{}", self.prefix, call.title());
        let first = self.graph.push(&name, Action::Forward(call), inputs.to_vec(), attrs);
        (0..self.graph.node(first).num_outputs).map(|i| entry(first.node as usize, i)).collect()
    }
}

impl GradGraph for Builder<'_> {
    fn apply(&mut self, op: &str, inputs: &[Entry], attrs: &[(&str, &str)]) -> Result<Vec<Entry>> {
        let mut attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let (_, def) = registry::find(op)?;
        let count = def.key_var_num_args();
        if !count.is_empty() {
            attrs.insert(count.into(), inputs.len().to_string());
        }
        Ok(self.push(op_call(op, &attrs)?, inputs, attrs))
    }

    fn copy(&mut self, node: &Copied<'_>, inputs: &[Entry]) -> Result<Vec<Entry>> {
        let call = OpCall { name: node.name, def: node.def, params: node.params.clone() };
        Ok(self.push(call, inputs, node.attrs.clone()))
    }
}
