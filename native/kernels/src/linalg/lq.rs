//! The LQ factorization by Householder reflections.

use super::reflections::{BLOCK, Reflections, reflector};
use super::{Scalar, Transpose, axpy, dot};
use crate::par::{parallel_rows2, with_scratch};

/// Replaces each `m` x `n` matrix A in `a`, m <= n, by Q with orthonormal rows and writes the lower triangular `m` x `m` matrix L to
/// `l`, so that A = L Q. The signs are those of LAPACK's `gelqf`.
///
/// # Panics
/// Panics if m > n or a length does not match.
pub fn lq_batch<T: Scalar>(a: &mut [T], (m, n): (usize, usize), l: &mut [T]) {
    parallel_rows2((a, m * n), (l, m * m), 1, |_, a, l| lq(a, m, n, l));
}

/// Factorizes one matrix; see [`lq_batch`].
pub(super) fn lq<T: Scalar>(a: &mut [T], m: usize, n: usize, l: &mut [T]) {
    assert!(m <= n, "LQ of a matrix of {m} x {n} elements, which has more rows than columns");
    assert_eq!((a.len(), l.len()), (m * n, m * m), "a matrix of {m} x {n} elements and its factor L");
    with_scratch(m * (n + 1), |buffer: &mut [T]| {
        let (q, taus) = buffer.split_at_mut(m * n);
        for k in (0..m).step_by(BLOCK) {
            let block = BLOCK.min(m - k);
            for i in k..k + block {
                let (done, below) = a[..(k + block) * n].split_at_mut((i + 1) * n);
                let row = &mut done[i * n + i..];
                taus[i] = reflector(row);
                below.chunks_exact_mut(n).for_each(|other| reflect(row, taus[i], &mut other[i..]));
            }
            let (done, below) = a.split_at_mut((k + block) * n);
            if !below.is_empty() {
                let rows = m - k - block;
                Reflections { v: done, n, offset: 0, taus }.apply((k, block), Transpose::No, &mut below[k..], rows);
            }
        }
        for (i, (l, a)) in l.chunks_exact_mut(m.max(1)).zip(a.chunks_exact(n.max(1))).enumerate() {
            l[..=i].copy_from_slice(&a[..=i]);
            l[i + 1..].fill(T::zero());
        }
        Reflections { v: a, n, offset: 0, taus }.product(m, q);
        a.copy_from_slice(q);
    });
}

/// Applies the reflection I - t v v^T to a vector; `v[0]` is taken to be 1.
fn reflect<T: Scalar>(v: &[T], t: T, x: &mut [T]) {
    let projection = (x[0] + dot(&v[1..], &x[1..])) * t;
    x[0] -= projection;
    axpy(-projection, &v[1..], &mut x[1..]);
}
