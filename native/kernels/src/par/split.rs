//! Splitting index ranges and mutable slices into chunks for parallel loops.

use super::{num_threads, parallel_for};
use std::marker::PhantomData;
use std::ops::Range;

/// The number of chunks of `grain` items (the last one may be shorter) in `len` items. A grain of zero counts as one.
pub(super) fn num_chunks(len: usize, grain: usize) -> usize {
    len.div_ceil(grain.max(1))
}

/// The chunk size, in rows and columns, that splits `count` grids of `size` among `threads` in the least time, where `cost(rows, cols)`
/// is the time of a chunk. All chunks of a grid but the last in each direction have this size. Among equally good sizes the smallest
/// is chosen, so that a delayed thread holds up the others less.
pub(crate) fn balanced_chunks(
    size: [usize; 2],
    count: usize,
    threads: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> [usize; 2] {
    let max_chunks = CHUNKS_PER_THREAD * threads;
    // Number of full chunks, and size of the remainder.
    let split = |d: usize, chunk: usize| (size[d] / chunk, size[d] % chunk);
    let total_time = |[chunk_rows, chunk_cols]: [usize; 2]| {
        let ((rows, last_row), (cols, last_col)) = (split(0, chunk_rows), split(1, chunk_cols));
        let time =
            |chunk_rows, chunk_cols| if chunk_rows * chunk_cols == 0 { 0.0 } else { cost(chunk_rows, chunk_cols) };
        let column = |chunk_cols| rows as f64 * time(chunk_rows, chunk_cols) + time(last_row, chunk_cols);
        let all = count as f64 * (cols as f64 * column(chunk_cols) + column(last_col));
        // Chunks of less than half the size fill the gaps between the others.
        let large =
            count * (rows + usize::from(2 * last_row >= chunk_rows)) * (cols + usize::from(2 * last_col >= chunk_cols));
        (all / threads as f64).max(large.div_ceil(threads) as f64 * cost(chunk_rows, chunk_cols))
    };
    // The different sizes of chunks that divide axis `d` into at most `max` chunks.
    let sizes = |d: usize, max: usize| {
        let mut last = 0;
        let chunks = (1..=max.min(size[d].max(1))).map(move |n| (n, size[d].div_ceil(n).max(1)));
        chunks.filter(move |(_, chunk)| std::mem::replace(&mut last, *chunk) != *chunk)
    };
    let pairs = sizes(0, max_chunks)
        .flat_map(|(n, rows)| sizes(1, max_chunks / (n * count.max(1))).map(move |(_, cols)| [rows, cols]));
    let best = pairs.map(|pair| (total_time(pair), pair)).min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    best.map_or(size, |best| best.1)
}

/// Maximum number of chunks per thread in [`balanced_chunks`].
const CHUNKS_PER_THREAD: usize = 3;

/// Calls `f` with the consecutive ranges of `grain` items (the last one may be shorter) that make up `0..len`.
///
/// The ranges depend on `len` and `grain` only, not on the number of threads.
#[inline]
pub(crate) fn parallel_ranges(len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    run_ranges(len, grain, &f);
}

/// [`parallel_ranges`] without its type parameter, so that it is compiled once.
fn run_ranges(len: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = grain.max(1);
    parallel_for(num_chunks(len, grain), |chunk| f(chunk * grain..((chunk + 1) * grain).min(len)));
}

/// A mutable slice from which threads take disjoint ranges.
pub(super) struct SharedSlice<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: sharing a `SharedSlice` gives threads `&mut T` to distinct elements, which amounts to sending `T`.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        SharedSlice { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The elements in `range`, clipped to the slice.
    ///
    /// # Safety
    /// No two ranges taken during the life of `self` may overlap.
    #[allow(clippy::mut_from_ref)] // each element is handed out once
    pub(super) unsafe fn take(&self, range: Range<usize>) -> &mut [T] {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        // SAFETY: `start <= end <= len` holds for every range that is not reversed, and a reversed one gives no element; the
        // caller guarantees that no other reference to these elements exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), end.saturating_sub(start)) }
    }
}

/// A smaller grain, at least a quarter of `grain`, if `len` items in chunks of `grain` items do not occupy all threads; otherwise `grain`.
/// For loops whose results do not depend on the chunks.
pub(crate) fn grain_for_all_threads(len: usize, grain: usize) -> usize {
    grain_for_threads(len, grain, num_threads())
}

/// [`grain_for_all_threads`] for a number of threads.
pub(super) fn grain_for_threads(len: usize, grain: usize, threads: usize) -> usize {
    if len <= grain { grain } else { len.div_ceil(threads).clamp(grain.div_ceil(4).max(1), grain.max(1)) }
}

/// Calls `f(row, elements)` for every row of `row_len` elements of `data`, at most `grain` rows per chunk. The last row may be
/// incomplete.
pub(crate) fn parallel_rows<T: Send>(data: &mut [T], row_len: usize, grain: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let row_len = row_len.max(1);
    let rows = data.len().div_ceil(row_len);
    let slice = SharedSlice::new(data);
    parallel_ranges(rows, grain_for_all_threads(rows, grain), |chunk| {
        for row in chunk {
            // SAFETY: each row is visited once, and rows do not overlap.
            f(row, unsafe { slice.take(row * row_len..(row + 1) * row_len) });
        }
    });
}

/// Like [`parallel_rows`], over two slices with the same number of rows: `f(row, first, second)`. Stops at the end of the slice
/// with fewer rows.
pub(crate) fn parallel_rows2<T: Send, U: Send>(
    (first, first_len): (&mut [T], usize),
    (second, second_len): (&mut [U], usize),
    grain: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (first_len, second_len) = (first_len.max(1), second_len.max(1));
    let rows = first.len().div_ceil(first_len).min(second.len().div_ceil(second_len));
    let (first, second) = (SharedSlice::new(first), SharedSlice::new(second));
    parallel_ranges(rows, grain_for_all_threads(rows, grain), |chunk| {
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

/// Copies `from` to `to`, on several threads if it is large.
///
/// # Panics
/// Panics if the lengths differ.
pub fn parallel_copy<T: Copy + Send + Sync>(from: &[T], to: &mut [T]) {
    /// Bytes in a chunk.
    const CHUNK_BYTES: usize = 256 << 10;
    assert_eq!(from.len(), to.len(), "a copy has as many elements as the original");
    let len = (CHUNK_BYTES / size_of::<T>().max(1)).max(1);
    parallel_rows(to, len, 1, |i, to| to.copy_from_slice(&from[i * len..][..to.len()]));
}
