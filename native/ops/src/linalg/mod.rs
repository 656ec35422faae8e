//! Linear algebra. Matrices are in the last two axes; the axes before them are batch axes.
//!
//! - `product` computes matrix products of every floating-point type; it is the base of `dot` (`dot`, `batch_dot`), `contraction` (NumPy's
//!   `dot`, `matmul` and `tensordot`) and `einsum`.
//! - `blas` has the `_linalg_*` products with BLAS's options: gemm, syrk, trmm.
//! - `cholesky` has LAPACK's potrf and potri, and trsm; `decompositions` gelqf, syevd, inverses and determinants.
//! - `equations`, `eigen`, `svd` and `matrix_norm` are NumPy's `linalg` functions.
//! - `diagonals` extracts and makes diagonals and triangles; `khatri_rao` is the column-wise Kronecker product.
//! - `sparse` has `dot` of a sparse and a dense matrix.
//! - `transforms` has the Fourier transform and count sketches.
//! - `matrices` has the shape, type and error helpers of all of them.

mod blas;
mod cholesky;
mod contraction;
mod decompositions;
mod diagonals;
pub(crate) mod dot;
mod eigen;
mod einsum;
mod equations;
mod khatri_rao;
mod matrices;
mod matrix_norm;
pub(crate) mod product;
mod sparse;
mod svd;
pub(crate) mod transforms;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    blas::OPS,
    cholesky::OPS,
    contraction::OPS,
    decompositions::OPS,
    diagonals::OPS,
    dot::OPS,
    eigen::OPS,
    einsum::OPS,
    equations::OPS,
    &[&khatri_rao::KHATRI_RAO, &matrix_norm::NORM],
    svd::OPS,
    transforms::OPS,
];
