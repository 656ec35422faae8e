//! Convolutions with one input and one output channel per group.
//!
//! With AVX-512 or NEON's dot product the bytes of a plane are multiplied in place. Otherwise the plane is copied once, padded and
//! split into phases as in [`super::padded_layout`], and its elements are widened, so that each tap is one multiply-add per output.

use super::epilogue::{Channels, overwrite};
use super::padded_layout::{FillRun, PaddedLayout, fill_phases};
use super::{Encoder, Epilogue, Int8, Int8Weights, OutputElement};
use crate::conv::ConvShape;
use crate::par::{self, Pod, with_scratch};
use crate::pool::each_strided;
use crate::simd::byte_windows::{self, ByteWindows, LANES, TAPS};
use crate::simd::int8::{COLS, Layout};
use crate::simd::multiversion::{self, Multiversioned};

/// Maximum taps of a kernel whose sums are exact in [`Number`] for `f32`.
const SMALL_KERNEL: usize = (1 << 22) / (255 * 255);
/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// The kernels of all channels.
pub(super) enum Kernels {
    /// For each channel, the words of [`ByteWindows`], and the sum of the weights.
    Bytes { words: Vec<i32>, sums: Vec<i32> },
    /// (channels, taps): the weights without their zero points, `w - zero`.
    Terms(Vec<i32>),
}

impl Kernels {
    pub(super) fn new(shape: &ConvShape, weights: &Int8Weights<'_>) -> Kernels {
        let [_, rows, cols] = shape.kernel;
        let taps = rows * cols;
        let term = |(i, byte): (usize, &u8)| {
            let encoder = Encoder::weights(weights, i / taps, Layout::Words);
            i32::from(byte ^ encoder.flip) - encoder.zero
        };
        let terms: Vec<i32> = weights.bytes.iter().enumerate().map(term).collect();
        let is_signed_byte = |term: &i32| i8::try_from(*term).is_ok();
        if !byte_windows::is_supported(shape.stride[2], shape.dilate[2]) || !terms.iter().all(is_signed_byte) {
            return Kernels::Terms(terms);
        }
        let byte = |kernel_row: &[i32], tap: usize| kernel_row.get(tap).map_or(0, |term| *term as u8);
        let word =
            |kernel_row: &[i32], first: usize| i32::from_le_bytes(std::array::from_fn(|i| byte(kernel_row, first + i)));
        let words_of =
            |kernel_row: &[i32]| (0..cols).step_by(TAPS).map(|first| word(kernel_row, first)).collect::<Vec<_>>();
        let words = terms.chunks_exact(cols).flat_map(words_of).collect();
        Kernels::Bytes { words, sums: terms.chunks_exact(taps).map(|kernel| kernel.iter().sum()).collect() }
    }

    /// Convolves each plane of `x` with its kernel, requantized by the epilogue.
    pub(super) fn convolve<T: OutputElement>(
        &self,
        shape: &ConvShape,
        x: Int8<'_>,
        epilogue: &Epilogue<'_>,
        out: &mut [T],
    ) {
        match self {
            Kernels::Bytes { words, sums } => {
                let encoder = Encoder::data(x, Layout::Bytes);
                convolve_bytes(shape, x, encoder, words, &Channels::new(epilogue, sums, encoder), out);
            }
            Kernels::Terms(terms) => {
                let encoder = Encoder::data(x, Layout::Words);
                let channels = Channels::new(epilogue, &vec![0; shape.out_channels], encoder);
                match shape.kernel[1] * shape.kernel[2] <= SMALL_KERNEL {
                    true => convolve_numbers::<f32, T>(shape, x, encoder, terms, &channels, out),
                    false => convolve_numbers::<i32, T>(shape, x, encoder, terms, &channels, out),
                }
            }
        }
    }
}

/// Convolves the bytes in place.
fn convolve_bytes<T: OutputElement>(
    shape: &ConvShape,
    x: Int8<'_>,
    encoder: Encoder,
    words: &[i32],
    channels: &Channels,
    out: &mut [T],
) {
    let ([_, height, width], [_, rows, cols]) = (shape.input, shape.output());
    let (source, pixels, lanes) = (height * width, rows * cols, cols.next_multiple_of(LANES));
    let words_per_kernel = words.len() / shape.out_channels.max(1);
    // Output rows in a block, whose sums fit into the L1 cache.
    let block = (GRAIN / 4 / lanes.max(1)).clamp(1, rows.max(1));
    par::parallel_rows(out, pixels, GRAIN.div_ceil(pixels.max(1)), |i, out| {
        let channel = i % shape.out_channels;
        let convolve_bytes = ByteWindows {
            bytes: &x.bytes[i * source..][..source],
            size: [height, width],
            pad: [shape.pad[1], shape.pad[2]],
            zero: encoder.zero as u8,
            flip: encoder.flip,
            weights: &words[channel * words_per_kernel..][..words_per_kernel],
            kernel: [shape.kernel[1], shape.kernel[2]],
            stride: [shape.stride[1], shape.stride[2]],
            dilate: [shape.dilate[1], shape.dilate[2]],
        };
        with_scratch(block * lanes, |sums: &mut [i32]| {
            for (k, out) in out.chunks_mut(block * cols).enumerate() {
                let rows = k * block..k * block + out.len() / cols;
                let sums = &mut sums[..rows.len() * lanes];
                convolve_bytes.sums(rows, sums);
                multiversion::run(ConvertRows { sums, lanes, cols, channels, channel, out });
            }
        });
    });
}

/// Converts rows of sums, each padded to whole vectors, by the epilogue.
struct ConvertRows<'a, T> {
    sums: &'a [i32],
    lanes: usize,
    cols: usize,
    channels: &'a Channels,
    channel: usize,
    out: &'a mut [T],
}

impl<T: OutputElement> Multiversioned for ConvertRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let ConvertRows { sums, lanes, cols, channels, channel, out } = self;
        for (y, sums) in sums.chunks_exact(lanes).enumerate() {
            for (k, sums) in sums.as_chunks::<LANES>().0.iter().enumerate() {
                let mut results = [T::default(); LANES];
                channels.convert(channel, sums, &mut results);
                overwrite(&results, &mut out[y * cols + k * LANES..], cols - k * LANES);
            }
        }
    }
}

/// A type that sums products of 9-bit integers.
trait Number: Pod + Default + Send + Sync {
    fn of(term: i32) -> Self;
    /// `self + x * y`.
    fn add_product(self, x: Self, y: Self) -> Self;
    fn to_i32(self) -> i32;
}

/// Exact for integers of up to 22 bits.
impl Number for f32 {
    #[inline(always)]
    fn of(term: i32) -> f32 {
        term as f32
    }
    #[inline(always)]
    fn add_product(self, x: f32, y: f32) -> f32 {
        x.mul_add(y, self)
    }
    #[inline(always)]
    fn to_i32(self) -> i32 {
        // Adding this constant moves an integer to the low bits of the mantissa.
        const TO_LOW_BITS: f32 = (3u32 << 22) as f32;
        ((self + TO_LOW_BITS).to_bits() as i32).wrapping_sub(TO_LOW_BITS.to_bits() as i32)
    }
}

impl Number for i32 {
    #[inline(always)]
    fn of(term: i32) -> i32 {
        term
    }
    #[inline(always)]
    fn add_product(self, x: i32, y: i32) -> i32 {
        self.wrapping_add(x.wrapping_mul(y))
    }
    #[inline(always)]
    fn to_i32(self) -> i32 {
        self
    }
}

/// Convolves padded planes of widened elements.
fn convolve_numbers<N: Number, T: OutputElement>(
    shape: &ConvShape,
    x: Int8<'_>,
    encoder: Encoder,
    terms: &[i32],
    channels: &Channels,
    out: &mut [T],
) {
    let padded = PaddedLayout::new(shape, Layout::Words);
    let (source, pixels, taps) = (shape.input[1] * shape.input[2], padded.pixels(), padded.offsets.len());
    let weights: Vec<N> = terms.iter().map(|term| N::of(*term)).collect();
    par::parallel_rows(out, pixels, GRAIN.div_ceil(pixels.max(1)), |i, out| {
        let (channel, plane) = (i % shape.out_channels, &x.bytes[i * source..][..source]);
        with_scratch(padded.words(), |numbers: &mut [N]| {
            let (grids, rest) = numbers.split_at_mut(padded.group_words());
            rest.fill(N::default());
            multiversion::run(FillPhases { padded: &padded, plane, encoder, to: grids });
            let weights = &weights[channel * taps..][..taps];
            let kernel = Plane { padded: &padded, weights, channels, channel, numbers, out };
            match taps {
                9 => multiversion::run(Taps::<9, _, _>(kernel)),
                _ => multiversion::run(Taps::<1, _, _>(kernel)),
            }
        });
    });
}

/// Copies a plane to its phases, widened.
struct FillPhases<'a, N> {
    padded: &'a PaddedLayout,
    plane: &'a [u8],
    encoder: Encoder,
    to: &'a mut [N],
}

impl<N: Number> Multiversioned for FillPhases<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FillPhases { padded, plane, encoder, to } = self;
        fill_phases(padded, to, N::default(), &Numbers { plane, encoder });
    }
}

struct Numbers<'a> {
    plane: &'a [u8],
    encoder: Encoder,
}

impl<N: Number> FillRun<N> for Numbers<'_> {
    #[inline(always)]
    fn fill(&self, first: usize, stride: usize, to: &mut [N]) {
        let (flip, zero) = (self.encoder.flip, self.encoder.zero);
        each_strided(&self.plane[first..], stride, to.iter_mut(), |_, byte, to| {
            *to = N::of(i32::from(byte ^ flip) - zero);
        });
    }
}

/// The operands of the convolution of a plane.
struct Plane<'a, N, T> {
    padded: &'a PaddedLayout,
    weights: &'a [N],
    channels: &'a Channels,
    channel: usize,
    numbers: &'a [N],
    out: &'a mut [T],
}

/// The convolution of a plane whose number of taps is a multiple of `COUNT`, with the loop over taps unrolled by `COUNT`.
struct Taps<'a, const COUNT: usize, N, T>(Plane<'a, N, T>);

impl<const COUNT: usize, N: Number, T: OutputElement> Multiversioned for Taps<'_, COUNT, N, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Plane { padded, weights, channels, channel, numbers, out } = self.0;
        let ([_, width], [rows, cols]) = (padded.grid, padded.output);
        let (mut x, mut y) = (0, 0);
        let len = ((rows - 1) * width + cols).next_multiple_of(COLS);
        let taps = weights.as_chunks::<COUNT>().0.iter().zip(padded.offsets.values().as_chunks::<COUNT>().0);
        for position in (0..len).step_by(COLS) {
            let mut sums = [N::default(); COLS];
            for (weights, offsets) in taps.clone() {
                for (weight, offset) in weights.iter().zip(offsets) {
                    let terms = &numbers[position + offset..][..COLS];
                    for i in 0..COLS {
                        sums[i] = sums[i].add_product(terms[i], *weight);
                    }
                }
            }
            let mut integers = [0; COLS];
            for i in 0..COLS {
                integers[i] = sums[i].to_i32();
            }
            // Twice the length, because runs are copied as whole vectors.
            let mut results = [T::default(); 2 * COLS];
            let Some(converted) = results.first_chunk_mut::<COLS>() else { return };
            channels.convert(channel, &integers, converted);
            let mut lane = 0;
            while lane < COLS && y < rows {
                let run = (width - x).min(COLS - lane);
                if x < cols
                    && let Some(from) = results[lane..].first_chunk::<COLS>()
                {
                    overwrite(from, &mut out[y * cols + x..], run.min(cols - x));
                }
                (lane, x) = (lane + run, x + run);
                if x == width {
                    (x, y) = (0, y + 1);
                }
            }
        }
    }
}
