//! Devices: which one each node of a graph runs on, and copies where an array passes from one to another.

use std::collections::{BTreeMap, HashMap};

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::params::Attrs;

use crate::graph::{Action, CheckedGradient, Graph, GraphNode, entry, op_call};

/// Attribute that names the group of a node, as graphs and as users write it.
const GROUP_ATTRS: [&str; 2] = ["__ctx_group__", "ctx_group"];

fn group_of(attrs: &Attrs) -> Option<&String> {
    GROUP_ATTRS.iter().find_map(|key| attrs.get(*key))
}

/// The devices of a graph: one for all nodes, or one for each group.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// The device of what belongs to no group.
    pub default: Context,
    /// Devices by the name of the group, which the attribute `ctx_group` of a node gives.
    pub groups: BTreeMap<String, Context>,
}

impl From<Context> for Devices {
    fn from(default: Context) -> Devices {
        Devices { default, groups: BTreeMap::new() }
    }
}

impl Devices {
    /// The device on which the array of a variable with these attributes is made.
    pub fn of_variable(&self, attrs: &Attrs) -> Context {
        let group = group_of(attrs).and_then(|group| self.groups.get(group));
        group.copied().unwrap_or(self.default)
    }

    /// The device of a node's group.
    ///
    /// # Errors
    /// The group has none.
    fn of_group(&self, node: &GraphNode) -> Result<Option<Context>> {
        let Some(group) = group_of(&node.attrs) else { return Ok(None) };
        let found = self.groups.get(group).ok_or_else(|| {
            let text = format!("The device assignment not found for group {group}: name it in group2ctx");
            Error::Value(text).in_operator(node.op().map_or("null", |op| op.title()), &node.name)
        })?;
        Ok(Some(*found))
    }
}

/// A graph with copies in it.
pub struct Placed {
    /// The graph.
    pub graph: Graph,
    /// The new index of each old node.
    moved: Vec<u32>,
    /// The new index of the first node that computes gradients.
    pub forward_nodes: usize,
}

impl Placed {
    /// The entry that an entry of the old graph has become.
    pub fn entry(&self, e: Entry) -> Entry {
        Entry { node: self.moved[e.node as usize], index: e.index }
    }
}

/// Gives each node its device and copies what it reads from others; nodes from `forward_nodes` on compute gradients. Variables are
/// where their arrays are, which `known` says of those that have one. A node runs on the device of its group; a gradient where the
/// node runs that it belongs to; any other node on the device of its first input that has one, or else on that of its reader.
///
/// # Errors
/// A group without device; an operator that changes an array of another device.
pub fn place(
    graph: &Graph,
    devices: &Devices,
    known: &HashMap<Entry, Context>,
    forward_nodes: usize,
) -> Result<Placed> {
    let contexts = contexts(graph, devices, known)?;
    let mut placed = Placed { graph: Graph::default(), moved: Vec::new(), forward_nodes: 0 };
    let mut copies: HashMap<(Entry, Context), Entry> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        if i == forward_nodes {
            placed.forward_nodes = placed.graph.nodes.len();
        }
        let context = contexts[i];
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (k, e) in node.inputs.iter().enumerate() {
            if contexts[e.node as usize] == context {
                inputs.push(placed.entry(*e));
                continue;
            }
            if node.op().is_some_and(|op| matches!(node.action, Action::Forward(_)) && op.mutated().contains(&k)) {
                let text = format!(
                    "mutable state cannot go across device: {} is on {}, but the node runs on {context}",
                    graph.node(*e).name,
                    contexts[e.node as usize]
                );
                return Err(Error::Value(text).in_operator(node.op().map_or("null", |op| op.title()), &node.name));
            }
            let copy = match copies.get(&(*e, context)) {
                Some(copy) => *copy,
                None => {
                    let name = format!("{}_{}_copy", graph.node(*e).name, e.index);
                    let action = Action::Forward(op_call("_CrossDeviceCopy", &Attrs::new())?);
                    let source = placed.entry(*e);
                    let copy = placed.graph.push(&name, action, vec![source], Attrs::new());
                    let made = &mut placed.graph.nodes[copy.node as usize];
                    made.context = context;
                    made.gradient_of = node.gradient_of.map(|of| placed.moved[of as usize]);
                    copies.insert((*e, context), copy);
                    copy
                }
            };
            inputs.push(copy);
        }
        placed.moved.push(placed.graph.nodes.len() as u32);
        let mut moved = GraphNode { inputs, context, ..node.clone() };
        moved.gradient_of = node.gradient_of.map(|of| placed.moved[of as usize]);
        if let Action::Backward { of, .. } = &mut moved.action {
            *of = placed.moved[*of as usize];
        }
        placed.graph.nodes.push(moved);
    }
    if forward_nodes >= graph.nodes.len() {
        placed.forward_nodes = placed.graph.nodes.len();
    }
    placed.graph.checked_gradients = (graph.checked_gradients.iter())
        .map(|c| CheckedGradient { of: placed.moved[c.of] as usize, gradient: placed.entry(c.gradient), ..*c })
        .collect();
    Ok(placed)
}

/// The device of each node.
fn contexts(graph: &Graph, devices: &Devices, known: &HashMap<Entry, Context>) -> Result<Vec<Context>> {
    let mut found: Vec<Option<Context>> = vec![None; graph.nodes.len()];
    for (i, node) in graph.nodes.iter().enumerate() {
        let of_node = |of: u32| found[of as usize];
        let group = devices.of_group(node)?;
        found[i] = match (&node.action, node.gradient_of) {
            (Action::Variable, _) => known.get(&entry(i, 0)).copied(),
            (_, Some(of)) => of_node(of),
            _ => group.or_else(|| node.inputs.iter().find_map(|e| of_node(e.node))),
        };
    }
    for i in (0..graph.nodes.len()).rev() {
        let Some(context) = found[i] else { continue };
        for e in &graph.nodes[i].inputs {
            found[e.node as usize].get_or_insert(context);
        }
    }
    Ok(found.into_iter().map(|context| context.unwrap_or(devices.default)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(graph: &mut Graph, name: &str, inputs: &[Entry], group: &str) -> Entry {
        let attrs = if group.is_empty() { Attrs::new() } else { Attrs::from([(GROUP_ATTRS[0].into(), group.into())]) };
        let action = Action::Forward(op_call("elemwise_add", &Attrs::new()).unwrap());
        graph.push(name, action, inputs.to_vec(), attrs)
    }

    #[test]
    fn copies_stand_at_the_borders_once() {
        let mut graph = Graph::default();
        let (x, y) = (graph.variable("x", Attrs::new()), graph.variable("y", Attrs::new()));
        let a = add(&mut graph, "a", &[x, y], "first");
        let b = add(&mut graph, "b", &[a, a], "second");
        let c = add(&mut graph, "c", &[a, b], "");
        let d = add(&mut graph, "d", &[b, a], "second");
        let known = HashMap::from([(x, Context::cpu(1)), (y, Context::cpu(0))]);
        let groups = BTreeMap::from([("first".into(), Context::cpu(1)), ("second".into(), Context::cpu(2))]);
        let devices = Devices { default: Context::cpu(0), groups };
        let placed = place(&graph, &devices, &known, 5).unwrap();
        let nodes: Vec<(&str, i32)> =
            placed.graph.nodes.iter().map(|n| (n.name.as_str(), n.context.device_id)).collect();
        let expected = [
            ("x", 1),
            ("y", 0),
            ("y_0_copy", 1),
            ("a", 1),
            ("a_0_copy", 2),
            ("b", 2),
            ("b_0_copy", 1),
            ("c", 1),
            ("d", 2),
        ];
        assert_eq!(nodes, expected);
        assert_eq!(placed.forward_nodes, 8);
        assert_eq!(placed.graph.node(placed.entry(d)).inputs, [placed.entry(b), entry(4, 0)]);
        assert_eq!(placed.graph.node(placed.entry(c)).inputs, [placed.entry(a), entry(6, 0)]);
        let missing = Devices { groups: BTreeMap::new(), ..devices };
        let error = place(&graph, &missing, &known, 5).err().unwrap().to_string();
        assert!(error.contains("The device assignment not found for group first"), "{error}");
    }
}
