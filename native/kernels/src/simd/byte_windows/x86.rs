//! AVX-512 with VBMI and VNNI: each source row is loaded once for sixteen neighboring outputs, and a byte permutation gives each lane
//! the bytes under four taps.

use super::{ByteWindows, LANES, TAPS};
use crate::simd::int8::Layout;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes in a vector.
const VECTOR: usize = 64;

pub(super) fn is_supported(stride: usize, dilate: usize) -> bool {
    let last = stride.saturating_mul(LANES - 1).saturating_add(dilate.saturating_mul(TAPS - 1));
    Layout::best() == Layout::Bytes && is_x86_feature_detected!("avx512vbmi") && last < VECTOR
}

/// The bytes of a vector that lie within a row of the plane, if the vector starts at `column` of the padded plane.
fn mask(windows: &ByteWindows<'_>, column: usize) -> u64 {
    let (left, width) = (windows.pad[1], windows.size[1]);
    let (first, end) = (left.saturating_sub(column), (left + width).saturating_sub(column).min(VECTOR));
    if first < end { u64::MAX >> (VECTOR - (end - first)) << first } else { 0 }
}

/// For a kernel of ROWS rows of up to four taps, or if ROWS is 0, of any size.
///
/// # Safety
/// The processor must have AVX-512 VBMI and VNNI; the image and the weights are as long as [`ByteWindows::sums`] checks.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) unsafe fn sums<const ROWS: usize>(
    windows: &ByteWindows<'_>,
    rows: Range<usize>,
    lanes: usize,
    out: &mut [i32],
) {
    let ByteWindows { bytes, size: [height, width], pad, zero, flip, weights, kernel, stride, dilate } = *windows;
    let index: [u8; VECTOR] = std::array::from_fn(|i| (i / TAPS * stride[1] + i % TAPS * dilate[1]) as u8);
    // SAFETY: a vector has 64 bytes.
    let index = unsafe { _mm512_loadu_si512(index.as_ptr().cast()) };
    // `zero` is given after the flip, which is applied to the padding as well.
    let (zero, flip) = (_mm512_set1_epi8((zero ^ flip).cast_signed()), _mm512_set1_epi8(flip.cast_signed()));
    let words = kernel[1].div_ceil(TAPS);
    let word_per_row: [_; ROWS] = std::array::from_fn(|i| _mm512_set1_epi32(weights[i]));
    for x in (0..lanes).step_by(LANES) {
        let first = x * stride[1];
        let whole = mask(windows, first);
        for (y, out) in rows.clone().zip(out.chunks_exact_mut(lanes)) {
            let mut sum = _mm512_setzero_si512();
            let mut add = |row: usize, column: usize, mask: u64, weights: __m512i| {
                let row = (y * stride[0] + row * dilate[0]).wrapping_sub(pad[0]);
                let mut line = zero;
                if row < height {
                    let from = bytes.as_ptr().wrapping_add(row * width).wrapping_add(column).wrapping_sub(pad[1]);
                    // SAFETY: the mask selects bytes of this row of the image.
                    line = unsafe { _mm512_mask_loadu_epi8(zero, mask, from.cast()) };
                }
                let terms = _mm512_permutexvar_epi8(index, _mm512_xor_si512(line, flip));
                sum = _mm512_dpbusd_epi32(sum, terms, weights);
            };
            for (row, weights) in word_per_row.into_iter().enumerate() {
                add(row, first, whole, weights);
            }
            if ROWS == 0 {
                for (i, word) in weights.iter().enumerate() {
                    let column = first + i % words * TAPS * dilate[1];
                    add(i / words, column, mask(windows, column), _mm512_set1_epi32(*word));
                }
            }
            // SAFETY: the row of outputs has all lanes.
            unsafe { _mm512_storeu_si512(out[x..x + LANES].as_mut_ptr().cast(), sum) };
        }
    }
}
