//! Operators of MXNet's `contrib` namespace.

mod attention;
mod boolean_mask;
mod deformable;
mod detection;
mod elementwise;
mod fused_attention;
mod rewritten;

use ferromx_core::op::OpDef;

pub use rewritten::{FusedConvolutionParam, FusedFullyConnectedParam};

/// The operators of this family.
pub static OPS: &[&[&OpDef]] = &[
    // Multi-head attention.
    attention::OPS,
    // Selection by a mask.
    &[&boolean_mask::BOOLEAN_MASK],
    // Deformable convolutions.
    deformable::OPS,
    // Object detection.
    detection::OPS,
    // Elementwise operators.
    elementwise::OPS,
    // Multi-head attention in graphs that were rewritten for oneDNN.
    fused_attention::OPS,
    // Fused subgraphs in graphs that were rewritten for oneDNN.
    rewritten::OPS,
];
