//! The innermost part of a matrix product, and the packing that feeds it.
//!
//! A microkernel computes a tile of at most `mr` x `nr` elements of C in vector registers, from a panel of A (per step
//! of the inner dimension, the elements of up to `mr` rows side by side) and a panel of B (per step, the elements of up
//! to `nr` columns side by side). See Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

use super::{Isa, portable};
use crate::par::{MatMut, MatRef, Plain};
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// A panel of A or B: the elements of step `p` start at `data[p * step]`.
///
/// A packed panel has a step of `mr` or `nr`; a step may as well be the row stride of a row-major B, or of an A that is
/// stored transposed, which then need no packing.
#[derive(Clone, Copy)]
pub struct Panel<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The distance between steps of the inner dimension, in elements.
    pub step: usize,
}

/// The arguments of a tile function, unchecked.
pub(super) struct TileArgs<T> {
    pub depth: usize,
    pub a: *const T,
    pub a_step: usize,
    pub b: *const T,
    pub b_step: usize,
    pub c: *mut T,
    pub c_stride: usize,
    pub alpha: T,
    pub accumulate: bool,
    /// Columns in the last vector of a row.
    pub tail: usize,
}

/// Computes one tile. A tile function reads the elements of its panels and touches the elements of its tile, no others.
pub(super) type TileFn<T> = unsafe fn(&TileArgs<T>);

/// Writes `out[p * width + lane] = src[lane * stride + p]` for `lanes` x `depth` elements.
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
    pub(super) transpose: TransposeFn<T>,
    pub(super) copy: CopyFn<T>,
}

/// An element type that matrix products are computed in: `f32` and `f64`.
pub trait Element: Plain + num_traits::Float {
    /// The microkernel for an instruction set, or for the best one below it that the processor has.
    fn microkernel_for(isa: Isa) -> &'static MicroKernel<Self>;

    /// The microkernel for [`Isa::current`].
    fn microkernel() -> &'static MicroKernel<Self>;
}

macro_rules! element {
    ($t:ty, $portable:ident, $avx2:ident, $avx512:ident) => {
        impl Element for $t {
            fn microkernel_for(isa: Isa) -> &'static MicroKernel<$t> {
                // A level must not be used where it is not available, whoever asks.
                match isa.min(Isa::available().last().unwrap_or(Isa::Portable)) {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => &avx512::$avx512,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => &avx2::$avx2,
                    _ => &portable::$portable,
                }
            }

            fn microkernel() -> &'static MicroKernel<$t> {
                static CURRENT: OnceLock<&'static MicroKernel<$t>> = OnceLock::new();
                CURRENT.get_or_init(|| Self::microkernel_for(Isa::current()))
            }
        }
    };
}
element!(f32, F32, F32, F32);
element!(f64, F64, F64, F64);

impl<T: Element> MicroKernel<T> {
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

    /// C = `alpha` A B, or C += `alpha` A B if `accumulate`, for a tile C of 1 to `mr` rows and 1 to `nr` columns and
    /// an inner dimension of `depth`. Without `accumulate` the old contents of C do not matter.
    ///
    /// Each element is one chain of multiply-adds over the depth, so its value does not depend on the tile that it is in.
    ///
    /// # Panics
    /// When the tile is empty or larger than `mr` x `nr`, or a panel is too short.
    pub fn tile(
        &self,
        depth: usize,
        alpha: T,
        a: Panel<'_, T>,
        b: Panel<'_, T>,
        mut c: MatMut<'_, T>,
        accumulate: bool,
    ) {
        let (rows, cols) = (c.rows(), c.cols());
        assert!((1..=self.mr).contains(&rows) && (1..=self.nr).contains(&cols), "a tile of {rows} x {cols} elements");
        assert!(holds(a, depth, rows), "the panel of A is too short for {rows} rows and depth {depth}");
        assert!(holds(b, depth, cols), "the panel of B is too short for {cols} columns and depth {depth}");
        let vectors = cols.div_ceil(self.lanes);
        let args = TileArgs {
            depth,
            a: a.data.as_ptr(),
            a_step: a.step,
            b: b.data.as_ptr(),
            b_step: b.step,
            c: c.as_mut_ptr(),
            c_stride: c.row_stride(),
            alpha,
            accumulate,
            tail: cols - (vectors - 1) * self.lanes,
        };
        // SAFETY: the panels hold what the function reads, as asserted; `c` stands for exclusive references to the tile;
        // a microkernel is reachable only if the processor has its instructions (`microkernel_for`).
        unsafe { self.tiles[(vectors - 1) * self.mr + rows - 1](&args) }
    }

    /// The elements that `pack_a` writes for `rows` rows and an inner dimension of `depth`.
    pub fn packed_a_len(&self, rows: usize, depth: usize) -> usize {
        rows.next_multiple_of(self.mr) * depth
    }

    /// The elements that `pack_b` writes for `cols` columns and an inner dimension of `depth`.
    pub fn packed_b_len(&self, cols: usize, depth: usize) -> usize {
        cols.next_multiple_of(self.nr) * depth
    }

    /// Packs a (rows, depth) matrix into panels of `mr` rows, one after the other, each laid out [depth][mr]. Of the last
    /// panel, the places of rows that do not exist keep their contents.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::packed_a_len`].
    pub fn pack_a(&self, a: MatRef<'_, T>, out: &mut [T]) {
        self.pack(a, self.mr, out);
    }

    /// Packs a (depth, cols) matrix into panels of `nr` columns, one after the other, each laid out [depth][nr]. Of the
    /// last panel, the places of columns that do not exist keep their contents.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::packed_b_len`].
    pub fn pack_b(&self, b: MatRef<'_, T>, out: &mut [T]) {
        self.pack(b.t(), self.nr, out);
    }

    /// Packs a (lanes, depth) matrix into panels of `width` lanes.
    fn pack(&self, m: MatRef<'_, T>, width: usize, out: &mut [T]) {
        let (lanes, depth) = (m.rows(), m.cols());
        let needed = lanes.next_multiple_of(width) * depth;
        assert!(out.len() >= needed, "packing needs {needed} elements, not {}", out.len());
        if depth == 0 {
            return;
        }
        for (panel, out) in out[..needed].chunks_exact_mut(width * depth).enumerate() {
            let first = panel * width;
            let part = m.block(first, 0, width.min(lanes - first), depth);
            let (src, out) = (part.data(), out);
            if m.col_stride() == 1 {
                // SAFETY: `part` covers the elements to be read, `out` has `width` elements for each of `depth` steps, and
                // the processor has the instructions (`microkernel_for`).
                unsafe { (self.transpose)(src.as_ptr(), m.row_stride(), part.rows(), depth, out.as_mut_ptr(), width) }
            } else if m.row_stride() == 1 {
                // SAFETY: as above.
                unsafe { (self.copy)(src.as_ptr(), m.col_stride(), part.rows(), depth, out.as_mut_ptr(), width) }
            } else {
                for (p, step) in out.chunks_exact_mut(width).enumerate() {
                    for (lane, to) in step[..part.rows()].iter_mut().enumerate() {
                        *to = src[lane * m.row_stride() + p * m.col_stride()];
                    }
                }
            }
        }
    }
}

/// Whether the panel has `lanes` elements in each of `depth` steps.
fn holds<T>(panel: Panel<'_, T>, depth: usize, lanes: usize) -> bool {
    depth == 0
        || (depth - 1)
            .checked_mul(panel.step)
            .and_then(|last| last.checked_add(lanes))
            .is_some_and(|end| end <= panel.data.len())
}
