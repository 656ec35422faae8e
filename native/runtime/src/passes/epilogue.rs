//! Appends to products what follows them: normalisation of channels (in inference), addition of an array, a rectifier.
//!
//! The last operator of such a sequence becomes a node that does all of it; the others are dead then, since nobody else may read
//! what is between them. The fused node reads the same entries at the place of the last one. Nothing is derived from the parameters
//! beforehand, so that arrays may change between runs: factor and summand of each channel are computed in the run. Values agree
//! with those of the single operators up to rounding, and exactly where no normalisation takes part.

use std::collections::{HashMap, HashSet};

use ferromx_core::dtype::DType;
use ferromx_core::fusion::{Fused, Role};
use ferromx_core::grad::Entry;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;

use super::infer::Entries;
use crate::graph::{Action, Graph, entry};
use crate::symbol::OpCall;

/// Operators that add arrays; those that broadcast do nothing else where the shapes are equal.
const ADDITIONS: [&str; 3] = ["elemwise_add", "broadcast_add", "_npi_add"];

/// What the pass is told.
pub struct Request<'a> {
    /// Which nodes run.
    pub needed: &'a [bool],
    /// Nodes from here on compute gradients.
    pub forward_nodes: usize,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Entries that something outside the graph reads.
    pub kept: &'a HashSet<Entry>,
    /// Entries in memory that some operator changes.
    pub changing: &'a HashSet<Entry>,
    /// Whether the plan never runs in training.
    pub inference: bool,
}

/// Fuses products with what follows them.
pub fn fuse(graph: &mut Graph, request: &Request<'_>) {
    let mut readers: HashMap<Entry, Vec<usize>> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| request.needed[*i]) {
        node.inputs.iter().for_each(|e| readers.entry(*e).or_default().push(i));
    }
    for i in (0..request.forward_nodes).filter(|i| request.needed[*i]) {
        let Action::Forward(op) = &graph.nodes[i].action else { continue };
        let Role::Product { kernel, channels } = op.def.role else { continue };
        let product = entry(i, 0);
        let float = matches!(request.dtypes[product], Some(DType::F32 | DType::F64));
        if !float || graph.nodes[i].inputs.iter().any(|e| request.changing.contains(e)) {
            continue;
        }
        let channels = channels(&op.params, request.shapes[product].dims().len());
        let mut tail = Tail::new(op.clone(), product, graph.nodes[i].inputs.clone());
        while tail.append(graph, request, &readers, channels) {}
        if tail.end != product {
            let node = &mut graph.nodes[tail.end.node as usize];
            node.inputs = tail.inputs;
            node.action = Action::Fused { op: tail.op, kernel, params: Params::new(tail.fused) };
        }
    }
}

/// A product and what follows it.
struct Tail {
    op: OpCall,
    fused: Fused,
    /// What comes out at the end.
    end: Entry,
    inputs: Vec<Entry>,
}

impl Tail {
    fn new(op: OpCall, end: Entry, inputs: Vec<Entry>) -> Tail {
        let fused = Fused { product: op.params.clone(), normalisation: None, residual: false, function: None };
        Tail { op, fused, end, inputs }
    }

    /// Appends the operator that reads the end, if it may be.
    fn append(
        &mut self,
        graph: &Graph,
        request: &Request<'_>,
        readers: &HashMap<Entry, Vec<usize>>,
        channels: usize,
    ) -> bool {
        let reader = match readers.get(&self.end).map(Vec::as_slice) {
            Some([reader]) if !request.kept.contains(&self.end) && *reader < request.forward_nodes => *reader,
            _ => return false,
        };
        let node = &graph.nodes[reader];
        let Action::Forward(op) = &node.action else { return false };
        let unread = |k: usize| !readers.contains_key(&entry(reader, k)) && !request.kept.contains(&entry(reader, k));
        if self.fused.function.is_some() || !(1..node.num_outputs).all(unread) {
            return false;
        }
        let rank = request.shapes[self.end].dims().len();
        match op.def.role {
            Role::Normalisation(axis)
                if request.inference
                    && !self.fused.residual
                    && self.fused.normalisation.is_none()
                    && node.inputs[0] == self.end
                    && axis(&op.params, rank) == Some(channels) =>
            {
                self.inputs.extend(&node.inputs[1..]);
                self.fused.normalisation = Some(op.params.clone());
            }
            Role::Function(function) => match function(&op.params) {
                Some(function) => self.fused.function = Some(function),
                None => return false,
            },
            Role::None if ADDITIONS.contains(&op.def.name) && !self.fused.residual => {
                let other = if node.inputs[0] == self.end { node.inputs[1] } else { node.inputs[0] };
                let alike = request.shapes[other] == request.shapes[self.end]
                    && request.dtypes[other] == request.dtypes[self.end];
                if request.changing.contains(&other) || !alike {
                    return false;
                }
                self.inputs.push(other);
                self.fused.residual = true;
            }
            _ => return false,
        }
        self.end = entry(reader, 0);
        true
    }
}
