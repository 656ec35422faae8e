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
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // AdamW.
    adamw::OPS,
    // Adam, RMSProp, FTRL, FTML, AdaGrad.
    adaptive::OPS,
    // AdaGrad with one learning rate per row.
    group::OPS,
    // LAMB.
    lamb::OPS,
    // SGD on several weights in one call.
    multi_sgd::OPS,
    // Norms and finiteness checks of all gradients at once.
    norms::OPS,
    // SGD with and without momentum, and the sign-based methods.
    sgd::OPS,
];
