//! Sums, means and variances of contiguous elements.

use crate::float::{Accum, FloatElement};
use crate::lane::tree_reduce;
use num_traits::{Float, Zero};

/// Number of independent accumulators.
const LANES: usize = 32;
/// Elements that are added in the accumulation type; blocks are merged in double precision.
const BLOCK: usize = 4096;

/// Count, mean and sum of squared deviations of a set of values.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    pub mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of the union of two sets of values.
    #[inline(always)]
    pub(super) fn merge(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let delta = other.mean - self.mean;
        let weight = other.count / count;
        Moments {
            count,
            mean: self.mean + delta * weight,
            squares: self.squares + other.squares + delta * delta * self.count * weight,
        }
    }

    pub(super) fn new(count: usize, mean: f64, squares: f64) -> Moments {
        Moments { count: count as f64, mean, squares }
    }

    /// The biased variance; zero without values.
    pub(super) fn variance(self) -> f64 {
        self.squares / self.count.max(1.0)
    }

    /// The moments of a slice.
    pub(super) fn of<T: FloatElement>(values: &[T]) -> Moments {
        values.chunks(BLOCK).map(block_moments).fold(Moments::default(), Moments::merge)
    }
}

/// The correction of a mean; zero if it is NaN, which is the case for an infinite mean.
#[inline(always)]
pub(super) fn correction<A: Float>(shift: A) -> A {
    if shift.is_nan() { A::zero() } else { shift }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn block_moments<T: FloatElement>(values: &[T]) -> Moments {
        let count = values.len();
        let mean = sum_by_lanes(values, values, |x, _| x).wide() / count as f64;
        let center = T::Acc::of(mean);
        let [sum, squares] = sum2_by_lanes(values, values, |x, _| (x - center, (x - center) * (x - center)));
        // Corrects for the rounding of the center.
        let shift = correction(sum.wide() / count as f64);
        Moments::new(count, center.wide() + shift, squares.wide() - sum.wide() * shift)
    }
}

/// The sums of `a[i]` and of `a[i] (b[i] - center)`, in double precision.
pub(super) fn sums<T: FloatElement>(a: &[T], b: &[T], center: T::Acc) -> [f64; 2] {
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK));
    blocks
        .map(|(a, b)| centered_products(a, b, center))
        .fold([0.0; 2], |sums, block| [sums[0] + block[0].wide(), sums[1] + block[1].wide()])
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The sums of `a` and of `a (b - center)`.
    fn centered_products<T: FloatElement>(a: &[T], b: &[T], center: T::Acc) -> [T::Acc; 2] {
        sum2_by_lanes(a, b, |a, b| (a, a * (b - center)))
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The sum of `a b`.
    fn block_dot<T: FloatElement>(a: &[T], b: &[T]) -> T::Acc {
        sum_by_lanes(a, b, |a, b| a * b)
    }
}

/// The sum of `a[i] b[i]`.
pub(super) fn dot<T: FloatElement>(a: &[T], b: &[T]) -> f64 {
    a.chunks(BLOCK).zip(b.chunks(BLOCK)).map(|(a, b)| block_dot(a, b).wide()).sum()
}

#[inline(always)]
fn sum_by_lanes<T: FloatElement>(a: &[T], b: &[T], f: impl Fn(T::Acc, T::Acc) -> T::Acc) -> T::Acc {
    let mut sums = [T::Acc::zero(); LANES];
    let full = a.len() / LANES * LANES;
    for (a, b) in a[..full].chunks_exact(LANES).zip(b[..full].chunks_exact(LANES)) {
        for i in 0..LANES {
            sums[i] += f(T::Acc::of(a[i]), T::Acc::of(b[i]));
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a[full..].iter().zip(&b[full..])) {
        *sum += f(T::Acc::of(*a), T::Acc::of(*b));
    }
    tree_reduce(sums, |a, b| a + b)
}

#[inline(always)]
fn sum2_by_lanes<T: FloatElement>(a: &[T], b: &[T], f: impl Fn(T::Acc, T::Acc) -> (T::Acc, T::Acc)) -> [T::Acc; 2] {
    let (mut first, mut second) = ([T::Acc::zero(); LANES], [T::Acc::zero(); LANES]);
    let full = a.len() / LANES * LANES;
    for (a, b) in a[..full].chunks_exact(LANES).zip(b[..full].chunks_exact(LANES)) {
        for i in 0..LANES {
            let (x, y) = f(T::Acc::of(a[i]), T::Acc::of(b[i]));
            first[i] += x;
            second[i] += y;
        }
    }
    for (i, (a, b)) in a[full..].iter().zip(&b[full..]).enumerate() {
        let (x, y) = f(T::Acc::of(*a), T::Acc::of(*b));
        first[i] += x;
        second[i] += y;
    }
    [first, second].map(|sums| tree_reduce(sums, |a, b| a + b))
}
