//! The gradient of the weights of a convolution.
//!
//! A matrix product over the pixels: A is (output channels, pixels), B is (pixels, input channels x taps). The input of a block
//! of pixels, padding included, is transposed to channels-last order in scratch memory, so a panel of B is a table of offsets,
//! one per pixel, that all taps share. With fewer channels than lanes, neighboring taps of a row fill the lanes together: they
//! are contiguous in this order.

use super::strided_compaction::Compact;
use super::{ConvShape, check_len, crop, depthwise, single_output, winograd};
use crate::float::{Accum, FloatElement, with_wide, with_wide_mut};
use crate::gemm::CACHE_WAY_BYTES;
use crate::par::{List, MatMut, MatRef, num_threads, parallel_blocks, parallel_rows, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels, TileProduct};
use std::ops::Range;

/// Approximate number of pixels in a block: the depth of the microkernel.
const BLOCK_PIXELS: usize = 512;
/// Maximum bytes of the inputs of a block of pixels, which are read for every tile of output channels and must stay in the L2 cache.
const BLOCK_BYTES: usize = 448 << 10;
/// Maximum number of slices of the batch. The gradient of each slice is computed separately, and they are added at the end.
const MAX_SLICES: usize = 16;
/// Maximum bytes of the gradients of all slices.
const SLICES_BYTES: usize = 2 << 20;

/// Computes the gradient of the weights. It is summed within slices of the batch, then over the slices in order; the number of
/// slices depends only on the shape, so that the result does not depend on the number of threads.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies.
pub fn conv_backward_weights<T: FloatElement>(
    shape: &ConvShape,
    input: &[T],
    output_grad: &[T],
    weights_grad: &mut [T],
) {
    with_wide(input, |input| {
        with_wide(output_grad, |output_grad| {
            with_wide_mut(weights_grad, |weights_grad| backward(shape, input, output_grad, weights_grad));
        });
    });
}

fn backward<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    shape.check();
    check_len("input", input.len(), shape.input_len(), shape);
    check_len("output", output_grad.len(), shape.output_len(), shape);
    check_len("weights", weights_grad.len(), shape.weights_len(), shape);
    if weights_grad.is_empty() {
        return;
    }
    if shape.batch == 0 || output_grad.is_empty() {
        return weights_grad.fill(T::zero());
    }
    if let Some(inner) = crop::cropped(shape) {
        return with_scratch(inner.weights_len(), |taps: &mut [T]| {
            backward(&inner, input, output_grad, taps);
            crop::extend(shape, weights_grad, &inner, taps);
        });
    }
    if single_output::applies(shape) {
        return single_output::backward_weights(shape, input, output_grad, weights_grad);
    }
    if let Some(compact) = Compact::new(shape) {
        return with_scratch(compact.shape.input_len(), |copy: &mut [T]| {
            compact.gather(shape, input, copy);
            backward(&compact.shape, copy, output_grad, weights_grad);
        });
    }
    if depthwise::is_depthwise(shape) {
        return depthwise::backward_weights(shape, input, output_grad, weights_grad);
    }
    if winograd::is_profitable_for_weights::<T>(shape) {
        return winograd::backward_weights(shape, input, output_grad, weights_grad);
    }
    multiply(shape, input, output_grad, weights_grad);
}

/// Computes the gradient of the weights as a product of the output gradient and the windows.
fn multiply<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    let product = Product::new(shape, input, output_grad);
    let (rows, depth, nr) = (shape.group_out(), shape.depth(), product.kernel.nr());
    let unit = rows * nr;
    let len = shape.groups * product.units.len() * unit;
    let max_slices = MAX_SLICES.min(shape.batch).min((SLICES_BYTES / (len * size_of::<T>())).max(1));
    // A power of two divides evenly among most numbers of threads.
    let slices = 1 << max_slices.ilog2();
    with_scratch(slices * len, |sums: &mut [T]| {
        product.run(slices, sums);
        let sums = &*sums;
        // The largest divisor of the rows up to 16: a chunk must not span two groups.
        let chunk_rows = (1..=16.min(rows)).rev().find(|chunk_rows| rows.is_multiple_of(*chunk_rows)).unwrap_or(1);
        parallel_rows(weights_grad, chunk_rows * depth, 1, |i, grad| {
            let row = i * chunk_rows;
            for (i, columns) in product.columns.chunks(nr).enumerate() {
                let start = (row / rows * product.units.len() + i) * unit + row % rows * nr;
                sum_slices(&sums[start..], len, slices, columns, depth, grad);
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Sums the gradients of all slices, which have a stride of `len`, into the given columns of each row of `grad`, whose rows
    /// have `depth` elements. A column index of `depth` marks a lane without a column.
    fn sum_slices<T: Accum>(sums: &[T], len: usize, slices: usize, columns: &[usize], depth: usize, grad: &mut [T]) {
        match columns.len() {
            12 => sum_slices_sized::<T, 12>(sums, len, slices, columns, depth, grad),
            16 => sum_slices_sized::<T, 16>(sums, len, slices, columns, depth, grad),
            32 => sum_slices_sized::<T, 32>(sums, len, slices, columns, depth, grad),
            _ => sum_slices_sized::<T, 1>(sums, len, slices, columns, depth, grad),
        }
    }
}

/// [`sum_slices`] for a number of lanes that is a multiple of N, N at a time.
#[inline(always)]
fn sum_slices_sized<T: Accum, const N: usize>(
    sums: &[T],
    len: usize,
    slices: usize,
    columns: &[usize],
    depth: usize,
    grad: &mut [T],
) {
    let nr = columns.len();
    for (lane, columns) in columns.as_chunks::<N>().0.iter().enumerate() {
        let adjacent = columns.iter().zip(columns[0]..).all(|(column, next)| *column == next) && columns[N - 1] < depth;
        for (row, grad) in grad.chunks_exact_mut(depth).enumerate() {
            let mut total = [T::zero(); N];
            let first = row * nr + lane * N;
            total.copy_from_slice(&sums[first..][..N]);
            for slice in 1..slices {
                let terms = &sums[slice * len + first..][..N];
                for i in 0..N {
                    total[i] += terms[i];
                }
            }
            if adjacent {
                grad[columns[0]..][..N].copy_from_slice(&total);
                continue;
            }
            for (column, total) in columns.iter().zip(total).filter(|(column, _)| **column < depth) {
                grad[*column] = total;
            }
        }
    }
}

/// The columns of the weights (input channels of the group x taps) that fill the lanes of one panel of B.
struct Unit {
    /// Index of the block of input channels.
    block: usize,
    /// Coordinates of the first tap.
    tap: [usize; 3],
    /// Number of lanes of that tap that belong to previous units.
    skip: usize,
    /// Number of columns.
    lanes: usize,
}

/// A rectangle of pixels in a plane of an image: whole rows, or a range of columns of one row.
#[derive(Clone)]
struct PixelRegion {
    image: usize,
    plane: usize,
    rows: Range<usize>,
    cols: Range<usize>,
}

impl PixelRegion {
    fn pixels(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}

struct Product<'a, T: 'static> {
    shape: &'a ConvShape,
    kernel: &'static MicroKernel<T>,
    input: &'a [T],
    output_grad: &'a [T],
    /// Number of channels in a channel block: all, or as many as fill the lanes.
    width: usize,
    units: List<Unit>,
    /// For each unit, the weight column of each of its `nr` lanes; the number of columns marks a lane without one.
    columns: List<usize>,
}

/// Size of the box of input elements that a block of pixels reads.
#[derive(Clone, Copy, PartialEq)]
struct Slab([usize; 3]);

impl Slab {
    fn of(shape: &ConvShape, region: &PixelRegion) -> Slab {
        let extent = |d: usize, outputs: usize| {
            outputs.saturating_sub(1) * shape.stride[d] + (shape.kernel[d] - 1) * shape.dilate[d] + 1
        };
        Slab([extent(0, 1), extent(1, region.rows.len()), extent(2, region.cols.len())])
    }

    fn len(&self) -> usize {
        self.0.iter().product()
    }

    /// Offset of coordinates in the slab.
    fn offset(&self, [d, h, w]: [usize; 3]) -> usize {
        (d * self.0[1] + h) * self.0[2] + w
    }
}

impl<'a, T: Accum> Product<'a, T> {
    fn new(shape: &'a ConvShape, input: &'a [T], output_grad: &'a [T]) -> Self {
        let kernel = T::microkernel();
        let (channels, nr, [planes, height, taps]) = (shape.group_in(), kernel.nr(), shape.kernel);
        let width = channels.min(nr);
        // Neighboring taps share the lanes if they are contiguous in the input.
        let lane_taps = if channels < nr && shape.dilate[2] == 1 { taps } else { 1 };
        let (mut units, mut columns) = (List::default(), List::default());
        for (block, plane, row) in (0..channels.div_ceil(width))
            .flat_map(|block| (0..planes).flat_map(move |plane| (0..height).map(move |row| (block, plane, row))))
        {
            let num_lanes = lane_taps * width.min(channels - block * width);
            for (tap, skip) in
                (0..taps).step_by(lane_taps).flat_map(|tap| (0..num_lanes).step_by(nr).map(move |skip| (tap, skip)))
            {
                let lanes = nr.min(num_lanes - skip);
                units.push(Unit { block, tap: [plane, row, tap], skip, lanes });
                columns.extend((skip..skip + nr).map(|lane| {
                    let (channel, tap) = (block * width + lane % width, tap + lane / width);
                    let column = channel * shape.taps() + (plane * height + row) * taps + tap;
                    if lane < skip + lanes { column } else { shape.depth() }
                }));
            }
        }
        Product { shape, kernel, input, output_grad, width, units, columns }
    }

    /// Writes the gradients of `slices` slices of the batch: (slices, groups, units, output channels, nr).
    fn run(&self, slices: usize, sums: &mut [T]) {
        let unit = self.shape.group_out() * self.kernel.nr();
        // With more threads than slices and groups, the units are divided, too; this changes no result.
        let chunks = num_threads().div_ceil(slices * self.shape.groups).min(self.units.len());
        let chunk_units = self.units.len().div_ceil(chunks);
        let sums = MatMut::row_major(sums, slices * self.shape.groups, self.units.len() * unit);
        parallel_blocks(sums, 1, chunk_units * unit, |row, column, mut out| {
            let (slice, group, first) = (row / self.shape.groups, row % self.shape.groups, column / unit);
            let images = self.shape.batch * slice / slices..self.shape.batch * (slice + 1) / slices;
            let units = first..(first + chunk_units).min(self.units.len());
            self.run_chunk(group, images, units, out.row_mut(0));
        });
    }

    /// Computes the gradients of a range of units of a group over a range of images.
    fn run_chunk(&self, group: usize, images: Range<usize>, units: Range<usize>, sums: &mut [T]) {
        let (kernel, rows, nr) = (self.kernel, self.shape.group_out(), self.kernel.nr());
        let units = &self.units[units];
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return };
        let blocks = first.block..last.block + 1;
        let (mut table, mut table_key) = (OffsetTable::default(), None);
        let mut accumulate = false;
        self.for_each_block(images, |regions| {
            let depth: usize = regions.iter().map(PixelRegion::pixels).sum();
            let slab = Slab::of(self.shape, &regions[0]);
            let block = regions.len() * slab.len() * self.width;
            if table_key != Some((slab, depth)) {
                table = OffsetTable::new(self.first_tap_offsets(regions, &slab));
                table_key = Some((slab, depth));
            }
            let inputs = blocks.len() * block + nr;
            let in_place = self.reads_grads_in_place(regions);
            let grads = if in_place { 0 } else { kernel.packed_a_len(rows, depth) };
            with_scratch(inputs + grads, |buffer: &mut [T]| {
                let (inputs, grads) = buffer.split_at_mut(inputs);
                self.pack_inputs(group, regions, &slab, &blocks, inputs);
                if !in_place {
                    self.pack_grads(group, regions, depth, grads);
                }
                let grads_in_place = self.grads(group, &regions[0]);
                for row in (0..rows).step_by(kernel.mr()) {
                    let count = kernel.mr().min(rows - row);
                    for (unit, sums) in units.iter().zip(sums.chunks_exact_mut(rows * nr)) {
                        let offset = slab.offset(std::array::from_fn(|d| unit.tap[d] * self.shape.dilate[d]));
                        let start = (unit.block - blocks.start) * block + offset * self.width + unit.skip;
                        let cols = unit.lanes.next_multiple_of(kernel.lanes());
                        let c = MatMut::new(&mut sums[row * nr..], count, cols, nr);
                        let product = TileProduct { depth, alpha: T::one(), accumulate };
                        if in_place {
                            let b = Panels::in_place(&inputs[start..], nr, self.width);
                            let a = grads_in_place.block(row, 0, count, depth);
                            kernel.strided_tile(product, a, b, c);
                        } else {
                            let a = Panels::packed(&grads[row * depth..], kernel.mr(), depth);
                            let b = IndexedPanel { data: &inputs[start..], table: &table, first: 0 };
                            kernel.indexed_tiles(product, a, b, c);
                        }
                    }
                }
            });
            accumulate = true;
        });
    }

    /// Divides the pixels of the images into blocks: several small planes, several rows of one, or several columns of one row.
    fn for_each_block(&self, images: Range<usize>, mut f: impl FnMut(&[PixelRegion])) {
        let [planes, height, width] = self.shape.output();
        let all = images.flat_map(|image| (0..planes).map(move |plane| (image, plane)));
        let block_pixels = BLOCK_PIXELS.min(BLOCK_BYTES / (self.shape.group_in() * size_of::<T>()));
        let block_planes = block_pixels / (height * width);
        if block_planes > 1 {
            let whole = |(image, plane)| PixelRegion { image, plane, rows: 0..height, cols: 0..width };
            let regions: List<PixelRegion> = all.map(whole).collect();
            return regions.chunks(block_planes).for_each(f);
        }
        // Blocks of nearly equal size.
        let rows = height.div_ceil(height.div_ceil((block_pixels / width).max(1)));
        let cols = if rows > 1 { width } else { width.div_ceil(width.div_ceil(block_pixels)) };
        for (image, plane) in all {
            for row in (0..height).step_by(rows) {
                for col in (0..width).step_by(cols) {
                    let (rows, cols) = (row..(row + rows).min(height), col..(col + cols).min(width));
                    f(&[PixelRegion { image, plane, rows, cols }]);
                }
            }
        }
    }

    /// Offset of the element that the first tap of each pixel reads.
    fn first_tap_offsets<'p>(&'p self, regions: &'p [PixelRegion], slab: &'p Slab) -> impl Iterator<Item = usize> + 'p {
        let [_, stride_y, stride_x] = self.shape.stride;
        regions.iter().enumerate().flat_map(move |(i, region)| {
            (0..region.rows.len()).flat_map(move |row| {
                (0..region.cols.len())
                    .map(move |col| (i * slab.len() + slab.offset([0, row * stride_y, col * stride_x])) * self.width)
            })
        })
    }

    /// True if the output gradients of the regions are read in place, without packing.
    fn reads_grads_in_place(&self, regions: &[PixelRegion]) -> bool {
        let stride = self.shape.output_plane() * size_of::<T>();
        let pointwise = self.shape.taps() == 1 && self.shape.stride == [1; 3] && self.shape.pad == [0; 3];
        pointwise && regions.len() == 1 && !stride.is_multiple_of(CACHE_WAY_BYTES)
    }

    /// The output gradients of a region: (output channels of the group, pixels).
    fn grads(&self, group: usize, region: &PixelRegion) -> MatRef<'_, T> {
        let ([_, height, width], rows, pixels) =
            (self.shape.output(), self.shape.group_out(), self.shape.output_plane());
        let channel = region.image * self.shape.out_channels + group * rows;
        let first = (region.plane * height + region.rows.start) * width + region.cols.start;
        MatRef::new(&self.output_grad[channel * pixels + first..], rows, region.pixels(), pixels, 1)
    }

    /// Packs the output gradients as panels of A: rows are output channels of the group, k indices are pixels.
    fn pack_grads(&self, group: usize, regions: &[PixelRegion], depth: usize, out: &mut [T]) {
        let (rows, mr) = (self.shape.group_out(), self.kernel.mr());
        let mut done = 0;
        for region in regions {
            let (grads, len) = (self.grads(group, region), region.pixels());
            for row in (0..rows).step_by(mr) {
                let panel = &mut out[row * depth + done * mr..][..mr * len];
                self.kernel.pack_a(grads.block(row, 0, mr.min(rows - row), len), panel);
            }
            done += len;
        }
    }

    /// Transposes the slabs of the regions: (channel blocks, regions, slab, channels of a block). The padding is zero.
    fn pack_inputs(&self, group: usize, regions: &[PixelRegion], slab: &Slab, blocks: &Range<usize>, out: &mut [T]) {
        let (shape, [depth, height, width]) = (self.shape, self.shape.input);
        let (plane, channels, len) = (shape.input_plane(), shape.group_in(), slab.len() * self.width);
        if shape.pad != [0; 3] {
            out.fill(T::zero());
        }
        for (i, region) in regions.iter().enumerate() {
            let start = |d: usize, first: usize| (first * shape.stride[d]) as isize - shape.pad[d] as isize;
            let origin = [start(0, region.plane), start(1, region.rows.start), start(2, region.cols.start)];
            let inside = |d: usize, size: usize| {
                let range = (-origin[d]).max(0)..(size as isize - origin[d]).min(slab.0[d] as isize);
                (range.start as usize..range.end.max(0) as usize, (origin[d] + range.start) as usize)
            };
            let ((ds, d0), (hs, h0), (ws, w0)) = (inside(0, depth), inside(1, height), inside(2, width));
            if ws.is_empty() {
                continue;
            }
            for (d, h) in ds.clone().flat_map(|d| hs.clone().map(move |h| (d, h))) {
                let from = ((d0 + d - ds.start) * height + h0 + h - hs.start) * width + w0;
                let to = slab.offset([d, h, ws.start]) * self.width;
                for block in blocks.clone() {
                    let channel = block * self.width;
                    let lanes = self.width.min(channels - channel);
                    let first = (region.image * shape.in_channels + group * channels + channel) * plane + from;
                    let rows = MatRef::new(&self.input[first..], lanes, ws.len(), plane, 1);
                    let out = &mut out[((block - blocks.start) * regions.len() + i) * len + to..];
                    self.kernel.pack_lanes(rows, self.width, &mut out[..ws.len() * self.width]);
                }
            }
        }
    }
}
