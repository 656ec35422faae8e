//! Random numbers. Every call takes a stream of its own from the device's seed; results do not depend on threads.

mod discrete;
mod fixed;
mod pdf;
mod sampled;

use ferromx_core::op::OpDef;

/// Distributions whose parameters are numbers.
pub static FIXED: &[&OpDef] = fixed::OPS;

/// Distributions whose parameters are arrays.
pub static SAMPLED: &[&OpDef] = sampled::OPS;

/// Choices: of classes, of orders.
pub static DISCRETE: &[&OpDef] = discrete::OPS;

/// Probability densities.
pub static PDF: &[&OpDef] = pdf::OPS;
