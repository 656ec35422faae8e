//! Linear algebra.

mod dot;
pub mod product;

use ferromx_core::op::OpDef;

/// Products of arrays.
pub static DOT: &[&OpDef] = dot::OPS;
