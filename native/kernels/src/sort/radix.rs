//! Least significant digit radix sort with digits of 11 bits. Long arrays are sorted in chunks, which are then merged.

use super::key::KeyBits;
use crate::par;
use ferromx_core::memory;

/// Number of values of a digit.
const NUM_DIGITS: usize = 1 << 11;
/// Minimum number of items per chunk.
const GRAIN: usize = 1 << 16;
/// Items per chunk of a merge.
const MERGE_GRAIN: usize = 1 << 15;

/// An item to sort: a key, alone or with an index.
trait Keyed: Copy + Default + Send + Sync {
    type Key: KeyBits;
    fn key(&self) -> Self::Key;
}

impl<K: KeyBits> Keyed for (K, u32) {
    type Key = K;
    #[inline(always)]
    fn key(&self) -> K {
        self.0
    }
}

impl<K: KeyBits> Keyed for (K,) {
    type Key = K;
    #[inline(always)]
    fn key(&self) -> K {
        self.0
    }
}

/// The keys in ascending order.
pub(super) fn sort<K: KeyBits>(keys: impl Iterator<Item = K>) -> impl Iterator<Item = K> {
    sorted(memory::collected(keys.map(|k| (k,)))).into_iter().map(|k| k.0)
}

/// The indices of the keys in ascending order; equal keys keep their order.
pub(super) fn argsort<K: KeyBits>(keys: impl Iterator<Item = K>) -> impl Iterator<Item = u32> {
    sorted(memory::collected(keys.zip(0..))).into_iter().map(|k| k.1)
}

fn sorted<I: Keyed>(mut items: Vec<I>) -> Vec<I> {
    let mut other = memory::filled(I::default(), items.len());
    // The result does not depend on the number of chunks, because a stable order is unique.
    let threads = par::num_threads().next_power_of_two().min(16);
    let chunks = threads.min((items.len() / GRAIN).max(1));
    let mut run_len = items.len().div_ceil(chunks).max(1);
    par::parallel_rows2((&mut items, run_len), (&mut other, run_len), 1, |_, a, b| radix_sort(a, b));
    while run_len < items.len() {
        merge_runs(&items, run_len, &mut other);
        std::mem::swap(&mut items, &mut other);
        run_len *= 2;
    }
    items
}

/// Sorts `a`, with `b` as scratch memory.
fn radix_sort<I: Keyed>(a: &mut [I], b: &mut [I]) {
    let passes = I::Key::WIDTH.div_ceil(11) as usize;
    let mut counts = memory::filled([0u32; NUM_DIGITS], passes);
    for item in a.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[item.key().digit(11 * pass as u32)] += 1;
        }
    }
    let (mut from, mut to) = (a, b);
    let mut swapped = false;
    for (pass, counts) in counts.iter_mut().enumerate() {
        if counts.iter().any(|&c| c as usize == from.len()) {
            continue;
        }
        let mut start = 0;
        for c in counts.iter_mut() {
            start += std::mem::replace(c, start);
        }
        for item in from.iter() {
            let next = &mut counts[item.key().digit(11 * pass as u32)];
            to[*next as usize] = *item;
            *next += 1;
        }
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

/// Merges neighboring sorted runs of `run_len` items.
fn merge_runs<I: Keyed>(src: &[I], run_len: usize, dst: &mut [I]) {
    for (src, dst) in src.chunks(2 * run_len).zip(dst.chunks_mut(2 * run_len)) {
        let (left, right) = src.split_at(run_len.min(src.len()));
        par::parallel_rows(dst, MERGE_GRAIN, 1, |i, dst| {
            let (l, r) =
                (num_from_left(left, right, i * MERGE_GRAIN), num_from_left(left, right, i * MERGE_GRAIN + dst.len()));
            merge(&left[l..r], &right[i * MERGE_GRAIN - l..i * MERGE_GRAIN + dst.len() - r], dst);
        });
    }
}

/// The number of items of the left run among the first `k` items of the merged runs (the merge path).
fn num_from_left<I: Keyed>(left: &[I], right: &[I], k: usize) -> usize {
    let (mut low, mut high) = (k.saturating_sub(right.len()), k.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        if left[middle].key() <= right[k - 1 - middle].key() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn merge<I: Keyed>(left: &[I], right: &[I], dst: &mut [I]) {
    let (mut l, mut r) = (0, 0);
    // Branch-free, because the comparisons are unpredictable.
    while l < left.len() && r < right.len() {
        let (a, b) = (left[l], right[r]);
        let from_left = a.key() <= b.key();
        dst[l + r] = std::hint::select_unpredictable(from_left, a, b);
        l += usize::from(from_left);
        r += usize::from(!from_left);
    }
    let rest = &mut dst[l + r..];
    rest.copy_from_slice(if l < left.len() { &left[l..] } else { &right[r..] });
}
