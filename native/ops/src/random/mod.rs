//! Random numbers. Every call uses its own stream of the device's seed; results do not depend on the number of threads.
//!
//! - `scalar_parameters` and `array_parameters` have MXNet's older distributions, `_random_*` and `_sample_*`.
//! - `numpy_continuous` and `numpy_discrete` have the distributions of its NumPy interface, whose parameters are scalars or arrays.
//! - `discrete` samples classes by probability and shuffles rows.
//! - `pdf` has probability density and mass functions.
//! - `sample_shape` has the shape rule that the distributions of the NumPy interface share.

mod array_parameters;
mod discrete;
mod numpy_continuous;
mod numpy_discrete;
mod pdf;
mod sample_shape;
mod scalar_parameters;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // Distributions with array parameters.
    array_parameters::OPS,
    // Discrete sampling and shuffling.
    discrete::OPS,
    // Continuous distributions of the NumPy interface.
    numpy_continuous::OPS,
    // Random integers of the NumPy interface.
    numpy_discrete::OPS,
    // Probability densities.
    pdf::OPS,
    // Distributions with scalar parameters.
    scalar_parameters::OPS,
];
