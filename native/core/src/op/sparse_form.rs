//! Implementations of operators on sparse arrays, and the rules for storage types.

use super::kernel::OpCtx;
use crate::error::Result;
use crate::ndarray::NDArray;
use crate::params::Params;
use crate::shape::Shape;
use crate::sparse::{Array, StorageType};
use smallvec::SmallVec;

/// Infers the storage type of the outputs from the parameters, the storage types of the inputs, and that of the first output's array if
/// one was given. `None` selects the dense fallback: the inputs are converted.
pub type SparseRule = fn(&Params, &[StorageType], Option<StorageType>) -> Option<StorageType>;

/// The storage types of the outputs, if they may differ: from the parameters and the storage types of the inputs. The rule returns that of
/// the first output.
pub type OutputStorage = fn(&Params, &[StorageType]) -> SmallVec<[StorageType; 4]>;

/// The sparse implementation of an operator: it returns the visible outputs, or writes the given output arrays.
pub type SparseFn = fn(&SparseCall<'_>) -> Result<Vec<Array>>;

/// Runs the operator on dense arrays and returns the visible outputs.
pub type DenseForm<'a> = &'a dyn Fn(&[NDArray]) -> Result<Vec<NDArray>>;

/// The arguments of a [`SparseFn`].
pub struct SparseCall<'a> {
    /// The context of the call.
    pub ctx: &'a OpCtx<'a>,
    /// The inputs; for a gradient, those of its kernel.
    pub ins: &'a [Array],
    /// The given arrays of the first outputs.
    pub outs: &'a [Array],
    /// Shapes of the outputs, hidden ones included.
    pub shapes: &'a [Shape],
    /// Whether each output has readers; the others may have any content.
    pub wanted: &'a [bool],
    /// Runs the operator on dense arrays: on the stored values, or as the dense fallback.
    pub dense: DenseForm<'a>,
    /// The storage type that the rule inferred.
    pub storage_type: StorageType,
}

/// The sparse implementation of an operator, with its storage type rule.
#[derive(Clone, Copy)]
pub struct SparseForm {
    /// Infers the storage type of the outputs, or selects the dense fallback.
    pub rule: SparseRule,
    /// The computation.
    pub run: SparseFn,
    /// The storage type of each output; without it, all have the one that the rule returns.
    pub of_outputs: Option<OutputStorage>,
    /// Whether the rule also applies if all inputs are dense, because the parameters can request sparse outputs.
    pub from_dense: fn(&Params) -> bool,
}

/// The rule for the storage types of the gradients that `simple_bind` allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientStorage {
    /// Those that the operators of the gradient infer. A gradient kernel without a sparse implementation has dense results.
    Composed,
    /// The storage type that all operands of the gradient kernel have, or dense.
    OfOperands,
    /// Dense.
    Dense,
}
