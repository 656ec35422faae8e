//! Which input elements the windows of a convolution cover.

use crate::par::List;

/// A grid of outputs, each a weighted sum over taps: tap t of the output at `o` reads the source at `o * step + t`,
/// which counts as zero where the source does not have it.
pub(super) struct Geometry {
    /// Sizes of the grid.
    pub grid: [usize; 3],
    /// Sizes of a plane of the source.
    pub source: [usize; 3],
    /// Distances in the source between neighbouring outputs.
    pub step: [usize; 3],
    /// The places of the taps relative to `o * step`.
    pub taps: List<[isize; 3]>,
}

impl Geometry {
    /// Outputs of the grid.
    pub fn pixels(&self) -> usize {
        self.grid.iter().product()
    }

    /// Elements of a plane of the source.
    pub fn plane(&self) -> usize {
        self.source.iter().product()
    }

    /// Whether every output reads the source at its own place, and nothing else.
    pub fn is_pointwise(&self) -> bool {
        **self.taps == [[0; 3]] && self.grid == self.source && self.step == [1; 3]
    }
}
