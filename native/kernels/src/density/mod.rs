//! Densities of distributions at given points, and their gradients. Each parameter set has its own points.

mod dirichlet;

use std::marker::PhantomData;

use crate::map::{Elements, ElementsMut, Lane};
use crate::math::{Approximate40, Full, Precision};
use crate::simd::multiversion::{self, Multiversioned};

pub use dirichlet::Dirichlet;

/// A distribution with `N` parameters.
pub trait Density<const N: usize>: Sync {
    /// True if [`Self::density`] is not the exponential of [`Self::log_density`].
    const IS_DIRECT: bool = false;
    /// The logarithm of the density at `x`.
    fn log_density<M: Precision>(x: f64, p: [f64; N]) -> f64;
    /// The density at `x`.
    #[inline(always)]
    fn density<M: Precision>(x: f64, p: [f64; N]) -> f64 {
        M::exp(Self::log_density::<M>(x, p))
    }
    /// The derivatives with respect to `x` and to the parameters.
    fn derivatives<M: Precision>(x: f64, p: [f64; N]) -> (f64, [f64; N]);
}

/// Points per chunk.
const GRAIN: usize = 1 << 11;

/// Points computed at a time, in buffers that stay in the L1 cache.
const BUFFER_LEN: usize = 256;

/// Points starting at index `first`, and all parameter sets. Set i belongs to the points starting at i * `points_per_set`.
#[derive(Clone, Copy)]
struct Points<'a> {
    x: &'a [f64],
    /// All values of the first parameter, then those of the second.
    p: &'a [f64],
    first: usize,
    points_per_set: usize,
}

impl<'a> Points<'a> {
    /// The values of each parameter, one per set.
    #[inline(always)]
    fn parameters<const N: usize>(self) -> [&'a [f64]; N] {
        let num_sets = self.p.len() / N;
        std::array::from_fn(|k| &self.p[k * num_sets..(k + 1) * num_sets])
    }
}

/// Evaluates `$body` for each point of a chunk, with its index in the chunk, the point and its parameters. This is a macro because the
/// compiler does not inline a large closure into the vectorized loop.
macro_rules! for_each_point {
    ($points:expr, |$i:ident, $x:ident, $p:ident| $body:expr) => {{
        let points = $points;
        let n = points.x.len();
        let parameters: [&[f64]; N] = points.parameters();
        if points.points_per_set == 1 {
            let parameters = parameters.map(|p| &p[points.first..points.first + n]);
            for ($i, &$x) in points.x.iter().enumerate() {
                let $p = parameters.map(|p| p[$i]);
                $body;
            }
        } else {
            let mut begin = 0;
            while begin < n {
                let set = (points.first + begin) / points.points_per_set;
                let end = ((set + 1) * points.points_per_set - points.first).min(n);
                let $p = parameters.map(|p| p[set]);
                for (k, &$x) in points.x[begin..end].iter().enumerate() {
                    let $i = begin + k;
                    $body;
                }
                begin = end;
            }
        }
    }};
}

/// Computes densities or their logarithms.
struct DensityLoop<'a, D, M, const N: usize> {
    points: Points<'a>,
    is_log: bool,
    out: &'a mut [f64],
    distribution: PhantomData<(D, M)>,
}

impl<D: Density<N>, M: Precision, const N: usize> Multiversioned for DensityLoop<'_, D, M, N> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let DensityLoop { points, is_log, out, .. } = self;
        let out = &mut out[..points.x.len()];
        if D::IS_DIRECT && !is_log {
            return for_each_point!(points, |i, x, p| out[i] = D::density::<M>(x, p));
        }
        for_each_point!(points, |i, x, p| out[i] = D::log_density::<M>(x, p));
        if !is_log {
            out.iter_mut().for_each(|out| *out = M::exp(*out));
        }
    }
}

/// An operand of a density, with respect to which it is differentiated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Points,
    /// The parameter of this index.
    Parameter(usize),
}

/// Computes derivatives with respect to an operand.
struct DerivativeLoop<'a, D, M, const N: usize> {
    points: Points<'a>,
    operand: Operand,
    out: &'a mut [f64],
    distribution: PhantomData<(D, M)>,
}

impl<D: Density<N>, M: Precision, const N: usize> Multiversioned for DerivativeLoop<'_, D, M, N> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let DerivativeLoop { points, operand, out, .. } = self;
        let out = &mut out[..points.x.len()];
        match operand {
            Operand::Points => for_each_point!(points, |i, x, p| out[i] = D::derivatives::<M>(x, p).0),
            Operand::Parameter(k) => for_each_point!(points, |i, x, p| out[i] = D::derivatives::<M>(x, p).1[k]),
        }
    }
}

/// The loops of a distribution, each in a version for results in single and one for results in double precision.
pub struct DensityLoops {
    densities: [fn(Points<'_>, bool, &mut [f64]); 2],
    derivatives: [fn(Points<'_>, Operand, &mut [f64]); 2],
}

/// The points and parameter sets of densities. The points of a set are consecutive.
#[derive(Clone, Copy)]
pub struct PointSets<'a> {
    /// The points.
    pub x: Elements<'a>,
    /// All values of the first parameter, then those of the second.
    pub p: &'a [f64],
    /// Points per set.
    pub points_per_set: usize,
    /// True if the results are logarithms of densities.
    pub is_log: bool,
    /// True for results in double precision.
    pub is_double: bool,
}

impl DensityLoops {
    /// The loops of the distribution `D`.
    pub const fn of<D: Density<N>, const N: usize>() -> DensityLoops {
        fn densities<D: Density<N>, M: Precision, const N: usize>(points: Points<'_>, is_log: bool, out: &mut [f64]) {
            multiversion::run(DensityLoop::<D, M, N> { points, is_log, out, distribution: PhantomData });
        }
        fn derivatives<D: Density<N>, M: Precision, const N: usize>(
            points: Points<'_>,
            operand: Operand,
            out: &mut [f64],
        ) {
            multiversion::run(DerivativeLoop::<D, M, N> { points, operand, out, distribution: PhantomData });
        }
        DensityLoops {
            densities: [densities::<D, Approximate40, N>, densities::<D, Full, N>],
            derivatives: [derivatives::<D, Approximate40, N>, derivatives::<D, Full, N>],
        }
    }

    /// Writes the density at each point.
    ///
    /// # Panics
    /// Panics if there are fewer points than results, or fewer parameter sets than the points have.
    pub fn densities(&self, sets: &PointSets<'_>, out: ElementsMut<'_>) {
        let PointSets { x, p, points_per_set, is_log, is_double } = *sets;
        let run = self.densities[usize::from(is_double)];
        out.parallel_chunks(GRAIN, &|first, mut out| {
            let mut buffers = [[0.0; BUFFER_LEN]; 2];
            for begin in (0..out.len()).step_by(BUFFER_LEN) {
                let len = BUFFER_LEN.min(out.len() - begin);
                let [x_lanes, y] = buffers.each_mut().map(|buffer| &mut buffer[..len]);
                let first = first + begin;
                f64::load_any(x, first, x_lanes);
                run(Points { x: x_lanes, p, first, points_per_set }, is_log, y);
                f64::store_any(y, out.part(begin..begin + len));
            }
        });
    }

    /// Writes the gradient of the points.
    ///
    /// # Panics
    /// As [`Self::densities`].
    pub fn points_backward(&self, sets: &PointSets<'_>, grads: DensityGrads<'_>, out: ElementsMut<'_>) {
        let sums = GradientSums { sets, grads, run: self.derivatives[usize::from(sets.is_double)] };
        out.parallel_chunks(GRAIN, &|first, out| sums.write(first, 1, Operand::Points, out));
    }

    /// Writes the gradient of parameter `k`.
    ///
    /// # Panics
    /// As [`Self::densities`].
    pub fn parameter_backward(&self, sets: &PointSets<'_>, grads: DensityGrads<'_>, k: usize, out: ElementsMut<'_>) {
        let sums = GradientSums { sets, grads, run: self.derivatives[usize::from(sets.is_double)] };
        let len = sets.points_per_set;
        out.parallel_chunks(GRAIN.div_ceil(len), &|set, out| sums.write(set * len, len, Operand::Parameter(k), out));
    }
}

/// The gradient of densities, and the densities themselves unless they are logarithms.
#[derive(Clone, Copy)]
pub struct DensityGrads<'a> {
    /// The gradient.
    pub grad: Elements<'a>,
    /// The densities.
    pub density: Option<Elements<'a>>,
}

impl DensityGrads<'_> {
    /// The gradient of the logarithm of density `i`.
    fn scale(&self, i: usize) -> f64 {
        let element = |elements: Elements<'_>| {
            let mut element = [0.0];
            f64::load_any(elements, i, &mut element);
            element[0]
        };
        element(self.grad) * self.density.map_or(1.0, element)
    }
}

/// Computes gradients: the derivatives times the gradients of the densities, summed over the points of each parameter set.
struct GradientSums<'a> {
    sets: &'a PointSets<'a>,
    grads: DensityGrads<'a>,
    run: fn(Points<'_>, Operand, &mut [f64]),
}

impl GradientSums<'_> {
    /// Writes the gradients of an operand, each summed over `len` points, starting at point `first`.
    fn write(&self, first: usize, len: usize, operand: Operand, mut out: ElementsMut<'_>) {
        let (mut sum, mut remaining, mut num_written, count) = (0.0, len, 0, out.len() * len);
        let mut buffers = [[0.0; BUFFER_LEN]; 4];
        for begin in (0..count).step_by(BUFFER_LEN) {
            let [x, terms, scale, sums] = buffers.each_mut().map(|buffer| &mut buffer[..BUFFER_LEN.min(count - begin)]);
            let first = first + begin;
            f64::load_any(self.sets.x, first, x);
            let PointSets { p, points_per_set, .. } = *self.sets;
            (self.run)(Points { x, p, first, points_per_set }, operand, terms);
            for scales in std::iter::once(self.grads.grad).chain(self.grads.density) {
                f64::load_any(scales, first, scale);
                // A discrete distribution does not depend on the position of a point, even where the density is NaN.
                let times =
                    |term: f64, scale: f64| if operand == Operand::Points && term == 0.0 { 0.0 } else { term * scale };
                terms.iter_mut().zip(&*scale).for_each(|(term, scale)| *term = times(*term, *scale));
            }
            if len == 1 {
                f64::store_any(terms, out.part(begin..begin + terms.len()));
                continue;
            }
            let mut num_complete = 0;
            for term in terms {
                sum += *term;
                remaining -= 1;
                if remaining == 0 {
                    sums[num_complete] = sum;
                    (sum, remaining, num_complete) = (0.0, len, num_complete + 1);
                }
            }
            f64::store_any(&sums[..num_complete], out.part(num_written..num_written + num_complete));
            num_written += num_complete;
        }
    }
}
