//! The forward pass.

use super::phases::{BLOCK, block};
use super::{Axis, PlaneWindows, PoolKind, PoolPower, PoolShape, Pooling};
use crate::float::{Accum, FloatElement, with_wide, with_wide_mut};
use crate::lane::tree_reduce;
use crate::par::{grain_for_all_threads, parallel_rows, with_scratch};
use std::ops::Range;

/// Pools `input` into `output`.
///
/// # Panics
/// Panics if a slice does not have the length that `shape` implies, or a stride is zero.
pub fn pool_forward<T: FloatElement>(shape: &PoolShape, kind: PoolKind, input: &[T], output: &mut [T]) {
    shape.check(input.len(), output.len());
    if output.is_empty() {
        return;
    }
    let pooling = Pooling::new(shape, kind, super::lowest::<T>());
    let (plane, out_plane) = (shape.input_plane(), shape.output_plane());
    let grain = grain_for_all_threads(shape.planes, shape.grain());
    parallel_rows(output, out_plane * grain, 1, |i, out| {
        let images = &input[i * grain * plane..][..out.len() / out_plane * plane];
        with_wide(images, |images| with_wide_mut(out, |out| pooling.pool(images, out)));
    });
}

/// How the elements of a window are combined.
trait Fold<A: Accum> {
    /// The initial accumulator.
    fn initial() -> A;
    /// Folds an element, or another folded part of the window.
    fn step(acc: A, x: A) -> A;
    /// The constant of [`Self::pair`].
    fn constant(pooling: &Pooling<'_, A>) -> A;
    /// The output of a folded window of [`PoolShape::is_disjoint_pairs`].
    fn pair(acc: A, constant: A) -> A;
    /// Converts folded windows to outputs; `divisors` are those of averages over `inner` successive windows each.
    fn finish(pooling: &Pooling<'_, A>, sums: &[A], divisors: &[A], inner: usize, out: &mut [A]);
}

struct Max;
impl<A: Accum> Fold<A> for Max {
    #[inline(always)]
    fn initial() -> A {
        A::min_value()
    }
    #[inline(always)]
    fn step(acc: A, x: A) -> A {
        acc.max(x)
    }
    fn constant(pooling: &Pooling<'_, A>) -> A {
        pooling.lowest
    }
    #[inline(always)]
    fn pair(acc: A, lowest: A) -> A {
        lowest.max(acc)
    }
    #[inline(always)]
    fn finish(pooling: &Pooling<'_, A>, sums: &[A], _: &[A], _: usize, out: &mut [A]) {
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = pooling.lowest.max(*sum));
    }
}

struct Sum;
impl<A: Accum> Fold<A> for Sum {
    #[inline(always)]
    fn initial() -> A {
        A::zero()
    }
    #[inline(always)]
    fn step(acc: A, x: A) -> A {
        acc + x
    }
    fn constant(pooling: &Pooling<'_, A>) -> A {
        let divisor = if pooling.kind == PoolKind::Sum { 1 } else { pooling.shape.kernel[1] * pooling.shape.kernel[2] };
        A::one() / A::count(divisor)
    }
    #[inline(always)]
    fn pair(acc: A, scale: A) -> A {
        acc * scale
    }
    #[inline(always)]
    fn finish(pooling: &Pooling<'_, A>, sums: &[A], divisors: &[A], inner: usize, out: &mut [A]) {
        match pooling.kind {
            PoolKind::Average { .. } if inner == 1 => {
                out.iter_mut().zip(sums).zip(divisors).for_each(|((out, sum), size)| *out = *sum / *size);
            }
            PoolKind::Average { .. } => {
                for ((out, sums), size) in out.chunks_exact_mut(inner).zip(sums.chunks_exact(inner)).zip(divisors) {
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum / *size);
                }
            }
            _ => out.copy_from_slice(&sums[..out.len()]),
        }
    }
}

impl<A: Accum> Pooling<'_, A> {
    /// Pools several planes.
    fn pool(&self, images: &[A], out: &mut [A]) {
        match self.kind {
            PoolKind::Max => self.fold::<Max>(images, out),
            PoolKind::Power(PoolPower::Two) => {
                self.sum_powers(images, |x| x * x, out);
                out.iter_mut().for_each(|out| *out = out.sqrt());
            }
            PoolKind::Power(PoolPower::Three) => {
                self.sum_powers(images, |x| x * x * x, out);
                out.iter_mut().for_each(|out| *out = out.cbrt());
            }
            _ => self.fold::<Sum>(images, out),
        }
    }

    fn sum_powers(&self, images: &[A], power: impl Fn(A) -> A, out: &mut [A]) {
        with_scratch(images.len(), |powers: &mut [A]| {
            powers.iter_mut().zip(images).for_each(|(to, x)| *to = power(*x));
            self.fold::<Sum>(powers, out);
        });
    }

    fn fold<F: Fold<A>>(&self, images: &[A], out: &mut [A]) {
        if self.is_disjoint_pairs {
            return pool_pairs::<A, F>(self.shape, images, F::constant(self), out);
        }
        if self.is_global {
            return with_scratch(out.len(), |sums: &mut [A]| pool_globally::<A, F>(self, images, sums, out));
        }
        let Axis { input: width, output: out_width, .. } = self.windows.axes[2];
        let row = (out_width * self.shape.inner).next_multiple_of(BLOCK);
        with_scratch(row + out_width + width + self.phases.row_len(), |buffer: &mut [A]| {
            let (sums, buffer) = buffer.split_at_mut(row);
            let (divisors, buffer) = buffer.split_at_mut(out_width);
            let (columns, split) = buffer.split_at_mut(width);
            pool_chunk::<A, F>(self, images, Buffers { sums, divisors, columns, split }, out);
        });
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Pools several planes with one window each.
    fn pool_globally<A: Accum, F: Fold<A>>(
        pooling: &Pooling<'_, A>,
        images: &[A],
        sums: &mut [A],
        out: &mut [A]
    ) {
        let plane = images.len() / sums.len();
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = fold_slice::<A, F>(&images[i * plane..(i + 1) * plane]);
        }
        let count_include_pad = matches!(pooling.kind, PoolKind::Average { count_include_pad: true });
        let size = divisor(&pooling.windows.axes, count_include_pad, [0; 3]);
        F::finish(pooling, sums, &[A::count(size)], out.len(), out);
    }
}

/// Scratch memory of [`pool_chunk`].
struct Buffers<'a, A> {
    /// The folded windows of a row of outputs.
    sums: &'a mut [A],
    /// The divisors of their averages.
    divisors: &'a mut [A],
    /// The folded columns of the rows of a window.
    columns: &'a mut [A],
    /// The same, split into phases.
    split: &'a mut [A],
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Pools several planes.
    fn pool_chunk<A: Accum, F: Fold<A>>(
        pooling: &Pooling<'_, A>,
        images: &[A],
        buffers: Buffers<'_, A>,
        out: &mut [A]
    ) {
        let windows = &pooling.windows;
        let ([depth, height, width], inner) = (&windows.axes, windows.inner);
        let (row, image_len) = (width.output * inner, depth.input * height.input * width.input * inner);
        let Buffers { sums, divisors, columns, split } = buffers;
        split.fill(F::initial());
        let mut divisors = Divisors::new(divisors);
        for (i, out) in out.chunks_exact_mut(depth.output * height.output * row).enumerate() {
            let image = &images[i * image_len..(i + 1) * image_len];
            for (r, out) in out.chunks_exact_mut(row).enumerate() {
                let row_index = [r / height.output, r % height.output];
                if inner == 1 {
                    fold_row::<A, F>(pooling, image, row_index, (columns, split), sums);
                } else {
                    fold_channels::<A, F>(windows, image, row_index, &mut sums[..row]);
                }
                if let PoolKind::Average { count_include_pad } = pooling.kind {
                    divisors.update(&windows.axes, count_include_pad, row_index);
                }
                F::finish(pooling, sums, divisors.row, inner, out);
            }
        }
    }
}

/// Folds the windows of a row of outputs: first the columns of the rows of a window, which are contiguous, then their neighbors.
#[inline(always)]
fn fold_row<A: Accum, F: Fold<A>>(
    pooling: &Pooling<'_, A>,
    image: &[A],
    row_index: [usize; 2],
    (columns, split): (&mut [A], &mut [A]),
    sums: &mut [A],
) {
    let (windows, phases) = (&pooling.windows, &pooling.phases);
    let width = &windows.axes[2];
    let whole_row = phases.whole_row().filter(|_| width.output > 1);
    let to = match &whole_row {
        Some(row) => &mut split[row.clone()],
        None => &mut *columns,
    };
    fold_columns::<A, F>(windows, image, row_index, to);
    if width.output == 1 {
        sums[0] = fold_slice::<A, F>(&columns[width.window(0)]);
        return;
    }
    if whole_row.is_none() {
        phases.split(columns, split);
    }
    for (i, sums) in sums.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let mut acc = [F::initial(); BLOCK];
        for start in &phases.starts {
            let xs = block(split, start + i * BLOCK);
            for (acc, x) in acc.iter_mut().zip(xs) {
                *acc = F::step(*acc, x);
            }
        }
        *sums = acc;
    }
}

/// Folds the columns of the rows in a window.
#[inline(always)]
fn fold_columns<A: Accum, F: Fold<A>>(windows: &PlaneWindows, image: &[A], row_index: [usize; 2], columns: &mut [A]) {
    let [depth, height, width] = &windows.axes;
    let mut is_first = true;
    for d in depth.window(row_index[0]) {
        for h in height.window(row_index[1]) {
            let row = &image[(d * height.input + h) * width.input..][..width.input];
            let elements = columns.iter_mut().zip(row);
            if is_first {
                elements.for_each(|(column, x)| *column = F::step(F::initial(), *x));
            } else {
                elements.for_each(|(column, x)| *column = F::step(*column, *x));
            }
            is_first = false;
        }
    }
    if is_first {
        columns.fill(F::initial());
    }
}

/// Folds the windows of a row of outputs of several channels.
#[inline(always)]
fn fold_channels<A: Accum, F: Fold<A>>(windows: &PlaneWindows, image: &[A], row_index: [usize; 2], sums: &mut [A]) {
    let ([depth, height, width], inner) = (&windows.axes, windows.inner);
    let offsets: &[(Range<usize>, usize)] = &windows.offsets;
    sums.fill(F::initial());
    for d in depth.window(row_index[0]) {
        for h in height.window(row_index[1]) {
            let row = &image[(d * height.input + h) * width.input * inner..][..width.input * inner];
            for (outputs, coordinate) in offsets {
                let sums = sums[outputs.start * inner..outputs.end * inner].chunks_exact_mut(inner);
                for (sums, xs) in sums.zip(row[coordinate * inner..].chunks(width.stride * inner)) {
                    sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum = F::step(*sum, *x));
                }
            }
        }
    }
}

/// Folds contiguous elements in sixteen independent lanes, which are joined pairwise.
#[inline(always)]
fn fold_slice<A: Accum, F: Fold<A>>(xs: &[A]) -> A {
    let mut lanes = [F::initial(); BLOCK];
    let (blocks, rest) = xs.as_chunks::<BLOCK>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane = F::step(*lane, *x);
        }
    }
    if let (false, Some(last)) = (rest.is_empty(), xs.last_chunk::<BLOCK>()) {
        // The last block overlaps the previous one.
        for (i, (lane, x)) in lanes.iter_mut().zip(last).enumerate() {
            *lane = F::step(*lane, if i >= BLOCK - rest.len() { *x } else { F::initial() });
        }
    } else {
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane = F::step(*lane, *x);
        }
    }
    tree_reduce(lanes, F::step)
}

/// The largest element, or the lowest finite number.
#[inline(always)]
pub(super) fn largest<A: Accum>(xs: &[A]) -> A {
    fold_slice::<A, Max>(xs)
}

/// The divisor of the average over a window; at least 1.
pub(super) fn divisor(axes: &[Axis; 3], count_include_pad: bool, output: [usize; 3]) -> usize {
    axes.iter().zip(output).map(|(axis, output)| axis.size(count_include_pad, output)).product::<usize>().max(1)
}

/// The divisors of the averages of a row of outputs.
pub(super) struct Divisors<'a, A> {
    pub(super) row: &'a mut [A],
    /// Elements of a window along the other axes, which is the same for most rows.
    rows: Option<usize>,
}

impl<'a, A: Accum> Divisors<'a, A> {
    /// Keeps the divisors in `row`.
    pub(super) fn new(row: &'a mut [A]) -> Self {
        Divisors { row, rows: None }
    }

    /// Computes the divisors of a row.
    pub(super) fn update(&mut self, [depth, height, width]: &[Axis; 3], count_include_pad: bool, [d, h]: [usize; 2]) {
        let rows = depth.size(count_include_pad, d) * height.size(count_include_pad, h);
        if self.rows.replace(rows) != Some(rows) {
            for (w, to) in self.row.iter_mut().enumerate() {
                *to = A::count((rows * width.size(count_include_pad, w)).max(1));
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Pools several planes over disjoint windows of one or two rows and two columns.
    fn pool_pairs<A: Accum, F: Fold<A>>(shape: &PoolShape, images: &[A], constant: A, out: &mut [A]) {
        let width = shape.input[2];
        let fold = |a: A, b: A| F::step(F::step(F::initial(), a), b);
        let images = images.chunks_exact(shape.input[1] * width);
        for (image, out) in images.zip(out.chunks_exact_mut(shape.output[1] * shape.output[2])) {
            let rows = image.chunks_exact(shape.kernel[1] * width);
            for (rows, out) in rows.zip(out.chunks_exact_mut(shape.output[2])) {
                let (upper, lower) = rows.split_at(width);
                let uppers = out.iter_mut().zip(upper.as_chunks::<2>().0);
                if lower.is_empty() {
                    uppers.for_each(|(out, a)| *out = F::pair(fold(a[0], a[1]), constant));
                } else {
                    uppers.zip(lower.as_chunks::<2>().0).for_each(|((out, a), b)| {
                        // Columns first, as for other windows.
                        *out = F::pair(F::step(fold(a[0], b[0]), fold(a[1], b[1])), constant);
                    });
                }
            }
        }
    }
}
