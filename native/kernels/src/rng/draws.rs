//! The random numbers of one element, and distributions that draw several of them.

use super::{join_words, philox};

/// The sequence of random numbers of one element.
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    element: u64,
    next_block: u32,
    /// Up to two blocks; a new one goes into the second half.
    words: [u32; 8],
    used: usize,
}

/// Uniform in [0, 1), with the upper 53 bits of a word.
#[inline(always)]
pub(super) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Two independent normal numbers from two uniform ones in [0, 1).
pub(super) fn box_muller(u: f64, v: f64) -> (f64, f64) {
    let radius = (-2.0 * libm::log(1.0 - u)).sqrt();
    let (sin, cos) = libm::sincos(std::f64::consts::TAU * v);
    (radius * cos, radius * sin)
}

impl Draws {
    pub(super) fn new(key: [u32; 2], element: u64) -> Draws {
        Draws { key, element, next_block: 0, words: [0; 8], used: 8 }
    }

    /// Starts with the element's first two blocks.
    pub(super) fn with_first_blocks(key: [u32; 2], element: u64, words: [u32; 8]) -> Draws {
        Draws { key, element, next_block: 2, words, used: 0 }
    }

    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        if self.used == 8 {
            // The last word of the counter distinguishes these blocks from those of bulk fills.
            let block = philox([self.next_block, self.element as u32, (self.element >> 32) as u32, 1], self.key);
            self.words[4..].copy_from_slice(&block);
            self.next_block = self.next_block.wrapping_add(1);
            self.used = 4;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// 64 random bits.
    pub fn word64(&mut self) -> u64 {
        join_words(self.word(), self.word())
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        unit(self.word64())
    }

    /// A uniform integer below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.word64()) * n as u128) >> 64) as usize
    }

    /// Normal with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * libm::log(1.0 - u)).sqrt() * libm::cos(std::f64::consts::TAU * v)
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    /// Gamma with the given shape and scale 1 (Marsaglia and Tsang 2000); NaN unless the shape is positive.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape.is_nan() || shape <= 0.0 {
            return f64::NAN;
        }
        if shape.is_infinite() {
            return shape;
        }
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.uniform(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            let u = 1.0 - self.uniform();
            // Implies the condition below. The margin exceeds the rounding errors of the latter.
            if d < 1e3 && u < 1.0 - 0.0331 * (x * x) * (x * x) - 1e-9 {
                return d * v;
            }
            if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    /// Poisson with the given mean: by inversion below 10, else by transformed rejection (Hörmann 1993, PTRS). NaN if the mean is
    /// negative or not finite.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if !mean.is_finite() || mean < 0.0 {
            return f64::NAN;
        }
        if mean < 10.0 {
            return self.invert(libm::exp(-mean), |k| mean / k);
        }
        let b = 0.931 + 2.53 * mean.sqrt();
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = self.uniform() - 0.5;
            let v = 1.0 - self.uniform();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
            if us >= 0.07 && v <= v_r {
                return k;
            }
            if k < 0.0 || us < 0.013 && v > us {
                continue;
            }
            let left = libm::log(v * inverse_alpha / (a / (us * us) + b));
            if left <= k * libm::log(mean) - mean - libm::lgamma(k + 1.0) {
                return k;
            }
        }
    }

    /// Inversion by sequential search: the first k whose cumulative probability exceeds a uniform number. The probability of 0 is
    /// `first`, that of k is that of k - 1 multiplied by `ratio(k)`.
    fn invert(&mut self, first: f64, ratio: impl Fn(f64) -> f64) -> f64 {
        let u = self.uniform();
        let (mut k, mut probability, mut cumulative) = (0.0, first, first);
        // Ends at the latest when the sum no longer grows, because rounding can leave it below u.
        while u >= cumulative {
            k += 1.0;
            probability *= ratio(k);
            let sum = cumulative + probability;
            if sum == cumulative && probability < f64::EPSILON {
                break;
            }
            cumulative = sum;
        }
        k
    }

    /// Binomial, the number of successes in `n` trials with probability `p`: by inversion if fewer than 10 are expected, else by
    /// transformed rejection (Hörmann 1993, BTRS). NaN unless `p` is a probability.
    pub fn binomial(&mut self, n: f64, p: f64) -> f64 {
        if !(0.0..=1.0).contains(&p) {
            return f64::NAN;
        }
        if p > 0.5 {
            return n - self.binomial(n, 1.0 - p);
        }
        let (q, odds) = (1.0 - p, p / (1.0 - p));
        if n * p < 10.0 {
            return self.invert(libm::exp(n * libm::log1p(-p)), |k| (n - k + 1.0) / k * odds).min(n);
        }
        let deviation = (n * p * q).sqrt();
        let b = 1.15 + 2.53 * deviation;
        let a = -0.0873 + 0.0248 * b + 0.01 * p;
        let alpha = (2.83 + 5.1 / b) * deviation;
        let v_r = 0.92 - 4.2 / b;
        let mode = ((n + 1.0) * p).floor();
        let log_factorials = |k: f64| libm::lgamma(k + 1.0) + libm::lgamma(n - k + 1.0);
        loop {
            let u = self.uniform() - 0.5;
            let v = 1.0 - self.uniform();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + n * p + 0.5).floor();
            if us >= 0.07 && v <= v_r {
                return k;
            }
            if !(0.0..=n).contains(&k) {
                continue;
            }
            let left = libm::log(v * alpha / (a / (us * us) + b));
            if left <= log_factorials(mode) - log_factorials(k) + (k - mode) * libm::log(odds) {
                return k;
            }
        }
    }

    /// The number of failures before the `k`-th success, whose probability is `p`: a Poisson number whose mean has a gamma
    /// distribution. `k` need not be an integer.
    pub fn negative_binomial(&mut self, k: f64, p: f64) -> f64 {
        if k == 0.0 || p >= 1.0 {
            return 0.0;
        }
        let mean = self.gamma(k) * (1.0 - p) / p;
        self.poisson(mean)
    }

    /// Negative binomial with mean `mu` and dispersion `alpha`: the variance is `mu + alpha * mu^2`.
    pub fn generalized_negative_binomial(&mut self, mu: f64, alpha: f64) -> f64 {
        if alpha == 0.0 {
            return self.poisson(mu);
        }
        let mean = self.gamma(1.0 / alpha) * mu * alpha;
        self.poisson(mean)
    }
}
