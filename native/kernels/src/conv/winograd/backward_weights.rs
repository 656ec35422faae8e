//! The gradient of the weights by Winograd's algorithm: for each of the 36 transformed elements, a matrix product of the gradients of
//! the outputs (output channels, tiles) and the inputs (tiles, input channels).
//!
//! Gradients are transformed with one tile per lane, which yields rows of the left operand; inputs are transformed with one channel
//! per lane, which yields panels of the right operand. Neither needs packing.

use super::super::ConvShape;
use super::super::geometry::Geometry;
use super::super::layout::Layout;
use super::{ELEMENTS, LANES, TILE, saves_products, tiles, transform_inputs_1d};
use crate::float::Accum;
use crate::par::{List, MatMut, MatRef, num_threads, parallel_rows, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels, TileProduct};
use crate::simd::window::Runs;
use std::ops::Range;

/// Tiles in a block, the depth of a product, unless a row of tiles has more.
const BLOCK_TILES: usize = 128;
/// Minimum number of tiles that the products sum over; with fewer, transforming the products takes longer than computing them.
const MIN_TILES: usize = 32;
/// Maximum bytes of the products of all elements.
const MAX_PRODUCT_BYTES: usize = 48 << 20;
/// Threads that share the transformation of a block, which is too little work for more.
const THREADS_PER_BLOCK: usize = 2;
/// Maximum bytes of the transformed blocks of a loop.
const MAX_TRANSFORMED_BYTES: usize = 32 << 20;
/// Inputs of a tile along each dimension.
const WINDOW: usize = 6;

/// True if the gradient of the weights should be computed by Winograd's algorithm.
pub(in crate::conv) fn is_profitable_for_weights<T: Accum>(shape: &ConvShape) -> bool {
    let products = ELEMENTS * shape.group_in() * shape.group_out() * size_of::<T>();
    let tiles = tiles(shape);
    saves_products::<T>(shape, tiles) && shape.batch * tiles >= MIN_TILES && products <= MAX_PRODUCT_BYTES
}

/// Writes the gradient of the weights. [`is_profitable_for_weights`] must hold for `shape`.
pub(in crate::conv) fn backward_weights<T: Accum>(
    shape: &ConvShape,
    input: &[T],
    output_grad: &[T],
    weights_grad: &mut [T],
) {
    let [_, height, width] = shape.output();
    let grid = [height.div_ceil(TILE), width.div_ceil(TILE)];
    let image_rows = (BLOCK_TILES / grid[1]).clamp(1, grid[0]);
    // Blocks of nearly equal size.
    let tile_rows = grid[0].div_ceil(grid[0].div_ceil(image_rows));
    let geometry = Geometry {
        grid: [1, grid[0], grid[1]],
        source: shape.output(),
        stride: [1, TILE, TILE],
        taps: (0..(TILE * TILE) as isize).map(|i| [0, i / TILE as isize, i % TILE as isize]).collect(),
    };
    let layout = Layout::of_rows(&geometry, tile_rows);
    let kernel = T::microkernel();
    let channels = shape.group_in();
    // Several small images make a block.
    let images = (BLOCK_TILES / (tile_rows * grid[1])).clamp(1, shape.batch);
    let product = Product {
        shape,
        kernel,
        layout: &layout,
        table: &OffsetTable::new(layout.taps().iter().copied()),
        tiles_across: grid[1],
        unit: LANES.min(kernel.nr()),
        max_depth: images * tile_rows * grid[1],
    };
    let (rows, cols) = (shape.group_out(), channels.next_multiple_of(kernel.nr()));
    let blocks: List<Block> = (0..shape.batch)
        .step_by(images)
        .flat_map(|first| (0..grid[0]).step_by(tile_rows).map(move |row| (first, row)))
        .map(|(first, row)| Block {
            images: first..(first + images).min(shape.batch),
            tile_rows: row..(row + tile_rows).min(grid[0]),
        })
        .collect();
    let len = rows.next_multiple_of(kernel.mr()) * cols;
    // Elements of the transformed gradients and inputs of a block.
    let lens = [rows * product.grad_stride(), cols * ELEMENTS * product.max_depth];
    let max_blocks = MAX_TRANSFORMED_BYTES / (lens.iter().sum::<usize>() * size_of::<T>());
    let blocks_per_loop = num_threads().div_ceil(THREADS_PER_BLOCK).min(max_blocks).clamp(1, blocks.len());
    with_scratch(ELEMENTS * len + blocks_per_loop * lens.iter().sum::<usize>(), |buffer: &mut [T]| {
        let (products, buffer) = buffer.split_at_mut(ELEMENTS * len);
        let (grads, inputs) = buffer.split_at_mut(blocks_per_loop * lens[0]);
        for (group, weights_grad) in weights_grad.chunks_exact_mut(rows * channels * 9).enumerate() {
            for (i, blocks) in blocks.chunks(blocks_per_loop).enumerate() {
                product.transform_grads(group, blocks, output_grad, &mut grads[..blocks.len() * lens[0]]);
                product.transform_inputs(group, blocks, input, &mut inputs[..blocks.len() * lens[1]]);
                let accumulate = i > 0;
                product.multiply(blocks, grads, inputs, accumulate, products);
            }
            write_weights(products, (len, cols), channels, weights_grad);
        }
    });
}

/// A range of rows of tiles in a range of images.
struct Block {
    images: Range<usize>,
    tile_rows: Range<usize>,
}

struct Product<'a, T: 'static> {
    shape: &'a ConvShape,
    kernel: &'static MicroKernel<T>,
    /// How the gradients of the outputs are copied to scratch memory.
    layout: &'a Layout<'a>,
    /// Offsets of the outputs of a tile.
    table: &'a OffsetTable,
    /// Tiles in a row of an image.
    tiles_across: usize,
    /// Number of input channels that are transformed together.
    unit: usize,
    /// Maximum number of tiles in a block.
    max_depth: usize,
}

impl<T: Accum> Product<'_, T> {
    fn depth(&self, block: &Block) -> usize {
        block.images.len() * block.tile_rows.len() * self.tiles_across
    }

    /// Stride between elements of a transformed channel: its tiles, rounded up to whole vectors.
    fn element_stride(&self) -> usize {
        (self.max_depth + LANES).next_multiple_of(LANES)
    }

    /// Stride between transformed channels: an odd number of cache lines, so that channels map to different cache sets.
    fn grad_stride(&self) -> usize {
        ((ELEMENTS * self.element_stride()).div_ceil(LANES) | 1) * LANES
    }

    /// Transforms the gradients of the outputs of the given blocks to (blocks, output channels, elements, tiles).
    fn transform_grads(&self, group: usize, blocks: &[Block], output_grad: &[T], out: &mut [T]) {
        let (rows, plane, tiles_across) = (self.shape.group_out(), self.shape.output_plane(), self.tiles_across);
        let stride = self.element_stride();
        let runs_of = |block: &Block| -> List<Runs> {
            let tiles = block.tile_rows.len() * tiles_across;
            let vectors = (0..tiles).step_by(LANES).map(|tile| {
                let mut runs = Runs::new(LANES);
                let range = tile..(tile + LANES).min(tiles);
                self.layout.add_runs(block.tile_rows.len(), range, 0, 0, &mut runs);
                runs
            });
            vectors.collect()
        };
        let runs: List<List<Runs>> = blocks.iter().map(runs_of).collect();
        parallel_rows(out, self.grad_stride(), 1, |i, out| {
            let (block, runs, row) = (&blocks[i / rows], &runs[i / rows], i % rows);
            let tiles = block.tile_rows.len() * tiles_across;
            with_scratch(self.layout.len(), |source: &mut [T]| {
                for (i, image) in block.images.clone().enumerate() {
                    let channel = image * self.shape.out_channels + group * rows + row;
                    source.fill(T::zero());
                    self.layout.fill(&output_grad[channel * plane..][..plane], block.tile_rows.start, source);
                    for (vector, runs) in runs.iter().enumerate() {
                        let mut panel = [T::zero(); TILE * TILE * LANES];
                        T::pack_runs(runs, IndexedPanel { data: source, table: self.table, first: 0 }, &mut panel);
                        transform_grads(&panel, &mut out[i * tiles + vector * LANES..], stride);
                    }
                }
            });
        });
    }

    /// Transforms the inputs of the given blocks to panels of `nr` channels, each (elements, tiles, `nr`).
    fn transform_inputs(&self, group: usize, blocks: &[Block], input: &[T], out: &mut [T]) {
        let nr = self.kernel.nr();
        let panels = self.shape.group_in().div_ceil(nr);
        parallel_rows(out, ELEMENTS * self.max_depth * nr, 1, |i, out| {
            self.transform_panel(group, &blocks[i / panels], i % panels, input, out);
        });
    }

    /// Transforms the inputs of a block for one panel.
    fn transform_panel(&self, group: usize, block: &Block, panel: usize, input: &[T], out: &mut [T]) {
        let ([_, height, width], channels, nr) = (self.shape.input, self.shape.group_in(), self.kernel.nr());
        let ([_, pad_y, pad_x], tiles_across) = (self.shape.pad, self.tiles_across);
        let tile_rows = block.tile_rows.len();
        let [slab_height, slab_width] = [tile_rows, tiles_across].map(|tiles| tiles * TILE + WINDOW - TILE);
        let top = block.tile_rows.start * TILE;
        // Rows and columns of the slab that are inside the image.
        let ys = pad_y.saturating_sub(top)..slab_height.min((height + pad_y).saturating_sub(top));
        let xs = pad_x..slab_width.min(width + pad_x);
        with_scratch(slab_height * slab_width * self.unit, |slab: &mut [T]| {
            for lane in (0..nr).step_by(self.unit).filter(|lane| panel * nr + lane < channels) {
                let first = panel * nr + lane;
                let count = self.unit.min(channels - first);
                slab.fill(T::zero());
                for (i, image) in block.images.clone().enumerate() {
                    let plane = (image * self.shape.in_channels + group * channels + first) * height * width;
                    for y in ys.clone() {
                        let rows = &input[plane + (top + y - pad_y) * width..];
                        let rows = MatRef::new(rows, count, xs.len(), height * width, 1);
                        let to = (y * slab_width + xs.start) * self.unit;
                        self.kernel.pack_lanes(rows, self.unit, &mut slab[to..][..xs.len() * self.unit]);
                    }
                    for tile in 0..tile_rows * tiles_across {
                        let (y, x) = (tile / tiles_across * TILE, tile % tiles_across * TILE);
                        let window = &slab[(y * slab_width + x) * self.unit..];
                        let to = &mut out[(i * tile_rows * tiles_across + tile) * nr + lane..];
                        let strides = [slab_width * self.unit, self.max_depth * nr];
                        if self.unit == LANES {
                            transform_inputs::<T>(window, to, strides);
                        } else {
                            transform_few_inputs(self.unit, window, to, strides);
                        }
                    }
                }
            }
        });
    }

    /// Multiplies the given blocks in order and sums their products, (elements, output channels, input channels). Adds the sum to
    /// `products` if `accumulate` is set, otherwise overwrites it.
    fn multiply(&self, blocks: &[Block], grads: &[T], inputs: &[T], accumulate: bool, products: &mut [T]) {
        let (rows, channels) = (self.shape.group_out(), self.shape.group_in());
        let (mr, nr) = (self.kernel.mr(), self.kernel.nr());
        let cols = channels.next_multiple_of(nr);
        let panels = rows.div_ceil(mr);
        let input_len = ELEMENTS * self.max_depth * nr;
        parallel_rows(products, mr * cols, 4, |i, out| {
            let (element, row) = (i / panels, i % panels * mr);
            let count = mr.min(rows - row);
            let mut out = MatMut::row_major(out, mr, cols);
            let operands =
                grads.chunks_exact(rows * self.grad_stride()).zip(inputs.chunks_exact(cols / nr * input_len));
            for ((i, block), (grads, inputs)) in blocks.iter().enumerate().zip(operands) {
                let a = &grads[row * self.grad_stride() + element * self.element_stride()..];
                let a = MatRef::new(a, count, self.depth(block), self.grad_stride(), 1);
                for (panel, inputs) in inputs.chunks_exact(input_len).enumerate() {
                    let b = Panels::in_place(&inputs[element * self.max_depth * nr..], nr, nr);
                    let c = out.block(0, panel * nr, count, nr);
                    let product = TileProduct { depth: a.cols(), alpha: T::one(), accumulate: accumulate || i > 0 };
                    self.kernel.strided_tile(product, a, b, c);
                }
            }
        });
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// A y A^T for a vector of tiles. `from` is (elements of y, `LANES`); `to` is (elements, `LANES`) with a row stride of `stride`.
    fn transform_grads<T: Accum>(from: &[T; TILE * TILE * LANES], to: &mut [T], stride: usize) {
        let mut half = [[T::zero(); LANES]; WINDOW * TILE];
        for column in 0..TILE {
            for lane in 0..LANES {
                let values = transform_grads_1d(std::array::from_fn(|i| from[(TILE * i + column) * LANES + lane]));
                for i in 0..WINDOW {
                    half[TILE * i + column][lane] = values[i];
                }
            }
        }
        for row in 0..WINDOW {
            let mut elements = [[T::zero(); LANES]; WINDOW];
            for lane in 0..LANES {
                let values = transform_grads_1d(std::array::from_fn(|i| half[TILE * row + i][lane]));
                for i in 0..WINDOW {
                    elements[i][lane] = values[i];
                }
            }
            for (i, element) in elements.iter().enumerate() {
                to[(WINDOW * row + i) * stride..][..LANES].copy_from_slice(element);
            }
        }
    }
}

/// A y for a column of four gradients.
#[inline(always)]
fn transform_grads_1d<T: Accum>(y: [T; TILE]) -> [T; WINDOW] {
    let c = |x: f64| T::of(x);
    let (even, odd) = (y[0] + y[2], y[1] + y[3]);
    let (wide, step) = (y[0] + y[2] * c(4.0), y[1] * c(2.0) + y[3] * c(8.0));
    [y[0], even + odd, even - odd, wide + step, wide - step, y[3]]
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// B^T d B for `LANES` channels of a tile. `strides` are the row stride of the window and the stride between elements of the result.
    fn transform_inputs<T: Accum>(window: &[T], to: &mut [T], strides: [usize; 2]) {
        let mut half = [[T::zero(); LANES]; ELEMENTS];
        for row in 0..WINDOW {
            let from = &window[row * strides[0]..][..WINDOW * LANES];
            for lane in 0..LANES {
                let values = transform_inputs_1d(std::array::from_fn(|i| from[i * LANES + lane]));
                for i in 0..WINDOW {
                    half[WINDOW * row + i][lane] = values[i];
                }
            }
        }
        for column in 0..WINDOW {
            let mut elements = [[T::zero(); LANES]; WINDOW];
            for lane in 0..LANES {
                let values = transform_inputs_1d(std::array::from_fn(|i| half[WINDOW * i + column][lane]));
                for i in 0..WINDOW {
                    elements[i][lane] = values[i];
                }
            }
            for (i, element) in elements.iter().enumerate() {
                to[(WINDOW * i + column) * strides[1]..][..LANES].copy_from_slice(element);
            }
        }
    }
}

/// [`transform_inputs`] for fewer than `LANES` channels.
fn transform_few_inputs<T: Accum>(unit: usize, window: &[T], to: &mut [T], strides: [usize; 2]) {
    let mut padded = [T::zero(); WINDOW * WINDOW * LANES];
    for (i, to) in padded.chunks_exact_mut(LANES).enumerate() {
        to[..unit].copy_from_slice(&window[i / WINDOW * strides[0] + i % WINDOW * unit..][..unit]);
    }
    let mut transformed = [T::zero(); ELEMENTS * LANES];
    transform_inputs::<T>(&padded, &mut transformed, [WINDOW * LANES, LANES]);
    for (i, from) in transformed.chunks_exact(LANES).enumerate() {
        to[i * strides[1]..][..unit].copy_from_slice(&from[..unit]);
    }
}

/// Transforms the products of all tiles, (elements, output channels, input channels), to the gradient of the weights of a group.
/// `len` is the stride between elements, `cols` the stride between output channels.
fn write_weights<T: Accum>(products: &[T], (len, cols): (usize, usize), channels: usize, weights_grad: &mut [T]) {
    parallel_rows(weights_grad, channels * 9, 4, |row, grad| {
        for (first, grad) in (0..channels).step_by(LANES).zip(grad.chunks_mut(LANES * 9)) {
            let (mut elements, mut taps) = ([[T::zero(); LANES]; ELEMENTS], [[T::zero(); LANES]; 9]);
            let count = grad.len() / 9;
            for (element, to) in elements.iter_mut().enumerate() {
                to[..count].copy_from_slice(&products[element * len + row * cols + first..][..count]);
            }
            transform_products(&elements, &mut taps);
            for (lane, grad) in grad.chunks_exact_mut(9).enumerate() {
                grad.iter_mut().zip(&taps).for_each(|(to, tap)| *to = tap[lane]);
            }
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// G^T m G for `LANES` input channels.
    fn transform_products<T: Accum>(elements: &[[T; LANES]; ELEMENTS], taps: &mut [[T; LANES]; 9]) {
        let mut half = [[T::zero(); LANES]; 3 * WINDOW];
        for column in 0..WINDOW {
            for lane in 0..LANES {
                let values = transform_products_1d(std::array::from_fn(|i| elements[WINDOW * i + column][lane]));
                for i in 0..3 {
                    half[WINDOW * i + column][lane] = values[i];
                }
            }
        }
        for row in 0..3 {
            for lane in 0..LANES {
                let values = transform_products_1d(std::array::from_fn(|i| half[WINDOW * row + i][lane]));
                for i in 0..3 {
                    taps[3 * row + i][lane] = values[i];
                }
            }
        }
    }
}

/// G^T m for a column of six products.
#[inline(always)]
fn transform_products_1d<T: Accum>(m: [T; WINDOW]) -> [T; 3] {
    let c = |x: f64| T::of(x);
    let (near, far) = ((m[1] + m[2]) * c(1.0 / 6.0), m[3] + m[4]);
    [
        m[0] * c(0.25) - near + far * c(1.0 / 24.0),
        (m[2] - m[1]) * c(1.0 / 6.0) + (m[3] - m[4]) * c(1.0 / 12.0),
        far * c(1.0 / 6.0) - near + m[5],
    ]
}
