//! Discrete Fourier transforms of any length.

use std::f64::consts::PI;

use crate::linalg::Scalar;

/// A complex number: real and imaginary part.
type Complex<T> = [T; 2];

fn times<T: Scalar>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn conjugate<T: Scalar>(a: Complex<T>) -> Complex<T> {
    [a[0], -a[1]]
}

/// The points exp(-i pi k / half) of the unit circle, for the squares k of 0 to `count` - 1 if `squares` or for k itself.
fn circle<T: Scalar>(count: usize, half: usize, squares: bool) -> Vec<Complex<T>> {
    let point = |k: usize| {
        // Whole turns are taken away before the angle is rounded.
        let k = if squares { (k as u128 * k as u128 % (2 * half as u128)) as f64 } else { k as f64 };
        let (sin, cos) = libm::sincos(-PI * k / half as f64);
        [T::from(cos).unwrap_or(T::zero()), T::from(sin).unwrap_or(T::zero())]
    };
    (0..count).map(point).collect()
}

/// What transforms of one length have in common. It may be shared by threads.
pub struct Fft<T> {
    len: usize,
    /// Half a circle, for transforms whose length is a power of two.
    roots: Vec<Complex<T>>,
    /// For other lengths.
    chirp: Option<Chirp<T>>,
}

/// Bluestein's transform, a convolution by transforms whose length is a power of two.
struct Chirp<T> {
    inner: Box<Fft<T>>,
    factors: Vec<Complex<T>>,
    /// The transform of the conjugated factors, in both directions of time.
    response: Vec<Complex<T>>,
}

impl<T: Scalar> Fft<T> {
    /// Prepares transforms of `len` numbers.
    pub fn new(len: usize) -> Fft<T> {
        if len <= 1 || len.is_power_of_two() {
            return Fft { len, roots: circle(len / 2, (len / 2).max(1), false), chirp: None };
        }
        let inner = Box::new(Fft::new((2 * len - 1).next_power_of_two()));
        let factors = circle(len, len, true);
        let mut response = vec![[T::zero(); 2]; inner.len];
        for (k, factor) in factors.iter().enumerate() {
            response[k] = conjugate(*factor);
            response[(inner.len - k) % inner.len] = conjugate(*factor);
        }
        inner.run(&mut response);
        Fft { len, roots: Vec::new(), chirp: Some(Chirp { inner, factors, response }) }
    }

    /// Replaces x by X with `X[k]` = sum of `x[j]` exp(-2 pi i j k / n).
    ///
    /// # Panics
    /// If `x` has another length than was prepared.
    pub fn run(&self, x: &mut [Complex<T>]) {
        assert_eq!(x.len(), self.len, "a transform of {} numbers", self.len);
        match &self.chirp {
            Some(chirp) => chirp.run(x),
            None => self.by_halves(x),
        }
    }

    /// The same without scaling by 1 / n and with the opposite sign of the exponent: n times the inverse.
    pub fn run_inverse(&self, x: &mut [Complex<T>]) {
        x.iter_mut().for_each(|x| *x = conjugate(*x));
        self.run(x);
        x.iter_mut().for_each(|x| *x = conjugate(*x));
    }

    /// Cooley and Tukey's transform for powers of two.
    fn by_halves(&self, x: &mut [Complex<T>]) {
        let n = self.len;
        for i in 1..n {
            let j = i.reverse_bits() >> (usize::BITS - n.trailing_zeros());
            if i < j {
                x.swap(i, j);
            }
        }
        let mut half = 1;
        while half < n {
            let step = n / (2 * half);
            for block in x.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let turned = times(*b, self.roots[k * step]);
                    (*a, *b) = ([a[0] + turned[0], a[1] + turned[1]], [a[0] - turned[0], a[1] - turned[1]]);
                }
            }
            half *= 2;
        }
    }
}

impl<T: Scalar> Chirp<T> {
    fn run(&self, x: &mut [Complex<T>]) {
        let m = self.inner.len;
        let mut wide = vec![[T::zero(); 2]; m];
        for ((wide, x), factor) in wide.iter_mut().zip(&*x).zip(&self.factors) {
            *wide = times(*x, *factor);
        }
        self.inner.run(&mut wide);
        for (wide, response) in wide.iter_mut().zip(&self.response) {
            *wide = times(*wide, *response);
        }
        self.inner.run_inverse(&mut wide);
        let scale = T::one() / T::from(m).unwrap_or(T::one());
        for ((x, wide), factor) in x.iter_mut().zip(&wide).zip(&self.factors) {
            *x = times([wide[0] * scale, wide[1] * scale], *factor);
        }
    }
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
