//! Object detection.
//!
//! A box is four contiguous numbers: two corners (left, top, right, bottom), or a center (x, y) with width and height. Overlap is
//! intersection over union.
//!
//! - `boxes`: overlaps, encoding relative to anchors, bipartite matching.
//! - `suppression`, `select`: non-maximum suppression of rows, and of boxes by index.
//! - `multibox`: anchors, training targets and detections of SSD.
//! - `proposal`: region proposals of Faster R-CNN.
//! - `regions`: pooling of regions by bilinear sampling (ROIAlign).
//! - `position_sensitive`: position-sensitive and deformable pooling of regions.

mod boxes;
mod multibox;
mod position_sensitive;
mod proposal;
mod regions;
mod select;
mod suppression;
#[cfg(test)]
mod tests;

pub use boxes::{BoxFormat, Decoding, Encoding, bipartite_matching, box_decode, box_encode, box_iou};
pub use multibox::{Anchors, Detection, NegativeMining, Targets, detections, multibox_targets, priors};
pub use position_sensitive::{BinGroups, DeformableBins, PositionSensitive, offsets_backward};
pub use proposal::{Proposals, proposals};
pub use regions::{
    AlignShape, Maps, Regions, RoiAlign, RotatedAlign, max_pool_regions, pool_regions, pool_regions_backward,
};
pub use select::{Selection, box_edges, select_boxes_of_classes};
pub use suppression::{Suppression, suppress, suppress_backward};

use crate::float::Accum;

/// Converts the four numbers of a box to the accumulation type.
fn wide<A: Accum, T: ferromx_core::dtype::Element>(values: &[T]) -> [A; 4] {
    [A::of(values[0]), A::of(values[1]), A::of(values[2]), A::of(values[3])]
}
