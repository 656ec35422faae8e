//! Discrete distributions sampled by inversion.

use ferromx_core::memory;

/// A table ends at this probability, which is far below the resolution of the uniform numbers, 2^-53.
const LAST_PROBABILITY: f64 = 1e-20;
/// The largest number of outcomes in a table of [`Inversion::poisson`] or [`Inversion::negative_binomial`].
const MAX_OUTCOMES: usize = 1 << 12;

/// A distribution of the outcomes 0, 1, 2, ... with given weights. A guide table (Chen and Asau, "On generating random variates from an
/// empirical distribution", 1974) finds an outcome in a few steps, however many there are.
#[derive(Clone, Debug)]
pub struct Inversion {
    /// The sums of the weights up to each outcome; not empty.
    cumulative: Vec<f64>,
    /// The last outcome that can occur.
    last: usize,
    /// The outcome at which the search starts, for equal intervals of the weight.
    guide: Vec<usize>,
    /// Intervals per unit of weight.
    scale: f64,
}

impl Inversion {
    /// The distribution with probabilities proportional to `weights`, which are not negative. If all are zero, the last outcome is
    /// certain.
    ///
    /// # Panics
    /// Panics if there are no weights.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Inversion {
        let mut sum = 0.0;
        let cumulative = memory::collected(weights.into_iter().map(|weight| {
            sum += weight;
            sum
        }));
        let last = last_outcome(&cumulative);
        let num_intervals = cumulative.len().next_power_of_two();
        let mut start = 0;
        let guide = memory::collected((0..num_intervals).map(|i| {
            while start < last && cumulative[start] <= sum * (i as f64 / num_intervals as f64) {
                start += 1;
            }
            start
        }));
        Inversion { cumulative, last, guide, scale: num_intervals as f64 / sum }
    }

    /// The Poisson distribution, if its mean is small enough for a table.
    pub fn poisson(mean: f64) -> Option<Inversion> {
        Self::by_recurrence(libm::exp(-mean), mean, |k| mean / k)
    }

    /// The number of failures before the `k`-th success, whose probability is `p`, if it is small enough for a table. `k` need not be an
    /// integer.
    pub fn negative_binomial(k: f64, p: f64) -> Option<Inversion> {
        if !(0.0..=1.0).contains(&p) {
            return None;
        }
        let q = 1.0 - p;
        Self::by_recurrence(libm::pow(p, k), k * q / p, |failures| (k - 1.0 + failures) / failures * q)
    }

    /// The probability of 0 is `first`, that of k is that of k - 1 multiplied by `ratio(k)`.
    fn by_recurrence(first: f64, mean: f64, ratio: impl Fn(f64) -> f64) -> Option<Inversion> {
        if !first.is_normal() || !(0.0..MAX_OUTCOMES as f64).contains(&mean) {
            return None;
        }
        let mut probabilities = vec![first];
        let mut probability = first;
        while probability >= LAST_PROBABILITY || probabilities.len() as f64 <= mean {
            if probabilities.len() == MAX_OUTCOMES {
                return None;
            }
            probability *= ratio(probabilities.len() as f64);
            probabilities.push(probability);
        }
        Some(Inversion::new(probabilities))
    }

    /// The sum of the weights.
    pub fn total(&self) -> f64 {
        self.cumulative[self.last]
    }

    /// The first outcome whose cumulative weight exceeds `x`; the last one that can occur if none does.
    pub fn outcome(&self, x: f64) -> usize {
        let interval = ((x * self.scale) as usize).min(self.guide.len() - 1);
        let mut outcome = self.guide[interval];
        // Only if `interval` was rounded up.
        while outcome > 0 && self.cumulative[outcome - 1] > x {
            outcome -= 1;
        }
        while outcome < self.last && self.cumulative[outcome] <= x {
            outcome += 1;
        }
        outcome
    }
}

/// The last outcome that can occur, given the sums of the weights up to each outcome; the last one if all weights are zero.
///
/// # Panics
/// Panics if there are no outcomes.
pub(super) fn last_outcome(cumulative: &[f64]) -> usize {
    let total = cumulative[cumulative.len() - 1];
    if total > 0.0 { cumulative.partition_point(|s| *s < total) } else { cumulative.len() - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_the_first_of_larger_cumulative_weight() {
        for weights in [
            vec![1.0],
            vec![0.0, 3.0, 0.0],
            vec![1.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.5],
            vec![0.1; 1000],
            vec![1e-300, 1e300],
        ] {
            let distribution = Inversion::new(weights.iter().copied());
            let last = weights.iter().rposition(|w| *w > 0.0).unwrap();
            let total: f64 = weights.iter().sum();
            assert_eq!(distribution.total(), total);
            for i in 0..=4000 {
                let x = total * f64::from(i) / 4000.0;
                let mut sum = 0.0;
                let first = weights.iter().position(|w| {
                    sum += w;
                    sum > x
                });
                assert_eq!(distribution.outcome(x), first.unwrap_or(last), "{x} of {total}");
            }
        }
        assert_eq!(Inversion::new([0.0; 3]).outcome(0.0), 2);
    }

    #[test]
    fn tables_have_the_probabilities_of_their_distribution() {
        let probability = |d: &Inversion, k: usize| d.cumulative[k] - if k == 0 { 0.0 } else { d.cumulative[k - 1] };
        for mean in [0.0, 0.1, 4.0, 60.0, 500.0] {
            let d = Inversion::poisson(mean).unwrap();
            assert!((d.total() - 1.0).abs() < 1e-12, "{mean}");
            let k = mean as usize;
            let want = libm::exp(k as f64 * mean.max(1e-300).ln() - mean - libm::lgamma(k as f64 + 1.0));
            assert!((probability(&d, k) - want).abs() < 1e-12, "{mean}");
        }
        for (k, p) in [(3.0, 0.4), (0.5, 0.9), (20.0, 0.1), (7.0, 1.0)] {
            let d = Inversion::negative_binomial(k, p).unwrap();
            assert!((d.total() - 1.0).abs() < 1e-12, "{k} {p}");
            // C(k + 1, 2) * p^k * (1 - p)^2
            let want = k * (k + 1.0) / 2.0 * p.powf(k) * (1.0 - p) * (1.0 - p);
            let got = if p == 1.0 { 0.0 } else { probability(&d, 2) };
            assert!((got - want).abs() < 1e-12, "{k} {p}");
        }
        for mean in [-1.0, 1e4, f64::NAN, f64::INFINITY] {
            assert!(Inversion::poisson(mean).is_none());
        }
        for (k, p) in [(3.0, 0.0), (3.0, 1e-6), (1e6, 0.5), (f64::INFINITY, 0.5), (2.0, f64::NAN), (2.0, 1.5)] {
            assert!(Inversion::negative_binomial(k, p).is_none());
        }
    }
}
