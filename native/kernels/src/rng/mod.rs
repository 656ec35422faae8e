//! Random numbers from the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
//! numbers: as easy as 1, 2, 3", 2011).
//!
//! The random numbers of an array element depend only on the seed, the stream and the index of the element, so results do not
//! depend on the number of threads. Each fill must have its own stream.
//!
//! - `draws`: the random numbers of one element, and distributions that need several of them.
//! - `inversion`: discrete distributions with a table of their cumulative probabilities.
//! - `samples`: samples computed from parameters and noise.

mod draws;
mod inversion;
mod samples;
#[cfg(test)]
mod tests;

pub use draws::Draws;
pub use inversion::Inversion;
pub use samples::{SampleFormula, SampleParameter, compute_samples, sample_classes, samples_of_sets, unique_zipfian};

use crate::map::{Lane, Store};
use crate::math;
use crate::par;
use crate::simd::multiversion::{self, Multiversioned};
use ferromx_core::dtype::{DType, Element};
use ferromx_core::memory;

/// Words in a group: [`GROUP_BLOCKS`] Philox blocks of four words.
const GROUP: usize = 64;
/// Philox blocks in a group, one per lane.
const GROUP_BLOCKS: usize = 16;
/// Elements per chunk of a bulk fill.
const GRAIN: usize = 1 << 15;
/// Elements per chunk if each element has its own sampler.
const SLOW_GRAIN: usize = 1 << 10;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// A Philox round on the four words of a counter.
#[inline(always)]
fn round(c: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let a = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
    let b = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
    [(b >> 32) as u32 ^ c[1] ^ key[0], b as u32, (a >> 32) as u32 ^ c[3] ^ key[1], a as u32]
}

#[inline(always)]
fn next_key(key: [u32; 2]) -> [u32; 2] {
    [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])]
}

/// The block of four words for a counter.
#[inline(always)]
fn philox(mut c: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut i = 0;
    while i < 10 {
        c = round(c, key);
        key = next_key(key);
        i += 1;
    }
    c
}

/// The blocks of several counters, each given and returned as its four words.
#[inline(always)]
fn blocks([mut a, mut b, mut c, mut d]: [[u32; GROUP_BLOCKS]; 4], mut key: [u32; 2]) -> [[u32; GROUP_BLOCKS]; 4] {
    for _ in 0..10 {
        for lane in 0..GROUP_BLOCKS {
            [a[lane], b[lane], c[lane], d[lane]] = round([a[lane], b[lane], c[lane], d[lane]], key);
        }
        key = next_key(key);
    }
    [a, b, c, d]
}

/// Maps 64 random bits to an integer below `range`.
#[inline(always)]
fn scale_word(word: u64, range: u128) -> u64 {
    ((u128::from(word) * range) >> 64) as u64
}

#[inline(always)]
fn join_words(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The first 64-bit word of the [`Draws`] of each of successive elements.
struct FirstWords<'a> {
    key: [u32; 2],
    /// The first element, a multiple of [`GROUP_BLOCKS`].
    first: u64,
    words: &'a mut [u64; SLOW_GRAIN],
}

impl Multiversioned for FirstWords<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, words) in self.words.as_chunks_mut::<GROUP_BLOCKS>().0.iter_mut().enumerate() {
            let first = self.first + (i * GROUP_BLOCKS) as u64;
            let low = std::array::from_fn(|lane| (first as u32).wrapping_add(lane as u32));
            let high = [(first >> 32) as u32; GROUP_BLOCKS];
            let [a, b, ..] = blocks([[0; GROUP_BLOCKS], low, high, [1; GROUP_BLOCKS]], self.key);
            *words = std::array::from_fn(|lane| join_words(a[lane], b[lane]));
        }
    }
}

/// The first two blocks of the [`Draws`] of each of successive elements.
struct FirstBlocks<'a> {
    key: [u32; 2],
    /// The first element, a multiple of [`GROUP`].
    first: u64,
    blocks: &'a mut [[u32; 8]; GROUP],
}

impl Multiversioned for FirstBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, to) in self.blocks.as_chunks_mut::<GROUP_BLOCKS>().0.iter_mut().enumerate() {
            let first = self.first + (i * GROUP_BLOCKS) as u64;
            let low = std::array::from_fn(|lane| (first as u32).wrapping_add(lane as u32));
            let high = [(first >> 32) as u32; GROUP_BLOCKS];
            let of_number = |k| blocks([[k; GROUP_BLOCKS], low, high, [1; GROUP_BLOCKS]], self.key);
            let ([a, b, c, d], [e, f, g, h]) = (of_number(0), of_number(1));
            for lane in 0..GROUP_BLOCKS {
                to[lane] = [a[lane], b[lane], c[lane], d[lane], e[lane], f[lane], g[lane], h[lane]];
            }
        }
    }
}

/// Successive 64-bit words of the [`Draws`] of an element.
struct ElementWords<'a> {
    key: [u32; 2],
    element: u64,
    /// The first block, which has two words.
    first: u64,
    words: &'a mut [u64; SLOW_GRAIN],
}

impl Multiversioned for ElementWords<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let element = [self.element as u32, (self.element >> 32) as u32].map(|word| [word; GROUP_BLOCKS]);
        for (i, words) in self.words.as_chunks_mut::<{ 2 * GROUP_BLOCKS }>().0.iter_mut().enumerate() {
            let first = (self.first as u32).wrapping_add((i * GROUP_BLOCKS) as u32);
            let block = std::array::from_fn(|lane| first.wrapping_add(lane as u32));
            let [a, b, c, d] = blocks([block, element[0], element[1], [1; GROUP_BLOCKS]], self.key);
            for lane in 0..GROUP_BLOCKS {
                words[2 * lane] = join_words(a[lane], b[lane]);
                words[2 * lane + 1] = join_words(c[lane], d[lane]);
            }
        }
    }
}

/// A generator of one stream of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    key: [u32; 2],
}

impl Philox {
    /// The generator of a stream; streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Philox {
        let [a, b, ..] = philox([stream as u32, (stream >> 32) as u32, 0, 2], [seed as u32, (seed >> 32) as u32]);
        Philox { key: [a, b] }
    }

    /// The random numbers of one element.
    pub fn draws(&self, element: u64) -> Draws {
        Draws::new(self.key, element)
    }

    /// Uniform in [`low`, `high`), with 24 random bits, or 53 in `f64`. Rounding to a 16-bit type may give `high`.
    pub fn fill_uniform<T>(&self, low: f64, high: f64, out: &mut [T])
    where
        T: Store<f32> + Store<f64>,
    {
        if T::DTYPE == DType::F64 {
            self.fill(out, Uniform(low, high));
        } else {
            self.fill(out, Uniform(low as f32, high as f32));
        }
    }

    /// Normal (Box and Muller, 1958), within 6.6 standard deviations, or 8.5 in `f64`.
    pub fn fill_normal<T>(&self, mean: f64, deviation: f64, out: &mut [T])
    where
        T: Store<f32> + Store<f64>,
    {
        if T::DTYPE == DType::F64 {
            self.fill(out, Normal(mean, deviation));
        } else {
            self.fill(out, Normal(mean as f32, deviation as f32));
        }
    }

    /// `one` with probability `p`, otherwise 0. With `one` = 1 / p this is a dropout mask.
    pub fn fill_bernoulli<T: Store<f32>>(&self, p: f64, one: f32, out: &mut [T]) {
        let limit = (p.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64;
        if limit > u64::from(u32::MAX) {
            return out.fill(T::element(one));
        }
        self.fill(out, Bernoulli(limit as u32, one));
    }

    /// Exponential with mean 1 / `rate`.
    pub fn fill_exponential<T>(&self, rate: f64, out: &mut [T])
    where
        T: Store<f32> + Store<f64>,
    {
        if T::DTYPE == DType::F64 {
            self.fill_with(out, |_, draws| draws.exponential() / rate);
        } else {
            self.fill(out, Exponential((-1.0 / rate) as f32));
        }
    }

    /// Uniform integers in [`low`, `high`); `low` if the range is empty.
    pub fn fill_int<T: Element + Store<i64>>(&self, low: i64, high: i64, out: &mut [T]) {
        let range = (i128::from(high) - i128::from(low)).max(1) as u128;
        par::parallel_rows(out, SLOW_GRAIN, 1, |i, out| {
            let mut words = [0; SLOW_GRAIN];
            multiversion::run(FirstWords { key: self.key, first: (i * SLOW_GRAIN) as u64, words: &mut words });
            for (o, word) in out.iter_mut().zip(words) {
                *o = T::element(low.wrapping_add(scale_word(word, range) as i64));
            }
        });
    }

    /// `out[i] = f(i, &mut self.draws(i))`, for the distributions of [`Draws`].
    pub fn fill_with<T: Element>(&self, out: &mut [T], f: impl Fn(usize, &mut Draws) -> f64 + Sync) {
        par::parallel_rows(out, SLOW_GRAIN, 1, |i, out| {
            let mut blocks = [[0; 8]; GROUP];
            for (k, out) in out.chunks_mut(GROUP).enumerate() {
                let first = i * SLOW_GRAIN + k * GROUP;
                multiversion::run(FirstBlocks { key: self.key, first: first as u64, blocks: &mut blocks });
                for (j, (o, blocks)) in out.iter_mut().zip(&blocks).enumerate() {
                    let element = first + j;
                    let mut draws = Draws::with_first_blocks(self.key, element as u64, *blocks);
                    *o = T::from_f64(f(element, &mut draws));
                }
            }
        });
    }

    /// Outcomes of a discrete distribution. Each takes the first uniform number of its element.
    pub fn fill_inverted<T: Element>(&self, distribution: &Inversion, out: &mut [T]) {
        par::parallel_rows(out, SLOW_GRAIN, 1, |i, out| {
            let mut words = [0; SLOW_GRAIN];
            multiversion::run(FirstWords { key: self.key, first: (i * SLOW_GRAIN) as u64, words: &mut words });
            for (o, word) in out.iter_mut().zip(words) {
                *o = T::from_f64(distribution.outcome(draws::unit(word) * distribution.total()) as f64);
            }
        });
    }

    /// Poisson with the given mean; NaN if the mean is negative or not finite.
    pub fn fill_poisson<T: Element>(&self, mean: f64, out: &mut [T]) {
        match Inversion::poisson(mean) {
            Some(distribution) => self.fill_inverted(&distribution, out),
            None => self.fill_with(out, |_, draws| draws.poisson(mean)),
        }
    }

    /// The number of failures before the `k`-th success, whose probability is `p` ([`Draws::negative_binomial`]).
    pub fn fill_negative_binomial<T: Element>(&self, k: f64, p: f64, out: &mut [T]) {
        match Inversion::negative_binomial(k, p) {
            Some(distribution) => self.fill_inverted(&distribution, out),
            None => self.fill_with(out, |_, draws| draws.negative_binomial(k, p)),
        }
    }

    /// Negative binomial with mean `mu` and dispersion `alpha` ([`Draws::generalized_negative_binomial`]).
    pub fn fill_generalized_negative_binomial<T: Element>(&self, mu: f64, alpha: f64, out: &mut [T]) {
        if alpha == 0.0 {
            return self.fill_poisson(mu, out);
        }
        match Inversion::negative_binomial(1.0 / alpha, 1.0 / (1.0 + mu * alpha)) {
            Some(distribution) => self.fill_inverted(&distribution, out),
            None => self.fill_with(out, |_, draws| draws.generalized_negative_binomial(mu, alpha)),
        }
    }

    /// How often each outcome occurs in `n` trials, in rows of `out`. The probabilities are proportional to `weights`, which are not
    /// negative; the last outcome is certain if all are zero.
    pub fn fill_multinomial(&self, n: i32, weights: &[f64], out: &mut [i64]) {
        // The sum of each weight and those after it.
        let mut rests = memory::collected(weights.iter().copied());
        for i in (1..rests.len()).rev() {
            rests[i - 1] += rests[i];
        }
        par::parallel_rows(out, weights.len(), SLOW_GRAIN.div_ceil(weights.len().max(1)), |row, counts| {
            let (mut draws, mut trials) = (self.draws(row as u64), i64::from(n));
            let Some((last, counts)) = counts.split_last_mut() else { return };
            for ((count, weight), rest) in counts.iter_mut().zip(weights).zip(&rests) {
                let p = if *weight > 0.0 { (weight / rest).min(1.0) } else { 0.0 };
                *count = if trials > 0 { draws.binomial(trials as f64, p) as i64 } else { 0 };
                trials -= *count;
            }
            *last = trials;
        });
    }

    /// The indices of positive weights in the order in which they are chosen without replacement, each with a probability proportional
    /// to its weight (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    pub fn weighted_order(&self, weights: &[f64]) -> Vec<usize> {
        let mut keys = memory::filled(0f64, weights.len());
        self.fill_with(&mut keys, |i, draws| draws.exponential() / weights[i]);
        let mut order = memory::collected((0..weights.len()).filter(|i| weights[*i] > 0.0));
        order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]));
        order
    }

    /// A random permutation of the numbers below `n` (Fisher and Yates).
    pub fn permutation(&self, n: usize) -> Vec<usize> {
        match u32::try_from(n) {
            Ok(end) => memory::collected(self.shuffled(memory::collected(0..end)).into_iter().map(|i| i as usize)),
            Err(_) => self.shuffled(memory::collected(0..n)),
        }
    }

    /// Shuffles with the 64-bit words of `self.draws(0)`.
    fn shuffled<I>(&self, mut order: Vec<I>) -> Vec<I> {
        let mut words = [0; SLOW_GRAIN];
        let mut last = order.len().saturating_sub(1);
        for first in (0u64..).step_by(SLOW_GRAIN / 2) {
            if last == 0 {
                break;
            }
            multiversion::run(ElementWords { key: self.key, element: 0, first, words: &mut words });
            let count = last.min(words.len());
            for word in &words[..count] {
                order.swap(last, scale_word(*word, last as u128 + 1) as usize);
                last -= 1;
            }
        }
        order
    }

    fn fill<T, C, S>(&self, out: &mut [T], sampler: S)
    where
        T: Store<C>,
        C: Lane,
        S: Sampler<C>,
    {
        par::parallel_rows(out, GRAIN, 1, |i, out| {
            let mut group = (i * GRAIN / GROUP) as u64;
            let whole = out.len() / GROUP * GROUP;
            let in_place = T::view_mut(&mut out[..whole]).map_or(0, |lanes| {
                multiversion::run(Fill { key: self.key, group, out: lanes.as_chunks_mut().0, sampler });
                lanes.len()
            });
            group += (in_place / GROUP) as u64;
            let mut buf = [[C::default(); GROUP]; 8];
            for block in out[in_place..].chunks_mut(8 * GROUP) {
                let groups = block.len().div_ceil(GROUP);
                multiversion::run(Fill { key: self.key, group, out: &mut buf[..groups], sampler });
                T::store(&buf.as_flattened()[..block.len()], block);
                group += groups as u64;
            }
        });
    }
}

/// A distribution. A closure would not do, because the call must always be inlined into the vector loop.
trait Sampler<C>: Copy + Sync {
    fn fill(self, group: Group, out: &mut [C; GROUP]);
}

struct Fill<'a, C, S> {
    key: [u32; 2],
    group: u64,
    out: &'a mut [[C; GROUP]],
    sampler: S,
}

impl<C, S: Sampler<C>> Multiversioned for Fill<'_, C, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            self.sampler.fill(Group { key: self.key, index: self.group + i as u64 }, out);
        }
    }
}

/// The generator state for [`GROUP`] elements.
#[derive(Clone, Copy)]
struct Group {
    key: [u32; 2],
    index: u64,
}

impl Group {
    /// One word per element, from [`GROUP_BLOCKS`] successive counters: (words of a block, blocks).
    #[inline(always)]
    fn words(self) -> [u32; GROUP] {
        let first = self.index * GROUP_BLOCKS as u64;
        // A group never crosses a multiple of 2^32.
        let low = std::array::from_fn(|lane| (first as u32).wrapping_add(lane as u32));
        let zero = [0u32; GROUP_BLOCKS];
        let blocks = blocks([low, [(first >> 32) as u32; GROUP_BLOCKS], zero, zero], self.key);
        let mut words = [0; GROUP];
        for (to, lanes) in words.chunks_exact_mut(GROUP_BLOCKS).zip(blocks) {
            to.copy_from_slice(&lanes);
        }
        words
    }

    /// Two words per element.
    #[inline(always)]
    fn word_pairs(self) -> ([u32; GROUP], [u32; GROUP]) {
        let half = |k| Group { index: 2 * self.index + k, ..self }.words();
        (half(0), half(1))
    }
}

/// The uniform distribution in [low, high).
#[derive(Clone, Copy)]
struct Uniform<C>(C, C);

impl Sampler<f32> for Uniform<f32> {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f32; GROUP]) {
        let Uniform(low, high) = self;
        let words = group.words();
        for i in 0..GROUP {
            let x = ((words[i] >> 8) as i32 as f32 * (1.0 / 16_777_216.0)).mul_add(high - low, low);
            out[i] = if x < high { x } else { low };
        }
    }
}

impl Sampler<f64> for Uniform<f64> {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f64; GROUP]) {
        let Uniform(low, high) = self;
        let (a, b) = group.word_pairs();
        for i in 0..GROUP {
            let x = draws::unit(join_words(a[i], b[i])).mul_add(high - low, low);
            out[i] = if x < high { x } else { low };
        }
    }
}

/// Uniform in (0, 1], with 31 bits, so that logarithms have a wide range.
#[inline(always)]
fn positive_f32(word: u32) -> f32 {
    ((word >> 1) as i32 as f32 + 1.0) * (1.0 / 2_147_483_648.0)
}

/// The exponential distribution, with the negated mean.
#[derive(Clone, Copy)]
struct Exponential(f32);

impl Sampler<f32> for Exponential {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f32; GROUP]) {
        let Exponential(scale) = self;
        let words = group.words();
        for i in 0..GROUP {
            out[i] = math::log(positive_f32(words[i])) * scale;
        }
    }
}

/// The Bernoulli distribution: probability in units of 2^-32, and the value for success.
#[derive(Clone, Copy)]
struct Bernoulli(u32, f32);

impl Sampler<f32> for Bernoulli {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f32; GROUP]) {
        let Bernoulli(limit, one) = self;
        let words = group.words();
        for i in 0..GROUP {
            out[i] = if words[i] < limit { one } else { 0.0 };
        }
    }
}

/// The normal distribution: mean and standard deviation.
#[derive(Clone, Copy)]
struct Normal<C>(C, C);

impl Sampler<f32> for Normal<f32> {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f32; GROUP]) {
        let Normal(mean, deviation) = self;
        let words = group.words();
        let (first, second) = out.split_at_mut(GROUP / 2);
        for i in 0..GROUP / 2 {
            let radius = (-2.0 * math::log(positive_f32(words[i]))).sqrt() * deviation;
            let (sin, cos) = sin_cos_turns(words[GROUP / 2 + i]);
            first[i] = radius.mul_add(cos, mean);
            second[i] = radius.mul_add(sin, mean);
        }
    }
}

/// Sine and cosine of an angle in units of 2^-32 turns.
#[inline(always)]
fn sin_cos_turns(word: u32) -> (f32, f32) {
    let quarter = word.wrapping_add(1 << 29) >> 30;
    let rest = word.wrapping_sub(quarter << 30) as i32;
    let t = rest as f32 * (std::f32::consts::TAU / 4_294_967_296.0);
    let z = t * t;
    let s = z.mul_add(-1.0 / 5040.0, 1.0 / 120.0).mul_add(z, -1.0 / 6.0).mul_add(z * t, t);
    let c = z.mul_add(1.0 / 40320.0, -1.0 / 720.0).mul_add(z, 1.0 / 24.0).mul_add(z, -0.5).mul_add(z, 1.0);
    let (s, c) = if quarter & 1 == 0 { (s, c) } else { (c, -s) };
    if quarter & 2 == 0 { (s, c) } else { (-s, -c) }
}

impl Sampler<f64> for Normal<f64> {
    #[inline(always)]
    fn fill(self, group: Group, out: &mut [f64; GROUP]) {
        let Normal(mean, deviation) = self;
        let (a, b) = group.word_pairs();
        for i in 0..GROUP / 2 {
            let [u, v] = [i, GROUP / 2 + i].map(|i| draws::unit(join_words(a[i], b[i])));
            let (x, y) = draws::box_muller(u, v);
            out[i] = x.mul_add(deviation, mean);
            out[GROUP / 2 + i] = y.mul_add(deviation, mean);
        }
    }
}
