//! Which input elements the windows of a convolution cover.

use crate::simd::window::WindowPlan;
use std::ops::Range;

/// A grid of outputs, each a weighted sum over taps: tap t of the output at `o` reads the source at `o * step + t`,
/// which counts as zero where the source does not have it.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// Sizes of the grid.
    pub grid: [usize; 3],
    /// Sizes of a plane of the source.
    pub source: [usize; 3],
    /// Distances in the source between neighbouring outputs.
    pub step: [usize; 3],
    /// The places of the taps relative to `o * step`.
    pub taps: Vec<[isize; 3]>,
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
        self.taps == [[0; 3]] && self.grid == self.source && self.step == [1; 3]
    }

    /// Plans the panel of the `count` outputs from `first` on, in row-major order of the grid.
    pub fn plan(&self, first: usize, count: usize, width: usize, plan: &mut WindowPlan) {
        self.plan_images((1, 0), first, count, width, plan);
    }

    /// Plans a panel of these outputs of several images side by side; planes of neighbouring images are `distance`
    /// elements apart.
    pub fn plan_images(
        &self,
        (images, distance): (usize, usize),
        first: usize,
        count: usize,
        width: usize,
        plan: &mut WindowPlan,
    ) {
        plan.reset(width, self.step[2], self.plane(), images.saturating_sub(1) * distance + self.plane());
        for tap in &self.taps {
            for image in 0..images {
                self.plan_tap(tap, first..first + count, image * count, image * distance, plan);
            }
            plan.end_tap();
        }
    }

    /// Adds the runs of one tap for some outputs of an image, whose plane starts at `start`, from `lane` on.
    fn plan_tap(&self, tap: &[isize; 3], outputs: Range<usize>, lane: usize, start: usize, plan: &mut WindowPlan) {
        let mut pixel = outputs.start;
        while pixel < outputs.end {
            let (row, column) = (pixel / self.grid[2], pixel % self.grid[2]);
            let len = (self.grid[2] - column).min(outputs.end - pixel);
            if let Some(source_row) = self.source_row([row / self.grid[1], row % self.grid[1]], tap) {
                let (skip, end) = self.inside(column, len, tap[2]);
                if skip < end {
                    let source = ((column + skip) * self.step[2]).wrapping_add_signed(tap[2]);
                    let lane = lane + pixel - outputs.start + skip;
                    plan.push_run(lane, end - skip, start + source_row * self.source[2] + source);
                }
            }
            pixel += len;
        }
    }

    /// The row of the source that a tap of a row of outputs reads.
    fn source_row(&self, place: [usize; 2], tap: &[isize; 3]) -> Option<usize> {
        let at = |i: usize| (place[i] * self.step[i]).checked_add_signed(tap[i]).filter(|&at| at < self.source[i]);
        Some(at(0)? * self.source[1] + at(1)?)
    }

    /// Of the `len` outputs from `column` on, the first one for which the tap lies in the source, and the end of those.
    fn inside(&self, column: usize, len: usize, tap: isize) -> (usize, usize) {
        let step = self.step[2] as isize;
        let first = column as isize * step + tap;
        let skip = if first < 0 { (-first + step - 1) / step } else { 0 };
        let end = (self.source[2] as isize - first + step - 1).max(0) / step;
        (skip as usize, (end as usize).min(len))
    }
}
