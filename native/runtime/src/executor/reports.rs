//! What a monitor gets, under MXNet's names and in MXNet's order. In MXNet every node has one gradient node, which computes the
//! gradients of all inputs. Here a gradient may be composed of several operators, or be the head gradient itself.

use std::collections::BTreeSet;

use ferromx_core::grad::Entry;
use hashbrown::{HashMap, HashSet};

use super::compile::Target;
use crate::graph::{Action, Graph, entry};
use crate::passes::chains::Schedule;
use crate::passes::gradient::{Source, Trace};
use crate::symbol::OpCall;

/// An array to report to a monitor.
pub(super) struct Observation {
    /// Number of steps that run before the report.
    pub after: usize,
    /// MXNet's name.
    pub name: String,
    /// The array; `None` for a gradient that was not requested, which is reported as zeros.
    pub entry: Option<Entry>,
    /// The entry that has the shape and type of the array.
    pub like: Entry,
    /// Whether it is an input of the operator that ran.
    pub is_input: bool,
}

/// What a monitor gets from a plan.
#[derive(Default)]
pub(super) struct Reports {
    /// During a forward pass.
    pub forward: Vec<Observation>,
    /// During a backward pass.
    pub backward: Vec<Observation>,
}

impl Reports {
    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.forward.iter().chain(&self.backward)
    }
}

/// Operators whose gradient node in MXNet is the identity and is not reported.
const UNREPORTED: [&str; 3] = ["elemwise_add", "_grad_add", "add_n"];

/// A node of MXNet's gradient graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    /// The head gradient of an output, by index.
    Head(usize),
    /// The sum of the gradients of an entry with several readers.
    Sum(Entry),
    /// The gradients of the inputs of a forward node.
    Gradient(usize),
}

/// The schedule of a monitored plan, with one node per step, and what it reports. Gradient nodes are in the order of MXNet's graph.
pub(super) fn monitored_schedule(
    graph: &Graph,
    needed: &[bool],
    forward_nodes: usize,
    trace: &Trace,
    targets: &[Target],
) -> (Schedule, Reports) {
    let visited = HashSet::new();
    let mut recorder = Recorder { graph, needed, trace, steps: Vec::new(), reports: Reports::default(), visited };
    for i in (0..forward_nodes).filter(|i| needed[*i]) {
        recorder.steps.push(vec![i]);
        recorder.forward(i);
    }
    let mut waiting: BTreeSet<usize> = (forward_nodes..graph.nodes.len()).filter(|i| needed[*i]).collect();
    let mut gradients: HashMap<usize, Vec<usize>> = HashMap::new();
    for i in &waiting {
        if let Some(of) = graph.nodes[*i].gradient_of {
            gradients.entry(of as usize).or_default().push(*i);
        }
    }
    for unit in recorder.units(targets) {
        let nodes = match unit {
            Unit::Head(_) => Vec::new(),
            Unit::Sum(e) => trace.sums.get(&e).map(|sum| sum.node as usize).into_iter().collect(),
            Unit::Gradient(of) => gradients.remove(&of).unwrap_or_default(),
        };
        for i in take_with_dependencies(graph, &mut waiting, nodes) {
            recorder.steps.push(vec![i]);
        }
        recorder.backward(unit);
    }
    recorder.steps.extend(waiting.into_iter().map(|i| vec![i]));
    (Schedule { steps: recorder.steps }, recorder.reports)
}

/// Takes the nodes and their dependencies that are still waiting, in topological order.
fn take_with_dependencies(graph: &Graph, waiting: &mut BTreeSet<usize>, mut nodes: Vec<usize>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    while let Some(i) = nodes.pop() {
        if waiting.remove(&i) {
            found.insert(i);
            nodes.extend(graph.nodes[i].inputs.iter().map(|e| e.node as usize));
        }
    }
    found
}

struct Recorder<'a> {
    graph: &'a Graph,
    needed: &'a [bool],
    trace: &'a Trace,
    steps: Vec<Vec<usize>>,
    reports: Reports,
    visited: HashSet<Unit>,
}

impl Recorder<'_> {
    fn observe(&self, name: String, entry: Option<Entry>, like: Entry, is_input: bool) -> Observation {
        Observation { after: self.steps.len(), name, entry, like, is_input }
    }

    /// Reports an input of a node under its name among the inputs, and a variable also under its own name.
    fn input(&self, node: &str, input: &str, e: Entry) -> Vec<Observation> {
        let source = self.graph.node(e);
        let variable =
            matches!(source.action, Action::Variable).then(|| self.observe(source.name.clone(), Some(e), e, true));
        variable.into_iter().chain([self.observe(format!("{node}_{input}"), Some(e), e, true)]).collect()
    }

    fn forward(&mut self, i: usize) {
        let node = &self.graph.nodes[i];
        let Action::Forward(op) = &node.action else { return };
        let names = input_names(op, node.inputs.len());
        for (k, e) in node.inputs.iter().enumerate() {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("input{k}"));
            let observation = self.input(&node.name, &name, *e);
            self.reports.forward.extend(observation);
        }
        let names = op.def.output_names(&op.params);
        for k in 0..node.num_outputs {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("output{k}"));
            let e = entry(i, k);
            let observation = self.observe(format!("{}_{name}", node.name), Some(e), e, false);
            self.reports.forward.push(observation);
        }
    }

    /// All units that the targets depend on, in depth-first order.
    fn units(&mut self, targets: &[Target]) -> Vec<Unit> {
        let mut order = Vec::new();
        for target in targets.iter().filter(|t| t.entry.is_some()) {
            if let Some(sources) = self.trace.sources.get(&target.variable) {
                self.visit_flow(target.variable, sources, &mut order);
            }
        }
        order
    }

    /// Visits all units that the gradient of an entry depends on. Iterative, because deep networks would overflow the stack.
    fn visit_flow(&mut self, of: Entry, sources: &[Source], order: &mut Vec<Unit>) {
        enum Work {
            Flow(Entry),
            Emit(Unit),
        }
        let units_of = |of: Entry, sources: &[Source]| -> Vec<Unit> {
            let mut units: Vec<Unit> = sources
                .iter()
                .map(|s| match s {
                    Source::Head(k) => Unit::Head(*k),
                    Source::Node(i) => Unit::Gradient(*i),
                })
                .collect();
            if sources.len() > 1 {
                units.push(Unit::Sum(of));
            }
            units
        };
        let mut stack: Vec<Work> = Vec::new();
        let push = |stack: &mut Vec<Work>, units: Vec<Unit>| stack.extend(units.into_iter().rev().map(Work::Emit));
        push(&mut stack, units_of(of, sources));
        let mut entered: HashSet<Unit> = HashSet::new();
        while let Some(work) = stack.pop() {
            match work {
                Work::Flow(e) => {
                    if let Some(sources) = self.trace.sources.get(&e) {
                        push(&mut stack, units_of(e, sources));
                    }
                }
                Work::Emit(unit) if self.visited.contains(&unit) => {}
                Work::Emit(Unit::Gradient(i)) if entered.insert(Unit::Gradient(i)) => {
                    stack.push(Work::Emit(Unit::Gradient(i)));
                    for e in self.trace.reads(i).into_iter().rev() {
                        stack.push(Work::Flow(e));
                    }
                }
                Work::Emit(unit) => {
                    self.visited.insert(unit);
                    order.push(unit);
                }
            }
        }
    }

    fn backward(&mut self, unit: Unit) {
        match unit {
            Unit::Head(k) => {
                let head = self.trace.heads.get(k).copied().filter(|head| self.needed[head.node as usize]);
                let Some(head) = head else { return };
                let observation = self.observe(format!("_head_grad_{k}_id_output"), Some(head), head, false);
                self.reports.backward.push(observation);
            }
            Unit::Sum(e) => {
                let sum = self.trace.sums.get(&e).copied();
                let observation = self.observe("sum_grad_output".into(), sum, e, false);
                self.reports.backward.push(observation);
            }
            Unit::Gradient(i) => self.gradient(i),
        }
    }

    fn gradient(&mut self, i: usize) {
        let (node, Some(gradients)) = (&self.graph.nodes[i], self.trace.gradients.get(&i)) else { return };
        let Action::Forward(op) = &node.action else { return };
        if UNREPORTED.contains(&op.def.name) {
            return;
        }
        let name = format!("{}_backward", node.name);
        let reads =
            self.trace.reads(i).into_iter().filter_map(|e| self.trace.flow(e)).filter(|e| self.needed[e.node as usize]);
        let inputs: Vec<Entry> = reads.chain(node.inputs.iter().copied()).collect();
        for (k, e) in inputs.into_iter().enumerate() {
            let observation = self.input(&name, &format!("input{k}"), e);
            self.reports.backward.extend(observation);
        }
        let kept: Vec<usize> = (0..node.inputs.len()).filter(|k| !op.mutated().contains(k)).collect();
        let names = input_names(op, node.inputs.len());
        for (i, k) in kept.iter().enumerate() {
            let output = match kept.len() {
                _ if op.def.is_legacy => names.get(*k).cloned().unwrap_or_default(),
                1 => "output".into(),
                _ => format!("output{i}"),
            };
            let gradient = gradients.get(*k).copied().flatten();
            let observation = self.observe(format!("{name}_{output}"), gradient, node.inputs[*k], false);
            self.reports.backward.push(observation);
        }
    }
}

/// The names of an operator's inputs as monitors show them.
pub(crate) fn input_names(op: &OpCall, n: usize) -> Vec<String> {
    let names = op.def.input_names(&op.params, n);
    match names.as_slice() {
        [name] if name == "data" && !op.def.names_data => vec!["input0".into()],
        _ => names,
    }
}

/// The names of an operator's outputs as hooks of cached operators show them.
pub(crate) fn hooked_output_names(op: &OpCall) -> Vec<String> {
    let mut names = op.def.output_names(&op.params);
    for (k, name) in names.iter_mut().enumerate().filter(|_| !op.def.names_outputs) {
        if *name == "output" || *name == format!("output{k}") {
            *name = k.to_string();
        }
    }
    names
}
