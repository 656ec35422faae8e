//! The singular value decomposition.

use super::{Scalar, axpy, dot, transpose, turn};
use crate::par::with_scratch;

/// Sweeps over all pairs of rows; about ten are usual in double precision.
const MAX_SWEEPS: usize = 60;

/// The decomposition A = U diag(s) V of a matrix of `m` x `n` elements: with k the smaller of m and n, U of `m` x `k` elements has
/// orthonormal columns, V of `k` x `n` elements orthonormal rows, and the singular values decrease.
///
/// Rotations make the rows of A orthogonal pair by pair (one-sided Jacobi; Demmel and Veselić, Jacobi's method is more accurate than
/// QR, 1992).
///
/// # Errors
/// The number of sweeps, if they do not converge, as with NaN and infinities.
///
/// # Panics
/// If a length does not fit.
pub fn svd<T: Scalar>(a: &[T], m: usize, n: usize, u: &mut [T], s: &mut [T], v: &mut [T]) -> Result<(), usize> {
    let k = m.min(n);
    assert_eq!((a.len(), u.len()), (m * n, m * k), "a matrix of {m} x {n} elements and its left vectors");
    assert_eq!((s.len(), v.len()), (k, k * n), "the singular values and right vectors of {m} x {n} elements");
    with_scratch(m * n + k * k, |work: &mut [T]| {
        let (rows, rotation) = work.split_at_mut(m * n);
        if m <= n {
            rows.copy_from_slice(a);
            orthogonalize(rows, n, rotation, s)?;
            v.copy_from_slice(rows);
            transpose(rotation, k, k, u);
        } else {
            transpose(a, m, n, rows);
            orthogonalize(rows, m, rotation, s)?;
            transpose(rows, k, m, u);
            v.copy_from_slice(rotation);
        }
        Ok(())
    })
}

/// Takes rows of `n` elements to orthonormal ones times the values `s`, which decrease, and writes the rotation R for which R A = s
/// times rows.
fn orthogonalize<T: Scalar>(rows: &mut [T], n: usize, rotation: &mut [T], s: &mut [T]) -> Result<(), usize> {
    let k = s.len();
    rotation.fill(T::zero());
    (0..k).for_each(|i| rotation[i * k + i] = T::one());
    for sweep in 0.. {
        // The squares of the lengths change with every rotation and would drift away in the end.
        s.iter_mut().zip(rows.chunks_exact(n)).for_each(|(s, row)| *s = dot(row, row));
        let mut rotated = false;
        for p in 0..k {
            for q in p + 1..k {
                rotated |= rotate_pair(rows, n, rotation, s, (p, q));
            }
        }
        if !rotated {
            break;
        }
        if sweep == MAX_SWEEPS {
            return Err(sweep);
        }
    }
    for (i, s) in s.iter_mut().enumerate() {
        let row = &rows[i * n..(i + 1) * n];
        *s = dot(row, row).sqrt();
    }
    if s.iter().any(|s| !s.is_finite()) {
        return Err(0);
    }
    sort(rows, n, rotation, s);
    normalize(rows, n, s);
    Ok(())
}

/// Two of the rows of `n` elements.
fn pair<T>(rows: &mut [T], n: usize, (p, q): (usize, usize)) -> (&mut [T], &mut [T]) {
    let (upper, lower) = rows.split_at_mut(q * n);
    (&mut upper[p * n..(p + 1) * n], &mut lower[..n])
}

/// Makes two rows orthogonal, of whose lengths the squares are known; whether they were not before.
fn rotate_pair<T: Scalar>(rows: &mut [T], n: usize, rotation: &mut [T], squares: &mut [T], at: (usize, usize)) -> bool {
    let (x, y) = pair(rows, n, at);
    let (xx, yy, xy) = (squares[at.0], squares[at.1], dot(x, y));
    // The product of two rows is not known any better than this.
    let bound = T::epsilon() * T::from(n).unwrap_or(T::one()).sqrt();
    if xy == T::zero() || xy.abs() <= bound * (xx * yy).sqrt() {
        return false;
    }
    let zeta = (yy - xx) / (xy + xy);
    let t = T::one() / (zeta.abs() + zeta.hypot(T::one()));
    let t = if zeta < T::zero() { -t } else { t };
    let c = T::one() / t.hypot(T::one());
    turn(x, y, c, c * t);
    (squares[at.0], squares[at.1]) = (xx - t * xy, yy + t * xy);
    let (x, y) = pair(rotation, squares.len(), at);
    turn(x, y, c, c * t);
    // Rotations below the precision of the numbers change nothing any more.
    t.abs() > T::epsilon()
}

/// Sorts the values in decreasing order, and the rows with them.
fn sort<T: Scalar>(rows: &mut [T], n: usize, rotation: &mut [T], s: &mut [T]) {
    let k = s.len();
    for i in 0..k {
        let largest = (i..k).fold(i, |best, j| if s[j] > s[best] { j } else { best });
        if largest != i {
            s.swap(i, largest);
            let (x, y) = pair(rows, n, (i, largest));
            x.swap_with_slice(y);
            let (x, y) = pair(rotation, k, (i, largest));
            x.swap_with_slice(y);
        }
    }
}

/// Divides the rows by their lengths. Rows of nothing but rounding errors become any that are orthogonal to the others.
fn normalize<T: Scalar>(rows: &mut [T], n: usize, s: &mut [T]) {
    let tiny = s.first().map_or(T::zero(), |s| *s * T::epsilon() * T::epsilon());
    for (i, value) in s.iter_mut().enumerate() {
        let (done, rest) = rows.split_at_mut(i * n);
        let row = &mut rest[..n];
        if *value > tiny {
            row.iter_mut().for_each(|x| *x /= *value);
            continue;
        }
        *value = T::zero();
        // One of the unit vectors has a large part that is orthogonal to the rows before.
        for unit in 0..n {
            row.fill(T::zero());
            row[unit] = T::one();
            for _ in 0..2 {
                for other in done.chunks_exact(n) {
                    axpy(-dot(other, row), other, row);
                }
            }
            let length = dot(row, row).sqrt();
            if length * length * (T::one() + T::one()) * T::from(n).unwrap_or(T::one()) >= T::one() {
                row.iter_mut().for_each(|x| *x /= length);
                break;
            }
        }
    }
}
