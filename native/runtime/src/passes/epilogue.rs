//! Epilogue fusion: fuses batch normalization (in inference mode), addition of an array and activation into the convolution or matrix
//! product that precedes them.
//!
//! The last operator of such a sequence becomes the fused node, and the others become dead code, since the intermediate entries have no
//! other readers. The kernel derives scale and shift of each channel in every run, because parameters may change between runs. Results
//! equal those of the separate operators exactly, or up to rounding with a normalization.

use ferromx_core::dtype::DType;
use ferromx_core::fusion::{Elementwise, Fused, Role};
use ferromx_core::grad::Entry;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use hashbrown::{HashMap, HashSet};

use super::infer::Entries;
use crate::graph::{Action, Graph, entry};
use crate::symbol::OpCall;

/// Operators that add two arrays of equal shape.
pub(super) const ADDITIONS: [&str; 3] = ["elemwise_add", "broadcast_add", "_npi_add"];

/// Operators that multiply two arrays of equal shape.
const MULTIPLICATIONS: [&str; 3] = ["elemwise_mul", "broadcast_mul", "_npi_multiply"];

/// The input of the pass.
pub(crate) struct EpilogueArgs<'a> {
    /// Whether each node runs.
    pub needed: &'a [bool],
    /// The nodes after these compute gradients.
    pub num_forward_nodes: usize,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Entries that are read from outside the graph.
    pub live_out: &'a HashSet<Entry>,
    /// Entries that an operator mutates, and their aliases.
    pub mutated: &'a HashSet<Entry>,
    /// Whether the plan never runs in training.
    pub is_inference: bool,
}

/// Fuses products with their epilogues.
pub(crate) fn fuse(graph: &mut Graph, args: &EpilogueArgs<'_>) {
    let mut readers: HashMap<Entry, Vec<usize>> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| args.needed[*i]) {
        node.inputs.iter().for_each(|e| readers.entry(*e).or_default().push(i));
    }
    for i in (0..args.num_forward_nodes).filter(|i| args.needed[*i]) {
        let Action::Forward(op) = &graph.nodes[i].action else { continue };
        let Role::Product { kernel, channels } = op.def.fusion.role else { continue };
        let product = entry(i, 0);
        let is_float = matches!(args.dtypes[product], Some(DType::F32 | DType::F64));
        if !is_float || graph.nodes[i].inputs.iter().any(|e| args.mutated.contains(e)) {
            continue;
        }
        let channels = channels(&op.params, args.shapes[product].dims().len());
        let mut sequence = Sequence::new(op.clone(), product, graph.nodes[i].inputs.clone());
        while sequence.append(graph, args, &readers, channels) || sequence.append_gate(graph, args, &readers) {}
        if sequence.result != product {
            let node = &mut graph.nodes[sequence.result.node as usize];
            node.inputs = sequence.inputs;
            node.action = Action::Fused { op: sequence.op, kernel, params: Params::new(sequence.fused) };
        }
    }
}

/// A product, and the operators of its epilogue so far.
struct Sequence {
    op: OpCall,
    fused: Fused,
    /// The output of the last fused operator.
    result: Entry,
    inputs: Vec<Entry>,
}

impl Sequence {
    fn new(op: OpCall, result: Entry, inputs: Vec<Entry>) -> Sequence {
        let fused = Fused { product: op.params.clone(), normalization: None, has_residual: false, function: None };
        Sequence { op, fused, result, inputs }
    }

    /// Appends the only reader of `result` if it can be fused, and returns whether it was.
    fn append(
        &mut self,
        graph: &Graph,
        args: &EpilogueArgs<'_>,
        readers: &HashMap<Entry, Vec<usize>>,
        channels: usize,
    ) -> bool {
        let reader = match readers.get(&self.result).map(Vec::as_slice) {
            Some([reader]) if !args.live_out.contains(&self.result) && *reader < args.num_forward_nodes => *reader,
            _ => return false,
        };
        let node = &graph.nodes[reader];
        let Action::Forward(op) = &node.action else { return false };
        let is_unused =
            |k: usize| !readers.contains_key(&entry(reader, k)) && !args.live_out.contains(&entry(reader, k));
        if self.fused.function.is_some() || !(1..node.num_outputs).all(is_unused) {
            return false;
        }
        let rank = args.shapes[self.result].dims().len();
        match op.def.fusion.role {
            Role::Normalization(axis)
                if args.is_inference
                    && !self.fused.has_residual
                    && self.fused.normalization.is_none()
                    && node.inputs[0] == self.result
                    && axis(&op.params, rank) == Some(channels) =>
            {
                self.inputs.extend(&node.inputs[1..]);
                self.fused.normalization = Some(op.params.clone());
            }
            Role::Function(function) => match function(&op.params) {
                Some(function) => self.fused.function = Some(function),
                None => return false,
            },
            Role::None if ADDITIONS.contains(&op.def.name) && !self.fused.has_residual => {
                let other = if node.inputs[0] == self.result { node.inputs[1] } else { node.inputs[0] };
                let has_same_type =
                    args.shapes[other] == args.shapes[self.result] && args.dtypes[other] == args.dtypes[self.result];
                if args.mutated.contains(&other) || !has_same_type {
                    return false;
                }
                self.inputs.push(other);
                self.fused.has_residual = true;
            }
            _ => return false,
        }
        self.result = entry(reader, 0);
        true
    }

    /// Appends a gated activation, `result * f(result)`, if its two operators are the only readers of `result`. Returns whether it was.
    fn append_gate(&mut self, graph: &Graph, args: &EpilogueArgs<'_>, readers: &HashMap<Entry, Vec<usize>>) -> bool {
        let Some(&[first, second]) = readers.get(&self.result).map(Vec::as_slice) else { return false };
        if self.fused.function.is_some()
            || args.live_out.contains(&self.result)
            || first.max(second) >= args.num_forward_nodes
        {
            return false;
        }
        // In topological order the activation comes first.
        let (function, product) = (first.min(second), first.max(second));
        let (Action::Forward(gate), Action::Forward(op)) =
            (&graph.nodes[function].action, &graph.nodes[product].action)
        else {
            return false;
        };
        let (Role::Function(elementwise), true) = (gate.def.fusion.role, MULTIPLICATIONS.contains(&op.def.name)) else {
            return false;
        };
        let gate_output = entry(function, 0);
        let is_gated = graph.nodes[product].inputs.iter().all(|input| *input == self.result || *input == gate_output);
        let is_read_once = readers.get(&gate_output).is_some_and(|readers| readers.len() == 1)
            && !args.live_out.contains(&gate_output);
        match elementwise(&gate.params).and_then(Elementwise::gated) {
            Some(gated) if is_gated && is_read_once && product != function => {
                self.fused.function = Some(gated);
                self.result = entry(product, 0);
                true
            }
            _ => false,
        }
    }
}
