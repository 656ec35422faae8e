//! The LQ and QR factorisations by Householder reflections.

use super::{Scalar, axpy, dot, transpose};
use crate::par::{parallel_rows, with_scratch};

/// Replaces the matrix A of `m` x `n` elements, m <= n, by Q with orthonormal rows and writes the lower triangular L of `m` x `m`
/// elements, so that A = L Q. The signs are those of LAPACK's `gelqf`.
///
/// # Panics
/// If a length does not fit.
pub fn lq<T: Scalar>(a: &mut [T], m: usize, n: usize, l: &mut [T]) {
    assert!(m <= n, "LQ of a matrix of {m} x {n} elements, which has more rows than columns");
    assert_eq!((a.len(), l.len()), (m * n, m * m), "a matrix of {m} x {n} elements and its factor");
    with_scratch(m, |factors: &mut [T]| {
        for i in 0..m {
            let (done, below) = a.split_at_mut((i + 1) * n);
            let row = &mut done[i * n + i..];
            factors[i] = reflector(row);
            let (row, factor) = (&*row, factors[i]);
            if factor != T::zero() {
                parallel_rows(below, n, grain(n), |_, other| reflect(row, factor, &mut other[i..]));
            }
        }
        for (i, (l, a)) in l.chunks_exact_mut(m.max(1)).zip(a.chunks_exact(n.max(1))).enumerate() {
            l[..=i].copy_from_slice(&a[..=i]);
            l[i + 1..].fill(T::zero());
        }
        // Q = H_1 ... H_m applied to the first rows of the identity, from the last reflection to the first.
        for i in (0..m).rev() {
            let (done, below) = a.split_at_mut((i + 1) * n);
            let (row, factor) = (&mut done[i * n..], factors[i]);
            row[..i].fill(T::zero());
            let tail = &row[i..];
            parallel_rows(below, n, grain(n), |_, other| {
                other[i] = T::zero();
                reflect(tail, factor, &mut other[i..]);
            });
            for x in &mut row[i + 1..] {
                *x *= -factor;
            }
            row[i] = T::one() - factor;
        }
    });
}

/// Rows of `n` elements in a parallel chunk.
fn grain(n: usize) -> usize {
    (1 << 14) / n.max(1)
}

/// The reflection I - t v v^T that takes a vector to a multiple of the first unit vector: `v[0]` is 1 and not stored, the first
/// element becomes that multiple, the others those of v. Returns t.
pub(super) fn reflector<T: Scalar>(x: &mut [T]) -> T {
    let tail = dot(&x[1..], &x[1..]);
    if tail == T::zero() {
        return T::zero();
    }
    let first = x[0];
    let norm = (first * first + tail).sqrt();
    let beta = if first >= T::zero() { -norm } else { norm };
    let scale = T::one() / (first - beta);
    x[1..].iter_mut().for_each(|x| *x *= scale);
    x[0] = beta;
    (beta - first) / beta
}

/// Applies a reflection to a vector.
fn reflect<T: Scalar>(v: &[T], t: T, x: &mut [T]) {
    let along = (x[0] + dot(&v[1..], &x[1..])) * t;
    x[0] -= along;
    axpy(-along, &v[1..], &mut x[1..]);
}

/// Writes the factors of A = Q R for a matrix of `m` x `n` elements: Q of `m` x `k` elements with orthonormal columns and the upper
/// triangular R of `k` x `n` elements, where k is the smaller of m and n.
///
/// # Panics
/// If a length does not fit.
pub fn qr<T: Scalar>(a: &[T], m: usize, n: usize, q: &mut [T], r: &mut [T]) {
    let k = m.min(n);
    assert_eq!((a.len(), q.len(), r.len()), (m * n, m * k, k * n), "a matrix of {m} x {n} elements and its factors");
    // The first k columns give Q and the left part of R, which is enough where A is not wide.
    with_scratch(2 * k * m + k * k, |work: &mut [T]| {
        let (turned, work) = work.split_at_mut(k * m);
        let (_, l) = work.split_at_mut(k * m);
        for (i, turned) in turned.chunks_exact_mut(m.max(1)).enumerate() {
            turned.iter_mut().enumerate().for_each(|(j, x)| *x = a[j * n + i]);
        }
        lq(turned, k, m, l);
        transpose(turned, k, m, q);
        for i in 0..k {
            for j in 0..k {
                r[i * n + j] = l[j * k + i];
            }
        }
        for j in k..n {
            for i in 0..k {
                r[i * n + j] = (0..m).map(|row| turned[i * m + row] * a[row * n + j]).sum();
            }
        }
    });
}
