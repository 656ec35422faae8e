//! Which input elements the windows of a convolution read.

use crate::par::List;

/// A grid of outputs, each a weighted sum over taps: tap t of the output at `o` reads the source at `o * step + t`; elements
/// outside the source count as zero.
pub(super) struct Geometry {
    /// Size of the grid.
    pub grid: [usize; 3],
    /// Size of a source plane.
    pub source: [usize; 3],
    /// Distance in the source between the windows of neighbouring outputs.
    pub step: [usize; 3],
    /// Coordinates of the taps relative to `o * step`.
    pub taps: List<[isize; 3]>,
}

impl Geometry {
    /// Number of outputs.
    pub(super) fn pixels(&self) -> usize {
        self.grid.iter().product()
    }

    /// Elements in a source plane.
    pub(super) fn plane(&self) -> usize {
        self.source.iter().product()
    }

    /// True if each output reads exactly the source element at its own coordinates.
    pub(super) fn is_pointwise(&self) -> bool {
        **self.taps == [[0; 3]] && self.grid == self.source && self.step == [1; 3]
    }
}
