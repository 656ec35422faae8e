//! Object detection: overlap of boxes, non-maximum suppression, matching, anchors and their targets, region proposals, pooling of
//! regions.
//!
//! A box is four adjacent numbers: two corners (left, top, right, bottom), or a centre (x, y) with width and height.

mod boxes;
mod multibox;
mod position_sensitive;
mod proposal;
mod regions;
mod select;
mod suppression;
#[cfg(test)]
mod tests;

pub use boxes::{BoxFormat, Decoding, bipartite_matching, box_decode, box_encode, box_iou};
pub use multibox::{Anchors, Detection, NegativeMining, Targets, detections, multibox_targets, priors};
pub use position_sensitive::{BinGroups, DeformableBins, PositionSensitive, offsets_backward};
pub use proposal::{Proposals, proposals};
pub use regions::{
    AlignShape, Maps, Regions, RoiAlign, RotatedAlign, max_of_regions, pool_regions, pool_regions_backward,
};
pub use select::{Selection, box_edges, select_boxes};
pub use suppression::{Suppression, suppress, suppress_backward};

use crate::float::Accum;

/// Converts the four numbers of a box to the accumulation type.
fn wide<A: Accum, T: ferromx_core::dtype::Element>(values: &[T]) -> [A; 4] {
    [A::of(values[0]), A::of(values[1]), A::of(values[2]), A::of(values[3])]
}
