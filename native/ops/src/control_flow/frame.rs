//! What loops and branches share: bound graphs that are kept as long as the arrays stay, and the sums of gradients.

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::Result;
use ferromx_core::host::{BoundGraph, Subgraph};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Cache;
use ferromx_core::storage::Req;
use parking_lot::Mutex;

/// Whether two arrays are the same elements in the same memory.
pub fn same(a: &NDArray, b: &NDArray) -> bool {
    Arc::ptr_eq(a.chunk(), b.chunk())
        && a.byte_range() == b.byte_range()
        && a.shape() == b.shape()
        && a.dtype() == b.dtype()
}

/// A graph bound to inputs, with the arrays of its gradients.
pub struct Bound {
    graph: Box<dyn BoundGraph>,
    ins: Vec<NDArray>,
    /// Gradients of the inputs, where the graph was bound for them.
    pub grads: Vec<Option<NDArray>>,
}

impl Bound {
    /// Plans a graph. With `train` there is a gradient for every input of a floating-point type that is no state; those of `shared`
    /// inputs are added to the arrays given for them.
    pub fn new(
        graph: &dyn Subgraph,
        context: Context,
        ins: Vec<NDArray>,
        train: bool,
        shared: &[Option<NDArray>],
    ) -> Result<Bound> {
        let mut grads = Vec::with_capacity(ins.len());
        let mut places = Vec::with_capacity(ins.len());
        for (i, input) in ins.iter().enumerate() {
            let wanted = train && input.dtype().is_float() && !graph.states().contains(&i);
            let place = match shared.get(i).cloned().flatten() {
                _ if !wanted => None,
                Some(sum) => Some((sum, Req::Add)),
                None => Some((NDArray::zeros(input.shape(), input.dtype(), context)?, Req::Write)),
            };
            grads.push(place.as_ref().map(|(array, _)| array.clone()));
            places.push(place);
        }
        let graph = graph.bind(context, &ins, &places)?;
        Ok(Bound { graph, ins, grads })
    }

    /// Whether this is bound to these inputs, and for gradients if those are needed.
    pub fn fits(&self, ins: &[NDArray], train: bool) -> bool {
        let all_same = self.ins.len() == ins.len() && self.ins.iter().zip(ins).all(|(a, b)| same(a, b));
        all_same && (!train || self.grads.iter().any(Option::is_some) || ins.iter().all(|a| !a.dtype().is_float()))
    }

    /// The outputs.
    pub fn outputs(&self) -> &[NDArray] {
        self.graph.outputs()
    }

    /// Computes the outputs.
    pub fn forward(&self, is_train: bool) -> Result<()> {
        self.graph.forward(is_train)
    }

    /// Computes the gradients.
    pub fn backward(&self, ograds: &[NDArray], is_train: bool) -> Result<()> {
        self.graph.backward(ograds, is_train)
    }
}

/// What a node keeps: bound graphs of every step, and whatever else a kind of operator needs.
pub type Kept<T> = Arc<Mutex<T>>;

/// What the node keeps, or something new for a call that will not be repeated.
pub fn kept<T: Default + Send + 'static>(cache: Option<&Cache>) -> Kept<T> {
    cache.map_or_else(Arc::default, |cache| cache.with(|kept: &mut Kept<T>| kept.clone()))
}

/// Copies an array to where it is wanted.
pub fn deliver(from: &NDArray, to: &NDArray, req: Req) -> Result<()> {
    match req {
        Req::Null => Ok(()),
        Req::Write | Req::Inplace => to.copy_from(from),
        Req::Add => add(from, to),
    }
}

/// Adds the elements of an array to another.
fn add(from: &NDArray, to: &NDArray) -> Result<()> {
    use ferromx_core::dtype::{Element, bf16, f16};
    use ferromx_core::storage::write_slice;
    ferromx_core::dispatch!(from.dtype(), T in [f32, f64, f16, bf16] => {
        let from = from.to_vec::<T>()?;
        write_slice::<T, _>(to, |to| {
            to.iter_mut().zip(&from).for_each(|(to, from)| *to = T::from_f64(to.to_f64() + from.to_f64()));
        })
    }, d => Err(ferromx_core::error::Error::Internal(format!("gradients of type {d} were to be added"))))
}

/// Zeros of the shape and type of an array.
pub fn zeros_like(array: &NDArray) -> Result<NDArray> {
    NDArray::zeros(array.shape(), array.dtype(), array.context())
}

/// Fills an array with zeros.
pub fn clear(array: &NDArray) {
    ferromx_core::storage::write_bytes(array, |bytes| bytes.fill(0));
}

/// Delivers a gradient, which is zero where there is none.
pub fn finish(gradient: Option<&NDArray>, to: &NDArray, req: Req) -> Result<()> {
    match (gradient, req) {
        (Some(gradient), req) => deliver(gradient, to, req),
        (None, Req::Write | Req::Inplace) => {
            clear(to);
            Ok(())
        }
        (None, Req::Null | Req::Add) => Ok(()),
    }
}

/// The truth of a condition: an array of one element that is not zero.
pub fn truth(condition: &NDArray) -> Result<bool> {
    let values = condition.to_vec_as::<f64>()?;
    ferromx_core::ensure!(
        values.len() == 1,
        "the condition has the shape {}; it must have one element",
        condition.shape()
    );
    Ok(values[0] != 0.0)
}

/// The arrays at some positions.
pub fn pick(arrays: &[NDArray], positions: &[usize]) -> Vec<NDArray> {
    positions.iter().map(|i| arrays[*i].clone()).collect()
}
