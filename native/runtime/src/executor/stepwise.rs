//! Executors without a plan: nodes run one by one, on arrays of any storage type and with output shapes that depend on values.

use std::ops::Range;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::Array;
use ferromx_core::storage::{Req, overlap};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::compile::completion_order;
use super::network::{Gradients, VariableEntries, differentiate, requested_gradients, variable_entries};
use super::overlaps::Overlaps;
use super::reports::{ReportDraft, Reports, monitored_schedule};
use super::{BoundStored, InstalledMonitor, OnComplete, head_grad};
use crate::arrays::zeros_like;
use crate::graph::{Action, Graph, GraphNode, entry};
use crate::imperative::{self, ArraySpec, GradientCall, Invocation, Stored, Tensor, name_node};
use crate::passes::chains::Schedule;
use crate::passes::gradient::Trace;
use crate::passes::infer::{self, Entries};
use crate::profiler;
use crate::symbol::{OpCall, Symbol};

/// A symbol bound to arrays, without a plan.
pub(super) struct Stepwise {
    /// The bound arrays.
    pub bound: BoundStored,
    symbol: Symbol,
    /// The graph, gradients included.
    graph: Graph,
    /// The nodes after these compute gradients.
    num_forward_nodes: usize,
    /// The device of nodes without inputs.
    context: Context,
    output_entries: Vec<Entry>,
    /// The outputs, which every forward pass overwrites.
    outputs: Vec<Arc<Tensor>>,
    variables: VariableEntries,
    head_grads: Vec<Option<Entry>>,
    targets: Vec<StoredTarget>,
    /// The gradient arrays that kernels may write to, by the entry of the gradient.
    destinations: HashMap<Entry, NDArray>,
    trace: Trace,
    /// Whether each node runs.
    needed: Vec<bool>,
    /// For each node, the entries that no later node of its pass reads. A forward pass keeps what gradients read.
    freed: Vec<Vec<Entry>>,
    /// The entries that a node reads, and the gradients.
    live: HashSet<Entry>,
    /// The values of the last forward pass that the gradients read, or all of them if it was monitored.
    saved: Mutex<Option<Values>>,
}

/// A requested gradient.
struct StoredTarget {
    /// Index of the argument.
    arg: usize,
    /// The gradient's entry; `None` if the argument does not influence the outputs.
    entry: Option<Entry>,
    array: Array,
    req: Req,
    variable: Entry,
}

/// The values of entries.
#[derive(Clone, Default)]
struct Values {
    /// The arrays that later nodes read.
    arrays: HashMap<Entry, Array>,
    /// Shape, type and device of all entries that were computed.
    specs: HashMap<Entry, (Shape, DType, Context)>,
    /// Whether a monitor got the values of the forward pass.
    is_monitored: bool,
}

impl Values {
    fn insert(&mut self, e: Entry, array: Array) {
        self.specs.insert(e, (array.shape().clone(), array.dtype(), array.context()));
        self.arrays.insert(e, array);
    }
}

impl Stepwise {
    /// Binds a symbol. `outputs` are the output arrays before the first forward pass.
    ///
    /// # Errors
    /// A gradient request without an array; an operator without a gradient.
    pub(super) fn new(symbol: &Symbol, bound: BoundStored, outputs: Vec<Array>, context: Context) -> Result<Stepwise> {
        let (mut graph, output_entries) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let num_forward_nodes = graph.nodes.len();
        let requested = requested_gradients(symbol, &bound)?;
        let requested_variables: Vec<Entry> = requested.iter().map(|(i, _)| variables.args[*i]).collect();
        let Gradients { head_grads, entries, trace } = match requested.is_empty() {
            true => Gradients { head_grads: Vec::new(), entries: Vec::new(), trace: Trace::default() },
            false => differentiate(&mut graph, &output_entries, &requested_variables)?,
        };
        let destinations = destinations(&bound, &requested, &entries);
        let targets = (requested.into_iter().zip(&requested_variables).zip(&entries))
            .map(|(((arg, array), variable), entry)| {
                let (entry, req, variable) = (*entry, bound.reqs[arg], *variable);
                StoredTarget { arg, entry, array, req, variable }
            })
            .collect();
        let kept: HashSet<Entry> = output_entries.iter().copied().chain(entries.into_iter().flatten()).collect();
        let needed = graph.needed_for(kept.iter().copied());
        let readers = graph.nodes.iter().zip(&needed).filter(|(_, needed)| **needed);
        let live = readers.flat_map(|(node, _)| node.inputs.iter().copied()).chain(kept.iter().copied()).collect();
        let freed = freed_entries(&graph, &needed, &kept);
        let outputs = outputs.into_iter().map(|y| Arc::new(Tensor::new(y))).collect();
        let (symbol, saved) = (symbol.clone(), Mutex::default());
        Ok(Stepwise {
            bound,
            symbol,
            graph,
            num_forward_nodes,
            context,
            output_entries,
            outputs,
            variables,
            head_grads,
            targets,
            destinations,
            trace,
            needed,
            freed,
            live,
            saved,
        })
    }

    /// The outputs, which every forward pass overwrites.
    pub(super) fn outputs(&self) -> &[Arc<Tensor>] {
        &self.outputs
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// Errors of the operators.
    pub(super) fn forward(&self, mode: Mode, monitor: Option<&InstalledMonitor>) -> Result<()> {
        // Free the values of the last pass before the next.
        *self.saved.lock() = None;
        let mut values = Values { is_monitored: monitor.is_some(), ..Values::default() };
        self.variables.with_arrays(&self.bound).for_each(|(e, array)| values.insert(e, array.clone()));
        match monitor {
            None => self.run(0..self.num_forward_nodes, &mut values, mode)?,
            Some(monitor) => {
                let (schedule, reports) = self.monitored();
                let steps = schedule.steps.iter().flatten().copied().enumerate();
                let steps = steps.filter(|(_, node)| *node < self.num_forward_nodes);
                self.run_monitored(steps, &reports.forward, &mut values, mode, monitor)?;
            }
        }
        for (output, e) in self.outputs.iter().zip(&self.output_entries) {
            let (old, new) = (output.stored()?, self.value(&values, *e)?);
            let has_same_type = old.shape() == new.shape() && old.dtype() == new.dtype();
            // Overwrite the array in place, so that its holders see the result, unless its shape changes.
            if has_same_type && old.storage_type() == new.storage_type() {
                imperative::write(&old, &new)?;
            } else {
                output.set(new.to_context(old.context())?);
            }
        }
        if !self.targets.is_empty() {
            *self.saved.lock() = Some(values);
        }
        Ok(())
    }

    /// Computes the gradients; see [`super::Executor::backward`].
    ///
    /// # Errors
    /// Missing head gradients; errors of the operators.
    pub(super) fn backward(
        &self,
        head_grads: &[Array],
        mode: Mode,
        monitor: Option<&InstalledMonitor>,
        on_complete: Option<OnComplete<'_>>,
    ) -> Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        if self.saved.lock().is_none() {
            self.forward(Mode::Inference, None)?;
        }
        let saved = self.saved.lock().clone();
        let mut values = saved.ok_or_else(|| Error::Internal("a forward pass kept no values".into()))?;
        for (i, e) in self.head_grads.iter().enumerate().filter_map(|(i, e)| Some((i, (*e)?))) {
            let output = self.outputs[i].stored()?;
            let given = head_grad(&self.symbol, i, head_grads, output.shape(), Array::shape)?;
            values.insert(e, self.head_grad(given, output.dtype())?);
        }
        match monitor.filter(|_| values.is_monitored) {
            None => self.run(self.num_forward_nodes..self.graph.nodes.len(), &mut values, mode)?,
            Some(monitor) => {
                let (schedule, reports) = self.monitored();
                let steps = schedule.steps.iter().flatten().copied().enumerate();
                let steps = steps.filter(|(_, node)| *node >= self.num_forward_nodes);
                self.run_monitored(steps, &reports.backward, &mut values, mode, monitor)?;
            }
        }
        for target in &self.targets {
            let gradient = match target.entry {
                Some(e) => self.value(&values, e)?,
                None if target.req == Req::Add => continue,
                None => zeros_like(&target.array)?,
            };
            imperative::write_as_requested(&target.array, target.req, gradient)?;
        }
        let Some(report) = on_complete else { return Ok(()) };
        let entries: Vec<_> = self.targets.iter().map(|t| t.entry).collect();
        completion_order(&entries).into_iter().try_for_each(|t| report(self.targets[t].arg))
    }

    /// A head gradient, converted to the type of its output, in memory that no kernel writes to.
    fn head_grad(&self, given: &Array, dtype: DType) -> Result<Array> {
        let is_written = |given: &NDArray| self.destinations.values().any(|array| overlap(given, array));
        match given {
            Array::Dense(dense) if dense.dtype() == dtype && is_written(dense) => given.to_context(given.context()),
            _ => imperative::converted(given, dtype),
        }
    }

    fn value(&self, values: &Values, e: Entry) -> Result<Array> {
        values
            .arrays
            .get(&e)
            .cloned()
            .ok_or_else(|| Error::Internal(format!("output {} of {} is missing", e.index, self.graph.node(e).name)))
    }

    /// Runs the nodes in a range that are needed, and frees values that no later one reads.
    fn run(&self, nodes: Range<usize>, values: &mut Values, mode: Mode) -> Result<()> {
        for i in nodes.filter(|i| self.needed[*i]) {
            self.run_node(i, values, mode)?;
            self.freed[i].iter().for_each(|e| _ = values.arrays.remove(e));
        }
        Ok(())
    }

    /// The order of nodes that gives MXNet's order of reports, and the reports.
    fn monitored(&self) -> (Schedule, Reports) {
        let requested: Vec<Entry> = self.targets.iter().filter(|t| t.entry.is_some()).map(|t| t.variable).collect();
        monitored_schedule(&self.graph, &self.needed, self.num_forward_nodes, &self.trace, &requested)
    }

    /// Runs nodes, each with the number of steps before it, and reports arrays to a monitor.
    fn run_monitored(
        &self,
        steps: impl Iterator<Item = (usize, usize)>,
        reports: &[ReportDraft],
        values: &mut Values,
        mode: Mode,
        monitor: &InstalledMonitor,
    ) -> Result<()> {
        let mut reports = reports.iter().filter(|r| monitor.monitor_all || !r.is_input).peekable();
        let mut report_until = |num_steps: usize, values: &Values| -> Result<()> {
            while let Some(report) = reports.next_if(|r| r.after <= num_steps) {
                let array = match report.entry {
                    Some(e) => self.value(values, e)?,
                    None => zeros_like(&self.value(values, report.like)?)?,
                };
                (monitor.callback)(&report.name, array.to_context(array.context())?);
            }
            Ok(())
        };
        for (step, node) in steps {
            report_until(step, values)?;
            self.run_node(node, values, mode)?;
        }
        report_until(usize::MAX, values)
    }

    fn run_node(&self, i: usize, values: &mut Values, mode: Mode) -> Result<()> {
        let node = &self.graph.nodes[i];
        let Some(op) = node.op() else { return Ok(()) };
        let _measured = profiler::symbolic(|| node.profiled_name());
        let inputs = node.inputs.iter().map(|e| self.value(values, *e)).collect::<Result<Stored>>()?;
        let results = match &node.action {
            // Only plans contain fused nodes.
            Action::Variable | Action::Fused { .. } => return Ok(()),
            Action::Forward(op) => {
                let outputs = match inputs.is_empty() {
                    true => self.outputs_without_inputs(i)?,
                    false => self.destination(i, op, &inputs).into_iter().collect(),
                };
                Invocation { op, context: Some(self.context), mode, cache: Some(&node.cache) }
                    .run_node(&inputs, &outputs)
            }
            Action::Backward { of, op, backward } => {
                let of = &self.graph.nodes[*of as usize];
                let outputs = self.gradient_specs(i, of, values)?;
                let wanted: SmallVec<[bool; 4]> =
                    (0..outputs.len()).map(|k| self.live.contains(&entry(i, k))).collect();
                let (inputs, outputs, wanted, cache) = (&inputs, &outputs, &wanted, &of.cache);
                GradientCall { op, backward, inputs, outputs, wanted, mode, cache }.run()
            }
        };
        let results = results.map_err(|e| name_node(e, op.title(), &node.name))?;
        results.into_iter().enumerate().for_each(|(k, array)| values.insert(entry(i, k), array));
        if self.graph.checked_gradients.iter().any(|checked| checked.gradient.node as usize == i) {
            self.graph.check_gradients("the shape", |e| values.specs.get(&e).map(|spec| spec.0.clone()))?;
            self.graph.check_gradients("the type", |e| values.specs.get(&e).map(|spec| spec.1))?;
        }
        Ok(())
    }

    /// The input gradients of a forward node, which node `i` computes.
    fn gradient_specs(&self, i: usize, of: &GraphNode, values: &Values) -> Result<Vec<ArraySpec>> {
        let differentiable = of.inputs.iter().enumerate().filter(|(k, _)| !of.mutated_inputs().contains(k));
        let spec = |(k, (_, e)): (usize, (usize, &Entry))| {
            let (shape, dtype, context) = values
                .specs
                .get(e)
                .cloned()
                .ok_or_else(|| Error::Internal(format!("an input of {} was not computed", of.name)))?;
            let destination = self.destinations.get(&entry(i, k)).cloned();
            Ok(ArraySpec { shape, dtype, context, destination })
        };
        differentiable.enumerate().map(spec).collect()
    }

    /// The gradient array that output 0 of a forward node is written to, if there is one.
    fn destination(&self, i: usize, op: &OpCall, inputs: &[Array]) -> Option<Array> {
        let target = self.destinations.get(&entry(i, 0))?;
        let first = inputs.first()?.dense().ok()?;
        self.graph.can_write_gradient(op, first, target).then(|| target.clone().into())
    }

    /// Arrays for the outputs of a node without inputs, whose shapes may depend on its readers.
    fn outputs_without_inputs(&self, i: usize) -> Result<Stored> {
        if i >= self.num_forward_nodes {
            return Ok(Stored::new());
        }
        let mut shapes = Entries::new(&self.graph, Shape::unknown());
        let mut dtypes = Entries::new(&self.graph, None);
        for (e, array) in self.variables.with_arrays(&self.bound) {
            shapes[e] = array.shape().clone();
            dtypes[e] = Some(array.dtype());
        }
        infer::shapes_before(&self.graph, self.num_forward_nodes, &mut shapes)?;
        infer::dtypes_before(&self.graph, self.num_forward_nodes, &mut dtypes)?;
        (0..self.graph.nodes[i].num_visible())
            .map(|k| entry(i, k))
            .take_while(|e| shapes[*e].is_known())
            .map(|e| Ok(NDArray::empty(&shapes[e], dtypes[e].unwrap_or(DType::F32), self.context)?.into()))
            .collect()
    }
}

/// The gradient arrays that kernels may write to, by the entry of the gradient: dense ones that are like their arguments, are not added to,
/// and share their memory with no other bound array.
fn destinations(
    bound: &BoundStored,
    requested: &[(usize, Array)],
    entries: &[Option<Entry>],
) -> HashMap<Entry, NDArray> {
    let dense = |array: &Array| array.dense().ok().cloned();
    let all: Vec<NDArray> =
        bound.args.iter().chain(&bound.aux).chain(requested.iter().map(|(_, array)| array)).filter_map(dense).collect();
    let memory: Overlaps<usize> = all.iter().enumerate().collect();
    (requested.iter().zip(entries))
        .filter_map(|((i, array), e)| {
            let (array, arg) = (dense(array)?, &bound.args[*i]);
            let is_like_argument =
                array.shape() == arg.shape() && array.dtype() == arg.dtype() && array.context() == arg.context();
            let is_shared = memory.overlapping(&array).count() > 1;
            (is_like_argument && bound.reqs[*i] != Req::Add && !is_shared).then_some(((*e)?, array))
        })
        .collect()
}

/// For each node, the entries that no later node reads, except those that are kept.
fn freed_entries(graph: &Graph, needed: &[bool], kept: &HashSet<Entry>) -> Vec<Vec<Entry>> {
    let mut last_reader: HashMap<Entry, usize> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
        last_reader.extend((0..node.num_outputs).map(|k| (entry(i, k), i)));
        last_reader.extend(node.inputs.iter().map(|e| (*e, i)));
    }
    let mut freed = vec![Vec::new(); graph.nodes.len()];
    for (e, reader) in last_reader.into_iter().filter(|(e, _)| !kept.contains(e)) {
        freed[reader].push(e);
    }
    freed
}
