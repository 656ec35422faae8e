//! Memory planning: assigns offsets in an arena so that blocks with disjoint lifetimes may share memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use ferromx_core::storage::ALIGN;

/// A range of an arena, used by one entry, or by several that overwrite each other in place.
#[derive(Clone, Debug)]
pub struct Block {
    /// Size in bytes.
    pub bytes: usize,
    /// The step that writes it first.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
}

/// Number of blocks up to which [`greedy_by_size`] is used. Its time is quadratic.
const MAX_GREEDY: usize = 1 << 13;

/// Returns the offset of each block and the size of the arena. Blocks that are live at the same step do not overlap.
pub fn assign_offsets(blocks: &[Block]) -> (Vec<usize>, usize) {
    if blocks.len() <= MAX_GREEDY { greedy_by_size(blocks) } else { best_fit(blocks) }
}

/// Greedy by size: the largest block first, each at the lowest offset that is free for its whole lifetime. This comes close to the lower
/// bound for the graphs of neural networks (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
fn greedy_by_size(blocks: &[Block]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|i| (Reverse(blocks[*i].bytes), blocks[*i].first));
    let mut offsets = vec![0; blocks.len()];
    // Assigned blocks, by offset.
    let mut assigned: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let b = &blocks[i];
        let size = b.bytes.next_multiple_of(ALIGN);
        let mut offset = 0;
        for &j in &assigned {
            let other = &blocks[j];
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

/// In order of time, each block in the smallest free range that holds it.
fn best_fit(blocks: &[Block]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|i| blocks[*i].first);
    let mut offsets = vec![0; blocks.len()];
    // Last step and index of each live block, the earliest step first.
    let mut live: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    let (mut free, mut total) = (FreeRanges::default(), 0);
    for i in order {
        let b = &blocks[i];
        let size = b.bytes.next_multiple_of(ALIGN);
        while let Some(Reverse((last, ended))) = live.peek().copied()
            && last < b.first
        {
            live.pop();
            free.insert(offsets[ended], blocks[ended].bytes.next_multiple_of(ALIGN));
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

    /// Frees a range and joins it with its neighbours.
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
    fn many_blocks_take_little_time() {
        // Activations that a backward pass reads, in reverse order, and its gradients, which live for two steps.
        let n = 100_000;
        let activations = (0..n).map(|i| Block { bytes: 8, first: i, last: 2 * n - i });
        let gradients = (0..n).map(|i| Block { bytes: 8, first: n + i, last: n + i + 1 });
        let blocks: Vec<Block> = activations.chain(gradients).collect();
        let started = std::time::Instant::now();
        let (_, total) = assign_offsets(&blocks);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        assert!(total <= (n + 3) * ALIGN, "{total}");
    }

    #[test]
    fn blocks_with_intersecting_lifetimes_do_not_overlap() {
        let mut blocks = Vec::new();
        let mut x = 12345u64;
        for i in 0..200 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let first = i / 2;
            blocks.push(Block { bytes: (x >> 40) as usize % 5000 + 1, first, last: first + (x >> 33) as usize % 20 });
        }
        for (offsets, total) in [greedy_by_size(&blocks), best_fit(&blocks)] {
            check(&blocks, &offsets, total);
            let sum: usize = blocks.iter().map(|b| b.bytes).sum();
            assert!(total < sum / 3, "{total} of {sum}");
        }
    }

    fn check(blocks: &[Block], offsets: &[usize], total: usize) {
        for i in 0..blocks.len() {
            assert!(offsets[i].is_multiple_of(ALIGN) && offsets[i] + blocks[i].bytes <= total);
            for j in 0..i {
                let are_live = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                let are_disjoint =
                    offsets[i] + blocks[i].bytes <= offsets[j] || offsets[j] + blocks[j].bytes <= offsets[i];
                assert!(!are_live || are_disjoint, "{i} and {j}");
            }
        }
    }
}
