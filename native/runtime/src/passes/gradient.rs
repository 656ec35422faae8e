//! The gradient pass: reverse-mode differentiation as a graph transformation, like nnvm's `Gradient`. Executors and the tape use it.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Compose, Entry, Grad, GradGraph, GradNode};
use ferromx_core::op;
use ferromx_core::op::{Deps, Forward};
use ferromx_core::params::Attrs;
use ferromx_ops::definitions::{ADD_N, ZEROS_LIKE};
use hashbrown::{HashMap, HashSet};

use crate::graph::{Action, CheckedGradient, GradientBuilder, Graph, entry};
use crate::symbol::OpCall;

/// The arguments of the pass, as in MXNet's `autograd.grad`.
pub(crate) struct GradientArgs<'a> {
    /// The entries to differentiate.
    pub heads: &'a [Entry],
    /// The gradient of each head.
    pub head_grads: &'a [Entry],
    /// The entries to differentiate with respect to.
    pub variables: &'a [Entry],
    /// Whether the gradients will be differentiated again. Gradient kernels have no gradient, so composed gradients are preferred.
    pub create_graph: bool,
}

/// A contribution to the gradient of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contribution {
    /// The gradient of a head, by index.
    HeadGrad(usize),
    /// The gradient of a node that reads the entry.
    Node(usize),
}

/// A record of the pass, from which monitors report gradients as MXNet names and orders them.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    /// The head gradients.
    pub head_grads: Vec<Entry>,
    /// The contributions to the gradient of each entry.
    pub contributions: HashMap<Entry, Vec<Contribution>>,
    /// The gradient of each entry.
    gradients: HashMap<Entry, Entry>,
    /// The gradient of each entry with several contributions.
    pub sums: HashMap<Entry, Entry>,
    /// The gradients of each forward node's inputs.
    pub input_grads: HashMap<usize, Vec<Option<Entry>>>,
    /// For each forward node, the outputs whose gradients its input gradients are computed from.
    outputs_read: HashMap<usize, Vec<Entry>>,
}

impl Trace {
    /// The outputs of a forward node whose gradients its input gradients are computed from.
    pub(crate) fn outputs_read(&self, node: usize) -> Vec<Entry> {
        self.outputs_read.get(&node).cloned().unwrap_or_default()
    }

    /// The gradient of an entry.
    pub(crate) fn gradient(&self, e: Entry) -> Option<Entry> {
        self.gradients.get(&e).copied()
    }

    /// The trace of the graph whose entries `to` renumbered.
    pub(crate) fn remapped(&self, to: impl Fn(Entry) -> Entry) -> Trace {
        let node = |i: usize| to(entry(i, 0)).node as usize;
        let contribution = |c: &Contribution| match c {
            Contribution::HeadGrad(k) => Contribution::HeadGrad(*k),
            Contribution::Node(i) => Contribution::Node(node(*i)),
        };
        let pairs = |map: &HashMap<Entry, Entry>| map.iter().map(|(a, b)| (to(*a), to(*b))).collect();
        Trace {
            head_grads: self.head_grads.iter().map(|e| to(*e)).collect(),
            contributions: (self.contributions.iter())
                .map(|(e, list)| (to(*e), list.iter().map(contribution).collect()))
                .collect(),
            gradients: pairs(&self.gradients),
            sums: pairs(&self.sums),
            input_grads: (self.input_grads.iter())
                .map(|(i, all)| (node(*i), all.iter().map(|e| e.map(&to)).collect()))
                .collect(),
            outputs_read: self
                .outputs_read
                .iter()
                .map(|(i, all)| (node(*i), all.iter().map(|e| to(*e)).collect()))
                .collect(),
        }
    }
}

/// Extends the graph by the gradients of the heads with respect to the variables; `None` for a variable that influences no head.
///
/// # Errors
/// An operator between variables and heads that is not differentiable, by operator and node name.
pub(crate) fn gradient(graph: &mut Graph, args: &GradientArgs<'_>) -> Result<Vec<Option<Entry>>> {
    with_trace(graph, args, None)
}

/// [`gradient`] that also records a trace.
///
/// # Errors
/// See [`gradient`].
pub(crate) fn traced(graph: &mut Graph, args: &GradientArgs<'_>, trace: &mut Trace) -> Result<Vec<Option<Entry>>> {
    with_trace(graph, args, Some(trace))
}

fn with_trace(graph: &mut Graph, args: &GradientArgs<'_>, trace: Option<&mut Trace>) -> Result<Vec<Option<Entry>>> {
    let is_influenced = influenced_by(graph, args.variables);
    let create_graph = args.create_graph;
    GradientPass { graph, create_graph, is_influenced, contributions: HashMap::new(), trace }.run(args)
}

/// The state of the pass, which visits the forward nodes in reverse order.
struct GradientPass<'a> {
    graph: &'a mut Graph,
    /// See [`GradientArgs::create_graph`].
    create_graph: bool,
    /// For each forward node, whether it depends on one of the variables.
    is_influenced: Vec<bool>,
    /// The terms of the gradient of each entry whose node has not been visited.
    contributions: HashMap<Entry, Vec<Entry>>,
    trace: Option<&'a mut Trace>,
}

impl GradientPass<'_> {
    fn run(mut self, args: &GradientArgs<'_>) -> Result<Vec<Option<Entry>>> {
        for (k, (head, head_grad)) in args.heads.iter().zip(args.head_grads).enumerate() {
            self.contribute(*head, *head_grad, Contribution::HeadGrad(k));
        }
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.head_grads = args.head_grads.to_vec();
        }
        let needed = self.graph.needed_for(args.heads.iter().copied());
        let mut result: HashMap<Entry, Option<Entry>> = args.variables.iter().map(|e| (*e, None)).collect();
        for i in (0..needed.len()).rev() {
            if !needed[i] || !self.is_influenced[i] {
                continue;
            }
            let ograds = self.output_gradients(i)?;
            for (k, sum) in ograds.iter().enumerate() {
                if let Some(gradient) = result.get_mut(&entry(i, k)) {
                    *gradient = *sum;
                }
            }
            self.add_input_gradients(i, ograds)?;
        }
        Ok(args.variables.iter().map(|e| result.get(e).copied().flatten()).collect())
    }

    /// Adds a term to the gradient of an entry.
    fn contribute(&mut self, e: Entry, term: Entry, from: Contribution) {
        self.contributions.entry(e).or_default().push(term);
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.contributions.entry(e).or_default().push(from);
        }
    }

    /// The gradient of each output of node `i`: the sum of its contributions, which it removes.
    fn output_gradients(&mut self, i: usize) -> Result<Vec<Option<Entry>>> {
        let mut gradients = Vec::new();
        for k in 0..self.graph.nodes[i].num_outputs {
            let terms = self.contributions.remove(&entry(i, k)).unwrap_or_default();
            let is_sum = terms.len() > 1;
            let sum = add_terms(self.graph, i, terms)?;
            if let (Some(sum), Some(trace)) = (sum, self.trace.as_deref_mut()) {
                trace.gradients.insert(entry(i, k), sum);
                if is_sum {
                    trace.sums.insert(entry(i, k), sum);
                }
            }
            gradients.push(sum);
        }
        Ok(gradients)
    }

    /// Adds the gradients of the inputs of node `i` from those of its outputs.
    fn add_input_gradients(&mut self, i: usize, ograds: Vec<Option<Entry>>) -> Result<()> {
        let node = &self.graph.nodes[i];
        let op = match &node.action {
            Action::Variable => return Ok(()),
            Action::Forward(op) => op.clone(),
            Action::Backward { op, .. } | Action::Fused { op, .. } => {
                return Err(Error::NotDifferentiable(format!("{} (a second time)", op.title()))
                    .in_operator(op.title(), &node.name));
            }
        };
        let is_blocked = ograds.iter().all(Option::is_none) && !is_loss(&op);
        let reads_influenced = node.inputs.iter().any(|e| self.is_influenced[e.node as usize]);
        if !reads_influenced || (is_blocked && !updates_states(&op)) {
            return Ok(());
        }
        let (inputs, name) = (node.inputs.clone(), node.name.clone());
        let outputs_read = (0..ograds.len()).filter(|k| ograds[*k].is_some()).map(|k| entry(i, k)).collect();
        let first = self.graph.nodes.len();
        let igrads = node_gradient(self.graph, i, &op, ograds, self.create_graph);
        let igrads = igrads.map_err(|e| e.in_operator(op.title(), &name))?;
        self.graph.nodes[first..].iter_mut().for_each(|node| node.gradient_of = Some(i as u32));
        let influenced = inputs.iter().map(|e| self.is_influenced[e.node as usize]);
        let mut igrads: Vec<Option<Entry>> =
            igrads.into_iter().zip(influenced).map(|(g, is_influenced)| g.filter(|_| is_influenced)).collect();
        if is_blocked {
            // As in MXNet, the gradient kernel updates its states although the node has no output gradient. One input gradient keeps the
            // kernel from being dead code.
            let last = igrads.iter().rposition(Option::is_some);
            igrads.iter_mut().enumerate().filter(|(k, _)| Some(*k) != last).for_each(|(_, g)| *g = None);
        }
        for (e, g) in inputs.iter().zip(&igrads) {
            if let Some(g) = g {
                self.contribute(*e, *g, Contribution::Node(i));
            }
        }
        if let Some(trace) = self.trace.as_deref_mut() {
            if !is_loss(&op) {
                trace.outputs_read.insert(i, outputs_read);
            }
            trace.input_grads.insert(i, igrads);
        }
        Ok(())
    }
}

/// Whether the operator is a loss: its gradient reads no head gradient.
pub(crate) fn is_loss(op: &OpCall) -> bool {
    matches!(op.def.gradient(&op.params), Grad::Kernel(b, _) if matches!(b.ograds_for(&op.params), Deps::None))
}

/// Whether the gradient kernel of the operator updates auxiliary states.
fn updates_states(op: &OpCall) -> bool {
    matches!(op.def.gradient(&op.params), Grad::Kernel(b, _) if !b.updates.is_empty())
}

/// Whether several gradient nodes update the same state, like those of a batch normalization that is applied twice. The result depends on
/// their order, which is that of MXNet if the nodes are in depth-first order.
pub(crate) fn has_repeated_updates(graph: &Graph, gradients: &[Option<Entry>]) -> bool {
    let needed = graph.needed_for(gradients.iter().flatten().copied());
    let nodes = graph
        .nodes
        .iter()
        .zip(needed)
        .filter(|(node, needed)| *needed && matches!(node.action, Action::Backward { .. }));
    let mut updated = HashSet::new();
    nodes
        .flat_map(|(node, _)| node.mutated_inputs().iter().map(|k| node.inputs[*k]))
        .any(|state| !updated.insert(state))
}

/// For each node, whether it depends on one of the variables.
fn influenced_by(graph: &Graph, variables: &[Entry]) -> Vec<bool> {
    let mut is_influenced = vec![false; graph.nodes.len()];
    for e in variables {
        is_influenced[e.node as usize] = true;
    }
    for i in 0..graph.nodes.len() {
        is_influenced[i] = is_influenced[i] || graph.nodes[i].inputs.iter().any(|e| is_influenced[e.node as usize]);
    }
    is_influenced
}

/// Adds the sum of the contributions to the gradient of an output of `node`; `None` if there are none.
fn add_terms(graph: &mut Graph, node: usize, mut terms: Vec<Entry>) -> Result<Option<Entry>> {
    if terms.len() <= 1 {
        return Ok(terms.pop());
    }
    let prefix = format!("{}_grad", graph.nodes[node].name);
    let mut builder = GradientBuilder { graph, prefix };
    builder.op(op!(ADD_N(..terms))).map(Some)
}

/// Adds the gradients of a node's inputs, and returns one item per input.
fn node_gradient(
    graph: &mut Graph,
    i: usize,
    op: &OpCall,
    ograds: Vec<Option<Entry>>,
    create_graph: bool,
) -> Result<Vec<Option<Entry>>> {
    let n = graph.nodes[i].inputs.len();
    match op.def.gradient(&op.params) {
        Grad::None | Grad::By(_) => Err(Error::NotDifferentiable(op.title().into())),
        Grad::Zero => Ok(vec![None; n]),
        Grad::Compose(compose) => compose_gradient(graph, i, op, &ograds, compose),
        Grad::Kernel(_, Some(compose)) if create_graph => compose_gradient(graph, i, op, &ograds, compose),
        Grad::Kernel(backward, _) => {
            let node = &graph.nodes[i];
            let (inputs, visible, outputs) = (node.inputs.clone(), node.num_visible(), node.num_outputs);
            let mut read = Vec::new();
            for k in backward.ograds_for(&op.params).indices(visible) {
                read.push(or_zeros(graph, entry(i, k), ograds[k])?);
            }
            read.extend(backward.inputs.indices(n).map(|k| inputs[k]));
            read.extend(backward.outputs.indices(outputs).map(|k| entry(i, k)));
            let name = format!("{}_backward", graph.nodes[i].name);
            let action = Action::Backward { of: i as u32, op: op.clone(), backward };
            let first = graph.push(&name, action, read, Attrs::new());
            let mut next = 0;
            Ok((0..n)
                .map(|k| {
                    if op.mutated().contains(&k) {
                        return None;
                    }
                    next += 1;
                    Some(entry(first.node as usize, next - 1))
                })
                .collect())
        }
    }
}

/// The gradient of an entry, or zeros if it has none.
fn or_zeros(graph: &mut Graph, e: Entry, gradient: Option<Entry>) -> Result<Entry> {
    match gradient {
        Some(g) => Ok(g),
        None => {
            let prefix = format!("{}_grad", graph.node(e).name);
            GradientBuilder { graph, prefix }.op(op!(ZEROS_LIKE(e)))
        }
    }
}

/// Adds input gradients that are composed of operators.
fn compose_gradient(
    graph: &mut Graph,
    i: usize,
    op: &OpCall,
    ograds: &[Option<Entry>],
    compose: Compose,
) -> Result<Vec<Option<Entry>>> {
    let node = graph.nodes[i].clone();
    let ograds =
        (0..node.num_visible()).map(|k| or_zeros(graph, entry(i, k), ograds[k])).collect::<Result<Vec<_>>>()?;
    let outputs: Vec<Entry> = (0..node.num_outputs).map(|k| entry(i, k)).collect();
    let grad_node = GradNode { params: &op.params, inputs: &node.inputs, outputs: &outputs, ograds: &ograds };
    let gradients = compose(&mut GradientBuilder { graph, prefix: format!("{}_grad", node.name) }, &grad_node)?;
    if matches!(op.def.kernels.forward, Forward::Foreign(_)) {
        let pairs = gradients.iter().enumerate().filter_map(|(k, g)| Some((k, (*g)?)));
        graph.checked_gradients.extend(pairs.map(|(input, gradient)| CheckedGradient { of: i, input, gradient }));
    }
    Ok(gradients)
}
