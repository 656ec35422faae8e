//! Connectionist temporal classification (Graves et al., "Connectionist temporal classification: labelling unsegmented
//! sequence data with recurrent neural networks", 2006).

use crate::float::{Accum, Real};
use crate::par::{parallel_rows2, with_scratch};
use num_traits::{Float, Zero};

/// Sizes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtcShape {
    /// Frames that there is room for.
    pub frames: usize,
    /// Sequences.
    pub batch: usize,
    /// Classes, the blank among them.
    pub classes: usize,
    /// The class that stands for no label.
    pub blank: usize,
}

/// Computes the loss of each sequence, -log of the probability of its labels, from scores `x` (frames, batch, classes)
/// of which the softmax is taken, and, unless `grad` is empty, the gradient of the loss with respect to the scores, as
/// (batch, frames, classes). Frames from a sequence's length on do not count. Labels that do not fit into the frames have
/// loss and gradient 0.
///
/// # Panics
/// When the lengths do not fit, a length exceeds the frames, or a label is no class.
pub fn ctc_loss<T: Real>(
    s: &CtcShape,
    x: &[T],
    labels: &[Vec<usize>],
    lengths: &[usize],
    loss: &mut [T],
    grad: &mut [T],
) {
    let plane = s.frames * s.classes;
    assert_eq!(x.len(), s.batch * plane, "scores of {s:?}");
    assert_eq!([labels.len(), lengths.len(), loss.len()], [s.batch; 3], "sequences of {s:?}");
    assert!(grad.is_empty() || grad.len() == x.len(), "gradients of {s:?}");
    let mut nothing = vec![T::default(); if grad.is_empty() { s.batch } else { 0 }];
    let (grad, row) = if grad.is_empty() { (&mut nothing[..], 1) } else { (grad, plane) };
    parallel_rows2((loss, 1), (grad, row), 1, |n, loss, grad| {
        with_scratch(plane, |logs: &mut [T::Acc]| {
            for (t, logs) in logs.chunks_exact_mut(s.classes.max(1)).enumerate() {
                log_softmax(&x[(t * s.batch + n) * s.classes..][..s.classes], logs);
            }
            let grad = if row == plane { Some(grad) } else { None };
            loss[0] = sequence::<T>(s, logs, &labels[n], lengths[n], grad).store();
        });
    });
}

crate::simd::per_isa! {
    fn log_softmax<T: Real>(x: &[T], logs: &mut [T::Acc]) {
        let largest = x.iter().fold(T::Acc::neg_infinity(), |m, x| m.max(T::Acc::of(*x)));
        let sum = x.iter().map(|x| (T::Acc::of(*x) - largest).exponential()).sum::<T::Acc>();
        let shift = largest + sum.ln();
        logs.iter_mut().zip(x).for_each(|(log, x)| *log = T::Acc::of(*x) - shift);
    }
}

/// log(e^a + e^b).
fn log_add<A: Accum>(a: A, b: A) -> A {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == A::neg_infinity() { high } else { high + (low - high).exponential().ln_1p() }
}

/// The loss of one sequence, and its gradient.
fn sequence<T: Real>(s: &CtcShape, logs: &[T::Acc], labels: &[usize], frames: usize, grad: Option<&mut [T]>) -> T::Acc {
    assert!(frames <= s.frames && labels.iter().all(|l| *l < s.classes), "labels and frames of {s:?}");
    let repeats = labels.windows(2).filter(|w| w[0] == w[1]).count();
    if frames == 0 || labels.len() + repeats > frames {
        if let Some(grad) = grad {
            grad.fill(T::default());
        }
        return T::Acc::zero();
    }
    // States: a blank, then each label followed by a blank.
    let states = 2 * labels.len() + 1;
    let class = |state: usize| if state.is_multiple_of(2) { s.blank } else { labels[state / 2] };
    let skips = |state: usize| state >= 3 && state % 2 == 1 && class(state) != class(state - 2);
    let log = |t: usize, state: usize| logs[t * s.classes + class(state)];
    with_scratch(states * (frames + 2) + s.classes, |buffer: &mut [T::Acc]| {
        let (forward, rest) = buffer.split_at_mut(states * frames);
        let (beta, rest) = rest.split_at_mut(states);
        let (next, shares) = rest.split_at_mut(states);
        let never = T::Acc::neg_infinity();
        for t in 0..frames {
            let (before, now) = forward.split_at_mut(t * states);
            for state in 0..states {
                let reach = match t {
                    0 if state < 2 => T::Acc::zero(),
                    0 => never,
                    _ => {
                        let before = &before[(t - 1) * states..];
                        let mut reach = before[state];
                        if state >= 1 {
                            reach = log_add(reach, before[state - 1]);
                        }
                        if skips(state) {
                            reach = log_add(reach, before[state - 2]);
                        }
                        reach
                    }
                };
                now[state] = reach + log(t, state);
            }
        }
        let last = &forward[(frames - 1) * states..];
        let total = if states > 1 { log_add(last[states - 1], last[states - 2]) } else { last[0] };
        let Some(grad) = grad else { return -total };
        grad[frames * s.classes..].fill(T::default());
        beta.fill(never);
        beta[states.saturating_sub(2)..].fill(T::Acc::zero());
        for t in (0..frames).rev() {
            shares.fill(T::Acc::zero());
            for state in 0..states {
                shares[class(state)] += (forward[t * states + state] + beta[state] - total).exponential();
            }
            let row = t * s.classes..(t + 1) * s.classes;
            for ((grad, log), share) in grad[row.clone()].iter_mut().zip(&logs[row]).zip(&*shares) {
                *grad = (log.exponential() - *share).store();
            }
            // What follows from each state of the frame before.
            next.copy_from_slice(beta);
            for state in 0..states {
                let mut reach = next[state] + log(t, state);
                if state + 1 < states {
                    reach = log_add(reach, next[state + 1] + log(t, state + 1));
                }
                if state + 2 < states && skips(state + 2) {
                    reach = log_add(reach, next[state + 2] + log(t, state + 2));
                }
                beta[state] = reach;
            }
        }
        -total
    })
}

/// `x_grad` (frames, batch, classes) from the gradient of each loss and the gradients that [`ctc_loss`] stored.
///
/// # Panics
/// When the lengths do not fit.
pub fn ctc_loss_backward<T: Real>(s: &CtcShape, loss_grad: &[T], grad: &[T], x_grad: &mut [T]) {
    assert_eq!([grad.len(), x_grad.len()], [s.frames * s.batch * s.classes; 2], "gradients of {s:?}");
    let grain = (1usize << 14).div_ceil(s.classes.max(1));
    crate::par::parallel_rows(x_grad, s.classes, grain, |row, to| {
        let (t, n) = (row / s.batch, row % s.batch);
        let head = T::Acc::of(loss_grad[n]);
        let from = &grad[(n * s.frames + t) * s.classes..];
        to.iter_mut().zip(from).for_each(|(to, from)| *to = (head * T::Acc::of(*from)).store());
    });
}
