//! An index of arrays by their memory, which finds aliases without comparing all pairs.

use std::ops::Range;
use std::sync::Arc;

use ferromx_core::ndarray::NDArray;
use ferromx_core::storage::Chunk;
use hashbrown::HashMap;

/// For each chunk, the byte ranges of the arrays in it, each with the key of its array.
pub(super) struct Overlaps<K>(HashMap<*const Chunk, Vec<(K, Range<usize>)>>);

impl<K: Copy> Overlaps<K> {
    /// Adds an array.
    pub(super) fn insert(&mut self, key: K, array: &NDArray) {
        self.0.entry(Arc::as_ptr(array.chunk())).or_default().push((key, array.byte_range()));
    }

    /// The keys of the arrays that share a byte with `array`.
    pub(super) fn overlapping(&self, array: &NDArray) -> impl Iterator<Item = K> {
        let range = array.byte_range();
        let same_chunk = self.0.get(&Arc::as_ptr(array.chunk())).into_iter().flatten();
        same_chunk.filter(move |(_, other)| other.start < range.end && range.start < other.end).map(|(key, _)| *key)
    }
}

impl<'a, K: Copy> FromIterator<(K, &'a NDArray)> for Overlaps<K> {
    fn from_iter<I: IntoIterator<Item = (K, &'a NDArray)>>(arrays: I) -> Overlaps<K> {
        let mut overlaps = Overlaps(HashMap::new());
        arrays.into_iter().for_each(|(key, array)| overlaps.insert(key, array));
        overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_share_bytes_overlap() {
        let (a, b) = (NDArray::from_slice(&[0f32; 6], &[6]).unwrap(), NDArray::from_slice(&[0f32; 6], &[6]).unwrap());
        let (head, tail) = (a.slice(0, 3).unwrap(), a.slice(3, 6).unwrap());
        let overlaps: Overlaps<usize> = [&head, &tail, &b].into_iter().enumerate().collect();
        let overlapping = |array: &NDArray| overlaps.overlapping(array).collect::<Vec<_>>();
        assert_eq!(overlapping(&a), [0, 1]);
        assert_eq!(overlapping(&a.slice(2, 4).unwrap()), [0, 1]);
        assert_eq!(overlapping(&tail), [1]);
        assert_eq!(overlapping(&b), [2]);
        assert!(overlapping(&a.slice(3, 3).unwrap()).is_empty());
    }
}
