//! Linear algebra.

mod contraction;
mod diagonals;
pub(crate) mod dot;
mod eigen;
mod einsum;
mod equations;
mod factor;
mod khatri_rao;
mod matrices;
mod matrix_norm;
pub mod product;
mod products;
mod singular;
mod solve;
pub(crate) mod transforms;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&[&OpDef]] = &[
    // `dot`, `matmul`, `tensordot` of the NumPy interface.
    contraction::OPS,
    // Diagonals and triangles of matrices.
    diagonals::OPS,
    // Products of arrays.
    dot::OPS,
    // NumPy's eigenvalues.
    eigen::OPS,
    // Einstein notation.
    einsum::OPS,
    // NumPy's linear equations.
    equations::OPS,
    // LQ and eigenvalue decompositions, inverses and determinants.
    factor::OPS,
    // The Khatri-Rao product, norms of vectors and matrices.
    &[&khatri_rao::KHATRI_RAO, &matrix_norm::NORM],
    // Matrix products with BLAS's options.
    products::OPS,
    // Singular values and pseudoinverses.
    singular::OPS,
    // Cholesky factorization and triangular solves.
    solve::OPS,
    // Fourier transforms and count sketches.
    transforms::OPS,
];
