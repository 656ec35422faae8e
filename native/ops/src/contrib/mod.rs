//! Operators of MXNet's `contrib` namespace.
//!
//! - `attention` has the products of multi-head attention on interleaved projections, `fused_attention` their names in graphs that oneDNN
//!   rewrote.
//! - `boolean_mask` selects entries by a mask.
//! - `deformable` has the deformable convolutions.
//! - `detection` has boxes, anchors, non-maximum suppression and RoI pooling.
//! - `elementwise` has the quadratic function, straight-through estimators and other elementwise operators.
//! - `fused_subgraphs` has the nodes that stand for subgraphs which oneDNN fused.

mod attention;
mod boolean_mask;
mod deformable;
mod detection;
mod elementwise;
mod fused_attention;
mod fused_subgraphs;

use ferromx_core::op::AnyOperator;

pub use fused_subgraphs::{FusedConvolutionParam, FusedFullyConnectedParam};

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    attention::OPS,
    &[&boolean_mask::BOOLEAN_MASK],
    deformable::OPS,
    detection::OPS,
    elementwise::OPS,
    fused_attention::OPS,
    fused_subgraphs::OPS,
];
