//! Convolutions whose stride exceeds the extent of the kernel along an axis, so that no window reads the elements in between. The
//! gradients are computed on a copy of the elements that the windows read.

use super::ConvShape;
use crate::float::Accum;
use crate::par::{List, parallel_rows};

/// Marks a coordinate in the padding.
const PADDING: usize = usize::MAX;

/// The convolution of a copy without the gaps.
pub(super) struct Compact {
    pub(super) shape: ConvShape,
    /// For each axis, the input coordinate of each coordinate of the copy.
    coordinates: [List<usize>; 3],
}

impl Compact {
    /// `None` if there are no gaps, or too few to pay for the copy.
    pub(super) fn new(shape: &ConvShape) -> Option<Compact> {
        let has_gaps = |d: usize| shape.kernel[d] > 0 && shape.stride[d] > shape.dilate[d] * (shape.kernel[d] - 1) + 1;
        if !(0..3).any(has_gaps) {
            return None;
        }
        let output = shape.output();
        let mut inner = *shape;
        let coordinates = std::array::from_fn(|d| {
            if !has_gaps(d) {
                return (0..shape.input[d]).collect();
            }
            let kernel = shape.kernel[d];
            (inner.input[d], inner.stride[d], inner.pad[d], inner.dilate[d]) = (output[d] * kernel, kernel, 0, 1);
            (0..inner.input[d])
                .map(|i| {
                    let padded = i / kernel * shape.stride[d] + i % kernel * shape.dilate[d];
                    padded.checked_sub(shape.pad[d]).filter(|x| *x < shape.input[d]).unwrap_or(PADDING)
                })
                .collect()
        });
        let is_profitable = 2 * inner.input_plane() <= shape.input_plane();
        is_profitable.then_some(Compact { shape: inner, coordinates })
    }

    /// Copies the elements that the windows of a convolution of shape `full` read.
    pub(super) fn gather<T: Accum>(&self, full: &ConvShape, input: &[T], to: &mut [T]) {
        parallel_rows(to, self.shape.input_plane(), 1, |i, to| {
            let from = &input[i * full.input_plane()..][..full.input_plane()];
            self.each_row(full, |start, row| {
                let to = &mut to[row..row + self.shape.input[2]];
                match start {
                    None => to.fill(T::zero()),
                    Some(start) => to.iter_mut().zip(&*self.coordinates[2]).for_each(|(to, x)| {
                        *to = if *x == PADDING { T::zero() } else { from[start + x] };
                    }),
                }
            });
        });
    }

    /// The inverse of [`Compact::gather`]. Elements that no window reads are zero.
    pub(super) fn scatter<T: Accum>(&self, full: &ConvShape, from: &[T], input: &mut [T]) {
        parallel_rows(input, full.input_plane(), 1, |i, to| {
            let from = &from[i * self.shape.input_plane()..][..self.shape.input_plane()];
            to.fill(T::zero());
            self.each_row(full, |start, row| {
                let Some(start) = start else { return };
                let row = &from[row..row + self.shape.input[2]];
                for (x, from) in self.coordinates[2].iter().zip(row).filter(|(x, _)| **x != PADDING) {
                    to[start + x] = *from;
                }
            });
        });
    }

    /// Calls `f(input, copy)` for each row of a plane of the copy, with the offset of the input row, or `None` in the padding, and
    /// the offset of its copy.
    fn each_row(&self, full: &ConvShape, mut f: impl FnMut(Option<usize>, usize)) {
        let [_, height, width] = full.input;
        let rows = self.coordinates[0].iter().flat_map(|d| self.coordinates[1].iter().map(move |h| (*d, *h)));
        for (row, (d, h)) in rows.enumerate() {
            let start = (d != PADDING && h != PADDING).then(|| (d * height + h) * width);
            f(start, row * self.shape.input[2]);
        }
    }
}
