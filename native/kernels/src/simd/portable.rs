//! The microkernel in plain Rust, which the compiler vectorizes.

use super::Isa;
use super::microkernel::{DOT, DotArgs, GemmElement, MicroKernel, TileArgs, TileFn};

const MR: usize = 4;
const VECTOR: usize = 4;

pub(super) static F32: MicroKernel<f32> = kernel(&TILES_F32, &STRIDED_F32, &INDEXED_F32);
pub(super) static F64: MicroKernel<f64> = kernel(&TILES_F64, &STRIDED_F64, &INDEXED_F64);

const fn kernel<T: GemmElement>(
    tiles: &'static [TileFn<T>],
    strided_tiles: &'static [TileFn<T>],
    indexed_tiles: &'static [TileFn<T>],
) -> MicroKernel<T> {
    MicroKernel {
        isa: Isa::Portable,
        mr: MR,
        nr: 2 * VECTOR,
        lanes: VECTOR,
        tiles,
        strided_tiles,
        indexed_tiles,
        dots: [dots::<T, 1>, dots::<T, 2>, dots::<T, 3>, dots::<T, 4>],
        transpose,
        transpose_exact: transpose,
        copy,
    }
}

macro_rules! tiles {
    ($t:ty, $packed:literal, $indexed:literal) => {
        [
            tile::<$t, 1, 4, $packed, $indexed>,
            tile::<$t, 2, 4, $packed, $indexed>,
            tile::<$t, 3, 4, $packed, $indexed>,
            tile::<$t, 4, 4, $packed, $indexed>,
            tile::<$t, 1, 8, $packed, $indexed>,
            tile::<$t, 2, 8, $packed, $indexed>,
            tile::<$t, 3, 8, $packed, $indexed>,
            tile::<$t, 4, 8, $packed, $indexed>,
        ]
    };
}
static TILES_F32: [TileFn<f32>; 8] = tiles!(f32, true, false);
static TILES_F64: [TileFn<f64>; 8] = tiles!(f64, true, false);
static STRIDED_F32: [TileFn<f32>; 8] = tiles!(f32, false, false);
static STRIDED_F64: [TileFn<f64>; 8] = tiles!(f64, false, false);
static INDEXED_F32: [TileFn<f32>; 8] = tiles!(f32, true, true);
static INDEXED_F64: [TileFn<f64>; 8] = tiles!(f64, true, true);

/// x * y + z, fused if the target has such an instruction.
#[inline(always)]
fn mul_add<T: GemmElement>(x: T, y: T, z: T) -> T {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { x.mul_add(y, z) } else { x * y + z }
}

/// A tile of M rows and up to N columns, at least N - 3. PACKED: A has a row stride of 1. INDEXED: the rows of B are at the offsets
/// of a table. See `TileFn`.
unsafe fn tile<T: GemmElement, const M: usize, const N: usize, const PACKED: bool, const INDEXED: bool>(
    args: &TileArgs<T>,
) {
    let cols = N - VECTOR + args.tail;
    let a_row = if PACKED { 1 } else { args.a_row };
    let mut sums = [[T::zero(); N]; M];
    for p in 0..args.depth {
        // SAFETY: the table has `depth` offsets, and each row of the panel has `cols` elements.
        let b = unsafe {
            let offset = if INDEXED { *args.b_offsets.add(p) as usize } else { p * args.b_stride };
            std::slice::from_raw_parts(args.b.add(offset), cols)
        };
        let b: [T; N] = match b.try_into() {
            Ok(full) => full,
            Err(_) => std::array::from_fn(|j| b.get(j).copied().unwrap_or(T::zero())),
        };
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: A has M rows at k index `p`.
            let x = unsafe { *args.a.add(p * args.a_stride + i * a_row) };
            for (sum, &y) in row.iter_mut().zip(&b) {
                *sum = mul_add(x, y, *sum);
            }
        }
    }
    for (i, row) in sums.iter().enumerate() {
        // SAFETY: row `i` of the tile has `cols` elements, which belong to this call.
        let out = unsafe { std::slice::from_raw_parts_mut(args.c.add(i * args.c_stride), cols) };
        for (c, &sum) in out.iter_mut().zip(row) {
            *c = if args.accumulate { mul_add(args.alpha, sum, *c) } else { args.alpha * sum };
        }
    }
}

/// The dot products of M rows with up to four columns. See `DotFn`.
unsafe fn dots<T: GemmElement, const M: usize>(args: &DotArgs<T>, out: &mut [[T; DOT]; DOT]) {
    // SAFETY: the caller passes M rows and `cols` columns of `depth` elements.
    let (row, col) = unsafe {
        let row = |i| std::slice::from_raw_parts(args.a.add(i * args.a_row), args.depth);
        (row, |j| std::slice::from_raw_parts(args.b.add(j * args.b_col), args.depth))
    };
    for (i, out) in out.iter_mut().enumerate().take(M) {
        for (j, out) in out.iter_mut().enumerate().take(args.cols) {
            let mut sums = [T::zero(); 4 * VECTOR];
            let (x, y) = (row(i).chunks(sums.len()), col(j).chunks(sums.len()));
            for (x, y) in x.zip(y) {
                for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
                    *sum = mul_add(x, y, *sum);
                }
            }
            *out = pairwise_sum(&sums);
        }
    }
}

/// Sums a power-of-two number of terms pairwise.
#[inline(always)]
pub(super) fn pairwise_sum<T: GemmElement, const N: usize>(terms: &[T; N]) -> T {
    let (mut terms, mut len) = (*terms, N);
    while len > 1 {
        len /= 2;
        for i in 0..len {
            terms[i] = terms[i] + terms[i + len];
        }
    }
    terms[0]
}

/// See `TransposeFn`. Takes eight k indices at a time, so that each cache line of the source is read once.
pub(super) unsafe fn transpose<T: Copy>(
    src: *const T,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut T,
    width: usize,
) {
    for first in (0..depth).step_by(8) {
        for lane in 0..lanes {
            for p in first..depth.min(first + 8) {
                // SAFETY: the caller passes `lanes` x `depth` elements and room for `depth` rows of `width` elements.
                unsafe { *out.add(p * width + lane) = *src.add(lane * stride + p) };
            }
        }
    }
}

/// See `CopyFn`.
pub(super) unsafe fn copy<T: Copy>(
    src: *const T,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut T,
    width: usize,
) {
    for p in 0..depth {
        // SAFETY: the caller passes `depth` rows of `lanes` elements and room for `depth` rows of `width` elements.
        unsafe { std::ptr::copy_nonoverlapping(src.add(p * stride), out.add(p * width), lanes) };
    }
}
