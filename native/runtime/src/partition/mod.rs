//! Partitioning: groups of nodes become single nodes that hold them as a graph.
//!
//! A `Draft` is a graph whose edges can be moved. `by_name` groups operators of given names, `onednn` what MXNet's backend for oneDNN
//! computes at once, and `backends` has the names under which programs ask for this.

mod backends;
mod by_name;
mod onednn;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::params::Attrs;
use parking_lot::RwLock;

pub use backends::{build, optimize, partition, remove_op_names, set_op_names};

use crate::symbol::{Node, NodeEntry, Symbol, part_call, topological};

/// An output of a node of a [`Draft`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Port {
    node: usize,
    index: u32,
}

/// Where an output is read: input `position` of a node, or an output of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Input { node: usize, position: usize },
    Output(usize),
}

/// A node whose inputs are ports.
struct DraftNode {
    /// Name, operator and attributes.
    node: Arc<Node>,
    inputs: Vec<Port>,
}

/// A graph whose edges can be moved.
struct Draft {
    nodes: Vec<DraftNode>,
    outputs: Vec<Port>,
    /// The order in which a depth-first walk from the outputs leaves each edge.
    order: HashMap<Slot, usize>,
}

/// What a group becomes.
struct Part {
    name: String,
    op: &'static str,
    attrs: Attrs,
    graph: Symbol,
    /// Whether all that reads the group reads the only output of its node.
    has_one_output: bool,
    /// By how many positions the inputs of the node are rotated to the left.
    rotation: usize,
}

fn with(node: &Node, inputs: Vec<NodeEntry>) -> Arc<Node> {
    let (name, op, graphs) = (node.name.clone(), node.op.clone(), node.graphs.clone());
    Arc::new(Node { name, op, inputs, graphs, attrs: RwLock::new(node.attrs.read().clone()) })
}

impl Draft {
    fn new(symbol: &Symbol) -> Draft {
        let nodes = symbol.nodes();
        let id: HashMap<*const Node, usize> = nodes.iter().enumerate().map(|(i, n)| (Arc::as_ptr(n), i)).collect();
        let port = |e: &NodeEntry| Port { node: id[&Arc::as_ptr(&e.node)], index: e.index };
        let draft = |node: &Arc<Node>| DraftNode { node: node.clone(), inputs: node.inputs.iter().map(port).collect() };
        let nodes = nodes.iter().map(draft).collect();
        let mut draft = Draft { nodes, outputs: symbol.entries().iter().map(port).collect(), order: HashMap::new() };
        draft.number_edges();
        draft
    }

    fn number_edges(&mut self) {
        let mut seen = HashSet::new();
        for (k, output) in self.outputs.iter().enumerate() {
            let mut stack = Vec::new();
            let mut enter =
                |stack: &mut Vec<_>, order: &mut HashMap<_, _>, to: Port, slot: Slot| match seen.insert(to.node) {
                    true => stack.push((to.node, 0, slot)),
                    false => {
                        order.insert(slot, order.len());
                    }
                };
            enter(&mut stack, &mut self.order, *output, Slot::Output(k));
            while let Some((node, position, slot)) = stack.last_mut() {
                let (node, here) = (*node, *position);
                let Some(input) = self.nodes[node].inputs.get(here) else {
                    self.order.insert(*slot, self.order.len());
                    stack.pop();
                    continue;
                };
                *position += 1;
                enter(&mut stack, &mut self.order, *input, Slot::Input { node, position: here });
            }
        }
    }

    /// The operator of a node; empty for a variable.
    fn op(&self, node: usize) -> &'static str {
        self.nodes[node].node.op.as_ref().map_or("", |op| op.def.name)
    }

    /// An attribute of a node as text.
    fn attr(&self, node: usize, key: &str) -> Option<String> {
        self.nodes[node].node.attrs.read().get(key).cloned()
    }

    /// For each node those that read it, each once; nodes that the graph's outputs read have `None` among them.
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

    fn at(&self, slot: Slot) -> Port {
        match slot {
            Slot::Input { node, position } => self.nodes[node].inputs[position],
            Slot::Output(k) => self.outputs[k],
        }
    }

    fn put(&mut self, slot: Slot, port: Port) {
        match slot {
            Slot::Input { node, position } => self.nodes[node].inputs[position] = port,
            Slot::Output(k) => self.outputs[k] = port,
        }
    }

    /// The edges into a group and out of it, each in the order of the walk.
    fn border(&self, group: &[usize]) -> (Vec<Slot>, Vec<Slot>) {
        let inside: HashSet<usize> = group.iter().copied().collect();
        let (mut into, mut out) = (Vec::new(), Vec::new());
        for (node, draft) in self.nodes.iter().enumerate() {
            for (position, port) in draft.inputs.iter().enumerate() {
                let slot = Slot::Input { node, position };
                match (inside.contains(&port.node), inside.contains(&node)) {
                    (false, true) => into.push(slot),
                    // What the walk does not reach is a node that a part has replaced.
                    (true, false) if self.order.contains_key(&slot) => out.push(slot),
                    _ => {}
                }
            }
        }
        out.extend((0..self.outputs.len()).filter(|k| inside.contains(&self.outputs[*k].node)).map(Slot::Output));
        let order = |slot: &Slot| self.order.get(slot).copied().unwrap_or(usize::MAX);
        into.sort_by_key(order);
        out.sort_by_key(order);
        (into, out)
    }

    /// A group as a graph of its own. Each edge into it is a variable, named after what it reads and how often that was read before.
    fn graph_of(&self, group: &[usize], into: &[Slot], out: &[Slot]) -> Symbol {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut variables: HashMap<Slot, Arc<Node>> = HashMap::new();
        for slot in into {
            let port = self.at(*slot);
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
            copies.insert(*node, with(&self.nodes[*node].node, inputs));
        }
        let output = |slot: &Slot| {
            let port = self.at(*slot);
            Symbol::of_entry(NodeEntry { node: copies[&port.node].clone(), index: port.index })
        };
        Symbol::group(&out.iter().map(output).collect::<Vec<_>>())
    }

    /// Puts a node in the place of a group, whose members are in topological order; `make` says which, and may refuse.
    fn replace(&mut self, group: &[usize], make: impl FnOnce(Symbol) -> Result<Option<Part>>) -> Result<()> {
        let (into, out) = self.border(group);
        let Some(part) = make(self.graph_of(group, &into, &out))? else { return Ok(()) };
        let mut into = into;
        into.rotate_left(part.rotation);
        let op = part_call(part.op, &part.attrs)?;
        let (attrs, graphs) = (RwLock::new(part.attrs), vec![part.graph]);
        let node = Arc::new(Node { name: part.name, op: Some(op), inputs: Vec::new(), graphs, attrs });
        let new = self.nodes.len();
        let inputs = into.iter().map(|slot| self.at(*slot)).collect();
        for (position, slot) in into.iter().enumerate() {
            if let Some(order) = self.order.remove(slot) {
                self.order.insert(Slot::Input { node: new, position }, order);
            }
        }
        self.nodes.push(DraftNode { node, inputs });
        for (i, slot) in out.iter().enumerate() {
            self.put(*slot, Port { node: new, index: if part.has_one_output { 0 } else { i as u32 } });
        }
        Ok(())
    }

    /// The graph as it is now.
    fn finish(self) -> Symbol {
        let mut made: HashMap<usize, Arc<Node>> = HashMap::new();
        for output in &self.outputs {
            let mut stack = vec![(output.node, 0)];
            while let Some((node, position)) = stack.last_mut() {
                let node = *node;
                let draft = &self.nodes[node];
                match draft.inputs.get(*position) {
                    Some(input) if !made.contains_key(&input.node) => {
                        *position += 1;
                        stack.push((input.node, 0));
                    }
                    Some(_) => *position += 1,
                    None => {
                        stack.pop();
                        if !made.contains_key(&node) {
                            let entry = |p: &Port| NodeEntry { node: made[&p.node].clone(), index: p.index };
                            let copy = with(&draft.node, draft.inputs.iter().map(entry).collect());
                            made.insert(node, copy);
                        }
                    }
                }
            }
        }
        let entry = |p: &Port| Symbol::of_entry(NodeEntry { node: made[&p.node].clone(), index: p.index });
        Symbol::group(&self.outputs.iter().map(entry).collect::<Vec<_>>())
    }
}

/// The graph of a part with the first output alone.
fn first_output(graph: &Symbol) -> Symbol {
    Symbol::group(&graph.entries().iter().take(1).map(|e| Symbol::of_entry(e.clone())).collect::<Vec<_>>())
}

/// The operators of a graph, inputs before their users.
fn operators(graph: &Symbol) -> Vec<Arc<Node>> {
    topological(graph.entries()).into_iter().filter(|n| !n.is_variable()).collect()
}
