//! Histograms with given bin edges.

use std::sync::Mutex;

use crate::map::Load;
use crate::par::parallel_ranges;

/// Elements per chunk.
const GRAIN: usize = 1 << 16;

/// Adds to `counts[i]` the number of elements with `edges[i] <= x < edges[i + 1]`; the last bin includes its upper edge. Elements
/// outside all bins, and NaN, are not counted.
///
/// With `range`, the bins divide that range evenly; their edges may be rounded to the type of the elements. As in MXNet, an element
/// then belongs to the bin computed from the range, or to the adjacent bin if a rounded edge lies in between.
///
/// # Panics
/// Panics unless there is one more edge than there are counts.
pub fn histogram<T: Load<f64>>(x: &[T], edges: &[f64], range: Option<(f64, f64)>, counts: &mut [i64]) {
    assert_eq!(edges.len(), counts.len() + 1, "{} edges of {} ranges", edges.len(), counts.len());
    let [first, .., last] = *edges else { return };
    let increasing = edges.is_sorted();
    let num_bins = counts.len();
    let find_equal = |x: f64, bin: f64| -> Option<usize> {
        if bin.is_nan() {
            return None;
        }
        let bin = (bin as usize).min(num_bins - 1);
        let bin = if x < edges[bin] { bin.checked_sub(1)? } else { bin };
        Some(if x >= edges[bin + 1] { (bin + 1).min(num_bins - 1) } else { bin })
    };
    let find = |x: f64| -> Option<usize> {
        if !(first..=last).contains(&x) {
            return None;
        }
        // The first edge above x, even if the edges are not increasing.
        let above = if increasing {
            edges.partition_point(|e| *e <= x)
        } else {
            edges.iter().position(|e| *e > x).unwrap_or(edges.len())
        };
        Some(above.saturating_sub(1).min(edges.len() - 2))
    };
    let (total, equal_bins) = (Mutex::new(counts), range);
    parallel_ranges(x.len(), GRAIN, |range| {
        let mut chunk_counts = vec![0i64; edges.len() - 1];
        let (mut lanes, mut bins) = ([0.0; BLOCK], [0.0; BLOCK]);
        for x in x[range].chunks(BLOCK) {
            let (lanes, bins) = (&mut lanes[..x.len()], &mut bins[..x.len()]);
            T::load(x, lanes);
            if let Some(range) = equal_bins {
                bins_of(lanes, range, num_bins as f64, bins);
                for (x, bin) in lanes.iter().zip(bins) {
                    if let Some(i) = find_equal(*x, *bin) {
                        chunk_counts[i] += 1;
                    }
                }
            } else {
                lanes.iter().filter_map(|x| find(*x)).for_each(|i| chunk_counts[i] += 1);
            }
        }
        let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        total.iter_mut().zip(chunk_counts).for_each(|(t, n)| *t += n);
    });
}

/// Elements whose bins are computed together.
const BLOCK: usize = 512;

crate::simd::per_isa! {
    /// The fractional bin index of each element, for `num_bins` equal bins of the range; NaN for elements outside.
    fn bins_of(xs: &[f64], range: (f64, f64), num_bins: f64, bins: &mut [f64]) {
        let (low, high) = range;
        for (bin, x) in bins.iter_mut().zip(xs) {
            let inside = (*x >= low) & (*x <= high);
            let fraction = (*x - low) * num_bins / (high - low);
            // `max` turns the NaN of an empty range, 0 / 0, into 0.
            *bin = if inside { fraction.max(0.0) } else { f64::NAN };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_counted_where_it_belongs() {
        let x: Vec<f32> = (0..200_000).map(|i| (i % 1000) as f32 / 100.0 - 1.0).collect();
        let edges: Vec<f64> = (0..=7).map(|i| i as f64 * 8.0 / 7.0).collect();
        let (mut fast, mut slow) = (vec![0; 7], vec![0; 7]);
        histogram(&x, &edges, Some((0.0, 8.0)), &mut fast);
        histogram(&x, &edges, None, &mut slow);
        let mut want = vec![0; 7];
        for x in x.iter().map(|x| f64::from(*x)) {
            if let Some(i) = (0..7).find(|i| edges[*i] <= x && (x < edges[i + 1] || *i == 6 && x == edges[7])) {
                want[i] += 1;
            }
        }
        assert_eq!((&fast, &slow), (&want, &want));
    }

    #[test]
    fn outliers_and_nan_are_not_counted() {
        let mut counts = [0; 2];
        histogram(&[f64::NAN, -1.0, 0.0, 1.0, 2.0, 2.5], &[0.0, 1.0, 2.0], None, &mut counts);
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn integers_belong_to_bins_with_integer_edges() {
        let x: Vec<i32> = (0..26).collect();
        let mut counts = [0; 4];
        histogram(&x, &[3.0, 7.0, 11.0, 15.0, 20.0], Some((3.0, 20.0)), &mut counts);
        assert_eq!(counts, [4, 4, 4, 6]);
    }
}
