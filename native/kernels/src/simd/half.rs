//! Conversion between 16-bit and 32-bit floats.

#[cfg(target_arch = "x86_64")]
use super::Isa;
use ::half::slice::HalfFloatSliceExt;
use ferromx_core::dtype::f16;

/// Converts `src` to `dst`.
///
/// # Panics
/// Panics if the lengths differ.
pub(crate) fn widen(src: &[f16], dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len(), "elements to convert");
    #[cfg(target_arch = "x86_64")]
    if Isa::current() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { widen_f16c(src, dst) };
    }
    src.convert_to_f32_slice(dst);
}

/// Converts `src` to `dst`, rounding to nearest even.
///
/// # Panics
/// Panics if the lengths differ.
pub(crate) fn narrow(src: &[f32], dst: &mut [f16]) {
    assert_eq!(src.len(), dst.len(), "elements to convert");
    #[cfg(target_arch = "x86_64")]
    if Isa::current() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { narrow_f16c(src, dst) };
    }
    dst.convert_from_f32_slice(src);
}

/// Conversion of eight numbers at a time in the registers of a loop.
pub(crate) trait Convert: Copy {
    /// The numbers in single precision.
    fn widen(self, x: &[f16; 8]) -> [f32; 8];
    /// The numbers rounded to nearest even.
    fn narrow(self, x: [f32; 8]) -> [f16; 8];
}

/// Conversion by the `half` crate, which uses the instructions of 64-bit ARM.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Convert for Portable {
    #[inline(always)]
    fn widen(self, x: &[f16; 8]) -> [f32; 8] {
        let mut wide = [0.0; 8];
        x.convert_to_f32_slice(&mut wide);
        wide
    }
    #[inline(always)]
    fn narrow(self, x: [f32; 8]) -> [f16; 8] {
        let mut halves = [f16::ZERO; 8];
        halves.convert_from_f32_slice(&x);
        halves
    }
}

/// Conversion by F16C, which the processor has if a value exists.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct F16c(());

#[cfg(target_arch = "x86_64")]
impl F16c {
    /// # Safety
    /// The processor must have AVX and F16C.
    #[inline(always)]
    pub(crate) unsafe fn new() -> F16c {
        F16c(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Convert for F16c {
    #[inline(always)]
    fn widen(self, x: &[f16; 8]) -> [f32; 8] {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let mut wide = [0.0; 8];
        // SAFETY: the processor has the instructions, and both arrays have eight elements.
        unsafe { _mm256_storeu_ps(wide.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast()))) };
        wide
    }
    #[inline(always)]
    fn narrow(self, x: [f32; 8]) -> [f16; 8] {
        use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
        let mut halves = [f16::ZERO; 8];
        // SAFETY: as above.
        unsafe {
            let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(x.as_ptr()));
            _mm_storeu_si128(halves.as_mut_ptr().cast(), rounded);
        }
        halves
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn widen_f16c(src: &[f16], dst: &mut [f32]) {
    // SAFETY: this function is only called on processors with the instructions it is compiled for.
    let f16c = unsafe { F16c::new() };
    let (blocks, rest) = src.as_chunks();
    let (to, to_rest) = dst.as_chunks_mut();
    for (block, to) in blocks.iter().zip(to) {
        *to = f16c.widen(block);
    }
    for (x, to) in rest.iter().zip(to_rest) {
        *to = x.to_f32();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn narrow_f16c(src: &[f32], dst: &mut [f16]) {
    // SAFETY: this function is only called on processors with the instructions it is compiled for.
    let f16c = unsafe { F16c::new() };
    let (blocks, rest) = src.as_chunks();
    let (to, to_rest) = dst.as_chunks_mut();
    for (block, to) in blocks.iter().zip(to) {
        *to = f16c.narrow(*block);
    }
    for (x, to) in rest.iter().zip(to_rest) {
        *to = f16::from_f32(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_16_bits_is_converted_exactly_and_back() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let (mut wide, mut back) = (vec![0.0; halves.len()], vec![f16::ZERO; halves.len()]);
        widen(&halves, &mut wide);
        narrow(&wide, &mut back);
        for ((half, wide), back) in halves.iter().zip(&wide).zip(&back) {
            assert!(half.to_f32().to_bits() == wide.to_bits() || half.is_nan() && wide.is_nan(), "{half}");
            assert!(half.to_bits() == back.to_bits() || half.is_nan() && back.is_nan(), "{half}");
        }
    }

    #[test]
    fn values_between_two_halves_are_rounded_to_nearest_even() {
        let x: Vec<f32> = (0..4099).map(|i| f32::from_bits(0x3380_0000 + i * 0x3_1235)).collect();
        let mut halves = vec![f16::ZERO; x.len()];
        narrow(&x, &mut halves);
        for (x, half) in x.iter().zip(&halves) {
            assert_eq!(f16::from_f32(*x).to_bits(), half.to_bits(), "{x}");
        }
    }
}
