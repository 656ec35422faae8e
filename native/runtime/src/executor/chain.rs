//! The operands of a chain of elementwise operators: arrays where something outside the chain is read or written, working memory for
//! what passes from member to member.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Forward;
use ferromx_core::storage::{Chain, ChainCall, Operand, Region, Req};

use super::plan::{Kernel, Work};
use crate::graph::{Action, Graph, entry};
use crate::passes::infer::Entries;

/// Elements of a block. The working memory of a chain and its arrays' blocks, this one and the next, fit the first-level cache;
/// smaller blocks cost more calls.
const BLOCK: usize = 1 << 10;

/// A chain before its operands are checked.
pub struct ChainDraft {
    nodes: Vec<usize>,
    /// The arrays that it reads or writes.
    pub arrays: Vec<NDArray>,
    calls: Vec<ChainCall>,
}

/// The pieces of working memory, while they are given out.
struct Pieces<'a> {
    graph: &'a Graph,
    nodes: &'a [usize],
    /// Entries in working memory, with the piece's number and the last member that reads it.
    live: Vec<(Entry, usize, usize)>,
    free: Vec<usize>,
    count: usize,
}

impl Pieces<'_> {
    fn find(&self, e: Entry) -> Option<usize> {
        self.live.iter().find(|(other, ..)| *other == e).map(|(_, piece, _)| *piece)
    }

    /// A piece for an entry: a free one, or a new one. None is overwritten by the kernel that reads it: kernels in place copy what
    /// they read first, which is slower as long as all lies in the cache.
    fn give(&mut self, e: Entry, last: usize) -> usize {
        let piece = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.live.push((e, piece, last));
        piece
    }

    /// Frees the pieces that no member after `m` reads.
    fn release(&mut self, m: usize) {
        let (dead, live) = self.live.drain(..).partition(|(_, _, last)| *last <= m);
        self.live = live;
        self.free.extend(dead.iter().map(|(_, piece, _): &(Entry, usize, usize)| *piece));
    }

    /// The last member that reads the entry.
    fn last_reader(&self, e: Entry) -> Option<usize> {
        self.nodes.iter().rposition(|i| self.graph.nodes[*i].inputs.contains(&e))
    }
}

impl ChainDraft {
    /// The chain of `nodes`, where everything that is read or written outside has its place in `places`.
    pub fn new(
        graph: &Graph,
        nodes: &[usize],
        places: &Entries<Option<NDArray>>,
        dtypes: &Entries<Option<DType>>,
    ) -> Result<ChainDraft> {
        let mut arrays: Vec<NDArray> = Vec::new();
        let mut numbers: Vec<Entry> = Vec::new();
        let mut array = |e: Entry, place: &NDArray| {
            let number = numbers.iter().position(|other| *other == e).unwrap_or_else(|| {
                numbers.push(e);
                arrays.push(place.clone());
                numbers.len() - 1
            });
            Operand::Array(number)
        };
        let mut pieces = Pieces { graph, nodes, live: Vec::new(), free: Vec::new(), count: 0 };
        let mut calls = Vec::new();
        for (m, i) in nodes.iter().enumerate() {
            let node = &graph.nodes[*i];
            let dtype = |e: Entry| dtypes[e].unwrap_or(DType::F32);
            let mut ins = Vec::new();
            for e in &node.inputs {
                ins.push(match (&places[*e], pieces.find(*e)) {
                    (Some(place), _) => array(*e, place),
                    (None, Some(piece)) => Operand::Scratch(piece, dtype(*e)),
                    (None, None) => return Err(Error::Internal(format!("an input of {} has no place", node.name))),
                });
            }
            let outs = (0..node.num_outputs).map(|k| entry(*i, k)).map(|e| match (&places[e], pieces.last_reader(e)) {
                (Some(place), _) => (array(e, place), Req::Write),
                (None, Some(last)) => (Operand::Scratch(pieces.give(e, last), dtype(e)), Req::Write),
                (None, None) => (Operand::Nobody(dtype(e)), Req::Null),
            });
            let outs = outs.collect();
            calls.push(ChainCall { ins, outs });
            pieces.release(m);
        }
        Ok(ChainDraft { nodes: nodes.to_vec(), arrays, calls })
    }

    /// The arrays that it writes.
    pub fn written(&self) -> impl Iterator<Item = &NDArray> {
        self.calls.iter().flat_map(|c| &c.outs).filter_map(|(o, _)| match o {
            Operand::Array(i) => self.arrays.get(*i),
            _ => None,
        })
    }

    /// Checks the operands.
    pub fn seal(self, graph: &Graph, region: &Region) -> Result<Work> {
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
