//! Dropout (Srivastava et al., 2014; MXNet's `Dropout`): zeroes random elements and scales the others to keep the expectation.

use crate::float::{Accum, FloatElement};
use crate::map::Store;
use crate::par::parallel_rows;
use crate::rng::Philox;

/// Elements per chunk.
const GRAIN: usize = 1 << 15;

/// Sets each element of `mask` to 0 with probability `p`, otherwise to `1 / (1 - p)`. If `p` is 1 or more, all elements are 0.
pub fn dropout_mask<T: FloatElement + Store<f32>>(generator: &Philox, p: f64, mask: &mut [T]) {
    let keep = 1.0 - p.clamp(0.0, 1.0);
    if keep > 0.0 {
        generator.fill_bernoulli(keep, keep.recip() as f32, mask);
    } else {
        mask.fill(T::default());
    }
}

/// `y = x * mask`, element by element.
///
/// # Panics
/// Panics if the slices differ in length.
pub(crate) fn dropout_apply<T: FloatElement>(x: &[T], mask: &[T], y: &mut [T]) {
    assert_eq!([x.len(), mask.len()], [y.len(); 2], "data, mask and result of dropout");
    parallel_rows(y, GRAIN, 1, |i, y| {
        let start = i * GRAIN;
        apply(&x[start..start + y.len()], &mask[start..start + y.len()], y);
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn apply<T: FloatElement>(x: &[T], mask: &[T], y: &mut [T]) {
        for (y, (x, mask)) in y.iter_mut().zip(x.iter().zip(mask)) {
            *y = (T::Acc::of(*x) * T::Acc::of(*mask)).store();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::set_num_threads;
    use ferromx_core::dtype::f16;

    /// Writes a new mask to `mask` and `x * mask` to `y`.
    fn dropout<T: FloatElement + Store<f32>>(generator: &Philox, p: f64, x: &[T], mask: &mut [T], y: &mut [T]) {
        dropout_mask(generator, p, mask);
        dropout_apply(x, mask, y);
    }

    fn check<T: FloatElement + Store<f32>>(tolerance: f64) {
        let x: Vec<T> = (0..100_000).map(|i| T::from_f64(f64::from(i % 7) + 1.0)).collect();
        let (mut mask, mut y) = (x.clone(), x.clone());
        dropout(&Philox::new(3, 5), 0.25, &x, &mut mask, &mut y);
        let kept = y.iter().filter(|y| y.to_f64() != 0.0).count();
        assert!((kept as f64 / 100_000.0 - 0.75).abs() < 0.01, "{kept}");
        for ((x, y), mask) in x.iter().zip(&y).zip(&mask) {
            let scale = if y.to_f64() == 0.0 { 0.0 } else { 4.0 / 3.0 };
            assert!((mask.to_f64() - scale).abs() < tolerance);
            assert!((y.to_f64() - x.to_f64() * scale).abs() < 8.0 * tolerance);
        }
    }

    #[test]
    fn keeps_and_scales() {
        check::<f32>(1e-6);
        check::<f64>(1e-6);
        check::<f16>(1e-3);
    }

    #[test]
    fn extremes() {
        let (x, mut mask, mut y) = ([5.0f32, -2.0, 1.0], [9.0; 3], [9.0; 3]);
        dropout(&Philox::new(1, 1), 1.0, &x, &mut mask, &mut y);
        assert_eq!((mask, y), ([0.0; 3], [0.0; 3]));
        dropout(&Philox::new(1, 1), 0.0, &[1.0, 2.0, 3.0], &mut mask, &mut y);
        assert_eq!((mask, y), ([1.0; 3], [1.0, 2.0, 3.0]));
    }

    #[test]
    fn threads_do_not_change_bits() {
        let x: Vec<f32> = (0..200_000).map(|i| i as f32).collect();
        let run = |threads| {
            let before = set_num_threads(threads);
            let (mut mask, mut y) = (x.clone(), x.clone());
            dropout(&Philox::new(7, 0), 0.5, &x, &mut mask, &mut y);
            set_num_threads(before);
            (mask, y)
        };
        assert!(run(1) == run(2));
    }
}
