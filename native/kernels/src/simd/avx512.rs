//! The microkernels for AVX-512: a tile of 14 rows of two vectors fills 28 of the 32 registers.

use super::dots::dots;
use super::microkernel::{DOT, DotArgs, MicroKernel, TileArgs, TileFn};
use super::{Isa, portable};
use std::arch::x86_64::*;

const MR: usize = 14;

pub(super) static F32: MicroKernel<f32> = MicroKernel {
    isa: Isa::Avx512,
    mr: MR,
    nr: 32,
    lanes: 16,
    tiles: &TILES_F32,
    strided_tiles: &STRIDED_F32,
    indexed_tiles: &INDEXED_F32,
    dots: [dots_f32::<1>, dots_f32::<2>, dots_f32::<3>, dots_f32::<4>],
    transpose: transpose_f32::<false>,
    transpose_exact: transpose_f32::<true>,
    copy: copy_f32,
};

pub(super) static F64: MicroKernel<f64> = MicroKernel {
    isa: Isa::Avx512,
    mr: MR,
    nr: 16,
    lanes: 8,
    tiles: &TILES_F64,
    strided_tiles: &STRIDED_F64,
    indexed_tiles: &INDEXED_F64,
    dots: [dots_f64::<1>, dots_f64::<2>, dots_f64::<3>, dots_f64::<4>],
    transpose: portable::transpose,
    transpose_exact: portable::transpose,
    copy: portable::copy,
};

/// Prefetch distance of the panel of A into the L1 cache, in k indices.
const PREFETCH_DISTANCE: usize = 8;

/// The functions of a tile table, see `MicroKernel::tiles`.
macro_rules! tiles {
    ($name:ident, $packed:literal, $indexed:literal) => {
        tiles!($name, $packed, $indexed, 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    ($name:ident, $packed:literal, $indexed:literal, $($m:literal)*) => {
        [$($name::<$m, 1, $packed, $indexed>,)* $($name::<$m, 2, $packed, $indexed>,)*]
    };
}

macro_rules! tile {
    ($name:ident, $sums:ident, $table:ident, $strided:ident, $indexed:ident, $t:ty, $vec:ty, $mask:ty, $lanes:literal, $zero:ident,
     $load:ident, $masked_load:ident, $set:ident, $fma:ident, $mul:ident, $masked_store:ident) => {
        /// The sums of a tile of M rows of V vectors. PACKED: A has a row stride of 1. INDEXED: the rows of B are at the offsets of
        /// a table. FULL: the last vector of a row is full and needs no masked load, which is slower outside the L1 cache.
        #[inline]
        #[target_feature(enable = "avx512f")]
        unsafe fn $sums<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool, const FULL: bool>(
            args: &TileArgs<$t>,
            mask: $mask,
        ) -> [[$vec; V]; M] {
            let a_row = if PACKED { 1 } else { args.a_row };
            let mut sums = [[$zero(); V]; M];
            let (mut a, mut b) = (args.a, args.b);
            for p in 0..args.depth {
                // SAFETY: each iteration reads M elements of A and the tile's columns of B; masked-out elements are not accessed;
                // prefetching is valid for any address.
                unsafe {
                    if INDEXED {
                        b = args.b.add(*args.b_offsets.add(p) as usize);
                    }
                    let mut y = [$zero(); V];
                    for v in 0..V - 1 {
                        y[v] = $load(b.add($lanes * v));
                    }
                    let last = b.add($lanes * (V - 1));
                    y[V - 1] = if FULL { $load(last) } else { $masked_load(mask, last) };
                    _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(args.a_stride * PREFETCH_DISTANCE).cast());
                    _mm_prefetch::<_MM_HINT_T1>(args.ahead.wrapping_add($lanes * p).cast());
                    for i in 0..M {
                        let x = $set(*a.add(i * a_row));
                        for v in 0..V {
                            sums[i][v] = $fma(x, y[v], sums[i][v]);
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
        #[target_feature(enable = "avx512f")]
        unsafe fn $name<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool>(args: &TileArgs<$t>) {
            let mask = <$mask>::MAX >> ($lanes - args.tail);
            // SAFETY: the caller passes what the sums need; a row of C has the columns of the tile; masked-out elements are not
            // accessed.
            unsafe {
                for i in 0..M {
                    for v in 0..V {
                        _mm_prefetch::<_MM_HINT_T1>(args.c.add(i * args.c_stride + $lanes * v).cast());
                    }
                }
                let sums = if args.tail == $lanes {
                    $sums::<M, V, PACKED, INDEXED, true>(args, mask)
                } else {
                    $sums::<M, V, PACKED, INDEXED, false>(args, mask)
                };
                let alpha = $set(args.alpha);
                for i in 0..M {
                    for v in 0..V {
                        let c = args.c.add(i * args.c_stride + $lanes * v);
                        let mask = if v + 1 == V { mask } else { <$mask>::MAX };
                        let value = if args.accumulate {
                            $fma(alpha, sums[i][v], $masked_load(mask, c))
                        } else {
                            $mul(alpha, sums[i][v])
                        };
                        $masked_store(c, mask, value);
                    }
                }
            }
        }

        static $table: [TileFn<$t>; 2 * MR] = tiles!($name, true, false);
        static $strided: [TileFn<$t>; 2 * MR] = tiles!($name, false, false);
        static $indexed: [TileFn<$t>; 2 * MR] = tiles!($name, true, true);
    };
}

tile!(
    tile_f32,
    tile_sums_f32,
    TILES_F32,
    STRIDED_F32,
    INDEXED_F32,
    f32,
    __m512,
    u16,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_mul_ps,
    _mm512_mask_storeu_ps
);
tile!(
    tile_f64,
    tile_sums_f64,
    TILES_F64,
    STRIDED_F64,
    INDEXED_F64,
    f64,
    __m512d,
    u8,
    8,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_mul_pd,
    _mm512_mask_storeu_pd
);

dots! {
    "avx512f", dots_f32: f32, 16, zero: _mm512_setzero_ps(), load: _mm512_loadu_ps,
    mask: |rest| u16::MAX >> (16 - rest), part: |from, mask| _mm512_maskz_loadu_ps(mask, from),
    fma: |x, y, sum| _mm512_fmadd_ps(x, y, sum), sums: sums_f32
}
dots! {
    "avx512f", dots_f64: f64, 8, zero: _mm512_setzero_pd(), load: _mm512_loadu_pd,
    mask: |rest| u8::MAX >> (8 - rest), part: |from, mask| _mm512_maskz_loadu_pd(mask, from),
    fma: |x, y, sum| _mm512_fmadd_pd(x, y, sum), sums: sums_f64
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_f32(v: [__m512; DOT]) -> [f32; DOT] {
    let pair = |x, y| _mm512_add_ps(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
    let (x, y) = (_mm512_castps_pd(pair(v[0], v[1])), _mm512_castps_pd(pair(v[2], v[3])));
    // Each quarter now holds one term of each of the four sums.
    let quads = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    let halves = _mm512_add_ps(quads, _mm512_shuffle_f32x4::<0b01_00_11_10>(quads, quads));
    let sum = _mm512_add_ps(halves, _mm512_shuffle_f32x4::<0b10_11_00_01>(halves, halves));
    let mut out = [0.0; DOT];
    // SAFETY: four elements are written into an array of four.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps128(sum)) };
    out
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_f64(v: [__m512d; DOT]) -> [f64; DOT] {
    v.map(|v| _mm512_reduce_add_pd(v))
}

/// A mask of the first `lanes` lanes, at most 16.
fn mask(lanes: usize) -> u16 {
    u16::MAX >> (16 - lanes.min(16))
}

/// See `TransposeFn`. Transposes tiles of 16 x 16 in registers. EXACT: writes no elements outside the lanes.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_f32<const EXACT: bool>(
    src: *const f32,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut f32,
    width: usize,
) {
    for p in (0..depth).step_by(16) {
        let len = (depth - p).min(16);
        for lane in (0..lanes).step_by(16) {
            let lanes = (lanes - lane).min(16);
            let mut tile = [_mm512_setzero_ps(); 16];
            for (i, row) in tile.iter_mut().enumerate() {
                if i < lanes {
                    let src = src.wrapping_add((lane + i) * stride + p);
                    // SAFETY: this lane has a whole vector, or the mask selects its elements only.
                    *row =
                        unsafe { if len == 16 { _mm512_loadu_ps(src) } else { _mm512_maskz_loadu_ps(mask(len), src) } };
                }
            }
            for (i, &row) in transpose_16x16(tile).iter().enumerate().take(len) {
                let out = out.wrapping_add((p + i) * width + lane);
                // A row of one vector may spill over into the next row, which is written later.
                let has_room = lane + 16 <= width || (width <= 16 && p + i + 1 < depth && 2 * width >= 16);
                let is_full = lanes == 16 || (!EXACT && has_room);
                // SAFETY: the vector lies within this row or the next one, or the mask selects lanes of this row only.
                unsafe {
                    if is_full { _mm512_storeu_ps(out, row) } else { _mm512_mask_storeu_ps(out, mask(lanes), row) }
                }
            }
        }
    }
}

/// Transposes in four rounds, which exchange single elements, pairs, quarters and halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_16x16(rows: [__m512; 16]) -> [__m512; 16] {
    let mut a = rows;
    let mut b = rows;
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        for j in 0..2 {
            let (x, y) = (_mm512_castps_pd(b[4 * i + j]), _mm512_castps_pd(b[4 * i + j + 2]));
            a[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            a[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    for i in 0..4 {
        for half in [0, 8] {
            let (x, y) = (a[half + i], a[half + i + 4]);
            b[half + i] = _mm512_shuffle_f32x4::<0x88>(x, y);
            b[half + i + 4] = _mm512_shuffle_f32x4::<0xdd>(x, y);
        }
    }
    for i in 0..8 {
        a[i] = _mm512_shuffle_f32x4::<0x88>(b[i], b[i + 8]);
        a[i + 8] = _mm512_shuffle_f32x4::<0xdd>(b[i], b[i + 8]);
    }
    a
}

/// See `CopyFn`.
#[target_feature(enable = "avx512f")]
unsafe fn copy_f32(src: *const f32, stride: usize, lanes: usize, depth: usize, out: *mut f32, width: usize) {
    for p in 0..depth {
        for lane in (0..lanes).step_by(16) {
            let (src, out) = (src.wrapping_add(p * stride + lane), out.wrapping_add(p * width + lane));
            // SAFETY: the row has a full vector starting at `lane`, or the mask selects its remaining lanes only.
            unsafe {
                if lanes - lane >= 16 {
                    _mm512_storeu_ps(out, _mm512_loadu_ps(src));
                } else {
                    let mask = mask(lanes - lane);
                    _mm512_mask_storeu_ps(out, mask, _mm512_maskz_loadu_ps(mask, src));
                }
            }
        }
    }
}
