//! `Custom`: operators that users write; see [`ferromx_core::user_op`].

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{ArgDef, Deps, OpCtx, OpDef, StoredNode};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params};
use ferromx_core::storage::Req;
use ferromx_core::user_op::{self, InferredArgs, UserOpBackward, UserOpForward, UserOpInstance, UserOperator};
use parking_lot::ReentrantMutex;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&CUSTOM, &CUSTOM_FUNCTION];

/// Parameters of `Custom`: the user operator that the factory of `op_type` creates from the attributes. For a node of a saved graph
/// whose type is not registered yet, only the numbers of inputs and outputs are known; the type is looked up again when needed.
pub struct CustomParam {
    op_type: String,
    /// The attributes passed to the factory.
    attrs: Attrs,
    operator: OnceLock<Arc<dyn UserOperator>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Indices of the auxiliary states among all inputs.
    states: Vec<usize>,
}

/// Splits off `op_type` and drops graph attributes such as `__ctx_group__`.
fn op_attrs(attrs: &Attrs) -> Result<(String, Attrs)> {
    let op_type = attrs.get("op_type").ok_or_else(|| {
        Error::Param("op_type is missing: give the name under which the operator was registered".into())
    })?;
    let hidden = |k: &str| k.len() > 4 && k.starts_with("__") && k.ends_with("__");
    let rest = attrs.iter().filter(|(k, _)| *k != "op_type" && !hidden(k)).map(|(k, v)| (k.clone(), v.clone()));
    Ok((op_type.clone(), rest.collect()))
}

impl CustomParam {
    fn new(op_type: String, attrs: Attrs, operator: Arc<dyn UserOperator>) -> Result<CustomParam> {
        let (mut inputs, outputs, states) = (operator.inputs(), operator.outputs(), operator.states());
        ensure!(!outputs.is_empty(), "custom operator '{op_type}' names no output: an operator has at least one");
        let n = inputs.len();
        inputs.extend(states);
        let states = (n..inputs.len()).collect();
        Ok(CustomParam { op_type, attrs, operator: OnceLock::from(operator), states, inputs, outputs })
    }

    /// The parameters of a node of a saved graph.
    fn stored(attrs: &Attrs, node: &StoredNode) -> Result<CustomParam> {
        let (op_type, attrs) = op_attrs(attrs)?;
        if let Some(factory) = user_op::lookup(&op_type)? {
            let operator = factory.make(&attrs)?;
            return CustomParam::new(op_type, attrs, operator);
        }
        let outputs = match node.outputs {
            1 => vec!["output".into()],
            n => (0..n).map(|i| format!("output{i}")).collect(),
        };
        let inputs = (0..node.inputs).map(|i| format!("data{i}")).collect();
        Ok(CustomParam { op_type, attrs, operator: OnceLock::new(), inputs, outputs, states: node.states.clone() })
    }

    /// The operator, if its type is registered by now.
    fn registered(&self) -> Result<Option<&Arc<dyn UserOperator>>> {
        if let Some(operator) = self.operator.get() {
            return Ok(Some(operator));
        }
        let Some(factory) = user_op::lookup(&self.op_type)? else { return Ok(None) };
        let made = factory.make(&self.attrs)?;
        let (found, stored) = (
            (made.inputs().len(), made.states().len(), made.outputs().len()),
            (self.inputs.len() - self.states.len(), self.states.len(), self.outputs.len()),
        );
        ensure!(
            found == stored,
            "the operator has {} inputs, {} auxiliary states and {} outputs, but the node of the file has {}, {} and {}: it was saved \
             with another operator of this name",
            found.0,
            found.1,
            found.2,
            stored.0,
            stored.1,
            stored.2
        );
        Ok(Some(self.operator.get_or_init(|| made)))
    }

    fn operator(&self) -> Result<&Arc<dyn UserOperator>> {
        self.registered()?.ok_or_else(|| user_op::unknown(&self.op_type))
    }
}

impl OpParams for CustomParam {
    fn fields() -> Vec<FieldInfo> {
        let doc =
            "The name under which the operator was registered. All other parameters are passed to it as text.".into();
        vec![FieldInfo { name: "op_type", doc, type_string: "string".into() }]
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let (op_type, attrs) = op_attrs(attrs)?;
        let operator = user_op::find(&op_type)?.make(&attrs)?;
        CustomParam::new(op_type, attrs, operator)
    }
}

/// User-defined operators.
pub static CUSTOM: OpDef = OpDef::new("Custom")
    .aliases(&["_npi_Custom"])
    .doc(
        "Runs an operator that was registered under the name `op_type` by a program (MXCustomOpRegister of the C API, Operator.register \
         in Scala, mx.operator.register in Python). The registered operator defines names and numbers of inputs, outputs and auxiliary \
         states, shapes, types, results and gradients.",
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
    .foreign(forward)
    .random()
    .grad(Grad::By(gradient))
    .parse_stored_by(|attrs, node| CustomParam::stored(attrs, node).map(Params::new))
    .title_by(|p| &p.get::<CustomParam>().op_type)
    .reusable_if(|p| p.get::<CustomParam>().operator.get().is_some_and(|operator| operator.is_reusable()))
    .ready_if(|p| p.get::<CustomParam>().operator().map(|_| ()));

/// The gradient computed by the instance.
const BY_INSTANCE: Grad = Grad::Kernel(
    Backward::foreign(backward)
        .ograds_if(|p| reads_output_gradients(p.get::<CustomParam>()))
        .inputs(Deps::All)
        .outputs(Deps::All),
    None,
);

fn gradient(p: &Params) -> Grad {
    match p.get::<CustomParam>().registered() {
        Ok(Some(operator)) if operator.is_composed() => Grad::Compose(compose),
        _ => BY_INSTANCE,
    }
}

fn reads_output_gradients(p: &CustomParam) -> bool {
    p.operator.get().is_none_or(|operator| operator.reads_output_gradients())
}

/// The gradients of the inputs; states have none.
fn compose(graph: &mut dyn GradGraph, node: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
    let p = node.params.get::<CustomParam>();
    let inputs = p.inputs.len() - p.states.len();
    let mut gradients = p.operator()?.compose(graph, node)?;
    ensure!(
        gradients.len() == inputs,
        "the operator composed {} gradients for {inputs} inputs: expected one for each input, None for no gradient",
        gradients.len()
    );
    gradients.resize(p.inputs.len(), None);
    Ok(gradients)
}

/// Checks that inference returned as many items as there are inputs, outputs and states.
fn check<T>(p: &CustomParam, inferred: &InferredArgs<T>, what: &str) -> Result<()> {
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
    let Some(ins) = io.ins.get(..inputs) else { return Ok(()) };
    let Some(operator) = p.registered()? else { return Ok(()) };
    if inputs > 0 && !ins.iter().chain(io.outs.iter()).any(|s| s.ndim_is_known()) {
        return Ok(());
    }
    let inferred = match operator.infer_shape(ins, io.outs) {
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
    let Some(ins) = io.ins.get(..inputs) else { return Ok(()) };
    let Some(operator) = p.registered()? else { return Ok(()) };
    if inputs > 0 && ins.iter().chain(io.outs.iter()).all(Option::is_none) {
        return Ok(());
    }
    let inferred = match operator.infer_dtype(ins, io.outs) {
        Err(_) if ins.contains(&None) => return Ok(()),
        result => result?,
    };
    check(p, &inferred, "types")?;
    let known = |list: Vec<Option<_>>| list.into_iter().enumerate().filter_map(|(i, d)| Some((i, d?)));
    known(inferred.ins).try_for_each(|(i, d)| io.assign_in(i, d))?;
    known(inferred.states).try_for_each(|(i, d)| io.assign_in(inputs + i, d))?;
    known(inferred.outs).try_for_each(|(k, d)| io.assign_out(k, d))
}

/// An instance that one thread uses at a time. Reentrant use is an error, not a deadlock.
type Shared = Arc<ReentrantMutex<RefCell<Box<dyn UserOpInstance>>>>;

/// The cached instance of a node.
#[derive(Default)]
struct Kept(Option<Shared>);

/// The node's instance, created at its first call.
fn instance(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Shared> {
    let kept = ctx.cache.and_then(|cache| cache.with(|kept: &mut Kept| kept.0.clone()));
    if let Some(instance) = kept {
        return Ok(instance);
    }
    let (shapes, dtypes): (Vec<_>, Vec<_>) = ins.iter().map(|a| (a.shape().clone(), a.dtype())).unzip();
    // Created without holding the cache's lock, since user code may call the engine.
    let made = ctx.params::<CustomParam>().operator()?.create(ctx.context, &shapes, &dtypes)?;
    let made: Shared = Arc::new(ReentrantMutex::new(RefCell::new(made)));
    Ok(match ctx.cache {
        Some(cache) => cache.with(|kept: &mut Kept| kept.0.get_or_insert(made).clone()),
        None => made,
    })
}

fn with_instance(shared: &Shared, f: impl FnOnce(&mut dyn UserOpInstance) -> Result<()>) -> Result<()> {
    let guard = shared.lock();
    let Ok(mut instance) = guard.try_borrow_mut() else {
        return Err(Error::value("the operator called itself recursively: an instance runs one call at a time"));
    };
    f(instance.as_mut())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CustomParam>();
    let (ins, states) = ins.split_at(p.inputs.len() - p.states.len());
    states.iter().try_for_each(NDArray::check_writable)?;
    let call = UserOpForward { is_train: ctx.is_train, ins, outs, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.forward(&call))
}

/// Inputs: gradients of the outputs unless the operator is a loss, the inputs with the states, the outputs. Outputs: gradients of the
/// inputs without the states.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CustomParam>();
    let ograds = if reads_output_gradients(p) { p.outputs.len() } else { 0 };
    let (ograds, ins) = ins.split_at(ograds);
    let (ins, outs) = ins.split_at(p.inputs.len());
    let (ins, states) = ins.split_at(p.inputs.len() - p.states.len());
    let call = UserOpBackward { is_train: ctx.is_train, ograds, ins, outs, igrads, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.backward(&call))
}

/// Parameters of `_CustomFunction`: a recorded function with a user-defined gradient.
pub struct FunctionParam {
    instance: Shared,
    inputs: usize,
    outputs: usize,
}

impl FunctionParam {
    /// A function whose `backward` computes the gradients of `inputs` arrays from those of `outputs` arrays.
    pub fn new(function: Box<dyn UserOpInstance>, inputs: usize, outputs: usize) -> FunctionParam {
        FunctionParam { instance: Arc::new(ReentrantMutex::new(RefCell::new(function))), inputs, outputs }
    }
}

impl OpParams for FunctionParam {
    fn fields() -> Vec<FieldInfo> {
        Vec::new()
    }

    fn parse(_: &Attrs) -> Result<Self> {
        Err(Error::Unsupported("it represents a recorded autograd.Function and cannot be called by name".into()))
    }
}

/// Functions on the tape with a user-defined gradient.
pub static CUSTOM_FUNCTION: OpDef = OpDef::new("_CustomFunction")
    .doc("Represents on the tape a function with a user-defined gradient (autograd.Function). It cannot be called by name.")
    .inputs(&[])
    .params::<FunctionParam>()
    .num_inputs_by(|p| p.get::<FunctionParam>().inputs)
    .input_names_by(|p| (0..p.get::<FunctionParam>().inputs).map(|i| format!("data{i}")).collect())
    .outputs(|p| p.get::<FunctionParam>().outputs)
    .shape(|_, _| Ok(()))
    .dtype(|_, _| Ok(()))
    .foreign(|_, _, _, _| Err(Error::Unsupported("the function was computed when it was recorded and cannot run again".into())))
    .random()
    .grad(Grad::Kernel(Backward::foreign(function_backward), None));

fn function_backward(ctx: &OpCtx<'_>, ograds: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let call = UserOpBackward { is_train: ctx.is_train, ograds, ins: &[], outs: &[], igrads, reqs, states: &[] };
    with_instance(&ctx.params::<FunctionParam>().instance, |function| function.backward(&call))
}

#[cfg(test)]
mod tests {
    use ferromx_core::context::Context;
    use ferromx_core::dtype::DType;
    use ferromx_core::shape::Shape;
    use ferromx_core::user_op::UserOpFactory;

    use super::*;

    /// An operator of two inputs and a state, with the shape of the first input.
    struct Test {
        outputs: usize,
    }

    impl UserOperator for Test {
        fn inputs(&self) -> Vec<String> {
            vec!["a".into(), "b".into()]
        }

        fn outputs(&self) -> Vec<String> {
            (0..self.outputs).map(|i| format!("y{i}")).collect()
        }

        fn states(&self) -> Vec<String> {
            vec!["count".into()]
        }

        fn infer_shape(&self, ins: &[Shape], _: &[Shape]) -> Result<InferredArgs<Shape>> {
            ensure!(ins[0].is_known(), "the shape of the first input is unknown");
            Ok(InferredArgs {
                ins: vec![ins[0].clone(); 2],
                outs: vec![ins[0].clone(); self.outputs],
                states: vec![[1].into()],
            })
        }

        fn is_composed(&self) -> bool {
            true
        }

        fn compose(&self, _: &mut dyn GradGraph, node: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
            Ok(vec![Some(node.ograds[0]), None])
        }

        fn create(&self, _: Context, _: &[Shape], _: &[DType]) -> Result<Box<dyn UserOpInstance>> {
            Err(Error::value("the test operator cannot be created"))
        }
    }

    impl UserOpFactory for Test {
        fn make(&self, attrs: &Attrs) -> Result<Arc<dyn UserOperator>> {
            ensure!(!attrs.contains_key("__hidden__"), "attributes of the graph must not reach the operator");
            Ok(Arc::new(Test { outputs: self.outputs }))
        }
    }

    fn attrs(op_type: &str) -> Attrs {
        [("op_type", op_type), ("__hidden__", "1")].map(|(k, v)| (k.to_string(), v.to_string())).into_iter().collect()
    }

    fn shapes(params: &Params, ins: &[Shape]) -> Result<(Vec<Shape>, Vec<Shape>)> {
        let (mut ins, mut outs) = (ins.to_vec(), vec![Shape::unknown()]);
        (CUSTOM.infer_shape)(params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok((ins, outs))
    }

    #[test]
    fn a_saved_node_resolves_once_its_operator_is_registered() {
        let node = StoredNode { inputs: 3, states: vec![2], outputs: 1 };
        let params = CUSTOM.parse_in_file(&attrs("test_waits"), &node).unwrap();
        assert_eq!((CUSTOM.num_inputs(&params), CUSTOM.mutated(&params)), (Some(3), &[2][..]));
        assert_eq!((CUSTOM.title(&params), CUSTOM.output_names(&params)), (Some("test_waits"), vec!["output".into()]));
        let known = [Shape::new(&[2, 3]), Shape::unknown(), Shape::unknown()];
        assert_eq!(shapes(&params, &known).unwrap(), (known.to_vec(), vec![Shape::unknown()]));
        let missing = CUSTOM.ready(&params).unwrap_err().to_string();
        assert!(missing.contains("'test_waits' is not registered"), "{missing}");
        assert!(CUSTOM.parse(&attrs("test_waits")).is_err());

        user_op::register("test_waits", Arc::new(Test { outputs: 1 }));
        CUSTOM.ready(&params).unwrap();
        let (ins, outs) = shapes(&params, &known).unwrap();
        assert_eq!((&ins[1], &ins[2], &outs[0]), (&[2, 3].into(), &[1].into(), &[2, 3].into()));
        assert!(matches!(CUSTOM.gradient(&params), Grad::Compose(_)));
    }

    #[test]
    fn an_operator_that_does_not_match_its_saved_node_is_an_error() {
        let node = StoredNode { inputs: 3, states: vec![2], outputs: 2 };
        let params = CUSTOM.parse_in_file(&attrs("test_does_not_fit"), &node).unwrap();
        user_op::register("test_does_not_fit", Arc::new(Test { outputs: 1 }));
        let error = CUSTOM.ready(&params).unwrap_err().to_string();
        assert!(
            error.contains("2 inputs, 1 auxiliary states and 1 outputs, but the node of the file has 2, 1 and 2"),
            "{error}"
        );
        user_op::register("test_does_not_fit", Arc::new(Test { outputs: 2 }));
        CUSTOM.ready(&params).unwrap();
    }
}
