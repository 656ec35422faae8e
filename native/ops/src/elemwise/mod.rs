//! Elementwise operators on arrays of one shape.
//!
//! - `unary` has functions of one array, `parametric` those with parameters, `predicates` those with results of type bool.
//! - `binary` has arithmetic, comparison and logic of two arrays, `scalar` of an array and a number, `integers` bitwise formulas.
//! - `identity` has copies, casts and constants, `polynomial` has `polyval`.
//!
//! A macro of `family` declares an operator in a few lines, from its own formula or from one in `formulas`, which several families share.
//! `loops` compiles the loops of a formula and runs them on arrays of any type.

pub(crate) mod binary;
pub(crate) mod family;
pub(crate) mod formulas;
pub(crate) mod identity;
pub(crate) mod integers;
pub(crate) mod loops;
pub(crate) mod parametric;
mod polynomial;
pub(crate) mod predicates;
pub(crate) mod scalar;
pub(crate) mod unary;

pub use scalar::ScalarParam;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] =
    &[binary::OPS, identity::OPS, parametric::OPS, polynomial::OPS, predicates::OPS, scalar::OPS, unary::OPS];
