//! Layers of neural networks.

mod activation;
mod batch_norm;
mod convolution;
mod dropout;
mod fully_connected;
mod fused;
mod leaky_relu;
mod pooling;
mod regression;
mod softmax;
mod softmax_output;
mod spatial;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
    &activation::ACTIVATION,
    &batch_norm::BATCH_NORM,
    &convolution::CONVOLUTION,
    &dropout::DROPOUT,
    &fully_connected::FULLY_CONNECTED,
    &leaky_relu::LEAKY_RELU,
    &pooling::POOLING,
    &softmax_output::SOFTMAX_OUTPUT,
];

/// Softmax and its relatives.
pub static SOFTMAX: &[&OpDef] = softmax::OPS;
/// Losses for regression.
pub static REGRESSION: &[&OpDef] = regression::OPS;
