//! Argmax and argmin.

use super::{Max, Min, NumericLane, Reducer, fold_row, reduce};
use crate::map::{Load, Store};
use crate::par::{MatMut, parallel_blocks};

/// Columns processed together; their best elements and positions stay in the first-level cache.
const TILE: usize = 512;

/// The first position of the largest element along the middle axis of `x`: (outer, n, inner) to (outer, inner). NaN counts as
/// larger than every number, as in MXNet.
///
/// # Panics
/// If the axis is empty or a length does not match.
pub fn argmax<T, U, C>(x: &[T], dims: (usize, usize, usize), out: &mut [U])
where
    C: NumericLane,
    T: Load<C>,
    U: Store<i64>,
{
    arg::<Max, T, U, C>(x, dims, out, |new, best| new > best);
}

/// The first position of the smallest element; NaN counts as smaller than every number. See [`argmax`].
///
/// # Panics
/// If the axis is empty or a length does not match.
pub fn argmin<T, U, C>(x: &[T], dims: (usize, usize, usize), out: &mut [U])
where
    C: NumericLane,
    T: Load<C>,
    U: Store<i64>,
{
    arg::<Min, T, U, C>(x, dims, out, |new, best| new < best);
}

fn arg<R, T, U, C>(
    x: &[T],
    (outer, n, inner): (usize, usize, usize),
    out: &mut [U],
    better: impl Fn(C, C) -> bool + Sync,
) where
    R: Reducer<C>,
    C: NumericLane,
    T: Load<C>,
    U: Store<i64>,
{
    assert_eq!(x.len(), outer * n * inner, "the elements do not have shape ({outer}, {n}, {inner})");
    assert_eq!(out.len(), outer * inner, "the output does not have shape ({outer}, {inner})");
    assert!(n > 0 || out.is_empty(), "an empty axis has no extreme element");
    if outer == 1 && inner == 1 {
        let mut best = [C::ZERO];
        reduce::<R, T, C, C>(x, &[n], &[0], &mut best);
        out[0] = U::element(position(x, best[0]));
        return;
    }
    let together = ((1 << 15) / (n * inner).max(1)).max(1);
    parallel_blocks(MatMut::new(out, outer, inner, inner), together, TILE, |o, col, mut part| {
        for i in 0..part.rows() {
            let x = &x[(o + i) * n * inner..(o + i + 1) * n * inner];
            let out = part.row_mut(i);
            if inner == 1 {
                let blocks = x.chunks(super::ROW_BLOCK).map(fold_row::<R, T, C, false>);
                let best = blocks.reduce(R::merge).unwrap_or(R::IDENTITY);
                out[0] = U::element(position(x, best));
            } else {
                columns(x, inner, col, out, &better);
            }
        }
    });
}

/// The first element equal to `best`, or the first NaN if `best` is NaN.
fn position<T: Load<C>, C: NumericLane>(x: &[T], best: C) -> i64 {
    let nan = best.not_a_number();
    let found = |x: &T| {
        let x: C = x.lane();
        x == best || nan && x.not_a_number()
    };
    x.iter().position(found).unwrap_or(0) as i64
}

fn columns<T: Load<C>, U: Store<i64>, C: NumericLane>(
    x: &[T],
    width: usize,
    col: usize,
    out: &mut [U],
    better: impl Fn(C, C) -> bool,
) {
    let n = out.len();
    let mut best = [C::ZERO; TILE];
    let mut position = [0i64; TILE];
    let mut row = [C::ZERO; TILE];
    T::load(&x[col..col + n], &mut best[..n]);
    for (r, x) in x.chunks_exact(width).enumerate().skip(1) {
        T::load(&x[col..col + n], &mut row[..n]);
        for i in 0..n {
            // A NaN wins unless there is one already.
            let wins = better(row[i], best[i]) || row[i].not_a_number() && !best[i].not_a_number();
            let wins = wins && !best[i].not_a_number();
            best[i] = if wins { row[i] } else { best[i] };
            position[i] = if wins { r as i64 } else { position[i] };
        }
    }
    for (o, &p) in out.iter_mut().zip(&position) {
        *o = U::element(p);
    }
}
