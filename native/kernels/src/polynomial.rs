//! Evaluation of polynomials by Horner's rule.

use crate::map::Elements;
use crate::par;
use crate::reduce::NumericLane;
use crate::simd::multiversion::{self, Multiversioned};

/// Points of a chunk, and coefficients of a block, sized for the L1 cache.
const CHUNK: usize = 1 << 10;

/// Points of a tile, whose values stay in registers over a block of coefficients.
const TILE: usize = 16;

/// What [`horner`] evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluate {
    /// The polynomial.
    Polynomial,
    /// Its derivative.
    Derivative,
}

/// Evaluates the polynomial with coefficients `p`, of which that of the highest power comes first, or its derivative, at the points
/// `x`.
///
/// # Panics
/// Panics if `x` is shorter than `y`.
pub fn horner<C: NumericLane>(p: Elements<'_>, x: Elements<'_>, y: &mut [C], what: Evaluate) {
    let is_derivative = what == Evaluate::Derivative;
    par::parallel_rows(y, CHUNK, 1, |chunk, y| {
        let (mut points, mut value, mut slope) = ([C::ZERO; CHUNK], [C::ZERO; CHUNK], [C::ZERO; CHUNK]);
        C::load_any(x, chunk * CHUNK, &mut points[..y.len()]);
        let mut coefficients = [C::ZERO; CHUNK];
        let num_tiles = y.len().div_ceil(TILE);
        for begin in (0..p.len()).step_by(CHUNK) {
            let coefficients = &mut coefficients[..CHUNK.min(p.len() - begin)];
            C::load_any(p, begin, coefficients);
            let tiles = value.as_chunks_mut::<TILE>().0.iter_mut().zip(slope.as_chunks_mut::<TILE>().0);
            for ((value, slope), x) in tiles.zip(points.as_chunks::<TILE>().0).take(num_tiles) {
                multiversion::run(Horner { coefficients, x, value, slope: is_derivative.then_some(slope) });
            }
        }
        let result = if is_derivative { &slope } else { &value };
        y.copy_from_slice(&result[..y.len()]);
    });
}

/// Horner's rule for a tile of points and a block of coefficients. It continues `value`, and `slope` if the derivative is evaluated.
struct Horner<'a, C> {
    coefficients: &'a [C],
    x: &'a [C; TILE],
    value: &'a mut [C; TILE],
    slope: Option<&'a mut [C; TILE]>,
}

impl<C: NumericLane> Multiversioned for Horner<'_, C> {
    type Output = ();
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(self) {
        let (x, mut value) = (*self.x, *self.value);
        if let Some(slope) = self.slope {
            for c in self.coefficients {
                for k in 0..TILE {
                    slope[k] = slope[k].times(x[k]).plus(value[k]);
                    value[k] = value[k].times(x[k]).plus(*c);
                }
            }
        } else {
            for c in self.coefficients {
                for k in 0..TILE {
                    value[k] = value[k].times(x[k]).plus(*c);
                }
            }
        }
        *self.value = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_derivatives_of_many_points() {
        let x: Vec<f64> = (0..CHUNK + 3).map(|i| i as f64 / 512.0 - 1.0).collect();
        let p = [2.0, -1.0, 0.0, 3.0];
        let mut y = vec![0.0; x.len()];
        horner(Elements::from(&p[..]), Elements::from(&x[..]), &mut y, Evaluate::Polynomial);
        x.iter().zip(&y).for_each(|(x, y)| assert!((y - (2.0 * x * x * x - x * x + 3.0)).abs() < 1e-12));
        horner(Elements::from(&p[..]), Elements::from(&x[..]), &mut y, Evaluate::Derivative);
        x.iter().zip(&y).for_each(|(x, y)| assert!((y - (6.0 * x * x - 2.0 * x)).abs() < 1e-12));
    }
}
