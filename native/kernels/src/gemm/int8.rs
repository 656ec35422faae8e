//! Products of 8-bit integers with exact 32-bit sums.

use crate::par::{self, MatMut};
use crate::simd::multiversion::{self, Kernel};

/// Columns of the result that are computed side by side.
const COLS: usize = 4;
/// Sums of so few terms cost less than a call for each of them.
const SHORT: usize = 64;
/// Rows and columns of a parallel block.
const BLOCK: usize = 64;
/// Products of fewer multiply-adds than this run on the calling thread.
const PARALLEL_WORK: usize = 1 << 18;

/// `i8` and `u8`.
pub trait Byte: Copy + Send + Sync + 'static {
    /// The value.
    fn wide(self) -> i32;
}

impl Byte for i8 {
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
}

impl Byte for u8 {
    #[inline(always)]
    fn wide(self) -> i32 {
        i32::from(self)
    }
}

/// C = A B^T for A of (m, k) and B of (n, k) adjacent elements. Sums are exact up to 2^31, and wrap beyond, which takes more
/// than 65000 terms; every instruction set gives the same.
///
/// # Panics
/// When the lengths do not fit.
pub fn gemm_int8<A: Byte, B: Byte>(a: &[A], b: &[B], k: usize, c: MatMut<'_, i32>) {
    let (m, n) = (c.rows(), c.cols());
    assert!(a.len() == m * k && b.len() == n * k, "shapes do not fit: ({m}, {k}) times ({n}, {k}) transposed");
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

/// The products of all rows of a block, of up to [`SHORT`] elements, with up to [`COLS`] columns from number `j` on.
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
        }
    }
}
