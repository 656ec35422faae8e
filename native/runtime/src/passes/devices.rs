//! Assigns a device to each node of a graph and inserts copies between devices.

use std::collections::BTreeMap;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::params::Attrs;
use hashbrown::{HashMap, hash_map};

use crate::graph::{Action, CheckedGradient, Graph, GraphNode, entry};
use crate::symbol::OpCall;

/// The attribute with the context group of a node: as stored in graphs, and as users may write it.
const GROUP_ATTRS: [&str; 2] = ["__ctx_group__", "ctx_group"];

fn group_of(attrs: &Attrs) -> Option<&String> {
    GROUP_ATTRS.iter().find_map(|key| attrs.get(*key))
}

/// The devices of a graph: one for all nodes, or one for each context group.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// The device of nodes without a group.
    pub default: Context,
    /// Devices by group name, which is the attribute `ctx_group` of a node.
    pub groups: BTreeMap<String, Context>,
}

impl From<Context> for Devices {
    fn from(default: Context) -> Devices {
        Devices { default, groups: BTreeMap::new() }
    }
}

impl Devices {
    /// The device on which to allocate a variable with these attributes.
    pub fn of_variable(&self, attrs: &Attrs) -> Context {
        let group = group_of(attrs).and_then(|group| self.groups.get(group));
        group.copied().unwrap_or(self.default)
    }

    /// The device of a node's group.
    ///
    /// # Errors
    /// The group has no device.
    fn of_group(&self, node: &GraphNode) -> Result<Option<Context>> {
        let Some(group) = group_of(&node.attrs) else { return Ok(None) };
        let context = self.groups.get(group).ok_or_else(|| {
            let text = format!("The device assignment not found for group {group}: name it in group2ctx");
            Error::Value(text).in_operator(node.op().map_or("null", |op| op.title()), &node.name)
        })?;
        Ok(Some(*context))
    }
}

/// A graph with a device for each node, and copies between devices.
pub(crate) struct DeviceGraph {
    /// The graph.
    pub graph: Graph,
    /// The new index of each old node.
    new_index: Vec<u32>,
    /// Number of forward nodes, copies included.
    pub num_forward_nodes: usize,
}

impl DeviceGraph {
    /// The new entry for an entry of the old graph.
    pub(crate) fn entry(&self, e: Entry) -> Entry {
        Entry { node: self.new_index[e.node as usize], index: e.index }
    }

    /// Adds a copy of an entry of the old graph to another device, for the node `reader`.
    fn add_copy(&mut self, old: &Graph, e: Entry, context: Context, reader: &GraphNode) -> Result<Entry> {
        let name = format!("{}_{}_copy", old.node(e).name, e.index);
        let action = Action::Forward(OpCall::new("_CrossDeviceCopy", &Attrs::new())?);
        let source = self.entry(e);
        let copy = self.graph.push(&name, action, vec![source], Attrs::new());
        let copy_node = &mut self.graph.nodes[copy.node as usize];
        copy_node.context = context;
        copy_node.gradient_of = reader.gradient_of.map(|of| self.new_index[of as usize]);
        Ok(copy)
    }
}

/// Assigns a device to each node and inserts copies of inputs from other devices. The nodes after `num_forward_nodes` compute gradients.
/// `variable_contexts` has the devices of bound variables. A gradient node runs on the device of its forward node; any other node on the
/// device of its group. A node without a group runs on the device of its first input that has one, else on that of its reader.
///
/// # Errors
/// A group without a device; an operator that modifies an array of another device.
pub(crate) fn assign(
    graph: &Graph,
    devices: &Devices,
    variable_contexts: &HashMap<Entry, Context>,
    num_forward_nodes: usize,
) -> Result<DeviceGraph> {
    let contexts = assign_contexts(graph, devices, variable_contexts)?;
    let mut assigned = DeviceGraph { graph: Graph::default(), new_index: Vec::new(), num_forward_nodes: 0 };
    let mut copies = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        if i == num_forward_nodes {
            assigned.num_forward_nodes = assigned.graph.nodes.len();
        }
        let context = contexts[i];
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (k, e) in node.inputs.iter().enumerate() {
            if contexts[e.node as usize] == context {
                inputs.push(assigned.entry(*e));
                continue;
            }
            if node.mutated_inputs().contains(&k) {
                return Err(mutable_state_error(graph, node, *e, [contexts[e.node as usize], context]));
            }
            inputs.push(match copies.entry((*e, context)) {
                hash_map::Entry::Occupied(copy) => *copy.get(),
                hash_map::Entry::Vacant(copy) => *copy.insert(assigned.add_copy(graph, *e, context, node)?),
            });
        }
        assigned.new_index.push(assigned.graph.nodes.len() as u32);
        let mut new_node = GraphNode { inputs, context, ..node.clone() };
        new_node.gradient_of = node.gradient_of.map(|of| assigned.new_index[of as usize]);
        if let Action::Backward { of, .. } = &mut new_node.action {
            *of = assigned.new_index[*of as usize];
        }
        assigned.graph.nodes.push(new_node);
    }
    if num_forward_nodes >= graph.nodes.len() {
        assigned.num_forward_nodes = assigned.graph.nodes.len();
    }
    assigned.graph.checked_gradients = (graph.checked_gradients.iter())
        .map(|c| CheckedGradient { of: assigned.new_index[c.of] as usize, gradient: assigned.entry(c.gradient), ..*c })
        .collect();
    Ok(assigned)
}

/// The error of a node that modifies its input `e` on another device.
fn mutable_state_error(graph: &Graph, node: &GraphNode, e: Entry, [from, to]: [Context; 2]) -> Error {
    let name = &graph.node(e).name;
    let text = format!("mutable state cannot go across device: {name} is on {from}, but the node runs on {to}");
    Error::Value(text).in_operator(node.op().map_or("null", |op| op.title()), &node.name)
}

/// The device of each node; see [`assign`].
///
/// # Errors
/// A group without a device.
pub(crate) fn assign_contexts(
    graph: &Graph,
    devices: &Devices,
    variable_contexts: &HashMap<Entry, Context>,
) -> Result<Vec<Context>> {
    let mut contexts: Vec<Option<Context>> = vec![None; graph.nodes.len()];
    for (i, node) in graph.nodes.iter().enumerate() {
        let of_node = |of: u32| contexts[of as usize];
        let group = devices.of_group(node)?;
        contexts[i] = match (&node.action, node.gradient_of) {
            (Action::Variable, _) => variable_contexts.get(&entry(i, 0)).copied(),
            (_, Some(of)) => of_node(of),
            _ => group.or_else(|| node.inputs.iter().find_map(|e| of_node(e.node))),
        };
    }
    for i in (0..graph.nodes.len()).rev() {
        let Some(context) = contexts[i] else { continue };
        for e in &graph.nodes[i].inputs {
            contexts[e.node as usize].get_or_insert(context);
        }
    }
    Ok(contexts.into_iter().map(|context| context.unwrap_or(devices.default)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(graph: &mut Graph, name: &str, inputs: &[Entry], group: &str) -> Entry {
        let attrs = if group.is_empty() { Attrs::new() } else { Attrs::from([(GROUP_ATTRS[0].into(), group.into())]) };
        let action = Action::Forward(OpCall::new("elemwise_add", &Attrs::new()).unwrap());
        graph.push(name, action, inputs.to_vec(), attrs)
    }

    #[test]
    fn each_array_is_copied_once_per_device() {
        let mut graph = Graph::default();
        let (x, y) = (graph.variable("x", Attrs::new()), graph.variable("y", Attrs::new()));
        let a = add(&mut graph, "a", &[x, y], "first");
        let b = add(&mut graph, "b", &[a, a], "second");
        let c = add(&mut graph, "c", &[a, b], "");
        let d = add(&mut graph, "d", &[b, a], "second");
        let variable_contexts = HashMap::from([(x, Context::cpu(1)), (y, Context::cpu(0))]);
        let groups = BTreeMap::from([("first".into(), Context::cpu(1)), ("second".into(), Context::cpu(2))]);
        let devices = Devices { default: Context::cpu(0), groups };
        let assigned = assign(&graph, &devices, &variable_contexts, 5).unwrap();
        let nodes: Vec<(&str, i32)> =
            assigned.graph.nodes.iter().map(|n| (n.name.as_str(), n.context.device_id)).collect();
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
        assert_eq!(assigned.num_forward_nodes, 8);
        assert_eq!(assigned.graph.node(assigned.entry(d)).inputs, [assigned.entry(b), entry(4, 0)]);
        assert_eq!(assigned.graph.node(assigned.entry(c)).inputs, [assigned.entry(a), entry(6, 0)]);
        let missing = Devices { groups: BTreeMap::new(), ..devices };
        let error = assign(&graph, &missing, &variable_contexts, 5).err().unwrap().to_string();
        assert!(error.contains("The device assignment not found for group first"), "{error}");
    }
}
