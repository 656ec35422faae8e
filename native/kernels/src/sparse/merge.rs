//! Unions of the indices of sparse arrays.

use super::Csr;
use crate::par::parallel_rows;
use ferromx_core::memory;

/// The union of two ascending lists, ascending.
pub fn union_rows(a: &[i64], b: &[i64]) -> Vec<i64> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    merge(a, b, |i| out.push(i));
    out
}

fn merge(a: &[i64], b: &[i64], mut put: impl FnMut(i64)) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => *x.min(y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => return,
        };
        put(next);
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
    }
}

/// The position of each element of an ascending list in another ascending list, which contains all of them.
pub fn positions(list: &[i64], within: &[i64]) -> Vec<i64> {
    let mut position = 0;
    list.iter()
        .map(|x| {
            position += within[position..].iter().position(|y| y == x).unwrap_or(0);
            position as i64
        })
        .collect()
}

/// Row pointers and column indices of the elements that at least one of two matrices stores.
pub fn union_csr<T: Sync>(a: Csr<'_, T>, b: Csr<'_, T>) -> (Vec<i64>, Vec<i64>) {
    let rows = a.rows();
    let mut indptr = memory::filled(0, rows + 1);
    parallel_rows(&mut indptr[1..], 1, a.rows_per_chunk(2), |r, n| merge(a.row(r).0, b.row(r).0, |_| n[0] += 1));
    (0..rows).for_each(|r| indptr[r + 1] += indptr[r]);
    let mut indices = Vec::with_capacity(indptr[rows] as usize);
    (0..rows).for_each(|r| merge(a.row(r).0, b.row(r).0, |c| indices.push(c)));
    (indptr, indices)
}

/// The values of a matrix for the row pointers and column indices of [`union_csr`], with zeros for elements that it does not store.
pub fn expand<T: Copy + Default>(m: Csr<'_, T>, indptr: &[i64], indices: &[i64]) -> Vec<T> {
    let mut out = memory::filled(T::default(), indices.len());
    for r in 0..m.rows() {
        let range = indptr[r] as usize..indptr[r + 1] as usize;
        let (columns, values) = m.row(r);
        for (position, v) in positions(columns, &indices[range.clone()]).into_iter().zip(values) {
            out[range.start + position as usize] = *v;
        }
    }
    out
}
