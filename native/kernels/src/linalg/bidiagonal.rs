//! Bidiagonal matrices: how any square matrix becomes one, and how one becomes diagonal.

use super::reflections::reflector;
use super::rotations::Rotations;
use super::{Scalar, total};
use crate::par::with_scratch;
use crate::simd::multiversion::per_isa;

/// Sweeps for one singular value; two are usual.
const MAX_SWEEPS: usize = 60;

/// Takes a matrix of n x n elements, n being the length of `diagonal`, to bidiagonal form: the diagonal and what lies to its right.
/// Row j of `columns` gets, from its diagonal on, the vector of the reflection that clears column j; the vector of the one that clears
/// row j replaces that row behind the diagonal. `factors` gets those of the columns, then those of the rows.
///
/// A reflection of the columns takes A to A - v w^T, one of the rows to A - x u^T. Each pass over A does the update for one and the
/// product that the next one needs, whose vector comes from a row or column that is updated before.
pub(super) fn bidiagonal<T: Scalar>(
    a: &mut [T],
    columns: &mut [T],
    diagonal: &mut [T],
    beside: &mut [T],
    factors: &mut [T],
) {
    let n = diagonal.len();
    let (of_columns, of_rows) = factors.split_at_mut(n);
    with_scratch(3 * n, |work: &mut [T]| {
        work.fill(T::zero());
        let (u, work) = work.split_at_mut(n);
        let (w, x) = work.split_at_mut(n);
        for j in 0..n {
            let v = &mut columns[j * n + j..(j + 1) * n];
            for (i, v) in (j..).zip(&mut *v) {
                *v = a[i * n + j] - x[i] * u[j];
            }
            of_columns[j] = reflector(v);
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
                *w *= of_columns[j];
                *row -= *w;
            }
            of_rows[j] = reflector(row);
            beside[j] = row[0];
            u.copy_from_slice(row);
            u[0] = T::one();
            for ((other, v), x) in below.chunks_exact_mut(n).zip(&v[1..]).zip(&mut x[j + 1..]) {
                *x = of_rows[j] * update_and_multiply(&mut other[j + 1..], *v, w, u);
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
    /// `row -= v w`; returns the product of row and u.
    fn update_and_multiply<T: Scalar>(row: &mut [T], v: T, w: &[T], u: &[T]) -> T {
        const LANES: usize = 32;
        let n = row.len();
        let mut sums = [T::zero(); LANES];
        let blocks = n / LANES;
        for i in 0..blocks {
            let at = i * LANES..(i + 1) * LANES;
            let (row, w, u) = (&mut row[at.clone()], &w[at.clone()], &u[at]);
            for k in 0..LANES {
                row[k] -= v * w[k];
                sums[k] += row[k] * u[k];
            }
        }
        let mut sum = total(&sums);
        for k in blocks * LANES..n {
            row[k] -= v * w[k];
            sum += row[k] * u[k];
        }
        sum
    }
}

/// The cosine and sine of the rotation that takes (f, g) to (r, 0), and r.
fn rotation<T: Scalar>(f: T, g: T) -> (T, T, T) {
    let square = f * f + g * g;
    let safe = square > T::min_positive_value() / T::epsilon() && square < T::max_value();
    let r = if safe { square.sqrt() } else { f.hypot(g) };
    if r == T::zero() { (T::one(), T::zero(), r) } else { (f / r, g / r, r) }
}

/// A bidiagonal matrix: the diagonal `d` and the elements `e` to its right. Rotations of its rows are those of `left`, of its columns
/// those of `right`.
pub(super) struct Bidiagonal<'a, 'b, T: 'static> {
    pub d: &'a mut [T],
    pub e: &'a mut [T],
    pub left: &'a mut Rotations<'b, T>,
    pub right: &'a mut Rotations<'b, T>,
}

/// The places of a block that stands for itself: from one end to the other, or, for the transposed matrix, back.
#[derive(Clone, Copy)]
struct Way {
    begin: usize,
    end: usize,
    back: bool,
}

impl Way {
    fn d(self, k: usize) -> usize {
        if self.back { self.end - k } else { self.begin + k }
    }

    fn e(self, k: usize) -> usize {
        if self.back { self.end - 1 - k } else { self.begin + k }
    }
}

impl<T: Scalar> Bidiagonal<'_, '_, T> {
    /// Takes the matrix to diagonal form.
    ///
    /// # Errors
    /// The number of a singular value that does not converge, as with NaN and infinities.
    pub fn diagonalize(&mut self) -> Result<(), usize> {
        let mut end = self.d.len() - 1;
        if let Some(bad) = (0..=end).find(|i| !(self.d[*i].is_finite() && self.e.get(*i).is_none_or(|e| e.is_finite())))
        {
            return Err(bad);
        }
        let mut left = MAX_SWEEPS * self.d.len();
        while end > 0 {
            let begin = (0..end).rev().find(|i| self.negligible(*i)).map_or(0, |i| i + 1);
            if begin == end {
                self.e[end - 1] = T::zero();
                end -= 1;
                continue;
            }
            left = left.checked_sub(1).ok_or(end)?;
            // From the end with the larger elements to that with the smaller ones, which converge first.
            let way = Way { begin, end, back: self.d[begin].abs() < self.d[end].abs() };
            match self.shift(way) {
                Some(shift) => self.sweep(way, shift),
                None => self.sweep_without_shift(way),
            }
        }
        Ok(())
    }

    fn negligible(&self, i: usize) -> bool {
        let e = self.e[i].abs();
        e <= T::epsilon() * (self.d[i].abs() + self.d[i + 1].abs()) || e <= T::min_positive_value()
    }

    /// The smaller singular value of the last two rows, unless it does not change the first element.
    fn shift(&self, way: Way) -> Option<T> {
        let len = way.end - way.begin;
        let (f, g, h) = (self.d[way.d(len - 1)], self.e[way.e(len - 1)], self.d[way.d(len)]);
        let largest = ((f + h).hypot(g) + (f - h).hypot(g)) / (T::one() + T::one());
        let (smallest, first) = (f.abs() * (h.abs() / largest), self.d[way.d(0)].abs());
        let ratio = smallest / first;
        (ratio.is_finite() && ratio * ratio > T::epsilon()).then_some(smallest)
    }

    /// Rotates what stands for columns k and k + 1 on the way, or for rows.
    fn rotate(&mut self, way: Way, columns: bool, k: usize, c: T, s: T) {
        let rows = if columns == way.back { &mut *self.left } else { &mut *self.right };
        rows.rotate(way.e(k), c, if way.back { -s } else { s });
    }

    /// An implicit QR step: a rotation of the first two columns by the shift makes a bulge, which is chased to the end.
    fn sweep(&mut self, way: Way, shift: T) {
        let len = way.end - way.begin;
        let first = self.d[way.d(0)];
        let (mut f, mut g) = ((first.abs() - shift) * (first.signum() + shift / first), self.e[way.e(0)]);
        for k in 0..len {
            let (d0, d1, e) = (way.d(k), way.d(k + 1), way.e(k));
            let (c, s, r) = rotation(f, g);
            if k > 0 {
                self.e[way.e(k - 1)] = r;
            }
            f = c * self.d[d0] + s * self.e[e];
            self.e[e] = c * self.e[e] - s * self.d[d0];
            g = s * self.d[d1];
            self.d[d1] *= c;
            self.rotate(way, true, k, c, s);
            let (c, s, r) = rotation(f, g);
            self.d[d0] = r;
            f = c * self.e[e] + s * self.d[d1];
            self.d[d1] = c * self.d[d1] - s * self.e[e];
            if k + 1 < len {
                let next = way.e(k + 1);
                g = s * self.e[next];
                self.e[next] *= c;
            }
            self.rotate(way, false, k, c, s);
        }
        self.e[way.e(len - 1)] = f;
    }

    /// The step of shift 0, which keeps small elements exact, and takes one out where an element of the diagonal is 0.
    fn sweep_without_shift(&mut self, way: Way) {
        let len = way.end - way.begin;
        let (mut c, mut old_c, mut old_s) = (T::one(), T::one(), T::zero());
        for k in 0..len {
            let (d0, d1, e) = (way.d(k), way.d(k + 1), way.e(k));
            let (c1, s1, r) = rotation(self.d[d0] * c, self.e[e]);
            if k > 0 {
                self.e[way.e(k - 1)] = old_s * r;
            }
            self.rotate(way, true, k, c1, s1);
            let (c2, s2, d) = rotation(old_c * r, self.d[d1] * s1);
            self.d[d0] = d;
            self.rotate(way, false, k, c2, s2);
            (c, old_c, old_s) = (c1, c2, s2);
        }
        let last = self.d[way.d(len)] * c;
        self.d[way.d(len)] = last * old_c;
        self.e[way.e(len - 1)] = last * old_s;
    }
}
