//! The innermost part of a matrix product, and the packing of its operands.
//!
//! A microkernel computes a tile of at most `mr` x `nr` elements of C in vector registers, from a panel of A (for each depth
//! index, the elements of up to `mr` rows side by side) and a panel of B (for each depth index, the elements of up to `nr`
//! columns side by side). See Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

use super::{Isa, microkernel_f32, microkernel_f64};
use crate::par::{List, MatMut, MatRef, Pod};
use std::sync::OnceLock;

/// A panel of A or B: the elements at depth index `p` start at `data[p * stride]`.
///
/// A packed panel has a stride of `mr` or `nr`. With the row stride of the matrix, a row-major B, or an A that is stored
/// transposed, is a panel without packing.
#[derive(Clone, Copy)]
pub struct Panel<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The distance between depth indices, in elements.
    pub stride: usize,
    /// Elements to prefetch; may be empty.
    pub ahead: &'a [T],
}

/// Offsets of the rows of a B that is not packed, such as the inputs under the taps of a convolution.
#[derive(Debug, Default)]
pub struct OffsetTable {
    offsets: List<u32>,
    /// The largest offset.
    reach: usize,
}

impl OffsetTable {
    /// Makes a table of offsets in elements, relative to a start given at each use.
    ///
    /// # Panics
    /// When an offset exceeds 32 bits.
    pub fn new(offsets: impl IntoIterator<Item = usize>) -> OffsetTable {
        let narrow = |offset: usize| {
            assert!(u32::try_from(offset).is_ok(), "offset {offset} exceeds 32 bits");
            offset as u32
        };
        let offsets: List<u32> = offsets.into_iter().map(narrow).collect();
        let reach = offsets.iter().max().map_or(0, |reach| *reach as usize);
        OffsetTable { offsets, reach }
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

    pub(super) fn reach(&self) -> usize {
        self.reach
    }
}

/// A panel of B whose row `p` starts at `data[table[first + p]]`.
#[derive(Clone, Copy)]
pub struct IndexedPanel<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The offsets of all rows.
    pub table: &'a OffsetTable,
    /// Index of the first row of the panel.
    pub first: usize,
}

/// The arguments of a tile function, unchecked.
pub(super) struct TileArgs<T> {
    pub depth: usize,
    pub a: *const T,
    /// The distance between rows of A, in elements; ignored by functions for packed panels, where it is one.
    pub a_row: usize,
    pub a_stride: usize,
    pub b: *const T,
    pub b_stride: usize,
    /// The offset of each row of B; used by the functions for indexed panels only.
    pub b_offsets: *const u32,
    /// Elements to prefetch into the second-level cache, one vector per depth index.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub ahead: *const T,
    pub c: *mut T,
    pub c_stride: usize,
    pub alpha: T,
    pub accumulate: bool,
    /// Number of columns in the last vector of a row.
    pub tail: usize,
}

/// How a tile function addresses B, unchecked.
struct PanelAddress<T> {
    data: *const T,
    stride: usize,
    offsets: *const u32,
    ahead: *const T,
}

impl<T> From<Panel<'_, T>> for PanelAddress<T> {
    fn from(b: Panel<'_, T>) -> Self {
        // Prefetching from an unmapped address would cost a page walk.
        let ahead = if b.ahead.is_empty() { b.data } else { b.ahead };
        PanelAddress { data: b.data.as_ptr(), stride: b.stride, offsets: std::ptr::null(), ahead: ahead.as_ptr() }
    }
}

/// Computes one tile. Reads only the elements of its panels and writes only those of its tile.
pub(super) type TileFn<T> = unsafe fn(&TileArgs<T>);

/// The arguments of a dot function, unchecked: rows of A and columns of B, each of `depth` adjacent elements.
pub(super) struct DotArgs<T> {
    pub depth: usize,
    pub a: *const T,
    pub a_row: usize,
    pub b: *const T,
    pub b_col: usize,
    /// Number of columns, one to four.
    pub cols: usize,
}

/// Computes the dot products of M rows with up to four columns; row by row, four results a row.
pub(super) type DotFn<T> = unsafe fn(&DotArgs<T>, &mut [[T; DOT]; DOT]);

/// Maximum number of rows and of columns of a dot function.
pub(super) const DOT: usize = 4;

/// Writes `out[p * width + lane] = src[lane * stride + p]` for `lanes` x `depth` elements. May overwrite the other elements of
/// the `depth` rows of `width`.
pub(super) type TransposeFn<T> =
    unsafe fn(src: *const T, stride: usize, lanes: usize, depth: usize, out: *mut T, width: usize);

/// Writes `out[p * width + lane] = src[p * stride + lane]` for `lanes` x `depth` elements.
pub(super) type CopyFn<T> = TransposeFn<T>;

/// The functions for one element type and instruction set.
pub struct MicroKernel<T: 'static> {
    pub(super) isa: Isa,
    pub(super) mr: usize,
    pub(super) nr: usize,
    /// Elements of a vector.
    pub(super) lanes: usize,
    /// The function for `rows` rows and `vectors` vectors a row is at `(vectors - 1) * mr + rows - 1`.
    pub(super) tiles: &'static [TileFn<T>],
    /// Like `tiles`, for an A whose rows are any distance apart.
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
    /// The microkernel for an instruction set, or for the best one below it that the processor has.
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

    /// C = `alpha` A B, or C += `alpha` A B if `accumulate`, for a tile C of 1 to `mr` rows and 1 to `nr` columns and a depth of
    /// `depth`. Without `accumulate` the old contents of C are ignored.
    ///
    /// Each element is a single chain of multiply-adds over the depth, so its value does not depend on the tile.
    ///
    /// # Panics
    /// When the tile is empty or larger than `mr` x `nr`, or a panel is too short.
    pub fn tile(&self, depth: usize, alpha: T, a: Panel<'_, T>, b: Panel<'_, T>, c: MatMut<'_, T>, accumulate: bool) {
        assert!(holds(a, depth, c.rows()), "the panel of A is too short for {} rows and depth {depth}", c.rows());
        assert!(holds(b, depth, c.cols()), "the panel of B is too short for {} columns and depth {depth}", c.cols());
        // SAFETY: A and B hold what the function for packed panels reads, as asserted.
        unsafe { self.run(self.tiles, (depth, alpha, accumulate), (a.data.as_ptr(), 1, a.stride), b.into(), c) }
    }

    /// Like [`Self::tile`], for an unpacked A of (rows, depth) elements with any strides.
    ///
    /// # Panics
    /// When the tile is empty or larger than `mr` x `nr`, A has another number of rows, or the panel of B is too short.
    pub fn strided_tile(&self, alpha: T, a: MatRef<'_, T>, b: Panel<'_, T>, c: MatMut<'_, T>, accumulate: bool) {
        let depth = a.cols();
        assert!(a.rows() == c.rows(), "A has {} rows, the tile {}", a.rows(), c.rows());
        assert!(holds(b, depth, c.cols()), "the panel of B is too short for {} columns and depth {depth}", c.cols());
        let tiles = if a.row_stride() == 1 { self.tiles } else { self.strided_tiles };
        let source = (a.data().as_ptr(), a.row_stride(), a.col_stride());
        // SAFETY: a view holds its elements, the functions for packed panels are used with adjacent rows only, and B holds what
        // the function reads, as asserted.
        unsafe { self.run(tiles, (depth, alpha, accumulate), source, b.into(), c) }
    }

    /// Like [`Self::tile`], for an indexed panel of B.
    ///
    /// # Panics
    /// When the tile is empty or larger than `mr` x `nr`, the panel of A is too short, the table has fewer than `depth` rows from
    /// `first` on, or a row of B exceeds its data.
    pub fn indexed_tile(
        &self,
        depth: usize,
        alpha: T,
        a: Panel<'_, T>,
        b: IndexedPanel<'_, T>,
        c: MatMut<'_, T>,
        accumulate: bool,
    ) {
        assert!(holds(a, depth, c.rows()), "the panel of A is too short for {} rows and depth {depth}", c.rows());
        let (offsets, reach) = (&b.table.offsets[b.first..], b.table.reach);
        assert!(depth <= offsets.len(), "depth {depth}, and a table of {} rows", offsets.len());
        assert!(reach + c.cols() <= b.data.len(), "offset {reach} of {} elements of B", b.data.len());
        let b = PanelAddress { data: b.data.as_ptr(), stride: 0, offsets: offsets.as_ptr(), ahead: b.data.as_ptr() };
        // SAFETY: A holds what the function reads, the table has an offset for each row, and B the columns from there on.
        unsafe { self.run(self.indexed_tiles, (depth, alpha, accumulate), (a.data.as_ptr(), 1, a.stride), b, c) }
    }

    /// # Safety
    /// `a` gives the first element of A and the distances between rows and between depth indices. A must have `depth` columns and
    /// the rows of C, adjacent ones unless `tiles` are those for strided rows; B must have `depth` rows with the columns of C.
    #[inline]
    unsafe fn run(
        &self,
        tiles: &[TileFn<T>],
        (depth, alpha, accumulate): (usize, T, bool),
        (a, a_row, a_stride): (*const T, usize, usize),
        b: PanelAddress<T>,
        mut c: MatMut<'_, T>,
    ) {
        let (rows, cols) = (c.rows(), c.cols());
        assert!((1..=self.mr).contains(&rows) && (1..=self.nr).contains(&cols), "a tile of {rows} x {cols} elements");
        let vectors = cols.div_ceil(self.lanes);
        let args = TileArgs {
            depth,
            a,
            a_row,
            a_stride,
            b: b.data,
            b_stride: b.stride,
            b_offsets: b.offsets,
            ahead: b.ahead,
            c: c.as_mut_ptr(),
            c_stride: c.row_stride(),
            alpha,
            accumulate,
            tail: cols - (vectors - 1) * self.lanes,
        };
        // SAFETY: A and B are as the caller guarantees; `c` holds exclusive references to the tile; a microkernel is reachable
        // only if the processor has its instructions (`microkernel_for`).
        unsafe { tiles[(vectors - 1) * self.mr + rows - 1](&args) }
    }

    /// The dot products of up to four rows of A with up to four columns of B; `out[i][j]` is that of row i and column j,
    /// other elements of `out` are unspecified. The elements of a row of A, and those of a column of B, must be adjacent.
    ///
    /// # Panics
    /// When the shapes do not match or elements are not adjacent.
    pub fn dots(&self, a: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [[T; DOT]; DOT]) {
        let (rows, depth, cols) = (a.rows(), a.cols(), b.cols());
        assert!(
            depth == b.rows() && (1..=DOT).contains(&rows) && (1..=DOT).contains(&cols),
            "dot products of ({rows}, {depth}) and ({}, {cols}) elements",
            b.rows()
        );
        assert!(a.col_stride() == 1 && b.row_stride() == 1, "the terms of a dot product must be adjacent");
        let (a_row, b_col) = (a.row_stride(), b.col_stride());
        let args = DotArgs { depth, a: a.data().as_ptr(), a_row, b: b.data().as_ptr(), b_col, cols };
        // SAFETY: views hold their elements, and the microkernel is reachable only if the processor has its instructions.
        unsafe { self.dots[rows - 1](&args, out) }
    }

    /// Writes the transposed elements of a matrix.
    ///
    /// # Panics
    /// When the rows of `from` are not contiguous or the shapes do not match.
    pub fn transpose(&self, from: MatRef<'_, T>, to: &mut MatMut<'_, T>) {
        let (rows, cols) = (from.rows(), from.cols());
        assert!(from.col_stride() == 1, "rows of the matrix must be adjacent elements");
        assert_eq!((rows, cols), (to.cols(), to.rows()), "the result must have the exchanged shape");
        // SAFETY: views hold their elements, the function writes no others of `to`, and the processor has the instructions
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

    /// The elements that `pack_a` writes for `rows` rows and a depth of `depth`.
    pub fn packed_a_len(&self, rows: usize, depth: usize) -> usize {
        rows.next_multiple_of(self.mr) * depth
    }

    /// The elements that `pack_b` writes for `cols` columns and a depth of `depth`.
    pub fn packed_b_len(&self, cols: usize, depth: usize) -> usize {
        cols.next_multiple_of(self.nr) * depth
    }

    /// Packs a (rows, depth) matrix into panels of `mr` rows, one after the other, each laid out `[depth][mr]`. The elements of
    /// missing rows of the last panel are unspecified.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::packed_a_len`].
    pub fn pack_a(&self, a: MatRef<'_, T>, out: &mut [T]) {
        self.pack_lanes(a, self.mr, out);
    }

    /// Packs a (depth, cols) matrix into panels of `nr` columns, one after the other, each laid out `[depth][nr]`. The elements
    /// of missing columns of the last panel are unspecified.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::packed_b_len`].
    pub fn pack_b(&self, b: MatRef<'_, T>, out: &mut [T]) {
        self.pack_lanes(b.t(), self.nr, out);
    }

    /// Packs a (lanes, depth) matrix into panels of `width` lanes, one after the other, each laid out `[depth][width]`. The
    /// elements of missing lanes of the last panel are unspecified.
    ///
    /// # Panics
    /// When `out` is too short.
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
        for (panel, out) in out[..needed].chunks_exact_mut(width * depth).enumerate() {
            let first = panel * width;
            let part = m.block(first, 0, width.min(lanes - first), depth);
            let (src, out) = (part.data(), out);
            if m.col_stride() == 1 {
                // SAFETY: `part` covers the elements to be read, `out` has `width` elements for each of `depth` rows, and the
                // processor has the instructions (`microkernel_for`).
                unsafe { (self.transpose)(src.as_ptr(), m.row_stride(), part.rows(), depth, out.as_mut_ptr(), width) }
            } else if m.row_stride() == 1 {
                // SAFETY: as above.
                unsafe { (self.copy)(src.as_ptr(), m.col_stride(), part.rows(), depth, out.as_mut_ptr(), width) }
            } else {
                for (p, row) in out.chunks_exact_mut(width).enumerate() {
                    for (lane, to) in row[..part.rows()].iter_mut().enumerate() {
                        *to = src[lane * m.row_stride() + p * m.col_stride()];
                    }
                }
            }
        }
    }
}

/// True if the panel has `lanes` elements at each of `depth` depth indices.
fn holds<T>(panel: Panel<'_, T>, depth: usize, lanes: usize) -> bool {
    depth == 0
        || (depth - 1)
            .checked_mul(panel.stride)
            .and_then(|last| last.checked_add(lanes))
            .is_some_and(|end| end <= panel.data.len())
}
