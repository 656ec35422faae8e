//! Eigenvalues and eigenvectors of symmetric matrices.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::reflections::{Reflections, reflector};
use super::rotations::{Block, Rotations};
use super::{Scalar, axpy, dot};
use crate::lane::tree_reduce;
use crate::par::{List, parallel_rows2, with_scratch};
use crate::simd::multiversion::per_isa;

/// Maximum number of sweeps per eigenvalue, on average; two or three are usual.
const MAX_SWEEPS: usize = 60;

/// Rows per chunk.
const CHUNK_ROWS: usize = 128;

/// [`symmetric_eigen`] of all matrices in `a`, in parallel; `values` gets `n` eigenvalues of each.
///
/// # Errors
/// The index of the first matrix with an eigenvalue that does not converge.
///
/// # Panics
/// As [`symmetric_eigen`].
pub fn symmetric_eigen_batch<T: Scalar>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), usize> {
    let failed = AtomicUsize::new(usize::MAX);
    parallel_rows2((a, n * n), (values, n), 1, |i, a, values| {
        if symmetric_eigen(a, n, values).is_err() {
            failed.fetch_min(i, Ordering::Relaxed);
        }
    });
    match failed.into_inner() {
        usize::MAX => Ok(()),
        i => Err(i),
    }
}

/// Replaces a symmetric `n` x `n` matrix A by U with orthonormal rows, and writes the eigenvalues in increasing order, so that
/// A = U^T diag(values) U: row i of U is the eigenvector of value i. Reads only the lower triangle of A. The element of largest
/// magnitude in each eigenvector is positive.
///
/// Householder reflections reduce the matrix to tridiagonal form, then implicit QL iterations to diagonal form (Golub and Van Loan,
/// Matrix Computations, 8.3).
///
/// # Errors
/// The index of an eigenvalue that does not converge, as with NaN and infinities.
///
/// # Panics
/// Panics if a length does not match.
pub fn symmetric_eigen<T: Scalar>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), usize> {
    assert_eq!((a.len(), values.len()), (n * n, n), "a matrix of {n} x {n} elements and its eigenvalues");
    if n == 0 {
        return Ok(());
    }
    super::symmetric_from_lower(a, n);
    with_scratch(n * n + 2 * n, |buffer: &mut [T]| {
        let (rows, rest) = buffer.split_at_mut(n * n);
        let (superdiagonal, taus) = rest.split_at_mut(n);
        tridiagonal(a, n, values, superdiagonal, taus);
        Reflections { v: a, n, offset: 1, taus }.product(n - 1, rows);
        let mut rotations = Rotations::new(rows, n);
        diagonalize(values, superdiagonal, &mut rotations)?;
        rotations.apply();
        sort_eigenpairs(values, rows, n, a);
        Ok(())
    })
}

/// Reduces A to tridiagonal form: writes its diagonal, its superdiagonal, and the taus of the reflections, whose vectors replace
/// the rows of A to the right of the diagonal. The lower triangle is neither read nor written.
///
/// A reflection with vector v maps A to A - v w^T - w v^T, where w is computed from A v. One pass over A applies the last
/// reflection and computes the product for the next one, whose row is updated first.
fn tridiagonal<T: Scalar>(a: &mut [T], n: usize, diagonal: &mut [T], superdiagonal: &mut [T], taus: &mut [T]) {
    with_scratch(n * (3 + n.div_ceil(CHUNK_ROWS)), |buffer: &mut [T]| {
        let (mut v, buffer) = buffer.split_at_mut(n);
        let (w, buffer) = buffer.split_at_mut(n);
        let (mut next, products) = buffer.split_at_mut(n);
        v.fill(T::zero());
        w.fill(T::zero());
        for k in 0..n {
            let (done, rest) = a.split_at_mut((k + 1) * n);
            let row = &mut done[k * n + k..];
            axpy(-v[k], &w[k..], row);
            axpy(-w[k], &v[k..], row);
            diagonal[k] = row[0];
            if k + 1 == n {
                break;
            }
            taus[k] = reflector(&mut row[1..]);
            superdiagonal[k] = row[1];
            next[k + 1] = T::one();
            next[k + 2..].copy_from_slice(&row[2..]);
            let (x, y, z) = (&*v, &*w, &*next);
            parallel_rows2((rest, CHUNK_ROWS * n), (&mut *products, n), 1, |chunk, rows, product| {
                product.fill(T::zero());
                for (i, row) in (k + 1 + chunk * CHUNK_ROWS..).zip(rows.chunks_exact_mut(n)) {
                    let dot_product = update_and_multiply(&mut row[i..], &x[i..], &y[i..], &z[i..], &mut product[i..]);
                    product[i] += dot_product;
                }
            });
            std::mem::swap(&mut v, &mut next);
            let (v, w) = (&v[k + 1..], &mut w[k + 1..]);
            w.fill(T::zero());
            for product in products.chunks_exact(n).take((n - k - 1).div_ceil(CHUNK_ROWS)) {
                axpy(taus[k], &product[k + 1..], w);
            }
            let half = dot(v, w) * taus[k] / (T::one() + T::one());
            axpy(-half, v, w);
        }
    });
}

per_isa! {
    /// For a row of the upper triangle, starting at the diagonal: `row -= x[0] y + y[0] x`, then the contribution of the row to the
    /// product of the symmetric matrix with z. Adds that of its transpose (the elements to the right of the diagonal) to
    /// `product`, and returns the dot product of the row with z.
    fn update_and_multiply<T: Scalar>(row: &mut [T], x: &[T], y: &[T], z: &[T], product: &mut [T]) -> T {
        const LANES: usize = 32;
        let n = row.len();
        let (x, y, z, product) = (&x[..n], &y[..n], &z[..n], &mut product[..n]);
        let (x0, y0, z0) = (x[0], y[0], z[0]);
        row[0] -= x0 * y0 + y0 * x0;
        let mut sums = [T::zero(); LANES];
        let blocks = (n - 1) / LANES;
        for i in 0..blocks {
            let range = 1 + i * LANES..1 + (i + 1) * LANES;
            let (row, product) = (&mut row[range.clone()], &mut product[range.clone()]);
            let (x, y, z) = (&x[range.clone()], &y[range.clone()], &z[range]);
            for k in 0..LANES {
                let a = row[k] - x0 * y[k] - y0 * x[k];
                row[k] = a;
                product[k] += z0 * a;
                sums[k] += z[k] * a;
            }
        }
        let mut sum = tree_reduce(sums, |a, b| a + b);
        for k in 1 + blocks * LANES..n {
            row[k] -= x0 * y[k] + y0 * x[k];
            product[k] += z0 * row[k];
            sum += z[k] * row[k];
        }
        sum + row[0] * z0
    }
}

/// Reduces a tridiagonal matrix to diagonal form by rotations, which it also applies to `rows`.
fn diagonalize<T: Scalar>(d: &mut [T], e: &mut [T], rows: &mut Rotations<'_, T>) -> Result<(), usize> {
    let n = d.len();
    e[n - 1] = T::zero();
    if let Some(bad) = (0..n).find(|i| !(d[*i].is_finite() && e[*i].is_finite())) {
        return Err(bad);
    }
    let mut matrix = Tridiagonal { d, e, rows, sweeps_left: MAX_SWEEPS * n };
    let mut begin = 0;
    while begin < n {
        let end = (begin..n - 1).find(|i| matrix.is_negligible(*i)).unwrap_or(n - 1);
        matrix.e[end] = T::zero();
        // The end with the smaller elements converges first.
        matrix.diagonalize_block(Block { begin, end, is_reversed: matrix.d[end].abs() < matrix.d[begin].abs() })?;
        begin = end + 1;
    }
    Ok(())
}

/// A tridiagonal matrix with diagonal `d` and superdiagonal `e`. `rows` collects the rotations.
struct Tridiagonal<'a, 'b, T: 'static> {
    d: &'a mut [T],
    e: &'a mut [T],
    rows: &'a mut Rotations<'b, T>,
    sweeps_left: usize,
}

impl<T: Scalar> Tridiagonal<'_, '_, T> {
    fn is_negligible(&self, i: usize) -> bool {
        let e = self.e[i].abs();
        e <= T::epsilon() * (self.d[i].abs() + self.d[i + 1].abs()) || e <= T::min_positive_value()
    }

    /// Separates the elements of a block from its first one on.
    fn diagonalize_block(&mut self, block: Block) -> Result<(), usize> {
        let last = block.end - block.begin;
        for first in 0..last {
            loop {
                let split = (first..last).find(|k| self.is_negligible(block.e(*k))).unwrap_or(last);
                if split < last {
                    self.e[block.e(split)] = T::zero();
                }
                if split == first {
                    break;
                }
                self.sweeps_left = self.sweeps_left.checked_sub(1).ok_or(block.d(first))?;
                self.sweep(block, first, split);
            }
        }
        Ok(())
    }

    /// An implicit QL sweep: Wilkinson's shift creates a bulge at element `last`, which is chased to `first`.
    fn sweep(&mut self, block: Block, first: usize, last: usize) {
        let two = T::one() + T::one();
        let (d0, e0) = (self.d[block.d(first)], self.e[block.e(first)]);
        let slope = (self.d[block.d(first + 1)] - d0) / (two * e0);
        let root = slope.hypot(T::one());
        let mut g = self.d[block.d(last)] - d0 + e0 / (slope + if slope >= T::zero() { root } else { -root });
        let (mut s, mut c, mut p) = (T::one(), T::one(), T::zero());
        let mut is_complete = true;
        for k in (first..last).rev() {
            let (d0, d1, e) = (block.d(k), block.d(k + 1), self.e[block.e(k)]);
            let (f, b) = (s * e, c * e);
            let r = f.hypot(g);
            if k + 1 < last {
                self.e[block.e(k + 1)] = r;
            }
            if r == T::zero() {
                self.d[d1] -= p;
                is_complete = false;
                break;
            }
            (s, c) = (f / r, g / r);
            let shifted = self.d[d1] - p;
            let change = (self.d[d0] - shifted) * s + two * c * b;
            p = s * change;
            self.d[d1] = shifted + p;
            g = c * change - b;
            self.rows.rotate(block.e(k), c, if block.is_reversed { s } else { -s });
        }
        if is_complete {
            self.d[block.d(first)] -= p;
            self.e[block.e(first)] = g;
        }
    }
}

/// Sorts the eigenvalues and writes the eigenvectors in the same order, each with its largest element positive.
fn sort_eigenpairs<T: Scalar>(values: &mut [T], rows: &[T], n: usize, out: &mut [T]) {
    let mut order: List<(usize, T)> = values.iter().copied().enumerate().collect();
    order.sort_by(|x, y| x.1.partial_cmp(&y.1).unwrap_or(std::cmp::Ordering::Equal));
    for ((value, out), &(from, old)) in values.iter_mut().zip(out.chunks_exact_mut(n)).zip(order.iter()) {
        *value = old;
        out.copy_from_slice(&rows[from * n..(from + 1) * n]);
        let largest = out.iter().fold(T::zero(), |best, x| if x.abs() > best.abs() { *x } else { best });
        if largest < T::zero() {
            out.iter_mut().for_each(|x| *x = -*x);
        }
    }
}
