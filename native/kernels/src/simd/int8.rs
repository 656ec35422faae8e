//! Tiles of products of 8-bit integers with exact 32-bit sums.
//!
//! Both operands are arrays of 32-bit words. A word holds a group of consecutive k indices of one row or column, as in oneDNN's
//! VNNI layouts. A tile is the product of up to [`ROWS`] rows, whose words are broadcast, with up to [`COLS`] columns, one per
//! lane.

use super::Isa;
use super::multiversion;

/// Rows of a tile.
pub(crate) const ROWS: usize = 8;
/// Columns of half a tile.
pub(crate) const LANES: usize = 16;
/// Columns of a tile.
pub(crate) const COLS: usize = 2 * LANES;
/// The sums of a tile, row by row.
pub(crate) type Sums = [i32; ROWS * COLS];
/// The results of a tile as bytes, row by row. The last row is only room for stores of two rows at a time.
pub(crate) type Bytes = [u8; (ROWS + 1) * COLS];

/// How the k indices of a row or column are stored in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Four bytes, unsigned in one operand and signed in the other, for AVX-512 VNNI.
    Bytes,
    /// Two 16-bit integers of at most 9 significant bits, so that the sum of two products fits into 32 bits.
    Words,
}

impl Layout {
    /// The fastest layout that the processor supports and `FERROMX_ISA` allows.
    pub(crate) fn best() -> Layout {
        #[cfg(target_arch = "x86_64")]
        if multiversion::level() == Isa::Avx512 && is_x86_feature_detected!("avx512vnni") {
            return Layout::Bytes;
        }
        Layout::Words
    }

    /// Number of k indices in a word.
    pub(crate) fn group(self) -> usize {
        match self {
            Layout::Bytes => 4,
            Layout::Words => 2,
        }
    }
}

/// For each group of k indices, the offset of its words in the array of columns.
#[derive(Debug)]
pub(crate) struct Offsets {
    values: Vec<usize>,
    max: usize,
}

impl Offsets {
    /// Offsets in words.
    pub(crate) fn new(values: impl Iterator<Item = usize>) -> Offsets {
        let values: Vec<usize> = values.collect();
        let max = values.iter().copied().max().unwrap_or(0);
        Offsets { values, max }
    }

    /// The offsets.
    #[inline]
    pub(crate) fn values(&self) -> &[usize] {
        &self.values
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The largest offset.
    pub(crate) fn max(&self) -> usize {
        self.max
    }
}

/// Requantization of sums to bytes: `(sum + init) * scale`, rounded to the nearest integer, ties to even, plus `zero`, clamped to
/// `low..=high`.
pub(crate) struct Conversion<'a> {
    /// One value per channel. Channels are rows, or columns if the tile has unsigned rows.
    pub init: &'a [i32],
    /// One value per channel, so small that the scaled sums are below 2^31.
    pub scale: &'a [f32],
    pub range: ByteRange,
}

/// The range of the resulting bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteRange {
    /// The zero point.
    pub zero: i16,
    /// True if the bytes are `i8`, else `u8`.
    pub is_signed: bool,
    pub low: u8,
    pub high: u8,
}

/// The operands of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    /// [`ROWS`] words for each group of k indices.
    pub rows: &'a [i32],
    /// The array of columns; the words of group g start at `offsets[g]`.
    pub columns: &'a [i32],
    /// One offset per group.
    pub offsets: &'a Offsets,
    /// Rows to compute, up to [`ROWS`].
    pub num_rows: usize,
    /// Columns to compute, up to [`COLS`].
    pub num_cols: usize,
    /// In [`Layout::Bytes`]: true if the rows are unsigned and the columns signed, false for the reverse.
    pub has_unsigned_rows: bool,
}

impl Tile<'_> {
    /// Computes the sums. Sums outside of `num_rows` and `num_cols` are unspecified.
    ///
    /// # Panics
    /// If an operand is too short, or the processor lacks the instructions of the layout.
    pub(crate) fn multiply(&self, layout: Layout, sums: &mut Sums) {
        let halves = self.check();
        match layout {
            #[cfg(target_arch = "x86_64")]
            Layout::Bytes => {
                assert!(Layout::best() == Layout::Bytes, "the processor has no AVX-512 VNNI");
                // SAFETY: the instructions are available, and both operands have the words of all groups.
                unsafe { x86::bytes(self, halves, sums) }
            }
            #[cfg(not(target_arch = "x86_64"))]
            Layout::Bytes => unreachable!("never chosen on this architecture"),
            Layout::Words => match multiversion::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above; both levels have AVX2.
                Isa::Avx2 | Isa::Avx512 => unsafe { x86::words(self, halves, sums) },
                _ => self.portable(halves, sums),
            },
        }
    }

    /// Computes the sums in [`Layout::Bytes`] and converts them to bytes. Results outside of `num_rows` and `num_cols` are
    /// unspecified.
    ///
    /// # Panics
    /// If an operand is too short, or the processor lacks the instructions of the layout.
    pub(crate) fn multiply_to_bytes(&self, conversion: &Conversion<'_>, out: &mut Bytes) {
        let halves = self.check();
        let channels = if self.has_unsigned_rows { COLS } else { ROWS };
        assert!(conversion.init.len() == channels && conversion.scale.len() == channels, "{channels} channels");
        assert!(Layout::best() == Layout::Bytes, "the processor has no AVX-512 VNNI");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instructions are available, both operands have the words of all groups, and each channel has its constants.
        unsafe {
            x86::converted(self, halves, conversion, out);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (halves, out);
    }

    /// Checks the lengths of the operands and returns the number of half tiles, each of [`LANES`] columns.
    fn check(&self) -> usize {
        let halves = self.num_cols.div_ceil(LANES);
        assert!(self.num_rows <= ROWS && halves <= 2, "{} rows and {} columns", self.num_rows, self.num_cols);
        assert!(self.rows.len() >= self.offsets.len() * ROWS, "{} words of rows", self.rows.len());
        let end = self.offsets.max + halves * LANES;
        assert!(self.offsets.len() == 0 || self.columns.len() >= end, "{} of {end} words", self.columns.len());
        halves
    }

    fn portable(&self, halves: usize, sums: &mut Sums) {
        let pair = |word: i32| [word as i16 as i32, word >> 16];
        for half in 0..halves {
            for row in 0..self.num_rows {
                let mut out = [0i32; LANES];
                for (offset, rows) in self.offsets.values.iter().zip(self.rows.as_chunks::<ROWS>().0) {
                    let a = pair(rows[row]);
                    let columns = &self.columns[*offset + half * LANES..][..LANES];
                    for (sum, word) in out.iter_mut().zip(columns) {
                        let b = pair(*word);
                        *sum = sum.wrapping_add((a[0] * b[0]).wrapping_add(a[1] * b[1]));
                    }
                }
                sums[row * COLS + half * LANES..][..LANES].copy_from_slice(&out);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bytes, COLS, Conversion, LANES, ROWS, Sums, Tile};
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX-512 VNNI; the operands have the words of all groups, and each channel its constants.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn converted(tile: &Tile<'_>, halves: usize, conversion: &Conversion<'_>, out: &mut Bytes) {
        // SAFETY: as the caller guarantees.
        unsafe {
            match (halves, tile.has_unsigned_rows) {
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
    unsafe fn converted_rows<const V: usize, const UNSIGNED_ROWS: bool>(
        tile: &Tile<'_>,
        conversion: &Conversion<'_>,
        out: &mut Bytes,
    ) {
        // SAFETY: as the caller guarantees.
        unsafe {
            match tile.num_rows {
                0 => {}
                1 => convert(&bytes_sums::<1, V, UNSIGNED_ROWS>(tile), UNSIGNED_ROWS, conversion, out),
                2..=4 => convert(&bytes_sums::<4, V, UNSIGNED_ROWS>(tile), UNSIGNED_ROWS, conversion, out),
                _ => convert(&bytes_sums::<ROWS, V, UNSIGNED_ROWS>(tile), UNSIGNED_ROWS, conversion, out),
            }
        }
    }

    /// # Safety
    /// The processor has AVX-512 BW; each channel has its constants.
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
    /// The processor has AVX-512 VNNI; the operands have the words of all groups.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) unsafe fn bytes(tile: &Tile<'_>, halves: usize, sums: &mut Sums) {
        // SAFETY: as the caller guarantees.
        unsafe {
            match (halves, tile.has_unsigned_rows) {
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
    unsafe fn bytes_rows<const V: usize, const UNSIGNED_ROWS: bool>(tile: &Tile<'_>, sums: &mut Sums) {
        // SAFETY: as the caller guarantees.
        unsafe {
            match tile.num_rows {
                0 => {}
                1 => bytes_tile::<1, V, UNSIGNED_ROWS>(tile, sums),
                2..=4 => bytes_tile::<4, V, UNSIGNED_ROWS>(tile, sums),
                _ => bytes_tile::<ROWS, V, UNSIGNED_ROWS>(tile, sums),
            }
        }
    }

    /// The sums of M rows of V vectors: with M = 8 and V = 2 they and the operands fill 19 of the 32 registers.
    ///
    /// # Safety
    /// See [`bytes`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn bytes_sums<const M: usize, const V: usize, const UNSIGNED_ROWS: bool>(
        tile: &Tile<'_>,
    ) -> [[__m512i; V]; M] {
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
                        acc[v] = match UNSIGNED_ROWS {
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
    unsafe fn bytes_tile<const M: usize, const V: usize, const UNSIGNED_ROWS: bool>(tile: &Tile<'_>, sums: &mut Sums) {
        // SAFETY: as the caller guarantees.
        let acc = unsafe { bytes_sums::<M, V, UNSIGNED_ROWS>(tile) };
        for (i, acc) in acc.iter().enumerate() {
            for (v, acc) in acc.iter().enumerate() {
                let out = &mut sums[i * COLS + v * LANES..][..LANES];
                // SAFETY: the slice has the elements of a vector.
                unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), *acc) };
            }
        }
    }

    /// # Safety
    /// The processor has AVX2; the operands have the words of all groups.
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

    /// The sums of M rows from `first` on and 16 columns: with M = 4 they and the operands fill 13 of the 16 registers.
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
}
