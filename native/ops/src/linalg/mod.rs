//! Linear algebra.

mod dot;
mod khatri_rao;
pub mod product;

use ferromx_core::op::OpDef;

/// Products of arrays.
pub static DOT: &[&OpDef] = dot::OPS;
/// Products of columns.
pub static KHATRI_RAO: &[&OpDef] = &[&khatri_rao::KHATRI_RAO];
