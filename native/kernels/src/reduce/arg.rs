//! Argmax and argmin.

use super::{Loops, Max, Min, NumericLane, ROW_BLOCK, ReducerLoops, Stage, fold_rows, reduce_with};
use crate::map::{Elements, ElementsMut, Lane, Load, Store};
use crate::par::{MatMut, parallel_blocks, with_scratch};

/// Columns in a block, whose extreme elements and indices stay in the L1 cache.
const TILE: usize = 512;

/// The index of the first largest element along the middle axis of `x`: (outer, n, inner) to (outer, inner). NaN counts as larger
/// than every number, as in MXNet.
///
/// # Panics
/// Panics if the axis is empty or a length does not match.
pub fn argmax<T, U, C>(x: &[T], dims: (usize, usize, usize), out: &mut [U])
where
    C: NumericLane,
    T: Load<C>,
    U: Store<i64>,
{
    arg::<C, true>(T::elements(x), dims, U::elements_mut(out));
}

/// The index of the first smallest element; NaN counts as smaller than every number. See [`argmax`].
///
/// # Panics
/// Panics if the axis is empty or a length does not match.
pub fn argmin<T, U, C>(x: &[T], dims: (usize, usize, usize), out: &mut [U])
where
    C: NumericLane,
    T: Load<C>,
    U: Store<i64>,
{
    arg::<C, false>(T::elements(x), dims, U::elements_mut(out));
}

/// The indices of the largest elements, or of the smallest ones.
fn arg<C: NumericLane, const LARGEST: bool>(
    x: Elements<'_>,
    (outer, n, inner): (usize, usize, usize),
    mut out: ElementsMut<'_>,
) {
    assert_eq!(x.len(), outer * n * inner, "the elements do not have shape ({outer}, {n}, {inner})");
    assert_eq!(out.len(), outer * inner, "the output does not have shape ({outer}, {inner})");
    assert!(n > 0 || out.is_empty(), "an empty axis has no extreme element");
    if n == 1 {
        let zeros = [0i64; TILE];
        return (0..out.len()).step_by(TILE).for_each(|start| {
            let end = out.len().min(start + TILE);
            i64::store_any(&zeros[..end - start], out.part(start..end));
        });
    }
    let fold: &Loops<C> = if LARGEST { &ReducerLoops::<Max, C>::LOOPS } else { &ReducerLoops::<Min, C>::LOOPS };
    if outer == 1 && inner == 1 {
        let mut best = [C::ZERO];
        reduce_with(fold, x, &[n], &[0], C::elements_mut(&mut best));
        return i64::store_any(&[index_of(x, best[0])], out);
    }
    let chunk_rows = ((1 << 15) / (n * inner).max(1)).max(1);
    with_scratch(out.len(), |indices: &mut [i64]| {
        parallel_blocks(MatMut::new(indices, outer, inner, inner), chunk_rows, TILE, |o, col, mut chunk| {
            for i in 0..chunk.rows() {
                let x = x.part((o + i) * n * inner..(o + i + 1) * n * inner);
                let out = chunk.row_mut(i);
                if inner == 1 {
                    let blocks = (0..n).step_by(ROW_BLOCK).map(|start| {
                        let block = x.part(start..n.min(start + ROW_BLOCK));
                        let mut best = [fold.identity];
                        fold_rows(fold, block, block.len(), &mut best, Stage::Later);
                        best[0]
                    });
                    let best = blocks.reduce(|a, b| fold.merge(a, b)).unwrap_or(fold.identity);
                    out[0] = index_of(x, best);
                } else {
                    columns::<C, LARGEST>(x, inner, col, out);
                }
            }
        });
        let len = indices.len();
        i64::store_any(indices, out.part(0..len));
    });
}

/// The index of the first element equal to `best`, or of the first NaN if `best` is NaN.
fn index_of<C: NumericLane>(x: Elements<'_>, best: C) -> i64 {
    let nan = best.not_a_number();
    let find = |lanes: &[C]| lanes.iter().position(|x| *x == best || nan && x.not_a_number());
    if let Some(lanes) = C::view_any(x) {
        return find(lanes).unwrap_or(0) as i64;
    }
    let mut buf = [C::ZERO; TILE];
    for start in (0..x.len()).step_by(TILE) {
        let lanes = &mut buf[..TILE.min(x.len() - start)];
        C::load_any(x, start, lanes);
        if let Some(i) = find(lanes) {
            return (start + i) as i64;
        }
    }
    0
}

/// The indices of the extreme elements of columns of rows of `width` elements, starting at column `col`.
fn columns<C: NumericLane, const LARGEST: bool>(x: Elements<'_>, width: usize, col: usize, out: &mut [i64]) {
    let n = out.len();
    let mut best = [C::ZERO; TILE];
    let mut row = [C::ZERO; TILE];
    C::load_any(x, col, &mut best[..n]);
    out.fill(0);
    for r in 1..x.len() / width {
        C::load_any(x, r * width + col, &mut row[..n]);
        for i in 0..n {
            // A NaN wins unless there is one already.
            let better = if LARGEST { row[i] > best[i] } else { row[i] < best[i] };
            let wins = better || row[i].not_a_number() && !best[i].not_a_number();
            let wins = wins && !best[i].not_a_number();
            best[i] = if wins { row[i] } else { best[i] };
            out[i] = if wins { r as i64 } else { out[i] };
        }
    }
}
