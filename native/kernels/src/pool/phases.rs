//! The polyphase decomposition of input rows by the stride.

use super::Axis;
use crate::par::Pod;
use smallvec::SmallVec;

/// Outputs that are computed together, in vector registers.
pub(super) const BLOCK: usize = 16;

/// A padded row, split into as many phases as the stride: phase `p` has the coordinates `p`, `p + stride`, … of the padded row. The
/// elements at one offset of successive windows are then contiguous, also at the borders.
pub(super) struct Phases {
    axis: Axis,
    /// Elements of a phase, a multiple of [`BLOCK`].
    len: usize,
    /// For each offset into a window, the index of its element in the first window.
    pub(super) starts: SmallVec<[usize; 8]>,
}

impl Phases {
    pub(super) fn new(axis: Axis) -> Phases {
        let windows = axis.output.next_multiple_of(BLOCK) + axis.kernel.saturating_sub(1) / axis.stride;
        let len = windows.max((axis.input + axis.pad).div_ceil(axis.stride)).next_multiple_of(BLOCK);
        let starts = (0..axis.kernel).map(|offset| offset % axis.stride * len + offset / axis.stride).collect();
        Phases { axis, len, starts }
    }

    /// Elements of a split row.
    pub(super) fn row_len(&self) -> usize {
        self.axis.stride * self.len
    }

    /// The range of a row in a split row that keeps its order, if the stride is 1.
    pub(super) fn whole_row(&self) -> Option<std::ops::Range<usize>> {
        (self.axis.stride == 1).then(|| self.axis.pad..self.axis.pad + self.axis.input)
    }

    /// For each phase, the index of its first element within the row, and the coordinate of that element.
    fn firsts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let Axis { input, stride, pad, .. } = self.axis;
        let first = move |phase: usize| pad.saturating_sub(phase).div_ceil(stride);
        (0..stride)
            .map(move |phase| (phase * self.len + first(phase), phase + first(phase) * stride - pad))
            .filter(move |(_, coordinate)| *coordinate < input)
    }

    /// Splits `row`; the padding elements are left unchanged.
    #[inline(always)]
    pub(super) fn split<A: Pod>(&self, row: &[A], phases: &mut [A]) {
        for (first, coordinate) in self.firsts() {
            let row = &row[coordinate..self.axis.input];
            let to = phases[first..][..row.len().div_ceil(self.axis.stride)].iter_mut();
            super::strided::each_strided(row, self.axis.stride, to, |_, x, to| *to = x);
        }
    }

    /// Joins the phases to the `row`-th row of `rows`.
    #[inline(always)]
    pub(super) fn join<A: Pod>(&self, phases: &[A], row: usize, rows: &mut [A]) {
        let Axis { input, stride, pad, .. } = self.axis;
        let row = &mut rows[row * input..(row + 1) * input];
        match stride {
            1 => row.copy_from_slice(&phases[pad..pad + input]),
            2 => {
                let phase = |coordinate: usize| &phases[(coordinate + pad) % 2 * self.len + (coordinate + pad) / 2..];
                let (pairs, last) = row.as_chunks_mut::<2>();
                let (even, odd) = (&phase(0)[..pairs.len()], &phase(1)[..pairs.len()]);
                for ((pair, even), odd) in pairs.iter_mut().zip(even).zip(odd) {
                    *pair = [*even, *odd];
                }
                last.copy_from_slice(&phase(0)[pairs.len()..][..last.len()]);
            }
            _ => {
                for (first, coordinate) in self.firsts() {
                    let row = row[coordinate..].iter_mut().step_by(stride);
                    row.zip(&phases[first..]).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// The number of zeros before the outputs in the rows that [`Self::scatter`] takes.
    pub(super) fn lead(&self) -> usize {
        self.axis.kernel.saturating_sub(1) / self.axis.stride
    }

    /// Elements of the rows that [`Self::scatter`] takes.
    pub(super) fn scatter_len(&self) -> usize {
        self.lead() + self.len
    }

    /// Adds to every element of a split row the terms of the windows that contain it, in the order of the windows.
    /// `add(offset, start, elements)` adds the terms of successive windows to their elements at `offset`. `start` is the index of the
    /// first of them in a row with [`Self::lead`] elements before window 0; terms without a window must be zero.
    #[inline(always)]
    pub(super) fn scatter<A>(&self, phases: &mut [A], add: impl Fn(usize, usize, &mut [A])) {
        let Axis { kernel, stride, .. } = self.axis;
        for (phase, to) in phases.chunks_exact_mut(self.len).enumerate().take(kernel) {
            for m in (0..=(kernel - 1 - phase) / stride).rev() {
                add(phase + m * stride, self.lead() - m, to);
            }
        }
    }
}

/// Copies [`BLOCK`] elements.
#[inline(always)]
pub(super) fn block<A: Pod>(xs: &[A], start: usize) -> [A; BLOCK] {
    let xs = &xs[start..start + BLOCK];
    std::array::from_fn(|i| xs[i])
}
