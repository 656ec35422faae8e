//! Memory planning: assigns offsets in an arena so that blocks with disjoint lifetimes may share memory.

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

/// Returns the offset of each block and the size of the arena. Blocks that are live at the same step do not overlap.
///
/// Greedy by size: the largest block first, each at the lowest offset that is free for its whole lifetime. This comes close to the lower
/// bound for the graphs of neural networks (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
pub fn assign_offsets(blocks: &[Block]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(blocks[*i].bytes), blocks[*i].first));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_intersecting_lifetimes_do_not_overlap() {
        let mut blocks = Vec::new();
        let mut x = 12345u64;
        for i in 0..200 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let first = i / 2;
            blocks.push(Block { bytes: (x >> 40) as usize % 5000 + 1, first, last: first + (x >> 33) as usize % 20 });
        }
        let (offsets, total) = assign_offsets(&blocks);
        for i in 0..blocks.len() {
            assert!(offsets[i] % ALIGN == 0 && offsets[i] + blocks[i].bytes <= total);
            for j in 0..i {
                let are_live = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                let are_disjoint =
                    offsets[i] + blocks[i].bytes <= offsets[j] || offsets[j] + blocks[j].bytes <= offsets[i];
                assert!(!are_live || are_disjoint, "{i} and {j}");
            }
        }
        let sum: usize = blocks.iter().map(|b| b.bytes).sum();
        assert!(total < sum / 3, "{total} of {sum}");
    }
}
