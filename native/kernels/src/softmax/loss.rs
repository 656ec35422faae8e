//! Losses on top of softmax, with class indices as labels.

use super::row;
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_ranges, parallel_rows};
use num_traits::Zero;
use std::sync::Mutex;

/// The target distribution of `SoftmaxOutput`.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxTarget {
    /// The classes lie along the axis.
    pub shape: AxisShape,
    /// Rows with this label have gradient zero. Labels are compared as integers.
    pub ignore_label: Option<f64>,
    /// Label smoothing: the probability taken from the label and spread evenly over the other classes.
    pub smooth_alpha: f64,
    /// The gradient scale divided by the normalization.
    pub scale: f64,
}

/// The number of labels other than `ignore_label`, compared as integers: the divisor for the normalization `valid`.
pub fn valid_labels<T: FloatElement>(labels: &[T], ignore_label: f64) -> usize {
    labels.iter().filter(|label| label.to_f64().trunc() != ignore_label.trunc()).count()
}

/// The gradient of `SoftmaxOutput` with respect to its data: `(probability - target) * scale`, times `head_grad` if given. A label
/// outside `0..axis` has no target.
///
/// `labels` has `outer` x `inner` elements; the other slices have those of the shape.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn softmax_output_backward<T: FloatElement>(
    target: &SoftmaxTarget,
    probabilities: &[T],
    labels: &[T],
    head_grad: Option<&[T]>,
    grad: &mut [T],
) {
    let shape = target.shape;
    shape.check(&[probabilities.len(), grad.len(), head_grad.map_or(grad.len(), <[T]>::len)]);
    assert_eq!(labels.len(), shape.outer * shape.inner, "labels for the rows of {shape:?}");
    if shape.is_empty() {
        return;
    }
    let AxisShape { axis, inner, .. } = shape;
    let (scale, on) = (T::Acc::of(target.scale), T::Acc::of(1.0 - target.smooth_alpha));
    let off = T::Acc::of(if axis > 1 { target.smooth_alpha / (axis - 1) as f64 } else { 0.0 });
    let gradient = |p: T, target: T::Acc| ((T::Acc::of(p) - target) * scale).store();
    let ignore = target.ignore_label.map(f64::trunc);
    let block = axis * inner;
    parallel_rows(grad, block, (8 * 1024 / block).max(1), |i, grad| {
        let (labels, p) = (&labels[i * inner..(i + 1) * inner], &probabilities[i * block..(i + 1) * block]);
        grad.iter_mut().zip(p).for_each(|(grad, p)| *grad = gradient(*p, off));
        for (k, label) in labels.iter().enumerate() {
            let label = label.to_f64().trunc();
            if ignore == Some(label) {
                grad[k..].iter_mut().step_by(inner).for_each(|grad| *grad = T::default());
            } else if (0.0..axis as f64).contains(&label) {
                let element = label as usize * inner + k;
                grad[element] = gradient(p[element], on);
            }
        }
        if let Some(head_grad) = head_grad {
            multiply_by(grad, &head_grad[i * block..]);
        }
    });
}

/// The gradient of `SoftmaxOutput` for labels that are probabilities: `(probability - label) * scale`, times `head_grad` if given.
///
/// # Panics
/// Panics if the slices differ in length.
pub fn softmax_output_backward_dense<T: FloatElement>(
    scale: f64,
    probabilities: &[T],
    labels: &[T],
    head_grad: Option<&[T]>,
    grad: &mut [T],
) {
    let len = grad.len();
    assert!(
        probabilities.len() == len && labels.len() == len && head_grad.is_none_or(|head_grad| head_grad.len() == len),
        "probabilities, labels and gradients must have the same shape"
    );
    const GRAIN: usize = 16 * 1024;
    let scale = T::Acc::of(scale);
    parallel_rows(grad, GRAIN, 1, |i, grad| {
        let from = probabilities[i * GRAIN..].iter().zip(&labels[i * GRAIN..]);
        for (grad, (p, label)) in grad.iter_mut().zip(from) {
            *grad = ((T::Acc::of(*p) - T::Acc::of(*label)) * scale).store();
        }
        if let Some(head_grad) = head_grad {
            multiply_by(grad, &head_grad[i * GRAIN..]);
        }
    });
}

fn multiply_by<T: FloatElement>(grad: &mut [T], head_grad: &[T]) {
    for (grad, head_grad) in grad.iter_mut().zip(head_grad) {
        *grad = (T::Acc::of(*grad) * T::Acc::of(*head_grad)).store();
    }
}

/// The class of a label: truncated, and clamped to the valid classes.
fn class<T: FloatElement>(label: T, classes: usize) -> usize {
    // The conversion saturates, and converts NaN to 0.
    (label.to_f64() as usize).min(classes - 1)
}

/// The sum over the rows of `-log softmax(x)[label]` (MXNet's `softmax_cross_entropy`), for `x` (rows, classes) and one label per
/// row. Invalid labels are clamped to the nearest class.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn cross_entropy_forward<T: FloatElement>(classes: usize, x: &[T], labels: &[T]) -> T {
    assert_eq!(x.len(), labels.len() * classes, "a row of {classes} classes for each label");
    const ROWS: usize = 64;
    let partial = Mutex::new(vec![T::Acc::zero(); labels.len().div_ceil(ROWS)]);
    parallel_ranges(labels.len(), ROWS, |rows| {
        let chunk = rows.start / ROWS;
        let loss = rows.map(|row| row_loss(&x[row * classes..(row + 1) * classes], labels[row])).sum();
        partial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[chunk] = loss;
    });
    let partial = partial.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    partial.into_iter().sum::<T::Acc>().store()
}

fn row_loss<T: FloatElement>(x: &[T], label: T) -> T::Acc {
    if x.is_empty() {
        return T::Acc::zero();
    }
    row::log_sum(x) - T::Acc::of(x[class(label, x.len())])
}

/// The gradient of [`cross_entropy_forward`]: `(probability - target) * head_grad`, where `probabilities` is the softmax of the
/// rows.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn cross_entropy_backward<T: FloatElement>(
    classes: usize,
    probabilities: &[T],
    labels: &[T],
    head_grad: T,
    grad: &mut [T],
) {
    assert_eq!(probabilities.len(), labels.len() * classes, "a row of {classes} classes for each label");
    assert_eq!(probabilities.len(), grad.len(), "the gradient has the shape of the probabilities");
    let scale = T::Acc::of(head_grad);
    parallel_rows(grad, classes, (8 * 1024 / classes.max(1)).max(1), |row, grad| {
        let label = class(labels[row], classes);
        let p = &probabilities[row * classes..(row + 1) * classes];
        for (i, (grad, p)) in grad.iter_mut().zip(p).enumerate() {
            let target = if i == label { T::Acc::count(1) } else { T::Acc::zero() };
            *grad = ((T::Acc::of(*p) - target) * scale).store();
        }
    });
}
