//! Eigenvalues and eigenvectors of general real matrices.

use super::reflections::reflector;
use super::{Scalar, axpy, dot};
use crate::par::with_scratch;

/// Maximum number of QR iterations per eigenvalue; two or three are usual.
const MAX_ITERATIONS: usize = 60;

/// Iterations after which rounding errors of the whole matrix are negligible, not only those of the neighboring elements. The
/// rounding errors that stand for the zero eigenvalues of a singular matrix may converge slowly.
const STRICT_ITERATIONS: usize = 30;

/// Why [`general_eigen`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EigenError {
    /// The eigenvalue at this index does not converge, as with NaN and infinities.
    NotConverged(usize),
    /// Eigenvectors are requested, but the eigenvalue at this index is complex.
    Complex(usize),
}

/// Writes the real and imaginary parts of the eigenvalues of an `n` x `n` matrix, which is overwritten. Conjugate pairs are
/// adjacent, the positive imaginary part first. Imaginary parts within the rounding errors of the matrix are 0. `vectors` is
/// empty, or gets the eigenvectors as columns of unit norm, which requires all eigenvalues to be real.
///
/// Householder reflections reduce the matrix to Hessenberg form, then Francis' double-shift QR iterations to quasi-triangular form
/// (Golub and Van Loan, Matrix Computations, 7.4 and 7.5).
///
/// # Errors
/// See [`EigenError`].
///
/// # Panics
/// Panics if a length does not match.
pub fn general_eigen<T: Scalar>(
    a: &mut [T],
    n: usize,
    re: &mut [T],
    im: &mut [T],
    vectors: &mut [T],
) -> Result<(), EigenError> {
    assert_eq!((a.len(), re.len(), im.len()), (n * n, n, n), "a matrix of {n} x {n} elements and its eigenvalues");
    assert!(vectors.is_empty() || vectors.len() == n * n, "{} elements of eigenvectors for {n} values", vectors.len());
    if a.iter().any(|x| !x.is_finite()) {
        return Err(EigenError::NotConverged(0));
    }
    with_scratch(n * n, |basis: &mut [T]| {
        basis.fill(T::zero());
        (0..n).for_each(|i| basis[i * n + i] = T::one());
        let row_error = |row: &[T]| row.iter().fold(T::zero(), |largest, x| largest.max(x.abs())) * T::epsilon();
        let rounding_error = a.chunks_exact(n.max(1)).map(row_error).sum();
        let mut schur = Schur { h: a, basis, n, rounding_error };
        schur.hessenberg();
        schur.triangular()?;
        schur.values(re, im);
        if vectors.is_empty() {
            return Ok(());
        }
        match im.iter().position(|im| *im != T::zero()) {
            Some(k) => Err(EigenError::Complex(k)),
            None => {
                schur.vectors(vectors);
                Ok(())
            }
        }
    })
}

/// The Schur decomposition A = Q H Q^T while H is reduced; `basis` holds Q^T, `rounding_error` bounds that of the largest elements.
struct Schur<'a, T> {
    h: &'a mut [T],
    basis: &'a mut [T],
    n: usize,
    rounding_error: T,
}

impl<T: Scalar> Schur<'_, T> {
    fn at(&self, i: usize, j: usize) -> T {
        self.h[i * self.n + j]
    }

    /// Applies I - t v v^T, whose vector starts at row and column `k`, from both sides: from the left to the columns from `from`
    /// on, from the right to the rows before `to`.
    fn reflect(&mut self, v: &[T], t: T, k: usize, from: usize, to: usize) {
        let n = self.n;
        reflect_rows(self.h, n, v, t, k, from);
        for row in self.h[..to * n].chunks_exact_mut(n) {
            let x = &mut row[k..k + v.len()];
            let projection = dot(v, x) * t;
            axpy(-projection, v, x);
        }
        reflect_rows(self.basis, n, v, t, k, 0);
    }

    /// Zeroes everything below the first subdiagonal.
    fn hessenberg(&mut self) {
        let n = self.n;
        for k in 0..n.saturating_sub(2) {
            let mut v: Vec<T> = (k + 1..n).map(|i| self.at(i, k)).collect();
            let t = reflector(&mut v);
            v[0] = T::one();
            if t != T::zero() {
                self.reflect(&v, t, k + 1, k, n);
            }
            (k + 2..n).for_each(|i| self.h[i * n + k] = T::zero());
        }
    }

    /// Reduces the Hessenberg matrix to a triangular one with 2 x 2 blocks for complex pairs.
    fn triangular(&mut self) -> Result<(), EigenError> {
        let n = self.n;
        let (mut end, mut iteration) = (n, 0);
        while end > 0 {
            let start = self.split(end, iteration > STRICT_ITERATIONS);
            match end - start {
                1 => (end, iteration) = (end - 1, 0),
                2 => {
                    self.separate(start);
                    (end, iteration) = (end - 2, 0);
                }
                _ if iteration == MAX_ITERATIONS => return Err(EigenError::NotConverged(end - 1)),
                _ => {
                    iteration += 1;
                    let exceptional = iteration % 10 == 0;
                    self.francis(start, end, exceptional);
                }
            }
        }
        Ok(())
    }

    /// The start of the unreduced block that ends at `end`. Subdiagonal elements are negligible relative to their neighbors, or to
    /// the whole matrix.
    fn split(&mut self, end: usize, by_whole_matrix: bool) -> usize {
        for i in (1..end).rev() {
            let neighbors = self.at(i, i).abs() + self.at(i - 1, i - 1).abs();
            let least = if by_whole_matrix { self.rounding_error } else { T::epsilon() * neighbors };
            let below = self.at(i, i - 1).abs();
            if below <= least || below <= T::min_positive_value() {
                self.h[i * self.n + i - 1] = T::zero();
                return i;
            }
        }
        0
    }

    /// A QR iteration with the eigenvalues of the last two rows as shifts, or with exceptional shifts if many iterations have not
    /// converged.
    fn francis(&mut self, start: usize, end: usize, exceptional: bool) {
        let (n, last) = (self.n, end - 1);
        let corners = [(last - 1, last - 1), (last - 1, last), (last, last - 1), (last, last)].into_iter().chain([
            (start, start),
            (start, start + 1),
            (start + 1, start),
            (start + 1, start + 1),
            (start + 2, start + 1),
        ]);
        // Products of scaled elements neither overflow nor all underflow.
        let scale = corners.fold(T::zero(), |scale, (i, j)| scale.max(self.at(i, j).abs()));
        let at = |i, j| self.at(i, j) / scale;
        let mut sum = at(last - 1, last - 1) + at(last, last);
        let mut product = at(last - 1, last - 1) * at(last, last) - at(last - 1, last) * at(last, last - 1);
        if exceptional {
            let size = at(last, last - 1).abs() + at(last - 1, last - 2).abs();
            (sum, product) = (size + size / (T::one() + T::one()), size * size);
        }
        let (a, below) = (at(start, start), at(start + 1, start));
        let mut bulge = vec![
            a * (a - sum) + at(start, start + 1) * below + product,
            below * (a + at(start + 1, start + 1) - sum),
            below * at(start + 2, start + 1),
        ];
        for k in start..last {
            let t = reflector(&mut bulge);
            bulge[0] = T::one();
            let rows = bulge.len();
            let from = if k > start { k - 1 } else { start };
            if t != T::zero() {
                self.reflect(&bulge, t, k, from, (k + 4).min(end));
            }
            if k > start {
                (k + 1..k + rows).for_each(|i| self.h[i * n + k - 1] = T::zero());
            }
            bulge = (k + 1..(k + 4).min(end)).map(|i| self.at(i, k)).collect();
        }
    }

    /// Half the difference of the diagonal elements at `i` and `i + 1`, and half the difference of the eigenvalues of their block,
    /// which is negative for the imaginary part of a complex pair.
    fn differences(&self, i: usize) -> (T, T) {
        let two = T::one() + T::one();
        let (half, b, c) = (self.at(i, i) / two - self.at(i + 1, i + 1) / two, self.at(i, i + 1), self.at(i + 1, i));
        let scale = half.abs().max(b.abs()).max(c.abs());
        if scale == T::zero() {
            return (half, scale);
        }
        let square = (half / scale) * (half / scale) + (b / scale) * (c / scale);
        let root = scale * square.abs().sqrt();
        (half, if square < T::zero() { -root } else { root })
    }

    /// Makes a 2 x 2 block triangular if its eigenvalues are real, up to rounding errors of the whole matrix.
    fn separate(&mut self, i: usize) {
        let n = self.n;
        let (half, mut root) = self.differences(i);
        if root < T::zero() {
            if -root > self.rounding_error {
                return;
            }
            root = T::zero();
        }
        // The eigenvector (x, y) of the larger eigenvalue, and the reflection that maps it to the first axis.
        let (b, c) = (self.at(i, i + 1), self.at(i + 1, i));
        let x = half + if half >= T::zero() { root } else { -root };
        let mut v = if c.abs() >= b.abs() || root > T::zero() { [x, c] } else { [b, -half] };
        let t = reflector(&mut v);
        v[0] = T::one();
        if t != T::zero() {
            self.reflect(&v, t, i, i, i + 2);
        }
        self.h[(i + 1) * n + i] = T::zero();
    }

    fn values(&self, re: &mut [T], im: &mut [T]) {
        let mut i = 0;
        while i < self.n {
            (re[i], im[i]) = (self.at(i, i), T::zero());
            if i + 1 < self.n && self.at(i + 1, i) != T::zero() {
                let (half, root) = self.differences(i);
                let (middle, imaginary) = (self.at(i + 1, i + 1) + half, (-root).max(T::zero()));
                (re[i], re[i + 1]) = (middle, middle);
                (im[i], im[i + 1]) = (imaginary, -imaginary);
                i += 1;
            }
            i += 1;
        }
    }

    /// The eigenvectors of the triangular matrix, by back substitution, and then of A.
    fn vectors(&self, out: &mut [T]) {
        let n = self.n;
        let size = self.h.iter().fold(T::zero(), |size, x| size.max(x.abs()));
        let (mut x, mut v) = (vec![T::zero(); n], vec![T::zero(); n]);
        for k in 0..n {
            x[k] = T::one();
            for i in (0..k).rev() {
                let sum = dot(&self.h[i * n + i + 1..i * n + k + 1], &x[i + 1..=k]);
                let difference = self.at(i, i) - self.at(k, k);
                let least = T::epsilon() * size;
                x[i] = -sum / if difference.abs() < least { least } else { difference };
            }
            v.fill(T::zero());
            (0..=k).for_each(|i| axpy(x[i], &self.basis[i * n..(i + 1) * n], &mut v));
            let length = dot(&v, &v).sqrt();
            (0..n).for_each(|i| out[i * n + k] = v[i] / length);
        }
    }
}

/// Applies I - t v v^T from the left to the rows starting at `k`, in the columns starting at `from`.
fn reflect_rows<T: Scalar>(a: &mut [T], n: usize, v: &[T], t: T, k: usize, from: usize) {
    with_scratch(n - from, |products: &mut [T]| {
        products.fill(T::zero());
        for (i, v) in v.iter().enumerate() {
            axpy(*v, &a[(k + i) * n + from..(k + i + 1) * n], products);
        }
        for (i, v) in v.iter().enumerate() {
            axpy(-t * *v, products, &mut a[(k + i) * n + from..(k + i + 1) * n]);
        }
    });
}
