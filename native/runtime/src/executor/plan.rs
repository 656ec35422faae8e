//! The plan of a bound graph: kernels with checked operands, in order of execution.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, ForeignFn, KernelFn, Mode, OpCtx};
use ferromx_core::params::Params;
use ferromx_core::storage::{Access, Blocks, Call, Chain, In, LoopRecorder, Out, Region, RegionGuard, Req};
use ferromx_kernels::par;
use parking_lot::Mutex;

use super::assign_memory::Arenas;
use super::{InstalledMonitor, OnComplete};
use crate::graph::GraphNode;
use crate::imperative::unrecorded;
use crate::{profiler, random};

/// A node of the plan, with the part of the operator's context that all runs share.
pub(super) struct PlannedNode {
    /// The name of the node.
    pub name: String,
    /// The name of the operator.
    pub op: &'static str,
    /// The name in profiles.
    profiled_name: String,
    params: Params,
    /// State that the node keeps between runs.
    cache: Arc<Cache>,
    context: Context,
}

impl PlannedNode {
    /// A node that runs `op` with these parameters. A gradient node shares the cache of its forward node.
    pub(super) fn new(node: &GraphNode, op: &'static str, params: Params, cache: Arc<Cache>) -> PlannedNode {
        let (name, profiled_name) = (node.name.clone(), node.profiled_name());
        PlannedNode { name, op, profiled_name, params, cache, context: node.context }
    }

    fn op_ctx<'a>(&'a self, mode: Mode, recorder: Option<&'a LoopRecorder>) -> OpCtx<'a> {
        OpCtx {
            op: self.op,
            params: &self.params,
            is_train: mode.is_training(),
            random: random::source(self.context),
            cache: Some(&self.cache),
            context: self.context,
            recorder,
        }
    }
}

/// A node that calls a kernel.
pub(super) struct Kernel {
    /// The node.
    pub node: PlannedNode,
    /// The kernel.
    pub kernel: KernelFn,
}

impl Kernel {
    fn run(&self, mode: Mode, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
        self.call(None, mode, ins, outs)
    }

    /// Runs the kernel, or lets it record its loops.
    fn call(&self, recorder: Option<&LoopRecorder>, mode: Mode, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
        let PlannedNode { op, name, .. } = &self.node;
        (self.kernel)(&self.node.op_ctx(mode, recorder), ins, outs).map_err(|e| e.in_operator(op, name))
    }
}

/// A node that calls a foreign function, such as a user operator. It runs without the plan's locks, because it may use any array.
pub(super) struct ForeignCall {
    /// The node.
    pub node: PlannedNode,
    /// The operator name in messages: for a user operator, the name that it is registered under.
    pub title: String,
    /// The function.
    pub function: ForeignFn,
    /// Inputs.
    pub ins: Vec<NDArray>,
    /// Outputs.
    pub outs: Vec<NDArray>,
    /// The request of each output.
    pub reqs: Vec<Req>,
}

impl ForeignCall {
    fn run(&self, mode: Mode) -> Result<()> {
        let ctx = self.node.op_ctx(mode, None);
        unrecorded(mode, || (self.function)(&ctx, &self.ins, &self.outs, &self.reqs))
            .map_err(|e| e.in_operator(&self.title, &self.node.name))
    }
}

/// A step of the plan.
pub(super) enum Step {
    /// Calls a kernel.
    Single(Kernel, Box<Call>),
    /// Calls several kernels block by block.
    Chain(Vec<Kernel>, Chain),
    /// Calls a foreign function.
    Foreign(ForeignCall),
}

/// An array that is reported to a monitor.
pub(super) struct Report {
    /// Number of steps that run before the report.
    pub after: usize,
    /// The name.
    pub name: String,
    /// The array.
    pub array: NDArray,
    /// Whether it is an input of the operator that ran.
    pub is_input: bool,
}

/// A gradient that is complete after some steps.
#[derive(Clone, Copy)]
pub(super) struct Completed {
    /// Number of steps that run before.
    pub after: usize,
    /// Index of the argument.
    pub arg: usize,
}

impl Step {
    /// Operator and node of every call in the step.
    fn calls(&self) -> Vec<String> {
        let call = |op: &str, node: &str| format!("{op} '{node}'");
        match self {
            Step::Single(kernel, _) => vec![call(kernel.node.op, &kernel.node.name)],
            Step::Chain(kernels, _) => kernels.iter().map(|k| call(k.node.op, &k.node.name)).collect(),
            Step::Foreign(foreign) => vec![call(&foreign.title, &foreign.node.name)],
        }
    }

    fn is_foreign(&self) -> bool {
        matches!(self, Step::Foreign(_))
    }

    /// The name in profiles: that of the operator, or of all operators of a chain.
    fn profiled_name(&self) -> String {
        match self {
            Step::Single(kernel, _) => kernel.node.profiled_name.clone(),
            Step::Chain(kernels, _) => kernels.iter().map(|k| &*k.node.profiled_name).collect::<Vec<_>>().join("+"),
            Step::Foreign(call) => call.node.profiled_name.clone(),
        }
    }

    fn run(&self, guard: &mut RegionGuard<'_>, mode: Mode) -> Result<()> {
        let _measured = profiler::symbolic(|| self.profiled_name());
        match self {
            Step::Single(kernel, call) => call.with(guard, |ins, outs| kernel.run(mode, ins, outs)),
            Step::Chain(kernels, chain) => run_chain(kernels, chain, guard, mode),
            Step::Foreign(_) => Err(Error::Internal("a foreign function was called under the plan's locks".into())),
        }
    }
}

/// Elements to compute per thread before a chain uses another thread.
const ELEMENTS_PER_THREAD: usize = 1 << 15;

fn run_chain(kernels: &[Kernel], chain: &Chain, guard: &mut RegionGuard<'_>, mode: Mode) -> Result<()> {
    let blocks = chain.blocks(guard)?;
    if blocks.is_unrecorded() {
        par::with_scratch(chain.scratch_bytes(), |scratch: &mut [u8]| {
            blocks.record(scratch, |i, recorder, ins, outs| kernels[i].call(Some(recorder), mode, ins, outs))
        })?;
    }
    let failure = Mutex::new(None);
    let threads =
        (kernels.len() * chain.len()).div_ceil(ELEMENTS_PER_THREAD).min(blocks.num_runs()).min(par::num_threads());
    par::parallel_for(threads, |_| {
        par::with_scratch(chain.scratch_bytes(), |scratch: &mut [u8]| {
            if let Err(error) = run_blocks(kernels, chain, &blocks, scratch, mode) {
                failure.lock().get_or_insert(error);
            }
        });
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// Runs the chain on the blocks that this thread takes.
fn run_blocks(kernels: &[Kernel], chain: &Chain, blocks: &Blocks<'_>, scratch: &mut [u8], mode: Mode) -> Result<()> {
    chain.fill_constants(scratch)?;
    for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
        for (i, kernel) in kernels.iter().enumerate() {
            if !block.repeat(i, scratch)? {
                block.call(i, scratch, |ins, outs| kernel.run(mode, ins, outs))?;
            }
        }
    }
    Ok(())
}

/// The direction of a run.
#[derive(Clone, Copy)]
enum Pass {
    Forward,
    Backward,
}

/// The steps and the locks that they run under.
pub(super) struct Plan {
    /// Every chunk that a kernel reads or writes.
    pub region: Region,
    /// The steps, forward steps first.
    pub steps: Vec<Step>,
    /// Number of forward steps.
    pub num_forward_steps: usize,
    /// Memory for intermediate results.
    pub arenas: Arenas,
    /// The requested gradients, in order of steps.
    pub completed: Vec<Completed>,
    /// The reports of a forward pass to a monitor.
    pub forward_reports: Vec<Report>,
    /// The reports of a backward pass to a monitor.
    pub backward_reports: Vec<Report>,
}

impl Plan {
    /// Runs the forward steps.
    pub(super) fn forward(&mut self, mode: Mode, monitor: Option<&InstalledMonitor>) -> Result<()> {
        match monitor {
            None => self.run(0..self.num_forward_steps, mode),
            Some(monitor) => self.run_monitored(0..self.num_forward_steps, mode, Pass::Forward, monitor),
        }
    }

    /// True if no step writes to `old`, a kernel reads it unless there are no gradient steps, and no kernel accesses `new`.
    pub(super) fn can_replace(&self, old: &NDArray, new: &NDArray) -> bool {
        let is_read = self.region.covers(old, Access::Read) || self.num_forward_steps == self.steps.len();
        is_read && !self.region.covers(old, Access::Write) && !self.region.covers(new, Access::Read)
    }

    /// Lets the steps read `new` instead of `old`; see [`Plan::can_replace`].
    pub(super) fn replace(&mut self, old: &NDArray, new: &NDArray) {
        let Some(replacement) = self.region.replace(old, new) else { return };
        for step in &mut self.steps {
            match step {
                Step::Single(_, call) => call.replace(&replacement),
                Step::Chain(_, chain) => chain.replace(&replacement),
                Step::Foreign(call) => call.ins.iter_mut().for_each(|array| replacement.apply(array)),
            }
        }
        let reports = self.forward_reports.iter_mut().chain(&mut self.backward_reports);
        reports.for_each(|report| replacement.apply(&mut report.array));
    }

    /// Runs one forward step in inference mode and returns the number of remaining steps.
    pub(super) fn partial_forward(&mut self, step: usize, monitor: Option<&InstalledMonitor>) -> Result<usize> {
        if step >= self.num_forward_steps {
            return Ok(0);
        }
        match monitor {
            None => self.run(step..step + 1, Mode::Inference)?,
            Some(monitor) => self.run_monitored(step..step + 1, Mode::Inference, Pass::Forward, monitor)?,
        }
        Ok(self.num_forward_steps - step - 1)
    }

    /// Runs the gradient steps. Without a monitor, `on_complete` is called between the steps, and after all of them otherwise.
    pub(super) fn backward(
        &mut self,
        mode: Mode,
        monitor: Option<&InstalledMonitor>,
        on_complete: Option<OnComplete<'_>>,
    ) -> Result<()> {
        let steps = self.num_forward_steps..self.steps.len();
        match (monitor, on_complete) {
            (None, None) => self.run(steps, mode),
            (None, Some(on_complete)) => self.run_reporting(steps, mode, on_complete),
            (Some(monitor), on_complete) => {
                self.run_monitored(steps, mode, Pass::Backward, monitor)?;
                on_complete.map_or(Ok(()), |report| self.completed.iter().try_for_each(|gradient| report(gradient.arg)))
            }
        }
    }

    /// Runs steps and reports each gradient when it is complete.
    fn run_reporting(&mut self, steps: Range<usize>, mode: Mode, on_complete: OnComplete<'_>) -> Result<()> {
        let mut start = steps.start;
        for i in 0..self.completed.len() {
            let Completed { after, arg } = self.completed[i];
            if start < after {
                self.run(start..after, mode)?;
                start = after;
            }
            on_complete(arg)?;
        }
        self.run(start..steps.end, mode)
    }

    fn run(&mut self, range: Range<usize>, mode: Mode) -> Result<()> {
        // Consecutive kernels share one lock; each foreign call is its own group.
        for group in self.steps[range].chunk_by(|a, b| !a.is_foreign() && !b.is_foreign()) {
            run_group(&mut self.region, group, mode)?;
        }
        Ok(())
    }

    fn run_monitored(&mut self, range: Range<usize>, mode: Mode, pass: Pass, monitor: &InstalledMonitor) -> Result<()> {
        let reports = match pass {
            // The reports before this step were made when the previous step ran.
            Pass::Forward if range.start > 0 => {
                &self.forward_reports[self.forward_reports.partition_point(|r| r.after <= range.start)..]
            }
            Pass::Forward => self.forward_reports.as_slice(),
            Pass::Backward => &self.backward_reports,
        };
        let mut reports = reports.iter().filter(|r| monitor.monitor_all || !r.is_input).peekable();
        for i in range.start..=range.end {
            // The locks are released before the monitor runs, because it may use the same arrays.
            while let Some(report) = reports.next_if(|r| r.after <= i) {
                (monitor.callback)(&report.name, report.array.to_context(report.array.context())?.into());
            }
            if i < range.end {
                run_group(&mut self.region, &self.steps[i..=i], mode)?;
            }
        }
        Ok(())
    }

    /// Lists the steps and the memory.
    pub(super) fn describe(&self) -> String {
        let mut s = String::new();
        let _ = writeln!(
            s,
            "Plan: {} forward and {} gradient steps",
            self.num_forward_steps,
            self.steps.len() - self.num_forward_steps
        );
        for (i, step) in self.steps.iter().enumerate() {
            let _ = writeln!(s, "{i:4} {}", step.calls().join(", "));
        }
        s.push_str(&memory_lines(self.arenas.values().map(|arena| arena.bytes()).sum()));
        s
    }
}

/// The last two lines of a listing, which MXNet's Python front end parses.
fn memory_lines(bytes: usize) -> String {
    format!("Total {} MB allocated\nTotal 0 TempSpace resource requested\n", bytes >> 20)
}

/// Describes an executor without a plan.
pub(super) fn describe_stepwise() -> String {
    format!("Runs operator by operator, since arrays are sparse or shapes depend on contents\n{}", memory_lines(0))
}

/// Runs one foreign call without the locks, or several kernels under one lock.
fn run_group(region: &mut Region, group: &[Step], mode: Mode) -> Result<()> {
    if let [step @ Step::Foreign(call)] = group {
        let _measured = profiler::symbolic(|| step.profiled_name());
        return call.run(mode);
    }
    let mut guard = region.lock();
    group.iter().try_for_each(|step| step.run(&mut guard, mode))
}
