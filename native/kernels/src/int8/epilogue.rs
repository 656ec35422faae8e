//! The epilogue of integer products: converts the sums of a tile.

use super::Encoder;
use crate::math::ROUND;
use crate::simd::int8::{ByteRange, COLS, Conversion, Layout, ROWS, Sums, Tile};
use crate::simd::per_isa;
use ferromx_core::dtype::DType;

/// The bounds of the results.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The lower bound, before the zero point is added.
    pub low: f32,
    /// The upper bound, before the zero point is added.
    pub high: f32,
    /// The zero point of results in 8 bits.
    pub zero: i32,
}

impl Limits {
    /// No bounds: for results in 32 bits.
    pub const NONE: Limits = Limits { low: f32::NEG_INFINITY, high: f32::INFINITY, zero: 0 };

    /// The range of an 8-bit type, intersected with `clamp`, which is in units of the results.
    pub fn of(dtype: DType, zero: i32, clamp: [f32; 2]) -> Limits {
        let (low, high) = if dtype == DType::I8 { (-128, 127) } else { (0, 255) };
        let (low, high) = ((low - zero) as f32, (high - zero) as f32);
        let [low, high] = clamp.map(|bound| bound.max(low).min(high));
        Limits { low, high, zero }
    }

    /// Clamps a value to the bounds; NaN becomes `low`.
    #[inline(always)]
    fn clamp(&self, x: f32) -> f32 {
        let x = if x > self.low { x } else { self.low };
        if x < self.high { x } else { self.high }
    }
}

/// The results of a tile, row by row. The extra row lets a whole row be read from any column.
type Results<T> = [T; (ROWS + 1) * COLS];

/// The type of the results.
pub trait OutputElement: Copy + Default + Send + Sync + 'static {
    /// True for the sums themselves. Their conversion is so short that, for AVX-512, it would be compiled across rows, with scatters.
    #[doc(hidden)]
    const IS_SUM: bool = false;

    /// Converts a sum.
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> Self;

    /// The results, if they are bytes.
    #[doc(hidden)]
    fn bytes(_: &mut Results<Self>) -> Option<&mut Results<u8>> {
        None
    }
}

/// The sum itself.
impl OutputElement for i32 {
    const IS_SUM: bool = true;

    #[inline(always)]
    fn of(sum: i32, _: f32, _: f32, _: &Limits) -> i32 {
        sum
    }
}

/// `sum * scale + shift` within the limits.
impl OutputElement for f32 {
    #[inline(always)]
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> f32 {
        limits.clamp(sum as f32 * scale + shift)
    }
}

/// The integer nearest to `sum * scale + shift`, ties to even, within the limits, plus the zero point; an `i8` as its bits.
impl OutputElement for u8 {
    #[inline(always)]
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> u8 {
        let x = limits.clamp(sum as f32 * scale + shift);
        ((x + ROUND).to_bits() as i32).wrapping_add(limits.zero) as u8
    }

    fn bytes(results: &mut Results<u8>) -> Option<&mut Results<u8>> {
        Some(results)
    }
}

/// Converts sums to `(sum + bias) * scale + shift`, clamped to the limits, as defined by [`OutputElement`].
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Added to the sums, one per output channel; none if empty.
    pub bias: &'a [i32],
    /// One per output channel; 1 if empty.
    pub scale: &'a [f32],
    /// One per output channel; 0 if empty.
    pub shift: &'a [f32],
    /// The bounds of the results.
    pub limits: Limits,
}

impl Epilogue<'_> {
    /// Leaves the sums unchanged.
    pub const SUMS: Epilogue<'static> = Epilogue { bias: &[], scale: &[], shift: &[], limits: Limits::NONE };

    pub(super) fn check(&self, channels: usize) {
        let fits = |len: usize| len == 0 || len == channels;
        assert!(fits(self.bias.len()), "{} biases of {channels} channels", self.bias.len());
        assert!(fits(self.scale.len()) && fits(self.shift.len()), "scales or shifts of {channels} channels");
    }
}

/// The constants of the epilogue for each output channel.
pub(super) struct Channels {
    /// Bias, corrected for the zero point of the data.
    init: Vec<i32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    limits: Limits,
    /// The range of 8-bit results, if the conversion is simple enough for [`Tile::multiply_to_bytes`].
    range: Option<ByteRange>,
}

/// The range of 8-bit results, if there is no shift and the scaled sums fit into 32 bits.
fn byte_range(epilogue: &Epilogue<'_>) -> Option<ByteRange> {
    const MAX_SCALE: f32 = 0.99;
    let Limits { low, high, zero } = epilogue.limits;
    let is_small = |scale: &f32| scale.abs() <= MAX_SCALE;
    let no_shift = epilogue.shift.iter().all(|shift| *shift == 0.0);
    if epilogue.scale.is_empty() || !no_shift || !epilogue.scale.iter().all(is_small) || !low.is_finite() {
        return None;
    }
    let [low, high] = [low, high].map(|bound| bound.round_ties_even() as i32 + zero);
    let is_signed = low < 0;
    Some(ByteRange { zero: i16::try_from(zero).ok()?, is_signed, low: low as u8, high: high as u8 })
}

impl Channels {
    /// The constants for weights that sum to `sums` in each channel, and for data encoded by `data`. Padded to whole tiles.
    pub(super) fn new(epilogue: &Epilogue<'_>, sums: &[i32], data: Encoder) -> Channels {
        let len = sums.len().next_multiple_of(COLS);
        let get = |values: &[f32], i: usize, default: f32| values.get(i).copied().unwrap_or(default);
        let init = |i: usize| {
            let bias = epilogue.bias.get(i).copied().unwrap_or(0);
            sums.get(i).map_or(0, |sum| bias.wrapping_sub(sum.wrapping_mul(data.zero)))
        };
        Channels {
            init: (0..len).map(init).collect(),
            scale: (0..len).map(|i| get(epilogue.scale, i, 1.0)).collect(),
            shift: (0..len).map(|i| get(epilogue.shift, i, 0.0)).collect(),
            limits: epilogue.limits,
            range: byte_range(epilogue),
        }
    }

    /// Computes a tile and converts it. Output channels start at `first`: along columns if rows are data, else along rows.
    pub(super) fn multiply<T: OutputElement>(
        &self,
        first: usize,
        tile: &Tile<'_>,
        layout: Layout,
        sums: &mut Sums,
        out: &mut Results<T>,
    ) {
        let channels = first..first + if tile.has_data_rows { COLS } else { ROWS };
        if let (Layout::Bytes, Some(range), Some(out)) = (layout, self.range, T::bytes(out)) {
            let (init, scale) = (&self.init[channels.clone()], &self.scale[channels]);
            return tile.multiply_to_bytes(&Conversion { init, scale, range }, out);
        }
        tile.multiply(layout, sums);
        match tile.has_data_rows {
            true => self.convert_cols(first, sums, out),
            false => self.convert_rows(first, sums, out),
        }
    }

    /// Converts a tile whose rows are the channels starting at `first`.
    fn convert_rows<T: OutputElement>(&self, first: usize, sums: &Sums, out: &mut Results<T>) {
        let (init, scale) = (&self.init[first..first + ROWS], &self.scale[first..first + ROWS]);
        rows(sums, init, scale, &self.shift[first..first + ROWS], &self.limits, out);
    }

    /// Converts a tile whose columns are the channels starting at `first`.
    fn convert_cols<T: OutputElement>(&self, first: usize, sums: &Sums, out: &mut Results<T>) {
        let (init, scale) = (&self.init[first..first + COLS], &self.scale[first..first + COLS]);
        cols(sums, init, scale, &self.shift[first..first + COLS], &self.limits, out);
    }

    /// Converts sums of a single channel.
    #[inline(always)]
    pub(super) fn convert<T: OutputElement, const N: usize>(&self, channel: usize, sums: &[i32; N], out: &mut [T; N]) {
        let (init, scale, shift) = (self.init[channel], self.scale[channel], self.shift[channel]);
        for i in 0..N {
            out[i] = T::of(sums[i].wrapping_add(init), scale, shift, &self.limits);
        }
    }
}

/// Copies the first `len` elements of `from` to the start of `to`. May overwrite up to N elements, which the caller writes later.
#[inline(always)]
pub(super) fn overwrite<T: Copy, const N: usize>(from: &[T; N], to: &mut [T], len: usize) {
    match to.first_chunk_mut::<N>() {
        Some(to) => *to = *from,
        None => to[..len.min(N)].copy_from_slice(&from[..len.min(N)]),
    }
}

per_isa! {
    avx512 if !T::IS_SUM;
    fn rows<T: OutputElement>(
        sums: &Sums,
        init: &[i32],
        scale: &[f32],
        shift: &[f32],
        limits: &Limits,
        out: &mut Results<T>,
    ) {
        let tiles = out.as_chunks_mut::<COLS>().0.iter_mut().zip(sums.as_chunks::<COLS>().0);
        for ((out, sums), ((init, scale), shift)) in tiles.zip(init.iter().zip(scale).zip(shift)) {
            for i in 0..COLS {
                out[i] = T::of(sums[i].wrapping_add(*init), *scale, *shift, limits);
            }
        }
    }
}

per_isa! {
    avx512 if !T::IS_SUM;
    fn cols<T: OutputElement>(
        sums: &Sums,
        init: &[i32],
        scale: &[f32],
        shift: &[f32],
        limits: &Limits,
        out: &mut Results<T>,
    ) {
        let (init, scale, shift) = (&init[..COLS], &scale[..COLS], &shift[..COLS]);
        for (out, sums) in out.as_chunks_mut::<COLS>().0.iter_mut().zip(sums.as_chunks::<COLS>().0) {
            for i in 0..COLS {
                out[i] = T::of(sums[i].wrapping_add(init[i]), scale[i], shift[i], limits);
            }
        }
    }
}
