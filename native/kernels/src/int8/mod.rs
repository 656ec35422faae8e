//! Convolutions and matrix products of 8-bit integers.
//!
//! Sums of products of `x - zero` and `w - zero` are exact in 32 bits (up to 33,000 terms; larger sums wrap), so every instruction set
//! and number of threads gives the same integers. An [`Epilogue`] converts the sums while a tile is in the cache.

mod conv;
mod depthwise;
mod epilogue;
mod matrix;
#[cfg(test)]
mod tests;

pub use conv::{ConvWeights, conv_int8};
pub use epilogue::{Epilogue, Limits, OutputElement};
pub use matrix::{MatrixWeights, gemm_int8};

use crate::simd::int8::Layout;

/// Added to signed bytes to make them unsigned, by flipping the highest bit.
const SHIFT: i32 = 0x80;

/// 8-bit integers and the integer that stands for zero.
#[derive(Clone, Copy, Debug)]
pub struct Int8<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether they are `i8`, else `u8`.
    pub is_signed: bool,
    /// The zero point.
    pub zero: i32,
}

/// Constant 8-bit integers with a zero point for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Int8Weights<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether they are `i8`, else `u8`.
    pub is_signed: bool,
    /// The zero points: one, or one per output channel.
    pub zeros: &'a [i32],
}

impl Int8Weights<'_> {
    /// The zero point of a channel.
    fn zero(&self, channel: usize) -> i32 {
        if self.zeros.len() == 1 { self.zeros[0] } else { self.zeros[channel] }
    }

    /// The fastest layout: signed bytes have no zero point.
    fn layout(&self) -> Layout {
        let none = if self.is_signed { 0 } else { SHIFT };
        match self.zeros.iter().all(|zero| *zero == none) {
            true => Layout::best(),
            false => Layout::Words,
        }
    }
}

/// Stores bytes as the words of a layout.
#[derive(Clone, Copy)]
struct Encoder {
    layout: Layout,
    /// Makes the bytes unsigned, or signed for weights in [`Layout::Bytes`].
    flip: u8,
    /// The zero point of the flipped bytes. [`Layout::Words`] subtracts it.
    zero: i32,
}

impl Encoder {
    /// For the operand that is not constant.
    fn data(x: Int8<'_>, layout: Layout) -> Encoder {
        match x.is_signed {
            true => Encoder { layout, flip: SHIFT as u8, zero: x.zero + SHIFT },
            false => Encoder { layout, flip: 0, zero: x.zero },
        }
    }

    /// For the weights of a channel.
    fn weights(w: &Int8Weights<'_>, channel: usize, layout: Layout) -> Encoder {
        match layout {
            Layout::Bytes => Encoder { layout, flip: if w.is_signed { 0 } else { SHIFT as u8 }, zero: 0 },
            Layout::Words => Encoder::data(Int8 { bytes: &[], is_signed: w.is_signed, zero: w.zero(channel) }, layout),
        }
    }

    /// The word of four terms in [`Layout::Bytes`].
    #[inline(always)]
    fn four(self, terms: [u8; 4]) -> i32 {
        i32::from_le_bytes(terms) ^ i32::from_le_bytes([self.flip; 4])
    }

    /// The word of two terms in [`Layout::Words`].
    #[inline(always)]
    fn two(self, terms: [u8; 2]) -> i32 {
        let [low, high] = terms.map(|term| i32::from(term ^ self.flip) - self.zero);
        low & 0xffff | high << 16
    }

    /// The word of up to a group of terms; missing ones are zero in the other operand.
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

    /// The word of a group of zero points.
    fn zero_word(self) -> i32 {
        match self.layout {
            Layout::Bytes => i32::from_le_bytes([self.zero as u8; 4]),
            Layout::Words => 0,
        }
    }

    /// The sum of the terms in the words of weights, which [`Layout::Bytes`] multiplies by the zero point of the data.
    fn sum_of_terms(self, word: i32) -> i32 {
        match self.layout {
            Layout::Bytes => word.to_le_bytes().map(|byte| i32::from(byte.cast_signed())).iter().sum(),
            Layout::Words => 0,
        }
    }
}
