//! Elementwise operators on arrays of one shape.
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
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // Arithmetic, comparison and logic of two arrays.
    binary::OPS,
    // Copies, casts, constants.
    identity::OPS,
    // Functions of one array with parameters.
    parametric::OPS,
    // `polyval`.
    polynomial::OPS,
    // Predicates of one array, and its bitwise complement.
    predicates::OPS,
    // Arithmetic, comparison and logic of an array and a number.
    scalar::OPS,
    // Functions of one array.
    unary::OPS,
];
