//! The gamma family, in double precision.

/// The gamma function.
pub(super) fn gamma(x: f64) -> f64 {
    libm::tgamma(x)
}

/// log |gamma(x)|.
pub(super) fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The logarithmic derivative of the gamma function: reflection for x <= 0, recurrence up to 10, then the asymptotic
/// series (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
pub(super) fn digamma(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x <= 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // tan has period pi, so the whole part of x can be dropped before it loses digits.
        return digamma(1.0 - x) - PI / libm::tan(PI * (x - x.floor()));
    }
    let (mut x, mut y) = (x, 0.0);
    while x < 10.0 {
        y -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = super::wide::poly(
        z,
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0],
    );
    y + libm::log(x) - 0.5 / x - z * series
}
