//! The gamma function and its relatives in double precision: from the crate `libm`, and without branches for single precision
//! results.

use super::wide;

/// The gamma function.
pub(super) fn gamma(x: f64) -> f64 {
    libm::tgamma(x)
}

/// log |gamma(x)|.
pub(super) fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The logarithmic derivative of the gamma function, infinity at its poles: reflection for x <= 0, recurrence up to 10, then the
/// asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
pub(super) fn digamma(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x <= 0.0 {
        if x == x.floor() {
            return f64::INFINITY;
        }
        // tan(pi x) has period 1: subtracting the nearest integer first keeps its precision.
        return digamma(1.0 - x) - PI / libm::tan(PI * (x - x.round()));
    }
    let (mut x, mut y) = (x, 0.0);
    while x < 10.0 {
        y -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series =
        wide::poly(z, [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0]);
    y + libm::log(x) - 0.5 / x - z * series
}

/// Applications of the recurrence after which the asymptotic series is accurate.
const SHIFT: usize = 10;
/// B(2k) / (2k (2k - 1)), the coefficients of Stirling's series (Abramowitz and Stegun 6.1.41).
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
    -3617.0 / 122_400.0,
];
/// B(2k) / 2k, the coefficients of its derivative (6.3.18).
const DIGAMMA: [f64; 8] =
    [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0, -3617.0 / 8160.0];

/// Returns x + RAISE, the product of x, x + 1, ..., x + RAISE - 1, and its derivative; large x are not raised.
#[inline(always)]
fn shift_up(x: f64) -> (f64, f64, f64) {
    let small = x < SHIFT as f64;
    let (mut product, mut slope) = (1.0, 0.0);
    let mut k = 0;
    while k < SHIFT {
        let term = if small { x + k as f64 } else { 1.0 };
        slope = slope * term + if small { product } else { 0.0 };
        product *= term;
        k += 1;
    }
    (if small { x + SHIFT as f64 } else { x }, product, slope)
}

/// log |gamma(x)| to about 1e-14, absolutely and relative to its magnitude.
#[inline(always)]
pub(super) fn wide_lgamma(x: f64) -> f64 {
    const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;
    let reflected = x < 0.5;
    let (y, product, _) = shift_up(if reflected { 1.0 - x } else { x });
    let z = 1.0 / y;
    let main = (y - 0.5) * wide::log(y) - y + HALF_LOG_TAU + z * wide::poly(z * z, STIRLING) - wide::log(product);
    let main = if y == f64::INFINITY { y } else { main };
    if reflected { wide::log(std::f64::consts::PI / wide::sin_pi(x).abs()) - main } else { main }
}

/// gamma(x) to about 1e-13, for results in single precision; NaN at negative integers and negative infinity.
#[inline(always)]
pub(super) fn wide_gamma(x: f64) -> f64 {
    let size = wide::exp2(wide_lgamma(x) * std::f64::consts::LOG2_E);
    let negative = x < 0.0 && x.floor() * 0.5 != (x.floor() * 0.5).floor();
    let pole = x < 0.0 && x.floor() == x;
    let y = if x == 0.0 { f64::INFINITY.copysign(x) } else { size };
    let y = if negative { -y } else { y };
    if pole { f64::NAN } else { y }
}

/// The derivative of log |gamma(x)| to about 1e-14; infinity at negative integers and 0.
#[inline(always)]
pub(super) fn wide_digamma(x: f64) -> f64 {
    let reflected = x <= 0.0;
    let (y, product, slope) = shift_up(if reflected { 1.0 - x } else { x });
    let z = 1.0 / y;
    let main = wide::log(y) - 0.5 * z - z * z * wide::poly(z * z, DIGAMMA) - slope / product;
    let y = if reflected { main - std::f64::consts::PI / wide::tan_pi(x) } else { main };
    if reflected && x.floor() == x { f64::INFINITY } else { y }
}
