//! The reduction of a square matrix to bidiagonal form, and of that to diagonal form.

use super::Scalar;
use super::reflections::reflector;
use super::rotations::{Block, Rotations};
use crate::lane::tree_reduce;
use crate::par::with_scratch;
use crate::simd::multiversion::per_isa;

/// Maximum number of sweeps per singular value; two are usual.
const MAX_SWEEPS: usize = 60;

/// Reduces an n x n matrix, where n is the length of `diagonal`, to bidiagonal form: writes its diagonal and superdiagonal. The
/// Householder vector that clears column j is written to row j of `columns`, starting at the diagonal; the one that clears row j
/// replaces that row of `a` to the right of the diagonal. `taus` gets the scalars of the column reflections, then those of the
/// row reflections.
///
/// A column reflection maps A to A - v w^T, a row reflection maps it to A - x u^T. Each pass over A applies one of them and
/// computes the product for the next one, whose row or column is updated first.
pub(super) fn bidiagonal<T: Scalar>(
    a: &mut [T],
    columns: &mut [T],
    diagonal: &mut [T],
    superdiagonal: &mut [T],
    taus: &mut [T],
) {
    let n = diagonal.len();
    let (column_taus, row_taus) = taus.split_at_mut(n);
    with_scratch(3 * n, |buffer: &mut [T]| {
        buffer.fill(T::zero());
        let (u, buffer) = buffer.split_at_mut(n);
        let (w, x) = buffer.split_at_mut(n);
        for j in 0..n {
            let v = &mut columns[j * n + j..(j + 1) * n];
            for (i, v) in (j..).zip(&mut *v) {
                *v = a[i * n + j] - x[i] * u[j];
            }
            column_taus[j] = reflector(v);
            diagonal[j] = v[0];
            v[0] = T::one();
            if j + 1 == n {
                break;
            }
            let (row, below) = a[j * n..].split_at_mut(n);
            let (row, w, u) = (&mut row[j + 1..], &mut w[j + 1..], &mut u[j + 1..]);
            w.fill(T::zero());
            update_and_sum(row, x[j], u, T::one(), w);
            for ((other, v), x) in below.chunks_exact_mut(n).zip(&v[1..]).zip(&x[j + 1..]) {
                update_and_sum(&mut other[j + 1..], *x, u, *v, w);
            }
            for (row, w) in row.iter_mut().zip(&mut *w) {
                *w *= column_taus[j];
                *row -= *w;
            }
            row_taus[j] = reflector(row);
            superdiagonal[j] = row[0];
            u.copy_from_slice(row);
            u[0] = T::one();
            for ((other, v), x) in below.chunks_exact_mut(n).zip(&v[1..]).zip(&mut x[j + 1..]) {
                *x = row_taus[j] * update_and_multiply(&mut other[j + 1..], *v, w, u);
            }
        }
    });
}

per_isa! {
    /// `row -= x u`, then `w += v row`.
    fn update_and_sum<T: Scalar>(row: &mut [T], x: T, u: &[T], v: T, w: &mut [T]) {
        let n = row.len();
        let (u, w) = (&u[..n], &mut w[..n]);
        for k in 0..n {
            row[k] -= x * u[k];
            w[k] += v * row[k];
        }
    }
}

per_isa! {
    /// `row -= v w`; returns the dot product of row and u.
    fn update_and_multiply<T: Scalar>(row: &mut [T], v: T, w: &[T], u: &[T]) -> T {
        const LANES: usize = 32;
        let n = row.len();
        let mut sums = [T::zero(); LANES];
        let blocks = n / LANES;
        for i in 0..blocks {
            let range = i * LANES..(i + 1) * LANES;
            let (row, w, u) = (&mut row[range.clone()], &w[range.clone()], &u[range]);
            for k in 0..LANES {
                row[k] -= v * w[k];
                sums[k] += row[k] * u[k];
            }
        }
        let mut sum = tree_reduce(sums, |a, b| a + b);
        for k in blocks * LANES..n {
            row[k] -= v * w[k];
            sum += row[k] * u[k];
        }
        sum
    }
}

/// The cosine and sine of the Givens rotation that maps (f, g) to (r, 0), and r.
fn rotation<T: Scalar>(f: T, g: T) -> (T, T, T) {
    let square = f * f + g * g;
    let safe = square > T::min_positive_value() / T::epsilon() && square < T::max_value();
    let r = if safe { square.sqrt() } else { f.hypot(g) };
    if r == T::zero() { (T::one(), T::zero(), r) } else { (f / r, g / r, r) }
}

/// A bidiagonal matrix with diagonal `d` and superdiagonal `e`. `left` collects the rotations of its rows, `right` those of its
/// columns.
pub(super) struct Bidiagonal<'a, 'b, T: 'static> {
    pub d: &'a mut [T],
    pub e: &'a mut [T],
    pub left: &'a mut Rotations<'b, T>,
    pub right: &'a mut Rotations<'b, T>,
}

impl<T: Scalar> Bidiagonal<'_, '_, T> {
    /// Reduces the matrix to diagonal form.
    ///
    /// # Errors
    /// The index of a singular value that does not converge, as with NaN and infinities.
    pub(super) fn diagonalize(&mut self) -> Result<(), usize> {
        let mut end = self.d.len() - 1;
        if let Some(bad) = (0..=end).find(|i| !(self.d[*i].is_finite() && self.e.get(*i).is_none_or(|e| e.is_finite())))
        {
            return Err(bad);
        }
        let mut sweeps_left = MAX_SWEEPS * self.d.len();
        while end > 0 {
            let begin = (0..end).rev().find(|i| self.is_negligible(*i)).map_or(0, |i| i + 1);
            if begin == end {
                self.e[end - 1] = T::zero();
                end -= 1;
                continue;
            }
            sweeps_left = sweeps_left.checked_sub(1).ok_or(end)?;
            // Sweep from the end with the larger elements to the end with the smaller ones, which converge first.
            let sweep = Block { begin, end, is_reversed: self.d[begin].abs() < self.d[end].abs() };
            match self.shift(sweep) {
                Some(shift) => self.shifted_sweep(sweep, shift),
                None => self.zero_shift_sweep(sweep),
            }
        }
        Ok(())
    }

    fn is_negligible(&self, i: usize) -> bool {
        let e = self.e[i].abs();
        e <= T::epsilon() * (self.d[i].abs() + self.d[i + 1].abs()) || e <= T::min_positive_value()
    }

    /// The smaller singular value of the last two rows, unless it is too small to change the first element.
    fn shift(&self, sweep: Block) -> Option<T> {
        let len = sweep.end - sweep.begin;
        let (f, g, h) = (self.d[sweep.d(len - 1)], self.e[sweep.e(len - 1)], self.d[sweep.d(len)]);
        let largest = ((f + h).hypot(g) + (f - h).hypot(g)) / (T::one() + T::one());
        let (smallest, first) = (f.abs() * (h.abs() / largest), self.d[sweep.d(0)].abs());
        let ratio = smallest / first;
        (ratio.is_finite() && ratio * ratio > T::epsilon()).then_some(smallest)
    }

    /// Rotates rows k and k + 1 of the block, in the direction of the sweep.
    fn rotate_rows(&mut self, sweep: Block, k: usize, c: T, s: T) {
        let (rotations, s) = if sweep.is_reversed { (&mut *self.right, -s) } else { (&mut *self.left, s) };
        rotations.rotate(sweep.e(k), c, s);
    }

    /// Rotates columns k and k + 1 of the block, in the direction of the sweep.
    fn rotate_columns(&mut self, sweep: Block, k: usize, c: T, s: T) {
        let (rotations, s) = if sweep.is_reversed { (&mut *self.left, -s) } else { (&mut *self.right, s) };
        rotations.rotate(sweep.e(k), c, s);
    }

    /// An implicit QR sweep: rotating the first two columns by the shift creates a bulge, which is chased to the end.
    fn shifted_sweep(&mut self, sweep: Block, shift: T) {
        let len = sweep.end - sweep.begin;
        let first = self.d[sweep.d(0)];
        let (mut f, mut g) = ((first.abs() - shift) * (first.signum() + shift / first), self.e[sweep.e(0)]);
        for k in 0..len {
            let (d0, d1, e) = (sweep.d(k), sweep.d(k + 1), sweep.e(k));
            let (c, s, r) = rotation(f, g);
            if k > 0 {
                self.e[sweep.e(k - 1)] = r;
            }
            f = c * self.d[d0] + s * self.e[e];
            self.e[e] = c * self.e[e] - s * self.d[d0];
            g = s * self.d[d1];
            self.d[d1] *= c;
            self.rotate_columns(sweep, k, c, s);
            let (c, s, r) = rotation(f, g);
            self.d[d0] = r;
            f = c * self.e[e] + s * self.d[d1];
            self.d[d1] = c * self.d[d1] - s * self.e[e];
            if k + 1 < len {
                let next = sweep.e(k + 1);
                g = s * self.e[next];
                self.e[next] *= c;
            }
            self.rotate_rows(sweep, k, c, s);
        }
        self.e[sweep.e(len - 1)] = f;
    }

    /// A sweep with zero shift, which keeps small elements accurate, and deflates where a diagonal element is zero.
    fn zero_shift_sweep(&mut self, sweep: Block) {
        let len = sweep.end - sweep.begin;
        let (mut c, mut old_c, mut old_s) = (T::one(), T::one(), T::zero());
        for k in 0..len {
            let (d0, d1, e) = (sweep.d(k), sweep.d(k + 1), sweep.e(k));
            let (c1, s1, r) = rotation(self.d[d0] * c, self.e[e]);
            if k > 0 {
                self.e[sweep.e(k - 1)] = old_s * r;
            }
            self.rotate_columns(sweep, k, c1, s1);
            let (c2, s2, d) = rotation(old_c * r, self.d[d1] * s1);
            self.d[d0] = d;
            self.rotate_rows(sweep, k, c2, s2);
            (c, old_c, old_s) = (c1, c2, s2);
        }
        let last = self.d[sweep.d(len)] * c;
        self.d[sweep.d(len)] = last * old_c;
        self.e[sweep.e(len - 1)] = last * old_s;
    }
}
