//! Optimizers with an adaptive learning rate for each element: Adam, RMSProp, FTRL, FTML, AdaGrad.

use ferromx_core::op::{AnyOperator, arg};
use ferromx_core::params;
use ferromx_kernels::math::{MathFloat, clip};

use crate::sparse::lazy_rule;

use super::family::{self, bias_correction, bound, sign, step, step_params};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&ADAM_UPDATE, &RMSPROP_UPDATE, &RMSPROPALEX_UPDATE, &FTRL_UPDATE, &FTML_UPDATE, &ADAGRAD_UPDATE];

step_params! {
    /// Parameters of `adam_update`.
    AdamParam {
        /// The decay rate of the mean of gradients.
        beta1: f32 = 0.9;
        /// The decay rate of the mean of squares.
        beta2: f32 = 0.999;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-8;
    } {
        /// For sparse gradients: whether only the rows with a gradient are updated.
        lazy_update: bool = true;
    }
}

step!(ADAM_UPDATE: Adam, "adam_update" ["_sparse_adam_update"],
"A step of Adam: with g = clip(rescale_grad * grad + wd * weight), mean = beta1 * mean + (1 - beta1) * g and \
 var = beta2 * var + (1 - beta2) * g^2, the result is weight - lr * mean / (sqrt(var) + epsilon). Bias \
 correction is left to the caller's lr (Kingma and Ba, 2014).",
AdamParam, states [mean = "The moving mean of gradients.", var = "The moving mean of squared gradients."],
scalars |p| [
    lr = p.lr, beta1 = p.beta1, beta2 = p.beta2, epsilon = p.epsilon,
    wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let g = clip(rescale * grad + wd * weight, limit);
    let mean = beta1 * mean + (C::ONE - beta1) * g;
    let var = beta2 * var + (C::ONE - beta2) * g * g;
    [weight - lr * mean / (var.sqrt() + epsilon), mean, var]
}, sparse = lazy_rule!(AdamParam));

step_params! {
    /// Parameters of `rmsprop_update`.
    RmsPropParam {
        /// The decay rate of the mean of squares.
        gamma1: f32 = 0.95;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-8;
    } {
        /// The weight is clipped to [-clip_weights, clip_weights]; a negative number disables clipping.
        clip_weights: f32 = (-1.0);
    }
}

step!(RMSPROP_UPDATE: RmsProp, "rmsprop_update",
"A step of RMSProp: with g = clip(rescale_grad * grad + wd * weight) and n = gamma1 * n + (1 - gamma1) * g^2, the result is \
 weight - lr * g / sqrt(n + epsilon) (Tieleman and Hinton, 2012).",
RmsPropParam, states [n = "The moving mean of squared gradients."],
scalars |p| [
    lr = p.lr, gamma1 = p.gamma1, epsilon = p.epsilon,
    wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient), weight_limit = bound(p.clip_weights),
],
|weight, grad| {
    let g = clip(rescale * grad + wd * weight, limit);
    let n = gamma1 * n + (C::ONE - gamma1) * g * g;
    [clip(weight - lr * g / (n + epsilon).sqrt(), weight_limit), n]
});

step_params! {
    /// Parameters of `rmspropalex_update`.
    RmsPropAlexParam {
        /// The decay rate of the means.
        gamma1: f32 = 0.95;
        /// The momentum: the fraction of the last step that is added to the next.
        gamma2: f32 = 0.9;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-8;
    } {
        /// The weight is clipped to [-clip_weights, clip_weights]; a negative number disables clipping.
        clip_weights: f32 = (-1.0);
    }
}

step!(RMSPROPALEX_UPDATE: RmsPropAlex, "rmspropalex_update",
"A step of the centered RMSProp with momentum: with x = clip(rescale_grad * grad + wd * weight), \
 n = gamma1 * n + (1 - gamma1) * x^2, g = gamma1 * g + (1 - gamma1) * x and \
 delta = gamma2 * delta - lr * x / sqrt(n - g^2 + epsilon), the result is weight + delta (Graves, 2013).",
RmsPropAlexParam,
states [n = "The moving mean of squared gradients.", g = "The moving mean of gradients.", delta = "The last step."],
scalars |p| [
    lr = p.lr, gamma1 = p.gamma1, gamma2 = p.gamma2, epsilon = p.epsilon,
    wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient), weight_limit = bound(p.clip_weights),
],
|weight, grad| {
    let x = clip(rescale * grad + wd * weight, limit);
    let n = gamma1 * n + (C::ONE - gamma1) * x * x;
    let g = gamma1 * g + (C::ONE - gamma1) * x;
    let delta = gamma2 * delta - lr * x / (n - g * g + epsilon).sqrt();
    [clip(weight + delta, weight_limit), n, g, delta]
});

step_params! {
    /// Parameters of `ftrl_update`.
    FtrlParam {
        /// The L1 penalty.
        lamda1: f32 = 0.01;
        /// Added to the square root of the sum of squares.
        beta: f32 = 1.0;
    }
}

step!(FTRL_UPDATE: Ftrl, "ftrl_update" ["_sparse_ftrl_update"],
"A step of FTRL-proximal: with g = clip(rescale_grad * grad), z += g - (sqrt(n + g^2) - sqrt(n)) * weight / lr and n += g^2, \
 the result is (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| > lamda1, else 0 (McMahan et al., 2013).",
FtrlParam, states [z = "The sum of shifted gradients.", n = "The sum of squares."],
scalars |p| [
    lr = p.lr, lamda1 = p.lamda1, beta = p.beta, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let g = clip(rescale * grad, limit);
    let sum = n + g * g;
    let z = z + g - (sum.sqrt() - n.sqrt()) * weight / lr;
    let w = (sign(z) * lamda1 - z) / ((beta + sum.sqrt()) / lr + wd);
    // The product keeps a NaN from the root of a negative sum of squares, as in MXNet.
    [w * if z.abs() > lamda1 { C::ONE } else { C::ZERO }, z, sum]
}, sparse = crate::sparse::all_row_sparse_rule);

params! {
    /// Parameters of `_sparse_adagrad_update`.
    pub struct AdaGradParam {
        /// The learning rate.
        lr: f32 = required;
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-7;
        /// Weight decay, which must be 0 for row_sparse gradients.
        wd: f32 = 0.0;
        /// The gradient is multiplied by this before clipping.
        rescale_grad: f32 = 1.0;
        /// The rescaled gradient is clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
    }
}

step!(ADAGRAD_UPDATE: AdaGrad, "_sparse_adagrad_update",
"A step of AdaGrad: with g = clip(rescale_grad * grad) + wd * weight, history += g^2 and the result is \
 weight - lr * g / sqrt(history + epsilon) (Duchi et al., 2011).",
AdaGradParam, states [history = "The sum of squares."],
scalars |p| [lr = p.lr, epsilon = p.epsilon, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient)],
|weight, grad| {
    let g = clip(rescale * grad, limit) + wd * weight;
    let history = history + g * g;
    [weight - lr * g / (history + epsilon).sqrt(), history]
}, sparse = crate::sparse::lazy_update_rule);

params! {
    /// Parameters of `ftml_update`.
    pub struct FtmlParam {
        /// The learning rate.
        lr: f32 = required;
        /// The decay rate of the mean of gradients.
        beta1: f32 = 0.6, where 0.0..=1.0;
        /// The decay rate of the mean of squares.
        beta2: f32 = 0.999, where 0.0..=1.0;
        /// A small constant for numerical stability.
        epsilon: f64 = (f64::from(1e-8f32));
        /// The step number, from 1.
        t: i32 = required;
        /// Weight decay: wd * weight is added to the gradient.
        wd: f32 = 0.0;
        /// The gradient is multiplied by this before clipping.
        rescale_grad: f32 = 1.0;
        /// The rescaled gradient with weight decay is clipped to [-clip_grad, clip_grad]; a negative number disables clipping.
        clip_grad: f32 = (-1.0);
    }
}

step!(FTML_UPDATE: Ftml, "ftml_update",
"A step of FTML: with g = clip(rescale_grad * grad + wd * weight), v = beta2 * v + (1 - beta2) * g^2, \
 d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon) and z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * weight, \
 the result is -z / d', and d becomes d' (Zheng and Kwok, 2017).",
FtmlParam,
states [d = "The last divisor.", v = "The moving mean of squared gradients.", z = "The numerator."],
scalars |p| [
    scale = bias_correction(p.beta1, p.t.into()) / f64::from(p.lr), beta1 = p.beta1, beta2 = p.beta2,
    bias2 = bias_correction(p.beta2, p.t.into()), epsilon = p.epsilon, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_grad),
],
|weight, grad| {
    let g = clip(rescale * grad + wd * weight, limit);
    let v = beta2 * v + (C::ONE - beta2) * g * g;
    let next = scale * ((v / bias2).sqrt() + epsilon);
    let z = beta1 * z + (C::ONE - beta1) * g - (next - beta1 * d) * weight;
    [-z / next, next, v, z]
});
