//! Floating-point element types and the type in which kernels compute with them.

use crate::par::Plain;
use ferromx_core::dtype::{Element, bf16, f16};
use num_traits::{Float, NumAssign};
use std::iter::Sum;

/// A floating-point type of array elements.
pub trait Real: Element + Plain {
    /// The type in which sums and intermediate values are kept: single precision for the 16-bit types, else the type
    /// itself.
    type Acc: Accum;
}

/// A type to compute in: `f32` or `f64`.
pub trait Accum: Real<Acc = Self> + Float + NumAssign + Sum {
    /// The value of an element, rounded if the element is wider.
    fn load<T: Element>(x: T) -> Self;
    /// Rounds to an element type.
    fn store<T: Element>(self) -> T;
    /// In double precision.
    fn wide(self) -> f64;
    /// A count as a value to divide by.
    fn count(n: usize) -> Self;
    /// e to the power of `self`, in a form that the compiler can vectorise where there is one.
    fn exponential(self) -> Self;
}

impl Real for f32 {
    type Acc = f32;
}
impl Real for f64 {
    type Acc = f64;
}
impl Real for f16 {
    type Acc = f32;
}
impl Real for bf16 {
    type Acc = f32;
}

impl Accum for f32 {
    #[inline(always)]
    fn load<T: Element>(x: T) -> f32 {
        x.to_f32()
    }
    #[inline(always)]
    fn store<T: Element>(self) -> T {
        T::from_f32(self)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn count(n: usize) -> f32 {
        n as f32
    }
    #[inline(always)]
    fn exponential(self) -> f32 {
        exp(self)
    }
}

impl Accum for f64 {
    #[inline(always)]
    fn load<T: Element>(x: T) -> f64 {
        x.to_f64()
    }
    #[inline(always)]
    fn store<T: Element>(self) -> T {
        T::from_f64(self)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn count(n: usize) -> f64 {
        n as f64
    }
    #[inline(always)]
    fn exponential(self) -> f64 {
        self.exp()
    }
}

/// e^x by the argument reduction and the polynomial of Cephes' `expf`, within 2 units in the last place; zero instead of
/// numbers below the normal range. Without branches and table look-ups, so that a loop over it is vectorised.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const MIN: f32 = -87.336_54;
    const MAX: f32 = 88.722_84;
    /// Adding this leaves the nearest integer in the low bits of the significand.
    const ROUND: f32 = 12_582_912.0;
    let reduced = if x < MIN { MIN } else { x };
    let reduced = if reduced > MAX { MAX } else { reduced };
    let rounded = reduced * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = reduced - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + c;
    }
    let fraction = p * (r * r) + r + 1.0;
    // 2^n in two factors, for n may be 128.
    let low = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let y = fraction * power(low >> 1) * power(low - (low >> 1));
    let y = if x < MIN { 0.0 } else { y };
    if x > MAX { f32::INFINITY } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_is_accurate() {
        for i in -88_000..88_000 {
            let x = i as f32 * 1e-3;
            let (got, want) = (f64::from(x.exponential()), f64::from(x).exp());
            assert!((got - want).abs() <= 2.5e-7 * want || want < 1.2e-38, "e^{x} is {want}, not {got}");
        }
        assert_eq!(
            [f32::NEG_INFINITY, -200.0, 0.0, 89.0, f32::INFINITY].map(exp),
            [0.0, 0.0, 1.0, f32::INFINITY, f32::INFINITY]
        );
        assert!(exp(f32::NAN).is_nan());
    }
}
