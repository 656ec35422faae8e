//! The LU factorization with partial pivoting, and solvers based on it.

use super::{BLOCK, Scalar, Triangle, axpy, solve_left};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::{parallel_rows, with_scratch};

/// Replaces an `n` x `n` matrix A by its factors: L below the diagonal (with an implicit unit diagonal), U on and above it, so
/// that P A = L U. `pivots[k]` is the row that was exchanged with row k. Returns true if the number of exchanges is odd. A
/// singular matrix leaves a zero on the diagonal of U.
///
/// # Panics
/// Panics if a length does not match.
pub fn lu<T: Scalar>(a: &mut [T], n: usize, pivots: &mut [usize]) -> bool {
    assert_eq!((a.len(), pivots.len()), (n * n, n), "a matrix of {n} x {n} elements and {n} pivots");
    let mut is_odd = false;
    for k in (0..n).step_by(BLOCK) {
        let end = (k + BLOCK).min(n);
        for (j, pivot) in pivots.iter_mut().enumerate().take(end).skip(k) {
            *pivot = eliminate(a, n, j, end);
            is_odd ^= *pivot != j;
        }
        if end < n {
            update_trailing(a, n, k, end);
        }
    }
    is_odd
}

/// Eliminates column `j` within the block of columns that ends at `end`; returns the pivot row.
fn eliminate<T: Scalar>(a: &mut [T], n: usize, j: usize, end: usize) -> usize {
    let mut pivot = j;
    for i in j + 1..n {
        if a[i * n + j].abs() > a[pivot * n + j].abs() {
            pivot = i;
        }
    }
    if pivot != j {
        let (upper, lower) = a.split_at_mut(pivot * n);
        upper[j * n..(j + 1) * n].swap_with_slice(&mut lower[..n]);
    }
    let (upper, lower) = a.split_at_mut((j + 1) * n);
    let row = &upper[j * n..];
    if row[j] != T::zero() {
        parallel_rows(lower, n, 4 * BLOCK, |_, other| {
            other[j] /= row[j];
            let scale = -other[j];
            axpy(scale, &row[j + 1..end], &mut other[j + 1..end]);
        });
    }
    pivot
}

/// Updates the columns to the right of a factorized block: a triangular solve for the rows of the block, then A -= L U below it.
fn update_trailing<T: Scalar>(a: &mut [T], n: usize, k: usize, end: usize) {
    let (upper, lower) = a.split_at_mut(end * n);
    let (b, rows) = (end - k, n - end);
    for i in k..end {
        let (above, row) = upper.split_at_mut(i * n);
        for j in k..i {
            let scale = -row[j];
            axpy(scale, &above[j * n + end..(j + 1) * n], &mut row[end..n]);
        }
    }
    with_scratch(rows * b, |columns: &mut [T]| {
        for (to, from) in columns.chunks_exact_mut(b).zip(lower.chunks_exact(n)) {
            to.copy_from_slice(&from[k..end]);
        }
        let right = MatRef::new(&upper[k * n + end..], b, rows, n, 1);
        let target = MatMut::new(&mut lower[end..], rows, rows, n);
        gemm(-T::one(), MatRef::row_major(columns, rows, b), right, T::one(), target);
    });
}

/// Replaces the `n` x `m` matrix B by the X with A X = B, given the factors of A from [`lu`].
///
/// # Panics
/// Panics if a length does not match.
pub fn solve_lu<T: Scalar>(factors: &[T], n: usize, pivots: &[usize], b: &mut [T], m: usize) {
    for (k, &pivot) in pivots.iter().enumerate().filter(|(k, pivot)| k != *pivot) {
        let (upper, lower) = b.split_at_mut(pivot * m);
        upper[k * m..(k + 1) * m].swap_with_slice(&mut lower[..m]);
    }
    solve_left(factors, n, Triangle { lower: true, transposed: false, unit: true }, b, m);
    solve_left(factors, n, Triangle { lower: false, transposed: false, unit: false }, b, m);
}

/// Writes the inverse of an `n` x `n` matrix A, which is replaced by its factors.
///
/// # Errors
/// The index of the column that makes A singular.
///
/// # Panics
/// Panics if a length does not match.
pub fn invert<T: Scalar>(a: &mut [T], n: usize, out: &mut [T]) -> Result<(), usize> {
    let mut pivots = vec![0; n];
    lu(a, n, &mut pivots);
    if let Some(k) = (0..n).find(|k| a[k * n + k] == T::zero()) {
        return Err(k);
    }
    out.fill(T::zero());
    (0..n).for_each(|i| out[i * n + i] = T::one());
    solve_lu(a, n, &pivots, out, n);
    Ok(())
}
