//! The implicit matrix product: weights of (rows, depth) times windows of (depth, pixels). The windows are read directly from the
//! padded image and never stored as a matrix.
//!
//! Images are split into stripes of rows. The part of the image that a stripe needs is laid out in working memory so that a tap
//! reads adjacent elements for neighbouring pixels ([`Layout`]): a panel of B is then a table of offsets, one per channel and
//! tap, which all panels share.
//!
//! The depth is split into blocks that depend on its length alone, and each result is the sum of its blocks in order, so its bits
//! depend neither on the tile nor on the number of threads.

use super::geometry::Geometry;
use super::layout::Layout;
use crate::float::Accum;
use crate::par::{MatMut, MatRef, fair_chunks, num_threads, parallel_blocks, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panel};
use crate::simd::prefetch;
use crate::simd::window::{Runs, WindowElement};
use std::ops::Range;

/// Maximum bytes of one row of weights in a depth block.
const BLOCK_BYTES: usize = 2048;
/// Multiply-adds in a thread's chunk.
const CHUNK_WORK: usize = 1 << 18;
/// Bytes of the panels of windows that are multiplied with a panel of weights, one after the other: part of the L2 cache.
const PANELS_BYTES: usize = 128 << 10;
/// Cost of packing the windows, in rows of the product.
const PACKING_ROWS: f64 = 4.0;
/// Maximum bytes of working memory for a stripe, unless one row of pixels needs more: part of the L2 cache.
const STRIPE_BYTES: usize = 256 << 10;
/// Maximum bytes of working memory for whole images that are computed together.
const IMAGES_BYTES: usize = 1 << 20;

/// Splits the depth into blocks.
pub(super) fn depth_blocks<T>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    even_blocks::<T>(depth, BLOCK_BYTES)
}

/// Splits the depth into blocks of nearly the same length, of at most `bytes`.
pub(super) fn even_blocks<T>(depth: usize, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let count = depth.div_ceil(bytes / size_of::<T>()).max(1);
    let len = depth.div_ceil(count).max(1);
    (0..depth).step_by(len).map(move |start| start..(start + len).min(depth))
}

/// Packs weights into panels, one depth block after the other.
pub(super) fn pack_weights<T: WindowElement>(kernel: &MicroKernel<T>, weights: MatRef<'_, T>, out: &mut [T]) {
    let rows = weights.rows();
    for block in depth_blocks::<T>(weights.cols()) {
        let part = kernel.packed_a_len(rows, block.start)..kernel.packed_a_len(rows, block.end);
        kernel.pack_a(weights.block(0, block.start, rows, block.len()), &mut out[part]);
    }
}

/// What all products of one call share.
pub(super) struct Implicit<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub geometry: &'a Geometry,
    pub groups: usize,
    /// Rows of weights in a group.
    pub rows: usize,
    /// Source channels in a group.
    pub channels: usize,
    /// Packed weights, group after group.
    pub weights: &'a [T],
    /// The images, (batch, groups * channels, plane).
    pub source: &'a [T],
}

/// A range of rows of one group, for a range of images.
struct Part {
    group: usize,
    rows: Range<usize>,
    images: Range<usize>,
    /// First row of the result for the first image, and the number of rows per image.
    first_row: usize,
    image_rows: usize,
    /// Index of the first pixel.
    pixel: usize,
}

/// How the images are split.
pub(super) struct Stripes<'a> {
    layout: Layout<'a>,
    /// Offsets of channels and taps.
    table: OffsetTable,
    /// Rows of pixels in a stripe.
    rows: usize,
    /// Number of images whose stripes are computed together.
    images: usize,
    order: Order,
}

/// How the windows of a stripe are multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// In pixels, as one row, including the elements between rows of pixels.
    Through,
    /// In pixels, row by row.
    ByRows,
    /// Packed into panels, without the elements between rows of pixels.
    Dense,
}

/// When [`Finish`] is called for a block of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before it is computed, to prefetch what it needs. Not called for every block.
    Before,
    /// When it is complete.
    Complete,
}

/// Called for every block of the result, with its row, its first pixel and the block itself. The block is borrowed because moving
/// the view would wait for all earlier stores to leave the processor.
pub(super) type Finish<'f, T> = &'f dyn Fn(Moment, usize, usize, &mut MatMut<'_, T>);

/// A [`Finish`] that several threads may call.
pub(super) type SharedFinish<'f, T> = &'f (dyn Fn(Moment, usize, usize, &mut MatMut<'_, T>) + Sync);

impl<'a, T: Accum> Implicit<'a, T> {
    pub(super) fn depth(&self) -> usize {
        self.channels * self.geometry.taps.len()
    }

    /// Offsets of channels and taps in working memory.
    pub(super) fn depth_offsets<'l>(&self, layout: &'l Layout<'_>) -> impl Iterator<Item = usize> + use<'l, T> {
        let len = layout.len();
        (0..self.channels).flat_map(move |c| layout.taps().iter().map(move |tap| c * len + tap))
    }

    /// Number of panels of windows multiplied with a panel of weights. Many short panels write long runs of each row of the result and
    /// read long runs of each channel.
    fn panels(&self) -> usize {
        let longest = depth_blocks::<T>(self.depth()).map(|block| block.len()).max().unwrap_or(0);
        (PANELS_BYTES / (longest * self.kernel.nr() * size_of::<T>()).max(1)).clamp(4, 16)
    }

    /// Computes all images into `out`, (batch * groups * rows, pixels), in parallel. Calls `finish` for every block of the
    /// result.
    pub(super) fn run(&self, batch: usize, out: MatMut<'_, T>, finish: SharedFinish<'_, T>) {
        let (pixels, threads) = (out.cols(), num_threads());
        let image_rows = self.groups * self.rows;
        if batch == 0 || pixels == 0 || image_rows == 0 {
            return;
        }
        let work = image_rows * pixels * self.depth().max(1);
        if batch >= 2 * threads || threads == 1 || work * batch < 2 * CHUNK_WORK {
            let most = batch.div_ceil(2 * threads);
            let stripes = self.stripes(self.geometry.grid[1], if threads == 1 { batch } else { most });
            let images = (CHUNK_WORK / work).max(stripes.as_ref().map_or(1, |stripes| stripes.images)).clamp(1, most);
            return parallel_blocks(out, images * image_rows, pixels, |row, _, mut block| {
                self.images(&stripes, row / image_rows, 0, &mut block, &|m, r, p, block| finish(m, row + r, p, block));
            });
        }
        let mut out = out;
        let stripes = self.stripes((self.geometry.grid[1] * batch).div_ceil(3 * threads), 1);
        let (rows, cols) = self.fair_block(&stripes, batch * self.groups, pixels);
        if rows >= self.rows {
            // Whole images, split by pixels.
            return parallel_blocks(out, image_rows, cols, |row, pixel, mut block| {
                self.images(&stripes, row / image_rows, pixel, &mut block, &|m, r, p, block| {
                    finish(m, row + r, p, block)
                });
            });
        }
        for i in 0..batch * self.groups {
            let (first, image, group) = (i * self.rows, i / self.groups, i % self.groups);
            parallel_blocks(out.block(first, 0, self.rows, pixels), rows, cols, |row, pixel, mut block| {
                let rows = row..row + block.rows();
                let part = Part { group, rows, images: image..image + 1, first_row: 0, image_rows, pixel };
                self.part(&stripes, &part, &mut block, &|m, r, p, block| finish(m, first + row + r, p, block));
            });
        }
    }

    /// Rows and pixels of the blocks that the threads share; `images` counts groups as well.
    fn fair_block(&self, stripes: &Option<Stripes<'_>>, images: usize, pixels: usize) -> (usize, usize) {
        let (mr, lanes, threads) = (self.kernel.mr(), self.kernel.lanes(), num_threads());
        let tiles = self.rows.div_ceil(mr);
        match stripes {
            None => {
                // A tile of one vector is less efficient, and each chunk packs its windows.
                let [tiles_down, vectors_across] =
                    fair_chunks([tiles, pixels.div_ceil(lanes)], images, threads, |tiles, vectors| {
                        ((tiles * mr) as f64 + PACKING_ROWS) * (vectors as f64 + 0.25 * (vectors % 2) as f64)
                    });
                (tiles_down * mr, vectors_across * lanes)
            }
            Some(stripes) => {
                let cols = self.stripe_pixels(stripes);
                let down = (3 * threads).div_ceil(pixels.div_ceil(cols) * images).clamp(1, tiles.div_ceil(4));
                (tiles.div_ceil(down) * mr, cols)
            }
        }
    }

    /// Splits the images into stripes of at most `most` rows of pixels and `images` images; `None` for pointwise convolutions.
    pub(super) fn stripes(&self, most: usize, images: usize) -> Option<Stripes<'a>> {
        if self.geometry.is_pointwise() {
            return None;
        }
        let ([planes, height, width], lanes) = (self.geometry.grid, self.kernel.lanes());
        let whole = Layout::new(self.geometry);
        // Working memory for a row of pixels: sums and windows.
        let row = self.rows.min(4 * self.kernel.mr()) * width * planes + self.channels * whole.len() / height.max(1);
        let row = row.max(1) * size_of::<T>();
        let whole_images = IMAGES_BYTES / (row * height.max(1));
        let most = if planes > 1 || whole_images >= 1 { height } else { most.min(STRIPE_BYTES / row) };
        let most = most.clamp(1, height.max(1));
        let images = if most == height { whole_images.clamp(1, images.max(1)) } else { 1 };
        // Of the larger stripes, take those with the fewest lanes wasted between rows and after the last one.
        let vectors = |rows: usize| whole.outputs(rows).div_ceil(lanes);
        let computed = |rows: usize| height / rows * vectors(rows) + vectors(height % rows);
        let best = (most.div_ceil(2)..=most).rev().min_by_key(|&rows| computed(rows)).unwrap_or(1);
        // Costs in units of one vector product: packing the windows and copying the results.
        let (depth, packing) = (self.depth(), 2 * (2 + lanes / width.max(1)));
        let copying = 8 + 4 * width.div_ceil(lanes);
        let through = depth * computed(best) * self.rows + self.rows * height * copying;
        // A tile of one vector is less efficient.
        let cost = |vectors: usize| 8 * vectors + 2 * (vectors % 2);
        let dense = |images: usize| {
            let vectors = |rows: usize| (images * rows * width * planes).div_ceil(lanes);
            let products = depth * (height / most * cost(vectors(most)) + cost(vectors(height % most)));
            products * (self.rows + packing) / (8 * images) + if images > 1 { self.rows * copying } else { 0 }
        };
        let images = if dense(images) < dense(1) { images } else { 1 };
        let by_rows = depth * height * cost(width.div_ceil(lanes)) * self.rows / 8;
        let order = if planes == 1 && by_rows < through.min(dense(images)) {
            Order::ByRows
        } else if dense(images) < through {
            Order::Dense
        } else {
            Order::Through
        };
        let (rows, images) = match order {
            Order::Dense => (most, images),
            Order::Through => (best, 1),
            Order::ByRows => (most, 1),
        };
        let layout = if rows == height { whole } else { Layout::of_rows(self.geometry, rows) };
        let table = OffsetTable::new(self.depth_offsets(&layout));
        Some(Stripes { layout, table, rows, images, order })
    }

    /// Pixels of a stripe.
    fn stripe_pixels(&self, stripes: &Stripes<'_>) -> usize {
        (self.geometry.grid[0] * stripes.rows * self.geometry.grid[2]).max(1)
    }

    /// Computes all groups of the images from `image` on that `out` has rows for, from pixel `pixel` on.
    pub(super) fn images(
        &self,
        stripes: &Option<Stripes<'_>>,
        image: usize,
        pixel: usize,
        out: &mut MatMut<'_, T>,
        finish: Finish<'_, T>,
    ) {
        let image_rows = self.groups * self.rows;
        let images = image..image + out.rows() / image_rows;
        for group in 0..self.groups {
            let (rows, first_row) = (0..self.rows, group * self.rows);
            let part = Part { group, rows, images: images.clone(), first_row, image_rows, pixel };
            self.part(stripes, &part, out, finish);
        }
    }

    fn part(&self, stripes: &Option<Stripes<'_>>, part: &Part, out: &mut MatMut<'_, T>, finish: Finish<'_, T>) {
        let pixels = out.cols();
        let (cols, together) = match stripes {
            _ if self.depth() == 0 => (pixels, 1),
            Some(stripes) => (self.stripe_pixels(stripes), stripes.images),
            None => (self.panels() * self.kernel.nr(), 1),
        };
        let blocks_across = pixels.div_ceil(cols);
        let block_at = |i: usize| {
            let (image, first) = (i / blocks_across * together, i % blocks_across * cols);
            let images = image..(image + together).min(part.images.len());
            PixelBlock { images, first, cols: cols.min(pixels - first) }
        };
        let count = part.images.len().div_ceil(together) * blocks_across;
        for i in 0..count {
            let (here, next) = (block_at(i), (i + 1 < count).then(|| block_at(i + 1)));
            match stripes {
                _ if self.depth() == 0 => {
                    let mut c = here.block(part, here.images.start, out);
                    (0..c.rows()).for_each(|row| c.row_mut(row).fill(T::zero()));
                }
                Some(stripes) => self.stripe(stripes, part, &here, next.as_ref(), out),
                None => {
                    let (image, pixel) = (here.images.start, part.pixel + here.first);
                    let first = here.row(part, image);
                    let c = &mut here.block(part, image, out);
                    self.pointwise(part, &here, next.as_ref(), c, |moment, row, block| {
                        finish(moment, first + row, pixel, block);
                    });
                    continue;
                }
            }
            for image in here.images.clone() {
                finish(
                    Moment::Complete,
                    here.row(part, image),
                    part.pixel + here.first,
                    &mut here.block(part, image, out),
                );
            }
        }
    }

    /// The source channels that a part reads, from pixel `pixel` of image `image` of the part on.
    fn source(&self, part: &Part, image: usize, pixel: usize) -> &[T] {
        let plane = self.geometry.plane();
        let first = ((part.images.start + image) * self.groups + part.group) * self.channels;
        &self.source[first * plane + pixel..(first + self.channels) * plane]
    }

    /// Multiplies windows that are the image itself. Calls `finish(moment, row, block)` for a few rows at a time, and prefetches
    /// what the next block reads.
    fn pointwise(
        &self,
        part: &Part,
        pixels: &PixelBlock,
        next: Option<&PixelBlock>,
        c: &mut MatMut<'_, T>,
        finish: impl Fn(Moment, usize, &mut MatMut<'_, T>),
    ) {
        let (nr, mr, plane, cols) = (self.kernel.nr(), self.kernel.mr(), self.geometry.plane(), c.cols());
        let source = self.source(part, pixels.images.start, part.pixel + pixels.first);
        // With few rows there is no time to prefetch.
        let next = next.filter(|_| part.rows.len() > self.channels);
        let mut ahead = next.into_iter().flat_map(|next| {
            let source = self.source(part, next.images.start, part.pixel + next.first);
            source.chunks(plane).map(|channel| &channel[..next.cols])
        });
        let tiles = part.rows.len().div_ceil(mr) * depth_blocks::<T>(self.channels).count();
        let each = self.channels.div_ceil(tiles.max(1));
        let longest = depth_blocks::<T>(self.channels).map(|block| block.len()).max().unwrap_or(0);
        with_scratch(self.kernel.packed_b_len(cols, longest), |panels: &mut [T]| {
            for block in depth_blocks::<T>(self.channels) {
                let from = &source[block.start * plane..];
                let in_place = part.rows.len() <= mr;
                if !in_place {
                    self.kernel.pack_b(MatRef::new(from, block.len(), cols, plane, 1), panels);
                }
                let complete = block.end == self.channels;
                self.tiles(part, &block, |a, row, rows| {
                    ahead.by_ref().take(each).for_each(prefetch);
                    if complete {
                        finish(Moment::Before, row, &mut c.block(row, 0, rows, cols));
                    }
                    for first in (0..cols).step_by(nr) {
                        // Prefetch the next weights.
                        let ahead = if first == 0 { a.ahead } else { &[] };
                        let b = if in_place {
                            Panel { data: &from[first..], stride: plane, ahead }
                        } else {
                            Panel { data: &panels[first * block.len()..], stride: nr, ahead }
                        };
                        let tile = c.block(row, first, rows, nr.min(cols - first));
                        self.kernel.tile(block.len(), T::one(), a, b, tile, block.start > 0);
                    }
                    if complete {
                        finish(Moment::Complete, row, &mut c.block(row, 0, rows, cols));
                    }
                });
            }
        });
    }

    /// First row of pixels of a block in each plane of the grid.
    fn first_row(&self, part: &Part, pixels: &PixelBlock) -> usize {
        let [_, height, width] = self.geometry.grid;
        (part.pixel + pixels.first) / width % height
    }

    /// What a stripe reads, one source plane after the other.
    fn reads<'s>(
        &'s self,
        stripes: &'s Stripes<'_>,
        part: &'s Part,
        pixels: &'s PixelBlock,
    ) -> impl Iterator<Item = &'s [T]> {
        let [_, height, width] = self.geometry.source;
        let rows = stripes.layout.range(1, self.first_row(part, pixels));
        let rows = if self.geometry.grid[0] > 1 { 0..height } else { rows };
        let planes = pixels.images.clone().flat_map(|n| self.source(part, n, 0).chunks_exact(self.geometry.plane()));
        planes.map(move |plane| &plane[rows.start * width..rows.end * width])
    }

    /// Computes the stripes of some images, and prefetches what the next ones read.
    fn stripe(
        &self,
        stripes: &Stripes<'_>,
        part: &Part,
        pixels: &PixelBlock,
        next: Option<&PixelBlock>,
        out: &mut MatMut<'_, T>,
    ) {
        let (layout, [planes, _, width]) = (&stripes.layout, self.geometry.grid);
        let (images, rows) = (pixels.images.len(), part.rows.len());
        let (first, count) = (self.first_row(part, pixels), pixels.cols / width / planes);
        let outputs = if stripes.order == Order::Through { layout.outputs(count) } else { images * pixels.cols };
        // Results that are not computed in their final layout are copied at the end.
        let in_place = images == 1 && outputs == pixels.cols;
        let stride = if in_place { 0 } else { (outputs.div_ceil(16) | 1) * 16 };
        let image = self.channels * layout.len();
        let mut ahead = next.into_iter().flat_map(|next| self.reads(stripes, part, next));
        with_scratch(images * image + rows * stride, |buffer: &mut [T]| {
            let (windows, sums) = buffer.split_at_mut(images * image);
            windows.fill(T::zero());
            for (n, windows) in pixels.images.clone().zip(windows.chunks_exact_mut(image)) {
                layout.fill(self.source(part, n, 0), first, windows);
            }
            if in_place {
                let mut c = pixels.block(part, pixels.images.start, out);
                return self.multiply(stripes, part, windows, count, &mut ahead, &mut c);
            }
            self.multiply(stripes, part, windows, count, &mut ahead, &mut MatMut::new(sums, rows, outputs, stride));
            for (i, n) in pixels.images.clone().enumerate() {
                let mut c = pixels.block(part, n, out);
                for (row, sums) in sums.chunks_exact(stride).enumerate().take(rows) {
                    let row = c.row_mut(row);
                    if stripes.order == Order::Dense {
                        row.copy_from_slice(&sums[i * pixels.cols..(i + 1) * pixels.cols]);
                    } else {
                        layout.collect(count, sums, row);
                    }
                }
            }
        });
    }

    /// Multiplies the weights with the windows of `count` rows of pixels in each plane of some images, and prefetches `ahead`.
    fn multiply<'s>(
        &self,
        stripes: &Stripes<'_>,
        part: &Part,
        windows: &[T],
        count: usize,
        ahead: &mut impl Iterator<Item = &'s [T]>,
        c: &mut MatMut<'_, T>,
    ) {
        let (nr, outputs, table) = (self.kernel.nr(), c.cols(), &stripes.table);
        let cols = self.panels() * nr;
        // Number of outputs computed together, and the windows between them.
        let (together, pitch) = match stripes.order {
            Order::ByRows => (self.geometry.grid[2], stripes.layout.pitch()),
            Order::Through | Order::Dense => (outputs, 0),
        };
        let dense = stripes.order == Order::Dense;
        let tiles = outputs.div_ceil(together) * together.div_ceil(cols) * c.rows().div_ceil(self.kernel.mr());
        let planes = windows.len() / stripes.layout.len();
        let each = planes.div_ceil(tiles * depth_blocks::<T>(self.depth()).count());
        let parts = (0..outputs).step_by(together).enumerate().flat_map(|(i, first)| {
            (0..together).step_by(cols).map(move |start| (i * pitch, first, start..together.min(start + cols)))
        });
        for (windows_from, first_output, part_outputs) in parts {
            for block in depth_blocks::<T>(self.depth()) {
                let (len, first) = (block.len() * nr, block.start);
                let starts = part_outputs.clone().step_by(nr);
                with_scratch(if dense { starts.len() * len } else { 0 }, |panels: &mut [T]| {
                    for (panel, start) in panels.chunks_exact_mut(len).zip(starts.clone()) {
                        let runs = self.runs(stripes, windows.len(), count, start..outputs.min(start + nr));
                        T::pack_runs(&runs, IndexedPanel { data: windows, table, first }, panel);
                    }
                    self.tiles(part, &block, |a, row, rows| {
                        ahead.by_ref().take(each).for_each(prefetch);
                        for (i, start) in starts.clone().enumerate() {
                            let tile = c.block(row, first_output + start, rows, nr.min(part_outputs.end - start));
                            if dense {
                                let ahead = if i == 0 { a.ahead } else { &[] };
                                let b = Panel { data: &panels[i * len..], stride: nr, ahead };
                                self.kernel.tile(block.len(), T::one(), a, b, tile, first > 0);
                            } else {
                                let b = IndexedPanel { data: &windows[windows_from + start..], table, first };
                                self.kernel.indexed_tile(block.len(), T::one(), a, b, tile, first > 0);
                            }
                        }
                    });
                });
            }
        }
    }

    /// The runs of a panel for some of the outputs of `count` rows of pixels in each plane of some images.
    fn runs(&self, stripes: &Stripes<'_>, windows: usize, count: usize, outputs: Range<usize>) -> Runs {
        let image = self.channels * stripes.layout.len();
        let pixels = self.geometry.grid[0] * count * self.geometry.grid[2];
        let mut runs = Runs::new(self.kernel.nr());
        for n in 0..windows / image {
            let (start, end) = (outputs.start.max(n * pixels), outputs.end.min((n + 1) * pixels));
            if start < end {
                let range = start - n * pixels..end - n * pixels;
                stripes.layout.add_runs(count, range, start - outputs.start, n * image, &mut runs);
            }
        }
        runs
    }

    /// Calls `f(a, row, rows)` for every panel of weights of a part, with its first row in the part and its number of rows.
    fn tiles(&self, part: &Part, block: &Range<usize>, mut f: impl FnMut(Panel<'_, T>, usize, usize)) {
        let packed = &self.weights[part.group * self.kernel.packed_a_len(self.rows, self.depth())..];
        let packed = &packed[self.kernel.packed_a_len(self.rows, block.start)..];
        let step = self.kernel.mr();
        for row in part.rows.clone().step_by(step) {
            let (data, next) = (&packed[row * block.len()..], (row + step) * block.len());
            let a = Panel { data, stride: step, ahead: packed.get(next..).unwrap_or_default() };
            f(a, row - part.rows.start, step.min(part.rows.end - row));
        }
    }
}

/// A range of pixels in some images of a part.
struct PixelBlock {
    images: Range<usize>,
    /// Index of the first pixel, relative to the part.
    first: usize,
    cols: usize,
}

impl PixelBlock {
    /// First row of the result for image `image` of the part.
    fn row(&self, part: &Part, image: usize) -> usize {
        part.first_row + image * part.image_rows
    }

    /// The result for image `image` of the part.
    fn block<'m, T>(&self, part: &Part, image: usize, out: &'m mut MatMut<'_, T>) -> MatMut<'m, T> {
        out.block(self.row(part, image), self.first, part.rows.len(), self.cols)
    }
}
