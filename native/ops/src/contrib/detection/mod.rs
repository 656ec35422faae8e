//! Object detection: boxes and their overlaps, anchors, proposals, pooling of regions.

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
pub static OPS: &[&OpDef] = &[
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
    /// What the four numbers of a box mean.
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

/// Everything is of single precision.
fn single(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_all(DType::F32)
}

/// Checks that the last axis has a length, where it is known.
fn expect_last(what: &str, shape: &Shape, len: i64, meaning: &str) -> Result<()> {
    let last = shape.dims().last().copied().unwrap_or(-1);
    ferromx_core::ensure!(
        last < 0 || last == len,
        "the last axis of {what} has to hold {len} numbers ({meaning}), but it has {last}"
    );
    Ok(())
}
