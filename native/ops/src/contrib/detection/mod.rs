//! Object detection: boxes, anchors, proposals, non-maximum suppression, RoI pooling.

mod boxes;
mod multibox;
mod proposal;
mod regions;
mod suppression;
#[cfg(test)]
mod tests;

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::OpDef;
use ferromx_core::param_enum;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_kernels::detection::BoxFormat;

/// The operators of this folder.
pub(super) static OPS: &[&OpDef] = &[
    &boxes::BOX_IOU,
    &boxes::BOX_ENCODE,
    &boxes::BOX_DECODE,
    &boxes::BIPARTITE_MATCHING,
    &suppression::BOX_NMS,
    &multibox::PRIOR,
    &multibox::TARGET,
    &multibox::DETECTION,
    &proposal::PROPOSAL,
    &proposal::MULTI_PROPOSAL,
    &regions::ROI_ALIGN,
    &regions::MAX_ROI_ALIGN,
    &regions::RROI_ALIGN,
    &regions::PS_ROI_POOLING,
    &regions::DEFORMABLE_PS_ROI_POOLING,
];

param_enum! {
    /// The meaning of the four numbers of a box.
    pub enum Format { Center = "center", Corner = "corner" }
}

impl Format {
    fn of(self) -> BoxFormat {
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

/// Checks the length of the last axis, if it is known.
fn check_last_axis(what: &str, shape: &Shape, len: i64, meaning: &str) -> Result<()> {
    let last = shape.dims().last().copied().unwrap_or(-1);
    ferromx_core::ensure!(
        last < 0 || last == len,
        "the last axis of {what} must have length {len} ({meaning}), but it has {last}"
    );
    Ok(())
}
