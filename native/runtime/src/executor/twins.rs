//! Executors bound to sparse arrays. Plans work on dense arrays, so that each sparse one has a dense twin: arguments and
//! auxiliary states are made dense when a forward pass begins, and states and gradients are brought back where they change.

use ferromx_core::context::Context;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::{Array, SparseArray};
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::{assign, to_dense};

use super::{Bound, Executor};
use crate::symbol::Symbol;

/// The arrays, dense or sparse, that a symbol is bound to, in the order of its arguments and auxiliary states.
pub struct BoundStored {
    /// Arguments.
    pub args: Vec<Array>,
    /// Where gradients go.
    pub grads: Vec<Option<Array>>,
    /// What to do with them.
    pub reqs: Vec<Req>,
    /// Auxiliary states.
    pub aux: Vec<Array>,
}

/// A sparse array and the dense one that stands for it.
struct Twin {
    sparse: SparseArray,
    dense: NDArray,
}

impl Twin {
    fn to_dense(&self) -> Result<()> {
        self.dense.copy_from(&to_dense(&self.sparse.clone().into())?)
    }

    fn to_sparse(&self) -> Result<()> {
        assign(&self.sparse.clone().into(), self.dense.clone().into())
    }
}

/// The twins of an executor.
#[derive(Default)]
pub struct Twins {
    args: Vec<Twin>,
    aux: Vec<Twin>,
    grads: Vec<(Twin, Req)>,
}

/// The dense form of an array, with a note of the pair if it is sparse.
fn twin(array: Array, note: impl FnOnce(Twin)) -> Result<NDArray> {
    match array {
        Array::Dense(a) => Ok(a),
        Array::Sparse(sparse) => {
            let dense = to_dense(&sparse.clone().into())?;
            note(Twin { sparse, dense: dense.clone() });
            Ok(dense)
        }
    }
}

impl Twins {
    /// Whether every array is dense.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty() && self.aux.is_empty() && self.grads.is_empty()
    }

    /// Before a forward pass: what users may have written.
    pub fn before_forward(&self) -> Result<()> {
        self.args.iter().chain(&self.aux).try_for_each(Twin::to_dense)
    }

    /// After a forward pass: states that it may have changed.
    pub fn after_forward(&self, is_train: bool) -> Result<()> {
        if is_train { self.aux.iter().try_for_each(Twin::to_sparse) } else { Ok(()) }
    }

    /// Before a backward pass: gradients that it adds to.
    pub fn before_backward(&self) -> Result<()> {
        self.grads.iter().filter(|(_, req)| *req == Req::Add).try_for_each(|(twin, _)| twin.to_dense())
    }

    /// After a backward pass: the gradients.
    pub fn after_backward(&self) -> Result<()> {
        self.grads.iter().filter(|(_, req)| *req != Req::Null).try_for_each(|(twin, _)| twin.to_sparse())
    }
}

impl Executor {
    /// Binds a symbol to arrays of any storage; see [`Executor::bind`].
    ///
    /// # Errors
    /// Those of [`Executor::bind`]; sparse arrays whose parts do not fit together.
    pub fn bind_stored(
        symbol: &Symbol,
        context: Context,
        bound: BoundStored,
        shared: Option<&Executor>,
    ) -> Result<Executor> {
        let mut twins = Twins::default();
        let args = bound.args.into_iter().map(|a| twin(a, |t| twins.args.push(t))).collect::<Result<_>>()?;
        let aux = bound.aux.into_iter().map(|a| twin(a, |t| twins.aux.push(t))).collect::<Result<_>>()?;
        let grads = (bound.grads.into_iter().zip(&bound.reqs))
            .map(|(g, req)| g.map(|g| twin(g, |t| twins.grads.push((t, *req)))).transpose())
            .collect::<Result<_>>()?;
        let mut executor = Executor::bind(symbol, context, Bound { args, grads, reqs: bound.reqs, aux }, shared)?;
        executor.twins = twins;
        Ok(executor)
    }
}
