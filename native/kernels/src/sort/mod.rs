//! Stable sorting along the last axis, by radix on keys with the order of the elements.
//!
//! NaN counts as larger than every number (its position is unspecified in MXNet), and -0 equals 0.

mod key;
mod radix;
#[cfg(test)]
mod tests;

pub use key::SortKey;

use crate::par;
use ferromx_core::dtype::Element;
use ferromx_core::memory;
use key::Bits;

/// Minimum number of elements sorted by a parallel chunk of short rows.
const GRAIN: usize = 1 << 13;
/// Rows up to this length are sorted by comparison.
const SHORT: usize = 256;

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

/// Sorts each row of `width` elements. Equal zeros may be swapped, NaNs lose their payload.
///
/// # Panics
/// If the lengths differ or are not multiples of `width`.
pub fn sort<T: SortKey>(src: &[T], width: usize, order: Order, dst: &mut [T]) {
    check(src.len(), width, dst.len(), width);
    if width == 1 {
        return dst.copy_from_slice(src);
    }
    each_row(width, dst, width, |r, dst| {
        let src = &src[r * width..(r + 1) * width];
        if width <= SHORT {
            let pairs = &mut [Default::default(); SHORT];
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

/// The indices, within each row of `width` elements, that sort the row.
///
/// # Panics
/// If the lengths differ or are not multiples of `width`, or a row has 2^32 elements or more.
pub fn argsort<T: SortKey, I: Element>(src: &[T], width: usize, order: Order, dst: &mut [I]) {
    check(src.len(), width, dst.len(), width);
    if width == 1 {
        return dst.fill(I::from_f64(0.0));
    }
    each_row(width, dst, width, |r, dst| {
        let indices = sorted_indices(&src[r * width..(r + 1) * width], order);
        dst.iter_mut().zip(indices).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
    });
}

/// The keys of a row with their indices, which make them distinct, sorted in `pairs`.
fn sorted_pairs<'s, T: SortKey>(
    row: &[T],
    order: Order,
    pairs: &'s mut [<T::Key as Bits>::Packed; SHORT],
) -> &'s [<T::Key as Bits>::Packed] {
    let pairs = &mut pairs[..row.len()];
    pairs.iter_mut().zip(row).zip(0..).for_each(|((pair, &x), index)| *pair = ordered(x, order).packed(index));
    pairs.sort_unstable();
    pairs
}

/// The indices that sort a row.
fn sorted_indices<T: SortKey>(row: &[T], order: Order) -> Vec<u32> {
    if row.len() <= SHORT {
        let pairs = &mut [Default::default(); SHORT];
        return memory::collected(sorted_pairs(row, order, pairs).iter().map(|pair| T::Key::index(*pair)));
    }
    memory::collected(radix::argsort(row.iter().map(|&x| ordered(x, order))))
}

/// The indices, within each row of `width` elements, of its `k` first elements in sorted order.
///
/// # Panics
/// If `k` exceeds `width` or the lengths do not match.
pub fn topk<T: SortKey, I: Element>(src: &[T], width: usize, k: usize, order: Order, dst: &mut [I]) {
    assert!(k <= width, "there are no {k} elements in a row of {width}");
    check(src.len(), width, dst.len(), k);
    each_row(width, dst, k, |r, dst| {
        let row = &src[r * width..(r + 1) * width];
        if k <= FEW && width <= PART {
            let first = few_smallest(row, order, k);
            return dst.iter_mut().zip(first).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
        }
        let first = if k * 8 <= width { smallest(row, k, order) } else { sorted_indices(row, order) };
        dst.iter_mut().zip(first).for_each(|(d, p)| *d = I::from_f64(f64::from(p)));
    });
}

/// Maximum `k` for which the first elements of a short row are kept in order while it is read.
const FEW: usize = 16;

/// The indices of the `k` first elements in order, up to [`FEW`].
fn few_smallest<T: SortKey>(row: &[T], order: Order, k: usize) -> [u32; FEW] {
    let mut first: [Option<(T::Key, u32)>; FEW] = [None; FEW];
    let mut bound = None;
    for (c, chunk) in row.chunks(16).enumerate() {
        // An element equal to the bound comes after those found, so it is not among the first.
        let near = |x: &T| bound.is_none_or(|b| ordered(*x, order) < b);
        if !chunk.iter().fold(false, |any, x| any | near(x)) {
            continue;
        }
        for (i, x) in chunk.iter().enumerate() {
            let key = ordered(*x, order);
            if bound.is_some_and(|b| key >= b) {
                continue;
            }
            let mut at = k - 1;
            while at > 0 && first[at - 1].is_none_or(|f| key < f.0) {
                first[at] = first[at - 1];
                at -= 1;
            }
            first[at] = Some((key, (c * 16 + i) as u32));
            bound = first[k - 1].map(|f| f.0);
        }
    }
    first.map(|hit| hit.map_or(0, |hit| hit.1))
}

/// Minimum number of elements in a thread's part of a row.
const PART: usize = 1 << 16;

/// The indices of the `k` first elements in order.
fn smallest<T: SortKey>(row: &[T], k: usize, order: Order) -> Vec<u32> {
    // The result does not depend on the parts: (key, index) pairs are distinct.
    let part = row.len().div_ceil(par::num_threads().min(row.len() / PART).max(1)).max(1);
    let mut parts: Vec<Vec<Hit<T>>> = vec![Vec::new(); row.len().div_ceil(part)];
    par::parallel_rows(&mut parts, 1, 1, |i, found| {
        found[0] = smallest_of_part(&row[i * part..row.len().min((i + 1) * part)], k, order);
        found[0].iter_mut().for_each(|hit| hit.1 += (i * part) as u32);
    });
    let mut found = parts.concat();
    keep_first(&mut found, k);
    found.sort_unstable();
    found.into_iter().map(|hit| hit.1).collect()
}

/// The key and the index of an element.
type Hit<T> = (<T as SortKey>::Key, u32);

/// The `k` first elements, unordered. A bound on the k-th key, tightened from time to time, rejects most elements with one
/// comparison.
fn smallest_of_part<T: SortKey>(row: &[T], k: usize, order: Order) -> Vec<Hit<T>> {
    let room = (2 * k).max(256);
    let mut found: Vec<Hit<T>> = Vec::with_capacity(room + BLOCK);
    let mut read = room.min(row.len());
    found.extend(row[..read].iter().zip(0..).map(|(x, index)| (ordered(*x, order), index)));
    loop {
        keep_first(&mut found, k);
        match found.iter().map(|hit| hit.0).max() {
            Some(bound) if read < row.len() => read = gather(row, read, bound, order, room, &mut found),
            _ => return found,
        }
    }
}

/// Keeps the `k` first ones, unordered.
fn keep_first<H: Ord>(found: &mut Vec<H>, k: usize) {
    if found.len() > k {
        found.select_nth_unstable(k - 1);
        found.truncate(k);
    }
}

/// Number of elements compared with a bound at a time.
const BLOCK: usize = 64;

crate::simd::per_isa! {
    /// Adds the elements from `start` on that come before the bound, until there are `room` in all, and returns where it stopped.
    /// An element equal to the bound comes after those found, so it is not among the first.
    fn gather<T: SortKey>(
        row: &[T],
        start: usize,
        bound: T::Key,
        order: Order,
        room: usize,
        found: &mut Vec<Hit<T>>
    ) -> usize {
        let (blocks, rest) = row[start..].as_chunks::<BLOCK>();
        for (i, block) in blocks.iter().enumerate() {
            if any_before(block, bound, order) {
                let at = start + i * BLOCK;
                for (parts, part) in block.as_chunks::<{ BLOCK / 4 }>().0.iter().enumerate() {
                    if any_before(part, bound, order) {
                        gather_each(part, at + parts * BLOCK / 4, bound, order, found);
                    }
                }
                if found.len() >= room {
                    return at + BLOCK;
                }
            }
        }
        gather_each(rest, row.len() - rest.len(), bound, order, found);
        row.len()
    }
}

#[inline(always)]
fn any_before<T: SortKey, const N: usize>(block: &[T; N], bound: T::Key, order: Order) -> bool {
    block.iter().fold(false, |any, x| any | (ordered(*x, order) < bound))
}

#[inline(always)]
fn gather_each<T: SortKey>(part: &[T], at: usize, bound: T::Key, order: Order, found: &mut Vec<Hit<T>>) {
    let hits = part.iter().zip(at as u32..).map(|(x, index)| (ordered(*x, order), index));
    found.extend(hits.filter(|hit| hit.0 < bound));
}

#[track_caller]
fn check(src: usize, width: usize, dst: usize, k: usize) {
    let rows = src.checked_div(width).unwrap_or(0);
    assert_eq!(src, rows * width, "{src} elements are no rows of {width}");
    assert!(dst == rows * k || width == 0, "{dst} elements do not hold {rows} rows of {k}");
    assert!(u32::try_from(width).is_ok(), "a row of {width} elements is too long to be sorted");
}

/// Calls `f` for each row of the destination, `k` elements for `width` of the source.
fn each_row<T: Send>(width: usize, dst: &mut [T], k: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if k == 0 {
        return;
    }
    if dst.len() == k {
        // A single long row is sorted in parallel.
        return f(0, dst);
    }
    par::parallel_rows(dst, k, (GRAIN / width.max(1)).max(1), f);
}
