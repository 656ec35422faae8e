//! Products of integer matrices, which wrap on overflow.

use crate::par;

/// Multiply-adds in a chunk.
const CHUNK_WORK: usize = 1 << 14;

/// C_i = A_i B_i for consecutive row-major (M, K) and (K, N) matrices; the size is (M, K, N).
///
/// # Panics
/// Panics if there are fewer matrices in `a` or `b` than in `c`.
pub fn integer_products(a: &[i64], b: &[i64], c: &mut [i64], (m, k, n): (usize, usize, usize)) {
    par::parallel_rows(c, n, CHUNK_WORK / (n * k).max(1), |row, c| {
        let (a, b) = (&a[row * k..][..k], &b[row / m * k * n..][..k * n]);
        c.fill(0);
        for (x, b) in a.iter().zip(b.chunks_exact(n)) {
            for (c, y) in c.iter_mut().zip(b) {
                *c = c.wrapping_add(x.wrapping_mul(*y));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_a_batch() {
        let (a, b) = ([1, 2, 3, 4], [5, 6, 7, i64::MAX]);
        let mut c = [0; 2];
        integer_products(&a, &b, &mut c, (1, 2, 1));
        assert_eq!(c, [17, 21i64.wrapping_add(i64::MAX.wrapping_mul(4))]);
    }
}
