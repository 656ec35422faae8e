//! Optimizer operators. Each outputs the new weight, usually in place, and updates the states.

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

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&[&OpDef]] = &[
    // AdamW.
    adamw::OPS,
    // Optimizers with an adaptive step size for each element.
    adaptive::OPS,
    // AdaGrad with one step size for each row.
    group::OPS,
    // LAMB.
    lamb::OPS,
    // Gradient descent on several weights in one call.
    multi_sgd::OPS,
    // Norms and finiteness checks of all gradients at once.
    norms::OPS,
    // Gradient descent with and without momentum, and the sign-based methods.
    sgd::OPS,
];
