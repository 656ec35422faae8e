//! Operators that work element by element on arrays of one shape.

pub(crate) mod family;
mod unary;

/// The tables of the files of this family.
pub static UNARY: &[&ferromx_core::op::OpDef] = unary::OPS;
