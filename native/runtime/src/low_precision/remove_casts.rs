//! Removes the casts of automatic mixed precision from a graph, for export to files.

use std::collections::HashMap;
use std::sync::Arc;

use crate::symbol::{Node, NodeEntry, Symbol};

/// The input that a cast converts; `None` for other nodes.
fn cast_input(e: &NodeEntry) -> Option<&NodeEntry> {
    match e.node.op()?.def.name {
        "amp_cast" => e.node.inputs.first(),
        "amp_multicast" => e.node.inputs.get(e.index as usize),
        _ => None,
    }
}

/// The entry that one or more casts convert, or the entry itself.
fn before_casts(mut e: &NodeEntry) -> &NodeEntry {
    while let Some(source) = cast_input(e) {
        e = source;
    }
    e
}

impl Symbol {
    /// The graph without `amp_cast` and `amp_multicast`: readers of a cast read its input. As in MXNet, a cast that is an output of the
    /// graph stays.
    pub fn without_amp_casts(&self) -> Symbol {
        let mut copies: HashMap<*const Node, Arc<Node>> = HashMap::new();
        let copied = |copies: &HashMap<*const Node, Arc<Node>>, e: &NodeEntry| match copies.get(&Arc::as_ptr(&e.node)) {
            Some(copy) => NodeEntry { node: copy.clone(), index: e.index },
            None => e.clone(),
        };
        for node in self.nodes() {
            let inputs: Vec<_> = node.inputs.iter().map(|e| copied(&copies, before_casts(e))).collect();
            let is_unchanged = inputs.iter().zip(&node.inputs).all(|(new, old)| Arc::ptr_eq(&new.node, &old.node));
            if !is_unchanged {
                copies.insert(Arc::as_ptr(&node), node.with_inputs(inputs));
            }
        }
        Symbol { outputs: self.outputs.iter().map(|e| copied(&copies, e)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_are_removed() {
        let json = r#"{"nodes": [
            {"op": "null", "name": "a", "inputs": []},
            {"op": "null", "name": "b", "inputs": []},
            {"op": "amp_cast", "name": "c", "attrs": {"dtype": "float16"}, "inputs": [[0, 0, 0]]},
            {"op": "amp_multicast", "name": "m", "attrs": {"num_outputs": "2"}, "inputs": [[2, 0, 0], [1, 0, 0]]},
            {"op": "elemwise_sub", "name": "y", "inputs": [[3, 1, 0], [3, 0, 0]]},
            {"op": "amp_cast", "name": "z", "attrs": {"dtype": "float32"}, "inputs": [[4, 0, 0]]}],
            "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3, 5, 6, 7], "heads": [[5, 0, 0]]}"#;
        let plain = Symbol::from_json(json).unwrap().without_amp_casts();
        assert_eq!(
            (plain.list_outputs(), plain.list_arguments()),
            (vec!["z_output".to_string()], vec!["b".into(), "a".into()])
        );
        assert_eq!(plain.nodes().len(), 4);
    }
}
