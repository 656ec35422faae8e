//! Variants of `BatchNorm`: the first version, with ReLU, and synchronized across devices.

use ferromx_core::error::Result;
use ferromx_core::op::Operator;
use ferromx_core::{ensure, params};

use super::batch_norm::{BatchNormLike, Settings, batch_norm, settings};

params! {
    /// Parameters of `BatchNorm_v1`.
    pub struct BatchNormV1Param {
        /// Added to the variance for numerical stability.
        eps: f32 = 1e-3;
        /// The momentum of the moving mean and variance: the fraction that a training step keeps.
        momentum: f32 = 0.9;
        /// Whether gamma is fixed at 1 and has no gradient.
        fix_gamma: bool = true;
        /// Whether training also normalizes with the moving mean and variance, without updating them.
        use_global_stats: bool = false;
        /// Whether the mean and the variance are also outputs.
        output_mean_var: bool = false;
    }
}

impl BatchNormLike for BatchNormV1Param {
    const OUTPUTS_VARIANCE: bool = true;

    fn settings(&self) -> Settings {
        settings!(self, axis: 1)
    }
}

/// The first version of batch normalization.
pub(super) static BATCH_NORM_V1: Operator<BatchNormV1Param> = batch_norm("BatchNorm_v1").legacy().listed(3).doc(
    "The first version of `BatchNorm`, for networks that were saved with it: out = (data - mean) / sqrt(var + eps) * gamma + beta, \
     with the channels along axis 1 (Ioffe and Szegedy, 2015). Its third output is the variance. It has the auxiliary states \
     moving_mean and moving_var.",
);

params! {
    /// Parameters of `_contrib_BatchNormWithReLU`.
    pub struct BatchNormWithReluParam {
        /// Added to the variance for numerical stability.
        eps: f64 = (f64::from(1e-3f32));
        /// The momentum of the moving mean and variance: the fraction that a training step keeps.
        momentum: f32 = 0.9;
        /// Whether gamma is fixed at 1 and has no gradient.
        fix_gamma: bool = true;
        /// Whether training also normalizes with the moving mean and variance, without updating them.
        use_global_stats: bool = false;
        /// Whether the mean and the reciprocal of the standard deviation are also outputs.
        output_mean_var: bool = false;
        /// The axis of the channels.
        axis: i32 = 1;
        /// Accepted for compatibility; cuDNN is never used.
        cudnn_off: bool = false;
        /// Used only by the quantized operator.
        min_calib_range: Option<f32> = None;
        /// Used only by the quantized operator.
        max_calib_range: Option<f32> = None;
    }
}

impl BatchNormLike for BatchNormWithReluParam {
    const HAS_RELU: bool = true;

    fn settings(&self) -> Settings {
        settings!(self, axis: self.axis)
    }
}

pub(super) static BATCH_NORM_WITH_RELU: Operator<BatchNormWithReluParam> = batch_norm("_contrib_BatchNormWithReLU").doc(
    "`BatchNorm` followed by ReLU: out = max(0, (data - mean) / sqrt(var + eps) * gamma + beta). Statistics and their \
     updates are those of `BatchNorm`.",
);

params! {
    /// Parameters of `_contrib_SyncBatchNorm`.
    pub struct SyncBatchNormParam {
        /// Added to the variance for numerical stability.
        eps: f32 = 1e-3;
        /// The momentum of the moving mean and variance: the fraction that a training step keeps.
        momentum: f32 = 0.9;
        /// Whether gamma is fixed at 1 and has no gradient.
        fix_gamma: bool = true;
        /// Whether training also normalizes with the moving mean and variance, without updating them.
        use_global_stats: bool = false;
        /// Whether the mean and the variance are also outputs.
        output_mean_var: bool = false;
        /// Number of devices that share their statistics in training; one here.
        ndev: i32 = 1;
        /// Name under which devices share their statistics.
        key: String = required;
    }
}

impl BatchNormLike for SyncBatchNormParam {
    const OUTPUTS_VARIANCE: bool = true;

    fn settings(&self) -> Settings {
        settings!(self, axis: 1)
    }

    fn check_training(&self) -> Result<()> {
        ensure!(
            self.ndev == 1,
            "_contrib_SyncBatchNorm '{}' is to share statistics among {} devices, but devices run one after another here: use \
             ndev=1 and a larger batch on one device",
            self.key,
            self.ndev
        );
        Ok(())
    }
}

pub(super) static SYNC_BATCH_NORM: Operator<SyncBatchNormParam> = batch_norm("_contrib_SyncBatchNorm").legacy().doc(
    "Batch normalization whose statistics several devices share (Zhang et al., \"Context encoding for semantic segmentation\", \
     2018): out = (data - mean) / sqrt(var + eps) * gamma + beta, with the channels along axis 1. Its third output is the \
     variance. There is one device here, so that it equals `BatchNorm`.",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn operands() -> Vec<ferromx_core::ndarray::NDArray> {
        let x: Vec<f64> = (0..12).map(|i| f64::from(i * 7 % 11) / 4.0 - 1.0).collect();
        let channels = |a: f64, b: f64| array(&[a, b], &[2]);
        vec![array(&x, &[3, 2, 2]), channels(1.5, 0.5), channels(0.1, -0.2), channels(0.3, 0.6), channels(1.2, 0.8)]
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let attrs = |more: &[(&'static str, &'static str)]| [&[("fix_gamma", "False")], more].concat();
        for (def, more) in [
            (&*BATCH_NORM_V1, &[][..]),
            (&*BATCH_NORM_WITH_RELU, &[]),
            (&*BATCH_NORM_WITH_RELU, &[("axis", "-1")]),
            (&*SYNC_BATCH_NORM, &[("key", "a")]),
        ] {
            Case::new(def, &attrs(more)).train().check_gradient(&operands());
            Case::new(def, &attrs(more)).check_gradient(&operands());
        }
    }

    #[test]
    fn batch_norm_with_relu_clamps_negative_outputs_to_zero() {
        let y = Case::new(&BATCH_NORM_WITH_RELU, &[]).run1(&operands()).unwrap().to_vec::<f64>().unwrap();
        assert!(y.iter().all(|y| *y >= 0.0) && y.contains(&0.0) && y.iter().any(|y| *y > 0.0));
    }

    #[test]
    fn sync_batch_norm_of_several_devices_infers_but_does_not_train() {
        let two = || Case::new(&SYNC_BATCH_NORM, &[("key", "a"), ("ndev", "2"), ("fix_gamma", "0")]);
        assert!(two().train().run(&operands()).unwrap_err().to_string().contains("ndev=1"));
        let one = Case::new(&crate::nn::batch_norm::BATCH_NORM, &[("fix_gamma", "0")]).run1(&operands()).unwrap();
        let inferred = two().run1(&operands()).unwrap();
        assert_eq!(inferred.to_vec::<f64>().unwrap(), one.to_vec::<f64>().unwrap());
    }
}
