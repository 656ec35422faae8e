//! The arrays that a monitor gets, with MXNet's names and in MXNet's order. In MXNet every node has one gradient node, which computes the
//! gradients of all its inputs. Here a gradient may be composed of several operators, or be the head gradient itself.

use std::collections::BTreeSet;

use ferromx_core::grad::Entry;
use hashbrown::{HashMap, HashSet};

use crate::graph::{Action, Graph, entry};
use crate::passes::chains::Schedule;
use crate::passes::gradient::{Contribution, Trace};

/// A report before memory is assigned.
pub(super) struct ReportDraft {
    /// Number of steps that run before the report.
    pub after: usize,
    /// MXNet's name.
    pub name: String,
    /// The entry to report; `None` for a gradient that was not requested, which is reported as zeros.
    pub entry: Option<Entry>,
    /// An entry with the shape and type of the array.
    pub like: Entry,
    /// Whether it is an input of the operator that ran.
    pub is_input: bool,
}

/// The reports of a plan.
#[derive(Default)]
pub(super) struct Reports {
    /// Reports of a forward pass.
    pub forward: Vec<ReportDraft>,
    /// Reports of a backward pass.
    pub backward: Vec<ReportDraft>,
}

impl Reports {
    /// The reports of both passes.
    pub(super) fn all(&self) -> impl Iterator<Item = &ReportDraft> {
        self.forward.iter().chain(&self.backward)
    }
}

/// Operators whose gradient node in MXNet is the identity and is not reported.
const UNREPORTED: [&str; 3] = ["elemwise_add", "_grad_add", "add_n"];

/// A node of MXNet's gradient graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum GradientNode {
    /// The head gradient of an output, by index.
    HeadGrad(usize),
    /// The sum of the gradients of an entry with several readers.
    Sum(Entry),
    /// The gradients of the inputs of a forward node.
    InputGrads(usize),
}

/// The schedule of a monitored graph, with one node per step, and its reports. `requested` are the variables that have gradients. Nodes
/// that compute gradients run in the order of MXNet's graph.
pub(super) fn monitored_schedule(
    graph: &Graph,
    needed: &[bool],
    num_forward_nodes: usize,
    trace: &Trace,
    requested: &[Entry],
) -> (Schedule, Reports) {
    let visited = HashSet::new();
    let mut recorder = Recorder { graph, needed, trace, steps: Vec::new(), reports: Reports::default(), visited };
    for i in (0..num_forward_nodes).filter(|i| needed[*i]) {
        recorder.steps.push(vec![i]);
        recorder.forward(i);
    }
    let mut unscheduled: BTreeSet<usize> = (num_forward_nodes..graph.nodes.len()).filter(|i| needed[*i]).collect();
    let mut nodes_of_gradient: HashMap<usize, Vec<usize>> = HashMap::new();
    for i in &unscheduled {
        if let Some(of) = graph.nodes[*i].gradient_of {
            nodes_of_gradient.entry(of as usize).or_default().push(*i);
        }
    }
    for gradient_node in recorder.gradient_nodes(requested) {
        let nodes = match gradient_node {
            GradientNode::HeadGrad(_) => Vec::new(),
            GradientNode::Sum(e) => trace.sums.get(&e).map(|sum| sum.node as usize).into_iter().collect(),
            GradientNode::InputGrads(of) => nodes_of_gradient.remove(&of).unwrap_or_default(),
        };
        for i in take_with_dependencies(graph, &mut unscheduled, nodes) {
            recorder.steps.push(vec![i]);
        }
        recorder.backward(gradient_node);
    }
    recorder.steps.extend(unscheduled.into_iter().map(|i| vec![i]));
    (Schedule { steps: recorder.steps }, recorder.reports)
}

/// Schedules the nodes and their dependencies that are not scheduled yet, in topological order.
fn take_with_dependencies(graph: &Graph, unscheduled: &mut BTreeSet<usize>, mut nodes: Vec<usize>) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    while let Some(i) = nodes.pop() {
        if unscheduled.remove(&i) {
            taken.insert(i);
            nodes.extend(graph.nodes[i].inputs.iter().map(|e| e.node as usize));
        }
    }
    taken
}

/// Builds the schedule and the reports.
struct Recorder<'a> {
    graph: &'a Graph,
    needed: &'a [bool],
    trace: &'a Trace,
    steps: Vec<Vec<usize>>,
    reports: Reports,
    visited: HashSet<GradientNode>,
}

impl Recorder<'_> {
    fn report(&self, name: String, entry: Option<Entry>, like: Entry) -> ReportDraft {
        ReportDraft { after: self.steps.len(), name, entry, like, is_input: false }
    }

    /// Reports an input of a node as `{node}_{input}`, and a variable also under its own name.
    fn input_reports(&self, node: &str, input: &str, e: Entry) -> Vec<ReportDraft> {
        let report = |name| ReportDraft { is_input: true, ..self.report(name, Some(e), e) };
        let source = self.graph.node(e);
        let variable = matches!(source.action, Action::Variable).then(|| report(source.name.clone()));
        variable.into_iter().chain([report(format!("{node}_{input}"))]).collect()
    }

    /// Reports the inputs and outputs of forward node `i`.
    fn forward(&mut self, i: usize) {
        let node = &self.graph.nodes[i];
        let Action::Forward(op) = &node.action else { return };
        let names = op.monitored_input_names(node.inputs.len());
        for (k, e) in node.inputs.iter().enumerate() {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("input{k}"));
            let report = self.input_reports(&node.name, &name, *e);
            self.reports.forward.extend(report);
        }
        let names = op.def.output_names(&op.params);
        for k in 0..node.num_outputs {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("output{k}"));
            let e = entry(i, k);
            let report = self.report(format!("{}_{name}", node.name), Some(e), e);
            self.reports.forward.push(report);
        }
    }

    /// The gradient nodes that the requested gradients depend on, in depth-first order.
    fn gradient_nodes(&mut self, requested: &[Entry]) -> Vec<GradientNode> {
        let mut order = Vec::new();
        for variable in requested {
            if let Some(contributions) = self.trace.contributions.get(variable) {
                self.visit(*variable, contributions, &mut order);
            }
        }
        order
    }

    /// Visits the gradient nodes that the gradient of an entry depends on. Iterative, because deep networks would overflow the stack.
    fn visit(&mut self, e: Entry, contributions: &[Contribution], order: &mut Vec<GradientNode>) {
        enum Work {
            EntryGradient(Entry),
            Emit(GradientNode),
        }
        let nodes_of = |e: Entry, contributions: &[Contribution]| -> Vec<GradientNode> {
            let mut nodes: Vec<GradientNode> = contributions
                .iter()
                .map(|c| match c {
                    Contribution::HeadGrad(k) => GradientNode::HeadGrad(*k),
                    Contribution::Node(i) => GradientNode::InputGrads(*i),
                })
                .collect();
            if contributions.len() > 1 {
                nodes.push(GradientNode::Sum(e));
            }
            nodes
        };
        let mut stack: Vec<Work> = Vec::new();
        let push =
            |stack: &mut Vec<Work>, nodes: Vec<GradientNode>| stack.extend(nodes.into_iter().rev().map(Work::Emit));
        push(&mut stack, nodes_of(e, contributions));
        let mut entered: HashSet<GradientNode> = HashSet::new();
        while let Some(work) = stack.pop() {
            match work {
                Work::EntryGradient(e) => {
                    if let Some(contributions) = self.trace.contributions.get(&e) {
                        push(&mut stack, nodes_of(e, contributions));
                    }
                }
                Work::Emit(gradient_node) if self.visited.contains(&gradient_node) => {}
                Work::Emit(GradientNode::InputGrads(i)) if entered.insert(GradientNode::InputGrads(i)) => {
                    stack.push(Work::Emit(GradientNode::InputGrads(i)));
                    for e in self.trace.outputs_read(i).into_iter().rev() {
                        stack.push(Work::EntryGradient(e));
                    }
                }
                Work::Emit(gradient_node) => {
                    self.visited.insert(gradient_node);
                    order.push(gradient_node);
                }
            }
        }
    }

    /// Reports a gradient node, and the inputs of one that computes input gradients.
    fn backward(&mut self, gradient_node: GradientNode) {
        match gradient_node {
            GradientNode::HeadGrad(k) => {
                let head_grad = self.trace.head_grads.get(k).copied().filter(|e| self.needed[e.node as usize]);
                let Some(head_grad) = head_grad else { return };
                let report = self.report(format!("_head_grad_{k}_id_output"), Some(head_grad), head_grad);
                self.reports.backward.push(report);
            }
            GradientNode::Sum(e) => {
                let sum = self.trace.sums.get(&e).copied();
                let report = self.report("sum_grad_output".into(), sum, e);
                self.reports.backward.push(report);
            }
            GradientNode::InputGrads(i) => self.input_gradients(i),
        }
    }

    fn input_gradients(&mut self, i: usize) {
        let (node, Some(gradients)) = (&self.graph.nodes[i], self.trace.input_grads.get(&i)) else { return };
        let Action::Forward(op) = &node.action else { return };
        if UNREPORTED.contains(&op.def.name) {
            return;
        }
        let name = format!("{}_backward", node.name);
        let output_grads = self.trace.outputs_read(i).into_iter().filter_map(|e| self.trace.gradient(e));
        let output_grads = output_grads.filter(|e| self.needed[e.node as usize]);
        let inputs: Vec<Entry> = output_grads.chain(node.inputs.iter().copied()).collect();
        for (k, e) in inputs.into_iter().enumerate() {
            let report = self.input_reports(&name, &format!("input{k}"), e);
            self.reports.backward.extend(report);
        }
        let differentiable: Vec<usize> = (0..node.inputs.len()).filter(|k| !op.mutated().contains(k)).collect();
        let names = op.monitored_input_names(node.inputs.len());
        for (i, k) in differentiable.iter().enumerate() {
            let output = match differentiable.len() {
                _ if op.def.metadata.is_legacy => names.get(*k).cloned().unwrap_or_default(),
                1 => "output".into(),
                _ => format!("output{i}"),
            };
            let gradient = gradients.get(*k).copied().flatten();
            let report = self.report(format!("{name}_{output}"), gradient, node.inputs[*k]);
            self.reports.backward.push(report);
        }
    }
}
