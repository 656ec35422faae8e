//! Planes in working memory, in which all taps of a convolution read adjacent elements for neighbouring outputs.
//!
//! A plane is copied with its padding and divided by residues of the stride into "phases". Outputs are computed in rows as
//! long as those of the working memory: all of a plane is one loop, whatever its width, and what lies between the rows is
//! dropped.

use super::geometry::Geometry;
use crate::float::Accum;
use crate::simd::window::Runs;
use std::ops::Range;

/// Elements that may be read past the last output.
pub(super) const LANES: usize = 64;

/// How a plane of the source, or the part of it that some rows of outputs need, is laid out.
pub(super) struct Layout<'a> {
    geometry: &'a Geometry,
    /// The first place in each dimension, of the outputs from zero on.
    origin: [isize; 3],
    /// Sizes of a phase.
    phase: [usize; 3],
    /// For each dimension, the number of each residue of the step among those that a tap reads; the others are left out.
    residues: [Vec<Option<usize>>; 3],
    /// The number of residues in each dimension that a tap reads.
    phases: [usize; 3],
    /// Where each tap of the first output is.
    taps: Vec<usize>,
    len: usize,
}

impl<'a> Layout<'a> {
    /// For all outputs of a plane.
    pub fn new(geometry: &'a Geometry) -> Self {
        Self::of_rows(geometry, geometry.grid[1])
    }

    /// For outputs of `rows` rows of the grid, in each of its planes.
    pub fn of_rows(geometry: &'a Geometry, rows: usize) -> Self {
        let (step, grid) = (geometry.step, [geometry.grid[0], rows, geometry.grid[2]]);
        let least = |d: usize| geometry.taps.iter().map(|tap| tap[d]).min().unwrap_or(0);
        let most = |d: usize| geometry.taps.iter().map(|tap| tap[d]).max().unwrap_or(0);
        // Rows of the source are copied from end to end.
        let origin = [least(0), least(1), least(2).min(0)];
        let end = |d: usize| (grid[d].saturating_sub(1) * step[d]) as isize + most(d) + 1;
        let source_end = geometry.source[2] as isize;
        let extent = [end(0) - origin[0], end(1) - origin[1], end(2).max(source_end) - origin[2]];
        let mut phase: [usize; 3] = std::array::from_fn(|d| (extent[d].max(1) as usize).div_ceil(step[d]));
        // The padding on the right of a row may be that on the left of the next one.
        let shared = if step[2] == 1 { (-origin[2]).min((end(2) - source_end).max(0)) as usize } else { 0 };
        phase[2] -= shared;
        let residues: [Vec<Option<usize>>; 3] = std::array::from_fn(|d| {
            let read =
                |residue: &usize| geometry.taps.iter().any(|tap| (tap[d] - origin[d]) as usize % step[d] == *residue);
            let number = |residue: usize| (0..residue).filter(read).count();
            (0..step[d]).map(|residue| read(&residue).then(|| number(residue))).collect()
        });
        let phases = std::array::from_fn(|d| residues[d].iter().flatten().count());
        // An odd number of cache lines, so that channels differ in their sets.
        let len = (phase.iter().chain(&phases).product::<usize>() + shared + LANES).div_ceil(16) | 1;
        let mut layout = Layout { geometry, origin, phase, residues, phases, taps: vec![], len: len * 16 };
        layout.taps = geometry.taps.iter().filter_map(|tap| layout.place(*tap)).collect();
        layout
    }

    /// What is laid out.
    pub fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// Where the working memory has the element that each tap of the first output reads.
    pub fn taps(&self) -> &[usize] {
        &self.taps
    }

    /// Elements of working memory for a plane, with room for reading some more than the last outputs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Outputs to compute for `rows` rows in all planes of the grid, those between rows included.
    pub fn outputs(&self, rows: usize) -> usize {
        let [depth, width] = [self.geometry.grid[0], self.geometry.grid[2]];
        if depth * rows * width == 0 { 0 } else { ((depth - 1) * self.phase[1] + rows - 1) * self.phase[2] + width }
    }

    /// Where the working memory has the element of a place of the source, unless no tap reads such places.
    fn place(&self, at: [isize; 3]) -> Option<usize> {
        let (mut phase, mut offset) = (0, 0);
        for (d, at) in at.into_iter().enumerate() {
            let (place, step) = ((at - self.origin[d]) as usize, self.geometry.step[d]);
            phase = phase * self.phases[d] + self.residues[d][place % step]?;
            offset = offset * self.phase[d] + place / step;
        }
        Some(phase * self.phase.iter().product::<usize>() + offset)
    }

    /// The places of the source in a dimension that are laid out for outputs from `first` on.
    fn range(&self, d: usize, first: usize) -> Range<usize> {
        let start = (first * self.geometry.step[d]) as isize + self.origin[d];
        let end = start + (self.phase[d] * self.geometry.step[d]) as isize;
        start.max(0) as usize..end.clamp(0, self.geometry.source[d] as isize) as usize
    }

    /// Copies what outputs from row `first` of the grid on need of a plane to `to`, whose other elements are zero.
    pub fn fill<T: Accum>(&self, plane: &[T], first: usize, to: &mut [T]) {
        let ([_, height, width], [_, tall, step]) = (self.geometry.source, self.geometry.step);
        let (shift, range) = ((first * tall) as isize, self.range(1, first));
        for d in self.range(0, 0) {
            for (w, start) in (0..step.min(width)).flat_map(|w| range.clone().take(tall).map(move |start| (w, start))) {
                let place = self.place([d as isize, start as isize - shift, w as isize]);
                let Some(mut place) = place else { continue };
                for h in (start..range.end).step_by(tall) {
                    let (from, to) = (&plane[(d * height + h) * width..][..width], &mut to[place..]);
                    match step {
                        1 => copy_row(from, &mut to[..width]),
                        2 => every_second(&from[w..], to),
                        _ => to.iter_mut().zip(from[w..].iter().step_by(step)).for_each(|(to, x)| *to = *x),
                    }
                    place += self.phase[2];
                }
            }
        }
    }

    /// Calls `f(output, place)` for `rows` rows of outputs in each plane of the grid: their places in the output and among
    /// the computed ones.
    pub fn each_row(&self, rows: usize, mut f: impl FnMut(Range<usize>, Range<usize>)) {
        let (mut output, width) = (0, self.geometry.grid[2]);
        for d in 0..self.geometry.grid[0] {
            let plane = d * self.phase[1] * self.phase[2];
            for h in 0..rows {
                let start = plane + h * self.phase[2];
                f(output..output + width, start..start + width);
                output += width;
            }
        }
    }

    /// Adds the runs of the outputs in `range`, of those of `rows` rows in each plane, for a panel whose lane `lane` is the
    /// first of them and whose elements start at `start`.
    pub fn add_runs(&self, rows: usize, range: Range<usize>, mut lane: usize, start: usize, runs: &mut Runs) {
        let width = self.geometry.grid[2];
        let (mut row, mut column, mut left) = (range.start / width, range.start % width, range.len());
        while left > 0 {
            let len = (width - column).min(left);
            let place = (row / rows * self.phase[1] + row % rows) * self.phase[2] + column;
            runs.push(lane, len, start + place);
            (row, column, lane, left) = (row + 1, 0, lane + len, left - len);
        }
    }
}

/// Copies a row, which may be too short for a call of `memcpy`.
fn copy_row<T: Copy>(from: &[T], to: &mut [T]) {
    if let (Some((from, from_rest)), Some((to, to_rest))) =
        (from.split_first_chunk::<4>(), to.split_first_chunk_mut::<4>())
        && from_rest.len() <= 8
    {
        *to = *from;
        from_rest.iter().zip(to_rest).for_each(|(from, to)| *to = *from);
    } else {
        to.copy_from_slice(from);
    }
}

crate::simd::per_isa! {
    /// Copies every second element, from the first one on.
    fn every_second<T: Accum>(from: &[T], to: &mut [T]) {
        let pairs = from.chunks_exact(2);
        let last = pairs.remainder();
        let count = pairs.len();
        for (to, pair) in to.iter_mut().zip(pairs) {
            *to = pair[0];
        }
        if let [last] = last {
            to[count] = *last;
        }
    }
}
