//! The forward pass.

use super::{Axis, PlaneWindows, PoolKind, PoolPower, PoolShape};
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};
use num_traits::Float;
use std::ops::Range;

/// Pools `input` into `output`.
///
/// # Panics
/// When a slice does not have the length that `shape` implies, or a stride is zero.
pub fn pool_forward<T: FloatElement>(shape: &PoolShape, kind: PoolKind, input: &[T], output: &mut [T]) {
    shape.check(input.len(), output.len());
    if output.is_empty() {
        return;
    }
    if kind == PoolKind::Max && shape.is_disjoint_2x2() {
        return max_2x2(shape, input, output);
    }
    match kind {
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
    /// True if the rows of a window may be folded column by column first, without changing the result.
    const BY_ROWS: bool = false;
    fn initial<A: Accum>() -> A;
    fn step<A: Accum>(acc: A, x: A) -> A;
    fn join<A: Accum>(a: A, b: A) -> A;
}

struct Max;
impl Fold for Max {
    const BY_ROWS: bool = true;
    #[inline(always)]
    fn initial<A: Accum>() -> A {
        A::min_value()
    }
    #[inline(always)]
    fn step<A: Accum>(acc: A, x: A) -> A {
        if x > acc { x } else { acc }
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
    let (plane, windows) = (shape.input_plane(), shape.plane_windows());
    let [_, height, width] = windows.axes;
    let row = width.output * shape.inner;
    parallel_rows(output, shape.output_plane(), shape.grain(), |i, out| {
        let image = &input[i * plane..(i + 1) * plane];
        with_scratch(row + width.input, |buffer: &mut [T::Acc]| {
            let (sums, columns) = buffer.split_at_mut(row);
            for (r, out) in out.chunks_exact_mut(row).enumerate() {
                let row_index = [r / height.output, r % height.output];
                fold_row::<T, F>(&windows, image, row_index, columns, sums);
                finish(&windows, kind, row_index, sums, out);
            }
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Folds the windows of a row of outputs.
    fn fold_row<T: FloatElement, F: Fold>(
        windows: &PlaneWindows,
        image: &[T],
        row_index: [usize; 2],
        columns: &mut [T::Acc],
        sums: &mut [T::Acc],
    ) {
        fold_row_inline::<T, F>(windows, image, row_index, columns, sums)
    }
}

#[inline(always)]
fn fold_row_inline<T: FloatElement, F: Fold>(
    windows: &PlaneWindows,
    image: &[T],
    row_index: [usize; 2],
    columns: &mut [T::Acc],
    sums: &mut [T::Acc],
) {
    let ([depth, height, width], inner) = (&windows.axes, windows.inner);
    let offsets: &[(Range<usize>, usize)] = &windows.offsets;
    sums.fill(F::initial());
    // Strided elements take longer to read than contiguous ones, so each is read once.
    let by_rows = F::BY_ROWS && inner == 1 && width.stride > 1 && width.output > 1;
    if by_rows {
        columns.fill(F::initial());
    }
    for d in depth.window(row_index[0]) {
        for h in height.window(row_index[1]) {
            let row = &image[(d * height.input + h) * width.input * inner..][..width.input * inner];
            if inner == 1 && width.output == 1 {
                sums[0] = F::join(sums[0], fold_slice::<T, F>(&row[width.window(0)]));
                continue;
            }
            if by_rows {
                columns.iter_mut().zip(row).for_each(|(column, x)| *column = F::step(*column, T::Acc::of(*x)));
                continue;
            }
            for (outputs, coordinate) in offsets {
                let row = &row[coordinate * inner..];
                step_row::<T, F>(&mut sums[outputs.start * inner..outputs.end * inner], row, width.stride, inner);
            }
        }
    }
    for (outputs, coordinate) in offsets.iter().filter(|_| by_rows) {
        step_row::<T::Acc, F>(&mut sums[outputs.clone()], &columns[*coordinate..], width.stride, 1);
    }
}

/// Folds one element into each window; those of neighbouring windows have a stride of `stride * inner`.
#[inline(always)]
fn step_row<T: FloatElement, F: Fold>(sums: &mut [T::Acc], row: &[T], stride: usize, inner: usize) {
    let step = |sum: &mut T::Acc, x: &T| *sum = F::step(*sum, T::Acc::of(*x));
    if inner != 1 {
        for (sums, xs) in sums.chunks_exact_mut(inner).zip(row.chunks(stride * inner)) {
            sums.iter_mut().zip(xs).for_each(|(sum, x)| step(sum, x));
        }
    } else {
        each_strided(row, stride, sums.iter_mut(), |_, x, sum| step(sum, &x));
    }
}

/// Calls `f(i, xs[i * stride], item)` for each item, in loops that the compiler can vectorise for strides 1 and 2. `xs` must have
/// an element for each item.
#[inline(always)]
pub(crate) fn each_strided<T: Copy, I>(
    xs: &[T],
    stride: usize,
    mut items: impl ExactSizeIterator<Item = I>,
    mut f: impl FnMut(usize, T, I),
) {
    let count = items.len();
    match stride {
        1 => items.zip(&xs[..count]).enumerate().for_each(|(i, (item, x))| f(i, *x, item)),
        2 => {
            let (pairs, rest) = xs.as_chunks::<2>();
            let whole = count.min(pairs.len());
            pairs[..whole].iter().zip(items.by_ref()).enumerate().for_each(|(i, (x, item))| f(i, x[0], item));
            items.zip(rest).for_each(|(item, x)| f(whole, *x, item));
        }
        _ => items.zip(xs.iter().step_by(stride)).enumerate().for_each(|(i, (item, x))| f(i, *x, item)),
    }
}

/// Folds contiguous elements in sixteen independent lanes, which are joined pairwise.
#[inline(always)]
fn fold_slice<T: FloatElement, F: Fold>(xs: &[T]) -> T::Acc {
    const LANES: usize = 16;
    let mut lanes = [F::initial::<T::Acc>(); LANES];
    let blocks = xs.chunks_exact(LANES);
    for (lane, x) in lanes.iter_mut().zip(blocks.remainder()) {
        *lane = F::step(*lane, T::Acc::of(*x));
    }
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane = F::step(*lane, T::Acc::of(*x));
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = F::join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The divisor of the average over a window; at least 1.
pub(super) fn divisor(axes: &[Axis; 3], count_include_pad: bool, output: [usize; 3]) -> usize {
    let size = |(axis, &output): (&Axis, &usize)| {
        if count_include_pad { axis.padded_window(output) } else { axis.window(output).len() }
    };
    axes.iter().zip(&output).map(size).product::<usize>().max(1)
}

/// Converts the folded windows of a row to outputs.
fn finish<T: FloatElement>(
    windows: &PlaneWindows,
    kind: PoolKind,
    row_index: [usize; 2],
    sums: &[T::Acc],
    out: &mut [T],
) {
    let map = |out: &mut [T], f: fn(T::Acc) -> T::Acc| {
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = f(*sum).store());
    };
    match kind {
        PoolKind::Max => map(out, |largest| Max::join(super::lowest::<T>(), largest)),
        PoolKind::Sum | PoolKind::Power(PoolPower::One) => map(out, |sum| sum),
        PoolKind::Power(PoolPower::Two) => map(out, |sum| sum.sqrt()),
        PoolKind::Power(PoolPower::Three) => map(out, |sum| sum.cbrt()),
        PoolKind::Average { count_include_pad } => {
            let (axes, inner) = (&windows.axes, windows.inner);
            for (w, (out, sums)) in out.chunks_exact_mut(inner).zip(sums.chunks_exact(inner)).enumerate() {
                let size = T::Acc::count(divisor(axes, count_include_pad, [row_index[0], row_index[1], w]));
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (*sum / size).store());
            }
        }
    }
}

fn max_2x2<T: FloatElement>(shape: &PoolShape, input: &[T], output: &mut [T]) {
    let (plane, width) = (shape.input_plane(), shape.input[2]);
    let (out_height, out_width) = (shape.output[1], shape.output[2]);
    let depth_plane = shape.input[1] * width;
    parallel_rows(output, shape.output_plane(), shape.grain(), |i, out| {
        let image = &input[i * plane..(i + 1) * plane];
        for (image, out) in image.chunks_exact(depth_plane).zip(out.chunks_exact_mut(out_height * out_width)) {
            max_2x2_image(image, width, out, out_width);
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::EVERY_LEVEL;
    /// Max pooling over disjoint 2 x 2 windows of an image with rows of `width` elements.
    fn max_2x2_image<T: FloatElement>(image: &[T], width: usize, out: &mut [T], out_width: usize) {
        for (rows, out) in image.chunks_exact(2 * width).zip(out.chunks_exact_mut(out_width)) {
            let (upper, lower) = rows.split_at(width);
            for ((out, a), b) in out.iter_mut().zip(upper.chunks_exact(2)).zip(lower.chunks_exact(2)) {
                let max = [a[0], a[1], b[0], b[1]].map(T::Acc::of).into_iter().fold(super::lowest::<T>(), Max::step);
                *out = max.store();
            }
        }
    }
}
