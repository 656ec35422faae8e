//! Decides where each entry of a graph lies: in an array of the user, in a kept output, or in the arena.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Chunk;

use crate::graph::{Action, Graph, GraphNode, entry};
use crate::passes::chains::Schedule;
use crate::passes::infer::Entries;
use crate::passes::plan_memory::{Block, assign_offsets};

/// What the placement is told.
pub struct Request<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// What runs when.
    pub schedule: &'a Schedule,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Entries that lie in arrays from outside: variables, and gradients that go straight to their arrays.
    pub external: &'a HashMap<Entry, NDArray>,
    /// Entries that something outside the graph reads after the last step.
    pub kept: &'a HashSet<Entry>,
    /// Memory that may serve as the arenas if it is large enough.
    pub arenas: &'a Arenas,
    /// Entries that are read once more behind the steps so numbered, where a monitor sees every operator.
    pub watched: Option<HashMap<Entry, usize>>,
}

/// Memory for intermediate results, by device.
pub type Arenas = BTreeMap<Context, Arc<Chunk>>;

/// Where everything lies.
pub struct Placement {
    /// The array of each entry; `None` for entries that nobody uses, or only the chain that makes them.
    pub arrays: Entries<Option<NDArray>>,
    /// Nodes that need not run, because their output is their input's memory.
    pub elided: Vec<bool>,
    /// The arenas.
    pub arenas: Arenas,
}

#[derive(Clone, Copy, PartialEq)]
enum Home {
    Nowhere,
    External,
    Arena(usize),
}

/// Places all entries of the nodes that run.
///
/// # Errors
/// Out of memory.
pub fn place(request: &Request<'_>) -> Result<Placement> {
    let r = request;
    let last_use = last_uses(r);
    let mut home = Entries::new(r.graph, Home::Nowhere);
    let mut arrays: Entries<Option<NDArray>> = Entries::new(r.graph, None);
    let mut blocks: Vec<Block> = Vec::new();
    let mut contexts: Vec<Context> = Vec::new();
    let mut elided = vec![false; r.graph.nodes.len()];
    for (e, array) in r.external {
        home[*e] = Home::External;
        arrays[*e] = Some(array.clone());
    }
    for (t, step) in r.schedule.steps.iter().enumerate() {
        let mut taken: Vec<usize> = Vec::new();
        for (e, member) in made_by(r.graph, step) {
            let node = r.graph.node(e);
            if home[e] != Home::Nowhere || matches!(node.action, Action::Variable) {
                continue;
            }
            let Some(last) = last_use[e] else { continue };
            if r.watched.is_none() && is_view(node) && e.index == 0 && home[node.inputs[0]] != Home::Nowhere {
                elided[e.node as usize] = true;
                home[e] = home[node.inputs[0]];
                if let Home::Arena(b) = home[e] {
                    blocks[b].last = blocks[b].last.max(last);
                }
                continue;
            }
            let bytes = r.shapes[e].checked_elements()? * r.dtypes[e].map_or(0, DType::size);
            home[e] = match in_place(r, (t, member), e, bytes, &home, &blocks, &taken) {
                Some(b) => {
                    blocks[b].last = last;
                    taken.push(b);
                    Home::Arena(b)
                }
                None => {
                    blocks.push(Block { bytes, first: t, last });
                    contexts.push(node.context);
                    Home::Arena(blocks.len() - 1)
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
        for (e, _) in made_by(r.graph, step) {
            if arrays[e].is_some() {
                continue;
            }
            let (shape, dtype) = (&r.shapes[e], r.dtypes[e].unwrap_or(DType::F32));
            arrays[e] = match home[e] {
                _ if elided[e.node as usize] && e.index == 0 => match &arrays[r.graph.node(e).inputs[0]] {
                    Some(viewed) => Some(viewed.reshape(shape)?),
                    None => None,
                },
                Home::Arena(b) => Some(NDArray::view(arenas[&contexts[b]].clone(), offsets[b], shape.clone(), dtype)?),
                Home::Nowhere | Home::External => None,
            };
        }
    }
    Ok(Placement { arrays, elided, arenas })
}

fn is_view(node: &crate::graph::GraphNode) -> bool {
    matches!(&node.action, Action::Forward(op) if matches!(op.def.forward, Forward::View))
}

/// The entries that a step makes, each with the position of its node in the step.
fn made_by<'a>(graph: &'a Graph, step: &'a [usize]) -> impl Iterator<Item = (Entry, usize)> + 'a {
    step.iter()
        .enumerate()
        .flat_map(|(member, i)| (0..graph.nodes[*i].num_outputs).map(move |k| (entry(*i, k), member)))
}

/// The last step that uses each entry; `None` where nobody does but other members of the chain that makes it.
fn last_uses(r: &Request<'_>) -> Entries<Option<usize>> {
    let mut last: Entries<Option<usize>> = Entries::new(r.graph, None);
    for (t, step) in r.schedule.steps.iter().enumerate() {
        for e in step.iter().flat_map(|i| &r.graph.nodes[*i].inputs) {
            if !made_here(step, *e) {
                last[*e] = Some(t);
            }
        }
    }
    for (e, behind) in r.watched.iter().flatten() {
        // One step longer, so that the step itself does not work in place.
        last[*e] = Some(last[*e].unwrap_or(0).max(*behind + 1));
    }
    for e in r.kept {
        last[*e] = Some(usize::MAX);
    }
    last
}

/// The block of an input that entry `e`, made by a member of step `t`, may overwrite: of equal size and type, used neither in a later
/// step nor by a later member of this one, and by the member itself only where its kernel works in place.
fn in_place(
    r: &Request<'_>,
    (t, member): (usize, usize),
    e: Entry,
    bytes: usize,
    home: &Entries<Home>,
    blocks: &[Block],
    taken: &[usize],
) -> Option<usize> {
    let step = &r.schedule.steps[t];
    let nodes = || step.iter().map(|i| &r.graph.nodes[*i]);
    let pairs = in_place_pairs(r.graph.node(e));
    let free = |input: Entry| {
        let Home::Arena(b) = home[input] else { return None };
        let reads = |node: &GraphNode| node.inputs.iter().filter(|other| home[**other] == home[input]).count();
        let fits = blocks[b].bytes == bytes && blocks[b].last == t && r.dtypes[input] == r.dtypes[e];
        let later = nodes().skip(member + 1).any(|node| reads(node) > 0);
        let itself = match reads(r.graph.node(e)) {
            0 => true,
            1 => pairs.iter().any(|(i, o)| *o == e.index as usize && r.graph.node(e).inputs.get(*i) == Some(&input)),
            _ => false,
        };
        (fits && !later && itself && !taken.contains(&b) && !made_here(step, input)).then_some(b)
    };
    nodes().take(member + 1).flat_map(|node| &node.inputs).find_map(|input| free(*input))
}

fn made_here(step: &[usize], e: Entry) -> bool {
    step.contains(&(e.node as usize))
}

/// Pairs (input, output) of a node that may be the same memory.
fn in_place_pairs(node: &GraphNode) -> &'static [(usize, usize)] {
    match &node.action {
        Action::Variable | Action::Fused { .. } => &[],
        Action::Forward(op) => op.def.inplace,
        Action::Backward { backward, .. } => backward.inplace,
    }
}
