//! Entropy calibration: the choice of the quantization range that loses the least information.

use crate::math;
use crate::par::{parallel_rows, with_scratch};
use crate::simd::per_isa;

/// The count given to an empty bin, so that its logarithm is finite.
const EMPTY_COUNT: f64 = 1e-4;

/// The upper end of the best range, and its Kullback-Leibler divergence. Among all ranges around the middle bin with at least
/// `quantized_bins` bins, the best one minimizes the divergence between the clipped distribution and its quantization to
/// `quantized_bins` bins (Migacz, 8-bit inference with TensorRT, 2017). `hist` holds the counts, `edges` the bounds of the bins.
///
/// # Panics
/// Panics unless there is one more edge than there are bins, and at least `quantized_bins` bins.
pub fn best_threshold(hist: &[f32], edges: &[f32], quantized_bins: usize) -> (f32, f32) {
    let n = hist.len();
    assert_eq!(edges.len(), n + 1, "edges of {n} bins");
    assert!((1..=n).contains(&quantized_bins), "{quantized_bins} of {n} bins");
    let (middle, min_half) = (n / 2, quantized_bins / 2);
    let mut divergences = vec![f64::INFINITY; middle + 1 - min_half];
    parallel_rows(&mut divergences, 1, 16, |k, divergence| {
        let (start, end) = range(n, middle, min_half + k);
        divergence[0] = divergence_of(hist, start, end, quantized_bins);
    });
    let best = (0..divergences.len()).fold(0, |best, k| if divergences[k] < divergences[best] { k } else { best });
    let (_, end) = range(n, middle, min_half + best);
    (edges[end], divergences[best] as f32)
}

/// The bins of the range that extends `half` bins from the middle one.
fn range(n: usize, middle: usize, half: usize) -> (usize, usize) {
    (middle - half, (middle + half + 1).min(n))
}

/// The divergence between the clipped distribution, whose outermost bins include the counts outside the range, and the quantized one.
fn divergence_of(hist: &[f32], start: usize, end: usize, quantized_bins: usize) -> f64 {
    let len = end - start;
    with_scratch(2 * len, |buffer: &mut [f64]| {
        let (p, q) = buffer.split_at_mut(len);
        p.iter_mut().zip(&hist[start..end]).for_each(|(p, count)| *p = f64::from(*count));
        let outside = |bins: &[f32]| bins.iter().map(|count| f64::from(*count)).sum::<f64>();
        // The quantized distribution excludes the clipped counts and the first bin.
        q.copy_from_slice(p);
        q[0] = 0.0;
        p[0] += outside(&hist[..start]);
        p[len - 1] += outside(&hist[end..]);
        let width = len / quantized_bins;
        let (whole, rest) = ((quantized_bins - 1) * width, len - (quantized_bins - 1) * width);
        quantize(&p[..whole], width, &mut q[..whole]);
        quantize(&p[whole..], rest, &mut q[whole..]);
        if smooth_empty_bins(p) && smooth_empty_bins(q) { divergence(p, q) } else { f64::INFINITY }
    })
}

/// Smooths a distribution: moves a small count from the other bins to the empty ones. Returns false if the others have too little.
fn smooth_empty_bins(x: &mut [f64]) -> bool {
    let empty = x.iter().filter(|x| **x == 0.0).count();
    let less = EMPTY_COUNT * empty as f64 / (x.len() - empty) as f64;
    x.iter_mut().for_each(|x| *x += if *x == 0.0 { EMPTY_COUNT } else { -less });
    less < 1.0
}

per_isa! {
    /// Distributes the counts in `q` of each quantized bin, which is `width` bins wide, evenly over its bins that are not empty
    /// in `p`.
    fn quantize(p: &[f64], width: usize, q: &mut [f64]) {
        for (p, q) in p.chunks(width).zip(q.chunks_mut(width)) {
            let (mut sum, mut filled) = (0.0, 0.0);
            for count in &*q {
                sum += count;
                filled += if *count == 0.0 { 0.0 } else { 1.0 };
            }
            let mean = if filled > 0.0 { sum / filled } else { 0.0 };
            for (q, p) in q.iter_mut().zip(p) {
                *q = if *p == 0.0 { 0.0 } else { mean };
            }
        }
    }
}

/// Number of independent accumulators of a sum.
const LANES: usize = 16;

per_isa! {
    /// The Kullback-Leibler divergence of two histograms.
    fn divergence(p: &[f64], q: &[f64]) -> f64 {
        let total = p.iter().sum::<f64>();
        let ratio = q.iter().sum::<f64>() / total;
        let mut sums = [0.0; LANES];
        let ((blocks, rest), (q_blocks, q_rest)) = (p.as_chunks::<LANES>(), q.as_chunks::<LANES>());
        for (p, q) in blocks.iter().zip(q_blocks) {
            for i in 0..LANES {
                sums[i] += p[i] * math::log(p[i] / q[i] * ratio);
            }
        }
        for (sum, (p, q)) in sums.iter_mut().zip(rest.iter().zip(q_rest)) {
            *sum += p * math::log(p / q * ratio);
        }
        sums.iter().sum::<f64>() / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_clipped() {
        let mut hist = vec![0f32; 101];
        for (i, count) in hist.iter_mut().enumerate() {
            *count = (1e4 * (-((i as f32 - 50.0) / 8.0).powi(2)).exp()).floor();
        }
        hist[100] = 1.0;
        let edges: Vec<f32> = (0..=101).map(|i| i as f32 - 50.5).collect();
        let (threshold, divergence) = best_threshold(&hist, &edges, 31);
        assert!((15.0..40.0).contains(&threshold), "{threshold}");
        assert!((0.0..0.05).contains(&divergence), "{divergence}");
    }

    #[test]
    fn a_single_candidate_range() {
        let (threshold, divergence) = best_threshold(&[0.0; 5], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 5);
        assert_eq!((threshold, divergence), (5.0, f32::INFINITY));
    }
}
