//! Cutting index ranges and mutable slices into chunks for parallel loops.

use super::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// The number of chunks of `grain` items (the last one may be shorter) in `len` items. A grain of zero counts as one.
pub fn chunks(len: usize, grain: usize) -> usize {
    len.div_ceil(grain.max(1))
}

/// The chunks of rows and columns in which `count` grids of `size` are best shared out among `threads`, where a chunk of so many rows
/// and columns takes the time `cost`. Chunks are claimed one by one; all but the last of a row or column have the same size. Of equally
/// good chunks the smallest are taken, so that a thread that is held up keeps less from the others.
pub fn fair_chunks(size: [usize; 2], count: usize, threads: usize, cost: impl Fn(usize, usize) -> f64) -> [usize; 2] {
    let most = CHUNKS_EACH * threads;
    // Whole chunks, and what is left.
    let parts = |d: usize, chunk: usize| (size[d] / chunk, size[d] % chunk);
    let done = |[down, across]: [usize; 2]| {
        let ((rows, low), (cols, narrow)) = (parts(0, down), parts(1, across));
        let time = |down, across| if down * across == 0 { 0.0 } else { cost(down, across) };
        let column = |across| rows as f64 * time(down, across) + time(low, across);
        let all = count as f64 * (cols as f64 * column(across) + column(narrow));
        // Small chunks fill gaps.
        let large = count * (rows + usize::from(2 * low >= down)) * (cols + usize::from(2 * narrow >= across));
        (all / threads as f64).max(large.div_ceil(threads) as f64 * cost(down, across))
    };
    let chunk = |d: usize, n: usize| size[d].div_ceil(n).max(1);
    let pairs = (1..=most).flat_map(|n| (1..=most / (n * count.max(1))).map(move |m| [chunk(0, n), chunk(1, m)]));
    let best = pairs.map(|pair| (done(pair), pair)).min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    best.map_or(size, |best| best.1)
}

/// The most chunks for each thread by [`fair_chunks`].
const CHUNKS_EACH: usize = 3;

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
