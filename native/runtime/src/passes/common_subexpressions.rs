//! Common subexpression elimination.
//!
//! Two nodes are equal if they have the same operator, parameters, inputs and device; readers of the second then read the first. Operators
//! that draw random numbers, mutate an input or read a mutated entry are never merged. Neither are outputs of the graph, since each has its
//! own array. The second node stays in the graph as dead code.

use ferromx_core::grad::Entry;
use ferromx_core::op::Forward;
use ferromx_core::params::Attrs;
use hashbrown::{HashMap, HashSet};

use crate::graph::{Action, Graph, GraphNode};

/// Redirects the readers of equal nodes to the first of them. `live_out` are the entries that are read from outside the graph, `mutated`
/// those that an operator mutates.
pub(crate) fn eliminate(graph: &mut Graph, needed: &[bool], live_out: &HashSet<Entry>, mutated: &HashSet<Entry>) {
    // Nodes with distinct parameters, by operator and inputs.
    let mut representatives: HashMap<(usize, Vec<Entry>), Vec<usize>> = HashMap::new();
    let mut replaced_by: HashMap<usize, usize> = HashMap::new();
    let live_out_nodes: HashSet<usize> = live_out.iter().map(|e| e.node as usize).collect();
    for i in (0..graph.nodes.len()).filter(|i| needed[*i]) {
        for e in &mut graph.nodes[i].inputs {
            if let Some(other) = replaced_by.get(&(e.node as usize)) {
                e.node = *other as u32;
            }
        }
        let node = &graph.nodes[i];
        if !is_pure(node) || node.inputs.iter().any(|e| mutated.contains(e)) {
            continue;
        }
        let Action::Forward(op) = &node.action else { continue };
        let candidates = representatives.entry((std::ptr::from_ref(op.def) as usize, node.inputs.clone())).or_default();
        let is_equal = |other: &GraphNode| other.context == node.context && equal_parameters(&other.attrs, &node.attrs);
        match candidates.iter().find(|other| is_equal(&graph.nodes[**other])) {
            Some(other) if !live_out_nodes.contains(&i) => _ = replaced_by.insert(i, *other),
            Some(_) => {}
            None => candidates.push(i),
        }
    }
}

/// Whether the outputs depend only on inputs and parameters, without side effects.
fn is_pure(node: &GraphNode) -> bool {
    match &node.action {
        Action::Forward(op) => {
            let is_function = matches!(op.def.kernels.forward, Forward::Kernel(_) | Forward::View);
            is_function && !op.def.kernels.is_random && op.mutated().is_empty()
        }
        _ => false,
    }
}

/// Whether two nodes of one operator have equal parameters. Attributes of the graph (`__shape__`, `__ctx_group__`) are ignored.
fn equal_parameters(a: &Attrs, b: &Attrs) -> bool {
    let parameters = |attrs: &Attrs| {
        let mut list: Vec<(String, String)> =
            attrs.iter().filter(|(k, _)| !k.starts_with("__")).map(|(k, v)| (k.clone(), v.clone())).collect();
        list.sort_unstable();
        list
    };
    parameters(a) == parameters(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbol::OpCall;

    fn add(graph: &mut Graph, op: &str, inputs: &[Entry], attrs: &[(&str, &str)]) -> Entry {
        let attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        graph.push(op, Action::Forward(OpCall::new(op, &attrs).unwrap()), inputs.to_vec(), attrs)
    }

    #[test]
    fn only_pure_equal_nodes_are_merged() {
        let mut g = Graph::default();
        let x = g.variable("x", Attrs::new());
        let twice = |g: &mut Graph, op: &str, attrs: &[(&str, &str)]| {
            let (a, b) = (add(g, op, &[x], attrs), add(g, op, &[x], attrs));
            (add(g, "elemwise_mul", &[a, b], &[]), a, b)
        };
        let (sines, sine, _) = twice(&mut g, "sin", &[]);
        let (scaled, half, _) = twice(&mut g, "_mul_scalar", &[("scalar", "0.5")]);
        let third = add(&mut g, "_mul_scalar", &[x], &[("scalar", "0.25")]);
        let (dropped, one, two) = twice(&mut g, "Dropout", &[]);
        let outer = [add(&mut g, "exp", &[sines], &[]), add(&mut g, "exp", &[sines], &[])];
        let outputs = [sines, scaled, third, dropped, outer[0], outer[1]];
        let needed = g.needed_for(outputs);
        eliminate(&mut g, &needed, &outputs.into_iter().collect(), &HashSet::new());
        assert_eq!(g.node(sines).inputs, [sine, sine]);
        assert_eq!(g.node(scaled).inputs, [half, half]);
        assert_eq!(g.node(dropped).inputs, [one, two]);
        // Outputs are never removed.
        assert!(g.needed_for(outputs)[outer[1].node as usize]);
        let mut h = g.clone();
        let again = add(&mut h, "sin", &[x], &[]);
        let user = add(&mut h, "exp", &[again], &[]);
        let needed = h.needed_for([user, sines]);
        eliminate(&mut h, &needed, &[user].into_iter().collect(), &[x].into_iter().collect());
        assert_eq!(h.node(user).inputs, [again]);
    }
}
