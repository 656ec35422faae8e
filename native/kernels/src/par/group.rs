//! Parallel loops over several sets of slices at once.

use super::parallel_for;
use super::split::{Parts, chunks};

/// Mutable slices of equal length that are split at the same indices: `N` of one element type, and one of another type, which may
/// instead be empty.
pub struct Group<'a, T, U, const N: usize> {
    main: [Parts<'a, T>; N],
    side: Parts<'a, U>,
    len: usize,
}

impl<'a, T, U, const N: usize> Group<'a, T, U, N> {
    /// A group of slices.
    ///
    /// # Panics
    /// If they differ in length.
    pub fn new(main: [&'a mut [T]; N], side: &'a mut [U]) -> Self {
        let len = main.first().map_or(side.len(), |m| m.len());
        for l in main.iter().map(|m| m.len()) {
            assert_eq!(l, len, "the slices of a group have {l} and {len} elements");
        }
        assert!(side.is_empty() || side.len() == len, "a group has slices of {len} and {} elements", side.len());
        Group { main: main.map(Parts::new), side: Parts::new(side), len }
    }

    /// The number of elements of each slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slices have no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Calls `f(group, start, main, side)` for every chunk of `grain` elements (the last one of a group may be shorter) of every
/// group: with the group's index, the chunk's start in it, and the chunk of each slice.
pub fn parallel_groups<T: Send, U: Send, const N: usize>(
    groups: &mut [Group<'_, T, U, N>],
    grain: usize,
    f: impl Fn(usize, usize, [&mut [T]; N], &mut [U]) + Sync,
) {
    let grain = grain.max(1);
    let groups = &*groups;
    parallel_for(groups.iter().map(|g| chunks(g.len, grain)).sum(), |mut chunk| {
        for (i, group) in groups.iter().enumerate() {
            let own = chunks(group.len, grain);
            if chunk < own {
                let range = chunk * grain..(chunk + 1) * grain;
                // SAFETY: the groups are borrowed mutably, each chunk of a group is visited once, and chunks do not overlap.
                let (main, side) = unsafe {
                    (group.main.each_ref().map(|part| part.take(range.clone())), group.side.take(range.clone()))
                };
                return f(i, range.start, main, side);
            }
            chunk -= own;
        }
    });
}
