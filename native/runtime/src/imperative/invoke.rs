//! Runs one operator on arrays.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Forward, KernelFn, OpCtx};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{Call, Region, Req, overlap};
use smallvec::SmallVec;

use crate::executor::copy_kernel;
use crate::random;
use crate::symbol::OpCall;

/// A list of arrays, short as a rule.
pub type Arrays = SmallVec<[NDArray; 4]>;

/// Runs an operator and returns all its outputs, hidden ones included.
///
/// `outputs` may give arrays to write the visible outputs to; an empty list makes new ones. `context` places the outputs of
/// operators without inputs.
///
/// # Errors
/// Wrong number of arrays, shapes and types that do not fit, arrays on several devices, those of the kernel; all with the
/// operator's name.
pub fn invoke(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[NDArray],
    outputs: &[NDArray],
    is_train: bool,
) -> Result<Arrays> {
    run_op(op, context, inputs, outputs, is_train).map_err(|e| op.locate(e, op.name, inputs.len()))
}

fn run_op(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[NDArray],
    given: &[NDArray],
    is_train: bool,
) -> Result<Arrays> {
    let def = op.def;
    if let Some(n) = def.num_inputs(&op.params) {
        ensure!(
            n == inputs.len(),
            "Input:[{}] was expected, but {} inputs were given",
            def.input_names(&op.params, n).join(", "),
            inputs.len()
        );
    }
    let context = match inputs.first() {
        Some(first) => {
            for a in inputs {
                ensure!(
                    a.context() == first.context(),
                    "inputs are on {} and {}: copy them to one device with asInContext",
                    first.context(),
                    a.context()
                );
            }
            first.context()
        }
        None => context.or_else(|| given.first().map(NDArray::context)).unwrap_or_default(),
    };
    let n = def.num_outputs(&op.params);
    ensure!(given.len() <= n, "{} output arrays were given, but there are {n} outputs", given.len());
    if let Forward::Dynamic(f) = def.forward_on(context.device_type)? {
        let ctx =
            OpCtx { op: op.name, params: &op.params, is_train, random: random::device(context), cache: None, context };
        return place_dynamic(f(&ctx, inputs)?, given);
    }
    let (shapes, dtypes) = infer(op, inputs, given, n)?;
    let mut outs = Arrays::with_capacity(n);
    for k in 0..n {
        outs.push(match given.get(k) {
            Some(a) => a.clone(),
            None => NDArray::empty(&shapes[k], dtypes[k].unwrap_or(DType::F32), context)?,
        });
    }
    let (kernel, mutates): (KernelFn, &[usize]) = match def.forward_on(context.device_type)? {
        Forward::Kernel(kernel) => (kernel, def.mutates),
        Forward::View => (copy_kernel, &[]),
        Forward::Dynamic(_) => return Err(Error::Internal("a dynamic operator has no kernel".into())),
    };
    let inputs = if matches!(def.forward, Forward::View) { &inputs[..1] } else { inputs };
    run(op.name, &op.params, kernel, def.inplace, mutates, inputs, &outs, is_train, context)?;
    Ok(outs)
}

/// Puts outputs whose shapes were not known before into the arrays that were given for them.
fn place_dynamic(made: Vec<NDArray>, given: &[NDArray]) -> Result<Arrays> {
    let mut outs = Arrays::with_capacity(made.len());
    for (k, array) in made.into_iter().enumerate() {
        let Some(target) = given.get(k) else {
            outs.push(array);
            continue;
        };
        ensure!(
            target.shape() == array.shape() && target.dtype() == array.dtype(),
            "output {k} is of shape {} and type {}, but an array of shape {} and type {} was given for it: give none, since the \
             shape depends on the content of the inputs",
            array.shape(),
            array.dtype(),
            target.shape(),
            target.dtype()
        );
        target.copy_from(&array)?;
        outs.push(target.clone());
    }
    Ok(outs)
}

type Inferred = (SmallVec<[Shape; 4]>, SmallVec<[Option<DType>; 4]>);

fn infer(op: &OpCall, inputs: &[NDArray], given: &[NDArray], n: usize) -> Result<Inferred> {
    let mut ins: SmallVec<[Shape; 6]> = inputs.iter().map(|a| a.shape().clone()).collect();
    let mut outs: SmallVec<[Shape; 4]> = given.iter().map(|a| a.shape().clone()).collect();
    outs.resize(n, Shape::unknown());
    (op.def.infer_shape)(&op.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
    if let Some((k, s)) = outs.iter().enumerate().find(|(_, s)| !s.is_known()) {
        return Err(Error::Value(format!("the shape of output {k} cannot be inferred (known so far: {s})")));
    }
    let mut in_types: SmallVec<[Option<DType>; 6]> = inputs.iter().map(|a| Some(a.dtype())).collect();
    let mut out_types: SmallVec<[Option<DType>; 4]> = given.iter().map(|a| Some(a.dtype())).collect();
    out_types.resize(n, None);
    (op.def.infer_dtype)(&op.params, &mut DTypeIo { ins: &mut in_types, outs: &mut out_types })?;
    Ok((outs, out_types))
}

/// Runs a kernel on arrays. An input that overlaps an output is copied first, unless the kernel can work in place on the pair.
pub fn run(
    name: &'static str,
    params: &Params,
    kernel: KernelFn,
    inplace: &[(usize, usize)],
    mutates: &[usize],
    inputs: &[NDArray],
    outputs: &[NDArray],
    is_train: bool,
    context: Context,
) -> Result<()> {
    let mut ins: Arrays = inputs.iter().cloned().collect();
    for i in 0..ins.len() {
        if mutates.contains(&i) {
            continue;
        }
        let clash = outputs.iter().enumerate().any(|(k, out)| {
            let same = ins[i].byte_range() == out.byte_range() && ins[i].dtype() == out.dtype();
            overlap(&ins[i], out) && !(same && inplace.contains(&(i, k)))
        });
        let state = mutates.iter().any(|m| inputs.get(*m).is_some_and(|state| overlap(&ins[i], state)));
        if clash || state {
            ins[i] = ins[i].to_context(context)?;
        }
    }
    let writes: Arrays = outputs.iter().cloned().chain(mutates.iter().filter_map(|m| ins.get(*m).cloned())).collect();
    // An update operator may write its result over one of its states' or inputs' memory; outputs that are mutable inputs too
    // would be written twice.
    let mut region = Region::new(&ins, &writes);
    let call = Call::new(&region, &ins, writes.iter().map(|a| (a, Req::Write)))?;
    let ctx = OpCtx { op: name, params, is_train, random: random::device(context), cache: None, context };
    let mut guard = region.lock();
    call.with(&mut guard, |ins, outs| kernel(&ctx, ins, outs))
}
