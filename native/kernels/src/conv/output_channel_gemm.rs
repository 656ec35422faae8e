//! Implicit GEMM with output channels in the vector lanes: the windows (pixels, depth) times the weights (depth, output channels).
//!
//! Most layers have a multiple of 32 output channels, so small images waste no lanes: 49 pixels make four tiles of up to 13 rows;
//! as columns, they would fill only three quarters of two 32-wide panels. Weights are read once, in order, and
//! prefetched. The sums are (pixels, output channels); complete ones are transposed into planes.

use super::ConvShape;
use super::implicit::{Implicit, SharedOnBlock, Stage, pack_blocks};
use super::layout::Layout;
use crate::float::Accum;
use crate::gemm::even_blocks;
use crate::par::{MatMut, MatRef, balanced_chunks, num_threads, parallel_blocks_of_groups, with_scratch};
use crate::simd::microkernel::{IndexedPanel, MicroKernel, OffsetTable, Panels, TileProduct};
use crate::simd::window::{Runs, WindowElement};
use std::ops::Range;

/// Maximum bytes of a column of weights in a depth block.
const DEPTH_BLOCK_BYTES: usize = 1024;
/// Maximum pixels in a block, unless a row of pixels has more.
const BLOCK_PIXELS: usize = 224;
/// Maximum bytes of the sums of a block, which must stay in the L2 cache.
const SUMS_BYTES: usize = 256 << 10;

/// Cost of packing the windows, in panels of weights multiplied.
const PACKING_COST: f64 = 0.125;

/// True if output channels fill the lanes better than pixels do.
pub(super) fn is_profitable<T: Accum>(shape: &ConvShape) -> bool {
    let (pixels, channels, lanes) = (shape.output_plane(), shape.group_out(), T::microkernel().lanes());
    let (by_pixels, by_channels) = (channels * pixels.div_ceil(lanes), pixels * channels.div_ceil(lanes));
    // The kernel size breaks ties: windows of more than one tap take longer to pack than weights.
    let small = pixels <= BLOCK_PIXELS && shape.taps() > 1 && by_channels <= by_pixels;
    small || 20 * by_channels <= 19 * by_pixels
}

/// Splits the depth into blocks.
fn depth_blocks<T>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    even_blocks::<T>(depth, DEPTH_BLOCK_BYTES)
}

/// Packs weights of (channels, depth) into panels of `nr` channels, one depth block after the other.
pub(super) fn pack_weights<T: WindowElement>(kernel: &MicroKernel<T>, weights: MatRef<'_, T>, out: &mut [T]) {
    pack_blocks(kernel, weights, kernel.nr(), depth_blocks::<T>(weights.cols()), out);
}

/// The scratch layout of the windows of a block.
struct Windows<'a> {
    layout: Layout<'a>,
    table: OffsetTable,
}

/// Tiles of nearly equal height.
#[derive(Clone, Copy)]
struct Tiles {
    /// The pixels in a tile.
    rows: usize,
    /// The stride between k indices in a panel of pixels.
    stride: usize,
}

impl Tiles {
    fn new<T: Accum>(kernel: &MicroKernel<T>, pixels: usize, has_windows: bool) -> Tiles {
        let rows = pixels.div_ceil(pixels.div_ceil(kernel.mr()));
        Tiles { rows, stride: if has_windows { rows.next_multiple_of(kernel.lanes()) } else { rows } }
    }
}

/// A block of the output: channels of one group starting at row `row`, for the pixels starting at `pixel`.
struct ChannelBlock<'a, T> {
    row: usize,
    pixel: usize,
    out: MatMut<'a, T>,
    on_block: SharedOnBlock<'a, T>,
}

impl<T: Accum> ChannelBlock<'_, T> {
    /// Calls `on_block` before the channels starting at `first` are computed.
    fn prefetch(&mut self, first: usize, channels: usize) {
        let pixels = self.out.cols();
        (self.on_block)(Stage::Before, self.row + first, self.pixel, &mut self.out.block(first, 0, channels, pixels));
    }

    /// Transposes a panel of complete sums, (pixels, channels), into the channels starting at `first`, (channels, pixels).
    fn write_transposed(&mut self, kernel: &MicroKernel<T>, first: usize, sums: &[T]) {
        let (nr, pixels) = (kernel.nr(), self.out.cols());
        let channels = nr.min(self.out.rows() - first);
        let mut out = self.out.block(first, 0, channels, pixels);
        kernel.transpose(MatRef::new(sums, pixels, channels, nr, 1), &mut out);
        (self.on_block)(Stage::Complete, self.row + first, self.pixel, &mut out);
    }
}

impl<T: Accum> Implicit<'_, T> {
    /// Like [`Self::run`], for weights packed by this module's [`pack_weights`].
    pub(super) fn run_output_channels(&self, batch: usize, out: MatMut<'_, T>, on_block: SharedOnBlock<'_, T>) {
        let (pixels, threads) = (out.cols(), num_threads());
        let [planes, height, width] = self.geometry.grid;
        let image_rows = self.groups * self.rows;
        if batch == 0 || pixels == 0 || image_rows == 0 {
            return;
        }
        // Blocks of nearly equal size, at most `max`, so that none is tiny.
        let even = |all: usize, max: usize| all.div_ceil(all.div_ceil(max.max(1)));
        // Blocks of pixels are smaller if the panels of output channels do not occupy all threads.
        let panels = self.rows.div_ceil(self.kernel.nr());
        let min_blocks = threads.div_ceil(batch * self.groups * panels);
        let even_blocks = |units: usize, unit: usize| even(units, (BLOCK_PIXELS / unit).min(units / min_blocks)) * unit;
        let block_pixels = if self.geometry.is_pointwise() {
            even_blocks(pixels.div_ceil(self.kernel.mr()), self.kernel.mr())
        } else if planes > 1 {
            pixels
        } else {
            even_blocks(height, width)
        };
        let windows = (!self.geometry.is_pointwise()).then(|| {
            let rows = if planes > 1 { height } else { block_pixels / width };
            let layout = Layout::of_rows(self.geometry, rows);
            let table = OffsetTable::new(self.depth_offsets(&layout));
            Windows { layout, table }
        });
        let channels = (SUMS_BYTES / size_of::<T>() / block_pixels.min(pixels)).max(self.kernel.nr());
        let num_row_blocks = batch * self.groups * pixels.div_ceil(block_pixels);
        let max_channels = match num_row_blocks {
            _ if threads == 1 => self.rows,
            1 => {
                balanced_chunks([panels, 1], 1, threads, |panels, _| panels as f64 + PACKING_COST)[0] * self.kernel.nr()
            }
            _ => self.rows.div_ceil((2 * threads).div_ceil(num_row_blocks)),
        };
        let channels = even(self.rows, channels.min(max_channels)).next_multiple_of(self.kernel.nr());
        parallel_blocks_of_groups(out, self.rows, [channels, block_pixels], |row, pixel, out| {
            self.compute_channel_block(&windows, ChannelBlock { row, pixel, out, on_block });
        });
    }

    fn compute_channel_block(&self, windows: &Option<Windows<'_>>, mut block: ChannelBlock<'_, T>) {
        let (kernel, depth) = (self.kernel, self.depth());
        let (nr, pixels, channels) = (kernel.nr(), block.out.cols(), block.out.rows());
        let (plane, group) = (self.geometry.plane(), block.row / self.rows);
        let source = &self.source[group * self.channels * plane..(group + 1) * self.channels * plane];
        let weights = &self.weights[group % self.groups * kernel.packed_b_len(self.rows, depth)..];
        let tiles = Tiles::new(kernel, pixels, windows.is_some());
        let longest = depth_blocks::<T>(depth).map(|block| block.len()).max().unwrap_or(0);
        let is_single_block = longest == depth && depth > 0;
        let lens = [
            windows.as_ref().map_or(0, |windows| self.channels * windows.layout.len()),
            pixels.div_ceil(tiles.rows) * tiles.stride * longest,
            pixels * if is_single_block { nr } else { channels.next_multiple_of(nr) },
        ];
        with_scratch(lens.iter().sum(), |buffer: &mut [T]| {
            let (image, buffer) = buffer.split_at_mut(lens[0]);
            let (panels, sums) = buffer.split_at_mut(lens[1]);
            if let Some(windows) = windows {
                image.fill(T::zero());
                let [_, height, width] = self.geometry.grid;
                windows.layout.fill(source, block.pixel / width % height, image);
            }
            if depth == 0 {
                sums.fill(T::zero());
            }
            for depths in depth_blocks::<T>(depth) {
                match windows {
                    None => {
                        let data = &source[depths.start * plane + block.pixel..];
                        kernel.pack_lanes(MatRef::new(data, pixels, depths.len(), 1, plane), tiles.rows, panels);
                    }
                    Some(windows) => self.pack_windows(windows, image, &depths, (pixels, tiles), panels),
                }
                let panel_stride = tiles.stride * depths.len();
                let a = Panels { data: panels, width: tiles.rows, stride: tiles.stride, panel_stride, ahead: &[] };
                self.multiply_panels(depths, weights, a, &mut block, sums);
            }
            for first in (0..channels).step_by(nr).filter(|_| !is_single_block) {
                block.write_transposed(kernel, first, &sums[first * pixels..]);
            }
        });
    }

    /// Adds the products of a depth block to the sums of a block of channels. If there is no other depth block, all panels of channels
    /// have the same sums, which are written to the output at once.
    fn multiply_panels(
        &self,
        depths: Range<usize>,
        weights: &[T],
        a: Panels<'_, T>,
        block: &mut ChannelBlock<'_, T>,
        sums: &mut [T],
    ) {
        let (kernel, nr) = (self.kernel, self.kernel.nr());
        let (pixels, channels, row) = (block.out.cols(), block.out.rows(), block.row % self.rows);
        let is_single_block = depths == (0..self.depth());
        let weights = &weights[kernel.packed_b_len(self.rows, depths.start)..];
        for first in (0..channels).step_by(nr) {
            let (start, lanes) = ((row + first) * depths.len(), nr.min(channels - first));
            if depths.end == self.depth() {
                block.prefetch(first, lanes);
            }
            // The first tiles prefetch the next panel of weights.
            let next = start + nr * depths.len();
            let ahead = weights.get(next..next + nr * depths.len()).unwrap_or_default();
            let b = Panels::packed(&weights[start..], nr, depths.len()).with_ahead(ahead);
            let product = TileProduct { depth: depths.len(), alpha: T::one(), accumulate: depths.start > 0 };
            let sums = &mut sums[if is_single_block { 0 } else { first * pixels }..];
            kernel.tiles(product, a, b, MatMut::new(sums, pixels, lanes, nr));
            if is_single_block {
                block.write_transposed(kernel, first, sums);
            }
        }
    }

    /// Packs a depth block of the windows into panels of `tiles.rows` pixels.
    fn pack_windows(
        &self,
        windows: &Windows<'_>,
        image: &[T],
        depths: &Range<usize>,
        (pixels, tiles): (usize, Tiles),
        panels: &mut [T],
    ) {
        let rows = pixels / self.geometry.grid[0] / self.geometry.grid[2];
        let panels = panels.chunks_exact_mut(tiles.stride * depths.len());
        for (i, panel) in panels.enumerate().take(pixels.div_ceil(tiles.rows)) {
            let mut runs = Runs::new(tiles.stride);
            windows.layout.add_runs(rows, i * tiles.rows..pixels.min((i + 1) * tiles.rows), 0, 0, &mut runs);
            T::pack_runs(&runs, IndexedPanel { data: image, table: &windows.table, first: depths.start }, panel);
        }
    }
}
