//! Assigns memory to each entry of a graph: a buffer of the arena, or an array from outside the plan (the user's, or an output).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Chunk;
use hashbrown::{HashMap, HashSet};

use crate::graph::{Action, Graph, GraphNode, entry};
use crate::passes::chains::Schedule;
use crate::passes::infer::Entries;
use crate::passes::plan_memory::{PlannedBuffer, assign_offsets};

/// The graph, its schedule and the arrays that some entries already have.
pub(super) struct MemoryArgs<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The order in which nodes run.
    pub schedule: &'a Schedule,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// The arrays of variables, of outputs, and of gradients that a kernel writes directly.
    pub external: &'a HashMap<Entry, NDArray>,
    /// Entries that are read from outside the graph after the last step.
    pub live_out: &'a HashSet<Entry>,
    /// Arenas to reuse if they are large enough.
    pub arenas: &'a Arenas,
    /// In a monitored plan, the step after which the monitor last reads each entry.
    pub last_reported: Option<HashMap<Entry, usize>>,
}

/// Memory for intermediate results, by device.
pub(super) type Arenas = BTreeMap<Context, Arc<Chunk>>;

/// The memory of all entries.
pub(super) struct Assignment {
    /// The array of each entry; `None` if the entry is unused, or used only by the chain that computes it.
    pub arrays: Entries<Option<NDArray>>,
    /// True for nodes that need not run, because their output is a view of their input.
    pub elided: Vec<bool>,
    /// The arenas.
    pub arenas: Arenas,
}

/// Where an entry is stored.
#[derive(Clone, Copy, PartialEq)]
enum Location {
    Unassigned,
    /// An array from outside the plan.
    External,
    /// A buffer of the arena, by index.
    Arena(usize),
}

/// Assigns memory to all entries of the nodes that run.
///
/// # Errors
/// Out of memory.
pub(super) fn assign(args: &MemoryArgs<'_>) -> Result<Assignment> {
    let mut planner = Planner {
        args,
        last_use: last_uses(args),
        locations: Entries::new(args.graph, Location::Unassigned),
        buffers: Vec::new(),
        contexts: Vec::new(),
        elided: vec![false; args.graph.nodes.len()],
    };
    args.external.keys().for_each(|e| planner.locations[*e] = Location::External);
    for (t, step) in args.schedule.steps.iter().enumerate() {
        planner.locate_outputs(t, step)?;
    }
    planner.allocate()
}

/// Locates the entries step by step, in arenas whose offsets are assigned at the end.
struct Planner<'a> {
    args: &'a MemoryArgs<'a>,
    last_use: Entries<Option<usize>>,
    locations: Entries<Location>,
    buffers: Vec<PlannedBuffer>,
    /// The device of each buffer.
    contexts: Vec<Context>,
    elided: Vec<bool>,
}

impl Planner<'_> {
    /// Locates the outputs of step `t`: as views, in the buffers of dead inputs, or in new buffers.
    fn locate_outputs(&mut self, t: usize, step: &[usize]) -> Result<()> {
        let args = self.args;
        let mut reused: Vec<usize> = Vec::new();
        for (e, member) in step_outputs(args.graph, step) {
            let node = args.graph.node(e);
            if self.locations[e] != Location::Unassigned || matches!(node.action, Action::Variable) {
                continue;
            }
            let Some(last) = self.last_use[e] else { continue };
            if args.last_reported.is_none()
                && node.is_view()
                && e.index == 0
                && self.locations[node.inputs[0]] != Location::Unassigned
            {
                self.elided[e.node as usize] = true;
                self.locations[e] = self.locations[node.inputs[0]];
                if let Location::Arena(b) = self.locations[e] {
                    self.buffers[b].last = self.buffers[b].last.max(last);
                }
                continue;
            }
            let bytes = args.shapes[e].checked_elements()? * args.dtypes[e].map_or(0, DType::size);
            self.locations[e] = match self.in_place_buffer((t, member), e, bytes, &reused) {
                Some(b) => {
                    self.buffers[b].last = last;
                    reused.push(b);
                    Location::Arena(b)
                }
                None => {
                    self.buffers.push(PlannedBuffer { bytes, first: t, last });
                    self.contexts.push(node.context);
                    Location::Arena(self.buffers.len() - 1)
                }
            };
        }
        Ok(())
    }

    /// Assigns offsets, allocates the arenas and creates the arrays.
    fn allocate(self) -> Result<Assignment> {
        let (args, contexts) = (self.args, &self.contexts);
        let mut arenas = Arenas::new();
        let mut offsets = vec![0; self.buffers.len()];
        for context in contexts.iter().copied().collect::<BTreeSet<_>>() {
            let on_device: Vec<usize> = (0..self.buffers.len()).filter(|b| contexts[*b] == context).collect();
            let buffers: Vec<PlannedBuffer> = on_device.iter().map(|b| self.buffers[*b].clone()).collect();
            let (device_offsets, arena_bytes) = assign_offsets(&buffers);
            on_device.iter().zip(device_offsets).for_each(|(b, offset)| offsets[*b] = offset);
            let arena = match args.arenas.get(&context) {
                Some(chunk) if chunk.bytes() >= arena_bytes => chunk.clone(),
                _ => Chunk::new(arena_bytes, context)?,
            };
            arenas.insert(context, arena);
        }
        let mut arrays: Entries<Option<NDArray>> = Entries::new(args.graph, None);
        args.external.iter().for_each(|(e, array)| arrays[*e] = Some(array.clone()));
        for step in &args.schedule.steps {
            for (e, _) in step_outputs(args.graph, step) {
                if arrays[e].is_some() {
                    continue;
                }
                let (shape, dtype) = (&args.shapes[e], args.dtypes[e].unwrap_or(DType::F32));
                arrays[e] = match self.locations[e] {
                    _ if self.elided[e.node as usize] && e.index == 0 => match &arrays[args.graph.node(e).inputs[0]] {
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
        Ok(Assignment { arrays, elided: self.elided, arenas })
    }

    /// The buffer of an input that entry `e`, computed by `member` of step `t`, may overwrite. It has the size and type of the entry and is
    /// not `reused` by another output of the step. No later step or member reads it, and the member itself reads it only if its
    /// kernel runs in place.
    fn in_place_buffer(&self, (t, member): (usize, usize), e: Entry, bytes: usize, reused: &[usize]) -> Option<usize> {
        let args = self.args;
        let step = &args.schedule.steps[t];
        let nodes = || step.iter().map(|i| &args.graph.nodes[*i]);
        let writer = args.graph.node(e);
        let in_place_pairs = in_place_pairs(writer);
        let buffer_of = |input: Entry| {
            let location = self.locations[input];
            let Location::Arena(b) = location else { return None };
            let num_reads = |node: &GraphNode| node.inputs.iter().filter(|e| self.locations[**e] == location).count();
            let has_same_size_and_type = self.buffers[b].bytes == bytes && args.dtypes[input] == args.dtypes[e];
            let is_dead = self.buffers[b].last == t && nodes().skip(member + 1).all(|node| num_reads(node) == 0);
            let can_overwrite = match num_reads(writer) {
                0 => true,
                1 => {
                    in_place_pairs.iter().any(|(i, o)| *o == e.index as usize && writer.inputs.get(*i) == Some(&input))
                }
                _ => false,
            };
            let is_free = !reused.contains(&b) && !is_computed_in(step, input);
            (has_same_size_and_type && is_dead && can_overwrite && is_free).then_some(b)
        };
        nodes().take(member + 1).flat_map(|node| &node.inputs).find_map(|input| buffer_of(*input))
    }
}

/// The entries that a step computes, each with the index of its node within the step.
fn step_outputs<'a>(graph: &'a Graph, step: &'a [usize]) -> impl Iterator<Item = (Entry, usize)> + 'a {
    step.iter()
        .enumerate()
        .flat_map(|(member, i)| (0..graph.nodes[*i].num_outputs).map(move |k| (entry(*i, k), member)))
}

/// The last step that reads each entry; `None` if only members of the chain that computes it read it.
fn last_uses(args: &MemoryArgs<'_>) -> Entries<Option<usize>> {
    let mut last: Entries<Option<usize>> = Entries::new(args.graph, None);
    for (t, step) in args.schedule.steps.iter().enumerate() {
        for e in step.iter().flat_map(|i| &args.graph.nodes[*i].inputs) {
            if !is_computed_in(step, *e) {
                last[*e] = Some(t);
            }
        }
    }
    for (e, step) in args.last_reported.iter().flatten() {
        // The monitor reads the entry after `step`, so the entry is live until the next step.
        last[*e] = Some(last[*e].unwrap_or(0).max(*step + 1));
    }
    for e in args.live_out {
        last[*e] = Some(usize::MAX);
    }
    last
}

fn is_computed_in(step: &[usize], e: Entry) -> bool {
    step.contains(&(e.node as usize))
}

/// The pairs (input, output) that the kernel of a node can compute in place.
fn in_place_pairs(node: &GraphNode) -> &'static [(usize, usize)] {
    match &node.action {
        Action::Variable | Action::Fused { .. } => &[],
        Action::Forward(op) => op.def.kernels.inplace,
        Action::Backward { backward, .. } => backward.inplace,
    }
}
