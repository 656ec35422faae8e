//! Single precision functions, in plain arithmetic without branches or tables, so that loops over them vectorize.
//!
//! Functions whose intermediate results need more than 24 bits compute in double precision (module `wide`) and round once.
//! Polynomial coefficients are minimax fits made for this file.

use super::{signed_power, special, wide};

/// 1.5 * 2^23: adding it rounds a number below 2^22 to an integer, ties to even, in the low bits of the mantissa. Unlike a conversion, it
/// vectorizes.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// Splits x = n ln 2 + r with |r| <= ln 2 / 2, and returns 2^(n + bias - 127) and e^r - 1. If n + bias = 0, the power is 0.
#[inline(always)]
fn reduce_exp(x: f32, bias: f32) -> (f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND + bias);
    // The low bits hold n + bias, which becomes the exponent of the power.
    (f32::from_bits(shifted.to_bits() << 23), expm1_reduced(x, shifted - (ROUND + bias)))
}

/// e^r - 1 for the reduced argument r = x - n ln 2.
#[inline(always)]
fn expm1_reduced(x: f32, n: f32) -> f32 {
    let r = n.mul_add(-0.693_359_375, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let q = poly(
        r,
        [0.499_999_934_321, 0.166_665_203_990, 4.166_839_078_556e-2, 8.368_745_107_799e-3, 1.381_454_007_409e-3],
    );
    q.mul_add(r * r, r)
}

/// 2^n for -126 <= n <= 127.
#[inline(always)]
fn exp2i(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Horner's scheme, constant term first.
#[inline(always)]
pub(super) fn poly<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        sum = sum.mul_add(x, c[k]);
    }
    sum
}

/// Clamps `x`; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp_keep_nan(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = clamp_keep_nan(x, -104.0, 89.0);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    // In two steps, because the results range from 2^-149 to 2^128.
    let half = n >> 1;
    let scale = exp2i(half);
    expm1_reduced(x, shifted - ROUND).mul_add(scale, scale) * exp2i(n.wrapping_sub(half))
}

#[inline(always)]
pub(super) fn exp_nonpositive(x: f32) -> f32 {
    let (scale, e) = reduce_exp(if x < -88.0 { -88.0 } else { x }, 127.0);
    e.mul_add(scale, scale)
}

#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    // Half the scale, because 2^128 is not representable.
    let (scale, e) = reduce_exp(clamp_keep_nan(x, -18.0, 89.0), 126.0);
    let y = e.mul_add(scale, scale - 0.5) * 2.0;
    if x == 0.0 { x } else { y }
}

#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let y = log_positive(if tiny { x * 8_388_608.0 } else { x }, 0.0);
    // 23 ln 2, for the scale.
    special_log(x, if tiny { y - 15.942_385 } else { y })
}

/// The logarithm of everything but positive finite numbers.
#[inline(always)]
fn special_log(x: f32, y: f32) -> f32 {
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

#[inline(always)]
pub(super) fn log2(x: f32) -> f32 {
    (wide::log(f64::from(x)) * std::f64::consts::LOG2_E) as f32
}

#[inline(always)]
pub(super) fn log10(x: f32) -> f32 {
    (wide::log(f64::from(x)) * std::f64::consts::LOG10_E) as f32
}

#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    let u = 1.0 + x;
    // The rounding error of 1 + x, which is 0 where the sum is infinite.
    let error = if u.abs() < f32::INFINITY { (x - (u - 1.0)) / u } else { 0.0 };
    let y = special_log(u, log_positive(u, error));
    let y = if x.abs() < 0.25 { log1p_reduced(x, 0.0) } else { y };
    if x == 0.0 { x } else { y }
}

/// log(1 + f) + `low` for f from sqrt(1/2) - 1 to sqrt(2) - 1, so that numbers near 1 keep their precision; `low` is small.
#[inline(always)]
fn log1p_reduced(f: f32, low: f32) -> f32 {
    let p = poly(
        f,
        [
            0.333_333_102_314,
            -0.249_999_864_410,
            0.200_022_423_026,
            -0.166_692_700_640,
            0.142_183_259_610,
            -0.123_837_982_668,
            0.118_750_789_713,
            -0.117_941_028_205,
            0.069_156_010_992,
        ],
    );
    let ff = f * f;
    f + ff.mul_add(-0.5, (p * f).mul_add(ff, low))
}

/// log(x) + `error` for positive finite x.
#[inline(always)]
fn log_positive(x: f32, error: f32) -> f32 {
    // The mantissa is taken from [sqrt(1/2), sqrt(2)).
    let bits = (x.to_bits() as i32).wrapping_sub(0x3f35_04f3);
    let exponent = (bits >> 23) as f32;
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3) as u32) - 1.0;
    exponent.mul_add(0.693_359_375, log1p_reduced(f, exponent.mul_add(-2.121_944_4e-4, error)))
}

#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let twice = x.abs() * 2.0;
    let (scale, e) = reduce_exp(if twice > 20.0 { 20.0 } else { twice }, 127.0);
    let y = e.mul_add(scale, scale - 1.0);
    (y / (y + 2.0)).copysign(x)
}

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    let (half_scale, e) = reduce_exp(clamp_keep_nan(-x, -87.5, 89.0), 126.0);
    1.0 / e.mul_add(half_scale, half_scale).mul_add(2.0, 1.0)
}

#[inline(always)]
pub(super) fn softrelu(x: f32) -> f32 {
    // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which neither overflows nor cancels.
    let positive = if x > 0.0 { x } else { 0.0 };
    let y = positive + log1p_unit(exp_nonpositive(-x.abs()));
    if x.is_nan() { x } else { y }
}

/// log(1 + x) for 0 <= x <= 1. Above sqrt(2) - 1 it is log(2) + log((1 + x) / 2).
#[inline(always)]
fn log1p_unit(x: f32) -> f32 {
    let halved = x > std::f32::consts::SQRT_2 - 1.0;
    let y = log1p_reduced(if halved { (x - 1.0) * 0.5 } else { x }, 0.0);
    if halved { y + std::f32::consts::LN_2 } else { y }
}

#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let a = clamp_keep_nan(x.abs(), 0.0, 4.0);
    let p = poly(
        a * a,
        [
            0.128_379_166_49,
            -0.376_126_322_859,
            0.112_836_725_469,
            -0.026_858_104_326,
            0.005_197_797_214,
            -0.000_810_596_533,
            0.000_082_154_238,
        ],
    );
    let near = a.mul_add(p, a);
    // -log(1 - erf(a)) is smooth.
    let q = poly(
        a,
        [
            0.000_177_483_821,
            1.127_749_609_86,
            0.637_059_668_532,
            0.104_037_438_431,
            -0.022_277_127_436,
            0.003_055_618_317,
            -0.000_197_182_891,
        ],
    );
    let far = 1.0 - exp_nonpositive(-q);
    (if a < 0.92 { near } else { far }).copysign(x)
}

#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    let half = 0.5 * x;
    half.mul_add(erf(x * std::f32::consts::FRAC_1_SQRT_2), half)
}

#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let y = wide::sin(x) as f32;
    if x == 0.0 { x } else { y }
}

#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    wide::cos(x) as f32
}

#[inline(always)]
pub(super) fn tan(x: f32) -> f32 {
    let y = wide::tan(x) as f32;
    if x == 0.0 { x } else { y }
}

#[inline(always)]
pub(super) fn sinh(x: f32) -> f32 {
    let w = f64::from(x);
    let e = wide::exp2(w * std::f64::consts::LOG2_E);
    let z = w * w;
    let near = w + w * z * wide::poly(z, [1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362_880.0]);
    let far = 0.5 * (e - 1.0 / e);
    (if w.abs() < 0.5 { near } else { far }) as f32
}

#[inline(always)]
pub(super) fn cosh(x: f32) -> f32 {
    let e = wide::exp2(f64::from(x) * std::f64::consts::LOG2_E);
    (0.5 * (e + 1.0 / e)) as f32
}

#[inline(always)]
pub(super) fn asin(x: f32) -> f32 {
    let w = f64::from(x);
    wide::atan(w / ((1.0 - w) * (1.0 + w)).sqrt()) as f32
}

#[inline(always)]
pub(super) fn acos(x: f32) -> f32 {
    let w = f64::from(x);
    (2.0 * wide::atan(((1.0 - w) / (1.0 + w)).sqrt())) as f32
}

#[inline(always)]
pub(super) fn atan(x: f32) -> f32 {
    wide::atan(f64::from(x)) as f32
}

#[inline(always)]
pub(super) fn asinh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let y = wide::log1p(a + a * a / (1.0 + a.mul_add(a, 1.0).sqrt())) as f32;
    // Squares of numbers below 2^-64 are negligible, those of infinity overflow.
    let y = if x.abs() < 1e-6 || x.is_infinite() { x.abs() } else { y };
    y.copysign(x)
}

#[inline(always)]
pub(super) fn acosh(x: f32) -> f32 {
    let t = f64::from(x) - 1.0;
    let y = wide::log1p(t + (t * (t + 2.0)).sqrt()) as f32;
    if x < 1.0 { f32::NAN } else { y }
}

#[inline(always)]
pub(super) fn atanh(x: f32) -> f32 {
    let w = f64::from(x);
    let y = (0.5 * wide::log1p(2.0 * w / (1.0 - w))) as f32;
    let y = if x.abs() == 1.0 { f32::INFINITY.copysign(x) } else { y };
    if x.abs() < 1e-6 { x } else { y }
}

#[inline(always)]
pub(super) fn cbrt(x: f32) -> f32 {
    let y = wide::exp2(wide::log(f64::from(x.abs())) * (std::f64::consts::LOG2_E / 3.0)) as f32;
    y.copysign(x)
}

#[inline(always)]
pub(super) fn rcbrt(x: f32) -> f32 {
    let y = wide::exp2(wide::log(f64::from(x.abs())) * (-std::f64::consts::LOG2_E / 3.0)) as f32;
    y.copysign(x)
}

#[inline(always)]
pub(super) fn rsqrt(x: f32) -> f32 {
    // Squares of small roots would be subnormal.
    let is_small = x < 1e-30;
    let scaled = if is_small { x * (1u64 << 48) as f32 } else { x };
    let root = scaled.sqrt();
    let y = 1.0 / root;
    // Corrects the rounding errors of the root and of its reciprocal.
    let correction = (0.5 * y * y).mul_add(root.mul_add(root, -scaled), root.mul_add(-y, 1.0));
    let y = if scaled > 0.0 && scaled < f32::INFINITY { y.mul_add(correction, y) } else { y };
    if is_small { y * (1u64 << 24) as f32 } else { y }
}

#[inline(always)]
pub(super) fn pow(x: f32, y: f32) -> f32 {
    let (a, w) = (f64::from(x.abs()), f64::from(y));
    let size = wide::exp2(wide::log(a) * std::f64::consts::LOG2_E * w) as f32;
    signed_power(x, y, size)
}

#[inline(always)]
pub(super) fn erfinv(x: f32) -> f32 {
    let y = wide::erfinv(f64::from(x)) as f32;
    if x.abs() == 1.0 { f32::INFINITY.copysign(x) } else { y }
}

#[inline(always)]
pub(super) fn gamma(x: f32) -> f32 {
    special::wide_gamma(f64::from(x)) as f32
}

#[inline(always)]
pub(super) fn lgamma(x: f32) -> f32 {
    let y = special::wide_lgamma(f64::from(x)) as f32;
    // The roots are exact.
    let y = if x == 1.0 || x == 2.0 { 0.0 } else { y };
    if x == f32::NEG_INFINITY { f32::INFINITY } else { y }
}

#[inline(always)]
pub(super) fn digamma(x: f32) -> f32 {
    special::wide_digamma(f64::from(x)) as f32
}
