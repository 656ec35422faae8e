//! Random numbers. Every call takes a stream of its own from the device's seed; results do not depend on threads.

mod fixed;
mod sampled;

use ferromx_core::op::OpDef;

/// Distributions whose parameters are numbers.
pub static FIXED: &[&OpDef] = fixed::OPS;

/// Distributions whose parameters are arrays.
pub static SAMPLED: &[&OpDef] = sampled::OPS;
