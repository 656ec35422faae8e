//! Joining arrays along an axis by ranges of their entries, and the inverse.

use std::ops::Range;

use super::runs::copy_run;
use super::{GRAIN, Item};
use crate::par;

/// A range of the entries of one array along the joined axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The index of the array.
    pub array: usize,
    /// The indices of the entries.
    pub range: Range<usize>,
}

/// Fills `dst`, (outer, entries, inner), with ranges of entries of several arrays of shape (outer, length, inner). An array is given as
/// its elements and its length.
///
/// # Panics
/// Panics if a range is not within its array, or the ranges do not fill `dst`.
pub fn join_entries<T: Item>(
    arrays: &[(&[T], usize)],
    entries: &[Entries],
    (outer, inner): (usize, usize),
    dst: &mut [T],
) {
    let len = entries.iter().map(|e| e.range.len()).sum::<usize>() * inner;
    assert_eq!(dst.len(), outer * len, "the ranges have {len} elements in each of {outer} arrays");
    par::parallel_rows(dst, len, (GRAIN / len.max(1)).max(1), |o, mut dst| {
        for Entries { array, range } in entries {
            let (from, n) = arrays[*array];
            let (to, rest) = dst.split_at_mut(range.len() * inner);
            copy_run(&from[(o * n + range.start) * inner..(o * n + range.end) * inner], to);
            dst = rest;
        }
    });
}

/// Copies `src`, (outer, entries, inner), back to the entries of the arrays that [`join_entries`] reads.
///
/// # Panics
/// Panics if a range is not within its array, or `src` does not fill the ranges.
pub fn split_entries<T: Item>(
    src: &[T],
    entries: &[Entries],
    (outer, inner): (usize, usize),
    arrays: &mut [(&mut [T], usize)],
) {
    let len = entries.iter().map(|e| e.range.len()).sum::<usize>() * inner;
    assert_eq!(src.len(), outer * len, "the ranges have {len} elements in each of {outer} arrays");
    for (o, mut src) in src.chunks_exact(len.max(1)).enumerate() {
        for Entries { array, range } in entries {
            let (to, n) = &mut arrays[*array];
            let (from, rest) = src.split_at(range.len() * inner);
            to[(o * *n + range.start) * inner..(o * *n + range.end) * inner].copy_from_slice(from);
            src = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_two_arrays_are_joined_and_split() {
        // Shapes (2, 2, 2) and (2, 1, 2).
        let (x, y) = ([0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]);
        let entries = [(0, 0..1), (1, 0..1), (0, 1..2)].map(|(array, range)| Entries { array, range });
        let mut joined = [0; 12];
        join_entries(&[(&x, 2), (&y, 1)], &entries, (2, 2), &mut joined);
        assert_eq!(joined, [0, 1, 8, 9, 2, 3, 4, 5, 10, 11, 6, 7]);
        let (mut x_again, mut y_again) = ([0; 8], [0; 4]);
        split_entries(&joined, &entries, (2, 2), &mut [(&mut x_again, 2), (&mut y_again, 1)]);
        assert_eq!((x_again, y_again), (x, y));
        join_entries::<u8>(&[], &[], (2, 2), &mut []);
        split_entries::<u8>(&[], &[], (2, 2), &mut []);
    }
}
