//! Outer products, which have depth 1, such as the gradient of a weight for a single example. Writing C takes all the time.

use super::product::Product;
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::GemmElement;
use crate::simd::multiversion::per_isa;

/// Minimum number of elements in a chunk.
const CHUNK_ELEMENTS: usize = 1 << 16;

/// Writes the product of the column `a` and the row `b`, whose elements are contiguous, to `c`.
pub(super) fn run<T: GemmElement>(product: &Product<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, c: MatMut<'_, T>) {
    let (m, n) = (c.rows(), c.cols());
    let rows = if product.threads == 1 { m } else { CHUNK_ELEMENTS.div_ceil(n) };
    par::parallel_blocks(c, rows, n, |row, col, mut c| {
        let b = &b.data()[col..col + c.cols()];
        for i in 0..c.rows() {
            let scale = product.alpha * a.data()[(row + i) * a.row_stride()];
            match product.beta == T::zero() {
                true => write_scaled(scale, b, c.row_mut(i)),
                false => add_scaled(scale, b, product.beta, c.row_mut(i)),
            }
        }
        if !product.epilogue.is_empty() {
            product.epilogue.apply(row, col, &mut c);
        }
    });
}

per_isa! {
    fn write_scaled<T: GemmElement>(scale: T, x: &[T], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = scale * *x;
        }
    }
}

per_isa! {
    fn add_scaled<T: GemmElement>(scale: T, x: &[T], beta: T, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = scale * *x + beta * *y;
        }
    }
}
