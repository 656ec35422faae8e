//! Double precision functions from the crate `libm`: scalar, with the same bits on every machine.

pub(super) use super::special::{digamma, gamma, lgamma};
pub(super) use libm::exp as exp_nonpositive;
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
    // `libm` returns a number for large negative arguments.
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// Winitzki's closed form (2008), with an error of at most 0.002, refined by two iterations of Halley's method.
pub(super) fn erfinv(x: f64) -> f64 {
    const A: f64 = 0.147;
    let log = log(1.0 - x * x);
    let t = 2.0 / (std::f64::consts::PI * A) + log / 2.0;
    let mut y = ((t * t - log / A).sqrt() - t).max(0.0).sqrt().copysign(x);
    for _ in 0..2 {
        let step = (erf(y) - x) * exp(y * y) / std::f64::consts::FRAC_2_SQRT_PI;
        y -= step / (1.0 + y * step);
    }
    let size = x.abs();
    if size < 1.0 {
        y
    } else if size == 1.0 {
        f64::INFINITY.copysign(x)
    } else {
        f64::NAN
    }
}
