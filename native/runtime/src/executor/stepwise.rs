//! Executors without a plan: operators run one by one, on arrays of any storage type and with output shapes that depend on values.
//! Gradients are computed by the tape.

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::Array;
use ferromx_core::storage::Req;
use parking_lot::Mutex;

use super::{BoundStored, Monitor};
use crate::imperative::{self, GradientRequest, Hook, Keep, Observer, StepwiseGraph, Tensor, Tensors};
use crate::passes::gradient::is_loss;
use crate::symbol::Symbol;

/// A symbol bound to arrays, without a plan.
pub(super) struct Stepwise {
    /// The bound arrays.
    pub bound: BoundStored,
    graph: StepwiseGraph,
    /// The variables in the order of [`Symbol::list_inputs`]; those with a gradient request are marked as such on the tape.
    inputs: Vec<Arc<Tensor>>,
    /// The outputs, which every forward pass overwrites.
    outputs: Vec<Arc<Tensor>>,
    /// Whether each output is a loss, which needs no head gradient.
    losses: Vec<bool>,
    /// The outputs of the last recorded forward pass, which hold its tape.
    recorded: Mutex<Option<Tensors>>,
}

impl Stepwise {
    /// Binds a symbol. `outputs` are the output arrays before the first forward pass.
    ///
    /// # Errors
    /// A gradient request without an array.
    pub(super) fn new(symbol: &Symbol, bound: BoundStored, outputs: Vec<Array>) -> Result<Stepwise> {
        let (mut args, mut aux) = (bound.args.iter(), bound.aux.iter());
        let array = |is_aux: bool| if is_aux { aux.next() } else { args.next() };
        let arrays = symbol.variables().into_iter().map(|(_, is_aux)| is_aux).map(array).collect::<Option<Vec<_>>>();
        let arrays = arrays.ok_or_else(|| Error::Internal("there are fewer arrays than variables".into()))?;
        let inputs: Vec<_> = arrays.into_iter().map(|array| Arc::new(Tensor::new(array.clone()))).collect();
        let is_arg = symbol.variables().into_iter().map(|(_, is_aux)| !is_aux);
        let args = inputs.iter().zip(is_arg).filter(|(_, is_arg)| *is_arg).map(|(tensor, _)| tensor);
        for (i, tensor) in args.enumerate().filter(|(i, _)| bound.reqs[*i] != Req::Null) {
            let array = bound.grads[i].clone().ok_or_else(|| {
                let name = symbol.list_arguments().swap_remove(i);
                Error::Value(format!("argument {name} has a gradient request but no gradient array"))
            })?;
            let request = GradientRequest { array: Arc::new(Tensor::new(array)), req: bound.reqs[i] };
            imperative::mark_variables(std::slice::from_ref(tensor), &[request])?;
        }
        let losses = symbol.entries().iter().map(|y| y.node.op.as_ref().is_some_and(is_loss)).collect();
        let outputs = outputs.into_iter().map(|y| Arc::new(Tensor::new(y))).collect();
        let graph = StepwiseGraph::new(symbol);
        Ok(Stepwise { bound, graph, inputs, outputs, losses, recorded: Mutex::default() })
    }

    /// The outputs, which every forward pass overwrites.
    pub(super) fn outputs(&self) -> &[Arc<Tensor>] {
        &self.outputs
    }

    fn has_gradient_requests(&self) -> bool {
        self.bound.reqs.iter().any(|req| *req != Req::Null)
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// Those of the operators.
    pub(super) fn forward(&self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        let results = self.run(is_train, is_train && self.has_gradient_requests(), monitor)?;
        for (output, result) in self.outputs.iter().zip(&results) {
            let (old, new) = (output.stored()?, result.stored()?);
            let has_same_type = old.shape() == new.shape() && old.dtype() == new.dtype();
            // Overwrite the array in place, so that its holders see the result, unless its shape changes.
            if has_same_type && old.storage_type() == new.storage_type() {
                imperative::write(&old, &new)?;
            } else {
                output.set(new);
            }
        }
        Ok(())
    }

    fn run(&self, is_train: bool, record: bool, monitor: Option<&(Monitor, bool)>) -> Result<Tensors> {
        let observer = monitor.map(|(monitor, monitor_all)| {
            let monitor = monitor.clone();
            let hook: Hook = Arc::new(move |name, _, array| monitor(name, array));
            Observer { hook, monitor_all: *monitor_all, is_monitor: true }
        });
        // Free the last tape before recording the next.
        *self.recorded.lock() = None;
        let results = imperative::in_mode(record, is_train, || self.graph.run(&self.inputs, &[], observer))?;
        *self.recorded.lock() = record.then(|| results.clone());
        Ok(results)
    }

    /// Computes the gradients; see [`super::Executor::backward`].
    ///
    /// # Errors
    /// Missing head gradients; errors of the operators.
    pub(super) fn backward(&self, head_grads: &[Array], is_train: bool) -> Result<()> {
        if !self.has_gradient_requests() {
            return Ok(());
        }
        let missing = (0..self.losses.len()).find(|i| !self.losses[*i] && head_grads.get(*i).is_none());
        if let Some(i) = missing {
            return Err(Error::Value(format!(
                "output {i} is not a loss, so backward needs its head gradient: pass one array per output, or end the network with a loss \
                 such as SoftmaxOutput or MakeLoss"
            )));
        }
        let recorded = self.recorded.lock().clone();
        let recorded = match recorded {
            Some(recorded) => recorded,
            None => self.run(is_train, true, None)?,
        };
        self.inputs.iter().for_each(|tensor| tensor.set_fresh_gradient(false));
        let recorded_heads = || recorded.iter().enumerate().filter(|(_, y)| y.is_recorded());
        let tensors: Vec<_> = recorded_heads().map(|(_, y)| y.clone()).collect();
        let head_grad = |(i, y): (usize, &Arc<Tensor>)| {
            head_grads.get(i).map(|g| cast_head_grad(g, y.stored()?.dtype())).transpose()
        };
        let grads = recorded_heads().map(head_grad).collect::<Result<Vec<_>>>()?;
        if !tensors.is_empty() {
            imperative::backward(&tensors, &grads, &[], Keep::Graph, is_train)?;
        }
        // Arguments that do not influence the outputs have zero gradients.
        self.inputs.iter().try_for_each(|tensor| tensor.zero_stale_gradient())
    }
}

/// Casts a head gradient to the type of its output.
fn cast_head_grad(gradient: &Array, dtype: DType) -> Result<Arc<Tensor>> {
    if gradient.dtype() == dtype {
        return Ok(Arc::new(Tensor::new(gradient.clone())));
    }
    let array = Array::from(NDArray::empty(gradient.shape(), dtype, gradient.context())?);
    imperative::copy(gradient, &array)?;
    Ok(Arc::new(Tensor::new(array)))
}
