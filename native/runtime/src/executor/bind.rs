//! Binds a symbol to arrays and returns an executor.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::assign_memory::Arenas;
use super::bound_arrays::{Bound, BoundStored, check_counts, check_devices, check_gradients};
use super::compile::{Blueprint, Target};
use super::network::{Network, variable_entries};
use super::overlaps::Overlaps;
use super::plans::{PlanLock, Plans};
use super::stepwise::Stepwise;
use super::{Execution, Executor, ReshapeOptions};
use crate::graph::{Action, Graph};
use crate::passes::devices::{Devices, assign_contexts};
use crate::passes::infer::{self, Entries};
use crate::passes::storage::infer_storage;
use crate::symbol::{OpCall, Symbol};
use crate::symbol_infer;

impl Executor {
    /// Binds a symbol to dense arrays. Intermediate results use the memory of `shared`, if it is large enough.
    ///
    /// # Errors
    /// Arrays that are missing or inconsistent with each other or the graph; an operator without a gradient; out of memory.
    pub fn bind(
        symbol: &Symbol,
        devices: impl Into<Devices>,
        bound: Bound,
        shared: Option<&Executor>,
    ) -> Result<Executor> {
        bind(symbol, devices.into(), bound, shared, &[])
    }

    /// Binds a symbol to arrays of any storage type; see [`Executor::bind`].
    ///
    /// # Errors
    /// See [`Executor::bind`].
    pub fn bind_stored(
        symbol: &Symbol,
        devices: impl Into<Devices>,
        bound: BoundStored,
        shared: Option<&Executor>,
    ) -> Result<Executor> {
        symbol.check_ready()?;
        check_counts(symbol, &bound)?;
        let devices = devices.into();
        let names = symbol.list_arguments().into_iter().chain(symbol.list_auxiliary_states());
        let types = bound.args.iter().chain(&bound.aux).map(Array::storage_type);
        let storage_types: Vec<(String, StorageType)> = names.zip(types).collect();
        let storage = infer_storage(symbol, &storage_types, &[])?;
        if bound.has_sparse() || storage.as_ref().is_some_and(|s| s.has_sparse) {
            return Executor::bind_stepwise(symbol, devices, bound, storage.map(|s| s.outputs));
        }
        Executor::bind(symbol, devices, bound.into_dense()?, shared)
    }

    /// Binds a symbol without a plan. `storage` has the storage types of the outputs if any is sparse.
    fn bind_stepwise(
        symbol: &Symbol,
        devices: Devices,
        bound: BoundStored,
        storage: Option<Vec<StorageType>>,
    ) -> Result<Executor> {
        check_gradients(symbol, &bound, |arg, g| arg.shape() == g.shape() && arg.dtype() == g.dtype())?;
        check_devices(&devices, &bound)?;
        // CPU devices share memory, so only the arrays of outputs need the devices of their groups.
        let contexts = output_contexts(symbol, &devices, &bound)?;
        let names = || symbol.list_arguments().into_iter().chain(symbol.list_auxiliary_states());
        let arrays = || bound.args.iter().chain(&bound.aux);
        let shapes: Vec<_> = names().zip(arrays().map(|a| a.shape().clone())).collect();
        let dtypes: Vec<_> = names().zip(arrays().map(Array::dtype)).collect();
        let shapes = symbol_infer::infer_shapes(symbol, &shapes)?.outputs;
        let dtypes = symbol_infer::infer_dtypes(symbol, &dtypes)?.outputs;
        let output = |k: usize| -> Result<Array> {
            // An output whose shape depends on values is empty until the first forward pass.
            let shape = if shapes[k].is_known() { shapes[k].clone() } else { Shape::new(&[0]) };
            let dtype = dtypes[k].unwrap_or(DType::F32);
            Ok(match storage.as_ref().map_or(StorageType::Default, |storage| storage[k]) {
                StorageType::Default => NDArray::zeros(&shape, dtype, contexts[k])?.into(),
                sparse => SparseArray::zeros(sparse, &shape, dtype, contexts[k])?.into(),
            })
        };
        let outputs = (0..shapes.len()).map(output).collect::<Result<_>>()?;
        let context = devices.default;
        Ok(Executor {
            symbol: symbol.clone(),
            optimized: symbol.clone(),
            devices,
            args: Vec::new(),
            grads: Vec::new(),
            reqs: bound.reqs.clone(),
            aux: Vec::new(),
            outputs: Vec::new(),
            filled: Vec::new(),
            execution: Execution::Stepwise(Box::new(Stepwise::new(symbol, bound, outputs, context)?)),
            monitor: Mutex::new(None),
        })
    }
}

/// The device of each output.
fn output_contexts(symbol: &Symbol, devices: &Devices, bound: &BoundStored) -> Result<Vec<Context>> {
    let (graph, outputs) = Graph::from_symbol(symbol);
    if devices.groups.is_empty() {
        return Ok(vec![devices.default; outputs.len()]);
    }
    let variables = variable_entries(symbol, &graph);
    let variables = variables.with_arrays(bound).map(|(e, array)| (e, array.context())).collect();
    let contexts = assign_contexts(&graph, devices, &variables)?;
    Ok(outputs.iter().map(|e| contexts[e.node as usize]).collect())
}

/// Binds a symbol. Each output reuses the memory of the array in `old_outputs` if it is large enough.
fn bind(
    symbol: &Symbol,
    devices: Devices,
    bound: Bound,
    shared: Option<&Executor>,
    old_outputs: &[NDArray],
) -> Result<Executor> {
    symbol.check_ready()?;
    check_counts(symbol, &bound)?;
    if symbol.is_dynamic() {
        let mut executor = Executor::bind_stepwise(symbol, devices, bound.to_stored(), None)?;
        (executor.args, executor.grads, executor.aux) = (bound.args, bound.grads, bound.aux);
        return Ok(executor);
    }
    check_gradients(symbol, &bound, |arg, g| arg.len() == g.len())?;
    check_devices(&devices, &bound)?;
    let mut network = Network::new(symbol, &bound)?;
    let filled = network.filled_arguments(&bound);
    network.assign_devices(&devices, &bound)?;
    let mut external: HashMap<Entry, NDArray> =
        network.variables.with_arrays(&bound).map(|(e, array)| (e, array.clone())).collect();
    let Network { mut graph, num_forward_nodes, outputs, head_grads, mut targets, trace, optimized, .. } = network;
    add_old_values(&mut graph, &mut targets, &mut external)?;
    let (shapes, dtypes) = infer_all(&graph, num_forward_nodes, &external, &outputs, &head_grads)?;
    let array_type = |e: Entry| (&shapes[e], dtypes[e].unwrap_or(DType::F32));
    for (output, head_grad) in outputs.iter().zip(&head_grads) {
        if let Some(e) = head_grad {
            let (shape, dtype) = array_type(*e);
            external.insert(*e, NDArray::zeros(shape, dtype, graph.node(*output).context)?);
        }
    }
    for (i, e) in outputs.iter().enumerate() {
        if !external.contains_key(e) {
            let (shape, dtype) = array_type(*e);
            external.insert(*e, output_array(shape, dtype, graph.node(*e).context, old_outputs.get(i))?);
        }
    }
    let output_arrays = outputs.iter().map(|e| external[e].clone()).collect();
    let blueprint = Blueprint { graph, num_forward_nodes, outputs, shapes, dtypes, external, targets, trace };
    let arenas = match shared {
        Some(Executor { execution: Execution::Planned(plans), .. }) => plans.enter()?.arenas(),
        _ => Arenas::new(),
    };
    let plans = Plans::new(blueprint, head_grads, &arenas)?;
    Ok(Executor {
        symbol: symbol.clone(),
        optimized,
        devices,
        args: bound.args,
        grads: bound.grads,
        reqs: bound.reqs,
        aux: bound.aux,
        outputs: output_arrays,
        filled,
        execution: Execution::Planned(Box::new(PlanLock::new(plans))),
        monitor: Mutex::new(None),
    })
}

/// An array for an output, in the memory of `old` if it is large enough.
fn output_array(shape: &Shape, dtype: DType, context: Context, old: Option<&NDArray>) -> Result<NDArray> {
    let is_reusable = |a: &&NDArray| a.dtype() == dtype && a.context() == context && a.len() >= shape.num_elements();
    match old.filter(is_reusable) {
        Some(a) => NDArray::view(a.chunk().clone(), a.byte_range().start, shape.clone(), dtype),
        None => NDArray::empty(shape, dtype, context),
    }
}

/// Applies [`accumulate_in_graph`] to all gradients, and adds the arrays of the variables that it creates to `external`.
fn add_old_values(graph: &mut Graph, targets: &mut [Target], external: &mut HashMap<Entry, NDArray>) -> Result<()> {
    let memory: Overlaps<usize> = targets.iter().map(|t| &t.array).enumerate().collect();
    for (i, target) in targets.iter_mut().enumerate() {
        let is_shared = memory.overlapping(&target.array).any(|k| k != i);
        if let Some(old_value) = accumulate_in_graph(graph, target, is_shared)? {
            external.insert(old_value, target.array.clone());
        }
    }
    Ok(())
}

/// If the kernel of a gradient cannot accumulate, adds the old value of the gradient array by an operator of the graph, which can join a
/// chain. Returns the variable of the old value, or `None` if nothing was added: the kernel can accumulate, or the array has another shape,
/// type or device, or aliases another gradient.
fn accumulate_in_graph(graph: &mut Graph, target: &mut Target, is_shared: bool) -> Result<Option<Entry>> {
    let Some(gradient) = target.entry.filter(|_| target.req == Req::Add && !is_shared) else { return Ok(None) };
    let context = graph.node(gradient).context;
    if graph.node(gradient).accumulates() || !target.is_like_argument || context != target.array.context() {
        return Ok(None);
    }
    let name = format!("{}_add", graph.node(gradient).name);
    let old_value = graph.variable(&format!("{name}_old"), Attrs::new());
    let add = Action::Forward(OpCall::new("_grad_add", &Attrs::new())?);
    let sum = graph.push(&name, add, vec![old_value, gradient], Attrs::new());
    graph.nodes[old_value.node as usize].context = context;
    graph.nodes[sum.node as usize].context = context;
    target.entry = Some(sum);
    target.req = Req::Write;
    target.old_value = Some(old_value);
    Ok(target.old_value)
}

/// Infers all shapes and types, and checks the arrays in `external` against them.
fn infer_all(
    graph: &Graph,
    num_forward_nodes: usize,
    external: &HashMap<Entry, NDArray>,
    outputs: &[Entry],
    head_grads: &[Option<Entry>],
) -> Result<(Entries<Shape>, Entries<Option<DType>>)> {
    let mut shapes = Entries::new(graph, Shape::unknown());
    let mut dtypes = Entries::new(graph, None);
    for (e, array) in external {
        shapes[*e] = array.shape().clone();
        dtypes[*e] = Some(array.dtype());
    }
    if head_grads.iter().any(Option::is_some) {
        // A head gradient has the shape and type of its output.
        infer::shapes_before(graph, num_forward_nodes, &mut shapes)?;
        infer::dtypes_before(graph, num_forward_nodes, &mut dtypes)?;
        for (output, head_grad) in outputs.iter().zip(head_grads) {
            if let Some(head_grad) = head_grad {
                shapes[*head_grad] = shapes[*output].clone();
                dtypes[*head_grad] = dtypes[*output];
            }
        }
    }
    let shapes = infer::shapes(graph, shapes)?;
    let dtypes = infer::dtypes(graph, dtypes)?;
    for (e, array) in external {
        let name = &graph.node(*e).name;
        ensure!(
            shapes[*e] == *array.shape(),
            "argument {name}: Shape inconsistent, Provided={}, inferred shape={}",
            array.shape(),
            shapes[*e]
        );
    }
    for e in outputs {
        let node = graph.node(*e);
        ensure!(
            shapes[*e].is_known(),
            "the shape of output {} cannot be inferred (known so far: {}): give the shapes of more arguments",
            node.name,
            shapes[*e]
        );
    }
    Ok((shapes, dtypes))
}

/// A change of the shapes of an executor's arrays.
struct Reshape<'a> {
    options: ReshapeOptions,
    /// The shapes that the program gives, by name.
    given: &'a [(String, Shape)],
}

impl Reshape<'_> {
    /// The array for a new shape: the same one, a view of its memory, or zeros.
    fn dense(&self, name: &str, array: &NDArray, shape: &Shape) -> Result<NDArray> {
        if array.shape() == shape {
            return Ok(array.clone());
        }
        ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to reshape");
        ensure!(
            self.given.iter().any(|(given, _)| given == name) || self.options.partial_shaping,
            "Shape of unspecifie arg: {name} changed. This can cause the new executor to not share parameters with the old one. \
             Please check for error in network.If this is intended, set partial_shaping=True to suppress this warning. It would \
             change from {} to {shape}",
            array.shape()
        );
        if shape.num_elements() <= array.len() {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), array.dtype());
        }
        ensure!(
            self.options.allow_up_sizing,
            "New shape of arg: {name} is larger than original.First making a big executor and then down sizing it is more \
             efficient than the reverse.If you really want to up size, set allow_up_sizing=True to enable allocation of new \
             arrays. It would grow from {} to {shape}",
            array.shape()
        );
        NDArray::zeros(shape, array.dtype(), array.context())
    }

    /// The array for a new shape, which must be the old one if the array is sparse.
    fn stored(&self, name: &str, array: &Array, shape: &Shape) -> Result<Array> {
        match array {
            Array::Dense(array) => Ok(self.dense(name, array, shape)?.into()),
            Array::Sparse(sparse) => {
                ensure!(
                    sparse.shape() == shape,
                    "{name} is a {} array of shape {} and cannot be reshaped to {shape}: bind the symbol again",
                    sparse.storage_type(),
                    sparse.shape()
                );
                Ok(array.clone())
            }
        }
    }

    fn all(&self, names: &[String], arrays: &[Array], shapes: &[Shape]) -> Result<Vec<Array>> {
        names.iter().zip(arrays).zip(shapes).map(|((name, array), shape)| self.stored(name, array, shape)).collect()
    }
}

/// See [`Executor::reshape`].
pub(super) fn reshape(old: &Executor, options: ReshapeOptions, shapes: &[(String, Shape)]) -> Result<Executor> {
    let inferred = symbol_infer::infer_shapes(&old.symbol, shapes)?;
    let change = Reshape { options, given: shapes };
    let names = old.symbol.list_arguments();
    let args = change.all(&names, &old.stored_args(), &inferred.args)?;
    let grads = (names.iter().zip(&old.stored_grads()).zip(&inferred.args))
        .map(|((name, grad), shape)| grad.as_ref().map(|grad| change.stored(name, grad, shape)).transpose())
        .collect::<Result<_>>()?;
    let aux = change.all(&old.symbol.list_auxiliary_states(), &old.stored_aux(), &inferred.aux)?;
    let bound = BoundStored { args, grads, reqs: old.reqs.clone(), aux };
    match old.execution {
        Execution::Planned(_) => bind(&old.symbol, old.devices.clone(), bound.into_dense()?, Some(old), &old.outputs),
        Execution::Stepwise(_) => Executor::bind_stored(&old.symbol, old.devices.clone(), bound, Some(old)),
    }
}
