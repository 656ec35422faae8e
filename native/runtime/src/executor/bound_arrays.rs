//! The arrays that a symbol is bound to, and the checks of them that need no graph.

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::Req;

use crate::passes::devices::Devices;
use crate::symbol::Symbol;

/// The arrays that a symbol is bound to, in the order of its arguments and auxiliary states.
pub struct Bound<A = NDArray> {
    /// Arguments.
    pub args: Vec<A>,
    /// Gradient arrays.
    pub grads: Vec<Option<A>>,
    /// The request of each gradient.
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
    pub(super) fn into_dense(self) -> Result<Bound> {
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
    pub(super) fn to_stored(&self) -> BoundStored {
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
pub(super) trait Bindable {
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

/// Checks the number of arrays of each kind.
pub(super) fn check_counts<A>(symbol: &Symbol, bound: &Bound<A>) -> Result<()> {
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

/// Checks each gradient array against its argument by `fits(argument, gradient)`.
pub(super) fn check_gradients<A: Bindable>(symbol: &Symbol, bound: &Bound<A>, fits: fn(&A, &A) -> bool) -> Result<()> {
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
pub(super) fn check_devices<A: Bindable>(devices: &Devices, bound: &Bound<A>) -> Result<()> {
    if !devices.groups.is_empty() {
        return Ok(());
    }
    let default = devices.default;
    let grads =
        bound.grads.iter().zip(&bound.reqs).filter(|(_, req)| **req != Req::Null).filter_map(|(g, _)| g.as_ref());
    let arrays =
        bound.args.iter().map(|a| ("Input", "arguments", a)).chain(grads.map(|g| ("Gradient", "gradients", g)));
    for (kind, plural, array) in arrays {
        ensure!(
            array.context() == default,
            "{kind} array is in {} while binding with ctx={default}. All {plural} must be in global context ({default}) unless \
             group2ctx is specified for cross-device graph.",
            array.context()
        );
    }
    Ok(())
}
