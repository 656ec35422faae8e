//! Elementwise operators on arrays of one shape.

mod binary;
pub(crate) mod family;
pub(crate) mod formulas;
pub(crate) mod identity;
mod loops;
pub(crate) mod parametric;
pub(crate) mod scalar;
pub(crate) mod unary;

pub use scalar::ScalarParam;

use ferromx_core::op::OpDef;

/// Functions of one array.
pub static UNARY: &[&OpDef] = unary::OPS;
/// Arithmetic, comparison and logic of two arrays.
pub static BINARY: &[&OpDef] = binary::OPS;
/// Arithmetic, comparison and logic of an array and a number.
pub static SCALAR: &[&OpDef] = scalar::OPS;
/// Functions of one array with parameters.
pub static PARAMETRIC: &[&OpDef] = parametric::OPS;
/// Copies, casts, constants, `where`.
pub static IDENTITY: &[&OpDef] = identity::OPS;
