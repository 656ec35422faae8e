//! Eigenvalues and eigenvectors of symmetric matrices.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::reflections::{Reflections, reflector};
use super::rotations::Rotations;
use super::{Scalar, axpy, dot, total};
use crate::par::{List, parallel_rows2, with_scratch};
use crate::simd::multiversion::per_isa;

/// Maximum number of QL iterations per eigenvalue; two or three are usual.
const MAX_ITERATIONS: usize = 60;

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
        let mut sum = total(&sums);
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
    let (n, two) = (d.len(), T::one() + T::one());
    e[n - 1] = T::zero();
    for l in 0..n {
        for iteration in 0.. {
            let negligible = |m: usize| e[m].abs() <= T::epsilon() * (d[m].abs() + d[m + 1].abs());
            let m = (l..n - 1).find(|m| negligible(*m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            if iteration == MAX_ITERATIONS || !d[l].is_finite() {
                return Err(l);
            }
            // Wilkinson's shift creates a bulge, which is chased from the lower end to the upper one.
            let slope = (d[l + 1] - d[l]) / (two * e[l]);
            let root = slope.hypot(T::one());
            let mut g = d[m] - d[l] + e[l] / (slope + if slope >= T::zero() { root } else { -root });
            let (mut s, mut c, mut p) = (T::one(), T::one(), T::zero());
            let mut is_complete = true;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == T::zero() {
                    d[i + 1] -= p;
                    e[m] = T::zero();
                    is_complete = false;
                    break;
                }
                (s, c) = (f / r, g / r);
                let shifted = d[i + 1] - p;
                let change = (d[i] - shifted) * s + two * c * b;
                p = s * change;
                d[i + 1] = shifted + p;
                g = c * change - b;
                rows.rotate(i, c, -s);
            }
            if is_complete {
                d[l] -= p;
                e[l] = g;
                e[m] = T::zero();
            }
        }
    }
    Ok(())
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
