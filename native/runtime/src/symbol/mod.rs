//! Symbolic graphs: building, naming, listing, attributes.

mod amp;
mod compose;
mod cut;
mod json;
mod legacy_json;
mod node;
mod rewritten;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::Attrs;

pub use compose::{AtomicSymbol, attach};
pub use node::{Node, NodeEntry, OpCall, topological};

/// A symbol: one or more outputs of a graph. Cloning shares the graph.
#[derive(Clone)]
pub struct Symbol {
    pub(crate) outputs: Vec<NodeEntry>,
}

/// The attributes of a node as listings show them: those that graphs carry appear with and without underscores.
fn listed_attrs(node: &Node) -> Vec<(String, String)> {
    let plain = |k: &str| {
        k.strip_prefix("__")?.strip_suffix("__").filter(|k| compose::HIDDEN_KEYS.contains(k)).map(str::to_string)
    };
    let attrs = node.attrs.read();
    let mut all: Vec<_> = attrs.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    all.extend(attrs.iter().filter_map(|(k, v)| Some((plain(k)?, v.clone()))));
    all
}

impl Symbol {
    /// A variable with attributes.
    pub fn variable(name: &str, attrs: Attrs) -> Symbol {
        Symbol { outputs: vec![NodeEntry { node: Node::variable(name, attrs), index: 0 }] }
    }

    /// The symbol of a variable that is in a graph.
    pub fn of_variable(node: Arc<Node>) -> Symbol {
        Symbol { outputs: vec![NodeEntry { node, index: 0 }] }
    }

    /// The symbol of one output of a node.
    pub(crate) fn of_entry(entry: NodeEntry) -> Symbol {
        Symbol { outputs: vec![entry] }
    }

    /// The symbol with other inputs for its nodes, which `inputs` gives by the position of the node among all; nodes that nobody
    /// reads then are gone.
    pub(crate) fn with_inputs(&self, inputs: impl Fn(usize) -> Vec<(usize, u32)>) -> Symbol {
        let nodes = self.nodes();
        let mut made: Vec<Arc<Node>> = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            let entry = |(k, index): (usize, u32)| NodeEntry { node: made[k].clone(), index };
            let inputs: Vec<NodeEntry> = inputs(i).into_iter().map(entry).collect();
            let is_same = |(a, b): (&NodeEntry, &NodeEntry)| Arc::ptr_eq(&a.node, &b.node) && a.index == b.index;
            made.push(match inputs.iter().zip(&node.inputs).all(is_same) {
                true => node.clone(),
                false => Arc::new(Node {
                    name: node.name.clone(),
                    op: node.op.clone(),
                    inputs,
                    graphs: node.graphs.clone(),
                    attrs: node.attrs.read().clone().into(),
                }),
            });
        }
        let by_old: HashMap<*const Node, &Arc<Node>> = nodes.iter().map(Arc::as_ptr).zip(&made).collect();
        let entry = |e: &NodeEntry| {
            let node = by_old.get(&Arc::as_ptr(&e.node)).map_or(&e.node, |node| *node);
            NodeEntry { node: node.clone(), index: e.index }
        };
        Symbol { outputs: self.outputs.iter().map(entry).collect() }
    }

    /// Several symbols as one, with all their outputs in order.
    pub fn group(symbols: &[Symbol]) -> Symbol {
        Symbol { outputs: symbols.iter().flat_map(|s| s.outputs.iter().cloned()).collect() }
    }

    /// The entries that the symbol stands for.
    pub fn entries(&self) -> &[NodeEntry] {
        &self.outputs
    }

    /// Number of outputs.
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Output `index` as a symbol.
    ///
    /// # Errors
    /// There is no such output.
    pub fn output(&self, index: usize) -> Result<Symbol> {
        match self.outputs.get(index) {
            Some(e) => Ok(Symbol { outputs: vec![e.clone()] }),
            None => {
                Err(Error::NotFound(format!("output {index} was asked for, but the symbol has {}", self.outputs.len())))
            }
        }
    }

    /// The name of the node if the symbol is of one node.
    pub fn name(&self) -> Option<&str> {
        let first = self.outputs.first()?;
        self.outputs.iter().all(|e| Arc::ptr_eq(&e.node, &first.node)).then_some(first.node.name.as_str())
    }

    /// All nodes, inputs before their users.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        topological(&self.outputs)
    }

    /// Every visible output of every node, as one symbol.
    pub fn internals(&self) -> Symbol {
        let entry = |node: &Arc<Node>, i| NodeEntry { node: node.clone(), index: i as u32 };
        Symbol { outputs: self.nodes().iter().flat_map(|n| (0..n.num_visible()).map(move |i| entry(n, i))).collect() }
    }

    /// The inputs of the nodes of the outputs, as one symbol; `None` for variables.
    pub fn children(&self) -> Option<Symbol> {
        let mut seen = HashSet::new();
        let outputs: Vec<_> = self
            .outputs
            .iter()
            .filter(|e| seen.insert(Arc::as_ptr(&e.node)))
            .flat_map(|e| e.node.inputs.iter().cloned())
            .collect();
        (!outputs.is_empty()).then_some(Symbol { outputs })
    }

    /// Names of the outputs.
    pub fn list_outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|e| e.node.output_name(e.index as usize)).collect()
    }

    /// Variables in topological order: arguments and auxiliary states, each with whether it is an auxiliary state.
    pub fn variables(&self) -> Vec<(Arc<Node>, bool)> {
        let nodes = self.nodes();
        let mut aux: HashSet<*const Node> = HashSet::new();
        for node in &nodes {
            if let Some(op) = &node.op {
                for i in op.mutated() {
                    if let Some(input) = node.inputs.get(*i) {
                        aux.insert(Arc::as_ptr(&input.node));
                    }
                }
            }
        }
        let is_aux = |n: &Arc<Node>| aux.contains(&Arc::as_ptr(n));
        nodes.into_iter().filter(|n| n.is_variable()).map(|n| (n.clone(), is_aux(&n))).collect()
    }

    /// Whether all operators can run.
    ///
    /// # Errors
    /// A user-defined operator that is not there, with its node, and how to supply it.
    pub fn check_ready(&self) -> Result<()> {
        for node in self.nodes() {
            if let Some(op) = &node.op {
                op.def.ready(&op.params).map_err(|e| e.in_operator(op.title(), &node.name))?;
            }
        }
        Ok(())
    }

    /// Names of the arguments in topological order, which is the order in which `bind` takes them.
    pub fn list_arguments(&self) -> Vec<String> {
        self.variables().into_iter().filter(|(_, aux)| !aux).map(|(n, _)| n.name.clone()).collect()
    }

    /// Names of the auxiliary states in topological order.
    pub fn list_auxiliary_states(&self) -> Vec<String> {
        self.variables().into_iter().filter(|(_, aux)| *aux).map(|(n, _)| n.name.clone()).collect()
    }

    /// Names of all variables in topological order.
    pub fn list_inputs(&self) -> Vec<String> {
        self.variables().into_iter().map(|(n, _)| n.name.clone()).collect()
    }

    fn single_node(&self) -> Result<&Arc<Node>> {
        match (self.name(), self.outputs.first()) {
            (Some(_), Some(e)) => Ok(&e.node),
            _ => Err(Error::Value("attributes belong to a symbol of one node; this one is a group".into())),
        }
    }

    /// An attribute of the symbol's node; `ctx_group` and the like are found with and without underscores.
    pub fn attr(&self, key: &str) -> Option<String> {
        let node = self.single_node().ok()?;
        match key {
            "name" => return Some(node.name.clone()),
            // Which outputs of the node these are: front ends name the variables of loops after it.
            "_value_index" => {
                return Some(self.outputs.iter().map(|e| e.index.to_string()).collect::<Vec<_>>().join(", "));
            }
            _ => {}
        }
        let attrs = node.attrs.read();
        attrs.get(key).or_else(|| attrs.get(&format!("__{key}__"))).cloned()
    }

    /// Sets attributes of the symbol's node.
    ///
    /// # Errors
    /// The symbol is a group.
    pub fn set_attr(&self, key: &str, value: &str) -> Result<()> {
        self.single_node()?.attrs.write().insert(key.into(), value.into());
        Ok(())
    }

    /// The attributes of the symbol's own node.
    pub fn list_attr_shallow(&self) -> Vec<(String, String)> {
        self.outputs.first().map(|e| listed_attrs(&e.node)).unwrap_or_default()
    }

    /// The attributes of all nodes, keyed by `node$key`.
    pub fn list_attr(&self) -> Vec<(String, String)> {
        let keyed = |n: &Arc<Node>| {
            let name = n.name.clone();
            listed_attrs(n).into_iter().map(move |(k, v)| (format!("{name}${k}"), v))
        };
        self.nodes().iter().flat_map(keyed).collect()
    }

    /// A readable listing of the graph.
    pub fn debug_string(&self) -> String {
        use std::fmt::Write;
        let mut s = String::from("Symbol Outputs:\n");
        for (i, e) in self.outputs.iter().enumerate() {
            let _ = writeln!(s, "\toutput[{i}]={}({})", e.node.name, e.index);
        }
        for node in self.nodes() {
            let Some(op) = &node.op else {
                let _ = writeln!(s, "Variable:{}", node.name);
                continue;
            };
            let _ = writeln!(s, "--------------------\nOp:{}, Name={}\nInputs:", op.def.name, node.name);
            for (i, input) in node.inputs.iter().enumerate() {
                let version = if input.node.is_variable() { " version=0" } else { "" };
                let _ = writeln!(s, "\targ[{i}]={}({}){version}", input.node.name, input.index);
            }
            let attrs = node.attrs.read();
            if !attrs.is_empty() {
                s.push_str("Attrs:\n");
                for (k, v) in attrs.iter() {
                    let _ = writeln!(s, "\t{k}={v}");
                }
            }
        }
        s
    }
}
