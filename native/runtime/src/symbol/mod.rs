//! Symbols: graphs as users build them.
//!
//! - `node` has the nodes, `parameters` changes their attributes, `replaceable` holds what is changed while others refer to it;
//! - `compose` applies operators and substitutes variables;
//! - `json` reads and writes symbol files, and `legacy_json` upgrades those of older versions;
//! - `subgraph` has the symbols that operators hold as parameters, such as loop bodies;
//! - `subgraph_ops` expands nodes that hold a subgraph, and `cut` cuts out the subgraph of a loop body;
//! - `annotated` is the graph with attributes of NNVM's C functions.

mod annotated;
mod compose;
mod cut;
mod json;
mod legacy_json;
mod node;
mod parameters;
mod replaceable;
mod subgraph;
mod subgraph_ops;

use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::Attrs;
use hashbrown::{HashMap, HashSet};

pub use annotated::AnnotatedGraph;
pub use compose::{AtomicSymbol, attach};
pub use node::{Node, NodeAttrs, NodeEntry, OpCall, topological};
pub(crate) use subgraph::{CachedInference, InferenceCache, SymbolSubgraph};
pub(crate) use subgraph_ops::subgraph_call;

/// The attribute with the dtype code of a variable.
pub(crate) const DTYPE_ATTR: &str = "__dtype__";

/// A symbol: one or more outputs of a graph. Cloning shares the graph.
#[derive(Clone)]
pub struct Symbol {
    pub(crate) outputs: Vec<NodeEntry>,
}

/// The attributes of a node as listings show them: hidden keys appear both with and without underscores.
fn listed_attrs(node: &Node) -> Vec<(String, String)> {
    let plain = |k: &str| {
        k.strip_prefix("__")?.strip_suffix("__").filter(|k| compose::HIDDEN_KEYS.contains(k)).map(str::to_string)
    };
    let attrs = node.attrs.read();
    let mut all: Vec<_> = attrs.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    all.extend(attrs.iter().filter_map(|(k, v)| Some((plain(k)?, v.clone()))));
    all
}

/// A variable of a symbol.
#[derive(Clone)]
pub struct Variable {
    /// The node without an operator.
    pub node: Arc<Node>,
    /// Whether it is an auxiliary state: some operator mutates it.
    pub is_aux: bool,
}

impl Symbol {
    /// A variable with attributes.
    pub fn variable(name: &str, attrs: Attrs) -> Symbol {
        Symbol { outputs: vec![NodeEntry { node: Node::variable(name, attrs), index: 0 }] }
    }

    /// Whether any operator has output shapes that depend on the values of its inputs, which a plan does not support.
    pub fn is_dynamic(&self) -> bool {
        self.nodes().iter().any(|n| n.op().is_some_and(OpCall::is_dynamic))
    }

    /// The symbol of an existing variable node.
    pub fn of_variable(node: Arc<Node>) -> Symbol {
        Symbol { outputs: vec![NodeEntry { node, index: 0 }] }
    }

    /// The symbol of one output of a node.
    pub(crate) fn of_entry(entry: NodeEntry) -> Symbol {
        Symbol { outputs: vec![entry] }
    }

    /// The symbol after `inputs` replaced the inputs of each node, by indices in topological order. Nodes without readers are dropped.
    pub(crate) fn with_inputs(&self, inputs: impl Fn(usize) -> Vec<(usize, u32)>) -> Symbol {
        let nodes = self.nodes();
        let mut new_nodes: Vec<Arc<Node>> = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            let entry = |(k, index): (usize, u32)| NodeEntry { node: new_nodes[k].clone(), index };
            let inputs: Vec<NodeEntry> = inputs(i).into_iter().map(entry).collect();
            new_nodes.push(match inputs.iter().zip(&node.inputs).all(|(new, old)| new.is_same(old)) {
                true => node.clone(),
                false => node.with_inputs(inputs),
            });
        }
        let by_old: HashMap<*const Node, &Arc<Node>> = nodes.iter().map(Arc::as_ptr).zip(&new_nodes).collect();
        let entry = |e: &NodeEntry| {
            let node = by_old.get(&Arc::as_ptr(&e.node)).map_or(&e.node, |node| *node);
            NodeEntry { node: node.clone(), index: e.index }
        };
        Symbol { outputs: self.outputs.iter().map(entry).collect() }
    }

    /// Groups symbols to one with all their outputs in order.
    pub fn group(symbols: &[Symbol]) -> Symbol {
        Symbol { outputs: symbols.iter().flat_map(|s| s.outputs.iter().cloned()).collect() }
    }

    /// The entries of the outputs.
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
                Err(Error::NotFound(format!("output {index} was requested, but the symbol has {}", self.outputs.len())))
            }
        }
    }

    /// The name of the node if all outputs belong to one node.
    pub fn name(&self) -> Option<&str> {
        let first = self.outputs.first()?;
        self.outputs.iter().all(|e| Arc::ptr_eq(&e.node, &first.node)).then_some(first.node.name.as_str())
    }

    /// All nodes in topological order.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        topological(&self.outputs)
    }

    /// A symbol with every visible output of every node.
    pub fn internals(&self) -> Symbol {
        let entry = |node: &Arc<Node>, i| NodeEntry { node: node.clone(), index: i as u32 };
        Symbol { outputs: self.nodes().iter().flat_map(|n| (0..n.num_visible()).map(move |i| entry(n, i))).collect() }
    }

    /// A symbol with the inputs of the output nodes; `None` if they have none.
    pub fn children(&self) -> Option<Symbol> {
        let mut visited = HashSet::new();
        let outputs: Vec<_> = self
            .outputs
            .iter()
            .filter(|e| visited.insert(Arc::as_ptr(&e.node)))
            .flat_map(|e| e.node.inputs.iter().cloned())
            .collect();
        (!outputs.is_empty()).then_some(Symbol { outputs })
    }

    /// Names of the outputs.
    pub fn list_outputs(&self) -> Vec<String> {
        let mut names: HashMap<*const Node, Vec<String>> = HashMap::new();
        let name = |e: &NodeEntry| {
            let names = names.entry(Arc::as_ptr(&e.node)).or_insert_with(|| e.node.output_names());
            names.get(e.index as usize).cloned().unwrap_or_else(|| e.node.output_name(e.index as usize))
        };
        self.outputs.iter().map(name).collect()
    }

    /// Variables in topological order.
    pub fn variables(&self) -> Vec<Variable> {
        let nodes = self.nodes();
        let mut aux: HashSet<*const Node> = HashSet::new();
        for node in &nodes {
            if !node.is_variable() {
                for i in node.mutated().iter() {
                    if let Some(input) = node.inputs.get(*i) {
                        aux.insert(Arc::as_ptr(&input.node));
                    }
                }
            }
        }
        let variable = |node: Arc<Node>| Variable { is_aux: aux.contains(&Arc::as_ptr(&node)), node };
        nodes.into_iter().filter(|n| n.is_variable()).map(variable).collect()
    }

    /// Checks that all operators can run.
    ///
    /// # Errors
    /// A user operator that is not registered, with its node and how to register it.
    pub fn check_ready(&self) -> Result<()> {
        for node in self.nodes() {
            if let (Some(op), None) = (node.op(), node.subgraph()) {
                op.def.check_runnable(&op.params).map_err(|e| e.in_operator(op.title(), &node.name))?;
            }
        }
        Ok(())
    }

    /// Names of the arguments in topological order, which is the order in which `bind` takes them.
    pub fn list_arguments(&self) -> Vec<String> {
        self.variables().iter().filter(|v| !v.is_aux).map(|v| v.node.name.to_string()).collect()
    }

    /// Names of the auxiliary states in topological order.
    pub fn list_auxiliary_states(&self) -> Vec<String> {
        self.variables().iter().filter(|v| v.is_aux).map(|v| v.node.name.to_string()).collect()
    }

    /// Names of all variables in topological order.
    pub fn list_inputs(&self) -> Vec<String> {
        self.variables().iter().map(|v| v.node.name.to_string()).collect()
    }

    fn single_node(&self) -> Result<&Arc<Node>> {
        match (self.name(), self.outputs.first()) {
            (Some(_), Some(e)) => Ok(&e.node),
            _ => Err(Error::Value("only a symbol with one node has attributes; this symbol is a group".into())),
        }
    }

    /// An attribute of the symbol's node; hidden keys such as `ctx_group` are found with and without underscores.
    pub fn attr(&self, key: &str) -> Option<String> {
        let node = self.single_node().ok()?;
        match key {
            "name" => return Some(node.name.to_string()),
            // Front ends name loop variables after the output indices.
            "_value_index" => {
                return Some(self.outputs.iter().map(|e| e.index.to_string()).collect::<Vec<_>>().join(", "));
            }
            _ => {}
        }
        let attrs = node.attrs.read();
        attrs.get(key).or_else(|| attrs.get(&format!("__{key}__"))).cloned()
    }

    /// Sets an attribute of the symbol's node, as a front end does: hidden attributes such as `ctx_group` get their underscores.
    ///
    /// # Errors
    /// The symbol is a group.
    pub fn set_attr(&self, key: &str, value: &str) -> Result<()> {
        if let Some(suffix) =
            compose::HIDDEN_KEYS.iter().find(|k| key.strip_suffix(**k).is_some_and(|s| s.ends_with('_')))
            && !node::is_hidden(key)
        {
            let text = format!(
                "'{key}' does not set {suffix} of an input: set it where the variable is created, such as Variable({suffix}=...)"
            );
            return Err(Error::Value(text));
        }
        self.set_node_attr(&compose::stored_key(key), value)
    }

    /// Sets an attribute of the symbol's node without adding underscores to the key, as nnvm's functions do.
    ///
    /// # Errors
    /// The symbol is a group.
    pub fn set_node_attr(&self, key: &str, value: &str) -> Result<()> {
        self.single_node()?.set_attr(key, value)
    }

    /// The attributes of the symbol's node.
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
            let Some(op) = node.op() else {
                let _ = writeln!(s, "Variable:{}", node.name);
                continue;
            };
            let _ = writeln!(s, "--------------------\nOp:{}, Name={}\nInputs:", op.def.name, node.name);
            let mutates = node.mutated();
            for (i, input) in node.inputs.iter().enumerate() {
                let version = match (input.node.is_variable(), mutates.contains(&i)) {
                    (false, _) => "",
                    (true, false) => " version=0",
                    (true, true) => " version=1",
                };
                let _ = writeln!(s, "\targ[{i}]={}({}){version}", input.node.name, input.index);
            }
            let attrs = node.attrs.read();
            if !attrs.is_empty() {
                s.push_str("Attrs:\n");
                let mut sorted: Vec<_> = attrs.iter().collect();
                sorted.sort();
                for (k, v) in sorted {
                    let _ = writeln!(s, "\t{k}={v}");
                }
            }
        }
        s
    }
}
