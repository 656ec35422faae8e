//! Copies planes to scratch memory, so that each tap of a convolution reads contiguous elements for neighboring outputs.
//!
//! A plane is copied with its padding and split into phases, one per residue of the stride. Rows of outputs are computed at the
//! pitch of the scratch memory: a plane is a single loop, whatever its width, and the outputs between rows are discarded.

use super::geometry::Geometry;
use crate::float::Accum;
use crate::par::List;
use crate::simd::window::Runs;
use std::ops::Range;

/// Number of elements that may be read past the last output.
pub(super) const LANES: usize = 64;

/// The scratch layout of a source plane, or of the source rows that a range of output rows reads.
pub(super) struct Layout<'a> {
    geometry: &'a Geometry,
    /// Source coordinates of the first element, if the output rows start at zero.
    origin: [isize; 3],
    /// Size of a phase.
    phase: [usize; 3],
    /// For each axis, the residues of the stride that taps read, in ascending order. Their indices are those of the phases.
    residues: [List<usize>; 3],
    /// Offset of the element that each tap of the first output reads.
    taps: List<usize>,
    len: usize,
}

impl<'a> Layout<'a> {
    /// The layout for all outputs of a plane.
    pub(super) fn new(geometry: &'a Geometry) -> Self {
        Self::of_rows(geometry, geometry.grid[1])
    }

    /// The layout for `rows` rows of outputs in each plane of the grid.
    pub(super) fn of_rows(geometry: &'a Geometry, rows: usize) -> Self {
        let (stride, grid) = (geometry.stride, [geometry.grid[0], rows, geometry.grid[2]]);
        let min = |d: usize| geometry.taps.iter().map(|tap| tap[d]).min().unwrap_or(0);
        let max = |d: usize| geometry.taps.iter().map(|tap| tap[d]).max().unwrap_or(0);
        // Source rows are copied completely, including columns that no tap reads.
        let origin = [min(0), min(1), min(2).min(0)];
        let end = |d: usize| (grid[d].saturating_sub(1) * stride[d]) as isize + max(d) + 1;
        let source_end = geometry.source[2] as isize;
        let extent = [end(0) - origin[0], end(1) - origin[1], end(2).max(source_end) - origin[2]];
        let mut phase: [usize; 3] = std::array::from_fn(|d| (extent[d].max(1) as usize).div_ceil(stride[d]));
        // The right padding of a row may serve as the left padding of the next one.
        let shared = if stride[2] == 1 { (-origin[2]).min((end(2) - source_end).max(0)) as usize } else { 0 };
        phase[2] -= shared;
        let residues: [List<usize>; 3] = std::array::from_fn(|d| {
            let mut residues: List<usize> = List::default();
            for tap in &*geometry.taps {
                let residue = (tap[d] - origin[d]) as usize % stride[d];
                if let Err(i) = residues.binary_search(&residue) {
                    residues.insert(i, residue);
                }
            }
            residues
        });
        let phases = residues.iter().map(|residues| residues.len()).product::<usize>();
        // An odd number of cache lines, so that channels map to different cache sets.
        let len = (phase.iter().product::<usize>() * phases + shared + LANES).div_ceil(16) | 1;
        let mut layout = Layout { geometry, origin, phase, residues, taps: List::default(), len: len * 16 };
        layout.taps = geometry.taps.iter().filter_map(|tap| layout.offset(*tap)).collect();
        layout
    }

    /// The geometry of the convolution.
    pub(super) fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// Offset of the element that each tap of the first output reads.
    pub(super) fn taps(&self) -> &[usize] {
        &self.taps
    }

    /// Stride between rows.
    pub(super) fn pitch(&self) -> usize {
        self.phase[2]
    }

    /// Rows of scratch memory that hold source rows, for strides of 1 and outputs starting at row 0; the others are padding.
    pub(super) fn filled_rows(&self) -> Range<usize> {
        let row = |source: usize| (source as isize - self.origin[1]) as usize;
        let range = self.range(1, 0);
        row(range.start)..row(range.end)
    }

    /// Scratch elements per plane, including those read past the last outputs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of outputs computed for `rows` rows in each plane of the grid, including those between rows that are discarded.
    pub(super) fn outputs(&self, rows: usize) -> usize {
        let [depth, width] = [self.geometry.grid[0], self.geometry.grid[2]];
        if depth * rows * width == 0 { 0 } else { ((depth - 1) * self.phase[1] + rows - 1) * self.phase[2] + width }
    }

    /// Offset of a source element in scratch memory, or `None` if no tap reads its phase.
    fn offset(&self, coordinates: [isize; 3]) -> Option<usize> {
        let (mut phase, mut offset) = (0, 0);
        for (d, coordinate) in coordinates.into_iter().enumerate() {
            let (coordinate, stride) = ((coordinate - self.origin[d]) as usize, self.geometry.stride[d]);
            let residues = &self.residues[d];
            phase = phase * residues.len() + residues.binary_search(&(coordinate % stride)).ok()?;
            offset = offset * self.phase[d] + coordinate / stride;
        }
        Some(phase * self.phase.iter().product::<usize>() + offset)
    }

    /// The range of source coordinates along axis `d` that is copied for outputs starting at `first`.
    pub(super) fn range(&self, d: usize, first: usize) -> Range<usize> {
        let start = (first * self.geometry.stride[d]) as isize + self.origin[d];
        let end = start + (self.phase[d] * self.geometry.stride[d]) as isize;
        start.max(0) as usize..end.clamp(0, self.geometry.source[d] as isize) as usize
    }

    /// Copies the source rows that the outputs starting at grid row `first` read, for each of `planes`, to `to`, where the planes
    /// have a stride of `len`. The elements of `to` that are padding must be zero already.
    pub(super) fn fill<T: Accum>(&self, planes: &[T], first: usize, to: &mut [T]) {
        let ([depth, height, width], [_, stride_y, stride_x]) = (self.geometry.source, self.geometry.stride);
        if depth * height * width == 0 {
            return;
        }
        let (shift, range) = ((first * stride_y) as isize, self.range(1, first));
        for (d, start) in self.range(0, 0).flat_map(|d| range.clone().take(stride_y).map(move |start| (d, start))) {
            let offset = |w: usize| self.offset([d as isize, start as isize - shift, w as isize]);
            let (rows, from) = ((range.end - start).div_ceil(stride_y), (d * height + start) * width);
            let planes = planes.chunks_exact(depth * height * width).map(|plane| &plane[from..]);
            if let (2, true, Some(even), Some(odd)) = (stride_x, width > 1, offset(0), offset(1)) {
                for (from, to) in planes.zip(to.chunks_exact_mut(self.len)) {
                    let (low, high) = to.split_at_mut(even.max(odd));
                    let to = if even < odd { [&mut low[even..], high] } else { [high, &mut low[odd..]] };
                    split_rows(rows, width, from, stride_y * width, to, self.phase[2]);
                }
                continue;
            }
            for (w, start) in (0..stride_x.min(width)).filter_map(|w| Some((w, offset(w)?))) {
                for (from, to) in planes.clone().zip(to.chunks_exact_mut(self.len)) {
                    let to = &mut to[start..];
                    match stride_x {
                        1 => copy_rows(rows, width, from, stride_y * width, to, self.phase[2]),
                        _ => copy_strided(stride_x, rows, w..width, (from, stride_y * width), (to, self.phase[2])),
                    }
                }
            }
        }
    }

    /// Calls `f(output, computed)` for `rows` rows in each plane of the grid, with the range of the row in the output and in the
    /// computed values.
    pub(super) fn each_row(&self, rows: usize, mut f: impl FnMut(Range<usize>, Range<usize>)) {
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

    /// Copies `rows` rows in each plane of the grid from the computed values to the contiguous output.
    pub(super) fn collect<T: Accum>(&self, rows: usize, computed: &[T], outputs: &mut [T]) {
        let [planes, _, width] = self.geometry.grid;
        for d in 0..planes {
            let from = &computed[d * self.phase[1] * self.phase[2]..];
            copy_rows(rows, width, from, self.phase[2], &mut outputs[d * rows * width..], width);
        }
    }

    /// The inverse of [`Self::collect`].
    pub(super) fn scatter_outputs<T: Accum>(&self, rows: usize, outputs: &[T], computed: &mut [T]) {
        let [planes, _, width] = self.geometry.grid;
        for d in 0..planes {
            let to = &mut computed[d * self.phase[1] * self.phase[2]..];
            copy_rows(rows, width, &outputs[d * rows * width..], width, to, self.phase[2]);
        }
    }

    /// Adds the runs of the outputs in `range`, counted over `rows` rows in each plane, to the runs of a panel, starting at lane `lane`.
    /// `start` is the offset of the plane's copy.
    pub(super) fn add_runs(&self, rows: usize, range: Range<usize>, mut lane: usize, start: usize, runs: &mut Runs) {
        let width = self.geometry.grid[2];
        let (mut row, mut column, mut left) = (range.start / width, range.start % width, range.len());
        while left > 0 {
            let len = (width - column).min(left);
            let first = (row / rows * self.phase[1] + row % rows) * self.phase[2] + column;
            runs.push(lane, len, start + first);
            (row, column, lane, left) = (row + 1, 0, lane + len, left - len);
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Copies rows of `width` elements; most are so short that a call of `memcpy` would take longer than the copy.
    fn copy_rows<T: Accum>(rows: usize, width: usize, from: &[T], from_pitch: usize, to: &mut [T], to_pitch: usize) {
        for row in 0..rows {
            let (from, to) = (&from[row * from_pitch..][..width], &mut to[row * to_pitch..][..width]);
            match width {
                0..4 => from.iter().zip(to).for_each(|(from, to)| *to = *from),
                4..8 => copy_ends::<T, 4>(from, to),
                8..16 => copy_ends::<T, 8>(from, to),
                16..32 => copy_ends::<T, 16>(from, to),
                32..=64 => copy_ends::<T, 32>(from, to),
                _ => to.copy_from_slice(from),
            }
        }
    }
}

/// Copies N to 2 N elements: the first N and the last N, which may overlap.
#[inline(always)]
fn copy_ends<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Copies every `stride`-th of the `columns` of each row. `from` and `to` are elements and the pitch of their rows.
    fn copy_strided<T: Accum>(
        stride: usize,
        rows: usize,
        columns: Range<usize>,
        from: (&[T], usize),
        to: (&mut [T], usize)
    ) {
        let ((from, from_pitch), (to, to_pitch)) = (from, to);
        for row in 0..rows {
            let (from, to) = (&from[row * from_pitch..][columns.clone()], &mut to[row * to_pitch..]);
            match stride {
                2 => copy_every::<T, 2>(from, to),
                4 => copy_every::<T, 4>(from, to),
                _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, value)| *to = *value),
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Splits rows of `width` elements into the even and the odd ones.
    fn split_rows<T: Accum>(
        rows: usize,
        width: usize,
        from: &[T],
        from_pitch: usize,
        to: [&mut [T]; 2],
        to_pitch: usize
    ) {
        let [even, odd] = to;
        for row in 0..rows {
            let (pairs, rest) = from[row * from_pitch..][..width].as_chunks::<2>();
            let (even, odd) = (&mut even[row * to_pitch..], &mut odd[row * to_pitch..]);
            for ((even, odd), pair) in even.iter_mut().zip(odd.iter_mut()).zip(pairs) {
                (*even, *odd) = (pair[0], pair[1]);
            }
            if let [last] = rest {
                even[pairs.len()] = *last;
            }
        }
    }
}

/// Copies every N-th element.
#[inline(always)]
fn copy_every<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
    let (groups, rest) = from.as_chunks::<N>();
    for (to, group) in to.iter_mut().zip(groups) {
        *to = group[0];
    }
    if let [last, ..] = rest {
        to[groups.len()] = *last;
    }
}
