//! Products of a few rows with a column-major B (the weights of a fully connected layer), computed as dot products: both operands
//! are contiguous along the depth, so nothing is packed.

use super::product::{Product, scale_matrix};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::{GemmElement, MicroKernel};

/// Maximum number of rows; with more, the packing of B pays off.
const MAX_ROWS: usize = 12;
/// Maximum number of rows for a B of at least `LARGE_B` elements, whose packing costs more.
const MAX_ROWS_LARGE_B: usize = 24;
/// Minimum number of elements of a large B.
const LARGE_B: usize = 1 << 16;
/// Rows and columns whose dot products one call of the microkernel computes.
const GROUP: usize = 4;
/// Minimum multiply-adds in a chunk.
const CHUNK_WORK: usize = 1 << 18;

/// True if the layout of the operands allows dot products and they are faster than tiles.
pub(super) fn is_faster<T: GemmElement>(kernel: &MicroKernel<T>, a: MatRef<'_, T>, b: MatRef<'_, T>) -> bool {
    let rows = if b.rows() * b.cols() < LARGE_B { MAX_ROWS } else { MAX_ROWS_LARGE_B };
    a.rows() <= rows && a.col_stride() == 1 && b.row_stride() == 1 && a.cols() >= 2 * kernel.lanes()
}

/// Writes the product of `a` and `b`, which are the operands of `product`, to `c`.
pub(super) fn run<T: GemmElement>(product: &Product<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, mut c: MatMut<'_, T>) {
    let (m, n) = (c.rows(), c.cols());
    if product.threads == 1 {
        return compute_columns(product, a, b, 0, c.block(0, 0, m, n));
    }
    let cols = CHUNK_WORK.div_ceil(m * a.cols()).next_multiple_of(GROUP);
    par::parallel_blocks(c, m, cols, |_, col, c| compute_columns(product, a, b, col, c));
}

/// Computes `c`, the columns of C starting at `col`.
fn compute_columns<T: GemmElement>(
    product: &Product<'_, T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    col: usize,
    mut c: MatMut<'_, T>,
) {
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    let accumulate = product.beta != T::zero();
    if accumulate {
        scale_matrix(&mut c, product.beta);
    }
    let mut dots = [[T::zero(); GROUP]; GROUP];
    for j in (0..n).step_by(GROUP) {
        let b = b.block(0, col + j, k, GROUP.min(n - j));
        for i in (0..m).step_by(GROUP) {
            let rows = GROUP.min(m - i);
            product.kernel.dots(a.block(i, 0, rows, k), b, &mut dots);
            for (row, dots) in dots.iter().enumerate().take(rows) {
                let out = &mut c.row_mut(i + row)[j..j + b.cols()];
                for (out, &dot) in out.iter_mut().zip(dots) {
                    let value = product.alpha * dot;
                    *out = if accumulate { *out + value } else { value };
                }
            }
        }
    }
    if !product.epilogue.is_empty() {
        product.epilogue.apply(0, col, &mut c);
    }
}
