//! The shapes of samples of the NumPy interface.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::shape::Shape;

use crate::broadcast::binary::broadcast_two;

/// The shape of samples for parameters that are broadcast to `parameters`: `size` if it is given.
///
/// # Errors
/// The parameters cannot be broadcast to the size.
pub(super) fn sample_shape(parameters: Shape, size: Option<&Shape>) -> Result<Shape> {
    let Some(size) = size else { return Ok(parameters) };
    let out = broadcast_two(&parameters, size)?;
    ensure!(out == *size, "parameters of shape {parameters} cannot be broadcast to size={size}");
    Ok(out)
}
