//! The microkernels for AVX2 with fused multiply-add: a tile of 6 rows of two vectors fills 12 of the 16 registers.

use super::Isa;
use super::dots::dots;
use super::microkernel::{DOT, DotArgs, MicroKernel, TileArgs, TileFn};
use super::portable::{self, pairwise_sum};
use std::arch::x86_64::*;

const MR: usize = 6;

/// Number of k indices in an iteration of a tile function. Without unrolling, a fifth of the instructions are loop overhead, which
/// slows down a core whose other hardware thread is busy.
const UNROLL: usize = 4;

/// Vectors in a cache line.
const VECTORS_PER_LINE: usize = 2;

pub(super) static F32: MicroKernel<f32> = MicroKernel {
    isa: Isa::Avx2,
    mr: MR,
    nr: 16,
    lanes: 8,
    tiles: &TILES_F32,
    strided_tiles: &STRIDED_F32,
    indexed_tiles: &INDEXED_F32,
    dots: [dots_f32::<1>, dots_f32::<2>, dots_f32::<3>, dots_f32::<4>],
    transpose: transpose_f32::<false>,
    transpose_exact: transpose_f32::<true>,
    copy: copy_f32,
};

pub(super) static F64: MicroKernel<f64> = MicroKernel {
    isa: Isa::Avx2,
    mr: MR,
    nr: 8,
    lanes: 4,
    tiles: &TILES_F64,
    strided_tiles: &STRIDED_F64,
    indexed_tiles: &INDEXED_F64,
    dots: [dots_f64::<1>, dots_f64::<2>, dots_f64::<3>, dots_f64::<4>],
    transpose: portable::transpose,
    transpose_exact: portable::transpose,
    copy: portable::copy,
};

/// The eight elements starting at `8 - lanes` mask the first `lanes` lanes of a vector.
static MASK_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
/// The four elements starting at `4 - lanes` mask the first `lanes` lanes of a vector.
static MASK_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

/// A mask of the first `lanes` (at most 8) elements of a vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mask_f32(lanes: usize) -> __m256i {
    // SAFETY: eight elements starting at 8 - lanes lie within the table of 16.
    unsafe { _mm256_loadu_si256(MASK_32.as_ptr().add(8 - lanes.min(8)).cast()) }
}

/// A mask of the first `lanes` (at most 4) elements of a vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mask_f64(lanes: usize) -> __m256i {
    // SAFETY: four elements starting at 4 - lanes lie within the table of 8.
    unsafe { _mm256_loadu_si256(MASK_64.as_ptr().add(4 - lanes.min(4)).cast()) }
}

/// Stores the first `len` (1 to 8) elements of a vector without a masked store, which takes twelve cycles on AMD processors.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(in crate::simd) unsafe fn store_first_f32(to: *mut f32, len: usize, value: __m256) {
    // SAFETY: each store writes elements of the first `len`.
    unsafe {
        if len >= 8 {
            return _mm256_storeu_ps(to, value);
        }
        let (mut to, mut rest) = (to, _mm256_castps256_ps128(value));
        if len & 4 != 0 {
            _mm_storeu_ps(to, rest);
            (to, rest) = (to.add(4), _mm256_extractf128_ps::<1>(value));
        }
        if len & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(rest));
            (to, rest) = (to.add(2), _mm_movehl_ps(rest, rest));
        }
        if len & 1 != 0 {
            _mm_store_ss(to, rest);
        }
    }
}

/// Like [`store_first_f32`], for 1 to 4 elements.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store_first_f64(to: *mut f64, len: usize, value: __m256d) {
    // SAFETY: each store writes elements of the first `len`.
    unsafe {
        if len >= 4 {
            return _mm256_storeu_pd(to, value);
        }
        let (mut to, mut rest) = (to, _mm256_castpd256_pd128(value));
        if len & 2 != 0 {
            _mm_storeu_pd(to, rest);
            (to, rest) = (to.add(2), _mm256_extractf128_pd::<1>(value));
        }
        if len & 1 != 0 {
            _mm_store_sd(to, rest);
        }
    }
}

/// The functions of a tile table, see `MicroKernel::tiles`.
macro_rules! tiles {
    ($name:ident, $packed:literal, $indexed:literal) => {
        tiles!($name, $packed, $indexed, 1 2 3 4 5 6)
    };
    ($name:ident, $packed:literal, $indexed:literal, $($m:literal)*) => {
        [$($name::<$m, 1, $packed, $indexed>,)* $($name::<$m, 2, $packed, $indexed>,)*]
    };
}

macro_rules! tile {
    ($name:ident, $sums:ident, $add_products:ident, $table:ident, $strided:ident, $indexed:ident, $t:ty, $vec:ty,
     $lanes:literal, $mask:ident, $zero:ident, $load:ident, $masked_load:ident, $set:ident, $fma:ident, $mul:ident,
     $store:ident, $store_first:ident) => {
        /// Adds the products at one k index to the sums of a tile of M rows of V vectors. FULL: the last vector of a row is full.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $add_products<const M: usize, const V: usize, const FULL: bool>(
            sums: &mut [[$vec; V]; M],
            a: *const $t,
            a_row: usize,
            b: *const $t,
            mask: __m256i,
        ) {
            // SAFETY: the caller passes M elements of A and the tile's columns of B; masked-out elements are not accessed.
            unsafe {
                let mut y = [$zero(); V];
                for v in 0..V - 1 {
                    y[v] = $load(b.add($lanes * v));
                }
                let last = b.add($lanes * (V - 1));
                y[V - 1] = if FULL { $load(last) } else { $masked_load(last, mask) };
                for i in 0..M {
                    let x = $set(*a.add(i * a_row));
                    for v in 0..V {
                        sums[i][v] = $fma(x, y[v], sums[i][v]);
                    }
                }
            }
        }

        /// The sums of a tile of M rows of V vectors. PACKED: A has a row stride of 1. INDEXED: the rows of B are at the offsets of
        /// a table. FULL: the last vector of a row is full.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $sums<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool, const FULL: bool>(
            args: &TileArgs<$t>,
            mask: __m256i,
        ) -> [[$vec; V]; M] {
            let a_row = if PACKED { 1 } else { args.a_row };
            let mut sums = [[$zero(); V]; M];
            let (mut a, mut b) = (args.a, args.b);
            // The addresses of strided rows would take too many registers.
            let unroll = if PACKED { UNROLL } else { 1 };
            let whole = args.depth / unroll * unroll;
            // SAFETY: each iteration reads M elements of A and the tile's columns of B; prefetching is valid for any address.
            unsafe {
                for p in (0..whole).step_by(unroll) {
                    for u in 0..unroll {
                        let row = if INDEXED {
                            args.b.add(*args.b_offsets.add(p + u) as usize)
                        } else {
                            b.add(u * args.b_stride)
                        };
                        if !INDEXED && u % VECTORS_PER_LINE == 0 {
                            _mm_prefetch::<_MM_HINT_T1>(args.ahead.wrapping_add($lanes * (p + u)).cast());
                        }
                        $add_products::<M, V, FULL>(&mut sums, a.add(u * args.a_stride), a_row, row, mask);
                    }
                    a = a.wrapping_add(unroll * args.a_stride);
                    b = b.wrapping_add(unroll * args.b_stride);
                }
                for p in whole..args.depth {
                    let row = if INDEXED { args.b.add(*args.b_offsets.add(p) as usize) } else { b };
                    $add_products::<M, V, FULL>(&mut sums, a, a_row, row, mask);
                    a = a.wrapping_add(args.a_stride);
                    b = b.wrapping_add(args.b_stride);
                }
            }
            sums
        }

        /// A tile of M rows of V vectors. PACKED: A has a row stride of 1. INDEXED: the rows of B are at the offsets of a table.
        /// See `TileFn`.
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name<const M: usize, const V: usize, const PACKED: bool, const INDEXED: bool>(args: &TileArgs<$t>) {
            let mask = $mask(args.tail);
            let full = args.tail == $lanes;
            // SAFETY: the caller passes what the sums need; a row of C has the columns of the tile; masked-out elements are not
            // accessed; prefetching is valid for any address.
            unsafe {
                for i in 0..M {
                    _mm_prefetch::<_MM_HINT_T0>(args.c.add(i * args.c_stride).cast());
                }
                let sums = if full {
                    $sums::<M, V, PACKED, INDEXED, true>(args, mask)
                } else {
                    $sums::<M, V, PACKED, INDEXED, false>(args, mask)
                };
                let alpha = $set(args.alpha);
                for i in 0..M {
                    for v in 0..V {
                        let c = args.c.add(i * args.c_stride + $lanes * v);
                        let whole = v + 1 < V || full;
                        let value = if !args.accumulate {
                            $mul(alpha, sums[i][v])
                        } else if whole {
                            $fma(alpha, sums[i][v], $load(c))
                        } else {
                            $fma(alpha, sums[i][v], $masked_load(c, mask))
                        };
                        if whole { $store(c, value) } else { $store_first(c, args.tail, value) }
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
    add_products_f32,
    TILES_F32,
    STRIDED_F32,
    INDEXED_F32,
    f32,
    __m256,
    8,
    mask_f32,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_maskload_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_mul_ps,
    _mm256_storeu_ps,
    store_first_f32
);
tile!(
    tile_f64,
    tile_sums_f64,
    add_products_f64,
    TILES_F64,
    STRIDED_F64,
    INDEXED_F64,
    f64,
    __m256d,
    4,
    mask_f64,
    _mm256_setzero_pd,
    _mm256_loadu_pd,
    _mm256_maskload_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd,
    _mm256_mul_pd,
    _mm256_storeu_pd,
    store_first_f64
);

dots! {
    "avx2,fma", dots_f32: f32, 8, zero: _mm256_setzero_ps(), load: _mm256_loadu_ps,
    mask: |rest| mask_f32(rest), part: |from, mask| _mm256_maskload_ps(from, mask),
    fma: |x, y, sum| _mm256_fmadd_ps(x, y, sum), sums: sums_f32
}
dots! {
    "avx2,fma", dots_f64: f64, 4, zero: _mm256_setzero_pd(), load: _mm256_loadu_pd,
    mask: |rest| mask_f64(rest), part: |from, mask| _mm256_maskload_pd(from, mask),
    fma: |x, y, sum| _mm256_fmadd_pd(x, y, sum), sums: sums_f64
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums_f32(v: [__m256; DOT]) -> [f32; DOT] {
    v.map(|v| {
        let mut terms = [0.0; 8];
        // SAFETY: the array has room for a vector.
        unsafe { _mm256_storeu_ps(terms.as_mut_ptr(), v) };
        pairwise_sum(&terms)
    })
}

/// The sum of the elements of each of four vectors.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums_f64(v: [__m256d; DOT]) -> [f64; DOT] {
    v.map(|v| {
        let mut terms = [0.0; 4];
        // SAFETY: the array has room for a vector.
        unsafe { _mm256_storeu_pd(terms.as_mut_ptr(), v) };
        pairwise_sum(&terms)
    })
}

/// See `TransposeFn`. Transposes tiles of 8 x 8 in registers, two for each cache line of the source. EXACT: writes no elements
/// outside the lanes; the last tile overlaps the one before it instead of being smaller.
#[target_feature(enable = "avx2,fma")]
unsafe fn transpose_f32<const EXACT: bool>(
    src: *const f32,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut f32,
    width: usize,
) {
    let is_dense = width == lanes;
    let start_of_tile = |start: usize, end: usize| if EXACT && end >= 8 { start.min(end - 8) } else { start };
    for first in (0..depth).step_by(16) {
        for lane in (0..lanes).step_by(8) {
            let lane = start_of_tile(lane, lanes);
            let lanes = (lanes - lane).min(8);
            for p in (first..depth.min(first + 16)).step_by(8) {
                let p = start_of_tile(p, depth);
                let len = (depth - p).min(8);
                let (src, out) = (src.wrapping_add(lane * stride + p), out.wrapping_add(p * width + lane));
                if lanes == 8 && len == 8 {
                    // SAFETY: both tiles are full.
                    unsafe { transpose_full_tile(src, stride, out, width) };
                    continue;
                }
                let mut tile = [_mm256_setzero_ps(); 8];
                for (i, row) in tile.iter_mut().enumerate() {
                    if i < lanes {
                        let src = src.wrapping_add(i * stride);
                        // SAFETY: this lane has a whole vector, or the mask selects its elements only.
                        *row = unsafe {
                            if len == 8 { _mm256_loadu_ps(src) } else { _mm256_maskload_ps(src, mask_f32(len)) }
                        };
                    }
                }
                for (i, &row) in transpose_8x8(tile).iter().enumerate().take(len) {
                    let out = out.wrapping_add(i * width);
                    // A row of one vector may spill over into the next row, which is written later.
                    let has_room = lane + 8 <= width || (width <= 8 && p + i + 1 < depth && 2 * width >= 8);
                    let is_full = lanes == 8 || ((!EXACT || is_dense) && has_room);
                    // SAFETY: the vector lies within this row or the next one, or only lanes of this row are written.
                    unsafe { if is_full { _mm256_storeu_ps(out, row) } else { store_first_f32(out, lanes, row) } }
                }
            }
        }
    }
}

/// Transposes 8 x 8 elements in registers.
///
/// # Safety
/// `src` must have 8 elements in each of 8 rows at a stride of `stride`, and `out` room for as many at a stride of `width`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn transpose_full_tile(src: *const f32, stride: usize, out: *mut f32, width: usize) {
    // SAFETY: the caller guarantees the elements.
    unsafe {
        let tile = transpose_8x8(std::array::from_fn(|i| _mm256_loadu_ps(src.add(i * stride))));
        for (i, row) in tile.into_iter().enumerate() {
            _mm256_storeu_ps(out.add(i * width), row);
        }
    }
}

/// See `CopyFn`.
#[target_feature(enable = "avx2,fma")]
unsafe fn copy_f32(src: *const f32, stride: usize, lanes: usize, depth: usize, out: *mut f32, width: usize) {
    for p in 0..depth {
        for lane in (0..lanes).step_by(8) {
            let (src, out) = (src.wrapping_add(p * stride + lane), out.wrapping_add(p * width + lane));
            // SAFETY: the row has a full vector starting at `lane`, or only its remaining lanes are accessed.
            unsafe {
                if lane + 8 <= lanes {
                    _mm256_storeu_ps(out, _mm256_loadu_ps(src));
                } else {
                    let len = lanes - lane;
                    store_first_f32(out, len, _mm256_maskload_ps(src, mask_f32(len)));
                }
            }
        }
    }
}

/// Transposes in three rounds, which exchange single elements, pairs and halves.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose_8x8(rows: [__m256; 8]) -> [__m256; 8] {
    let mut a = rows;
    let mut b = rows;
    for i in 0..4 {
        b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..2 {
        for j in 0..2 {
            let (x, y) = (_mm256_castps_pd(b[4 * i + j]), _mm256_castps_pd(b[4 * i + j + 2]));
            a[4 * i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
            a[4 * i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
        }
    }
    for i in 0..4 {
        b[i] = _mm256_permute2f128_ps::<0x20>(a[i], a[i + 4]);
        b[i + 4] = _mm256_permute2f128_ps::<0x31>(a[i], a[i + 4]);
    }
    b
}
