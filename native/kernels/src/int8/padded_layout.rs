//! The padded copy of an image, from which tiles read the words of a tap in place.

use crate::conv::ConvShape;
use crate::simd::int8::{COLS, Layout, Offsets};

/// The layout of the padded copy of an image: (groups of channels, phases, plane).
pub(super) struct PaddedLayout {
    pub(super) shape: ConvShape,
    pub(super) layout: Layout,
    /// Input channels of a group.
    pub(super) inputs: usize,
    /// The residues (y, x) of the stride that a tap reads, one per phase.
    pub(super) phases: Vec<[usize; 2]>,
    /// Height and width of a phase.
    pub(super) grid: [usize; 2],
    /// Stride between phases, in words.
    pub(super) plane: usize,
    /// Height and width of the output.
    pub(super) output: [usize; 2],
    /// For each group of channels and tap, the offset of the word that the first output reads.
    pub(super) offsets: Offsets,
}

impl PaddedLayout {
    pub(super) fn new(shape: &ConvShape, layout: Layout) -> PaddedLayout {
        let [_, rows, cols] = shape.output();
        let taps: Vec<[usize; 2]> = (0..shape.kernel[1] * shape.kernel[2])
            .map(|tap| [tap / shape.kernel[2] * shape.dilate[1], tap % shape.kernel[2] * shape.dilate[2]])
            .collect();
        let stride = [shape.stride[1], shape.stride[2]];
        let mut phases: Vec<[usize; 2]> = Vec::new();
        let mut max_tap = [0, 0];
        for tap in &taps {
            let phase = [tap[0] % stride[0], tap[1] % stride[1]];
            if !phases.contains(&phase) {
                phases.push(phase);
            }
            max_tap = [max_tap[0].max(tap[0] / stride[0]), max_tap[1].max(tap[1] / stride[1])];
        }
        let grid = [rows + max_tap[0], cols + max_tap[1]];
        // A plane stride that is a multiple of 2048 bytes would map all planes to few cache sets.
        let plane = (grid[0] * grid[1]).next_multiple_of(16);
        let plane = if plane.is_multiple_of(512) { plane + 16 } else { plane };
        let inputs = shape.in_channels / shape.groups;
        let offsets = (0..inputs.div_ceil(layout.group()))
            .flat_map(|channel| taps.iter().map(move |tap| (channel, tap)).collect::<Vec<_>>());
        let offset = |(channel, tap): (usize, &[usize; 2])| {
            let phase = [tap[0] % stride[0], tap[1] % stride[1]];
            let phase = phases.iter().position(|p| *p == phase).unwrap_or(0);
            (channel * phases.len() + phase) * plane + tap[0] / stride[0] * grid[1] + tap[1] / stride[1]
        };
        let offsets = Offsets::new(offsets.map(offset));
        PaddedLayout { shape: *shape, layout, inputs, phases, grid, plane, output: [rows, cols], offsets }
    }

    /// Pixels of the output.
    pub(super) fn pixels(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Stride between groups of channels, in words.
    pub(super) fn group_words(&self) -> usize {
        self.phases.len() * self.plane
    }

    /// Words of all groups of channels, including those that a tile reads past the last column.
    pub(super) fn words(&self) -> usize {
        let filled = self.inputs.div_ceil(self.layout.group()) * self.group_words();
        (filled + COLS).max(self.offsets.max() + self.grid[0] * self.grid[1] + COLS)
    }
}

/// How elements of the image are converted for the padded copy.
pub(super) trait FillRun<W> {
    /// Fills a run from the elements at `first`, `first + stride`, ... in the plane of each channel.
    fn fill(&self, first: usize, stride: usize, to: &mut [W]);
}

/// Fills the phases of a group of channels, with `zero` in the padding.
#[inline(always)]
pub(super) fn fill_phases<W: Copy>(padded: &PaddedLayout, to: &mut [W], zero: W, source: &impl FillRun<W>) {
    let shape = &padded.shape;
    let [_, height, width] = shape.input;
    let (stride, pad) = ([shape.stride[1], shape.stride[2]], [shape.pad[1], shape.pad[2]]);
    for (phase, to) in padded.phases.iter().zip(to.chunks_exact_mut(padded.plane)) {
        let first = pad[1].saturating_sub(phase[1]).div_ceil(stride[1]).min(padded.grid[1]);
        let end = (width + pad[1]).saturating_sub(phase[1]).div_ceil(stride[1]).clamp(first, padded.grid[1]);
        let (to, rest) = to.split_at_mut(padded.grid[0] * padded.grid[1]);
        rest.fill(zero);
        for (y, to) in to.chunks_exact_mut(padded.grid[1]).enumerate() {
            let row = (y * stride[0] + phase[0]).checked_sub(pad[0]).filter(|row| *row < height);
            let (Some(row), true) = (row, first < end) else {
                to.fill(zero);
                continue;
            };
            to[..first].fill(zero);
            to[end..].fill(zero);
            source.fill(row * width + first * stride[1] + phase[1] - pad[1], stride[1], &mut to[first..end]);
        }
    }
}
