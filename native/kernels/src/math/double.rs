//! Double precision functions. The common ones have no branches, so that loops vectorize, with errors of at most 2 ulp; the rest are
//! scalar, from the crate `libm`. All give the same bits on every machine.

use super::signed_power;
use super::wide::{ROUND, poly, split_normal};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E};

pub(super) use super::special::{digamma, gamma, lgamma};
pub(super) use libm::{acos, asin, asinh, cbrt, cos, erf, sin, tan};

/// The high bits of log 2. Its products with exponents are exact.
const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0xffff);
/// log 2 - [`LN_2_HIGH`].
const LN_2_LOW: f64 = 1.646_594_958_289_708_2e-12;

/// A number as the sum of a double and a small correction.
#[derive(Clone, Copy)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    /// `a + b` for |a| >= |b| or a = 0, exactly.
    #[inline(always)]
    fn of(a: f64, b: f64) -> Sum {
        let high = a + b;
        Sum { high, low: (a - high) + b }
    }

    /// `a * b`, exactly.
    #[inline(always)]
    fn product(a: f64, b: f64) -> Sum {
        let high = a * b;
        Sum { high, low: a.mul_add(b, -high) }
    }

    /// The product, to about 100 bits.
    #[inline(always)]
    fn times(self, other: Sum) -> Sum {
        let Sum { high, low } = Sum::product(self.high, other.high);
        Sum { high, low: low + self.high.mul_add(other.low, self.low * other.high) }
    }
}

/// 2^n for an integer n from -1022 to 1023, given as n + [`ROUND`].
#[inline(always)]
fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}

/// x = n log 2 + r with an integer n and |r| <= log(2) / 2: n and r. `low` is added to r.
#[inline(always)]
fn reduce(x: f64, low: f64) -> (f64, f64) {
    let n = x.mul_add(LOG2_E, ROUND) - ROUND;
    (n, n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x)) + low)
}

/// (e^r - 1 - r) / r^2 for |r| <= log(2) / 2, from the Taylor series.
#[inline(always)]
fn exp_remainder(r: f64) -> f64 {
    const C: [f64; 12] = {
        let (mut c, mut factorial, mut k) = ([0.0; 12], 1.0, 0);
        while k < 12 {
            factorial *= (k + 2) as f64;
            c[k] = 1.0 / factorial;
            k += 1;
        }
        c
    };
    poly(r, C)
}

/// 2^`shift` e^(x + low). The result can be subnormal.
#[inline(always)]
fn exp_scaled(x: f64, low: f64, shift: f64) -> f64 {
    let x = if x > 800.0 { 800.0 } else { x };
    let x = if x < -800.0 { -800.0 } else { x };
    let (n, r) = reduce(x, low);
    let p = 1.0 + (r * r).mul_add(exp_remainder(r), r);
    // In two steps, because 2^n itself can be too large or too small.
    let n = n + shift;
    let half = n * 0.5 + ROUND;
    p * power_of_two(half) * power_of_two(n - (half - ROUND) + ROUND)
}

#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    exp_scaled(x, 0.0, 0.0)
}

pub(super) use exp as exp_nonpositive;

/// (e^x - 1) / 4, but for the sign of zero.
#[inline(always)]
fn quarter_expm1(x: f64) -> f64 {
    let x = if x > 800.0 { 800.0 } else { x };
    let x = if x < -40.0 { -40.0 } else { x };
    let (n, r) = reduce(x, 0.0);
    let p = (r * r).mul_add(exp_remainder(r), r);
    let quarter = power_of_two((if n > 1025.0 { 1025.0 } else { n }) - 2.0 + ROUND);
    let y = p.mul_add(quarter, quarter - 0.25);
    if n > 1025.0 { f64::INFINITY } else { y }
}

#[inline(always)]
pub(super) fn expm1(x: f64) -> f64 {
    (4.0 * quarter_expm1(x)).copysign(x)
}

#[inline(always)]
pub(super) fn sinh(x: f64) -> f64 {
    let half = 2.0 * quarter_expm1(x.abs());
    let rest = half / half.mul_add(2.0, 1.0);
    (half + if half < f64::INFINITY { rest } else { 0.0 }).copysign(x)
}

#[inline(always)]
pub(super) fn cosh(x: f64) -> f64 {
    let half = exp_scaled(x.abs(), 0.0, -1.0);
    half + 0.25 / half
}

#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let a = x.abs();
    let is_large = a > 1.0;
    let quarter = quarter_expm1(if is_large { 2.0 * a } else { -2.0 * a });
    let sum = quarter + 0.5;
    (if is_large { 1.0 - 0.5 / sum } else { -quarter / sum }).copysign(x)
}

#[inline(always)]
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// x = 2^exponent (1 + f) with f between sqrt(1/2) - 1 and sqrt(2) - 1, for a positive x: exponent and f.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let is_subnormal = x < f64::MIN_POSITIVE;
    let (exponent, m) = split_normal(if is_subnormal { x * 18_014_398_509_481_984.0 } else { x });
    (exponent - if is_subnormal { 54.0 } else { 0.0 }, m - 1.0)
}

/// `y`, or the logarithm of x where x is not a positive number.
#[inline(always)]
fn or_special_log(x: f64, y: f64) -> f64 {
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f64::NAN } else { y }
}

/// log(1 + f) as f - half_square + rest: half_square and rest.
#[inline(always)]
fn log_parts(f: f64) -> (f64, f64) {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * poly(
        z,
        [
            0.6666666666666666,
            0.4000000000000088,
            0.28571428570803614,
            0.22222222391713917,
            0.181817956401329,
            0.15386239702814888,
            0.13268773138651677,
            0.13086626147887312,
        ],
    );
    let half_square = 0.5 * f * f;
    (half_square, s * (half_square + r))
}

#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let (exponent, f) = split(x);
    let (half_square, rest) = log_parts(f);
    let y = exponent * LN_2_HIGH - ((half_square - exponent.mul_add(LN_2_LOW, rest)) - f);
    or_special_log(x, y)
}

/// The logarithm to the base whose logarithm is 1 / `inverse`; `unit` is that of 2.
#[inline(always)]
fn log_to_base(x: f64, inverse: Sum, unit: Sum) -> f64 {
    let (exponent, f) = split(x);
    let (half_square, rest) = log_parts(f);
    let square = Sum::product(0.5 * f, f);
    let m = Sum::of(f, -half_square);
    let m = Sum { high: m.high, low: m.low + (rest - square.low) }.times(inverse);
    let whole = Sum::of(exponent * unit.high, m.high);
    or_special_log(x, whole.high + (whole.low + exponent.mul_add(unit.low, m.low)))
}

#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    log_to_base(x, Sum { high: LOG2_E, low: 2.035_527_374_093_103_3e-17 }, Sum { high: 1.0, low: 0.0 })
}

#[inline(always)]
pub(super) fn log10(x: f64) -> f64 {
    const LOG10_2_HIGH: f64 = f64::from_bits(std::f64::consts::LOG10_2.to_bits() & !0xffff);
    let inverse = Sum { high: std::f64::consts::LOG10_E, low: 1.098_319_650_216_765e-17 };
    log_to_base(x, inverse, Sum { high: LOG10_2_HIGH, low: 1.733_665_960_375_285_3e-12 })
}

#[inline(always)]
pub(super) fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let y = log(u);
    let correction = (x - (u - 1.0)) / u;
    if y.abs() < f64::INFINITY { (y + correction).copysign(x) } else { y }
}

#[inline(always)]
pub(super) fn softrelu(x: f64) -> f64 {
    let y = x.max(0.0) + log1p(exp(-x.abs()));
    if x.is_nan() { x } else { y }
}

/// The logarithm of a positive number, to about 65 bits.
#[inline(always)]
fn precise_log(x: f64) -> Sum {
    let (exponent, f) = split(x);
    // s = f / (2 + f); log(1 + f) = 2 s (1 + s^2 / 3 + s^4 / 5 + ...)
    let bottom = Sum::of(2.0, f);
    let high = f / bottom.high;
    let s = Sum { high, low: ((-high).mul_add(bottom.high, f) - high * bottom.low) / bottom.high };
    let z = s.times(s);
    let tail = z.high
        * poly(
            z.high,
            [
                0.2,
                0.14285714285714682,
                0.11111111110828116,
                0.0909090916765723,
                0.07692297485445389,
                0.06667402119216778,
                0.05853124268102264,
                0.05861525535427698,
            ],
        );
    let third = Sum::of(1.0 / 3.0, tail);
    let t = z.times(Sum { high: third.high, low: third.low + 1.850_371_707_708_594e-17 });
    let product = s.times(t);
    let m = Sum::of(s.high, product.high);
    let m = Sum { high: 2.0 * m.high, low: 2.0 * (m.low + (product.low + s.low)) };
    let whole = Sum::of(exponent * LN_2_HIGH, m.high);
    Sum { high: whole.high, low: whole.low + exponent.mul_add(LN_2_LOW, m.low) }
}

#[inline(always)]
pub(super) fn pow(x: f64, y: f64) -> f64 {
    let log = precise_log(x.abs());
    let product = Sum::product(or_special_log(x.abs(), log.high), y);
    // Beyond the range of exp the low part is meaningless, or NaN.
    let low = if product.high.abs() < 800.0 { log.low.mul_add(y, product.low) } else { 0.0 };
    let size = exp_scaled(product.high, low, 0.0);
    signed_power(x, y, size)
}

#[inline(always)]
pub(super) fn atan(x: f64) -> f64 {
    const TAN_EIGHTH: f64 = 0.414_213_562_373_095_03; // tan(pi / 8)
    let a = x.abs();
    let (top, bottom, angle, angle_low) = if a > 1.0 / TAN_EIGHTH {
        (-1.0, a, FRAC_PI_2, 6.123_233_995_736_766e-17)
    } else if a > TAN_EIGHTH {
        (a - 1.0, a + 1.0, FRAC_PI_4, 3.061_616_997_868_383e-17)
    } else {
        (a, 1.0, 0.0, 0.0)
    };
    let t = top / bottom;
    let z = t * t;
    let p = z * poly(
        z,
        [
            -0.3333333333333333,
            0.19999999999999804,
            -0.14285714285659828,
            0.11111111105155447,
            -0.09090908753500877,
            0.07692296375032141,
            -0.06666424885738241,
            0.058789289978346364,
            -0.05230454270649343,
            0.045515932206228675,
            -0.03457056198134207,
            0.016285756855134323,
        ],
    );
    (angle + (t.mul_add(p, angle_low) + t)).copysign(x)
}

#[inline(always)]
pub(super) fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)
}

pub(super) fn acosh(x: f64) -> f64 {
    // `libm` returns a number for large negative arguments.
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

pub(super) fn rcbrt(x: f64) -> f64 {
    1.0 / cbrt(x)
}

#[inline(always)]
pub(super) fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// By polynomials in the logarithm of 1 - x^2, as proposed by Giles (2012), fitted to double precision.
#[inline(always)]
pub(super) fn erfinv(x: f64) -> f64 {
    let w = -log((1.0 - x) * (1.0 + x));
    let near = poly(w - 3.125, NEAR);
    let root = w.sqrt();
    let middle = poly(root - 3.25, MIDDLE);
    let far = poly(root - 5.0, FAR);
    let slope = if w < 6.25 {
        near
    } else if w < 16.0 {
        middle
    } else {
        far
    };
    if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { x * slope }
}

/// Coefficients of erfinv(x) / x in w - 3.125 for w < 6.25, where w = -log(1 - x^2).
const NEAR: [f64; 22] = [
    1.6536545626831027,
    0.24015818242558845,
    -0.006033670871427489,
    -0.0007407025341574597,
    0.00018673420802268017,
    -1.3882523382209929e-05,
    -1.3654691812675972e-06,
    4.234787979271821e-07,
    -2.9070385818744236e-08,
    -4.112644907577434e-09,
    1.0512200367258527e-09,
    -5.415046677122846e-11,
    -1.2977493703674752e-11,
    2.6327434449781218e-12,
    -8.105973917749644e-14,
    -4.0444283335311596e-14,
    6.580282043636136e-15,
    1.2744143821547054e-17,
    -1.2888083318705925e-16,
    1.1531711230107715e-17,
    1.0922303660509362e-18,
    -1.7578518234062769e-19,
];

/// Coefficients of erfinv(x) / x in sqrt(w) - 3.25 for w from 6.25 to 16, where w = -log(1 - x^2).
const MIDDLE: [f64; 18] = [
    3.0838856104922208,
    1.0052589676941646,
    0.005370914553573593,
    -0.003751208508030541,
    0.0024914420969979908,
    -0.0016882755445265592,
    0.0009532893618552461,
    -0.00035503764895782253,
    2.4031286377073694e-05,
    6.828561398530996e-05,
    -4.7319187369358214e-05,
    1.2472740144742724e-05,
    2.9264777314239854e-06,
    -4.008956966932278e-06,
    1.497191022600222e-06,
    1.3250759477977463e-08,
    -2.697313682066162e-07,
    9.284332225420571e-08,
];

/// Coefficients of erfinv(x) / x in sqrt(w) - 5 for w from 16, where w = -log(1 - x^2).
const FAR: [f64; 16] = [
    4.849906401408584,
    1.010300464864544,
    -0.000138719318421157,
    -0.0002150301196612805,
    7.599527891041526e-05,
    -1.968177420982901e-05,
    4.526046912881201e-06,
    -9.930012510221533e-07,
    2.2906856953107258e-07,
    -6.766683392550333e-08,
    2.900804331027031e-08,
    -1.5018967772416382e-08,
    7.785100448798872e-09,
    -3.750310787224426e-09,
    1.401200632939367e-09,
    -2.6596475664083653e-10,
];
