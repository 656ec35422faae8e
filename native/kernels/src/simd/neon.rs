//! The microkernels for NEON: a tile of 8 rows of three vectors fills 24 of the 32 registers.
//!
//! NEON has no masked loads or stores. The last vector of a row therefore ends with the row and overlaps the previous one; only rows
//! shorter than a vector are read and written in parts.

use super::dots::dots;
use super::microkernel::{DOT, DotArgs, MicroKernel, TileArgs, TileFn};
use super::{Isa, portable};
use std::arch::aarch64::*;
use std::arch::asm;

const MR: usize = 8;
/// Vectors of a row.
const VECTORS: usize = 3;

pub(super) static F32: MicroKernel<f32> = MicroKernel {
    isa: Isa::Neon,
    mr: MR,
    nr: 4 * VECTORS,
    lanes: 4,
    tiles: &TILES_F32,
    strided_tiles: &STRIDED_F32,
    indexed_tiles: &INDEXED_F32,
    dots: [dots_f32::<1>, dots_f32::<2>, dots_f32::<3>, dots_f32::<4>],
    transpose: transpose_f32::<false>,
    transpose_exact: transpose_f32::<true>,
    copy: copy_f32,
};

pub(super) static F64: MicroKernel<f64> = MicroKernel {
    isa: Isa::Neon,
    mr: MR,
    nr: 2 * VECTORS,
    lanes: 2,
    tiles: &TILES_F64,
    strided_tiles: &STRIDED_F64,
    indexed_tiles: &INDEXED_F64,
    dots: [dots_f64::<1>, dots_f64::<2>, dots_f64::<3>, dots_f64::<4>],
    transpose: portable::transpose,
    transpose_exact: portable::transpose,
    copy: portable::copy,
};

/// Prefetches a cache line into the L1 cache, to be written.
#[inline(always)]
fn prefetch_to_write<T>(to: *const T) {
    // SAFETY: prefetching is valid for any address.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) to.addr(), options(nomem, nostack, preserves_flags)) };
}

/// Prefetches a cache line into the L2 cache.
#[inline(always)]
pub(super) fn prefetch<T>(from: *const T) {
    // SAFETY: prefetching is valid for any address.
    unsafe { asm!("prfm pldl2keep, [{}]", in(reg) from.addr(), options(nomem, nostack, preserves_flags)) };
}

/// Reads the first `lanes` elements of a vector, one to four; the others are zero.
///
/// # Safety
/// `from` has `lanes` elements.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_part_f32(from: *const f32, lanes: usize) -> float32x4_t {
    // SAFETY: as the caller guarantees.
    unsafe {
        match lanes {
            1 => vld1q_lane_f32::<0>(from, vdupq_n_f32(0.0)),
            2 => vcombine_f32(vld1_f32(from), vdup_n_f32(0.0)),
            3 => vld1q_lane_f32::<2>(from.add(2), vcombine_f32(vld1_f32(from), vdup_n_f32(0.0))),
            _ => vld1q_f32(from),
        }
    }
}

/// Writes the first `lanes` elements of a vector, one to four.
///
/// # Safety
/// `to` has `lanes` elements.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_part_f32(to: *mut f32, lanes: usize, value: float32x4_t) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match lanes {
            1 => vst1q_lane_f32::<0>(to, value),
            2 => vst1_f32(to, vget_low_f32(value)),
            3 => {
                vst1_f32(to, vget_low_f32(value));
                vst1q_lane_f32::<2>(to.add(2), value);
            }
            _ => vst1q_f32(to, value),
        }
    }
}

/// Reads the first `lanes` elements of a vector, one or two; the other is zero.
///
/// # Safety
/// `from` has `lanes` elements.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_part_f64(from: *const f64, lanes: usize) -> float64x2_t {
    // SAFETY: as the caller guarantees.
    unsafe { if lanes == 1 { vld1q_lane_f64::<0>(from, vdupq_n_f64(0.0)) } else { vld1q_f64(from) } }
}

/// Writes the first `lanes` elements of a vector, one or two.
///
/// # Safety
/// `to` has `lanes` elements.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_part_f64(to: *mut f64, lanes: usize, value: float64x2_t) {
    // SAFETY: as the caller guarantees.
    unsafe { if lanes == 1 { vst1q_lane_f64::<0>(to, value) } else { vst1q_f64(to, value) } }
}

/// `sum + x[lane] * y`; `lane` is a constant once loops are unrolled.
#[inline]
#[target_feature(enable = "neon")]
fn fma_lane_f32(sum: float32x4_t, y: float32x4_t, x: float32x4_t, lane: usize) -> float32x4_t {
    match lane {
        0 => vfmaq_laneq_f32::<0>(sum, y, x),
        1 => vfmaq_laneq_f32::<1>(sum, y, x),
        2 => vfmaq_laneq_f32::<2>(sum, y, x),
        _ => vfmaq_laneq_f32::<3>(sum, y, x),
    }
}

/// `sum + x[lane] * y`; `lane` is a constant once loops are unrolled.
#[inline]
#[target_feature(enable = "neon")]
fn fma_lane_f64(sum: float64x2_t, y: float64x2_t, x: float64x2_t, lane: usize) -> float64x2_t {
    if lane == 0 { vfmaq_laneq_f64::<0>(sum, y, x) } else { vfmaq_laneq_f64::<1>(sum, y, x) }
}

/// The functions of a tile table, see `MicroKernel::tiles`.
macro_rules! tiles {
    ($name:ident, $packed:literal, $indexed:literal) => {
        tiles!($name, $packed, $indexed, 1 2 3 4 5 6 7 8)
    };
    ($name:ident, $packed:literal, $indexed:literal, $($m:literal)*) => {
        [$($name::<$m, 1, $packed, $indexed>,)* $($name::<$m, 2, $packed, $indexed>,)* $($name::<$m, 3, $packed, $indexed>,)*]
    };
}

macro_rules! tile {
    ($name:ident, $sums:ident, $table:ident, $strided:ident, $indexed:ident, $t:ty, $vec:ty, $lanes:literal, $set:ident,
     $load:ident, $load_part:ident, $fma:ident, $fma_lane:ident, $mul:ident, $store:ident, $store_part:ident) => {
        /// The sums of a tile of M rows of V vectors, the last of which starts at column `last`. PACKED: A has a row stride of 1.
        /// INDEXED: the rows of B are at the offsets of a table. FULL: a row is no shorter than a vector.
        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn $sums<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool, const FULL: bool>(
            args: &TileArgs<$t>,
            last: usize,
        ) -> [[$vec; V]; M] {
            let a_row = if PACKED { 1 } else { args.a_row };
            let mut sums = [[$set(0.0); V]; M];
            let (mut a, mut b) = (args.a, args.b);
            for p in 0..args.depth {
                // SAFETY: each iteration reads M elements of A and the tile's columns of B.
                unsafe {
                    if INDEXED {
                        b = args.b.add(*args.b_offsets.add(p) as usize);
                    } else {
                        prefetch(args.ahead.wrapping_add($lanes * p));
                    }
                    let mut y = [$set(0.0); V];
                    for v in 0..V - 1 {
                        y[v] = $load(b.add($lanes * v));
                    }
                    y[V - 1] = if FULL { $load(b.add(last)) } else { $load_part(b, args.tail) };
                    let mut x = $set(0.0);
                    for i in 0..M {
                        // Whole vectors of a packed A are loaded at once.
                        let is_whole = PACKED && i / $lanes < M / $lanes;
                        if !is_whole {
                            x = $set(*a.add(i * a_row));
                        } else if i % $lanes == 0 {
                            x = $load(a.add(i));
                        }
                        for v in 0..V {
                            sums[i][v] = $fma_lane(sums[i][v], y[v], x, if is_whole { i % $lanes } else { 0 });
                        }
                    }
                }
                a = a.wrapping_add(args.a_stride);
                if !INDEXED {
                    b = b.wrapping_add(args.b_stride);
                }
            }
            sums
        }

        /// A tile of M rows of V vectors. PACKED: A has a row stride of 1. INDEXED: the rows of B are at the offsets of a table.
        /// See `TileFn`.
        #[target_feature(enable = "neon")]
        unsafe fn $name<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool>(args: &TileArgs<$t>) {
            let is_full = V > 1 || args.tail == $lanes;
            let last = if V > 1 { $lanes * (V - 2) + args.tail } else { 0 };
            // SAFETY: the caller passes what the sums need; a row of C has the columns of the tile.
            unsafe {
                for i in 0..M {
                    prefetch_to_write(args.c.add(i * args.c_stride));
                }
                let sums = if is_full {
                    $sums::<M, V, PACKED, INDEXED, true>(args, last)
                } else {
                    $sums::<M, V, PACKED, INDEXED, false>(args, last)
                };
                let alpha = $set(args.alpha);
                for i in 0..M {
                    let c = args.c.add(i * args.c_stride);
                    if !is_full {
                        let value = if args.accumulate {
                            $fma($load_part(c, args.tail), alpha, sums[i][0])
                        } else {
                            $mul(alpha, sums[i][0])
                        };
                        $store_part(c, args.tail, value);
                        continue;
                    }
                    let at = |v: usize| if v + 1 == V { last } else { $lanes * v };
                    // All vectors are read before any is written, because the last two overlap.
                    let mut values = sums[i];
                    for v in 0..V {
                        values[v] = if args.accumulate {
                            $fma($load(c.add(at(v))), alpha, sums[i][v])
                        } else {
                            $mul(alpha, sums[i][v])
                        };
                    }
                    for v in 0..V {
                        $store(c.add(at(v)), values[v]);
                    }
                }
            }
        }

        static $table: [TileFn<$t>; VECTORS * MR] = tiles!($name, true, false);
        static $strided: [TileFn<$t>; VECTORS * MR] = tiles!($name, false, false);
        static $indexed: [TileFn<$t>; VECTORS * MR] = tiles!($name, true, true);
    };
}

tile!(
    tile_f32,
    tile_sums_f32,
    TILES_F32,
    STRIDED_F32,
    INDEXED_F32,
    f32,
    float32x4_t,
    4,
    vdupq_n_f32,
    vld1q_f32,
    load_part_f32,
    vfmaq_f32,
    fma_lane_f32,
    vmulq_f32,
    vst1q_f32,
    store_part_f32
);
tile!(
    tile_f64,
    tile_sums_f64,
    TILES_F64,
    STRIDED_F64,
    INDEXED_F64,
    f64,
    float64x2_t,
    2,
    vdupq_n_f64,
    vld1q_f64,
    load_part_f64,
    vfmaq_f64,
    fma_lane_f64,
    vmulq_f64,
    vst1q_f64,
    store_part_f64
);

dots! {
    "neon", dots_f32: f32, 4, zero: vdupq_n_f32(0.0), load: vld1q_f32,
    mask: |rest| rest, part: |from, rest| load_part_f32(from, rest),
    fma: |x, y, sum| vfmaq_f32(sum, x, y), sums: sums_f32
}
dots! {
    "neon", dots_f64: f64, 2, zero: vdupq_n_f64(0.0), load: vld1q_f64,
    mask: |rest| rest, part: |from, rest| load_part_f64(from, rest),
    fma: |x, y, sum| vfmaq_f64(sum, x, y), sums: sums_f64
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "neon")]
fn sums_f32(v: [float32x4_t; DOT]) -> [f32; DOT] {
    let mut out = [0.0; DOT];
    let sums = vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
    // SAFETY: four elements are written into an array of four.
    unsafe { vst1q_f32(out.as_mut_ptr(), sums) };
    out
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "neon")]
fn sums_f64(v: [float64x2_t; DOT]) -> [f64; DOT] {
    v.map(|v| vpaddd_f64(v))
}

/// See `TransposeFn`. Transposes tiles of 4 x 4 in registers, four for each cache line of the source. EXACT: writes no elements
/// outside the lanes.
#[target_feature(enable = "neon")]
unsafe fn transpose_f32<const EXACT: bool>(
    src: *const f32,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut f32,
    width: usize,
) {
    for first in (0..depth).step_by(16) {
        for lane in (0..lanes).step_by(4) {
            let has_room = !EXACT && lane + 4 <= width;
            let lanes = (lanes - lane).min(4);
            for p in (first..depth.min(first + 16)).step_by(4) {
                let len = (depth - p).min(4);
                let mut tile = [vdupq_n_f32(0.0); 4];
                for (i, row) in tile.iter_mut().enumerate() {
                    if i < lanes {
                        // SAFETY: this lane has `len` elements starting at `p`.
                        *row = unsafe { load_part_f32(src.add((lane + i) * stride + p), len) };
                    }
                }
                for (i, &row) in transpose_4x4(tile).iter().enumerate().take(len) {
                    // SAFETY: this row has the lanes, or room for a whole vector.
                    unsafe {
                        let out = out.add((p + i) * width + lane);
                        if has_room { vst1q_f32(out, row) } else { store_part_f32(out, lanes, row) }
                    }
                }
            }
        }
    }
}

/// Transposes in two rounds, which exchange single elements and pairs.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_4x4(rows: [float32x4_t; 4]) -> [float32x4_t; 4] {
    let pair = |x, y| [vreinterpretq_f64_f32(vtrn1q_f32(x, y)), vreinterpretq_f64_f32(vtrn2q_f32(x, y))];
    let (top, bottom) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
    [
        vreinterpretq_f32_f64(vtrn1q_f64(top[0], bottom[0])),
        vreinterpretq_f32_f64(vtrn1q_f64(top[1], bottom[1])),
        vreinterpretq_f32_f64(vtrn2q_f64(top[0], bottom[0])),
        vreinterpretq_f32_f64(vtrn2q_f64(top[1], bottom[1])),
    ]
}

/// See `CopyFn`.
#[target_feature(enable = "neon")]
unsafe fn copy_f32(src: *const f32, stride: usize, lanes: usize, depth: usize, out: *mut f32, width: usize) {
    for p in 0..depth {
        for lane in (0..lanes).step_by(4) {
            let rest = (lanes - lane).min(4);
            // SAFETY: both rows have `rest` elements starting at `lane`.
            unsafe { store_part_f32(out.add(p * width + lane), rest, load_part_f32(src.add(p * stride + lane), rest)) };
        }
    }
}
