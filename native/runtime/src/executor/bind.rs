//! Binds a symbol to arrays and returns an executor.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::assign_memory::Arenas;
use super::compile::{Blueprint, Target, mutated_entries};
use super::overlaps::Overlaps;
use super::plans::{PlanLock, Plans};
use super::stepwise::Stepwise;
use super::{Execution, Executor};
use crate::graph::{Action, Graph, entry};
use crate::passes::common_subexpressions;
use crate::passes::devices::{self, Devices};
use crate::passes::gradient::{self, Trace};
use crate::passes::infer::{self, Entries};
use crate::passes::storage::infer_storage;
use crate::symbol::{OpCall, Symbol};
use crate::symbol_infer;

/// The arrays that a symbol is bound to, in the order of its arguments and auxiliary states.
pub struct Bound<A = NDArray> {
    /// Arguments.
    pub args: Vec<A>,
    /// Gradient arrays.
    pub grads: Vec<Option<A>>,
    /// The request of each gradient.
    pub reqs: Vec<Req>,
    /// Auxiliary states.
    pub aux: Vec<A>,
}

/// Arrays of any storage type that a symbol is bound to.
pub type BoundStored = Bound<Array>;

impl BoundStored {
    /// Whether any array is sparse.
    pub fn has_sparse(&self) -> bool {
        let is_sparse = |a: &Array| a.storage_type() != StorageType::Default;
        self.args.iter().chain(&self.aux).chain(self.grads.iter().flatten()).any(is_sparse)
    }

    /// The arrays if all are dense.
    fn into_dense(self) -> Result<Bound> {
        let dense = |a: Array| a.dense().cloned();
        Ok(Bound {
            args: self.args.into_iter().map(dense).collect::<Result<_>>()?,
            grads: self.grads.into_iter().map(|g| g.map(dense).transpose()).collect::<Result<_>>()?,
            reqs: self.reqs,
            aux: self.aux.into_iter().map(dense).collect::<Result<_>>()?,
        })
    }
}

impl Bound {
    fn to_stored(&self) -> BoundStored {
        let stored = |arrays: &[NDArray]| arrays.iter().cloned().map(Array::Dense).collect();
        Bound {
            args: stored(&self.args),
            grads: self.grads.iter().map(|g| g.clone().map(Array::Dense)).collect(),
            reqs: self.reqs.clone(),
            aux: stored(&self.aux),
        }
    }
}

/// The properties of an array that binding checks.
trait Bindable {
    fn context(&self) -> Context;
    /// Shape and type, for messages.
    fn describe(&self) -> String;
}

impl Bindable for NDArray {
    fn context(&self) -> Context {
        NDArray::context(self)
    }

    fn describe(&self) -> String {
        format!("{} {}", self.shape(), self.dtype())
    }
}

impl Bindable for Array {
    fn context(&self) -> Context {
        Array::context(self)
    }

    fn describe(&self) -> String {
        format!("{} {}", self.shape(), self.dtype())
    }
}

impl Executor {
    /// Binds a symbol.
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
    /// Those of [`Executor::bind`].
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
        // Operators run on the device of their first input, whatever their group: CPU devices share memory.
        let context = devices.default;
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
                StorageType::Default => NDArray::zeros(&shape, dtype, context)?.into(),
                sparse => SparseArray::zeros(sparse, &shape, dtype, context)?.into(),
            })
        };
        let outputs = (0..shapes.len()).map(output).collect::<Result<_>>()?;
        Ok(Executor {
            symbol: symbol.clone(),
            optimized: symbol.clone(),
            devices,
            args: Vec::new(),
            grads: Vec::new(),
            reqs: bound.reqs.clone(),
            aux: Vec::new(),
            outputs: Vec::new(),
            head_grads: Vec::new(),
            filled: Vec::new(),
            execution: Execution::Stepwise(Box::new(Stepwise::new(symbol, bound, outputs, context)?)),
            monitor: Mutex::new(None),
        })
    }
}

/// A graph with gradients, and its named entries.
struct Network {
    graph: Graph,
    /// The nodes after these compute gradients.
    num_forward_nodes: usize,
    outputs: Vec<Entry>,
    variables: VariableEntries,
    /// The variable of each head gradient; `None` if no gradient reads it.
    head_grads: Vec<Option<Entry>>,
    targets: Vec<Target>,
    trace: Trace,
    /// The symbol without common subexpressions.
    optimized: Symbol,
}

/// Environment variable that disables common subexpression elimination if it is 0.
const ELIMINATE: &str = "MXNET_ELIMINATE_COMMON_EXPR";

impl Network {
    /// The graph of a symbol with the requested gradients.
    fn new(symbol: &Symbol, bound: &Bound) -> Result<Network> {
        let (mut graph, outputs) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let arrays = variables.with_arrays(bound).map(|(e, array)| (e, array.clone())).collect();
        // Eliminate before differentiating, so that the gradient has no common subexpressions either.
        let (live_out, needed) = (outputs.iter().copied().collect(), graph.needed_for(outputs.iter().copied()));
        let mutated = mutated_entries(&graph, &arrays);
        if std::env::var(ELIMINATE).as_deref() != Ok("0") {
            common_subexpressions::eliminate(&mut graph, &needed, &live_out, &mutated);
        }
        let optimized =
            symbol.with_inputs(|i| graph.nodes[i].inputs.iter().map(|e| (e.node as usize, e.index)).collect());
        let (num_forward_nodes, head_grads) = (graph.nodes.len(), vec![None; outputs.len()]);
        let (targets, trace) = (Vec::new(), Trace::default());
        let mut network =
            Network { graph, num_forward_nodes, outputs, variables, head_grads, targets, trace, optimized };
        network.differentiate(symbol, bound)?;
        Ok(network)
    }

    /// Extends the graph by the requested gradients.
    fn differentiate(&mut self, symbol: &Symbol, bound: &Bound) -> Result<()> {
        let requested = requested_gradients(symbol, bound)?;
        if requested.is_empty() {
            return Ok(());
        }
        let variables: Vec<Entry> = requested.iter().map(|(i, _)| self.variables.args[*i]).collect();
        let Gradients { head_grads, entries, trace } = differentiate(&mut self.graph, &self.outputs, &variables)?;
        (self.head_grads, self.trace) = (head_grads, trace);
        for (((i, array), variable), entry) in requested.into_iter().zip(variables).zip(entries) {
            let arg = &bound.args[i];
            let is_like_argument = array.shape() == arg.shape() && array.dtype() == arg.dtype();
            let req = bound.reqs[i];
            self.targets.push(Target { entry, array, req, old_value: None, variable, is_like_argument });
        }
        Ok(())
    }

    /// The arguments that operators fill with constants, each with its value. As in MXNet there are none without gradient requests.
    fn filled_arguments(&self, bound: &Bound) -> Vec<(NDArray, f64)> {
        if self.targets.is_empty() {
            return Vec::new();
        }
        let filled: HashMap<Entry, f64> = (self.graph.nodes.iter())
            .filter_map(|node| match &node.action {
                Action::Forward(op) => op.def.filled(&op.params).map(|(i, value)| (node.inputs[i], value)),
                _ => None,
            })
            .collect();
        let arrays = self.variables.with_arrays(bound);
        arrays.filter_map(|(e, array)| Some((array.clone(), *filled.get(&e)?))).collect()
    }

    /// Assigns a device to every node and inserts copies between devices.
    fn assign_devices(&mut self, devices: &Devices, bound: &Bound) -> Result<()> {
        if devices.groups.is_empty() {
            self.graph.nodes.iter_mut().for_each(|node| node.context = devices.default);
            return Ok(());
        }
        let contexts = self.variables.with_arrays(bound).map(|(e, array)| (e, array.context())).collect();
        let assigned = devices::assign(&self.graph, devices, &contexts, self.num_forward_nodes)?;
        let remap = |e: &mut Entry| *e = assigned.entry(*e);
        let VariableEntries { args, aux } = &mut self.variables;
        let head_grads = self.head_grads.iter_mut().flatten();
        args.iter_mut().chain(aux).chain(&mut self.outputs).chain(head_grads).for_each(remap);
        for target in &mut self.targets {
            remap(&mut target.variable);
            target.entry.iter_mut().for_each(remap);
        }
        self.trace = self.trace.remapped(|e| assigned.entry(e));
        self.num_forward_nodes = assigned.num_forward_nodes;
        self.graph = assigned.graph;
        Ok(())
    }
}

/// The arguments whose gradient is requested, by index, with the arrays of their gradients.
///
/// # Errors
/// A request without an array.
pub(super) fn requested_gradients<A: Clone>(symbol: &Symbol, bound: &Bound<A>) -> Result<Vec<(usize, A)>> {
    let requested = (0..bound.args.len()).filter(|i| bound.reqs[*i] != Req::Null);
    requested
        .map(|i| {
            let array = bound.grads[i].clone().ok_or_else(|| {
                let name = symbol.list_arguments().swap_remove(i);
                Error::Value(format!("argument {name} has a gradient request but no gradient array"))
            })?;
            Ok((i, array))
        })
        .collect()
}

/// The gradients that extend a graph.
pub(super) struct Gradients {
    /// The variable of each head gradient; `None` if no gradient reads it.
    pub head_grads: Vec<Option<Entry>>,
    /// The gradient of each variable; `None` if the variable does not influence the outputs.
    pub entries: Vec<Option<Entry>>,
    /// The contributions to each gradient.
    pub trace: Trace,
}

/// Extends a graph by the gradients of its outputs with respect to variables.
pub(super) fn differentiate(graph: &mut Graph, outputs: &[Entry], variables: &[Entry]) -> Result<Gradients> {
    let is_loss: Vec<bool> =
        outputs.iter().map(|output| graph.node(*output).op().is_some_and(gradient::is_loss)).collect();
    let all: Vec<Entry> =
        (0..outputs.len()).map(|i| graph.variable(&format!("_head_grad_{i}"), Attrs::new())).collect();
    let request = gradient::Request { heads: outputs, head_grads: &all, variables, create_graph: false };
    let mut trace = Trace::default();
    let entries = gradient::traced(graph, &request, &mut trace)?;
    // Head gradients that no gradient reads need no array, and `backward` does not ask for them.
    let used = graph.needed_for(entries.iter().flatten().copied());
    let head_grads =
        all.iter().zip(is_loss).map(|(e, is_loss)| Some(*e).filter(|e| !is_loss && used[e.node as usize])).collect();
    Ok(Gradients { head_grads, entries, trace })
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
    let target_memory: Overlaps<usize> = targets.iter().map(|t| &t.array).enumerate().collect();
    for (i, target) in targets.iter_mut().enumerate() {
        let is_shared = target_memory.overlapping(&target.array).any(|k| k != i);
        if let Some(old_value) = accumulate_in_graph(&mut graph, target, is_shared)? {
            external.insert(old_value, target.array.clone());
        }
    }
    let (shapes, dtypes) = infer_all(&graph, num_forward_nodes, &external, &outputs, &head_grads)?;
    let mut head_grad_arrays = vec![None; outputs.len()];
    for (i, head_grad) in head_grads.iter().enumerate() {
        if let Some(e) = head_grad {
            let (dtype, context) = (dtypes[*e].unwrap_or(DType::F32), graph.node(outputs[i]).context);
            let array = NDArray::zeros(&shapes[*e], dtype, context)?;
            external.insert(*e, array.clone());
            head_grad_arrays[i] = Some(array);
        }
    }
    for (i, e) in outputs.iter().enumerate() {
        if !external.contains_key(e) {
            let (dtype, context) = (dtypes[*e].unwrap_or(DType::F32), graph.node(*e).context);
            external.insert(*e, output_array(&shapes[*e], dtype, context, old_outputs.get(i))?);
        }
    }
    let output_arrays = outputs.iter().map(|e| external[e].clone()).collect();
    let blueprint = Blueprint { graph, num_forward_nodes, outputs, shapes, dtypes, external, targets, trace };
    let arenas = match shared {
        Some(Executor { execution: Execution::Planned(plans), .. }) => plans.enter()?.arenas(),
        _ => Arenas::new(),
    };
    Ok(Executor {
        symbol: symbol.clone(),
        optimized,
        devices,
        args: bound.args,
        grads: bound.grads,
        reqs: bound.reqs,
        aux: bound.aux,
        outputs: output_arrays,
        head_grads: head_grad_arrays,
        filled,
        execution: Execution::Planned(Box::new(PlanLock::new(Plans::new(blueprint, &arenas)?))),
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

/// Adds a gradient to its array by an operator of the graph, which can join a chain, if its kernel cannot accumulate. Returns the variable
/// for the old value of the array. Does nothing if the array has another shape, type or device, or aliases another gradient.
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

fn check_counts<A>(symbol: &Symbol, bound: &Bound<A>) -> Result<()> {
    let (names, aux) = (symbol.list_arguments(), symbol.list_auxiliary_states());
    let n = names.len();
    ensure!(
        bound.args.len() == n,
        "{} argument arrays were given; the symbol has {n}: {}",
        bound.args.len(),
        names.join(", ")
    );
    ensure!(
        bound.aux.len() == aux.len(),
        "{} auxiliary state arrays were given; the symbol has {}: {}",
        bound.aux.len(),
        aux.len(),
        aux.join(", ")
    );
    ensure!(
        bound.grads.len() == n && bound.reqs.len() == n,
        "{} gradient arrays and {} gradient requests were given for {n} arguments",
        bound.grads.len(),
        bound.reqs.len()
    );
    Ok(())
}

/// Checks each gradient array against its argument by `fits(argument, gradient)`.
fn check_gradients<A: Bindable>(symbol: &Symbol, bound: &Bound<A>, fits: fn(&A, &A) -> bool) -> Result<()> {
    for ((name, arg), grad) in symbol.list_arguments().iter().zip(&bound.args).zip(&bound.grads) {
        if let Some(g) = grad {
            ensure!(
                fits(arg, g),
                "the gradient of argument {name} is {}, but the argument is {}: bind an array of the argument's shape",
                g.describe(),
                arg.describe()
            );
        }
    }
    Ok(())
}

/// Checks that all arrays are on one device if there are no groups.
fn check_devices<A: Bindable>(devices: &Devices, bound: &Bound<A>) -> Result<()> {
    if !devices.groups.is_empty() {
        return Ok(());
    }
    let default = devices.default;
    let grads =
        bound.grads.iter().zip(&bound.reqs).filter(|(_, req)| **req != Req::Null).filter_map(|(g, _)| g.as_ref());
    let arrays =
        bound.args.iter().map(|a| ("Input", "arguments", a)).chain(grads.map(|g| ("Gradient", "gradients", g)));
    for (kind, plural, array) in arrays {
        ensure!(
            array.context() == default,
            "{kind} array is in {} while binding with ctx={default}. All {plural} must be in global context ({default}) unless \
             group2ctx is specified for cross-device graph.",
            array.context()
        );
    }
    Ok(())
}

/// The entries of the variables of a symbol.
pub(super) struct VariableEntries {
    /// Arguments.
    pub args: Vec<Entry>,
    /// Auxiliary states.
    pub aux: Vec<Entry>,
}

impl VariableEntries {
    /// The entries, each with its array.
    pub(super) fn with_arrays<'a, A>(&'a self, bound: &'a Bound<A>) -> impl Iterator<Item = (Entry, &'a A)> {
        let (args, aux) = (self.args.iter().zip(&bound.args), self.aux.iter().zip(&bound.aux));
        args.chain(aux).map(|(e, array)| (*e, array))
    }
}

/// Finds the entries of arguments and auxiliary states. The graph has its variables in the order of the symbol.
pub(super) fn variable_entries(symbol: &Symbol, graph: &Graph) -> VariableEntries {
    let is_aux: Vec<bool> = symbol.variables().into_iter().map(|(_, aux)| aux).collect();
    let nodes = (0..graph.nodes.len()).filter(|i| matches!(graph.nodes[*i].action, Action::Variable));
    let (mut args, mut aux) = (Vec::new(), Vec::new());
    for (i, is_aux) in nodes.zip(is_aux) {
        if is_aux { aux.push(entry(i, 0)) } else { args.push(entry(i, 0)) }
    }
    VariableEntries { args, aux }
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

/// See [`Executor::reshape`].
pub(super) fn reshape(
    old: &Executor,
    partial_shaping: bool,
    allow_up_sizing: bool,
    shapes: &[(String, Shape)],
) -> Result<Executor> {
    let inferred = crate::symbol_infer::infer_shapes(&old.symbol, shapes)?;
    let is_given = |name: &str| shapes.iter().any(|(n, _)| n == name);
    let resize = |name: &str, array: &NDArray, shape: &Shape| -> Result<NDArray> {
        if array.shape() == shape {
            return Ok(array.clone());
        }
        ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to reshape");
        ensure!(
            is_given(name) || partial_shaping,
            "Shape of unspecifie arg: {name} changed. This can cause the new executor to not share parameters with the old one. \
             Please check for error in network.If this is intended, set partial_shaping=True to suppress this warning. It would \
             change from {} to {shape}",
            array.shape()
        );
        if shape.num_elements() <= array.len() {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), array.dtype());
        }
        ensure!(
            allow_up_sizing,
            "New shape of arg: {name} is larger than original.First making a big executor and then down sizing it is more \
             efficient than the reverse.If you really want to up size, set allow_up_sizing=True to enable allocation of new \
             arrays. It would grow from {} to {shape}",
            array.shape()
        );
        NDArray::zeros(shape, array.dtype(), array.context())
    };
    let resize_stored = |name: &str, array: &Array, shape: &Shape| -> Result<Array> {
        match array {
            Array::Dense(array) => Ok(resize(name, array, shape)?.into()),
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
    };
    let names = old.symbol.list_arguments();
    let args = (names.iter().zip(&old.stored_args()).zip(&inferred.args))
        .map(|((n, a), s)| resize_stored(n, a, s))
        .collect::<Result<_>>()?;
    let grads = (names.iter().zip(&old.stored_grads()).zip(&inferred.args))
        .map(|((n, g), s)| g.as_ref().map(|g| resize_stored(n, g, s)).transpose())
        .collect::<Result<_>>()?;
    let aux_names = old.symbol.list_auxiliary_states();
    let aux = (aux_names.iter().zip(&old.stored_aux()).zip(&inferred.aux))
        .map(|((n, a), s)| resize_stored(n, a, s))
        .collect::<Result<_>>()?;
    let bound = BoundStored { args, grads, reqs: old.reqs.clone(), aux };
    match old.execution {
        Execution::Planned(_) => bind(&old.symbol, old.devices.clone(), bound.into_dense()?, Some(old), &old.outputs),
        Execution::Stepwise(_) => Executor::bind_stored(&old.symbol, old.devices.clone(), bound, Some(old)),
    }
}
