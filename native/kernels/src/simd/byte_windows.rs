//! Convolution of a plane of bytes with a small kernel, in AVX-512 with VBMI and VNNI: the core of 8-bit depthwise convolution.
//!
//! Each source row is loaded once for sixteen neighbouring outputs; a byte permutation gives each lane the bytes under four taps.

#[cfg(target_arch = "x86_64")]
use super::int8::Layout;
use std::ops::Range;

/// Outputs in a vector.
pub(crate) const LANES: usize = 16;
/// Bytes in a vector.
const VECTOR: usize = 64;
/// Taps in a word of weights.
pub(crate) const TAPS: usize = 4;

/// A plane of bytes and the kernel to convolve it with. Pairs are (height, width).
#[derive(Clone, Copy)]
pub(crate) struct ByteWindows<'a> {
    /// The plane, (height, width).
    pub bytes: &'a [u8],
    pub size: [usize; 2],
    /// Padding before the plane.
    pub pad: [usize; 2],
    /// The value of the padding, after `flip`.
    pub zero: u8,
    /// XORed with the bytes of the plane: 0x80 makes signed bytes unsigned, 0 leaves them.
    pub flip: u8,
    /// The weights as signed bytes: for each kernel row, words of [`TAPS`] taps, the last padded with zeros.
    pub weights: &'a [i32],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilate: [usize; 2],
}

/// True if the processor has the instructions, `FERROMX_ISA` allows them, and the windows of sixteen outputs fit into a vector.
pub(crate) fn is_supported(stride: usize, dilate: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let last = stride.saturating_mul(LANES - 1).saturating_add(dilate.saturating_mul(TAPS - 1));
        Layout::best() == Layout::Bytes && is_x86_feature_detected!("avx512vbmi") && last < VECTOR
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (stride, dilate);
        false
    }
}

impl ByteWindows<'_> {
    /// Computes the output rows `rows` into `out`, whose row length is a multiple of [`LANES`].
    ///
    /// # Panics
    /// If the plane or the weights do not have the length that the sizes imply, or [`is_supported`] is false.
    pub(crate) fn sums(&self, rows: Range<usize>, out: &mut [i32]) {
        let width = out.len() / rows.len().max(1);
        assert!(width.is_multiple_of(LANES) && width * rows.len() == out.len(), "{width} lanes");
        assert!(self.weights.len() == self.kernel[0] * self.kernel[1].div_ceil(TAPS), "{} words", self.weights.len());
        assert!(self.bytes.len() == self.size[0] * self.size[1], "{} bytes of an image", self.bytes.len());
        assert!(is_supported(self.stride[1], self.dilate[1]), "the processor has no AVX-512 VBMI and VNNI");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has the instructions, the image has its size, and the kernel its words, as checked.
        unsafe {
            match self.weights.len() {
                3 if self.kernel[0] == 3 => x86::sums::<3>(self, rows, width, out),
                _ => x86::sums::<0>(self, rows, width, out),
            }
        }
    }

    /// The bytes of a vector that lie within a row of the plane, if the vector starts at `column` of the padded plane.
    fn mask(&self, column: usize) -> u64 {
        let (left, width) = (self.pad[1], self.size[1]);
        let (first, end) = (left.saturating_sub(column), (left + width).saturating_sub(column).min(VECTOR));
        if first < end { u64::MAX >> (VECTOR - (end - first)) << first } else { 0 }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ByteWindows, LANES, TAPS, VECTOR};
    use std::arch::x86_64::*;
    use std::ops::Range;

    /// For a kernel of ROWS rows of up to four taps, or if ROWS is 0, of any size.
    ///
    /// # Safety
    /// The processor has AVX-512 VBMI and VNNI; the image and the weights are as long as [`ByteWindows::sums`] checks.
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
            let mask = windows.mask(first);
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
                    add(row, first, mask, weights);
                }
                if ROWS == 0 {
                    for (i, word) in weights.iter().enumerate() {
                        let column = first + i % words * TAPS * dilate[1];
                        add(i / words, column, windows.mask(column), _mm512_set1_epi32(*word));
                    }
                }
                // SAFETY: the row of outputs has all lanes.
                unsafe { _mm512_storeu_si512(out[x..x + LANES].as_mut_ptr().cast(), sum) };
            }
        }
    }
}
