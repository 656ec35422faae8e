//! Operators that MXNet keeps under `contrib`.

mod attention;
mod deformable;
mod elementwise;

use ferromx_core::op::OpDef;

/// Multi-head attention.
pub static ATTENTION: &[&OpDef] = attention::OPS;
/// Deformable convolutions.
pub static DEFORMABLE: &[&OpDef] = deformable::OPS;
/// Element by element.
pub static ELEMENTWISE: &[&OpDef] = elementwise::OPS;
