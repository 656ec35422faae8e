//! Floating-point element types and their accumulation types.

use crate::map::{Lane, Load, Store};
use crate::par::{Pod, with_scratch};
use crate::simd::depthwise::PlaneConvElement;
use crate::simd::window::WindowElement;
use ferromx_core::dtype::{Element, bf16, f16};
use num_traits::{Float, NumAssign};
use std::iter::Sum;

/// A floating-point type of array elements.
pub trait FloatElement: Element + Pod + Load<Self::Acc> + Store<Self::Acc> {
    /// The accumulation type: single precision for the 16-bit types, else the type itself.
    type Acc: Accum;
    /// True if kernels for these elements are also compiled for AVX-512, false for AVX2 at most.
    const USE_AVX512: bool;
}

/// A type that kernels compute in: `f32` or `f64`.
pub trait Accum: FloatElement<Acc = Self> + Lane + WindowElement + PlaneConvElement + Float + NumAssign + Sum {
    /// Converts an element, rounding if it is wider.
    fn of<T: Element>(x: T) -> Self;
    /// Rounds to an element type.
    fn store<T: Element>(self) -> T;
    /// Converts to double precision.
    fn wide(self) -> f64;
    /// Converts a count of elements.
    fn count(n: usize) -> Self;
    /// e to the power of `self`.
    fn exponential(self) -> Self;
    /// Like [`Self::exponential`], for arguments that are not positive; in single precision, subnormal results are 0.
    fn exponential_nonpositive(self) -> Self;
    /// The natural logarithm.
    fn logarithm(self) -> Self;
    /// `self` to the power of `exponent`.
    fn power(self, exponent: Self) -> Self;
}

/// Calls `f` with the values in the accumulation type: the slice itself, or a converted copy in scratch memory.
pub fn with_wide<T: FloatElement, R>(values: &[T], f: impl FnOnce(&[T::Acc]) -> R) -> R {
    match T::view(values) {
        Some(values) => f(values),
        None => with_scratch(values.len(), |wide: &mut [T::Acc]| {
            <T as Load<T::Acc>>::load(values, wide);
            f(wide)
        }),
    }
}

/// Calls `f` with a destination in the accumulation type: the slice itself, or a scratch buffer that is then converted to `values`.
pub fn with_wide_mut<T: FloatElement, R>(values: &mut [T], f: impl FnOnce(&mut [T::Acc]) -> R) -> R {
    if let Some(values) = T::view_mut(values) {
        return f(values);
    }
    with_scratch(values.len(), |wide: &mut [T::Acc]| {
        let result = f(wide);
        <T as Store<T::Acc>>::store(wide, values);
        result
    })
}

impl FloatElement for f32 {
    type Acc = f32;
    const USE_AVX512: bool = true;
}
impl FloatElement for f64 {
    type Acc = f64;
    const USE_AVX512: bool = false;
}
impl FloatElement for f16 {
    type Acc = f32;
    const USE_AVX512: bool = false;
}
impl FloatElement for bf16 {
    type Acc = f32;
    const USE_AVX512: bool = false;
}

impl Accum for f32 {
    #[inline(always)]
    fn of<T: Element>(x: T) -> f32 {
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
        crate::math::exp(self)
    }
    #[inline(always)]
    fn exponential_nonpositive(self) -> f32 {
        crate::math::exp_nonpositive(self)
    }
    #[inline(always)]
    fn logarithm(self) -> f32 {
        crate::math::log(self)
    }
    #[inline(always)]
    fn power(self, exponent: f32) -> f32 {
        crate::math::pow(self, exponent)
    }
}

impl Accum for f64 {
    #[inline(always)]
    fn of<T: Element>(x: T) -> f64 {
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
        crate::math::exp(self)
    }
    #[inline(always)]
    fn exponential_nonpositive(self) -> f64 {
        crate::math::exp_nonpositive(self)
    }
    #[inline(always)]
    fn logarithm(self) -> f64 {
        crate::math::log(self)
    }
    #[inline(always)]
    fn power(self, exponent: f64) -> f64 {
        crate::math::pow(self, exponent)
    }
}
