//! Cutting index ranges and mutable slices into chunks for parallel loops.

use super::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// The number of chunks of `grain` items (the last one may be shorter) in `len` items. A grain of zero counts as one.
pub fn chunks(len: usize, grain: usize) -> usize {
    len.div_ceil(grain.max(1))
}

/// Calls `f` with the consecutive ranges of `grain` items (the last one may be shorter) that make up `0..len`.
///
/// The ranges depend on `len` and `grain` only, not on the number of threads.
pub fn parallel_ranges(len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    parallel_for(chunks(len, grain), |chunk| f(chunk * grain..((chunk + 1) * grain).min(len)));
}

/// A mutable slice that several threads take disjoint parts of.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: sharing a `Parts` lets threads make `&mut T` of distinct elements, which is sending `T` to them.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Parts { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The elements in `range`, cut off at the end of the slice.
    ///
    /// # Safety
    /// No two ranges taken during the life of `self` may overlap.
    #[allow(clippy::mut_from_ref)] // each element is handed out once
    pub(super) unsafe fn take(&self, range: Range<usize>) -> &mut [T] {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        // SAFETY: `start <= end <= len` holds for every range that is not reversed, and a reversed one gives no element;
        // the caller makes sure that no other reference to these elements exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), end.saturating_sub(start)) }
    }
}

/// Calls `f(row, elements)` for every row of `row_len` elements of `data`, `grain` rows to a chunk. An incomplete last
/// row is passed as it is.
pub fn parallel_rows<T: Send>(data: &mut [T], row_len: usize, grain: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let row_len = row_len.max(1);
    let rows = data.len().div_ceil(row_len);
    let parts = Parts::new(data);
    parallel_ranges(rows, grain, |chunk| {
        for row in chunk {
            // SAFETY: each row is visited once, and rows do not overlap.
            f(row, unsafe { parts.take(row * row_len..(row + 1) * row_len) });
        }
    });
}

/// Like [`parallel_rows`] over two slices that have the same number of rows: `f(row, first, second)`. It stops at the
/// end of the one with fewer rows.
pub fn parallel_rows2<T: Send, U: Send>(
    (first, first_len): (&mut [T], usize),
    (second, second_len): (&mut [U], usize),
    grain: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (first_len, second_len) = (first_len.max(1), second_len.max(1));
    let rows = first.len().div_ceil(first_len).min(second.len().div_ceil(second_len));
    let (first, second) = (Parts::new(first), Parts::new(second));
    parallel_ranges(rows, grain, |chunk| {
        for row in chunk {
            // SAFETY: each row is visited once, and rows do not overlap.
            let (a, b) = unsafe {
                (
                    first.take(row * first_len..(row + 1) * first_len),
                    second.take(row * second_len..(row + 1) * second_len),
                )
            };
            f(row, a, b);
        }
    });
}
