//! Filling arrays with a value.

use super::Item;
use crate::par;
use crate::simd::multiversion::per_isa;

/// Bytes per chunk; filling them takes longer than waking a thread.
const CHUNK_BYTES: usize = 1 << 17;

/// Sets all elements to `value`.
pub fn fill<T: Item>(dst: &mut [T], value: T) {
    par::parallel_rows(dst, CHUNK_BYTES / size_of::<T>(), 1, |_, dst| fill_run(dst, value));
}

per_isa! {
    /// [`fill`] on the calling thread.
    pub(crate) fn fill_run<T: Item>(dst: &mut [T], value: T) {
        dst.fill(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_set() {
        for n in [0, 1, 63, 64, 1000, 100_000] {
            let mut x = vec![0f32; n];
            fill(&mut x, 2.5);
            assert!(x.iter().all(|x| *x == 2.5), "length {n}");
        }
    }
}
