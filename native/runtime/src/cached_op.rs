//! Cached operators: graphs that are called like operators.

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::ParamValue;
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::Req;
use ferromx_kernels::par::parallel_copy;
use parking_lot::Mutex;

use crate::executor::{Bound, Executor};
use crate::imperative::{
    Hook, InstalledHook, StepwiseGraph, Tensor, Tensors, check_outputs, failures, is_recording, operator_mode,
    recorded_constant,
};
use crate::passes::storage::infer_storage;
use crate::symbol::Symbol;

/// Flags of [`CachedOp::new`] with their types. They are checked, but have no effect, since every combination of shapes has a plan with
/// static memory.
const FLAGS: &[(&str, FlagType)] = &[
    ("static_alloc", FlagType::Bool),
    ("static_shape", FlagType::Bool),
    ("is_dynamic", FlagType::Bool),
    ("inline_limit", FlagType::Number),
    ("forward_bulk_size", FlagType::Number),
    ("backward_bulk_size", FlagType::Number),
    ("data_indices", FlagType::Any),
    ("param_indices", FlagType::Any),
    ("subgraph", FlagType::Any),
];

#[derive(Clone, Copy)]
enum FlagType {
    Bool,
    Number,
    Any,
}

/// A graph that is called like an operator, from any number of threads. An unrecorded call runs a plan for its combination of shapes
/// and types; a recorded call puts the graph's operators on the tape.
pub struct CachedOp {
    symbol: Symbol,
    graph: StepwiseGraph,
    /// Whether the graph cannot have a plan, because shapes depend on values or dense inputs give sparse arrays.
    is_stepwise: bool,
    /// Plans that no call is using.
    idle: Mutex<Vec<BoundPlan>>,
    hook: Mutex<Option<InstalledHook>>,
}

/// Maximum number of idle plans; the oldest are dropped first.
const MAX_IDLE: usize = 64;

/// An executor and the arrays that it is bound to.
struct BoundPlan {
    executor: Executor,
    ins: Vec<NDArray>,
    /// For each input, whether calls copy it to an array of the plan, because they pass different arrays.
    is_copied: Vec<bool>,
}

impl CachedOp {
    /// Creates an operator from a graph. Its inputs are the variables in the order of [`Symbol::list_inputs`].
    ///
    /// # Errors
    /// An unknown flag, or one that does not parse.
    pub fn new(symbol: &Symbol, flags: &[(String, String)]) -> Result<CachedOp> {
        for (key, value) in flags {
            let Some((_, flag_type)) = FLAGS.iter().find(|(name, _)| name == key) else {
                let names: Vec<_> = FLAGS.iter().map(|(name, _)| *name).collect();
                return Err(Error::Param(format!(
                    "a cached operator has no flag '{key}'; its flags are {}",
                    names.join(", ")
                )));
            };
            let parsed = match flag_type {
                FlagType::Bool => bool::parse(value).map(|_| ()),
                FlagType::Number => i64::parse(value).map(|_| ()),
                FlagType::Any => Ok(()),
            };
            parsed.map_err(|e| Error::Param(format!("flag {key} of a cached operator: {e}")))?;
        }
        let is_set = |flag: &str| flags.iter().any(|(key, value)| key == flag && bool::parse(value) == Ok(true));
        ensure!(
            is_set("static_alloc") || !is_set("static_shape"),
            "static_alloc must be True when static_shape is True: set both"
        );
        let graph = StepwiseGraph::new(symbol);
        let makes_sparse = infer_storage(symbol, &[], &[])?.is_some_and(|storage| storage.has_sparse);
        let is_stepwise = makes_sparse || symbol.is_dynamic();
        let (idle, hook) = (Mutex::default(), Mutex::default());
        Ok(CachedOp { symbol: symbol.clone(), graph, is_stepwise, idle, hook })
    }

    /// The graph.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Installs a hook, or removes it. With a hook, operators run one by one; with `monitor_all` the hook also gets their inputs.
    pub fn set_hook(&self, hook: Option<Hook>, monitor_all: bool) {
        *self.hook.lock() = hook.map(|callback| InstalledHook { callback, monitor_all });
    }

    /// Calls the graph. Results are written to `outputs`, or to new tensors if that is empty, and returned.
    ///
    /// # Errors
    /// Wrong number of arrays, arrays on several devices, incompatible shapes and types, errors of the operators.
    pub fn call(&self, inputs: &[Arc<Tensor>], outputs: &[Arc<Tensor>]) -> Result<Tensors> {
        ensure!(
            inputs.len() == self.graph.variables.len(),
            "{} inputs were given; the graph has {}: {}",
            inputs.len(),
            self.graph.variables.len(),
            self.symbol.list_inputs().join(", ")
        );
        ensure!(
            outputs.is_empty() || outputs.len() == self.graph.outputs.len(),
            "{} output arrays were given; the graph has {} outputs",
            outputs.len(),
            self.graph.outputs.len()
        );
        check_outputs(outputs)?;
        self.check_contexts(inputs)?;
        let is_recorded = is_recording() && inputs.iter().any(|t| t.is_recorded());
        let is_sparse = |t: &Arc<Tensor>| t.storage_type().is_some_and(|s| s != StorageType::Default);
        let hook = self.hook.lock().clone();
        if is_recorded || hook.is_some() || self.is_stepwise || inputs.iter().chain(outputs).any(is_sparse) {
            let results = self.graph.run(inputs, outputs, hook)?;
            if !is_recorded || !outputs.is_empty() {
                return Ok(results);
            }
            // The graph is recorded as a whole, so that programs can also differentiate outputs that depend on no variable.
            let on_tape = |t: Arc<Tensor>| if t.is_recorded() { Ok(t) } else { recorded_constant(&t) };
            return results.into_iter().map(on_tape).collect();
        }
        let arrays = inputs.iter().map(|t| t.array()).collect::<Result<Vec<_>>>()?;
        let context = arrays.first().map(NDArray::context).unwrap_or_default();
        let plan = self.take_plan(&arrays, context)?;
        let failure = failures::run_or_defer(&arrays, || plan.executor.forward(operator_mode()))?;
        let results = copy_results(plan.executor.outputs(), outputs);
        if let (Some(failure), Ok(results)) = (failure, &results) {
            failures::mark(&results.iter().map(|t| t.array()).collect::<Result<Vec<_>>>()?, &failure);
        }
        let mut idle = self.idle.lock();
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(plan);
        results
    }

    fn check_contexts(&self, inputs: &[Arc<Tensor>]) -> Result<()> {
        let mut first = None;
        for (tensor, (variable, _)) in inputs.iter().zip(&self.graph.variables) {
            let (name, context) = (self.graph.name(*variable), tensor.stored()?.context());
            let (first_name, expected) = *first.get_or_insert((name, context));
            ensure!(
                context == expected,
                "CachedOp requires all inputs to live on the same context. But {first_name} is on {expected} while {name} is on \
                 {context}"
            );
        }
        Ok(())
    }

    /// Takes an idle plan for these inputs, or compiles one.
    fn take_plan(&self, ins: &[NDArray], context: Context) -> Result<BoundPlan> {
        let idle_plan = {
            let mut idle = self.idle.lock();
            let can_run = |p: &BoundPlan| {
                p.executor.context() == context && p.ins.iter().zip(ins).all(|(a, b)| is_compatible(a, b))
            };
            // Prefer the plan that is bound to the most of these arrays.
            let score = |p: &BoundPlan| p.ins.iter().zip(ins).filter(|(a, b)| a.is_same_view(b)).count();
            let best = (0..idle.len()).filter(|i| can_run(&idle[*i])).max_by_key(|i| score(&idle[*i]));
            best.map(|i| idle.swap_remove(i))
        };
        let mut is_copied = vec![false; ins.len()];
        if let Some(plan) = idle_plan {
            let differs: Vec<bool> = plan.ins.iter().zip(ins).map(|(a, b)| !a.is_same_view(b)).collect();
            if (0..ins.len()).all(|i| !differs[i] || plan.is_copied[i]) {
                for i in (0..ins.len()).filter(|i| differs[*i]) {
                    plan.ins[i].copy_from_with(&ins[i], parallel_copy)?;
                }
                return Ok(plan);
            }
            // Copy inputs that differ between calls, except for auxiliary states, which the plan must update in the caller's array.
            is_copied =
                (0..ins.len()).map(|i| (differs[i] || plan.is_copied[i]) && !self.graph.variables[i].1).collect();
        }
        let ins = (ins.iter().zip(&is_copied))
            .map(|(array, is_copied)| if *is_copied { array.to_context(context) } else { Ok(array.clone()) })
            .collect::<Result<Vec<_>>>()?;
        let mut bound = Bound { args: vec![], grads: vec![], reqs: vec![], aux: vec![] };
        for (array, (_, is_aux)) in ins.iter().zip(&self.graph.variables) {
            if *is_aux { bound.aux.push(array.clone()) } else { bound.args.push(array.clone()) }
        }
        bound.grads = vec![None; bound.args.len()];
        bound.reqs = vec![Req::Null; bound.args.len()];
        let executor = Executor::bind(&self.symbol, context, bound, None)?;
        Ok(BoundPlan { executor, ins, is_copied })
    }
}

/// Whether a plan that is bound to one array can run on a copy of the other.
fn is_compatible(a: &NDArray, b: &NDArray) -> bool {
    a.shape() == b.shape() && a.dtype() == b.dtype() && a.context() == b.context()
}

/// Copies results, which the next call overwrites, to `outputs` or to new tensors.
fn copy_results(results: &[NDArray], outputs: &[Arc<Tensor>]) -> Result<Tensors> {
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
