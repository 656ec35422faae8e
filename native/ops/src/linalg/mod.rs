//! Linear algebra.

mod diagonals;
pub(crate) mod dot;
mod eigen;
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

/// Products of arrays.
pub static DOT: &[&OpDef] = dot::OPS;
/// The Khatri-Rao product.
pub static KHATRI_RAO: &[&OpDef] = &[&khatri_rao::KHATRI_RAO];
/// Matrix products with BLAS's options.
pub static PRODUCTS: &[&OpDef] = products::OPS;
/// Cholesky factorization and triangular solves.
pub static SOLVE: &[&OpDef] = solve::OPS;
/// LQ and eigenvalue decompositions, inverses and determinants.
pub static FACTOR: &[&OpDef] = factor::OPS;
/// NumPy's eigenvalues.
pub static EIGEN: &[&OpDef] = eigen::OPS;
/// Singular values and pseudoinverses.
pub static SINGULAR: &[&OpDef] = singular::OPS;
/// NumPy's linear equations.
pub static EQUATIONS: &[&OpDef] = equations::OPS;
/// Norms of vectors and matrices.
pub static NORMS: &[&OpDef] = &[&matrix_norm::NORM];
/// Fourier transforms and count sketches.
pub static TRANSFORMS: &[&OpDef] = transforms::OPS;
/// Diagonals and triangles of matrices.
pub static DIAGONALS: &[&OpDef] = diagonals::OPS;
