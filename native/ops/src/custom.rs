//! `Custom`: operators that users write; see [`ferromx_core::host`].

use std::cell::RefCell;
use std::sync::Arc;

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::host::{self, HostCall, HostGradient, HostInstance, HostOperator, Inferred};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{ArgDef, Deps, OpCtx, OpDef};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params};
use ferromx_core::storage::Req;
use parking_lot::ReentrantMutex;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&CUSTOM, &CUSTOM_FUNCTION];

/// Parameters of `Custom`: the operator that its type's factory made of the attributes.
pub struct CustomParam {
    operator: Arc<dyn HostOperator>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Positions of the auxiliary states among all inputs.
    states: Vec<usize>,
}

impl OpParams for CustomParam {
    fn fields() -> Vec<FieldInfo> {
        let doc = "The name under which the operator was registered. All other parameters are handed to it as text.";
        vec![FieldInfo { name: "op_type", doc, type_string: "string".into() }]
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let op_type = attrs.get("op_type").ok_or_else(|| {
            Error::Param("op_type is missing: give the name under which the operator was registered".into())
        })?;
        let hidden = |k: &str| k.len() > 4 && k.starts_with("__") && k.ends_with("__");
        let rest = attrs.iter().filter(|(k, _)| *k != "op_type" && !hidden(k)).map(|(k, v)| (k.clone(), v.clone()));
        let operator = host::find(op_type)?.make(&rest.collect())?;
        let (mut inputs, outputs, states) = (operator.inputs(), operator.outputs(), operator.states());
        ensure!(!outputs.is_empty(), "custom operator '{op_type}' names no output: an operator has at least one");
        let n = inputs.len();
        inputs.extend(states);
        Ok(CustomParam { operator, states: (n..inputs.len()).collect(), inputs, outputs })
    }
}

/// User-defined operators.
pub static CUSTOM: OpDef = OpDef::new("Custom")
    .aliases(&["_npi_Custom"])
    .doc(
        "Runs an operator that was registered under the name `op_type` by a program (MXCustomOpRegister of the C API, \
         Operator.register in Scala, mx.operator.register in Python). Names and numbers of inputs, outputs and auxiliary states, \
         shapes, types, results and gradients are the operator's own.",
    )
    .inputs(&[ArgDef {
        name: "data",
        doc: "The inputs, and then the auxiliary states, of the operator.",
        type_string: "NDArray-or-Symbol[]",
    }])
    .params::<CustomParam>()
    .num_inputs_by(|p| p.get::<CustomParam>().inputs.len())
    .input_names_by(|p| p.get::<CustomParam>().inputs.clone())
    .mutates_by(|p| &p.get::<CustomParam>().states)
    .outputs(|p| p.get::<CustomParam>().outputs.len())
    .output_names_by(|p| p.get::<CustomParam>().outputs.clone())
    .shape(infer_shape)
    .dtype(infer_dtype)
    .host(forward)
    .random()
    .grad(Grad::Kernel(
        Backward::host(backward)
            .ograds_if(|p| p.get::<CustomParam>().operator.reads_output_gradients())
            .inputs(Deps::All)
            .outputs(Deps::All),
        None,
    ));

/// Checks that an answer is about as many arrays as there are.
fn check<T>(p: &CustomParam, inferred: &Inferred<T>, what: &str) -> Result<()> {
    let inputs = p.inputs.len() - p.states.len();
    let given = (inferred.ins.len(), inferred.outs.len(), inferred.states.len());
    ensure!(
        given == (inputs, p.outputs.len(), p.states.len()),
        "the operator inferred {what} of {} inputs, {} outputs and {} states, but it has {inputs}, {} and {}",
        given.0,
        given.1,
        given.2,
        p.outputs.len(),
        p.states.len()
    );
    Ok(())
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<CustomParam>();
    let inputs = p.inputs.len() - p.states.len();
    let ins = &io.ins[..inputs];
    if inputs > 0 && !ins.iter().any(|s| s.ndim_is_known()) {
        return Ok(());
    }
    let inferred = match p.operator.infer_shape(ins) {
        Err(_) if !ins.iter().all(|s| s.is_known()) => return Ok(()),
        result => result?,
    };
    check(p, &inferred, "shapes")?;
    inferred.ins.iter().enumerate().try_for_each(|(i, s)| io.assign_in(i, s))?;
    inferred.states.iter().enumerate().try_for_each(|(i, s)| io.assign_in(inputs + i, s))?;
    inferred.outs.iter().enumerate().try_for_each(|(k, s)| io.assign_out(k, s))
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<CustomParam>();
    let inputs = p.inputs.len() - p.states.len();
    let ins = &io.ins[..inputs];
    if inputs > 0 && ins.iter().all(Option::is_none) {
        return Ok(());
    }
    let inferred = match p.operator.infer_dtype(ins) {
        Err(_) if ins.contains(&None) => return Ok(()),
        result => result?,
    };
    check(p, &inferred, "types")?;
    let known = |list: Vec<Option<_>>| list.into_iter().enumerate().filter_map(|(i, d)| Some((i, d?)));
    known(inferred.ins).try_for_each(|(i, d)| io.assign_in(i, d))?;
    known(inferred.states).try_for_each(|(i, d)| io.assign_in(inputs + i, d))?;
    known(inferred.outs).try_for_each(|(k, d)| io.assign_out(k, d))
}

/// An instance that is used by one thread at a time, and not by itself.
type Shared = Arc<ReentrantMutex<RefCell<Box<dyn HostInstance>>>>;

/// The instance of a node.
#[derive(Default)]
struct Kept(Option<Shared>);

/// The node's instance, made at its first call.
fn instance(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Shared> {
    let kept = ctx.cache.and_then(|cache| cache.with(|kept: &mut Kept| kept.0.clone()));
    if let Some(instance) = kept {
        return Ok(instance);
    }
    let (shapes, dtypes): (Vec<_>, Vec<_>) = ins.iter().map(|a| (a.shape().clone(), a.dtype())).unzip();
    // Made without the cache's lock, since the user's code may call the engine.
    let made = ctx.params::<CustomParam>().operator.create(ctx.context, &shapes, &dtypes)?;
    let made: Shared = Arc::new(ReentrantMutex::new(RefCell::new(made)));
    Ok(match ctx.cache {
        Some(cache) => cache.with(|kept: &mut Kept| kept.0.get_or_insert(made).clone()),
        None => made,
    })
}

fn with_instance(shared: &Shared, f: impl FnOnce(&mut dyn HostInstance) -> Result<()>) -> Result<()> {
    let guard = shared.lock();
    let Ok(mut instance) = guard.try_borrow_mut() else {
        return Err(Error::value("the operator ran itself from within: an instance runs one call at a time"));
    };
    f(instance.as_mut())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CustomParam>();
    let (ins, states) = ins.split_at(p.inputs.len() - p.states.len());
    let call = HostCall { is_train: ctx.is_train, ins, outs, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.forward(&call))
}

/// Inputs: gradients of the outputs unless the operator is a loss, the inputs with the states, the outputs. Outputs: gradients of the
/// inputs without the states.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CustomParam>();
    let ograds = if p.operator.reads_output_gradients() { p.outputs.len() } else { 0 };
    let (ograds, ins) = ins.split_at(ograds);
    let (ins, outs) = ins.split_at(p.inputs.len());
    let (ins, states) = ins.split_at(p.inputs.len() - p.states.len());
    let call = HostGradient { is_train: ctx.is_train, ograds, ins, outs, igrads, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.backward(&call))
}

/// Parameters of `_CustomFunction`: the gradient of something that was computed already.
pub struct FunctionParam {
    instance: Shared,
    inputs: usize,
    outputs: usize,
}

impl FunctionParam {
    /// The function whose `backward` gives the gradients of `inputs` arrays from those of `outputs` arrays.
    pub fn new(function: Box<dyn HostInstance>, inputs: usize, outputs: usize) -> FunctionParam {
        FunctionParam { instance: Arc::new(ReentrantMutex::new(RefCell::new(function))), inputs, outputs }
    }
}

impl OpParams for FunctionParam {
    fn fields() -> Vec<FieldInfo> {
        Vec::new()
    }

    fn parse(_: &Attrs) -> Result<Self> {
        Err(Error::Unsupported("it stands for a recorded autograd.Function and cannot be called by name".into()))
    }
}

/// Functions with a gradient of their own, on the tape.
pub static CUSTOM_FUNCTION: OpDef = OpDef::new("_CustomFunction")
    .doc("Stands on the tape for a function whose gradient a program computes (autograd.Function). It cannot be called by name.")
    .inputs(&[])
    .params::<FunctionParam>()
    .num_inputs_by(|p| p.get::<FunctionParam>().inputs)
    .input_names_by(|p| (0..p.get::<FunctionParam>().inputs).map(|i| format!("data{i}")).collect())
    .outputs(|p| p.get::<FunctionParam>().outputs)
    .shape(|_, _| Ok(()))
    .dtype(|_, _| Ok(()))
    .host(|_, _, _, _| Err(Error::Unsupported("the function was computed when it was recorded and cannot run again".into())))
    .random()
    .grad(Grad::Kernel(Backward::host(function_backward), None));

fn function_backward(ctx: &OpCtx<'_>, ograds: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let call = HostGradient { is_train: ctx.is_train, ograds, ins: &[], outs: &[], igrads, reqs, states: &[] };
    with_instance(&ctx.params::<FunctionParam>().instance, |function| function.backward(&call))
}
