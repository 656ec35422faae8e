//! Stable sorting, argsort and top-k along the last axis, on integer keys that have the order of the elements.
//!
//! NaN counts as larger than every number (its order is unspecified in MXNet), and -0 equals 0.
//!
//! - `at_indices`: sorting rows as far as some of their elements require it.
//! - `key`: the keys of each element type.
//! - `radix`: radix sort, for long rows.
//! - `unique`: groups of equal elements or slices.

mod at_indices;
mod key;
mod radix;
#[cfg(test)]
mod tests;
mod unique;

pub use at_indices::sort_at_indices;
pub use key::SortKey;
pub use unique::{Groups, group_equal};

use crate::par;
use ferromx_core::dtype::Element;
use ferromx_core::memory;
use key::KeyBits;

/// Minimum number of elements per chunk of short rows.
const GRAIN: usize = 1 << 13;
/// Rows up to this length are sorted by comparison.
const SHORT_ROW: usize = 256;

/// The order of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first; equal elements keep their original order.
    Descending,
}

/// The key of an element, inverted for descending order, so that the smallest key always comes first.
#[inline(always)]
fn ordered<T: SortKey>(x: T, order: Order) -> T::Key {
    let key = x.key();
    if order == Order::Descending { key.inverted() } else { key }
}

/// Sorts each row of `width` elements. Zeros of different sign may be swapped, and NaNs lose their payload.
///
/// # Panics
/// Panics if the lengths differ or are not multiples of `width`.
pub fn sort<T: SortKey>(src: &[T], width: usize, order: Order, dst: &mut [T]) {
    check(src.len(), width, dst.len(), width);
    if width == 1 {
        return dst.copy_from_slice(src);
    }
    for_each_row(width, dst, width, |r, dst| {
        let src = &src[r * width..(r + 1) * width];
        if width <= SHORT_ROW {
            let pairs = &mut [Default::default(); SHORT_ROW];
            let pairs = sorted_pairs(src, order, pairs);
            dst.iter_mut().zip(pairs).for_each(|(d, pair)| *d = src[T::Key::index(*pair) as usize]);
        } else {
            let value = |k: T::Key| T::from_key(if order == Order::Descending { k.inverted() } else { k });
            let keys = src.iter().map(|x| x.value_key());
            let keys = keys.map(|k| if order == Order::Descending { k.inverted() } else { k });
            dst.iter_mut().zip(radix::sort(keys)).for_each(|(d, k)| *d = value(k));
        }
    });
}

/// The indices that sort each row of `width` elements.
///
/// # Panics
/// Panics if the lengths differ or are not multiples of `width`, or a row has 2^32 elements or more.
pub fn argsort<T: SortKey, I: Element>(src: &[T], width: usize, order: Order, dst: &mut [I]) {
    check(src.len(), width, dst.len(), width);
    if width == 1 {
        return dst.fill(I::from_f64(0.0));
    }
    for_each_row(width, dst, width, |r, dst| {
        let indices = sorted_indices(&src[r * width..(r + 1) * width], order);
        dst.iter_mut().zip(indices).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
    });
}

/// Sorts the (key, index) pairs of a short row in `pairs`. They are distinct, so an unstable sort suffices.
fn sorted_pairs<'s, T: SortKey>(
    row: &[T],
    order: Order,
    pairs: &'s mut [<T::Key as KeyBits>::Packed; SHORT_ROW],
) -> &'s [<T::Key as KeyBits>::Packed] {
    let pairs = &mut pairs[..row.len()];
    pairs.iter_mut().zip(row).zip(0..).for_each(|((pair, &x), index)| *pair = ordered(x, order).packed(index));
    pairs.sort_unstable();
    pairs
}

/// The indices that sort a row.
fn sorted_indices<T: SortKey>(row: &[T], order: Order) -> Vec<u32> {
    if row.len() <= SHORT_ROW {
        let pairs = &mut [Default::default(); SHORT_ROW];
        return memory::collected(sorted_pairs(row, order, pairs).iter().map(|pair| T::Key::index(*pair)));
    }
    memory::collected(radix::argsort(row.iter().map(|&x| ordered(x, order))))
}

/// The indices of the `k` first elements of each row of `width` elements, in sorted order.
///
/// # Panics
/// Panics if `k` exceeds `width` or the lengths do not match.
pub fn topk<T: SortKey, I: Element>(src: &[T], width: usize, k: usize, order: Order, dst: &mut [I]) {
    assert!(k <= width, "{k} elements cannot be selected from a row of {width}");
    check(src.len(), width, dst.len(), k);
    for_each_row(width, dst, k, |r, dst| {
        let row = &src[r * width..(r + 1) * width];
        if k <= MAX_INSERTION_K && width <= CHUNK_LEN {
            let first = topk_by_insertion(row, order, k);
            return dst.iter_mut().zip(first).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
        }
        let first = if k * 8 <= width { topk_indices(row, k, order) } else { sorted_indices(row, order) };
        dst.iter_mut().zip(first).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
    });
}

/// Maximum `k` for which top-k uses insertion into a sorted array.
const MAX_INSERTION_K: usize = 16;

/// The indices of the `k` first elements in order, at most [`MAX_INSERTION_K`].
fn topk_by_insertion<T: SortKey>(row: &[T], order: Order, k: usize) -> [u32; MAX_INSERTION_K] {
    let mut first: [Option<(T::Key, u32)>; MAX_INSERTION_K] = [None; MAX_INSERTION_K];
    let mut bound = None;
    for (c, chunk) in row.chunks(16).enumerate() {
        // An element equal to the k-th one so far comes after it in a stable order.
        let is_before_bound = |x: &T| bound.is_none_or(|b| ordered(*x, order) < b);
        if !chunk.iter().fold(false, |any, x| any | is_before_bound(x)) {
            continue;
        }
        for (i, x) in chunk.iter().enumerate() {
            let key = ordered(*x, order);
            if bound.is_some_and(|b| key >= b) {
                continue;
            }
            let mut slot = k - 1;
            while slot > 0 && first[slot - 1].is_none_or(|f| key < f.0) {
                first[slot] = first[slot - 1];
                slot -= 1;
            }
            first[slot] = Some((key, (c * 16 + i) as u32));
            bound = first[k - 1].map(|f| f.0);
        }
    }
    first.map(|pair| pair.map_or(0, |pair| pair.1))
}

/// Minimum number of elements per chunk of a long row.
const CHUNK_LEN: usize = 1 << 16;

/// The indices of the `k` first elements in order: those of the candidates of each chunk.
fn topk_indices<T: SortKey>(row: &[T], k: usize, order: Order) -> Vec<u32> {
    // The result does not depend on the chunks, because (key, index) pairs are distinct.
    let chunk = row.len().div_ceil(par::num_threads().min(row.len() / CHUNK_LEN).max(1)).max(1);
    let mut chunks: Vec<Vec<Candidate<T>>> = vec![Vec::new(); row.len().div_ceil(chunk)];
    par::parallel_rows(&mut chunks, 1, 1, |i, candidates| {
        candidates[0] = chunk_candidates(&row[i * chunk..row.len().min((i + 1) * chunk)], k, order);
        candidates[0].iter_mut().for_each(|candidate| candidate.1 += (i * chunk) as u32);
    });
    let mut candidates = chunks.concat();
    keep_first(&mut candidates, k);
    candidates.sort_unstable();
    candidates.into_iter().map(|candidate| candidate.1).collect()
}

/// The key and the index of an element.
type Candidate<T> = (<T as SortKey>::Key, u32);

/// The `k` first elements, unordered. An upper bound of the k-th key, which is tightened whenever the buffer is full, rejects most
/// elements with one comparison.
fn chunk_candidates<T: SortKey>(row: &[T], k: usize, order: Order) -> Vec<Candidate<T>> {
    let capacity = (2 * k).max(256);
    let mut candidates: Vec<Candidate<T>> = Vec::with_capacity(capacity + BLOCK);
    let mut read = capacity.min(row.len());
    candidates.extend(row[..read].iter().zip(0..).map(|(x, index)| (ordered(*x, order), index)));
    loop {
        keep_first(&mut candidates, k);
        match candidates.iter().map(|candidate| candidate.0).max() {
            Some(bound) if read < row.len() => {
                read = gather_candidates(row, read, bound, order, capacity, &mut candidates)
            }
            _ => return candidates,
        }
    }
}

/// Keeps the `k` first candidates, unordered.
fn keep_first<H: Ord>(candidates: &mut Vec<H>, k: usize) {
    if candidates.len() > k {
        candidates.select_nth_unstable(k - 1);
        candidates.truncate(k);
    }
}

/// Number of elements compared with a bound at a time.
const BLOCK: usize = 64;

crate::simd::per_isa! {
    /// Adds the elements starting at `start` that come before the bound, until there are `capacity` candidates, and returns the index
    /// at which it stopped. An element equal to the bound comes after the candidates in a stable order.
    fn gather_candidates<T: SortKey>(
        row: &[T],
        start: usize,
        bound: T::Key,
        order: Order,
        capacity: usize,
        candidates: &mut Vec<Candidate<T>>
    ) -> usize {
        let (blocks, rest) = row[start..].as_chunks::<BLOCK>();
        for (i, block) in blocks.iter().enumerate() {
            if any_before(block, bound, order) {
                let first = start + i * BLOCK;
                for (q, quarter) in block.as_chunks::<{ BLOCK / 4 }>().0.iter().enumerate() {
                    if any_before(quarter, bound, order) {
                        gather_block(quarter, first + q * BLOCK / 4, bound, order, candidates);
                    }
                }
                if candidates.len() >= capacity {
                    return first + BLOCK;
                }
            }
        }
        gather_block(rest, row.len() - rest.len(), bound, order, candidates);
        row.len()
    }
}

#[inline(always)]
fn any_before<T: SortKey, const N: usize>(block: &[T; N], bound: T::Key, order: Order) -> bool {
    block.iter().fold(false, |any, x| any | (ordered(*x, order) < bound))
}

#[inline(always)]
fn gather_block<T: SortKey>(
    block: &[T],
    start: usize,
    bound: T::Key,
    order: Order,
    candidates: &mut Vec<Candidate<T>>,
) {
    let pairs = block.iter().zip(start as u32..).map(|(x, index)| (ordered(*x, order), index));
    candidates.extend(pairs.filter(|pair| pair.0 < bound));
}

#[track_caller]
fn check(src: usize, width: usize, dst: usize, k: usize) {
    let rows = src.checked_div(width).unwrap_or(0);
    assert_eq!(src, rows * width, "{src} elements do not form rows of {width}");
    assert!(dst == rows * k || width == 0, "{dst} elements do not hold {rows} rows of {k}");
    assert!(u32::try_from(width).is_ok(), "a row of {width} elements is too long to be sorted");
}

/// Calls `f` for each row of `k` elements of the destination, in parallel. `width` is the length of the source rows.
fn for_each_row<T: Send>(width: usize, dst: &mut [T], k: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if k == 0 {
        return;
    }
    if dst.len() == k {
        // A single row is parallelized within `f`.
        return f(0, dst);
    }
    par::parallel_rows(dst, k, (GRAIN / width.max(1)).max(1), f);
}
