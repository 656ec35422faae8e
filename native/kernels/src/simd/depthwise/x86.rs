//! Vectors of AVX2 and AVX-512.
#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "every operation needs what its caller promises: the processor has the instructions"
)]

use super::ScaleClamp;
use super::vector::Vector;
use crate::simd::avx2::store_first_f32;
use std::arch::x86_64::*;
use std::ops::Range;

impl Vector for __m512 {
    const LANES: usize = 16;
    const SHORT: bool = false;
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> __mmask16 {
        ((1u32 << lanes.end) - (1 << lanes.start.min(lanes.end))) as __mmask16
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        _mm512_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32, mask: __mmask16) -> __m512 {
        _mm512_maskz_loadu_ps(mask, from)
    }

    #[inline(always)]
    unsafe fn load_all(from: *const f32) -> __m512 {
        _mm512_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm512_storeu_ps(to, self)
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        _mm512_mask_storeu_ps(to, Self::mask(0..len), self)
    }

    #[inline(always)]
    unsafe fn add(self, other: __m512) -> __m512 {
        _mm512_add_ps(self, other)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: __m512, addend: __m512) -> __m512 {
        _mm512_fmadd_ps(self, factor, addend)
    }

    #[inline(always)]
    unsafe fn deinterleave(near: __m512, far: __m512) -> [__m512; 2] {
        let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        [_mm512_permutex2var_ps(near, even, far), _mm512_permutex2var_ps(near, odd, far)]
    }

    #[inline(always)]
    unsafe fn keep(self, mask: __mmask16) -> __m512 {
        _mm512_maskz_mov_ps(mask, self)
    }

    #[inline(always)]
    unsafe fn scale_clamp(self, epilogue: ScaleClamp<__m512>) -> __m512 {
        let ScaleClamp { scale, bias, low, high } = epilogue;
        // If either operand is NaN, min and max return the second one.
        _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(_mm512_mul_ps(self, scale), bias)))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        _mm512_reduce_add_ps(self)
    }
}

impl Vector for __m256 {
    const LANES: usize = 8;
    const SHORT: bool = true;
    type Mask = __m256i;

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> __m256i {
        let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let before_start = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.start as i32), index);
        let before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.end as i32), index);
        _mm256_andnot_si256(before_start, before_end)
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        _mm256_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32, mask: __m256i) -> __m256 {
        _mm256_maskload_ps(from, mask)
    }

    #[inline(always)]
    unsafe fn load_all(from: *const f32) -> __m256 {
        _mm256_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm256_storeu_ps(to, self)
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        store_first_f32(to, len, self)
    }

    #[inline(always)]
    unsafe fn add(self, other: __m256) -> __m256 {
        _mm256_add_ps(self, other)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: __m256, addend: __m256) -> __m256 {
        _mm256_fmadd_ps(self, factor, addend)
    }

    #[inline(always)]
    unsafe fn deinterleave(near: __m256, far: __m256) -> [__m256; 2] {
        // Of each 128-bit half: two elements of `near`, then two of `far`.
        let even = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(near, far));
        let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(near, far));
        let even = _mm256_permute4x64_pd::<0b11_01_10_00>(even);
        let odd = _mm256_permute4x64_pd::<0b11_01_10_00>(odd);
        [_mm256_castpd_ps(even), _mm256_castpd_ps(odd)]
    }

    #[inline(always)]
    unsafe fn keep(self, mask: __m256i) -> __m256 {
        _mm256_and_ps(self, _mm256_castsi256_ps(mask))
    }

    #[inline(always)]
    unsafe fn scale_clamp(self, epilogue: ScaleClamp<__m256>) -> __m256 {
        let ScaleClamp { scale, bias, low, high } = epilogue;
        // If either operand is NaN, min and max return the second one.
        _mm256_min_ps(high, _mm256_max_ps(low, _mm256_add_ps(_mm256_mul_ps(self, scale), bias)))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let halves = _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
        let pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)))
    }
}
