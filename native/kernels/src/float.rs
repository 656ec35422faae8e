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
        crate::math::exp(self)
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
        crate::math::exp(self)
    }
}
