//! Predicates over all elements of arrays.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::map::Load;
use crate::par::parallel_ranges;
use crate::simd::multiversion::{self, Multiversioned};
use ferromx_core::dtype::Element;

/// Elements per chunk.
const GRAIN: usize = 1 << 15;
/// Elements in a block; before each block, the shared result is checked.
const BLOCK: usize = 1024;

/// Checks that all elements are finite: x * 0 is 0 if x is finite, else NaN.
struct Finite<'a>(&'a [f32]);

impl Multiversioned for Finite<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let mut sums = [0f32; 16];
        let (blocks, rest) = self.0.as_chunks::<16>();
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                *sum += x * 0.0;
            }
        }
        sums.iter().chain(&[rest.iter().map(|x| x * 0.0).sum::<f32>()]).all(|sum| *sum == 0.0)
    }
}

/// True if no element is infinite or NaN. Stops soon after it finds one.
pub fn all_finite<T: Element + Load<f32> + Load<f64>>(x: &[T]) -> bool {
    let finite = AtomicBool::new(true);
    parallel_ranges(x.len(), GRAIN, |range| {
        let mut buffer = [0f32; BLOCK];
        for block in x[range].chunks(BLOCK) {
            if !finite.load(Ordering::Relaxed) {
                return;
            }
            if !block_is_finite(block, &mut buffer) {
                finite.store(false, Ordering::Relaxed);
            }
        }
    });
    finite.into_inner()
}

/// How close elements must be for [`all_close`].
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The tolerance relative to the second array.
    pub relative: f64,
    /// The absolute tolerance.
    pub absolute: f64,
    /// True if NaN equals NaN.
    pub equal_nan: bool,
}

impl Tolerance {
    fn holds(&self, a: f64, b: f64) -> bool {
        a == b
            || a.is_nan() && b.is_nan() && self.equal_nan
            || (a - b).abs() <= self.absolute + self.relative * b.abs() && b.is_finite()
    }
}

/// True if |a - b| <= absolute + relative * |b| for all elements. An infinity is close only to itself. Stops soon after it finds
/// elements that are not close.
///
/// # Panics
/// Panics if the lengths differ.
pub fn all_close<T: Element>(a: &[T], b: &[T], tolerance: &Tolerance) -> bool {
    assert_eq!(a.len(), b.len(), "arrays of the same length");
    let all_are_close = AtomicBool::new(true);
    parallel_ranges(a.len(), GRAIN, |range| {
        let mut pairs = a[range.clone()].iter().zip(&b[range]);
        if all_are_close.load(Ordering::Relaxed) && !pairs.all(|(a, b)| tolerance.holds(a.to_f64(), b.to_f64())) {
            all_are_close.store(false, Ordering::Relaxed);
        }
    });
    all_are_close.into_inner()
}

fn block_is_finite<T: Element + Load<f32> + Load<f64>>(block: &[T], buffer: &mut [f32; BLOCK]) -> bool {
    if let Some(lanes) = <T as Load<f32>>::view(block) {
        return multiversion::run(Finite(lanes));
    }
    // A finite double may be infinite in single precision.
    if let Some(lanes) = <T as Load<f64>>::view(block) {
        return lanes.iter().all(|x| x.is_finite());
    }
    let buffer = &mut buffer[..block.len()];
    T::load(block, buffer);
    multiversion::run(Finite(buffer))
}
