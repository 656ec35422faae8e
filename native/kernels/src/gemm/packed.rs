//! Operands packed once and used many times.

use crate::par::{AlignedVec, MatRef};
use crate::simd::microkernel::{GemmElement, MicroKernel};
use std::ops::Range;

/// Maximum bytes of a row of A in a depth block (KC).
pub(super) const DEPTH_BLOCK_BYTES: usize = 2048;

/// Splits the depth of a product into blocks. They depend on the depth alone, so that results do not depend on the number of threads.
pub(crate) fn depth_blocks<T>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    even_blocks::<T>(depth, DEPTH_BLOCK_BYTES)
}

/// Splits the depth into the fewest possible blocks of nearly equal length, in which a row has at most `bytes`.
pub(crate) fn even_blocks<T>(depth: usize, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let count = depth.div_ceil(bytes / size_of::<T>()).max(1);
    let len = depth.div_ceil(count).max(1);
    (0..depth).step_by(len).map(move |start| start..(start + len).min(depth))
}

/// A right operand (K, N), packed in the order in which the microkernel reads it: per depth block, panels of `nr` columns.
pub struct PackedB<T: 'static> {
    kernel: &'static MicroKernel<T>,
    data: AlignedVec<T>,
    rows: usize,
    cols: usize,
}

impl<T: GemmElement> PackedB<T> {
    /// Packs `b`.
    pub fn new(b: MatRef<'_, T>) -> Self {
        Self::with(T::microkernel(), b)
    }

    pub(super) fn with(kernel: &'static MicroKernel<T>, b: MatRef<'_, T>) -> Self {
        let (rows, cols) = (b.rows(), b.cols());
        let data = AlignedVec::zeroed(kernel.packed_b_len(cols, rows));
        let mut packed = PackedB { kernel, data, rows, cols };
        packed.pack(b);
        packed
    }

    /// Packs another operand of the same shape into the same memory.
    ///
    /// # Panics
    /// Panics if the shape differs.
    pub fn pack(&mut self, b: MatRef<'_, T>) {
        let PackedB { kernel, ref mut data, rows, cols } = *self;
        assert_eq!((b.rows(), b.cols()), (rows, cols), "the shape of the operand that was packed");
        for block in depth_blocks::<T>(rows) {
            let (start, end) = (kernel.packed_b_len(cols, block.start), kernel.packed_b_len(cols, block.end));
            kernel.pack_b(b.block(block.start, 0, block.len(), cols), &mut data[start..end]);
        }
    }

    /// The depth K.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns N.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn kernel(&self) -> &'static MicroKernel<T> {
        self.kernel
    }

    /// The panels of the depth block of `depth` k indices starting at `p`, starting with the one at column `col`, a multiple of `nr`.
    pub(super) fn panels(&self, p: usize, depth: usize, col: usize) -> &[T] {
        let start = self.kernel.packed_b_len(self.cols, p);
        &self.data[start + col * depth..self.kernel.packed_b_len(self.cols, p + depth)]
    }
}

/// A left operand (M, K), packed in the order in which the microkernel reads it: per depth block, panels of `mr` rows.
pub struct PackedA<T: 'static> {
    kernel: &'static MicroKernel<T>,
    data: AlignedVec<T>,
    rows: usize,
    cols: usize,
}

impl<T: GemmElement> PackedA<T> {
    /// Packs `a`.
    pub fn new(a: MatRef<'_, T>) -> Self {
        Self::with(T::microkernel(), a)
    }

    pub(super) fn with(kernel: &'static MicroKernel<T>, a: MatRef<'_, T>) -> Self {
        let (rows, cols) = (a.rows(), a.cols());
        let mut data = AlignedVec::zeroed(kernel.packed_a_len(rows, cols));
        for block in depth_blocks::<T>(cols) {
            let (start, end) = (kernel.packed_a_len(rows, block.start), kernel.packed_a_len(rows, block.end));
            kernel.pack_a(a.block(0, block.start, rows, block.len()), &mut data[start..end]);
        }
        PackedA { kernel, data, rows, cols }
    }

    /// The number of rows M.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The depth K.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn kernel(&self) -> &'static MicroKernel<T> {
        self.kernel
    }

    /// The panels of the depth block of `depth` k indices starting at `p`, starting with the one at row `row`, a multiple of `mr`.
    pub(super) fn panels(&self, p: usize, depth: usize, row: usize) -> &[T] {
        let start = self.kernel.packed_a_len(self.rows, p);
        &self.data[start + row * depth..self.kernel.packed_a_len(self.rows, p + depth)]
    }
}
