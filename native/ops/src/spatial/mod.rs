//! Operators on images: sampling, resizing, regions, correlation.

mod correlation;
mod crop;
mod grid;
mod resize;
mod roi_pooling;
mod sampler;
mod upsampling;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::op::OpDef;
use ferromx_core::shape::Shape;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
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

/// Checks that a shape, if its rank is known, is (batch, channel, height, width).
fn expect_images(what: &str, shape: &Shape) -> Result<()> {
    ensure!(
        shape.ndim().is_none_or(|n| n == 4),
        "{what} should be 4D, (batch, channel, height, width), but it is {shape}"
    );
    Ok(())
}

/// Height and width of whole images.
fn image_size(shape: &Shape) -> [usize; 2] {
    [shape.dim(2).max(0) as usize, shape.dim(3).max(0) as usize]
}

/// A parameter of two numbers, (height, width), each at least `lowest`; MXNet does not look at more.
fn pair(what: &str, tuple: &Shape, lowest: i64) -> Result<[usize; 2]> {
    match tuple.dims() {
        [h, w, ..] if *h >= lowest && *w >= lowest => Ok([*h as usize, *w as usize]),
        _ => Err(ferromx_core::error::Error::Value(format!(
            "{what} {tuple} must be two numbers, (height, width), of {lowest} and above"
        ))),
    }
}
