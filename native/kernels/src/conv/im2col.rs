//! The windows of a convolution as columns of a matrix (im2col), and its gradient (col2im).

use super::ConvShape;
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use num_traits::Zero;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;
/// Rows up to this length are copied faster by a loop than by a call of `memcpy`.
const SHORT_ROW: usize = 16;

/// The input elements that a tap reads for one row of outputs.
struct Row {
    /// Index of the output row.
    output_row: usize,
    /// The outputs of the row for which the tap is not in the padding.
    outputs: std::ops::Range<usize>,
    /// Offset of the element that the first of these outputs reads; the others follow at the stride.
    first: usize,
}

impl ConvShape {
    /// The input rows that `tap` reads, one per row of outputs.
    fn rows(&self, tap: usize) -> impl Iterator<Item = Row> + use<> {
        let (shape, [depth, height, width]) = (*self, self.output());
        let [_, kernel_height, kernel_width] = self.kernel;
        let tap = [tap / (kernel_height * kernel_width), tap / kernel_width % kernel_height, tap % kernel_width];
        let coordinate = move |axis: usize, output: usize| {
            let padded = output * shape.stride[axis] + tap[axis] * shape.dilate[axis];
            padded.checked_sub(shape.pad[axis]).filter(|x| *x < shape.input[axis])
        };
        (0..depth * height).map(move |output_row| {
            let row = coordinate(0, output_row / height)
                .zip(coordinate(1, output_row % height))
                .map(|(d, h)| d * shape.input[1] + h);
            let mut outputs = (0..width).filter(|i| coordinate(2, *i).is_some());
            let first = outputs.next();
            let (row, first) = match (row, first) {
                (Some(row), Some(first)) => (row, first),
                _ => return Row { output_row, outputs: 0..0, first: 0 },
            };
            let count = 1 + outputs.count();
            Row {
                output_row,
                outputs: first..first + count,
                first: row * shape.input[2] + coordinate(2, first).unwrap_or(0),
            }
        })
    }
}

/// Writes the windows of the images, (batch, channels x taps, outputs), with zeros for taps in the padding. `groups` and
/// `out_channels` are ignored.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn im2col<T: FloatElement>(shape: &ConvShape, x: &[T], columns: &mut [T]) {
    let (taps, pixels, plane, width) = (shape.taps(), shape.output_plane(), shape.input_plane(), shape.output()[2]);
    assert_eq!(x.len(), shape.input_len(), "elements of the images of {shape:?}");
    assert_eq!(columns.len(), shape.batch * shape.in_channels * taps * pixels, "elements of the columns of {shape:?}");
    let rows: Vec<Vec<Row>> = (0..taps).map(|tap| shape.rows(tap).collect()).collect();
    parallel_rows(columns, pixels, GRAIN.div_ceil(pixels.max(1)), |row, columns| {
        let image = &x[row / taps * plane..][..plane];
        for line in &rows[row % taps] {
            let to = &mut columns[line.output_row * width..(line.output_row + 1) * width];
            to[..line.outputs.start].fill(T::default());
            to[line.outputs.end..].fill(T::default());
            let to = &mut to[line.outputs.clone()];
            if shape.stride[2] == 1 && to.len() > SHORT_ROW {
                to.copy_from_slice(&image[line.first..][..to.len()]);
            } else {
                let from = image[line.first..].iter().step_by(shape.stride[2]);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    });
}

#[inline]
fn add_row<T: FloatElement>(from: &[T], to: &mut [T::Acc]) {
    to.iter_mut().zip(from).for_each(|(sum, from)| *sum += T::Acc::of(*from));
}

/// The gradient of [`im2col`]: for each pixel, the sum of the window elements that were read from it.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn col2im<T: FloatElement>(shape: &ConvShape, columns: &[T], x: &mut [T]) {
    let (taps, pixels, plane, width) = (shape.taps(), shape.output_plane(), shape.input_plane(), shape.output()[2]);
    assert_eq!(x.len(), shape.input_len(), "elements of the images of {shape:?}");
    assert_eq!(columns.len(), shape.batch * shape.in_channels * taps * pixels, "elements of the columns of {shape:?}");
    let rows: Vec<Vec<Row>> = (0..taps).map(|tap| shape.rows(tap).collect()).collect();
    parallel_rows(x, plane, GRAIN.div_ceil((plane + taps * pixels).max(1)), |channel, x| {
        with_scratch(plane, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            for (tap, rows) in rows.iter().enumerate() {
                let columns = &columns[(channel * taps + tap) * pixels..][..pixels];
                for line in rows {
                    let from = &columns[line.output_row * width..][line.outputs.clone()];
                    if shape.stride[2] == 1 {
                        add_row(from, &mut sums[line.first..][..from.len()]);
                        continue;
                    }
                    let to = sums[line.first..].iter_mut().step_by(shape.stride[2]);
                    to.zip(from).for_each(|(sum, from)| *sum += T::Acc::of(*from));
                }
            }
            x.iter_mut().zip(&*sums).for_each(|(x, sum)| *x = sum.store());
        });
    });
}
