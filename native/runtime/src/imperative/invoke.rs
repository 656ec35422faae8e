//! Runs one operator on arrays.

use std::collections::HashSet;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, ForeignFn, Forward, KernelFn, Mode, OpCtx};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{Req, call_once, overlap};
use smallvec::SmallVec;

use super::failures;
use super::mode::unrecorded;
use crate::arrays;
use crate::passes::infer::shapes_without_inputs;
use crate::symbol::OpCall;
use ferromx_ops::movement;

/// A list of arrays, inline while it is short.
pub type Arrays = SmallVec<[NDArray; 4]>;

/// An operator and how to run it.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// The operator with its parameters.
    pub op: &'a OpCall,
    /// The device of operators without inputs; `None` for that of the first output, or the default.
    pub context: Option<Context>,
    /// Training or inference.
    pub mode: Mode,
    /// State that the operator keeps for its gradient.
    pub cache: Option<&'a Cache>,
}

/// Runs an operator in inference mode: see [`Invocation::run`].
///
/// # Errors
/// See [`Invocation::run`].
pub fn invoke(op: &OpCall, context: Option<Context>, inputs: &[NDArray], outputs: &mut Arrays) -> Result<()> {
    Invocation { op, context, mode: Mode::Inference, cache: None }.run(inputs, outputs)
}

impl Invocation<'_> {
    /// Runs the operator. The first outputs are written to the arrays in `outputs`; new arrays are appended for the others, including
    /// hidden ones.
    ///
    /// # Errors
    /// Wrong number of arrays, incompatible shapes and types, errors of the kernel; all with the operator's name.
    pub fn run(self, inputs: &[NDArray], outputs: &mut Arrays) -> Result<()> {
        let Invocation { op, context, mode, cache } = self;
        let locate = |e| op.locate(e, op.title(), inputs.len());
        let context = prepare(op, context, inputs, outputs).map_err(locate)?;
        let ctx = op.ctx(context, mode, cache);
        if let Forward::Dynamic(f) = op.def.kernels.forward {
            // The output shapes depend on the values of the inputs.
            inputs.iter().try_for_each(failures::wait)?;
            let results = f(&OpCtx { cache: None, ..ctx }, inputs);
            return results.and_then(|results| store_dynamic_outputs(results, outputs)).map_err(locate);
        }
        if let Some((array, value)) = op.def.filled(&op.params).and_then(|(i, value)| Some((inputs.get(i)?, value))) {
            arrays::fill(array, value)?;
        }
        let outputs: &[NDArray] = outputs;
        let written = outputs.iter().chain(op.mutated().iter().filter_map(|i| inputs.get(*i)));
        failures::run(inputs, written, || execute(op, &ctx, inputs, outputs).map_err(locate))
    }
}

/// Checks a call, allocates missing outputs if their shapes can be inferred, and returns the device.
fn prepare(op: &OpCall, context: Option<Context>, inputs: &[NDArray], outs: &mut Arrays) -> Result<Context> {
    let def = op.def;
    def.check_runnable(&op.params)?;
    check_inputs(op, inputs.len())?;
    let context = match inputs.first() {
        // CPU devices share memory, so inputs on several of them need no copies.
        Some(first) => first.context().for_results(),
        None => context.or_else(|| outs.first().map(NDArray::context)).unwrap_or_default(),
    };
    let n = def.num_outputs(&op.params);
    ensure!(outs.len() <= n, "{} output arrays were given, but there are {n} outputs", outs.len());
    if !matches!(def.forward_on(context.device_type)?, Forward::Dynamic(_)) {
        infer(op, context, inputs, outs, n)?;
    }
    Ok(context)
}

/// Runs an operator whose outputs are all allocated.
fn execute(op: &OpCall, ctx: &OpCtx<'_>, inputs: &[NDArray], outs: &[NDArray]) -> Result<()> {
    let def = op.def;
    let (kernel, mutates): (KernelFn, &[usize]) = match def.forward_on(ctx.context.device_type)? {
        Forward::Kernel(kernel) => (kernel, op.mutated()),
        Forward::View => (movement::copy, &[]),
        Forward::Dynamic(_) => return Err(Error::Internal("a dynamic operator has no kernel".into())),
        Forward::Foreign(f) => return run_foreign(f, ctx, inputs, outs),
    };
    let inputs = if matches!(def.kernels.forward, Forward::View) { &inputs[..1] } else { inputs };
    run(ctx, kernel, (def.kernels.inplace, mutates), inputs, outs)
}

/// Checks the number of inputs.
pub(super) fn check_inputs(op: &OpCall, given: usize) -> Result<()> {
    if let Some(n) = op.def.num_inputs(&op.params) {
        ensure!(
            n == given,
            "Operator {} expects {n} inputs, but got {given} instead: [{}] are expected",
            op.title(),
            op.def.input_names(&op.params, n).join(", ")
        );
    }
    Ok(())
}

/// Runs a foreign function without locks. Inputs that alias an output are copied first.
fn run_foreign(f: ForeignFn, ctx: &OpCtx<'_>, inputs: &[NDArray], outs: &[NDArray]) -> Result<()> {
    outs.iter().try_for_each(NDArray::check_writable)?;
    let mut inputs: Arrays = inputs.iter().cloned().collect();
    for input in inputs.iter_mut().filter(|input| outs.iter().any(|out| overlap(input, out))) {
        *input = input.to_context(ctx.context)?;
    }
    unrecorded(ctx.mode(), || f(ctx, &inputs, outs, &vec![Req::Write; outs.len()]))
}

/// Copies outputs with dynamic shapes to the given arrays, or appends them.
fn store_dynamic_outputs(results: Vec<NDArray>, outs: &mut Arrays) -> Result<()> {
    for (k, array) in results.into_iter().enumerate() {
        let Some(target) = outs.get(k) else {
            outs.push(array);
            continue;
        };
        ensure!(
            target.shape() == array.shape() && target.dtype() == array.dtype(),
            "output {k} is of shape {} and type {}, but an array of shape {} and type {} was given for it: give none, since the \
             shape depends on the values of the inputs",
            array.shape(),
            array.dtype(),
            target.shape(),
            target.dtype()
        );
        target.copy_from(&array)?;
    }
    Ok(())
}

/// Infers shapes and types, checks the given outputs against them, and allocates the missing ones.
fn infer(op: &OpCall, context: Context, inputs: &[NDArray], outs: &mut Arrays, n: usize) -> Result<()> {
    let mut in_shapes: SmallVec<[Shape; 6]> = SmallVec::new();
    in_shapes.extend(inputs.iter().map(|a| a.shape().clone()));
    let mut shapes: SmallVec<[Shape; 4]> = SmallVec::new();
    shapes.extend((0..n).map(|k| outs.get(k).map_or(Shape::unknown(), |a| a.shape().clone())));
    if inputs.is_empty() && !outs.is_empty() {
        // An output array determines the dimensions that the parameters leave unknown.
        shapes_without_inputs(op, &mut shapes)?;
    } else {
        (op.def.inference.shape)(&op.params, &mut ShapeIo { ins: &mut in_shapes, outs: &mut shapes })?;
    }
    if let Some((k, s)) = shapes.iter().enumerate().find(|(_, s)| !s.is_known()) {
        return Err(Error::Value(format!("the shape of output {k} cannot be inferred (known so far: {s})")));
    }
    let mut in_types: SmallVec<[Option<DType>; 6]> = inputs.iter().map(|a| Some(a.dtype())).collect();
    let mut types: SmallVec<[Option<DType>; 4]> = (0..n).map(|k| outs.get(k).map(NDArray::dtype)).collect();
    (op.def.inference.dtype)(&op.params, &mut DTypeIo { ins: &mut in_types, outs: &mut types })?;
    for k in outs.len()..n {
        outs.push(NDArray::empty(&shapes[k], types[k].unwrap_or(DType::F32), context)?);
    }
    Ok(())
}

/// Runs a kernel on arrays. An input that aliases an output is copied first, unless the kernel computes that pair in place. `inplace` and
/// `mutates` are those of the operator.
fn run(
    ctx: &OpCtx<'_>,
    kernel: KernelFn,
    (inplace, mutates): (&[(usize, usize)], &[usize]),
    inputs: &[NDArray],
    outputs: &[NDArray],
) -> Result<()> {
    let chunk = |array: &NDArray| Arc::as_ptr(array.chunk());
    // With many outputs, only those inputs are compared with each that share memory with any.
    let written: Option<HashSet<_>> = (outputs.len() > 16).then(|| outputs.iter().map(chunk).collect());
    let must_copy = |i: usize, input: &NDArray| {
        let may_overlap = written.as_ref().is_none_or(|written| written.contains(&chunk(input)));
        let overlaps_output = may_overlap
            && outputs.iter().enumerate().any(|(k, out)| {
                let is_same_view = input.byte_range() == out.byte_range() && input.dtype() == out.dtype();
                overlap(input, out) && !(is_same_view && inplace.contains(&(i, k)))
            });
        overlaps_output || mutates.iter().any(|m| inputs.get(*m).is_some_and(|state| overlap(input, state)))
    };
    let mut copies: SmallVec<[(usize, NDArray); 1]> = SmallVec::new();
    for (i, input) in inputs.iter().enumerate() {
        if !mutates.contains(&i) && must_copy(i, input) {
            copies.push((i, input.to_context(ctx.context)?));
        }
    }
    let mut ins: SmallVec<[&NDArray; 6]> = inputs.iter().collect();
    copies.iter().for_each(|(i, copy)| ins[*i] = copy);
    let states = mutates.iter().filter_map(|m| inputs.get(*m));
    let outs: SmallVec<[(&NDArray, Req); 4]> = outputs.iter().chain(states).map(|a| (a, Req::Write)).collect();
    let ctx = OpCtx { cache: None, ..*ctx };
    call_once(&ins, &outs, |ins, outs| kernel(&ctx, ins, outs))
}
