//! The outputs of a convolution by Winograd's algorithm. Tiles are transformed in vectors, one tile per lane; the sums over channels
//! are matrix products, one for each of the 36 transformed elements.

use super::super::ConvShape;
use super::super::epilogue::ConvEpilogue;
use super::super::geometry::Geometry;
use super::super::layout::Layout;
use super::{ELEMENTS, LANES, TILE, transform_inputs_1d};
use crate::float::Accum;
use crate::par::{List, MatMut, num_threads, parallel_blocks, parallel_blocks_of_groups, parallel_rows, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels, TileProduct};
use crate::simd::window::Runs;
use std::ops::Range;

/// Tile vectors in a block, which is multiplied with the weights: enough to fill the panels of the microkernels.
const FEW_VECTORS: usize = 2;
/// Tile vectors in a block for large weights.
const MANY_VECTORS: usize = 8;
/// Minimum bytes of large weights, which do not fit into the L2 cache.
const LARGE_WEIGHTS: usize = 2 << 20;
/// Maximum bytes of the transformed inputs of several images.
const MAX_TRANSFORMED_BYTES: usize = 16 << 20;
/// Chunks of a loop for each thread, so that a delayed thread holds up the others less.
const CHUNKS_PER_THREAD: usize = 3;

/// Elements of the transformed weights.
pub(in crate::conv) fn weights_len<T: Accum>(shape: &ConvShape, kernel: &MicroKernel<T>) -> usize {
    shape.groups * ELEMENTS * kernel.packed_a_len(shape.group_out(), shape.group_in())
}

/// How weights are stored, relative to the convolution that they are transformed for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::conv) enum WeightOrder {
    /// (output channels, input channels, taps).
    Forward,
    /// (input channels, output channels, taps), to be rotated by 180 degrees: the weights of the convolution of which this one is the
    /// [`adjoint`](super::adjoint).
    Adjoint,
}

/// Transforms the weights of `shape` into panels of `mr` output channels, each (elements, input channels, mr).
pub(in crate::conv) fn transform_weights<T: Accum>(
    shape: &ConvShape,
    kernel: &MicroKernel<T>,
    weights: &[T],
    order: WeightOrder,
    out: &mut [T],
) {
    let (rows, channels, mr) = (shape.group_out(), shape.group_in(), kernel.mr());
    let panels = rows.div_ceil(mr);
    parallel_rows(out, ELEMENTS * channels * mr, 1, |i, out| {
        let (group, panel) = (i / panels, i % panels);
        let weights = &weights[group * rows * channels * 9..][..rows * channels * 9];
        let lanes = mr.min(rows - panel * mr);
        let (mut taps, mut tile) = ([[T::zero(); LANES]; 9], [[T::zero(); LANES]; ELEMENTS]);
        for channel in 0..channels {
            for (lane, row) in (panel * mr..panel * mr + lanes).enumerate() {
                let kernel = match order {
                    WeightOrder::Forward => row * channels + channel,
                    WeightOrder::Adjoint => channel * rows + row,
                };
                for (tap, weight) in weights[kernel * 9..][..9].iter().enumerate() {
                    taps[if order == WeightOrder::Forward { tap } else { 8 - tap }][lane] = *weight;
                }
            }
            transform_taps(&taps, &mut tile);
            for (element, values) in tile.iter().enumerate() {
                out[(element * channels + channel) * mr..][..lanes].copy_from_slice(&values[..lanes]);
            }
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// G g G^T for the 3 x 3 kernels g of `LANES` output channels.
    fn transform_taps<T: Accum>(taps: &[[T; LANES]; 9], tile: &mut [[T; LANES]; ELEMENTS]) {
        let mut half = [[T::zero(); LANES]; 18];
        for column in 0..3 {
            for lane in 0..LANES {
                let values = transform_weights_1d(std::array::from_fn(|i| taps[3 * i + column][lane]));
                for i in 0..6 {
                    half[3 * i + column][lane] = values[i];
                }
            }
        }
        for row in 0..6 {
            for lane in 0..LANES {
                let values = transform_weights_1d(std::array::from_fn(|i| half[3 * row + i][lane]));
                for i in 0..6 {
                    tile[6 * row + i][lane] = values[i];
                }
            }
        }
    }
}

/// G g for a column of three weights.
#[inline(always)]
fn transform_weights_1d<T: Accum>(g: [T; 3]) -> [T; 6] {
    let c = |x: f64| T::of(x);
    let (even, odd) = (g[0] + g[2], g[1]);
    let (wide, step) = (g[0] + g[2] * c(4.0), g[1] * c(2.0));
    [
        g[0] * c(0.25),
        -(even + odd) * c(1.0 / 6.0),
        (odd - even) * c(1.0 / 6.0),
        (wide + step) * c(1.0 / 24.0),
        (wide - step) * c(1.0 / 24.0),
        g[2],
    ]
}

/// A^T m for a column of six products.
#[inline(always)]
fn transform_outputs_1d<T: Accum>(m: [T; 6]) -> [T; 4] {
    let c = |x: f64| T::of(x);
    let (p, q, r, t) = (m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]);
    [m[0] + p + r, q + t * c(2.0), p + r * c(4.0), q + t * c(8.0) + m[5]]
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// B^T d B for a tile vector. `from` is (elements, `LANES`), `to` is (elements, `num_vectors` x `LANES`).
    fn transform_inputs<T: Accum>(from: &[T; ELEMENTS * LANES], to: &mut [T], num_vectors: usize) {
        match num_vectors {
            FEW_VECTORS => transform_inputs_sized::<T, { FEW_VECTORS * LANES }>(from, to),
            _ => transform_inputs_sized::<T, { MANY_VECTORS * LANES }>(from, to),
        }
    }
}

/// [`transform_inputs`] with the stride between elements known at compile time.
#[inline(always)]
fn transform_inputs_sized<T: Accum, const STRIDE: usize>(from: &[T; ELEMENTS * LANES], to: &mut [T]) {
    let to = &mut to[..ELEMENTS * STRIDE - (STRIDE - LANES)];
    let mut half = [[T::zero(); LANES]; ELEMENTS];
    for row in 0..6 {
        for lane in 0..LANES {
            let values = transform_inputs_1d(std::array::from_fn(|i| from[(6 * row + i) * LANES + lane]));
            for i in 0..6 {
                half[6 * row + i][lane] = values[i];
            }
        }
    }
    for column in 0..6 {
        for lane in 0..LANES {
            let values = transform_inputs_1d(std::array::from_fn(|i| half[6 * i + column][lane]));
            for i in 0..6 {
                to[(6 * i + column) * STRIDE + lane] = values[i];
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// A^T m A for a tile vector. `from` is (elements, `num_vectors` x `LANES`); `to` is (rows of a tile, tiles, columns of a
    /// tile).
    fn transform_outputs<T: Accum>(from: &[T], num_vectors: usize, to: &mut [[T; TILE * LANES]; TILE]) {
        match num_vectors {
            FEW_VECTORS => transform_outputs_sized::<T, { FEW_VECTORS * LANES }>(from, to),
            _ => transform_outputs_sized::<T, { MANY_VECTORS * LANES }>(from, to),
        }
    }
}

/// [`transform_outputs`] with the stride between elements known at compile time.
#[inline(always)]
fn transform_outputs_sized<T: Accum, const STRIDE: usize>(from: &[T], to: &mut [[T; TILE * LANES]; TILE]) {
    let from = &from[..ELEMENTS * STRIDE - (STRIDE - LANES)];
    let mut half = [[T::zero(); LANES]; TILE * 6];
    for column in 0..6 {
        for lane in 0..LANES {
            let values = transform_outputs_1d(std::array::from_fn(|i| from[(6 * i + column) * STRIDE + lane]));
            for i in 0..TILE {
                half[6 * i + column][lane] = values[i];
            }
        }
    }
    for (row, to) in to.iter_mut().enumerate() {
        for lane in 0..LANES {
            let values = transform_outputs_1d(std::array::from_fn(|i| half[6 * row + i][lane]));
            for i in 0..TILE {
                to[TILE * lane + i] = values[i];
            }
        }
    }
}

/// Up to `LANES` consecutive tiles of an image.
#[derive(Clone, Debug)]
struct TileVector {
    /// Index of the image within the chunk.
    image: usize,
    /// Indices of the tiles within the tile rows of the chunk.
    tiles: Range<usize>,
}

/// The operands of a convolution by Winograd's algorithm.
struct Winograd<'a, T: Accum> {
    shape: &'a ConvShape,
    kernel: &'static MicroKernel<T>,
    layout: &'a Layout<'a>,
    /// Offsets of the 6 x 6 inputs of a tile.
    table: &'a OffsetTable,
    weights: &'a [T],
    input: &'a [T],
    epilogue: &'a ConvEpilogue<'a, T>,
    /// Tile vectors in a block.
    num_vectors: usize,
}

/// Convolves `input` with transformed weights into `output`. [`is_profitable`](super::is_profitable) must hold for `shape`.
pub(in crate::conv) fn forward<T: Accum>(
    shape: &ConvShape,
    kernel: &'static MicroKernel<T>,
    input: &[T],
    weights: &[T],
    epilogue: &ConvEpilogue<'_, T>,
    output: &mut [T],
) {
    let [_, height, width] = shape.output();
    let geometry = Geometry {
        grid: [1, height.div_ceil(TILE), width.div_ceil(TILE)],
        source: shape.input,
        stride: [1, TILE, TILE],
        taps: (0..ELEMENTS as isize)
            .map(|i| [0, i / 6 - shape.pad[1] as isize, i % 6 - shape.pad[2] as isize])
            .collect(),
    };
    let threads = num_threads();
    let (rows, pixels, tiles) = (shape.group_out(), height * width, geometry.pixels());
    let has_few_images = shape.groups == 1 && shape.batch < 2 * threads && threads > 1;
    let chunk_height =
        if has_few_images { chunk_rows(geometry.grid, threads.div_ceil(shape.batch)) } else { geometry.grid[1] };
    let is_large = size_of_val(weights) / shape.groups >= LARGE_WEIGHTS;
    let num_vectors = if is_large && shape.batch * tiles > FEW_VECTORS * LANES { MANY_VECTORS } else { FEW_VECTORS };
    let in_two_loops = has_few_images && shape.batch * geometry.grid[1].div_ceil(chunk_height) < threads;
    let panels = rows.div_ceil(kernel.mr());
    // Chunks per image of the second loop, and rows of tiles in each.
    let chunks = (CHUNKS_PER_THREAD * threads).div_ceil(shape.batch);
    let chunk_height = match in_two_loops {
        true => chunk_rows(geometry.grid, chunks.div_ceil(panels).max(tiles.div_ceil(num_vectors * LANES))),
        false => chunk_height,
    };
    let layout = Layout::of_rows(&geometry, chunk_height);
    let table = OffsetTable::new(layout.taps().iter().copied());
    let winograd = Winograd { shape, kernel, layout: &layout, table: &table, weights, input, epilogue, num_vectors };
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    if in_two_loops {
        let chunk_panels = (panels * geometry.grid[1].div_ceil(chunk_height) / chunks).max(1);
        return winograd.run_in_two_loops(chunk_height, chunk_panels * kernel.mr(), out);
    }
    if chunk_height < geometry.grid[1] {
        return parallel_blocks(out, rows, chunk_height * TILE * width, |row, pixel, mut block| {
            let image = row / rows;
            winograd.group(0, image..image + 1, pixel / width / TILE, &mut block);
        });
    }
    // Several small images are computed together, so that they fill a block of tile vectors.
    let images = (num_vectors / tiles.div_ceil(LANES)).clamp(1, shape.batch.div_ceil(2 * threads).max(1));
    parallel_blocks(out, images * shape.out_channels, pixels, |row, _, mut block| {
        let first = row / shape.out_channels;
        let images = first..first + block.rows() / shape.out_channels;
        for group in 0..shape.groups {
            winograd.group(group, images.clone(), 0, &mut block);
        }
    });
}

/// Rows of tiles in a chunk that divide an image into at least `min_chunks` chunks, if this leaves the tile vectors nearly full;
/// otherwise into as many as leave them nearly full.
fn chunk_rows([_, height, width]: [usize; 3], min_chunks: usize) -> usize {
    let tile_vectors =
        |rows: usize| height / rows * (rows * width).div_ceil(LANES) + (height % rows * width).div_ceil(LANES);
    let chunks = (min_chunks..=height).chain((1..min_chunks.min(height)).rev());
    let mut even = chunks.map(|chunks| height.div_ceil(chunks));
    even.find(|rows| 8 * tile_vectors(*rows) <= 9 * tile_vectors(height)).unwrap_or(height)
}

impl<T: Accum> Winograd<'_, T> {
    /// Computes the output channels of a group for a range of images, starting at tile row `first`. The rows of `out` are all channels of
    /// these images; its columns are pixels.
    fn group(&self, group: usize, images: Range<usize>, first: usize, out: &mut MatMut<'_, T>) {
        let (channels, rows) = (self.shape.group_in(), 0..self.shape.group_out());
        let (tile_rows, phases) = (self.tile_rows(out), self.layout.len());
        let tile_vectors = self.tile_vectors(images.len(), tile_rows);
        let first_row = |image: usize| image * self.shape.out_channels + group * rows.len();
        with_scratch(images.len() * channels * phases, |source: &mut [T]| {
            source.fill(T::zero());
            let plane = self.layout.geometry().plane();
            for (image, to) in images.clone().zip(source.chunks_exact_mut(channels * phases)) {
                let channel = image * self.shape.in_channels + group * channels;
                self.layout.fill(&self.input[channel * plane..(channel + channels) * plane], first, to);
            }
            let stride = self.stride();
            with_scratch((channels + rows.len()) * stride, |tiles: &mut [T]| {
                let (inputs, outputs) = tiles.split_at_mut(channels * stride);
                for tile_vectors in tile_vectors.chunks(self.num_vectors) {
                    for (i, tile_vector) in tile_vectors.iter().enumerate() {
                        let image = &source[tile_vector.image * channels * phases..][..channels * phases];
                        self.transform_channels(tile_rows, tile_vector, image, inputs, i * LANES);
                    }
                    self.multiply(group, &rows, tile_vectors.len() * LANES, inputs, outputs);
                    for (i, tile_vector) in tile_vectors.iter().enumerate() {
                        let mut block = out.block(first_row(tile_vector.image), 0, rows.len(), out.cols());
                        self.write(tile_vector, &outputs[i * LANES..], &mut block);
                    }
                }
            });
        });
        for (i, image) in images.enumerate() {
            let mut block = out.block(first_row(i), 0, rows.len(), out.cols());
            self.apply_epilogue(first_row(image), first, &mut block);
        }
    }

    /// Computes all images in two parallel loops: the first transforms the inputs, the second multiplies and writes `channels` output
    /// channels of `tile_rows` rows of tiles per chunk. Chunks of output channels alone would each transform all inputs.
    fn run_in_two_loops(&self, tile_rows: usize, channels: usize, mut out: MatMut<'_, T>) {
        let (shape, stride, [_, height, width]) = (self.shape, self.stride(), self.layout.geometry().grid);
        let blocks = height.div_ceil(tile_rows);
        // A block of tile rows is transformed and multiplied `num_vectors` tile vectors at a time.
        let block_len = (tile_rows * width).div_ceil(self.num_vectors * LANES) * shape.in_channels * stride;
        let image_len = blocks * block_len;
        let max_images = (MAX_TRANSFORMED_BYTES / (image_len * size_of::<T>())).clamp(1, shape.batch);
        let (rows, cols) = (shape.out_channels, out.cols());
        with_scratch(max_images * image_len, |inputs: &mut [T]| {
            for first in (0..shape.batch).step_by(max_images) {
                let images = max_images.min(shape.batch - first);
                let inputs = &mut inputs[..images * image_len];
                self.transform_images(first, tile_rows, block_len, inputs);
                let inputs = &*inputs;
                let out = out.block(first * rows, 0, images * rows, cols);
                let block_pixels = tile_rows * TILE * shape.output()[2];
                parallel_blocks_of_groups(out, rows, [channels, block_pixels], |row, pixel, mut out| {
                    let (image, row, block) = (row / rows, row % rows, pixel / block_pixels);
                    let inputs = &inputs[image * image_len + block * block_len..][..block_len];
                    self.multiply_block(row, inputs, &mut out);
                    self.apply_epilogue((first + image) * rows + row, block * tile_rows, &mut out);
                });
            }
        });
    }

    /// Transforms the inputs of the images starting at `first` to (images, blocks of tile rows, blocks of tile vectors, channels).
    fn transform_images(&self, first: usize, tile_rows: usize, block_len: usize, inputs: &mut [T]) {
        let (channels, height) = (self.shape.in_channels, self.layout.geometry().grid[1]);
        let (blocks, plane) = (height.div_ceil(tile_rows), self.layout.geometry().plane());
        let rows_per_block = block_len / self.stride();
        let grain = (inputs.len() / self.stride()).div_ceil(CHUNKS_PER_THREAD * num_threads());
        parallel_rows(inputs, self.stride(), grain, |row, to| {
            let (block, row) = (row / rows_per_block, row % rows_per_block);
            let (image, block, channel) = (first + block / blocks, block % blocks, row % channels);
            let first_tile_row = block * tile_rows;
            let tile_rows = tile_rows.min(height - first_tile_row);
            let tile_vectors = self.tile_vectors(1, tile_rows);
            let tile_vectors = tile_vectors.chunks(self.num_vectors).nth(row / channels).unwrap_or_default();
            with_scratch(self.layout.len(), |source: &mut [T]| {
                source.fill(T::zero());
                let from = &self.input[(image * channels + channel) * plane..][..plane];
                self.layout.fill(from, first_tile_row, source);
                for (i, tile_vector) in tile_vectors.iter().enumerate() {
                    self.transform_channels(tile_rows, tile_vector, source, to, i * LANES);
                }
            });
        });
    }

    /// Multiplies the transformed inputs of a block of tile rows with the weights of the output channels starting at `row`, and writes
    /// the outputs.
    fn multiply_block(&self, row: usize, inputs: &[T], out: &mut MatMut<'_, T>) {
        let (rows, stride) = (row..row + out.rows(), self.stride());
        let tile_vectors = self.tile_vectors(1, self.tile_rows(out));
        with_scratch(rows.len() * stride, |outputs: &mut [T]| {
            let inputs = inputs.chunks_exact(self.shape.in_channels * stride);
            for (tile_vectors, inputs) in tile_vectors.chunks(self.num_vectors).zip(inputs) {
                self.multiply(0, &rows, tile_vectors.len() * LANES, inputs, outputs);
                for (i, tile_vector) in tile_vectors.iter().enumerate() {
                    self.write(tile_vector, &outputs[i * LANES..], out);
                }
            }
        });
    }

    /// Applies the epilogue to outputs whose first row is channel `row`, counted over all images, starting at tile row `first`.
    fn apply_epilogue(&self, row: usize, first: usize, out: &mut MatMut<'_, T>) {
        if !self.epilogue.is_empty() {
            let pixel = first * TILE * self.shape.output()[2];
            self.epilogue.apply(self.shape, self.shape.output_plane(), row, pixel, out);
        }
    }

    /// Rows of tiles of outputs whose columns are pixels.
    fn tile_rows(&self, out: &MatMut<'_, T>) -> usize {
        (out.cols() / self.shape.output()[2]).div_ceil(TILE)
    }

    /// The tile vectors of `tile_rows` rows of tiles of `images` images.
    fn tile_vectors(&self, images: usize, tile_rows: usize) -> List<TileVector> {
        let tiles = tile_rows * self.layout.geometry().grid[2];
        let of_image = |image| {
            let starts = (0..tiles).step_by(LANES);
            starts.map(move |start| TileVector { image, tiles: start..(start + LANES).min(tiles) })
        };
        (0..images).flat_map(of_image).collect()
    }

    /// Stride between channels of transformed tiles: an odd number of cache lines, so that channels map to different cache sets.
    fn stride(&self) -> usize {
        (ELEMENTS * self.num_vectors + 1) * LANES
    }

    /// Multiplies a block of tile vectors with the weights: 36 matrix products of (output channels, channels) by (channels, tiles).
    fn multiply(&self, group: usize, rows: &Range<usize>, cols: usize, inputs: &[T], outputs: &mut [T]) {
        /// Maximum depth of a product.
        const DEPTH: usize = 512;
        let (channels, mr, nr) = (self.shape.group_in(), self.kernel.mr(), self.kernel.nr());
        let (panel, stride, width) = (ELEMENTS * channels * mr, self.stride(), self.num_vectors * LANES);
        let first = group * self.shape.group_out().div_ceil(mr);
        for element in 0..ELEMENTS {
            let mut out = MatMut::new(&mut outputs[element * width..], rows.len(), cols, stride);
            for start in (0..channels).step_by(DEPTH) {
                let depth = DEPTH.min(channels - start);
                let inputs = &inputs[start * stride + element * width..];
                for row in rows.clone().step_by(mr) {
                    let start_of = |element: usize| (first + row / mr) * panel + element * channels * mr;
                    // Prefetch the weights of the next element, which are not adjacent to these.
                    let next = start_of(element + 1);
                    let ahead = self.weights.get(next..next + depth * mr).filter(|_| start == 0).unwrap_or_default();
                    let a = Panels::packed(&self.weights[start_of(element) + start * mr..], mr, depth);
                    let b = Panels::in_place(inputs, nr, stride).with_ahead(ahead);
                    let out = out.block(row - rows.start, 0, mr.min(rows.end - row), cols);
                    self.kernel.tiles(TileProduct { depth, alpha: T::one(), accumulate: start > 0 }, a, b, out);
                }
            }
        }
    }

    /// Transforms the products of a tile vector to outputs and writes them to `out`, (output channels, pixels).
    fn write(&self, tile_vector: &TileVector, tiles: &[T], out: &mut MatMut<'_, T>) {
        let width = self.shape.output()[2];
        let (height, tiles_across) = (out.cols() / width, self.layout.geometry().grid[2]);
        let mut values = [[T::zero(); TILE * LANES]; TILE];
        for row in 0..out.rows() {
            transform_outputs(&tiles[row * self.stride()..], self.num_vectors, &mut values);
            let plane = out.row_mut(row);
            let mut tile = tile_vector.tiles.start;
            while tile < tile_vector.tiles.end {
                let count = (tiles_across - tile % tiles_across).min(tile_vector.tiles.end - tile);
                let (y, x) = (tile / tiles_across * TILE, tile % tiles_across * TILE);
                let len = (count * TILE).min(width - x);
                for (i, values) in values.iter().enumerate().take(height - y) {
                    let from = &values[(tile - tile_vector.tiles.start) * TILE..][..len];
                    plane[(y + i) * width + x..][..len].copy_from_slice(from);
                }
                tile += count;
            }
        }
    }

    /// Transforms the inputs of a tile vector for the channels of `source`, into the lanes starting at `lane`. The source holds the inputs
    /// of `tile_rows` rows of tiles.
    fn transform_channels(
        &self,
        tile_rows: usize,
        tile_vector: &TileVector,
        source: &[T],
        inputs: &mut [T],
        lane: usize,
    ) {
        let mut runs = Runs::new(LANES);
        self.layout.add_runs(tile_rows, tile_vector.tiles.clone(), 0, 0, &mut runs);
        let mut panel = [T::zero(); ELEMENTS * LANES];
        let sources = source.chunks_exact(self.layout.len());
        for (source, to) in sources.zip(inputs.chunks_exact_mut(self.stride())) {
            T::pack_runs(&runs, IndexedPanel { data: source, table: self.table, first: 0 }, &mut panel);
            transform_inputs(&panel, &mut to[lane..], self.num_vectors);
        }
    }
}
