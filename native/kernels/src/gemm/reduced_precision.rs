//! Products of 16-bit floating-point numbers, computed in `f32` and rounded once at the end.

use super::{Epilogue, gemm_fused};
use crate::lane::{Load, Store};
use crate::par::{self, MatMut, MatRef, Pod};
use half::{bf16, f16};

/// Elements converted per chunk.
const GRAIN: usize = 1 << 15;

/// A 16-bit floating-point type: `f16` and `bf16`.
pub trait ReducedPrecision: Pod {
    /// Writes the values of `from` to `to`, which must be of the same length.
    fn widen(from: &[Self], to: &mut [f32]);
    /// Writes the values of `from`, rounded to nearest even, to `to`, which must be of the same length.
    fn narrow(from: &[f32], to: &mut [Self]);
}

macro_rules! reduced_precision {
    ($($t:ty)*) => { $(
        impl ReducedPrecision for $t {
            fn widen(from: &[Self], to: &mut [f32]) {
                <$t as Load<f32>>::load(from, to);
            }

            fn narrow(from: &[f32], to: &mut [Self]) {
                <$t as Store<f32>>::store(from, to);
            }
        }
    )* };
}
reduced_precision!(f16 bf16);

/// Like [`gemm_fused`], for 16-bit operands: the product and the epilogue are computed in `f32`, and each element of C is rounded
/// once. If `beta` is zero, the old contents of C are ignored.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn gemm_reduced_precision<H: ReducedPrecision>(
    alpha: f32,
    a: MatRef<'_, H>,
    b: MatRef<'_, H>,
    beta: f32,
    mut c: MatMut<'_, H>,
    epilogue: &Epilogue<'_, f32>,
) {
    let (m, n) = (c.rows(), c.cols());
    widened(a, |a| {
        widened(b, |b| {
            par::with_scratch(m * n, |wide: &mut [f32]| {
                if beta != 0.0 {
                    for (row, wide) in wide.chunks_exact_mut(n.max(1)).enumerate() {
                        H::widen(c.row_mut(row), wide);
                    }
                }
                gemm_fused(alpha, a, b, beta, MatMut::row_major(wide, m, n), epilogue);
                let wide = &*wide;
                par::parallel_blocks(c, GRAIN.div_ceil(n.max(1)), n, |first, _, mut c| {
                    for row in 0..c.rows() {
                        H::narrow(&wide[(first + row) * n..][..n], c.row_mut(row));
                    }
                });
            });
        });
    });
}

/// Calls `f` with a copy of the matrix in `f32`, row-major or column-major like the original.
fn widened<H: ReducedPrecision, R>(m: MatRef<'_, H>, f: impl FnOnce(MatRef<'_, f32>) -> R) -> R {
    // The transpose of a column-major matrix is a row-major one.
    let transposed = m.col_stride() != 1 && m.row_stride() == 1;
    let source = m.t_if(transposed);
    let (rows, cols) = (source.rows(), source.cols());
    par::with_scratch(rows * cols, |wide: &mut [f32]| {
        par::parallel_rows(wide, cols, GRAIN.div_ceil(cols.max(1)), |row, wide| {
            let from = source.block(row, 0, 1, cols);
            if from.col_stride() == 1 {
                H::widen(&from.data()[..cols], wide);
            } else {
                let values = from.data().iter().step_by(from.col_stride().max(1));
                wide.iter_mut().zip(values).for_each(|(wide, value)| H::widen(&[*value], std::slice::from_mut(wide)));
            }
        });
        let wide = MatRef::row_major(wide, rows, cols);
        f(wide.t_if(transposed))
    })
}
