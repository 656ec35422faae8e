//! Softmax, log-softmax and softmin along one axis, and the losses built on them (MXNet's `softmax`, `log_softmax`, `softmin`,
//! `SoftmaxOutput`, `softmax_cross_entropy`).
//!
//! The maximum of a row is subtracted first: `exp((x - max) / temperature) / sum`. A row that contains NaN or positive infinity,
//! or only negative infinity, becomes NaN. Results do not depend on the number of threads.
//!
//! - `row`: a contiguous row.
//! - `axis`: any axis, forward and backward.
//! - `loss`: losses and their gradients.

mod axis;
mod loss;
pub(crate) mod row;
#[cfg(test)]
mod tests;

pub use axis::{softmax_backward, softmax_forward};
pub use loss::{
    SoftmaxTarget, cross_entropy_backward, cross_entropy_forward, softmax_output_backward,
    softmax_output_backward_dense, valid_labels,
};

/// The function to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftmaxKind {
    /// exp(x / temperature), divided by its sum.
    Softmax,
    /// The logarithm of the softmax.
    LogSoftmax,
    /// The softmax of -x.
    Softmin,
}

/// A softmax along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Softmax<'a> {
    /// The function.
    pub kind: SoftmaxKind,
    /// The divisor of the elements.
    pub temperature: f64,
    /// The lengths of the rows; `None` for whole rows.
    pub lengths: Option<Lengths<'a>>,
}

impl Softmax<'_> {
    /// The softmax of whole rows without temperature.
    pub const PLAIN: Softmax<'static> = Softmax { kind: SoftmaxKind::Softmax, temperature: 1.0, lengths: None };
}

/// The length of each of the `outer` x `inner` rows: the softmax is taken over that many leading elements, and the others are zero.
/// Lengths are clamped to the axis.
#[derive(Clone, Copy, Debug)]
pub enum Lengths<'a> {
    /// Lengths of 32 bits.
    I32(&'a [i32]),
    /// Lengths of 64 bits.
    I64(&'a [i64]),
}

impl Lengths<'_> {
    fn len(&self) -> usize {
        match self {
            Lengths::I32(lengths) => lengths.len(),
            Lengths::I64(lengths) => lengths.len(),
        }
    }

    fn get(&self, row: usize) -> usize {
        match self {
            Lengths::I32(lengths) => usize::try_from(lengths[row]).unwrap_or(0),
            Lengths::I64(lengths) => lengths[row].max(0).try_into().unwrap_or(usize::MAX),
        }
    }
}
