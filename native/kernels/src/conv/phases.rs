//! The phases of the input, from which strided convolutions compute the gradient of the input.
//!
//! With a stride of s, input elements whose padded coordinates are equal modulo s form a phase: they are read by the same taps,
//! from neighbouring outputs. So the gradient of each phase is a convolution of the output's gradient with stride 1.

use super::ConvShape;
use super::geometry::Geometry;
use crate::par::List;
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
    /// Offset of the packed weights.
    pub weights: usize,
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
        weights: 0,
    };
    // Last tap first, which is ascending order of the outputs that the taps read.
    for tap in (0..shape.taps()).rev() {
        let tap_index =
            [tap / (shape.kernel[1] * shape.kernel[2]), tap / shape.kernel[2] % shape.kernel[1], tap % shape.kernel[2]];
        // Padded coordinates of the window whose tap `tap` is the first element of the phase.
        let window: [isize; 3] =
            std::array::from_fn(|d| (first[d] + shape.pad[d]) as isize - (tap_index[d] * shape.dilate[d]) as isize);
        if (0..3).all(|d| window[d] % shape.stride[d] as isize == 0) {
            phase.taps.push(tap);
            phase.geometry.taps.push(std::array::from_fn(|d| window[d] / shape.stride[d] as isize));
        }
    }
    phase
}
