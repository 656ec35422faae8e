//! Groups connected operators with given names; each group becomes a `_CachedOp`.

use std::collections::{HashMap, HashSet, VecDeque};

use ferromx_core::error::Result;
use ferromx_core::params::Attrs;

use super::{PartitionGraph, Replacement};
use crate::symbol::Symbol;

/// Replaces every maximal group of connected operators with these names by a `_CachedOp`.
pub(super) fn partition(symbol: &Symbol, ops: &HashSet<String>) -> Result<Symbol> {
    let mut graph = PartitionGraph::new(symbol);
    let groups = groups(&graph, |node| ops.contains(graph.op(node)));
    for (id, group) in groups.iter().enumerate() {
        graph.replace(group, |graph| {
            let (name, op, attrs) = (format!("_CachedOp{id}"), "_CachedOp", Attrs::new());
            Ok(Some(Replacement { name, op, attrs, graph, has_one_output: false, rotation: 0 }))
        })?;
    }
    Ok(graph.finish())
}

/// A search for groups of connected nodes.
struct GroupSearch<'d> {
    graph: &'d PartitionGraph,
    /// The readers of each node; `None` means the outputs of the graph.
    readers: Vec<Vec<Option<usize>>>,
    /// Nodes that already belong to a group.
    grouped: HashSet<usize>,
}

/// Groups of connected nodes that `is_selected` selects, in topological order. Groups are convex: no path leaves one and returns to it.
fn groups(graph: &PartitionGraph, is_selected: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut search = GroupSearch { graph, readers: graph.readers(), grouped: HashSet::new() };
    let mut groups = Vec::new();
    for start in 0..graph.nodes.len() {
        if search.grouped.contains(&start) || !is_selected(start) {
            continue;
        }
        let mut excluded = HashSet::new();
        let group = loop {
            let group = search.connected(start, &|node| is_selected(node) && !excluded.contains(&node));
            match search.member_on_cycle(&group) {
                Some(member) if member != start => excluded.insert(member),
                _ => break group,
            };
        };
        search.grouped.extend(&group);
        groups.push(group);
    }
    groups
}

impl GroupSearch<'_> {
    /// The selected nodes that are connected to `start` through selected nodes, in topological order.
    fn connected(&self, start: usize, is_selected: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let mut group: HashSet<usize> = [start].into_iter().collect();
        let mut queue: VecDeque<usize> = [start].into_iter().collect();
        while let Some(node) = queue.pop_front() {
            let inputs = self.graph.nodes[node].inputs.iter().map(|p| p.node);
            for next in inputs.chain(self.readers[node].iter().copied().flatten()) {
                if !self.grouped.contains(&next) && is_selected(next) && group.insert(next) {
                    queue.push_back(next);
                }
            }
        }
        let mut group: Vec<usize> = group.into_iter().collect();
        group.sort_unstable();
        group
    }

    /// The last member at which a path leaves the group or returns to it, if a path does both: after the group is replaced by a node, that
    /// path would be a cycle.
    fn member_on_cycle(&self, group: &[usize]) -> Option<usize> {
        let members: HashSet<usize> = group.iter().copied().collect();
        // For each node outside: the last member that reads it, and the last member that it reads.
        let mut outside: HashMap<usize, (Option<usize>, Option<usize>)> = HashMap::new();
        for member in group {
            for port in self.graph.nodes[*member].inputs.iter().filter(|p| !members.contains(&p.node)) {
                outside.entry(port.node).or_default().0 = Some(*member);
            }
            for reader in self.readers[*member].iter().copied().flatten().filter(|r| !members.contains(r)) {
                outside.entry(reader).or_default().1 = Some(*member);
            }
        }
        let mut nodes: Vec<usize> = outside.keys().copied().collect();
        nodes.sort_unstable();
        for (i, node) in nodes.iter().enumerate() {
            let (last_reader, last_producer) = outside[node];
            let Some(last_producer) = last_producer else { continue };
            if let Some(last_reader) = last_reader {
                return Some(last_producer.max(last_reader));
            }
            let readers_after = nodes[i + 1..].iter().filter_map(|other| Some((*other, outside[other].0?)));
            let reached = self.reachable(*node, &members);
            for (other, last_reader) in readers_after {
                if reached.contains(&other) {
                    return Some(last_producer.max(last_reader));
                }
            }
        }
        None
    }

    /// The nodes that depend on `from` by paths outside the group.
    fn reachable(&self, from: usize, members: &HashSet<usize>) -> HashSet<usize> {
        let mut reached = HashSet::new();
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            for reader in self.readers[node].iter().copied().flatten() {
                if !members.contains(&reader) && reached.insert(reader) {
                    stack.push(reader);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(op: &str, name: &str, inputs: &[Symbol]) -> Symbol {
        Symbol::op(op, name, inputs, &[]).unwrap()
    }

    fn names(list: &[&str]) -> HashSet<String> {
        list.iter().map(|n| n.to_string()).collect()
    }

    fn structure(symbol: &Symbol) -> Vec<String> {
        let of = |e: &crate::symbol::NodeEntry| format!("{}.{}", e.node.name, e.index);
        let line = |n: &std::sync::Arc<crate::symbol::Node>| {
            let inputs = n.inputs.iter().map(of).collect::<Vec<_>>().join(" ");
            let inner = n.graphs.iter().map(|g| format!(" {:?}", g.internals().list_outputs())).collect::<String>();
            format!("{}({inputs}){inner}", n.name)
        };
        symbol.nodes().iter().filter(|n| !n.is_variable()).map(line).collect()
    }

    #[test]
    fn groups_become_nodes_with_a_subgraph() {
        let x = Symbol::variable("x", Attrs::new());
        let e = op("exp", "e", &[x]);
        let c = op("cos", "c", std::slice::from_ref(&e));
        let y = op("elemwise_add", "y", &[e, c]);
        let all = partition(&y, &names(&["exp", "cos", "elemwise_add"])).unwrap();
        assert_eq!(structure(&all), [r#"_CachedOp0(x.0) ["x0", "e_output", "c_output", "y_output"]"#]);
        assert_eq!(all.list_outputs(), ["_CachedOp0_y_output"]);
        // A path through `c` would leave the group and return to it.
        let split = partition(&y, &names(&["exp", "elemwise_add"])).unwrap();
        assert_eq!(
            structure(&split),
            [
                r#"_CachedOp0(x.0) ["x0", "e_output"]"#,
                "c(_CachedOp0.1)",
                r#"_CachedOp1(_CachedOp0.0 c.0) ["_CachedOp0_e_output0", "c_output0", "y_output"]"#
            ]
        );
        assert_eq!(structure(&partition(&y, &names(&[])).unwrap()), structure(&y));
        let loaded = Symbol::from_json(&split.to_json()).unwrap();
        assert_eq!(structure(&loaded), structure(&split));
    }
}
