//! Permutation of axes.

use super::strided::gather;
use super::{Axis, GRAIN, Item, check_shape, contiguous, merge_axes, offset_of};
use crate::par;
use crate::simd::multiversion::{self, Kernel};
use smallvec::SmallVec;

/// `dst` is `src` of `shape` with axis `i` of the result being axis `perm[i]` of the source.
///
/// # Panics
/// If `perm` is not a permutation of the axes, or a length does not match.
pub fn transpose<T: Item>(src: &[T], shape: &[usize], perm: &[usize], dst: &mut [T]) {
    check_shape(src.len(), shape);
    assert_eq!(src.len(), dst.len(), "a transposition keeps the number of elements");
    let mut sorted = SmallVec::<[usize; 6]>::from_slice(perm);
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..shape.len()), "{perm:?} is no permutation of the axes of {shape:?}");
    if src.is_empty() {
        return;
    }
    let strides = contiguous(shape);
    let axes = merge_axes(perm.iter().map(|&p| Axis { n: shape[p], stride: strides[p] }));
    let row = axes.iter().position(|a| a.stride == 1);
    match row {
        // The source's innermost axis stays innermost, or there is no axis at all.
        None => gather(src, 0, &axes, dst),
        Some(row) if row + 1 == axes.len() => gather(src, 0, &axes, dst),
        Some(row) => tiles(src, &axes, row, dst),
    }
}

/// Transposes tiles of the innermost axis and the axis `row`, along which source elements are adjacent.
fn tiles<T: Item>(src: &[T], axes: &[Axis], row: usize, dst: &mut [T]) {
    match size_of::<T>() {
        1 | 2 => batches::<T, 32>(src, axes, row, dst),
        _ => batches::<T, 16>(src, axes, row, dst),
    }
}

fn batches<T: Item, const B: usize>(src: &[T], axes: &[Axis], row: usize, dst: &mut [T]) {
    let (outer, rest) = axes.split_at(row);
    let pitch: usize = rest[1..].iter().map(|a| a.n).product();
    let size = rest[0].n * pitch;
    let strip =
        |base: usize, dst: &mut [T]| multiversion::run(Strip::<T, B> { src: &src[base..], axes: rest, pitch, dst });
    if size >= 2 * GRAIN {
        for (o, dst) in dst.chunks_mut(size).enumerate() {
            let base = offset_of(outer, o) as usize;
            par::parallel_rows(dst, B * pitch, (GRAIN / (B * pitch)).max(1), |i, dst| strip(base + i * B, dst));
        }
    } else {
        par::parallel_rows(dst, size, (GRAIN / size).max(1), |o, dst| strip(offset_of(outer, o) as usize, dst));
    }
}

/// A range of source columns, which are rows of the destination, `pitch` elements apart.
struct Strip<'a, T, const B: usize> {
    src: &'a [T],
    axes: &'a [Axis],
    pitch: usize,
    dst: &'a mut [T],
}

impl<T: Item, const B: usize> Kernel for Strip<'_, T, B> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Some((&inner, middle)) = self.axes[1..].split_last() else { return };
        let rows = self.dst.len() / self.pitch;
        for m in 0..self.pitch / inner.n {
            let base = offset_of(middle, m) as usize;
            for i in (0..rows).step_by(B) {
                for j in (0..inner.n).step_by(B) {
                    let src = &self.src[base + i + j * inner.stride as usize..];
                    let dst = &mut self.dst[i * self.pitch + m * inner.n + j..];
                    let size = ((rows - i).min(B), (inner.n - j).min(B));
                    if size == (B, B) {
                        whole_tile::<T, B>(src, inner.stride as usize, dst, self.pitch);
                    } else {
                        part_tile(src, inner.stride as usize, dst, self.pitch, size);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn whole_tile<T: Item, const B: usize>(src: &[T], stride: usize, dst: &mut [T], pitch: usize) {
    let mut tile = [[T::default(); B]; B];
    for j in 0..B {
        let line = &src[j * stride..j * stride + B];
        for i in 0..B {
            tile[i][j] = line[i];
        }
    }
    for (i, line) in tile.iter().enumerate() {
        dst[i * pitch..i * pitch + B].copy_from_slice(line);
    }
}

#[inline(always)]
fn part_tile<T: Item>(src: &[T], stride: usize, dst: &mut [T], pitch: usize, (rows, cols): (usize, usize)) {
    for i in 0..rows {
        for j in 0..cols {
            dst[i * pitch + j] = src[j * stride + i];
        }
    }
}
