//! The summation tree: a binary tree over the shards that fixes the order of additions. It depends only on the number of shards, so sums
//! are bit-identical for every number of ranks.

use std::ops::Range;

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_kernels::byte_sum::add_bytes;

/// The children of a node: its two halves, the first of which has the extra shard of an odd number.
fn children(node: &Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = node.start + node.len().div_ceil(2);
    (node.start..middle, middle..node.end)
}

/// Appends the largest nodes of the subtree of `node` that contain only shards in `shards`.
fn cover(shards: &Range<usize>, node: Range<usize>, nodes: &mut Vec<Range<usize>>) {
    if node.start >= shards.end || node.end <= shards.start {
        return;
    }
    if shards.start <= node.start && node.end <= shards.end {
        nodes.push(node);
        return;
    }
    let (left, right) = children(&node);
    cover(shards, left, nodes);
    cover(shards, right, nodes);
}

/// The nodes whose sums a rank computes from its own shards, in the order of shards. There is one if the number of ranks is a power of two,
/// and there are at most two for each level of the tree otherwise.
pub(super) fn nodes_of(rank: usize, shards_per_rank: usize, size: usize) -> Vec<Range<usize>> {
    let mut nodes = Vec::new();
    cover(&(rank * shards_per_rank..(rank + 1) * shards_per_rank), 0..shards_per_rank * size, &mut nodes);
    nodes
}

/// Maximum number of nodes of a rank.
pub(super) fn max_nodes(shards_per_rank: usize, size: usize) -> usize {
    (0..size).map(|rank| nodes_of(rank, shards_per_rank, size).len()).max().unwrap_or(1)
}

/// The sum of a node's shards. `node_sum` returns the sum of a node if it is available.
pub(super) fn sum(
    dtype: DType,
    node: Range<usize>,
    node_sum: &mut impl FnMut(&Range<usize>) -> Option<Vec<u8>>,
) -> Result<Vec<u8>> {
    if let Some(bytes) = node_sum(&node) {
        return Ok(bytes);
    }
    if node.len() < 2 {
        return Err(Error::Internal(format!("the gradient of shard {} is missing", node.start)));
    }
    let (left, right) = children(&node);
    let mut total = sum(dtype, left, node_sum)?;
    add(dtype, &mut total, &sum(dtype, right, node_sum)?)?;
    Ok(total)
}

fn add(dtype: DType, total: &mut [u8], terms: &[u8]) -> Result<()> {
    if total.len() != terms.len() {
        return Err(Error::Internal(format!("a sum of {} and {} bytes", total.len(), terms.len())));
    }
    dispatch!(dtype, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        add_bytes::<T>(total, terms);
        Ok(())
    }, other => {
        Err(Error::Value(format!("arrays of {other} cannot be summed by a distributed key-value store: convert with Cast first")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over `shards` shards as `size` ranks compute it.
    fn total(shards: usize, size: usize) -> f32 {
        let value = |shard: usize| 1e8f32.powi(shard as i32 % 3 - 1) * (1.1 + shard as f32);
        let leaf = |node: &Range<usize>| (node.len() == 1).then(|| value(node.start).to_ne_bytes().to_vec());
        let nodes: Vec<_> = (0..size).flat_map(|rank| nodes_of(rank, shards / size, size)).collect();
        let partial: Vec<_> = nodes.iter().map(|n| sum(DType::F32, n.clone(), &mut { leaf }).unwrap()).collect();
        let bytes =
            sum(DType::F32, 0..shards, &mut |node| nodes.iter().position(|n| n == node).map(|i| partial[i].clone()));
        f32::from_ne_bytes(bytes.unwrap().try_into().unwrap())
    }

    #[test]
    fn sums_have_the_same_bits_for_every_divisor() {
        for shards in [1, 2, 6, 8, 12, 30, 64] {
            let alone = total(shards, 1).to_bits();
            for size in (2..=shards).filter(|n| shards % n == 0) {
                assert_eq!(total(shards, size).to_bits(), alone, "{shards} shards on {size} ranks");
            }
        }
    }

    #[test]
    fn even_splits_need_one_node() {
        assert_eq!(nodes_of(1, 2, 4), std::slice::from_ref(&(2..4)));
        assert_eq!(max_nodes(3, 4), 1);
        assert_eq!(nodes_of(1, 2, 3), [2..3, 3..4]);
        assert!(max_nodes(4, 3) <= 4);
    }

    #[test]
    fn integers_wrap_and_booleans_are_refused() {
        let mut total = vec![255u8, 1];
        add(DType::U8, &mut total, &[2, 3]).unwrap();
        assert_eq!(total, [1, 4]);
        assert!(add(DType::Bool, &mut [0], &[1]).unwrap_err().to_string().contains("arrays of bool cannot be summed"));
    }
}
