//! Depthwise convolution: each channel has its own kernel, so there is no matrix product.
//!
//! With AVX2 or AVX-512, 3 x 3 and 5 x 5 kernels read the planes in place. Otherwise the planes are copied to scratch memory first, from
//! which 3 x 3 and large kernels compute several rows of outputs at a time.

use super::geometry::Geometry;
use super::layout::{LANES, Layout};
use super::phases::{PerPhase, Phase, phases};
use super::{ConvEpilogue, ConvShape};
use crate::float::Accum;
use crate::lane::tree_reduce;
use crate::par::{List, MatMut, parallel_blocks, with_scratch};
use crate::simd::depthwise::{PlaneConv, PlaneConvKernels};
use crate::simd::prefetch;
use smallvec::SmallVec;
use std::ops::Range;

/// Multiply-adds in a chunk.
const CHUNK_WORK: usize = 1 << 17;

/// True if each output channel reads exactly one input channel.
pub(super) fn is_depthwise(shape: &ConvShape) -> bool {
    shape.groups == shape.in_channels && shape.groups == shape.out_channels
}

/// Planes per chunk.
fn grain(layout: &Layout<'_>, taps: usize) -> usize {
    (CHUNK_WORK / (computed(layout) * taps.max(1)).max(1)).max(1)
}

/// Outputs computed for a plane, rounded up to whole vectors of [`LANES`].
fn computed(layout: &Layout<'_>) -> usize {
    layout.outputs(layout.geometry().grid[1]).next_multiple_of(LANES)
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// `out[i] = sum over t of weights[t] * from[taps[t] + i]`.
    fn convolve<T: Accum>(weights: &[T], taps: &[usize], from: &[T], out: &mut [T]) {
        for (block, out) in out.chunks_exact_mut(LANES).enumerate() {
            let mut sums = [T::zero(); LANES];
            for (weight, tap) in weights.iter().zip(taps) {
                let from = &from[tap + block * LANES..][..LANES];
                for i in 0..LANES {
                    sums[i] = from[i].mul_add(*weight, sums[i]);
                }
            }
            out.copy_from_slice(&sums);
        }
    }
}

/// A large undilated kernel with stride 1, and the scratch memory that it reads.
struct LargeKernel {
    /// Height and width of the kernel.
    size: [usize; 2],
    /// Row stride of the scratch memory.
    pitch: usize,
    /// Rows of the scratch memory that are not padding.
    filled: Range<usize>,
    /// Outputs of a row.
    width: usize,
}

/// Minimum height of a [`LargeKernel`].
const MIN_LARGE: usize = 8;
/// Rows of outputs that [`convolve_large`] computes together.
const TILE_ROWS: usize = 6;
/// Outputs of a row that it computes together.
const TILE_COLS: usize = 16;

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Computes a plane in tiles that stay in registers. Each source row is read once for all rows of a tile, and rows of padding are
    /// left out. `columns` are the weights interleaved by [`LargeKernel::interleave`].
    fn convolve_large<T: Accum>(kernel: &LargeKernel, weights: &[T], columns: &[T], from: &[T], out: &mut [T]) {
        let (&LargeKernel { size: [kernel_height, kernel_width], pitch, width, .. }, filled) = (kernel, &kernel.filled);
        for (tile, out) in out.chunks_mut(TILE_ROWS * width).enumerate() {
            let (top, rows) = (tile * TILE_ROWS, out.len() / width);
            let source_rows = top.max(filled.start)..(top + rows + kernel_height - 1).min(filled.end);
            for left in (0..width).step_by(TILE_COLS) {
                let mut sums = [[T::zero(); TILE_COLS]; TILE_ROWS];
                for source_row in source_rows.clone() {
                    let from = &from[source_row * pitch + left..][..kernel_width + TILE_COLS - 1];
                    // Row r of the tile multiplies the source row by kernel row `last - r`.
                    let last = source_row - top;
                    let first_row = (last + 1).saturating_sub(kernel_height);
                    if first_row == 0 && last + 1 >= TILE_ROWS && rows == TILE_ROWS {
                        let columns = columns[last * kernel_width * TILE_ROWS..].chunks_exact(TILE_ROWS);
                        for (from, weights) in from.windows(TILE_COLS).zip(columns) {
                            let (Some(from), Some(weights)) = (from.first_chunk(), weights.first_chunk::<TILE_ROWS>()) else { break };
                            for r in 0..TILE_ROWS {
                                add_scaled(&mut sums[r], weights[r], from);
                            }
                        }
                    } else {
                        for r in first_row..rows.min(last + 1) {
                            let kernel_row = &weights[(last - r) * kernel_width..][..kernel_width];
                            let mut row = sums[r];
                            for (weight, from) in kernel_row.iter().zip(from.windows(TILE_COLS)) {
                                let Some(from) = from.first_chunk() else { break };
                                add_scaled(&mut row, *weight, from);
                            }
                            sums[r] = row;
                        }
                    }
                }
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(width)) {
                    let out = &mut out[left..width.min(left + TILE_COLS)];
                    out.copy_from_slice(&sums[..out.len()]);
                }
            }
        }
    }
}

/// Adds `weight * from` to `sums`.
#[inline(always)]
fn add_scaled<T: Accum>(sums: &mut [T; TILE_COLS], weight: T, from: &[T; TILE_COLS]) {
    for i in 0..TILE_COLS {
        sums[i] = from[i].mul_add(weight, sums[i]);
    }
}

/// Minimum number of outputs of a row computed side by side.
const MIN_COLUMNS: usize = 16;

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Computes a plane with an undilated 3 x 3 kernel and stride 1: at least two rows, each of `width` >= [`MIN_COLUMNS`] outputs.
    /// `from` starts with the window of the first output and has a row stride of `pitch`.
    ///
    /// Two rows are computed together because they share most of their input.
    fn convolve_3x3<T: Accum>(weights: &[T; 9], from: &[T], pitch: usize, width: usize, out: &mut [T]) {
        let height = out.len() / width;
        // The last pair of rows, and the last outputs of a row, may overlap those already computed.
        for row in (0..height).step_by(2).map(|row| row.min(height - 2)) {
            let (from, out) = (&from[row * pitch..], &mut out[row * width..(row + 2) * width]);
            let (upper, lower) = out.split_at_mut(width);
            let whole = width / MIN_COLUMNS * MIN_COLUMNS;
            for (start, end) in [(0, whole), (width - MIN_COLUMNS, if whole < width { width } else { width - MIN_COLUMNS })] {
                let (upper, lower) = (&mut upper[start..end], &mut lower[start..end]);
                let line = |i: usize| [0, 1, 2].map(|k| &from[i * pitch + start + k..][..end - start]);
                let [a, b, c, d] = [line(0), line(1), line(2), line(3)];
                for x in 0..end - start {
                    let at = |line: [&[T]; 3]| line.map(|shifted| shifted[x]);
                    upper[x] = weighted_sum_3x3(weights, [at(a), at(b), at(c)]);
                    lower[x] = weighted_sum_3x3(weights, [at(b), at(c), at(d)]);
                }
            }
        }
    }
}

/// The weighted sum of a 3 x 3 window.
#[inline(always)]
fn weighted_sum_3x3<T: Accum>(weights: &[T; 9], taps: [[T; 3]; 3]) -> T {
    let [[a, b, c], [d, e, f], [g, h, i]] = taps;
    let upper = c.mul_add(weights[2], b.mul_add(weights[1], a * weights[0]));
    let middle = f.mul_add(weights[5], e.mul_add(weights[4], d.mul_add(weights[3], upper)));
    i.mul_add(weights[8], h.mul_add(weights[7], g.mul_add(weights[6], middle)))
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Adds to `sums[t]` the sum of `grad[i] * from[taps[t] + i]`.
    fn correlate<T: Accum>(grad: &[T], taps: &[usize], from: &[T], sums: &mut [T]) {
        for (sum, tap) in sums.iter_mut().zip(taps) {
            let mut lanes = [T::zero(); LANES];
            let from = &from[*tap..][..grad.len()];
            for (grad, from) in grad.chunks_exact(LANES).zip(from.chunks_exact(LANES)) {
                for i in 0..LANES {
                    lanes[i] = from[i].mul_add(grad[i], lanes[i]);
                }
            }
            *sum += tree_reduce(lanes, |a, b| a + b);
        }
    }
}

/// Elements of a phase computed side by side by [`convolve_interleaved`].
const PHASE_LANES: usize = 16;

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Computes a row of two interleaved phases: `out[2 * i + p]` is the sum of `weight * from[offset + i]` over the taps
    /// `(offset, weight)` of phase `p`. Reads up to [`PHASE_LANES`] elements past those of the last output.
    fn convolve_interleaved<T: Accum>(even: &[(usize, T)], odd: &[(usize, T)], from: &[T], out: &mut [T]) {
        for (block, out) in out.chunks_mut(2 * PHASE_LANES).enumerate() {
            let mut sums = [[T::zero(); PHASE_LANES]; 2];
            for (sums, taps) in sums.iter_mut().zip([even, odd]) {
                for (offset, weight) in taps {
                    let from = &from[offset + block * PHASE_LANES..][..PHASE_LANES];
                    for i in 0..PHASE_LANES {
                        sums[i] = from[i].mul_add(*weight, sums[i]);
                    }
                }
            }
            let mut row = [T::zero(); 2 * PHASE_LANES];
            for i in 0..PHASE_LANES {
                row[2 * i] = sums[0][i];
                row[2 * i + 1] = sums[1][i];
            }
            out.copy_from_slice(&row[..out.len()]);
        }
    }
}

/// The kernels that read the planes in place, if they support `geometry`.
fn in_place_kernels<T: Accum>(geometry: &Geometry) -> Option<(PlaneConv, &'static PlaneConvKernels<T>)> {
    let ([depth, stride_y, stride], first) = (geometry.stride, geometry.taps.first()?);
    let kernel = geometry.taps.len().isqrt();
    let tap = |i: usize| [first[0], first[1] + (i / kernel) as isize, first[2] + (i % kernel) as isize];
    let adjacent = (0..kernel * kernel).map(tap).eq(geometry.taps.iter().copied());
    let flat = first[0] == 0 && [geometry.grid[0], geometry.source[0], depth] == [1; 3] && geometry.plane() > 0;
    let conv = PlaneConv {
        source: [geometry.source[1], geometry.source[2]],
        grid: [geometry.grid[1], geometry.grid[2]],
        origin: [first[1], first[2]],
        kernel,
        stride,
    };
    let kernels = T::plane_conv_kernels()?;
    (adjacent && flat && stride_y == stride && conv.is_supported()).then_some((conv, kernels))
}

/// How the planes of a depthwise convolution are copied to scratch memory.
struct Planes<'a> {
    layout: Layout<'a>,
    /// True if [`convolve_3x3`] can compute them.
    is_3x3: bool,
    /// The kernel, if [`convolve_large`] can compute them.
    large: Option<LargeKernel>,
}

impl LargeKernel {
    /// The kernel of a layout, if it is large, undilated and has a stride of 1.
    fn of(layout: &Layout<'_>) -> Option<LargeKernel> {
        let (geometry, taps, pitch) = (layout.geometry(), layout.taps(), layout.pitch());
        let first = geometry.taps.first()?;
        let kernel_width = geometry.taps.iter().take_while(|tap| tap[..2] == first[..2]).count();
        let adjacent = taps.len() >= MIN_LARGE * kernel_width
            && taps.len().is_multiple_of(kernel_width)
            && taps.iter().enumerate().all(|(i, tap)| *tap == i / kernel_width * pitch + i % kernel_width);
        let is_flat = geometry.grid[0] == 1 && geometry.source[0] == 1;
        (adjacent && is_flat && geometry.stride == [1; 3] && geometry.grid[2] > 0).then(|| LargeKernel {
            size: [taps.len() / kernel_width, kernel_width],
            pitch,
            filled: layout.filled_rows(),
            width: geometry.grid[2],
        })
    }

    /// Writes, for each weight, the weights above it in its column, starting with its own: those of the rows of a tile. Rows above the
    /// kernel are left out.
    fn interleave<T: Accum>(&self, weights: &[T], columns: &mut [T]) {
        for (i, column) in columns.chunks_exact_mut(TILE_ROWS).enumerate() {
            for (r, weight) in column.iter_mut().enumerate() {
                *weight = i.checked_sub(r * self.size[1]).map_or(T::zero(), |i| weights[i]);
            }
        }
    }
}

impl<'a> Planes<'a> {
    fn new(geometry: &'a Geometry) -> Self {
        let (layout, [depth, height, width]) = (Layout::new(geometry), geometry.grid);
        let adjacent = (0..9).map(|t| t / 3 * layout.pitch() + t % 3).eq(layout.taps().iter().copied());
        let is_3x3 = adjacent && depth == 1 && width >= MIN_COLUMNS && height >= 2;
        Planes { is_3x3, large: LargeKernel::of(&layout), layout }
    }

    /// Computes the outputs of one plane from its copy `padded`. `computed` is a scratch buffer.
    fn convolve<T: Accum>(&self, weights: &[T], padded: &[T], computed: &mut [T], out: &mut [T]) {
        let [_, height, width] = self.layout.geometry().grid;
        if self.is_3x3
            && let Ok(weights) = weights.try_into()
        {
            return convolve_3x3(weights, padded, self.layout.pitch(), width, out);
        }
        if let Some(large) = &self.large {
            return with_scratch(weights.len() * TILE_ROWS, |columns: &mut [T]| {
                large.interleave(weights, columns);
                convolve_large(large, weights, columns, padded, out);
            });
        }
        convolve(weights, self.layout.taps(), padded, computed);
        self.layout.collect(height, computed, out);
    }
}

/// Up to `count` planes of `len` elements to prefetch, starting at index `first`; empty past the last plane.
fn next_planes<T>(planes: &[T], len: usize, first: usize, count: usize) -> &[T] {
    planes.get(first * len..planes.len().min((first + count) * len)).unwrap_or_default()
}

/// Planes of one image that one call of a kernel computes.
struct Group {
    /// The first plane, counted over the whole batch.
    row: usize,
    /// Its channel.
    channel: usize,
    count: usize,
}

/// The groups of `rows` planes of `plane` elements, starting at `first`.
fn groups(first: usize, rows: usize, channels: usize, plane: usize) -> impl Iterator<Item = Group> {
    let (max, end) = ((GROUP_ELEMENTS / plane).clamp(1, GROUP_PLANES), first + rows);
    let group = move |row: usize| {
        let channel = row % channels;
        (row < end).then(|| Group { row, channel, count: max.min(end - row).min(channels - channel) })
    };
    std::iter::successors(group(first), move |last| group(last.row + last.count))
}

/// Source elements of a group: few enough that the next group can be prefetched.
const GROUP_ELEMENTS: usize = 4096;
/// Maximum planes of a group.
const GROUP_PLANES: usize = 16;

/// Scratch elements of a block of planes.
const BLOCK_ELEMENTS: usize = 8192;

/// The forward pass.
pub(super) fn forward<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let geometry = shape.windows();
    let (plane, pixels, taps) = (geometry.plane(), geometry.pixels(), shape.taps());
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    if let Some(in_place) = in_place_kernels(&geometry) {
        return forward_in_place(shape, in_place, input, weights, epilogue, out);
    }
    let planes = Planes::new(&geometry);
    let (len, computed) = (planes.layout.len(), computed(&planes.layout));
    parallel_blocks(out, grain(&planes.layout, taps), pixels, |first, _, mut out| {
        let block_planes = (BLOCK_ELEMENTS / (len + computed)).clamp(1, out.rows());
        with_scratch(block_planes * len + computed, |buffer: &mut [T]| {
            let (padded, computed) = buffer.split_at_mut(block_planes * len);
            padded.fill(T::zero());
            let mut i = 0;
            while i < out.rows() {
                let (row, channel) = (first + i, (first + i) % shape.in_channels);
                let count = block_planes.min(out.rows() - i).min(shape.in_channels - channel);
                planes.layout.fill(&input[row * plane..(row + count) * plane], 0, padded);
                prefetch(next_planes(input, plane, row + count, block_planes));
                let kernel = weights[channel * taps..(channel + count) * taps].chunks_exact(taps);
                for (n, (weights, padded)) in kernel.zip(padded.chunks_exact(len)).enumerate() {
                    planes.convolve(weights, padded, computed, out.row_mut(i + n));
                }
                if !epilogue.is_empty() {
                    epilogue.apply(shape, pixels, row, 0, &mut out.block(i, 0, count, pixels));
                }
                i += count;
            }
        });
    });
}

/// The forward pass, with planes that are read in place.
fn forward_in_place<T: Accum>(
    shape: &ConvShape,
    (conv, kernels): (PlaneConv, &PlaneConvKernels<T>),
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    out: MatMut<'_, T>,
) {
    let (plane, pixels, taps) = (shape.input_plane(), out.cols(), shape.taps());
    parallel_blocks(out, (CHUNK_WORK / (pixels * taps)).max(1), pixels, |first, _, mut out| {
        for Group { row, channel, count } in groups(first, out.rows(), shape.in_channels, plane) {
            prefetch(next_planes(input, plane, row + count, count));
            let weights = &weights[channel * taps..(channel + count) * taps];
            let source = &input[row * plane..(row + count) * plane];
            let epilogues: SmallVec<[_; GROUP_PLANES]> =
                (channel..channel + count).map_while(|channel| epilogue.scale_clamp(channel)).collect();
            let mut block = out.block(row - first, 0, count, pixels);
            (kernels.convolve)(&conv, weights, source, &epilogues, block.dense_mut());
            if epilogues.is_empty() && !epilogue.is_empty() {
                epilogue.apply(shape, pixels, row, 0, &mut block);
            }
        }
    });
}

/// The gradient of the input.
pub(super) fn backward_data<T: Accum>(shape: &ConvShape, output_grad: &[T], weights: &[T], input_grad: &mut [T]) {
    let phases = phases(shape);
    let (plane, out_plane, taps) = (shape.input_plane(), shape.output_plane(), shape.taps());
    let out = MatMut::row_major(input_grad, shape.batch * shape.in_channels, plane);
    if let [phase] = &phases[..]
        && let Some(in_place) = in_place_kernels(&phase.geometry)
    {
        return backward_data_in_place(shape, phase, in_place, output_grad, weights, out);
    }
    if shape.stride == [1, 2, 2] && phases.len() == 4 && plane == shape.input[1] * shape.input[2] {
        return backward_data_stride_2(shape, &phases, output_grad, weights, out);
    }
    let planes: PerPhase<Planes<'_>> = phases.iter().map(|phase| Planes::new(&phase.geometry)).collect();
    let longest = planes.iter().map(|planes| planes.layout.len() + computed(&planes.layout)).max().unwrap_or(0);
    let grain = planes.iter().map(|planes| grain(&planes.layout, taps)).min().unwrap_or(1);
    parallel_blocks(out, grain, plane, |first, _, mut out| {
        with_scratch(longest + taps, |buffer: &mut [T]| {
            let (kernel, buffer) = buffer.split_at_mut(taps);
            for (phase, planes) in phases.iter().zip(&planes) {
                let layout = &planes.layout;
                let (padded, computed) = buffer.split_at_mut(layout.len());
                let computed = &mut computed[..self::computed(layout)];
                padded.fill(T::zero());
                for i in 0..out.rows() {
                    let (row, channel) = (first + i, (first + i) % shape.in_channels);
                    layout.fill(&output_grad[row * out_plane..(row + 1) * out_plane], 0, padded);
                    prefetch(next_planes(output_grad, out_plane, row + 1, 1));
                    kernel.iter_mut().zip(phase.taps.iter()).for_each(|(to, tap)| *to = weights[channel * taps + tap]);
                    let (kernel, to) = (&kernel[..phase.taps.len()], out.row_mut(i));
                    if phases.len() == 1 {
                        planes.convolve(kernel, padded, computed, to);
                        continue;
                    }
                    convolve(kernel, layout.taps(), padded, computed);
                    layout.each_row(layout.geometry().grid[1], |output, from| {
                        phase.scatter_row(shape, output.start, &computed[from], to)
                    });
                }
            }
        });
    });
}

/// The gradient of the input for a stride of 1, with planes that are read in place.
fn backward_data_in_place<T: Accum>(
    shape: &ConvShape,
    phase: &Phase,
    (conv, kernels): (PlaneConv, &PlaneConvKernels<T>),
    output_grad: &[T],
    weights: &[T],
    out: MatMut<'_, T>,
) {
    let (plane, out_plane, taps) = (shape.input_plane(), shape.output_plane(), shape.taps());
    parallel_blocks(out, (CHUNK_WORK / (plane * taps)).max(1), plane, |first, _, mut out| {
        for Group { row, channel, count } in groups(first, out.rows(), shape.in_channels, out_plane) {
            prefetch(next_planes(output_grad, out_plane, row + count, count));
            let weights: List<T> = (channel..channel + count)
                .flat_map(|channel| phase.taps.iter().map(move |tap| weights[channel * taps + tap]))
                .collect();
            let source = &output_grad[row * out_plane..(row + count) * out_plane];
            let mut block = out.block(row - first, 0, count, plane);
            (kernels.convolve)(&conv, &weights, source, &[], block.dense_mut());
        }
    });
}

/// The gradient of the input for a stride of 2 along both axes. The even and odd columns of a row are two phases, which are computed
/// together.
fn backward_data_stride_2<T: Accum>(
    shape: &ConvShape,
    phases: &[Phase],
    output_grad: &[T],
    weights: &[T],
    out: MatMut<'_, T>,
) {
    let (taps, width, out_plane) = (shape.taps(), shape.input[2], shape.output_plane());
    // The first phase has the most elements.
    let geometry = Geometry {
        grid: phases[0].geometry.grid,
        source: shape.output(),
        stride: [1; 3],
        taps: phases.iter().flat_map(|phase| phase.geometry.taps.iter().copied()).collect(),
    };
    let layout = Layout::new(&geometry);
    let kernel_taps: List<usize> = phases.iter().flat_map(|phase| phase.taps.iter().copied()).collect();
    let starts: PerPhase<usize> =
        phases.iter().scan(0, |start, phase| Some(std::mem::replace(start, *start + phase.taps.len()))).collect();
    let grain = (CHUNK_WORK / (computed(&layout) * taps).max(1)).max(1);
    parallel_blocks(out, grain, shape.input_plane(), |first, _, mut out| {
        with_scratch(layout.len(), |padded: &mut [T]| {
            padded.fill(T::zero());
            for i in 0..out.rows() {
                let (row, channel) = (first + i, (first + i) % shape.in_channels);
                layout.fill(&output_grad[row * out_plane..(row + 1) * out_plane], 0, padded);
                prefetch(next_planes(output_grad, out_plane, row + 1, 1));
                let kernel = &weights[channel * taps..(channel + 1) * taps];
                let taps: List<(usize, T)> =
                    layout.taps().iter().zip(&*kernel_taps).map(|(offset, tap)| (*offset, kernel[*tap])).collect();
                let phase_taps = |phase: usize| &taps[starts[phase]..][..phases[phase].taps.len()];
                for (y, out) in out.row_mut(i).chunks_exact_mut(width).enumerate() {
                    let even = y % 2 * 2;
                    convolve_interleaved(
                        phase_taps(even),
                        phase_taps(even + 1),
                        &padded[y / 2 * layout.pitch()..],
                        out,
                    );
                }
            }
        });
    });
}

/// The gradient of the weights.
pub(super) fn backward_weights<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    let geometry = shape.windows();
    let (plane, pixels, taps) = (geometry.plane(), geometry.pixels(), shape.taps());
    let out = MatMut::row_major(weights_grad, shape.out_channels, taps);
    if let Some((conv, kernels)) = in_place_kernels(&geometry) {
        let grain = (CHUNK_WORK / (pixels * taps * shape.batch).max(1)).max(1);
        return parallel_blocks(out, grain, taps, |first, _, mut out| {
            for i in 0..out.rows() {
                let sums = out.row_mut(i);
                sums.fill(T::zero());
                for row in (0..shape.batch).map(|n| n * shape.in_channels + first + i) {
                    let (source, grad) =
                        (&input[row * plane..(row + 1) * plane], &output_grad[row * pixels..(row + 1) * pixels]);
                    prefetch(next_planes(input, plane, row + shape.in_channels, 1));
                    prefetch(next_planes(output_grad, pixels, row + shape.in_channels, 1));
                    (kernels.correlate)(&conv, source, grad, sums);
                }
            }
        });
    }
    let layout = Layout::new(&geometry);
    let grain = grain(&layout, shape.taps()).div_ceil(shape.batch.max(1));
    parallel_blocks(out, grain, taps, |first, _, mut out| {
        with_scratch(layout.len() + computed(&layout), |buffer: &mut [T]| {
            let (padded, grads) = buffer.split_at_mut(layout.len());
            padded.fill(T::zero());
            grads.fill(T::zero());
            for i in 0..out.rows() {
                let sums = out.row_mut(i);
                sums.fill(T::zero());
                for n in 0..shape.batch {
                    let row = n * shape.in_channels + first + i;
                    layout.fill(&input[row * plane..(row + 1) * plane], 0, padded);
                    let grad = &output_grad[row * pixels..(row + 1) * pixels];
                    prefetch(next_planes(input, plane, row + shape.in_channels, 1));
                    prefetch(next_planes(output_grad, pixels, row + shape.in_channels, 1));
                    layout.scatter_outputs(layout.geometry().grid[1], grad, grads);
                    correlate(grads, layout.taps(), padded, sums);
                }
            }
        });
    });
}
