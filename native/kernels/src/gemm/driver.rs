//! The loops around the microkernel.
//!
//! B is packed a block of `INNER_BYTES` x `OUTER_COLS` at a time by all threads together; then blocks of rows of C are
//! shared out, and each packs its own part of A. A block of A stays in the second-level cache while the panels of B
//! stream past it.

use super::epilogue::Epilogue;
use super::packed::{PackedA, PackedB};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::{Element, MicroKernel, Panel};
use std::ops::Range;

/// The most bytes that a row of A takes in one inner block.
const INNER_BYTES: usize = 2048;
/// The most rows of C in a task: twelve tiles of the widest microkernel.
const TASK_ROWS: usize = 168;
/// The most columns of B that are packed at a time.
const OUTER_COLS: usize = 2048;
/// Products of fewer multiply-adds than this run on the calling thread.
const PARALLEL_WORK: usize = 1 << 20;
/// Panels of B that a task packs at least.
const TASK_PANELS: usize = 4;

/// The blocks that the inner dimension is divided into: as few as possible, of equal length up to rounding. They depend
/// on nothing else, which keeps results independent of the number of threads.
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

/// A matrix product to be computed.
pub(super) struct Product<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub alpha: T,
    pub a: Left<'a, T>,
    pub b: Right<'a, T>,
    pub beta: T,
    pub epilogue: &'a Epilogue<'a, T>,
}

/// A block of columns of C and of the inner dimension.
struct Block<'b, T> {
    /// The first column.
    col: usize,
    /// The inner dimension.
    inner: Range<usize>,
    /// Whether this is the last inner block.
    last: bool,
    /// The panels of B.
    b: &'b [T],
}

impl<T: Element> Product<'_, T> {
    /// Writes the product to `c`.
    ///
    /// # Panics
    /// When the shapes do not fit.
    pub(super) fn run(&self, mut c: MatMut<'_, T>) {
        let (m, n) = (c.rows(), c.cols());
        let k = self.check(m, n);
        if m == 0 || n == 0 {
            return;
        }
        if k == 0 || self.alpha == T::zero() {
            scale(&mut c, self.beta);
            return self.epilogue.apply(0, 0, c);
        }
        let threads = if m * n * k < PARALLEL_WORK { 1 } else { par::num_threads() };
        for col in (0..n).step_by(OUTER_COLS) {
            let cols = OUTER_COLS.min(n - col);
            for inner in inner_blocks::<T>(k) {
                let last = inner.end == k;
                let c = c.block(0, col, m, cols);
                match self.b {
                    Right::Packed(b) => {
                        let b = b.panels(inner.start, inner.len(), col);
                        self.rows(threads, &Block { col, inner, last, b }, c);
                    }
                    Right::View(b) => {
                        par::with_scratch(self.kernel.packed_b_len(cols, inner.len()), |packed: &mut [T]| {
                            self.pack_b(threads, b.block(inner.start, col, inner.len(), cols), packed);
                            self.rows(threads, &Block { col, inner, last, b: packed }, c);
                        });
                    }
                }
            }
        }
    }

    /// The inner dimension.
    fn check(&self, m: usize, n: usize) -> usize {
        let (rows, left) = match self.a {
            Left::View(a) => (a.rows(), a.cols()),
            Left::Packed(a) => (a.rows(), a.cols()),
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

    fn pack_b(&self, threads: usize, b: MatRef<'_, T>, packed: &mut [T]) {
        let (kernel, nr) = (self.kernel, self.kernel.nr());
        if threads == 1 {
            return kernel.pack_b(b, packed);
        }
        let panels = b.cols().div_ceil(nr);
        let group = TASK_PANELS.max(panels.div_ceil(4 * threads));
        par::parallel_rows(packed, group * nr * b.rows(), 1, |i, out| {
            let col = i * group * nr;
            kernel.pack_b(b.block(0, col, b.rows(), (group * nr).min(b.cols() - col)), out);
        });
    }

    /// One block of columns of C, and one inner block, for all rows.
    fn rows(&self, threads: usize, block: &Block<'_, T>, mut c: MatMut<'_, T>) {
        let (kernel, m, n) = (self.kernel, c.rows(), c.cols());
        let (tiles_down, tiles_across) = (m.div_ceil(kernel.mr()), n.div_ceil(kernel.nr()));
        let task_tiles = (TASK_ROWS / kernel.mr()).max(1);
        if threads == 1 {
            let rows = task_tiles * kernel.mr();
            for row in (0..m).step_by(rows) {
                self.task(block, row, 0, c.block(row, 0, rows.min(m - row), n));
            }
            return;
        }
        let down = tiles_down.div_ceil(task_tiles).next_multiple_of(threads).min(tiles_down);
        let across = threads.div_ceil(down).min(tiles_across);
        let (rows, cols) = (tiles_down.div_ceil(down) * kernel.mr(), tiles_across.div_ceil(across) * kernel.nr());
        par::parallel_blocks(c, rows, cols, |row, col, c| self.task(block, row, col, c));
    }

    /// The part of a block whose place in it is (`row`, `col`).
    fn task(&self, block: &Block<'_, T>, row: usize, col: usize, mut c: MatMut<'_, T>) {
        if block.inner.start == 0 && self.beta != T::zero() {
            scale(&mut c, self.beta);
        }
        let depth = block.inner.len();
        match self.a {
            Left::Packed(a) => self.tiles(block, row, col, a.panels(block.inner.start, depth, row), c),
            Left::View(a) => {
                let a = a.block(row, block.inner.start, c.rows(), depth);
                par::with_scratch(self.kernel.packed_a_len(c.rows(), depth), |packed: &mut [T]| {
                    self.kernel.pack_a(a, packed);
                    self.tiles(block, row, col, packed, c);
                });
            }
        }
    }

    fn tiles(&self, block: &Block<'_, T>, row: usize, col: usize, a: &[T], mut c: MatMut<'_, T>) {
        let (kernel, m, n, depth) = (self.kernel, c.rows(), c.cols(), block.inner.len());
        let accumulate = block.inner.start > 0 || self.beta != T::zero();
        let finish = block.last && !self.epilogue.is_empty();
        for j in (0..n).step_by(kernel.nr()) {
            let cols = kernel.nr().min(n - j);
            let b = Panel { data: &block.b[(col + j) * depth..], step: kernel.nr() };
            for i in (0..m).step_by(kernel.mr()) {
                let a = Panel { data: &a[i * depth..], step: kernel.mr() };
                kernel.tile(depth, self.alpha, a, b, c.block(i, j, kernel.mr().min(m - i), cols), accumulate);
            }
            if finish {
                self.epilogue.apply(row, block.col + col + j, c.block(0, j, m, cols));
            }
        }
    }
}

/// C = `factor` C; zero whatever C holds if the factor is zero.
fn scale<T: Element>(c: &mut MatMut<'_, T>, factor: T) {
    if factor == T::one() {
        return;
    }
    for row in 0..c.rows() {
        let values = c.row_mut(row);
        if factor == T::zero() {
            values.fill(T::zero());
        } else {
            values.iter_mut().for_each(|value| *value = *value * factor);
        }
    }
}
