//! Eigenvalues and eigenvectors of symmetric matrices.

use super::{Scalar, axpy, dot, turn};
use crate::par::{parallel_rows, with_scratch};

/// Steps for one eigenvalue; two or three are usual.
const MAX_STEPS: usize = 60;

/// Replaces the symmetric matrix A of `n` x `n` elements, of which only the lower triangle is read, by U with orthonormal rows, and
/// writes the eigenvalues in increasing order, so that A = U^T diag(values) U: row i of U is the eigenvector of value i. The element
/// of largest magnitude in each eigenvector is positive.
///
/// The matrix becomes tridiagonal by Householder reflections, and then diagonal by implicit QL steps (Golub and Van Loan, Matrix
/// Computations, 8.3).
///
/// # Errors
/// The number of an eigenvalue that does not converge, as with NaN and infinities.
///
/// # Panics
/// If a length does not fit.
pub fn symmetric_eigen<T: Scalar>(a: &mut [T], n: usize, values: &mut [T]) -> Result<(), usize> {
    assert_eq!((a.len(), values.len()), (n * n, n), "a matrix of {n} x {n} elements and its eigenvalues");
    if n == 0 {
        return Ok(());
    }
    super::symmetric_from_lower(a, n);
    with_scratch(n * n + 2 * n, |work: &mut [T]| {
        let (rows, rest) = work.split_at_mut(n * n);
        let (beside, factors) = rest.split_at_mut(n);
        tridiagonal(a, n, values, beside, factors);
        reflections(a, n, factors, rows);
        diagonalize(values, beside, rows, n)?;
        sorted(values, rows, n, a);
        Ok(())
    })
}

/// The product of the reflections, whose vectors lie in the rows of A behind the diagonal, from the last to the first.
fn reflections<T: Scalar>(a: &[T], n: usize, factors: &[T], rows: &mut [T]) {
    rows.fill(T::zero());
    (0..n).for_each(|i| rows[i * n + i] = T::one());
    for k in (0..n - 1).rev() {
        let (v, t) = (&a[k * n + k + 1..(k + 1) * n], factors[k]);
        if t != T::zero() {
            parallel_rows(rows, n, (1 << 14) / n, |_, row| {
                let along = dot(v, &row[k + 1..]) * t;
                axpy(-along, v, &mut row[k + 1..]);
            });
        }
    }
}

/// Takes A to tridiagonal form: its diagonal, what lies beside it, and the factors of the reflections, whose vectors replace the
/// rows of A behind the diagonal.
fn tridiagonal<T: Scalar>(a: &mut [T], n: usize, diagonal: &mut [T], beside: &mut [T], factors: &mut [T]) {
    with_scratch(n, |w: &mut [T]| {
        for k in 0..n {
            let (done, rest) = a.split_at_mut((k + 1) * n);
            let row = &mut done[k * n..];
            diagonal[k] = row[k];
            let v = &mut row[k + 1..];
            if v.is_empty() {
                break;
            }
            factors[k] = super::lq::reflector(v);
            beside[k] = v[0];
            v[0] = T::one();
            let (v, t, w) = (&*v, factors[k], &mut w[..n - k - 1]);
            if t == T::zero() {
                continue;
            }
            parallel_rows(w, 1, (1 << 14) / n, |i, w| w[0] = dot(v, &rest[i * n + k + 1..(i + 1) * n]) * t);
            let half = dot(v, w) * t / (T::one() + T::one());
            axpy(-half, v, w);
            let w = &*w;
            parallel_rows(rest, n, (1 << 14) / n, |i, row| {
                axpy(-v[i], w, &mut row[k + 1..]);
                axpy(-w[i], v, &mut row[k + 1..]);
            });
        }
    });
}

/// Takes a tridiagonal matrix to diagonal form by rotations, which it applies to neighbouring `rows` too.
fn diagonalize<T: Scalar>(d: &mut [T], e: &mut [T], rows: &mut [T], n: usize) -> Result<(), usize> {
    let two = T::one() + T::one();
    e[n - 1] = T::zero();
    for l in 0..n {
        for step in 0.. {
            let negligible = |m: usize| e[m].abs() <= T::epsilon() * (d[m].abs() + d[m + 1].abs());
            let m = (l..n - 1).find(|m| negligible(*m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            if step == MAX_STEPS || !d[l].is_finite() {
                return Err(l);
            }
            // Wilkinson's shift, and the bulge that it makes, chased from the lower end to the upper.
            let slope = (d[l + 1] - d[l]) / (two * e[l]);
            let root = slope.hypot(T::one());
            let mut g = d[m] - d[l] + e[l] / (slope + if slope >= T::zero() { root } else { -root });
            let (mut s, mut c, mut p) = (T::one(), T::one(), T::zero());
            let mut whole = true;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == T::zero() {
                    d[i + 1] -= p;
                    e[m] = T::zero();
                    whole = false;
                    break;
                }
                (s, c) = (f / r, g / r);
                let shifted = d[i + 1] - p;
                let turned = (d[i] - shifted) * s + two * c * b;
                p = s * turned;
                d[i + 1] = shifted + p;
                g = c * turned - b;
                rotate(rows, n, i, c, s);
            }
            if whole {
                d[l] -= p;
                e[l] = g;
                e[m] = T::zero();
            }
        }
    }
    Ok(())
}

/// Rotates rows i and i + 1.
fn rotate<T: Scalar>(rows: &mut [T], n: usize, i: usize, c: T, s: T) {
    let (upper, lower) = rows[i * n..(i + 2) * n].split_at_mut(n);
    turn(upper, lower, c, s);
}

/// Sorts values, and writes their rows in the same order, each with its largest element positive.
fn sorted<T: Scalar>(values: &mut [T], rows: &[T], n: usize, out: &mut [T]) {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| values[*i].partial_cmp(&values[*j]).unwrap_or(std::cmp::Ordering::Equal));
    let old = values.to_vec();
    for ((value, out), &from) in values.iter_mut().zip(out.chunks_exact_mut(n)).zip(&order) {
        *value = old[from];
        out.copy_from_slice(&rows[from * n..(from + 1) * n]);
        let largest = out.iter().fold(T::zero(), |best, x| if x.abs() > best.abs() { *x } else { best });
        if largest < T::zero() {
            out.iter_mut().for_each(|x| *x = -*x);
        }
    }
}
