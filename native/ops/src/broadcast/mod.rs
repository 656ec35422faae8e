//! Broadcasting: arithmetic, comparison and logic of two arrays, `where`, and `broadcast_to` and its relatives.

pub(crate) mod backward;
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod expand;
pub(crate) mod promotion;
pub(crate) mod select;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // The gradient of broadcasting.
    backward::OPS,
    // Arithmetic, comparison and logic of two arrays of one type.
    binary::OPS,
    // Comparisons whose results are of type bool.
    compare::OPS,
    // `broadcast_to` and its relatives.
    expand::OPS,
    // Arithmetic of arrays of different types.
    promotion::OPS,
    // `where`.
    select::OPS,
];
