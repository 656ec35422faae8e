//! Double precision arithmetic without branches, with about 40 correct bits, for the single precision functions.

/// Adding this number rounds to an integer, which the low bits of the sum hold.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Horner's scheme, constant term first.
#[inline(always)]
pub(super) fn poly<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        sum = sum.mul_add(x, c[k]);
    }
    sum
}

/// 2^x. Outside the range of single precision, a value that rounds to 0 or infinity.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let x = if x > 300.0 { 300.0 } else { x };
    let x = if x < -300.0 { -300.0 } else { x };
    let shifted = x + ROUND;
    let r = (x - (shifted - ROUND)) * std::f64::consts::LN_2;
    let p = poly(
        r,
        [
            1.0,
            1.0,
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5040.0,
            1.0 / 40320.0,
            1.0 / 362_880.0,
            1.0 / 3_628_800.0,
        ],
    );
    p * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}

/// x = 2^exponent m with m from sqrt(1/2) to sqrt(2), for a positive normal number x: exponent and m.
#[inline(always)]
pub(super) fn split_normal(x: f64) -> (f64, f64) {
    const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    let bits = (x.to_bits() as i64).wrapping_sub(SQRT_HALF);
    // Avoids a vector conversion of 64-bit integers, which older processors lack.
    let exponent = f64::from_bits((bits >> 52).wrapping_add(ROUND.to_bits() as i64) as u64) - ROUND;
    (exponent, f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF) as u64))
}

/// The logarithm of a normal number.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let (exponent, m) = split_normal(x);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = poly(z, [2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0]);
    let y = exponent.mul_add(std::f64::consts::LN_2, s.mul_add(z * p, 2.0 * s));
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f64::NAN } else { y }
}

/// log(1 + x), accurate for small x.
#[inline(always)]
pub(super) fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let y = log(u);
    let lost = x - (u - 1.0);
    if y.abs() < f64::INFINITY { y + lost } else { y }
}

/// atan, from one polynomial on [0, 1].
#[inline(always)]
pub(super) fn atan(x: f64) -> f64 {
    let a = x.abs();
    let inverted = a > 1.0;
    let t = if inverted { 1.0 / a } else { a };
    let p = poly(
        t * t,
        [
            0.9999999999916356,
            -0.3333333303361764,
            0.1999998219097492,
            -0.142852967808547,
            0.11105986786258942,
            -0.09053017818266053,
            0.0750901235373225,
            -0.06054643070383742,
            0.0441576873267961,
            -0.02653803920590068,
            0.011779023758452016,
            -0.0033287976963831544,
            0.00044138295277348216,
        ],
    );
    let y = t * p;
    (if inverted { std::f64::consts::FRAC_PI_2 - y } else { y }).copysign(x)
}

/// 1 / (2 pi), split into words of 28 bits and a remainder. The product of a word with a single precision number is exact, so that full
/// turns can be subtracted exactly for any argument. The products of the last two are less than a turn.
const INVERSE_TAU: [f64; 6] = inverse_tau_parts();

/// The leading 224 fraction bits of 1 / (2 pi), in words of 28 bits.
const INVERSE_TAU_BITS: [u32; 8] = inverse_tau_bits();

const fn inverse_tau_bits() -> [u32; 8] {
    // 1 / (2 pi) = 0.28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458... in hexadecimal.
    [0x028B_E60D, 0x0B93_9105, 0x04A7_F09D, 0x05F4_7D4D, 0x0377_036D, 0x08A5_664F, 0x010E_4107, 0x0F94_58EA]
}

const fn inverse_tau_parts() -> [f64; 6] {
    let mut out = [0.0; 6];
    let mut k = 8;
    while k > 0 {
        k -= 1;
        let scale = f64::from_bits((1023 - 28 * (k as u64 + 1)) << 52);
        out[if k < 5 { k } else { 5 }] += INVERSE_TAU_BITS[k] as f64 * scale;
    }
    out
}

/// An angle in radians as turns, from -1/2 to 1/2.
#[inline(always)]
fn turns(x: f32) -> f64 {
    let x = f64::from(x);
    let [words @ .., fifth, rest] = INVERSE_TAU;
    let mut turns = x.mul_add(fifth, x * rest);
    let mut k = words.len();
    while k > 0 {
        k -= 1;
        let term = x * words[k];
        turns += term - term.round_ties_even();
    }
    turns - turns.round_ties_even()
}

/// sin t for t from -pi / 2 to pi / 2.
#[inline(always)]
fn sin_half_turn(t: f64) -> f64 {
    let z = t * t;
    let p =
        poly(z, [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0, 1.0 / 6_227_020_800.0]);
    p.mul_add(t * z, t)
}

/// The sine of an angle in radians.
#[inline(always)]
pub(super) fn sin(x: f32) -> f64 {
    let half_turns = 2.0 * turns(x);
    let shifted = half_turns + ROUND;
    let y = sin_half_turn((half_turns - (shifted - ROUND)) * std::f64::consts::PI);
    // The sine changes its sign with each half turn.
    f64::from_bits(y.to_bits() ^ (shifted.to_bits() << 63))
}

/// The cosine of an angle in radians.
#[inline(always)]
pub(super) fn cos(x: f32) -> f64 {
    let half_turns = 2.0 * turns(x);
    let shifted = half_turns - 0.5 + ROUND;
    // The distance from the nearest zero of the cosine, which is exact.
    let y = sin_half_turn((half_turns - (shifted - ROUND + 0.5)) * -std::f64::consts::PI);
    f64::from_bits(y.to_bits() ^ (shifted.to_bits() << 63))
}

/// The tangent of an angle in radians.
#[inline(always)]
pub(super) fn tan(x: f32) -> f64 {
    let quarters = 4.0 * turns(x);
    let shifted = quarters + ROUND;
    let (s, c) = sin_cos((quarters - (shifted - ROUND)) * std::f64::consts::FRAC_PI_2);
    let odd = shifted.to_bits() & 1 != 0;
    let (top, bottom) = if odd { (-c, s) } else { (s, c) };
    top / bottom
}

/// Sine and cosine of t from -pi / 4 to pi / 4.
#[inline(always)]
fn sin_cos(t: f64) -> (f64, f64) {
    let z = t * t;
    let c = poly(z, [-0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0]);
    (sin_half_turn(t), c.mul_add(z, 1.0))
}

/// The remainder of pi x modulo pi, from -pi / 2 to pi / 2; its sine equals that of pi x up to the sign.
#[inline(always)]
fn reduce_half_turns(x: f64) -> f64 {
    (x - x.round_ties_even()) * std::f64::consts::PI
}

/// Sine and cosine of an angle of at most pi, from those of half the angle.
#[inline(always)]
fn sin_cos_wide(t: f64) -> (f64, f64) {
    let (s, c) = sin_cos(0.5 * t);
    (2.0 * s * c, (c - s) * (c + s))
}

/// The sine of pi x, up to the sign.
#[inline(always)]
pub(super) fn sin_pi(x: f64) -> f64 {
    sin_cos_wide(reduce_half_turns(x)).0
}

/// The tangent of pi x.
#[inline(always)]
pub(super) fn tan_pi(x: f64) -> f64 {
    let (s, c) = sin_cos_wide(reduce_half_turns(x));
    s / c
}

/// The inverse error function for single precision, by polynomials in the logarithm of 1 - x^2 (Giles 2012), refitted.
#[inline(always)]
pub(super) fn erfinv(x: f64) -> f64 {
    let w = -log((1.0 - x) * (1.0 + x));
    let near = poly(
        w - 3.125,
        [
            1.6536545624574837,
            0.24015817882058116,
            -0.006033669379661456,
            -0.0007406917949030462,
            0.00018673269488709822,
            -1.3891704903018143e-05,
            -1.3649657004190921e-06,
            4.2688315438289926e-07,
            -2.91276073771855e-08,
            -4.742313897948664e-09,
            1.0517095413016188e-09,
            5.300119096681261e-12,
            -1.3092975479227687e-11,
        ],
    );
    let far = poly(
        w.sqrt() - 3.275,
        [
            3.109020378251847,
            1.0055206593272359,
            0.005099137190434769,
            -0.003512994580017753,
            0.0022826301894612175,
            -0.0015451180149151675,
            0.000922806267791625,
            -0.00036319349355816953,
            -2.3186441097509705e-05,
            7.713235096401574e-05,
        ],
    );
    x * if w < 6.25 { near } else { far }
}
