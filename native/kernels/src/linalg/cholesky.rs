//! The Cholesky factorization.

use super::{BLOCK, Scalar, dot};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::{parallel_rows, with_scratch};

/// Replaces a symmetric, positive definite `n` x `n` matrix A by the lower triangular L with A = L L^T and zeros above the
/// diagonal. Reads only the lower triangle of A. NaN and infinity propagate.
///
/// # Errors
/// The index of the row at which A turns out not to be positive definite.
///
/// # Panics
/// Panics if the length of `a` is not n x n.
pub fn cholesky<T: Scalar>(a: &mut [T], n: usize) -> Result<(), usize> {
    assert_eq!(a.len(), n * n, "a matrix of {n} x {n} elements");
    for k in (0..n).step_by(BLOCK) {
        let b = BLOCK.min(n - k);
        factorize_diagonal(a, n, k, b)?;
        let (done, rest) = a.split_at_mut((k + b) * n);
        let diagonal = &done[k * n..];
        // Triangular solve for the rows below the diagonal block: X L_kk^T = A[i, k..k + b].
        parallel_rows(rest, n, BLOCK, |_, row| {
            for j in 0..b {
                let l = &diagonal[j * n + k..];
                row[k + j] = (row[k + j] - dot(&row[k..k + j], &l[..j])) / l[j];
            }
        });
        update_trailing(rest, n, k, b);
    }
    for (i, row) in a.chunks_exact_mut(n.max(1)).enumerate() {
        row[i + 1..].fill(T::zero());
    }
    Ok(())
}

/// Factorizes the diagonal block of `b` rows at `k`.
fn factorize_diagonal<T: Scalar>(a: &mut [T], n: usize, k: usize, b: usize) -> Result<(), usize> {
    for i in k..k + b {
        let (above, row) = a.split_at_mut(i * n);
        for j in k..i {
            let other = &above[j * n + k..];
            row[j] = (row[j] - dot(&row[k..j], &other[..j - k])) / other[j - k];
        }
        let square = row[i] - dot(&row[k..i], &row[k..i]);
        if square <= T::zero() {
            return Err(i);
        }
        row[i] = square.sqrt();
    }
    Ok(())
}

/// Updates the trailing lower triangle with the new columns L_k: A -= L_k L_k^T, a block of columns at a time.
fn update_trailing<T: Scalar>(rest: &mut [T], n: usize, k: usize, b: usize) {
    let rows = rest.len() / n.max(1);
    with_scratch(rows * b, |columns: &mut [T]| {
        for (to, from) in columns.chunks_exact_mut(b).zip(rest.chunks_exact(n)) {
            to.copy_from_slice(&from[k..k + b]);
        }
        for j in (0..rows).step_by(BLOCK) {
            let width = BLOCK.min(rows - j);
            let left = MatRef::row_major(&columns[j * b..], rows - j, b);
            let right = MatRef::row_major(&columns[j * b..], width, b).t();
            let target = MatMut::new(&mut rest[j * n + k + b + j..], rows - j, width, n);
            gemm(-T::one(), left, right, T::one(), target);
        }
    });
}
