//! Gather, scatter and other indexing by arrays of indices.
//!
//! Index arrays may have any element type; fractions are truncated. [`rows`] and [`rows_nd`] convert them to row indices, which
//! the gather and scatter kernels take.

use crate::map::{Load, Store};
use crate::movement::Item;
use crate::par;
use crate::reduce::NumericLane;
use ferromx_core::dtype::Element;

/// Minimum number of elements moved per chunk.
const GRAIN: usize = 1 << 15;

/// The treatment of indices outside the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// They are clamped to the nearest valid index.
    Clip,
    /// They are taken modulo the length of the axis.
    Wrap,
    /// They are errors.
    Raise,
}

/// An invalid index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIndex {
    /// Its position in the index array.
    pub position: usize,
    /// Its value.
    pub index: i64,
    /// The length of the axis.
    pub len: usize,
}

#[inline(always)]
fn resolve(index: i64, len: usize, bounds: Bounds) -> Option<usize> {
    if (0..len as i64).contains(&index) {
        return Some(index as usize);
    }
    match bounds {
        _ if len == 0 => None,
        Bounds::Clip => Some(index.clamp(0, len as i64 - 1) as usize),
        Bounds::Wrap => Some(index.rem_euclid(len as i64) as usize),
        Bounds::Raise => None,
    }
}

/// Resolves `indices` to row indices on an axis of `len` rows. Fractions are truncated.
///
/// # Errors
/// The first index outside the axis with [`Bounds::Raise`], or the first index of all if the axis is empty.
pub fn rows<I: Load<i64> + Load<f64>>(indices: &[I], len: usize, bounds: Bounds) -> Result<Vec<usize>, BadIndex> {
    let row = |(position, i): (usize, &I)| {
        let (index, number): (i64, f64) = (i.lane(), i.lane());
        // Before it is truncated, as in MXNet: -0.5 is an error.
        let is_outside = number < 0.0 || number > len as f64 - 1.0;
        match bounds {
            Bounds::Raise if is_outside => None,
            _ => resolve(index, len, bounds),
        }
        .ok_or(BadIndex { position, index, len })
    };
    indices.iter().enumerate().map(row).collect()
}

/// The row indices for `gather_nd` and `scatter_nd`: `indices`, (axes, m), are the coordinates of m rows on the leading axes, whose
/// lengths are `dims`. Negative coordinates count from the end.
///
/// # Errors
/// The first coordinate outside its axis.
///
/// # Panics
/// Panics unless there is one row of `indices` for each axis.
pub fn rows_nd<I: Load<i64> + Load<f64>>(indices: &[I], dims: &[usize]) -> Result<Vec<usize>, BadIndex> {
    let m = indices.len().checked_div(dims.len()).unwrap_or(0);
    assert_eq!(indices.len(), m * dims.len(), "{} indices for {} axes", indices.len(), dims.len());
    let mut rows = vec![0; m];
    for (axis, &len) in dims.iter().enumerate() {
        for (i, row) in rows.iter_mut().enumerate() {
            let position = axis * m + i;
            // In floating point, as in MXNet: -0.5 counts from the end, and 1.5 is outside an axis of length 2.
            let index: f64 = indices[position].lane();
            if !(-(len as f64)..=len as f64 - 1.0).contains(&index) {
                return Err(BadIndex { position, index: indices[position].lane(), len });
            }
            let wrapped = if index < 0.0 { index + len as f64 } else { index };
            *row = *row * len + wrapped as usize;
        }
    }
    Ok(rows)
}

/// The flat row-major indices of n elements from their coordinates, (axes, n). `lengths` are those of all axes but the first.
///
/// # Panics
/// Panics if a length does not match.
pub fn ravel<T: Load<i64> + Store<i64>>(coordinates: &[T], lengths: &[i64], out: &mut [T]) {
    let n = out.len();
    assert_eq!(coordinates.len(), n * (lengths.len() + 1), "coordinates of {n} elements on {} axes", lengths.len() + 1);
    par::parallel_rows(out, GRAIN, 1, |chunk, out| {
        for (k, out) in out.iter_mut().enumerate() {
            let i = chunk * GRAIN + k;
            let next = |number: i64, (axis, len): (usize, &i64)| {
                number.wrapping_mul(*len).wrapping_add(coordinates[(axis + 1) * n + i].lane())
            };
            *out = T::element(lengths.iter().enumerate().fold(coordinates[i].lane(), next));
        }
    });
}

/// The coordinates of elements from their flat indices: the inverse of [`ravel`].
///
/// # Panics
/// Panics if a length does not match, or is not positive.
pub fn unravel<T: Load<i64> + Store<i64> + Load<f64> + Store<f64>>(numbers: &[T], lengths: &[i64], out: &mut [T]) {
    let n = numbers.len();
    assert_eq!(out.len(), n * (lengths.len() + 1), "coordinates of {n} elements on {} axes", lengths.len() + 1);
    par::parallel_rows(out, n, 1, |axis, out| {
        let stride: i64 = lengths[axis..].iter().product();
        let len = axis.checked_sub(1).map(|axis| lengths[axis]);
        let mut lanes = [0.0; UNRAVEL_BLOCK];
        for (out, numbers) in out.chunks_mut(UNRAVEL_BLOCK).zip(numbers.chunks(UNRAVEL_BLOCK)) {
            let lanes = &mut lanes[..numbers.len()];
            <T as Load<f64>>::load(numbers, lanes);
            if unravel_axis(lanes, stride as f64, len.map(|len| len as f64)) {
                <T as Store<f64>>::store(lanes, out);
                continue;
            }
            let mut lanes = [0i64; UNRAVEL_BLOCK];
            let lanes = &mut lanes[..numbers.len()];
            <T as Load<i64>>::load(numbers, lanes);
            for number in &mut *lanes {
                let quotient = *number / stride;
                *number = len.map_or(quotient, |len| quotient % len);
            }
            <T as Store<i64>>::store(lanes, out);
        }
    });
}

/// Indices in a block of [`unravel`].
const UNRAVEL_BLOCK: usize = 512;

crate::simd::per_isa! {
    /// Computes the coordinates along one axis of length `len` (`None` for the first axis) and stride `stride`. Returns false,
    /// and changes nothing, if the indices are too large for double precision. For smaller ones the truncated quotients are exact,
    /// because no quotient is close enough to the next integer to round up to it.
    fn unravel_axis(numbers: &mut [f64], stride: f64, len: Option<f64>) -> bool {
        let small = numbers.iter().fold(true, |small, n| small & (n.abs() < (1u64 << 52) as f64));
        if small {
            match len {
                None => numbers.iter_mut().for_each(|number| *number = (number.trunc() / stride).trunc()),
                Some(len) => numbers.iter_mut().for_each(|number| {
                    let quotient = (number.trunc() / stride).trunc();
                    *number = quotient - (quotient / len).trunc() * len;
                }),
            }
        }
        small
    }
}

/// The coordinates along `axes` of all elements of an array of this shape, in row-major order.
///
/// # Panics
/// Panics if there is no such axis, or a length does not match.
pub fn coordinates(shape: &[usize], axes: &[usize], out: &mut [i64]) {
    let count: usize = shape.iter().product();
    assert_eq!(out.len(), count * axes.len(), "{} coordinates of {count} elements", axes.len());
    let inner: Vec<usize> = axes.iter().map(|axis| shape[axis + 1..].iter().product()).collect();
    par::parallel_rows(out, axes.len(), GRAIN, |i, out| {
        for (k, axis) in axes.iter().enumerate() {
            out[k] = (i / inner[k] % shape[*axis]) as i64;
        }
    });
}

/// The indices of a grid: for each axis an array of the grid's shape, with the index along that axis.
///
/// # Panics
/// Panics if the length does not match.
pub fn grid<T: Element>(shape: &[usize], out: &mut [T]) {
    let size: usize = shape.iter().product();
    assert_eq!(out.len(), size * shape.len(), "{} indices of a grid of {size} points", shape.len());
    for (axis, out) in out.chunks_exact_mut(size.max(1)).enumerate() {
        let (n, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        par::parallel_rows(out, inner, (GRAIN / inner).max(1), |i, run| run.fill(T::from_f64((i % n) as f64)));
    }
}

/// `dst[o, i] = src[o, rows[i]]` for `src` (outer, n, inner): `take`, `Embedding` (outer 1), `gather_nd`.
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn gather<T: Item>(src: &[T], (outer, n, inner): (usize, usize, usize), rows: &[usize], dst: &mut [T]) {
    assert_eq!(src.len(), outer * n * inner, "the source does not have shape ({outer}, {n}, {inner})");
    assert_eq!(dst.len(), outer * rows.len() * inner, "the destination does not have {} rows", rows.len());
    if dst.is_empty() {
        return;
    }
    let len = rows.len() * inner;
    let arrays = src.chunks_exact(n * inner);
    if outer == 1 || len > 4 * GRAIN {
        let grain = (GRAIN / inner).max(1);
        for (src, dst) in arrays.zip(dst.chunks_exact_mut(len)) {
            par::parallel_rows(dst, inner * grain, 1, |chunk, dst| {
                gather_rows(src, &rows[chunk * grain..], inner, dst)
            });
        }
        return;
    }
    par::parallel_rows(dst, len, (GRAIN / len).max(1), |i, dst| {
        gather_rows(&src[i * n * inner..(i + 1) * n * inner], rows, inner, dst)
    });
}

/// Gathers the rows that fill `dst`.
fn gather_rows<T: Item>(src: &[T], rows: &[usize], inner: usize, dst: &mut [T]) {
    match inner {
        1 => dst.iter_mut().zip(rows).for_each(|(dst, row)| *dst = src[*row]),
        2 => gather_short::<T, 2>(src, rows, dst),
        3 => gather_short::<T, 3>(src, rows, dst),
        4 => gather_short::<T, 4>(src, rows, dst),
        5 => gather_short::<T, 5>(src, rows, dst),
        6 => gather_short::<T, 6>(src, rows, dst),
        8 => gather_short::<T, 8>(src, rows, dst),
        _ => {
            for (dst, row) in dst.chunks_exact_mut(inner).zip(rows) {
                dst.copy_from_slice(&src[row * inner..(row + 1) * inner]);
            }
        }
    }
}

/// Gathers rows of `N` elements.
fn gather_short<T: Item, const N: usize>(src: &[T], rows: &[usize], dst: &mut [T]) {
    let src = src.as_chunks::<N>().0;
    dst.as_chunks_mut::<N>().0.iter_mut().zip(rows).for_each(|(dst, row)| *dst = src[*row]);
}

/// `dst[o, rows[i]] = src[o, i]` for `dst` (outer, n, inner). If a row index occurs several times, the last source row is kept.
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn scatter<T: Item>(src: &[T], rows: &[usize], shape: (usize, usize, usize), dst: &mut [T]) {
    let inner = shape.2;
    for_each_target_row(src.len(), rows, shape, dst, |from, dst| dst.copy_from_slice(&src[from..from + inner]));
}

/// `dst[o, rows[i]] = value` for `dst` (outer, n, inner).
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn fill_rows<T: Item>(value: T, rows: &[usize], shape: (usize, usize, usize), dst: &mut [T]) {
    for_each_target_row(shape.0 * rows.len() * shape.2, rows, shape, dst, |_, dst| dst.fill(value));
}

/// `dst[o, rows[i]] += src[o, i]` for `dst` (outer, n, inner), in the order of i for any number of threads: the gradient of
/// [`gather`].
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn scatter_add<T, C>(src: &[T], rows: &[usize], shape: (usize, usize, usize), dst: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    scatter_by(src, rows, shape, dst, |d: C, s: C| d.plus(s));
}

/// `dst[o, rows[i]] = combine(dst[o, rows[i]], src[o, i])`, element by element, for `dst` (outer, n, inner), in the order of i for
/// any number of threads.
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn scatter_by<T, C>(
    src: &[T],
    rows: &[usize],
    shape: (usize, usize, usize),
    dst: &mut [T],
    combine: impl Fn(C, C) -> C + Sync,
) where
    T: Load<C> + Store<C>,
{
    for_each_target_row(src.len(), rows, shape, dst, |from, dst| {
        for (d, s) in dst.iter_mut().zip(&src[from..]) {
            *d = T::element(combine(d.lane(), s.lane()));
        }
    });
}

/// Calls `f(from, dst)` with the offset of each of `len / inner` source rows and its destination row. Each chunk of the destination is
/// filled by one thread, which scans all row indices.
fn for_each_target_row<T: Send>(
    len: usize,
    rows: &[usize],
    (outer, n, inner): (usize, usize, usize),
    dst: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let array_len = rows.len() * inner;
    assert_eq!(len, outer * array_len, "the source does not have {outer} x {} rows of {inner}", rows.len());
    assert_eq!(dst.len(), outer * n * inner, "the destination does not have shape ({outer}, {n}, {inner})");
    if len == 0 {
        return;
    }
    assert!(rows.iter().all(|&r| r < n), "a row index exceeds the {n} rows of the destination");
    if outer > 1 && array_len < GRAIN {
        return par::parallel_rows(dst, n * inner, (GRAIN / array_len).max(1), |o, dst| {
            for (i, &row) in rows.iter().enumerate() {
                f(o * array_len + i * inner, &mut dst[row * inner..(row + 1) * inner]);
            }
        });
    }
    // No more chunks than threads, because each chunk scans all indices. However many there are, a row gets its sources in order of i.
    let chunk_rows = if len < GRAIN { n } else { n.div_ceil(par::num_threads()) };
    for (o, dst) in dst.chunks_exact_mut(n * inner).enumerate() {
        par::parallel_rows(dst, chunk_rows * inner, 1, |chunk, dst| {
            let first = chunk * chunk_rows;
            let targets = first..first + dst.len() / inner;
            for (i, &row) in rows.iter().enumerate().filter(|(_, row)| targets.contains(row)) {
                f(o * array_len + i * inner, &mut dst[(row - first) * inner..(row - first + 1) * inner]);
            }
        });
    }
}

/// Picks elements along the middle axis of `src`, (outer, n, inner): `dst[o, j] = src[o, rows[o, j], j]`.
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn pick<T: Item>(src: &[T], (outer, n, inner): (usize, usize, usize), rows: &[usize], dst: &mut [T]) {
    assert_eq!(src.len(), outer * n * inner, "the source does not have shape ({outer}, {n}, {inner})");
    assert!(rows.len() == dst.len() && dst.len() == outer * inner, "picking gives ({outer}, {inner}) elements");
    let inner = inner.max(1);
    for (o, (dst, rows)) in dst.chunks_exact_mut(inner).zip(rows.chunks_exact(inner)).enumerate() {
        for (j, (d, &row)) in dst.iter_mut().zip(rows).enumerate() {
            assert!(row < n, "row {row} of {n}");
            *d = src[(o * n + row) * inner + j];
        }
    }
}

/// The gradient of [`pick`]: `dst[o, rows[o, j], j] += grad[o, j]`.
///
/// # Panics
/// Panics if a row index is too large or a length does not match.
pub fn pick_add<T, C>(grad: &[T], (outer, n, inner): (usize, usize, usize), rows: &[usize], dst: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    assert_eq!(dst.len(), outer * n * inner, "the destination does not have shape ({outer}, {n}, {inner})");
    assert!(rows.len() == grad.len() && grad.len() == outer * inner, "picking gives ({outer}, {inner}) elements");
    let inner = inner.max(1);
    for (o, (grad, rows)) in grad.chunks_exact(inner).zip(rows.chunks_exact(inner)).enumerate() {
        for (j, (g, &row)) in grad.iter().zip(rows).enumerate() {
            assert!(row < n, "row {row} of {n}");
            let d = &mut dst[(o * n + row) * inner + j];
            *d = T::element(d.lane().plus(g.lane()));
        }
    }
}

/// One-hot encoding: a row of `depth` elements per index, `on` at the index and `off` elsewhere; all `off` for an index out of
/// range.
///
/// # Panics
/// Panics unless `dst` has one row per index.
pub fn one_hot<I: Load<i64>, T: Item>(indices: &[I], depth: usize, on: T, off: T, dst: &mut [T]) {
    assert_eq!(dst.len(), indices.len() * depth, "{} rows of {depth} elements", indices.len());
    let chunk = (GRAIN / depth.max(1)).max(1);
    par::parallel_rows(dst, chunk * depth, 1, |i, dst| {
        dst.fill(off);
        for (row, index) in dst.chunks_exact_mut(depth).zip(&indices[i * chunk..]) {
            if let Some(index) = resolve(index.lane(), depth, Bounds::Raise) {
                row[index] = on;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::{num_threads, set_num_threads};

    #[test]
    fn coordinates_of_numbers_of_any_size_and_sign() {
        let numbers: Vec<i64> = (-700..700).chain([1 << 40, (1 << 40) + 41, -(1 << 33), i64::MAX]).collect();
        for (numbers, lengths) in [(&numbers[..1400], [6, 7]), (&numbers[..], [6, 7]), (&numbers[..1400], [1, 1 << 35])]
        {
            let n = numbers.len();
            let mut out = vec![0i64; 3 * n];
            unravel(numbers, &lengths, &mut out);
            for (i, number) in numbers.iter().enumerate() {
                let step = lengths[0] * lengths[1];
                let want = [number / step, number / lengths[1] % lengths[0], number % lengths[1]];
                assert_eq!([out[i], out[n + i], out[2 * n + i]], want, "{number}");
            }
        }
    }

    #[test]
    fn short_rows_and_long_ones_are_gathered() {
        for inner in [1, 3, 16, 17, 40] {
            let src: Vec<i32> = (0..5 * inner as i32).collect();
            let rows: Vec<usize> = (0..3000).map(|i| i * 7 % 5).collect();
            let mut dst = vec![0; rows.len() * inner];
            gather(&src, (1, 5, inner), &rows, &mut dst);
            assert!(dst.iter().enumerate().all(|(i, d)| *d == src[rows[i / inner] * inner + i % inner]), "{inner}");
        }
    }

    #[test]
    fn indices_outside_are_clipped_wrapped_or_refused() {
        assert_eq!(rows(&[-1f32, 5.0, -4.0, 1.9], 3, Bounds::Wrap), Ok(vec![2, 2, 2, 1]));
        assert_eq!(rows(&[-1f32, 5.0, -4.0, 1.9], 3, Bounds::Clip), Ok(vec![0, 2, 0, 1]));
        assert_eq!(rows(&[0i32, 3], 3, Bounds::Raise), Err(BadIndex { position: 1, index: 3, len: 3 }));
        assert_eq!(rows(&[0u8], 0, Bounds::Clip), Err(BadIndex { position: 0, index: 0, len: 0 }));
        assert_eq!(rows_nd(&[1i64, 0, -1, 2], &[2, 3]), Ok(vec![5, 2]));
        assert_eq!(rows_nd(&[1i64, 0, -4, 2], &[2, 3]), Err(BadIndex { position: 2, index: -4, len: 3 }));
    }

    #[test]
    fn rows_are_gathered() {
        let x: Vec<u32> = (0..24).collect();
        let mut y = vec![0; 24];
        gather(&x, (2, 3, 4), &[2, 0, 2], &mut y);
        assert_eq!(y[..12], [8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(y[12..16], [20, 21, 22, 23]);
        let mut y = vec![0; 4];
        gather(&x, (2, 12, 1), &[11, 1], &mut y);
        assert_eq!(y, [11, 1, 23, 13]);
        let big: Vec<usize> = (0..50_000).map(|i| i * 7 % 24).collect();
        let mut y = vec![0; 50_000];
        gather(&x, (1, 24, 1), &big, &mut y);
        assert!(y.iter().zip(&big).all(|(y, b)| *y as usize == *b));
    }

    #[test]
    fn rows_are_scattered_within_each_array() {
        let mut y = [0u8; 12];
        scatter(&[1, 2, 3, 4, 5, 6, 7, 8], &[2, 0], (2, 3, 2), &mut y);
        assert_eq!(y, [3, 4, 0, 0, 1, 2, 7, 8, 0, 0, 5, 6]);
        fill_rows(9, &[1], (2, 3, 2), &mut y);
        assert_eq!(y, [3, 4, 9, 9, 1, 2, 7, 8, 9, 9, 5, 6]);
        fill_rows(7, &[], (2, 3, 2), &mut y);
        assert_eq!(y[2..4], [9, 9]);
        // Arrays of more than a chunk.
        let n = GRAIN + 5;
        let src: Vec<u32> = (0..2 * n as u32).collect();
        let reversed: Vec<usize> = (0..n).rev().collect();
        let mut y = vec![0; 2 * n];
        scatter(&src, &reversed, (2, n, 1), &mut y);
        assert!(y.iter().enumerate().all(|(i, y)| *y as usize == i / n * n + n - 1 - i % n));
    }

    #[test]
    fn indices_of_a_grid() {
        let mut out = [0f32; 18];
        grid(&[3, 3], &mut out);
        assert_eq!(out, [0., 0., 0., 1., 1., 1., 2., 2., 2., 0., 1., 2., 0., 1., 2., 0., 1., 2.]);
        grid(&[0, 3], &mut out[..0]);
    }

    #[test]
    fn scattering_is_ordered() {
        let mut y = [9u8; 6];
        scatter(&[1, 2, 3, 4, 5, 6], &[2, 0, 2], (1, 3, 2), &mut y);
        assert_eq!(y, [3, 4, 9, 9, 5, 6]);
        let (m, n, inner) = (3000, 50, 20);
        let x: Vec<f32> = (0..m * inner).map(|i| (i % 977) as f32 * 0.37).collect();
        let rows: Vec<usize> = (0..m).map(|i| i * i % n).collect();
        let mut want = vec![1f32; n * inner];
        for (i, &r) in rows.iter().enumerate() {
            for j in 0..inner {
                want[r * inner + j] += x[i * inner + j];
            }
        }
        let before = num_threads();
        for threads in [1, 2] {
            set_num_threads(threads);
            let mut y = vec![1f32; n * inner];
            scatter_add::<f32, f32>(&x, &rows, (1, n, inner), &mut y);
            assert_eq!(y, want);
        }
        set_num_threads(before);
    }

    #[test]
    fn single_elements() {
        let x = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut y = [0f32; 2];
        pick(&x, (2, 3, 1), &[2, 0], &mut y);
        assert_eq!(y, [3.0, 4.0]);
        pick(&x, (1, 3, 2), &[2, 0], &mut y);
        assert_eq!(y, [5.0, 2.0]);
        let mut g = [1f32; 6];
        pick_add::<f32, f32>(&[10.0, 20.0], (1, 3, 2), &[2, 0], &mut g);
        assert_eq!(g, [1.0, 21.0, 1.0, 1.0, 11.0, 1.0]);
        let mut y = [0u8; 9];
        one_hot(&[1.7f32, -1.0, 3.0], 3, 7, 2, &mut y);
        assert_eq!(y, [2, 7, 2, 2, 2, 2, 2, 2, 2]);
    }
}
