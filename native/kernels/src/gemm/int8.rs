//! Products of 8-bit integers with exact 32-bit sums.

use crate::par::{self, MatMut};
use crate::simd::multiversion::{self, Kernel};

/// Columns of the result computed side by side.
const COLS: usize = 4;
/// Up to this number of terms, the products of a whole block share one function call.
const SHORT: usize = 64;
/// Rows and columns of a parallel block.
const BLOCK: usize = 64;
/// Products of fewer multiply-adds run on the calling thread.
const PARALLEL_WORK: usize = 1 << 18;

/// An 8-bit integer: `i8` or `u8`.
pub trait Byte: Copy + Send + Sync + 'static {
    /// Whether the type is signed.
    const SIGNED: bool;
    /// Converts to 32 bits.
    fn wide(self) -> i32;
    /// The bit pattern.
    fn bits(self) -> u8;
}

impl Byte for i8 {
    const SIGNED: bool = true;
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        self.cast_unsigned()
    }
}

impl Byte for u8 {
    const SIGNED: bool = false;
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        self
    }
}

/// C = A B^T for A of (m, k) and B of (n, k) adjacent elements. Sums of up to 65,000 terms are exact, larger ones may wrap at 32
/// bits; every instruction set gives the same result.
///
/// # Panics
/// When the lengths do not match.
pub fn gemm_int8<A: Byte, B: Byte>(a: &[A], b: &[B], k: usize, c: MatMut<'_, i32>) {
    let (m, n) = (c.rows(), c.cols());
    assert!(a.len() == m * k && b.len() == n * k, "shapes do not fit: ({m}, {k}) times ({n}, {k}) transposed");
    #[cfg(target_arch = "x86_64")]
    if crate::simd::vnni::is_available() && (A::SIGNED || B::SIGNED) && m * n * k > 0 {
        return vnni::multiply(a, b, k, c);
    }
    let block = if m * n * k < PARALLEL_WORK { m.max(n).max(1) } else { BLOCK };
    par::parallel_blocks(c, block, block, |row, col, mut c| {
        for j in (0..c.cols()).step_by(COLS) {
            let cols = COLS.min(c.cols() - j);
            let b = &b[(col + j) * k..][..cols * k];
            if k <= SHORT {
                multiversion::run(Rows { a: &a[row * k..], b, c: &mut c, j });
                continue;
            }
            for i in 0..c.rows() {
                let sums = multiversion::run(Dots { a: &a[(row + i) * k..][..k], b });
                c.row_mut(i)[j..j + cols].copy_from_slice(&sums[..cols]);
            }
        }
    });
}

/// The product by instructions that multiply unsigned with signed bytes.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::{Byte, PARALLEL_WORK};
    use crate::par::{self, MatMut, with_scratch};
    use crate::simd::per_isa;
    use crate::simd::vnni::{GROUP, LANES, Panels, multiply as multiply_panels};

    /// Rows of a parallel block; it has two panels of columns.
    const BLOCK: usize = 64;
    /// Bytes copied at once if rows need no zero padding.
    const COPIED: usize = 1 << 14;
    /// Offset that makes a signed byte unsigned; its contribution is subtracted from the sums.
    const SHIFT: u8 = 0x80;

    pub(super) fn multiply<A: Byte, B: Byte>(a: &[A], b: &[B], k: usize, c: MatMut<'_, i32>) {
        let (m, n) = (c.rows(), c.cols());
        let (groups, panels) = (k.div_ceil(GROUP), n.div_ceil(LANES));
        let (row, panel) = (groups * GROUP, groups * GROUP * LANES);
        let shifted = A::SIGNED && B::SIGNED;
        with_scratch(m * row + panels * panel, |bytes: &mut [u8]| {
            with_scratch(panels * LANES, |init: &mut [i32]| {
                let (rows, columns) = bytes.split_at_mut(m * row);
                let work = if m * n * k < PARALLEL_WORK { m.max(n) } else { BLOCK };
                if row == k {
                    par::parallel_rows(rows, COPIED, 1, |i, to| {
                        copy_row(&a[i * COPIED..i * COPIED + to.len()], shifted, to);
                    });
                } else {
                    par::parallel_rows(rows, row, work, |i, to| copy_row(&a[i * k..(i + 1) * k], shifted, to));
                }
                par::parallel_rows2(
                    (&mut *columns, panel),
                    (&mut *init, LANES),
                    work.div_ceil(LANES),
                    |i, to, init| {
                        let first = i * LANES;
                        to.fill(0);
                        init.fill(0);
                        for (lane, init) in init.iter_mut().enumerate().take(n - first) {
                            let column = &b[(first + lane) * k..(first + lane + 1) * k];
                            copy_column(column, lane, to);
                            if shifted {
                                *init =
                                    column.iter().fold(0i32, |sum, b| sum.wrapping_sub(b.wide() * i32::from(SHIFT)));
                            }
                        }
                    },
                );
                let (rows, columns, init) = (&*rows, &*columns, &*init);
                par::parallel_blocks(c, work, 2 * LANES, |i, j, c| {
                    let first = j / LANES;
                    let data = &columns[first * panel..panels.min(first + 2) * panel];
                    let panels = Panels { data, groups, init: &init[first * LANES..], signed: B::SIGNED };
                    multiply_panels(&rows[i * row..(i + c.rows()) * row], panels, c);
                });
            });
        });
    }

    per_isa! {
        /// Copies the bytes of a row, padded with zeros.
        fn copy_row<A: Byte>(from: &[A], shifted: bool, to: &mut [u8]) {
            let shift = if shifted { SHIFT } else { 0 };
            let (bytes, rest) = to.split_at_mut(from.len());
            bytes.iter_mut().zip(from).for_each(|(to, from)| *to = from.bits() ^ shift);
            rest.fill(0);
        }
    }

    /// Copies the bytes of a column, group by group, to its lane of a panel.
    fn copy_column<B: Byte>(from: &[B], lane: usize, to: &mut [u8]) {
        let (groups, tail) = from.as_chunks::<GROUP>();
        let mut groups_out = to.as_chunks_mut::<{ GROUP * LANES }>().0.iter_mut();
        for (from, to) in groups.iter().zip(&mut groups_out) {
            to[lane * GROUP..(lane + 1) * GROUP].copy_from_slice(&from.map(B::bits));
        }
        if let Some(to) = groups_out.next() {
            to[lane * GROUP..].iter_mut().zip(tail).for_each(|(to, from)| *to = from.bits());
        }
    }
}

/// The products of all rows of a block, of up to [`SHORT`] elements, with up to [`COLS`] columns from `j` on.
struct Rows<'a, 'c, 'd, A, B> {
    a: &'a [A],
    b: &'a [B],
    c: &'c mut MatMut<'d, i32>,
    j: usize,
}

impl<A: Byte, B: Byte> Kernel for Rows<'_, '_, '_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let cols = COLS.min(self.c.cols() - self.j);
        let k = self.b.len() / cols;
        let mut columns = [[0; COLS]; SHORT];
        for (column, b) in self.b.chunks_exact(k.max(1)).enumerate() {
            for (to, b) in columns.iter_mut().zip(b) {
                to[column] = b.wide();
            }
        }
        for i in 0..self.c.rows() {
            let mut sums = [0i32; COLS];
            for (a, columns) in self.a[i * k..(i + 1) * k].iter().zip(&columns) {
                for (sum, b) in sums.iter_mut().zip(columns) {
                    *sum = sum.wrapping_add(a.wide() * b);
                }
            }
            self.c.row_mut(i)[self.j..self.j + cols].copy_from_slice(&sums[..cols]);
        }
    }
}

/// The products of one row with up to [`COLS`] columns.
struct Dots<'a, A, B> {
    a: &'a [A],
    b: &'a [B],
}

impl<A: Byte, B: Byte> Kernel for Dots<'_, A, B> {
    type Output = [i32; COLS];

    #[inline(always)]
    fn run(self) -> [i32; COLS] {
        let k = self.a.len();
        let mut sums = [0; COLS];
        if self.b.len() == COLS * k {
            let (b0, rest) = self.b.split_at(k);
            let (b1, rest) = rest.split_at(k);
            let (b2, b3) = rest.split_at(k);
            for ((((a, b0), b1), b2), b3) in self.a.iter().zip(b0).zip(b1).zip(b2).zip(b3) {
                let a = a.wide();
                sums[0] = i32::wrapping_add(sums[0], a * b0.wide());
                sums[1] = i32::wrapping_add(sums[1], a * b1.wide());
                sums[2] = i32::wrapping_add(sums[2], a * b2.wide());
                sums[3] = i32::wrapping_add(sums[3], a * b3.wide());
            }
            return sums;
        }
        for (sum, b) in sums.iter_mut().zip(self.b.chunks_exact(k.max(1))) {
            *sum = self.a.iter().zip(b).fold(0, |s, (a, b)| i32::wrapping_add(s, a.wide() * b.wide()));
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (5, 4, 64), (66, 130, 33), (2, 3, 0)] {
            let a: Vec<u8> = (0..m * k).map(|i| (i * 37 % 256) as u8).collect();
            let b: Vec<i8> = (0..n * k).map(|i| (i * 91 % 256) as u8 as i8).collect();
            let mut c = vec![7; m * n];
            gemm_int8(&a, &b, k, MatMut::row_major(&mut c, m, n));
            for i in 0..m {
                for j in 0..n {
                    let want: i64 = (0..k).map(|p| i64::from(a[i * k + p]) * i64::from(b[j * k + p])).sum();
                    assert_eq!(i64::from(c[i * n + j]), want);
                }
            }
            let signed: Vec<i8> = a.iter().map(|a| a.cast_signed()).collect();
            gemm_int8(&signed, &b, k, MatMut::row_major(&mut c, m, n));
            for (at, sum) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let want: i64 = (0..k).map(|p| i64::from(signed[i * k + p]) * i64::from(b[j * k + p])).sum();
                assert_eq!(i64::from(*sum), want);
            }
            let mut transposed = vec![7; m * n];
            gemm_int8(&b, &a, k, MatMut::row_major(&mut transposed, n, m));
            gemm_int8(&a, &b, k, MatMut::row_major(&mut c, m, n));
            assert!((0..m * n).all(|at| c[at] == transposed[at % n * m + at / n]));
        }
    }
}
