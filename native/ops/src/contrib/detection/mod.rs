//! Object detection.
//!
//! - `boxes` has the overlap, encoding and matching of boxes.
//! - `multibox` has the anchors, targets and detections of SSD.
//! - `nms` is non-maximum suppression.
//! - `proposal` has the region proposals of Faster R-CNN.
//! - `roi_pooling` pools regions of interest.

mod boxes;
mod multibox;
mod nms;
mod proposal;
mod roi_pooling;
#[cfg(test)]
mod tests;

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::AnyOperator;
use ferromx_core::param_enum;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_kernels::detection::BoxFormat;

/// The operators of this folder.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &boxes::BOX_IOU,
    &boxes::BOX_ENCODE,
    &boxes::BOX_DECODE,
    &boxes::BIPARTITE_MATCHING,
    &nms::BOX_NMS,
    &multibox::PRIOR,
    &multibox::TARGET,
    &multibox::DETECTION,
    &proposal::PROPOSAL,
    &proposal::MULTI_PROPOSAL,
    &roi_pooling::ROI_ALIGN,
    &roi_pooling::MAX_ROI_ALIGN,
    &roi_pooling::RROI_ALIGN,
    &roi_pooling::PS_ROI_POOLING,
    &roi_pooling::DEFORMABLE_PS_ROI_POOLING,
];

param_enum! {
    /// The meaning of the four numbers of a box.
    pub enum Format { Center = "center", Corner = "corner" }
}

impl Format {
    /// The format for the kernels.
    fn to_kernel(self) -> BoxFormat {
        match self {
            Format::Center => BoxFormat::Center,
            Format::Corner => BoxFormat::Corner,
        }
    }
}

/// All inputs and outputs are float32.
fn all_float32(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_all(DType::F32)
}

/// Checks that the last axis of the argument `name` has length `len`, if it is known.
fn check_last_axis(name: &str, shape: &Shape, len: i64, meaning: &str) -> Result<()> {
    let last = shape.dims().last().copied().unwrap_or(-1);
    ferromx_core::ensure!(
        last < 0 || last == len,
        "the last axis of {name} must have length {len} ({meaning}), but it has {last}"
    );
    Ok(())
}
