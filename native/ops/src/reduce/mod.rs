//! Reductions over axes.
//!
//! - `sums` has sums, means, products, maxima and minima; `products` is the gradient of a product.
//! - `moments` and `statistics` have mean and variance, averages and percentiles; `norm` has the L1 and the L2 norm.
//! - `arg` has argmax and argmin, `logic` any and all, `counts` histograms and comparisons of whole arrays.
//! - `cumulative` has cumulative sums and differences, which keep their axis.
//! - `sparse` has the reductions of csr and row_sparse matrices.
//! - `family` has what they share: parameters, shape rules, gradients that are broadcast back.

mod arg;
mod counts;
mod cumulative;
mod family;
mod logic;
mod moments;
pub(crate) mod norm;
mod products;
mod sparse;
mod statistics;
pub(crate) mod sums;

use ferromx_core::op::AnyOperator;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    // Indices of maxima and minima.
    arg::OPS,
    // Histograms, and comparisons of whole arrays.
    counts::OPS,
    // Cumulative sums, differences.
    cumulative::OPS,
    // `any`, `all`.
    logic::OPS,
    // Norms and moments.
    &[&moments::MOMENTS, &norm::NORM],
    // Variance, averages, percentiles.
    statistics::OPS,
    // Sums, products, maxima and minima.
    sums::OPS,
];

#[cfg(test)]
mod tests;
