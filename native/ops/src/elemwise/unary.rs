//! Elementwise functions of one array.
#![allow(clippy::excessive_precision, clippy::approx_constant)] // The constants serve single and double precision alike.

use ferromx_core::fusion::Elementwise;
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::op::Deps;
use ferromx_kernels::math;

use super::family::{self, formula, operators, unary};
use crate::compose::op;

/// 1, 0 or -1; NaN gives 0.
macro_rules! sign {
    ($x:expr) => {
        if $x > 0.0 {
            1.0
        } else if $x < 0.0 {
            -1.0
        } else {
            0.0
        }
    };
}

operators! { OPS [] =
    unary!(ABS keeps_zero sparse_gradient: "abs" ["_sparse_abs"], "The absolute value: abs([-2, 0, 3]) = [2, 0, 3].",
        f = cheap |x| x.abs(), int = |x| x.wrapping_abs(),
        df(Input) = |x| sign!(x), graph = |g, x| g.op(op!(SIGN(x)))) numpy "_npi_absolute" ["_npi_abs"] of x;
    unary!(SIGN keeps_zero: "sign" ["_sparse_sign"], "The sign: -1 for negative, 0 for zero, 1 for positive elements.",
        f = |x| sign!(x), int = |x| x.signum(), df = 0) numpy "_npi_sign" of x;
    unary!(ROUND keeps_zero: "round" ["_sparse_round"], "The nearest integer, halves away from zero: round([-1.5, 1.5, 2.5]) = [-2, 2, 3].",
        f = |x| x.round(), int = |x| x, df = 0);
    unary!(RINT keeps_zero: "rint" ["_sparse_rint"], "The nearest integer, halves downwards: rint([-1.5, 1.5, 2.5]) = [-2, 1, 2].",
        f = |x| math::rint(x), int = |x| x, df = 0) numpy "_npi_rint" of x;
    unary!(CEIL keeps_zero: "ceil" ["_sparse_ceil"], "The smallest integer that is not below: ceil([-1.5, 1.5]) = [-1, 2].",
        f = |x| x.ceil(), int = |x| x, df = 0) numpy "_npi_ceil" of x;
    unary!(FLOOR keeps_zero: "floor" ["_sparse_floor"], "The largest integer that is not above: floor([-1.5, 1.5]) = [-2, 1].",
        f = |x| x.floor(), int = |x| x, df = 0) numpy "_npi_floor" of x;
    unary!(TRUNC keeps_zero: "trunc" ["_sparse_trunc"], "The integer part, towards zero: trunc([-1.5, 1.5]) = [-1, 1].",
        f = |x| x.trunc(), int = |x| x, df = 0) numpy "_npi_trunc" of x;
    unary!(FIX keeps_zero: "fix" ["_sparse_fix"], "The nearest integer towards zero; the same as trunc.",
        f = |x| x.trunc(), int = |x| x, df = 0) numpy "_npi_fix" of x;
    unary!(SQUARE keeps_zero sparse_gradient: "square" ["_sparse_square"], "The square: x^2. Integers wrap around.",
        f = cheap |x| x * x, int = |x| x.wrapping_mul(x),
        df(Input) = |x| 2.0 * x, graph = |g, x| g.scale(x, 2.0)) numpy "_npi_square" of x;
    unary!(SQRT keeps_zero: "sqrt" ["_sparse_sqrt"], "The square root; NaN for negative elements.",
        f = cheap |x| x.sqrt(), df(Output) = |y| 0.5 / y, graph = |g, y| g.op(op!(elemwise::scalar::RDIV(y), scalar: 0.5)))
        numpy "_npi_sqrt" of x;
    unary!(RSQRT: "rsqrt" ["_sparse_rsqrt"], "The reciprocal of the square root: 1 / sqrt(x).",
        f = |x| math::rsqrt(x), df(Input) = |x| -0.5 * math::rsqrt(x) / x, graph = |g, x| {
            let y = g.op(op!(RSQRT(x)))?;
            let y = g.div(y, x)?;
            g.scale(y, -0.5)
        });
    unary!(CBRT keeps_zero: "cbrt" ["_sparse_cbrt"], "The cube root, also of negative elements.",
        f = |x| math::cbrt(x), df(Output) = |y| 1.0 / (3.0 * y * y), graph = |g, y| {
            // As in MXNet, the second derivative at 0 is infinite; that of a quotient would be NaN.
            let derivative = g.power(y, -2.0)?;
            g.scale(derivative, 1.0 / 3.0)
        }) numpy "_npi_cbrt" of x;
    unary!(RCBRT: "rcbrt", "The reciprocal of the cube root: 1 / cbrt(x).",
        f = |x| math::rcbrt(x), df(Input) = |x| math::rcbrt(x) / (-3.0 * x), graph = |g, x| {
            let y = g.op(op!(RCBRT(x)))?;
            let y = g.div(y, x)?;
            g.scale(y, -1.0 / 3.0)
        });
    unary!(RECIPROCAL: "reciprocal", "The reciprocal: 1 / x.",
        f = cheap |x| 1.0 / x, df(Output) = |y| -y * y, graph = |g, y| {
            let y2 = g.op(op!(SQUARE(y)))?;
            g.op(op!(NEGATIVE(y2)))
        }) numpy "_npi_reciprocal" of x;
    unary!(NEGATIVE keeps_zero sparse_gradient: "negative" ["_sparse_negative"], "The elements with the opposite sign.",
        f = cheap |x| -x, int = |x| x.wrapping_neg(), df(Input) = |_x| -1.0, graph = |g, x| {
            let ones = g.op(op!(elemwise::identity::ONES_LIKE(x)))?;
            g.op(op!(NEGATIVE(ones)))
        }) numpy "_npi_negative" of x;
    unary!(EXP: "exp" ["_sparse_exp"], "The exponential: e^x.",
        f = |x| math::exp(x), df(Output) = |y| y, graph = |g, y| g.identity(y)) numpy "_npi_exp" of x;
    unary!(EXPM1 keeps_zero: "expm1" ["_sparse_expm1"], "e^x - 1, accurate near 0.",
        f = |x| math::expm1(x), df(Input) = |x| math::exp(x), graph = |g, x| g.op(op!(EXP(x)))) numpy "_npi_expm1" of x;
    unary!(LOG: "log" ["_sparse_log"], "The natural logarithm; -inf at 0, NaN for negative elements.",
        f = |x| math::log(x), df(Input) = |x| 1.0 / x, graph = |g, x| g.op(op!(RECIPROCAL(x)))) numpy "_npi_log" of x;
    unary!(LOG2: "log2" ["_sparse_log2"], "The logarithm to base 2.",
        f = |x| math::log2(x), df(Input) = |x| 1.442_695_040_888_963_4 / x,
        graph = |g, x| g.op(op!(elemwise::scalar::RDIV(x), scalar: std::f64::consts::LOG2_E))) numpy "_npi_log2" of x;
    unary!(LOG10: "log10" ["_sparse_log10"], "The logarithm to base 10.",
        f = |x| math::log10(x), df(Input) = |x| 0.434_294_481_903_251_83 / x,
        graph = |g, x| g.op(op!(elemwise::scalar::RDIV(x), scalar: std::f64::consts::LOG10_E))) numpy "_npi_log10" of x;
    unary!(LOG1P keeps_zero: "log1p" ["_sparse_log1p"], "log(1 + x), accurate near 0.",
        f = |x| math::log1p(x), df(Input) = |x| 1.0 / (1.0 + x), graph = |g, x| {
            let x = g.affine(x, 1.0, 1.0)?;
            g.op(op!(RECIPROCAL(x)))
        }) numpy "_npi_log1p" of x;
    unary!(SIN keeps_zero: "sin" ["_sparse_sin"], "The sine of angles in radians.",
        f = |x| math::sin(x), df(Input) = |x| math::cos(x), graph = |g, x| g.op(op!(COS(x)))) numpy "_npi_sin" of x;
    unary!(COS: "cos" ["_sparse_cos"], "The cosine of angles in radians.",
        f = |x| math::cos(x), df(Input) = |x| -math::sin(x), graph = |g, x| {
            let s = g.op(op!(SIN(x)))?;
            g.op(op!(NEGATIVE(s)))
        }) numpy "_npi_cos" of x;
    unary!(TAN keeps_zero: "tan" ["_sparse_tan"], "The tangent of angles in radians.",
        f = |x| math::tan(x), df(Output) = |y| y * y + 1.0, graph = |g, y| {
            let y2 = g.op(op!(SQUARE(y)))?;
            g.affine(y2, 1.0, 1.0)
        }) numpy "_npi_tan" of x;
    unary!(ARCSIN keeps_zero: "arcsin" ["_sparse_arcsin"], "The inverse sine in radians, from -pi/2 to pi/2; NaN outside [-1, 1].",
        f = |x| math::asin(x), df(Input) = |x| 1.0 / (1.0 - x * x).sqrt(), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.op(op!(elemwise::scalar::RMINUS(x2), scalar: 1.0))?;
            g.op(op!(RSQRT(d)))
        }) numpy "_npi_arcsin" of x;
    unary!(ARCCOS: "arccos" ["_sparse_arccos"], "The inverse cosine in radians, from 0 to pi; NaN outside [-1, 1].",
        f = |x| math::acos(x), df(Input) = |x| -1.0 / (1.0 - x * x).sqrt(), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.op(op!(elemwise::scalar::RMINUS(x2), scalar: 1.0))?;
            let d = g.op(op!(RSQRT(d)))?;
            g.op(op!(NEGATIVE(d)))
        }) numpy "_npi_arccos" of x;
    unary!(ARCTAN keeps_zero: "arctan" ["_sparse_arctan"], "The inverse tangent in radians, from -pi/2 to pi/2.",
        f = |x| math::atan(x), df(Input) = |x| 1.0 / (1.0 + x * x), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.affine(x2, 1.0, 1.0)?;
            g.op(op!(RECIPROCAL(d)))
        }) numpy "_npi_arctan" of x;
    unary!(SINH keeps_zero: "sinh" ["_sparse_sinh"], "The hyperbolic sine: (e^x - e^-x) / 2.",
        f = |x| math::sinh(x), df(Input) = |x| math::cosh(x), graph = |g, x| g.op(op!(COSH(x)))) numpy "_npi_sinh" of x;
    unary!(COSH: "cosh" ["_sparse_cosh"], "The hyperbolic cosine: (e^x + e^-x) / 2.",
        f = |x| math::cosh(x), df(Input) = |x| math::sinh(x), graph = |g, x| g.op(op!(SINH(x)))) numpy "_npi_cosh" of x;
    unary!(TANH keeps_zero: "tanh" ["_sparse_tanh"], "The hyperbolic tangent: sinh(x) / cosh(x).",
        f = |x| math::tanh(x), df(Output) = |y| 1.0 - y * y, graph = |g, y| {
            let y2 = g.op(op!(SQUARE(y)))?;
            g.op(op!(elemwise::scalar::RMINUS(y2), scalar: 1.0))
        }) numpy "_npi_tanh" of x;
    unary!(ARCSINH keeps_zero: "arcsinh" ["_sparse_arcsinh"], "The inverse hyperbolic sine.",
        f = |x| math::asinh(x), df(Input) = |x| if x.abs() > 1e9 { 1.0 / x.abs() } else { 1.0 / (x * x + 1.0).sqrt() }, graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.affine(x2, 1.0, 1.0)?;
            g.op(op!(RSQRT(d)))
        }) numpy "_npi_arcsinh" of x;
    unary!(ARCCOSH: "arccosh" ["_sparse_arccosh"], "The inverse hyperbolic cosine; NaN below 1.",
        f = |x| math::acosh(x), df(Input) = |x| 1.0 / (x * x - 1.0).sqrt(), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.affine(x2, 1.0, -1.0)?;
            g.op(op!(RSQRT(d)))
        }) numpy "_npi_arccosh" of x;
    unary!(ARCTANH keeps_zero: "arctanh" ["_sparse_arctanh"], "The inverse hyperbolic tangent; NaN outside [-1, 1].",
        f = |x| math::atanh(x), df(Input) = |x| 1.0 / (1.0 - x * x), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let d = g.op(op!(elemwise::scalar::RMINUS(x2), scalar: 1.0))?;
            g.op(op!(RECIPROCAL(d)))
        }) numpy "_npi_arctanh" of x;
    unary!(DEGREES keeps_zero: "degrees" ["_sparse_degrees"], "Angles in degrees from angles in radians: x * 180 / pi.",
        f = |x| x * 57.295_779_513_082_32, df(Input) = |_x| 57.295_779_513_082_32, graph = |g, x| {
            let ones = g.op(op!(elemwise::identity::ONES_LIKE(x)))?;
            g.op(op!(DEGREES(ones)))
        }) numpy "_npi_degrees" of x;
    unary!(RADIANS keeps_zero: "radians" ["_sparse_radians"], "Angles in radians from angles in degrees: x * pi / 180.",
        f = |x| x * 0.017_453_292_519_943_295, df(Input) = |_x| 0.017_453_292_519_943_295, graph = |g, x| {
            let ones = g.op(op!(elemwise::identity::ONES_LIKE(x)))?;
            g.op(op!(RADIANS(ones)))
        }) numpy "_npi_radians" of x;
    unary!(GAMMA: "gamma" ["_npx_gamma", "_sparse_gamma"], "The gamma function: gamma(n) = (n - 1)! for positive integers n.",
        f = |x| math::gamma(x), df(Input) = |x| math::gamma(x) * math::digamma(x), graph = none);
    unary!(GAMMALN: "gammaln" ["_npx_gammaln", "_sparse_gammaln"], "The logarithm of the absolute value of the gamma function.",
        f = |x| math::lgamma(x), df(Input) = |x| math::digamma(x), graph = none);
    unary!(ERF: "erf" ["_npx_erf"], "The error function: 2 / sqrt(pi) times the integral of e^(-t^2) over t from 0 to x.",
        f = |x| math::erf(x), df(Input) = |x| 1.128_379_167_095_512_6 * math::exp(-x * x), graph = |g, x| {
            let x2 = g.op(op!(SQUARE(x)))?;
            let x2 = g.op(op!(NEGATIVE(x2)))?;
            let e = g.op(op!(EXP(x2)))?;
            g.scale(e, std::f64::consts::FRAC_2_SQRT_PI)
        });
    unary!(ERFINV: "erfinv" ["_npx_erfinv"], "The inverse of the error function; infinite at -1 and 1, NaN outside [-1, 1].",
        f = |x| math::erfinv(x),
        df(Output) = |y| 0.886_226_925_452_758 * math::exp(y * y), graph = |g, y| {
            let y2 = g.op(op!(SQUARE(y)))?;
            let e = g.op(op!(EXP(y2)))?;
            g.scale(e, 1.0 / std::f64::consts::FRAC_2_SQRT_PI)
        });
    unary!(RELU keeps_zero sparse_gradient: "relu" ["_sparse_relu"], "The rectified linear unit: max(x, 0).",
        f = cheap |x| if x <= 0.0 { 0.0 } else { x }, int = |x| x.max(0),
        epilogue = Elementwise::Relu,
        df(Output) = |y| if y <= 0.0 { 0.0 } else if y > 0.0 { 1.0 } else { y },
        graph = |g, y| g.op(op!(elemwise::scalar::GREATER(y), scalar: 0.0))) numpy "_npx_relu";
    unary!(SIGMOID: "sigmoid" ["_sparse_sigmoid"], "The logistic function: 1 / (1 + e^-x).",
        f = |x| math::sigmoid(x), df(Output) = |y| y * (1.0 - y), graph = |g, y| {
            let y2 = g.op(op!(SQUARE(y)))?;
            g.sub(y, y2)
        }) numpy "_npx_sigmoid";
    unary!(SOFTSIGN: "softsign", "x / (1 + |x|).",
        f = |x| x / (1.0 + x.abs()), df(Input) = |x| 1.0 / ((1.0 + x.abs()) * (1.0 + x.abs())), graph = |g, x| {
            let a = g.op(op!(ABS(x)))?;
            let a = g.affine(a, 1.0, 1.0)?;
            g.power(a, -2.0)
        });
    unary!(LOGICAL_NOT: "logical_not", "1 where the element is 0, and 0 elsewhere.",
        f = |x| if x == 0.0 { 1.0 } else { 0.0 }, int = |x| if x == 0 { 1 } else { 0 }, df = 0);
}

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;

    use super::*;
    use crate::testing::{Case, array, close, vector};

    /// Points in the domain of the operator `name`.
    fn points(name: &str) -> Vec<f64> {
        match name.trim_start_matches("_npi_") {
            "arccosh" => vec![1.2, 2.0, 5.5],
            "arcsin" | "arccos" | "arctanh" | "erfinv" => vec![-0.9, -0.3, 0.2, 0.95],
            "gamma" | "gammaln" | "sqrt" | "rsqrt" | "log" | "log2" | "log10" => vec![0.3, 1.7, 4.2],
            "log1p" => vec![-0.7, 0.3, 4.2],
            _ => vec![-2.3, -0.4, 0.7, 1.9],
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for def in OPS {
            let x = vector(DType::F64, &points(def.name));
            Case::new(def, &[]).check_gradient(&[x]);
        }
    }

    #[test]
    fn every_numeric_type_is_supported_but_bool_is_not() {
        for def in OPS {
            let case = Case::new(def, &[]);
            let wide = case.run1(&[vector(DType::F64, &[1.0; 3])]).unwrap().to_vec::<f64>().unwrap();
            for dtype in [DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I32, DType::I64] {
                let y = case.run1(&[vector(dtype, &[1.0; 3])]).unwrap();
                assert_eq!(y.dtype(), dtype);
                // Integers have no infinity, and u8 no negative numbers.
                if dtype.is_float() || wide[0].is_finite() && wide[0] >= 0.0 {
                    let want: Vec<f64> = wide.iter().map(|w| if dtype.is_float() { *w } else { w.trunc() }).collect();
                    close(&y.to_vec_as::<f64>().unwrap(), &want, if dtype == DType::F32 { 1e-6 } else { 1e-2 });
                }
            }
            let e = case.run1(&[array(&[true], &[1])]).unwrap_err().to_string();
            assert!(e.contains("does not take bool"), "{e}");
        }
    }

    #[test]
    fn special_values_match_mxnet() {
        let run = |def, x: &[f64]| Case::new(def, &[]).run1(&[vector(DType::F32, x)]).unwrap().to_vec_as().unwrap();
        let nan = f64::NAN;
        close(&run(&SIGN, &[nan, -0.0, -3.0]), &[0.0, 0.0, -1.0], 0.0);
        close(&run(&RELU, &[nan, -1.0, 2.0]), &[nan, 0.0, 2.0], 0.0);
        close(&run(&ROUND, &[0.5, -0.5, 2.5]), &[1.0, -1.0, 3.0], 0.0);
        close(&run(&RINT, &[0.5, 1.5, -0.5, -1.5, 2.5]), &[0.0, 1.0, -1.0, -2.0, 2.0], 0.0);
        close(
            &run(&ERFINV, &[1.0, -1.0, 2.0, 0.0, 0.5]),
            &[f64::INFINITY, -f64::INFINITY, nan, 0.0, 0.476_936_276_2],
            1e-7,
        );
        close(&run(&LOGICAL_NOT, &[0.5, 0.0, nan]), &[0.0, 1.0, 0.0], 0.0);
    }

    #[test]
    fn integers_wrap_around() {
        let square = Case::new(&SQUARE, &[]).run1(&[array(&[100u8, 3], &[2])]).unwrap();
        assert_eq!(square.to_vec::<u8>().unwrap(), [16, 9]);
        let big = Case::new(&NEGATIVE, &[]).run1(&[array(&[(1i64 << 60) + 1, i64::MIN], &[2])]).unwrap();
        assert_eq!(big.to_vec::<i64>().unwrap(), [-(1i64 << 60) - 1, i64::MIN]);
    }
}
