//! Steps of optimizers. Each gives the new weight, usually in the old one's memory, and changes its states.

mod adaptive;
mod family;
mod sgd;

use ferromx_core::op::OpDef;

/// Gradient descent with and without momentum, and the methods of signs.
pub static SGD: &[&OpDef] = sgd::OPS;
/// Methods with a step size of their own for each element.
pub static ADAPTIVE: &[&OpDef] = adaptive::OPS;
