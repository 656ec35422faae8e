//! Products of 8-bit integers in AVX-512 VNNI: one instruction adds four products of an unsigned and a signed byte to each of 16
//! sums.

use super::Isa;
use super::multiversion;
use crate::par::MatMut;
use std::arch::x86_64::*;

/// Terms per instruction and sum.
pub(crate) const GROUP: usize = 4;
/// Sums in a vector.
pub(crate) const LANES: usize = 16;
/// Bytes of one group of terms for all sums of a vector.
const STEP: usize = GROUP * LANES;
/// Rows of a tile: with two vectors of sums each, and the operands, they fill 18 of the 32 registers.
const ROWS: usize = 8;

/// True if the processor has the instructions and `FERROMX_ISA` allows them.
pub(crate) fn is_available() -> bool {
    multiversion::level() == Isa::Avx512 && is_x86_feature_detected!("avx512vnni")
}

/// One or two panels of columns: for every group of terms, each has the bytes of [`LANES`] columns, one column after the other.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Groups of terms.
    pub groups: usize,
    /// Initial values of the sums, one per column.
    pub init: &'a [i32],
    /// True if the columns are signed and the rows unsigned, false for the reverse.
    pub signed: bool,
}

/// Writes the products of the rows of `a`, each of `groups` groups of bytes, with the columns of the panels. `c` has one row for
/// each and no more columns than the panels.
///
/// # Panics
/// When the lengths do not match, or the processor lacks the instructions.
pub(crate) fn multiply(a: &[u8], panels: Panels<'_>, mut c: MatMut<'_, i32>) {
    let (rows, cols, width) = (c.rows(), c.cols(), panels.groups * GROUP);
    let vectors = cols.div_ceil(LANES);
    assert!(is_available(), "the processor has no AVX-512 VNNI");
    assert!(a.len() >= rows * width && (1..=2).contains(&vectors), "{rows} rows of {width} bytes, {cols} columns");
    assert!(panels.data.len() >= vectors * panels.groups * STEP && panels.init.len() >= vectors * LANES, "panels");
    // SAFETY: the instructions are available, and the lengths match.
    unsafe {
        match (vectors, panels.signed) {
            (1, true) => all_rows::<1, true>(a, panels, &mut c),
            (1, false) => all_rows::<1, false>(a, panels, &mut c),
            (_, true) => all_rows::<2, true>(a, panels, &mut c),
            (_, false) => all_rows::<2, false>(a, panels, &mut c),
        }
    }
}

/// Computes all rows, tile by tile.
///
/// # Safety
/// See [`tile`].
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn all_rows<const V: usize, const SIGNED: bool>(a: &[u8], panels: Panels<'_>, c: &mut MatMut<'_, i32>) {
    let (rows, tiled) = (c.rows(), c.rows() / ROWS * ROWS);
    // SAFETY: as the caller guarantees.
    unsafe {
        (0..tiled).step_by(ROWS).for_each(|row| tile::<ROWS, V, SIGNED>(a, panels, c, row));
        (tiled..rows).for_each(|row| tile::<1, V, SIGNED>(a, panels, c, row));
    }
}

/// Computes a tile of M rows from `first` on with V vectors each.
///
/// # Safety
/// The processor has the instructions; `a` and `c` have these rows, and there are V panels for the columns of `c`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn tile<const M: usize, const V: usize, const SIGNED: bool>(
    a: &[u8],
    panels: Panels<'_>,
    c: &mut MatMut<'_, i32>,
    first: usize,
) {
    let width = panels.groups * GROUP;
    let tail = c.cols() - LANES * (V - 1);
    let mask = u16::MAX >> (LANES - tail);
    let mut sums = [[_mm512_setzero_si512(); V]; M];
    // SAFETY: the caller guarantees the rows, panels and columns; the mask excludes columns past the last.
    unsafe {
        let (a, stride) = (a.as_ptr().add(first * width), c.row_stride());
        let out = c.as_mut_ptr().add(first * stride);
        for v in 0..V {
            let init = _mm512_loadu_si512(panels.init.as_ptr().add(v * LANES).cast());
            sums.iter_mut().for_each(|row| row[v] = init);
        }
        for group in 0..panels.groups {
            let mut columns = [_mm512_setzero_si512(); V];
            for (v, columns) in columns.iter_mut().enumerate() {
                *columns = _mm512_loadu_si512(panels.data.as_ptr().add((v * panels.groups + group) * STEP).cast());
            }
            for (i, row) in sums.iter_mut().enumerate() {
                let bytes = _mm512_set1_epi32(a.add(i * width + group * GROUP).cast::<i32>().read_unaligned());
                for v in 0..V {
                    row[v] = match SIGNED {
                        true => _mm512_dpbusd_epi32(row[v], bytes, columns[v]),
                        false => _mm512_dpbusd_epi32(row[v], columns[v], bytes),
                    };
                }
            }
        }
        for (i, row) in sums.iter().enumerate() {
            for (v, sums) in row.iter().enumerate() {
                let mask = if v + 1 == V { mask } else { u16::MAX };
                _mm512_mask_storeu_epi32(out.add(i * stride + v * LANES), mask, *sums);
            }
        }
    }
}
