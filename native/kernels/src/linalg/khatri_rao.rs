//! The column-wise Kronecker product (Khatri-Rao product).

use num_traits::One;

use crate::float::{Accum, FloatElement};
use crate::par;

/// Column k of `out` is the Kronecker product of the columns k of the matrices, each given by its row-major elements and its number of
/// rows. The row index of the last matrix varies fastest.
///
/// # Panics
/// Panics if a matrix has fewer elements than rows of `columns` elements.
pub fn khatri_rao<T: FloatElement>(matrices: &[(&[T], usize)], columns: usize, out: &mut [T]) {
    par::parallel_rows(out, columns, (1usize << 14).div_ceil(columns.max(1)), |row, out| {
        out.fill(T::Acc::one().store());
        let mut index = row;
        for (matrix, rows) in matrices.iter().rev() {
            let matrix_row = &matrix[index % rows * columns..][..columns];
            out.iter_mut().zip(matrix_row).for_each(|(o, x)| *o = (T::Acc::of(*o) * T::Acc::of(*x)).store());
            index /= rows;
        }
    });
}
