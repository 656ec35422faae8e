//! The operands of a chain of elementwise operators: arrays for what the chain reads and writes, scratch memory for intermediate
//! results.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::storage::{Chain, ChainCall, Operand, Region, Req};

use super::plan::{Kernel, Work};
use crate::graph::{Action, Graph, entry};
use crate::passes::chains;
use crate::passes::infer::Entries;

/// Elements of a block. Small enough that the scratch slots and the current block of the arrays fit the L1 cache; smaller blocks only
/// cost more calls.
const BLOCK: usize = 1 << 10;

/// A chain before its operands are checked.
pub(super) struct ChainDraft {
    nodes: Vec<usize>,
    /// The arrays that the chain reads or writes.
    pub arrays: Vec<NDArray>,
    calls: Vec<ChainCall>,
}

/// Allocates scratch slots to intermediate results.
struct ScratchSlots<'a> {
    graph: &'a Graph,
    nodes: &'a [usize],
    /// Entries in scratch memory: entry, slot, and the last member that reads it.
    live: Vec<(Entry, usize, usize)>,
    free: Vec<usize>,
    count: usize,
}

impl ScratchSlots<'_> {
    fn find(&self, e: Entry) -> Option<usize> {
        self.live.iter().find(|(other, ..)| *other == e).map(|(_, slot, _)| *slot)
    }

    /// A free or new slot for an entry. A kernel never gets the slot of its own input: in-place kernels first copy what they read,
    /// which is slower while everything is in the cache.
    fn acquire(&mut self, e: Entry, last: usize) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.live.push((e, slot, last));
        slot
    }

    /// Frees the slots that no member after `m` reads.
    fn release(&mut self, m: usize) {
        let (dead, live) = self.live.drain(..).partition(|(_, _, last)| *last <= m);
        self.live = live;
        self.free.extend(dead.iter().map(|(_, slot, _): &(Entry, usize, usize)| *slot));
    }

    /// The last member that reads an entry.
    fn last_reader(&self, e: Entry) -> Option<usize> {
        self.nodes.iter().rposition(|i| self.graph.nodes[*i].inputs.contains(&e))
    }
}

impl ChainDraft {
    /// The chain of `nodes`. `memory` has the arrays of all entries that are read or written outside of the chain.
    pub(super) fn new(
        graph: &Graph,
        nodes: &[usize],
        memory: &Entries<Option<NDArray>>,
        dtypes: &Entries<Option<DType>>,
    ) -> Result<ChainDraft> {
        let mut arrays: Vec<NDArray> = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        let mut array = |e: Entry, operand: &NDArray| {
            entries.iter().position(|other| *other == e).unwrap_or_else(|| {
                entries.push(e);
                arrays.push(operand.clone());
                entries.len() - 1
            })
        };
        let mut slots = ScratchSlots { graph, nodes, live: Vec::new(), free: Vec::new(), count: 0 };
        let mut calls = Vec::new();
        for (m, i) in nodes.iter().enumerate() {
            let node = &graph.nodes[*i];
            let dtype = |e: Entry| dtypes[e].unwrap_or(DType::F32);
            let mut ins = Vec::new();
            for (k, e) in node.inputs.iter().enumerate() {
                ins.push(match (&memory[*e], slots.find(*e)) {
                    (Some(operand), _) if k >= chains::first_scalar(node) => Operand::Scalar(array(*e, operand)),
                    (Some(operand), _) => Operand::Array(array(*e, operand)),
                    (None, Some(slot)) => Operand::Scratch(slot, dtype(*e)),
                    (None, None) => return Err(Error::Internal(format!("an input of {} has no memory", node.name))),
                });
            }
            let outs = (0..node.num_outputs).map(|k| entry(*i, k)).map(|e| match (&memory[e], slots.last_reader(e)) {
                (Some(operand), _) => (Operand::Array(array(e, operand)), Req::Write),
                (None, Some(last)) => (Operand::Scratch(slots.acquire(e, last), dtype(e)), Req::Write),
                (None, None) => (Operand::Unwanted(dtype(e)), Req::Null),
            });
            let outs = outs.collect();
            calls.push(ChainCall { ins, outs });
            slots.release(m);
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
    pub(super) fn seal(self, graph: &Graph, region: &Region) -> Result<Work> {
        let mut kernels = Vec::new();
        for i in &self.nodes {
            let node = &graph.nodes[*i];
            let (op, kernel) = match &node.action {
                Action::Forward(op) => match op.def.forward {
                    Forward::Kernel(kernel) => (op, kernel),
                    _ => return Err(Error::Internal(format!("{} has no kernel", op.name))),
                },
                Action::Backward { op, backward, .. } => (op, backward.kernel),
                Action::Variable | Action::Fused { .. } => {
                    return Err(Error::Internal(format!("{} in a chain", node.name)));
                }
            };
            let (params, cache) = (op.params.clone(), node.cache.clone());
            let context = node.context;
            kernels.push(Kernel { op: op.name, node: node.name.clone(), kernel, params, cache, context });
        }
        let chain = Chain::new(region, self.arrays, &self.calls, BLOCK)
            .map_err(|e| kernels.last().map_or(Error::Internal(String::new()), |k| e.in_operator(k.op, &k.node)))?;
        Ok(Work::Chain(kernels, chain))
    }
}
