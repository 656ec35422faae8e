//! Products of a few rows with a B stored by columns (the weights of a fully connected layer): dot products, for which nothing is
//! packed.

use super::driver::{Product, scale_matrix};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::{GemmElement, MicroKernel};

/// Maximum number of rows; with more, tiles repay the packing of B.
const ROWS: usize = 12;
/// Maximum number of rows for a B of at least `LARGE` elements, whose packing costs more.
const ROWS_OF_LARGE: usize = 24;
const LARGE: usize = 1 << 16;
/// Rows and columns computed together.
const GROUP: usize = 4;
/// Multiply-adds in a parallel task.
const TASK_WORK: usize = 1 << 18;

/// True if dot products are possible and faster.
pub(super) fn is_faster<T: GemmElement>(kernel: &MicroKernel<T>, a: MatRef<'_, T>, b: MatRef<'_, T>) -> bool {
    let rows = if b.rows() * b.cols() < LARGE { ROWS } else { ROWS_OF_LARGE };
    a.rows() <= rows && a.col_stride() == 1 && b.row_stride() == 1 && a.cols() >= 2 * kernel.lanes()
}

/// Writes the product, whose operands are `a` and `b`, to `c`.
pub(super) fn run<T: GemmElement>(product: &Product<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, mut c: MatMut<'_, T>) {
    let (m, n) = (c.rows(), c.cols());
    if product.threads == 1 {
        return columns(product, a, b, 0, c.block(0, 0, m, n));
    }
    let cols = TASK_WORK.div_ceil(m * a.cols()).next_multiple_of(GROUP);
    par::parallel_blocks(c, m, cols, |_, col, c| columns(product, a, b, col, c));
}

/// Computes the columns of C that `c` holds, from `col` on.
fn columns<T: GemmElement>(
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
