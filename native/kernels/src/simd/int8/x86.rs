//! Tiles in AVX-512 VNNI and AVX2.

use super::{Bytes, COLS, Conversion, LANES, ROWS, Sums, Tile};
use std::arch::x86_64::*;

/// # Safety
/// The processor must have AVX-512 VNNI; the operands have the words of all groups, and each channel its constants.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn converted(tile: &Tile<'_>, halves: usize, conversion: &Conversion<'_>, out: &mut Bytes) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match (halves, tile.has_data_rows) {
            (0, _) => {}
            (1, true) => converted_rows::<1, true>(tile, conversion, out),
            (1, false) => converted_rows::<1, false>(tile, conversion, out),
            (_, true) => converted_rows::<2, true>(tile, conversion, out),
            (_, false) => converted_rows::<2, false>(tile, conversion, out),
        }
    }
}

/// # Safety
/// See [`converted`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn converted_rows<const V: usize, const DATA_ROWS: bool>(
    tile: &Tile<'_>,
    conversion: &Conversion<'_>,
    out: &mut Bytes,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match tile.num_rows {
            0 => {}
            1 => convert(&bytes_sums::<1, V, DATA_ROWS>(tile), DATA_ROWS, conversion, out),
            2..=4 => convert(&bytes_sums::<4, V, DATA_ROWS>(tile), DATA_ROWS, conversion, out),
            _ => convert(&bytes_sums::<ROWS, V, DATA_ROWS>(tile), DATA_ROWS, conversion, out),
        }
    }
}

/// # Safety
/// The processor must have AVX-512 BW; each channel has its constants.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn convert<const M: usize, const V: usize>(
    sums: &[[__m512i; V]; M],
    by_column: bool,
    conversion: &Conversion<'_>,
    out: &mut Bytes,
) {
    let Conversion { init, scale, range } = conversion;
    let zero = _mm512_set1_epi16(range.zero);
    let (low, high) = (_mm512_set1_epi8(range.low.cast_signed()), _mm512_set1_epi8(range.high.cast_signed()));
    // Packing works within 128-bit lanes and interleaves the two rows; this order separates them.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let nearest = |row: usize, v: usize| {
        // SAFETY: the caller guarantees the constants of all channels.
        let (init, scale) = unsafe {
            if by_column {
                let col = v * LANES;
                (_mm512_loadu_si512(init.as_ptr().add(col).cast()), _mm512_loadu_ps(scale.as_ptr().add(col)))
            } else {
                (_mm512_set1_epi32(*init.get_unchecked(row)), _mm512_set1_ps(*scale.get_unchecked(row)))
            }
        };
        let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[row][v], init));
        _mm512_cvtps_epi32(_mm512_mul_ps(sum, scale))
    };
    let words = |row: usize| {
        let first = nearest(row, 0);
        let second = if V > 1 { nearest(row, V - 1) } else { first };
        _mm512_adds_epi16(_mm512_packs_epi32(first, second), zero)
    };
    for row in (0..M).step_by(2) {
        let (first, second) = (words(row), words((row + 1).min(M - 1)));
        let bytes = if range.is_signed {
            let packed = _mm512_packs_epi16(first, second);
            _mm512_min_epi8(_mm512_max_epi8(packed, low), high)
        } else {
            let packed = _mm512_packus_epi16(first, second);
            _mm512_min_epu8(_mm512_max_epu8(packed, low), high)
        };
        let to = &mut out[row * COLS..][..2 * COLS];
        // SAFETY: the slice has the bytes of a vector.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi32(order, bytes)) };
    }
}

/// # Safety
/// The processor must have AVX-512 VNNI; the operands have the words of all groups.
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn bytes(tile: &Tile<'_>, halves: usize, sums: &mut Sums) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match (halves, tile.has_data_rows) {
            (0, _) => {}
            (1, true) => bytes_rows::<1, true>(tile, sums),
            (1, false) => bytes_rows::<1, false>(tile, sums),
            (_, true) => bytes_rows::<2, true>(tile, sums),
            (_, false) => bytes_rows::<2, false>(tile, sums),
        }
    }
}

/// # Safety
/// See [`bytes`].
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn bytes_rows<const V: usize, const DATA_ROWS: bool>(tile: &Tile<'_>, sums: &mut Sums) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match tile.num_rows {
            0 => {}
            1 => bytes_tile::<1, V, DATA_ROWS>(tile, sums),
            2..=4 => bytes_tile::<4, V, DATA_ROWS>(tile, sums),
            _ => bytes_tile::<ROWS, V, DATA_ROWS>(tile, sums),
        }
    }
}

/// The sums of M rows of V vectors: with M = 8 and V = 2 they and the operands fill 19 of the 32 registers.
///
/// # Safety
/// See [`bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn bytes_sums<const M: usize, const V: usize, const DATA_ROWS: bool>(tile: &Tile<'_>) -> [[__m512i; V]; M] {
    let mut acc = [[_mm512_setzero_si512(); V]; M];
    let (mut rows, columns) = (tile.rows.as_ptr(), tile.columns.as_ptr());
    for offset in &tile.offsets.values {
        // SAFETY: the caller guarantees the words of all groups.
        unsafe {
            let columns = columns.add(*offset);
            let b: [_; V] = std::array::from_fn(|v| _mm512_loadu_si512(columns.add(v * LANES).cast()));
            for (i, acc) in acc.iter_mut().enumerate() {
                let a = _mm512_set1_epi32(*rows.add(i));
                for v in 0..V {
                    acc[v] = match DATA_ROWS {
                        true => _mm512_dpbusd_epi32(acc[v], a, b[v]),
                        false => _mm512_dpbusd_epi32(acc[v], b[v], a),
                    };
                }
            }
            rows = rows.wrapping_add(ROWS);
        }
    }
    acc
}

/// # Safety
/// See [`bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn bytes_tile<const M: usize, const V: usize, const DATA_ROWS: bool>(tile: &Tile<'_>, sums: &mut Sums) {
    // SAFETY: as the caller guarantees.
    let acc = unsafe { bytes_sums::<M, V, DATA_ROWS>(tile) };
    for (i, acc) in acc.iter().enumerate() {
        for (v, acc) in acc.iter().enumerate() {
            let out = &mut sums[i * COLS + v * LANES..][..LANES];
            // SAFETY: the slice has the elements of a vector.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), *acc) };
        }
    }
}

/// # Safety
/// The processor must have AVX2; the operands have the words of all groups.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn words(tile: &Tile<'_>, halves: usize, sums: &mut Sums) {
    for half in 0..halves {
        // SAFETY: as the caller guarantees.
        unsafe {
            match tile.num_rows {
                0 => {}
                1 => words_tile::<1>(tile, 0, half, sums),
                2..=4 => words_tile::<4>(tile, 0, half, sums),
                _ => {
                    words_tile::<4>(tile, 0, half, sums);
                    words_tile::<4>(tile, 4, half, sums);
                }
            }
        }
    }
}

/// The sums of M rows starting at `first` and 16 columns: with M = 4 they and the operands fill 13 of the 16 registers.
///
/// # Safety
/// See [`words`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words_tile<const M: usize>(tile: &Tile<'_>, first: usize, half: usize, sums: &mut Sums) {
    const WIDTH: usize = LANES / 2;
    let mut acc = [[_mm256_setzero_si256(); 2]; M];
    // SAFETY: the first row is one of the tile's.
    let (mut rows, columns) = unsafe { (tile.rows.as_ptr().add(first), tile.columns.as_ptr().add(half * LANES)) };
    for offset in &tile.offsets.values {
        // SAFETY: the caller guarantees the words of all groups.
        unsafe {
            let columns = columns.add(*offset);
            let b: [_; 2] = std::array::from_fn(|v| _mm256_loadu_si256(columns.add(v * WIDTH).cast()));
            for (i, acc) in acc.iter_mut().enumerate() {
                let a = _mm256_set1_epi32(*rows.add(i));
                for v in 0..2 {
                    acc[v] = _mm256_add_epi32(acc[v], _mm256_madd_epi16(a, b[v]));
                }
            }
            rows = rows.wrapping_add(ROWS);
        }
    }
    for (i, acc) in acc.iter().enumerate() {
        for (v, acc) in acc.iter().enumerate() {
            let out = &mut sums[(first + i) * COLS + half * LANES + v * WIDTH..][..WIDTH];
            // SAFETY: the slice has the elements of a vector.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), *acc) };
        }
    }
}
