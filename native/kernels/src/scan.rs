//! Cumulative sums and products, and differences.

use crate::map::{Elements, ElementsMut, Load, Store};
use crate::par::{self, Pod, with_scratch};
use crate::reduce::NumericLane;

/// Elements per chunk; fixed, so that results do not depend on the number of threads.
const GRAIN: usize = 1 << 14;

/// The order in which the elements of an axis are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
}

/// Inclusive cumulative sums along the middle axis of `x`, (outer, n, inner). Elements are converted to lanes of type `C` first.
///
/// # Panics
/// Panics if a length does not match.
pub fn cumsum<C: NumericLane>(
    x: Elements<'_>,
    dims: (usize, usize, usize),
    direction: Direction,
    out: ElementsMut<'_>,
) {
    let len = dims.0 * dims.1 * dims.2;
    assert_eq!(x.len(), len, "the elements do not have shape {dims:?}");
    with_scratch(len, |lanes: &mut [C]| {
        par::parallel_rows(lanes, GRAIN, 1, |i, chunk| C::load_any(x, i * GRAIN, chunk));
        scan(lanes, dims, direction == Direction::Reverse);
        C::store_any(lanes, out);
    });
}

/// Cumulative products along the middle axis of `x`, (outer, n, inner), without the element itself if `exclusive`.
///
/// # Panics
/// Panics if a length does not match.
pub fn cumprod<T, C>(
    x: &[T],
    (_, n, inner): (usize, usize, usize),
    exclusive: bool,
    direction: Direction,
    out: &mut [T],
) where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    assert_eq!(x.len(), out.len(), "products for every element");
    par::parallel_rows(out, n * inner, (GRAIN / (n * inner).max(1)).max(1), |o, out| {
        let mut products = vec![C::ONE; inner];
        for k in 0..n {
            let row = if direction == Direction::Reverse { n - 1 - k } else { k } * inner;
            let x = &x[o * n * inner + row..][..inner];
            for ((out, x), product) in out[row..].iter_mut().zip(x).zip(&mut products) {
                let next = product.times(x.lane());
                *out = T::element(if exclusive { *product } else { next });
                *product = next;
            }
        }
    });
}

/// The differences of neighbors along the middle axis of `x`, (outer, n, inner): `out` has the shape (outer, n - 1, inner).
///
/// # Panics
/// Panics if a length does not match.
pub fn differences<C: NumericLane>(x: &[C], (outer, n, inner): (usize, usize, usize), out: &mut [C]) {
    let m = n.saturating_sub(1);
    assert_eq!((x.len(), out.len()), (outer * n * inner, outer * m * inner), "the differences of {n} elements");
    let minus_one = C::from_f64(-1.0);
    par::parallel_rows(out, m * inner, 1, |o, out| {
        let row = &x[o * n * inner..(o + 1) * n * inner];
        for (i, y) in out.iter_mut().enumerate() {
            *y = row[i + inner].plus(row[i].times(minus_one));
        }
    });
}

/// The gradient of [`differences`]: `x` is the gradient of the differences, of shape (outer, n, inner), and `out` has the shape
/// (outer, n + 1, inner).
///
/// # Panics
/// Panics if a length does not match.
pub fn differences_backward<C: NumericLane>(x: &[C], (outer, n, inner): (usize, usize, usize), out: &mut [C]) {
    let m = n + 1;
    assert_eq!((x.len(), out.len()), (outer * n * inner, outer * m * inner), "the gradient of {n} differences");
    let minus_one = C::from_f64(-1.0);
    par::parallel_rows(out, m * inner, 1, |o, out| {
        let row = &x[o * n * inner..(o + 1) * n * inner];
        out[n * inner..].fill(C::ZERO);
        // Element i has the coefficient -1 in difference i and 1 in difference i - 1.
        for (y, x) in out.iter_mut().zip(row) {
            *y = x.times(minus_one);
        }
        for (y, x) in out[inner..].iter_mut().zip(row) {
            *y = y.plus(*x);
        }
    });
}

fn scan<C: NumericLane + Pod>(x: &mut [C], (_, n, inner): (usize, usize, usize), from_end: bool) {
    let row = n * inner;
    if row == 0 {
        return;
    }
    if inner == 1 && n > 2 * GRAIN {
        return x.chunks_mut(n).for_each(|row| scan_long_row(row, from_end));
    }
    par::parallel_rows(x, row, (GRAIN / row).max(1), |_, rows| {
        for x in rows.chunks_mut(row) {
            if inner == 1 { scan_row(x, C::ZERO, from_end) } else { scan_columns(x, inner, from_end) }
        }
    });
}

/// The cumulative sums of a row, starting with `carry`.
fn scan_row<C: NumericLane>(x: &mut [C], carry: C, from_end: bool) {
    let mut sum = carry;
    let add = |x: &mut C| {
        sum = sum.plus(*x);
        *x = sum;
    };
    if from_end { x.iter_mut().rev().for_each(add) } else { x.iter_mut().for_each(add) }
}

/// The cumulative sums of columns: each row of `inner` elements is added to the next.
fn scan_columns<C: NumericLane>(x: &mut [C], inner: usize, from_end: bool) {
    let n = x.len() / inner;
    for i in 1..n {
        let (before, after) = x.split_at_mut(if from_end { (n - i) * inner } else { i * inner });
        let (sum, next) = match from_end {
            true => (&after[..inner], &mut before[(n - i - 1) * inner..]),
            false => (&before[(i - 1) * inner..], &mut after[..inner]),
        };
        for (x, s) in next.iter_mut().zip(sum) {
            *x = s.plus(*x);
        }
    }
}

/// The cumulative sums of a long row in parallel: those of each chunk, to which the total of the preceding chunks is added.
fn scan_long_row<C: NumericLane + Pod>(x: &mut [C], from_end: bool) {
    par::parallel_rows(x, GRAIN, 1, |_, chunk| scan_row(chunk, C::ZERO, from_end));
    let last = |chunk: &[C]| if from_end { chunk[0] } else { chunk[chunk.len() - 1] };
    let mut carries: Vec<C> = x.chunks(GRAIN).map(last).collect();
    // The carry of each chunk: the sum of all preceding chunks.
    let mut sum = C::ZERO;
    let shift = |c: &mut C| {
        let own = *c;
        *c = sum;
        sum = sum.plus(own);
    };
    if from_end {
        carries.iter_mut().rev().for_each(shift)
    } else {
        carries.iter_mut().for_each(shift)
    }
    par::parallel_rows(x, GRAIN, 1, |i, chunk| {
        for x in chunk {
            *x = carries[i].plus(*x);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(x: &[i64], (outer, n, inner): (usize, usize, usize), from_end: bool) -> Vec<i64> {
        let mut y = x.to_vec();
        for o in 0..outer {
            for i in 0..inner {
                let mut sum = 0;
                for k in 0..n {
                    let at = (o * n + if from_end { n - 1 - k } else { k }) * inner + i;
                    sum += x[at];
                    y[at] = sum;
                }
            }
        }
        y
    }

    #[test]
    fn sums_run_along_the_middle_axis() {
        for dims in [(1, 1, 1), (2, 3, 4), (3, 5, 1), (1, 100_000, 1), (2, 40_000, 1), (1, 4, 9), (0, 3, 2), (2, 0, 3)]
        {
            let x: Vec<i64> = (0..(dims.0 * dims.1 * dims.2) as i64).map(|i| i * 7 % 13 - 5).collect();
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut y = vec![0i64; x.len()];
                cumsum::<i64>(x[..].into(), dims, direction, (&mut y[..]).into());
                assert_eq!(y, naive(&x, dims, direction == Direction::Reverse), "{dims:?}");
            }
        }
    }

    #[test]
    fn elements_are_converted_first() {
        let mut y = [0i32; 3];
        cumsum::<i32>([0.6f32, 1.6, 2.6][..].into(), (1, 3, 1), Direction::Forward, (&mut y[..]).into());
        assert_eq!(y, [0, 1, 3]);
    }
}
