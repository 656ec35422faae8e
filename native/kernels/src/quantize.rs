//! Quantization to 8-bit integers and back.
//!
//! A quantized integer is a multiple of the scale: a range of +-r has the scale r / 127 (signed) or r / 255 (unsigned); see
//! [`Levels`].

use crate::int8::Int8;
use crate::math::{ROUND, clamp_keep_nan};
use crate::par;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::memory;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// The number by which the end of a range is divided to obtain the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// 127 and 255: the end of the range is the largest integer.
    Whole,
    /// 127.5 and 255.5: the end of the range is half a unit past the largest integer.
    Half,
}

impl Levels {
    /// The end of the range divided by the scale.
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
    /// The nearest integer of the type, saturating, ties to even; NaN is the largest `i8`, else 0, as in MXNet.
    fn nearest(x: f32) -> Self;
    /// Converts to 32 bits.
    fn wide(self) -> i32;
}

macro_rules! byte {
    ($t:ty) => {
        impl Quantum for $t {
            #[inline(always)]
            fn nearest(x: f32) -> Self {
                const NAN: f32 = if <$t>::MIN == 0 { 0.0 } else { <$t>::MAX as f32 };
                let x = if x.is_nan() { NAN } else { x };
                (x.max(<$t>::MIN.into()).min(<$t>::MAX.into()) + ROUND).to_bits() as $t
            }
            #[inline(always)]
            fn wide(self) -> i32 {
                i32::from(self)
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
    #[inline(always)]
    fn wide(self) -> i32 {
        self
    }
}

/// `out` = the nearest integer to `x * scale + shift`.
///
/// # Panics
/// Panics if the lengths differ.
pub fn quantize<T: Element, Q: Quantum>(x: &[T], scale: f32, shift: f32, out: &mut [Q]) {
    assert_eq!(x.len(), out.len(), "the result differs in length");
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
/// Panics if the lengths differ.
pub fn dequantize<Q: Element>(q: &[Q], scale: f32, out: &mut [f32]) {
    assert_eq!(q.len(), out.len(), "the result differs in length");
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

/// Quantization parameters per channel: each channel is a run of `inner` elements.
pub struct Channels {
    /// The scale of each channel.
    pub scales: Vec<f32>,
    /// The zero point of each channel.
    pub zeros: Vec<i32>,
    /// Contiguous elements of a channel.
    pub inner: usize,
}

impl Channels {
    /// Calls `f(start, run, scale, zero)` in parallel for runs of elements of the same channel.
    fn for_each<T: Send>(&self, out: &mut [T], f: impl Fn(usize, &mut [T], f32, i32) + Sync) {
        assert!(self.scales.len() == self.zeros.len() && self.inner > 0, "scales and zero points");
        let row = if self.scales.len() == 1 { GRAIN } else { self.inner };
        par::parallel_rows(out, row, GRAIN.div_ceil(row), |i, out| {
            let channel = i % self.scales.len();
            f(i * row, out, self.scales[channel], self.zeros[channel]);
        });
    }
}

/// `out` = `x / scale`, rounded to nearest, ties to even, plus the zero point, saturated to `u8`, or to `i8` (as its bits) if
/// `is_signed`. NaN becomes the zero point.
///
/// # Panics
/// Panics if the lengths differ.
pub fn quantize_linear(x: &[f32], channels: &Channels, is_signed: bool, out: &mut [u8]) {
    assert_eq!(x.len(), out.len(), "the result differs in length");
    let (low, high) = if is_signed { (-128, 127) } else { (0, 255) };
    channels.for_each(out, |start, out, scale, zero| {
        quantize_run(&x[start..start + out.len()], scale, zero, (low - zero) as f32, (high - zero) as f32, out);
    });
}

crate::simd::per_isa! {
    fn quantize_run(x: &[f32], scale: f32, zero: i32, low: f32, high: f32, out: &mut [u8]) {
        for (q, x) in out.iter_mut().zip(x) {
            let x = x / scale;
            let x = if x.is_nan() { 0.0 } else { x };
            *q = ((x.max(low).min(high) + ROUND).to_bits() as i32).wrapping_add(zero) as u8;
        }
    }
}

/// Quantizes rows to `i8` (as its bits), each row with its own scale: the largest absolute value divided by 127. Returns the
/// integers and the scales.
///
/// # Panics
/// Panics if the rows have different lengths.
pub fn quantize_rows(x: &[f32], rows: usize) -> (Vec<u8>, Vec<f32>) {
    let len = x.len() / rows.max(1);
    assert_eq!(x.len(), len * rows, "rows of different lengths");
    let (mut out, mut scales) = (memory::filled(0, x.len()), memory::filled(1.0, rows));
    for (i, (row, out)) in x.chunks_exact(len.max(1)).zip(out.chunks_exact_mut(len.max(1))).enumerate() {
        let (low, high) = extremes(row);
        let max = high.max(-low);
        if max > 0.0 {
            scales[i] = max / 127.0;
        }
        quantize_run(row, scales[i], 0, -128.0, 127.0, out);
    }
    (out, scales)
}

/// `out` = `(q - zero) * scale`.
///
/// # Panics
/// Panics if the lengths differ.
pub fn dequantize_linear<Q: Quantum>(q: &[Q], channels: &Channels, out: &mut [f32]) {
    assert_eq!(q.len(), out.len(), "the result differs in length");
    channels.for_each(out, |start, out, scale, zero| {
        dequantize_run(&q[start..start + out.len()], scale, zero, out);
    });
}

crate::simd::per_isa! {
    fn dequantize_run<Q: Quantum>(q: &[Q], scale: f32, zero: i32, out: &mut [f32]) {
        for (x, q) in out.iter_mut().zip(q) {
            *x = q.wide().wrapping_sub(zero) as f32 * scale;
        }
    }
}

/// A quantized operand: the integer `q` represents `(q - zero) * scale`.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// The integers and their zero point.
    pub integers: Int8<'a>,
    /// The scale.
    pub scale: f32,
}

/// The scale of quantized results.
#[derive(Clone, Copy)]
pub enum Scale {
    /// The scale, by which values are divided.
    Divisor(f32),
    /// The reciprocal of the scale, by which values are multiplied.
    Multiplier(f32),
}

/// The quantization of sums: clamped, scaled, rounded, shifted by the zero point, and saturated.
#[derive(Clone, Copy)]
pub struct Rounding {
    /// Lower and upper bound of the sums, for a fused activation.
    pub clamp: [f32; 2],
    /// The scale.
    pub scale: Scale,
    /// The zero point.
    pub zero: i32,
    /// True if the results are `i8`, false for `u8`.
    pub is_signed: bool,
}

/// `out` = the sums of two operands, quantized. Results equal those of [`dequantize_linear`], an addition and [`quantize_linear`]
/// or [`quantize`].
///
/// # Panics
/// Panics if the lengths differ.
pub fn sum(x: Operand<'_>, y: Operand<'_>, to: &Rounding, out: &mut [u8]) {
    assert!([x, y].iter().all(|operand| operand.integers.bytes.len() == out.len()), "the operands differ in length");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        let range = chunk * GRAIN..chunk * GRAIN + out.len();
        let [x, y] = [x, y].map(|Operand { integers, scale }| {
            let integers = Int8 { bytes: &integers.bytes[range.clone()], ..integers };
            Operand { integers, scale }
        });
        match to.scale {
            Scale::Divisor(scale) => sum_block(x, y, to, |sum| sum / scale, out),
            Scale::Multiplier(scale) => sum_block(x, y, to, |sum| sum * scale, out),
        }
    });
}

crate::simd::per_isa! {
    fn sum_block<F: Fn(f32) -> f32>(x: Operand<'_>, y: Operand<'_>, to: &Rounding, scaled: F, out: &mut [u8]) {
        let (x_scale, y_scale) = (x.scale, y.scale);
        let (x, y) = (x.integers, y.integers);
        let [x_shift, y_shift] = [x, y].map(|integers| if integers.is_signed { 0x80u8 } else { 0 });
        let (x_zero, y_zero) = (x.zero + i32::from(x_shift), y.zero + i32::from(y_shift));
        let (low, high) = if to.is_signed { (-128, 127) } else { (0, 255) };
        let (low, high) = ((low - to.zero) as f32, (high - to.zero) as f32);
        for ((q, a), b) in out.iter_mut().zip(x.bytes).zip(y.bytes) {
            let a = (i32::from(a ^ x_shift) - x_zero) as f32 * x_scale;
            let b = (i32::from(b ^ y_shift) - y_zero) as f32 * y_scale;
            let sum = scaled(clamp_keep_nan(a + b, to.clamp[0], to.clamp[1]));
            let sum = if sum.is_nan() { 0.0 } else { sum };
            *q = ((clamp_keep_nan(sum, low, high) + ROUND).to_bits() as i32).wrapping_add(to.zero) as u8;
        }
    }
}

/// `out` = the nearest integer to `f(x, y)`.
///
/// # Panics
/// Panics if the lengths differ.
pub fn combine<T: Element, U: Element, Q: Quantum>(
    x: &[T],
    y: &[U],
    out: &mut [Q],
    f: impl Fn(f32, f32) -> f32 + Sync,
) {
    assert!(x.len() == out.len() && y.len() == out.len(), "the operands differ in length");
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

/// `out` = the nearest integers, ties to even, saturated to `limits`, the smallest and the largest integer of the output type.
///
/// # Panics
/// Panics if the lengths differ.
pub fn round_saturated<T: Element, U: Element>(x: &[T], limits: (f64, f64), out: &mut [U]) {
    assert_eq!(x.len(), out.len(), "the result differs in length");
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        for (y, x) in out.iter_mut().zip(&x[chunk * GRAIN..]) {
            *y = U::from_f64(x.to_f64().round_ties_even().clamp(limits.0, limits.1));
        }
    });
}

/// Adds `x` to the residuals, then replaces `x` by `threshold`, `-threshold` or 0, whichever the residual reaches, and keeps the
/// rest as the residual.
///
/// # Panics
/// Panics if the lengths differ.
pub fn quantize_ternary(x: &mut [f32], residuals: &mut [f32], threshold: f32) {
    assert_eq!(x.len(), residuals.len(), "one residual per element");
    par::parallel_rows2((x, GRAIN), (residuals, GRAIN), 1, |_, x, residuals| {
        for (x, residual) in x.iter_mut().zip(residuals) {
            *residual += *x;
            *x = if *residual >= threshold {
                threshold
            } else if *residual <= -threshold {
                -threshold
            } else {
                0.0
            };
            *residual -= *x;
        }
    });
}

/// The smallest and the largest element, ignoring NaN; (0, 0) if there is none.
pub fn extremes<T: Element>(x: &[T]) -> (f32, f32) {
    let (low, high) = extremes_of(x);
    if low > high { (0.0, 0.0) } else { (low, high) }
}

crate::simd::per_isa! {
    /// The extremes, computed in several lanes. If all elements are NaN, the first one exceeds the second.
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
    fn nearest_integers_saturate() {
        let x = [0.5f32, 1.5, -300.0, 300.0, f32::NAN];
        let mut bytes = [0i8; 5];
        round_saturated(&x, (-128.0, 127.0), &mut bytes);
        assert_eq!(bytes, [0, 2, -128, 127, 0]);
    }

    #[test]
    fn residuals_keep_what_thresholds_leave() {
        let (mut x, mut residuals) = ([0.5f32, -1.5, 0.75], [0.25f32, 0.0, 0.5]);
        quantize_ternary(&mut x, &mut residuals, 1.0);
        assert_eq!((x, residuals), ([0.0, -1.0, 1.0], [0.75, -0.5, 0.25]));
    }

    #[test]
    fn channels_have_their_own_scales() {
        let channels = Channels { scales: vec![0.5, 2.0], zeros: vec![3, -4], inner: 2 };
        let x = [0.75, -100.0, 6.0, f32::NAN, 1e30, 0.2, -7.0, 3.0];
        let (mut q, mut back, is_signed) = ([0; 8], [0.0; 8], true);
        quantize_linear(&x, &channels, is_signed, &mut q);
        assert_eq!(q.map(u8::cast_signed), [5, -128, -1, -4, 127, 3, -8, -2]);
        dequantize_linear(&q.map(u8::cast_signed), &channels, &mut back);
        assert_eq!(back, [1.0, -65.5, 6.0, 0.0, 62.0, 0.0, -8.0, 4.0]);
    }

    #[test]
    fn sums_equal_those_of_dequantized_numbers() {
        let (a, b): (Vec<u8>, Vec<u8>) = (0..=255u8).flat_map(|a| (0..=255u8).map(move |b| (a, b))).unzip();
        for (case, zero) in [3, 131, -7, 0].into_iter().enumerate() {
            let (a_signed, b_signed, is_signed) = (case % 2 == 1, case > 1, case == 2);
            let (x, y) = (
                Channels { scales: vec![0.37], zeros: vec![zero], inner: 1 },
                Channels { scales: vec![0.011], zeros: vec![9], inner: 1 },
            );
            let (mut real_a, mut real_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
            let wide = |bytes: &[u8], is_signed: bool| -> Vec<i32> {
                bytes.iter().map(|q| if is_signed { q.cast_signed().into() } else { (*q).into() }).collect()
            };
            dequantize_linear(&wide(&a, a_signed), &x, &mut real_a);
            dequantize_linear(&wide(&b, b_signed), &y, &mut real_b);
            let relu = |(a, b): (&f32, &f32)| (a + b).max(0.0);
            let sums: Vec<f32> = real_a.iter().zip(&real_b).map(relu).collect();
            let x = Operand { integers: Int8 { bytes: &a, is_signed: a_signed, zero }, scale: 0.37 };
            let y = Operand { integers: Int8 { bytes: &b, is_signed: b_signed, zero: 9 }, scale: 0.011 };
            let clamp = [0.0, f32::INFINITY];
            let (mut want, mut found) = (vec![0; a.len()], vec![1; a.len()]);
            let to = Channels { scales: vec![0.29], zeros: vec![-20], inner: 1 };
            quantize_linear(&sums, &to, is_signed, &mut want);
            sum(x, y, &Rounding { clamp, scale: Scale::Divisor(0.29), zero: -20, is_signed }, &mut found);
            assert_eq!(found, want, "case {case}");
            let mut integers = vec![0i8; a.len()];
            quantize(&sums, 3.4, 0.0, &mut integers);
            sum(x, y, &Rounding { clamp, scale: Scale::Multiplier(3.4), zero: 0, is_signed: true }, &mut found);
            assert!(found.iter().zip(integers).all(|(found, want)| found.cast_signed() == want), "case {case}");
        }
    }

    #[test]
    fn rows_have_their_own_range() {
        let (q, scales) = quantize_rows(&[63.5, -25.25, 0.0, 0.0, -254.0, 3.0], 3);
        let q: Vec<i8> = q.iter().map(|q| q.cast_signed()).collect();
        assert_eq!((q, scales), (vec![127, -50, 0, 0, -127, 2], vec![0.5, 1.0, 2.0]));
    }

    #[test]
    fn integers_are_nearest_and_saturate() {
        let mut q = [0i8; 4];
        quantize(&[0.5f32, 1.5, -300.0, f32::NAN], 1.0, 0.0, &mut q);
        assert_eq!(q, [0, 2, -128, 127]);
        let mut q = [0u8; 3];
        quantize(&[-3.0f32, 1e9, f32::NAN], 1.0, 0.0, &mut q);
        assert_eq!(q, [0, 255, 0]);
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
