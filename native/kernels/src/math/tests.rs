//! Compares with `libm` in double precision, over all magnitudes.

use super::*;

/// Arguments of every exponent and sign, dense around the usual ones, including special values.
fn arguments() -> Vec<f32> {
    let mut x: Vec<f32> = (0..400_000u32).map(|i| f32::from_bits(i.wrapping_mul(10_737))).collect();
    x.extend((-60_000..60_000).map(|i| i as f32 * 2e-3 + 1e-4));
    x.extend((-20_000..20_000).map(|i| 1.0 + i as f32 * 3e-7));
    for v in [0.0, f32::MIN_POSITIVE, 1e-45, 1.0, 2.0, 0.5, f32::MAX, f32::INFINITY, 88.72283, 88.72284, 103.97] {
        x.extend([v, -v]);
    }
    x.push(f32::NAN);
    x
}

/// The distance between `got` and `want` in units in the last place of `want` in single precision.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || got.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    if !got.is_finite() && !rounded.is_finite() || got.is_nan() || rounded.is_nan() {
        return f64::INFINITY;
    }
    let limit = |x: f64| x.clamp(-f64::from(f32::MAX), f64::from(f32::MAX));
    let want = limit(want);
    let exponent = (want.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor()) as i32;
    (limit(f64::from(got)) - want).abs() / 2f64.powi(exponent - 23)
}

fn check(name: &str, bound: f64, f: impl Fn(f32) -> f32, want: impl Fn(f64) -> f64) {
    let mut worst = (0.0, 0.0);
    for x in arguments() {
        let e = ulps(f(x), want(f64::from(x)));
        if e > worst.0 {
            worst = (e, x);
        }
    }
    assert!(
        worst.0 <= bound,
        "{name}({}) = {} is {} ulp from {}",
        worst.1,
        f(worst.1),
        worst.0,
        want(f64::from(worst.1))
    );
}

#[test]
fn single_precision_functions_are_within_their_bounds() {
    check("exp", 2.0, exp, libm::exp);
    // Not `min`, whose result for a signalling NaN depends on the processor.
    check(
        "exp_nonpositive",
        2.0,
        |x| if x < -87.3 { exp(x) } else { exp_nonpositive(if x > 0.0 { 0.0 } else { x }) },
        |x| libm::exp(if x > 0.0 { 0.0 } else { x }),
    );
    assert_eq!([f32::NEG_INFINITY, -1e30, -88.0].map(exp_nonpositive), [0.0; 3]);
    check("expm1", 2.0, expm1, libm::expm1);
    check("log", 2.0, log, libm::log);
    check("log2", 1.0, log2, libm::log2);
    check("log10", 1.0, log10, libm::log10);
    check("log1p", 2.0, log1p, libm::log1p);
    check("tanh", 2.5, tanh, libm::tanh);
    check("sin", 1.0, sin, libm::sin);
    check("cos", 1.0, cos, libm::cos);
    check("tan", 1.0, tan, libm::tan);
    check("sinh", 1.0, sinh, libm::sinh);
    check("cosh", 1.0, cosh, libm::cosh);
    check("asin", 1.0, asin, libm::asin);
    check("acos", 1.0, acos, libm::acos);
    check("atan", 1.0, atan, libm::atan);
    check("asinh", 1.0, asinh, libm::asinh);
    check("acosh", 1.0, acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) });
    check("atanh", 1.0, atanh, libm::atanh);
    check("erf", 2.0, erf, libm::erf);
    check("cbrt", 1.0, cbrt, libm::cbrt);
    check("rcbrt", 1.0, rcbrt, |x| 1.0 / libm::cbrt(x));
    check("rsqrt", 1.0, rsqrt, |x| 1.0 / x.sqrt());
    check("gamma", 1.0, gamma, libm::tgamma);
    check("erfinv", 1.0, erfinv, erfinv);
}

#[test]
fn the_gamma_family_of_single_precision_agrees_with_that_of_double_precision() {
    // Close to a zero, the value of a function has fewer significant digits than its terms.
    let close = |got: f32, want: f64| ulps(got, want) <= 2.0 || (f64::from(got) - want).abs() < 4e-14;
    for x in arguments() {
        let w = f64::from(x);
        assert!(close(lgamma(x), lgamma(w)), "lgamma({x}) = {} instead of {}", lgamma(x), lgamma(w));
        // Far below zero digamma is the tangent of an angle that single precision cannot represent.
        if w > -1e4 {
            let (got, want) = (digamma(x), digamma(w));
            assert!(
                close(got, want) || (f64::from(got) - want).abs() < 1e-11 * want.abs(),
                "digamma({x}) = {got} instead of {want}"
            );
        }
    }
}

#[test]
fn the_inverse_error_function_inverts() {
    for i in -999..1000 {
        let x = f64::from(i) / 1000.0;
        assert!((libm::erf(erfinv(x)) - x).abs() < 1e-15, "erfinv({x})");
        assert!((libm::erf(f64::from(erfinv(x as f32))) - x).abs() < 1.5e-7, "erfinv({x}) in single precision");
    }
    assert_eq!((erfinv(1.0f32), erfinv(-1.0f64)), (f32::INFINITY, f64::NEG_INFINITY));
    assert!(erfinv(1.5f32).is_nan() && erfinv(-1.5f64).is_nan() && erfinv(f32::NAN).is_nan());
}

#[test]
fn composed_functions_are_within_their_bounds() {
    for x in arguments().into_iter().filter(|x| x.is_finite()) {
        let w = f64::from(x);
        let expected = w.max(0.0) + libm::log1p(libm::exp(-w.abs()));
        assert!((f64::from(softrelu(x)) - expected).abs() <= 2e-7 * expected + 1e-37, "softrelu({x})");
        let g = 0.5 * w * (1.0 + libm::erf(w * std::f64::consts::FRAC_1_SQRT_2));
        assert!((f64::from(gelu(x)) - g).abs() <= 2e-7 * w.abs() + 1e-44, "gelu({x}) = {} not {g}", gelu(x));
        let s = 1.0 / (1.0 + libm::exp(-w));
        assert!((f64::from(sigmoid(x)) - s).abs() <= 2.4e-7 * s + 1.2e-38, "sigmoid({x})");
    }
    assert_eq!((softrelu(f32::INFINITY), softrelu(f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
    assert!(softrelu(f32::NAN).is_nan() && gelu(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
}

#[test]
fn signs_of_zero_are_kept() {
    for f in [sin::<f32>, tan, tanh, sinh, asin, atan, asinh, atanh, expm1, log1p, erf, cbrt] {
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(f(0.0).to_bits(), 0);
    }
}

#[test]
fn powers_follow_c99() {
    let special = [0.0, 1.0, 2.0, 3.0, 0.5, 1e-40, 7.5, 1e30, 33_554_432.0, f32::INFINITY];
    let all: Vec<f32> = special.iter().flat_map(|&x| [x, -x]).chain([f32::NAN]).collect();
    for &x in &all {
        for &y in &all {
            let want = libm::pow(f64::from(x), f64::from(y));
            let got = pow(x, y);
            assert!(ulps(got, want) <= 1.0, "pow({x}, {y}) = {got}, not {want}");
            assert!(got != 0.0 || got.to_bits() == (want as f32).to_bits(), "pow({x}, {y}) sign");
        }
    }
    for i in 0..200_000u32 {
        let x = f32::from_bits(0x3000_0000 + i.wrapping_mul(48_271) % 0x2000_0000);
        let y = ((i % 2001) as f32 - 1000.0) * 0.037;
        assert!(ulps(pow(x, y), libm::pow(f64::from(x), f64::from(y))) <= 1.0, "pow({x}, {y})");
    }
}

#[test]
fn digamma_has_its_known_values() {
    let euler = 0.577_215_664_901_532_9;
    assert!((digamma(1.0f64) + euler).abs() < 1e-14);
    assert!((digamma(0.5f64) + euler + 2.0 * std::f64::consts::LN_2).abs() < 1e-14);
    assert!((digamma(-0.5f64) - 0.036_489_973_978_576_5).abs() < 1e-13);
    assert!((digamma(100.0f64) - 4.600_161_852_738_087).abs() < 1e-13);
    assert!(digamma(-3.0f32) == f32::INFINITY && digamma(0.0f64) == f64::INFINITY);
    assert!((lgamma(-1.5f64) - 0.860_047_015_376_481).abs() < 1e-13);
}

#[test]
fn rounding_and_extremes_are_mxnets() {
    assert_eq!([-2.5, -1.5, 0.5, 1.5, 2.5].map(rint::<f32>), [-3.0, -2.0, 0.0, 1.0, 2.0]);
    assert!(maximum(f32::NAN, 1.0).is_nan() && maximum(1.0, f32::NAN).is_nan());
    assert_eq!((maximum(2, 3), minimum(2, 3)), (3, 2));
}

/// Arguments in double precision, like [`arguments`].
fn double_arguments() -> Vec<f64> {
    let mut x: Vec<f64> = (0..300_000u64).map(|i| f64::from_bits(i.wrapping_mul(61_489_147_000_003))).collect();
    x.extend((0..300_000u64).map(|i| -f64::from_bits(i.wrapping_mul(30_744_573_000_007))));
    x.extend((-75_000..75_000).map(|i| f64::from(i) * 1e-2 + 1e-5));
    x.extend((-20_000..20_000).map(|i| 1.0 + f64::from(i) * 3e-7));
    x.extend((-20_000..20_000).map(|i| f64::from(i) * 1.37e-4));
    for v in [
        0.0,
        f64::MIN_POSITIVE,
        5e-324,
        1e-310,
        1.0,
        2.0,
        0.5,
        f64::MAX,
        f64::INFINITY,
        709.782_712_893_384,
        710.3,
        745.13,
    ] {
        x.extend([v, -v]);
    }
    x.push(f64::NAN);
    x
}

/// The distance between two numbers in units in the last place of `want`.
fn double_ulps(got: f64, want: f64) -> f64 {
    if got == want || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    let size = want.abs().min(f64::MAX / 2.0);
    (got - want).abs() / (f64::from_bits(size.to_bits() + 1) - size)
}

fn check_double(name: &str, bound: f64, f: impl Fn(f64) -> f64, want: impl Fn(f64) -> f64) {
    let error = |x: f64| double_ulps(f(x), want(x));
    let worst = double_arguments().into_iter().max_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap();
    assert!(error(worst) <= bound, "{name}({worst}) = {} is {} ulp from {}", f(worst), error(worst), want(worst));
}

#[test]
fn double_precision_functions_are_within_their_bounds() {
    // The references are within 1 ulp.
    check_double("exp", 2.0, exp, libm::exp);
    check_double("expm1", 3.0, expm1, libm::expm1);
    check_double("log", 2.0, log, libm::log);
    check_double("log2", 2.0, log2, libm::log2);
    check_double("log10", 2.0, log10, libm::log10);
    check_double("log1p", 2.0, log1p, libm::log1p);
    check_double("sinh", 3.0, sinh, libm::sinh);
    check_double("cosh", 3.0, cosh, libm::cosh);
    check_double("tanh", 3.0, tanh, libm::tanh);
    // Truncated to an integer, the nearest number below 1 is 0.
    assert!(tanh(19.0) < 1.0 && tanh(19.1) == 1.0);
    check_double("atan", 2.0, atan, libm::atan);
    check_double("atanh", 4.0, atanh, libm::atanh);
    for f in [tanh::<f64>, sinh, atan, atanh, expm1, log1p] {
        assert_eq!(f(-0.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(f(0.0).to_bits(), 0);
    }
    for k in 0..23 {
        assert_eq!(log10(10f64.powi(k)), f64::from(k));
    }
    for k in -1022..1024 {
        assert_eq!(log2(2f64.powi(k)), f64::from(k));
    }
    assert_eq!(log2(5e-324), -1074.0);
}

#[test]
fn powers_of_double_precision_follow_c99() {
    let special = [0.0, 1.0, 2.0, 3.0, 0.5, 1e-310, 7.5, 1e300, 9_007_199_254_740_993.0, f64::INFINITY];
    let all: Vec<f64> = special.iter().flat_map(|&x| [x, -x]).chain([f64::NAN]).collect();
    let check = |x: f64, y: f64| {
        let (got, want) = (pow(x, y), libm::pow(x, y));
        assert!(double_ulps(got, want) <= 2.0, "pow({x}, {y}) = {got}, not {want}");
        assert!(got != 0.0 || got.to_bits() == want.to_bits(), "pow({x}, {y}) sign");
    };
    all.iter().for_each(|x| all.iter().for_each(|y| check(*x, *y)));
    for i in 0..200_000u64 {
        let x =
            f64::from_bits(0x2000_0000_0000_0000 + i.wrapping_mul(2_862_933_555_777_941_757) % 0x4000_0000_0000_0000);
        let y = ((i % 2001) as f64 - 1000.0) * 0.037;
        check(x, y);
        check(1.0 + x.fract() * 1e-3, y * 1e4);
    }
}

#[test]
fn the_inverse_error_function_of_double_precision_inverts_up_to_its_ends() {
    for i in 1..2000 {
        let y = f64::from(i) * 2.9e-3;
        // Near 1, what differs is 1 - x.
        let (x, rest) = (libm::erf(y), libm::erfc(y));
        let got = erfinv(x);
        let slope = std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-y * y);
        let rounding = (1.0 - x - rest).abs() / slope;
        assert!(
            (got - y).abs() <= 1e-15 * y + 1.5 * rounding + 2e-16 * (x / slope).min(1.0),
            "erfinv({x}) = {got}, not {y}"
        );
        assert_eq!(erfinv(-x), -got);
    }
}
