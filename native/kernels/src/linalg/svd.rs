//! The singular value decomposition.

use super::bidiagonal::{Bidiagonal, bidiagonal};
use super::lq::lq;
use super::reflections::Reflections;
use super::rotations::Rotations;
use super::{Scalar, transpose};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::{List, with_scratch};

/// The decomposition A = U diag(s) V of an `m` x `n` matrix: with k = min(m, n), the `m` x `k` matrix U has orthonormal columns,
/// the `k` x `n` matrix V has orthonormal rows, and the singular values are in decreasing order.
///
/// The LQ factorization reduces A to a square matrix, Householder reflections to a bidiagonal one, and implicit QR sweeps to a
/// diagonal one (Golub and Van Loan, Matrix Computations, 8.6; Demmel and Kahan, Accurate singular values of bidiagonal matrices,
/// 1990).
///
/// # Errors
/// The index of a singular value that does not converge, as with NaN and infinities.
///
/// # Panics
/// Panics if a length does not match.
pub fn svd<T: Scalar>(a: &[T], m: usize, n: usize, u: &mut [T], s: &mut [T], v: &mut [T]) -> Result<(), usize> {
    let k = m.min(n);
    assert_eq!((a.len(), u.len()), (m * n, m * k), "a matrix of {m} x {n} elements and its left vectors");
    assert_eq!((s.len(), v.len()), (k, k * n), "the singular values and right vectors of {m} x {n} elements");
    if k == 0 {
        return Ok(());
    }
    let longer = m.max(n);
    with_scratch(k * (2 * longer + 3 * k), |buffer: &mut [T]| {
        let (q, buffer) = buffer.split_at_mut(k * longer);
        let (long_vectors, buffer) = buffer.split_at_mut(k * longer);
        let (square, buffer) = buffer.split_at_mut(k * k);
        let (left, right) = buffer.split_at_mut(k * k);
        if m <= n {
            q.copy_from_slice(a);
        } else {
            transpose(a, m, n, q);
        }
        if longer > k {
            lq(q, k, longer, square);
        } else {
            square.copy_from_slice(q);
        }
        square_svd(square, k, left, s, right)?;
        let long_vectors = if longer > k {
            let (square_vectors, q) = (MatRef::row_major(right, k, k), MatRef::row_major(q, k, longer));
            gemm(T::one(), square_vectors, q, T::zero(), MatMut::row_major(long_vectors, k, longer));
            long_vectors
        } else {
            right
        };
        let (left, right) = if m <= n { (left, long_vectors) } else { (long_vectors, left) };
        transpose(left, k, m, u);
        v.copy_from_slice(right);
        Ok(())
    })
}

/// A = left^T diag(s) right for an `n` x `n` matrix, which is overwritten. The singular vectors are rows.
fn square_svd<T: Scalar>(a: &mut [T], n: usize, left: &mut [T], s: &mut [T], right: &mut [T]) -> Result<(), usize> {
    with_scratch(2 * n * n + 3 * n, |buffer: &mut [T]| {
        let (columns, buffer) = buffer.split_at_mut(n * n);
        let (rows, buffer) = buffer.split_at_mut(n * n);
        let (superdiagonal, taus) = buffer.split_at_mut(n);
        bidiagonal(a, columns, s, superdiagonal, taus);
        let (column_taus, row_taus) = taus.split_at(n);
        Reflections { v: columns, n, offset: 0, taus: column_taus }.product(n, left);
        Reflections { v: a, n, offset: 1, taus: row_taus }.product(n - 1, rows);
        let (mut left_rotations, mut right_rotations) = (Rotations::new(left, n), Rotations::new(rows, n));
        Bidiagonal { d: s, e: &mut superdiagonal[..n - 1], left: &mut left_rotations, right: &mut right_rotations }
            .diagonalize()?;
        left_rotations.apply();
        right_rotations.apply();
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
