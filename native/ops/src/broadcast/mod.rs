//! Broadcasting.
//!
//! - `binary` has arithmetic, comparison and logic of two arrays of one type, `promotion` arithmetic of arrays of different types, and
//!   `compare` comparisons whose results are of type bool.
//! - `expand` has `broadcast_to` and its relatives, `select` has `where`.
//! - `backward` has the gradients of broadcasting operators as graphs.

pub(crate) mod backward;
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod expand;
pub(crate) mod promotion;
pub(crate) mod select;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] =
    &[backward::OPS, binary::OPS, compare::OPS, expand::OPS, promotion::OPS, select::OPS];
