//! Cutting the graph of a loop's body out of the graph around it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::params::Attrs;
use parking_lot::RwLock;

use super::{Node, NodeEntry, Symbol};

/// Attribute that names the graph to which a node belongs.
const GRAPH_ATTR: &str = "__subgraph_name__";

fn graph_of(node: &Node) -> Option<String> {
    node.attrs.read().get(GRAPH_ATTR).cloned()
}

impl Symbol {
    /// Cuts this graph off from operators that do not belong to it: nodes belong to it if their attribute `__subgraph_name__` is that of
    /// the first output. Outputs of other operators become variables of the name that listings give them. Returns the graph and what
    /// its new variables stand for, in the order in which they are met; without the attribute nothing is cut.
    pub fn cut(&self) -> (Symbol, Vec<Symbol>) {
        let Some(name) = self.outputs.first().and_then(|e| graph_of(&e.node)) else {
            return (self.clone(), Vec::new());
        };
        let inside: HashSet<*const Node> =
            self.nodes().iter().filter(|n| graph_of(n).as_ref() == Some(&name)).map(Arc::as_ptr).collect();
        let mut cuts = Cuts { inside, copies: HashMap::new(), variables: Vec::new() };
        for node in self.nodes() {
            if cuts.inside.contains(&Arc::as_ptr(&node)) {
                cuts.copy(&node);
            }
        }
        let outputs = self.outputs.iter().map(|e| cuts.entry(e)).collect();
        let cut = cuts.variables.into_iter().map(|(entry, _)| Symbol { outputs: vec![entry] }).collect();
        (Symbol { outputs }, cut)
    }
}

struct Cuts {
    inside: HashSet<*const Node>,
    copies: HashMap<*const Node, Arc<Node>>,
    /// Entries that were cut, each with its variable.
    variables: Vec<(NodeEntry, Arc<Node>)>,
}

impl Cuts {
    /// Copies a node of the graph whose inputs were copied before.
    fn copy(&mut self, node: &Arc<Node>) {
        if node.is_variable() {
            self.copies.insert(Arc::as_ptr(node), node.clone());
            return;
        }
        let inputs = node.inputs.iter().map(|e| self.entry(e)).collect();
        let (name, op, graphs) = (node.name.clone(), node.op.clone(), node.graphs.clone());
        let attrs = RwLock::new(node.attrs.read().clone());
        self.copies.insert(Arc::as_ptr(node), Arc::new(Node { name, op, inputs, graphs, attrs }));
    }

    /// What stands for an entry in the graph: the entry of the copy, or a variable for what was cut.
    fn entry(&mut self, e: &NodeEntry) -> NodeEntry {
        if let Some(copy) = self.copies.get(&Arc::as_ptr(&e.node)) {
            return NodeEntry { node: copy.clone(), index: e.index };
        }
        if e.node.is_variable() {
            return e.clone();
        }
        let known = self.variables.iter().find(|(old, _)| Arc::ptr_eq(&old.node, &e.node) && old.index == e.index);
        if let Some((_, variable)) = known {
            return NodeEntry { node: variable.clone(), index: 0 };
        }
        let variable = Node::variable(&e.node.output_name(e.index as usize), Attrs::new());
        self.variables.push((e.clone(), variable.clone()));
        NodeEntry { node: variable, index: 0 }
    }
}
