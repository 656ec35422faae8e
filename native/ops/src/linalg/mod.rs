//! Linear algebra.

mod diagonals;
pub(crate) mod dot;
mod factor;
mod khatri_rao;
mod matrices;
pub mod product;
mod products;
mod solve;
mod transforms;

use ferromx_core::op::OpDef;

/// Products of arrays.
pub static DOT: &[&OpDef] = dot::OPS;
/// Products of columns.
pub static KHATRI_RAO: &[&OpDef] = &[&khatri_rao::KHATRI_RAO];
/// Products of matrices with all that BLAS lets one choose.
pub static PRODUCTS: &[&OpDef] = products::OPS;
/// Cholesky factors, and equations with triangular matrices.
pub static SOLVE: &[&OpDef] = solve::OPS;
/// Other factorisations, inverses and determinants.
pub static FACTOR: &[&OpDef] = factor::OPS;
/// Fourier transforms and count sketches.
pub static TRANSFORMS: &[&OpDef] = transforms::OPS;
/// Diagonals and triangles of matrices.
pub static DIAGONALS: &[&OpDef] = diagonals::OPS;
