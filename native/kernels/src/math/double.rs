//! Double precision, by the crate `libm`: scalar, the same bits on every machine.

pub(super) use super::special::{digamma, gamma, lgamma};
pub(super) use libm::{
    acos, asin, asinh, atan, atanh, cbrt, cos, cosh, erf, exp, expm1, log, log1p, log2, log10, pow, sin, sinh, tan,
    tanh,
};

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

pub(super) fn softrelu(x: f64) -> f64 {
    let y = x.max(0.0) + log1p(exp(-x.abs()));
    if x.is_nan() { x } else { y }
}

pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

pub(super) fn rcbrt(x: f64) -> f64 {
    1.0 / cbrt(x)
}

pub(super) fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

pub(super) fn acosh(x: f64) -> f64 {
    // The crate gives large negative arguments a value.
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}
