//! The GEMM microkernel and the packing of its operands.
//!
//! A microkernel computes a tile of at most `mr` x `nr` elements of C in vector registers, from a panel of A (for each k index, up
//! to `mr` contiguous elements, one per row) and a panel of B (for each k index, up to `nr` contiguous elements, one per column).
//! See Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

use super::{Isa, microkernel_f32, microkernel_f64};
use crate::par::{List, MatMut, MatRef, Pod};
use std::sync::OnceLock;

/// Consecutive panels of A or B: the elements of panel `i` at k index `p` start at `data[i * panel_stride + p * stride]`.
///
/// A packed panel has a stride of `mr` or `nr`. A row-major B, or a column-major A, is a panel without packing: its stride is the
/// leading dimension of the matrix.
#[derive(Clone, Copy)]
pub struct Panels<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Rows of A or columns of B in a panel; the last one may have fewer.
    pub width: usize,
    /// The stride between k indices, in elements.
    pub stride: usize,
    /// The stride between panels, in elements.
    pub panel_stride: usize,
    /// Elements to prefetch while the panels are multiplied; may be empty. Each tile prefetches the next of them.
    pub ahead: &'a [T],
}

impl<'a, T> Panels<'a, T> {
    /// Packed panels of `width` rows or columns and `depth` k indices.
    pub fn packed(data: &'a [T], width: usize, depth: usize) -> Self {
        Panels { data, width, stride: width, panel_stride: width * depth, ahead: &[] }
    }

    /// A view of a matrix with contiguous rows of A or columns of B, `stride` elements between k indices, in panels of `width`.
    pub fn in_place(data: &'a [T], width: usize, stride: usize) -> Self {
        Panels { data, width, stride, panel_stride: width, ahead: &[] }
    }

    /// The same panels with elements to prefetch.
    pub fn with_ahead(self, ahead: &'a [T]) -> Self {
        Panels { ahead, ..self }
    }

    /// True if there are `lanes` (at least one) rows of A or columns of B at each of `depth` k indices.
    fn holds(&self, depth: usize, lanes: usize) -> bool {
        let last = (lanes - 1) / self.width;
        let panel_end = |panel: usize, lanes: usize| {
            let start = panel.checked_mul(self.panel_stride)?.checked_add((depth - 1).checked_mul(self.stride)?)?;
            start.checked_add(lanes)
        };
        let fits = |end: Option<usize>| end.is_some_and(|end| end <= self.data.len());
        depth == 0
            || (fits(panel_end(last, lanes - last * self.width))
                && (last == 0 || fits(panel_end(last - 1, self.width))))
    }

    /// The address from which tile number `tile` prefetches `len` elements. It is mapped memory even if there is nothing to prefetch,
    /// because an unmapped address would cost a page walk.
    #[inline]
    fn ahead_of(&self, tile: usize, len: usize) -> *const T {
        let rest = self.ahead.get(tile * len..).filter(|rest| !rest.is_empty());
        rest.unwrap_or(self.data).as_ptr()
    }
}

/// Offsets of the rows of a B that is read in place, such as the inputs under the taps of a convolution.
#[derive(Debug, Default)]
pub struct OffsetTable {
    offsets: List<u32>,
    /// The largest offset.
    max_offset: usize,
}

impl OffsetTable {
    /// A table of offsets in elements, relative to the start of [`IndexedPanel::data`].
    ///
    /// # Panics
    /// Panics if an offset exceeds 32 bits.
    pub fn new(offsets: impl IntoIterator<Item = usize>) -> OffsetTable {
        let narrow = |offset: usize| {
            assert!(u32::try_from(offset).is_ok(), "offset {offset} exceeds 32 bits");
            offset as u32
        };
        let offsets: List<u32> = offsets.into_iter().map(narrow).collect();
        let max_offset = offsets.iter().max().map_or(0, |offset| *offset as usize);
        OffsetTable { offsets, max_offset }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(super) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    pub(super) fn max_offset(&self) -> usize {
        self.max_offset
    }
}

/// A panel of B whose row `p` starts at `data[table[first + p]]`, read in place.
#[derive(Clone, Copy)]
pub struct IndexedPanel<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The offsets of all rows.
    pub table: &'a OffsetTable,
    /// Index of the first row of the panel.
    pub first: usize,
}

/// What a microkernel computes: C = `alpha` A B, or C += `alpha` A B.
#[derive(Clone, Copy, Debug)]
pub struct TileProduct<T> {
    /// The number of columns of A and of rows of B.
    pub depth: usize,
    /// The scale.
    pub alpha: T,
    /// Whether the product is added to C.
    pub accumulate: bool,
}

/// The arguments of a tile function, unchecked.
pub(super) struct TileArgs<T> {
    pub depth: usize,
    pub a: *const T,
    /// The row stride of A in elements; ignored by functions for packed panels, where it is 1.
    pub a_row: usize,
    /// The stride between k indices of A.
    pub a_stride: usize,
    pub b: *const T,
    /// The stride between k indices of B; ignored by functions for indexed panels.
    pub b_stride: usize,
    /// The offset of each row of B; used by functions for indexed panels only.
    pub b_offsets: *const u32,
    /// Elements to prefetch into the L2 cache, one vector per k index.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub ahead: *const T,
    pub c: *mut T,
    pub c_stride: usize,
    pub alpha: T,
    pub accumulate: bool,
    /// Number of columns in the last vector of a row.
    pub tail: usize,
}

impl<T> TileArgs<T> {
    /// The arguments of the first tile of C, for A with a row stride and a stride between k indices, and B with the latter. `tail` is
    /// not set, and there is nothing to prefetch.
    fn new(
        TileProduct { depth, alpha, accumulate }: TileProduct<T>,
        (a, a_row, a_stride): (*const T, usize, usize),
        (b, b_stride): (*const T, usize),
        c: &mut MatMut<'_, T>,
    ) -> Self {
        TileArgs {
            depth,
            a,
            a_row,
            a_stride,
            b,
            b_stride,
            b_offsets: std::ptr::null(),
            ahead: b,
            c: c.as_mut_ptr(),
            c_stride: c.row_stride(),
            alpha,
            accumulate,
            tail: 0,
        }
    }
}

/// Computes one tile. Reads only the elements of its panels and writes only those of its tile.
pub(super) type TileFn<T> = unsafe fn(&TileArgs<T>);

/// The arguments of a dot function, unchecked: rows of A and columns of B, each of `depth` contiguous elements.
pub(super) struct DotArgs<T> {
    pub depth: usize,
    pub a: *const T,
    /// The row stride of A.
    pub a_row: usize,
    pub b: *const T,
    /// The column stride of B.
    pub b_col: usize,
    /// Number of columns, one to four.
    pub cols: usize,
}

/// Computes the dot products of M rows with up to four columns: `out[row][col]`.
pub(super) type DotFn<T> = unsafe fn(&DotArgs<T>, &mut [[T; DOT]; DOT]);

/// Maximum number of rows and of columns of a dot function.
pub(super) const DOT: usize = 4;

/// Transposes: `out[p * width + lane] = src[lane * stride + p]` for `p < depth` and `lane < lanes`. May overwrite the remaining
/// elements of the `depth` rows of `width`.
pub(super) type TransposeFn<T> =
    unsafe fn(src: *const T, stride: usize, lanes: usize, depth: usize, out: *mut T, width: usize);

/// Copies: `out[p * width + lane] = src[p * stride + lane]` for `p < depth` and `lane < lanes`.
pub(super) type CopyFn<T> = TransposeFn<T>;

/// The microkernel functions for one element type and instruction set.
pub struct MicroKernel<T: 'static> {
    pub(super) isa: Isa,
    pub(super) mr: usize,
    pub(super) nr: usize,
    /// Elements of a vector.
    pub(super) lanes: usize,
    /// The function for `rows` rows and `vectors` vectors a row is at `(vectors - 1) * mr + rows - 1`.
    pub(super) tiles: &'static [TileFn<T>],
    /// Like `tiles`, for an A with any row stride.
    pub(super) strided_tiles: &'static [TileFn<T>],
    /// Like `tiles`, for an indexed panel of B.
    pub(super) indexed_tiles: &'static [TileFn<T>],
    /// The function for `rows` rows is at `rows - 1`.
    pub(super) dots: [DotFn<T>; DOT],
    pub(super) transpose: TransposeFn<T>,
    /// Like `transpose`, but writes only the elements of the lanes.
    pub(super) transpose_exact: TransposeFn<T>,
    pub(super) copy: CopyFn<T>,
}

/// An element type that matrix products compute in: `f32` or `f64`.
pub trait GemmElement: Pod + num_traits::Float {
    /// The microkernel for `isa`, or for the most capable instruction set below it that the processor has.
    fn microkernel_for(isa: Isa) -> &'static MicroKernel<Self>;

    /// The microkernel for [`Isa::current`].
    fn microkernel() -> &'static MicroKernel<Self>;
}

macro_rules! element {
    ($t:ty, $kernel_of:ident) => {
        impl GemmElement for $t {
            fn microkernel_for(isa: Isa) -> &'static MicroKernel<$t> {
                // Callers may ask for an instruction set that the processor lacks.
                $kernel_of(Isa::available().filter(|available| *available <= isa).last().unwrap_or(Isa::Portable))
            }

            fn microkernel() -> &'static MicroKernel<$t> {
                static CURRENT: OnceLock<&'static MicroKernel<$t>> = OnceLock::new();
                CURRENT.get_or_init(|| Self::microkernel_for(Isa::current()))
            }
        }
    };
}
element!(f32, microkernel_f32);
element!(f64, microkernel_f64);

impl<T: GemmElement> MicroKernel<T> {
    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Rows of a full tile.
    pub fn mr(&self) -> usize {
        self.mr
    }

    /// Columns of a full tile.
    pub fn nr(&self) -> usize {
        self.nr
    }

    /// C = `alpha` A B, or C += `alpha` A B if `accumulate`, tile by tile, for panels of at most `mr` rows and `nr` columns. Without
    /// `accumulate` the old contents of C are ignored.
    ///
    /// Each element is a single chain of multiply-adds over the depth, so its value does not depend on the tiles.
    ///
    /// # Panics
    /// Panics if C is empty, or the panels are too wide or have too few elements for C.
    pub fn tiles(&self, product: TileProduct<T>, a: Panels<'_, T>, b: Panels<'_, T>, mut c: MatMut<'_, T>) {
        let depth = product.depth;
        let (rows, cols) = (c.rows(), c.cols());
        assert!(rows > 0 && cols > 0, "a product of {rows} x {cols} elements");
        assert!((1..=self.mr).contains(&a.width), "panels of A have {} rows, tiles {}", a.width, self.mr);
        assert!((1..=self.nr).contains(&b.width), "panels of B have {} columns, tiles {}", b.width, self.nr);
        assert!(a.holds(depth, rows), "the panels of A are too short for {rows} rows and depth {depth}");
        assert!(b.holds(depth, cols), "the panels of B are too short for {cols} columns and depth {depth}");
        let mut args = TileArgs::new(product, (a.data.as_ptr(), 1, a.stride), (b.data.as_ptr(), b.stride), &mut c);
        let mut tile = 0;
        for (i, row) in (0..rows).step_by(a.width).enumerate() {
            for (j, col) in (0..cols).step_by(b.width).enumerate() {
                args.a = a.data.as_ptr().wrapping_add(i * a.panel_stride);
                args.b = b.data.as_ptr().wrapping_add(j * b.panel_stride);
                args.c = c.as_mut_ptr().wrapping_add(row * args.c_stride + col);
                args.ahead = b.ahead_of(tile, depth * self.lanes);
                tile += 1;
                // SAFETY: A and B hold what the function for packed panels reads, as asserted, and the tile lies within C.
                unsafe { self.run(self.tiles, &mut args, a.width.min(rows - row), b.width.min(cols - col)) }
            }
        }
    }

    /// Computes one tile like [`Self::tiles`], for an unpacked A of (rows, depth) elements with any strides and one panel of B.
    ///
    /// # Panics
    /// Panics if the tile is empty or larger than `mr` x `nr`, the row counts of A and C differ, or the panel of B is too short.
    pub fn strided_tile(&self, product: TileProduct<T>, a: MatRef<'_, T>, b: Panels<'_, T>, mut c: MatMut<'_, T>) {
        let (depth, rows, cols) = (product.depth, c.rows(), c.cols());
        assert!(
            (a.rows(), a.cols()) == (rows, depth),
            "A has {} x {} elements, not {rows} x {depth}",
            a.rows(),
            a.cols()
        );
        assert!((1..=self.mr).contains(&rows) && (1..=self.nr).contains(&cols), "a tile of {rows} x {cols} elements");
        assert!(
            cols <= b.width && b.holds(depth, cols),
            "the panel of B is too short for {cols} columns and depth {depth}"
        );
        let tiles = if a.row_stride() == 1 { self.tiles } else { self.strided_tiles };
        let mut args = TileArgs::new(
            product,
            (a.data().as_ptr(), a.row_stride(), a.col_stride()),
            (b.data.as_ptr(), b.stride),
            &mut c,
        );
        args.ahead = b.ahead_of(0, depth * self.lanes);
        // SAFETY: a view holds its elements, the functions for packed panels are used for a row stride of 1 only, and B holds what
        // the function reads, as asserted.
        unsafe { self.run(tiles, &mut args, rows, cols) }
    }

    /// Like [`Self::tiles`], for one panel of A and an indexed B of any number of columns.
    ///
    /// # Panics
    /// Panics if C is empty or has more than `mr` rows, the panel of A is too short, the table has fewer than `depth` rows from `first`
    /// on, or a row of B exceeds its data.
    pub fn indexed_tiles(
        &self,
        product: TileProduct<T>,
        a: Panels<'_, T>,
        b: IndexedPanel<'_, T>,
        mut c: MatMut<'_, T>,
    ) {
        let depth = product.depth;
        let (rows, cols) = (c.rows(), c.cols());
        assert!((1..=self.mr.min(a.width)).contains(&rows) && cols > 0, "a product of {rows} x {cols} elements");
        assert!(a.holds(depth, rows), "the panel of A is too short for {rows} rows and depth {depth}");
        let (offsets, max_offset) = (&b.table.offsets[b.first..], b.table.max_offset);
        assert!(depth <= offsets.len(), "depth {depth}, and a table of {} rows", offsets.len());
        assert!(max_offset + cols <= b.data.len(), "offset {max_offset} of {} elements of B", b.data.len());
        let mut args = TileArgs::new(product, (a.data.as_ptr(), 1, a.stride), (b.data.as_ptr(), 0), &mut c);
        args.b_offsets = offsets.as_ptr();
        for col in (0..cols).step_by(self.nr) {
            args.b = b.data.as_ptr().wrapping_add(col);
            args.c = c.as_mut_ptr().wrapping_add(col);
            // SAFETY: A holds what the function reads, the table has an offset for each row of B, B holds all columns at each
            // offset, as asserted, and the tile lies within C.
            unsafe { self.run(self.indexed_tiles, &mut args, rows, self.nr.min(cols - col)) }
        }
    }

    /// Computes a tile of `rows` x `cols` elements, at most `mr` x `nr`. Sets `args.tail`.
    ///
    /// # Safety
    /// The arguments must be those of a tile of C, which `tiles` may write; A must have `depth` columns and as many rows, with a row
    /// stride of 1 unless `tiles` are the strided ones; B must have `depth` rows and as many columns.
    #[inline]
    unsafe fn run(&self, tiles: &[TileFn<T>], args: &mut TileArgs<T>, rows: usize, cols: usize) {
        let vectors = cols.div_ceil(self.lanes);
        args.tail = cols - (vectors - 1) * self.lanes;
        // SAFETY: as the caller guarantees; a microkernel is reachable only if the processor has its instructions
        // (`microkernel_for`).
        unsafe { tiles[(vectors - 1) * self.mr + rows - 1](args) }
    }

    /// Dot products of up to four rows of a row-major A with up to four columns of a column-major B: `out[i][j]` is that of row `i`
    /// and column `j`; the remaining elements of `out` are unspecified.
    ///
    /// # Panics
    /// Panics if the shapes do not match, or rows of A or columns of B are not contiguous.
    pub fn dots(&self, a: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [[T; DOT]; DOT]) {
        let (rows, depth, cols) = (a.rows(), a.cols(), b.cols());
        assert!(
            depth == b.rows() && (1..=DOT).contains(&rows) && (1..=DOT).contains(&cols),
            "dot products of ({rows}, {depth}) and ({}, {cols}) elements",
            b.rows()
        );
        assert!(a.col_stride() == 1 && b.row_stride() == 1, "the terms of a dot product must be contiguous");
        let (a_row, b_col) = (a.row_stride(), b.col_stride());
        let args = DotArgs { depth, a: a.data().as_ptr(), a_row, b: b.data().as_ptr(), b_col, cols };
        // SAFETY: views hold their elements, and the microkernel is reachable only if the processor has its instructions.
        unsafe { self.dots[rows - 1](&args, out) }
    }

    /// Writes the transpose of `from` to `to`.
    ///
    /// # Panics
    /// Panics if the rows of `from` are not contiguous or the shapes do not match.
    pub fn transpose(&self, from: MatRef<'_, T>, to: &mut MatMut<'_, T>) {
        let (rows, cols) = (from.rows(), from.cols());
        assert!(from.col_stride() == 1, "rows of the matrix must be contiguous");
        assert_eq!((rows, cols), (to.cols(), to.rows()), "the result must have the transposed shape");
        // SAFETY: views hold their elements, the exact function writes no others, and the processor has the instructions
        // (`microkernel_for`).
        unsafe {
            (self.transpose_exact)(
                from.data().as_ptr(),
                from.row_stride(),
                rows,
                cols,
                to.as_mut_ptr(),
                to.row_stride(),
            )
        }
    }

    /// Elements of a vector.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Number of elements that [`Self::pack_a`] writes for `rows` rows and a depth of `depth`.
    pub fn packed_a_len(&self, rows: usize, depth: usize) -> usize {
        rows.next_multiple_of(self.mr) * depth
    }

    /// Number of elements that [`Self::pack_b`] writes for `cols` columns and a depth of `depth`.
    pub fn packed_b_len(&self, cols: usize, depth: usize) -> usize {
        cols.next_multiple_of(self.nr) * depth
    }

    /// Packs a (rows, depth) matrix into consecutive panels of `mr` rows, each (depth, mr). The padding rows of the last panel are
    /// unspecified.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`Self::packed_a_len`].
    pub fn pack_a(&self, a: MatRef<'_, T>, out: &mut [T]) {
        self.pack_lanes(a, self.mr, out);
    }

    /// Packs a (depth, cols) matrix into consecutive panels of `nr` columns, each (depth, nr). The padding columns of the last
    /// panel are unspecified.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`Self::packed_b_len`].
    pub fn pack_b(&self, b: MatRef<'_, T>, out: &mut [T]) {
        self.pack_lanes(b.t(), self.nr, out);
    }

    /// Packs a (lanes, depth) matrix into consecutive panels of `width` lanes, each (depth, width). The padding lanes of the last
    /// panel are unspecified.
    ///
    /// # Panics
    /// Panics if `out` is too short.
    pub fn pack_lanes(&self, m: MatRef<'_, T>, width: usize, out: &mut [T]) {
        let (lanes, depth) = (m.rows(), m.cols());
        let needed = lanes.next_multiple_of(width) * depth;
        assert!(out.len() >= needed, "packing needs {needed} elements, not {}", out.len());
        if depth == 0 {
            return;
        }
        if width == 1 && m.col_stride() == 1 {
            return (0..lanes).for_each(|lane| {
                out[lane * depth..][..depth].copy_from_slice(&m.block(lane, 0, 1, depth).data()[..depth]);
            });
        }
        if m.row_stride() == 1 {
            return self.copy_panels(m, width, &mut out[..needed]);
        }
        for (panel, out) in out[..needed].chunks_exact_mut(width * depth).enumerate() {
            let first = panel * width;
            let source = m.block(first, 0, width.min(lanes - first), depth);
            let (src, out) = (source.data(), out);
            if m.col_stride() == 1 {
                // SAFETY: `source` covers the elements to be read, `out` has `width` elements for each of `depth` rows, and the
                // processor has the instructions (`microkernel_for`).
                unsafe { (self.transpose)(src.as_ptr(), m.row_stride(), source.rows(), depth, out.as_mut_ptr(), width) }
            } else {
                for (p, row) in out.chunks_exact_mut(width).enumerate() {
                    for (lane, to) in row[..source.rows()].iter_mut().enumerate() {
                        *to = src[lane * m.row_stride() + p * m.col_stride()];
                    }
                }
            }
        }
    }

    /// Packs a matrix whose lanes are contiguous. Copies several panels together, a few k indices at a time, so that the processor
    /// prefetches several sequential streams.
    fn copy_panels(&self, m: MatRef<'_, T>, width: usize, out: &mut [T]) {
        const PANELS: usize = 16;
        const DEPTH: usize = 8;
        let (lanes, depth, stride) = (m.rows(), m.cols(), m.col_stride());
        let src = m.data().as_ptr();
        for (group, out) in out.chunks_mut(PANELS * width * depth).enumerate() {
            let group_start = group * PANELS * width;
            let group_lanes = (PANELS * width).min(lanes - group_start);
            assert!(out.len() >= group_lanes.next_multiple_of(width) * depth);
            let out = out.as_mut_ptr();
            for p in (0..depth).step_by(DEPTH) {
                for lane in (0..group_lanes).step_by(width) {
                    // SAFETY: the view holds lane `group_start + lane` and up to `width` more at up to DEPTH k indices starting at `p`,
                    // `out` has `width` elements for each k index of each panel, as asserted, and the processor has the
                    // instructions (`microkernel_for`).
                    unsafe {
                        let (src, to) = (src.add(p * stride + group_start + lane), out.add(lane * depth + p * width));
                        (self.copy)(src, stride, width.min(group_lanes - lane), DEPTH.min(depth - p), to, width);
                    }
                }
            }
        }
    }
}
