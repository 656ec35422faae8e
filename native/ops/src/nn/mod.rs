//! Layers of neural networks.

mod activation;
mod convolution;
mod fully_connected;
mod pooling;
mod softmax_output;
mod spatial;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
    &activation::ACTIVATION,
    &convolution::CONVOLUTION,
    &fully_connected::FULLY_CONNECTED,
    &pooling::POOLING,
    &softmax_output::SOFTMAX_OUTPUT,
];
