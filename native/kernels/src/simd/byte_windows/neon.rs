//! NEON with its dot product: for each vector of four neighboring outputs, one load and a table lookup give the bytes under four taps
//! of a source row.

use super::{ByteWindows, LANES, TAPS};
use crate::simd::int8::{Layout, dot_product};
use std::arch::aarch64::*;
use std::ops::Range;

/// Bytes in a vector.
const VECTOR: usize = 16;
/// Outputs in a vector of sums.
const WIDTH: usize = 4;
/// Vectors of [`LANES`] outputs.
const VECTORS: usize = LANES / WIDTH;

pub(super) fn is_supported(stride: usize, dilate: usize) -> bool {
    let last = stride.saturating_mul(WIDTH - 1).saturating_add(dilate.saturating_mul(TAPS - 1));
    Layout::best() == Layout::Bytes && last < VECTOR
}

/// The bytes of a row of the plane that a vector of outputs reads.
#[derive(Clone, Copy)]
struct Lookup {
    /// First column to load.
    start: usize,
    /// For each output, the indices of its four bytes among the loaded ones; 255 for padding.
    index: uint8x16_t,
}

impl Lookup {
    /// The bytes of four outputs, the first of which reads `column` of the padded plane with its first tap.
    fn new(windows: &ByteWindows<'_>, column: usize) -> Lookup {
        let (pad, width) = (windows.pad[1], windows.size[1]);
        let start = column.saturating_sub(pad).min(width.saturating_sub(VECTOR));
        let index: [u8; VECTOR] = std::array::from_fn(|i| {
            let column = column + i / TAPS * windows.stride[1] + i % TAPS * windows.dilate[1];
            match column.checked_sub(pad) {
                Some(column) if column < width => (column - start) as u8,
                _ => u8::MAX,
            }
        });
        // SAFETY: the array has the bytes of a vector.
        Lookup { start, index: unsafe { vld1q_u8(index.as_ptr()) } }
    }

    /// The bytes of the outputs in the row of the plane that starts at `row`; `zero` is padding.
    #[inline(always)]
    fn bytes(self, plane: &[u8], row: usize, flip: uint8x16_t, zero: uint8x16_t) -> int8x16_t {
        let from = row + self.start;
        // A load that would exceed the plane starts earlier.
        let first = from.min(plane.len() - VECTOR);
        // SAFETY: the plane has a vector of bytes starting at `first`, which is no later than its last vector.
        unsafe {
            let index = vqaddq_u8(self.index, vdupq_n_u8((from - first) as u8));
            vreinterpretq_s8_u8(vqtbx1q_u8(zero, veorq_u8(vld1q_u8(plane.as_ptr().add(first)), flip), index))
        }
    }
}

/// # Safety
/// The processor must have the dot product.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn sums(windows: &ByteWindows<'_>, rows: Range<usize>, lanes: usize, out: &mut [i32]) {
    let ByteWindows { bytes, size: [height, width], pad, weights, kernel, stride, dilate, .. } = *windows;
    let mut small = [0; VECTOR];
    let plane = if bytes.len() < VECTOR {
        small[..bytes.len()].copy_from_slice(bytes);
        &small
    } else {
        bytes
    };
    let (zero, flip) = (vdupq_n_u8(windows.zero), vdupq_n_u8(windows.flip));
    let words = kernel[1].div_ceil(TAPS);
    for x in (0..lanes).step_by(LANES) {
        for word in 0..words {
            let column = x * stride[1] + word * TAPS * dilate[1];
            let lookups: [Lookup; VECTORS] =
                std::array::from_fn(|v| Lookup::new(windows, column + v * WIDTH * stride[1]));
            for (y, out) in rows.clone().zip(out.chunks_exact_mut(lanes)) {
                let out = &mut out[x..x + LANES];
                let mut sums = [vdupq_n_s32(0); VECTORS];
                if word > 0 {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the outputs are four vectors.
                        *sum = unsafe { vld1q_s32(out.as_ptr().add(v * WIDTH)) };
                    }
                }
                for (i, weights) in weights.iter().skip(word).step_by(words).enumerate() {
                    let row = (y * stride[0] + i * dilate[0]).wrapping_sub(pad[0]);
                    let weights = vreinterpretq_s8_s32(vdupq_n_s32(*weights));
                    for (lookup, sum) in lookups.iter().zip(&mut sums) {
                        let bytes = if row < height {
                            lookup.bytes(plane, row * width, flip, zero)
                        } else {
                            vreinterpretq_s8_u8(zero)
                        };
                        *sum = dot_product::<0>(*sum, bytes, weights);
                    }
                }
                for (v, sum) in sums.into_iter().enumerate() {
                    // SAFETY: the outputs are four vectors.
                    unsafe { vst1q_s32(out.as_mut_ptr().add(v * WIDTH), sum) };
                }
            }
        }
    }
}
