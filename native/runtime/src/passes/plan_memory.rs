//! Memory planning: assigns offsets in an arena so that buffers with disjoint lifetimes may share memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use ferromx_core::storage::ALIGN;

/// A buffer in an arena, used by one entry, or by several that overwrite each other in place.
#[derive(Clone, Debug)]
pub(crate) struct PlannedBuffer {
    /// Size in bytes.
    pub bytes: usize,
    /// The step that writes it first.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
}

/// Number of buffers up to which [`greedy_by_size`] is used. Its time is quadratic.
const MAX_GREEDY: usize = 1 << 13;

/// Returns the offset of each buffer and the size of the arena. Buffers that are live at the same step do not overlap.
pub(crate) fn assign_offsets(buffers: &[PlannedBuffer]) -> (Vec<usize>, usize) {
    if buffers.len() <= MAX_GREEDY { greedy_by_size(buffers) } else { best_fit(buffers) }
}

/// Greedy by size: the largest buffer first, each at the lowest offset that is free for its whole lifetime. This comes close to the lower
/// bound for the graphs of neural networks (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
fn greedy_by_size(buffers: &[PlannedBuffer]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|i| (Reverse(buffers[*i].bytes), buffers[*i].first));
    let mut offsets = vec![0; buffers.len()];
    // Assigned buffers, by offset.
    let mut assigned: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let b = &buffers[i];
        let size = b.bytes.next_multiple_of(ALIGN);
        let mut offset = 0;
        for &j in &assigned {
            let other = &buffers[j];
            if other.first > b.last || b.first > other.last {
                continue;
            }
            if offsets[j] >= offset + size {
                break;
            }
            offset = offset.max(offsets[j] + other.bytes.next_multiple_of(ALIGN));
        }
        offsets[i] = offset;
        total = total.max(offset + size);
        let index = assigned.partition_point(|j| offsets[*j] <= offset);
        assigned.insert(index, i);
    }
    (offsets, total)
}

/// In order of time, each buffer in the smallest free range that holds it.
fn best_fit(buffers: &[PlannedBuffer]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|i| buffers[*i].first);
    let mut offsets = vec![0; buffers.len()];
    // Last step and index of each live buffer, the earliest step first.
    let mut live: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    let (mut free, mut total) = (FreeRanges::default(), 0);
    for i in order {
        let b = &buffers[i];
        let size = b.bytes.next_multiple_of(ALIGN);
        while let Some(Reverse((last, ended))) = live.peek().copied()
            && last < b.first
        {
            live.pop();
            free.insert(offsets[ended], buffers[ended].bytes.next_multiple_of(ALIGN));
        }
        offsets[i] = free.take(size).unwrap_or_else(|| {
            let start = free.take_end(total).unwrap_or(total);
            total = start + size;
            start
        });
        live.push(Reverse((b.last, i)));
    }
    (offsets, total)
}

/// Free ranges of an arena, of which no two are adjacent.
#[derive(Default)]
struct FreeRanges {
    /// Size of each range by its offset.
    by_offset: BTreeMap<usize, usize>,
    /// Size and offset of each range.
    by_size: BTreeSet<(usize, usize)>,
}

impl FreeRanges {
    fn add(&mut self, offset: usize, size: usize) {
        if size > 0 {
            self.by_offset.insert(offset, size);
            self.by_size.insert((size, offset));
        }
    }

    fn remove(&mut self, offset: usize, size: usize) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }

    /// Frees a range and joins it with its neighbors.
    fn insert(&mut self, mut offset: usize, mut size: usize) {
        let before = self.by_offset.range(..offset).next_back().map(|(o, s)| (*o, *s));
        if let Some((o, s)) = before.filter(|(o, s)| o + s == offset) {
            self.remove(o, s);
            (offset, size) = (o, s + size);
        }
        if let Some(next) = self.by_offset.get(&(offset + size)).copied() {
            self.remove(offset + size, next);
            size += next;
        }
        self.add(offset, size);
    }

    /// The offset of `size` bytes, taken from the smallest range that holds them.
    fn take(&mut self, size: usize) -> Option<usize> {
        let (found, offset) = self.by_size.range((size, 0)..).next().copied()?;
        self.remove(offset, found);
        self.add(offset + size, found - size);
        Some(offset)
    }

    /// Takes the range that ends at `end`, and returns its offset.
    fn take_end(&mut self, end: usize) -> Option<usize> {
        let (offset, size) = self.by_offset.last_key_value().map(|(o, s)| (*o, *s)).filter(|(o, s)| o + s == end)?;
        self.remove(offset, size);
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_buffers_take_little_time() {
        // Activations that a backward pass reads, in reverse order, and its gradients, which live for two steps.
        let n = 100_000;
        let activations = (0..n).map(|i| PlannedBuffer { bytes: 8, first: i, last: 2 * n - i });
        let gradients = (0..n).map(|i| PlannedBuffer { bytes: 8, first: n + i, last: n + i + 1 });
        let buffers: Vec<PlannedBuffer> = activations.chain(gradients).collect();
        let started = std::time::Instant::now();
        let (_, total) = assign_offsets(&buffers);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        assert!(total <= (n + 3) * ALIGN, "{total}");
    }

    #[test]
    fn buffers_with_intersecting_lifetimes_do_not_overlap() {
        let mut buffers = Vec::new();
        let mut x = 12345u64;
        for i in 0..200 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let first = i / 2;
            buffers.push(PlannedBuffer {
                bytes: (x >> 40) as usize % 5000 + 1,
                first,
                last: first + (x >> 33) as usize % 20,
            });
        }
        for (offsets, total) in [greedy_by_size(&buffers), best_fit(&buffers)] {
            check(&buffers, &offsets, total);
            let sum: usize = buffers.iter().map(|b| b.bytes).sum();
            assert!(total < sum / 3, "{total} of {sum}");
        }
    }

    fn check(buffers: &[PlannedBuffer], offsets: &[usize], total: usize) {
        for i in 0..buffers.len() {
            assert!(offsets[i].is_multiple_of(ALIGN) && offsets[i] + buffers[i].bytes <= total);
            for j in 0..i {
                let are_live = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
                let are_disjoint =
                    offsets[i] + buffers[i].bytes <= offsets[j] || offsets[j] + buffers[j].bytes <= offsets[i];
                assert!(!are_live || are_disjoint, "{i} and {j}");
            }
        }
    }
}
