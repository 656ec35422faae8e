//! Partitioning: replaces groups of nodes by single nodes with a subgraph.
//!
//! - `by_name` groups operators with given names;
//! - `onednn` groups the operators that MXNet's oneDNN backend fuses;
//! - `backends` selects a backend by name.

mod backends;
mod by_name;
mod onednn;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::params::Attrs;

pub use backends::{build, optimize, partition, remove_op_names, set_op_names};

use crate::symbol::{Node, NodeEntry, Symbol, subgraph_call, topological};

/// An output of a node of a [`PartitionGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Port {
    node: usize,
    index: u32,
}

/// A reader of a port: an input of a node, or an output of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Input { node: usize, position: usize },
    Output(usize),
}

/// A node whose inputs are ports.
struct PartitionNode {
    /// Name, operator and attributes.
    node: Arc<Node>,
    inputs: Vec<Port>,
}

/// A graph with editable edges.
struct PartitionGraph {
    nodes: Vec<PartitionNode>,
    outputs: Vec<Port>,
    /// The postorder number of each edge in a depth-first search from the outputs. MXNet orders inputs and outputs of subgraphs by it.
    order: HashMap<Slot, usize>,
}

/// The node that replaces a group.
struct Replacement {
    name: String,
    op: &'static str,
    attrs: Attrs,
    graph: Symbol,
    /// Whether the node has only one output, which all readers of the group read.
    has_one_output: bool,
    /// Number of positions by which to rotate the inputs of the node to the left.
    rotation: usize,
}

impl PartitionGraph {
    fn new(symbol: &Symbol) -> PartitionGraph {
        let nodes = symbol.nodes();
        let id: HashMap<*const Node, usize> = nodes.iter().enumerate().map(|(i, n)| (Arc::as_ptr(n), i)).collect();
        let port = |e: &NodeEntry| Port { node: id[&Arc::as_ptr(&e.node)], index: e.index };
        let node_of =
            |node: &Arc<Node>| PartitionNode { node: node.clone(), inputs: node.inputs.iter().map(port).collect() };
        let nodes = nodes.iter().map(node_of).collect();
        let mut graph =
            PartitionGraph { nodes, outputs: symbol.entries().iter().map(port).collect(), order: HashMap::new() };
        graph.number_edges();
        graph
    }

    /// Numbers the edges in the order in which a depth-first search from the outputs leaves them.
    fn number_edges(&mut self) {
        let mut visited = HashSet::new();
        for (k, output) in self.outputs.iter().enumerate() {
            let mut stack = Vec::new();
            let mut enter =
                |stack: &mut Vec<_>, order: &mut HashMap<_, _>, to: Port, slot: Slot| match visited.insert(to.node) {
                    true => stack.push((to.node, 0, slot)),
                    false => {
                        order.insert(slot, order.len());
                    }
                };
            enter(&mut stack, &mut self.order, *output, Slot::Output(k));
            while let Some((node, position, slot)) = stack.last_mut() {
                let (node, index) = (*node, *position);
                let Some(input) = self.nodes[node].inputs.get(index) else {
                    self.order.insert(*slot, self.order.len());
                    stack.pop();
                    continue;
                };
                *position += 1;
                enter(&mut stack, &mut self.order, *input, Slot::Input { node, position: index });
            }
        }
    }

    /// The operator of a node; empty for a variable.
    fn op(&self, node: usize) -> &'static str {
        self.nodes[node].node.op().map_or("", |op| op.def.name)
    }

    /// An attribute of a node as text.
    fn attr(&self, node: usize, key: &str) -> Option<String> {
        self.nodes[node].node.attrs.read().get(key).cloned()
    }

    /// The distinct readers of each node; `None` means the outputs of the graph.
    fn readers(&self) -> Vec<Vec<Option<usize>>> {
        let mut readers: Vec<Vec<Option<usize>>> = self.nodes.iter().map(|_| Vec::new()).collect();
        let edges = self.nodes.iter().enumerate().flat_map(|(i, n)| n.inputs.iter().map(move |p| (p.node, Some(i))));
        for (node, reader) in edges.chain(self.outputs.iter().map(|p| (p.node, None))) {
            if !readers[node].contains(&reader) {
                readers[node].push(reader);
            }
        }
        readers
    }

    fn port(&self, slot: Slot) -> Port {
        match slot {
            Slot::Input { node, position } => self.nodes[node].inputs[position],
            Slot::Output(k) => self.outputs[k],
        }
    }

    fn set_port(&mut self, slot: Slot, port: Port) {
        match slot {
            Slot::Input { node, position } => self.nodes[node].inputs[position] = port,
            Slot::Output(k) => self.outputs[k] = port,
        }
    }

    /// The edges into and out of a group, each list in postorder.
    fn boundary(&self, group: &[usize]) -> (Vec<Slot>, Vec<Slot>) {
        let members: HashSet<usize> = group.iter().copied().collect();
        let (mut into, mut out) = (Vec::new(), Vec::new());
        for (node, partition_node) in self.nodes.iter().enumerate() {
            for (position, port) in partition_node.inputs.iter().enumerate() {
                let slot = Slot::Input { node, position };
                match (members.contains(&port.node), members.contains(&node)) {
                    (false, true) => into.push(slot),
                    // Nodes that were replaced are dead, so the search did not number their edges.
                    (true, false) if self.order.contains_key(&slot) => out.push(slot),
                    _ => {}
                }
            }
        }
        out.extend((0..self.outputs.len()).filter(|k| members.contains(&self.outputs[*k].node)).map(Slot::Output));
        let order = |slot: &Slot| self.order.get(slot).copied().unwrap_or(usize::MAX);
        into.sort_by_key(order);
        out.sort_by_key(order);
        (into, out)
    }

    /// A group as a separate graph. Each edge into it becomes a variable, named after its source with a running number.
    fn graph_of(&self, group: &[usize], into: &[Slot], out: &[Slot]) -> Symbol {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut variables: HashMap<Slot, Arc<Node>> = HashMap::new();
        for slot in into {
            let port = self.port(*slot);
            let name = self.nodes[port.node].node.output_name(port.index as usize);
            let count = counts.entry(name.clone()).or_insert(0);
            variables.insert(*slot, Node::variable(&format!("{name}{count}"), Attrs::new()));
            *count += 1;
        }
        let mut copies: HashMap<usize, Arc<Node>> = HashMap::new();
        for node in group {
            let input = |(position, port): (usize, &Port)| match variables.get(&Slot::Input { node: *node, position }) {
                Some(variable) => NodeEntry { node: variable.clone(), index: 0 },
                None => NodeEntry { node: copies[&port.node].clone(), index: port.index },
            };
            let inputs = self.nodes[*node].inputs.iter().enumerate().map(input).collect();
            copies.insert(*node, self.nodes[*node].node.with_inputs(inputs));
        }
        let output = |slot: &Slot| {
            let port = self.port(*slot);
            Symbol::of_entry(NodeEntry { node: copies[&port.node].clone(), index: port.index })
        };
        Symbol::group(&out.iter().map(output).collect::<Vec<_>>())
    }

    /// Replaces a group, whose members are in topological order, by the node that `make` returns; keeps it if that is `None`.
    fn replace(&mut self, group: &[usize], make: impl FnOnce(Symbol) -> Result<Option<Replacement>>) -> Result<()> {
        let (into, out) = self.boundary(group);
        let Some(replacement) = make(self.graph_of(group, &into, &out))? else { return Ok(()) };
        let mut into = into;
        into.rotate_left(replacement.rotation);
        let op = subgraph_call(replacement.op, &replacement.attrs)?;
        let node = Node::new(replacement.name, op, Vec::new(), vec![replacement.graph], replacement.attrs);
        let new = self.nodes.len();
        let inputs = into.iter().map(|slot| self.port(*slot)).collect();
        for (position, slot) in into.iter().enumerate() {
            if let Some(order) = self.order.remove(slot) {
                self.order.insert(Slot::Input { node: new, position }, order);
            }
        }
        self.nodes.push(PartitionNode { node, inputs });
        for (i, slot) in out.iter().enumerate() {
            self.set_port(*slot, Port { node: new, index: if replacement.has_one_output { 0 } else { i as u32 } });
        }
        Ok(())
    }

    /// Builds the edited graph.
    fn finish(self) -> Symbol {
        let mut new_nodes: HashMap<usize, Arc<Node>> = HashMap::new();
        for output in &self.outputs {
            let mut stack = vec![(output.node, 0)];
            while let Some((node, position)) = stack.last_mut() {
                let node = *node;
                let partition_node = &self.nodes[node];
                match partition_node.inputs.get(*position) {
                    Some(input) if !new_nodes.contains_key(&input.node) => {
                        *position += 1;
                        stack.push((input.node, 0));
                    }
                    Some(_) => *position += 1,
                    None => {
                        stack.pop();
                        if !new_nodes.contains_key(&node) {
                            let entry = |p: &Port| NodeEntry { node: new_nodes[&p.node].clone(), index: p.index };
                            let inputs = partition_node.inputs.iter().map(entry).collect();
                            new_nodes.insert(node, partition_node.node.with_inputs(inputs));
                        }
                    }
                }
            }
        }
        let entry = |p: &Port| Symbol::of_entry(NodeEntry { node: new_nodes[&p.node].clone(), index: p.index });
        Symbol::group(&self.outputs.iter().map(entry).collect::<Vec<_>>())
    }
}

/// A graph reduced to its first output.
fn first_output(graph: &Symbol) -> Symbol {
    Symbol::group(&graph.entries().iter().take(1).map(|e| Symbol::of_entry(e.clone())).collect::<Vec<_>>())
}

/// The operators of a graph in topological order.
fn operators(graph: &Symbol) -> Vec<Arc<Node>> {
    topological(graph.entries()).into_iter().filter(|n| !n.is_variable()).collect()
}
