//! The runner that calls the Rust facade.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{self, Req};
use ferromx_ops::registry;
use ferromx_ops::sparse::cast::{cast as to_storage, to_dense};
use ferromx_runtime::executor::{Bound, Executor};
use ferromx_runtime::imperative::{self, Arrays, GradientRequest, Invocation, Keep, Tensor};
use ferromx_runtime::semantics;
use ferromx_runtime::symbol::{AtomicSymbol, OpCall, Symbol};
use ferromx_runtime::symbol_infer::{self, infer_dtypes, infer_shapes};

use crate::golden::{GoldenArray, GradReq, GraphCase, InferCase, OpCase};
use crate::value::Array;
use crate::{GraphResult, Inferred, OpResult, Runner, by_node};

/// Runs cases in this process.
pub struct Engine;

impl Runner for Engine {
    fn run(&self, case: &OpCase) -> Result<OpResult, String> {
        semantics::set_numpy_shape(case.np_shape);
        let run = match (case.stypes.is_empty(), case.imperative) {
            (false, _) => run_stored,
            (true, true) => run_on_arrays,
            (true, false) => run_bound,
        };
        run(case).map_err(|e| e.to_string())
    }

    fn infer(&self, case: &InferCase) -> Result<Inferred, String> {
        semantics::set_numpy_shape(case.np_shape);
        infer(case).map_err(|e| e.to_string())
    }

    fn graph(&self, case: &GraphCase) -> Result<GraphResult, String> {
        semantics::set_numpy_shape(false);
        graph(case).map_err(|e| e.to_string())
    }
}

fn attributes(attrs: &BTreeMap<String, String>) -> Attrs {
    attrs.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// An array of the engine with the values of a stored one.
///
/// # Errors
/// Out of memory.
pub fn to_engine(stored: &GoldenArray) -> Result<NDArray> {
    let array = NDArray::empty(&Shape::new(&stored.shape), stored.dtype, Context::default())?;
    storage::write_bytes(&array, |to| to.copy_from_slice(&stored.bytes));
    Ok(array)
}

/// The elements of an array, converted to a floating-point type.
///
/// # Errors
/// Out of memory; a type without such elements.
pub fn cast(array: &NDArray, dtype: DType) -> Result<NDArray> {
    ferromx_core::dispatch!(dtype, T in [f32, f64, half::f16, half::bf16] => {
        NDArray::from_slice(&array.to_vec_as::<T>()?, array.shape().dims())
    }, other => Ok(array.to_context(Context::default())?))
}

/// The value of an array of the engine.
pub fn from_engine(array: &NDArray) -> Array {
    let bytes = storage::read_bytes(array, <[u8]>::to_vec);
    Array { dtype: array.dtype(), shape: array.shape().dims().to_vec(), bytes }
}

fn run_on_arrays(case: &OpCase) -> Result<OpResult> {
    let call = OpCall::new(&case.op, &attributes(&case.attrs))?;
    let inputs: Vec<NDArray> = case.inputs.iter().map(to_engine).collect::<Result<_>>()?;
    let mut outputs = Arrays::new();
    Invocation { op: &call, context: Some(Context::default()), mode: case.mode(), cache: None }
        .run(&inputs, &mut outputs)?;
    let visible = call.def.num_visible(&call.params);
    let mutates = call.def.signature.mutates;
    let states = mutates.iter().filter_map(|i| Some((case.inputs.get(*i)?.name.clone(), from_engine(&inputs[*i]))));
    Ok(OpResult {
        outputs: outputs.iter().take(visible).map(from_engine).collect(),
        storage_types: Vec::new(),
        grads: Ok(BTreeMap::new()),
        aux: states.collect(),
    })
}

/// The storage type of a name in a case.
///
/// # Errors
/// There is no such storage type.
pub(crate) fn storage_type(name: &str) -> Result<StorageType> {
    [StorageType::Default, StorageType::RowSparse, StorageType::Csr]
        .into_iter()
        .find(|t| t.name() == name)
        .ok_or_else(|| Error::Param(format!("{name} is not a storage type")))
}

/// A tensor of a storage type.
fn tensor(array: &NDArray, storage: &str) -> Result<Arc<Tensor>> {
    Ok(Arc::new(Tensor::new(to_storage(&array.clone().into(), storage_type(storage)?)?)))
}

fn values(tensor: &Tensor) -> Result<Array> {
    Ok(from_engine(&to_dense(&tensor.stored()?)?))
}

/// Calls the operator on arrays of the given storage types, and records it if gradients are wanted.
fn run_stored(case: &OpCase) -> Result<OpResult> {
    let inputs: Vec<Arc<Tensor>> =
        case.inputs.iter().zip(&case.stypes).map(|(i, s)| tensor(&to_engine(i)?, s)).collect::<Result<_>>()?;
    let find = |name: &String| {
        let found = case.inputs.iter().position(|i| i.name == *name).map(|k| &inputs[k]);
        found.ok_or_else(|| Error::NotFound(format!("the case has no input {name}")))
    };
    let marked: Vec<Arc<Tensor>> = case.wrt.iter().map(|n| find(n).cloned()).collect::<Result<_>>()?;
    let gradients = marked.iter().zip(&case.grad_stypes).map(|(x, storage)| {
        let x = x.stored()?;
        let array = tensor(&NDArray::zeros(x.shape(), x.dtype(), x.context())?, storage)?;
        Ok(GradientRequest { array, req: Req::Write })
    });
    let gradients: Vec<GradientRequest> = gradients.collect::<Result<_>>()?;
    imperative::mark_variables(&marked, &gradients)?;
    let previous = (imperative::set_recording(!marked.is_empty()), imperative::set_training(case.train));
    let attrs = case.attrs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let given = if case.in_place { &inputs[..1] } else { &[] };
    let (name, _) = registry::find(&case.op)?;
    let outputs = imperative::call(name, attrs, &inputs, given);
    imperative::set_recording(previous.0);
    imperative::set_training(previous.1);
    let outputs = outputs?;
    let mut grads = BTreeMap::new();
    if !marked.is_empty() {
        let heads: Vec<Option<Arc<Tensor>>> =
            case.head_grads.iter().map(|h| Ok(Some(Arc::new(Tensor::new(to_engine(h)?))))).collect::<Result<_>>()?;
        imperative::backward_in_mode(&outputs, &heads, &[], Keep::Nothing, case.mode())?;
        for (name, gradient) in case.wrt.iter().zip(&gradients) {
            grads.insert(name.clone(), values(&gradient.array)?);
        }
    }
    let aux = case.aux.iter().map(|state| Ok((state.name.clone(), values(find(&state.name)?)?)));
    Ok(OpResult {
        outputs: outputs.iter().map(|t| values(t)).collect::<Result<_>>()?,
        storage_types: outputs
            .iter()
            .map(|t| Ok(t.stored()?.storage_type().name().to_owned()))
            .collect::<Result<_>>()?,
        grads: Ok(grads),
        aux: aux.collect::<Result<_>>()?,
    })
}

fn run_bound(case: &OpCase) -> Result<OpResult> {
    let variables: Vec<Symbol> = case.inputs.iter().map(|i| Symbol::variable(&i.name, Attrs::new())).collect();
    let symbol = AtomicSymbol::new(&case.op, attributes(&case.attrs))?.compose("op", &variables, None)?;
    let find = |name: &String| {
        let stored = case.inputs.iter().find(|i| i.name == *name);
        to_engine(stored.ok_or_else(|| Error::NotFound(format!("the case has no input {name}")))?)
    };
    let names = symbol.list_arguments();
    let args: Vec<NDArray> = names.iter().map(find).collect::<Result<_>>()?;
    let aux_names = symbol.list_auxiliary_states();
    let aux: Vec<NDArray> = aux_names.iter().map(find).collect::<Result<_>>()?;
    let wanted = |name: &String| case.req.filter(|_| case.wrt.contains(name));
    let reqs = names.iter().map(|n| match wanted(n) {
        None => Req::Null,
        Some(GradReq::Write) => Req::Write,
        Some(GradReq::Add) => Req::Add,
    });
    let grads = names.iter().zip(&args).map(|(n, a)| wanted(n).map(|_| gradient_before(case, n, a)).transpose());
    let bound = Bound { grads: grads.collect::<Result<_>>()?, reqs: reqs.collect(), args, aux };
    let executor = Executor::bind(&symbol, Context::default(), bound, None)?;
    executor.forward(case.mode())?;
    let outputs = executor.output_tensors().iter().map(|y| Ok(from_engine(&y.array()?))).collect::<Result<_>>()?;
    let grads = backward(case, &executor, &names).map_err(|e| e.to_string());
    let aux = aux_names.into_iter().zip(executor.aux().iter().map(from_engine)).collect();
    Ok(OpResult { outputs, storage_types: Vec::new(), grads, aux })
}

/// The initial gradient array of a case: recorded values for `add`, otherwise ones, which `write` must overwrite.
fn gradient_before(case: &OpCase, name: &str, like: &NDArray) -> Result<NDArray> {
    match case.grads_before.iter().find(|g| g.name == name) {
        Some(before) => to_engine(before),
        None => {
            let array = NDArray::empty(like.shape(), like.dtype(), like.context())?;
            storage::write_bytes(&array, |to| to.fill(1));
            Ok(array)
        }
    }
}

fn backward(case: &OpCase, executor: &Executor, names: &[String]) -> Result<BTreeMap<String, Array>> {
    if executor.grads().iter().all(Option::is_none) {
        return Ok(BTreeMap::new());
    }
    let heads: Vec<NDArray> = case.head_grads.iter().map(to_engine).collect::<Result<_>>()?;
    executor.backward(&heads, case.mode())?;
    let grads = names.iter().zip(executor.grads());
    Ok(grads.filter_map(|(name, g)| Some((name.clone(), from_engine(g.as_ref()?)))).collect())
}

fn shape_text(shape: &Shape, np_shape: bool) -> String {
    if np_shape && !shape.ndim_is_known() {
        return "?".to_owned();
    }
    let dims = if np_shape { shape.dims().to_vec() } else { shape.to_legacy().to_vec() };
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("[{}]", dims.join(","))
}

fn texts<T>(inferred: &symbol_infer::Inferred<T>, text: impl Fn(&T) -> String) -> Inferred {
    let all = |values: &[T]| values.iter().map(&text).collect();
    Inferred { arg: all(&inferred.args), out: all(&inferred.outputs), aux: all(&inferred.aux) }
}

fn shapes(symbol: &Symbol, known: Vec<(String, &Vec<i64>)>, np_shape: bool) -> Result<Inferred> {
    let from = if np_shape { Shape::new } else { Shape::from_legacy };
    let known: Vec<(String, Shape)> = known.into_iter().map(|(name, dims)| (name, from(dims))).collect();
    Ok(texts(&infer_shapes(symbol, &known)?, |s| shape_text(s, np_shape)))
}

fn types(symbol: &Symbol, known: Vec<(String, &String)>) -> Result<Inferred> {
    let known = known.into_iter().map(|(name, dtype)| Ok((name, dtype.parse::<DType>().map_err(Error::Param)?)));
    let known: Vec<(String, DType)> = known.collect::<Result<_>>()?;
    Ok(texts(&infer_dtypes(symbol, &known)?, |d| d.map_or("?".to_owned(), |d| d.name().to_owned())))
}

fn infer(case: &InferCase) -> Result<Inferred> {
    let symbol = AtomicSymbol::new(&case.op, attributes(&case.attrs))?.compose("op", &[], None)?;
    let names = [symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs()];
    case.expect_names(names).map_err(Error::Value)?;
    match (&case.shapes, &case.types) {
        (Some(known), _) => shapes(&symbol, known.iter().map(|(n, s)| (format!("op_{n}"), s)).collect(), case.np_shape),
        (None, Some(known)) => types(&symbol, known.iter().map(|(n, t)| (format!("op_{n}"), t)).collect()),
        (None, None) => Err(Error::Value("the case says neither shapes nor types".to_owned())),
    }
}

fn graph(case: &GraphCase) -> Result<GraphResult> {
    let symbol = Symbol::from_json(&case.json)?;
    Ok(GraphResult {
        arg_names: symbol.list_arguments(),
        aux_names: symbol.list_auxiliary_states(),
        output_names: symbol.list_outputs(),
        internals: symbol.internals().list_outputs(),
        attrs: by_node(symbol.list_attr()),
        json: symbol.to_json(),
        shapes: shapes(&symbol, case.shapes.iter().map(|(n, s)| (n.clone(), s)).collect(), false)?,
        types: types(&symbol, case.types.iter().map(|(n, t)| (n.clone(), t)).collect())?,
    })
}
