//! `Custom`: operators that users write; see [`ferromx_core::user_op`].

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, SparseCall, SparseForm, StoredNode};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use ferromx_core::user_op::{self, InferredArgs, UserOpBackward, UserOpForward, UserOpInstance, UserOperator};
use parking_lot::ReentrantMutex;
use smallvec::SmallVec;

/// The operators of this family.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&CUSTOM, &CUSTOM_FUNCTION];

/// Parameters of `Custom`: the user operator that the factory of `op_type` creates from the attributes. A saved graph can be loaded
/// before its operator types are registered. Its nodes then have placeholder names, and each use looks the type up again.
pub struct CustomParam {
    op_type: String,
    /// The attributes passed to the factory.
    attrs: Attrs,
    operator: OnceLock<Arc<dyn UserOperator>>,
    /// The names of the inputs, then of the auxiliary states.
    input_names: Vec<String>,
    output_names: Vec<String>,
    /// Indices of the auxiliary states among all inputs.
    states: Vec<usize>,
}

/// Separates `op_type` from the operator's own attributes. Attributes of the graph, such as `__ctx_group__`, are dropped.
fn op_attrs(attrs: &Attrs) -> Result<(String, Attrs)> {
    let op_type = attrs.get("op_type").ok_or_else(|| {
        Error::Param("op_type is missing: give the name under which the operator was registered".into())
    })?;
    let is_graph_attr = |k: &str| k.len() > 4 && k.starts_with("__") && k.ends_with("__");
    let rest = attrs.iter().filter(|(k, _)| *k != "op_type" && !is_graph_attr(k)).map(|(k, v)| (k.clone(), v.clone()));
    Ok((op_type.clone(), rest.collect()))
}

impl CustomParam {
    fn new(op_type: String, attrs: Attrs, operator: Arc<dyn UserOperator>) -> Result<CustomParam> {
        let (mut input_names, output_names) = (operator.inputs(), operator.outputs());
        ensure!(!output_names.is_empty(), "custom operator '{op_type}' names no output: an operator has at least one");
        let num_inputs = input_names.len();
        input_names.extend(operator.states());
        let states = (num_inputs..input_names.len()).collect();
        Ok(CustomParam { op_type, attrs, operator: OnceLock::from(operator), input_names, output_names, states })
    }

    /// The parameters of a node of a saved graph.
    fn stored(attrs: &Attrs, node: &StoredNode) -> Result<CustomParam> {
        let (op_type, attrs) = op_attrs(attrs)?;
        if let Some(factory) = user_op::lookup(&op_type)? {
            let operator = factory.make(&attrs)?;
            return CustomParam::new(op_type, attrs, operator);
        }
        let output_names = match node.outputs {
            1 => vec!["output".into()],
            n => (0..n).map(|i| format!("output{i}")).collect(),
        };
        let input_names = (0..node.inputs).map(|i| format!("data{i}")).collect();
        let states = node.states.clone();
        Ok(CustomParam { op_type, attrs, operator: OnceLock::new(), input_names, output_names, states })
    }

    /// The number of inputs without the auxiliary states.
    fn num_data_inputs(&self) -> usize {
        self.input_names.len() - self.states.len()
    }

    /// The operator, or `None` if its type is not registered yet.
    fn registered(&self) -> Result<Option<&Arc<dyn UserOperator>>> {
        if let Some(operator) = self.operator.get() {
            return Ok(Some(operator));
        }
        let Some(factory) = user_op::lookup(&self.op_type)? else { return Ok(None) };
        let operator = factory.make(&self.attrs)?;
        let (found, stored) = (
            (operator.inputs().len(), operator.states().len(), operator.outputs().len()),
            (self.num_data_inputs(), self.states.len(), self.output_names.len()),
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
        Ok(Some(self.operator.get_or_init(|| operator)))
    }

    /// The storage types of the outputs for inputs and states of these types; `None` if no array is sparse, or if the operator expects
    /// dense copies.
    fn output_storage(&self, types: &[StorageType]) -> Result<Option<Vec<StorageType>>> {
        let (Some(operator), Some(ins)) = (self.registered()?, types.get(..self.num_data_inputs())) else {
            return Ok(None);
        };
        let Some(inferred) = operator.infer_storage(ins)? else { return Ok(None) };
        check_inferred(self, &inferred, "storage types")?;
        if let Some(k) = (0..ins.len()).find(|k| inferred.ins[*k] != ins[*k]) {
            let (name, expected, given) = (&self.input_names[k], inferred.ins[k], ins[k]);
            return Err(Error::Value(format!(
                "the operator needs {name} as {expected}, but it is {given}: convert it first"
            )));
        }
        let is_any_sparse = types.iter().chain(&inferred.outs).any(|t| *t != StorageType::Default);
        Ok(is_any_sparse.then_some(inferred.outs))
    }

    /// The storage types of the gradients of the inputs for arrays of these types, in the order of [`Self::split_backward`]; `None` as in
    /// [`Self::output_storage`].
    fn gradient_storage(&self, types: &[StorageType]) -> Result<Option<Vec<StorageType>>> {
        let Some(operator) = self.registered()? else { return Ok(None) };
        let Some([ograds, ins, states, outs]) = self.split_backward(types) else { return Ok(None) };
        let Some(gradients) = operator.infer_gradient_storage(ograds, ins, outs, states)? else { return Ok(None) };
        ensure!(
            gradients.len() == ins.len(),
            "the operator inferred storage types of {} gradients, but it has {} inputs",
            gradients.len(),
            ins.len()
        );
        let is_any_sparse = types.iter().chain(&gradients).any(|t| *t != StorageType::Default);
        Ok(is_any_sparse.then_some(gradients))
    }

    /// True unless the operator has dense gradients if its inputs are dense.
    fn may_have_sparse_gradients(&self) -> bool {
        let dense = vec![StorageType::Default; self.num_ograds() + self.input_names.len() + self.output_names.len()];
        first_storage(self.gradient_storage(&dense)).is_some()
    }

    fn num_ograds(&self) -> usize {
        if reads_output_gradients(self) { self.output_names.len() } else { 0 }
    }

    /// Splits the arrays of a backward call into the gradients of the outputs (none if the operator is a loss), the inputs, the states and
    /// the outputs.
    fn split_backward<'a, T>(&self, all: &'a [T]) -> Option<[&'a [T]; 4]> {
        let (ograds, rest) = all.split_at_checked(self.num_ograds())?;
        let (ins, outs) = rest.split_at_checked(self.input_names.len())?;
        let (ins, states) = ins.split_at_checked(self.num_data_inputs())?;
        Some([ograds, ins, states, outs])
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
pub static CUSTOM: Operator<CustomParam> = Operator::new("Custom")
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
    .num_inputs_by(|p| p.get::<CustomParam>().input_names.len())
    .input_names_by(|p| p.get::<CustomParam>().input_names.clone())
    .mutates_by(|p| &p.get::<CustomParam>().states)
    .outputs(|p| p.get::<CustomParam>().output_names.len())
    .output_names_by(|p| p.get::<CustomParam>().output_names.clone())
    .shape(infer_shape)
    .dtype(infer_dtype)
    .foreign(forward)
    .sparse_form(SparseForm {
        rule: |p, types, _| first_storage(p.get::<CustomParam>().output_storage(types)),
        run: forward_stored,
        of_outputs: Some(|p, types| all_storage(p.get::<CustomParam>().output_storage(types))),
        from_dense: |p| {
            let p = p.get::<CustomParam>();
            first_storage(p.output_storage(&vec![StorageType::Default; p.input_names.len()])).is_some()
        },
    })
    .random()
    .grad(Grad::By(gradient))
    .parse_stored_by(|attrs, node| CustomParam::stored(attrs, node).map(Params::new))
    .title_by(|p| &p.get::<CustomParam>().op_type)
    .reusable_if(|p| p.get::<CustomParam>().operator.get().is_some_and(|operator| operator.is_reusable()))
    .runnable_if(|p| p.get::<CustomParam>().operator().map(|_| ()));

/// The gradient that the operator's `backward` function computes.
const FOREIGN_BACKWARD: Grad = Grad::Kernel(
    Backward::foreign(backward)
        .ograds_if(|p| reads_output_gradients(p.get::<CustomParam>()))
        .inputs(Deps::All)
        .outputs(Deps::All)
        .sparse_form(SparseForm {
            rule: |p, types, _| first_storage(p.get::<CustomParam>().gradient_storage(types)),
            run: backward_stored,
            of_outputs: Some(|p, types| all_storage(p.get::<CustomParam>().gradient_storage(types))),
            from_dense: |p| p.get::<CustomParam>().may_have_sparse_gradients(),
        }),
    None,
);

fn gradient(p: &Params) -> Grad {
    match p.get::<CustomParam>().registered() {
        Ok(Some(operator)) if operator.is_composed() => Grad::Compose(compose),
        _ => FOREIGN_BACKWARD,
    }
}

fn reads_output_gradients(p: &CustomParam) -> bool {
    p.operator.get().is_none_or(|operator| operator.reads_output_gradients())
}

/// The composed gradients of the inputs, with `None` for each auxiliary state.
fn compose(graph: &mut dyn GradGraph, node: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
    let p = node.params.get::<CustomParam>();
    let num_inputs = p.num_data_inputs();
    let mut gradients = p.operator()?.compose(graph, node)?;
    ensure!(
        gradients.len() == num_inputs,
        "the operator composed {} gradients for {num_inputs} inputs: expected one for each input, None for no gradient",
        gradients.len()
    );
    gradients.resize(p.input_names.len(), None);
    Ok(gradients)
}

/// Checks that the user's inference returned one item for each input, output and state.
fn check_inferred<T>(p: &CustomParam, inferred: &InferredArgs<T>, what: &str) -> Result<()> {
    let num_inputs = p.num_data_inputs();
    let given = (inferred.ins.len(), inferred.outs.len(), inferred.states.len());
    ensure!(
        given == (num_inputs, p.output_names.len(), p.states.len()),
        "the operator inferred {what} of {} inputs, {} outputs and {} states, but it has {num_inputs}, {} and {}",
        given.0,
        given.1,
        given.2,
        p.output_names.len(),
        p.states.len()
    );
    Ok(())
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<CustomParam>();
    let num_inputs = p.num_data_inputs();
    let Some(ins) = io.ins.get(..num_inputs) else { return Ok(()) };
    let Some(operator) = p.registered()? else { return Ok(()) };
    if num_inputs > 0 && !ins.iter().chain(io.outs.iter()).any(|s| s.ndim_is_known()) {
        return Ok(());
    }
    let inferred = match operator.infer_shape(ins, io.outs) {
        Err(_) if !ins.iter().all(|s| s.is_known()) => return Ok(()),
        result => result?,
    };
    check_inferred(p, &inferred, "shapes")?;
    inferred.ins.iter().enumerate().try_for_each(|(i, s)| io.assign_in(i, s))?;
    inferred.states.iter().enumerate().try_for_each(|(i, s)| io.assign_in(num_inputs + i, s))?;
    inferred.outs.iter().enumerate().try_for_each(|(k, s)| io.assign_out(k, s))
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<CustomParam>();
    let num_inputs = p.num_data_inputs();
    let Some(ins) = io.ins.get(..num_inputs) else { return Ok(()) };
    let Some(operator) = p.registered()? else { return Ok(()) };
    if num_inputs > 0 && ins.iter().chain(io.outs.iter()).all(Option::is_none) {
        return Ok(());
    }
    let inferred = match operator.infer_dtype(ins, io.outs) {
        Err(_) if ins.contains(&None) => return Ok(()),
        result => result?,
    };
    check_inferred(p, &inferred, "types")?;
    let known = |list: Vec<Option<_>>| list.into_iter().enumerate().filter_map(|(i, d)| Some((i, d?)));
    known(inferred.ins).try_for_each(|(i, d)| io.assign_in(i, d))?;
    known(inferred.states).try_for_each(|(i, d)| io.assign_in(num_inputs + i, d))?;
    known(inferred.outs).try_for_each(|(k, d)| io.assign_out(k, d))
}

/// An instance that one thread uses at a time. The mutex is reentrant, so that a recursive call is an error and not a deadlock.
type SharedInstance = Arc<ReentrantMutex<RefCell<Box<dyn UserOpInstance>>>>;

/// The entry of a node's cache that holds its instance.
#[derive(Default)]
struct CachedInstance(Option<SharedInstance>);

/// The node's instance, created at its first call.
fn instance(ctx: &OpCtx<'_>, ins: &[Array]) -> Result<SharedInstance> {
    let cached = ctx.cache.and_then(|cache| cache.with(|cached: &mut CachedInstance| cached.0.clone()));
    if let Some(instance) = cached {
        return Ok(instance);
    }
    let (shapes, dtypes): (Vec<_>, Vec<_>) = ins.iter().map(|a| (a.shape().clone(), a.dtype())).unzip();
    // The cache is not locked here, since user code may call the engine.
    let created = ctx.params::<CustomParam>().operator()?.create(ctx.context, &shapes, &dtypes)?;
    let created: SharedInstance = Arc::new(ReentrantMutex::new(RefCell::new(created)));
    Ok(match ctx.cache {
        Some(cache) => cache.with(|cached: &mut CachedInstance| cached.0.get_or_insert(created).clone()),
        None => created,
    })
}

fn with_instance(shared: &SharedInstance, f: impl FnOnce(&mut dyn UserOpInstance) -> Result<()>) -> Result<()> {
    let guard = shared.lock();
    let Ok(mut instance) = guard.try_borrow_mut() else {
        return Err(Error::value("the operator called itself recursively: an instance runs one call at a time"));
    };
    f(instance.as_mut())
}

/// The storage type of the first output. If the inference failed, the call selects the sparse implementation, which reports the error.
fn first_storage(inferred: Result<Option<Vec<StorageType>>>) -> Option<StorageType> {
    match inferred {
        Ok(types) => types.map(|types| types.first().copied().unwrap_or(StorageType::Default)),
        Err(_) => Some(StorageType::Default),
    }
}

/// The storage types of all outputs; none if the inference failed.
fn all_storage(inferred: Result<Option<Vec<StorageType>>>) -> SmallVec<[StorageType; 4]> {
    inferred.ok().flatten().into_iter().flatten().collect()
}

/// An array of zeros of a storage type.
fn zeros(storage: StorageType, shape: &Shape, dtype: DType, context: Context) -> Result<Array> {
    Ok(match storage {
        StorageType::Default => NDArray::zeros(shape, dtype, context)?.into(),
        sparse => SparseArray::zeros(sparse, shape, dtype, context)?.into(),
    })
}

fn stored(arrays: &[NDArray]) -> Vec<Array> {
    arrays.iter().cloned().map(Array::from).collect()
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    call_forward(ctx, &stored(ins), &stored(outs), reqs)
}

fn call_forward(ctx: &OpCtx<'_>, ins: &[Array], outs: &[Array], reqs: &[Req]) -> Result<()> {
    let (ins, states) = ins.split_at(ctx.params::<CustomParam>().num_data_inputs());
    states.iter().filter_map(|state| state.dense().ok()).try_for_each(NDArray::check_writable)?;
    let call = UserOpForward { is_train: ctx.is_train, ins, outs, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.forward(&call))
}

/// The forward call with sparse arrays.
fn forward_stored(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let p = call.ctx.params::<CustomParam>();
    let types: Vec<StorageType> = call.ins.iter().map(Array::storage_type).collect();
    let types = p.output_storage(&types)?.unwrap_or_else(|| vec![StorageType::Default; p.output_names.len()]);
    let mut ins: Vec<Option<DType>> = call.ins.iter().map(|a| Some(a.dtype())).collect();
    let mut dtypes = vec![None; types.len()];
    infer_dtype(call.ctx.params, &mut DTypeIo { ins: &mut ins, outs: &mut dtypes })?;
    let outs = (types.iter().zip(call.shapes).zip(dtypes))
        .map(|((storage, shape), dtype)| zeros(*storage, shape, dtype.unwrap_or(DType::F32), call.ctx.context))
        .collect::<Result<Vec<_>>>()?;
    call_forward(call.ctx, call.ins, &outs, &vec![Req::Write; outs.len()])?;
    Ok(outs)
}

/// `ins`: the arrays of [`CustomParam::split_backward`]. `igrads`: the gradients of the inputs; states have none.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    call_backward(ctx, &stored(ins), &stored(igrads), reqs)
}

fn call_backward(ctx: &OpCtx<'_>, all: &[Array], igrads: &[Array], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CustomParam>();
    let Some([ograds, ins, states, outs]) = p.split_backward(all) else {
        return Err(Error::Internal("arrays of a user operator are missing".into()));
    };
    let call = UserOpBackward { is_train: ctx.is_train, ograds, ins, outs, igrads, reqs, states };
    with_instance(&instance(ctx, ins)?, |instance| instance.backward(&call))
}

/// The backward call with sparse arrays.
fn backward_stored(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let p = call.ctx.params::<CustomParam>();
    let types: Vec<StorageType> = call.ins.iter().map(Array::storage_type).collect();
    let types = p.gradient_storage(&types)?.unwrap_or_else(|| vec![StorageType::Default; p.num_data_inputs()]);
    let ins = call.ins.iter().skip(p.num_ograds());
    let igrads = (types.iter().zip(call.shapes).zip(ins))
        .map(|((storage, shape), input)| zeros(*storage, shape, input.dtype(), call.ctx.context))
        .collect::<Result<Vec<_>>>()?;
    call_backward(call.ctx, call.ins, &igrads, &vec![Req::Write; igrads.len()])?;
    Ok(igrads)
}

/// Parameters of `_CustomFunction`: a recorded function with a user-defined gradient.
pub struct FunctionParam {
    instance: SharedInstance,
    num_inputs: usize,
    num_outputs: usize,
}

impl FunctionParam {
    /// A function of `num_inputs` arrays with `num_outputs` results, whose `backward` computes the gradients.
    pub fn new(function: Box<dyn UserOpInstance>, num_inputs: usize, num_outputs: usize) -> FunctionParam {
        FunctionParam { instance: Arc::new(ReentrantMutex::new(RefCell::new(function))), num_inputs, num_outputs }
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

/// A function with a user-defined gradient, as the tape records it.
pub static CUSTOM_FUNCTION: Operator<FunctionParam> = Operator::new("_CustomFunction")
    .doc("Represents on the tape a function with a user-defined gradient (autograd.Function). It cannot be called by name.")
    .inputs(&[])
    .num_inputs_by(|p| p.get::<FunctionParam>().num_inputs)
    .input_names_by(|p| (0..p.get::<FunctionParam>().num_inputs).map(|i| format!("data{i}")).collect())
    .outputs(|p| p.get::<FunctionParam>().num_outputs)
    .shape(|_, _| Ok(()))
    .dtype(|_, _| Ok(()))
    .foreign(|_, _, _, _| Err(Error::Unsupported("the function was computed when it was recorded and cannot run again".into())))
    .random()
    .grad(Grad::Kernel(Backward::foreign(function_backward), None));

fn function_backward(ctx: &OpCtx<'_>, ograds: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let (ograds, igrads) = (&stored(ograds)[..], &stored(igrads)[..]);
    let call = UserOpBackward { is_train: ctx.is_train, ograds, ins: &[], outs: &[], igrads, reqs, states: &[] };
    with_instance(&ctx.params::<FunctionParam>().instance, |function| function.backward(&call))
}

#[cfg(test)]
mod tests {
    use ferromx_core::user_op::UserOpFactory;

    use super::*;

    /// An operator of two inputs and a state. All outputs have the shape of the first input.
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
        (CUSTOM.inference.shape)(params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok((ins, outs))
    }

    #[test]
    fn a_saved_node_resolves_once_its_operator_is_registered() {
        let node = StoredNode { inputs: 3, states: vec![2], outputs: 1 };
        let params = CUSTOM.parse_in_file(&attrs("test_registered_later"), &node).unwrap();
        assert_eq!((CUSTOM.num_inputs(&params), CUSTOM.mutated(&params)), (Some(3), &[2][..]));
        assert_eq!(
            (CUSTOM.title(&params), CUSTOM.output_names(&params)),
            (Some("test_registered_later"), vec!["output".into()])
        );
        let known = [Shape::new(&[2, 3]), Shape::unknown(), Shape::unknown()];
        assert_eq!(shapes(&params, &known).unwrap(), (known.to_vec(), vec![Shape::unknown()]));
        let missing = CUSTOM.check_runnable(&params).unwrap_err().to_string();
        assert!(missing.contains("'test_registered_later' is not registered"), "{missing}");
        assert!(CUSTOM.parse(&attrs("test_registered_later")).is_err());

        user_op::register("test_registered_later", Arc::new(Test { outputs: 1 }));
        CUSTOM.check_runnable(&params).unwrap();
        let (ins, outs) = shapes(&params, &known).unwrap();
        assert_eq!((&ins[1], &ins[2], &outs[0]), (&[2, 3].into(), &[1].into(), &[2, 3].into()));
        assert!(matches!(CUSTOM.gradient(&params), Grad::Compose(_)));
    }

    #[test]
    fn an_operator_that_does_not_match_its_saved_node_is_an_error() {
        let node = StoredNode { inputs: 3, states: vec![2], outputs: 2 };
        let params = CUSTOM.parse_in_file(&attrs("test_mismatch"), &node).unwrap();
        user_op::register("test_mismatch", Arc::new(Test { outputs: 1 }));
        let error = CUSTOM.check_runnable(&params).unwrap_err().to_string();
        assert!(
            error.contains("2 inputs, 1 auxiliary states and 1 outputs, but the node of the file has 2, 1 and 2"),
            "{error}"
        );
        user_op::register("test_mismatch", Arc::new(Test { outputs: 2 }));
        CUSTOM.check_runnable(&params).unwrap();
    }
}
