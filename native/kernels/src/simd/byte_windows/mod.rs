//! Convolution of a plane of bytes with a small kernel, in place: the core of 8-bit depthwise convolution.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

/// Outputs in a vector.
pub(crate) const LANES: usize = 16;
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
    /// XORed with the bytes of the plane: 0x80 converts between signed and unsigned bytes, 0 changes nothing. The results must have
    /// the signedness that [`Layout::Bytes`](super::int8::Layout::Bytes) requires.
    pub flip: u8,
    /// The weights as signed bytes: for each kernel row, words of [`TAPS`] taps, the last padded with zeros.
    pub weights: &'a [i32],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilate: [usize; 2],
}

/// True if the processor has the instructions, `FERROMX_ISA` allows them, and the windows of neighboring outputs fit into a vector.
pub(crate) fn is_supported(stride: usize, dilate: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::is_supported(stride, dilate);
    #[cfg(target_arch = "aarch64")]
    return neon::is_supported(stride, dilate);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (stride, dilate);
        false
    }
}

impl ByteWindows<'_> {
    /// Computes the output rows `rows` into `out`, whose row length is a multiple of [`LANES`].
    ///
    /// # Panics
    /// Panics if the plane or the weights do not have the length that the sizes imply, or [`is_supported`] is false.
    pub(crate) fn sums(&self, rows: Range<usize>, out: &mut [i32]) {
        let width = out.len() / rows.len().max(1);
        assert!(width.is_multiple_of(LANES) && width * rows.len() == out.len(), "{width} lanes");
        assert!(self.weights.len() == self.kernel[0] * self.kernel[1].div_ceil(TAPS), "{} words", self.weights.len());
        assert!(self.bytes.len() == self.size[0] * self.size[1], "{} bytes of an image", self.bytes.len());
        assert!(is_supported(self.stride[1], self.dilate[1]), "the processor lacks the instructions");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has the instructions, the image has its size, and the kernel its words, as checked.
        unsafe {
            match self.weights.len() {
                3 if self.kernel[0] == 3 => x86::sums::<3>(self, rows, width, out),
                _ => x86::sums::<0>(self, rows, width, out),
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            neon::sums(self, rows, width, out);
        }
    }
}
