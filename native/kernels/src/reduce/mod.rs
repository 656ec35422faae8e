//! Reductions over any set of axes.
//!
//! The axes are merged into alternating kept and reduced groups, which are reduced from the innermost one outwards. Each pass
//! splits its axis into blocks of fixed size, reduces them in parallel with 64 independent accumulators (four rows over columns),
//! and then reduces the results of the blocks in the same way. So rounding errors grow with the logarithm of the length, and the
//! result does not depend on the number of threads.

mod arg;
mod reducer;

pub use arg::{argmax, argmin};
pub use reducer::{L1Norm, L2Norm, Max, Mean, Min, NanProd, NanSum, NumericLane, Prod, Reducer, Sum, SumSquares};

use crate::map::{Load, Src, Store};
use crate::movement::missing_axes;
use crate::par::{MatMut, parallel_blocks, with_scratch};
use crate::simd::multiversion::{self, Kernel};
use crate::zip::zip;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Independent accumulators of a row.
const LANES: usize = 64;
/// Elements of a row, or approximate number of elements of a group of [`LANES`] columns, in a block.
const ROW_BLOCK: usize = 4096;
/// Rows in a block when columns are reduced.
const COLUMN_BLOCK: usize = 256;
/// Columns processed together.
const TILE: usize = 1024;
/// Minimum number of elements read by a parallel chunk.
const GRAIN: usize = 1 << 16;

/// Merged axes: length, and whether they are reduced. Usually so few that nothing is allocated.
type Groups = SmallVec<[(usize, bool); 6]>;

/// The merged axes of a shape, without those of length 1.
fn groups(shape: &[usize], axes: &[usize]) -> Groups {
    let mut groups = Groups::new();
    for (axis, &n) in shape.iter().enumerate() {
        let reduced = axes.contains(&axis);
        match groups.last_mut() {
            _ if n == 1 => {}
            Some(last) if last.1 == reduced => last.0 *= n,
            _ => groups.push((n, reduced)),
        }
    }
    groups
}

/// Reduces `x` of `shape` over `axes` (distinct, below the rank) with `R`, computing in lanes of type `C`: usually `T`'s
/// [`Arith::Lane`](crate::map::Arith), `f32` for norms of integers. `out` has the remaining axes in order.
///
/// # Panics
/// If a length does not match the shape.
pub fn reduce<R, T, U, C>(x: &[T], shape: &[usize], axes: &[usize], out: &mut [U])
where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
    U: Load<C> + Store<C>,
{
    assert_eq!(x.len(), shape.iter().product(), "the elements do not have shape {shape:?}");
    let kept: usize = shape.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, n)| n).product();
    assert_eq!(out.len(), kept, "the output does not have the axes of {shape:?} without {axes:?}");
    if out.is_empty() {
        return;
    }
    let count = C::count(x.len() / kept);
    let groups = groups(shape, axes);
    if x.is_empty() || !groups.iter().any(|g| g.1) {
        let empty = x.is_empty();
        with_scratch(out.len(), |buf: &mut [C]| {
            if empty {
                buf.fill(R::IDENTITY);
            } else {
                pass::<R, T, C>(x, (out.len(), 1, 1), buf, true);
            }
            zip(Src::Slice(&*buf), Src::<C>::Scalar(count), out, R::finish);
        });
        return;
    }
    inner_groups::<R, T, C>(x, &groups, true, &mut |result| {
        zip(Src::Slice(result), Src::<C>::Scalar(count), out, R::finish);
    });
}

/// Reduces the innermost reduced group, then the remaining ones; `done` gets the result.
fn inner_groups<R, T, C>(x: &[T], groups: &[(usize, bool)], first: bool, done: &mut dyn FnMut(&[C]))
where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
{
    let Some(at) = groups.iter().rposition(|g| g.1) else { return };
    let n = groups[at].0;
    let inner: usize = groups[at + 1..].iter().map(|g| g.0).product();
    let outer: usize = groups[..at].iter().map(|g| g.0).product();
    with_scratch(outer * inner, |buf: &mut [C]| {
        pass::<R, T, C>(x, (outer, n, inner), buf, first);
        if groups[..at].iter().any(|g| g.1) {
            let rest: Groups = groups[..at].iter().chain(&groups[at + 1..]).copied().collect();
            inner_groups::<R, C, C>(buf, &rest, false, done);
        } else {
            done(buf);
        }
    });
}

/// Reduces the middle axis of `x`: (outer, n, inner) to (outer, inner). Elements are mapped in the first pass only.
fn pass<R, T, C>(x: &[T], (outer, n, inner): (usize, usize, usize), out: &mut [C], first: bool)
where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
{
    let block = match inner {
        1 => ROW_BLOCK,
        _ => COLUMN_BLOCK * LANES.div_ceil(inner),
    };
    let blocks = n.div_ceil(block);
    if blocks <= 1 {
        return blocks_of::<R, T, C>(x, (outer, n, inner), n, out, first);
    }
    with_scratch(outer * blocks * inner, |partial: &mut [C]| {
        blocks_of::<R, T, C>(x, (outer, n, inner), block, partial, first);
        pass::<R, C, C>(partial, (outer, blocks, inner), out, false);
    });
}

/// Reduces each block of `block` rows: (outer, n, inner) to (outer, blocks, inner).
fn blocks_of<R, T, C>(x: &[T], (outer, n, inner): (usize, usize, usize), block: usize, out: &mut [C], first: bool)
where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
{
    let blocks = n.div_ceil(block.max(1));
    let rows = outer * blocks;
    let tile = inner.min(4 * TILE);
    let together = (GRAIN / (block * inner).max(1)).max(1);
    parallel_blocks(MatMut::new(out, rows, inner, inner), together, tile, |row, col, mut part| {
        for i in 0..part.rows() {
            let (o, b) = ((row + i) / blocks, (row + i) % blocks);
            let (from, to) = (b * block, ((b + 1) * block).min(n));
            let x = &x[(o * n + from) * inner..(o * n + to) * inner];
            let out = part.row_mut(i);
            match (inner, first) {
                (1, true) => out[0] = fold_row::<R, T, C, true>(x),
                (1, false) => out[0] = fold_row::<R, T, C, false>(x),
                (_, true) => fold_columns::<R, T, C, true>(x, inner, col, out),
                (_, false) => fold_columns::<R, T, C, false>(x, inner, col, out),
            }
        }
    });
}

struct Row<'a, R, C, const MAP: bool>(&'a [C], PhantomData<R>);

impl<R: Reducer<C>, C: NumericLane, const MAP: bool> Kernel for Row<'_, R, C, MAP> {
    type Output = C;

    #[inline(always)]
    fn run(self) -> C {
        let mut acc = [R::IDENTITY; LANES];
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        for chunk in chunks {
            for (a, &x) in acc.iter_mut().zip(chunk) {
                *a = R::merge(*a, if MAP { R::map(x) } else { x });
            }
        }
        for (a, &x) in acc.iter_mut().zip(rest) {
            *a = R::merge(*a, if MAP { R::map(x) } else { x });
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                acc[i] = R::merge(acc[i], acc[i + width]);
            }
            width /= 2;
        }
        acc[0]
    }
}

/// Reduces one block of a row, at most [`ROW_BLOCK`] elements.
fn fold_row<R: Reducer<C>, T: Load<C>, C: NumericLane, const MAP: bool>(x: &[T]) -> C {
    if x.len() < 16 {
        let map = |x: &T| if MAP { R::map(x.lane()) } else { x.lane() };
        return x.iter().map(map).reduce(R::merge).unwrap_or(R::IDENTITY);
    }
    if let Some(lanes) = T::view(x) {
        return multiversion::run(Row::<R, C, MAP>(lanes, PhantomData));
    }
    let mut buf = [C::default(); TILE];
    let parts = x.chunks(TILE).map(|part| {
        let lanes = &mut buf[..part.len()];
        T::load(part, lanes);
        multiversion::run(Row::<R, C, MAP>(lanes, PhantomData))
    });
    parts.reduce(R::merge).unwrap_or(R::IDENTITY)
}

struct Columns<'a, R, C, const MAP: bool> {
    x: &'a [C],
    stride: usize,
    rows: usize,
    acc: &'a mut [C],
    reducer: PhantomData<R>,
}

impl<R: Reducer<C>, C: NumericLane, const MAP: bool> Kernel for Columns<'_, R, C, MAP> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.acc.len();
        let row = |r: usize| &self.x[r * self.stride..r * self.stride + n];
        let mut r = 0;
        while r + 4 <= self.rows {
            four_rows::<R, C, MAP>(self.acc, row(r), row(r + 1), row(r + 2), row(r + 3));
            r += 4;
        }
        while r < self.rows {
            for (a, &x) in self.acc.iter_mut().zip(row(r)) {
                *a = R::merge(*a, if MAP { R::map(x) } else { x });
            }
            r += 1;
        }
    }
}

#[inline(always)]
fn four_rows<R: Reducer<C>, C: NumericLane, const MAP: bool>(acc: &mut [C], a: &[C], b: &[C], c: &[C], d: &[C]) {
    let map = |x: C| if MAP { R::map(x) } else { x };
    let n = acc.len();
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for i in 0..n {
        let sum = R::merge(R::merge(map(a[i]), map(b[i])), R::merge(map(c[i]), map(d[i])));
        acc[i] = R::merge(acc[i], sum);
    }
}

/// Reduces the columns from `col` on, as many as `out` has, of rows of `width` elements.
fn fold_columns<R: Reducer<C>, T: Load<C>, C: NumericLane, const MAP: bool>(
    x: &[T],
    width: usize,
    col: usize,
    out: &mut [C],
) {
    let rows = x.len() / width;
    if width < LANES {
        return fold_narrow::<R, T, C, MAP>(x, width, out);
    }
    for (t, acc) in out.chunks_mut(TILE).enumerate() {
        let (from, n) = (col + t * TILE, acc.len());
        acc.fill(R::IDENTITY);
        if let Some(lanes) = x.get(from..).and_then(T::view) {
            multiversion::run(Columns::<R, C, MAP> { x: lanes, stride: width, rows, acc, reducer: PhantomData });
            continue;
        }
        let mut buf = [C::default(); 4 * TILE];
        for r in (0..rows).step_by(4) {
            let some = (rows - r).min(4);
            for i in 0..some {
                let start = (r + i) * width + from;
                T::load(&x[start..start + n], &mut buf[i * TILE..i * TILE + n]);
            }
            let acc = &mut *acc;
            let part = Columns::<R, C, MAP> { x: &buf, stride: TILE, rows: some, acc, reducer: PhantomData };
            multiversion::run(part);
        }
    }
}

/// Rows too short for vectors: several are reduced as one, whose parts are merged at the end.
fn fold_narrow<R: Reducer<C>, T: Load<C>, C: NumericLane, const MAP: bool>(x: &[T], width: usize, out: &mut [C]) {
    let wide = LANES.div_ceil(width) * width;
    let mut acc = [R::IDENTITY; 2 * LANES];
    let whole = x.len() / wide * wide;
    if whole > 0 {
        fold_columns::<R, T, C, MAP>(&x[..whole], wide, 0, &mut acc[..wide]);
    }
    out.fill(R::IDENTITY);
    for part in acc[..wide].chunks(width) {
        for (o, &a) in out.iter_mut().zip(part) {
            *o = R::merge(*o, a);
        }
    }
    for row in x[whole..].chunks(width) {
        for (o, &x) in out.iter_mut().zip(row) {
            *o = R::merge(*o, if MAP { R::map(x.lane()) } else { x.lane() });
        }
    }
}

/// Sums `x` of `shape` over the axes along which `target` (aligned at the last axis) is missing or has length 1: the gradient of
/// broadcasting `target` to `shape`.
///
/// # Panics
/// If `target` cannot be broadcast to `shape`, or a length does not match its shape.
pub fn reduce_to_shape<T, C>(x: &[T], shape: &[usize], target: &[usize], out: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    let missing = missing_axes(target, shape);
    let axes: SmallVec<[usize; 6]> = (0..shape.len())
        .filter(|&i| {
            let n = if i < missing { 1 } else { target[i - missing] };
            assert!(n == shape[i] || n == 1, "shape {target:?} cannot be broadcast to {shape:?}");
            n == 1
        })
        .collect();
    reduce::<Sum, T, T, C>(x, shape, &axes, out);
}

#[cfg(test)]
mod tests;
