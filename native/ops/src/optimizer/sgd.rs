//! SGD with and without momentum, and the methods that only use the signs of gradients.

use ferromx_core::op::{AnyOperator, arg};
use ferromx_kernels::math::{MathFloat, clip};

use crate::sparse::lazy_rule;

use super::family::{self, bound, mixed_step, sign, step, step_params};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &SGD_UPDATE,
    &SGD_MOM_UPDATE,
    &MP_SGD_UPDATE,
    &MP_SGD_MOM_UPDATE,
    &NAG_MOM_UPDATE,
    &MP_NAG_MOM_UPDATE,
    &SIGNSGD_UPDATE,
    &SIGNUM_UPDATE,
];

step_params! {
    /// Parameters of `sgd_update`.
    SgdParam {} {
        /// For sparse gradients: whether only the rows with a gradient are updated.
        lazy_update: bool = true;
    }
}

step_params! {
    /// Parameters of `sgd_mom_update`.
    SgdMomParam {
        /// The momentum: the fraction of the last step that is added to the next.
        momentum: f32 = 0.0;
    } {
        /// For sparse gradients: whether only the rows with a gradient are updated.
        lazy_update: bool = true;
    }
}

step_params! {
    /// Parameters of `nag_mom_update` and `mp_nag_mom_update`.
    MomParam {
        /// The momentum: the fraction of the last step that is added to the next.
        momentum: f32 = 0.0;
    }
}

step!(SGD_UPDATE: Sgd, "sgd_update" ["_sparse_sgd_update"],
"A step of stochastic gradient descent: weight - lr * (g + wd * weight), where g = clip(rescale_grad * grad).",
SgdParam, states [],
scalars |p| [lr = p.lr, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient)],
|weight, grad| {
    let g = clip(rescale * grad, limit) + wd * weight;
    [weight - lr * g]
}, sparse = lazy_rule!(SgdParam));

step!(SGD_MOM_UPDATE: SgdMom, "sgd_mom_update" ["_sparse_sgd_mom_update"],
"A step of gradient descent with momentum: mom = momentum * mom - lr * (g + wd * weight), then weight + mom, where \
 g = clip(rescale_grad * grad).",
SgdMomParam, states [mom = "The momentum: the last step."],
scalars |p| [
    lr = p.lr, momentum = p.momentum, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let mom = momentum * mom - lr * (clip(rescale * grad, limit) + wd * weight);
    [weight + mom, mom]
}, sparse = lazy_rule!(SgdMomParam));

mixed_step!(MP_SGD_UPDATE: Sgd<4, 1>, "mp_sgd_update", "sgd_update", SgdParam, states []);

mixed_step!(MP_SGD_MOM_UPDATE: SgdMom<5, 2>, "mp_sgd_mom_update", "sgd_mom_update", SgdMomParam,
states [mom = "The momentum, in single precision."]);

step!(NAG_MOM_UPDATE: NagMom, "nag_mom_update",
"A step with Nesterov's momentum: mom = momentum * mom - lr * g, then weight + momentum * mom - lr * g, where \
 g = clip(rescale_grad * grad) + wd * weight (Sutskever et al., 2013).",
MomParam, states [mom = "The momentum."],
scalars |p| [
    lr = p.lr, momentum = p.momentum, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let g = clip(rescale * grad, limit) + wd * weight;
    let step = momentum * mom - lr * g;
    // weight + momentum * step - lr * g, in MXNet's order: with an infinite state or gradient it decides between infinity and NaN.
    [weight - momentum * mom + (momentum + C::ONE) * step, step]
});

// As in MXNet, the new momentum includes the weight decay of the new weight.
family::rule! { MixedNagMom, MomParam, states [mom],
scalars |p| [
    lr = p.lr, momentum = p.momentum, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
],
|weight, grad| {
    let (g, decayed) = (clip(rescale * grad, limit), momentum * mom);
    let step = decayed - lr * (g + wd * weight);
    let weight = weight + momentum * step - lr * (g + wd * weight);
    [weight, decayed - lr * (g + wd * weight)]
} }

mixed_step!(MP_NAG_MOM_UPDATE: MixedNagMom<5, 2>, "mp_nag_mom_update", "nag_mom_update", MomParam,
states [mom = "The momentum, in single precision."]);

step_params! {
    /// Parameters of `signsgd_update`.
    SignSgdParam {}
}

step!(SIGNSGD_UPDATE: SignSgd, "signsgd_update",
    "A step by the sign of the gradient: (1 - lr * wd) * weight - lr * sign(grad) (Bernstein et al., signSGD, 2018). The sign is that of \
     the gradient as it is given: rescale_grad and clip_gradient have no effect.",
    SignSgdParam, states [],
    scalars |p| [lr = p.lr, wd = p.wd],
    |weight, grad| [(C::ONE - lr * wd) * weight - lr * sign(grad)]);

step_params! {
    /// Parameters of `signum_update`.
    SignumParam {
        /// The fraction of the old momentum that is kept.
        momentum: f32 = 0.0;
    } {
        /// Decoupled weight decay (Loshchilov and Hutter, 2017).
        wd_lh: f32 = 0.0;
    }
}

step!(SIGNUM_UPDATE: Signum, "signum_update",
"A step by the sign of the momentum: mom = momentum * mom - (1 - momentum) * (g + wd * weight), then \
 (1 - lr * wd_lh) * weight + lr * sign(mom), where g = clip(rescale_grad * grad) (Bernstein et al., signSGD, 2018).",
SignumParam, states [mom = "The momentum."],
scalars |p| [
    lr = p.lr, momentum = p.momentum, wd = p.wd, rescale = p.rescale_grad, limit = bound(p.clip_gradient),
    decay = p.wd_lh,
],
|weight, grad| {
    let mom = momentum * mom - (C::ONE - momentum) * (clip(rescale * grad, limit) + wd * weight);
    [(C::ONE - lr * decay) * weight + lr * sign(mom), mom]
});
