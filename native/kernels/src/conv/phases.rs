//! The phases by which strided convolutions compute the gradient of the input, and the bands of rows that divide an image.
//!
//! With a stride of s, input elements whose padded coordinates are equal modulo s form a phase: they are read by the same taps,
//! from neighboring outputs. So the gradient of each phase is a convolution of the output's gradient with stride 1.

use super::ConvShape;
use super::geometry::Geometry;
use crate::par::{List, MatMut, num_threads};
use smallvec::SmallVec;

/// One value per phase: inline for strides up to 2 x 2.
pub(super) type PerPhase<T> = SmallVec<[T; 4]>;

/// The convolution that computes the gradient of one phase of the input.
pub(super) struct Phase {
    pub geometry: Geometry,
    /// Coordinates of the first element of the phase; the others follow at the stride.
    pub first: [usize; 3],
    /// The taps of the kernel that read the phase.
    pub taps: List<usize>,
    /// Where the packed weights of the phase start among those of all phases.
    pub weights_start: usize,
}

/// The phases of the input, one per residue of the stride.
pub(super) fn phases(shape: &ConvShape) -> PerPhase<Phase> {
    let count: [usize; 3] = std::array::from_fn(|d| shape.stride[d].min(shape.input[d]));
    (0..count.iter().product())
        .map(|i| {
            let first = [i / (count[1] * count[2]), i / count[2] % count[1], i % count[2]];
            phase(shape, first)
        })
        .collect()
}

fn phase(shape: &ConvShape, first: [usize; 3]) -> Phase {
    let mut phase = Phase {
        geometry: Geometry {
            grid: std::array::from_fn(|d| (shape.input[d] - first[d]).div_ceil(shape.stride[d])),
            source: shape.output(),
            stride: [1; 3],
            taps: List::default(),
        },
        first,
        taps: List::default(),
        weights_start: 0,
    };
    // The last tap first: outputs are then read in ascending order.
    for tap in (0..shape.taps()).rev() {
        let tap_index =
            [tap / (shape.kernel[1] * shape.kernel[2]), tap / shape.kernel[2] % shape.kernel[1], tap % shape.kernel[2]];
        // Padded coordinates of the window whose tap `tap` reads the first element of the phase.
        let window: [isize; 3] =
            std::array::from_fn(|d| (first[d] + shape.pad[d]) as isize - (tap_index[d] * shape.dilate[d]) as isize);
        if (0..3).all(|d| window[d] % shape.stride[d] as isize == 0) {
            phase.taps.push(tap);
            phase.geometry.taps.push(std::array::from_fn(|d| window[d] / shape.stride[d] as isize));
        }
    }
    phase
}

impl Phase {
    /// The first element of the input row that contains row `row` of the phase, counted through its planes of `height` rows.
    fn start(&self, shape: &ConvShape, row: usize, height: usize) -> usize {
        let d = self.first[0] + row / height * shape.stride[0];
        let h = self.first[1] + row % height * shape.stride[1];
        (d * shape.input[1] + h) * shape.input[2]
    }

    /// Scatters a row of gradients of the phase, which starts at grid pixel `pixel`, into a plane of the input.
    pub(super) fn scatter_row<T: Copy>(&self, shape: &ConvShape, pixel: usize, row: &[T], plane: &mut [T]) {
        let [_, height, width] = self.geometry.grid;
        let to = &mut plane[self.start(shape, pixel / width, height) + self.first[2]..];
        if shape.stride[2] == 1 {
            to[..width].copy_from_slice(row);
        } else {
            to.iter_mut().step_by(shape.stride[2]).zip(row).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Elements of a band's gradients that stay in the L2 cache.
const BAND_ELEMENTS: usize = 1 << 16;

/// How an image is divided among chunks: into bands of rows, unless it has several planes.
pub(super) struct Bands {
    /// Rows of each phase in a band.
    pub rows: usize,
    /// Largest number of rows of a phase.
    all_rows: usize,
    /// Longest row of a phase, times its planes.
    width: usize,
    /// Phases that are computed before their gradients are written: those of neighboring columns.
    pub side_by_side: usize,
}

impl Bands {
    pub(super) fn new(shape: &ConvShape, phases: &[Phase]) -> Self {
        let longest = |axis: usize| phases.iter().map(|phase| phase.geometry.grid[axis]).max().unwrap_or(0);
        let (planes, all_rows, width) = (longest(0), longest(1), longest(2));
        let side_by_side = if shape.stride[2] == 2 && shape.input[2] > 1 { 2 } else { 1 };
        let cached = BAND_ELEMENTS / (side_by_side * shape.in_channels * width).max(1);
        let shared = all_rows * shape.batch / (3 * num_threads());
        let most = if shape.input[0] > 1 || all_rows == 0 { all_rows } else { cached.min(shared).clamp(1, all_rows) };
        let rows = all_rows.div_ceil(all_rows.div_ceil(most.max(1)).max(1));
        Bands { rows, all_rows, width: width * planes, side_by_side }
    }

    /// Elements of a channel of the image in a band.
    pub(super) fn elements(&self, shape: &ConvShape) -> usize {
        if self.rows == self.all_rows { shape.input_plane() } else { self.rows * shape.stride[1] * shape.input[2] }
    }

    /// Length of the gradient of a phase in a band.
    pub(super) fn grad_len(&self, shape: &ConvShape) -> usize {
        shape.in_channels * self.rows * self.width
    }

    /// The first pixel of a phase in the band that starts with row `first_row` of the phases, and the number of its pixels.
    pub(super) fn pixels(&self, phase: &Phase, first_row: usize) -> (usize, usize) {
        let [planes, height, width] = phase.geometry.grid;
        let rows = first_row.min(height)..(first_row + self.rows).min(height);
        (rows.start * width, planes * rows.len() * width)
    }
}

/// The gradient of a phase in a band: (channels, pixels).
pub(super) struct PhaseGrad<'a, T> {
    pub phase: &'a Phase,
    pub grad: &'a [T],
    pub pixels: usize,
}

impl<T> PhaseGrad<'_, T> {
    fn row(&self, channel: usize, row: usize) -> &[T] {
        let width = self.phase.geometry.grid[2];
        &self.grad[channel * self.pixels + row * width..][..width]
    }
}

/// Writes the gradients of a phase, or those of two phases in neighboring columns, to a band of the image.
pub(super) fn scatter<T: Copy>(shape: &ConvShape, parts: &[PhaseGrad<'_, T>], band: &mut MatMut<'_, T>) {
    let Some(part) = parts.first() else { return };
    let [_, height, width] = part.phase.geometry.grid;
    let rows = part.pixels / width.max(1);
    for channel in 0..shape.in_channels {
        let plane = band.row_mut(channel);
        for row in 0..rows {
            match parts {
                [even, odd] => {
                    let start = part.phase.start(shape, row, height);
                    interleave(
                        even.row(channel, row),
                        odd.row(channel, row),
                        &mut plane[start..start + shape.input[2]],
                    );
                }
                _ => part.phase.scatter_row(shape, row * width, part.row(channel, row), plane),
            }
        }
    }
}

/// Writes the elements of `even` and `odd` alternately.
pub(super) fn interleave<T: Copy>(even: &[T], odd: &[T], to: &mut [T]) {
    let (pairs, last) = to.as_chunks_mut::<2>();
    for ((pair, even), odd) in pairs.iter_mut().zip(even).zip(odd) {
        *pair = [*even, *odd];
    }
    if let (Some(last), Some(value)) = (last.first_mut(), even.last()) {
        *last = *value;
    }
}
