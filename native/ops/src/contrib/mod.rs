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

/// Multi-head attention.
pub static ATTENTION: &[&OpDef] = attention::OPS;
/// Multi-head attention in graphs that were rewritten for oneDNN.
pub static FUSED_ATTENTION: &[&OpDef] = fused_attention::OPS;
/// Fused subgraphs in graphs that were rewritten for oneDNN.
pub static REWRITTEN: &[&OpDef] = rewritten::OPS;
/// Deformable convolutions.
pub static DEFORMABLE: &[&OpDef] = deformable::OPS;
/// Object detection.
pub static DETECTION: &[&OpDef] = detection::OPS;
/// Selection by a mask.
pub static MASK: &[&OpDef] = &[&boolean_mask::BOOLEAN_MASK];
/// Elementwise operators.
pub static ELEMENTWISE: &[&OpDef] = elementwise::OPS;
