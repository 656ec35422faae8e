//! Conversion between array elements and the lanes that loops compute in.
//!
//! A loop is compiled for at most four lane types (`f32`, `f64`, `i32`, `i64`). Other element types are converted block by block
//! through buffers that stay in the L1 cache, so that nine element types need no more code than four.

use crate::item::Item;
use crate::par::{self, Pod};
use crate::simd::half;
use crate::simd::multiversion::per_isa;
use crate::simd::truncate::{f32_to_i32, f32_to_i64, f64_to_i32, f64_to_i64};
use ::half::slice::HalfFloatSliceExt;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use num_traits::Float;
use std::ops::Range;

/// `a` if `condition`, else `b`; for a loop that updates elements, such as `*x = replace_if(*x < 0.0, 0.0, *x, unchanged())`.
///
/// If `b` is the old value of the element, the compiler stores only `a`, with a masked store, which takes twelve cycles on AMD
/// processors without AVX-512. Adding a negative zero that is opaque to the compiler prevents this and changes no value.
/// `scripts/masked-stores` lists the masked stores of the library.
#[inline(always)]
pub(crate) fn replace_if<A: Float>(condition: bool, a: A, b: A, unchanged: A) -> A {
    (if condition { a } else { b }) + unchanged
}

/// The last argument of [`replace_if`]; call it before the loop.
#[inline(always)]
pub(crate) fn unchanged<A: Float>() -> A {
    std::hint::black_box(A::neg_zero())
}

/// Combines lanes by halves: the first half with the second, and so on. `N` is a power of two.
#[inline(always)]
pub(crate) fn tree_reduce<A: Copy, const N: usize>(mut lanes: [A; N], combine: impl Fn(A, A) -> A) -> A {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// A type that loops compute in.
pub trait Lane: Element + Pod + Load<Self> + Store<Self> {
    /// True if loops over these lanes are also compiled for AVX-512. Rarely used lane types go without it to save code.
    const LOOPS_USE_AVX512: bool;
    /// The elements as lanes, if they already are lanes of this type.
    fn view_any(src: Elements<'_>) -> Option<&[Self]>;
    /// The destination as lanes, if its elements are lanes of this type.
    fn view_any_mut<'s>(dst: &'s mut ElementsMut<'_>) -> Option<&'s mut [Self]>;
    /// Converts the elements starting at index `start` to `dst`.
    fn load_any(src: Elements<'_>, start: usize, dst: &mut [Self]);
    /// Converts lanes to the elements of `dst`, which has the same length.
    fn store_any(src: &[Self], dst: ElementsMut<'_>);
    /// The lane of a value rounded to an element type.
    fn rounded(value: f64, to: DType) -> Self;
}

/// A type of array elements.
pub trait AnyElement: Element + Item {
    /// A slice of elements of any type.
    fn elements(src: &[Self]) -> Elements<'_>;
    /// A mutable slice of elements of any type.
    fn elements_mut(dst: &mut [Self]) -> ElementsMut<'_>;
}

macro_rules! elements {
    ($($variant:ident $t:ty),*) => {
        /// A slice of elements of any type, for kernels that convert their operands block by block instead of being compiled for
        /// every combination of types.
        #[derive(Clone, Copy, Debug)]
        pub enum Elements<'a> {
            $(#[doc = concat!("Elements of type `", stringify!($t), "`.")] $variant(&'a [$t]),)*
        }

        /// A mutable slice of elements of any type.
        #[derive(Debug)]
        pub enum ElementsMut<'a> {
            $(#[doc = concat!("Elements of type `", stringify!($t), "`.")] $variant(&'a mut [$t]),)*
        }

        impl<'a> Elements<'a> {
            /// The elements in a range.
            ///
            /// # Panics
            /// Panics if the range is not within the elements.
            pub fn part(self, range: Range<usize>) -> Elements<'a> {
                match self { $(Elements::$variant(s) => Elements::$variant(&s[range]),)* }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(Elements::$variant(_) => <$t as Element>::DTYPE,)* }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $(Elements::$variant(s) => s.len(),)* }
            }

            /// True if there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl ElementsMut<'_> {
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(ElementsMut::$variant(_) => <$t as Element>::DTYPE,)* }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $(ElementsMut::$variant(s) => s.len(),)* }
            }

            /// True if there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements as an immutable slice.
            pub fn as_elements(&self) -> Elements<'_> {
                match self { $(ElementsMut::$variant(s) => Elements::$variant(s),)* }
            }

            /// The elements in a range.
            ///
            /// # Panics
            /// Panics if the range is not within the elements.
            pub fn part(&mut self, range: Range<usize>) -> ElementsMut<'_> {
                match self { $(ElementsMut::$variant(s) => ElementsMut::$variant(&mut s[range]),)* }
            }

            /// Sets each element to `f(index)`.
            pub fn set_each(self, f: &(dyn Fn(usize) -> f64 + Sync)) {
                const GRAIN: usize = 1 << 12;
                self.parallel_chunks(GRAIN, &|first, chunk| {
                    let mut numbers = [0.0; GRAIN];
                    let numbers = &mut numbers[..chunk.len()];
                    numbers.iter_mut().enumerate().for_each(|(i, x)| *x = f(first + i));
                    f64::store_any(numbers, chunk);
                });
            }

            /// Calls `f(start, elements)` for every chunk of `grain` elements (the last one may be shorter).
            pub fn parallel_chunks(self, grain: usize, f: &(dyn Fn(usize, ElementsMut<'_>) + Sync)) {
                match self {
                    $(ElementsMut::$variant(s) => {
                        par::parallel_rows(s, grain, 1, |i, chunk| f(i * grain, ElementsMut::$variant(chunk)));
                    })*
                }
            }
        }

        $(impl AnyElement for $t {
            fn elements(src: &[$t]) -> Elements<'_> {
                Elements::$variant(src)
            }
            fn elements_mut(dst: &mut [$t]) -> ElementsMut<'_> {
                ElementsMut::$variant(dst)
            }
        }

        impl<'a> From<&'a [$t]> for Elements<'a> {
            fn from(s: &'a [$t]) -> Elements<'a> {
                Elements::$variant(s)
            }
        }

        impl<'a> From<&'a mut [$t]> for ElementsMut<'a> {
            fn from(s: &'a mut [$t]) -> ElementsMut<'a> {
                ElementsMut::$variant(s)
            }
        })*
    };
}
elements!(F32 f32, F64 f64, F16 f16, BF16 bf16, U8 u8, I8 i8, I32 i32, I64 i64, Bool bool);

macro_rules! lane {
    ($lane:ident, $use_avx512:literal: $($variant:ident)*) => {
        impl Lane for $lane {
            const LOOPS_USE_AVX512: bool = $use_avx512;
            fn view_any_mut<'s>(dst: &'s mut ElementsMut<'_>) -> Option<&'s mut [$lane]> {
                match dst { $(ElementsMut::$variant(d) => Store::<$lane>::view_mut(d),)* }
            }
            fn rounded(value: f64, to: DType) -> $lane {
                ferromx_core::dispatch!(to, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => T::from_f64(value).lane(),
                    _bool => bool::from_f64(value).lane())
            }
            fn view_any(src: Elements<'_>) -> Option<&[$lane]> {
                match src { $(Elements::$variant(s) => Load::<$lane>::view(s),)* }
            }
            fn load_any(src: Elements<'_>, start: usize, dst: &mut [$lane]) {
                match src { $(Elements::$variant(s) => Load::<$lane>::load(&s[start..start + dst.len()], dst),)* }
            }
            fn store_any(src: &[$lane], dst: ElementsMut<'_>) {
                match dst { $(ElementsMut::$variant(d) => Store::<$lane>::store(src, d),)* }
            }
        }
    };
}
lane!(f32, true: F32 F64 F16 BF16 U8 I8 I32 I64 Bool);
lane!(f64, false: F32 F64 F16 BF16 U8 I8 I32 I64 Bool);
lane!(i32, false: F32 F64 F16 BF16 U8 I8 I32 I64 Bool);
lane!(i64, false: F32 F64 F16 BF16 U8 I8 I32 I64 Bool);

/// For loops that convert in registers, whose operands and results are all of this type.
impl Lane for f16 {
    const LOOPS_USE_AVX512: bool = false;
    fn view_any(src: Elements<'_>) -> Option<&[f16]> {
        match src {
            Elements::F16(s) => Some(s),
            _ => None,
        }
    }
    fn view_any_mut<'s>(dst: &'s mut ElementsMut<'_>) -> Option<&'s mut [f16]> {
        match dst {
            ElementsMut::F16(d) => Some(d),
            _ => None,
        }
    }
    fn load_any(src: Elements<'_>, start: usize, dst: &mut [f16]) {
        match src {
            Elements::F16(s) => dst.copy_from_slice(&s[start..start + dst.len()]),
            src => par::with_scratch(dst.len(), |wide: &mut [f32]| {
                f32::load_any(src, start, wide);
                half::narrow(wide, dst);
            }),
        }
    }
    fn store_any(src: &[f16], dst: ElementsMut<'_>) {
        match dst {
            ElementsMut::F16(d) => d.copy_from_slice(src),
            dst => par::with_scratch(src.len(), |wide: &mut [f32]| {
                half::widen(src, wide);
                f32::store_any(wide, dst);
            }),
        }
    }
    fn rounded(value: f64, to: DType) -> f16 {
        f16::from_f32(f32::rounded(value, to))
    }
}

/// The lane type for arithmetic on an element type: `f32` for the floats up to 32 bits, `f64`, `i64`, and `i32` for the narrower
/// integers and booleans, whose results then wrap around as in C.
pub trait Arith: Element + Load<Self::Lane> + Store<Self::Lane> {
    /// The lane type.
    type Lane: Lane;
}

macro_rules! arith {
    ($($t:ty => $lane:ty),*) => {$(
        impl Arith for $t {
            type Lane = $lane;
        }
    )*};
}
arith!(f32 => f32, f16 => f32, bf16 => f32, f64 => f64, u8 => i32, i8 => i32, i32 => i32, bool => i32, i64 => i64);

/// Conversion from elements to lanes of type `C`. Floats are truncated to integers; integers are rounded to the nearest float.
pub trait Load<C>: AnyElement {
    /// The elements as lanes, if they already are lanes.
    fn view(src: &[Self]) -> Option<&[C]>;
    /// Converts `src` to `dst`, which has the same length.
    fn load(src: &[Self], dst: &mut [C]);
    /// Converts one element.
    fn lane(self) -> C;
}

/// Conversion from lanes of type `C` to elements. Floats are rounded to nearest even; integers take the low bits of the truncated
/// value.
pub trait Store<C>: AnyElement {
    /// The elements as lanes, if they already are lanes.
    fn view_mut(dst: &mut [Self]) -> Option<&mut [C]>;
    /// Converts `src` to `dst`, which has the same length.
    fn store(src: &[C], dst: &mut [Self]);
    /// Converts one lane.
    fn element(lane: C) -> Self;
}

macro_rules! same {
    ($($t:ty),*) => {$(
        impl Load<$t> for $t {
            #[inline(always)]
            fn view(src: &[$t]) -> Option<&[$t]> {
                Some(src)
            }
            #[inline(always)]
            fn load(src: &[$t], dst: &mut [$t]) {
                dst.copy_from_slice(src);
            }
            #[inline(always)]
            fn lane(self) -> $t {
                self
            }
        }
        impl Store<$t> for $t {
            #[inline(always)]
            fn view_mut(dst: &mut [$t]) -> Option<&mut [$t]> {
                Some(dst)
            }
            #[inline(always)]
            fn store(src: &[$t], dst: &mut [$t]) {
                dst.copy_from_slice(src);
            }
            #[inline(always)]
            fn element(lane: $t) -> $t {
                lane
            }
        }
    )*};
}
same!(f32, f64, i32, i64, f16);

per_isa! {
    /// [`Load::load`], one element after the other.
    fn load_each<C: Copy, T: Load<C>>(src: &[T], dst: &mut [C]) {
        for (lane, element) in dst.iter_mut().zip(src) {
            *lane = element.lane();
        }
    }
}

per_isa! {
    /// [`Store::store`], one lane after the other.
    fn store_each<C: Copy, T: Store<C>>(src: &[C], dst: &mut [T]) {
        for (element, lane) in dst.iter_mut().zip(src) {
            *element = T::element(*lane);
        }
    }
}

macro_rules! convert {
    ($($t:ty, $c:ty: |$x:ident| $lane:expr, $element:expr;)*) => {$(
        impl Load<$c> for $t {
            #[inline(always)]
            fn view(_: &[$t]) -> Option<&[$c]> {
                None
            }
            fn load(src: &[$t], dst: &mut [$c]) {
                load_each(src, dst);
            }
            #[inline(always)]
            fn lane(self) -> $c {
                let $x = self;
                $lane
            }
        }
        impl Store<$c> for $t {
            #[inline(always)]
            fn view_mut(_: &mut [$t]) -> Option<&mut [$c]> {
                None
            }
            fn store(src: &[$c], dst: &mut [$t]) {
                store_each(src, dst);
            }
            #[inline(always)]
            fn element($x: $c) -> $t {
                $element
            }
        }
    )*};
}

convert! {
    f64, f32: |x| x as f32, f64::from(x);
    i32, f32: |x| x as f32, f32_to_i32(x);
    i64, f32: |x| x as f32, f32_to_i64(x);
    u8, f32: |x| f32::from(x), f32_to_i32(x) as u8;
    i8, f32: |x| f32::from(x), f32_to_i32(x) as i8;
    bool, f32: |x| f32::from(u8::from(x)), x != 0.0;
    bf16, f32: |x| f32::from_bits(u32::from(x.to_bits()) << 16), round_bf16(x);
    f32, f64: |x| f64::from(x), x as f32;
    i32, f64: |x| f64::from(x), f64_to_i32(x);
    i64, f64: |x| x as f64, f64_to_i64(x);
    u8, f64: |x| f64::from(x), f64_to_i32(x) as u8;
    i8, f64: |x| f64::from(x), f64_to_i32(x) as i8;
    bool, f64: |x| f64::from(u8::from(x)), x != 0.0;
    bf16, f64: |x| x.to_f64(), bf16::from_f64(x);
    f32, i32: |x| f32_to_i32(x), x as f32;
    f64, i32: |x| f64_to_i32(x), f64::from(x);
    i64, i32: |x| x as i32, i64::from(x);
    u8, i32: |x| i32::from(x), x as u8;
    i8, i32: |x| i32::from(x), x as i8;
    bool, i32: |x| i32::from(x), x != 0;
    f16, i32: |x| f32_to_i32(x.to_f32()), f16::from_f64(f64::from(x));
    bf16, i32: |x| f32_to_i32(x.to_f32()), bf16::from_f64(f64::from(x));
    f32, i64: |x| f32_to_i64(x), x as f32;
    f64, i64: |x| f64_to_i64(x), x as f64;
    i32, i64: |x| i64::from(x), x as i32;
    u8, i64: |x| i64::from(x), x as u8;
    i8, i64: |x| i64::from(x), x as i8;
    bool, i64: |x| i64::from(x), x != 0;
    f16, i64: |x| f32_to_i64(x.to_f32()), f16::from_f64(x as f64);
    bf16, i64: |x| f32_to_i64(x.to_f32()), bf16::from_f64(x as f64);
}

/// Rounds to nearest even without a branch, so that loops vectorize. NaN stays NaN.
#[inline(always)]
fn round_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
}

macro_rules! convert_half {
    ($($c:ty: $load:expr, $store:expr, $to:ident, $from:ident;)*) => {$(
        impl Load<$c> for f16 {
            #[inline(always)]
            fn view(_: &[f16]) -> Option<&[$c]> {
                None
            }
            fn load(src: &[f16], dst: &mut [$c]) {
                $load(src, dst);
            }
            #[inline(always)]
            fn lane(self) -> $c {
                self.$to()
            }
        }
        impl Store<$c> for f16 {
            #[inline(always)]
            fn view_mut(_: &mut [f16]) -> Option<&mut [$c]> {
                None
            }
            fn store(src: &[$c], dst: &mut [f16]) {
                $store(src, dst);
            }
            #[inline(always)]
            fn element(lane: $c) -> f16 {
                f16::$from(lane)
            }
        }
    )*};
}
convert_half! {
    f32: half::widen, half::narrow, to_f32, from_f32;
    f64: <[f16]>::convert_to_f64_slice, |src, dst: &mut [f16]| dst.convert_from_f64_slice(src), to_f64, from_f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_bfloat_round_to_nearest_even() {
        let x: Vec<f32> = (0..5000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9E37_79B9))).collect();
        let (mut h, mut b) = (vec![f16::ZERO; x.len()], vec![bf16::ZERO; x.len()]);
        <f16 as Store<f32>>::store(&x, &mut h);
        <bf16 as Store<f32>>::store(&x, &mut b);
        for ((x, h), b) in x.iter().zip(&h).zip(&b) {
            assert!(*h == f16::from_f32(*x) || x.is_nan() && h.is_nan(), "{x}");
            assert!(*b == bf16::from_f32(*x) || x.is_nan() && b.is_nan(), "{x}");
        }
    }

    #[test]
    fn narrow_integers_take_the_low_bits() {
        assert_eq!(<u8 as Store<i32>>::element(300), 44);
        assert_eq!(<i8 as Store<f32>>::element(200.7), -56);
        assert_eq!(<u8 as Store<f64>>::element(-1.0), 255);
        assert!(<bool as Store<f32>>::element(0.5));
        assert_eq!(<f32 as Load<i64>>::lane(-2.9), -2);
    }
}
