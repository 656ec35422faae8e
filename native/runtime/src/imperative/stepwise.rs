//! Runs a graph operator by operator, on arrays of any storage type and with shapes that depend on values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::Array;

use super::tape::{Tensor, Tensors, record};
use crate::graph::{Action, Graph, entry};
use crate::passes::infer::{self, Entries};
use crate::symbol::{OpCall, Symbol};

/// Called with the name of an array, the name of its operator, and a copy of the array.
pub type Hook = Arc<dyn Fn(&str, &str, Array) + Send + Sync>;

/// A hook, and the arrays that it is called with.
#[derive(Clone)]
pub(crate) struct InstalledHook {
    /// The function.
    pub callback: Hook,
    /// Whether it is called with the inputs of operators, too.
    pub monitor_all: bool,
}

/// The shapes and types of all entries.
type Inferred = (Entries<Shape>, Entries<Option<DType>>);

/// A graph whose operators run one by one, and are recorded if the thread is recording.
pub(crate) struct StepwiseGraph {
    graph: Graph,
    /// The outputs.
    pub outputs: Vec<Entry>,
    /// The outputs, and all entries that a node reads.
    used_entries: HashSet<Entry>,
    /// The entries of the variables in the order of [`Symbol::list_inputs`], each with whether it is an auxiliary state.
    pub variables: Vec<(Entry, bool)>,
}

impl StepwiseGraph {
    /// The graph of a symbol.
    pub(crate) fn new(symbol: &Symbol) -> StepwiseGraph {
        let (graph, outputs) = Graph::from_symbol(symbol);
        let is_aux = symbol.variables().into_iter().map(|v| v.is_aux);
        let variables = graph.variables().zip(is_aux).collect();
        let used_entries = graph.nodes.iter().flat_map(|node| node.inputs.iter()).chain(&outputs).copied().collect();
        StepwiseGraph { graph, outputs, used_entries, variables }
    }

    /// The name of the node that an entry belongs to.
    pub(crate) fn name(&self, e: Entry) -> &str {
        &self.graph.node(e).name
    }

    /// Runs operator by operator, and records them if the thread is recording. Arrays may be sparse, and shapes may depend on values.
    pub(crate) fn run(
        &self,
        inputs: &[Arc<Tensor>],
        outputs: &[Arc<Tensor>],
        hook: Option<InstalledHook>,
    ) -> Result<Tensors> {
        let arrays = inputs.iter().map(|t| t.stored()).collect::<Result<Vec<_>>>()?;
        let context = arrays.first().map(Array::context).unwrap_or_default();
        let mut tensors: HashMap<Entry, Arc<Tensor>> =
            self.variables.iter().map(|(e, _)| *e).zip(inputs.iter().cloned()).collect();
        // The shapes of operators without inputs may depend on their readers.
        let mut inferred: Option<Inferred> = None;
        for (i, node) in self.graph.nodes.iter().enumerate() {
            let Action::Forward(op) = &node.action else { continue };
            let missing = |e: &Entry| Error::Internal(format!("an input of {} is missing: {e:?}", node.name));
            let ins: Vec<Arc<Tensor>> =
                node.inputs.iter().map(|e| tensors.get(e).cloned().ok_or_else(|| missing(e))).collect::<Result<_>>()?;
            let outs = match ins.is_empty() {
                true => {
                    let inferred = match &mut inferred {
                        Some(inferred) => inferred,
                        none => none.insert(self.infer(&arrays)?),
                    };
                    self.empty_outputs(i, inferred, context)?
                }
                false => Vec::new(),
            };
            if let Some(hook) = hook.as_ref().filter(|hook| hook.monitor_all) {
                self.report_inputs(hook, i, op, &ins)?;
            }
            // Errors of kernels are reported at the wait, so this is one of inference, as in `passes::infer`.
            let outs = record(op, &node.attrs, Some(context), &ins, &outs)
                .map_err(|e| name_node(e, op.name, &node.name).without_class())?;
            if let Some(hook) = &hook {
                self.report_outputs(hook, i, op, &outs)?;
            }
            for (k, tensor) in outs.into_iter().enumerate() {
                tensors.insert(entry(i, k), tensor);
            }
        }
        self.results(&tensors, outputs)
    }

    /// The outputs, those with an array in `outputs` in that array.
    fn results(&self, tensors: &HashMap<Entry, Arc<Tensor>>, outputs: &[Arc<Tensor>]) -> Result<Tensors> {
        let mut results = Tensors::new();
        for (k, e) in self.outputs.iter().enumerate() {
            let result = tensors.get(e).cloned().ok_or_else(|| Error::Internal("an output is missing".into()))?;
            results.push(match outputs.get(k) {
                Some(output) => {
                    output.assign(&result)?;
                    output.clone()
                }
                None => result,
            });
        }
        Ok(results)
    }

    /// Arrays for the outputs of a node up to the first of unknown shape.
    fn empty_outputs(&self, node: usize, (shapes, dtypes): &Inferred, context: Context) -> Result<Vec<Arc<Tensor>>> {
        let entries = (0..self.graph.nodes[node].num_visible()).map(|k| entry(node, k));
        let empty = |e: Entry| NDArray::empty(&shapes[e], dtypes[e].unwrap_or(DType::F32), context);
        entries.take_while(|e| shapes[*e].is_known()).map(|e| Ok(Arc::new(Tensor::new(empty(e)?)))).collect()
    }

    fn infer(&self, arrays: &[Array]) -> Result<Inferred> {
        let mut shapes = Entries::new(&self.graph, Shape::unknown());
        let mut dtypes = Entries::new(&self.graph, None);
        for ((e, _), array) in self.variables.iter().zip(arrays) {
            shapes[*e] = array.shape().clone();
            dtypes[*e] = Some(array.dtype());
        }
        Ok((infer::shapes(&self.graph, shapes)?, infer::dtypes(&self.graph, dtypes)?))
    }

    /// Calls the hook with the inputs of a node, by the operator's input names.
    fn report_inputs(&self, hook: &InstalledHook, node: usize, op: &OpCall, ins: &[Arc<Tensor>]) -> Result<()> {
        let node = &self.graph.nodes[node];
        let names = op.monitored_input_names(ins.len());
        for (k, tensor) in ins.iter().enumerate() {
            let name = names.get(k).cloned().unwrap_or_else(|| format!("input{k}"));
            call_hook(hook, &format!("{}_{name}", node.name), op, tensor)?;
        }
        Ok(())
    }

    /// Calls the hook with the outputs of a node.
    fn report_outputs(&self, hook: &InstalledHook, node: usize, op: &OpCall, outs: &[Arc<Tensor>]) -> Result<()> {
        let names = op.hooked_output_names();
        for (k, tensor) in outs.iter().enumerate() {
            if self.used_entries.contains(&entry(node, k)) {
                let name = names.get(k).cloned().unwrap_or_else(|| k.to_string());
                call_hook(hook, &format!("{}_{name}", self.graph.nodes[node].name), op, tensor)?;
            }
        }
        Ok(())
    }
}

/// Replaces the node name in an error, which is the operator's for a single call.
pub(crate) fn name_node(error: Error, op: &str, node: &str) -> Error {
    match error {
        Error::InOperator { source, .. } => source.in_operator(op, node),
        other => other.in_operator(op, node),
    }
}

/// Calls the hook with a copy of an array.
fn call_hook(hook: &InstalledHook, name: &str, op: &OpCall, tensor: &Arc<Tensor>) -> Result<()> {
    let array = tensor.stored()?;
    (hook.callback)(name, op.def.name, array.to_context(array.context())?);
    Ok(())
}
