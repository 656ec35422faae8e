//! The topological order of a graph's nodes, and the check for undefined names, names defined twice, and cycles.

use std::collections::{HashMap, HashSet};

use crate::error::Problem;
use crate::ir::{Graph, Node};

/// The producers and uses of a graph's values.
#[derive(Default)]
pub(super) struct Wiring<'g> {
    /// The producer of each value.
    pub producer: HashMap<&'g str, usize>,
    /// Number of uses of each value: as an input of a node or as an output of the graph.
    pub uses: HashMap<&'g str, usize>,
    /// The nodes in topological order; nodes in or after cycles come last.
    pub order: Vec<usize>,
    /// Values that have no producer, or only one in or after a cycle.
    pub missing_values: Vec<&'g str>,
}

fn problem(location: String, message: String) -> Problem {
    Problem { location, message, needs_value: false }
}

/// The wiring of a graph and its problems. `outside` is true for names that outer graphs define.
pub(super) fn wire<'g>(graph: &'g Graph, outside: impl Fn(&str) -> bool) -> (Wiring<'g>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut missing_values: Vec<&str> = Vec::new();
    let given: HashSet<&str> = graph
        .inputs
        .iter()
        .map(|i| i.name.as_str())
        .chain(graph.constants.keys().map(String::as_str))
        .chain(graph.unread_constants.iter().map(String::as_str))
        .collect();
    let producer = producers(graph, &given, &mut problems);
    let is_defined = |name: &str| producer.contains_key(name) || given.contains(name) || outside(name);
    let inputs: Vec<Vec<&str>> = graph.nodes.iter().map(inputs_of).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let mut reported = HashSet::new();
    for (node, inputs) in graph.nodes.iter().zip(&inputs) {
        for input in inputs.iter().copied() {
            *uses.entry(input).or_default() += 1;
            if !is_defined(input) && reported.insert(input) {
                let text = format!("its input '{input}' is neither an input of the graph nor the output of a node");
                problems.push(problem(node.label(), text));
                missing_values.push(input);
            }
        }
    }
    for name in graph.outputs.iter().map(|output| output.name.as_str()) {
        *uses.entry(name).or_default() += 1;
        if !is_defined(name) {
            problems.push(problem(format!("output '{name}'"), "no node of the graph computes it".into()));
            missing_values.push(name);
        }
    }
    let (mut order, in_cycle) = topological_order(&inputs, &producer);
    if let Some(first) = in_cycle.first() {
        let shown = in_cycle.iter().take(5).map(|i| graph.nodes[*i].label()).collect::<Vec<_>>().join(", ");
        let text = format!("it depends on its own output: {shown} are in or after a cycle");
        problems.push(problem(graph.nodes[*first].label(), text));
    }
    for i in in_cycle {
        missing_values.extend(graph.nodes[i].outputs.iter().filter(|o| !o.is_empty()).map(String::as_str));
        order.push(i);
    }
    (Wiring { producer, uses, order, missing_values }, problems)
}

/// The node that produces each value. An output that is in `given`, or that another node produces, is a problem.
fn producers<'g>(graph: &'g Graph, given: &HashSet<&str>, problems: &mut Vec<Problem>) -> HashMap<&'g str, usize> {
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        for output in node.outputs.iter().filter(|o| !o.is_empty()) {
            if given.contains(output.as_str()) {
                problems.push(problem(node.label(), format!("its output '{output}' is also an input of the graph")));
            } else if let Some(other) = producer.insert(output, i) {
                let other = graph.nodes[other].label();
                problems.push(problem(node.label(), format!("its output '{output}' is also an output of {other}")));
            }
        }
    }
    producer
}

/// The values that a node and its subgraphs read.
fn inputs_of(node: &Node) -> Vec<&str> {
    node.inputs.iter().map(String::as_str).chain(node.free_names()).filter(|n| !n.is_empty()).collect()
}

/// The nodes in topological order, without those in or after cycles, and these. `inputs` has the values that each node reads.
fn topological_order(inputs: &[Vec<&str>], producer: &HashMap<&str, usize>) -> (Vec<usize>, Vec<usize>) {
    let mut num_pending = vec![0usize; inputs.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); inputs.len()];
    for (i, inputs) in inputs.iter().enumerate() {
        for p in inputs.iter().filter_map(|input| producer.get(input)) {
            num_pending[i] += 1;
            users[*p].push(i);
        }
    }
    let mut order: Vec<usize> = (0..inputs.len()).filter(|i| num_pending[*i] == 0).collect();
    let mut next = 0;
    while let Some(i) = order.get(next).copied() {
        next += 1;
        for user in &users[i] {
            num_pending[*user] -= 1;
            if num_pending[*user] == 0 {
                order.push(*user);
            }
        }
    }
    let in_cycle = (0..inputs.len()).filter(|i| num_pending[*i] > 0).collect();
    (order, in_cycle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ValueInfo;

    fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        let texts = |t: &[&str]| t.iter().map(|s| s.to_string()).collect();
        Node { op: op.into(), inputs: texts(inputs), outputs: texts(outputs), ..Node::default() }
    }

    fn graph(nodes: Vec<Node>) -> Graph {
        let value = |name: &str| ValueInfo { name: name.into(), element: None, dims: None, non_tensor_kind: None };
        Graph { nodes, inputs: vec![value("x")], outputs: vec![value("y")], ..Graph::default() }
    }

    #[test]
    fn nodes_are_sorted_topologically() {
        let g = graph(vec![node("B", &["a"], &["y"]), node("A", &["x"], &["a"])]);
        assert_eq!(wire(&g, |_| false).0.order, [1, 0]);
    }

    #[test]
    fn all_problems_of_the_wiring_are_reported() {
        let g = graph(vec![node("A", &["b", "nowhere"], &["a"]), node("B", &["a"], &["b"]), node("C", &["x"], &["b"])]);
        let (wiring, problems) = wire(&g, |_| false);
        assert_eq!((wiring.order.len(), wiring.missing_values), (3, vec!["nowhere", "y"]));
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for part in ["'b' is also an output of B 'b'", "'nowhere' is neither", "output 'y': no node"] {
            assert!(text.contains(part), "{text}");
        }
        let g = graph(vec![node("A", &["y"], &["a"]), node("B", &["a"], &["y"])]);
        let text = wire(&g, |_| false).1[0].to_string();
        assert!(text.contains("it depends on its own output"), "{text}");
    }
}
