//! Conversion between dense and sparse formats.

use super::{Csr, GRAIN, split_rows};
use crate::par::{parallel_rows, parallel_rows2};
use ferromx_core::memory;

/// Rows per chunk for rows of `len` elements.
fn rows_per_chunk(len: usize) -> usize {
    (GRAIN / len.max(1)).max(1)
}

/// Writes a CSR matrix with `columns` columns as a dense one.
pub fn to_dense<T: Copy + Default + Send + Sync>(m: Csr<'_, T>, columns: usize, out: &mut [T]) {
    parallel_rows(out, columns, rows_per_chunk(columns), |r, out| {
        out.fill(T::default());
        let (indices, values) = m.row(r);
        for (c, v) in indices.iter().zip(values) {
            out[*c as usize] = *v;
        }
    });
}

/// Row pointers, column indices and values of the nonzero elements of a dense matrix.
pub fn dense_to_csr<T>(dense: &[T], rows: usize, columns: usize) -> (Vec<i64>, Vec<i64>, Vec<T>)
where
    T: Copy + Default + PartialEq + Send + Sync,
{
    let (zero, grain) = (T::default(), rows_per_chunk(columns));
    let row = |r: usize| &dense[r * columns..(r + 1) * columns];
    let mut indptr = memory::filled(0, rows + 1);
    parallel_rows(&mut indptr[1..], 1, grain, |r, n| n[0] = row(r).iter().filter(|x| **x != zero).count() as i64);
    (0..rows).for_each(|r| indptr[r + 1] += indptr[r]);
    let stored = indptr[rows] as usize;
    let (mut indices, mut values) = (memory::filled(0i64, stored), memory::filled(zero, stored));
    let mut chunks = split_rows(&indptr, grain, &mut indices, &mut values);
    parallel_rows(&mut chunks, 1, 1, |k, chunk| {
        let (indices, values) = &mut chunk[0];
        let first = k * grain;
        let nonzeros =
            (first..(first + grain).min(rows)).flat_map(|r| row(r).iter().enumerate()).filter(|(_, x)| **x != zero);
        for ((to_index, to_value), (c, x)) in indices.iter_mut().zip(values.iter_mut()).zip(nonzeros) {
            (*to_index, *to_value) = (c as i64, *x);
        }
    });
    (indptr, indices, values)
}

/// Indices of the rows of `len` elements that have a nonzero element.
pub fn nonzero_rows<T: Copy + Default + PartialEq + Send + Sync>(dense: &[T], rows: usize, len: usize) -> Vec<i64> {
    let zero = T::default();
    let mut flags = memory::filled(false, rows);
    parallel_rows(&mut flags, 1, rows_per_chunk(len), |r, flag| {
        flag[0] = dense[r * len..(r + 1) * len].iter().any(|x| *x != zero);
    });
    memory::collected((0..rows as i64).filter(|r| flags[*r as usize]))
}

/// Copies the rows with the given indices to consecutive rows of `out`.
pub fn gather_rows<T: Copy + Send + Sync>(source: &[T], indices: &[i64], len: usize, out: &mut [T]) {
    parallel_rows(out, len, rows_per_chunk(len), |k, out| {
        let begin = indices[k] as usize * len;
        out.copy_from_slice(&source[begin..begin + out.len()]);
    });
}

/// Copies the rows at the given positions to consecutive rows of `out`. A row without a position becomes zero.
pub fn gather_found_rows<T: Copy + Default + Send + Sync>(
    source: &[T],
    position: impl Fn(usize) -> Option<usize> + Sync,
    len: usize,
    out: &mut [T],
) {
    parallel_rows(out, len, rows_per_chunk(len), |k, out| match position(k) {
        Some(at) => out.copy_from_slice(&source[at * len..at * len + out.len()]),
        None => out.fill(T::default()),
    });
}

/// Copies consecutive rows of `source` to the rows of `out` with the given ascending indices.
pub fn scatter_rows<T: Copy + Send + Sync>(source: &[T], indices: &[i64], len: usize, out: &mut [T]) {
    if len == 0 {
        return;
    }
    // Ascending indices split the output into disjoint slices, one for each chunk of rows to write.
    let grain = rows_per_chunk(len);
    let (mut rest, mut begin) = (out, 0);
    let mut slices: Vec<&mut [T]> = indices
        .chunks(grain)
        .map(|rows| {
            let (first, end) = (rows[0] as usize, rows[rows.len() - 1] as usize + 1);
            let tail = &mut std::mem::take(&mut rest)[(first - begin) * len..];
            let (slice, after) = tail.split_at_mut((end - first) * len);
            (rest, begin) = (after, end);
            slice
        })
        .collect();
    parallel_rows(&mut slices, 1, 1, |k, slice| {
        let (rows, source) = (&indices[k * grain..], &source[k * grain * len..]);
        for (row, from) in rows.iter().zip(source.chunks_exact(len)).take(grain) {
            let at = (row - rows[0]) as usize * len;
            slice[0][at..at + len].copy_from_slice(from);
        }
    });
}

/// The elements of a dense matrix with `columns` columns at the stored coordinates of a sparse one.
pub fn gather<T, U>(m: Csr<'_, T>, dense: &[U], columns: usize, out: &mut [U])
where
    T: Sync,
    U: Copy + Send + Sync,
{
    let grain = m.rows_per_chunk(1);
    let mut nothing = vec![(); out.len()];
    let mut chunks = split_rows(m.indptr, grain, out, &mut nothing);
    parallel_rows2((&mut chunks, 1), (&mut vec![(); m.rows().div_ceil(grain)], 1), 1, |k, chunk, _| {
        let mut to = chunk[0].0.iter_mut();
        for r in k * grain..((k + 1) * grain).min(m.rows()) {
            let row = &dense[r * columns..(r + 1) * columns];
            for (c, to) in m.row(r).0.iter().zip(&mut to) {
                *to = row[*c as usize];
            }
        }
    });
}
