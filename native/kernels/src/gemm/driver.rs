//! The blocking loops around the microkernel.
//!
//! For each block of B (the KC x NC block of BLIS: [`DEPTH_BLOCK_BYTES`] by [`BLOCK_COLS`]) all threads pack B together. C is then
//! divided into chunks of whole tiles; the thread that computes a chunk packs the block of A for it (MC x KC), which stays in the
//! L2 cache while the panels of B stream past it. Threads wait for each other after every loop, so several threads pack and
//! multiply more than one block at a time, as long as these together do not exceed the maximum block size. Operands that are used only once
//! or twice are read in place, because packing would cost more than it saves. Products of a few rows with weights stored as (N, K) are
//! dot products (`few_rows`).

use super::packed::{DEPTH_BLOCK_BYTES, depth_blocks};
use super::product::{Lhs, Product, Rhs, scale_matrix};
use super::{few_rows, outer};
use crate::par::{self, MatMut, MatRef};
use crate::simd::l2_bytes;
use crate::simd::microkernel::{GemmElement, Panels, TileProduct};
use std::ops::Range;

/// Maximum rows of C in a chunk (MC), whose block of A fills half of the L2 cache: 252 rows, or 18 tiles of the AVX-512
/// microkernel, for 1 MiB. A multiple of 42, so that the tiles of 6 and of 14 rows divide it. Results do not depend on it.
fn max_chunk_rows() -> usize {
    (l2_bytes() / 2 / DEPTH_BLOCK_BYTES).clamp(84, 504) / 42 * 42
}

/// Maximum columns of a packed block of B (NC), unless the block has fewer bytes than [`BLOCK_BYTES`].
const BLOCK_COLS: usize = 2048;
/// Bytes of a block of the maximum size.
const BLOCK_BYTES: usize = BLOCK_COLS * DEPTH_BLOCK_BYTES;
/// Time to pack a row of tiles of A, in tiles of C multiplied.
const PACKING_COST: f64 = 0.4;
/// Time to read a panel of B for the first time, in tiles of C multiplied.
const PANEL_COST: f64 = 0.5;
/// Products of fewer multiply-adds run on the calling thread.
const PARALLEL_WORK: usize = 1 << 20;
/// Minimum number of panels of B packed by one chunk of the packing loop.
const CHUNK_PANELS: usize = 4;
/// Maximum bytes of a B that is read in place by several rows of tiles: slightly more than the L1 cache.
const IN_PLACE_BYTES: usize = 64 << 10;
/// Maximum number of panels of B for which A is read in place.
const IN_PLACE_PANELS: usize = 8;
/// [`IN_PLACE_PANELS`] for an A whose rows map to the same L1 cache sets or are not contiguous: it does not stay in the L1 cache, so every
/// panel of B reads it from the L2 cache again.
const IN_PLACE_PANELS_STRIDED: usize = 2;
/// Addresses at multiples of this stride map to the same L1 cache set.
pub(crate) const CACHE_WAY_BYTES: usize = 4096;

/// A block of B: a range of k indices by columns of C, in panels of `nr` columns.
struct Block<'b, T> {
    /// First column.
    col: usize,
    k_range: Range<usize>,
    /// True for the last depth block, after which C is complete.
    is_last: bool,
    b: &'b [T],
    /// Stride between k indices of a panel.
    b_stride: usize,
    /// Stride between panels.
    panel_stride: usize,
}

impl<T: GemmElement> Product<'_, T> {
    /// Writes the product to `c`.
    ///
    /// # Panics
    /// Panics if the shapes do not match.
    pub(super) fn run(&self, mut c: MatMut<'_, T>) {
        let (m, n) = (c.rows(), c.cols());
        let k = self.check(m, n);
        if m == 0 || n == 0 {
            return;
        }
        if let (Lhs::View(a), Rhs::View(b), 1, 1, 2..) = (self.a, self.b, n, c.row_stride(), m) {
            // A contiguous column of C fills the vectors if it is computed as a row of the transposed product.
            let epilogue = self.epilogue.t();
            let product = Product { a: Lhs::View(b.t()), b: Rhs::View(a.t()), epilogue: &epilogue, ..*self };
            return product.run(c.into_row());
        }
        if k == 0 || self.alpha == T::zero() {
            scale_matrix(&mut c, self.beta);
            return self.epilogue.apply(0, 0, &mut c);
        }
        let product = Product { threads: if m * n * k < PARALLEL_WORK { 1 } else { self.threads }, ..*self };
        if let (Lhs::View(a), Rhs::View(b), 1) = (self.a, self.b, k)
            && b.col_stride() == 1
        {
            return outer::run(&product, a, b, c);
        }
        if let (Lhs::View(a), Rhs::View(b)) = (self.a, self.b)
            && few_rows::is_faster(self.kernel, a, b)
        {
            return few_rows::run(&product, a, b, c);
        }
        let (block_cols, depth) = product.block_size(m, n);
        for col in (0..n).step_by(block_cols) {
            let cols = block_cols.min(n - col);
            match self.b {
                Rhs::View(b) if self.reads_in_place(b, m) => product.run_in_place(b, col, c.block(0, col, m, cols)),
                _ => depth_ranges::<T>(k, depth)
                    .for_each(|k_range| product.run_packed(k_range, col, c.block(0, col, m, cols))),
            }
        }
    }

    /// Columns and k indices of B that are multiplied in one loop. The depth is the maximum; a loop computes whole depth blocks.
    fn block_size(&self, m: usize, n: usize) -> (usize, usize) {
        let (depth, max_len) = (self.depth(), BLOCK_BYTES / size_of::<T>());
        if self.threads == 1 {
            return (BLOCK_COLS, 1);
        }
        // A packed B that is read by few chunks of rows need not stay in the cache.
        if matches!(self.b, Rhs::Packed(_)) && m <= max_chunk_rows() {
            return (n, depth);
        }
        let longest = depth_blocks::<T>(depth).next().map_or(depth, |block| block.len());
        let cols = if n * longest <= max_len { n } else { BLOCK_COLS };
        (cols, max_len / cols.min(n))
    }

    /// True if `b` should be read in place for `m` rows of C.
    fn reads_in_place(&self, b: MatRef<'_, T>, m: usize) -> bool {
        b.col_stride() == 1 && (m <= self.kernel.mr() || b.rows() * b.row_stride() * size_of::<T>() <= IN_PLACE_BYTES)
    }

    /// Computes the block `c` of columns of C, which starts at column `col`, with B read in place.
    fn run_in_place(&self, b: MatRef<'_, T>, col: usize, c: MatMut<'_, T>) {
        let (k, cols) = (b.rows(), c.cols());
        // If C is a single row of tiles, B is read once, and short depth blocks read it nearly in memory order; the more rows reuse
        // B, the longer the blocks. A packed A determines its depth blocks.
        let depth = match self.a {
            Lhs::Packed(_) => depth_blocks::<T>(k).next().map_or(k, |block| block.len()),
            Lhs::View(_) if c.rows() <= self.kernel.mr() => (4 * c.rows()).max(16),
            Lhs::View(_) => k,
        };
        let (b_stride, panel_stride) = (b.row_stride(), self.kernel.nr());
        self.for_each_chunk(c, |chunk_row, chunk_col, mut c| {
            for start in (0..k).step_by(depth) {
                let k_range = start..(start + depth).min(k);
                let (is_last, b) = (k_range.end == k, b.block(start, col, k_range.len(), cols).data());
                let block = Block { col, k_range, is_last, b, b_stride, panel_stride };
                let (rows, cols) = (c.rows(), c.cols());
                self.compute_chunk(&block, chunk_row, chunk_col, c.block(0, 0, rows, cols));
            }
        });
    }

    /// Computes the block `c` of columns of C, which starts at column `col`, for a range of depth blocks, with B packed.
    fn run_packed(&self, k_range: Range<usize>, col: usize, c: MatMut<'_, T>) {
        let (cols, depth, start, nr) = (c.cols(), k_range.len(), k_range.start, self.kernel.nr());
        match self.b {
            Rhs::Packed(b) => self.compute_blocks(k_range, col, c, |k, depth| (b.panels(k, depth, col), nr * depth)),
            Rhs::View(b) => par::with_scratch(self.kernel.packed_b_len(cols, depth), |packed: &mut [T]| {
                self.pack_b(b.block(start, col, depth, cols), packed);
                let packed = &*packed;
                self.compute_blocks(k_range, col, c, |k, _| (&packed[(k - start) * nr..], nr * depth));
            }),
        }
    }

    /// Computes the block `c` of columns of C, which starts at column `col`, for the depth blocks in `k_range`. `panels_of(k, depth)`
    /// returns the panels of B for the block of `depth` k indices starting at `k`, and their stride.
    fn compute_blocks<'b>(
        &self,
        k_range: Range<usize>,
        col: usize,
        c: MatMut<'_, T>,
        panels_of: impl Fn(usize, usize) -> (&'b [T], usize) + Sync,
    ) {
        let k = self.depth();
        self.for_each_chunk(c, |chunk_row, chunk_col, mut c| {
            for k_range in depth_blocks::<T>(k).filter(|block| k_range.contains(&block.start)) {
                let ((b, panel_stride), is_last) = (panels_of(k_range.start, k_range.len()), k_range.end == k);
                let block = Block { col, k_range, is_last, b, b_stride: self.kernel.nr(), panel_stride };
                let (rows, cols) = (c.rows(), c.cols());
                self.compute_chunk(&block, chunk_row, chunk_col, c.block(0, 0, rows, cols));
            }
        });
    }

    fn depth(&self) -> usize {
        match self.a {
            Lhs::View(a) => a.cols(),
            Lhs::Packed(a) => a.cols(),
        }
    }

    /// Checks the shapes and returns the depth.
    fn check(&self, m: usize, n: usize) -> usize {
        let depth = self.depth();
        let rows = match self.a {
            Lhs::View(a) => a.rows(),
            Lhs::Packed(a) => a.rows(),
        };
        let (b_rows, cols) = match self.b {
            Rhs::View(b) => (b.rows(), b.cols()),
            Rhs::Packed(b) => (b.rows(), b.cols()),
        };
        assert!(
            rows == m && depth == b_rows && cols == n,
            "shapes do not match: ({rows}, {depth}) times ({b_rows}, {cols}) into ({m}, {n})"
        );
        self.epilogue.check(m, n);
        depth
    }

    fn pack_b(&self, b: MatRef<'_, T>, packed: &mut [T]) {
        let (kernel, nr) = (self.kernel, self.kernel.nr());
        if self.threads == 1 {
            return kernel.pack_b(b, packed);
        }
        let panels = b.cols().div_ceil(nr);
        let chunk_panels = CHUNK_PANELS.max(panels.div_ceil(4 * self.threads));
        par::parallel_rows(packed, chunk_panels * nr * b.rows(), 1, |i, out| {
            let col = i * chunk_panels * nr;
            kernel.pack_b(b.block(0, col, b.rows(), (chunk_panels * nr).min(b.cols() - col)), out);
        });
    }

    /// Divides C into chunks of whole tiles and calls `f(row, col, chunk)` for each, in parallel if there are several threads.
    fn for_each_chunk(&self, mut c: MatMut<'_, T>, f: impl Fn(usize, usize, MatMut<'_, T>) + Sync) {
        let (kernel, m, n, threads) = (self.kernel, c.rows(), c.cols(), self.threads);
        let (tiles_down, tiles_across) = (m.div_ceil(kernel.mr()), n.div_ceil(kernel.nr()));
        let max_tiles_down = (max_chunk_rows() / kernel.mr()).max(1);
        if threads == 1 {
            let rows = max_tiles_down * kernel.mr();
            return (0..m).step_by(rows).for_each(|row| f(row, 0, c.block(row, 0, rows.min(m - row), n)));
        }
        let chunks_down = tiles_down.div_ceil(max_tiles_down);
        let [rows, cols] = if chunks_down > threads {
            // Chunks of rows share the panels of B.
            [tiles_down.div_ceil(chunks_down.next_multiple_of(threads)), tiles_across]
        } else {
            par::balanced_chunks([tiles_down, tiles_across], 1, threads, |rows, cols| {
                let (down, across) = (rows as f64, cols as f64);
                let is_too_high = rows > max_tiles_down;
                if is_too_high { f64::INFINITY } else { down * (across + PACKING_COST) + across * PANEL_COST }
            })
        };
        let (rows, cols) = ((rows * kernel.mr()).min(m), (cols * kernel.nr()).min(n));
        par::parallel_blocks(c, rows, cols, f);
    }

    /// Computes the chunk `c`, which starts at (`row`, `col`) of a block of columns of C, for the depth block of `block`.
    fn compute_chunk(&self, block: &Block<'_, T>, row: usize, col: usize, mut c: MatMut<'_, T>) {
        if block.k_range.start == 0 && self.beta != T::zero() {
            scale_matrix(&mut c, self.beta);
        }
        let (kernel, depth, rows) = (self.kernel, block.k_range.len(), c.rows());
        let multiply_packed = |a: &[T], c: MatMut<'_, T>| {
            let a = Panels::packed(a, kernel.mr(), depth);
            self.for_each_panel(block, (row, col), c, |b, c, accumulate| {
                kernel.tiles(TileProduct { depth, alpha: self.alpha, accumulate }, a, b, c);
            });
        };
        match self.a {
            Lhs::Packed(a) => multiply_packed(a.panels(block.k_range.start, depth, row), c),
            Lhs::View(a) => {
                let a = a.block(row, block.k_range.start, rows, depth);
                if c.cols() <= in_place_panels(a) * kernel.nr() {
                    return self.for_each_panel(block, (row, col), c, |b, mut c, accumulate| {
                        for (tile, i) in (0..rows).step_by(kernel.mr()).enumerate() {
                            let (count, cols) = (kernel.mr().min(rows - i), c.cols());
                            let b = b.with_ahead(b.ahead.get(tile * depth * kernel.lanes()..).unwrap_or_default());
                            let (a, tile) = (a.block(i, 0, count, depth), c.block(i, 0, count, cols));
                            kernel.strided_tile(TileProduct { depth, alpha: self.alpha, accumulate }, a, b, tile);
                        }
                    });
                }
                par::with_scratch(kernel.packed_a_len(rows, depth), |buffer: &mut [T]| {
                    kernel.pack_a(a, buffer);
                    multiply_packed(buffer, c);
                });
            }
        }
    }

    /// Calls `multiply(b, c, accumulate)` for every panel of the chunk at (`row`, `col`), where `b` is the panel of B. After the last
    /// depth block, applies the epilogue to each panel.
    fn for_each_panel(
        &self,
        block: &Block<'_, T>,
        (row, col): (usize, usize),
        mut c: MatMut<'_, T>,
        multiply: impl Fn(Panels<'_, T>, MatMut<'_, T>, bool),
    ) {
        let (nr, m, n) = (self.kernel.nr(), c.rows(), c.cols());
        let accumulate = block.k_range.start > 0 || self.beta != T::zero();
        let has_epilogue = block.is_last && !self.epilogue.is_empty();
        for j in (0..n).step_by(nr) {
            let cols = nr.min(n - j);
            let start = (col + j) / nr * block.panel_stride;
            // Prefetch the next panel.
            let ahead = block.b.get(start + block.panel_stride..).unwrap_or_default();
            let b = Panels::in_place(&block.b[start..], nr, block.b_stride).with_ahead(ahead);
            multiply(b, c.block(0, j, m, cols), accumulate);
            if has_epilogue {
                self.epilogue.apply(row, block.col + col + j, &mut c.block(0, j, m, cols));
            }
        }
    }
}

/// Divides the depth `k` into ranges of at most `depth` k indices, each of whole depth blocks, at least one.
fn depth_ranges<T>(k: usize, depth: usize) -> impl Iterator<Item = Range<usize>> {
    let block = depth_blocks::<T>(k).next().map_or(k, |block| block.len()).max(1);
    let step = (depth / block).max(1) * block;
    (0..k).step_by(step).map(move |start| start..(start + step).min(k))
}

/// Maximum number of panels of B for which `a` is read in place.
fn in_place_panels<T: Copy>(a: MatRef<'_, T>) -> usize {
    let row_bytes = a.row_stride() * size_of::<T>();
    if a.col_stride() > 1 || row_bytes.is_multiple_of(CACHE_WAY_BYTES) {
        IN_PLACE_PANELS_STRIDED
    } else {
        IN_PLACE_PANELS
    }
}
