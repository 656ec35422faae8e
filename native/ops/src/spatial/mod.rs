//! Operators on images of shape (batch, channels, height, width).
//!
//! - `grid` makes sampling grids, and `sampler` samples images at them.
//! - `resize` and `upsampling` change the size of images, and `crop` crops them.
//! - `roi_pooling` pools regions of interest; `correlation` compares patches of two images.

mod correlation;
mod crop;
mod grid;
mod resize;
mod roi_pooling;
mod sampler;
mod upsampling;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::AnyOperator;
use ferromx_core::shape::Shape;

/// The operators of this family.
pub(crate) static OPS: &[&dyn AnyOperator] = &[
    &correlation::CORRELATION,
    &crop::CROP,
    &grid::GRID_GENERATOR,
    &resize::ADAPTIVE_AVG_POOLING,
    &resize::BILINEAR_RESIZE,
    &roi_pooling::ROI_POOLING,
    &sampler::BILINEAR_SAMPLER,
    &sampler::SPATIAL_TRANSFORMER,
    &upsampling::UP_SAMPLING,
];

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

/// Checks that a shape of known rank has four axes (batch, channels, height, width).
fn expect_images(name: &str, shape: &Shape) -> Result<()> {
    ensure!(
        shape.ndim().is_none_or(|n| n == 4),
        "{name} should be 4D, (batch, channel, height, width), but it is {shape}"
    );
    Ok(())
}

/// The height and width of images, 0 where unknown.
fn image_size(shape: &Shape) -> [usize; 2] {
    [shape.dim(2).max(0) as usize, shape.dim(3).max(0) as usize]
}

/// The parameter `name`: (height, width), each at least `min`. As in MXNet, further numbers are ignored.
fn pair(name: &str, tuple: &Shape, min: i64) -> Result<[usize; 2]> {
    match tuple.dims() {
        [h, w, ..] if *h >= min && *w >= min => Ok([*h as usize, *w as usize]),
        _ => Err(Error::Value(format!("{name} {tuple} must be two numbers, (height, width), of at least {min}"))),
    }
}
