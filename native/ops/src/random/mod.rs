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

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    array_parameters::OPS,
    discrete::OPS,
    numpy_continuous::OPS,
    numpy_discrete::OPS,
    pdf::OPS,
    scalar_parameters::OPS,
];

/// Type rule of samplers: the requested type, or that of a given output. Errors of kernels may be reported at a later wait, but MXNet
/// reports other types at the call.
fn assign_sample_type(
    io: &mut DTypeIo<'_>,
    requested: Option<DType>,
    accepted: &[DType],
    default: DType,
) -> Result<()> {
    let dtype = requested.or(io.outs[0]).unwrap_or(default);
    let names = || accepted.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    ensure!(accepted.contains(&dtype), "Output type must be {}: dtype is {dtype}", names());
    io.assign_out(0, dtype)
}
