//! Tests of operators that draw random numbers: mean, variance, and a Kolmogorov-Smirnov or chi-square test of the distribution. The same
//! seed must give the same bits with any number of threads.

use std::f64::consts::PI;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::StorageType;
use ferromx_ops::sparse::cast::cast;
use ferromx_runtime::imperative::{self, Tensor};
use ferromx_runtime::random;

mod table;

pub use table::DRAWS;

/// Number of samples in one call.
pub const BULK: usize = 40_000;
/// Number of calls of an operator that draws one sample per call.
pub const CALLS: usize = 4_000;

/// An input.
#[derive(Clone, Copy)]
pub enum Input {
    /// This number of elements with one value.
    Fill(f64, &'static [i64], DType),
    /// These elements.
    Values(&'static [f64], &'static [i64], DType),
    /// These elements as a csr matrix.
    Csr(&'static [f64], &'static [i64], DType),
}

/// The samples in the results.
#[derive(Clone, Copy)]
pub enum Take {
    /// Every element of the first output.
    All,
    /// A function of every element.
    Map(fn(f64) -> f64),
    /// Every n-th element.
    Step(usize),
    /// One number of the first output of each of many calls.
    Call(fn(&[f64]) -> f64),
}

/// A distribution.
#[derive(Clone, Copy)]
pub enum Law {
    /// Continuous: distribution function, mean and variance.
    Continuous(fn(f64) -> f64, f64, f64),
    /// Discrete: the probabilities of the integers in a range. Values outside are too rare to occur in a sample.
    Discrete(fn(f64) -> f64, i64, i64),
}

/// A call of an operator and the distribution of its samples.
pub struct Draw {
    /// Canonical name of the operator.
    pub op: &'static str,
    /// Parameters as text.
    pub attrs: &'static [(&'static str, &'static str)],
    /// Inputs.
    pub inputs: &'static [Input],
    /// The samples.
    pub take: Take,
    /// Their expected distribution.
    pub law: Law,
}

impl Input {
    fn tensor(&self) -> Result<Arc<Tensor>> {
        let array = |values: &[f64], dims: &[i64], dtype: DType| -> Result<NDArray> {
            ferromx_core::dispatch!(dtype, T in [f32, f64, u8, i64] => {
                let values: Vec<T> = values.iter().map(|x| ferromx_core::dtype::Element::from_f64(*x)).collect();
                NDArray::from_slice(&values, dims)
            }, other => Err(Error::Internal(format!("no inputs of type {other}"))))
        };
        Ok(Arc::new(match self {
            Input::Fill(x, dims, dtype) => {
                Tensor::new(array(&vec![*x; Shape::new(dims).num_elements()], dims, *dtype)?)
            }
            Input::Values(values, dims, dtype) => Tensor::new(array(values, dims, *dtype)?),
            Input::Csr(values, dims, dtype) => {
                Tensor::new(cast(&array(values, dims, *dtype)?.into(), StorageType::Csr)?)
            }
        }))
    }
}

impl Draw {
    fn call(&self, inputs: &[Arc<Tensor>]) -> Result<Vec<f64>> {
        let (name, _) = ferromx_ops::registry::find(self.op)?;
        let outputs = imperative::call(name, self.attrs.iter().copied(), inputs, &[])?;
        outputs[0].array()?.to_vec_as()
    }

    /// The samples for a seed, drawn in training mode.
    ///
    /// # Errors
    /// The operator's errors.
    pub fn numbers(&self, seed: u64) -> Result<Vec<f64>> {
        random::seed_context(seed, Context::default());
        let before = imperative::set_training(true);
        let inputs = self.inputs.iter().map(Input::tensor).collect::<Result<Vec<_>>>()?;
        let numbers = match self.take {
            Take::All => self.call(&inputs),
            Take::Map(f) => self.call(&inputs).map(|x| x.into_iter().map(f).collect()),
            Take::Step(n) => self.call(&inputs).map(|x| x.into_iter().step_by(n).collect()),
            Take::Call(f) => (0..CALLS).map(|_| self.call(&inputs).map(|x| f(&x))).collect(),
        };
        imperative::set_training(before);
        numbers
    }

    /// Compares samples with the distribution. A fixed seed makes the answer deterministic; a correct operator fails for about one seed in
    /// a thousand.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, numbers: &[f64]) -> std::result::Result<(), String> {
        let n = numbers.len() as f64;
        let (mean, variance) = self.law.moments();
        let given = numbers.iter().sum::<f64>() / n;
        let moment = |k: i32| numbers.iter().map(|x| (x - given).powi(k)).sum::<f64>() / n;
        let (second, fourth) = (moment(2), moment(4));
        let near = |what: &str, given: f64, expected: f64, deviation: f64| {
            let far = (given - expected).abs() > 4.5 * deviation + 1e-6 * expected.abs();
            if far || given.is_nan() { Err(format!("{what} {given}, expected {expected}")) } else { Ok(()) }
        };
        near("mean", given, mean, (variance / n).sqrt())?;
        near("variance", second, variance, ((fourth - second * second) / n).sqrt())?;
        match self.law {
            Law::Continuous(distribution, ..) => kolmogorov_smirnov(numbers, distribution),
            Law::Discrete(probability, first, last) => chi_square(numbers, probability, first, last),
        }
    }
}

impl Law {
    fn moments(self) -> (f64, f64) {
        match self {
            Law::Continuous(_, mean, variance) => (mean, variance),
            Law::Discrete(probability, first, last) => {
                let sum =
                    |f: &dyn Fn(f64) -> f64| (first..=last).map(|k| f(k as f64) * probability(k as f64)).sum::<f64>();
                let mean = sum(&|k| k);
                (mean, sum(&|k| (k - mean) * (k - mean)))
            }
        }
    }
}

/// Kolmogorov-Smirnov: the largest distance from the expected distribution function times the square root of the sample size is below 1.95
/// with a probability of 0.999.
fn kolmogorov_smirnov(numbers: &[f64], distribution: fn(f64) -> f64) -> std::result::Result<(), String> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let far = sorted.iter().enumerate().map(|(i, x)| {
        let p = distribution(*x);
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    });
    let statistic = far.fold(0.0, f64::max) * n.sqrt();
    if statistic < 1.95 {
        Ok(())
    } else {
        Err(format!("Kolmogorov-Smirnov statistic {statistic}, expected below 1.95"))
    }
}

/// Pearson's chi-square test; values expected less than ten times form one bin.
fn chi_square(numbers: &[f64], probability: fn(f64) -> f64, first: i64, last: i64) -> std::result::Result<(), String> {
    let n = numbers.len() as f64;
    let mut counts = vec![0f64; usize::try_from(last - first + 1).unwrap_or(0)];
    for x in numbers {
        let index = usize::try_from(*x as i64 - first).ok().filter(|_| x.fract() == 0.0);
        match index.and_then(|i| counts.get_mut(i)) {
            Some(count) => *count += 1.0,
            None => return Err(format!("{x} was drawn, which has no probability")),
        }
    }
    let (mut statistic, mut groups, mut rare) = (0.0, 0f64, (0.0, 0.0));
    for (k, count) in counts.iter().enumerate() {
        let expected = n * probability((first + k as i64) as f64);
        if expected < 10.0 {
            rare = (rare.0 + count, rare.1 + expected);
            continue;
        }
        statistic += (count - expected) * (count - expected) / expected;
        groups += 1.0;
    }
    if rare.1 > 1.0 {
        statistic += (rare.0 - rare.1) * (rare.0 - rare.1) / rare.1;
        groups += 1.0;
    }
    let freedom = groups - 1.0;
    let most = freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0;
    if statistic < most { Ok(()) } else { Err(format!("chi-square {statistic}, expected below {most}")) }
}

/// The regularized lower incomplete gamma function, by its series.
fn gamma_below(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut k = a;
    while term > sum * 1e-16 {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    (sum.ln() + a * x.ln() - x - ln_gamma(a)).exp().min(1.0)
}

/// The logarithm of the gamma function, by Stirling's series beyond 10.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let r = 1.0 / (x * x);
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + (1.0 / 12.0 - r * (1.0 / 360.0 - r / 1260.0)) / x
}

/// The distribution function of the normal distribution.
fn normal(z: f64) -> f64 {
    let half = 0.5 * gamma_below(0.5, z * z / 2.0);
    if z < 0.0 { 0.5 - half } else { 0.5 + half }
}

/// The probability of `k` in the Poisson distribution.
fn poisson(mean: f64, k: f64) -> f64 {
    (k * mean.ln() - mean - ln_gamma(k + 1.0)).exp()
}

/// The probability of `k` failures before success number `r`.
fn negative_binomial(r: f64, p: f64, k: f64) -> f64 {
    (ln_gamma(k + r) - ln_gamma(k + 1.0) - ln_gamma(r) + r * p.ln() + k * (1.0 - p).ln()).exp()
}
