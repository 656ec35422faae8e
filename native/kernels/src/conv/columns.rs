//! The windows of a convolution as columns of a matrix, and their sum back into an image.

use super::ConvShape;
use crate::float::{Accum, Real};
use crate::par::{parallel_rows, with_scratch};
use num_traits::Zero;

/// Elements that make a chunk of parallel work.
const CHUNK: usize = 1 << 14;
/// Lines up to this length are copied faster element by element than by a call.
const SHORT: usize = 16;

/// The elements of a line of a plane that a tap reads for a line of outputs.
struct Line {
    /// The line of outputs.
    output: usize,
    /// The first output for which the tap lies in the plane, and the end of those.
    inside: std::ops::Range<usize>,
    /// The element that the first of them reads; the next ones are a stride further.
    first: usize,
}

impl ConvShape {
    /// The lines of a plane that tap `tap` reads, for each line of outputs.
    fn lines(&self, tap: usize) -> impl Iterator<Item = Line> + use<> {
        let (shape, [depth, height, width]) = (*self, self.output());
        let [_, kernel_height, kernel_width] = self.kernel;
        let tap = [tap / (kernel_height * kernel_width), tap / kernel_width % kernel_height, tap % kernel_width];
        let place = move |axis: usize, output: usize| {
            let at = output * shape.stride[axis] + tap[axis] * shape.dilate[axis];
            at.checked_sub(shape.pad[axis]).filter(|at| *at < shape.input[axis])
        };
        (0..depth * height).map(move |output| {
            let row = place(0, output / height).zip(place(1, output % height)).map(|(d, h)| d * shape.input[1] + h);
            let mut inside = (0..width).filter(|i| place(2, *i).is_some());
            let first = inside.next();
            let (row, first) = match (row, first) {
                (Some(row), Some(first)) => (row, first),
                _ => return Line { output, inside: 0..0, first: 0 },
            };
            let count = 1 + inside.count();
            Line { output, inside: first..first + count, first: row * shape.input[2] + place(2, first).unwrap_or(0) }
        })
    }
}

/// Writes the windows of each image as a matrix: (batch, channels x taps, outputs), zeros where a tap lies in the padding.
/// The numbers of groups and of output channels play no role.
///
/// # Panics
/// When the lengths do not fit.
pub fn im2col<T: Real>(shape: &ConvShape, x: &[T], columns: &mut [T]) {
    let (taps, pixels, plane, width) = (shape.taps(), shape.output_plane(), shape.input_plane(), shape.output()[2]);
    assert_eq!(x.len(), shape.input_len(), "elements of the images of {shape:?}");
    assert_eq!(columns.len(), shape.batch * shape.in_channels * taps * pixels, "elements of the columns of {shape:?}");
    let lines: Vec<Vec<Line>> = (0..taps).map(|tap| shape.lines(tap).collect()).collect();
    parallel_rows(columns, pixels, CHUNK.div_ceil(pixels.max(1)), |row, columns| {
        let image = &x[row / taps * plane..][..plane];
        for line in &lines[row % taps] {
            let to = &mut columns[line.output * width..(line.output + 1) * width];
            to[..line.inside.start].fill(T::default());
            to[line.inside.end..].fill(T::default());
            let to = &mut to[line.inside.clone()];
            if shape.stride[2] == 1 && to.len() > SHORT {
                to.copy_from_slice(&image[line.first..][..to.len()]);
            } else {
                let from = image[line.first..].iter().step_by(shape.stride[2]);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    });
}

#[inline]
fn add_line<T: Real>(from: &[T], to: &mut [T::Acc]) {
    to.iter_mut().zip(from).for_each(|(sum, from)| *sum += T::Acc::of(*from));
}

/// Adds each element of the windows to the pixel that it comes from: the gradient of [`im2col`].
///
/// # Panics
/// When the lengths do not fit.
pub fn col2im<T: Real>(shape: &ConvShape, columns: &[T], x: &mut [T]) {
    let (taps, pixels, plane, width) = (shape.taps(), shape.output_plane(), shape.input_plane(), shape.output()[2]);
    assert_eq!(x.len(), shape.input_len(), "elements of the images of {shape:?}");
    assert_eq!(columns.len(), shape.batch * shape.in_channels * taps * pixels, "elements of the columns of {shape:?}");
    let lines: Vec<Vec<Line>> = (0..taps).map(|tap| shape.lines(tap).collect()).collect();
    parallel_rows(x, plane, CHUNK.div_ceil((plane + taps * pixels).max(1)), |channel, x| {
        with_scratch(plane, |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::zero());
            for (tap, lines) in lines.iter().enumerate() {
                let columns = &columns[(channel * taps + tap) * pixels..][..pixels];
                for line in lines {
                    let from = &columns[line.output * width..][line.inside.clone()];
                    if shape.stride[2] == 1 {
                        add_line(from, &mut sums[line.first..][..from.len()]);
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
