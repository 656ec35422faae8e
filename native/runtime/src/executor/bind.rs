//! Binds a symbol to arrays, which gives an executor.

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
use super::compile::{Blueprint, Target, changing};
use super::overlaps::Overlaps;
use super::plans::{PlanLock, Plans};
use super::stepwise::Stepwise;
use super::{Engine, Executor};
use crate::graph::{Action, Graph, entry, op_call};
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
    /// How to write each gradient.
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
        let given: Vec<(String, StorageType)> = names.zip(types).collect();
        let storage = infer_storage(symbol, &given, &[])?;
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
            engine: Engine::Stepwise(Box::new(Stepwise::new(symbol, bound, outputs)?)),
            monitor: Mutex::new(None),
        })
    }
}

/// A graph with gradients, and its named entries.
struct Network {
    graph: Graph,
    /// Nodes from here on compute gradients.
    forward_nodes: usize,
    ys: Vec<Entry>,
    variables: VariableEntries,
    /// Variables for the head gradients; `None` where no gradient reads them.
    heads: Vec<Option<Entry>>,
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
        let (mut graph, ys) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let arrays = variables.with_arrays(bound).map(|(e, array)| (e, array.clone())).collect();
        // Eliminate before differentiating, so that the gradient has no common subexpressions either.
        let (kept, needed) = (ys.iter().copied().collect(), graph.needed_for(ys.iter().copied()));
        let changing = changing(&graph, &arrays);
        if std::env::var(ELIMINATE).as_deref() != Ok("0") {
            common_subexpressions::eliminate(&mut graph, &needed, &kept, &changing);
        }
        let optimized =
            symbol.with_inputs(|i| graph.nodes[i].inputs.iter().map(|e| (e.node as usize, e.index)).collect());
        let (forward_nodes, heads) = (graph.nodes.len(), vec![None; ys.len()]);
        let trace = Trace::default();
        let mut network = Network { graph, forward_nodes, ys, variables, heads, targets: Vec::new(), trace, optimized };
        network.differentiate(symbol, bound)?;
        Ok(network)
    }

    /// Extends the graph by the requested gradients.
    fn differentiate(&mut self, symbol: &Symbol, bound: &Bound) -> Result<()> {
        let wanted: Vec<usize> = (0..bound.args.len()).filter(|i| bound.reqs[*i] != Req::Null).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut head_grads = Vec::new();
        for (i, y) in self.ys.iter().enumerate() {
            let head = self.graph.variable(&format!("_head_grad_{i}"), Attrs::new());
            self.heads[i] = Some(head).filter(|_| !self.graph.node(*y).op().is_some_and(gradient::is_loss));
            head_grads.push(head);
        }
        let xs: Vec<Entry> = wanted.iter().map(|i| self.variables.args[*i]).collect();
        let request = gradient::Request { ys: &self.ys, head_grads: &head_grads, xs: &xs, create_graph: false };
        let entries = gradient::traced(&mut self.graph, &request, &mut self.trace)?;
        for ((i, variable), entry) in wanted.iter().zip(&xs).zip(entries) {
            let array = bound.grads[*i].clone().ok_or_else(|| {
                Error::Value(format!(
                    "argument {} has a gradient request but no gradient array",
                    symbol.list_arguments()[*i]
                ))
            })?;
            let arg = &bound.args[*i];
            let is_like_argument = array.shape() == arg.shape() && array.dtype() == arg.dtype();
            let (req, variable) = (bound.reqs[*i], *variable);
            self.targets.push(Target { entry, array, req, old: None, variable, is_like_argument });
        }
        // Head gradients that no gradient reads need no array, and `backward` does not ask for them.
        let used = self.graph.needed_for(self.targets.iter().filter_map(|t| t.entry));
        for (head, e) in self.heads.iter_mut().zip(&head_grads) {
            *head = head.filter(|_| used[e.node as usize]);
        }
        Ok(())
    }

    /// The arguments that operators fill with constants, each with its value. MXNet leaves them if nothing is differentiated.
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
        let known = self.variables.with_arrays(bound).map(|(e, array)| (e, array.context())).collect();
        let assigned = devices::assign(&self.graph, devices, &known, self.forward_nodes)?;
        let remap = |e: &mut Entry| *e = assigned.entry(*e);
        let VariableEntries { args, aux } = &mut self.variables;
        args.iter_mut().chain(aux).chain(&mut self.ys).chain(self.heads.iter_mut().flatten()).for_each(remap);
        for target in &mut self.targets {
            remap(&mut target.variable);
            target.entry.iter_mut().for_each(remap);
        }
        self.trace = self.trace.remapped(|e| assigned.entry(e));
        self.forward_nodes = assigned.forward_nodes;
        self.graph = assigned.graph;
        Ok(())
    }
}

/// Binds a symbol. Outputs reuse the memory of `outputs` if it is large enough.
fn bind(
    symbol: &Symbol,
    devices: Devices,
    bound: Bound,
    shared: Option<&Executor>,
    outputs: &[NDArray],
) -> Result<Executor> {
    symbol.check_ready()?;
    check_counts(symbol, &bound)?;
    if is_dynamic(symbol) {
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
    let Network { mut graph, forward_nodes, ys, heads, mut targets, trace, optimized, .. } = network;
    let memory: Overlaps<usize> = targets.iter().map(|t| &t.array).enumerate().collect();
    for (i, target) in targets.iter_mut().enumerate() {
        let is_shared = memory.with(&target.array).any(|k| k != i);
        if let Some(old) = add_to_old(&mut graph, target, is_shared)? {
            external.insert(old, target.array.clone());
        }
    }
    let (shapes, dtypes) = infer_all(&graph, forward_nodes, &external, &ys, &heads)?;
    let mut head_arrays = vec![None; ys.len()];
    for (i, head) in heads.iter().enumerate() {
        if let Some(e) = head {
            let array = NDArray::zeros(&shapes[*e], dtypes[*e].unwrap_or(DType::F32), graph.node(ys[i]).context)?;
            external.insert(*e, array.clone());
            head_arrays[i] = Some(array);
        }
    }
    for (i, y) in ys.iter().enumerate() {
        if !external.contains_key(y) {
            let (dtype, context) = (dtypes[*y].unwrap_or(DType::F32), graph.node(*y).context);
            external.insert(*y, output(&shapes[*y], dtype, context, outputs.get(i))?);
        }
    }
    let outputs = ys.iter().map(|y| external[y].clone()).collect();
    let blueprint = Blueprint { graph, forward_nodes, ys, shapes, dtypes, external, targets, trace };
    let arenas = match shared {
        Some(Executor { engine: Engine::Planned(plans), .. }) => plans.enter()?.arenas(),
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
        outputs,
        head_grads: head_arrays,
        filled,
        engine: Engine::Planned(Box::new(PlanLock::new(Plans::new(blueprint, &arenas)?))),
        monitor: Mutex::new(None),
    })
}

/// An array for an output, in `memory` if that is large enough.
fn output(shape: &Shape, dtype: DType, context: Context, memory: Option<&NDArray>) -> Result<NDArray> {
    let fits = |a: &&NDArray| a.dtype() == dtype && a.context() == context && a.len() >= shape.num_elements();
    match memory.filter(fits) {
        Some(a) => NDArray::view(a.chunk().clone(), a.byte_range().start, shape.clone(), dtype),
        None => NDArray::empty(shape, dtype, context),
    }
}

/// Turns the accumulation of a gradient whose kernel only writes into an addition in the graph, which can join a chain. Returns the
/// variable for the array's old content. Does nothing if shape, type or device of the array differ, or another gradient shares it.
fn add_to_old(graph: &mut Graph, target: &mut Target, is_shared: bool) -> Result<Option<Entry>> {
    let Some(gradient) = target.entry.filter(|_| target.req == Req::Add && !is_shared) else { return Ok(None) };
    let context = graph.node(gradient).context;
    if graph.node(gradient).accumulates() || !target.is_like_argument || context != target.array.context() {
        return Ok(None);
    }
    let name = format!("{}_add", graph.node(gradient).name);
    let old = graph.variable(&format!("{name}_old"), Attrs::new());
    let add = Action::Forward(op_call("_grad_add", &Attrs::new())?);
    let sum = graph.push(&name, add, vec![old, gradient], Attrs::new());
    graph.nodes[old.node as usize].context = context;
    graph.nodes[sum.node as usize].context = context;
    target.entry = Some(sum);
    target.req = Req::Write;
    target.old = Some(old);
    Ok(target.old)
}

/// Whether any operator has output shapes that depend on the values of its inputs, which a plan does not support.
pub fn is_dynamic(symbol: &Symbol) -> bool {
    symbol.nodes().iter().any(|n| n.op.as_ref().is_some_and(OpCall::is_dynamic))
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

/// Checks the gradient arrays: `fits` compares an argument with its gradient array.
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
    let given = bound.args.iter().map(|a| ("Input", "arguments", a)).chain(grads.map(|g| ("Gradient", "gradients", g)));
    for (what, all, array) in given {
        ensure!(
            array.context() == default,
            "{what} array is in {} while binding with ctx={default}. All {all} must be in global context ({default}) unless \
             group2ctx is specified for cross-device graph.",
            array.context()
        );
    }
    Ok(())
}

struct VariableEntries {
    args: Vec<Entry>,
    aux: Vec<Entry>,
}

impl VariableEntries {
    /// The entries, each with its array.
    fn with_arrays<'a>(&'a self, bound: &'a Bound) -> impl Iterator<Item = (Entry, &'a NDArray)> {
        let (args, aux) = (self.args.iter().zip(&bound.args), self.aux.iter().zip(&bound.aux));
        args.chain(aux).map(|(e, array)| (*e, array))
    }
}

/// The entries of arguments and auxiliary states. The graph lists its variables in the order of the symbol.
fn variable_entries(symbol: &Symbol, graph: &Graph) -> VariableEntries {
    let is_aux: Vec<bool> = symbol.variables().into_iter().map(|(_, aux)| aux).collect();
    let nodes = (0..graph.nodes.len()).filter(|i| matches!(graph.nodes[*i].action, Action::Variable));
    let (mut args, mut aux) = (Vec::new(), Vec::new());
    for (i, is_aux) in nodes.zip(is_aux) {
        if is_aux { aux.push(entry(i, 0)) } else { args.push(entry(i, 0)) }
    }
    VariableEntries { args, aux }
}

/// Infers all shapes and types, and checks the given arrays against them.
fn infer_all(
    graph: &Graph,
    forward_nodes: usize,
    external: &HashMap<Entry, NDArray>,
    ys: &[Entry],
    heads: &[Option<Entry>],
) -> Result<(Entries<Shape>, Entries<Option<DType>>)> {
    let mut shapes = Entries::new(graph, Shape::unknown());
    let mut dtypes = Entries::new(graph, None);
    for (e, array) in external {
        shapes[*e] = array.shape().clone();
        dtypes[*e] = Some(array.dtype());
    }
    if heads.iter().any(Option::is_some) {
        // A head gradient has the shape and type of its output.
        infer::shapes_before(graph, forward_nodes, &mut shapes)?;
        infer::dtypes_before(graph, forward_nodes, &mut dtypes)?;
        for (y, head) in ys.iter().zip(heads) {
            if let Some(head) = head {
                shapes[*head] = shapes[*y].clone();
                dtypes[*head] = dtypes[*y];
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
    for y in ys {
        let node = graph.node(*y);
        ensure!(
            shapes[*y].is_known(),
            "the shape of output {} cannot be inferred (known so far: {}): give the shapes of more arguments",
            node.name,
            shapes[*y]
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
    let given = |name: &str| shapes.iter().any(|(n, _)| n == name);
    let adapt = |name: &str, array: &NDArray, shape: &Shape| -> Result<NDArray> {
        if array.shape() == shape {
            return Ok(array.clone());
        }
        ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to reshape");
        ensure!(
            given(name) || partial_shaping,
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
    let names = old.symbol.list_arguments();
    let args: Vec<NDArray> =
        (names.iter().zip(&old.args).zip(&inferred.args)).map(|((n, a), s)| adapt(n, a, s)).collect::<Result<_>>()?;
    let grads = (names.iter().zip(&old.grads).zip(&inferred.args))
        .map(|((n, g), s)| g.as_ref().map(|g| adapt(n, g, s)).transpose())
        .collect::<Result<_>>()?;
    let aux_names = old.symbol.list_auxiliary_states();
    let aux =
        (aux_names.iter().zip(&old.aux).zip(&inferred.aux)).map(|((n, a), s)| adapt(n, a, s)).collect::<Result<_>>()?;
    let bound = Bound { args, grads, reqs: old.reqs.clone(), aux };
    bind(&old.symbol, old.devices.clone(), bound, Some(old), &old.outputs)
}
