//! The algorithms, for any kind of vector.

use super::PlaneConv;
use super::vector::Vector;
use std::ops::Range;

/// The lanes within a row of `width` elements, of a vector of `lanes` that starts at column `first`.
fn inside(first: isize, width: usize, lanes: usize) -> Range<usize> {
    let lane = |column: isize| (column - first).clamp(0, lanes as isize) as usize;
    lane(0)..lane(width as isize)
}

/// A column of output vectors. In a source row it reads K vectors, one per tap of a kernel row.
struct Column<'a, V: Vector, const K: usize, const STRIDE: usize> {
    source: &'a [f32],
    height: usize,
    width: usize,
    /// Source column that the first tap of the first output reads.
    first: isize,
    /// Source row that the first tap of the first output reads.
    row: isize,
    /// Load masks of a source row: for a stride of 1 one per tap, for a stride of 2 two per pair of taps.
    masks: [[V::Mask; 2]; K],
    /// The outputs within the output row.
    outputs: V::Mask,
}

impl<'a, V: Vector, const K: usize, const STRIDE: usize> Column<'a, V, K, STRIDE> {
    /// The column of the outputs from `first` on.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn new(conv: &PlaneConv, source: &'a [f32], first: usize) -> Self {
        let [height, width] = conv.source;
        let start = (first * STRIDE) as isize + conv.origin[1];
        let outputs = inside(first as isize, conv.grid[1], V::LANES);
        // SAFETY: the caller checked the processor.
        unsafe {
            // Loops instead of closures here and below: the compiler does not inline intrinsics into every closure.
            let mut masks = [[V::mask(0..0); 2]; K];
            for (i, pair) in masks.iter_mut().enumerate() {
                for (mask, next) in pair.iter_mut().zip([0, V::LANES]) {
                    let mut lanes = inside(start + (i + next) as isize, width, V::LANES);
                    if STRIDE == 1 {
                        lanes.end = lanes.end.min(outputs.end);
                    }
                    *mask = V::mask(lanes);
                }
            }
            let outputs = V::mask(outputs);
            Column { source, height, width, first: start, row: conv.origin[0], masks, outputs }
        }
    }

    /// Loads what the taps of a kernel row read; zero in lanes without an output. `row` is the source row, relative to that of the
    /// first tap of the first output.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn taps(&self, row: usize) -> [V; K] {
        // SAFETY: the caller checked the processor; the masks exclude elements outside the row.
        unsafe {
            let mut taps = [V::splat(0.0); K];
            let row = self.row + row as isize;
            if row < 0 || row >= self.height as isize {
                return taps;
            }
            let from = self.source.as_ptr().wrapping_offset(row * self.width as isize + self.first);
            let load = |i: usize, next: usize| V::load(from.wrapping_add(i + next * V::LANES), self.masks[i][next]);
            if STRIDE == 1 {
                for (i, tap) in taps.iter_mut().enumerate() {
                    *tap = load(i, 0);
                }
                return taps;
            }
            for i in (0..K).step_by(2) {
                let pair = V::deinterleave(load(i, 0), load(i, 1));
                for (tap, loaded) in taps[i..].iter_mut().zip(pair) {
                    *tap = loaded.keep(self.outputs);
                }
            }
            taps
        }
    }
}

/// Convolves with a K x K kernel. SUMS is K / STRIDE, rounded up: the number of output rows whose windows contain a source row.
///
/// # Safety
/// The processor has the instructions of `V`, and the slices have the lengths of their planes.
#[inline(always)]
pub(super) unsafe fn convolve_plane<V: Vector, const K: usize, const STRIDE: usize, const SUMS: usize>(
    conv: &PlaneConv,
    weights: &[f32],
    source: &[f32],
    out: &mut [f32],
    epilogue: impl Fn(V) -> V,
) {
    // SAFETY: the caller checked the processor and the lengths; the mask of a column excludes elements outside the output row.
    unsafe {
        let [height, width] = conv.grid;
        let zero = V::splat(0.0);
        let mut rows = [[zero; K]; K];
        for (to, weight) in rows.as_flattened_mut().iter_mut().zip(weights) {
            *to = V::splat(*weight);
        }
        // Adds the products of a source row, which meets kernel row `row - i * STRIDE` of `sums[i]`.
        let add = |sums: &mut [V; SUMS], row: usize, taps: [V; K]| {
            for (i, sum) in sums.iter_mut().enumerate() {
                if row >= i * STRIDE && row - i * STRIDE < K {
                    for (tap, weight) in taps.iter().zip(rows[row - i * STRIDE]) {
                        *sum = tap.mul_add(weight, *sum);
                    }
                }
            }
        };
        // The last column ends with the row, and may compute outputs again.
        for first in (0..width).step_by(V::LANES).map(|first| first.min(width.saturating_sub(V::LANES))) {
            let column = Column::<V, K, STRIDE>::new(conv, source, first);
            let mut to = out.as_mut_ptr().wrapping_add(first);
            // Partial sums of the next SUMS output rows.
            let mut sums = [zero; SUMS];
            for row in 0..K - STRIDE {
                add(&mut sums, row, column.taps(row));
            }
            for y in 0..height {
                for row in K - STRIDE..K {
                    add(&mut sums, row, column.taps(STRIDE * y + row));
                }
                let values = epilogue(sums[0]);
                if width >= V::LANES {
                    values.store(to);
                } else {
                    values.store_masked(to, column.outputs);
                }
                to = to.wrapping_add(width);
                // Not `rotate_left`, which would move the sums through memory.
                for i in 1..SUMS {
                    sums[i - 1] = sums[i];
                }
                sums[SUMS - 1] = zero;
            }
        }
    }
}

/// Adds the gradient of the weights to `sums`. GRADS is K / STRIDE, rounded up: the number of output rows whose windows contain a
/// source row.
///
/// # Safety
/// The processor has the instructions of `V`, and the slices have the lengths of their planes.
#[inline(always)]
pub(super) unsafe fn correlate_plane<V: Vector, const K: usize, const STRIDE: usize, const GRADS: usize>(
    conv: &PlaneConv,
    source: &[f32],
    grad: &[f32],
    sums: &mut [f32],
) {
    // SAFETY: the caller checked the processor and the lengths; the mask of a column excludes elements outside the output row.
    unsafe {
        let [height, width] = conv.grid;
        let zero = V::splat(0.0);
        let mut totals = [[zero; K]; K];
        for first in (0..width).step_by(V::LANES) {
            let column = Column::<V, K, STRIDE>::new(conv, source, first);
            // The gradients of output rows y, y - 1, ...
            let mut grads = [zero; GRADS];
            for y in 0..height + GRADS - 1 {
                let next =
                    if y < height { V::load(grad.as_ptr().add(y * width + first), column.outputs) } else { zero };
                grads = std::array::from_fn(|i| if i == 0 { next } else { grads[i - 1] });
                for phase in 0..STRIDE {
                    let taps = column.taps(STRIDE * y + phase);
                    for (i, grad) in grads.iter().enumerate() {
                        // Zeros would do outside the output but for infinite sources.
                        if phase + i * STRIDE < K && (i..height + i).contains(&y) {
                            for (total, tap) in totals[phase + i * STRIDE].iter_mut().zip(taps) {
                                *total = tap.mul_add(*grad, *total);
                            }
                        }
                    }
                }
            }
        }
        for (sum, total) in sums.iter_mut().zip(totals.as_flattened()) {
            *sum += total.sum();
        }
    }
}
