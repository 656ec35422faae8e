//! What loops and branches share: graphs bound to arrays, the state that a node keeps between calls, and writing of outputs and gradients.

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::{bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, Mode};
use ferromx_core::storage::{Req, write_slice};
use ferromx_core::subgraph::{BoundGraph, Subgraph};
use ferromx_kernels::map::{Arith, Src};
use ferromx_kernels::{lane_fn, zip};
use parking_lot::Mutex;

/// A graph bound to its inputs and the arrays of their gradients.
pub(super) struct Bound {
    graph: Box<dyn BoundGraph>,
    ins: Vec<NDArray>,
    /// The gradient of each input; `None` for inputs without one, and for all inputs if the graph was bound for inference.
    pub grads: Vec<Option<NDArray>>,
}

impl Bound {
    /// Binds a graph. For training, every floating-point input that is not a state has a gradient. If `sums` has an array for an input, its
    /// gradient is added to that array.
    pub(super) fn new(
        graph: &dyn Subgraph,
        context: Context,
        ins: Vec<NDArray>,
        mode: Mode,
        sums: &[Option<NDArray>],
    ) -> Result<Bound> {
        let mut grads = Vec::with_capacity(ins.len());
        let mut bound_grads = Vec::with_capacity(ins.len());
        for (i, input) in ins.iter().enumerate() {
            let has_grad = mode == Mode::Training && input.dtype().is_float() && !graph.states().contains(&i);
            let grad = match sums.get(i).cloned().flatten() {
                _ if !has_grad => None,
                Some(sum) => Some((sum, Req::Add)),
                None => Some((NDArray::zeros(input.shape(), input.dtype(), context)?, Req::Write)),
            };
            grads.push(grad.as_ref().map(|(array, _)| array.clone()));
            bound_grads.push(grad);
        }
        let graph = graph.bind(context, &ins, &bound_grads)?;
        Ok(Bound { graph, ins, grads })
    }

    /// Whether the graph is bound to these inputs, with gradients if it is needed for training.
    pub(super) fn is_bound_to(&self, ins: &[NDArray], mode: Mode) -> bool {
        let all_same = self.ins.len() == ins.len() && self.ins.iter().zip(ins).all(|(a, b)| a.is_same_view(b));
        let has_gradients = || self.grads.iter().any(Option::is_some) || ins.iter().all(|a| !a.dtype().is_float());
        all_same && (mode == Mode::Inference || has_gradients())
    }

    /// The outputs.
    pub(super) fn outputs(&self) -> &[NDArray] {
        self.graph.outputs()
    }

    /// Computes the outputs.
    pub(super) fn forward(&self, mode: Mode) -> Result<()> {
        self.graph.forward(mode)
    }

    /// Computes the gradients.
    pub(super) fn backward(&self, ograds: &[NDArray], mode: Mode) -> Result<()> {
        self.graph.backward(ograds, mode)
    }
}

/// State that a node keeps between calls, such as bound graphs.
pub(super) type NodeState<T> = Arc<Mutex<T>>;

/// The node's state; a new one for a call without a cache.
pub(super) fn node_state<T: Default + Send + 'static>(cache: Option<&Cache>) -> NodeState<T> {
    cache.map_or_else(Arc::default, |cache| cache.with(|state: &mut NodeState<T>| state.clone()))
}

/// Writes an array to an output, or adds it, as `req` says.
pub(super) fn write_output(from: &NDArray, to: &NDArray, req: Req) -> Result<()> {
    match req {
        Req::Null => Ok(()),
        Req::Write | Req::Inplace => to.copy_from(from),
        Req::Add => add(from, to),
    }
}

/// Adds the elements of `from` to `to`.
fn add(from: &NDArray, to: &NDArray) -> Result<()> {
    ferromx_core::dispatch!(from.dtype(), T in [f32, f64, f16, bf16] => {
        type C = <T as Arith>::Lane;
        let (from, sum) = (from.to_vec::<T>()?, lane_fn!(|x: C, y: C| -> C { x + y }));
        write_slice::<T, _>(to, |to| zip::zip(Src::<T>::InPlace, Src::Slice(&from), to, sum))
    }, d => Err(ferromx_core::error::Error::Internal(format!("no addition of gradients of type {d}"))))
}

/// Zeros of the shape and type of an array.
pub(super) fn zeros_like(array: &NDArray) -> Result<NDArray> {
    NDArray::zeros(array.shape(), array.dtype(), array.context())
}

/// Fills an array with zeros.
pub(super) fn fill_zeros(array: &NDArray) {
    ferromx_core::storage::write_bytes(array, |bytes| bytes.fill(0));
}

/// [`write_output`] with `None` for zeros.
pub(super) fn write_or_zero(array: Option<&NDArray>, to: &NDArray, req: Req) -> Result<()> {
    match (array, req) {
        (Some(array), req) => write_output(array, to, req),
        (None, Req::Write | Req::Inplace) => {
            fill_zeros(to);
            Ok(())
        }
        (None, Req::Null | Req::Add) => Ok(()),
    }
}

/// Whether the condition, an array of one element, is not zero.
pub(super) fn is_true(condition: &NDArray) -> Result<bool> {
    let values = condition.to_vec_as::<f64>()?;
    ferromx_core::ensure!(
        values.len() == 1,
        "the condition has the shape {}; it must have one element",
        condition.shape()
    );
    Ok(values[0] != 0.0)
}

/// The arrays at the given indices.
pub(super) fn pick(arrays: &[NDArray], indices: &[usize]) -> Vec<NDArray> {
    indices.iter().map(|i| arrays[*i].clone()).collect()
}
