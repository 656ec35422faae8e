//! Operators that MXNet keeps under `contrib`.

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
/// Its names in graphs that were rewritten for oneDNN.
pub static FUSED_ATTENTION: &[&OpDef] = fused_attention::OPS;
/// Parts of graphs that were rewritten for oneDNN.
pub static REWRITTEN: &[&OpDef] = rewritten::OPS;
/// Deformable convolutions.
pub static DEFORMABLE: &[&OpDef] = deformable::OPS;
/// Object detection.
pub static DETECTION: &[&OpDef] = detection::OPS;
/// Masks.
pub static MASK: &[&OpDef] = &[&boolean_mask::BOOLEAN_MASK];
/// Element by element.
pub static ELEMENTWISE: &[&OpDef] = elementwise::OPS;
