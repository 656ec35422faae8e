//! Pictures: transformations for training (`_image_*`), and what `mx.image` builds on (`_cv*`).

mod color;
mod decode;
mod imdecode;
mod resize;
#[cfg(test)]
mod tests;
mod transform;

pub use decode::{Picture, decode};
pub use resize::interpolation;

use ferromx_core::error::Result;
use ferromx_core::op::OpDef;
use ferromx_core::shape::Shape;
use ferromx_core::{ensure, infer::ShapeIo};

/// Decoding.
pub static DECODE: &[&OpDef] = decode::OPS;
/// Decoding into batches.
pub static IMDECODE: &[&OpDef] = imdecode::OPS;
/// Shapes and orientations.
pub static TRANSFORM: &[&OpDef] = transform::OPS;
/// Colours.
pub static COLOR: &[&OpDef] = color::OPS;
/// Scaling and borders.
pub static RESIZE: &[&OpDef] = resize::OPS;

/// Checks that a picture of unknown or known shape is (height, width, 1 or 3).
fn check_picture(shape: &Shape) -> Result<()> {
    let Some(rank) = shape.ndim() else { return Ok(()) };
    ensure!(rank == 3, "Input image must have shape (height, width, channels), but got {shape}");
    check_channels(shape, 2)
}

/// Checks that the dimension `axis` is that of one or three channels.
fn check_channels(shape: &Shape, axis: usize) -> Result<()> {
    let channels = shape.dim(axis);
    ensure!(
        channels < 0 || channels == 1 || channels == 3,
        "a picture has 1 or 3 channels, but the shape {shape} has {channels} on axis {axis}"
    );
    Ok(())
}

/// Shape rule of what changes pictures in place.
fn same_picture(io: &mut ShapeIo<'_>) -> Result<()> {
    check_picture(&io.ins[0])?;
    io.assign_out(0, &io.ins[0].clone())?;
    io.assign_in(0, &io.outs[0].clone())
}
