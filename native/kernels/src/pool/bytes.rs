//! Max pooling of 8-bit integers.

use super::strided::each_strided;
use super::{Axis, PoolShape};
use crate::par::{parallel_rows, with_scratch};
use crate::simd::multiversion::{self, Multiversioned};

/// Max pooling of `u8` elements, or of the bits of `i8` elements if `is_signed`. A window without elements gives the lowest
/// integer.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies, or a stride is zero.
pub fn max_pool_bytes(shape: &PoolShape, is_signed: bool, input: &[u8], output: &mut [u8]) {
    shape.check(input.len(), output.len());
    let (plane, axes) = (shape.input_plane(), shape.axes());
    let flip = if is_signed { 0x80 } else { 0 };
    parallel_rows(output, shape.output_plane(), shape.grain(), |i, out| {
        let image = &input[i * plane..(i + 1) * plane];
        let width = axes[2].input;
        with_scratch(width * shape.inner + 2 * width.div_ceil(2), |scratch: &mut [u8]| {
            let (columns, halves) = scratch.split_at_mut(width * shape.inner);
            multiversion::run(Plane { axes: &axes, inner: shape.inner, flip, image, columns, halves, out });
        });
    });
}

/// Max pooling of a plane.
struct Plane<'a> {
    axes: &'a [Axis; 3],
    inner: usize,
    /// XORed with the bytes: makes signed bytes unsigned and keeps their order.
    flip: u8,
    image: &'a [u8],
    /// Scratch: the maxima of the columns of a window of rows.
    columns: &'a mut [u8],
    /// Scratch: the even columns, then the odd ones.
    halves: &'a mut [u8],
    out: &'a mut [u8],
}

impl Multiversioned for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Plane { axes: [depth, height, width], inner, flip, image, columns, halves, out } = self;
        let (evens, odds) = halves.split_at_mut(halves.len() / 2);
        let larger = |max: &mut u8, x: &u8| *max = (*max).max(*x);
        let offsets = width.offsets();
        for (r, out) in out.chunks_exact_mut((width.output * inner).max(1)).enumerate() {
            columns.fill(0);
            for d in depth.window(r / height.output) {
                for h in height.window(r % height.output) {
                    let row = &image[(d * height.input + h) * columns.len()..][..columns.len()];
                    columns.iter_mut().zip(row).for_each(|(max, x)| larger(max, &(x ^ flip)));
                }
            }
            out.fill(0);
            let is_halved = inner == 1 && width.stride == 2;
            if is_halved {
                let (pairs, last) = columns.as_chunks::<2>();
                for ((pair, even), odd) in pairs.iter().zip(&mut *evens).zip(&mut *odds) {
                    [*even, *odd] = *pair;
                }
                evens[pairs.len()..].copy_from_slice(last);
            }
            for (outputs, coordinate) in &offsets {
                let (out, from) =
                    (&mut out[outputs.start * inner..outputs.end * inner], &columns[coordinate * inner..]);
                if is_halved {
                    let half = if coordinate % 2 == 0 { &evens[coordinate / 2..] } else { &odds[coordinate / 2..] };
                    out.iter_mut().zip(half).for_each(|(max, x)| larger(max, x));
                    continue;
                }
                if inner == 1 {
                    each_strided(from, width.stride, out.iter_mut(), |_, x, max| larger(max, &x));
                    continue;
                }
                for (out, from) in out.chunks_exact_mut(inner).zip(from.chunks(width.stride * inner)) {
                    out.iter_mut().zip(from).for_each(|(max, x)| larger(max, x));
                }
            }
            out.iter_mut().for_each(|max| *max ^= flip);
        }
    }
}
