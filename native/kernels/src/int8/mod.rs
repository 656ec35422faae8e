//! Convolutions and matrix products of 8-bit integers.
//!
//! Sums of products of `x - zero` and `w - zero` are exact in 32 bits (up to a depth of 33,000; larger sums wrap), so every
//! instruction set and number of threads gives the same integers. An [`Epilogue`] requantizes the sums while a tile is in the
//! cache.
//!
//! - `matrix`: products with a constant matrix.
//! - `conv`: convolutions as implicit GEMM.
//! - `padded_layout`: the padded copy of an image.
//! - `depthwise`: convolutions with one kernel per channel.
//! - `epilogue`: bias, scale and rounding.

mod conv;
mod depthwise;
mod epilogue;
mod matrix;
mod padded_layout;
#[cfg(test)]
mod tests;

pub use conv::{ConvWeights, conv_int8};
pub use epilogue::{Epilogue, Limits, OutputElement};
pub use matrix::{MatrixWeights, gemm_int8};

use crate::simd::int8::Layout;

/// The offset between signed and unsigned bytes; adding it flips the highest bit.
const SHIFT: i32 = 0x80;

/// A quantized array: 8-bit integers with a zero point.
#[derive(Clone, Copy, Debug)]
pub struct Int8<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// True if the bytes are `i8`, false for `u8`.
    pub is_signed: bool,
    /// The zero point.
    pub zero: i32,
}

/// Quantized weights: constant 8-bit integers with one zero point, or one per output channel.
#[derive(Clone, Copy, Debug)]
pub struct Int8Weights<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// True if the bytes are `i8`, false for `u8`.
    pub is_signed: bool,
    /// The zero points: one, or one per output channel.
    pub zeros: &'a [i32],
}

impl Int8Weights<'_> {
    /// The zero point of a channel.
    fn zero(&self, channel: usize) -> i32 {
        if self.zeros.len() == 1 { self.zeros[0] } else { self.zeros[channel] }
    }

    /// The fastest layout. [`Layout::Bytes`] requires that the zero points vanish once the bytes are signed.
    fn layout(&self) -> Layout {
        let signed_zero = if self.is_signed { 0 } else { SHIFT };
        match self.zeros.iter().all(|zero| *zero == signed_zero) {
            true => Layout::best(),
            false => Layout::Words,
        }
    }
}

/// Encodes bytes as the words of a layout.
#[derive(Clone, Copy)]
struct Encoder {
    layout: Layout,
    /// XORed with the bytes: gives data the signedness that the layout requires, and makes weights in [`Layout::Bytes`] signed.
    flip: u8,
    /// The zero point of the flipped bytes, which [`Layout::Words`] subtracts.
    zero: i32,
}

impl Encoder {
    /// The encoder of the data.
    fn data(x: Int8<'_>, layout: Layout) -> Encoder {
        match (x.is_signed, layout.has_signed_data()) {
            (true, false) => Encoder { layout, flip: SHIFT as u8, zero: x.zero + SHIFT },
            (false, true) => Encoder { layout, flip: SHIFT as u8, zero: x.zero - SHIFT },
            (true, true) | (false, false) => Encoder { layout, flip: 0, zero: x.zero },
        }
    }

    /// The encoder of the weights of an output channel.
    fn weights(w: &Int8Weights<'_>, channel: usize, layout: Layout) -> Encoder {
        match layout {
            Layout::Bytes => Encoder { layout, flip: if w.is_signed { 0 } else { SHIFT as u8 }, zero: 0 },
            Layout::Words => Encoder::data(Int8 { bytes: &[], is_signed: w.is_signed, zero: w.zero(channel) }, layout),
        }
    }

    /// The word of four bytes in [`Layout::Bytes`].
    #[inline(always)]
    fn four(self, terms: [u8; 4]) -> i32 {
        i32::from_le_bytes(terms) ^ i32::from_le_bytes([self.flip; 4])
    }

    /// The word of two bytes in [`Layout::Words`].
    #[inline(always)]
    fn two(self, terms: [u8; 2]) -> i32 {
        let [low, high] = terms.map(|term| i32::from(term ^ self.flip) - self.zero);
        low & 0xffff | high << 16
    }

    /// The word of an incomplete group of k indices. A missing index contributes nothing, because the other operand is zero there.
    fn word(self, term: impl Fn(usize) -> Option<u8>) -> i32 {
        let byte = |i: usize| term(i).map_or(0, |byte| byte ^ self.flip);
        match self.layout {
            Layout::Bytes => i32::from_le_bytes(std::array::from_fn(byte)),
            Layout::Words => {
                let [low, high] = [0, 1].map(|i| term(i).map_or(0, |byte| i32::from(byte ^ self.flip) - self.zero));
                low & 0xffff | high << 16
            }
        }
    }

    /// The word of a group that consists of padding.
    fn zero_word(self) -> i32 {
        match self.layout {
            Layout::Bytes => i32::from_le_bytes([self.zero as u8; 4]),
            Layout::Words => 0,
        }
    }

    /// The sum of the weights in a word, by which [`Layout::Bytes`] corrects for the zero point of the data.
    fn sum_of_terms(self, word: i32) -> i32 {
        match self.layout {
            Layout::Bytes => word.to_le_bytes().map(|byte| i32::from(byte.cast_signed())).iter().sum(),
            Layout::Words => 0,
        }
    }
}
