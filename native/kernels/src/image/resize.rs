//! Resizing of images by separable filters.
//!
//! Filters and the rounding of bytes are OpenCV's, so that results match those of programs that use it: pixel centers are at
//! halves, and bytes are weighted in fixed point with 11 fractional bits.

use crate::float::Accum;
use crate::math::ROUND;
use crate::par;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::memory;

use super::GRAIN;

/// The interpolation between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// Linear between 2 x 2 pixels.
    Linear,
    /// Cubic convolution over 4 x 4 pixels (Keys 1981, with a = -0.75).
    Cubic,
    /// The average over the source area of a pixel; linear when enlarging.
    Area,
    /// A Lanczos window over 8 x 8 pixels.
    Lanczos,
}

/// An element type of images that can be resized: `u8`, `f32` or `f64`.
#[expect(private_interfaces, reason = "no other crate resizes by its own filters")]
pub trait Pixel: Element {
    /// The accumulation type.
    type Sum: Accum;
    /// Weighted sums: of bytes in fixed point, of other types in floating point.
    fn weighted_sums(src: &[Self], shape: &Shape, filters: &(Filter, Filter), dst: &mut [Self]) {
        float_sums(src, shape, filters, dst, Ties::ToEven);
    }
}

#[expect(private_interfaces, reason = "as in the trait")]
impl Pixel for u8 {
    type Sum = f32;
    fn weighted_sums(src: &[Self], shape: &Shape, filters: &(Filter, Filter), dst: &mut [Self]) {
        match filters.0.num_taps() {
            2 => weighted_bytes::<2>(src, shape, filters, dst),
            4 => weighted_bytes::<4>(src, shape, filters, dst),
            _ => weighted_bytes::<8>(src, shape, filters, dst),
        }
    }
}
impl Pixel for f32 {
    type Sum = f32;
}
impl Pixel for f64 {
    type Sum = f64;
}

/// Fractional bits of a fixed-point weight.
const FRACTION_BITS: u32 = 11;

/// Source pixels per result pixel, rounded as in OpenCV: the rounding decides on which side of an integer a coordinate lies.
fn scale(from: usize, to: usize) -> f64 {
    (to as f64 / from as f64).recip()
}

/// A filter along an axis: for each pixel of the result, the indices of source pixels and their weights.
struct Filter {
    /// Index of the first tap of each pixel, and the number of taps.
    starts: Vec<usize>,
    taps: Vec<(usize, f32)>,
}

impl Filter {
    fn new(len: usize, taps: impl Fn(usize, &mut Vec<(usize, f32)>)) -> Filter {
        let mut filter = Filter { starts: vec![0], taps: Vec::new() };
        for i in 0..len {
            taps(i, &mut filter.taps);
            filter.starts.push(filter.taps.len());
        }
        filter
    }

    fn at(&self, i: usize) -> &[(usize, f32)] {
        &self.taps[self.starts[i]..self.starts[i + 1]]
    }

    /// The number of taps of each pixel, for a filter in which it is the same for all.
    fn num_taps(&self) -> usize {
        self.starts.get(1).copied().unwrap_or(0)
    }

    /// The taps of each pixel in fixed point. `pixel_stride` is the stride between source pixels, in elements.
    fn fixed_point<const N: usize>(&self, pixel_stride: usize) -> Vec<FixedTaps<N>> {
        let weight = |weight: f32| (weight * (1 << FRACTION_BITS) as f32).round_ties_even() as i32;
        let (taps, _) = self.taps.as_chunks::<N>();
        taps.iter()
            .map(|taps| FixedTaps { offsets: taps.map(|t| t.0 * pixel_stride), weights: taps.map(|t| weight(t.1)) })
            .collect()
    }

    /// A window of N taps around the source coordinate x of each pixel: source pixels from floor(x) + `first` on, clamped to the
    /// edge, with `weights(x - floor(x))`.
    fn window<const N: usize>(from: usize, to: usize, first: isize, weights: impl Fn(f32) -> [f32; N]) -> Filter {
        let scale = scale(from, to);
        Filter::new(to, |i, taps| {
            let x = ((i as f64 + 0.5) * scale - 0.5) as f32;
            let low = x.floor();
            let index = |k: usize| (low as isize + first + k as isize).clamp(0, from as isize - 1) as usize;
            taps.extend(weights(x - low).into_iter().enumerate().map(|(k, w)| (index(k), w)));
        })
    }

    fn cubic(x: f32) -> [f32; 4] {
        const A: f32 = -0.75;
        let far = |d: f32| ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
        let near = |d: f32| ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0;
        let (a, b, c) = (far(x + 1.0), near(x), near(1.0 - x));
        [a, b, c, 1.0 - a - b - c]
    }

    fn lanczos(x: f32) -> [f32; 8] {
        if x < f32::EPSILON {
            return std::array::from_fn(|k| if k == 3 { 1.0 } else { 0.0 });
        }
        let window = |d: f64| {
            let t = std::f64::consts::PI * d;
            t.sin() * (t / 4.0).sin() / (t * t / 4.0)
        };
        let raw: [f64; 8] = std::array::from_fn(|k| window(f64::from(x) + 3.0 - k as f64));
        let sum: f64 = raw.iter().sum();
        raw.map(|w| (w / sum) as f32)
    }

    /// A box filter: the fraction of the source area of a pixel that each source pixel covers.
    fn area(from: usize, to: usize) -> Filter {
        let scale = scale(from, to);
        Filter::new(to, |i, taps| {
            let (low, high) = (i as f64 * scale, (i as f64 + 1.0) * scale);
            let size = scale.min(from as f64 - low);
            for k in low.floor() as usize..(high.ceil() as usize).min(from) {
                let fraction = (high.min(k as f64 + 1.0) - low.max(k as f64)) / size;
                if fraction > 1e-3 / size {
                    taps.push((k, fraction as f32));
                }
            }
        })
    }

    /// Linear, with pixel edges (rather than centers) at integer coordinates.
    fn enlarging_area(from: usize, to: usize) -> Filter {
        let (scale, inverse) = (scale(from, to), to as f64 / from as f64);
        Filter::new(to, |i, taps| {
            let low = (i as f64 * scale).floor();
            let x = ((i as f64 + 1.0) - (low + 1.0) * inverse) as f32;
            let x = if x <= 0.0 { 0.0 } else { x - x.floor() };
            let low = (low as usize).min(from - 1);
            taps.extend([(low, 1.0 - x), ((low + 1).min(from - 1), x)]);
        })
    }
}

/// Resizes images, (images, height, width, channels), to (images, `out_height`, `out_width`, channels).
///
/// # Panics
/// Panics if a length does not match, or the images of one side are empty and those of the other are not.
pub fn resize<T: Pixel>(
    src: &[T],
    (height, width, channels): (usize, usize, usize),
    (out_height, out_width): (usize, usize),
    interpolation: Interpolation,
    dst: &mut [T],
) {
    let (len, out_len) = (height * width * channels, out_height * out_width * channels);
    let num_images = dst.len().checked_div(out_len).unwrap_or(0);
    assert_eq!(dst.len(), num_images * out_len, "the results do not have this shape");
    assert!(src.len() == num_images * len && (len > 0 || dst.is_empty()), "the sources do not have this shape");
    for (src, dst) in src.chunks_exact(len.max(1)).zip(dst.chunks_exact_mut(out_len.max(1))) {
        resize_image(src, (height, width, channels), (out_height, out_width), interpolation, dst);
    }
}

fn resize_image<T: Pixel>(
    src: &[T],
    (height, width, channels): (usize, usize, usize),
    (out_height, out_width): (usize, usize),
    interpolation: Interpolation,
    dst: &mut [T],
) {
    let is_halved = (height, width) == (2 * out_height, 2 * out_width);
    // OpenCV has vectorized loops for these numbers of channels, which round halves up.
    let ties = if is_halved && matches!(channels, 1 | 3 | 4) { Ties::Up } else { Ties::ToEven };
    let is_shrinking = out_height <= height && out_width <= width;
    let is_bytes = T::DTYPE == DType::U8;
    let shape = Shape { from: (height, width), to: (out_height, out_width), channels };
    let for_both_axes = |f: &dyn Fn(usize, usize) -> Filter| (f(height, out_height), f(width, out_width));
    match interpolation {
        Interpolation::Nearest => nearest(src, &shape, dst),
        Interpolation::Linear if is_bytes && is_halved => {
            float_sums(src, &shape, &for_both_axes(&Filter::area), dst, ties)
        }
        Interpolation::Area if is_shrinking => float_sums(src, &shape, &for_both_axes(&Filter::area), dst, ties),
        Interpolation::Area => T::weighted_sums(src, &shape, &for_both_axes(&Filter::enlarging_area), dst),
        Interpolation::Linear => {
            T::weighted_sums(src, &shape, &for_both_axes(&|a, b| Filter::window(a, b, 0, |x| [1.0 - x, x])), dst);
        }
        Interpolation::Cubic => {
            T::weighted_sums(src, &shape, &for_both_axes(&|a, b| Filter::window(a, b, -1, Filter::cubic)), dst)
        }
        Interpolation::Lanczos => {
            T::weighted_sums(src, &shape, &for_both_axes(&|a, b| Filter::window(a, b, -3, Filter::lanczos)), dst)
        }
    }
}

struct Shape {
    from: (usize, usize),
    to: (usize, usize),
    channels: usize,
}

impl Shape {
    /// Rows per chunk.
    fn grain(&self) -> usize {
        (GRAIN / (self.to.1 * self.channels).max(1)).max(1)
    }
}

fn nearest<T: Element>(src: &[T], shape: &Shape, dst: &mut [T]) {
    let source_index =
        |i: usize, from: usize, to: usize| ((i as f64 * scale(from, to)).floor() as usize).min(from.saturating_sub(1));
    let n = shape.channels;
    let columns: Vec<usize> = (0..shape.to.1).map(|i| source_index(i, shape.from.1, shape.to.1) * n).collect();
    par::parallel_rows(dst, shape.to.1 * n, shape.grain(), |row, dst| {
        let src = &src[source_index(row, shape.from.0, shape.to.0) * shape.from.1 * n..];
        dst.chunks_exact_mut(n).zip(&columns).for_each(|(dst, at)| dst.copy_from_slice(&src[*at..at + n]));
    });
}

/// Filters all source rows horizontally into a buffer, then vertically. `horizontal(row, taps, channel)` and `vertical(taps,
/// index)` return the weighted sum of the taps of an element.
fn separable<T: Element, S: Copy + Default + Send + Sync>(
    src: &[T],
    shape: &Shape,
    (rows, columns): &(Filter, Filter),
    dst: &mut [T],
    horizontal: impl Fn(&[T], &[(usize, f32)], usize) -> S + Sync,
    vertical: impl Fn(&[(&[S], f32)], usize) -> T + Sync,
) {
    let (n, width, out) = (shape.channels, shape.from.1 * shape.channels, shape.to.1 * shape.channels);
    let mut horizontal_sums = memory::filled(S::default(), shape.from.0 * out);
    par::parallel_rows(&mut horizontal_sums, out, shape.grain(), |row, horizontal_sums| {
        let src = &src[row * width..][..width];
        for (i, pixel) in horizontal_sums.chunks_exact_mut(n).enumerate() {
            let taps = columns.at(i);
            for (c, sum) in pixel.iter_mut().enumerate() {
                *sum = horizontal(src, taps, c);
            }
        }
    });
    par::parallel_rows(dst, out, shape.grain(), |row, dst| {
        let taps: Vec<(&[S], f32)> =
            rows.at(row).iter().map(|(at, weight)| (&horizontal_sums[at * out..][..out], *weight)).collect();
        dst.iter_mut().enumerate().for_each(|(i, dst)| *dst = vertical(&taps, i));
    });
}

/// How a sum halfway between two bytes is rounded.
#[derive(Clone, Copy)]
enum Ties {
    ToEven,
    Up,
}

/// Weighted sums in floating point; bytes are rounded to nearest.
fn float_sums<T: Pixel>(src: &[T], shape: &Shape, filters: &(Filter, Filter), dst: &mut [T], ties: Ties) {
    let (is_bytes, n) = (T::DTYPE == DType::U8, shape.channels);
    separable(
        src,
        shape,
        filters,
        dst,
        |src, taps, c| taps.iter().map(|(at, w)| T::Sum::of(src[at * n + c]) * T::Sum::of(*w)).sum::<T::Sum>(),
        |taps, i| {
            let sum: T::Sum = taps.iter().map(|(row, weight)| row[i] * T::Sum::of(*weight)).sum();
            match (is_bytes, ties) {
                (false, _) => sum.store(),
                (true, Ties::Up) => T::from_f64((sum.wide() + 0.5).floor().clamp(0.0, 255.0)),
                (true, Ties::ToEven) => T::from_f64(sum.wide().round_ties_even().clamp(0.0, 255.0)),
            }
        },
    );
}

/// The taps of one pixel in fixed point.
struct FixedTaps<const N: usize> {
    /// The offset of each tap in a source row, or the index of its row.
    offsets: [usize; N],
    weights: [i32; N],
}

/// Weighted sums of bytes in fixed point, with `N` taps for each pixel.
fn weighted_bytes<const N: usize>(src: &[u8], shape: &Shape, filters: &(Filter, Filter), dst: &mut [u8]) {
    let (n, width, out) = (shape.channels, shape.from.1 * shape.channels, shape.to.1 * shape.channels);
    let (rows, columns) = (filters.0.fixed_point::<N>(1), filters.1.fixed_point::<N>(n));
    let mut horizontal_sums = memory::filled(0, shape.from.0 * out);
    par::parallel_rows(&mut horizontal_sums, out, shape.grain(), |row, horizontal_sums| {
        let src = &src[row * width..][..width];
        for (pixel, taps) in horizontal_sums.chunks_exact_mut(n).zip(&columns) {
            let sources = taps.offsets.map(|start| &src[start..start + n]);
            for (c, sum) in pixel.iter_mut().enumerate() {
                *sum = (0..N).map(|k| taps.weights[k] * i32::from(sources[k][c])).sum::<i32>();
            }
        }
    });
    par::parallel_rows(dst, out, shape.grain(), |row, dst| {
        let taps = &rows[row];
        let sources = taps.offsets.map(|row| &horizontal_sums[row * out..][..out]);
        // With four taps, OpenCV sums full vectors of eight elements in floating point and the tail of a row in integers.
        let vectors = if N == 4 { out / 8 * 8 } else { 0 };
        let (head, tail) = dst.split_at_mut(vectors);
        sum_in_floats(sources.map(|row| &row[..vectors]), taps.weights, head);
        let sources = sources.map(|row| &row[vectors..]);
        if N == 2 { sum_two(sources, taps.weights, tail) } else { sum_in_integers(sources, taps.weights, tail) }
    });
}

/// Weighted sums of the rows, rounded to nearest, ties to even.
fn sum_in_floats<const N: usize>(rows: [&[i32]; N], weights: [i32; N], dst: &mut [u8]) {
    let weights = weights.map(|w| w as f32 * ((1 << (2 * FRACTION_BITS)) as f32).recip());
    let rows = rows.map(|row| &row[..dst.len()]);
    for (i, dst) in dst.iter_mut().enumerate() {
        let sum: f32 = (0..N).map(|k| rows[k][i] as f32 * weights[k]).sum();
        *dst = ((sum + ROUND).to_bits() as i32 - ROUND.to_bits() as i32).clamp(0, 255) as u8;
    }
}

/// Weighted sums of two rows, with less precision, as OpenCV's 16-bit vectors compute them.
fn sum_two<const N: usize>(rows: [&[i32]; N], weights: [i32; N], dst: &mut [u8]) {
    let term = |k: usize, i: usize| (weights[k] * (rows[k][i] >> 4)) >> 16;
    for (i, dst) in dst.iter_mut().enumerate() {
        *dst = ((term(0, i) + term(1, i) + 2) >> 2).clamp(0, 255) as u8;
    }
}

/// Weighted sums of the rows, rounded to nearest, ties up.
fn sum_in_integers<const N: usize>(rows: [&[i32]; N], weights: [i32; N], dst: &mut [u8]) {
    for (i, dst) in dst.iter_mut().enumerate() {
        let sum: i64 = (0..N).map(|k| i64::from(weights[k]) * i64::from(rows[k][i])).sum();
        *dst = ((sum + (1 << (2 * FRACTION_BITS - 1))) >> (2 * FRACTION_BITS)).clamp(0, 255) as u8;
    }
}
