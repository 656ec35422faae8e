//! Tiles in NEON, with its dot product and its product of matrices of bytes (i8mm) where the processor has them.
//!
//! A tile is computed in blocks of M rows and V vectors of four columns, whose sums fill 16 of the 32 registers.

use super::{Bytes, COLS, Conversion, ROWS, Sums, Tile};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Columns of a vector.
const WIDTH: usize = 4;

/// What to do with the sums of a block that starts at column `col`.
trait TileStore {
    fn put<const M: usize, const V: usize>(&mut self, col: usize, sums: &[[int32x4_t; V]; M]);
}

impl TileStore for &mut Sums {
    #[inline(always)]
    fn put<const M: usize, const V: usize>(&mut self, col: usize, sums: &[[int32x4_t; V]; M]) {
        for (row, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let out = &mut self[row * COLS + col + v * WIDTH..][..WIDTH];
                // SAFETY: the slice has the elements of a vector.
                unsafe { vst1q_s32(out.as_mut_ptr(), *sum) };
            }
        }
    }
}

/// Converts the sums to bytes.
struct Converted<'a> {
    conversion: &'a Conversion<'a>,
    by_column: bool,
    out: &'a mut Bytes,
}

impl TileStore for Converted<'_> {
    #[inline(always)]
    fn put<const M: usize, const V: usize>(&mut self, col: usize, sums: &[[int32x4_t; V]; M]) {
        let Conversion { init, scale, range } = self.conversion;
        // SAFETY: NEON is there, each channel has its constants, and each slice the bytes of half a vector.
        unsafe {
            for (row, sums) in sums.iter().enumerate() {
                let words = |v: usize| {
                    let (init, scale) = if self.by_column {
                        let first = col + v * WIDTH;
                        (vld1q_s32(init[first..][..WIDTH].as_ptr()), vld1q_f32(scale[first..][..WIDTH].as_ptr()))
                    } else {
                        (vdupq_n_s32(init[row]), vdupq_n_f32(scale[row]))
                    };
                    let sum = vcvtq_f32_s32(vaddq_s32(sums[v], init));
                    vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(sum, scale)))
                };
                for v in (0..V).step_by(2) {
                    let words = vqaddq_s16(vcombine_s16(words(v), words(v + 1)), vdupq_n_s16(range.zero));
                    let bytes = if range.is_signed {
                        let (low, high) = (range.low.cast_signed(), range.high.cast_signed());
                        let bytes = vmin_s8(vmax_s8(vqmovn_s16(words), vdup_n_s8(low)), vdup_n_s8(high));
                        vreinterpret_u8_s8(bytes)
                    } else {
                        vmin_u8(vmax_u8(vqmovun_s16(words), vdup_n_u8(range.low)), vdup_n_u8(range.high))
                    };
                    let out = &mut self.out[row * COLS + col + v * WIDTH..][..2 * WIDTH];
                    vst1_u8(out.as_mut_ptr(), bytes);
                }
            }
        }
    }
}

/// # Safety
/// The processor must have the dot product; the operands have the words of all groups, and each channel its constants.
pub(super) unsafe fn converted(tile: &Tile<'_>, conversion: &Conversion<'_>, out: &mut Bytes) {
    // SAFETY: as the caller guarantees.
    unsafe { multiply(tile, Converted { conversion, by_column: tile.has_data_rows, out }) }
}

/// # Safety
/// The processor must have the dot product; the operands have the words of all groups.
pub(super) unsafe fn bytes(tile: &Tile<'_>, sums: &mut Sums) {
    // SAFETY: as the caller guarantees.
    unsafe { multiply(tile, sums) }
}

/// # Safety
/// See [`bytes`].
unsafe fn multiply(tile: &Tile<'_>, store: impl TileStore) {
    // SAFETY: as the caller guarantees; the other instructions are checked for.
    unsafe { if is_aarch64_feature_detected!("i8mm") { by_matrices(tile, store) } else { by_dots(tile, store) } }
}

/// # Safety
/// See [`bytes`].
#[target_feature(enable = "neon,dotprod")]
unsafe fn by_dots(tile: &Tile<'_>, mut store: impl TileStore) {
    // SAFETY: as the caller guarantees; columns are complete up to a multiple of 16.
    unsafe {
        match tile.num_rows {
            0 => {}
            1 => (0..tile.num_cols).step_by(16).for_each(|col| store.put(col, &dot_sums::<1, 4>(tile, col))),
            2..=4 => (0..tile.num_cols).step_by(16).for_each(|col| store.put(col, &dot_sums::<4, 4>(tile, col))),
            _ => (0..tile.num_cols).step_by(8).for_each(|col| store.put(col, &dot_sums::<8, 2>(tile, col))),
        }
    }
}

/// # Safety
/// See [`bytes`]; the processor has i8mm.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn by_matrices(tile: &Tile<'_>, mut store: impl TileStore) {
    // SAFETY: as the caller guarantees; columns are complete up to a multiple of 16.
    unsafe {
        match tile.num_rows {
            0 => {}
            1 => by_dots(tile, store),
            2..=4 => (0..tile.num_cols).step_by(16).for_each(|col| {
                store.put(col, &matrix_sums::<4, 4, 2, 8>(tile, col));
            }),
            _ => (0..tile.num_cols).step_by(8).for_each(|col| {
                store.put(col, &matrix_sums::<8, 2, 4, 4>(tile, col));
            }),
        }
    }
}

/// In [`Layout::Words`](super::Layout::Words).
///
/// # Safety
/// The processor must have NEON; the operands have the words of all groups.
#[target_feature(enable = "neon")]
pub(super) unsafe fn words(tile: &Tile<'_>, mut sums: &mut Sums) {
    // SAFETY: as the caller guarantees; columns are complete up to a multiple of 16.
    unsafe {
        match tile.num_rows {
            0 => {}
            1 => (0..tile.num_cols).step_by(16).for_each(|col| sums.put(col, &word_sums::<1, 4>(tile, col))),
            2..=4 => (0..tile.num_cols).step_by(16).for_each(|col| sums.put(col, &word_sums::<4, 4>(tile, col))),
            _ => (0..tile.num_cols).step_by(8).for_each(|col| sums.put(col, &word_sums::<8, 2>(tile, col))),
        }
    }
}

/// The words of four rows.
///
/// # Safety
/// `rows` has four words.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn four(rows: *const i32) -> int8x16_t {
    // SAFETY: as the caller guarantees.
    vreinterpretq_s8_s32(unsafe { vld1q_s32(rows) })
}

/// The sums of M rows and V vectors starting at column `first`.
///
/// # Safety
/// The processor must have the dot product; the operands have the words of all groups and of these columns.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot_sums<const M: usize, const V: usize>(tile: &Tile<'_>, first: usize) -> [[int32x4_t; V]; M] {
    let mut acc = [[vdupq_n_s32(0); V]; M];
    let (mut rows, columns) = (tile.rows.as_ptr(), tile.columns.as_ptr().wrapping_add(first));
    for offset in &tile.offsets.values {
        // SAFETY: the caller guarantees the words of all groups.
        unsafe {
            let mut b = [vdupq_n_s8(0); V];
            for (v, b) in b.iter_mut().enumerate() {
                *b = four(columns.add(*offset + v * WIDTH));
            }
            // A match on the lane would keep the compiler from unrolling the loops.
            for i in (0..M).step_by(4) {
                let a = four(rows.add(i));
                for v in 0..V {
                    acc[i][v] = dot_product::<0>(acc[i][v], b[v], a);
                    if M >= 4 {
                        acc[i + 1][v] = dot_product::<1>(acc[i + 1][v], b[v], a);
                        acc[i + 2][v] = dot_product::<2>(acc[i + 2][v], b[v], a);
                        acc[i + 3][v] = dot_product::<3>(acc[i + 3][v], b[v], a);
                    }
                }
            }
            rows = rows.wrapping_add(ROWS);
        }
    }
    acc
}

/// `sum` plus the dot products of each four bytes of `x` with four bytes of `y`, those of lane LANE. All are signed. The intrinsic is
/// not stable.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(in crate::simd) fn dot_product<const LANE: i32>(mut sum: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction computes the sums and has no other effect.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {x:v}.16b, {y:v}.4b[{lane}]",
            sum = inout(vreg) sum,
            x = in(vreg) x,
            y = in(vreg) y,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// The words of a group in which all rows are zero.
static ZEROS: [i32; ROWS] = [0; ROWS];

/// Interleaves the words of two groups: rows or columns of eight bytes, two in a vector.
#[inline]
#[target_feature(enable = "neon")]
fn interleave(first: int32x4_t, second: int32x4_t) -> [int8x16_t; 2] {
    [vreinterpretq_s8_s32(vzip1q_s32(first, second)), vreinterpretq_s8_s32(vzip2q_s32(first, second))]
}

/// As [`dot_sums`], for P pairs of rows and Q pairs of columns, with half the number of products: two groups of k indices are one
/// row of eight bytes.
///
/// # Safety
/// See [`dot_sums`]; the processor has i8mm.
#[inline]
#[target_feature(enable = "neon,i8mm")]
unsafe fn matrix_sums<const M: usize, const V: usize, const P: usize, const Q: usize>(
    tile: &Tile<'_>,
    first: usize,
) -> [[int32x4_t; V]; M] {
    const { assert!(M == 2 * P && 2 * V == Q) };
    // Each vector holds the sums of two rows and two columns, row by row.
    let mut acc = [[vdupq_n_s32(0); Q]; P];
    let (mut rows, columns) = (tile.rows.as_ptr(), tile.columns.as_ptr().wrapping_add(first));
    for pair in tile.offsets.values.chunks(2) {
        // Zeros substitute for a missing second group.
        let second = if pair.len() == 2 { rows.wrapping_add(ROWS) } else { ZEROS.as_ptr() };
        let columns = [pair[0], pair[pair.len() - 1]].map(|offset| columns.wrapping_add(offset));
        // SAFETY: the caller guarantees the words of all groups.
        unsafe {
            let mut a = [vdupq_n_s8(0); P];
            for i in 0..P / 2 {
                [a[2 * i], a[2 * i + 1]] = interleave(vld1q_s32(rows.add(i * WIDTH)), vld1q_s32(second.add(i * WIDTH)));
            }
            for j in 0..V {
                let [x, y] = columns.map(|columns| vld1q_s32(columns.add(j * WIDTH)));
                let [left, right] = interleave(x, y);
                for i in 0..P {
                    acc[i][2 * j] = matrix_product(acc[i][2 * j], a[i], left);
                    acc[i][2 * j + 1] = matrix_product(acc[i][2 * j + 1], a[i], right);
                }
            }
        }
        rows = rows.wrapping_add(2 * ROWS);
    }
    let mut sums = [[vdupq_n_s32(0); V]; M];
    for i in 0..P {
        for j in 0..V {
            let [left, right] = [vreinterpretq_s64_s32(acc[i][2 * j]), vreinterpretq_s64_s32(acc[i][2 * j + 1])];
            sums[2 * i][j] = vreinterpretq_s32_s64(vzip1q_s64(left, right));
            sums[2 * i + 1][j] = vreinterpretq_s32_s64(vzip2q_s64(left, right));
        }
    }
    sums
}

/// `sum` plus the product of two rows of eight signed bytes with two columns of eight. The intrinsic is not stable.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn matrix_product(mut sum: int32x4_t, rows: int8x16_t, columns: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction computes the sums and has no other effect.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {rows:v}.16b, {columns:v}.16b",
            sum = inout(vreg) sum,
            rows = in(vreg) rows,
            columns = in(vreg) columns,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// As [`dot_sums`], in [`Layout::Words`](super::Layout::Words).
///
/// # Safety
/// The processor must have NEON; the operands have the words of all groups and of these columns.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn word_sums<const M: usize, const V: usize>(tile: &Tile<'_>, first: usize) -> [[int32x4_t; V]; M] {
    let mut acc = [[vdupq_n_s32(0); V]; M];
    let (mut rows, columns) = (tile.rows.as_ptr(), tile.columns.as_ptr().wrapping_add(first));
    for offset in &tile.offsets.values {
        // SAFETY: the caller guarantees the words of all groups.
        unsafe {
            let words = |from: *const i32| vreinterpretq_s16_s32(vld1q_s32(from));
            for v in (0..V).step_by(2) {
                let columns = columns.add(*offset + v * WIDTH);
                let (left, right) = (words(columns), words(columns.add(WIDTH)));
                // The first and the second number of each word, of eight columns.
                let b = [vuzp1q_s16(left, right), vuzp2q_s16(left, right)];
                for i in (0..M).step_by(4) {
                    let a = words(rows.add(i));
                    add_words::<0, 1, V>(&mut acc[i], v, b, a);
                    if M >= 4 {
                        add_words::<2, 3, V>(&mut acc[i + 1], v, b, a);
                        add_words::<4, 5, V>(&mut acc[i + 2], v, b, a);
                        add_words::<6, 7, V>(&mut acc[i + 3], v, b, a);
                    }
                }
            }
            rows = rows.wrapping_add(ROWS);
        }
    }
    acc
}

/// Adds the products of eight columns, starting at vector `v`, with the two numbers of a row in the lanes FIRST and SECOND.
#[inline]
#[target_feature(enable = "neon")]
fn add_words<const FIRST: i32, const SECOND: i32, const V: usize>(
    sums: &mut [int32x4_t; V],
    v: usize,
    columns: [int16x8_t; 2],
    row: int16x8_t,
) {
    let left = vmlal_laneq_s16::<FIRST>(sums[v], vget_low_s16(columns[0]), row);
    let right = vmlal_high_laneq_s16::<FIRST>(sums[v + 1], columns[0], row);
    sums[v] = vmlal_laneq_s16::<SECOND>(left, vget_low_s16(columns[1]), row);
    sums[v + 1] = vmlal_high_laneq_s16::<SECOND>(right, columns[1], row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::int8::Offsets;

    /// The sums of a tile whose words hold bytes.
    fn reference(tile: &Tile<'_>) -> Vec<i32> {
        let mut sums = vec![0; ROWS * COLS];
        for (group, offset) in tile.offsets.values.iter().enumerate() {
            for (i, sum) in sums.iter_mut().enumerate() {
                let terms = tile.rows[group * ROWS + i / COLS].to_le_bytes();
                let column = tile.columns[offset + i % COLS].to_le_bytes();
                let products =
                    terms.iter().zip(column).map(|(x, y)| i32::from(x.cast_signed()) * i32::from(y.cast_signed()));
                *sum += products.sum::<i32>();
            }
        }
        sums
    }

    #[test]
    fn every_instruction_gives_the_same_sums() {
        if !is_aarch64_feature_detected!("dotprod") {
            return;
        }
        for groups in [0, 1, 2, 7] {
            let words = |len: usize, seed: i32| -> Vec<i32> {
                (0..len as i32).map(|i| (i + seed).wrapping_mul(0x9e37_79b1u32.cast_signed()) ^ (i << 7)).collect()
            };
            let offsets = Offsets::new((0..groups).map(|group| group * COLS + 3));
            let (rows, mut columns) = (words(groups * ROWS, 1), words(groups * COLS + 3, 2));
            columns.iter_mut().step_by(5).for_each(|word| *word = 0x8080_8080u32.cast_signed());
            for num_rows in 0..=ROWS {
                for num_cols in [1, 8, 16, 17, 32] {
                    let (rows, columns, offsets) = (&rows[..], &columns[..], &offsets);
                    let tile = Tile { rows, columns, offsets, num_rows, num_cols, has_data_rows: true };
                    let expected = reference(&tile);
                    let check = |sums: &Sums| {
                        for (sums, expected) in sums.chunks(COLS).zip(expected.chunks(COLS)).take(num_rows) {
                            assert_eq!(sums[..num_cols], expected[..num_cols], "{groups} groups, {num_rows} rows");
                        }
                    };
                    let mut sums = [7; ROWS * COLS];
                    // SAFETY: the processor has the instructions; the operands have all words.
                    unsafe { by_dots(&tile, &mut sums) };
                    check(&sums);
                    if is_aarch64_feature_detected!("i8mm") {
                        sums.fill(7);
                        // SAFETY: as above.
                        unsafe { by_matrices(&tile, &mut sums) };
                        check(&sums);
                    }
                }
            }
        }
    }
}
