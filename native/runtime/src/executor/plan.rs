//! The flat plan of a bound graph: kernels with checked operands, in order.

use std::fmt::Write;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, KernelFn, OpCtx};
use ferromx_core::params::Params;
use ferromx_core::storage::{Call, In, Out, Region};

use super::Monitor;
use crate::random;

/// One kernel call of the plan.
pub struct Step {
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
    /// The operands.
    pub call: Call,
    /// Inputs by name, for monitors.
    pub inputs: Vec<(String, NDArray)>,
    /// Visible outputs by name, for monitors.
    pub outputs: Vec<(String, NDArray)>,
}

/// All steps, with the locks they run under.
pub struct Plan {
    /// Every chunk that a step touches.
    pub region: Region,
    /// The steps, forward ones first.
    pub steps: Vec<Step>,
    /// How many of the steps are forward ones.
    pub forward_steps: usize,
    /// Bytes of the arena.
    pub arena: Arc<ferromx_core::storage::Chunk>,
    /// The device.
    pub context: Context,
}

impl Plan {
    /// Runs the forward steps.
    pub fn forward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        self.run(0..self.forward_steps, is_train, monitor)
    }

    /// Runs the gradient steps.
    pub fn backward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        self.run(self.forward_steps..self.steps.len(), is_train, monitor)
    }

    fn run(&mut self, range: std::ops::Range<usize>, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        let random = random::device(self.context);
        let context = self.context;
        let ctx = |step: &Step, run: &mut dyn FnMut(&OpCtx<'_>) -> Result<()>| {
            run(&OpCtx { op: step.op, params: &step.params, is_train, random, cache: Some(&step.cache), context })
                .map_err(|e| e.in_operator(step.op, &step.node))
        };
        let Some((monitor, inputs_too)) = monitor else {
            let mut guard = self.region.lock();
            for step in &self.steps[range] {
                ctx(step, &mut |ctx| step.call.with(&mut guard, |ins, outs| (step.kernel)(ctx, ins, outs)))?;
            }
            return Ok(());
        };
        for step in &self.steps[range] {
            // The locks are released before the monitor runs, because it may touch the same arrays.
            let mut guard = self.region.lock();
            ctx(step, &mut |ctx| step.call.with(&mut guard, |ins, outs| (step.kernel)(ctx, ins, outs)))?;
            drop(guard);
            let inputs = if *inputs_too { step.inputs.as_slice() } else { &[] };
            for (name, array) in inputs.iter().chain(&step.outputs) {
                monitor(name, array.to_context(array.context())?);
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
            let _ = writeln!(s, "{i:4} {} '{}'", step.op, step.node);
        }
        let _ = writeln!(s, "Total {} MB allocated\nTotal 0 TempSpace resource requested", self.arena.bytes() >> 20);
        s
    }
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
