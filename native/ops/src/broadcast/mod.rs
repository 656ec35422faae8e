//! Broadcasting: arithmetic, comparison and logic of two arrays, and `broadcast_to` and its relatives.

pub(crate) mod backward;
pub(crate) mod binary;
pub(crate) mod expand;

use ferromx_core::op::OpDef;

/// Arithmetic, comparison and logic of two arrays.
pub static BINARY: &[&OpDef] = binary::OPS;
/// The gradient of broadcasting.
pub static BACKWARD: &[&OpDef] = backward::OPS;
/// `broadcast_to`, `broadcast_axis`, `broadcast_like`.
pub static EXPAND: &[&OpDef] = expand::OPS;
