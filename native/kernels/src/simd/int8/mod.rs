//! Tiles of products of 8-bit integers with exact 32-bit sums.
//!
//! Both operands are arrays of 32-bit words. A word holds a group of consecutive k indices of one row or column, as in oneDNN's
//! VNNI layouts. A tile is the product of up to [`ROWS`] rows, whose words are broadcast, with up to [`COLS`] columns, one per
//! lane.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::Isa;
use super::multiversion;
#[cfg(target_arch = "aarch64")]
pub(super) use neon::dot_product;

/// Rows of a tile.
pub(crate) const ROWS: usize = 8;
/// Columns of half a tile.
pub(crate) const LANES: usize = 16;
/// Columns of a tile.
pub(crate) const COLS: usize = 2 * LANES;
/// The sums of a tile, row by row.
pub(crate) type Sums = [i32; ROWS * COLS];
/// The results of a tile as bytes, row by row. The extra row is room for storing two rows at a time.
pub(crate) type Bytes = [u8; (ROWS + 1) * COLS];

/// How the k indices of a row or column are stored in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Four bytes, those of the weights signed. Those of the data are unsigned for AVX-512 VNNI, and signed for the dot product of
    /// NEON; see [`Layout::has_signed_data`].
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
        #[cfg(target_arch = "aarch64")]
        if multiversion::level() == Isa::Neon && std::arch::is_aarch64_feature_detected!("dotprod") {
            return Layout::Bytes;
        }
        Layout::Words
    }

    /// True if the data are signed bytes.
    pub(crate) fn has_signed_data(self) -> bool {
        self == Layout::Bytes && cfg!(target_arch = "aarch64")
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
    /// One value per channel. Channels are rows, or columns if the rows of the tile are data.
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
    /// True if the rows are data and the columns weights, false for the reverse.
    pub has_data_rows: bool,
}

impl Tile<'_> {
    /// Computes the sums. Sums outside `num_rows` and `num_cols` are unspecified.
    ///
    /// # Panics
    /// Panics if an operand is too short, or the processor lacks the instructions of the layout.
    pub(crate) fn multiply(&self, layout: Layout, sums: &mut Sums) {
        let halves = self.check();
        match layout {
            Layout::Bytes => {
                assert!(Layout::best() == Layout::Bytes, "the processor has no products of bytes");
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the instructions are available, and both operands have the words of all groups.
                unsafe {
                    x86::bytes(self, halves, sums);
                }
                #[cfg(target_arch = "aarch64")]
                // SAFETY: as above.
                unsafe {
                    neon::bytes(self, sums);
                }
            }
            Layout::Words => match multiversion::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above; both levels have AVX2.
                Isa::Avx2 | Isa::Avx512 => unsafe { x86::words(self, halves, sums) },
                #[cfg(target_arch = "aarch64")]
                // SAFETY: as above.
                Isa::Neon => unsafe { neon::words(self, sums) },
                _ => self.portable(halves, sums),
            },
        }
    }

    /// Computes the sums in [`Layout::Bytes`] and converts them to bytes. Results outside `num_rows` and `num_cols` are
    /// unspecified.
    ///
    /// # Panics
    /// Panics if an operand is too short, or the processor lacks the instructions of the layout.
    pub(crate) fn multiply_to_bytes(&self, conversion: &Conversion<'_>, out: &mut Bytes) {
        let halves = self.check();
        let channels = if self.has_data_rows { COLS } else { ROWS };
        assert!(conversion.init.len() == channels && conversion.scale.len() == channels, "{channels} channels");
        assert!(Layout::best() == Layout::Bytes, "the processor has no products of bytes");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instructions are available, both operands have the words of all groups, and each channel has its constants.
        unsafe {
            x86::converted(self, halves, conversion, out);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            neon::converted(self, conversion, out);
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
