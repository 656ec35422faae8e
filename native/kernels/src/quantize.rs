//! Quantization to 8-bit integers and back.
//!
//! Integers are multiples of a step: a range of +-r is divided into steps of r / 127 (signed) or r / 255 (unsigned); see
//! [`Levels`].

use crate::par;
use ferromx_core::dtype::{DType, Element};

/// Elements in a parallel chunk.
const GRAIN: usize = 1 << 14;

/// The divisor that turns the end of a range into the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// 127 and 255: the end of the range is the largest integer.
    Whole,
    /// 127.5 and 255.5: the end of the range is half a step past the largest integer.
    Half,
}

impl Levels {
    /// Number of steps from zero to the end of the range.
    pub fn of(self, dtype: DType) -> f32 {
        let whole = match dtype {
            DType::U8 => 255.0,
            DType::I8 => 127.0,
            _ => return i32::MAX as f32,
        };
        if self == Levels::Half { whole + 0.5 } else { whole }
    }
}

/// A quantized integer type: `i8`, `u8`, `i32`.
pub trait Quantum: Element {
    /// The nearest integer of the type, saturating, ties to even; NaN is 0.
    fn nearest(x: f32) -> Self;
}

macro_rules! byte {
    ($t:ty) => {
        impl Quantum for $t {
            #[inline(always)]
            fn nearest(x: f32) -> Self {
                // Adding this number rounds a small one into the low bits, so that the conversion in a loop is a single addition.
                const ROUND: f32 = (3u32 << 22) as f32;
                let x = if x.is_nan() { 0.0 } else { x };
                (x.max(<$t>::MIN.into()).min(<$t>::MAX.into()) + ROUND).to_bits() as $t
            }
        }
    };
}

byte!(i8);
byte!(u8);

impl Quantum for i32 {
    #[inline(always)]
    fn nearest(x: f32) -> Self {
        x.round_ties_even() as i32
    }
}

/// `out` = the nearest integer to `x * scale + shift`.
///
/// # Panics
/// If the lengths differ.
pub fn quantize<T: Element, Q: Quantum>(x: &[T], scale: f32, shift: f32, out: &mut [Q]) {
    assert_eq!(x.len(), out.len(), "the result has another length");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        quantize_block(&x[chunk * GRAIN..], scale, shift, out);
    });
}

crate::simd::per_isa! {
    fn quantize_block<T: Element, Q: Quantum>(x: &[T], scale: f32, shift: f32, out: &mut [Q]) {
        for (q, x) in out.iter_mut().zip(x) {
            *q = Q::nearest(x.to_f32() * scale + shift);
        }
    }
}

/// `out` = `q * scale`.
///
/// # Panics
/// If the lengths differ.
pub fn dequantize<Q: Element>(q: &[Q], scale: f32, out: &mut [f32]) {
    assert_eq!(q.len(), out.len(), "the result has another length");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        dequantize_block(&q[chunk * GRAIN..], scale, out);
    });
}

crate::simd::per_isa! {
    fn dequantize_block<Q: Element>(q: &[Q], scale: f32, out: &mut [f32]) {
        for (x, q) in out.iter_mut().zip(q) {
            *x = q.to_f32() * scale;
        }
    }
}

/// `out` = the nearest integer to `f(x, y)`.
///
/// # Panics
/// If the lengths differ.
pub fn combine<T: Element, U: Element, Q: Quantum>(
    x: &[T],
    y: &[U],
    out: &mut [Q],
    f: impl Fn(f32, f32) -> f32 + Sync,
) {
    assert!(x.len() == out.len() && y.len() == out.len(), "the operands have other lengths");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        combine_block(&x[chunk * GRAIN..], &y[chunk * GRAIN..], out, &f);
    });
}

crate::simd::per_isa! {
    fn combine_block<T: Element, U: Element, Q: Quantum, F: Fn(f32, f32) -> f32>(x: &[T], y: &[U], out: &mut [Q], f: &F) {
        for ((q, x), y) in out.iter_mut().zip(x).zip(y) {
            *q = Q::nearest(f(x.to_f32(), y.to_f32()));
        }
    }
}

/// The smallest and the largest element, ignoring NaN; (0, 0) if there is none.
pub fn extremes<T: Element>(x: &[T]) -> (f32, f32) {
    let (low, high) = extremes_of(x);
    if low > high { (0.0, 0.0) } else { (low, high) }
}

crate::simd::per_isa! {
    /// The extremes, in several lanes; the smallest is above the largest if there is no number.
    fn extremes_of<T: Element>(x: &[T]) -> (f32, f32) {
        const LANES: usize = 64;
        let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let blocks = x.chunks_exact(LANES);
        let rest = blocks.remainder();
        for block in blocks {
            for i in 0..LANES {
                let x = block[i].to_f32();
                low[i] = if x < low[i] { x } else { low[i] };
                high[i] = if x > high[i] { x } else { high[i] };
            }
        }
        for (i, x) in rest.iter().enumerate() {
            low[i] = low[i].min(x.to_f32());
            high[i] = high[i].max(x.to_f32());
        }
        (low.into_iter().fold(f32::INFINITY, f32::min), high.into_iter().fold(f32::NEG_INFINITY, f32::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_nearest_and_saturate() {
        let mut q = [0i8; 4];
        quantize(&[0.5f32, 1.5, -300.0, f32::NAN], 1.0, 0.0, &mut q);
        assert_eq!(q, [0, 2, -128, 0]);
        let mut q = [0u8; 2];
        quantize(&[-3.0f32, 1e9], 1.0, 0.0, &mut q);
        assert_eq!(q, [0, 255]);
    }

    #[test]
    fn extremes_are_those_of_numbers() {
        let mut x: Vec<f32> = (0..200).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        x[190] = f32::NAN;
        assert_eq!(extremes(&x), (-50.0, 50.0));
        assert_eq!(extremes::<f32>(&[]), (0.0, 0.0));
        assert_eq!(extremes(&[-3i8, 7, 2]), (-3.0, 7.0));
    }
}
