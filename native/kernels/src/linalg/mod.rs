//! Factorizations and solvers of dense linear algebra, for row-major matrices in single and double precision.
//!
//! The factorizations are blocked, so that [`crate::gemm`] does nearly all of the work. For batches, call them through
//! [`for_each_matrix`].
//!
//! - `triangular`: triangular solves, and copies of triangles.
//! - `cholesky`, `lu`, `lq`: the factorizations, and solvers based on them.
//! - `symmetric`, `general`: eigenvalues and eigenvectors.
//! - `svd`, `bidiagonal`: the singular value decomposition.
//! - `khatri_rao`: column-wise Kronecker products.
//! - `reflections`, `rotations`: Householder reflections and Givens rotations, applied in blocks.

mod bidiagonal;
mod cholesky;
mod general;
mod khatri_rao;
mod lq;
mod lu;
mod reflections;
mod rotations;
mod svd;
mod symmetric;
#[cfg(test)]
mod tests;
mod triangular;

pub use cholesky::cholesky;
pub use general::{EigenError, general_eigen};
pub use khatri_rao::khatri_rao;
pub use lq::lq_batch;
pub use lu::{invert, lu, solve_lu};
pub use svd::svd;
pub use symmetric::{symmetric_eigen, symmetric_eigen_batch};
pub use triangular::{
    Triangle, copy_triangle, pack_triangle, solve_left, solve_right, symmetric_from_lower, unpack_triangle,
};

use std::iter::Sum;
use std::sync::Mutex;

use num_traits::{Float, NumAssign};

use crate::gemm;
use crate::lane::tree_reduce;
use crate::par::{self, Pod};
use crate::simd::multiversion::per_isa;

/// The element type of matrices: `f32` or `f64`.
pub trait Scalar: gemm::GemmElement + Pod + Float + NumAssign + Sum + Default {}

impl Scalar for f32 {}
impl Scalar for f64 {}

/// Whether a matrix is transposed (BLAS's `trans`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transpose {
    /// The matrix itself.
    No,
    /// Its transpose.
    Yes,
}

/// Rows and columns of a block.
const BLOCK: usize = 64;

/// Calls `f(index, matrix)` for each matrix of `len` elements in `data`, in parallel if there are several.
///
/// # Errors
/// The error of the first matrix for which `f` fails; all matrices are visited nevertheless.
pub fn for_each_matrix<T: Send, E: Send>(
    data: &mut [T],
    len: usize,
    f: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let failed: Mutex<Option<(usize, E)>> = Mutex::new(None);
    let len = len.max(1);
    if data.len() == len {
        return f(0, data);
    }
    // About 32K multiply-adds per chunk, estimating one multiply-add per element and row.
    let work = len * len.isqrt();
    par::parallel_rows(data, len, (1 << 15) / work.max(1), |i, matrix| {
        if let Err(e) = f(i, matrix) {
            let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(first, _)| i < *first) {
                *failed = Some((i, e));
            }
        }
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some((_, e)) => Err(e),
        None => Ok(()),
    }
}

/// Writes the transpose of a `rows` x `cols` matrix.
pub fn transpose<T: Scalar>(a: &[T], rows: usize, cols: usize, out: &mut [T]) {
    crate::movement::transpose(a, &[rows, cols], &[1, 0], out);
}

/// Number of partial sums in [`dot`].
const SUMS: usize = 16;

per_isa! {
    /// The sum of `x[i] * y[i]`.
    fn dot<T: Scalar>(x: &[T], y: &[T]) -> T {
        let n = x.len().min(y.len());
        let (x, y) = (&x[..n], &y[..n]);
        let mut sums = [T::zero(); SUMS];
        for i in 0..n / SUMS {
            let (x, y) = (&x[i * SUMS..(i + 1) * SUMS], &y[i * SUMS..(i + 1) * SUMS]);
            for k in 0..SUMS {
                sums[k] += x[k] * y[k];
            }
        }
        let mut sum = tree_reduce(sums, |a, b| a + b);
        for k in n / SUMS * SUMS..n {
            sum += x[k] * y[k];
        }
        sum
    }
}

per_isa! {
    /// `y += a * x`.
    fn axpy<T: Scalar>(a: T, x: &[T], y: &mut [T]) {
        let n = x.len().min(y.len());
        let (x, y) = (&x[..n], &mut y[..n]);
        for k in 0..n {
            y[k] += a * x[k];
        }
    }
}
