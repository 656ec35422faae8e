//! Concatenation of arrays along an axis, and splitting.

use super::runs::{copy_run, interleave};
use super::{GRAIN, Item};
use crate::par;
use crate::simd::multiversion::{self, Multiversioned};

/// Concatenates arrays along an axis. A part is the elements of an array and its row length: the product of the lengths of the
/// concatenated axis and the axes after it. All parts have the same number of rows.
///
/// # Panics
/// Panics if the parts do not all have the same number of rows, or do not fill `dst`.
pub fn concat<T: Item>(parts: &[(&[T], usize)], dst: &mut [T]) {
    let width: usize = parts.iter().map(|p| p.1).sum();
    if width == 0 {
        assert!(dst.is_empty(), "no parts to fill {} elements", dst.len());
        return;
    }
    let rows = dst.len() / width;
    assert_eq!(dst.len(), rows * width, "rows of {width} elements do not fill {}", dst.len());
    for (part, n) in parts {
        assert_eq!(part.len(), rows * n, "a part of {} elements does not have {rows} rows of {n}", part.len());
    }
    let grain = par::grain_for_all_threads(rows, (GRAIN / width).max(1));
    par::parallel_rows(dst, width * grain, 1, |i, dst| {
        multiversion::run(Join { parts, width, first: i * grain, dst });
    });
}

/// Joins the rows of the parts starting at row `first`.
struct Join<'a, T> {
    parts: &'a [(&'a [T], usize)],
    width: usize,
    first: usize,
    dst: &'a mut [T],
}

impl<'a, T> Join<'a, T> {
    /// The parts of this job, each of one column.
    #[inline(always)]
    fn columns<const N: usize>(&self) -> [&'a [T]; N] {
        std::array::from_fn(|i| &self.parts[i].0[self.first..self.first + self.dst.len() / N])
    }
}

impl<T: Item> Multiversioned for Join<'_, T> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        if self.parts.iter().all(|part| part.1 == 1) {
            match self.parts.len() {
                2 => return interleave(self.columns::<2>(), self.dst),
                3 => return interleave(self.columns::<3>(), self.dst),
                4 => return interleave(self.columns::<4>(), self.dst),
                _ => {}
            }
        }
        let Join { parts, width, first, dst } = self;
        for (r, dst) in dst.chunks_exact_mut(width).enumerate() {
            let mut start = 0;
            for (part, n) in parts {
                copy_run(&part[(first + r) * n..], &mut dst[start..start + n]);
                start += n;
            }
        }
    }
}

/// Splits an array along an axis; the parts are described as in [`concat`](fn@concat).
///
/// # Panics
/// Panics if the parts do not all have the same number of rows, or `src` does not fill them.
pub fn split<T: Item>(src: &[T], parts: &mut [(&mut [T], usize)]) {
    let width: usize = parts.iter().map(|p| p.1).sum();
    let rows = src.len().checked_div(width).unwrap_or(0);
    assert_eq!(src.len(), rows * width, "rows of {width} elements do not make up {}", src.len());
    let mut start = 0;
    for (part, n) in parts {
        let n = *n;
        assert_eq!(part.len(), rows * n, "a part of {} elements does not have {rows} rows of {n}", part.len());
        par::parallel_rows(part, n, (GRAIN / n.max(1)).max(1), |r, dst| {
            dst.copy_from_slice(&src[r * width + start..r * width + start + n]);
        });
        start += n;
    }
}
