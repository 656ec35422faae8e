//! Softmax along one axis, its relatives, and the losses built on it (MXNet's `softmax`, `log_softmax`, `softmin`,
//! `SoftmaxOutput`, `softmax_cross_entropy`).
//!
//! A row is computed from its largest element: `exp((x - max) / temperature) / sum`. NaN, positive infinity, or nothing
//! but negative infinity in a row makes all of the row NaN. Results do not depend on the number of threads.

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

/// A tensor seen from one axis: `outer` x `axis` x `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxShape {
    /// The product of the dimensions before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub axis: usize,
    /// The product of the dimensions after the axis.
    pub inner: usize,
}

impl SoftmaxShape {
    /// All elements.
    pub fn len(&self) -> usize {
        self.outer * self.axis * self.inner
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self, len: usize) {
        assert_eq!(len, self.len(), "elements of a tensor of {self:?}");
    }
}

/// Which function is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftmaxKind {
    /// exp(x / temperature), divided by its sum.
    Softmax,
    /// The logarithm of that.
    LogSoftmax,
    /// The softmax of -x.
    Softmin,
}

/// For each of the `outer` x `inner` rows, how many of the leading elements count; the others are taken as absent and
/// yield zero. A length beyond the axis means all of it, a negative one none.
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
