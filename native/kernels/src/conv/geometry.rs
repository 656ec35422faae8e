//! The input elements that the windows of a convolution read.

use crate::par::List;

/// A grid of outputs, each a weighted sum over taps: tap t of the output at `o` reads the source at `o * stride + t`; elements
/// outside the source count as zero. All sizes are (depth, height, width).
pub(super) struct Geometry {
    /// Size of the output grid.
    pub grid: [usize; 3],
    /// Size of a source plane.
    pub source: [usize; 3],
    /// Stride between the windows of neighboring outputs.
    pub stride: [usize; 3],
    /// Coordinates of the taps relative to the start of the window; negative in the padding.
    pub taps: List<[isize; 3]>,
}

impl Geometry {
    /// Number of outputs in the grid.
    pub(super) fn pixels(&self) -> usize {
        self.grid.iter().product()
    }

    /// Elements in a source plane.
    pub(super) fn plane(&self) -> usize {
        self.source.iter().product()
    }

    /// True for a 1 x 1 convolution without stride and padding: each output reads the source element at its own coordinates.
    pub(super) fn is_pointwise(&self) -> bool {
        **self.taps == [[0; 3]] && self.grid == self.source && self.stride == [1; 3]
    }
}
