//! Discrete Fourier transforms of any length.

use std::f64::consts::PI;

use crate::linalg::Scalar;
use crate::par::parallel_rows;

/// A complex number: real and imaginary part.
type Complex<T> = [T; 2];

fn times<T: Scalar>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn conjugate<T: Scalar>(a: Complex<T>) -> Complex<T> {
    [a[0], -a[1]]
}

/// The root of unity exp(-i pi k / half).
fn root_of_unity<T: Scalar>(k: usize, half: usize) -> Complex<T> {
    let (sin, cos) = libm::sincos(-PI * k as f64 / half as f64);
    [T::from(cos).unwrap_or(T::zero()), T::from(sin).unwrap_or(T::zero())]
}

/// The precomputed tables of transforms of one length.
pub struct Fft<T> {
    len: usize,
    /// Twiddle factors over half a circle, for power-of-two lengths.
    roots: Vec<Complex<T>>,
    /// The tables of Bluestein's algorithm, for other lengths.
    chirp: Option<Chirp<T>>,
}

/// Bluestein's algorithm: a convolution with a chirp, computed by power-of-two transforms.
struct Chirp<T> {
    inner: Box<Fft<T>>,
    chirp: Vec<Complex<T>>,
    /// The transform of the conjugated chirp, extended symmetrically.
    response: Vec<Complex<T>>,
}

impl<T: Scalar> Fft<T> {
    /// Computes the tables for transforms of `len` elements.
    pub fn new(len: usize) -> Fft<T> {
        if len <= 1 || len.is_power_of_two() {
            let roots = (0..len / 2).map(|k| root_of_unity(k, len / 2)).collect();
            return Fft { len, roots, chirp: None };
        }
        let inner = Box::new(Fft::new((2 * len - 1).next_power_of_two()));
        // exp(-i pi k^2 / len). Full turns are subtracted exactly, before the angle is rounded.
        let exponent = |k: usize| (k as u128 * k as u128 % (2 * len as u128)) as usize;
        let chirp: Vec<Complex<T>> = (0..len).map(|k| root_of_unity(exponent(k), len)).collect();
        let mut response = vec![[T::zero(); 2]; inner.len];
        for (k, chirp_k) in chirp.iter().enumerate() {
            response[k] = conjugate(*chirp_k);
            response[(inner.len - k) % inner.len] = conjugate(*chirp_k);
        }
        inner.run(&mut response);
        Fft { len, roots: Vec::new(), chirp: Some(Chirp { inner, chirp, response }) }
    }

    /// Replaces x by X with `X[k]` = sum of `x[j]` exp(-2 pi i j k / n).
    ///
    /// # Panics
    /// Panics if the length of `x` differs from the prepared one.
    pub fn run(&self, x: &mut [Complex<T>]) {
        assert_eq!(x.len(), self.len, "a transform of {} numbers", self.len);
        match &self.chirp {
            Some(chirp) => chirp.run(x),
            None => self.radix2(x),
        }
    }

    /// The unscaled inverse: like [`Self::run`] with the opposite sign of the exponent.
    pub(crate) fn run_inverse(&self, x: &mut [Complex<T>]) {
        x.iter_mut().for_each(|x| *x = conjugate(*x));
        self.run(x);
        x.iter_mut().for_each(|x| *x = conjugate(*x));
    }

    /// The radix-2 Cooley-Tukey transform.
    fn radix2(&self, x: &mut [Complex<T>]) {
        let n = self.len;
        for i in 1..n {
            let j = i.reverse_bits() >> (usize::BITS - n.trailing_zeros());
            if i < j {
                x.swap(i, j);
            }
        }
        let mut half = 1;
        while half < n {
            let root_stride = n / (2 * half);
            for block in x.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let rotated = times(*b, self.roots[k * root_stride]);
                    (*a, *b) = ([a[0] + rotated[0], a[1] + rotated[1]], [a[0] - rotated[0], a[1] - rotated[1]]);
                }
            }
            half *= 2;
        }
    }
}

impl<T: Scalar> Chirp<T> {
    fn run(&self, x: &mut [Complex<T>]) {
        let m = self.inner.len;
        let mut padded = vec![[T::zero(); 2]; m];
        for ((padded, x), chirp_k) in padded.iter_mut().zip(&*x).zip(&self.chirp) {
            *padded = times(*x, *chirp_k);
        }
        self.inner.run(&mut padded);
        for (padded, response) in padded.iter_mut().zip(&self.response) {
            *padded = times(*padded, *response);
        }
        self.inner.run_inverse(&mut padded);
        let scale = T::one() / T::from(m).unwrap_or(T::one());
        for ((x, padded), chirp_k) in x.iter_mut().zip(&padded).zip(&self.chirp) {
            *x = times([padded[0] * scale, padded[1] * scale], *chirp_k);
        }
    }
}

/// Elements per chunk.
const GRAIN: usize = 1 << 13;

/// The transforms of real rows of `len` elements. The real and imaginary parts of a row of the result are interleaved.
///
/// # Panics
/// Panics if there are fewer rows in `x` than in `out`.
pub fn transform_rows<T: Scalar>(x: &[T], len: usize, out: &mut [T]) {
    let plan = Fft::<T>::new(len);
    parallel_rows(out, 2 * len, GRAIN / len.max(1), |i, out| {
        let row = out.as_chunks_mut::<2>().0;
        row.iter_mut().zip(&x[i * len..]).for_each(|(y, x)| *y = [*x, T::zero()]);
        plan.run(row);
    });
}

/// The real parts of the inverse transforms, times `len`, of rows of `len` complex numbers whose parts are interleaved.
///
/// # Panics
/// Panics if there are fewer rows in `x` than in `out`.
pub fn inverse_transform_rows<T: Scalar>(x: &[T], len: usize, out: &mut [T]) {
    let (plan, x) = (Fft::<T>::new(len), x.as_chunks::<2>().0);
    parallel_rows(out, len, GRAIN / len.max(1), |i, out| {
        let mut row = x[i * len..(i + 1) * len].to_vec();
        plan.run_inverse(&mut row);
        out.iter_mut().zip(&row).for_each(|(out, y)| *out = y[0]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_follow_the_definition_and_invert() {
        for n in [1usize, 2, 3, 4, 7, 8, 12, 64, 100, 127] {
            let x: Vec<Complex<f64>> = (0..n).map(|i| [(i * i % 7) as f64 - 2.0, (i * 5 % 11) as f64]).collect();
            let mut y = x.clone();
            let fft = Fft::new(n);
            fft.run(&mut y);
            for (k, y) in y.iter().enumerate() {
                let term = |j: usize| {
                    let (sin, cos) = (-2.0 * PI * (j * k % n) as f64 / n as f64).sin_cos();
                    times(x[j], [cos, sin])
                };
                let want = (0..n).map(term).fold([0.0; 2], |s, t| [s[0] + t[0], s[1] + t[1]]);
                assert!((y[0] - want[0]).abs() + (y[1] - want[1]).abs() < 1e-9, "{n}: {y:?}, expected {want:?}");
            }
            fft.run_inverse(&mut y);
            for (y, x) in y.iter().zip(&x) {
                assert!((y[0] / n as f64 - x[0]).abs() + (y[1] / n as f64 - x[1]).abs() < 1e-11);
            }
        }
    }
}
