//! Reductions over axes.

mod arg;
pub(crate) mod axes;
mod counts;
mod moments;
pub(crate) mod norm;
pub(crate) mod sums;

use ferromx_core::op::OpDef;

/// Sums, products, maxima and minima.
pub static SUMS: &[&OpDef] = sums::OPS;
/// Norms and moments.
pub static NORMS: &[&OpDef] = &[&norm::NORM, &moments::MOMENTS];
/// Indices of maxima and minima.
pub static ARG: &[&OpDef] = arg::OPS;
/// Histograms, and comparison within a tolerance.
pub static COUNTS: &[&OpDef] = counts::OPS;
