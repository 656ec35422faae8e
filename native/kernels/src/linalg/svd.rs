//! The singular value decomposition.

use super::bidiagonal::{Bidiagonal, bidiagonal};
use super::lq::lq;
use super::reflections::Reflections;
use super::rotations::Rotations;
use super::{Scalar, transpose};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::{List, with_scratch};

/// The decomposition A = U diag(s) V of a matrix of `m` x `n` elements: with k the smaller of m and n, U of `m` x `k` elements
/// has orthonormal columns, V of `k` x `n` elements orthonormal rows, and the singular values are in decreasing order.
///
/// The LQ factorisation reduces A to a square matrix, Householder reflections to a bidiagonal one, and implicit QR sweeps to a
/// diagonal one (Golub and Van Loan, Matrix Computations, 8.6; Demmel and Kahan, Accurate singular values of bidiagonal matrices,
/// 1990).
///
/// # Errors
/// The index of a singular value that does not converge, as with NaN and infinities.
///
/// # Panics
/// If a length does not match.
pub fn svd<T: Scalar>(a: &[T], m: usize, n: usize, u: &mut [T], s: &mut [T], v: &mut [T]) -> Result<(), usize> {
    let k = m.min(n);
    assert_eq!((a.len(), u.len()), (m * n, m * k), "a matrix of {m} x {n} elements and its left vectors");
    assert_eq!((s.len(), v.len()), (k, k * n), "the singular values and right vectors of {m} x {n} elements");
    if k == 0 {
        return Ok(());
    }
    let wide = m.max(n);
    with_scratch(k * (2 * wide + 3 * k), |work: &mut [T]| {
        let (q, work) = work.split_at_mut(k * wide);
        let (long, work) = work.split_at_mut(k * wide);
        let (square, work) = work.split_at_mut(k * k);
        let (left, right) = work.split_at_mut(k * k);
        if m <= n {
            q.copy_from_slice(a);
        } else {
            transpose(a, m, n, q);
        }
        if wide > k {
            lq(q, k, wide, square);
        } else {
            square.copy_from_slice(q);
        }
        square_svd(square, k, left, s, right)?;
        let long = if wide > k {
            let (of_square, q) = (MatRef::row_major(right, k, k), MatRef::row_major(q, k, wide));
            gemm(T::one(), of_square, q, T::zero(), MatMut::row_major(long, k, wide));
            long
        } else {
            right
        };
        let (left, right) = if m <= n { (left, long) } else { (long, left) };
        transpose(left, k, m, u);
        v.copy_from_slice(right);
        Ok(())
    })
}

/// A = left^T diag(s) right for a matrix of n x n elements, which is overwritten. The singular vectors are rows.
fn square_svd<T: Scalar>(a: &mut [T], n: usize, left: &mut [T], s: &mut [T], right: &mut [T]) -> Result<(), usize> {
    with_scratch(2 * n * n + 3 * n, |work: &mut [T]| {
        let (columns, work) = work.split_at_mut(n * n);
        let (rows, work) = work.split_at_mut(n * n);
        let (superdiagonal, taus) = work.split_at_mut(n);
        bidiagonal(a, columns, s, superdiagonal, taus);
        let (column_taus, row_taus) = taus.split_at(n);
        Reflections { v: columns, n, offset: 0, taus: column_taus }.product(n, left);
        Reflections { v: a, n, offset: 1, taus: row_taus }.product(n - 1, rows);
        let (mut of_left, mut of_right) = (Rotations::new(left, n), Rotations::new(rows, n));
        Bidiagonal { d: s, e: &mut superdiagonal[..n - 1], left: &mut of_left, right: &mut of_right }.diagonalize()?;
        of_left.apply();
        of_right.apply();
        for (s, row) in s.iter_mut().zip(rows.chunks_exact_mut(n)).filter(|(s, _)| s.is_sign_negative()) {
            *s = -*s;
            row.iter_mut().for_each(|x| *x = -*x);
        }
        let mut order: List<(usize, T)> = s.iter().copied().enumerate().collect();
        order.sort_by(|x, y| y.1.partial_cmp(&x.1).unwrap_or(std::cmp::Ordering::Equal));
        for (i, &(from, value)) in order.iter().enumerate() {
            s[i] = value;
            right[i * n..(i + 1) * n].copy_from_slice(&rows[from * n..(from + 1) * n]);
        }
        for (to, &(from, _)) in rows.chunks_exact_mut(n).zip(order.iter()) {
            to.copy_from_slice(&left[from * n..(from + 1) * n]);
        }
        left.copy_from_slice(rows);
        Ok(())
    })
}
