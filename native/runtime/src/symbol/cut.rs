//! Cuts a subgraph, such as the body of a loop, out of the graph in which a front end built it.

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
    /// Cuts out the subgraph of the first output: the nodes with the same attribute `__subgraph_name__`. The entries outside that it reads
    /// become variables, named as in listings. Returns the subgraph and these entries, in order of first use. Without the attribute,
    /// nothing is cut.
    pub fn cut(&self) -> (Symbol, Vec<Symbol>) {
        let Some(name) = self.outputs.first().and_then(|e| graph_of(&e.node)) else {
            return (self.clone(), Vec::new());
        };
        let members: HashSet<*const Node> =
            self.nodes().iter().filter(|n| graph_of(n).as_ref() == Some(&name)).map(Arc::as_ptr).collect();
        let mut cutter = Cutter { members, copies: HashMap::new(), variables: Vec::new() };
        for node in self.nodes() {
            if cutter.members.contains(&Arc::as_ptr(&node)) {
                cutter.copy(&node);
            }
        }
        let outputs =
            self.outputs.iter().map(|e| if e.node.is_variable() { e.clone() } else { cutter.entry(e) }).collect();
        let cut = cutter.variables.into_iter().map(|(entry, _)| Symbol { outputs: vec![entry] }).collect();
        (Symbol { outputs }, cut)
    }
}

/// A subgraph that is being cut out.
struct Cutter {
    members: HashSet<*const Node>,
    copies: HashMap<*const Node, Arc<Node>>,
    /// Entries outside the subgraph, each with its variable.
    variables: Vec<(NodeEntry, Arc<Node>)>,
}

impl Cutter {
    /// Copies a node of the subgraph, after its inputs.
    fn copy(&mut self, node: &Arc<Node>) {
        if node.is_variable() {
            self.copies.insert(Arc::as_ptr(node), node.clone());
            return;
        }
        let inputs = node.inputs.iter().map(|e| self.entry(e)).collect();
        self.copies.insert(Arc::as_ptr(node), node.with_inputs(inputs));
    }

    /// The entry of the subgraph for an entry of the graph: of the copy of its node, or of a variable if the node is no member.
    fn entry(&mut self, e: &NodeEntry) -> NodeEntry {
        if let Some(copy) = self.copies.get(&Arc::as_ptr(&e.node)) {
            return NodeEntry { node: copy.clone(), index: e.index };
        }
        let existing = self.variables.iter().find(|(old, _)| old.is_same(e));
        if let Some((_, variable)) = existing {
            return NodeEntry { node: variable.clone(), index: 0 };
        }
        let variable = Node::variable(&e.node.output_name(e.index as usize), Attrs::new());
        self.variables.push((e.clone(), variable.clone()));
        NodeEntry { node: variable, index: 0 }
    }
}
