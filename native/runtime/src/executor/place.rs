//! Decides where each entry of a graph lies: in an array of the user, in a kept output, or in the arena.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Chunk;

use crate::graph::{Action, Graph, entry};
use crate::passes::infer::Entries;
use crate::passes::plan_memory::{Block, assign_offsets};

/// What the placement is told.
pub struct Request<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Which nodes run.
    pub needed: &'a [bool],
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Entries that lie in arrays from outside: variables, and gradients that go straight to their arrays.
    pub external: &'a HashMap<Entry, NDArray>,
    /// Entries that keep memory of their own for good.
    pub outputs: &'a HashSet<Entry>,
    /// Entries that something outside the graph reads after the last step.
    pub kept: &'a HashSet<Entry>,
    /// Device of the arena.
    pub context: Context,
    /// Memory that may serve as the arena if it is large enough.
    pub arena: Option<Arc<Chunk>>,
}

/// Where everything lies.
pub struct Placement {
    /// The array of each entry; `None` for entries that nobody uses.
    pub arrays: Entries<Option<NDArray>>,
    /// Nodes that need not run, because their output is their input's memory.
    pub elided: Vec<bool>,
    /// The arena.
    pub arena: Arc<Chunk>,
}

#[derive(Clone, Copy, PartialEq)]
enum Home {
    Nowhere,
    External,
    Output,
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
    let mut elided = vec![false; r.graph.nodes.len()];
    for (e, array) in r.external {
        home[*e] = Home::External;
        arrays[*e] = Some(array.clone());
    }
    for i in (0..r.graph.nodes.len()).filter(|i| r.needed[*i]) {
        let node = &r.graph.nodes[i];
        let mut taken: Vec<usize> = Vec::new();
        for k in 0..node.num_outputs {
            let e = entry(i, k);
            if home[e] != Home::Nowhere || matches!(node.action, Action::Variable) {
                continue;
            }
            if r.outputs.contains(&e) {
                home[e] = Home::Output;
                continue;
            }
            let Some(last) = last_use[e] else { continue };
            if is_view(node) && k == 0 && home[node.inputs[0]] != Home::Nowhere {
                elided[i] = true;
                home[e] = home[node.inputs[0]];
                if let Home::Arena(b) = home[e] {
                    blocks[b].last = blocks[b].last.max(last);
                }
                continue;
            }
            let bytes = r.shapes[e].checked_elements()? * r.dtypes[e].map_or(0, DType::size);
            home[e] = match in_place(r, i, k, bytes, &home, &blocks, &taken) {
                Some(b) => {
                    blocks[b].last = last;
                    taken.push(b);
                    Home::Arena(b)
                }
                None => {
                    blocks.push(Block { bytes, first: i, last });
                    Home::Arena(blocks.len() - 1)
                }
            };
        }
    }
    let (offsets, total) = assign_offsets(&blocks);
    let arena = match &r.arena {
        Some(chunk) if chunk.bytes() >= total => chunk.clone(),
        _ => Chunk::new(total, r.context)?,
    };
    for i in (0..r.graph.nodes.len()).filter(|i| r.needed[*i]) {
        for k in 0..r.graph.nodes[i].num_outputs {
            let e = entry(i, k);
            if arrays[e].is_some() {
                continue;
            }
            let (shape, dtype) = (&r.shapes[e], r.dtypes[e].unwrap_or(DType::F32));
            arrays[e] = match home[e] {
                _ if elided[i] && k == 0 => match &arrays[r.graph.nodes[i].inputs[0]] {
                    Some(viewed) => Some(viewed.reshape(shape)?),
                    None => None,
                },
                Home::Output => Some(NDArray::empty(shape, dtype, r.context)?),
                Home::Arena(b) => Some(NDArray::view(arena.clone(), offsets[b], shape.clone(), dtype)?),
                Home::Nowhere | Home::External => None,
            };
        }
    }
    Ok(Placement { arrays, elided, arena })
}

fn is_view(node: &crate::graph::GraphNode) -> bool {
    matches!(&node.action, Action::Forward(op) if matches!(op.def.forward, Forward::View))
}

/// The last step that uses each entry; `None` where nobody does.
fn last_uses(r: &Request<'_>) -> Entries<Option<usize>> {
    let mut last: Entries<Option<usize>> = Entries::new(r.graph, None);
    for (i, node) in r.graph.nodes.iter().enumerate().filter(|(i, _)| r.needed[*i]) {
        for e in &node.inputs {
            last[*e] = Some(i);
        }
    }
    for e in r.kept {
        last[*e] = Some(usize::MAX);
    }
    last
}

/// The block of an input that output `k` of node `i` may overwrite: of equal size, not used later, used once by this node.
fn in_place(
    r: &Request<'_>,
    i: usize,
    k: usize,
    bytes: usize,
    home: &Entries<Home>,
    blocks: &[Block],
    taken: &[usize],
) -> Option<usize> {
    let node = &r.graph.nodes[i];
    let pairs = match &node.action {
        Action::Variable => return None,
        Action::Forward(op) => op.def.inplace,
        Action::Backward { backward, .. } => backward.inplace,
    };
    pairs.iter().filter(|(_, output)| *output == k).find_map(|(input, _)| {
        let e = *node.inputs.get(*input)?;
        let Home::Arena(b) = home[e] else { return None };
        let once = node.inputs.iter().filter(|other| home[**other] == home[e]).count() == 1;
        let fits = blocks[b].bytes == bytes && blocks[b].last == i && r.dtypes[e] == r.dtypes[entry(i, k)];
        (once && fits && !taken.contains(&b)).then_some(b)
    })
}
