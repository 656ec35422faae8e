//! The gradient pass: reverse-mode differentiation as a graph transformation. Executors and the tape use it.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Compose, Entry, Grad, GradNode};
use ferromx_core::op::{Deps, Forward};
use ferromx_core::params::Attrs;
use hashbrown::HashMap;

use crate::graph::{Action, Builder, CheckedGradient, Graph, entry};
use crate::symbol::OpCall;

/// What to differentiate.
pub struct Request<'a> {
    /// The outputs.
    pub ys: &'a [Entry],
    /// The head gradient of each output.
    pub head_grads: &'a [Entry],
    /// The entries to differentiate with respect to.
    pub xs: &'a [Entry],
    /// Whether the result will be differentiated again; composed gradients are then preferred to kernels.
    pub create_graph: bool,
}

/// A contribution to the gradient of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The head gradient of an output, by index.
    Head(usize),
    /// The gradient of a node that reads the entry.
    Node(usize),
}

/// How gradients flow through the nodes of a graph.
#[derive(Clone, Default)]
pub struct Trace {
    /// The head gradients.
    pub heads: Vec<Entry>,
    /// The contributions to the gradient of each entry.
    pub sources: HashMap<Entry, Vec<Source>>,
    /// The gradient of each entry.
    pub flows: HashMap<Entry, Entry>,
    /// The gradient of each entry with several contributions.
    pub sums: HashMap<Entry, Entry>,
    /// The gradients of each node's inputs.
    pub gradients: HashMap<usize, Vec<Option<Entry>>>,
    /// For each node the outputs whose gradients the node's gradient reads.
    reads: HashMap<usize, Vec<Entry>>,
}

impl Trace {
    /// The outputs of a node whose gradients the node's gradient reads.
    pub fn reads(&self, node: usize) -> Vec<Entry> {
        self.reads.get(&node).cloned().unwrap_or_default()
    }

    /// The gradient of an entry.
    pub fn flow(&self, e: Entry) -> Option<Entry> {
        self.flows.get(&e).copied()
    }

    /// The trace after the entries of the graph were renumbered by `to`.
    pub fn remapped(&self, to: impl Fn(Entry) -> Entry) -> Trace {
        let node = |i: usize| to(entry(i, 0)).node as usize;
        let source = |s: &Source| match s {
            Source::Head(k) => Source::Head(*k),
            Source::Node(i) => Source::Node(node(*i)),
        };
        let pairs = |map: &HashMap<Entry, Entry>| map.iter().map(|(a, b)| (to(*a), to(*b))).collect();
        Trace {
            heads: self.heads.iter().map(|e| to(*e)).collect(),
            sources: self.sources.iter().map(|(e, s)| (to(*e), s.iter().map(source).collect())).collect(),
            flows: pairs(&self.flows),
            sums: pairs(&self.sums),
            gradients: (self.gradients.iter())
                .map(|(i, all)| (node(*i), all.iter().map(|e| e.map(&to)).collect()))
                .collect(),
            reads: self.reads.iter().map(|(i, all)| (node(*i), all.iter().map(|e| to(*e)).collect())).collect(),
        }
    }
}

/// Extends the graph by the gradients of `ys` with respect to `xs`; `None` where an x does not influence any y.
///
/// # Errors
/// An operator between `xs` and `ys` that is not differentiable, by operator and node name.
pub fn gradient(graph: &mut Graph, request: &Request<'_>) -> Result<Vec<Option<Entry>>> {
    with_trace(graph, request, None)
}

/// [`gradient`] that also records how gradients flow.
///
/// # Errors
/// Those of [`gradient`].
pub fn traced(graph: &mut Graph, request: &Request<'_>, trace: &mut Trace) -> Result<Vec<Option<Entry>>> {
    with_trace(graph, request, Some(trace))
}

fn with_trace(graph: &mut Graph, request: &Request<'_>, mut trace: Option<&mut Trace>) -> Result<Vec<Option<Entry>>> {
    let forward_nodes = graph.nodes.len();
    let on_path = influenced_by(graph, request.xs);
    let mut flows: HashMap<Entry, Vec<Entry>> = HashMap::new();
    for (y, g) in request.ys.iter().zip(request.head_grads) {
        flows.entry(*y).or_default().push(*g);
    }
    if let Some(trace) = trace.as_deref_mut() {
        trace.heads = request.head_grads.to_vec();
        for (k, y) in request.ys.iter().enumerate() {
            trace.sources.entry(*y).or_default().push(Source::Head(k));
        }
    }
    let needed = graph.needed_for(request.ys.iter().copied());
    let mut result: HashMap<Entry, Option<Entry>> = request.xs.iter().map(|x| (*x, None)).collect();
    for i in (0..forward_nodes).rev() {
        if !needed[i] || !on_path[i] {
            continue;
        }
        let mut ograds = Vec::new();
        for k in 0..graph.nodes[i].num_outputs {
            let contributions = flows.remove(&entry(i, k)).unwrap_or_default();
            let several = contributions.len() > 1;
            let sum = add_up(graph, i, contributions)?;
            if let (Some(sum), Some(trace)) = (sum, trace.as_deref_mut()) {
                trace.flows.insert(entry(i, k), sum);
                if several {
                    trace.sums.insert(entry(i, k), sum);
                }
            }
            if let Some(gradient) = result.get_mut(&entry(i, k)) {
                *gradient = sum;
            }
            ograds.push(sum);
        }
        let node = &graph.nodes[i];
        let op = match &node.action {
            Action::Variable => continue,
            Action::Forward(op) => op.clone(),
            Action::Backward { op, .. } | Action::Fused { op, .. } => {
                return Err(Error::NotDifferentiable(format!("{} (a second time)", op.title()))
                    .in_operator(op.title(), &node.name));
            }
        };
        let is_blocked = ograds.iter().all(Option::is_none) && !is_loss(&op);
        if !node.inputs.iter().any(|e| on_path[e.node as usize]) || (is_blocked && !updates_states(&op)) {
            continue;
        }
        let inputs = node.inputs.clone();
        let name = node.name.clone();
        let first = graph.nodes.len();
        let read: Vec<Entry> = (0..ograds.len()).filter(|k| ograds[*k].is_some()).map(|k| entry(i, k)).collect();
        let igrads =
            node_gradient(graph, i, &op, ograds, request.create_graph).map_err(|e| e.in_operator(op.title(), &name))?;
        graph.nodes[first..].iter_mut().for_each(|node| node.gradient_of = Some(i as u32));
        let mut igrads: Vec<Option<Entry>> =
            inputs.iter().zip(igrads).map(|(e, g)| g.filter(|_| on_path[e.node as usize])).collect();
        if is_blocked {
            // As in MXNet, the node updates its states although no gradient flows back to it. One of its gradients keeps it alive.
            let last = igrads.iter().rposition(Option::is_some);
            igrads.iter_mut().enumerate().filter(|(k, _)| Some(*k) != last).for_each(|(_, g)| *g = None);
        }
        for (e, g) in inputs.iter().zip(&igrads) {
            if let Some(g) = g {
                flows.entry(*e).or_default().push(*g);
            }
        }
        if let Some(trace) = trace.as_deref_mut() {
            for (e, _) in inputs.iter().zip(&igrads).filter(|(_, g)| g.is_some()) {
                trace.sources.entry(*e).or_default().push(Source::Node(i));
            }
            if !is_loss(&op) {
                trace.reads.insert(i, read);
            }
            trace.gradients.insert(i, igrads);
        }
    }
    Ok(request.xs.iter().map(|x| result.get(x).copied().flatten()).collect())
}

/// Whether the operator is a loss: its gradient reads no head gradient.
pub fn is_loss(op: &OpCall) -> bool {
    matches!(op.def.gradient(&op.params), Grad::Kernel(b, _) if matches!(b.ograds_for(&op.params), Deps::None))
}

/// Whether the computation of the operator's gradient updates auxiliary states.
fn updates_states(op: &OpCall) -> bool {
    matches!(op.def.gradient(&op.params), Grad::Kernel(b, _) if !b.updates.is_empty())
}

/// Which nodes depend on one of `xs`.
fn influenced_by(graph: &Graph, xs: &[Entry]) -> Vec<bool> {
    let mut on_path = vec![false; graph.nodes.len()];
    for x in xs {
        on_path[x.node as usize] = true;
    }
    for i in 0..graph.nodes.len() {
        on_path[i] = on_path[i] || graph.nodes[i].inputs.iter().any(|e| on_path[e.node as usize]);
    }
    on_path
}

/// Adds the sum of the contributions to an entry's gradient.
fn add_up(graph: &mut Graph, node: usize, mut contributions: Vec<Entry>) -> Result<Option<Entry>> {
    if contributions.len() <= 1 {
        return Ok(contributions.pop());
    }
    let prefix = format!("{}_grad", graph.nodes[node].name);
    let mut builder = Builder { graph, prefix };
    use ferromx_core::grad::GradGraph;
    builder.apply1("add_n", &contributions, &[]).map(Some)
}

/// Adds the gradient of one node; returns one item per input.
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
        Grad::Compose(compose) => composed(graph, i, op, &ograds, compose),
        Grad::Kernel(_, Some(compose)) if create_graph => composed(graph, i, op, &ograds, compose),
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

/// The gradient, or zeros in the shape of `of`.
fn or_zeros(graph: &mut Graph, of: Entry, gradient: Option<Entry>) -> Result<Entry> {
    use ferromx_core::grad::GradGraph;
    match gradient {
        Some(g) => Ok(g),
        None => {
            let prefix = format!("{}_grad", graph.node(of).name);
            Builder { graph, prefix }.apply1("zeros_like", &[of], &[])
        }
    }
}

/// Adds a gradient that is composed of operators.
fn composed(
    graph: &mut Graph,
    i: usize,
    op: &OpCall,
    ograds: &[Option<Entry>],
    compose: Compose,
) -> Result<Vec<Option<Entry>>> {
    let node = graph.nodes[i].clone();
    let ograds =
        (0..node.num_visible()).map(|k| or_zeros(graph, entry(i, k), ograds[k])).collect::<Result<Vec<_>>>()?;
    let attrs: Vec<(&str, &str)> = node.attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let outputs: Vec<Entry> = (0..node.num_outputs).map(|k| entry(i, k)).collect();
    let grad_node =
        GradNode { params: &op.params, attrs: &attrs, inputs: &node.inputs, outputs: &outputs, ograds: &ograds };
    let gradients = compose(&mut Builder { graph, prefix: format!("{}_grad", node.name) }, &grad_node)?;
    if matches!(op.def.forward, Forward::Foreign(_)) {
        let pairs = gradients.iter().enumerate().filter_map(|(k, g)| Some((k, (*g)?)));
        graph.checked_gradients.extend(pairs.map(|(input, gradient)| CheckedGradient { of: i, input, gradient }));
    }
    Ok(gradients)
}
