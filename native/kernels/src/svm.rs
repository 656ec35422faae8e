//! The gradient of the one-vs-all margin losses of a linear classifier.

use crate::float::{Accum, FloatElement};
use crate::par::parallel_rows;
use num_traits::{One, Zero};

/// A margin loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarginLoss {
    /// The margin.
    pub margin: f64,
    /// Scale of the gradient.
    pub scale: f64,
    /// True for a linear penalty (L1-SVM), false for a squared one (L2-SVM).
    pub use_linear: bool,
}

/// Writes the gradient of `sum over k of max(0, margin - s_k x_k)^p` with respect to the scores `x` (rows, classes), where `s_k`
/// is 1 for the class of the label and -1 for the others, and p is 1 or 2.
///
/// # Panics
/// Panics unless there is one label per row.
pub fn margin_loss_gradient<T: FloatElement>(loss: &MarginLoss, classes: usize, x: &[T], labels: &[T], grad: &mut [T]) {
    assert_eq!([x.len(), grad.len()], [labels.len() * classes; 2], "scores of {} rows", labels.len());
    let (margin, scale) = (T::Acc::of(loss.margin), T::Acc::of(loss.scale));
    parallel_rows(grad, classes, (1usize << 14).div_ceil(classes.max(1)), |row, grad| {
        let label = T::Acc::of(labels[row]).wide().trunc();
        for (class, (grad, x)) in grad.iter_mut().zip(&x[row * classes..]).enumerate() {
            let sign = if label == class as f64 { T::Acc::one() } else { -T::Acc::one() };
            let violation = margin - sign * T::Acc::of(*x);
            let slope = match loss.use_linear {
                _ if violation <= T::Acc::zero() => T::Acc::zero(),
                true => T::Acc::one(),
                false => violation + violation,
            };
            *grad = (-sign * slope * scale).store();
        }
    });
}
