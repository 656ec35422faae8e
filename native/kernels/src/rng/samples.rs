//! Samples computed from parameters and noise.

use std::collections::HashSet;
use std::marker::PhantomData;

use super::Philox;
use super::inversion::{Inversion, last_outcome};
use crate::math::{self, MathFloat};
use crate::par::{parallel_rows, parallel_rows2, with_scratch};
use crate::simd::multiversion::{self, Multiversioned};
use ferromx_core::dtype::Element;
use ferromx_core::memory;

/// A formula of samples, which are a function of two parameters and of noise that does not depend on them.
pub trait SampleFormula: 'static {
    /// The noise for a random number of the base distribution.
    fn noise<R: MathFloat>(x: R) -> R;
    /// The sample for parameters and noise.
    fn value<R: MathFloat>(p: [R; 2], z: R) -> R;
}

/// A parameter of samples.
#[derive(Clone, Debug)]
pub enum SampleParameter<C> {
    /// A number for all samples.
    Scalar(C),
    /// A number for each sample.
    Array(Vec<C>),
}

impl<C: MathFloat> SampleParameter<C> {
    /// The value for a sample.
    pub fn get(&self, index: usize) -> C {
        match self {
            SampleParameter::Scalar(x) => *x,
            SampleParameter::Array(values) => values[index],
        }
    }

    /// Copies the values for samples, starting at index `first`.
    #[inline(always)]
    fn copy_to(&self, first: usize, to: &mut [C]) {
        match self {
            SampleParameter::Scalar(x) => to.fill(*x),
            SampleParameter::Array(values) => to.copy_from_slice(&values[first..first + to.len()]),
        }
    }
}

/// Samples per block. The parameters of a block are copied to the stack.
const BLOCK_LEN: usize = 1 << 10;

/// Computes noise and samples. On entry `noise` holds random numbers of the base distribution.
///
/// # Panics
/// Panics if an array of parameters is shorter than `values`.
pub fn compute_samples<F: SampleFormula, C: MathFloat>(p: &[SampleParameter<C>; 2], noise: &mut [C], values: &mut [C]) {
    parallel_rows2((values, BLOCK_LEN), (noise, BLOCK_LEN), 8, |block, values, noise| {
        let (mut first, mut second) = ([C::ZERO; BLOCK_LEN], [C::ZERO; BLOCK_LEN]);
        let n = values.len();
        p[0].copy_to(block * BLOCK_LEN, &mut first[..n]);
        p[1].copy_to(block * BLOCK_LEN, &mut second[..n]);
        let p = [&first[..n], &second[..n]];
        multiversion::run(Samples { p, noise, values, formula: PhantomData::<F> });
    });
}

/// The samples of a block.
struct Samples<'a, F, C> {
    p: [&'a [C]; 2],
    noise: &'a mut [C],
    values: &'a mut [C],
    formula: PhantomData<F>,
}

impl<F: SampleFormula, C: MathFloat> Multiversioned for Samples<'_, F, C> {
    type Output = ();
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(self) {
        let [p, q] = self.p;
        for (i, (noise, value)) in self.noise.iter_mut().zip(self.values).enumerate() {
            *noise = F::noise(*noise);
            *value = F::value([p[i], q[i]], *noise);
        }
    }
}

/// Replaces noise by `value(set, noise)`, where each parameter set has `num_samples` consecutive elements.
pub fn samples_of_sets<T: Element>(out: &mut [T], num_samples: usize, value: impl Fn(usize, f64) -> f64 + Sync) {
    parallel_rows(out, num_samples, (1usize << 12).div_ceil(num_samples.max(1)), |set, out| {
        out.iter_mut().for_each(|x| *x = T::from_f64(value(set, x.to_f64())));
    });
}

/// Samples classes by their probabilities: each row of `num_classes` probabilities, which sum to 1, has the same number of consecutive
/// `classes`. Where rounding leaves the sum below a random number, the class is the last one of nonzero probability.
///
/// # Panics
/// Panics if there are classes to sample, but no probabilities.
pub fn sample_classes<T: Element>(random: &Philox, (p, num_classes): (&[T], usize), classes: &mut [u32]) {
    if classes.is_empty() {
        return;
    }
    let num_samples = classes.len() / (p.len() / num_classes);
    let mut uniform = memory::filled(0f64, classes.len());
    random.fill_with(&mut uniform, |_, draws| draws.uniform());
    let grain = (1usize << 12).div_ceil(num_classes + num_samples);
    parallel_rows(classes, num_samples, grain, |row, classes| {
        let p = p[row * num_classes..][..num_classes].iter().map(|p| p.to_f64());
        let uniform = &uniform[row * num_samples..];
        // A guide table for a few samples takes longer than it saves.
        if num_samples > num_classes / 8 {
            let distribution = Inversion::new(p);
            classes.iter_mut().zip(uniform).for_each(|(class, u)| *class = distribution.outcome(*u) as u32);
            return;
        }
        with_scratch(num_classes, |cumulative| {
            let mut sum = 0.0;
            cumulative.iter_mut().zip(p).for_each(|(to, p)| {
                sum += p;
                *to = sum;
            });
            let last = last_outcome(cumulative);
            for (class, u) in classes.iter_mut().zip(uniform) {
                *class = cumulative.partition_point(|s| *s <= *u).min(last) as u32;
            }
        });
    });
}

/// Samples rows of `row_len` different classes below `num_classes`: class c has the probability
/// log((c + 2) / (c + 1)) / log(num_classes + 1). `tries` gets the number of draws that each row took, repetitions included.
///
/// There must be at least `row_len` classes, or the loop does not end.
pub fn unique_zipfian(random: &Philox, num_classes: i32, (classes, row_len): (&mut [i64], usize), tries: &mut [i64]) {
    let log_range = math::log1p(f64::from(num_classes));
    parallel_rows2((classes, row_len), (tries, 1), 1, |row, classes, tries| {
        let mut draws = random.draws(row as u64);
        let mut drawn = HashSet::with_capacity(row_len);
        tries[0] = 0;
        for class in classes {
            loop {
                tries[0] += 1;
                *class = (math::expm1(draws.uniform() * log_range) as i64).min(i64::from(num_classes) - 1);
                if drawn.insert(*class) {
                    break;
                }
            }
        }
    });
}
