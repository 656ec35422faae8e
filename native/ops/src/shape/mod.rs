//! Operators that change shapes and move elements.

mod reshape;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&reshape::RESHAPE, &reshape::FLATTEN, &reshape::RESHAPE_LIKE];
