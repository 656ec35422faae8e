//! Householder reflections, applied in blocks (the compact WY form).

use super::{Scalar, Transpose, dot};
use crate::gemm::{MatMut, MatRef, gemm};
use crate::par::with_scratch;

/// Reflections in a block.
pub(super) const BLOCK: usize = 32;

/// Computes the Householder reflection I - t v v^T that maps `x` to beta e_1. Replaces `x[0]` by beta and the other elements by
/// those of v; `v[0]` is 1 and not stored. Returns t (LAPACK's tau).
pub(super) fn reflector<T: Scalar>(x: &mut [T]) -> T {
    let tail = dot(&x[1..], &x[1..]);
    let (least, most) = (T::min_positive_value() / T::epsilon().powi(2), T::max_value() * T::epsilon());
    if tail < least || tail > most {
        // The squares would underflow or overflow. A scaled vector has the same reflection.
        let largest = x.iter().fold(T::zero(), |largest, x| largest.max(x.abs()));
        if !largest.is_finite() {
            x[0] = T::nan();
        }
        let is_done = x[1..].iter().all(|x| *x == T::zero()) || largest == T::one();
        if is_done || !largest.is_normal() {
            return T::zero();
        }
        x.iter_mut().for_each(|x| *x /= largest);
        let tau = reflector(x);
        x[0] *= largest;
        return tau;
    }
    let first = x[0];
    // The square of the first element may overflow.
    let norm = first.hypot(tail.sqrt());
    let beta = if first >= T::zero() { -norm } else { norm };
    let scale = T::one() / (first - beta);
    x[1..].iter_mut().for_each(|x| *x *= scale);
    x[0] = beta;
    (beta - first) / beta
}

/// Householder reflections H_i = I - t_i v_i v_i^T whose vectors are the rows of a matrix of `n` columns: v_i starts `offset`
/// columns to the right of the diagonal with a 1, which is not stored. Elements to its left are ignored.
#[derive(Clone, Copy)]
pub(super) struct Reflections<'a, T> {
    pub v: &'a [T],
    pub n: usize,
    pub offset: usize,
    pub taus: &'a [T],
}

impl<T: Scalar> Reflections<'_, T> {
    /// Multiplies `rows` rows with a stride of `n` from the right by H_first H_first+1 ... of `count` reflections, or by the
    /// transpose of this product. `x` starts at the first column of the first reflection.
    pub(super) fn apply(&self, (first, count): (usize, usize), trans: Transpose, x: &mut [T], rows: usize) {
        let width = self.n - self.offset - first;
        let (zero, one) = (T::zero(), T::one());
        with_scratch(count * (width + 2 * count + 2 * rows), |buffer: &mut [T]| {
            let (v, buffer) = buffer.split_at_mut(count * width);
            let (products, buffer) = buffer.split_at_mut(count * count);
            let (t, buffer) = buffer.split_at_mut(count * count);
            let (products_v, products_t) = buffer.split_at_mut(rows * count);
            for (i, to) in v.chunks_exact_mut(width).enumerate() {
                let from = (first + i) * self.n + self.offset + first;
                to[..i].fill(zero);
                to[i] = one;
                to[i + 1..].copy_from_slice(&self.v[from + i + 1..from + width]);
            }
            let v = MatRef::row_major(v, count, width);
            gemm(one, v, v.t(), zero, MatMut::row_major(products, count, count));
            compact_wy(products, &self.taus[first..first + count], t);
            let t = MatRef::row_major(t, count, count).t_if(trans == Transpose::Yes);
            gemm(one, MatRef::new(x, rows, width, self.n, 1), v.t(), zero, MatMut::row_major(products_v, rows, count));
            let products_v = MatRef::row_major(products_v, rows, count);
            gemm(one, products_v, t, zero, MatMut::row_major(products_t, rows, count));
            gemm(-one, MatRef::row_major(products_t, rows, count), v, one, MatMut::new(x, rows, width, self.n));
        });
    }

    /// Writes the first rows of H_last ... H_1 H_0; `out` determines their number.
    pub(super) fn product(&self, count: usize, out: &mut [T]) {
        let (n, rows) = (self.n, out.len() / self.n.max(1));
        out.fill(T::zero());
        (0..rows).for_each(|i| out[i * n + i] = T::one());
        for first in (0..count).step_by(BLOCK).rev() {
            // The rows above are still those of the identity and zero in the columns of these reflections.
            let from = first + self.offset;
            if from < rows {
                let block = (first, BLOCK.min(count - first));
                self.apply(block, Transpose::Yes, &mut out[from * n + from..], rows - from);
            }
        }
    }
}

/// Writes the upper triangular T of the compact WY form H_0 H_1 ... = I - V^T T V, from the products V V^T of the vectors
/// (Schreiber and Van Loan, A storage-efficient WY representation, 1989).
fn compact_wy<T: Scalar>(products: &[T], taus: &[T], t: &mut [T]) {
    let n = taus.len();
    t.fill(T::zero());
    for (i, tau) in taus.iter().enumerate() {
        t[i * n + i] = *tau;
        for row in 0..i {
            let product: T = (row..i).map(|k| t[row * n + k] * products[k * n + i]).sum();
            t[row * n + i] = -*tau * product;
        }
    }
}
