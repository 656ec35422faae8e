//! Optimizer operators. Each outputs the new weight, usually in place, and updates the states.
//!
//! `family` defines an operator from the formula of its update rule. `multi_tensor` lays out the inputs of operators that update
//! several weights in one call.

mod adamw;
mod adaptive;
mod family;
mod group;
mod lamb;
mod multi_sgd;
mod multi_tensor;
mod norms;
mod sgd;
#[cfg(test)]
mod tests;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] =
    &[adamw::OPS, adaptive::OPS, group::OPS, lamb::OPS, multi_sgd::OPS, norms::OPS, sgd::OPS];
