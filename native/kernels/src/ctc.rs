//! Connectionist temporal classification (Graves et al., "Connectionist temporal classification: labelling unsegmented
//! sequence data with recurrent neural networks", 2006).

use crate::float::{Accum, FloatElement, with_wide};
use crate::par::{parallel_rows2, with_scratch};
use crate::softmax::row;
use num_traits::{Float, One, Zero};

/// Sizes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtcShape {
    /// Maximum number of frames.
    pub frames: usize,
    /// Number of sequences.
    pub batch: usize,
    /// Number of classes, including the blank.
    pub classes: usize,
    /// Index of the blank class.
    pub blank: usize,
}

/// Computes the loss of each sequence, the negative log probability of its labels, from scores `x` (frames, batch, classes), to which
/// softmax is applied. Unless `grad` is empty, also stores the gradient of the loss with respect to the scores, as (batch,
/// frames, classes). Frames past the length of a sequence are ignored. Sequences with more labels than their frames allow have loss
/// and gradient 0.
///
/// # Panics
/// Panics if the lengths do not match, a length exceeds the frames, or a label is not a class.
pub fn ctc_loss<T: FloatElement>(
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
    let mut unused = vec![T::default(); if grad.is_empty() { s.batch } else { 0 }];
    let (grad, row_len) = if grad.is_empty() { (&mut unused[..], 1) } else { (grad, plane) };
    parallel_rows2((loss, 1), (grad, row_len), 1, |n, loss, grad| {
        with_scratch(plane + row::scratch_len(s.classes), |buffer: &mut [T::Acc]| {
            let (logs, exps) = buffer.split_at_mut(plane);
            for (t, logs) in logs.chunks_exact_mut(s.classes.max(1)).enumerate() {
                let x = &x[(t * s.batch + n) * s.classes..][..s.classes];
                let params = row::Params { is_log: true, sign: T::Acc::one(), inv_temperature: T::Acc::one() };
                with_wide(x, |x| row::forward(params, x, &[], exps, logs));
            }
            let grad = if row_len == plane { Some(grad) } else { None };
            loss[0] = sequence_loss::<T>(s, logs, &labels[n], lengths[n], grad).store();
        });
    });
}

/// The transitions to each state: a log-sum-exp over three predecessors.
struct Paths<'a, A> {
    /// Log probabilities of the predecessors. `penalty` is added to the third one, which skips a state.
    from: [&'a [A]; 3],
    /// Zero where a state may be skipped, otherwise negative infinity.
    penalty: &'a [A],
    /// Added to the result.
    log_scale: &'a [A],
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// `to = log(e^a + e^b + e^(c + penalty)) + log_scale`.
    fn log_sum_exp<A: Accum>(paths: &Paths<'_, A>, to: &mut [A]) {
        let n = to.len();
        let [a, b, c] = paths.from.map(|x| &x[..n]);
        let (penalty, log_scale) = (&paths.penalty[..n], &paths.log_scale[..n]);
        for i in 0..n {
            let c = c[i] + penalty[i];
            let largest = if a[i] > b[i] { a[i] } else { b[i] };
            let largest = if c > largest { c } else { largest };
            let base = if largest == A::neg_infinity() { A::zero() } else { largest };
            let sum = (a[i] - base).exponential() + (b[i] - base).exponential() + (c - base).exponential();
            to[i] = base + sum.logarithm() + log_scale[i];
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// The posterior probabilities of the states, from forward and backward variables: `to = e^(a + b - total)`.
    fn posteriors_of<A: Accum>(a: &[A], b: &[A], total: A, to: &mut [A]) {
        for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
            *to = (*a + *b - total).exponential();
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The gradient of a frame: the probability of each class minus its posterior.
    fn frame_gradient<T: FloatElement>(logs: &[T::Acc], class_posteriors: &[T::Acc], grad: &mut [T]) {
        for (grad, (log, posterior)) in grad.iter_mut().zip(logs.iter().zip(class_posteriors)) {
            *grad = (log.exponential() - *posterior).store();
        }
    }
}

/// The loss of one sequence, and its gradient.
fn sequence_loss<T: FloatElement>(
    s: &CtcShape,
    logs: &[T::Acc],
    labels: &[usize],
    frames: usize,
    grad: Option<&mut [T]>,
) -> T::Acc {
    assert!(frames <= s.frames && labels.iter().all(|l| *l < s.classes), "labels and frames of {s:?}");
    let repeats = labels.windows(2).filter(|w| w[0] == w[1]).count();
    if frames == 0 || labels.len() + repeats > frames {
        if let Some(grad) = grad {
            grad.fill(T::default());
        }
        return T::Acc::zero();
    }
    // The states are a blank, then each label followed by a blank.
    let states = 2 * labels.len() + 1;
    let class = |state: usize| if state.is_multiple_of(2) { s.blank } else { labels[state / 2] };
    let is_distinct_label = |state: usize| class(state) != s.blank && class(state) != class(state - 2);
    let can_skip_blank = |state: usize| state >= 3 && state % 2 == 1 && is_distinct_label(state);
    let log_zero = T::Acc::neg_infinity();
    // Two unreachable states precede the first one, so that every state has two predecessors.
    let width = states + 2;
    with_scratch(frames * (width + states) + 2 * width, |buffer: &mut [T::Acc]| {
        let (forward, rest) = buffer.split_at_mut(frames * width);
        let (emissions, rest) = rest.split_at_mut(frames * states);
        let (penalty, first) = rest.split_at_mut(width);
        penalty.fill(log_zero);
        (0..states).filter(|state| can_skip_blank(*state)).for_each(|state| penalty[state] = T::Acc::zero());
        for (t, emissions) in emissions.chunks_exact_mut(states).enumerate() {
            emissions.iter_mut().enumerate().for_each(|(state, log)| *log = logs[t * s.classes + class(state)]);
        }
        forward_recursion(emissions, penalty, first, forward);
        let last = &forward[(frames - 1) * width..];
        let total = log_add(last[width - 1], last[width - 2]);
        match grad {
            Some(grad) if total != log_zero => {
                let lattice = Lattice { logs, emissions, forward, total, penalty };
                gradient(s, &lattice, &class, grad);
            }
            // A label that equals the blank cannot be skipped, so there may be no path.
            Some(grad) => grad.fill(T::default()),
            None => {}
        }
        -total
    })
}

/// Computes the forward variables of all frames, (frames, 2 + states). `first` is a buffer for those before the first frame.
fn forward_recursion<A: Accum>(emissions: &[A], penalty: &[A], first: &mut [A], forward: &mut [A]) {
    let width = penalty.len();
    let states = width - 2;
    let log_zero = A::neg_infinity();
    first.fill(log_zero);
    // Before the first frame, all paths are in the second unreachable state.
    first[1] = A::zero();
    for (t, emissions) in emissions.chunks_exact(states).enumerate() {
        let (before, now) = forward.split_at_mut(t * width);
        let before = if t == 0 { &*first } else { &before[(t - 1) * width..] };
        let now = &mut now[..width];
        now[..2].fill(log_zero);
        let from = [&before[2..], &before[1..], before];
        log_sum_exp(&Paths { from, penalty, log_scale: emissions }, &mut now[2..]);
        if t == 0 && states > 1 {
            now[3] = emissions[1];
        }
    }
}

/// log(e^a + e^b).
fn log_add<A: Accum>(a: A, b: A) -> A {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == A::neg_infinity() { high } else { high + (low - high).exponential().ln_1p() }
}

/// What the forward recursion of a sequence has computed. Two unreachable states precede each row of states, except in `emissions`.
struct Lattice<'a, A> {
    /// Log probabilities of the classes, (frames, classes).
    logs: &'a [A],
    /// Log probabilities of the classes of the states, (frames, states).
    emissions: &'a [A],
    /// Forward variables, (frames, 2 + states).
    forward: &'a [A],
    /// Log probability of the labels: the sum over all paths.
    total: A,
    /// See [`Paths::penalty`].
    penalty: &'a [A],
}

/// The gradient of the loss, by the backward recursion. `class` returns the class of a state.
fn gradient<T: FloatElement>(
    s: &CtcShape,
    lattice: &Lattice<'_, T::Acc>,
    class: &impl Fn(usize) -> usize,
    grad: &mut [T],
) {
    let Lattice { logs, emissions, forward, total, penalty } = *lattice;
    let width = penalty.len();
    let states = width - 2;
    let frames = forward.len() / width;
    let log_zero = T::Acc::neg_infinity();
    grad[frames * s.classes..].fill(T::default());
    with_scratch(3 * states + width + s.classes, |buffer: &mut [T::Acc]| {
        let (beta, rest) = buffer.split_at_mut(states);
        let (posterior, rest) = rest.split_at_mut(states);
        let (zeros, rest) = rest.split_at_mut(states);
        let (next, class_posteriors) = rest.split_at_mut(width);
        zeros.fill(T::Acc::zero());
        next.fill(log_zero);
        beta.fill(log_zero);
        beta[states.saturating_sub(2)..].fill(T::Acc::zero());
        for t in (0..frames).rev() {
            posteriors_of(&forward[t * width + 2..], beta, total, posterior);
            class_posteriors.fill(T::Acc::zero());
            posterior.iter().enumerate().for_each(|(state, posterior)| class_posteriors[class(state)] += *posterior);
            let row = t * s.classes..(t + 1) * s.classes;
            frame_gradient(&logs[row.clone()], class_posteriors, &mut grad[row]);
            // The backward variables of the previous frame.
            let emissions = &emissions[t * states..][..states];
            next.iter_mut().zip(&*beta).zip(emissions).for_each(|((next, beta), log)| *next = *beta + *log);
            let from = [&*next, &next[1..], &next[2..]];
            log_sum_exp(&Paths { from, penalty: &penalty[2..], log_scale: zeros }, beta);
        }
    });
}

/// `x_grad` (frames, batch, classes) from the gradient of each loss and the gradients that [`ctc_loss`] stored.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn ctc_loss_backward<T: FloatElement>(s: &CtcShape, loss_grad: &[T], grad: &[T], x_grad: &mut [T]) {
    assert_eq!([grad.len(), x_grad.len()], [s.frames * s.batch * s.classes; 2], "gradients of {s:?}");
    let grain = (1usize << 14).div_ceil(s.classes.max(1));
    crate::par::parallel_rows(x_grad, s.classes, grain, |row, to| {
        let (t, n) = (row / s.batch, row % s.batch);
        let scale = T::Acc::of(loss_grad[n]);
        let from = &grad[(n * s.frames + t) * s.classes..];
        to.iter_mut().zip(from).for_each(|(to, from)| *to = (scale * T::Acc::of(*from)).store());
    });
}
