//! Arithmetic progressions.

use crate::par;
use crate::simd::multiversion::{self, Multiversioned};
use ferromx_core::dtype::Element;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// Fills `out` with the numbers `start + i * step`, each `repeat` times.
///
/// # Panics
/// Panics if `repeat` is 0.
pub fn arithmetic_progression<T: Element>(start: f64, step: f64, repeat: usize, out: &mut [T]) {
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        if repeat == 1 {
            return multiversion::run(Progression { start, step, first: chunk * GRAIN, out });
        }
        for (i, x) in out.iter_mut().enumerate() {
            *x = T::from_f64(start + ((chunk * GRAIN + i) / repeat) as f64 * step);
        }
    });
}

/// Numbers of a progression, starting at index `first`.
struct Progression<'a, T> {
    start: f64,
    step: f64,
    first: usize,
    out: &'a mut [T],
}

impl<T: Element> Multiversioned for Progression<'_, T> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let first = self.first as f64;
        for (i, x) in self.out.iter_mut().enumerate() {
            // Exact, as both numbers are integers.
            *x = T::from_f64(self.start + (first + f64::from(i as u32)) * self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_repeated() {
        let mut out = vec![0i64; GRAIN + 3];
        for repeat in [1, 2] {
            arithmetic_progression(5.0, -3.0, repeat, &mut out);
            assert!(out.iter().enumerate().all(|(i, x)| *x == 5 - 3 * (i / repeat) as i64));
        }
    }
}
