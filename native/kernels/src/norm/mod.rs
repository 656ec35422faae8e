//! Normalization: batch, layer, group, instance, L2 and local response normalization, forward and backward.
//!
//! Variances are biased. They are computed from deviations, block by block, and merged in double precision (Chan, Golub and
//! LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979), so that a large mean does not
//! reduce their accuracy. Parameters and statistics of 16-bit data are in single precision. Results do not depend on the number
//! of threads.
//!
//! - `batch`: batch normalization.
//! - `rows`: layer, group and instance normalization.
//! - `l2`: L2 normalization.
//! - `local`: local response normalization.
//! - `rectify`: the rectifier after a normalization.
//! - `statistics`: the operator that computes mean and variance.
//! - `moments`: sums, means and variances of contiguous elements, for all of the above.

mod batch;
mod l2;
mod local;
mod moments;
mod rectify;
mod rows;
mod statistics;
#[cfg(test)]
mod tests;

pub use batch::{BatchNormGrads, BatchNormParams, batch_norm_backward, batch_norm_inference, batch_norm_training};
pub use l2::{l2_norm_backward, l2_norm_forward};
pub use local::{LocalNorm, local_norm_backward, local_norm_forward};
pub use rectify::{rectify, rectify_backward};
pub use rows::{Affine, RowNormGrads, row_norm_backward, row_norm_forward};
pub use statistics::{row_moments, row_moments_backward};

/// Elements per chunk.
const GRAIN: usize = 16 * 1024;
/// Columns in a block if the axis is not the last one.
const COLUMNS: usize = 64;
