//! Diagonals of two axes.

use super::strided::{for_each_run, gather};
use super::{Axes, Axis, Item, check_shape, contiguous, merge_axes};

/// Length of the diagonal `offset` above the main one of a matrix; negative if there is no such diagonal.
pub fn diagonal_len(rows: i64, cols: i64, offset: i64) -> i64 {
    if offset >= 0 { rows.min(cols - offset) } else { cols.min(rows + offset) }
}

/// A view of the diagonals `offset` above the main ones: its start, its merged axes, and its shape, which consists of the other axes
/// in order, then the diagonal.
fn view(shape: &[usize], pair: (usize, usize), offset: isize) -> (usize, Axes, Vec<usize>) {
    let strides = contiguous(shape);
    let (down, right) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    let n = shape[pair.0].saturating_sub(down).min(shape[pair.1].saturating_sub(right));
    let start = if n == 0 { 0 } else { down * strides[pair.0] as usize + right * strides[pair.1] as usize };
    let others = (0..shape.len()).filter(|i| *i != pair.0 && *i != pair.1);
    let mut axes: Vec<Axis> = others.map(|i| Axis { n: shape[i], stride: strides[i] }).collect();
    axes.push(Axis { n, stride: strides[pair.0] + strides[pair.1] });
    let dims = axes.iter().map(|a| a.n).collect();
    (start, merge_axes(axes), dims)
}

/// Copies the diagonals of a pair of axes, `offset` above the main ones (below, if negative): `dst` has the other axes, then the
/// diagonal.
///
/// # Panics
/// Panics if the two axes are equal or do not exist, or a length does not match.
pub fn diagonal<T: Item>(src: &[T], shape: &[usize], pair: (usize, usize), offset: isize, dst: &mut [T]) {
    assert!(pair.0 != pair.1, "a diagonal needs two axes");
    check_shape(src.len(), shape);
    let (start, axes, dims) = view(shape, pair, offset);
    check_shape(dst.len(), &dims);
    gather(src, start, &axes, dst);
}

/// Writes `src` to the diagonals of `dst` that [`diagonal`] reads.
///
/// # Panics
/// As [`diagonal`].
pub fn diagonal_assign<T: Item>(src: &[T], (dst, shape): (&mut [T], &[usize]), pair: (usize, usize), offset: isize) {
    assert!(pair.0 != pair.1, "a diagonal needs two axes");
    check_shape(dst.len(), shape);
    let (start, axes, dims) = view(shape, pair, offset);
    check_shape(src.len(), &dims);
    for_each_run(start, &axes, src.len(), |from, to, n, stride| {
        for (i, v) in src[from..from + n].iter().enumerate() {
            dst[to + i * stride.unsigned_abs()] = *v;
        }
    });
}

/// Sets the elements of the diagonal `offset` above the main one of a matrix with `cols` columns to `value`.
///
/// # Panics
/// Panics unless `dst` consists of complete rows.
pub fn diagonal_fill<T: Item>(value: T, (dst, cols): (&mut [T], usize), offset: i64) {
    let rows = dst.len().checked_div(cols).unwrap_or(0);
    assert_eq!(dst.len(), rows * cols, "{} elements are not rows of {cols}", dst.len());
    let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let (row, col) = if offset < 0 { (at(offset.unsigned_abs()), 0) } else { (0, at(offset.unsigned_abs())) };
    let n = rows.saturating_sub(row).min(cols.saturating_sub(col));
    if n > 0 {
        dst[row * cols + col..].iter_mut().step_by(cols + 1).take(n).for_each(|x| *x = value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonals_above_and_below_are_filled() {
        let filled = |offset| {
            let mut x = [0u8; 6];
            diagonal_fill(1, (&mut x, 3), offset);
            x
        };
        assert_eq!(filled(0), [1, 0, 0, 0, 1, 0]);
        assert_eq!(filled(2), [0, 0, 1, 0, 0, 0]);
        assert_eq!(filled(-1), [0, 0, 0, 1, 0, 0]);
        for outside in [3, -2, i64::MAX, i64::MIN] {
            assert_eq!(filled(outside), [0; 6]);
        }
        diagonal_fill(1u8, (&mut [], 0), 0);
    }
}
