//! The algorithms, for any kind of vector.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over vectors are not always inlined into code for the instruction set"
)]

use super::vector::Vector;
use super::{PlaneConv, ScaleClamp};
use std::ops::Range;

/// The lanes within a row of `width` elements, of a vector of `lanes` that starts at column `first`.
fn inside(first: isize, width: usize, lanes: usize) -> Range<usize> {
    let lane = |column: isize| (column - first).clamp(0, lanes as isize) as usize;
    lane(0)..lane(width as isize)
}

/// A column of output vectors. In a source row it reads K vectors, one per tap of a kernel row.
#[derive(Clone, Copy)]
struct Column<V: Vector, const K: usize, const STRIDE: usize> {
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

impl<V: Vector, const K: usize, const STRIDE: usize> Column<V, K, STRIDE> {
    /// The column of the outputs starting at `first`.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn new(conv: &PlaneConv, first: usize) -> Self {
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
            Column { height, width, first: start, row: conv.origin[0], masks, outputs }
        }
    }

    /// Loads what the taps of a kernel row read; zero in lanes without an output. `row` is the source row, relative to that of the
    /// first tap of the first output.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`, and `source` must be a plane.
    #[inline(always)]
    unsafe fn taps(&self, source: *const f32, row: usize) -> [V; K] {
        // SAFETY: the caller checked the processor; the masks exclude elements outside the row.
        unsafe {
            let mut taps = [V::splat(0.0); K];
            let row = self.row + row as isize;
            if row < 0 || row >= self.height as isize {
                return taps;
            }
            let from = source.wrapping_offset(row * self.width as isize + self.first);
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

/// Adds the products of a source row, which is under kernel row `row - i * STRIDE` of `sums[i]`.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn add_products<V: Vector, const K: usize, const STRIDE: usize, const SUMS: usize>(
    sums: &mut [V; SUMS],
    kernel: &[[V; K]; K],
    row: usize,
    taps: [V; K],
) {
    // SAFETY: the caller checked the processor.
    unsafe {
        for i in 0..SUMS {
            if row < i * STRIDE || row - i * STRIDE >= K {
                continue;
            }
            let weights = &kernel[row - i * STRIDE];
            // Summed apart from `sums`, so that a row does not wait for the additions of the previous row.
            let mut products = taps[0].mul_add(weights[0], V::splat(0.0));
            for j in 1..K {
                products = taps[j].mul_add(weights[j], products);
            }
            sums[i] = sums[i].add(products);
        }
    }
}

/// Minimum outputs of a plane that is convolved in pairs of rows: smaller ones stay in the L1 cache, where columns are faster.
const MIN_BY_ROWS: usize = 2048;

/// Convolves planes, each with its own K x K kernel and, if SCALED, epilogue. SUMS is K / STRIDE, rounded up: the number of output
/// rows whose windows contain a source row.
///
/// # Safety
/// The processor must have the instructions of `V`, and the slices the lengths that `conv` implies for the same number of planes.
#[inline(always)]
pub(super) unsafe fn convolve_planes<
    V: Vector,
    const K: usize,
    const STRIDE: usize,
    const SUMS: usize,
    const SCALED: bool,
>(
    conv: &PlaneConv,
    weights: &[f32],
    source: &[f32],
    epilogues: &[ScaleClamp<f32>],
    out: &mut [f32],
) {
    // SAFETY: the caller checked the processor and the lengths; the mask of a column excludes elements outside the output row.
    unsafe {
        let [height, width] = conv.grid;
        let by_rows =
            V::SHORT && K == 3 && STRIDE == 1 && height > 1 && width >= V::LANES && height * width >= MIN_BY_ROWS;
        // The masks of narrow planes are computed once.
        let narrow = Column::<V, K, STRIDE>::new(conv, 0);
        let sources = source.chunks_exact(conv.source[0] * conv.source[1]);
        let planes = sources.zip(weights.chunks_exact(K * K)).zip(out.chunks_exact_mut(height * width));
        for (plane, ((source, weights), out)) in planes.enumerate() {
            let mut kernel = [[V::splat(0.0); K]; K];
            for (to, weight) in kernel.as_flattened_mut().iter_mut().zip(weights) {
                *to = V::splat(*weight);
            }
            let ScaleClamp { scale, bias, low, high } = if SCALED { epilogues[plane] } else { ScaleClamp::IDENTITY };
            let epilogue =
                ScaleClamp { scale: V::splat(scale), bias: V::splat(bias), low: V::splat(low), high: V::splat(high) };
            if by_rows {
                convolve_rows::<V, K, SCALED>(conv, &kernel, source, epilogue, out);
                continue;
            }
            // The last column ends with the row, and may compute outputs again.
            for first in (0..width).step_by(V::LANES).map(|first| first.min(width.saturating_sub(V::LANES))) {
                let column = if width > V::LANES { Column::new(conv, first) } else { narrow };
                let mut to = out.as_mut_ptr().wrapping_add(first);
                // Partial sums of the next SUMS output rows.
                let mut sums = [V::splat(0.0); SUMS];
                for row in 0..K - STRIDE {
                    let taps = column.taps(source.as_ptr(), row);
                    add_products::<V, K, STRIDE, SUMS>(&mut sums, &kernel, row, taps);
                }
                for y in 0..height {
                    for row in K - STRIDE..K {
                        let taps = column.taps(source.as_ptr(), STRIDE * y + row);
                        add_products::<V, K, STRIDE, SUMS>(&mut sums, &kernel, row, taps);
                    }
                    let values = if SCALED { sums[0].scale_clamp(epilogue) } else { sums[0] };
                    if width >= V::LANES {
                        values.store(to);
                    } else {
                        values.store_first(to, width);
                    }
                    to = to.wrapping_add(width);
                    // Neither `rotate_left` nor a loop, which would move the sums through memory.
                    sums = std::array::from_fn(|i| if i + 1 < SUMS { sums[i + 1] } else { V::splat(0.0) });
                }
            }
        }
    }
}

/// The source elements under a K x K kernel with stride 1, at the outputs of one vector in each of two rows.
struct Window<V: Vector, const K: usize> {
    /// The first tap of the first output.
    from: *const f32,
    /// Width of the source.
    pitch: usize,
    /// The source rows inside the plane, relative to that of the first tap.
    rows: Range<usize>,
    /// Load masks of a source row, one per tap; used unless all taps of all outputs are inside the plane.
    masks: [V::Mask; K],
}

impl<V: Vector, const K: usize> Window<V, K> {
    /// The window of `outputs` outputs starting at column `x`, in rows `y` and `y + 1`. WHOLE: see [`is_whole`].
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn new<const WHOLE: bool>(conv: &PlaneConv, source: &[f32], [y, x]: [usize; 2], outputs: usize) -> Self {
        let [height, width] = conv.source;
        let [row, column] = [y as isize + conv.origin[0], x as isize + conv.origin[1]];
        let from = source.as_ptr().wrapping_offset(row * width as isize + column);
        // SAFETY: the caller checked the processor.
        let mut masks = [unsafe { V::mask(0..0) }; K];
        if !WHOLE {
            for (j, mask) in masks.iter_mut().enumerate() {
                let lanes = inside(column + j as isize, width, V::LANES);
                // SAFETY: as above.
                *mask = unsafe { V::mask(lanes.start..lanes.end.min(outputs)) };
            }
        }
        Window { from, pitch: width, rows: inside(row, height, K + 1), masks }
    }

    /// What tap `j` reads in source row `i`; zero outside the plane.
    ///
    /// # Safety
    /// As for [`Self::new`]; WHOLE only if the window is whole.
    #[inline(always)]
    unsafe fn tap<const WHOLE: bool>(&self, i: usize, j: usize) -> V {
        let from = self.from.wrapping_add(i * self.pitch + j);
        // SAFETY: the caller checked the processor; the masks exclude elements outside the plane.
        unsafe {
            if WHOLE {
                V::load_all(from)
            } else if self.rows.contains(&i) {
                V::load(from, self.masks[j])
            } else {
                V::splat(0.0)
            }
        }
    }

    /// The outputs of both rows.
    ///
    /// # Safety
    /// As for [`Self::tap`].
    #[inline(always)]
    unsafe fn convolve<const WHOLE: bool>(&self, kernel: &[[V; K]; K]) -> [V; 2] {
        // SAFETY: as the caller guarantees.
        unsafe {
            let mut sums = [V::splat(0.0); 2];
            for i in 0..K + 1 {
                for j in 0..K {
                    let tap = self.tap::<WHOLE>(i, j);
                    if i < K {
                        sums[0] = tap.mul_add(kernel[i][j], sums[0]);
                    }
                    if i > 0 {
                        sums[1] = tap.mul_add(kernel[i - 1][j], sums[1]);
                    }
                }
            }
            sums
        }
    }

    /// Adds the products of the taps and the gradients of the outputs. TWO: of both rows.
    ///
    /// # Safety
    /// As for [`Self::tap`].
    #[inline(always)]
    unsafe fn correlate<const WHOLE: bool, const TWO: bool>(&self, grads: [V; 2], totals: &mut [[V; K]; K]) {
        // SAFETY: as the caller guarantees.
        unsafe {
            for i in 0..K + usize::from(TWO) {
                for j in 0..K {
                    let tap = self.tap::<WHOLE>(i, j);
                    if i < K {
                        totals[i][j] = tap.mul_add(grads[0], totals[i][j]);
                    }
                    if i > 0 && TWO {
                        totals[i - 1][j] = tap.mul_add(grads[1], totals[i - 1][j]);
                    }
                }
            }
        }
    }
}

/// True if a K x K kernel with stride 1 reads only elements of the plane for `lanes` outputs starting at column `x`, in rows `y` and
/// `y + 1`.
#[inline(always)]
fn is_whole(conv: &PlaneConv, [y, x]: [usize; 2], lanes: usize) -> bool {
    let ([height, width], k) = (conv.source, conv.kernel);
    let [row, column] = [y as isize + conv.origin[0], x as isize + conv.origin[1]];
    row >= 0 && row as usize + k < height && column >= 0 && column as usize + lanes + k - 1 <= width
}

/// Convolves with a small K x K kernel and stride 1, two rows at a time, if the output has two rows of at least one vector.
/// Unlike the vectors of a column, neighboring vectors are independent of each other, but each tap is loaded separately.
///
/// # Safety
/// As for [`convolve_planes`].
#[inline(always)]
unsafe fn convolve_rows<V: Vector, const K: usize, const SCALED: bool>(
    conv: &PlaneConv,
    kernel: &[[V; K]; K],
    source: &[f32],
    epilogue: ScaleClamp<V>,
    out: &mut [f32],
) {
    // SAFETY: the caller checked the processor and the lengths; the vectors lie within the output.
    unsafe {
        let [height, width] = conv.grid;
        // The last rows and the last vector of a row may be computed twice.
        for y in (0..height).step_by(2).map(|y| y.min(height - 2)) {
            for x in (0..width).step_by(V::LANES).map(|x| x.min(width - V::LANES)) {
                let sums = if is_whole(conv, [y, x], V::LANES) {
                    Window::<V, K>::new::<true>(conv, source, [y, x], V::LANES).convolve::<true>(kernel)
                } else {
                    Window::<V, K>::new::<false>(conv, source, [y, x], V::LANES).convolve::<false>(kernel)
                };
                let to = out.as_mut_ptr().add(y * width + x);
                for (i, sum) in sums.into_iter().enumerate() {
                    let values = if SCALED { sum.scale_clamp(epilogue) } else { sum };
                    values.store(to.add(i * width));
                }
            }
        }
    }
}

/// Adds the gradient of the weights of a small K x K kernel with stride 1 to `sums`, two rows at a time.
///
/// # Safety
/// As for [`convolve_planes`].
#[inline(always)]
unsafe fn correlate_rows<V: Vector, const K: usize>(conv: &PlaneConv, source: &[f32], grad: &[f32], sums: &mut [f32]) {
    // SAFETY: the caller checked the processor and the lengths; masks exclude elements outside the output row.
    unsafe {
        let [height, width] = conv.grid;
        let zero = V::splat(0.0);
        let mut totals = [[zero; K]; K];
        for y in (0..height).step_by(2) {
            for x in (0..width).step_by(V::LANES) {
                let grad = grad.as_ptr().wrapping_add(y * width + x);
                if y + 1 < height && x + V::LANES <= width && is_whole(conv, [y, x], V::LANES) {
                    let window = Window::<V, K>::new::<true>(conv, source, [y, x], V::LANES);
                    let grads = [V::load_all(grad), V::load_all(grad.wrapping_add(width))];
                    window.correlate::<true, true>(grads, &mut totals);
                    continue;
                }
                let outputs = V::LANES.min(width - x);
                let window = Window::<V, K>::new::<false>(conv, source, [y, x], outputs);
                let mask = V::mask(0..outputs);
                let first = V::load(grad, mask);
                if y + 1 < height {
                    window.correlate::<false, true>([first, V::load(grad.wrapping_add(width), mask)], &mut totals);
                } else {
                    window.correlate::<false, false>([first, zero], &mut totals);
                }
            }
        }
        for (sum, total) in sums.iter_mut().zip(totals.as_flattened()) {
            *sum += total.sum();
        }
    }
}

/// Adds the gradient of the weights to `sums`. GRADS is K / STRIDE, rounded up: the number of output rows whose windows contain a
/// source row.
///
/// # Safety
/// The processor must have the instructions of `V`, and the slices have the lengths of their planes.
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
        if V::SHORT && K == 3 && STRIDE == 1 {
            return correlate_rows::<V, K>(conv, source, grad, sums);
        }
        let zero = V::splat(0.0);
        let mut totals = [[zero; K]; K];
        for first in (0..width).step_by(V::LANES) {
            let column = Column::<V, K, STRIDE>::new(conv, first);
            let grad = grad.as_ptr().wrapping_add(first);
            for y in 0..height + GRADS - 1 {
                for phase in 0..STRIDE {
                    let taps = column.taps(source.as_ptr(), STRIDE * y + phase);
                    for i in 0..GRADS {
                        // A gradient of zero outside the output would still give NaN for an infinite source.
                        if phase + i * STRIDE < K && (i..height + i).contains(&y) {
                            let grad = V::load(grad.wrapping_add((y - i) * width), column.outputs);
                            for (total, tap) in totals[phase + i * STRIDE].iter_mut().zip(taps) {
                                *total = tap.mul_add(grad, *total);
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
