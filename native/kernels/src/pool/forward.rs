//! The forward pass.

use super::phases::{BLOCK, Phases, block};
use super::{Axis, PlaneWindows, PoolKind, PoolPower, PoolShape};
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use crate::simd::multiversion::{self, Kernel};
use num_traits::{Float, One};
use std::marker::PhantomData;
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
    match kind {
        PoolKind::Max if shape.is_disjoint_pairs() => {
            pool_pairs::<T, Max>(shape, |largest| Max::join(super::lowest::<T>(), largest), input, output);
        }
        PoolKind::Average { .. } | PoolKind::Sum if shape.is_disjoint_pairs() => {
            let scale = if kind == PoolKind::Sum { 1 } else { shape.kernel[1] * shape.kernel[2] };
            let scale = T::Acc::one() / T::Acc::count(scale);
            pool_pairs::<T, Sum>(shape, |sum| sum * scale, input, output);
        }
        PoolKind::Max => pool_planes::<T, Max>(shape, kind, input, output),
        PoolKind::Average { .. } | PoolKind::Sum | PoolKind::Power(PoolPower::One) => {
            pool_planes::<T, Sum>(shape, kind, input, output)
        }
        PoolKind::Power(PoolPower::Two) => pool_planes::<T, Squares>(shape, kind, input, output),
        PoolKind::Power(PoolPower::Three) => pool_planes::<T, Cubes>(shape, kind, input, output),
    }
}

/// How the elements of a window are combined.
trait Fold {
    /// The initial accumulator.
    fn initial<A: Accum>() -> A;
    /// Folds an element.
    fn step<A: Accum>(acc: A, x: A) -> A;
    /// Joins two folded windows.
    fn join<A: Accum>(a: A, b: A) -> A;
}

struct Max;
impl Fold for Max {
    #[inline(always)]
    fn initial<A: Accum>() -> A {
        A::min_value()
    }
    #[inline(always)]
    fn step<A: Accum>(acc: A, x: A) -> A {
        acc.max(x)
    }
    #[inline(always)]
    fn join<A: Accum>(a: A, b: A) -> A {
        Self::step(a, b)
    }
}

macro_rules! sums {
    ($($name:ident: |$x:ident| $term:expr;)*) => {$(
        struct $name;
        impl Fold for $name {
            #[inline(always)]
            fn initial<A: Accum>() -> A {
                A::zero()
            }
            #[inline(always)]
            fn step<A: Accum>(acc: A, $x: A) -> A {
                acc + $term
            }
            #[inline(always)]
            fn join<A: Accum>(a: A, b: A) -> A {
                a + b
            }
        }
    )*};
}
sums! {
    Sum: |x| x;
    Squares: |x| x * x;
    Cubes: |x| x * x * x;
}

fn pool_planes<T: FloatElement, F: Fold>(shape: &PoolShape, kind: PoolKind, input: &[T], output: &mut [T]) {
    let (plane, out_plane, grain) = (shape.input_plane(), shape.output_plane(), shape.grain());
    let windows = shape.plane_windows();
    let phases = Phases::new(windows.axes[2]);
    let row = (windows.axes[2].output * shape.inner).next_multiple_of(BLOCK);
    let is_global = shape.is_global();
    parallel_rows(output, out_plane * grain, 1, |i, out| {
        let images = &input[i * grain * plane..][..out.len() / out_plane * plane];
        if is_global {
            with_scratch(out.len(), |sums: &mut [T::Acc]| {
                pool_globally::<T, F>(&windows.axes, kind, images, sums, out);
            });
            return;
        }
        let Axis { input: width, output: out_width, .. } = windows.axes[2];
        with_scratch(row + out_width + width + phases.row_len(), |buffer: &mut [T::Acc]| {
            let (sums, buffer) = buffer.split_at_mut(row);
            let (divisors, buffer) = buffer.split_at_mut(out_width);
            let (columns, split) = buffer.split_at_mut(width);
            let buffers = Buffers { sums, divisors, columns, split };
            pool_chunk::<T, F>(&windows, &phases, kind, images, buffers, out);
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Pools several planes with one window each.
    fn pool_globally<T: FloatElement, F: Fold>(
        axes: &[Axis; 3],
        kind: PoolKind,
        images: &[T],
        sums: &mut [T::Acc],
        out: &mut [T]
    ) {
        let plane = images.len() / sums.len();
        for (i, sum) in sums.iter_mut().enumerate() {
            let image = &images[i * plane..(i + 1) * plane];
            *sum = fold_slice(image, F::initial(), |a, x| F::step(a, T::Acc::of(x)), F::join);
        }
        let size = divisor(axes, matches!(kind, PoolKind::Average { count_include_pad: true }), [0; 3]);
        finish(kind, sums, &[T::Acc::count(size)], out.len(), out);
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
    avx512 if T::EVERY_LEVEL;
    /// Pools several planes.
    fn pool_chunk<T: FloatElement, F: Fold>(
        windows: &PlaneWindows,
        phases: &Phases,
        kind: PoolKind,
        images: &[T],
        buffers: Buffers<'_, T::Acc>,
        out: &mut [T]
    ) {
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
                    fold_row::<T, F>(windows, phases, image, row_index, (columns, split), sums);
                } else {
                    fold_channels::<T, F>(windows, image, row_index, &mut sums[..row]);
                }
                if let PoolKind::Average { count_include_pad } = kind {
                    divisors.update(&windows.axes, count_include_pad, row_index);
                }
                finish(kind, sums, divisors.row, inner, out);
            }
        }
    }
}

/// Folds the windows of a row of outputs: first the columns of the rows of a window, which are contiguous, then their neighbours.
#[inline(always)]
fn fold_row<T: FloatElement, F: Fold>(
    windows: &PlaneWindows,
    phases: &Phases,
    image: &[T],
    row_index: [usize; 2],
    (columns, split): (&mut [T::Acc], &mut [T::Acc]),
    sums: &mut [T::Acc],
) {
    let width = &windows.axes[2];
    match phases.whole_row() {
        Some(row) if width.output > 1 => fold_columns::<T, F>(windows, image, row_index, &mut split[row]),
        _ => fold_columns::<T, F>(windows, image, row_index, columns),
    }
    if width.output == 1 {
        sums[0] = fold_slice(&columns[width.window(0)], F::initial(), F::join, F::join);
        return;
    }
    if phases.whole_row().is_none() {
        phases.split(columns, split);
    }
    for (i, sums) in sums.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let mut acc = [F::initial::<T::Acc>(); BLOCK];
        for start in &phases.starts {
            let xs = block(split, start + i * BLOCK);
            for (acc, x) in acc.iter_mut().zip(xs) {
                *acc = F::join(*acc, x);
            }
        }
        *sums = acc;
    }
}

/// Folds the columns of the rows in a window.
#[inline(always)]
fn fold_columns<T: FloatElement, F: Fold>(
    windows: &PlaneWindows,
    image: &[T],
    row_index: [usize; 2],
    columns: &mut [T::Acc],
) {
    let [depth, height, width] = &windows.axes;
    let mut is_first = true;
    for d in depth.window(row_index[0]) {
        for h in height.window(row_index[1]) {
            let row = &image[(d * height.input + h) * width.input..][..width.input];
            let elements = columns.iter_mut().zip(row);
            if is_first {
                elements.for_each(|(column, x)| *column = F::step(F::initial(), T::Acc::of(*x)));
            } else {
                elements.for_each(|(column, x)| *column = F::step(*column, T::Acc::of(*x)));
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
fn fold_channels<T: FloatElement, F: Fold>(
    windows: &PlaneWindows,
    image: &[T],
    row_index: [usize; 2],
    sums: &mut [T::Acc],
) {
    let ([depth, height, width], inner) = (&windows.axes, windows.inner);
    let offsets: &[(Range<usize>, usize)] = &windows.offsets;
    sums.fill(F::initial());
    for d in depth.window(row_index[0]) {
        for h in height.window(row_index[1]) {
            let row = &image[(d * height.input + h) * width.input * inner..][..width.input * inner];
            for (outputs, coordinate) in offsets {
                let sums = sums[outputs.start * inner..outputs.end * inner].chunks_exact_mut(inner);
                for (sums, xs) in sums.zip(row[coordinate * inner..].chunks(width.stride * inner)) {
                    sums.iter_mut().zip(xs).for_each(|(sum, x)| *sum = F::step(*sum, T::Acc::of(*x)));
                }
            }
        }
    }
}

/// Folds contiguous elements in sixteen independent lanes, which are joined pairwise.
#[inline(always)]
fn fold_slice<T: Copy, A: Accum>(xs: &[T], initial: A, step: impl Fn(A, T) -> A, join: impl Fn(A, A) -> A) -> A {
    let mut lanes = [initial; BLOCK];
    let (blocks, rest) = xs.as_chunks::<BLOCK>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane = step(*lane, *x);
        }
    }
    if let (false, Some(last)) = (rest.is_empty(), xs.last_chunk::<BLOCK>()) {
        // The last block overlaps the previous one.
        for (i, (lane, x)) in lanes.iter_mut().zip(last).enumerate() {
            *lane = join(*lane, if i >= BLOCK - rest.len() { step(initial, *x) } else { initial });
        }
    } else {
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane = step(*lane, *x);
        }
    }
    let mut width = BLOCK / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest element, or the lowest finite number.
#[inline(always)]
pub(super) fn largest<T: FloatElement>(xs: &[T]) -> T::Acc {
    fold_slice(xs, Max::initial(), |a, x| Max::step(a, T::Acc::of(x)), Max::join)
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

/// Converts folded windows to outputs; `divisors` are those of averages over `inner` successive windows each.
#[inline(always)]
fn finish<T: FloatElement>(kind: PoolKind, sums: &[T::Acc], divisors: &[T::Acc], inner: usize, out: &mut [T]) {
    let windows = out.iter_mut().zip(sums);
    match kind {
        PoolKind::Max => windows.for_each(|(out, sum)| *out = Max::join(super::lowest::<T>(), *sum).store()),
        PoolKind::Sum | PoolKind::Power(PoolPower::One) => windows.for_each(|(out, sum)| *out = sum.store()),
        PoolKind::Power(PoolPower::Two) => windows.for_each(|(out, sum)| *out = sum.sqrt().store()),
        PoolKind::Power(PoolPower::Three) => windows.for_each(|(out, sum)| *out = sum.cbrt().store()),
        PoolKind::Average { .. } if inner == 1 => {
            windows.zip(divisors).for_each(|((out, sum), size)| *out = (*sum / *size).store());
        }
        PoolKind::Average { .. } => {
            for ((out, sums), size) in out.chunks_exact_mut(inner).zip(sums.chunks_exact(inner)).zip(divisors) {
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (*sum / *size).store());
            }
        }
    }
}

/// Pools over disjoint windows of one or two rows and two columns; `finish` converts a folded window.
fn pool_pairs<T: FloatElement, F: Fold>(
    shape: &PoolShape,
    finish: impl Fn(T::Acc) -> T::Acc + Copy + Sync,
    input: &[T],
    output: &mut [T],
) {
    let (plane, width) = (shape.input_plane(), shape.input[2]);
    let (out_height, out_width) = (shape.output[1], shape.output[2]);
    let depth_plane = shape.input[1] * width;
    parallel_rows(output, shape.output_plane(), shape.grain(), |i, out| {
        let image = &input[i * plane..(i + 1) * plane];
        for (image, out) in image.chunks_exact(depth_plane).zip(out.chunks_exact_mut(out_height * out_width)) {
            multiversion::run(Pairs::<T, F, _> {
                image,
                width,
                rows: shape.kernel[1],
                finish,
                out,
                out_width,
                fold: PhantomData,
            });
        }
    });
}

/// Pooling of an image with rows of `width` elements over disjoint pairs of columns of one or two `rows`.
struct Pairs<'a, T, F, G> {
    image: &'a [T],
    width: usize,
    rows: usize,
    finish: G,
    out: &'a mut [T],
    out_width: usize,
    fold: PhantomData<F>,
}

impl<T: FloatElement, F: Fold, G: Fn(T::Acc) -> T::Acc> Kernel for Pairs<'_, T, F, G> {
    type Output = ();
    const EVERY_ISA: bool = T::EVERY_LEVEL;

    #[inline(always)]
    fn run(self) {
        let fold = |a: T, b: T| F::step(F::step(F::initial(), T::Acc::of(a)), T::Acc::of(b));
        let rows = self.image.chunks_exact(self.rows * self.width);
        for (rows, out) in rows.zip(self.out.chunks_exact_mut(self.out_width)) {
            let (upper, lower) = rows.split_at(self.width);
            let uppers = out.iter_mut().zip(upper.as_chunks::<2>().0);
            if self.rows == 1 {
                uppers.for_each(|(out, a)| *out = (self.finish)(fold(a[0], a[1])).store());
            } else {
                let windows = uppers.zip(lower.as_chunks::<2>().0);
                windows.for_each(|((out, a), b)| {
                    // Columns first, as for other windows.
                    *out = (self.finish)(F::join(fold(a[0], b[0]), fold(a[1], b[1]))).store();
                });
            }
        }
    }
}
