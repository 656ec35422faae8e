//! Compiles a graph and its arrays to a plan: rewrites the graph, schedules its nodes, assigns memory and checks the operands.

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, ForeignFn, Forward, KernelFn};
use ferromx_core::params::{Attrs, NoParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{Call, Region, Req};
use hashbrown::{HashMap, HashSet};

use super::assign_memory::{self, Arenas, Assignment};
use super::chain::ChainDraft;
use super::overlaps::Overlaps;
use super::plan::{Completed, ForeignCall, Kernel, Plan, PlannedNode, Report, Step};
use super::reports::{self, ReportDraft, Reports};
use crate::graph::{Action, Graph, entry};
use crate::passes::chains::{self, Schedule};
use crate::passes::gradient::Trace;
use crate::passes::infer::Entries;
use crate::passes::{common_subexpressions, epilogue, integers};
use crate::symbol::OpCall;
use ferromx_ops::movement;

/// The purpose of a plan, which determines the entries that it computes and the passes that rewrite its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Computes the outputs, in inference mode.
    Inference,
    /// Computes the outputs and the requested gradients.
    Training,
    /// Computes the outputs and gradients without fusion, so that a monitor can report every operator.
    Monitoring,
}

/// A gradient to compute, and the array to write it to.
pub(super) struct Target {
    /// Index of the argument.
    pub arg: usize,
    /// The gradient's entry; `None` if the argument does not influence the outputs.
    pub entry: Option<Entry>,
    /// The gradient array.
    pub array: NDArray,
    /// The request of the gradient.
    pub req: Req,
    /// The variable for the old value of the array, if an operator of the graph adds to it.
    pub old_value: Option<Entry>,
    /// The argument.
    pub variable: Entry,
    /// Whether the array has the shape and type of the argument.
    pub is_like_argument: bool,
}

/// A graph with its shapes, types and arrays, from which plans are compiled.
pub(super) struct Blueprint {
    /// The graph, gradients included.
    pub graph: Graph,
    /// The nodes after these compute gradients.
    pub num_forward_nodes: usize,
    /// The outputs.
    pub outputs: Vec<Entry>,
    /// Shapes of all entries.
    pub shapes: Entries<Shape>,
    /// Types of all entries.
    pub dtypes: Entries<Option<DType>>,
    /// Arrays of variables and outputs.
    pub external: HashMap<Entry, NDArray>,
    /// The gradients.
    pub targets: Vec<Target>,
    /// The contributions to each gradient.
    pub trace: Trace,
}

impl Blueprint {
    /// The inputs and operators of the forward nodes.
    pub(super) fn forward_calls(&self) -> impl Iterator<Item = (&[Entry], &OpCall)> {
        self.graph.nodes[..self.num_forward_nodes].iter().filter_map(|node| match &node.action {
            Action::Forward(op) => Some((&node.inputs[..], op)),
            _ => None,
        })
    }

    /// Compiles a plan. `arenas` are reused for intermediate results if they are large enough.
    ///
    /// # Errors
    /// Operators without a kernel for the device; out of memory.
    pub(super) fn compile(&self, purpose: Purpose, arenas: &Arenas) -> Result<Plan> {
        let targets = if purpose == Purpose::Inference { &[] } else { self.targets.as_slice() };
        let live_out: HashSet<Entry> =
            self.outputs.iter().copied().chain(targets.iter().filter_map(|t| t.entry)).collect();
        let mut graph = self.graph.clone();
        if purpose != Purpose::Monitoring {
            self.rewrite(&mut graph, &live_out, purpose == Purpose::Inference);
        }
        let needed = graph.needed_for(live_out.iter().copied());
        let compiler = Compiler { blueprint: self, graph: &graph, targets, needed: &needed };
        let (schedule, reports) = compiler.schedule(purpose);
        let DirectTargets { arrays, requests } = compiler.direct_targets();
        let mut external = self.external.clone();
        external.extend(arrays);
        let assignment = assign_memory::assign(&assign_memory::MemoryArgs {
            graph: &graph,
            schedule: &schedule,
            shapes: &self.shapes,
            dtypes: &self.dtypes,
            external: &external,
            live_out: &live_out,
            arenas,
            last_reported: reports.as_ref().map(last_reported_steps),
        })?;
        let mut drafts = compiler.drafts(&schedule, &assignment, &requests)?;
        compiler.write_targets(&external, &assignment, &requests, &mut drafts.steps)?;
        let reports = reports.unwrap_or_default();
        let forward_reports = compiler.reports(&reports.forward, &drafts.num_before, &assignment)?;
        let backward_reports = compiler.reports(&reports.backward, &drafts.num_before, &assignment)?;
        let num_forward_steps = drafts.num_forward_steps;
        let completed = compiler.completed(num_forward_steps, &drafts.steps);
        let (region, steps) = compiler.build_steps(drafts.steps)?;
        let arenas = assignment.arenas;
        Ok(Plan { region, steps, num_forward_steps, arenas, completed, forward_reports, backward_reports })
    }

    /// Eliminates common subexpressions, and fuses integer products and epilogues.
    fn rewrite(&self, graph: &mut Graph, live_out: &HashSet<Entry>, is_inference: bool) {
        let mutated = mutated_entries(&self.graph, &self.external);
        let needed = graph.needed_for(live_out.iter().copied());
        common_subexpressions::eliminate(graph, &needed, live_out, &mutated);
        let needed = graph.needed_for(live_out.iter().copied());
        let args = epilogue::EpilogueArgs {
            needed: &needed,
            num_forward_nodes: self.num_forward_nodes,
            shapes: &self.shapes,
            dtypes: &self.dtypes,
            live_out,
            mutated: &mutated,
            is_inference,
        };
        integers::fuse(graph, &args);
        let needed = graph.needed_for(live_out.iter().copied());
        epilogue::fuse(graph, &epilogue::EpilogueArgs { needed: &needed, ..args });
    }
}

/// The entries that an operator mutates and their aliases among the arrays in `external`.
pub(super) fn mutated_entries(graph: &Graph, external: &HashMap<Entry, NDArray>) -> HashSet<Entry> {
    let inputs = graph.nodes.iter().flat_map(|node| node.mutated_inputs().iter().filter_map(|m| node.inputs.get(*m)));
    let mutated: HashSet<Entry> = inputs.copied().collect();
    let memory: Overlaps<Entry> = mutated.iter().filter_map(|e| Some((*e, external.get(e)?))).collect();
    let aliases = external.iter().filter(|(_, array)| memory.overlapping(array).next().is_some()).map(|(e, _)| *e);
    mutated.iter().copied().chain(aliases).collect()
}

/// The error for an operator with dynamic output shapes in a graph that needs a plan.
pub(super) fn no_plan(op: &'static str, node: &str) -> Error {
    let reason = "the shape of its output depends on the values of its inputs, so it cannot be part of a plan: call it imperatively";
    Error::Unsupported(reason.into()).in_operator(op, node)
}

/// The function that a step calls.
#[derive(Clone, Copy)]
enum Callee {
    Kernel(KernelFn),
    Foreign(ForeignFn),
}

/// A call before its operands are checked.
struct CallDraft {
    op: &'static str,
    node: usize,
    callee: Callee,
    params: Params,
    cache: Arc<Cache>,
    ins: Vec<NDArray>,
    outs: Vec<(NDArray, Req)>,
}

/// A step before its operands are checked.
enum StepDraft {
    Single(CallDraft),
    Chain(ChainDraft),
}

impl StepDraft {
    /// Calls a function with the arrays that the step writes.
    fn for_each_written(&self, mut visit: impl FnMut(&NDArray)) {
        match self {
            StepDraft::Single(d) => d.outs.iter().filter(|(_, r)| *r != Req::Null).for_each(|(a, _)| visit(a)),
            StepDraft::Chain(d) => d.written().for_each(visit),
        }
    }
}

/// The drafts of a schedule's steps.
#[derive(Default)]
struct Drafts {
    steps: Vec<StepDraft>,
    num_forward_steps: usize,
    /// The number of drafts before each step of the schedule, since elided nodes have none.
    num_before: Vec<usize>,
}

/// The last step of the schedule after which each entry is reported.
fn last_reported_steps(reports: &Reports) -> HashMap<Entry, usize> {
    let mut last_reported = HashMap::new();
    for report in reports.all() {
        if let (Some(e), Some(step)) = (report.entry, report.after.checked_sub(1)) {
            let last = last_reported.entry(e).or_insert(step);
            *last = step.max(*last);
        }
    }
    last_reported
}

/// The order of gradients in which a backward pass reports that they are complete, as indices into their entries. It depends only on the
/// symbol and the requests, not on shapes and fusion, so that all workers of a job have the same order.
pub(super) fn completion_order(entries: &[Option<Entry>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|i| entries[*i].map_or((u32::MAX, u32::MAX), |e| (e.node, e.index)));
    order
}

/// The kernel and the parameters of an operator.
fn kernel_of(name: &str, attrs: &Attrs) -> Result<(KernelFn, Params)> {
    let call = OpCall::new(name, attrs)?;
    match call.def.kernels.forward {
        Forward::Kernel(kernel) => Ok((kernel, call.params)),
        _ => Err(Error::Internal(format!("{name} has no kernel"))),
    }
}

fn no_params() -> Params {
    Params::new(NoParams {})
}

/// A step that writes `out`. Errors name operator `op` and node `node`.
fn write_step(
    op: &'static str,
    (kernel, params): (KernelFn, Params),
    node: usize,
    ins: Vec<NDArray>,
    out: &NDArray,
) -> StepDraft {
    let (callee, cache, outs) = (Callee::Kernel(kernel), Arc::default(), vec![(out.clone(), Req::Write)]);
    StepDraft::Single(CallDraft { op, node, callee, params, cache, ins, outs })
}

/// The state of compiling one plan.
struct Compiler<'a> {
    blueprint: &'a Blueprint,
    graph: &'a Graph,
    targets: &'a [Target],
    needed: &'a [bool],
}

/// The gradients that a kernel writes directly to their array.
#[derive(Default)]
struct DirectTargets {
    arrays: HashMap<Entry, NDArray>,
    requests: HashMap<Entry, Req>,
}

impl Compiler<'_> {
    /// The order of the nodes, with chains; or if they are monitored, one node per step, and the reports.
    fn schedule(&self, purpose: Purpose) -> (Schedule, Option<Reports>) {
        let Compiler { blueprint, graph, targets, needed } = *self;
        let num_forward_nodes = blueprint.num_forward_nodes;
        if purpose == Purpose::Monitoring {
            let requested: Vec<Entry> = targets.iter().filter(|t| t.entry.is_some()).map(|t| t.variable).collect();
            let (schedule, reports) =
                reports::monitored_schedule(graph, needed, num_forward_nodes, &blueprint.trace, &requested);
            return (schedule, Some(reports));
        }
        let schedule = Schedule::fused(&chains::ChainArgs {
            graph,
            needed,
            num_forward_nodes,
            shapes: &blueprint.shapes,
            dtypes: &blueprint.dtypes,
            mutated: &mutated_entries(graph, &blueprint.external),
        });
        (schedule, None)
    }

    /// Drafts the steps of a schedule.
    fn drafts(&self, schedule: &Schedule, assignment: &Assignment, requests: &HashMap<Entry, Req>) -> Result<Drafts> {
        let mut drafts = Drafts { num_before: vec![0], ..Drafts::default() };
        for step in &schedule.steps {
            match step.as_slice() {
                [i] if assignment.elided[*i] => {}
                [i] => drafts.steps.extend(self.draft(*i, assignment, requests)?.map(StepDraft::Single)),
                nodes => {
                    let chain = ChainDraft::new(self.graph, nodes, &assignment.arrays, &self.blueprint.dtypes)?;
                    drafts.steps.push(StepDraft::Chain(chain));
                }
            }
            if step.last().is_some_and(|i| *i < self.blueprint.num_forward_nodes) {
                drafts.num_forward_steps = drafts.steps.len();
            }
            drafts.num_before.push(drafts.steps.len());
        }
        Ok(drafts)
    }

    /// The gradients that a kernel writes directly to their array. A request to add needs a kernel that accumulates, and a gradient
    /// without other readers.
    fn direct_targets(&self) -> DirectTargets {
        let b = self.blueprint;
        let mut direct = DirectTargets::default();
        let mut memory: Overlaps<Entry> = b.external.iter().map(|(e, array)| (*e, array)).collect();
        let mut num_targets: HashMap<Entry, usize> = HashMap::new();
        self.targets.iter().filter_map(|t| t.entry).for_each(|e| *num_targets.entry(e).or_default() += 1);
        let mut is_read = Entries::new(self.graph, false);
        for (node, _) in self.graph.nodes.iter().zip(self.needed).filter(|(_, needed)| **needed) {
            node.inputs.iter().for_each(|e| is_read[*e] = true);
        }
        for t in self.targets {
            let Some(e) = t.entry else { continue };
            let node = self.graph.node(e);
            let is_compatible = !b.external.contains_key(&e)
                && !direct.arrays.contains_key(&e)
                && (e.node as usize) >= b.num_forward_nodes
                && b.shapes[e] == *t.array.shape()
                && b.dtypes[e] == Some(t.array.dtype())
                && node.context == t.array.context()
                && memory.overlapping(&t.array).all(|other| Some(other) == t.old_value);
            let can_write = if t.req == Req::Add {
                !is_read[e] && node.accumulates() && num_targets.get(&e) == Some(&1)
            } else {
                !node.is_view()
            };
            if is_compatible && can_write {
                memory.insert(e, &t.array);
                direct.arrays.insert(e, t.array.clone());
                direct.requests.insert(e, t.req);
            }
        }
        direct
    }

    /// The call of node `i`; `None` for a variable.
    fn draft(&self, i: usize, assignment: &Assignment, requests: &HashMap<Entry, Req>) -> Result<Option<CallDraft>> {
        let node = &self.graph.nodes[i];
        let mut fused_params = None;
        let cache = &node.cache;
        let (op, callee, mutates, cache): (_, _, &[usize], _) = match &node.action {
            Action::Variable => return Ok(None),
            Action::Fused { op, kernel, params } => {
                fused_params = Some(params.clone());
                (op, Callee::Kernel(*kernel), &[], cache)
            }
            Action::Forward(op) => match op.def.forward_on(node.context.device_type)? {
                Forward::Kernel(k) => (op, Callee::Kernel(k), op.mutated(), cache),
                Forward::View => (op, Callee::Kernel(movement::copy), &[], cache),
                Forward::Foreign(f) => (op, Callee::Foreign(f), &[], cache),
                Forward::Dynamic(_) => return Err(no_plan(op.name, &node.name)),
            },
            Action::Backward { of, op, backward } => match backward.foreign {
                Some(f) => (op, Callee::Foreign(f), &[], &self.graph.nodes[*of as usize].cache),
                None => (op, Callee::Kernel(backward.kernel), backward.updates, cache),
            },
        };
        let array_of = |e: &Entry| {
            assignment.arrays[*e]
                .clone()
                .ok_or_else(|| Error::Internal(format!("an input of {} has no memory", node.name)))
        };
        let read = if node.is_view() { &node.inputs[..1] } else { &node.inputs[..] };
        let ins: Vec<NDArray> = read.iter().map(array_of).collect::<Result<_>>()?;
        let mut outs = Vec::new();
        for k in 0..node.num_outputs {
            let e = entry(i, k);
            match &assignment.arrays[e] {
                Some(a) => outs.push((a.clone(), requests.get(&e).copied().unwrap_or(Req::Write))),
                None if matches!(callee, Callee::Foreign(_)) => outs.push((self.zeros_for(e)?, Req::Null)),
                None => outs.push((self.placeholder_for(e, &assignment.arenas)?, Req::Null)),
            }
        }
        outs.extend(mutates.iter().filter_map(|m| Some((ins.get(*m)?.clone(), Req::Write))));
        let params = fused_params.unwrap_or_else(|| op.params.clone());
        Ok(Some(CallDraft { op: op.name, node: i, callee, params, cache: cache.clone(), ins, outs }))
    }

    /// A placeholder for an output without readers, with the shape and type of the entry. Kernels never access it, so it may alias the
    /// arena.
    fn placeholder_for(&self, e: Entry, arenas: &Arenas) -> Result<NDArray> {
        let (shape, dtype) = (&self.blueprint.shapes[e], self.blueprint.dtypes[e].unwrap_or(DType::F32));
        let context = self.graph.node(e).context;
        let view = arenas.get(&context).and_then(|arena| NDArray::view(arena.clone(), 0, shape.clone(), dtype).ok());
        view.map_or_else(|| NDArray::empty(shape, dtype, context), Ok)
    }

    /// Resolves the arrays and the steps of reports.
    fn reports(
        &self,
        drafts: &[ReportDraft],
        num_drafts_before: &[usize],
        assignment: &Assignment,
    ) -> Result<Vec<Report>> {
        let resolve = |draft: &ReportDraft| {
            let array = match draft.entry.and_then(|e| assignment.arrays[e].clone()) {
                Some(array) => array,
                None => self.zeros_for(draft.like)?,
            };
            let after = num_drafts_before.get(draft.after).copied().unwrap_or_default();
            Ok(Report { after, name: draft.name.clone(), array, is_input: draft.is_input })
        };
        drafts.iter().map(resolve).collect()
    }

    /// Zeros with the shape and type of an entry: for an output without readers that a foreign function may write, or a gradient that is
    /// reported but not requested.
    fn zeros_for(&self, e: Entry) -> Result<NDArray> {
        let dtype = self.blueprint.dtypes[e].unwrap_or(DType::F32);
        NDArray::zeros(&self.blueprint.shapes[e], dtype, self.graph.node(e).context)
    }

    /// Adds copies and additions for gradients that no kernel writes directly to their array.
    fn write_targets(
        &self,
        external: &HashMap<Entry, NDArray>,
        assignment: &Assignment,
        requests: &HashMap<Entry, Req>,
        drafts: &mut Vec<StepDraft>,
    ) -> Result<()> {
        for t in self.targets {
            match t.entry {
                Some(e) => {
                    let is_direct = requests.contains_key(&e)
                        && external[&e].byte_range() == t.array.byte_range()
                        && Arc::ptr_eq(external[&e].chunk(), t.array.chunk());
                    if !is_direct {
                        self.write_target(t, e, assignment, drafts)?;
                    }
                }
                None if t.req == Req::Add => {}
                None => drafts.push(write_step("_zeros", (movement::zeros, no_params()), 0, Vec::new(), &t.array)),
            }
        }
        Ok(())
    }

    /// Adds the steps that convert the gradient `e` to the shape and type of its array, and copy it there or add it.
    fn write_target(
        &self,
        target: &Target,
        e: Entry,
        assignment: &Assignment,
        drafts: &mut Vec<StepDraft>,
    ) -> Result<()> {
        let array = &target.array;
        let no_memory = || Error::Internal(format!("the gradient {} has no memory", self.graph.node(e).name));
        let mut source = assignment.arrays[e].clone().ok_or_else(no_memory)?.reshape(array.shape())?;
        let node = e.node as usize;
        if source.dtype() != array.dtype() {
            let attrs = Attrs::from([("dtype".to_string(), array.dtype().to_string())]);
            let converted = NDArray::empty(array.shape(), array.dtype(), array.context())?;
            drafts.push(write_step("Cast", kernel_of("Cast", &attrs)?, node, vec![source], &converted));
            source = converted;
        }
        drafts.push(match target.req {
            Req::Add => {
                let add = kernel_of("_grad_add", &Attrs::new())?;
                write_step("_grad_add", add, node, vec![array.clone(), source], array)
            }
            _ => write_step("_copy", (movement::copy, no_params()), node, vec![source], array),
        });
        Ok(())
    }

    /// For each gradient, the number of steps after which no step writes to its array.
    fn completed(&self, num_forward_steps: usize, drafts: &[StepDraft]) -> Vec<Completed> {
        let memory: Overlaps<usize> = self.targets.iter().map(|t| &t.array).enumerate().collect();
        let mut after = vec![num_forward_steps; self.targets.len()];
        for (i, draft) in drafts.iter().enumerate().skip(num_forward_steps) {
            draft.for_each_written(|array| memory.overlapping(array).for_each(|t| after[t] = i + 1));
        }
        let entries: Vec<_> = self.targets.iter().map(|t| t.entry).collect();
        let mut num_steps = num_forward_steps;
        (completion_order(&entries).into_iter())
            .map(|t| {
                // Report in the common order, even if this plan computes a later gradient first.
                num_steps = num_steps.max(after[t]);
                Completed { after: num_steps, arg: self.targets[t].arg }
            })
            .collect()
    }

    /// Checks the operands of all steps and collects their chunks in one region.
    fn build_steps(&self, drafts: Vec<StepDraft>) -> Result<(Region, Vec<Step>)> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for draft in &drafts {
            match draft {
                StepDraft::Single(CallDraft { callee: Callee::Foreign(_), .. }) => {}
                StepDraft::Single(d) => {
                    reads.extend(&d.ins);
                    writes.extend(d.outs.iter().filter(|(_, r)| *r != Req::Null).map(|(a, _)| a));
                }
                StepDraft::Chain(d) => {
                    reads.extend(&d.arrays);
                    writes.extend(d.written());
                }
            }
        }
        let region = Region::new(reads, writes);
        let steps = drafts
            .into_iter()
            .map(|draft| match draft {
                StepDraft::Single(d) => self.build_step(d, &region),
                StepDraft::Chain(d) => d.build(self.graph, &region),
            })
            .collect::<Result<_>>()?;
        Ok((region, steps))
    }

    fn build_step(&self, d: CallDraft, region: &Region) -> Result<Step> {
        let node = &self.graph.nodes[d.node];
        let planned = PlannedNode::new(node, d.op, d.params, d.cache);
        Ok(match d.callee {
            Callee::Kernel(kernel) => {
                let call = Call::new(region, &d.ins, d.outs.iter().map(|(a, r)| (a, *r)))
                    .map_err(|e| e.in_operator(d.op, &node.name))?;
                Step::Single(Kernel { node: planned, kernel }, Box::new(call))
            }
            Callee::Foreign(function) => {
                let (ins, (outs, reqs)) = (d.ins.clone(), d.outs.iter().cloned().unzip());
                let title = node.op().map_or(d.op, OpCall::title).to_string();
                Step::Foreign(ForeignCall { node: planned, title, function, ins, outs, reqs })
            }
        })
    }
}
