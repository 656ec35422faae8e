//! Reductions over any set of axes.
//!
//! The axes are merged into alternating groups of kept and reduced axes, which are reduced from the innermost one outwards. Each
//! pass divides its axis into blocks of fixed size and reduces them in parallel: contiguous rows with 64 independent
//! accumulators, columns four rows at a time. The results of the blocks are then reduced in the same way. So rounding errors grow
//! with the logarithm of the length, and the result does not depend on the number of threads.
//!
//! - `reducer`: the operations, such as sum and maximum.
//! - `arg`: argmax and argmin.

mod arg;
mod reducer;

pub use arg::{argmax, argmin};
pub use reducer::{L1Norm, L2Norm, Max, Mean, Min, NanProd, NanSum, NumericLane, Prod, Reducer, Sum, SumSquares};

use crate::lane::tree_reduce;
use crate::map::{Elements, ElementsMut, LaneFn, Load, Loop, Operand, Store, apply};
use crate::movement::missing_axes;
use crate::par::{MatMut, parallel_blocks, with_scratch};
use crate::simd::multiversion::{self, Multiversioned};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Independent accumulators of a row.
const LANES: usize = 64;
/// Elements in a block of a row.
const ROW_BLOCK: usize = 4096;
/// Rows in a block when columns are reduced, for at least [`LANES`] columns.
const COLUMN_BLOCK: usize = 256;
/// Lanes that are converted or accumulated at a time.
const TILE: usize = 1024;
/// Minimum number of elements read per chunk.
const GRAIN: usize = 1 << 16;

/// Groups of adjacent axes: the length of each, and true if it is reduced. Up to six need no allocation.
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
/// Panics if a length does not match the shape.
pub fn reduce<R, T, U, C>(x: &[T], shape: &[usize], axes: &[usize], out: &mut [U])
where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
    U: Load<C> + Store<C>,
{
    reduce_any::<R, C>(T::elements(x), shape, axes, U::elements_mut(out));
}

/// [`reduce`] of elements of any type.
///
/// # Panics
/// Panics if a length does not match the shape.
pub fn reduce_any<R, C>(x: Elements<'_>, shape: &[usize], axes: &[usize], out: ElementsMut<'_>)
where
    R: Reducer<C>,
    C: NumericLane,
{
    reduce_with(&ReducerLoops::<R, C>::LOOPS, x, shape, axes, out);
}

/// A stage of a reduction. The first one maps the elements; later ones merge its results.
#[derive(Clone, Copy)]
enum Stage {
    Later = 0,
    First = 1,
}

/// The loops of a reducer, the second of each pair for [`Stage::First`]; all other code of a reduction is compiled once per lane
/// type.
struct Loops<C: 'static> {
    identity: C,
    /// Reduces rows of at most one block to the elements of the result.
    rows: [fn(&[C], &mut [C]); 2],
    /// Reduces a short row, one element after the other.
    sequential: [fn(&[C]) -> C; 2],
    /// Merges rows into the accumulators.
    columns: [fn(Rows<'_, C>, &mut [C]); 2],
    /// Merges contiguous rows as long as the accumulators, one after the other.
    sequential_rows: [fn(&[C], &mut [C]); 2],
    /// Converts merged results and the number of elements to final results.
    finish: Loop<C>,
}

struct ReducerLoops<R, C>(PhantomData<(R, C)>);

impl<R: Reducer<C>, C: NumericLane> ReducerLoops<R, C> {
    const LOOPS: Loops<C> = Loops {
        identity: R::IDENTITY,
        rows: [rows::<R, C, false>, if R::MAPS { rows::<R, C, true> } else { rows::<R, C, false> }],
        sequential: [
            sequential::<R, C, false>,
            if R::MAPS { sequential::<R, C, true> } else { sequential::<R, C, false> },
        ],
        columns: [columns::<R, C, false>, if R::MAPS { columns::<R, C, true> } else { columns::<R, C, false> }],
        sequential_rows: [
            sequential_rows::<R, C, false>,
            if R::MAPS { sequential_rows::<R, C, true> } else { sequential_rows::<R, C, false> },
        ],
        finish: Loop::zip::<Finish<R>>(),
    };
}

/// [`Reducer::finish`] as a formula.
struct Finish<R>(PhantomData<fn() -> R>);

impl<R> Default for Finish<R> {
    fn default() -> Self {
        Finish(PhantomData)
    }
}

impl<R> Clone for Finish<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Finish<R> {}

impl<R: Reducer<C>, C: NumericLane> LaneFn<(C, C), C> for Finish<R> {
    #[inline(always)]
    fn call(self, (x, n): (C, C)) -> C {
        R::finish(x, n)
    }
}

fn reduce_with<C: NumericLane>(
    fold: &Loops<C>,
    x: Elements<'_>,
    shape: &[usize],
    axes: &[usize],
    mut out: ElementsMut<'_>,
) {
    assert_eq!(x.len(), shape.iter().product(), "the elements do not have shape {shape:?}");
    let kept: usize = shape.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, n)| n).product();
    assert_eq!(out.len(), kept, "the output does not have the axes of {shape:?} without {axes:?}");
    if out.is_empty() {
        return;
    }
    let count = Operand::Constant(C::count(x.len() / kept));
    let groups = groups(shape, axes);
    let mut finish = |result: &[C]| {
        apply(&fold.finish, &[Operand::Elements(C::elements(result)), count], out.part(0..kept));
    };
    if x.is_empty() || !groups.iter().any(|g| g.1) {
        with_scratch(kept, |buf: &mut [C]| {
            if x.is_empty() {
                buf.fill(fold.identity);
            } else {
                pass(fold, x, (kept, 1, 1), buf, Stage::First);
            }
            finish(buf);
        });
        return;
    }
    reduce_groups(fold, x, &groups, Stage::First, &mut finish);
}

/// Reduces the innermost reduced group, then the remaining ones, and calls `done` with the result.
fn reduce_groups<C: NumericLane>(
    fold: &Loops<C>,
    x: Elements<'_>,
    groups: &[(usize, bool)],
    stage: Stage,
    done: &mut dyn FnMut(&[C]),
) {
    let Some(reduced) = groups.iter().rposition(|g| g.1) else { return };
    let n = groups[reduced].0;
    let inner: usize = groups[reduced + 1..].iter().map(|g| g.0).product();
    let outer: usize = groups[..reduced].iter().map(|g| g.0).product();
    with_scratch(outer * inner, |buf: &mut [C]| {
        pass(fold, x, (outer, n, inner), buf, stage);
        if groups[..reduced].iter().any(|g| g.1) {
            let rest: Groups = groups[..reduced].iter().chain(&groups[reduced + 1..]).copied().collect();
            reduce_groups(fold, C::elements(buf), &rest, Stage::Later, done);
        } else {
            done(buf);
        }
    });
}

/// Reduces the middle axis of `x`: (outer, n, inner) to (outer, inner).
fn pass<C: NumericLane>(
    fold: &Loops<C>,
    x: Elements<'_>,
    (outer, n, inner): (usize, usize, usize),
    out: &mut [C],
    stage: Stage,
) {
    let block = match inner {
        1 => ROW_BLOCK,
        _ => COLUMN_BLOCK * LANES.div_ceil(inner),
    };
    let blocks = n.div_ceil(block);
    if blocks <= 1 {
        return reduce_blocks(fold, x, (outer, n, inner), n, out, stage);
    }
    with_scratch(outer * blocks * inner, |partial: &mut [C]| {
        reduce_blocks(fold, x, (outer, n, inner), block, partial, stage);
        pass(fold, C::elements(partial), (outer, blocks, inner), out, Stage::Later);
    });
}

/// Reduces each block of `block` rows: (outer, n, inner) to (outer, blocks, inner).
fn reduce_blocks<C: NumericLane>(
    fold: &Loops<C>,
    x: Elements<'_>,
    (outer, n, inner): (usize, usize, usize),
    block: usize,
    out: &mut [C],
    stage: Stage,
) {
    let blocks = n.div_ceil(block.max(1));
    let rows = outer * blocks;
    let tile = inner.min(4 * TILE);
    let chunk_rows = (GRAIN / (block * inner).max(1)).max(1);
    parallel_blocks(MatMut::new(out, rows, inner, inner), chunk_rows, tile, |row, col, mut chunk| {
        if (inner, blocks) == (1, 1) {
            let x = x.part(row * n..(row + chunk.rows()) * n);
            return fold_rows(fold, x, n, chunk.dense_mut(), stage);
        }
        for i in 0..chunk.rows() {
            let (o, b) = ((row + i) / blocks, (row + i) % blocks);
            let (from, to) = (b * block, ((b + 1) * block).min(n));
            let x = x.part((o * n + from) * inner..(o * n + to) * inner);
            let out = chunk.row_mut(i);
            match inner {
                1 => fold_rows(fold, x, to - from, out, stage),
                _ => fold_columns(fold, x, inner, col, out, stage),
            }
        }
    });
}

struct RowLoop<'a, R, C, const MAP: bool>(&'a [C], &'a mut [C], PhantomData<R>);

impl<R: Reducer<C>, C: NumericLane, const MAP: bool> Multiversioned for RowLoop<'_, R, C, MAP> {
    type Output = ();
    // Bound by memory: Zen 4 reads faster in AVX2 vectors than in AVX-512 ones.
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let RowLoop(x, out, _) = self;
        let len = x.len() / out.len();
        for (row, out) in x.chunks_exact(len).zip(out) {
            *out = reduce_row::<R, C, MAP>(row);
        }
    }
}

#[inline(always)]
fn reduce_row<R: Reducer<C>, C: NumericLane, const MAP: bool>(x: &[C]) -> C {
    let mut acc = [R::IDENTITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (a, &x) in acc.iter_mut().zip(chunk) {
            *a = R::merge(*a, if MAP { R::map(x) } else { x });
        }
    }
    if !rest.is_empty() {
        merge_rest::<R, C, MAP>(&mut acc, rest);
    }
    tree_reduce(acc, R::merge)
}

/// Merges fewer than [`LANES`] elements into the accumulators at their indices, and the identity into the others, so that whole
/// vectors are merged and the accumulators stay in registers.
#[inline(always)]
fn merge_rest<R: Reducer<C>, C: NumericLane, const MAP: bool>(acc: &mut [C; LANES], rest: &[C]) {
    const WIDTH: usize = 8;
    let map = |x: C| if MAP { R::map(x) } else { x };
    let (vectors, elements) = rest.as_chunks::<WIDTH>();
    let mut last = [R::IDENTITY; WIDTH];
    last.iter_mut().zip(elements).for_each(|(to, &x)| *to = map(x));
    for (k, acc) in acc.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let merged = match vectors.get(k) {
            Some(vector) => vector.map(map),
            None if k == vectors.len() => last,
            None => [R::IDENTITY; WIDTH],
        };
        for (a, x) in acc.iter_mut().zip(merged) {
            *a = R::merge(*a, x);
        }
    }
}

fn rows<R: Reducer<C>, C: NumericLane, const MAP: bool>(x: &[C], out: &mut [C]) {
    multiversion::run(RowLoop::<R, C, MAP>(x, out, PhantomData));
}

fn sequential<R: Reducer<C>, C: NumericLane, const MAP: bool>(x: &[C]) -> C {
    let map = |&x: &C| if MAP { R::map(x) } else { x };
    x.iter().map(map).reduce(R::merge).unwrap_or(R::IDENTITY)
}

/// Rows with fewer elements than this are reduced one element after the other.
const SHORT_ROW: usize = 16;

/// Reduces rows of `len` elements, at most [`ROW_BLOCK`], to the elements of `out`.
fn fold_rows<C: NumericLane>(fold: &Loops<C>, x: Elements<'_>, len: usize, out: &mut [C], stage: Stage) {
    let (rows, sequential) = (fold.rows[stage as usize], fold.sequential[stage as usize]);
    let reduce = |lanes: &[C], out: &mut [C]| {
        if lanes.len() < SHORT_ROW * out.len() {
            lanes.chunks_exact(len).zip(out).for_each(|(row, out)| *out = sequential(row));
        } else {
            rows(lanes, out);
        }
    };
    if let Some(lanes) = C::view_any(x) {
        return reduce(lanes, out);
    }
    let mut buf = [C::default(); TILE];
    if len <= TILE {
        let group = TILE / len;
        for (i, out) in out.chunks_mut(group).enumerate() {
            let lanes = &mut buf[..len * out.len()];
            C::load_any(x, i * group * len, lanes);
            reduce(lanes, out);
        }
        return;
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = fold.identity;
        for start in (0..len).step_by(TILE) {
            let lanes = &mut buf[..TILE.min(len - start)];
            C::load_any(x, i * len + start, lanes);
            let mut part = [fold.identity];
            rows(lanes, &mut part);
            *out = if start == 0 { part[0] } else { fold.merge(*out, part[0]) };
        }
    }
}

impl<C: NumericLane> Loops<C> {
    fn merge(&self, a: C, b: C) -> C {
        (self.sequential[0])(&[a, b])
    }
}

/// Rows with a stride in elements.
struct Rows<'a, C> {
    x: &'a [C],
    stride: usize,
    rows: usize,
}

struct Columns<'a, R, C, const MAP: bool>(Rows<'a, C>, &'a mut [C], PhantomData<R>);

impl<R: Reducer<C>, C: NumericLane, const MAP: bool> Multiversioned for Columns<'_, R, C, MAP> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let Columns(Rows { x, stride, rows }, acc, _) = self;
        let n = acc.len();
        let row = |r: usize| &x[r * stride..r * stride + n];
        let mut r = 0;
        while r + 4 <= rows {
            merge_four_rows::<R, C, MAP>(acc, row(r), row(r + 1), row(r + 2), row(r + 3));
            r += 4;
        }
        while r < rows {
            for (a, &x) in acc.iter_mut().zip(row(r)) {
                *a = R::merge(*a, if MAP { R::map(x) } else { x });
            }
            r += 1;
        }
    }
}

#[inline(always)]
fn merge_four_rows<R: Reducer<C>, C: NumericLane, const MAP: bool>(acc: &mut [C], a: &[C], b: &[C], c: &[C], d: &[C]) {
    let map = |x: C| if MAP { R::map(x) } else { x };
    let n = acc.len();
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for i in 0..n {
        let sum = R::merge(R::merge(map(a[i]), map(b[i])), R::merge(map(c[i]), map(d[i])));
        acc[i] = R::merge(acc[i], sum);
    }
}

fn columns<R: Reducer<C>, C: NumericLane, const MAP: bool>(rows: Rows<'_, C>, acc: &mut [C]) {
    multiversion::run(Columns::<R, C, MAP>(rows, acc, PhantomData));
}

fn sequential_rows<R: Reducer<C>, C: NumericLane, const MAP: bool>(x: &[C], out: &mut [C]) {
    for row in x.chunks(out.len()) {
        for (o, &x) in out.iter_mut().zip(row) {
            *o = R::merge(*o, if MAP { R::map(x) } else { x });
        }
    }
}

/// Reduces as many columns of rows of `width` elements as `out` has elements, starting at `col`.
fn fold_columns<C: NumericLane>(
    fold: &Loops<C>,
    x: Elements<'_>,
    width: usize,
    col: usize,
    out: &mut [C],
    stage: Stage,
) {
    let rows = x.len() / width;
    if width < LANES {
        return fold_narrow(fold, x, width, out, stage);
    }
    let columns = fold.columns[stage as usize];
    let lanes = C::view_any(x);
    for (t, acc) in out.chunks_mut(TILE).enumerate() {
        let (from, n) = (col + t * TILE, acc.len());
        acc.fill(fold.identity);
        if let Some(x) = lanes.and_then(|lanes| lanes.get(from..)) {
            columns(Rows { x, stride: width, rows }, acc);
            continue;
        }
        let mut buf = [C::default(); 4 * TILE];
        for r in (0..rows).step_by(4) {
            let count = (rows - r).min(4);
            for i in 0..count {
                C::load_any(x, (r + i) * width + from, &mut buf[i * TILE..i * TILE + n]);
            }
            columns(Rows { x: &buf, stride: TILE, rows: count }, acc);
        }
    }
}

/// Reduces columns of rows that are too short for vectors: several rows are treated as one, whose accumulators are merged at the
/// end.
fn fold_narrow<C: NumericLane>(fold: &Loops<C>, x: Elements<'_>, width: usize, out: &mut [C], stage: Stage) {
    let wide = LANES.div_ceil(width) * width;
    let mut acc = [fold.identity; 2 * LANES];
    let (len, whole) = (x.len(), x.len() / wide * wide);
    if whole > 0 {
        fold_columns(fold, x.part(0..whole), wide, 0, &mut acc[..wide], stage);
    }
    out.fill(fold.identity);
    (fold.sequential_rows[0])(&acc[..wide], out);
    let rest = &mut acc[..len - whole];
    C::load_any(x, whole, rest);
    (fold.sequential_rows[stage as usize])(rest, out);
}

/// Sums `x` of `shape` over the axes along which `target` (aligned at the last axis) is missing or has length 1: the gradient of
/// broadcasting `target` to `shape`.
///
/// # Panics
/// Panics if `target` cannot be broadcast to `shape`, or a length does not match its shape.
pub fn reduce_to_shape<T, C>(x: &[T], shape: &[usize], target: &[usize], out: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    reduce_to_shape_any::<C>(T::elements(x), shape, target, T::elements_mut(out));
}

/// [`reduce_to_shape`] of elements of any type.
///
/// # Panics
/// As [`reduce_to_shape`].
pub fn reduce_to_shape_any<C: NumericLane>(x: Elements<'_>, shape: &[usize], target: &[usize], out: ElementsMut<'_>) {
    let missing = missing_axes(target, shape);
    let axes: SmallVec<[usize; 6]> = (0..shape.len())
        .filter(|&i| {
            let n = if i < missing { 1 } else { target[i - missing] };
            assert!(n == shape[i] || n == 1, "shape {target:?} cannot be broadcast to {shape:?}");
            n == 1
        })
        .collect();
    reduce_any::<Sum, C>(x, shape, &axes, out);
}

#[cfg(test)]
mod tests;
