//! Cuts the graph of a loop body out of the graph around it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::params::Attrs;

use super::{Node, NodeEntry, Symbol};

/// The attribute with the name of the subgraph that a node belongs to.
const GRAPH_ATTR: &str = "__subgraph_name__";

fn graph_of(node: &Node) -> Option<String> {
    node.attrs.read().get(GRAPH_ATTR).cloned()
}

impl Symbol {
    /// Cuts out the subgraph of the first output: the nodes with the same attribute `__subgraph_name__`. Variables and outputs of
    /// operators outside of it that it reads become new variables with their listed names. Returns the subgraph and the outputs that the
    /// new variables stand for, in order of first use. Without the attribute, nothing is cut.
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
        let outputs =
            self.outputs.iter().map(|e| if e.node.is_variable() { e.clone() } else { cuts.entry(e) }).collect();
        let cut = cuts.variables.into_iter().map(|(entry, _)| Symbol { outputs: vec![entry] }).collect();
        (Symbol { outputs }, cut)
    }
}

struct Cuts {
    inside: HashSet<*const Node>,
    copies: HashMap<*const Node, Arc<Node>>,
    /// Entries outside of the subgraph, each with its variable.
    variables: Vec<(NodeEntry, Arc<Node>)>,
}

impl Cuts {
    /// Copies a node of the subgraph, after its inputs.
    fn copy(&mut self, node: &Arc<Node>) {
        if node.is_variable() {
            self.copies.insert(Arc::as_ptr(node), node.clone());
            return;
        }
        let inputs = node.inputs.iter().map(|e| self.entry(e)).collect();
        let (name, op, graphs) = (node.name.clone(), node.op.clone(), node.graphs.clone());
        let attrs = node.attrs.clone();
        self.copies.insert(Arc::as_ptr(node), Arc::new(Node { name, op, inputs, graphs, attrs }));
    }

    /// Maps an entry to the subgraph: to the copy of its node, or to a variable if it is outside.
    fn entry(&mut self, e: &NodeEntry) -> NodeEntry {
        if let Some(copy) = self.copies.get(&Arc::as_ptr(&e.node)) {
            return NodeEntry { node: copy.clone(), index: e.index };
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
