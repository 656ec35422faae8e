//! Parallel loops over several slices at once.

use super::parallel_for;
use super::split::{SharedSlice, num_chunks};

/// Mutable slices of equal length that are split at the same indices: `N` of one element type, and one of another type, which may
/// be empty. For example, weights in `f32` and their 16-bit copy.
pub struct Group<'a, T, U, const N: usize> {
    main: [SharedSlice<'a, T>; N],
    side: SharedSlice<'a, U>,
    len: usize,
}

impl<'a, T, U, const N: usize> Group<'a, T, U, N> {
    /// A group of slices.
    ///
    /// # Panics
    /// Panics if they differ in length.
    pub fn new(main: [&'a mut [T]; N], side: &'a mut [U]) -> Self {
        let len = main.first().map_or(side.len(), |m| m.len());
        for l in main.iter().map(|m| m.len()) {
            assert_eq!(l, len, "the slices of a group have {l} and {len} elements");
        }
        assert!(side.is_empty() || side.len() == len, "a group has slices of {len} and {} elements", side.len());
        Group { main: main.map(SharedSlice::new), side: SharedSlice::new(side), len }
    }

    /// The number of elements of each slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the slices have no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Calls `f(group, start, main, side)` for every chunk of `grain` elements (the last one of a group may be shorter) of every
/// group, with the index of the group, the offset of the chunk in it, and the elements of the chunk in each slice.
pub(crate) fn parallel_groups<T: Send, U: Send, const N: usize>(
    groups: &mut [Group<'_, T, U, N>],
    grain: usize,
    f: impl Fn(usize, usize, [&mut [T]; N], &mut [U]) + Sync,
) {
    let grain = grain.max(1);
    let groups = &*groups;
    parallel_for(groups.iter().map(|g| num_chunks(g.len, grain)).sum(), |mut chunk| {
        for (i, group) in groups.iter().enumerate() {
            let len = num_chunks(group.len, grain);
            if chunk < len {
                let range = chunk * grain..(chunk + 1) * grain;
                // SAFETY: the groups are borrowed mutably, each chunk of a group is visited once, and chunks do not overlap.
                let (main, side) = unsafe {
                    (group.main.each_ref().map(|slice| slice.take(range.clone())), group.side.take(range.clone()))
                };
                return f(i, range.start, main, side);
            }
            chunk -= len;
        }
    });
}
