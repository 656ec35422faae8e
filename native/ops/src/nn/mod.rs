//! Layers of neural networks.
//!
//! - `convolution`, `deconvolution`, `pooling` and `columns` (im2col) slide windows over 1D to 3D data; `spatial` parses their tuples,
//!   and `legacy` has their first versions.
//! - `fully_connected` is the dense layer; `fused` is the epilogue that it shares with convolution.
//! - `batch_norm` and `batch_norm_variants` normalize channels over the batch; `row_norm` has layer, group and instance normalization,
//!   `local_norm` local response and L2 normalization.
//! - `activation`, `leaky_relu` and `softmax` are activation functions, `dropout` drops elements.
//! - `rnn` is the recurrent network; `sequence` masks, reverses and selects steps of padded sequences.
//! - `ctc_loss`, `hawkes`, `regression`, `softmax_output`, `sparse_reg` and `svm_output` are losses.

pub(crate) mod activation;
pub(crate) mod batch_norm;
mod batch_norm_variants;
mod columns;
pub(crate) mod convolution;
mod ctc_loss;
mod deconvolution;
mod dropout;
pub(crate) mod fully_connected;
mod fused;
mod hawkes;
pub(crate) mod leaky_relu;
mod legacy;
mod local_norm;
pub(crate) mod pooling;
mod regression;
pub(crate) mod rnn;
mod row_norm;
mod sequence;
mod softmax;
mod softmax_output;
mod sparse_reg;
pub(crate) mod spatial;
mod svm_output;

pub use convolution::ConvolutionParam;
pub use pooling::{PoolType, PoolingParam};

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    &[
        &activation::ACTIVATION,
        &batch_norm::BATCH_NORM,
        &batch_norm_variants::BATCH_NORM_V1,
        &batch_norm_variants::BATCH_NORM_WITH_RELU,
        &batch_norm_variants::SYNC_BATCH_NORM,
        &columns::COL2IM,
        &columns::IM2COL,
        &convolution::CONVOLUTION,
        &ctc_loss::CTC_LOSS,
        &deconvolution::DECONVOLUTION,
        &dropout::DROPOUT,
        &fully_connected::FULLY_CONNECTED,
        &leaky_relu::LEAKY_RELU,
        &legacy::CONVOLUTION_V1,
        &legacy::POOLING_V1,
        &local_norm::L2_NORMALIZATION,
        &local_norm::LRN,
        &pooling::POOLING,
        &row_norm::GROUP_NORM,
        &row_norm::INSTANCE_NORM,
        &row_norm::LAYER_NORM,
        &sequence::SEQUENCE_LAST,
        &sequence::SEQUENCE_MASK,
        &sequence::SEQUENCE_REVERSE,
        &rnn::RNN,
        &softmax_output::SOFTMAX_OUTPUT,
        &sparse_reg::IDENTITY_ATTACH_KL_SPARSE_REG,
        &svm_output::SVM_OUTPUT,
    ],
    hawkes::OPS,
    regression::OPS,
    softmax::OPS,
];
