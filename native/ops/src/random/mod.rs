//! Random numbers. Every call uses its own stream of the device's seed; results do not depend on the number of threads.

mod discrete;
mod fixed;
mod pdf;
mod sampled;

use ferromx_core::op::OpDef;

/// Distributions with scalar parameters.
pub static FIXED: &[&OpDef] = fixed::OPS;

/// Distributions with array parameters.
pub static SAMPLED: &[&OpDef] = sampled::OPS;

/// Discrete sampling and shuffling.
pub static DISCRETE: &[&OpDef] = discrete::OPS;

/// Probability densities.
pub static PDF: &[&OpDef] = pdf::OPS;
