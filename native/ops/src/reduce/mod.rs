//! Reductions over axes.

mod arg;
pub(crate) mod axes;
mod counts;
mod moments;
pub(crate) mod norm;
pub(crate) mod sums;

use ferromx_core::op::OpDef;

/// Sums, products, extremes.
pub static SUMS: &[&OpDef] = sums::OPS;
/// Norms and moments.
pub static NORMS: &[&OpDef] = &[&norm::NORM, &moments::MOMENTS];
/// Positions of extremes.
pub static ARG: &[&OpDef] = arg::OPS;
/// Histograms, and whether arrays are alike.
pub static COUNTS: &[&OpDef] = counts::OPS;
