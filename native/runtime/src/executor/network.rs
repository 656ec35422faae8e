//! The graph of a bound symbol, extended by the requested gradients.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::storage::Req;
use hashbrown::HashMap;

use super::bound_arrays::Bound;
use super::compile::{Target, mutated_entries};
use crate::graph::{Action, Graph, entry};
use crate::passes::common_subexpressions;
use crate::passes::devices::{self, Devices};
use crate::passes::gradient::{self, Trace};
use crate::symbol::Symbol;

/// A graph with gradients, and its named entries.
pub(super) struct Network {
    pub(super) graph: Graph,
    /// The nodes after these compute gradients.
    pub(super) num_forward_nodes: usize,
    pub(super) outputs: Vec<Entry>,
    pub(super) variables: VariableEntries,
    /// The variable of each head gradient; `None` if no gradient reads it.
    pub(super) head_grads: Vec<Option<Entry>>,
    pub(super) targets: Vec<Target>,
    pub(super) trace: Trace,
    /// The symbol without common subexpressions.
    pub(super) optimized: Symbol,
}

/// Environment variable that disables common subexpression elimination if it is 0.
const ELIMINATE: &str = "MXNET_ELIMINATE_COMMON_EXPR";

impl Network {
    /// The graph of a symbol with the requested gradients.
    pub(super) fn new(symbol: &Symbol, bound: &Bound) -> Result<Network> {
        let (mut graph, outputs) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let arrays = variables.with_arrays(bound).map(|(e, array)| (e, array.clone())).collect();
        // Eliminate before differentiating, so that the gradient has no common subexpressions either.
        let (live_out, needed) = (outputs.iter().copied().collect(), graph.needed_for(outputs.iter().copied()));
        let mutated = mutated_entries(&graph, &arrays);
        if std::env::var(ELIMINATE).as_deref() != Ok("0") {
            common_subexpressions::eliminate(&mut graph, &needed, &live_out, &mutated);
        }
        let optimized =
            symbol.with_inputs(|i| graph.nodes[i].inputs.iter().map(|e| (e.node as usize, e.index)).collect());
        let (num_forward_nodes, head_grads) = (graph.nodes.len(), vec![None; outputs.len()]);
        let (targets, trace) = (Vec::new(), Trace::default());
        let mut network =
            Network { graph, num_forward_nodes, outputs, variables, head_grads, targets, trace, optimized };
        network.differentiate(symbol, bound)?;
        Ok(network)
    }

    /// Extends the graph by the requested gradients.
    fn differentiate(&mut self, symbol: &Symbol, bound: &Bound) -> Result<()> {
        let requested = requested_gradients(symbol, bound)?;
        if requested.is_empty() {
            return Ok(());
        }
        let variables: Vec<Entry> = requested.iter().map(|(i, _)| self.variables.args[*i]).collect();
        let Gradients { head_grads, entries, trace } = differentiate(&mut self.graph, &self.outputs, &variables)?;
        (self.head_grads, self.trace) = (head_grads, trace);
        for (((i, array), variable), entry) in requested.into_iter().zip(variables).zip(entries) {
            let arg = &bound.args[i];
            let is_like_argument = array.shape() == arg.shape() && array.dtype() == arg.dtype();
            let req = bound.reqs[i];
            self.targets.push(Target { arg: i, entry, array, req, old_value: None, variable, is_like_argument });
        }
        Ok(())
    }

    /// The arguments that operators fill with constants, each with its value. As in MXNet there are none without gradient requests.
    pub(super) fn filled_arguments(&self, bound: &Bound) -> Vec<(NDArray, f64)> {
        if self.targets.is_empty() {
            return Vec::new();
        }
        let filled: HashMap<Entry, f64> = (self.graph.nodes.iter())
            .filter_map(|node| match &node.action {
                Action::Forward(op) => op.def.filled(&op.params).map(|(i, value)| (node.inputs[i], value)),
                _ => None,
            })
            .collect();
        let arrays = self.variables.with_arrays(bound);
        arrays.filter_map(|(e, array)| Some((array.clone(), *filled.get(&e)?))).collect()
    }

    /// Assigns a device to every node and inserts copies between devices.
    pub(super) fn assign_devices(&mut self, devices: &Devices, bound: &Bound) -> Result<()> {
        if devices.groups.is_empty() {
            self.graph.nodes.iter_mut().for_each(|node| node.context = devices.default);
            return Ok(());
        }
        let contexts = self.variables.with_arrays(bound).map(|(e, array)| (e, array.context())).collect();
        let assigned = devices::assign(&self.graph, devices, &contexts, self.num_forward_nodes)?;
        let remap = |e: &mut Entry| *e = assigned.entry(*e);
        let VariableEntries { args, aux } = &mut self.variables;
        let head_grads = self.head_grads.iter_mut().flatten();
        args.iter_mut().chain(aux).chain(&mut self.outputs).chain(head_grads).for_each(remap);
        for target in &mut self.targets {
            remap(&mut target.variable);
            target.entry.iter_mut().for_each(remap);
        }
        self.trace = self.trace.remapped(|e| assigned.entry(e));
        self.num_forward_nodes = assigned.num_forward_nodes;
        self.graph = assigned.graph;
        Ok(())
    }
}

/// The arguments whose gradient is requested, by index, with the arrays of their gradients.
///
/// # Errors
/// A request without an array.
pub(super) fn requested_gradients<A: Clone>(symbol: &Symbol, bound: &Bound<A>) -> Result<Vec<(usize, A)>> {
    let requested = (0..bound.args.len()).filter(|i| bound.reqs[*i] != Req::Null);
    requested
        .map(|i| {
            let array = bound.grads[i].clone().ok_or_else(|| {
                let name = symbol.list_arguments().swap_remove(i);
                Error::Value(format!("argument {name} has a gradient request but no gradient array"))
            })?;
            Ok((i, array))
        })
        .collect()
}

/// The gradients that extend a graph.
pub(super) struct Gradients {
    /// The variable of each head gradient; `None` if no gradient reads it.
    pub head_grads: Vec<Option<Entry>>,
    /// The gradient of each variable; `None` if the variable does not influence the outputs.
    pub entries: Vec<Option<Entry>>,
    /// The contributions to each gradient.
    pub trace: Trace,
}

/// Extends a graph by the gradients of its outputs with respect to variables.
pub(super) fn differentiate(graph: &mut Graph, outputs: &[Entry], variables: &[Entry]) -> Result<Gradients> {
    let is_loss: Vec<bool> =
        outputs.iter().map(|output| graph.node(*output).op().is_some_and(gradient::is_loss)).collect();
    let all: Vec<Entry> =
        (0..outputs.len()).map(|i| graph.variable(&format!("_head_grad_{i}"), Attrs::new())).collect();
    let args = gradient::GradientArgs { heads: outputs, head_grads: &all, variables, create_graph: false };
    let mut trace = Trace::default();
    let first = graph.nodes.len();
    let mut entries = gradient::traced(graph, &args, &mut trace)?;
    if gradient::has_repeated_updates(graph, &entries) {
        let order = graph.depth_first(entries.iter().flatten().copied());
        let new = graph.reorder(first, &order);
        let moved = |e: Entry| entry(new[e.node as usize] as usize, e.index as usize);
        entries.iter_mut().flatten().for_each(|e| *e = moved(*e));
        trace = trace.remapped(moved);
    }
    // Head gradients that no gradient reads need no array, and `backward` does not ask for them.
    let used = graph.needed_for(entries.iter().flatten().copied());
    let head_grads =
        all.iter().zip(is_loss).map(|(e, is_loss)| Some(*e).filter(|e| !is_loss && used[e.node as usize])).collect();
    Ok(Gradients { head_grads, entries, trace })
}

/// The entries of the variables of a symbol.
pub(super) struct VariableEntries {
    /// Arguments.
    pub args: Vec<Entry>,
    /// Auxiliary states.
    pub aux: Vec<Entry>,
}

impl VariableEntries {
    /// The entries, each with its array.
    pub(super) fn with_arrays<'a, A>(&'a self, bound: &'a Bound<A>) -> impl Iterator<Item = (Entry, &'a A)> {
        let (args, aux) = (self.args.iter().zip(&bound.args), self.aux.iter().zip(&bound.aux));
        args.chain(aux).map(|(e, array)| (*e, array))
    }
}

/// Finds the entries of arguments and auxiliary states. The graph has its variables in the order of the symbol.
pub(super) fn variable_entries(symbol: &Symbol, graph: &Graph) -> VariableEntries {
    let (mut args, mut aux) = (Vec::new(), Vec::new());
    for (e, variable) in graph.variables().zip(symbol.variables()) {
        if variable.is_aux { aux.push(e) } else { args.push(e) }
    }
    VariableEntries { args, aux }
}
