//! Batches of sequences of different lengths: masking, the last time step, reversal (MXNet's `SequenceMask` and so on).

use crate::movement::Item;
use crate::par::parallel_rows;

/// Elements per chunk.
const GRAIN: usize = 1 << 15;

/// A batch of sequences: (steps, batch, inner), or (batch, steps, inner) if `batch_first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Maximum sequence length.
    pub steps: usize,
    /// Number of sequences.
    pub batch: usize,
    /// Elements per time step.
    pub inner: usize,
    /// True if the first axis is the batch, false if it is time.
    pub batch_first: bool,
}

impl Sequences {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.steps * self.batch * self.inner
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of a row of `inner` elements.
    fn row(&self, step: usize, sequence: usize) -> usize {
        if self.batch_first { sequence * self.steps + step } else { step * self.batch + sequence }
    }

    /// Elements per index of the first axis.
    fn stride(&self) -> usize {
        if self.batch_first { self.steps * self.inner } else { self.batch * self.inner }
    }

    fn check(&self, lengths: &[usize], slices: &[usize]) {
        assert_eq!(lengths.len(), self.batch, "lengths of {self:?}");
        assert!(slices.iter().all(|len| *len == self.len()), "{slices:?} elements of {self:?}");
    }
}

/// Copies the time steps within the length of each sequence, and sets the others to `value`.
///
/// # Panics
/// Panics if the slice lengths do not match.
pub fn sequence_mask<T: Item>(shape: &Sequences, lengths: &[usize], value: T, x: &[T], y: &mut [T]) {
    shape.check(lengths, &[x.len(), y.len()]);
    let (stride, inner) = (shape.stride(), shape.inner);
    parallel_rows(y, stride, GRAIN.div_ceil(stride.max(1)), |i, y| {
        let x = &x[i * stride..(i + 1) * stride];
        if shape.batch_first {
            let kept = lengths[i].min(shape.steps) * inner;
            y[..kept].copy_from_slice(&x[..kept]);
            y[kept..].fill(value);
        } else if inner == 1 {
            for ((y, x), length) in y.iter_mut().zip(x).zip(lengths) {
                *y = if i < *length { *x } else { value };
            }
        } else {
            for ((y, x), length) in y.chunks_exact_mut(inner).zip(x.chunks_exact(inner)).zip(lengths) {
                if i < *length { y.copy_from_slice(x) } else { y.fill(value) }
            }
        }
    });
}

/// Reverses the time steps within the length of each sequence; the others are copied.
///
/// # Panics
/// Panics if the slice lengths do not match or a length exceeds the number of time steps.
pub fn sequence_reverse<T: Item>(shape: &Sequences, lengths: &[usize], x: &[T], y: &mut [T]) {
    shape.check(lengths, &[x.len(), y.len()]);
    let (stride, inner) = (shape.stride(), shape.inner.max(1));
    parallel_rows(y, stride, GRAIN.div_ceil(stride.max(1)), |i, y| {
        for (j, y) in y.chunks_exact_mut(inner).enumerate() {
            let (step, sequence) = if shape.batch_first { (j, i) } else { (i, j) };
            let from = if step < lengths[sequence] { lengths[sequence] - 1 - step } else { step };
            let start = shape.row(from, sequence) * inner;
            if inner == 1 { y[0] = x[start] } else { y.copy_from_slice(&x[start..start + inner]) }
        }
    });
}

/// Copies the last time step of each sequence: (batch, inner).
///
/// # Panics
/// Panics if the slice lengths do not match, or a length is zero or exceeds the number of time steps.
pub fn sequence_last<T: Item>(shape: &Sequences, lengths: &[usize], x: &[T], y: &mut [T]) {
    shape.check(lengths, &[x.len()]);
    let inner = shape.inner;
    parallel_rows(y, inner, GRAIN.div_ceil(inner.max(1)), |sequence, y| {
        let start = shape.row(lengths[sequence] - 1, sequence) * inner;
        y.copy_from_slice(&x[start..start + inner]);
    });
}

/// The gradient of [`sequence_last`]: `y_grad` at the last time step of each sequence, zeros elsewhere.
///
/// # Panics
/// As [`sequence_last`].
pub fn sequence_last_backward<T: Item>(shape: &Sequences, lengths: &[usize], y_grad: &[T], x_grad: &mut [T]) {
    shape.check(lengths, &[x_grad.len()]);
    let inner = shape.inner;
    x_grad.fill(T::default());
    for (sequence, (grad, length)) in y_grad.chunks_exact(inner.max(1)).zip(lengths).enumerate() {
        let start = shape.row(length - 1, sequence) * inner;
        x_grad[start..start + inner].copy_from_slice(grad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_reverse_and_last_in_both_layouts() {
        let lengths = [1, 3];
        let x: Vec<u32> = (0..12).collect();
        let (mut y, mut last) = (vec![99; 12], vec![0; 4]);
        let steps_first = Sequences { steps: 3, batch: 2, inner: 2, batch_first: false };
        sequence_mask(&steps_first, &lengths, 99, &x, &mut y);
        assert_eq!(y, [0, 1, 2, 3, 99, 99, 6, 7, 99, 99, 10, 11]);
        sequence_reverse(&steps_first, &lengths, &x, &mut y);
        assert_eq!(y, [0, 1, 10, 11, 4, 5, 6, 7, 8, 9, 2, 3]);
        sequence_last(&steps_first, &lengths, &x, &mut last);
        assert_eq!(last, [0, 1, 10, 11]);
        let batch_first = Sequences { batch_first: true, ..steps_first };
        sequence_mask(&batch_first, &lengths, 99, &x, &mut y);
        assert_eq!(y, [0, 1, 99, 99, 99, 99, 6, 7, 8, 9, 10, 11]);
        sequence_reverse(&batch_first, &lengths, &x, &mut y);
        assert_eq!(y, [0, 1, 2, 3, 4, 5, 10, 11, 8, 9, 6, 7]);
        sequence_last_backward(&batch_first, &lengths, &[1, 2, 3, 4], &mut y);
        assert_eq!(y, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4]);
    }
}
