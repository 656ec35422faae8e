//! The density of the Dirichlet distribution, whose points have several components, and its gradients.

use super::{BUFFER_LEN, DensityGrads, GRAIN};
use crate::map::{Elements, ElementsMut, Lane};
use crate::math::{Approximate40, Full, Precision, digamma, exp, lgamma};
use crate::par::with_scratch;
use crate::simd::multiversion::per_isa;

/// Points of the Dirichlet distribution and its concentrations, `k` numbers each. The points of a parameter set are consecutive.
#[derive(Clone, Copy)]
pub struct Dirichlet<'a> {
    /// The points.
    pub x: Elements<'a>,
    /// The concentrations of each parameter set.
    pub alpha: &'a [f64],
    /// Components of a point.
    pub k: usize,
    /// Points per parameter set.
    pub points_per_set: usize,
    /// True for results in double precision.
    pub is_double: bool,
}

per_isa! {
    /// Replaces each number by its logarithm, for results in single precision.
    fn approximate_logs(x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x = Approximate40::log(*x));
    }
}

/// Replaces each number by its logarithm.
fn logs(x: &mut [f64]) {
    x.iter_mut().for_each(|x| *x = Full::log(*x));
}

impl<'a> Dirichlet<'a> {
    /// The concentrations of the parameter set of point `i`.
    fn concentrations(&self, i: usize) -> &'a [f64] {
        let set = i / self.points_per_set;
        &self.alpha[set * self.k..(set + 1) * self.k]
    }

    /// Calls `f(first, logs)` with the logarithms of the components of point `i`, block by block.
    fn each_log(&self, i: usize, buffer: &mut [f64; BUFFER_LEN], mut f: impl FnMut(usize, &[f64])) {
        for first in (0..self.k).step_by(BUFFER_LEN) {
            let block = &mut buffer[..BUFFER_LEN.min(self.k - first)];
            f64::load_any(self.x, i * self.k + first, block);
            if self.is_double {
                logs(block)
            } else {
                approximate_logs(block)
            }
            f(first, block);
        }
    }

    /// Writes the density at each point, or its logarithm.
    ///
    /// # Panics
    /// Panics if there are fewer points or parameter sets than results.
    pub fn densities(&self, is_log: bool, out: ElementsMut<'_>) {
        out.parallel_chunks(GRAIN.div_ceil(self.k), &|first, mut out| {
            let mut buffer = [0.0; BUFFER_LEN];
            let mut normalizer = 0.0;
            for i in first..first + out.len() {
                let alpha = self.concentrations(i);
                if i == first || i % self.points_per_set == 0 {
                    normalizer = lgamma(alpha.iter().sum::<f64>()) - alpha.iter().map(|a| lgamma(*a)).sum::<f64>();
                }
                let mut density = normalizer;
                self.each_log(i, &mut buffer, |first, logs| {
                    density += alpha[first..].iter().zip(logs).map(|(a, log)| (a - 1.0) * log).sum::<f64>();
                });
                let density = if is_log { density } else { exp(density) };
                f64::store_any(&[density], out.part(i - first..i - first + 1));
            }
        });
    }

    /// Writes the gradient of the points.
    ///
    /// # Panics
    /// As [`Self::densities`].
    pub fn points_backward(&self, grads: DensityGrads<'_>, out: ElementsMut<'_>) {
        let k = self.k;
        out.parallel_chunks(GRAIN.div_ceil(k) * k, &|start, mut out| {
            let mut buffer = [0.0; BUFFER_LEN];
            for i in start / k..(start + out.len()) / k {
                let (alpha, scale) = (self.concentrations(i), grads.scale(i));
                for first in (0..k).step_by(BUFFER_LEN) {
                    let block = &mut buffer[..BUFFER_LEN.min(k - first)];
                    let begin = i * k + first;
                    f64::load_any(self.x, begin, block);
                    block.iter_mut().zip(&alpha[first..]).for_each(|(x, a)| *x = scale * ((a - 1.0) / *x));
                    f64::store_any(block, out.part(begin - start..begin - start + block.len()));
                }
            }
        });
    }

    /// Writes the gradient of the concentrations.
    ///
    /// # Panics
    /// As [`Self::densities`].
    pub fn alpha_backward(&self, grads: DensityGrads<'_>, out: ElementsMut<'_>) {
        let (k, points_per_set) = (self.k, self.points_per_set);
        out.parallel_chunks(GRAIN.div_ceil(points_per_set * k) * k, &|start, mut out| {
            let mut buffer = [0.0; BUFFER_LEN];
            with_scratch(2 * k, |scratch: &mut [f64]| {
                let (normalizer_derivatives, sums) = scratch.split_at_mut(k);
                for set in start / k..(start + out.len()) / k {
                    let alpha = &self.alpha[set * k..(set + 1) * k];
                    let total = digamma(alpha.iter().sum::<f64>());
                    normalizer_derivatives.iter_mut().zip(alpha).for_each(|(d, a)| *d = total - digamma(*a));
                    sums.fill(0.0);
                    for i in set * points_per_set..(set + 1) * points_per_set {
                        let scale = grads.scale(i);
                        self.each_log(i, &mut buffer, |first, logs| {
                            let terms =
                                normalizer_derivatives[first..].iter().zip(logs).map(|(d, log)| scale * (d + log));
                            sums[first..].iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
                        });
                    }
                    f64::store_any(sums, out.part(set * k - start..(set + 1) * k - start));
                }
            });
        });
    }
}
