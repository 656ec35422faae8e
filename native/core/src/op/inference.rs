//! The rules that infer the shapes and element types of an operator.

use crate::infer::{InferDType, InferShape, same_dtype, same_shape};

/// The rules for shapes and element types; [`SparseForm`](super::SparseForm) has the rule for storage types.
#[derive(Clone, Copy)]
pub struct Inference {
    /// The shape rule.
    pub shape: InferShape,
    /// The element type rule.
    pub dtype: InferDType,
}

impl Inference {
    /// Equal shapes and types of all inputs and outputs.
    pub(super) const fn new() -> Inference {
        Inference { shape: same_shape, dtype: same_dtype }
    }
}
