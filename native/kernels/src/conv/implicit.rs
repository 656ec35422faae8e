//! Implicit GEMM: the weights (output channels, channels x taps) times the windows (channels x taps, pixels), which are read from
//! the padded image and never stored as a matrix.
//!
//! Images are divided into row blocks. The input rows of a block are copied to scratch memory so that a tap reads contiguous
//! elements for neighboring pixels ([`Layout`]). A panel of B is then a table of offsets, one per channel and tap, which all
//! panels share.
//!
//! The depth is split into blocks that depend on its length alone, and each result is the sum of its blocks in order, so its bits
//! depend neither on the tile nor on the number of threads.

use super::geometry::Geometry;
use super::layout::Layout;
use crate::float::Accum;
use crate::gemm::depth_blocks;
use crate::par::{
    MatMut, MatRef, balanced_chunks, num_threads, parallel_blocks, parallel_blocks_of_groups, parallel_rows,
    with_scratch,
};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels, TileProduct};
use crate::simd::prefetch;
use crate::simd::window::{Runs, WindowElement};
use std::ops::Range;

/// Minimum multiply-adds in a chunk.
const CHUNK_WORK: usize = 1 << 18;
/// Bytes of the panels of windows that are multiplied by one panel of weights: a fraction of the L2 cache.
const PANELS_BYTES: usize = 128 << 10;
/// Cost of packing the windows, in rows of the product.
const PACKING_ROWS: f64 = 4.0;
/// Maximum scratch bytes of a row block, unless a single row of pixels needs more: a fraction of the L2 cache.
const ROW_BLOCK_BYTES: usize = 256 << 10;
/// Maximum scratch bytes of a block of several images.
const IMAGE_BLOCK_BYTES: usize = 1 << 20;

/// Packs weights into panels of `mr` output channels, one depth block after the other.
pub(super) fn pack_weights<T: WindowElement>(kernel: &MicroKernel<T>, weights: MatRef<'_, T>, out: &mut [T]) {
    pack_blocks(kernel, weights, kernel.mr(), depth_blocks::<T>(weights.cols()), out);
}

/// Packs weights of (channels, depth) into panels of `width` channels, one depth block after the other.
pub(super) fn pack_blocks<T: WindowElement>(
    kernel: &MicroKernel<T>,
    weights: MatRef<'_, T>,
    width: usize,
    blocks: impl Iterator<Item = Range<usize>>,
    out: &mut [T],
) {
    /// Panels in a chunk.
    const PANELS: usize = 16;
    let lanes = weights.rows().next_multiple_of(width);
    for block in blocks {
        let out = &mut out[lanes * block.start..lanes * block.end];
        parallel_rows(out, PANELS * width * block.len(), 1, |i, out| {
            let first = i * PANELS * width;
            let rows = (PANELS * width).min(weights.rows() - first);
            kernel.pack_lanes(weights.block(first, block.start, rows, block.len()), width, out);
        });
    }
}

/// The operands of an implicit GEMM.
pub(super) struct Implicit<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub geometry: &'a Geometry,
    pub groups: usize,
    /// Rows of weights in a group: its output channels.
    pub rows: usize,
    /// Source channels in a group.
    pub channels: usize,
    /// Packed weights, group after group.
    pub weights: &'a [T],
    /// The images, (batch, groups * channels, plane).
    pub source: &'a [T],
}

/// The work of one thread: a range of output channels of one group, for a range of images and pixels.
struct Chunk {
    group: usize,
    rows: Range<usize>,
    images: Range<usize>,
    /// First row of the result for the first image.
    first_row: usize,
    /// Rows of the result per image.
    image_rows: usize,
    /// Index of the first pixel.
    pixel: usize,
}

/// The blocking of the images.
pub(super) struct Blocking<'a> {
    layout: Layout<'a>,
    /// Offsets of channels and taps.
    table: OffsetTable,
    /// Rows of pixels in a block.
    rows: usize,
    /// Images in a block; 1 if a block is part of an image.
    images: usize,
    order: Order,
}

/// How the windows of a block are multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Read in place as one long row, including the padding between rows of pixels, whose results are dropped.
    Contiguous,
    /// Read in place, row by row.
    ByRows,
    /// Packed into panels, without the padding between rows of pixels.
    Packed,
}

/// When the callback is called for a block of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before it is computed, to prefetch what it needs. Not called for every block.
    Before,
    /// When it is complete.
    Complete,
}

/// Callback `(stage, row, pixel, block)` for every block of the result, with the indices of its first row and pixel. The block is
/// borrowed: moving the view right after its fields were stored would stall on store forwarding.
pub(super) type OnBlock<'f, T> = &'f dyn Fn(Stage, usize, usize, &mut MatMut<'_, T>);

/// An [`OnBlock`] that several threads may call.
pub(super) type SharedOnBlock<'f, T> = &'f (dyn Fn(Stage, usize, usize, &mut MatMut<'_, T>) + Sync);

impl<'a, T: Accum> Implicit<'a, T> {
    pub(super) fn depth(&self) -> usize {
        self.channels * self.geometry.taps.len()
    }

    /// Offsets of channels and taps in scratch memory.
    pub(super) fn depth_offsets<'l>(&self, layout: &'l Layout<'_>) -> impl Iterator<Item = usize> + use<'l, T> {
        let len = layout.len();
        (0..self.channels).flat_map(move |c| layout.taps().iter().map(move |tap| c * len + tap))
    }

    /// Number of panels of windows multiplied by one panel of weights. More panels mean longer contiguous runs in each row of the
    /// result and in each channel.
    fn panels(&self) -> usize {
        let longest = depth_blocks::<T>(self.depth()).map(|block| block.len()).max().unwrap_or(0);
        (PANELS_BYTES / (longest * self.kernel.nr() * size_of::<T>()).max(1)).clamp(4, 16)
    }

    /// Computes all images into `out`, (batch * groups * rows, pixels), in parallel.
    pub(super) fn run(&self, batch: usize, out: MatMut<'_, T>, on_block: SharedOnBlock<'_, T>) {
        let (pixels, threads) = (out.cols(), num_threads());
        let image_rows = self.groups * self.rows;
        if batch == 0 || pixels == 0 || image_rows == 0 {
            return;
        }
        let work = image_rows * pixels * self.depth().max(1);
        if batch >= 2 * threads || threads == 1 || work * batch < 2 * CHUNK_WORK {
            let max_images = batch.div_ceil(2 * threads);
            let blocking = self.blocking(self.geometry.grid[1], if threads == 1 { batch } else { max_images });
            let images =
                (CHUNK_WORK / work).max(blocking.as_ref().map_or(1, |blocking| blocking.images)).clamp(1, max_images);
            return parallel_blocks(out, images * image_rows, pixels, |row, _, mut block| {
                self.compute_images(&blocking, row / image_rows, 0, &mut block, &|stage, r, p, block| {
                    on_block(stage, row + r, p, block)
                });
            });
        }
        let blocking = self.blocking((self.geometry.grid[1] * batch).div_ceil(3 * threads), 1);
        let (rows, cols) = self.chunk_size(&blocking, batch * self.groups, pixels);
        if rows >= self.rows {
            // Whole images, split by pixels.
            return parallel_blocks(out, image_rows, cols, |row, pixel, mut block| {
                self.compute_images(&blocking, row / image_rows, pixel, &mut block, &|stage, r, p, block| {
                    on_block(stage, row + r, p, block)
                });
            });
        }
        parallel_blocks_of_groups(out, self.rows, [rows, cols], |row, pixel, mut block| {
            let (i, first_row) = (row / self.rows, row % self.rows);
            let (image, group) = (i / self.groups, i % self.groups);
            let rows = first_row..first_row + block.rows();
            let chunk = Chunk { group, rows, images: image..image + 1, first_row: 0, image_rows, pixel };
            self.compute_chunk(&blocking, &chunk, &mut block, &|stage, r, p, block| on_block(stage, row + r, p, block));
        });
    }

    /// The rows and pixels of a chunk that divide the work evenly; `images` is batch x groups.
    fn chunk_size(&self, blocking: &Option<Blocking<'_>>, images: usize, pixels: usize) -> (usize, usize) {
        let (mr, lanes, threads) = (self.kernel.mr(), self.kernel.lanes(), num_threads());
        let tiles = self.rows.div_ceil(mr);
        match blocking {
            None => {
                // Tiles of one vector are less efficient, and each chunk packs its windows.
                let [tiles_down, vectors_across] =
                    balanced_chunks([tiles, pixels.div_ceil(lanes)], images, threads, |tiles, vectors| {
                        ((tiles * mr) as f64 + PACKING_ROWS) * (vectors as f64 + 0.25 * (vectors % 2) as f64)
                    });
                (tiles_down * mr, vectors_across * lanes)
            }
            Some(blocking) => {
                let cols = self.block_pixels(blocking);
                let down = (3 * threads).div_ceil(pixels.div_ceil(cols) * images).clamp(1, tiles.div_ceil(4));
                (tiles.div_ceil(down) * mr, cols)
            }
        }
    }

    /// Chooses blocks of at most `max_rows` rows of pixels and `max_images` images; `None` for pointwise convolutions, which read the
    /// image in place.
    pub(super) fn blocking(&self, max_rows: usize, max_images: usize) -> Option<Blocking<'a>> {
        if self.geometry.is_pointwise() {
            return None;
        }
        let whole = Layout::new(self.geometry);
        let (max_rows, max_images) = self.max_block(&whole, max_rows, max_images);
        let (order, rows, images) = self.cheapest_order(&whole, max_rows, max_images);
        let layout = if rows == self.geometry.grid[1] { whole } else { Layout::of_rows(self.geometry, rows) };
        let table = OffsetTable::new(self.depth_offsets(&layout));
        Some(Blocking { layout, table, rows, images, order })
    }

    /// The rows of pixels and the images of the largest block within the limits whose scratch memory fits in the cache. A block of
    /// several images has all of their rows.
    fn max_block(&self, whole: &Layout<'_>, max_rows: usize, max_images: usize) -> (usize, usize) {
        let [planes, height, width] = self.geometry.grid;
        // Scratch memory for a row of pixels: sums and windows.
        let row = self.rows.min(4 * self.kernel.mr()) * width * planes + self.channels * whole.len() / height.max(1);
        let row_bytes = row.max(1) * size_of::<T>();
        let whole_images = IMAGE_BLOCK_BYTES / (row_bytes * height.max(1));
        let rows = if planes > 1 || whole_images >= 1 { height } else { max_rows.min(ROW_BLOCK_BYTES / row_bytes) };
        let rows = rows.clamp(1, height.max(1));
        (rows, if rows == height { whole_images.clamp(1, max_images.max(1)) } else { 1 })
    }

    /// The order with the lowest cost, and the rows of pixels and the images of its blocks, at most `max_rows` and `max_images`. Costs
    /// are vector multiply-adds, including packing the windows and copying the results.
    fn cheapest_order(&self, whole: &Layout<'_>, max_rows: usize, max_images: usize) -> (Order, usize, usize) {
        let ([planes, height, width], lanes) = (self.geometry.grid, self.kernel.lanes());
        // Among the larger sizes, the one that wastes the fewest lanes between rows and after the last row.
        let vectors = |rows: usize| whole.outputs(rows).div_ceil(lanes);
        let computed = |rows: usize| height / rows * vectors(rows) + vectors(height % rows);
        let contiguous_rows = (max_rows.div_ceil(2)..=max_rows).rev().min_by_key(|&rows| computed(rows)).unwrap_or(1);
        let (depth, packing) = (self.depth(), 2 * (2 + lanes / width.max(1)));
        let copying = 8 + 4 * width.div_ceil(lanes);
        let contiguous_cost = depth * computed(contiguous_rows) * self.rows + self.rows * height * copying;
        // Tiles of one vector are less efficient.
        let cost = |vectors: usize| 8 * vectors + 2 * (vectors % 2);
        let packed_cost = |images: usize| {
            let vectors = |rows: usize| (images * rows * width * planes).div_ceil(lanes);
            let products = depth * (height / max_rows * cost(vectors(max_rows)) + cost(vectors(height % max_rows)));
            products * (self.rows + packing) / (8 * images) + if images > 1 { self.rows * copying } else { 0 }
        };
        let packed_images = if packed_cost(max_images) < packed_cost(1) { max_images } else { 1 };
        let by_rows_cost = depth * height * cost(width.div_ceil(lanes)) * self.rows / 8;
        if planes == 1 && by_rows_cost < contiguous_cost.min(packed_cost(packed_images)) {
            (Order::ByRows, max_rows, 1)
        } else if packed_cost(packed_images) < contiguous_cost {
            (Order::Packed, max_rows, packed_images)
        } else {
            (Order::Contiguous, contiguous_rows, 1)
        }
    }

    /// Pixels of a row block.
    fn block_pixels(&self, blocking: &Blocking<'_>) -> usize {
        (self.geometry.grid[0] * blocking.rows * self.geometry.grid[2]).max(1)
    }

    /// Computes as many images, starting at `image`, as `out` has rows for, and as many pixels of each, starting at `pixel`, as it has
    /// columns.
    pub(super) fn compute_images(
        &self,
        blocking: &Option<Blocking<'_>>,
        image: usize,
        pixel: usize,
        out: &mut MatMut<'_, T>,
        on_block: OnBlock<'_, T>,
    ) {
        let image_rows = self.groups * self.rows;
        let images = image..image + out.rows() / image_rows;
        for group in 0..self.groups {
            let (rows, first_row) = (0..self.rows, group * self.rows);
            let chunk = Chunk { group, rows, images: images.clone(), first_row, image_rows, pixel };
            self.compute_chunk(blocking, &chunk, out, on_block);
        }
    }

    /// Computes a chunk block by block.
    fn compute_chunk(
        &self,
        blocking: &Option<Blocking<'_>>,
        chunk: &Chunk,
        out: &mut MatMut<'_, T>,
        on_block: OnBlock<'_, T>,
    ) {
        let pixels = out.cols();
        let (cols, images_per_block) = match blocking {
            _ if self.depth() == 0 => (pixels, 1),
            Some(blocking) => (self.block_pixels(blocking), blocking.images),
            None => (self.panels() * self.kernel.nr(), 1),
        };
        let blocks_across = pixels.div_ceil(cols);
        let block_at = |i: usize| {
            let (image, first) = (i / blocks_across * images_per_block, i % blocks_across * cols);
            let images = image..(image + images_per_block).min(chunk.images.len());
            PixelBlock { images, first, cols: cols.min(pixels - first) }
        };
        let num_blocks = chunk.images.len().div_ceil(images_per_block) * blocks_across;
        for i in 0..num_blocks {
            let (block, next) = (block_at(i), (i + 1 < num_blocks).then(|| block_at(i + 1)));
            match blocking {
                _ if self.depth() == 0 => {
                    let mut c = block.result(chunk, block.images.start, out);
                    (0..c.rows()).for_each(|row| c.row_mut(row).fill(T::zero()));
                }
                Some(blocking) => self.compute_row_block(blocking, chunk, &block, next.as_ref(), out),
                None => {
                    let (image, pixel) = (block.images.start, chunk.pixel + block.first);
                    let first = block.row(chunk, image);
                    let c = &mut block.result(chunk, image, out);
                    self.compute_pointwise(chunk, &block, next.as_ref(), c, |stage, row, block| {
                        on_block(stage, first + row, pixel, block);
                    });
                    continue;
                }
            }
            for image in block.images.clone() {
                let (row, pixel) = (block.row(chunk, image), chunk.pixel + block.first);
                on_block(Stage::Complete, row, pixel, &mut block.result(chunk, image, out));
            }
        }
    }

    /// The source channels of the chunk's group in image `image` of the chunk, starting at pixel `pixel`.
    fn source(&self, chunk: &Chunk, image: usize, pixel: usize) -> &[T] {
        let plane = self.geometry.plane();
        let first = ((chunk.images.start + image) * self.groups + chunk.group) * self.channels;
        &self.source[first * plane + pixel..(first + self.channels) * plane]
    }

    /// Computes a block of a pointwise convolution, whose windows are the image itself, and prefetches what the next block reads.
    /// Calls `on_block(stage, row, block)` for each row of tiles.
    fn compute_pointwise(
        &self,
        chunk: &Chunk,
        pixels: &PixelBlock,
        next: Option<&PixelBlock>,
        c: &mut MatMut<'_, T>,
        on_block: impl Fn(Stage, usize, &mut MatMut<'_, T>),
    ) {
        let (nr, mr, plane, cols) = (self.kernel.nr(), self.kernel.mr(), self.geometry.plane(), c.cols());
        let source = self.source(chunk, pixels.images.start, chunk.pixel + pixels.first);
        // With few output channels there are too few multiplications to hide the prefetches.
        let next = next.filter(|_| chunk.rows.len() > self.channels);
        let mut ahead = next.into_iter().flat_map(|next| {
            let source = self.source(chunk, next.images.start, chunk.pixel + next.first);
            source.chunks(plane).map(|channel| &channel[..next.cols])
        });
        let tiles = chunk.rows.len().div_ceil(mr) * depth_blocks::<T>(self.channels).count();
        let prefetches_per_tile = self.channels.div_ceil(tiles.max(1));
        let longest = depth_blocks::<T>(self.channels).map(|block| block.len()).max().unwrap_or(0);
        with_scratch(self.kernel.packed_b_len(cols, longest), |panels: &mut [T]| {
            for block in depth_blocks::<T>(self.channels) {
                let from = &source[block.start * plane..];
                let in_place = chunk.rows.len() <= mr;
                if !in_place {
                    self.kernel.pack_b(MatRef::new(from, block.len(), cols, plane, 1), panels);
                }
                let complete = block.end == self.channels;
                self.for_each_panel(chunk, &block, |a, row, rows| {
                    ahead.by_ref().take(prefetches_per_tile).for_each(prefetch);
                    if complete {
                        on_block(Stage::Before, row, &mut c.block(row, 0, rows, cols));
                    }
                    let b = if in_place {
                        Panels::in_place(from, nr, plane)
                    } else {
                        Panels::packed(panels, nr, block.len())
                    };
                    // The first tile prefetches the next weights.
                    let b = b.with_ahead(a.ahead);
                    let product = TileProduct { depth: block.len(), alpha: T::one(), accumulate: block.start > 0 };
                    self.kernel.tiles(product, a, b, c.block(row, 0, rows, cols));
                    if complete {
                        on_block(Stage::Complete, row, &mut c.block(row, 0, rows, cols));
                    }
                });
            }
        });
    }

    /// Index of the first row of pixels of a block, in each plane of the grid.
    fn first_row(&self, chunk: &Chunk, pixels: &PixelBlock) -> usize {
        let [_, height, width] = self.geometry.grid;
        (chunk.pixel + pixels.first) / width % height
    }

    /// The source rows that a block reads, one slice per source plane.
    fn reads<'s>(
        &'s self,
        blocking: &'s Blocking<'_>,
        chunk: &'s Chunk,
        pixels: &'s PixelBlock,
    ) -> impl Iterator<Item = &'s [T]> {
        let [_, height, width] = self.geometry.source;
        let rows = blocking.layout.range(1, self.first_row(chunk, pixels));
        let rows = if self.geometry.grid[0] > 1 { 0..height } else { rows };
        // An empty source has no planes, whatever their length.
        let plane = self.geometry.plane().max(1);
        let planes = pixels.images.clone().flat_map(move |n| self.source(chunk, n, 0).chunks_exact(plane));
        planes.map(move |plane| &plane[rows.start * width..rows.end * width])
    }

    /// Computes a row block, and prefetches what the next one reads.
    fn compute_row_block(
        &self,
        blocking: &Blocking<'_>,
        chunk: &Chunk,
        pixels: &PixelBlock,
        next: Option<&PixelBlock>,
        out: &mut MatMut<'_, T>,
    ) {
        let (layout, [planes, _, width]) = (&blocking.layout, self.geometry.grid);
        let (images, rows) = (pixels.images.len(), chunk.rows.len());
        let (first, count) = (self.first_row(chunk, pixels), pixels.cols / width / planes);
        let outputs = if blocking.order == Order::Contiguous { layout.outputs(count) } else { images * pixels.cols };
        // Results that are not computed in the layout of the output are copied to it at the end. Their row stride is an odd number
        // of cache lines, so that rows map to different cache sets.
        let in_place = images == 1 && outputs == pixels.cols;
        let stride = if in_place { 0 } else { (outputs.div_ceil(16) | 1) * 16 };
        let image = self.channels * layout.len();
        let mut ahead = next.into_iter().flat_map(|next| self.reads(blocking, chunk, next));
        with_scratch(images * image + rows * stride, |buffer: &mut [T]| {
            let (windows, sums) = buffer.split_at_mut(images * image);
            windows.fill(T::zero());
            for (n, windows) in pixels.images.clone().zip(windows.chunks_exact_mut(image)) {
                layout.fill(self.source(chunk, n, 0), first, windows);
            }
            if in_place {
                let mut c = pixels.result(chunk, pixels.images.start, out);
                return self.multiply(blocking, chunk, (windows, count), &mut ahead, &mut c);
            }
            self.multiply(blocking, chunk, (windows, count), &mut ahead, &mut MatMut::new(sums, rows, outputs, stride));
            for (i, n) in pixels.images.clone().enumerate() {
                let mut c = pixels.result(chunk, n, out);
                for (row, sums) in sums.chunks_exact(stride).enumerate().take(rows) {
                    let row = c.row_mut(row);
                    if blocking.order == Order::Packed {
                        row.copy_from_slice(&sums[i * pixels.cols..(i + 1) * pixels.cols]);
                    } else {
                        layout.collect(count, sums, row);
                    }
                }
            }
        });
    }

    /// Multiplies the weights by the windows of `count` rows of pixels in each plane of the images of a block, and prefetches
    /// `ahead`.
    fn multiply<'s>(
        &self,
        blocking: &Blocking<'_>,
        chunk: &Chunk,
        (windows, count): (&[T], usize),
        ahead: &mut impl Iterator<Item = &'s [T]>,
        c: &mut MatMut<'_, T>,
    ) {
        let (nr, outputs, table) = (self.kernel.nr(), c.cols(), &blocking.table);
        let cols = self.panels() * nr;
        // Outputs in a contiguous row of windows, and the stride between such rows.
        let (row_outputs, pitch) = match blocking.order {
            Order::ByRows => (self.geometry.grid[2], blocking.layout.pitch()),
            Order::Contiguous | Order::Packed => (outputs, 0),
        };
        let is_packed = blocking.order == Order::Packed;
        let tiles = outputs.div_ceil(row_outputs) * row_outputs.div_ceil(cols) * c.rows().div_ceil(self.kernel.mr());
        let planes = windows.len() / blocking.layout.len();
        let prefetches_per_tile = planes.div_ceil(tiles * depth_blocks::<T>(self.depth()).count());
        let tile_blocks = (0..outputs).step_by(row_outputs).enumerate().flat_map(|(i, first)| {
            (0..row_outputs).step_by(cols).map(move |start| (i * pitch, first, start..row_outputs.min(start + cols)))
        });
        for (windows_offset, first_output, tile_outputs) in tile_blocks {
            for block in depth_blocks::<T>(self.depth()) {
                let (len, first) = (block.len() * nr, block.start);
                let starts = tile_outputs.clone().step_by(nr);
                with_scratch(if is_packed { starts.len() * len } else { 0 }, |panels: &mut [T]| {
                    for (panel, start) in panels.chunks_exact_mut(len).zip(starts.clone()) {
                        let runs = self.runs(blocking, windows.len(), count, start..outputs.min(start + nr));
                        T::pack_runs(&runs, IndexedPanel { data: windows, table, first }, panel);
                    }
                    self.for_each_panel(chunk, &block, |a, row, rows| {
                        ahead.by_ref().take(prefetches_per_tile).for_each(prefetch);
                        let (start, len) = (tile_outputs.start, tile_outputs.len());
                        let c = c.block(row, first_output + start, rows, len);
                        let product = TileProduct { depth: block.len(), alpha: T::one(), accumulate: first > 0 };
                        if is_packed {
                            let b = Panels::packed(panels, nr, block.len()).with_ahead(a.ahead);
                            self.kernel.tiles(product, a, b, c);
                        } else {
                            let b = IndexedPanel { data: &windows[windows_offset + start..], table, first };
                            self.kernel.indexed_tiles(product, a, b, c);
                        }
                    });
                });
            }
        }
    }

    /// The runs of the panel for `outputs`, counted over `count` rows of pixels in each plane of the images of a block.
    fn runs(&self, blocking: &Blocking<'_>, windows: usize, count: usize, outputs: Range<usize>) -> Runs {
        let image = self.channels * blocking.layout.len();
        let pixels = self.geometry.grid[0] * count * self.geometry.grid[2];
        let mut runs = Runs::new(self.kernel.nr());
        for n in 0..windows / image {
            let (start, end) = (outputs.start.max(n * pixels), outputs.end.min((n + 1) * pixels));
            if start < end {
                let range = start - n * pixels..end - n * pixels;
                blocking.layout.add_runs(count, range, start - outputs.start, n * image, &mut runs);
            }
        }
        runs
    }

    /// Calls `f(a, row, rows)` for every panel of weights of a chunk, with its first row in the chunk and its number of rows.
    fn for_each_panel(&self, chunk: &Chunk, block: &Range<usize>, mut f: impl FnMut(Panels<'_, T>, usize, usize)) {
        let packed = &self.weights[chunk.group * self.kernel.packed_a_len(self.rows, self.depth())..];
        let packed = &packed[self.kernel.packed_a_len(self.rows, block.start)..];
        let mr = self.kernel.mr();
        for row in chunk.rows.clone().step_by(mr) {
            let (data, next) = (&packed[row * block.len()..], (row + mr) * block.len());
            let next = packed.get(next..next + mr * block.len()).unwrap_or_default();
            let a = Panels::packed(data, mr, block.len()).with_ahead(next);
            f(a, row - chunk.rows.start, mr.min(chunk.rows.end - row));
        }
    }
}

/// A block of a chunk: a range of its pixels in a range of its images.
struct PixelBlock {
    images: Range<usize>,
    /// Index of the first pixel, relative to the chunk.
    first: usize,
    cols: usize,
}

impl PixelBlock {
    /// First row of the result for image `image` of the chunk.
    fn row(&self, chunk: &Chunk, image: usize) -> usize {
        chunk.first_row + image * chunk.image_rows
    }

    /// The result of this block for image `image` of the chunk.
    fn result<'m, T>(&self, chunk: &Chunk, image: usize, out: &'m mut MatMut<'_, T>) -> MatMut<'m, T> {
        out.block(self.row(chunk, image), self.first, chunk.rows.len(), self.cols)
    }
}
