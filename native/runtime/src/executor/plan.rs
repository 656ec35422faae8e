//! The flat plan of a bound graph: kernels with checked operands, in order.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, HostFn, KernelFn, OpCtx};
use ferromx_core::params::Params;
use ferromx_core::storage::{Call, Chain, In, Out, Region, RegionGuard, Req};
use ferromx_kernels::par;
use parking_lot::Mutex;

use super::Monitor;
use super::place::Arenas;
use crate::imperative::unrecorded;
use crate::{profiler, random};

/// A kernel with what it is told at every call.
pub struct Kernel {
    /// Operator name.
    pub op: &'static str,
    /// Node name.
    pub node: String,
    /// The kernel.
    pub kernel: KernelFn,
    /// Its parameters.
    pub params: Params,
    /// What the node keeps between runs.
    pub cache: Arc<Cache>,
    /// The device.
    pub context: Context,
}

impl Kernel {
    fn run(&self, is_train: bool, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
        let context = self.context;
        let random = random::device(context);
        let ctx = OpCtx { op: self.op, params: &self.params, is_train, random, cache: Some(&self.cache), context };
        (self.kernel)(&ctx, ins, outs).map_err(|e| e.in_operator(self.op, &self.node))
    }
}

/// A function that runs without the plan's locks, with its arrays.
pub struct Host {
    /// Operator name.
    pub op: &'static str,
    /// The name under which users know it.
    pub title: String,
    /// Node name.
    pub node: String,
    /// The function.
    pub function: HostFn,
    /// Its parameters.
    pub params: Params,
    /// What the node keeps between runs, and between its forward and backward steps.
    pub cache: Arc<Cache>,
    /// Inputs.
    pub ins: Vec<NDArray>,
    /// Outputs.
    pub outs: Vec<NDArray>,
    /// What to do with each output.
    pub reqs: Vec<Req>,
    /// The device.
    pub context: Context,
}

impl Host {
    fn run(&self, is_train: bool) -> Result<()> {
        let context = self.context;
        let random = random::device(context);
        let ctx = OpCtx { op: self.op, params: &self.params, is_train, random, cache: Some(&self.cache), context };
        unrecorded(is_train, || (self.function)(&ctx, &self.ins, &self.outs, &self.reqs))
            .map_err(|e| e.in_operator(&self.title, &self.node))
    }
}

/// What a step does.
pub enum Work {
    /// Calls a kernel.
    One(Kernel, Box<Call>),
    /// Calls several, block by block.
    Chain(Vec<Kernel>, Chain),
    /// Calls a function without the locks.
    Host(Host),
}

/// A step of the plan.
pub struct Step {
    /// What it does.
    pub work: Work,
}

/// An array that a monitor sees.
pub struct Report {
    /// How many steps have run before.
    pub after: usize,
    /// The name.
    pub name: String,
    /// The array.
    pub array: NDArray,
    /// Whether it is an input of the operator that ran.
    pub is_input: bool,
}

impl Step {
    /// Operator and node of everything that the step calls.
    fn calls(&self) -> Vec<String> {
        let call = |op: &str, node: &str| format!("{op} '{node}'");
        match &self.work {
            Work::One(kernel, _) => vec![call(kernel.op, &kernel.node)],
            Work::Chain(kernels, _) => kernels.iter().map(|k| call(k.op, &k.node)).collect(),
            Work::Host(host) => vec![call(&host.title, &host.node)],
        }
    }

    fn is_host(&self) -> bool {
        matches!(self.work, Work::Host(_))
    }

    /// The operators that run, for the profiler.
    fn title(&self) -> String {
        match &self.work {
            Work::One(kernel, _) => kernel.op.into(),
            Work::Chain(kernels, _) => kernels.iter().map(|k| k.op).collect::<Vec<_>>().join("+"),
            Work::Host(host) => host.title.clone(),
        }
    }

    fn run(&self, guard: &mut RegionGuard<'_>, is_train: bool) -> Result<()> {
        let _measured = profiler::symbolic(|| self.title());
        match &self.work {
            Work::One(kernel, call) => call.with(guard, |ins, outs| kernel.run(is_train, ins, outs)),
            Work::Chain(kernels, chain) => run_chain(kernels, chain, guard, is_train),
            Work::Host(_) => Err(Error::Internal("a function that runs without locks was called under them".into())),
        }
    }
}

/// Elements that each member of a chain computes for it to be worth another thread.
const WORTH_A_THREAD: usize = 1 << 15;

fn run_chain(kernels: &[Kernel], chain: &Chain, guard: &mut RegionGuard<'_>, is_train: bool) -> Result<()> {
    let blocks = chain.blocks(guard)?;
    let failure = Mutex::new(None);
    let threads =
        (kernels.len() * chain.len()).div_ceil(WORTH_A_THREAD).min(blocks.stretches()).min(par::num_threads());
    par::parallel_for(threads, |_| {
        par::with_scratch(chain.scratch_bytes(), |scratch: &mut [u8]| {
            for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
                for (i, kernel) in kernels.iter().enumerate() {
                    let run = |ins: &[In<'_>], outs: &mut [Out<'_>]| kernel.run(is_train, ins, outs);
                    if let Err(error) = block.call(i, scratch, run) {
                        failure.lock().get_or_insert(error);
                        return;
                    }
                }
            }
        });
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// Which steps run.
#[derive(Clone, Copy)]
enum Pass {
    Forward,
    Backward,
}

/// All steps, with the locks they run under.
pub struct Plan {
    /// Every chunk that a step touches.
    pub region: Region,
    /// The steps, forward ones first.
    pub steps: Vec<Step>,
    /// How many of the steps are forward ones.
    pub forward_steps: usize,
    /// Memory for intermediate results.
    pub arenas: Arenas,
    /// What a monitor sees of the forward steps.
    pub forward_reports: Vec<Report>,
    /// What a monitor sees of the gradient steps.
    pub backward_reports: Vec<Report>,
}

impl Plan {
    /// Runs the forward steps.
    pub fn forward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        match monitor {
            None => self.run(0..self.forward_steps, is_train),
            Some(monitor) => self.run_monitored(0..self.forward_steps, is_train, Pass::Forward, monitor),
        }
    }

    /// Runs the gradient steps.
    pub fn backward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        let steps = self.forward_steps..self.steps.len();
        match monitor {
            None => self.run(steps, is_train),
            Some(monitor) => self.run_monitored(steps, is_train, Pass::Backward, monitor),
        }
    }

    fn run(&mut self, range: Range<usize>, is_train: bool) -> Result<()> {
        // Steps that take the locks share them; each of the others is a part by itself.
        for part in self.steps[range].chunk_by(|a, b| !a.is_host() && !b.is_host()) {
            run_part(&mut self.region, part, is_train)?;
        }
        Ok(())
    }

    fn run_monitored(
        &mut self,
        range: Range<usize>,
        is_train: bool,
        pass: Pass,
        (monitor, inputs_too): &(Monitor, bool),
    ) -> Result<()> {
        let reports = match pass {
            Pass::Forward => &self.forward_reports,
            Pass::Backward => &self.backward_reports,
        };
        let mut reports = reports.iter().filter(|r| *inputs_too || !r.is_input).peekable();
        for at in range.start..=range.end {
            // The locks are released before the monitor runs, because it may touch the same arrays.
            while let Some(report) = reports.next_if(|r| r.after <= at) {
                monitor(&report.name, report.array.to_context(report.array.context())?);
            }
            if at < range.end {
                run_part(&mut self.region, &self.steps[at..=at], is_train)?;
            }
        }
        Ok(())
    }

    /// The steps and the memory in words. The last two lines are those of MXNet, whose Python front end reads the memory from them.
    pub fn describe(&self) -> String {
        let mut s = String::new();
        let _ = writeln!(
            s,
            "Plan: {} forward and {} gradient steps",
            self.forward_steps,
            self.steps.len() - self.forward_steps
        );
        for (i, step) in self.steps.iter().enumerate() {
            let _ = writeln!(s, "{i:4} {}", step.calls().join(", "));
        }
        let _ = writeln!(
            s,
            "Total {} MB allocated\nTotal 0 TempSpace resource requested",
            self.arenas.values().map(|arena| arena.bytes()).sum::<usize>() >> 20
        );
        s
    }
}

/// Runs a step without the locks, or several under them.
fn run_part(region: &mut Region, part: &[Step], is_train: bool) -> Result<()> {
    if let [step @ Step { work: Work::Host(host), .. }] = part {
        let _measured = profiler::symbolic(|| step.title());
        return host.run(is_train);
    }
    let mut guard = region.lock();
    part.iter().try_for_each(|step| step.run(&mut guard, is_train))
}

/// Copies the first input to the first output, under whatever shape.
pub fn copy_kernel(_: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if ins[0].shared_with().is_none() && outs[0].wanted() {
        outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
    }
    Ok(())
}

/// Sets the first output to zero.
pub fn zero_kernel(_: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    outs[0].bytes_mut()?.fill(0);
    Ok(())
}
