//! The loops around the microkernel.
//!
//! Large products: all threads together pack a block of B of `INNER_BYTES` x `OUTER_COLS`; then they share blocks of rows of C,
//! and each packs its part of A. A block of A stays in the second-level cache while the panels of B stream past it. Operands that
//! are used only once or twice are read in place, because packing would cost more than it saves. Products of a few rows with
//! weights stored as (n, k) are dot products (`few_rows`).

use super::epilogue::Epilogue;
use super::few_rows;
use super::packed::{PackedA, PackedB};
use crate::par::{self, MatMut, MatRef};
use crate::simd::l2_bytes;
use crate::simd::microkernel::{GemmElement, MicroKernel, Panel};
use std::ops::Range;

/// Maximum bytes of a row of A in one depth block.
const INNER_BYTES: usize = 2048;
/// Maximum rows of C in a task, whose block of A fills half of the second-level cache: 252 for 1 MiB, which are eighteen tiles of the
/// widest microkernel. Results do not depend on it.
fn task_rows() -> usize {
    (l2_bytes() / 2 / INNER_BYTES).clamp(84, 504) / 42 * 42
}

/// Maximum columns of B packed at a time.
const OUTER_COLS: usize = 2048;
/// Products of fewer multiply-adds run on the calling thread.
const PARALLEL_WORK: usize = 1 << 20;
/// Minimum number of panels of B that a task packs.
const TASK_PANELS: usize = 4;
/// Maximum bytes of a B that several rows of tiles read in place; slightly more than the first-level cache.
const IN_PLACE_BYTES: usize = 64 << 10;
/// Maximum number of panels of B for which A is read in place.
const IN_PLACE_PANELS: usize = 8;
/// The same for an A whose rows share sets of the first-level cache, or whose rows' elements are not adjacent: each panel of B would
/// read it from the second-level cache again.
const IN_PLACE_PANELS_STRIDED: usize = 2;
/// Addresses this far apart share a set of the first-level cache.
const CACHE_WAY_BYTES: usize = 4096;

/// Splits the depth into as few blocks as possible, of equal length up to rounding. They depend on the depth alone, so that
/// results do not depend on the number of threads.
pub(super) fn inner_blocks<T>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let count = depth.div_ceil(INNER_BYTES / size_of::<T>()).max(1);
    let len = depth.div_ceil(count).max(1);
    (0..depth).step_by(len).map(move |start| start..(start + len).min(depth))
}

/// The left operand.
#[derive(Clone, Copy)]
pub(super) enum Left<'a, T: 'static> {
    View(MatRef<'a, T>),
    Packed(&'a PackedA<T>),
}

/// The right operand.
#[derive(Clone, Copy)]
pub(super) enum Right<'a, T: 'static> {
    View(MatRef<'a, T>),
    Packed(&'a PackedB<T>),
}

/// A matrix product to compute.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub alpha: T,
    pub a: Left<'a, T>,
    pub b: Right<'a, T>,
    pub beta: T,
    pub epilogue: &'a Epilogue<'a, T>,
    /// Maximum number of threads.
    pub threads: usize,
}

/// A block of columns of C and of the depth.
struct Block<'b, T> {
    /// First column.
    col: usize,
    /// The depth range.
    inner: Range<usize>,
    /// Whether this is the last depth block.
    last: bool,
    /// The elements of B in panels of `nr` columns, `panel` elements apart, with a stride of `step` elements between depth indices.
    b: &'b [T],
    step: usize,
    panel: usize,
}

impl<T: GemmElement> Product<'_, T> {
    /// Writes the product to `c`.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub(super) fn run(&self, mut c: MatMut<'_, T>) {
        let (m, n) = (c.rows(), c.cols());
        let k = self.check(m, n);
        if m == 0 || n == 0 {
            return;
        }
        if let (Left::View(a), Right::View(b), 1, 1, 2..) = (self.a, self.b, n, c.row_stride(), m) {
            // A column of C is a row of its transpose, which vectors fill better.
            let epilogue = self.epilogue.t();
            let product = Product { a: Left::View(b.t()), b: Right::View(a.t()), epilogue: &epilogue, ..*self };
            return product.run(c.into_row());
        }
        if k == 0 || self.alpha == T::zero() {
            scale_matrix(&mut c, self.beta);
            return self.epilogue.apply(0, 0, &mut c);
        }
        let product = Product { threads: if m * n * k < PARALLEL_WORK { 1 } else { self.threads }, ..*self };
        if let (Left::View(a), Right::View(b)) = (self.a, self.b)
            && few_rows::is_faster(self.kernel, a, b)
        {
            return few_rows::run(&product, a, b, c);
        }
        for col in (0..n).step_by(OUTER_COLS) {
            let cols = OUTER_COLS.min(n - col);
            match self.b {
                Right::View(b) if self.reads_in_place(b, m) => product.unpacked(b, col, c.block(0, col, m, cols)),
                _ => inner_blocks::<T>(k).for_each(|inner| product.packed(inner, col, c.block(0, col, m, cols))),
            }
        }
    }

    /// True if a B for `m` rows of C should be read in place.
    fn reads_in_place(&self, b: MatRef<'_, T>, m: usize) -> bool {
        b.col_stride() == 1 && (m <= self.kernel.mr() || b.rows() * b.row_stride() * size_of::<T>() <= IN_PLACE_BYTES)
    }

    /// Computes a block of columns of C, from `col` on, with B read in place.
    fn unpacked(&self, b: MatRef<'_, T>, col: usize, c: MatMut<'_, T>) {
        let (k, cols) = (b.rows(), c.cols());
        // A B that is read once had better be read in the order of memory, a B that a few rows use with some depth. An A
        // that is packed has its blocks.
        let depth = match self.a {
            Left::Packed(_) => inner_blocks::<T>(k).next().map_or(k, |block| block.len()),
            Left::View(_) if c.rows() <= self.kernel.mr() => (4 * c.rows()).max(16),
            Left::View(_) => k,
        };
        let (step, panel) = (b.row_stride(), self.kernel.nr());
        self.share(c, |row, at, mut c| {
            for start in (0..k).step_by(depth) {
                let inner = start..(start + depth).min(k);
                let (last, b) = (inner.end == k, b.block(start, col, inner.len(), cols).data());
                let (rows, cols) = (c.rows(), c.cols());
                self.task(&Block { col, inner, last, b, step, panel }, row, at, c.block(0, 0, rows, cols));
            }
        });
    }

    /// Computes a block of columns of C, from `col` on, for one depth block, with B packed.
    fn packed(&self, inner: Range<usize>, col: usize, c: MatMut<'_, T>) {
        let (cols, depth) = (c.cols(), inner.len());
        let last = inner.end == self.depth();
        let (step, panel) = (self.kernel.nr(), self.kernel.nr() * depth);
        match self.b {
            Right::Packed(b) => {
                let b = b.panels(inner.start, depth, col);
                self.blocks(&Block { col, inner, last, b, step, panel }, c);
            }
            Right::View(b) => par::with_scratch(self.kernel.packed_b_len(cols, depth), |packed: &mut [T]| {
                self.pack_b(b.block(inner.start, col, depth, cols), packed);
                self.blocks(&Block { col, inner, last, b: packed, step, panel }, c);
            }),
        }
    }

    fn depth(&self) -> usize {
        match self.a {
            Left::View(a) => a.cols(),
            Left::Packed(a) => a.cols(),
        }
    }

    /// Checks the shapes and returns the depth.
    fn check(&self, m: usize, n: usize) -> usize {
        let left = self.depth();
        let rows = match self.a {
            Left::View(a) => a.rows(),
            Left::Packed(a) => a.rows(),
        };
        let (right, cols) = match self.b {
            Right::View(b) => (b.rows(), b.cols()),
            Right::Packed(b) => (b.rows(), b.cols()),
        };
        assert!(
            rows == m && left == right && cols == n,
            "shapes do not fit: ({rows}, {left}) times ({right}, {cols}) into ({m}, {n})"
        );
        self.epilogue.check(m, n);
        left
    }

    fn pack_b(&self, b: MatRef<'_, T>, packed: &mut [T]) {
        let (kernel, nr) = (self.kernel, self.kernel.nr());
        if self.threads == 1 {
            return kernel.pack_b(b, packed);
        }
        let panels = b.cols().div_ceil(nr);
        let group = TASK_PANELS.max(panels.div_ceil(4 * self.threads));
        par::parallel_rows(packed, group * nr * b.rows(), 1, |i, out| {
            let col = i * group * nr;
            kernel.pack_b(b.block(0, col, b.rows(), (group * nr).min(b.cols() - col)), out);
        });
    }

    /// Calls `f(row, col, block)` for blocks of whole tiles of C, in parallel if there are several threads.
    fn share(&self, mut c: MatMut<'_, T>, f: impl Fn(usize, usize, MatMut<'_, T>) + Sync) {
        let (kernel, m, n, threads) = (self.kernel, c.rows(), c.cols(), self.threads);
        let (tiles_down, tiles_across) = (m.div_ceil(kernel.mr()), n.div_ceil(kernel.nr()));
        let task_tiles = (task_rows() / kernel.mr()).max(1);
        if threads == 1 {
            let rows = task_tiles * kernel.mr();
            return (0..m).step_by(rows).for_each(|row| f(row, 0, c.block(row, 0, rows.min(m - row), n)));
        }
        let block = |parts_down: usize, parts_across: usize| {
            let (rows, cols) =
                (tiles_down.div_ceil(parts_down) * kernel.mr(), tiles_across.div_ceil(parts_across) * kernel.nr());
            (rows.min(m), cols.min(n))
        };
        let parts_down = tiles_down.div_ceil(task_tiles);
        let even = parts_down.next_multiple_of(threads).min(tiles_down);
        let by_rows = block(even, threads.div_ceil(even).min(tiles_across));
        let by_cols = block(parts_down, threads.min(tiles_across));
        // Blocks of rows share the panels of B; blocks of columns are used where they divide C more evenly.
        let (rows, cols) = if by_cols.0 * by_cols.1 < by_rows.0 * by_rows.1 { by_cols } else { by_rows };
        par::parallel_blocks(c, rows, cols, f);
    }

    fn blocks(&self, block: &Block<'_, T>, c: MatMut<'_, T>) {
        self.share(c, |row, col, c| self.task(block, row, col, c));
    }

    /// Computes the part of a block that starts at (`row`, `col`).
    fn task(&self, block: &Block<'_, T>, row: usize, col: usize, mut c: MatMut<'_, T>) {
        if block.inner.start == 0 && self.beta != T::zero() {
            scale_matrix(&mut c, self.beta);
        }
        let (kernel, depth, rows) = (self.kernel, block.inner.len(), c.rows());
        let panels = |packed: &[T], i: usize, b: Panel<'_, T>, tile: MatMut<'_, T>, accumulate: bool| {
            let a = Panel { data: &packed[i * depth..], stride: kernel.mr(), ahead: &[] };
            kernel.tile(depth, self.alpha, a, b, tile, accumulate);
        };
        match self.a {
            Left::Packed(a) => {
                let a = a.panels(block.inner.start, depth, row);
                self.tiles(block, (row, col), c, |i, b, tile, accumulate| panels(a, i, b, tile, accumulate));
            }
            Left::View(a) => {
                let a = a.block(row, block.inner.start, rows, depth);
                if c.cols() <= in_place_panels(a) * kernel.nr() {
                    return self.tiles(block, (row, col), c, |i, b, tile, accumulate| {
                        kernel.strided_tile(self.alpha, a.block(i, 0, tile.rows(), depth), b, tile, accumulate);
                    });
                }
                par::with_scratch(kernel.packed_a_len(rows, depth), |packed: &mut [T]| {
                    kernel.pack_a(a, packed);
                    self.tiles(block, (row, col), c, |i, b, tile, accumulate| panels(packed, i, b, tile, accumulate));
                });
            }
        }
    }

    /// Calls `tile(i, b, c, accumulate)` for every tile `c` with first row `i` of the part of a block at (`row`, `col`), then
    /// applies the epilogue.
    fn tiles(
        &self,
        block: &Block<'_, T>,
        (row, col): (usize, usize),
        mut c: MatMut<'_, T>,
        tile: impl Fn(usize, Panel<'_, T>, MatMut<'_, T>, bool),
    ) {
        let (mr, nr, m, n) = (self.kernel.mr(), self.kernel.nr(), c.rows(), c.cols());
        let accumulate = block.inner.start > 0 || self.beta != T::zero();
        let finish = block.last && !self.epilogue.is_empty();
        for j in (0..n).step_by(nr) {
            let cols = nr.min(n - j);
            let at = (col + j) / nr * block.panel;
            for i in (0..m).step_by(mr) {
                // Each tile prefetches a part of the next panel.
                let next = at + block.panel + i / mr * block.inner.len() * self.kernel.lanes();
                let b = Panel { data: &block.b[at..], stride: block.step, ahead: block.b.get(next..).unwrap_or(&[]) };
                tile(i, b, c.block(i, j, mr.min(m - i), cols), accumulate);
            }
            if finish {
                self.epilogue.apply(row, block.col + col + j, &mut c.block(0, j, m, cols));
            }
        }
    }
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

/// C = `scale` C; zero if the scale is zero, whatever C holds.
pub(super) fn scale_matrix<T: GemmElement>(c: &mut MatMut<'_, T>, scale: T) {
    if scale == T::one() {
        return;
    }
    for row in 0..c.rows() {
        let values = c.row_mut(row);
        if scale == T::zero() {
            values.fill(T::zero());
        } else {
            values.iter_mut().for_each(|value| *value = *value * scale);
        }
    }
}
