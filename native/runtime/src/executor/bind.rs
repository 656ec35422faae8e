//! Binding: from a symbol and arrays to an executor.

use std::collections::HashMap;

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
use parking_lot::Mutex;

use super::compile::{Blueprint, Target};
use super::plans::{Guarded, Plans};
use super::stepwise::Stepwise;
use super::{Engine, Executor};
use crate::graph::{Action, Graph, entry, op_call};
use crate::passes::gradient::{self, gradient};
use crate::passes::infer::{self, Entries};
use crate::passes::storage::infer_storage;
use crate::symbol::{OpCall, Symbol};
use crate::symbol_infer;

/// The arrays that a symbol is bound to, in the order of its arguments and auxiliary states.
pub struct Bound<A = NDArray> {
    /// Arguments.
    pub args: Vec<A>,
    /// Where gradients go.
    pub grads: Vec<Option<A>>,
    /// What to do with them.
    pub reqs: Vec<Req>,
    /// Auxiliary states.
    pub aux: Vec<A>,
}

/// Arrays of any storage that a symbol is bound to.
pub type BoundStored = Bound<Array>;

impl BoundStored {
    /// Whether an array is sparse.
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

impl Executor {
    /// Binds a symbol.
    ///
    /// # Errors
    /// Arrays that are missing, contradict each other or the graph; a gradient through an operator that has none; no memory.
    pub fn bind(symbol: &Symbol, context: Context, bound: Bound, shared: Option<&Executor>) -> Result<Executor> {
        symbol.check_ready()?;
        check(symbol, &bound, |a| (a.shape(), a.dtype()))?;
        if is_dynamic(symbol) {
            let stored = |arrays: &[NDArray]| arrays.iter().cloned().map(Array::Dense).collect();
            let grads = bound.grads.iter().map(|g| g.clone().map(Array::Dense)).collect();
            let all = Bound { args: stored(&bound.args), grads, reqs: bound.reqs.clone(), aux: stored(&bound.aux) };
            let mut executor = Executor::bind_stepwise(symbol, context, all, None)?;
            (executor.args, executor.grads, executor.aux) = (bound.args, bound.grads, bound.aux);
            return Ok(executor);
        }
        let (mut graph, ys) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let mut external: HashMap<Entry, NDArray> = HashMap::new();
        for (e, array) in variables.args.iter().zip(&bound.args).chain(variables.aux.iter().zip(&bound.aux)) {
            external.insert(*e, array.clone());
        }
        let forward_nodes = graph.nodes.len();
        let (heads, mut targets) = add_gradients(symbol, &mut graph, &ys, &variables.args, &bound)?;
        for target in &mut targets {
            if let Some(old) = add_to_old(&mut graph, target)? {
                external.insert(old, target.array.clone());
            }
        }
        let (shapes, dtypes) = infer_all(&graph, &external, &ys, &heads)?;
        let mut head_arrays = vec![None; ys.len()];
        for (i, head) in heads.iter().enumerate() {
            if let Some(e) = head {
                let array = NDArray::zeros(&shapes[*e], dtypes[*e].unwrap_or(DType::F32), context)?;
                external.insert(*e, array.clone());
                head_arrays[i] = Some(array);
            }
        }
        for y in &ys {
            if !external.contains_key(y) {
                external.insert(*y, NDArray::empty(&shapes[*y], dtypes[*y].unwrap_or(DType::F32), context)?);
            }
        }
        let outputs = ys.iter().map(|y| external[y].clone()).collect();
        let blueprint = Blueprint { graph, forward_nodes, ys, context, shapes, dtypes, external, targets };
        let arena = match shared {
            Some(Executor { engine: Engine::Planned(plans), .. }) => plans.enter()?.arena(),
            _ => None,
        };
        Ok(Executor {
            symbol: symbol.clone(),
            context,
            args: bound.args,
            grads: bound.grads,
            reqs: bound.reqs,
            aux: bound.aux,
            outputs,
            head_grads: head_arrays,
            engine: Engine::Planned(Guarded::new(Plans::new(blueprint, arena)?)),
            monitor: Mutex::new(None),
        })
    }

    /// Binds a symbol to arrays of any storage; see [`Executor::bind`].
    ///
    /// # Errors
    /// Those of [`Executor::bind`].
    pub fn bind_stored(
        symbol: &Symbol,
        context: Context,
        bound: BoundStored,
        shared: Option<&Executor>,
    ) -> Result<Executor> {
        symbol.check_ready()?;
        check(symbol, &bound, |a| (a.shape(), a.dtype()))?;
        let names = symbol.list_arguments().into_iter().chain(symbol.list_auxiliary_states());
        let types = bound.args.iter().chain(&bound.aux).map(Array::storage_type);
        let given: Vec<(String, StorageType)> = names.zip(types).collect();
        let storage = infer_storage(symbol, &given, &[])?;
        if bound.has_sparse() || storage.as_ref().is_some_and(|s| s.has_sparse) {
            return Executor::bind_stepwise(symbol, context, bound, storage.map(|s| s.outputs));
        }
        Executor::bind(symbol, context, bound.into_dense()?, shared)
    }

    /// Binds a symbol without a plan. `storage` has the storage types of the outputs where one is sparse.
    fn bind_stepwise(
        symbol: &Symbol,
        context: Context,
        bound: BoundStored,
        storage: Option<Vec<StorageType>>,
    ) -> Result<Executor> {
        let names = || symbol.list_arguments().into_iter().chain(symbol.list_auxiliary_states());
        let arrays = || bound.args.iter().chain(&bound.aux);
        let shapes: Vec<_> = names().zip(arrays().map(|a| a.shape().clone())).collect();
        let dtypes: Vec<_> = names().zip(arrays().map(Array::dtype)).collect();
        let shapes = symbol_infer::infer_shapes(symbol, &shapes)?.outputs;
        let dtypes = symbol_infer::infer_dtypes(symbol, &dtypes)?.outputs;
        let output = |k: usize| -> Result<Array> {
            // An output whose shape is not known yet is empty.
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
            context,
            args: Vec::new(),
            grads: Vec::new(),
            reqs: bound.reqs.clone(),
            aux: Vec::new(),
            outputs: Vec::new(),
            head_grads: Vec::new(),
            engine: Engine::Stepwise(Stepwise::new(symbol, bound, outputs)?),
            monitor: Mutex::new(None),
        })
    }
}

/// Extends the graph by the gradients that are requested. Returns the variables through which gradients of the outputs come in,
/// where any is read, and what to compute.
fn add_gradients(
    symbol: &Symbol,
    graph: &mut Graph,
    ys: &[Entry],
    args: &[Entry],
    bound: &Bound,
) -> Result<(Vec<Option<Entry>>, Vec<Target>)> {
    let wanted: Vec<usize> = (0..bound.args.len()).filter(|i| bound.reqs[*i] != Req::Null).collect();
    let mut heads: Vec<Option<Entry>> = vec![None; ys.len()];
    let mut targets: Vec<Target> = Vec::new();
    if wanted.is_empty() {
        return Ok((heads, targets));
    }
    let mut head_grads = Vec::new();
    for (i, y) in ys.iter().enumerate() {
        let head = graph.variable(&format!("head_grad{i}"), Attrs::new());
        heads[i] = Some(head).filter(|_| !graph.node(*y).op().is_some_and(gradient::is_loss));
        head_grads.push(head);
    }
    let xs: Vec<Entry> = wanted.iter().map(|i| args[*i]).collect();
    let request = gradient::Request { ys, head_grads: &head_grads, xs: &xs, again: false };
    let entries = gradient(graph, &request)?;
    for (i, entry) in wanted.iter().zip(entries) {
        let array = bound.grads[*i].clone().ok_or_else(|| {
            Error::Value(format!(
                "argument {} has a gradient request but no gradient array",
                symbol.list_arguments()[*i]
            ))
        })?;
        targets.push(Target { entry, array, req: bound.reqs[*i], old: None });
    }
    // Heads that no gradient reads need no array and no argument of `backward`.
    let used = graph.needed_for(targets.iter().filter_map(|t| t.entry));
    for (head, e) in heads.iter_mut().zip(&head_grads) {
        *head = head.filter(|_| used[e.node as usize]);
    }
    Ok((heads, targets))
}

/// Where a gradient is to be added to an array and its kernel only writes, the addition becomes an operator, which can be part of a
/// chain. Returns the variable that stands for the array's old content.
fn add_to_old(graph: &mut Graph, target: &mut Target) -> Result<Option<Entry>> {
    let Some(gradient) = target.entry.filter(|_| target.req == Req::Add) else { return Ok(None) };
    let adds = match &graph.node(gradient).action {
        Action::Variable | Action::Fused { .. } => false,
        Action::Forward(op) => op.def.accumulates,
        Action::Backward { backward, .. } => backward.accumulates,
    };
    if adds {
        return Ok(None);
    }
    let name = format!("{}_add", graph.node(gradient).name);
    let old = graph.variable(&format!("{name}_old"), Attrs::new());
    let add = Action::Forward(op_call("_grad_add", &Attrs::new())?);
    target.entry = Some(graph.push(&name, add, vec![old, gradient], Attrs::new()));
    target.req = Req::Write;
    target.old = Some(old);
    Ok(target.old)
}

/// Whether there are operators whose output shapes depend on the content of their inputs, which have no place in a plan.
pub fn is_dynamic(symbol: &Symbol) -> bool {
    symbol.nodes().iter().any(|n| n.op.as_ref().is_some_and(OpCall::is_dynamic))
}

fn check<A>(symbol: &Symbol, bound: &Bound<A>, like: fn(&A) -> (&Shape, DType)) -> Result<()> {
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
    for ((name, arg), grad) in names.iter().zip(&bound.args).zip(&bound.grads) {
        if let Some(g) = grad {
            let ((shape, dtype), (given, given_dtype)) = (like(arg), like(g));
            ensure!(
                shape == given && dtype == given_dtype,
                "the gradient of argument {name} is {given} {given_dtype}, but the argument is {shape} {dtype}"
            );
        }
    }
    Ok(())
}

struct VariableEntries {
    args: Vec<Entry>,
    aux: Vec<Entry>,
}

/// The entries of arguments and auxiliary states; the graph has the symbol's nodes in the same order.
fn variable_entries(symbol: &Symbol, graph: &Graph) -> VariableEntries {
    let is_aux: Vec<bool> = symbol.variables().into_iter().map(|(_, aux)| aux).collect();
    let nodes = (0..graph.nodes.len()).filter(|i| matches!(graph.nodes[*i].action, Action::Variable));
    let (mut args, mut aux) = (Vec::new(), Vec::new());
    for (i, is_aux) in nodes.zip(is_aux) {
        if is_aux { aux.push(entry(i, 0)) } else { args.push(entry(i, 0)) }
    }
    VariableEntries { args, aux }
}

/// Infers all shapes and types, and checks what was given against what was inferred.
fn infer_all(
    graph: &Graph,
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
    let mut shapes = infer::shapes(graph, shapes)?;
    let mut dtypes = infer::dtypes(graph, dtypes)?;
    if heads.iter().any(Option::is_some) {
        for (y, head) in ys.iter().zip(heads) {
            if let Some(head) = head {
                shapes[*head] = shapes[*y].clone();
                dtypes[*head] = dtypes[*y];
            }
        }
        shapes = infer::shapes(graph, shapes)?;
        dtypes = infer::dtypes(graph, dtypes)?;
    }
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
            "the shape of {name} changes from {} to {shape} although it was not given: allow it with partial_shaping",
            array.shape()
        );
        if shape.num_elements() <= array.len() {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), array.dtype());
        }
        ensure!(
            allow_up_sizing,
            "the new shape {shape} of {name} is larger than {}: allow new memory with allow_up_sizing",
            array.shape()
        );
        NDArray::zeros(shape, array.dtype(), old.context)
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
    Executor::bind(&old.symbol, old.context, bound, Some(old))
}
