//! What happens to the sums of a tile.

use super::Encoder;
use crate::simd::int8::{COLS, ROWS, Sums};
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

    /// The range of an 8-bit type, within `clamp`, which is in steps of the results.
    pub fn of(dtype: DType, zero: i32, clamp: [f32; 2]) -> Limits {
        let (low, high) = if dtype == DType::I8 { (-128, 127) } else { (0, 255) };
        let (low, high) = ((low - zero) as f32, (high - zero) as f32);
        let [low, high] = clamp.map(|bound| bound.max(low).min(high));
        Limits { low, high, zero }
    }
}

/// The type of the results.
pub trait OutputElement: Copy + Default + Send + Sync + 'static {
    /// Converts a sum.
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> Self;
}

/// The sum itself.
impl OutputElement for i32 {
    #[inline(always)]
    fn of(sum: i32, _: f32, _: f32, _: &Limits) -> i32 {
        sum
    }
}

/// `sum * scale + shift` within the limits.
impl OutputElement for f32 {
    #[inline(always)]
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> f32 {
        (sum as f32 * scale + shift).max(limits.low).min(limits.high)
    }
}

/// The integer nearest to `sum * scale + shift`, ties to even, within the limits, plus the zero point; `i8` by its bits.
impl OutputElement for u8 {
    #[inline(always)]
    fn of(sum: i32, scale: f32, shift: f32, limits: &Limits) -> u8 {
        // Adding this number rounds a small one into the low bits.
        const ROUND: f32 = (3u32 << 22) as f32;
        let x = (sum as f32 * scale + shift).max(limits.low).min(limits.high);
        ((x + ROUND).to_bits() as i32).wrapping_add(limits.zero) as u8
    }
}

/// Converts the sums: `(sum + bias) * scale + shift` within the limits, as [`OutputElement`] says.
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
    /// Returns the sums as they are.
    pub const SUMS: Epilogue<'static> = Epilogue { bias: &[], scale: &[], shift: &[], limits: Limits::NONE };

    pub(super) fn check(&self, channels: usize) {
        let fits = |len: usize| len == 0 || len == channels;
        assert!(fits(self.bias.len()), "{} biases of {channels} channels", self.bias.len());
        assert!(fits(self.scale.len()) && fits(self.shift.len()), "scales or shifts of {channels} channels");
    }
}

/// The epilogue of each output channel.
pub(super) struct Channels {
    init: Vec<i32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    limits: Limits,
}

impl Channels {
    /// For weights whose terms add up to `sums` in each channel, and data of `data`'s zero point. Padded to whole tiles.
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
        }
    }

    /// Converts a tile whose rows are the channels from `first` on.
    pub(super) fn finish_rows<T: OutputElement>(&self, first: usize, sums: &Sums, out: &mut [T; ROWS * COLS]) {
        let (init, scale) = (&self.init[first..first + ROWS], &self.scale[first..first + ROWS]);
        rows(sums, init, scale, &self.shift[first..first + ROWS], &self.limits, out);
    }

    /// Converts a tile whose columns are the channels from `first` on.
    pub(super) fn finish_cols<T: OutputElement>(&self, first: usize, sums: &Sums, out: &mut [T; ROWS * COLS]) {
        let (init, scale) = (&self.init[first..first + COLS], &self.scale[first..first + COLS]);
        cols(sums, init, scale, &self.shift[first..first + COLS], &self.limits, out);
    }

    /// Converts sums of one channel.
    pub(super) fn finish<T: OutputElement>(&self, channel: usize, sums: &[i32], out: &mut [T]) {
        line(sums, self.init[channel], self.scale[channel], self.shift[channel], &self.limits, out);
    }
}

per_isa! {
    fn rows<T: OutputElement>(
        sums: &Sums,
        init: &[i32],
        scale: &[f32],
        shift: &[f32],
        limits: &Limits,
        out: &mut [T; ROWS * COLS],
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
    fn cols<T: OutputElement>(
        sums: &Sums,
        init: &[i32],
        scale: &[f32],
        shift: &[f32],
        limits: &Limits,
        out: &mut [T; ROWS * COLS],
    ) {
        let (init, scale, shift) = (&init[..COLS], &scale[..COLS], &shift[..COLS]);
        for (out, sums) in out.as_chunks_mut::<COLS>().0.iter_mut().zip(sums.as_chunks::<COLS>().0) {
            for i in 0..COLS {
                out[i] = T::of(sums[i].wrapping_add(init[i]), scale[i], shift[i], limits);
            }
        }
    }
}

per_isa! {
    fn line<T: OutputElement>(sums: &[i32], init: i32, scale: f32, shift: f32, limits: &Limits, out: &mut [T]) {
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = T::of(sum.wrapping_add(init), scale, shift, limits);
        }
    }
}
