//! Random numbers. Every call uses its own stream of the device's seed; results do not depend on the number of threads.
//!
//! The distributions of MXNet's older interface have scalar parameters (`fixed`) or arrays of them (`sampled`); those of its NumPy
//! interface have either (`continuous`, `integers`).

mod continuous;
mod discrete;
mod fixed;
mod integers;
mod pdf;
mod sampled;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&[&OpDef]] = &[
    // Continuous distributions of the NumPy interface.
    continuous::OPS,
    // Discrete sampling and shuffling.
    discrete::OPS,
    // Distributions with scalar parameters.
    fixed::OPS,
    // Random integers of the NumPy interface.
    integers::OPS,
    // Probability densities.
    pdf::OPS,
    // Distributions with array parameters.
    sampled::OPS,
];
