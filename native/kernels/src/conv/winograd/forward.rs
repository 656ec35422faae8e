//! The outputs of a convolution by Winograd's algorithm. Tiles are transformed in vectors, one tile per lane; the sums over channels
//! are matrix products, one for each of the 36 transformed elements.

use super::super::ConvShape;
use super::super::epilogue::ConvEpilogue;
use super::super::geometry::Geometry;
use super::super::layout::Layout;
use super::{ELEMENTS, LANES, TILE, transform_inputs_1d};
use crate::float::Accum;
use crate::par::{List, MatMut, num_threads, parallel_blocks, parallel_blocks_of_groups, parallel_rows, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels};
use crate::simd::window::Runs;
use std::ops::Range;

/// Tile vectors in a block, which is multiplied with the weights: enough to fill the panels of the microkernels.
const FEW_VECTORS: usize = 2;
/// Tile vectors in a block for large weights.
const MANY_VECTORS: usize = 8;
/// Minimum bytes of large weights, which do not fit into the L2 cache.
const LARGE_WEIGHTS: usize = 2 << 20;

/// Elements of the transformed weights.
pub(in crate::conv) fn weights_len<T: Accum>(shape: &ConvShape, kernel: &MicroKernel<T>) -> usize {
    shape.groups * ELEMENTS * kernel.packed_a_len(shape.group_out(), shape.group_in())
}

/// Transforms the weights of `shape` into panels of `mr` output channels, each (elements, input channels, mr).
///
/// With `adjoint`, `shape` is the [`adjoint`](super::adjoint) of the convolution of these weights: they are (input
/// channels, output channels, taps) of `shape`, and their taps are rotated by 180 degrees.
pub(in crate::conv) fn transform_weights<T: Accum>(
    shape: &ConvShape,
    kernel: &MicroKernel<T>,
    weights: &[T],
    adjoint: bool,
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
                let kernel = if adjoint { channel * rows + row } else { row * channels + channel };
                for (tap, weight) in weights[kernel * 9..][..9].iter().enumerate() {
                    taps[if adjoint { 8 - tap } else { tap }][lane] = *weight;
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
    avx512 if T::EVERY_LEVEL;
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
    avx512 if T::EVERY_LEVEL;
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
    avx512 if T::EVERY_LEVEL;
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
    let has_few_images = shape.groups == 1 && shape.batch < 2 * threads && threads > 1;
    let chunk_height =
        if has_few_images { chunk_rows(geometry.grid, threads.div_ceil(shape.batch)) } else { geometry.grid[1] };
    let layout = Layout::of_rows(&geometry, chunk_height);
    let num_vectors = if size_of_val(weights) / shape.groups < LARGE_WEIGHTS { FEW_VECTORS } else { MANY_VECTORS };
    let table = OffsetTable::new(layout.taps().iter().copied());
    let winograd = Winograd { shape, kernel, layout: &layout, table: &table, weights, input, epilogue, num_vectors };
    let (rows, pixels) = (shape.group_out(), height * width);
    let out = MatMut::row_major(output, shape.batch * shape.out_channels, pixels);
    if chunk_height < geometry.grid[1] {
        return parallel_blocks(out, rows, chunk_height * TILE * width, |row, pixel, mut block| {
            let image = row / rows;
            winograd.group(0, 0..rows, image..image + 1, pixel / width / TILE, &mut block);
        });
    }
    if has_few_images {
        let panels = rows.div_ceil(kernel.mr());
        let chunks = (2 * threads).div_ceil(shape.batch).min(panels.div_ceil(4)).max(1);
        let chunk_channels = panels.div_ceil(chunks) * kernel.mr();
        return parallel_blocks_of_groups(out, rows, [chunk_channels, pixels], |row, _, mut block| {
            let (image, first) = (row / rows, row % rows);
            winograd.group(0, first..first + block.rows(), image..image + 1, 0, &mut block);
        });
    }
    // Several small images are computed together, so that they fill a block of tile vectors.
    let images = (num_vectors / geometry.pixels().div_ceil(LANES)).clamp(1, shape.batch.div_ceil(2 * threads).max(1));
    parallel_blocks(out, images * shape.out_channels, pixels, |row, _, mut block| {
        let first = row / shape.out_channels;
        let images = first..first + block.rows() / shape.out_channels;
        for group in 0..shape.groups {
            winograd.group(group, 0..rows, images.clone(), 0, &mut block);
        }
    });
}

/// Rows of tiles in a chunk that divide an image into at least `min_chunks` chunks, if this leaves the tile vectors nearly full;
/// otherwise all rows. Each chunk reads all weights. The alternative, chunks of output channels, repeats the input transform, which
/// takes longer.
fn chunk_rows([_, height, width]: [usize; 3], min_chunks: usize) -> usize {
    let tile_vectors =
        |rows: usize| height / rows * (rows * width).div_ceil(LANES) + (height % rows * width).div_ceil(LANES);
    let mut even = (min_chunks..=height).map(|chunks| height.div_ceil(chunks));
    even.find(|rows| 8 * tile_vectors(*rows) <= 9 * tile_vectors(height)).unwrap_or(height)
}

impl<T: Accum> Winograd<'_, T> {
    /// Computes the output channels `rows` of a group for some images, starting at tile row `first`. The rows of `out` are all channels
    /// of these images, or only `rows` of a single image; its columns are pixels.
    fn group(&self, group: usize, rows: Range<usize>, images: Range<usize>, first: usize, out: &mut MatMut<'_, T>) {
        let (channels, [_, _, tiles_across]) = (self.shape.group_in(), self.layout.geometry().grid);
        let width = self.shape.output()[2];
        let tile_rows = (out.cols() / width).div_ceil(TILE);
        let tiles = tile_rows * tiles_across;
        let tile_vectors: List<TileVector> = (0..images.len())
            .flat_map(|image| {
                (0..tiles)
                    .step_by(LANES)
                    .map(move |start| TileVector { image, tiles: start..(start + LANES).min(tiles) })
            })
            .collect();
        let phases = self.layout.len();
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
                        let mut runs = Runs::new(LANES);
                        self.layout.add_runs(tile_rows, tile_vector.tiles.clone(), 0, 0, &mut runs);
                        let image =
                            &source[tile_vector.image * channels * phases..(tile_vector.image + 1) * channels * phases];
                        self.transform_channels(&runs, image, inputs, i * LANES);
                    }
                    self.multiply(group, &rows, tile_vectors.len() * LANES, inputs, outputs);
                    for (i, tile_vector) in tile_vectors.iter().enumerate() {
                        self.write(
                            tile_vector,
                            &outputs[i * LANES..],
                            self.first_row(group, &rows, tile_vector.image, out),
                            rows.len(),
                            out,
                        );
                    }
                }
            });
        });
        if self.epilogue.is_empty() {
            return;
        }
        let (pixels, pixel) = (self.shape.output_plane(), first * TILE * width);
        for image in 0..images.len() {
            let row = (images.start + image) * self.shape.out_channels + group * self.shape.group_out() + rows.start;
            let mut block = out.block(self.first_row(group, &rows, image, out), 0, rows.len(), out.cols());
            self.epilogue.apply(self.shape, pixels, row, pixel, &mut block);
        }
    }

    /// Stride between channels of transformed tiles: an odd number of cache lines, so that channels map to different cache sets.
    fn stride(&self) -> usize {
        (ELEMENTS * self.num_vectors + 1) * LANES
    }

    /// The row of `out` that holds the first of the output channels `rows`.
    fn first_row(&self, group: usize, rows: &Range<usize>, image: usize, out: &MatMut<'_, T>) -> usize {
        if out.rows() == rows.len() { 0 } else { image * self.shape.out_channels + group * self.shape.group_out() }
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
                    self.kernel.tiles(depth, T::one(), a, b, out, start > 0);
                }
            }
        }
    }

    /// Transforms the products of a tile vector to outputs and writes them to `out`, starting at row `first`.
    fn write(&self, tile_vector: &TileVector, tiles: &[T], first: usize, rows: usize, out: &mut MatMut<'_, T>) {
        let width = self.shape.output()[2];
        let (height, tiles_across) = (out.cols() / width, self.layout.geometry().grid[2]);
        let mut values = [[T::zero(); TILE * LANES]; TILE];
        for row in 0..rows {
            transform_outputs(&tiles[row * self.stride()..], self.num_vectors, &mut values);
            let plane = out.row_mut(first + row);
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

    /// Transforms the inputs of a tile vector for all channels, into the lanes starting at `lane`.
    fn transform_channels(&self, runs: &Runs, image: &[T], inputs: &mut [T], lane: usize) {
        let mut panel = [T::zero(); ELEMENTS * LANES];
        let images = image.chunks_exact(image.len() / self.shape.group_in());
        for (image, to) in images.zip(inputs.chunks_exact_mut(self.stride())) {
            T::pack_runs(runs, IndexedPanel { data: image, table: self.table, first: 0 }, &mut panel);
            transform_inputs(&panel, &mut to[lane..], self.num_vectors);
        }
    }
}
