//! Permutation of axes.

use super::runs::interleave;
use super::strided::gather;
use super::{Axis, GRAIN, Item, check_permutation, check_shape, contiguous, merge_axes, offset_of};
use crate::item::{bits, bits_mut};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::GemmElement;
use crate::simd::multiversion::{self, Multiversioned};
use crate::simd::prefetch;

/// Permutes the axes of `src`: axis `i` of the result is axis `perm[i]` of the source.
///
/// # Panics
/// Panics if `perm` is not a permutation of the axes, or a length does not match.
pub fn transpose<T: Item>(src: &[T], shape: &[usize], perm: &[usize], dst: &mut [T]) {
    check_shape(src.len(), shape);
    assert_eq!(src.len(), dst.len(), "a transposition keeps the number of elements");
    check_permutation(perm, shape);
    if src.is_empty() {
        return;
    }
    let strides = contiguous(shape);
    let axes = merge_axes(perm.iter().map(|&p| Axis { n: shape[p], stride: strides[p] }));
    let row = axes.iter().position(|a| a.stride == 1);
    match row {
        // The innermost axis of the source stays innermost, or there is no axis at all.
        None => gather(src, 0, &axes, dst),
        Some(row) if row + 1 == axes.len() => gather(src, 0, &axes, dst),
        Some(row) => transpose_tiles(src, &axes, row, dst),
    }
}

/// Transposes tiles of the innermost axis and the axis `row`, along which the source is contiguous.
fn transpose_tiles<T: Item>(src: &[T], axes: &[Axis], row: usize, dst: &mut [T]) {
    match size_of::<T>() {
        1 => transpose_sized::<u8, 32>(bits(src), axes, row, bits_mut(dst)),
        2 => transpose_sized::<u16, 32>(bits(src), axes, row, bits_mut(dst)),
        4 => transpose_sized::<u32, 16>(bits(src), axes, row, bits_mut(dst)),
        _ => transpose_sized::<u64, 16>(bits(src), axes, row, bits_mut(dst)),
    }
}

/// [`transpose_tiles`] with tiles of B x B elements.
fn transpose_sized<T: Item, const B: usize>(src: &[T], axes: &[Axis], row: usize, dst: &mut [T]) {
    let (outer, rest) = axes.split_at(row);
    let pitch: usize = rest[1..].iter().map(|a| a.n).product();
    let size = rest[0].n * pitch;
    let transpose_block = |base: usize, dst: &mut [T]| {
        multiversion::run(TransposeBlock::<T, B> { src: &src[base..], axes: rest, pitch, dst })
    };
    if size >= 2 * GRAIN {
        for (o, dst) in dst.chunks_mut(size).enumerate() {
            let base = offset_of(outer, o) as usize;
            par::parallel_rows(dst, B * pitch, (GRAIN / (B * pitch)).max(1), |i, dst| {
                transpose_block(base + i * B, dst)
            });
        }
    } else {
        par::parallel_rows(dst, size, (GRAIN / size).max(1), |o, dst| {
            transpose_block(offset_of(outer, o) as usize, dst)
        });
    }
}

/// A block of source columns, which become destination rows with a stride of `pitch`.
struct TransposeBlock<'a, T, const B: usize> {
    src: &'a [T],
    axes: &'a [Axis],
    pitch: usize,
    dst: &'a mut [T],
}

impl<T: Item, const B: usize> Multiversioned for TransposeBlock<'_, T, B> {
    type Output = ();
    /// For AVX-512, partial tiles would be compiled with scatters.
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let Some((&inner, middle)) = self.axes[1..].split_last() else { return };
        let rows = self.dst.len() / self.pitch;
        if middle.is_empty() && inner.n < B && rows >= B {
            return transpose_narrow::<T, B>(self.src, inner, self.dst);
        }
        for m in 0..self.pitch / inner.n {
            let base = offset_of(middle, m) as usize;
            // Tiles that are narrow in one direction are longer in the other.
            let tile_len = |other: usize| if other < B { 8 * B } else { B };
            let (down, across) = (tile_len(inner.n), tile_len(rows));
            for i in (0..rows).step_by(down) {
                for j in (0..inner.n).step_by(across) {
                    let src = &self.src[base + i + j * inner.stride as usize..];
                    let dst = &mut self.dst[i * self.pitch + m * inner.n + j..];
                    let size = ((rows - i).min(down), (inner.n - j).min(across));
                    if size == (B, B) {
                        // The stride between the rows of the next tile is too large for the hardware prefetcher.
                        let next = if j + B < inner.n { i + (j + B) * inner.stride as usize } else { i + B };
                        let next = base + next;
                        for lane in self.src.get(next..).unwrap_or(&[]).chunks(inner.stride as usize).take(B) {
                            prefetch(&lane[..B.min(lane.len())]);
                        }
                        full_tile::<T, B>(src, inner.stride as usize, dst, self.pitch);
                    } else {
                        partial_tile(src, inner.stride as usize, dst, self.pitch, size);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn full_tile<T: Item, const B: usize>(src: &[T], stride: usize, dst: &mut [T], pitch: usize) {
    if transpose_words(src, stride, dst, pitch, (B, B)) {
        return;
    }
    let mut tile = [[T::default(); B]; B];
    for j in 0..B {
        let lane = &src[j * stride..j * stride + B];
        for i in 0..B {
            tile[i][j] = lane[i];
        }
    }
    for (i, lane) in tile.iter().enumerate() {
        dst[i * pitch..i * pitch + B].copy_from_slice(lane);
    }
}

/// N rows of `src` with the given stride and `len` elements in all.
#[inline(always)]
fn rows_of<T, const N: usize>(src: &[T], stride: usize, len: usize) -> [&[T]; N] {
    std::array::from_fn(|j| &src[j * stride..][..len / N])
}

/// Transposes fewer than B rows of `src`; `inner` is their number and stride.
#[inline(always)]
fn transpose_narrow<T: Item, const B: usize>(src: &[T], inner: Axis, dst: &mut [T]) {
    let stride = inner.stride as usize;
    match inner.n {
        2 => interleave(rows_of::<T, 2>(src, stride, dst.len()), dst),
        3 => interleave(rows_of::<T, 3>(src, stride, dst.len()), dst),
        4 => interleave(rows_of::<T, 4>(src, stride, dst.len()), dst),
        n if transpose_words(src, stride, dst, n, (dst.len() / n, n)) => {}
        n => {
            let zeros = [T::default(); B];
            let rows = dst.len() / n;
            for first in (0..rows).step_by(B) {
                let count = B.min(rows - first);
                let dst = &mut dst[first * n..(first + count) * n];
                if count < B {
                    return partial_tile(&src[first..], stride, dst, n, (count, n));
                }
                let mut tile = [[T::default(); B]; B];
                for j in 0..B {
                    let lane = if j < n { &src[first + j * stride..][..B] } else { &zeros };
                    for i in 0..B {
                        tile[i][j] = lane[i];
                    }
                }
                // A full vector is written for each row; the excess is overwritten by the next rows.
                for (i, lane) in tile.iter().enumerate() {
                    let start = i * n;
                    let len = B.min(dst.len() - start);
                    if len == B {
                        dst[start..start + B].copy_from_slice(lane);
                    } else {
                        dst[start..start + n].copy_from_slice(&lane[..n]);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn partial_tile<T: Item>(src: &[T], stride: usize, dst: &mut [T], pitch: usize, (rows, cols): (usize, usize)) {
    if transpose_words(src, stride, dst, pitch, (rows, cols)) {
        return;
    }
    if cols <= rows {
        for j in 0..cols {
            let lane = &src[j * stride..][..rows];
            dst[j..].chunks_mut(pitch).zip(lane).for_each(|(to, from)| to[0] = *from);
        }
    } else {
        for i in 0..rows {
            let lane = &mut dst[i * pitch..][..cols];
            lane.iter_mut().zip(src[i..].chunks(stride)).for_each(|(to, from)| *to = from[0]);
        }
    }
}

/// Transposes a tile of 4-byte numbers in vector registers. Returns false for other types.
#[inline(always)]
fn transpose_words<T: Item>(
    src: &[T],
    stride: usize,
    dst: &mut [T],
    pitch: usize,
    (rows, cols): (usize, usize),
) -> bool {
    if size_of::<T>() != size_of::<f32>() {
        return false;
    }
    let (src, dst) = (bits::<T, f32>(src), bits_mut::<T, f32>(dst));
    f32::microkernel().transpose(MatRef::new(src, cols, rows, stride, 1), &mut MatMut::new(dst, rows, cols, pitch));
    true
}
