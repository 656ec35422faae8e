//! Assigns memory to each entry of a graph: an array from outside the plan (bound by the user, or an output), or a block of the arena.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Chunk;
use hashbrown::{HashMap, HashSet};

use crate::graph::{Action, Graph, GraphNode, entry};
use crate::passes::chains::Schedule;
use crate::passes::infer::Entries;
use crate::passes::plan_memory::{Block, assign_offsets};

/// The graph, its schedule and the arrays that are already fixed.
pub(super) struct Request<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The order in which nodes run.
    pub schedule: &'a Schedule,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Arrays that entries already have: variables, outputs, and gradients that kernels write directly to their arrays.
    pub external: &'a HashMap<Entry, NDArray>,
    /// Entries that are read from outside the graph after the last step.
    pub kept: &'a HashSet<Entry>,
    /// Arenas to reuse if they are large enough.
    pub arenas: &'a Arenas,
    /// With a monitor: the step after which the monitor last reads each entry.
    pub last_reported: Option<HashMap<Entry, usize>>,
}

/// Memory for intermediate results, by device.
pub(super) type Arenas = BTreeMap<Context, Arc<Chunk>>;

/// The memory of all entries.
pub(super) struct Assignment {
    /// The array of each entry; `None` if the entry is unused, or used only by the chain that computes it.
    pub arrays: Entries<Option<NDArray>>,
    /// True for nodes that need not run because their output is a view of their input.
    pub elided: Vec<bool>,
    /// The arenas.
    pub arenas: Arenas,
}

#[derive(Clone, Copy, PartialEq)]
enum Location {
    /// No memory yet.
    Unassigned,
    /// An array from outside.
    External,
    /// A block of the arena, by index.
    Arena(usize),
}

/// Assigns memory to all entries of the nodes that run.
///
/// # Errors
/// Out of memory.
pub(super) fn assign(request: &Request<'_>) -> Result<Assignment> {
    let r = request;
    let last_use = last_uses(r);
    let mut locations = Entries::new(r.graph, Location::Unassigned);
    let mut arrays: Entries<Option<NDArray>> = Entries::new(r.graph, None);
    let mut blocks: Vec<Block> = Vec::new();
    let mut contexts: Vec<Context> = Vec::new();
    let mut elided = vec![false; r.graph.nodes.len()];
    for (e, array) in r.external {
        locations[*e] = Location::External;
        arrays[*e] = Some(array.clone());
    }
    for (t, step) in r.schedule.steps.iter().enumerate() {
        let mut taken: Vec<usize> = Vec::new();
        for (e, member) in computed_by(r.graph, step) {
            let node = r.graph.node(e);
            if locations[e] != Location::Unassigned || matches!(node.action, Action::Variable) {
                continue;
            }
            let Some(last) = last_use[e] else { continue };
            if r.last_reported.is_none()
                && is_view(node)
                && e.index == 0
                && locations[node.inputs[0]] != Location::Unassigned
            {
                elided[e.node as usize] = true;
                locations[e] = locations[node.inputs[0]];
                if let Location::Arena(b) = locations[e] {
                    blocks[b].last = blocks[b].last.max(last);
                }
                continue;
            }
            let bytes = r.shapes[e].checked_elements()? * r.dtypes[e].map_or(0, DType::size);
            locations[e] = match in_place(r, (t, member), e, bytes, &locations, &blocks, &taken) {
                Some(b) => {
                    blocks[b].last = last;
                    taken.push(b);
                    Location::Arena(b)
                }
                None => {
                    blocks.push(Block { bytes, first: t, last });
                    contexts.push(node.context);
                    Location::Arena(blocks.len() - 1)
                }
            };
        }
    }
    let mut arenas = Arenas::new();
    let mut offsets = vec![0; blocks.len()];
    for context in contexts.iter().copied().collect::<BTreeSet<_>>() {
        let members: Vec<usize> = (0..blocks.len()).filter(|b| contexts[*b] == context).collect();
        let (found, total) = assign_offsets(&members.iter().map(|b| blocks[*b].clone()).collect::<Vec<_>>());
        members.iter().zip(found).for_each(|(b, offset)| offsets[*b] = offset);
        let arena = match r.arenas.get(&context) {
            Some(chunk) if chunk.bytes() >= total => chunk.clone(),
            _ => Chunk::new(total, context)?,
        };
        arenas.insert(context, arena);
    }
    for step in &r.schedule.steps {
        for (e, _) in computed_by(r.graph, step) {
            if arrays[e].is_some() {
                continue;
            }
            let (shape, dtype) = (&r.shapes[e], r.dtypes[e].unwrap_or(DType::F32));
            arrays[e] = match locations[e] {
                _ if elided[e.node as usize] && e.index == 0 => match &arrays[r.graph.node(e).inputs[0]] {
                    Some(viewed) => Some(viewed.reshape(shape)?),
                    None => None,
                },
                Location::Arena(b) => {
                    Some(NDArray::view(arenas[&contexts[b]].clone(), offsets[b], shape.clone(), dtype)?)
                }
                Location::Unassigned | Location::External => None,
            };
        }
    }
    Ok(Assignment { arrays, elided, arenas })
}

fn is_view(node: &crate::graph::GraphNode) -> bool {
    matches!(&node.action, Action::Forward(op) if matches!(op.def.forward, Forward::View))
}

/// The entries that a step computes, each with the index of its node within the step.
fn computed_by<'a>(graph: &'a Graph, step: &'a [usize]) -> impl Iterator<Item = (Entry, usize)> + 'a {
    step.iter()
        .enumerate()
        .flat_map(|(member, i)| (0..graph.nodes[*i].num_outputs).map(move |k| (entry(*i, k), member)))
}

/// The last step that reads each entry; `None` if only members of the chain that computes it do.
fn last_uses(r: &Request<'_>) -> Entries<Option<usize>> {
    let mut last: Entries<Option<usize>> = Entries::new(r.graph, None);
    for (t, step) in r.schedule.steps.iter().enumerate() {
        for e in step.iter().flat_map(|i| &r.graph.nodes[*i].inputs) {
            if !is_computed_in(step, *e) {
                last[*e] = Some(t);
            }
        }
    }
    for (e, step) in r.last_reported.iter().flatten() {
        // The monitor reads the entry after `step`, so `step` must not overwrite it in place.
        last[*e] = Some(last[*e].unwrap_or(0).max(*step + 1));
    }
    for e in r.kept {
        last[*e] = Some(usize::MAX);
    }
    last
}

/// The block of an input that entry `e`, computed by `member` of step `t`, may overwrite. It has equal size and type, no later step and
/// no later member of this step reads it, and the member itself reads it only if its kernel supports in-place operation.
fn in_place(
    r: &Request<'_>,
    (t, member): (usize, usize),
    e: Entry,
    bytes: usize,
    locations: &Entries<Location>,
    blocks: &[Block],
    taken: &[usize],
) -> Option<usize> {
    let step = &r.schedule.steps[t];
    let nodes = || step.iter().map(|i| &r.graph.nodes[*i]);
    let pairs = in_place_pairs(r.graph.node(e));
    let free = |input: Entry| {
        let Location::Arena(b) = locations[input] else { return None };
        let reads =
            |node: &GraphNode| node.inputs.iter().filter(|other| locations[**other] == locations[input]).count();
        let fits = blocks[b].bytes == bytes && blocks[b].last == t && r.dtypes[input] == r.dtypes[e];
        let later = nodes().skip(member + 1).any(|node| reads(node) > 0);
        let itself = match reads(r.graph.node(e)) {
            0 => true,
            1 => pairs.iter().any(|(i, o)| *o == e.index as usize && r.graph.node(e).inputs.get(*i) == Some(&input)),
            _ => false,
        };
        (fits && !later && itself && !taken.contains(&b) && !is_computed_in(step, input)).then_some(b)
    };
    nodes().take(member + 1).flat_map(|node| &node.inputs).find_map(|input| free(*input))
}

fn is_computed_in(step: &[usize], e: Entry) -> bool {
    step.contains(&(e.node as usize))
}

/// Pairs (input, output) of a node that may share memory.
fn in_place_pairs(node: &GraphNode) -> &'static [(usize, usize)] {
    match &node.action {
        Action::Variable | Action::Fused { .. } => &[],
        Action::Forward(op) => op.def.inplace,
        Action::Backward { backward, .. } => backward.inplace,
    }
}
