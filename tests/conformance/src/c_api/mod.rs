//! The runner that calls the C API of a built library, as a foreign program does.

mod library;

use std::collections::BTreeMap;
use std::path::Path;

use ferromx_core::dtype::DType;
use ferromx_core::storage::Req;

use crate::engine::storage_type;
use crate::golden::{GoldenArray, GradReq, GraphCase, InferCase, OpCase};
use crate::value::Array;
use crate::{GraphResult, Inferred, OpResult, Runner, by_node};
use library::{Argument, CApi, Names, Owned};

/// Runs cases in a library that is loaded at run time.
pub struct Library(CApi);

impl Library {
    /// Loads a library.
    ///
    /// # Errors
    /// It cannot be loaded, or lacks a function of the C API.
    pub fn open(path: &Path) -> Result<Library, String> {
        CApi::open(path).map(Library)
    }
}

impl Runner for Library {
    fn run(&self, case: &OpCase) -> Result<OpResult, String> {
        self.0.set_numpy_shape(case.np_shape)?;
        if case.imperative || !case.stypes.is_empty() { run_on_arrays(&self.0, case) } else { run_bound(&self.0, case) }
    }

    fn infer(&self, case: &InferCase) -> Result<Inferred, String> {
        self.0.set_numpy_shape(case.np_shape)?;
        let symbol = self.0.symbol(&case.op, attributes(&case.attrs), "op", &[])?;
        let lists = [Names::Arguments, Names::AuxiliaryStates, Names::Outputs].map(|list| symbol.names(list));
        let [arguments, aux, outputs] = lists;
        case.expect_names([arguments?, aux?, outputs?])?;
        match (&case.shapes, &case.types) {
            (Some(known), _) => shapes(&symbol, &prefixed(known)),
            (None, Some(known)) => types(&symbol, &prefixed(known)),
            (None, None) => Err("the case says neither shapes nor types".to_owned()),
        }
    }

    fn graph(&self, case: &GraphCase) -> Result<GraphResult, String> {
        self.0.set_numpy_shape(false)?;
        let symbol = self.0.symbol_of_json(&case.json)?;
        Ok(GraphResult {
            arg_names: symbol.names(Names::Arguments)?,
            aux_names: symbol.names(Names::AuxiliaryStates)?,
            output_names: symbol.names(Names::Outputs)?,
            internals: symbol.internals()?.names(Names::Outputs)?,
            attrs: by_node(symbol.attributes()?),
            json: symbol.to_json()?,
            shapes: shapes(&symbol, &case.shapes)?,
            types: types(&symbol, &case.types)?,
        })
    }
}

fn attributes(attrs: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    attrs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

/// The names of an operator's inputs: the arguments of a symbol named `op`.
fn prefixed<T: Clone>(known: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    known.iter().map(|(name, value)| (format!("op_{name}"), value.clone())).collect()
}

fn find<'a, 'l>(case: &OpCase, arrays: &'a [Owned<'l>], name: &str) -> Result<&'a Owned<'l>, String> {
    let index = case.inputs.iter().position(|i| i.name == name);
    index.map(|i| &arrays[i]).ok_or_else(|| format!("the case has no input {name}"))
}

fn values(arrays: &[Owned<'_>]) -> Result<Vec<Array>, String> {
    arrays.iter().map(Owned::value).collect()
}

/// Calls the operator on arrays, and records it if gradients are wanted.
fn run_on_arrays(api: &CApi, case: &OpCase) -> Result<OpResult, String> {
    let storage = |name: &String| storage_type(name).map_err(|e| e.to_string());
    let mut inputs = case.inputs.iter().map(|i| api.array(i)).collect::<Result<Vec<_>, _>>()?;
    for (input, name) in inputs.iter_mut().zip(&case.stypes) {
        *input = input.to_storage(storage(name)?)?;
    }
    let wanted = if case.stypes.is_empty() { &[][..] } else { &case.wrt };
    let marked = wanted.iter().map(|name| find(case, &inputs, name)).collect::<Result<Vec<_>, _>>()?;
    let gradient = |(x, name): (&&Owned<'_>, &String)| {
        let like = x.value()?;
        api.array_of(like.dtype, &like.shape, &vec![0; like.bytes.len()])?.to_storage(storage(name)?)
    };
    let gradients = marked.iter().zip(&case.grad_stypes).map(gradient).collect::<Result<Vec<_>, _>>()?;
    api.mark_variables(&marked, &gradients)?;
    api.set_recording(!marked.is_empty())?;
    api.set_training(case.train)?;
    let outputs = api.invoke(&case.op, attributes(&case.attrs), &inputs, case.in_place);
    api.set_recording(false)?;
    api.set_training(false)?;
    let outputs = outputs?;
    let results = if case.in_place { &inputs[..1] } else { &outputs };
    let storage_types = results.iter().map(|y| Ok(y.storage_type()?.name().to_owned()));
    let storage_types =
        if case.stypes.is_empty() { Ok(Vec::new()) } else { storage_types.collect::<Result<_, String>>() };
    let mut grads = BTreeMap::new();
    if !marked.is_empty() {
        let heads = case.head_grads.iter().map(|h| api.array(h)).collect::<Result<Vec<_>, _>>()?;
        api.backward(results, &heads, case.train)?;
        for (name, gradient) in wanted.iter().zip(&gradients) {
            grads.insert(name.clone(), gradient.value()?);
        }
    }
    let state = |state: &GoldenArray| Ok((state.name.clone(), find(case, &inputs, &state.name)?.value()?));
    Ok(OpResult {
        outputs: values(results)?,
        storage_types: storage_types?,
        grads: Ok(grads),
        aux: case.aux.iter().map(state).collect::<Result<_, String>>()?,
    })
}

fn run_bound(api: &CApi, case: &OpCase) -> Result<OpResult, String> {
    let variables = case.inputs.iter().map(|i| api.variable(&i.name)).collect::<Result<Vec<_>, _>>()?;
    let symbol = api.symbol(&case.op, attributes(&case.attrs), "op", &variables)?;
    let stored = |name: &String| {
        let found = case.inputs.iter().find(|i| i.name == *name);
        found.ok_or_else(|| format!("the case has no input {name}"))
    };
    let argument = |name: &String| -> Result<Argument<'_>, String> {
        let value = stored(name)?;
        let array = api.array(value)?;
        Ok(match case.req.filter(|_| case.wrt.contains(name)) {
            None => (array, None, Req::Null),
            Some(GradReq::Write) => (array, Some(gradient_before(api, case, value)?), Req::Write),
            Some(GradReq::Add) => (array, Some(gradient_before(api, case, value)?), Req::Add),
        })
    };
    let names = symbol.names(Names::Arguments)?;
    let arguments = names.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
    let aux_names = symbol.names(Names::AuxiliaryStates)?;
    let aux = aux_names.iter().map(|name| api.array(stored(name)?)).collect::<Result<Vec<_>, _>>()?;
    let executor = symbol.bind(&arguments, &aux)?;
    let outputs = values(&executor.forward(case.train)?)?;
    let grads = backward(api, case, &executor, &names, &arguments);
    let aux = aux_names.into_iter().zip(values(&aux)?).collect();
    Ok(OpResult { outputs, storage_types: Vec::new(), grads, aux })
}

/// The initial gradient array of an input: recorded values for `add`, otherwise ones, which `write` must overwrite.
fn gradient_before<'l>(api: &'l CApi, case: &OpCase, input: &GoldenArray) -> Result<Owned<'l>, String> {
    match case.grads_before.iter().find(|g| g.name == input.name) {
        Some(before) => api.array(before),
        None => api.array_of(input.dtype, &input.shape, &vec![1; input.bytes.len()]),
    }
}

fn backward(
    api: &CApi,
    case: &OpCase,
    executor: &Owned<'_>,
    names: &[String],
    arguments: &[Argument<'_>],
) -> Result<BTreeMap<String, Array>, String> {
    let wanted = || names.iter().zip(arguments).filter_map(|(name, (_, gradient, _))| Some((name, gradient.as_ref()?)));
    if wanted().next().is_none() {
        return Ok(BTreeMap::new());
    }
    let heads = case.head_grads.iter().map(|h| api.array(h)).collect::<Result<Vec<_>, _>>()?;
    executor.executor_backward(&heads, case.train)?;
    wanted().map(|(name, gradient)| Ok((name.clone(), gradient.value()?))).collect()
}

fn texts<T>(inferred: library::Inferred<T>, text: impl Fn(T) -> String) -> Inferred {
    let [arg, out, aux] = inferred.map(|list| list.into_iter().map(&text).collect());
    Inferred { arg, out, aux }
}

fn shapes(symbol: &Owned<'_>, known: &BTreeMap<String, Vec<i64>>) -> Result<Inferred, String> {
    let known: Vec<(&str, &[i64])> = known.iter().map(|(name, dims)| (name.as_str(), dims.as_slice())).collect();
    let text = |dims: Vec<i64>| format!("[{}]", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
    Ok(texts(symbol.infer_shapes(&known)?, |shape| shape.map_or("?".to_owned(), text)))
}

fn types(symbol: &Owned<'_>, known: &BTreeMap<String, String>) -> Result<Inferred, String> {
    let known = known.iter().map(|(name, dtype)| Ok((name.as_str(), dtype.parse::<DType>()?)));
    let known = known.collect::<Result<Vec<_>, String>>()?;
    Ok(texts(symbol.infer_dtypes(&known)?, |dtype| dtype.map_or("?".to_owned(), |d| d.name().to_owned())))
}
