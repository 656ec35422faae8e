//! Triangular matrices: triangular solves, and copies of triangles.

use super::{Scalar, axpy, transpose};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::with_scratch;

/// The largest triangle that is solved row by row.
const SOLVED_BY_ROWS: usize = 16;

/// A triangle of a square matrix (BLAS's `uplo`, `trans` and `diag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// True for the lower triangle, false for the upper one.
    pub lower: bool,
    /// True for the transpose of the triangle.
    pub transposed: bool,
    /// True if the diagonal is taken to be ones, whatever is stored.
    pub unit: bool,
}

impl Triangle {
    /// The transpose.
    #[must_use]
    pub fn t(self) -> Triangle {
        Triangle { transposed: !self.transposed, ..self }
    }
}

/// Replaces the `n` x `m` matrix B by the X with op(A) X = B, where op(A) is a triangle of the `n` x `n` matrix A, or its
/// transpose. A zero on the diagonal gives infinities.
///
/// # Panics
/// Panics if a length does not match.
pub fn solve_left<T: Scalar>(a: &[T], n: usize, triangle: Triangle, b: &mut [T], m: usize) {
    assert_eq!((a.len(), b.len()), (n * n, n * m), "a triangle of {n} x {n} and a right side of {n} x {m} elements");
    let op = MatRef::row_major(a, n, n).t_if(triangle.transposed);
    solve(op, triangle.lower != triangle.transposed, triangle.unit, b, m);
}

/// Solves a system by forward substitution (a lower triangle) or backward substitution (an upper one), recursively: solves for one half
/// of X, subtracts its product with the off-diagonal block, and solves for the other half.
fn solve<T: Scalar>(op: MatRef<'_, T>, is_forward: bool, unit: bool, b: &mut [T], m: usize) {
    let n = op.rows();
    if n <= SOLVED_BY_ROWS {
        return solve_rows(op, is_forward, unit, b, m);
    }
    let half = (n / 2).next_multiple_of(SOLVED_BY_ROWS);
    let (above, below) = b.split_at_mut(half * m);
    let (upper, lower) = (op.block(0, 0, half, half), op.block(half, half, n - half, n - half));
    if is_forward {
        solve(upper, true, unit, above, m);
        let off_diagonal = op.block(half, 0, n - half, half);
        let solved = MatRef::row_major(above, half, m);
        gemm(-T::one(), off_diagonal, solved, T::one(), MatMut::row_major(below, n - half, m));
        solve(lower, true, unit, below, m);
    } else {
        solve(lower, false, unit, below, m);
        let off_diagonal = op.block(0, half, half, n - half);
        let solved = MatRef::row_major(below, n - half, m);
        gemm(-T::one(), off_diagonal, solved, T::one(), MatMut::row_major(above, half, m));
        solve(upper, false, unit, above, m);
    }
}

/// [`solve`], row by row.
fn solve_rows<T: Scalar>(op: MatRef<'_, T>, is_forward: bool, unit: bool, b: &mut [T], m: usize) {
    let n = op.rows();
    let at = |i: usize, j: usize| op.data()[i * op.row_stride() + j * op.col_stride()];
    for step in 0..n {
        let i = if is_forward { step } else { n - 1 - step };
        let (above, rest) = b.split_at_mut(i * m);
        let (row, below) = rest.split_at_mut(m);
        if is_forward {
            (0..i).for_each(|j| axpy(-at(i, j), &above[j * m..(j + 1) * m], row));
        } else {
            (i + 1..n).for_each(|j| axpy(-at(i, j), &below[(j - i - 1) * m..(j - i) * m], row));
        }
        if !unit {
            let diagonal = at(i, i);
            row.iter_mut().for_each(|x| *x /= diagonal);
        }
    }
}

/// Replaces the `m` x `n` matrix B by the X with X op(A) = B; see [`solve_left`].
///
/// # Panics
/// Panics if a length does not match.
pub fn solve_right<T: Scalar>(a: &[T], n: usize, triangle: Triangle, b: &mut [T], m: usize) {
    with_scratch(b.len(), |transposed_b: &mut [T]| {
        transpose(b, m, n, transposed_b);
        solve_left(a, n, triangle.t(), transposed_b, m);
        transpose(transposed_b, n, m, b);
    });
}

/// Copies a triangle of a matrix of `n` x `n` elements, including the diagonal, and zeroes the rest.
///
/// # Panics
/// Panics if a length does not match.
pub fn copy_triangle<T: Scalar>(a: &[T], n: usize, lower: bool, out: &mut [T]) {
    assert_eq!((a.len(), out.len()), (n * n, n * n), "matrices of {n} x {n} elements");
    for (i, (out, a)) in out.chunks_exact_mut(n.max(1)).zip(a.chunks_exact(n.max(1))).enumerate() {
        let range = if lower { 0..i + 1 } else { i..n };
        out.fill(T::zero());
        out[range.clone()].copy_from_slice(&a[range]);
    }
}

/// Makes a matrix of `n` x `n` elements symmetric by copying its lower triangle to the upper one.
///
/// # Panics
/// Panics if the length of `a` is not n x n.
pub fn symmetric_from_lower<T: Scalar>(a: &mut [T], n: usize) {
    assert_eq!(a.len(), n * n, "a matrix of {n} x {n} elements");
    for i in 0..n {
        for j in i + 1..n {
            a[i * n + j] = a[j * n + i];
        }
    }
}

/// The index in a matrix of `n` rows of each element of a packed triangle: a lower triangle is packed by rows and ends at the
/// `offset`-th diagonal below the main one, an upper triangle is packed by columns.
fn packed(n: usize, lower: bool, offset: usize) -> impl Iterator<Item = usize> {
    (0..n.saturating_sub(offset))
        .flat_map(move |i| (0..=i).map(move |j| if lower { (i + offset) * n + j } else { j * n + i + offset }))
}

/// Copies triangles of matrices of `n` x `n` elements to vectors.
///
/// # Panics
/// Panics if a length does not match.
pub fn pack_triangle<T: Scalar>(a: &[T], n: usize, lower: bool, offset: usize, out: &mut [T]) {
    let m = n.saturating_sub(offset);
    for (out, a) in out.chunks_exact_mut((m * (m + 1) / 2).max(1)).zip(a.chunks_exact((n * n).max(1))) {
        out.iter_mut().zip(packed(n, lower, offset)).for_each(|(out, at)| *out = a[at]);
    }
}

/// Copies vectors to triangles of matrices of `n` x `n` elements and zeroes the rest: the inverse of [`pack_triangle`].
///
/// # Panics
/// Panics if a length does not match.
pub fn unpack_triangle<T: Scalar>(packed_rows: &[T], n: usize, lower: bool, offset: usize, out: &mut [T]) {
    let m = n.saturating_sub(offset);
    out.fill(T::zero());
    for (out, a) in out.chunks_exact_mut((n * n).max(1)).zip(packed_rows.chunks_exact((m * (m + 1) / 2).max(1))) {
        a.iter().zip(packed(n, lower, offset)).for_each(|(x, at)| out[at] = *x);
    }
}
