//! Elementary and special functions for the lanes of elementwise loops.
//!
//! Single precision functions are written to be vectorized. Their errors are at most 2 ulp (`tanh`: 2.5 ulp; `gelu` and `softrelu`:
//! 2e-7 of the larger of |value| and |x|) for every argument, with special values as in C99.
//! Exceptions: [`sigmoid`] is 0 where it would be below 2^-126; [`lgamma`] and [`digamma`] have errors of a few ulp close to their
//! zeros. Double precision functions give the same bits on every machine. The common ones are vectorized, too, with errors of at most
//! 2 ulp (hyperbolic functions: 3 ulp; `atanh`: 4 ulp; `erfinv`: 1e-15); the others are scalar functions of the crate `libm`.
//!
//! Call these functions, not the methods of `f32` with the same name, which call the C library for each element.
//!
//! - `single`: the single precision functions.
//! - `wide`: double precision arithmetic without branches, for single precision results.
//! - `double`: the double precision functions.
//! - `special`: the gamma function and its relatives.

#![allow(clippy::excessive_precision)]

mod double;
mod single;
mod special;
#[cfg(test)]
mod tests;
mod wide;

pub(crate) use single::{ROUND, clamp_keep_nan};

use crate::map::Lane;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A floating-point lane type: `f32` or `f64`. The functions of this module are hidden methods of this trait; call the free
/// functions.
pub trait MathFloat:
    Lane + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Not a number.
    const NAN: Self;
    /// The nearest value to a double precision constant.
    fn of(x: f64) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The largest integer not above the value.
    fn floor(self) -> Self;
    /// The smallest integer not below the value.
    fn ceil(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// The nearest integer, halves away from zero.
    fn round(self) -> Self;
    /// True for NaN.
    fn is_nan(self) -> bool;
    /// True for all values but infinities and NaN.
    fn is_finite(self) -> bool;
    /// The absolute value with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self * a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    #[doc(hidden)]
    fn exp_(self) -> Self;
    #[doc(hidden)]
    fn exp_nonpositive_(self) -> Self;
    #[doc(hidden)]
    fn expm1_(self) -> Self;
    #[doc(hidden)]
    fn log_(self) -> Self;
    #[doc(hidden)]
    fn log2_(self) -> Self;
    #[doc(hidden)]
    fn log10_(self) -> Self;
    #[doc(hidden)]
    fn log1p_(self) -> Self;
    #[doc(hidden)]
    fn sin_(self) -> Self;
    #[doc(hidden)]
    fn cos_(self) -> Self;
    #[doc(hidden)]
    fn tan_(self) -> Self;
    #[doc(hidden)]
    fn tanh_(self) -> Self;
    #[doc(hidden)]
    fn sinh_(self) -> Self;
    #[doc(hidden)]
    fn cosh_(self) -> Self;
    #[doc(hidden)]
    fn asin_(self) -> Self;
    #[doc(hidden)]
    fn acos_(self) -> Self;
    #[doc(hidden)]
    fn atan_(self) -> Self;
    #[doc(hidden)]
    fn asinh_(self) -> Self;
    #[doc(hidden)]
    fn acosh_(self) -> Self;
    #[doc(hidden)]
    fn atanh_(self) -> Self;
    #[doc(hidden)]
    fn sigmoid_(self) -> Self;
    #[doc(hidden)]
    fn softrelu_(self) -> Self;
    #[doc(hidden)]
    fn erf_(self) -> Self;
    #[doc(hidden)]
    fn erfinv_(self) -> Self;
    #[doc(hidden)]
    fn gelu_(self) -> Self;
    #[doc(hidden)]
    fn cbrt_(self) -> Self;
    #[doc(hidden)]
    fn rcbrt_(self) -> Self;
    #[doc(hidden)]
    fn rsqrt_(self) -> Self;
    #[doc(hidden)]
    fn gamma_(self) -> Self;
    #[doc(hidden)]
    fn lgamma_(self) -> Self;
    #[doc(hidden)]
    fn digamma_(self) -> Self;
    #[doc(hidden)]
    fn pow_(self, y: Self) -> Self;
}

macro_rules! functions {
    ($($name:ident $method:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        #[inline(always)]
        pub fn $name<T: MathFloat>(x: T) -> T {
            x.$method()
        }
    )*};
}

functions! {
    exp exp_ "e^x.";
    exp_nonpositive exp_nonpositive_ "e^x for x <= 0, faster; in single precision 0 where it would be below 2^-126 or a little less.";
    expm1 expm1_ "e^x - 1, accurate near 0.";
    log log_ "The natural logarithm.";
    log2 log2_ "The logarithm to base 2.";
    log10 log10_ "The logarithm to base 10.";
    log1p log1p_ "log(1 + x), accurate near 0.";
    sin sin_ "The sine of an angle in radians, of any size.";
    cos cos_ "The cosine of an angle in radians, of any size.";
    tan tan_ "The tangent of an angle in radians, of any size.";
    tanh tanh_ "The hyperbolic tangent.";
    sinh sinh_ "The hyperbolic sine.";
    cosh cosh_ "The hyperbolic cosine.";
    asin asin_ "The inverse sine, in radians; NaN outside [-1, 1].";
    acos acos_ "The inverse cosine, in radians; NaN outside [-1, 1].";
    atan atan_ "The inverse tangent, in radians.";
    asinh asinh_ "The inverse hyperbolic sine.";
    acosh acosh_ "The inverse hyperbolic cosine; NaN below 1.";
    atanh atanh_ "The inverse hyperbolic tangent; NaN outside [-1, 1].";
    sigmoid sigmoid_ "1 / (1 + e^-x).";
    softrelu softrelu_ "log(1 + e^x) without overflow.";
    erf erf_ "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.";
    erfinv erfinv_ "The inverse of the error function; infinite at -1 and 1, NaN outside [-1, 1].";
    gelu gelu_ "The Gaussian error linear unit, x / 2 * (1 + erf(x / sqrt 2)).";
    cbrt cbrt_ "The cube root.";
    rcbrt rcbrt_ "The reciprocal of the cube root.";
    rsqrt rsqrt_ "The reciprocal of the square root.";
    gamma gamma_ "The gamma function; NaN at negative integers, infinite at zeros.";
    lgamma lgamma_ "The logarithm of the gamma function's absolute value.";
    digamma digamma_ "The derivative of [`lgamma`]; NaN at negative integers and 0.";
}

/// `x` clipped to [-bound, bound]; NaN stays NaN.
#[inline(always)]
pub fn clip<R: MathFloat>(x: R, bound: R) -> R {
    if x > bound {
        bound
    } else if x < -bound {
        -bound
    } else {
        x
    }
}

/// Double precision functions for formulas whose results have double or single precision.
pub trait Precision {
    /// e^x.
    fn exp(x: f64) -> f64;
    /// The natural logarithm.
    fn log(x: f64) -> f64;
    /// The logarithm of the absolute value of the gamma function.
    fn lgamma(x: f64) -> f64;
    /// The derivative of `lgamma`.
    fn digamma(x: f64) -> f64;
}

/// Full double precision.
#[derive(Clone, Copy, Debug)]
pub enum Full {}

/// Functions that are called, not inlined: formulas in full precision are rare, and their code would be large.
macro_rules! full {
    ($($name:ident)*) => {
        impl Precision for Full {$(
            #[inline(never)]
            fn $name(x: f64) -> f64 {
                double::$name(x)
            }
        )*}
    };
}
full!(exp log lgamma digamma);

/// About 40 correct bits without branches, so that loops vectorize: enough for single precision results.
#[derive(Clone, Copy, Debug)]
pub enum Approximate40 {}

impl Precision for Approximate40 {
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        wide::exp2(x * std::f64::consts::LOG2_E)
    }
    #[inline(always)]
    fn log(x: f64) -> f64 {
        wide::log(x)
    }
    #[inline(always)]
    fn lgamma(x: f64) -> f64 {
        special::wide_lgamma(x)
    }
    #[inline(always)]
    fn digamma(x: f64) -> f64 {
        special::wide_digamma(x)
    }
}

/// x to the power y, with C99's special cases.
#[inline(always)]
pub fn pow<T: MathFloat>(x: T, y: T) -> T {
    x.pow_(y)
}

/// x to the power y, with C99's special cases, from `size`, the power of |x|.
#[inline(always)]
fn signed_power<T: MathFloat>(x: T, y: T, size: T) -> T {
    let half = y * T::of(0.5);
    let is_integer = y.floor() == y;
    let is_odd = is_integer && half.floor() != half;
    let size = if x < T::ZERO && !is_integer && x.is_finite() { T::NAN } else { size };
    // |1| to any power is 1, including infinite ones; so is any number to the power 0.
    let size =
        if x == T::ONE || y == T::ZERO || x == -T::ONE && y.abs() == T::of(f64::INFINITY) { T::ONE } else { size };
    if is_odd { size.copysign(x) } else { size }
}

/// The nearest integer; ties go to the lower one, as in MXNet's `rint`.
#[inline(always)]
pub fn rint<T: MathFloat>(x: T) -> T {
    let (below, above) = (x.floor(), x.ceil());
    if x - below <= above - x { below } else { above }
}

/// The larger operand, NaN if one of them is NaN.
#[inline(always)]
pub fn maximum<T: Lane>(a: T, b: T) -> T {
    #[allow(clippy::eq_op)]
    if a > b || a != a { a } else { b }
}

/// The smaller operand, NaN if one of them is NaN.
#[inline(always)]
pub fn minimum<T: Lane>(a: T, b: T) -> T {
    #[allow(clippy::eq_op)]
    if a < b || a != a { a } else { b }
}

macro_rules! real {
    ($t:ident, $module:ident: $($method:ident $name:ident)*) => {
        impl MathFloat for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const NAN: $t = $t::NAN;
            #[inline(always)]
            fn of(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            #[inline(always)]
            fn copysign(self, sign: $t) -> $t {
                $t::copysign(self, sign)
            }
            #[inline(always)]
            fn mul_add(self, a: $t, b: $t) -> $t {
                $t::mul_add(self, a, b)
            }
            real!(@std $t: abs sqrt floor ceil trunc round);
            $(
                #[inline(always)]
                fn $method(self) -> $t {
                    $module::$name(self)
                }
            )*
            #[inline(always)]
            fn pow_(self, y: $t) -> $t {
                $module::pow(self, y)
            }
        }
    };
    (@std $t:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> $t {
            $t::$name(self)
        }
    )*};
}
real!(f32, single: exp_ exp exp_nonpositive_ exp_nonpositive expm1_ expm1 log_ log log2_ log2 log10_ log10 log1p_ log1p
    sin_ sin cos_ cos tan_ tan tanh_ tanh sinh_ sinh cosh_ cosh asin_ asin acos_ acos atan_ atan asinh_ asinh acosh_
    acosh atanh_ atanh sigmoid_ sigmoid softrelu_ softrelu erf_ erf erfinv_ erfinv gelu_ gelu cbrt_ cbrt rcbrt_ rcbrt
    rsqrt_ rsqrt gamma_ gamma lgamma_ lgamma digamma_ digamma);
real!(f64, double: exp_ exp exp_nonpositive_ exp_nonpositive expm1_ expm1 log_ log log2_ log2 log10_ log10 log1p_ log1p
    sin_ sin cos_ cos tan_ tan tanh_ tanh sinh_ sinh cosh_ cosh asin_ asin acos_ acos atan_ atan asinh_ asinh acosh_
    acosh atanh_ atanh sigmoid_ sigmoid softrelu_ softrelu erf_ erf erfinv_ erfinv gelu_ gelu cbrt_ cbrt rcbrt_ rcbrt
    rsqrt_ rsqrt gamma_ gamma lgamma_ lgamma digamma_ digamma);
