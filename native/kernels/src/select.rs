//! Selection of elements of two arrays by a condition.

use crate::item::{Bits, Item, bits, bits_mut, by_size};
use crate::{par, simd};
use ferromx_core::dtype::Element;

/// Elements per chunk.
const GRAIN: usize = 1 << 15;
/// Elements of a block, whose mask stays in the L1 cache.
const BLOCK: usize = 1024;

/// Takes elements of `x` where the mask is true, otherwise of `y`.
///
/// # Panics
/// Panics if an operand is shorter than `out`.
pub fn select<T: Item>(mask: &[bool], x: &[T], y: &[T], out: &mut [T]) {
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        let range = chunk * GRAIN..chunk * GRAIN + out.len();
        select_block(&mask[range.clone()], &x[range.clone()], &y[range], out);
    });
}

/// Like [`select`], with masks that `load_mask(offset, mask)` computes for the elements that start at an offset.
///
/// # Panics
/// Panics if an operand is shorter than `out`.
pub fn select_by<T: Item>(load_mask: &(dyn Fn(usize, &mut [bool]) + Sync), x: &[T], y: &[T], out: &mut [T]) {
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        let mut mask = [false; BLOCK];
        for (k, out) in out.chunks_mut(BLOCK).enumerate() {
            let range = chunk * GRAIN + k * BLOCK..chunk * GRAIN + k * BLOCK + out.len();
            let mask = &mut mask[..out.len()];
            load_mask(range.start, mask);
            select_block(mask, &x[range.clone()], &y[range], out);
        }
    });
}

fn select_block<T: Item>(mask: &[bool], x: &[T], y: &[T], out: &mut [T]) {
    by_size!(T, B => blend::<B>(mask, bits(x), bits(y), bits_mut(out)))
}

simd::per_isa! {
    fn blend<B: Bits>(mask: &[bool], x: &[B], y: &[B], out: &mut [B]) {
        let n = out.len();
        let (mask, x, y) = (&mask[..n], &x[..n], &y[..n]);
        for i in 0..n {
            out[i] = std::hint::select_unpredictable(mask[i], x[i], y[i]);
        }
    }
}

/// The mask of the elements starting at `offset`: true where the condition is not 0. An element of the condition applies to `row_len`
/// elements.
///
/// # Panics
/// Panics if the condition ends before the elements.
pub fn nonzero_mask<C: Element>(condition: &[C], row_len: usize, offset: usize, mask: &mut [bool]) {
    if row_len == 1 {
        nonzero(&condition[offset..offset + mask.len()], mask);
    } else {
        for (i, m) in mask.iter_mut().enumerate() {
            *m = condition[(offset + i) / row_len] != C::default();
        }
    }
}

simd::per_isa! {
    fn nonzero<C: Element>(condition: &[C], mask: &mut [bool]) {
        for (m, c) in mask.iter_mut().zip(condition) {
            *m = *c != C::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_applies_to_elements_or_rows() {
        let n = 2 * GRAIN + 5;
        let (x, y): (Vec<i32>, Vec<i32>) = (0..n as i32).map(|i| (i, -i)).unzip();
        let condition: Vec<u8> = (0..n).map(|i| (i % 3) as u8).collect();
        for row_len in [1, 7] {
            let mut out = vec![0; n];
            select_by(&|offset, mask: &mut [bool]| nonzero_mask(&condition, row_len, offset, mask), &x, &y, &mut out);
            let mask: Vec<bool> = (0..n).map(|i| condition[i / row_len] != 0).collect();
            let want: Vec<i32> = (0..n).map(|i| if mask[i] { x[i] } else { y[i] }).collect();
            assert_eq!(out, want);
            select(&mask, &x, &y, &mut out);
            assert_eq!(out, want);
        }
    }
}
