//! The operands of a chain of elementwise operators: arrays for the entries that other steps read or write, scratch slots for all others.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::storage::{Chain, ChainCall, Operand, Region, Req};

use super::plan::{Kernel, PlannedNode, Step};
use crate::graph::{Action, Graph, entry};
use crate::passes::chains;
use crate::passes::infer::Entries;

/// Elements of a block. The scratch slots and one block of each array fit in the L1 cache; smaller blocks would only need more calls.
const BLOCK_LEN: usize = 1 << 10;

fn consists_of_loops(action: &Action) -> bool {
    match action {
        Action::Forward(op) => op.def.fusion.consists_of_loops,
        Action::Backward { backward, .. } => backward.consists_of_loops,
        Action::Variable | Action::Fused { .. } => false,
    }
}

/// A chain before its operands are checked.
pub(super) struct ChainDraft {
    nodes: Vec<usize>,
    /// The arrays that the chain reads and writes.
    pub arrays: Vec<NDArray>,
    calls: Vec<ChainCall>,
}

/// An intermediate result that is read later.
struct LiveEntry {
    entry: Entry,
    slot: usize,
    /// The last member of the chain that reads it.
    last_reader: usize,
}

/// Allocates scratch slots to intermediate results.
struct ScratchSlots<'a> {
    graph: &'a Graph,
    nodes: &'a [usize],
    live: Vec<LiveEntry>,
    free: Vec<usize>,
    num_slots: usize,
}

impl ScratchSlots<'_> {
    fn find(&self, e: Entry) -> Option<usize> {
        self.live.iter().find(|live| live.entry == e).map(|live| live.slot)
    }

    /// Assigns a free or new slot to an entry. An output never gets the slot of an input of its member,
    /// because an in-place kernel copies its input first, which costs more than another slot in the cache.
    fn acquire(&mut self, entry: Entry, last_reader: usize) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.num_slots += 1;
            self.num_slots - 1
        });
        self.live.push(LiveEntry { entry, slot, last_reader });
        slot
    }

    /// Frees the slots that no member after `member` reads.
    fn release(&mut self, member: usize) {
        let (dead, live): (Vec<_>, Vec<_>) = self.live.drain(..).partition(|live| live.last_reader <= member);
        self.live = live;
        self.free.extend(dead.iter().map(|dead| dead.slot));
    }

    /// The last member that reads an entry.
    fn last_reader(&self, e: Entry) -> Option<usize> {
        self.nodes.iter().rposition(|i| self.graph.nodes[*i].inputs.contains(&e))
    }
}

impl ChainDraft {
    /// The chain of `nodes`. `memory` has the array of each entry that is an input of the chain, or that another step reads.
    pub(super) fn new(
        graph: &Graph,
        nodes: &[usize],
        memory: &Entries<Option<NDArray>>,
        dtypes: &Entries<Option<DType>>,
    ) -> Result<ChainDraft> {
        let mut arrays: Vec<NDArray> = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        let mut array_index = |e: Entry, array: &NDArray| {
            entries.iter().position(|other| *other == e).unwrap_or_else(|| {
                entries.push(e);
                arrays.push(array.clone());
                entries.len() - 1
            })
        };
        let mut slots = ScratchSlots { graph, nodes, live: Vec::new(), free: Vec::new(), num_slots: 0 };
        let mut calls = Vec::new();
        for (member, i) in nodes.iter().enumerate() {
            let node = &graph.nodes[*i];
            let dtype = |e: Entry| dtypes[e].unwrap_or(DType::F32);
            let mut ins = Vec::new();
            for (k, e) in node.inputs.iter().enumerate() {
                ins.push(match (&memory[*e], slots.find(*e)) {
                    (Some(array), _) if k >= chains::first_scalar(node) => Operand::Scalar(array_index(*e, array)),
                    (Some(array), _) => Operand::Array(array_index(*e, array)),
                    (None, Some(slot)) => Operand::Scratch(slot, dtype(*e)),
                    (None, None) => return Err(Error::Internal(format!("an input of {} has no memory", node.name))),
                });
            }
            let outs = (0..node.num_outputs).map(|k| entry(*i, k)).map(|e| match (&memory[e], slots.last_reader(e)) {
                (Some(array), _) => (Operand::Array(array_index(e, array)), Req::Write),
                (None, Some(last)) => (Operand::Scratch(slots.acquire(e, last), dtype(e)), Req::Write),
                (None, None) => (Operand::Unwanted(dtype(e)), Req::Null),
            });
            let outs = outs.collect();
            calls.push(ChainCall { ins, outs, consists_of_loops: consists_of_loops(&node.action) });
            slots.release(member);
        }
        Ok(ChainDraft { nodes: nodes.to_vec(), arrays, calls })
    }

    /// The arrays that the chain writes.
    pub(super) fn written(&self) -> impl Iterator<Item = &NDArray> {
        self.calls.iter().flat_map(|c| &c.outs).filter_map(|(o, _)| match o {
            Operand::Array(i) => self.arrays.get(*i),
            _ => None,
        })
    }

    /// Checks the operands and builds the step.
    pub(super) fn build(self, graph: &Graph, region: &Region) -> Result<Step> {
        let mut kernels = Vec::new();
        for i in &self.nodes {
            let node = &graph.nodes[*i];
            let (op, kernel) = match &node.action {
                Action::Forward(op) => match op.def.kernels.forward {
                    Forward::Kernel(kernel) => (op, kernel),
                    _ => return Err(Error::Internal(format!("{} has no kernel", op.name))),
                },
                Action::Backward { op, backward, .. } => (op, backward.kernel),
                Action::Variable | Action::Fused { .. } => {
                    return Err(Error::Internal(format!("{} in a chain", node.name)));
                }
            };
            let node = PlannedNode::new(node, op.name, op.params.clone(), node.cache.clone());
            kernels.push(Kernel { node, kernel });
        }
        let chain = Chain::new(region, self.arrays, &self.calls, BLOCK_LEN).map_err(|e| match kernels.last() {
            Some(last) => e.in_operator(last.node.op, &last.node.name),
            None => e,
        })?;
        Ok(Step::Chain(kernels, chain))
    }
}
