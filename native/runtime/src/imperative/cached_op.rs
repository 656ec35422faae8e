//! Graphs that are called like operators.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::ParamValue;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use parking_lot::Mutex;

use super::tape::{Tensor, Tensors, is_recording, is_training, record};
use crate::executor::{Bound, Executor};
use crate::graph::{Action, Graph, entry};
use crate::passes::infer::{self, Entries};
use crate::symbol::Symbol;

/// Called with the name of an array, the name of its operator, and a copy of the array.
pub type Hook = Arc<dyn Fn(&str, &str, NDArray) + Send + Sync>;

/// Options that [`CachedOp::new`] takes, with whether they are numbers. Plans are made for every combination of shapes and hold their
/// memory, whatever they say; what they ask for beyond that is done or has no meaning here.
const FLAGS: &[(&str, Kind)] = &[
    ("static_alloc", Kind::Bool),
    ("static_shape", Kind::Bool),
    ("is_dynamic", Kind::Bool),
    ("inline_limit", Kind::Number),
    ("forward_bulk_size", Kind::Number),
    ("backward_bulk_size", Kind::Number),
    ("data_indices", Kind::Any),
    ("param_indices", Kind::Any),
    ("subgraph", Kind::Any),
];

#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Number,
    Any,
}

/// A graph that is called like an operator, by any number of threads. Calls that are not recorded run plans, one for each combination
/// of shapes and types; recorded ones put the graph's operators on the tape.
pub struct CachedOp {
    symbol: Symbol,
    graph: Graph,
    ys: Vec<Entry>,
    /// The variables' entries, each with whether it is an auxiliary state.
    variables: Vec<(Entry, bool)>,
    /// Plans that no call uses.
    idle: Mutex<Vec<Planned>>,
    hook: Mutex<Option<(Hook, bool)>>,
}

/// The most plans that wait for their next call; the oldest go first.
const MOST_IDLE: usize = 64;

/// An executor and the arrays that it is bound to.
struct Planned {
    executor: Executor,
    ins: Vec<NDArray>,
    /// Inputs that differ from call to call and are copied into arrays of the plan's own.
    own: Vec<bool>,
}

impl CachedOp {
    /// Makes an operator of a graph. Its inputs are the variables in the order of [`Symbol::list_inputs`].
    ///
    /// # Errors
    /// An unknown flag, or one that does not parse.
    pub fn new(symbol: &Symbol, flags: &[(String, String)]) -> Result<CachedOp> {
        for (key, value) in flags {
            let Some((_, kind)) = FLAGS.iter().find(|(name, _)| name == key) else {
                let names: Vec<_> = FLAGS.iter().map(|(name, _)| *name).collect();
                return Err(Error::Param(format!(
                    "a cached operator has no flag '{key}'; its flags are {}",
                    names.join(", ")
                )));
            };
            let parsed = match kind {
                Kind::Bool => bool::parse(value).map(|_| ()),
                Kind::Number => i64::parse(value).map(|_| ()),
                Kind::Any => Ok(()),
            };
            parsed.map_err(|e| Error::Param(format!("flag {key} of a cached operator: {e}")))?;
        }
        let (graph, ys) = Graph::from_symbol(symbol);
        let nodes = (0..graph.nodes.len()).filter(|i| matches!(graph.nodes[*i].action, Action::Variable));
        let variables = nodes.map(|i| entry(i, 0)).zip(symbol.variables().into_iter().map(|(_, aux)| aux)).collect();
        let (idle, hook) = (Mutex::default(), Mutex::default());
        Ok(CachedOp { symbol: symbol.clone(), graph, ys, variables, idle, hook })
    }

    /// The graph.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Installs a hook, or removes it. While there is one, operators run one by one; with `inputs_too` it sees their inputs as well.
    pub fn set_hook(&self, hook: Option<Hook>, inputs_too: bool) {
        *self.hook.lock() = hook.map(|hook| (hook, inputs_too));
    }

    /// Calls the graph. Results go to `outputs`, or to new tensors if that is empty; either way they are returned.
    ///
    /// # Errors
    /// Wrong numbers of arrays, arrays on several devices, shapes and types that do not fit, those of the operators.
    pub fn call(&self, inputs: &[Arc<Tensor>], outputs: &[Arc<Tensor>]) -> Result<Tensors> {
        ensure!(
            inputs.len() == self.variables.len(),
            "{} inputs were given; the graph has {}: {}",
            inputs.len(),
            self.variables.len(),
            self.symbol.list_inputs().join(", ")
        );
        ensure!(
            outputs.is_empty() || outputs.len() == self.ys.len(),
            "{} output arrays were given; the graph has {} outputs",
            outputs.len(),
            self.ys.len()
        );
        let arrays = inputs.iter().map(|t| t.array()).collect::<Result<Vec<_>>>()?;
        let context = arrays.first().map(NDArray::context).unwrap_or_default();
        for (k, array) in arrays.iter().enumerate() {
            let name = |k: usize| &self.graph.node(self.variables[k].0).name;
            ensure!(
                array.context() == context,
                "CachedOp requires all inputs to live on the same context. But {} is on {context} while {} is on {}",
                name(0),
                name(k),
                array.context()
            );
        }
        let recorded = is_recording() && inputs.iter().any(|t| t.is_recorded());
        let hook = self.hook.lock().clone();
        if recorded || hook.is_some() {
            return self.one_by_one(inputs, &arrays, outputs, context, hook);
        }
        let planned = self.take(&arrays, context)?;
        planned.executor.forward(is_training())?;
        let results = deliver(planned.executor.outputs(), outputs);
        let mut idle = self.idle.lock();
        if idle.len() >= MOST_IDLE {
            idle.remove(0);
        }
        idle.push(planned);
        results
    }

    /// A plan for these inputs that no other call uses.
    fn take(&self, ins: &[NDArray], context: Context) -> Result<Planned> {
        let waiting = {
            let mut idle = self.idle.lock();
            let fitting =
                |p: &Planned| p.executor.context() == context && p.ins.iter().zip(ins).all(|(a, b)| alike(a, b));
            // The best is bound to the most of these very arrays.
            let score = |p: &Planned| p.ins.iter().zip(ins).filter(|(a, b)| same(a, b)).count();
            let best = (0..idle.len()).filter(|i| fitting(&idle[*i])).max_by_key(|i| score(&idle[*i]));
            best.map(|i| idle.swap_remove(i))
        };
        let mut own = vec![false; ins.len()];
        if let Some(planned) = waiting {
            let moved: Vec<bool> = planned.ins.iter().zip(ins).map(|(a, b)| !same(a, b)).collect();
            if (0..ins.len()).all(|i| !moved[i] || planned.own[i]) {
                for i in (0..ins.len()).filter(|i| moved[*i]) {
                    planned.ins[i].copy_from(&ins[i])?;
                }
                return Ok(planned);
            }
            // An input that changes its place is copied from now on; a state is where its owner looks for it.
            own = (0..ins.len()).map(|i| (moved[i] || planned.own[i]) && !self.variables[i].1).collect();
        }
        let ins = (ins.iter().zip(&own))
            .map(|(array, own)| if *own { array.to_context(context) } else { Ok(array.clone()) })
            .collect::<Result<Vec<_>>>()?;
        let mut bound = Bound { args: vec![], grads: vec![], reqs: vec![], aux: vec![] };
        for (array, (_, is_aux)) in ins.iter().zip(&self.variables) {
            if *is_aux { bound.aux.push(array.clone()) } else { bound.args.push(array.clone()) }
        }
        bound.grads = vec![None; bound.args.len()];
        bound.reqs = vec![Req::Null; bound.args.len()];
        let executor = Executor::bind(&self.symbol, context, bound, None)?;
        Ok(Planned { executor, ins, own })
    }

    /// Runs operator after operator, each recorded where the thread records.
    fn one_by_one(
        &self,
        inputs: &[Arc<Tensor>],
        arrays: &[NDArray],
        outputs: &[Arc<Tensor>],
        context: Context,
        hook: Option<(Hook, bool)>,
    ) -> Result<Tensors> {
        let mut known: HashMap<Entry, Arc<Tensor>> =
            self.variables.iter().map(|(e, _)| *e).zip(inputs.iter().cloned()).collect();
        let mut shapes: Option<(Entries<Shape>, Entries<Option<DType>>)> = None;
        for (i, node) in self.graph.nodes.iter().enumerate() {
            let Action::Forward(op) = &node.action else { continue };
            let missing = |e: &Entry| Error::Internal(format!("an input of {} is missing: {e:?}", node.name));
            let ins: Vec<Arc<Tensor>> =
                node.inputs.iter().map(|e| known.get(e).cloned().ok_or_else(|| missing(e))).collect::<Result<_>>()?;
            let mut given = Vec::new();
            if ins.is_empty() {
                // Shapes of what is made of nothing follow from where it is used.
                let (shapes, dtypes) = shapes.get_or_insert(self.infer(arrays)?);
                for k in 0..node.num_visible() {
                    let e = entry(i, k);
                    given.push(Arc::new(Tensor::new(NDArray::empty(
                        &shapes[e],
                        dtypes[e].unwrap_or(DType::F32),
                        context,
                    )?)));
                }
            }
            if let Some((hook, true)) = &hook {
                show(hook, node.inputs.iter().zip(&ins).map(|(e, t)| (self.name(*e), t)), op.name)?;
            }
            let outs =
                record(op, &node.attrs, Some(context), &ins, &given).map_err(|e| relocate(e, op.name, &node.name))?;
            if let Some((hook, _)) = &hook {
                show(hook, outs.iter().enumerate().map(|(k, t)| (self.name(entry(i, k)), t)), op.name)?;
            }
            for (k, tensor) in outs.into_iter().enumerate() {
                known.insert(entry(i, k), tensor);
            }
        }
        let mut results = Tensors::new();
        for (k, y) in self.ys.iter().enumerate() {
            let result = known.get(y).cloned().ok_or_else(|| Error::Internal("an output is missing".into()))?;
            results.push(match outputs.get(k) {
                Some(output) => {
                    output.take_over(&result)?;
                    output.clone()
                }
                None => result,
            });
        }
        Ok(results)
    }

    fn infer(&self, arrays: &[NDArray]) -> Result<(Entries<Shape>, Entries<Option<DType>>)> {
        let mut shapes = Entries::new(&self.graph, Shape::unknown());
        let mut dtypes = Entries::new(&self.graph, None);
        for ((e, _), array) in self.variables.iter().zip(arrays) {
            shapes[*e] = array.shape().clone();
            dtypes[*e] = Some(array.dtype());
        }
        Ok((infer::shapes(&self.graph, shapes)?, infer::dtypes(&self.graph, dtypes)?))
    }

    /// The name of an entry as listings show it.
    fn name(&self, e: Entry) -> String {
        let node = self.graph.node(e);
        match node.op() {
            None => node.name.clone(),
            Some(op) => match op.def.output_names(&op.params).get(e.index as usize) {
                Some(output) => format!("{}_{output}", node.name),
                None => format!("{}_output{}", node.name, e.index),
            },
        }
    }
}

/// Names the node of the graph instead of the operator.
fn relocate(error: Error, op: &str, node: &str) -> Error {
    match error {
        Error::InOperator { source, .. } => source.in_operator(op, node),
        other => other.in_operator(op, node),
    }
}

fn show<'t>(hook: &Hook, arrays: impl Iterator<Item = (String, &'t Arc<Tensor>)>, op: &str) -> Result<()> {
    for (name, tensor) in arrays {
        let array = tensor.array()?;
        hook(&name, op, array.to_context(array.context())?);
    }
    Ok(())
}

/// Whether a plan for one array is one for the other.
fn alike(a: &NDArray, b: &NDArray) -> bool {
    a.shape() == b.shape() && a.dtype() == b.dtype() && a.context() == b.context()
}

/// Whether two arrays are the same elements in the same memory.
fn same(a: &NDArray, b: &NDArray) -> bool {
    alike(a, b) && Arc::ptr_eq(a.chunk(), b.chunk()) && a.byte_range() == b.byte_range()
}

/// Copies results, which the next call overwrites, to where they are wanted.
fn deliver(results: &[NDArray], outputs: &[Arc<Tensor>]) -> Result<Tensors> {
    let mut tensors = Tensors::new();
    for (k, result) in results.iter().enumerate() {
        tensors.push(match outputs.get(k) {
            Some(output) => {
                if output.is_empty() {
                    output.set(result.to_context(result.context())?);
                } else {
                    let array = output.array()?;
                    ensure!(
                        array.shape() == result.shape() && array.dtype() == result.dtype(),
                        "output {k} is {} {}, but an array of {} {} was given for it",
                        result.shape(),
                        result.dtype(),
                        array.shape(),
                        array.dtype()
                    );
                    array.copy_from(result)?;
                }
                output.clone()
            }
            None => Arc::new(Tensor::new(result.to_context(result.context())?)),
        });
    }
    Ok(tensors)
}
