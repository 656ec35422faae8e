//! Steps of optimizers. Each gives the new weight, usually in the old one's memory, and changes its states.

mod adamw;
mod adaptive;
mod family;
mod group;
mod lamb;
mod multi;
mod norms;
mod several;
mod sgd;
#[cfg(test)]
mod tests;

use ferromx_core::op::OpDef;

/// Gradient descent with and without momentum, and the methods of signs.
pub static SGD: &[&OpDef] = sgd::OPS;
/// Gradient descent on several weights in one call.
pub static MULTI_SGD: &[&OpDef] = multi::OPS;
/// Methods with a step size of their own for each element.
pub static ADAPTIVE: &[&OpDef] = adaptive::OPS;
/// AdaGrad by rows.
pub static GROUP: &[&OpDef] = group::OPS;
/// AdamW.
pub static ADAMW: &[&OpDef] = adamw::OPS;
/// LAMB.
pub static LAMB: &[&OpDef] = lamb::OPS;
/// What is asked of all gradients at once.
pub static NORMS: &[&OpDef] = norms::OPS;
