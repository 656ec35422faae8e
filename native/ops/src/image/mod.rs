//! Images: transformations for training (`_image_*`), and the operators that `mx.image` calls (`_cv*`).
//!
//! - `decode` decodes images to arrays, `imdecode` into a batch.
//! - `resize` resizes images and adds borders; `transform` converts, normalizes, crops and flips them.
//! - `color` changes brightness, contrast, saturation, hue and lighting.

mod color;
mod decode;
mod imdecode;
mod resize;
#[cfg(test)]
mod tests;
mod transform;

pub use decode::{ChannelOrder, DecodedImage, decode};
pub use resize::interpolation;

use ferromx_core::error::Result;
use ferromx_core::op::AnyOperator;
use ferromx_core::shape::Shape;
use ferromx_core::{ensure, infer::ShapeIo};

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[color::OPS, decode::OPS, imdecode::OPS, resize::OPS, transform::OPS];

/// Checks that the shape of an image, if known, is (height, width, 1 or 3).
fn check_image(shape: &Shape) -> Result<()> {
    let Some(rank) = shape.ndim() else { return Ok(()) };
    ensure!(rank == 3, "Input image must have shape (height, width, channels), but got {shape}");
    check_channels(shape, 2)
}

/// Checks that `axis` has length 1 or 3, if known.
fn check_channels(shape: &Shape, axis: usize) -> Result<()> {
    let channels = shape.dim(axis);
    ensure!(
        channels < 0 || channels == 1 || channels == 3,
        "an image must have 1 or 3 channels, but the shape {shape} has {channels} on axis {axis}"
    );
    Ok(())
}

/// Shape rule of operators whose output has the shape of the input image.
fn same_image_shape(io: &mut ShapeIo<'_>) -> Result<()> {
    check_image(&io.ins[0])?;
    io.assign_out(0, &io.ins[0].clone())?;
    io.assign_in(0, &io.outs[0].clone())
}
