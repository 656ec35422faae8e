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

/// Gradient descent with and without momentum, and the sign-based methods.
pub static SGD: &[&OpDef] = sgd::OPS;
/// Gradient descent on several weights in one call.
pub static MULTI_SGD: &[&OpDef] = multi_sgd::OPS;
/// Optimizers with an adaptive step size for each element.
pub static ADAPTIVE: &[&OpDef] = adaptive::OPS;
/// AdaGrad with one step size for each row.
pub static GROUP: &[&OpDef] = group::OPS;
/// AdamW.
pub static ADAMW: &[&OpDef] = adamw::OPS;
/// LAMB.
pub static LAMB: &[&OpDef] = lamb::OPS;
/// Norms and finiteness checks of all gradients at once.
pub static NORMS: &[&OpDef] = norms::OPS;
