//! Executors bound to sparse arrays. Plans work on dense arrays, so that each sparse one has a dense twin: arguments and
//! auxiliary states are made dense when a forward pass begins, and states, gradients and outputs are brought back where they change.

use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::{assign, to_dense};

use super::{Bound, Devices, Executor};
use crate::passes::storage::infer_storage;
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
    /// The place in the list of arguments, gradients, states or outputs.
    at: usize,
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
    outputs: Vec<Twin>,
}

/// The arrays with the sparse ones in place of their twins.
fn stored<'a>(dense: &[NDArray], twins: impl Iterator<Item = &'a Twin>) -> Vec<Array> {
    let mut all: Vec<Array> = dense.iter().cloned().map(Array::Dense).collect();
    twins.for_each(|twin| all[twin.at] = twin.sparse.clone().into());
    all
}

/// The dense form of an array, with a note of the pair if it is sparse.
fn twin((at, array): (usize, Array), note: impl FnOnce(Twin)) -> Result<NDArray> {
    match array {
        Array::Dense(a) => Ok(a),
        Array::Sparse(sparse) => {
            let dense = to_dense(&sparse.clone().into())?;
            note(Twin { at, sparse, dense: dense.clone() });
            Ok(dense)
        }
    }
}

impl Twins {
    /// Whether every array is dense.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty() && self.aux.is_empty() && self.grads.is_empty() && self.outputs.is_empty()
    }

    /// Before a forward pass: what users may have written.
    pub fn before_forward(&self) -> Result<()> {
        self.args.iter().chain(&self.aux).try_for_each(Twin::to_dense)
    }

    /// After a forward pass: outputs, and states that it may have changed.
    pub fn after_forward(&self, is_train: bool) -> Result<()> {
        self.outputs.iter().try_for_each(Twin::to_sparse)?;
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
        devices: impl Into<Devices>,
        bound: BoundStored,
        shared: Option<&Executor>,
    ) -> Result<Executor> {
        let names = symbol.list_arguments().into_iter().chain(symbol.list_auxiliary_states());
        let types = bound.args.iter().chain(&bound.aux).map(Array::storage_type);
        let given: Vec<(String, StorageType)> = names.zip(types).collect();
        let storage = infer_storage(symbol, &given, &[])?;
        let mut twins = Twins::default();
        let all = |arrays: Vec<Array>| arrays.into_iter().enumerate();
        let args = all(bound.args).map(|a| twin(a, |t| twins.args.push(t))).collect::<Result<_>>()?;
        let aux = all(bound.aux).map(|a| twin(a, |t| twins.aux.push(t))).collect::<Result<_>>()?;
        let grads = (bound.grads.into_iter().zip(&bound.reqs).enumerate())
            .map(|(at, (g, req))| g.map(|g| twin((at, g), |t| twins.grads.push((t, *req)))).transpose())
            .collect::<Result<_>>()?;
        let mut executor = Executor::bind(symbol, devices, Bound { args, grads, reqs: bound.reqs, aux }, shared)?;
        let outputs = storage.map_or(Vec::new(), |s| s.outputs).into_iter().zip(&executor.outputs).enumerate();
        for (at, (kind, dense)) in outputs.filter(|(_, (kind, _))| *kind != StorageType::Default) {
            let sparse = SparseArray::zeros(kind, dense.shape(), dense.dtype(), dense.context())?;
            twins.outputs.push(Twin { at, sparse, dense: dense.clone() });
        }
        executor.twins = twins;
        Ok(executor)
    }

    /// The arguments in the storage that they are bound in; see [`Executor::args`].
    pub fn stored_args(&self) -> Vec<Array> {
        stored(&self.args, self.twins.args.iter())
    }

    /// The auxiliary states in their storage; see [`Executor::aux`].
    pub fn stored_aux(&self) -> Vec<Array> {
        stored(&self.aux, self.twins.aux.iter())
    }

    /// The gradients in their storage; see [`Executor::grads`].
    pub fn stored_grads(&self) -> Vec<Option<Array>> {
        let mut all: Vec<Option<Array>> = self.grads.iter().map(|g| g.clone().map(Array::Dense)).collect();
        self.twins.grads.iter().for_each(|(twin, _)| all[twin.at] = Some(twin.sparse.clone().into()));
        all
    }

    /// The outputs in the storage that follows from that of the arguments; see [`Executor::outputs`].
    pub fn stored_outputs(&self) -> Vec<Array> {
        stored(&self.outputs, self.twins.outputs.iter())
    }

    /// [`Executor::backward`] with gradients of the outputs in any storage.
    ///
    /// # Errors
    /// Those of [`Executor::backward`]; sparse arrays whose parts do not fit together.
    pub fn backward_stored(&self, head_grads: &[Array], is_train: bool) -> Result<()> {
        self.backward(&head_grads.iter().map(to_dense).collect::<Result<Vec<_>>>()?, is_train)
    }
}
