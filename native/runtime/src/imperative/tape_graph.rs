//! The tape as a graph, and as a symbol.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::params::Attrs;
use ferromx_core::sparse::Array;

use super::tape::{Leaf, TapeEntry, TapeNode, Tensor};
use crate::graph::{Action, Graph, entry};
use crate::symbol::{Node, NodeEntry, Symbol};

/// The recorded operators as a graph, with the values of its entries.
#[derive(Default)]
pub(super) struct TapeGraph {
    pub(super) graph: Graph,
    pub(super) values: HashMap<Entry, Array>,
    pub(super) nodes: HashMap<*const TapeNode, (u32, Arc<TapeNode>)>,
    pub(super) leaves: HashMap<*const Leaf, (Entry, Arc<Leaf>)>,
    /// The numbers of inputs that are not on the tape, by node.
    constants: HashMap<u32, u64>,
}

impl TapeGraph {
    /// The entry of a variable of the tape.
    fn leaf(&mut self, leaf: &Arc<Leaf>) -> Entry {
        if let Some((e, _)) = self.leaves.get(&Arc::as_ptr(leaf)) {
            return *e;
        }
        let e = self.graph.variable("variable", Attrs::new());
        self.values.insert(e, leaf.value.clone());
        self.leaves.insert(Arc::as_ptr(leaf), (e, leaf.clone()));
        e
    }

    /// Adds a variable with a value.
    pub(super) fn constant(&mut self, value: &Array) -> Entry {
        let e = self.graph.variable("constant", Attrs::new());
        self.values.insert(e, value.clone());
        e
    }

    /// The graph entry of a tape entry, if its operator is in the graph.
    fn entry_of(&mut self, tape: &TapeEntry) -> Option<Entry> {
        match tape {
            TapeEntry::Variable(leaf) => Some(self.leaf(leaf)),
            TapeEntry::Output(node, k) => Some(entry(self.nodes.get(&Arc::as_ptr(node))?.0 as usize, *k as usize)),
            TapeEntry::Constant(_) => None,
        }
    }

    /// Adds the operators that `head` depends on, in topological order, and returns its entry. As in MXNet, the order is that of a
    /// depth-first search that visits inputs from first to last: it decides in which order the gradients of a layer that is called twice
    /// update its states.
    pub(super) fn add(&mut self, head: &TapeEntry) -> Result<Entry> {
        let mut stack = vec![head.clone()];
        while let Some(top) = stack.last() {
            let TapeEntry::Output(node, _) = top.clone() else {
                if let Some(TapeEntry::Variable(leaf)) = stack.pop() {
                    self.leaf(&leaf);
                }
                continue;
            };
            if self.nodes.contains_key(&Arc::as_ptr(&node)) {
                stack.pop();
                continue;
            }
            let Some(saved) = node.saved.lock().clone() else {
                stack.pop();
                continue;
            };
            let is_pending = |tape: &TapeEntry| match tape {
                TapeEntry::Output(n, _) => !self.nodes.contains_key(&Arc::as_ptr(n)) && !n.is_freed(),
                TapeEntry::Variable(leaf) => !self.leaves.contains_key(&Arc::as_ptr(leaf)),
                TapeEntry::Constant(_) => false,
            };
            let pending_inputs: Vec<TapeEntry> =
                saved.inputs.iter().filter_map(|(t, _)| t.clone()).filter(is_pending).collect();
            if !pending_inputs.is_empty() {
                stack.extend(pending_inputs.into_iter().rev());
                continue;
            }
            let mut inputs = Vec::with_capacity(saved.inputs.len());
            let mut numbers = node.first_constant..;
            for (tape, value) in &saved.inputs {
                let number = if tape.is_none() { numbers.next() } else { None };
                let recorded = tape.as_ref().and_then(|t| self.entry_of(t));
                inputs.push(recorded.unwrap_or_else(|| self.constant(value)));
                self.constants.extend(number.zip(inputs.last()).map(|(number, e)| (e.node, number)));
            }
            let first = self.graph.push(node.op.title(), Action::Forward(node.op.clone()), inputs, node.attrs.clone());
            if let Some(cache) = &node.cache {
                self.graph.nodes[first.node as usize].cache = cache.clone();
            }
            for (k, value) in saved.outputs.iter().enumerate() {
                self.values.insert(entry(first.node as usize, k), value.clone());
            }
            self.nodes.insert(Arc::as_ptr(&node), (first.node, node));
            stack.pop();
        }
        self.entry_of(head).ok_or_else(|| Error::Internal("a recorded operator is missing".into()))
    }
}

/// The recorded computation of a tensor as a symbol. As in MXNet, variables are named `var0`, `var1`, ... in the order in which they were
/// marked, operators `node_0`, `node_1`, ... in the order in which they were recorded. Inputs that are not on the tape share the numbers of
/// variables and are named `null0`, `null1`, ...
///
/// # Errors
/// The tensor was not recorded.
pub fn symbol_of(tensor: &Tensor) -> Result<Symbol> {
    let tape = tensor.variable_or_output();
    let tape = tape.ok_or_else(|| {
        Error::value("NDArray is not part of a computation graph. Did you forget to turn on recording?")
    })?;
    let mut recorded = TapeGraph::default();
    let head = recorded.add(&tape)?;
    let variables = recorded.leaves.values().map(|(e, leaf)| (e.node, format!("var{}", leaf.number)));
    let operators = recorded.nodes.values().map(|(i, node)| (*i, format!("node_{}", node.number)));
    let constants = recorded.constants.iter().map(|(i, number)| (*i, format!("null{number}")));
    let mut names: HashMap<u32, String> = variables.chain(operators).chain(constants).collect();
    let mut nodes: Vec<Arc<Node>> = Vec::new();
    for (i, node) in recorded.graph.nodes.iter().enumerate() {
        let inputs =
            node.inputs.iter().map(|e| NodeEntry { node: nodes[e.node as usize].clone(), index: e.index }).collect();
        let op = match &node.action {
            Action::Forward(op) => Some(op.clone()),
            _ => None,
        };
        let name = names.remove(&(i as u32)).unwrap_or_else(|| "null".into());
        nodes.push(Node::new(name, op, inputs, Vec::new(), Attrs::clone(&node.attrs)));
    }
    Ok(Symbol::of_entry(NodeEntry { node: nodes[head.node as usize].clone(), index: head.index }))
}
