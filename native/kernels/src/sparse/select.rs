//! Selections of stored rows and columns by ascending lists of indices. Their cost depends on what is stored, not on the shape.

use ferromx_core::memory;

use super::Csr;

/// Row pointers, column indices and values of a matrix.
pub type CsrParts<T> = (Vec<i64>, Vec<i64>, Vec<T>);

/// Bits of a digit of the radix sort in [`stable_order`].
const RADIX_BITS: u32 = 11;

/// The indices of the keys in ascending order of the keys. Equal keys keep their order.
///
/// # Panics
/// Panics if a key is negative.
pub fn stable_order(keys: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = memory::collected(0..keys.len());
    if keys.is_sorted() {
        return order;
    }
    let max = keys.iter().copied().max().unwrap_or(0);
    assert!(keys.iter().all(|k| *k >= 0), "keys of a radix sort are not negative");
    if keys.len() < 1 << RADIX_BITS {
        order.sort_by_key(|i| keys[*i]);
        return order;
    }
    let mut sorted: Vec<usize> = memory::filled(0, keys.len());
    for pass in 0..(i64::BITS - max.leading_zeros()).div_ceil(RADIX_BITS) {
        let digit = |i: usize| (keys[i] >> (pass * RADIX_BITS)) as usize & ((1 << RADIX_BITS) - 1);
        let mut next = [0usize; 1 << RADIX_BITS];
        order.iter().for_each(|i| next[digit(*i)] += 1);
        let mut before = 0;
        next.iter_mut().for_each(|n| before += std::mem::replace(n, before));
        for i in &order {
            let next = &mut next[digit(*i)];
            sorted[*next] = *i;
            *next += 1;
        }
        std::mem::swap(&mut order, &mut sorted);
    }
    order
}

/// The distinct keys in ascending order.
///
/// # Panics
/// Panics if a key is negative.
pub fn sorted_distinct(keys: &[i64]) -> Vec<i64> {
    let mut sorted: Vec<i64> = match keys.is_sorted() {
        true => memory::copied(keys),
        false => memory::collected(stable_order(keys).into_iter().map(|i| keys[i])),
    };
    sorted.dedup();
    sorted
}

/// Finds the positions of numbers in an ascending list of distinct numbers.
pub struct Positions<'a> {
    list: &'a [i64],
    /// The position of each number, plus 1; 0 for a number that is not in the list. Empty if the numbers are looked up in the list.
    table: Vec<u32>,
}

impl<'a> Positions<'a> {
    /// Prepares about `num_lookups` searches for numbers below `bound`.
    pub fn new(list: &'a [i64], bound: usize, num_lookups: usize) -> Positions<'a> {
        // A table takes time and memory for every number, but is several times as fast as a search.
        const NUMBERS_PER_LOOKUP: usize = 16;
        let is_table = bound / NUMBERS_PER_LOOKUP <= num_lookups && list.len() < u32::MAX as usize;
        let mut table = memory::filled(0, if is_table { bound } else { 0 });
        if is_table {
            list.iter().enumerate().for_each(|(position, x)| table[*x as usize] = position as u32 + 1);
        }
        Positions { list, table }
    }

    /// The position of a number; `None` if it is not in the list.
    pub fn find(&self, x: i64) -> Option<usize> {
        match self.table.get(x as usize) {
            Some(position) => (*position as usize).checked_sub(1),
            None => self.list.binary_search(&x).ok(),
        }
    }
}

/// The given rows of a matrix.
pub fn select_rows<T: Copy>(m: Csr<'_, T>, rows: &[i64]) -> CsrParts<T> {
    let stored = rows.iter().map(|r| m.row(*r as usize).0.len()).sum();
    let (mut indices, mut values) = (memory::with_capacity(stored), memory::with_capacity(stored));
    let mut indptr = memory::with_capacity(rows.len() + 1);
    indptr.push(0);
    for r in rows {
        let (columns, row) = m.row(*r as usize);
        indices.extend_from_slice(columns);
        values.extend_from_slice(row);
        indptr.push(indices.len() as i64);
    }
    (indptr, indices, values)
}

/// The given columns, an ascending list, of a matrix with `columns` columns.
pub fn select_columns<T: Copy>(m: Csr<'_, T>, selected: &[i64], columns: usize) -> CsrParts<T> {
    let positions = Positions::new(selected, columns, m.indices.len());
    let (mut indices, mut values) = (memory::with_capacity(m.indices.len()), memory::with_capacity(m.indices.len()));
    let mut indptr = memory::with_capacity(m.rows() + 1);
    indptr.push(0);
    for r in 0..m.rows() {
        let (columns, row) = m.row(r);
        for (column, value) in columns.iter().zip(row) {
            if let Some(position) = positions.find(*column) {
                indices.push(position as i64);
                values.push(*value);
            }
        }
        indptr.push(indices.len() as i64);
    }
    (indptr, indices, values)
}

/// The transpose of a matrix without empty rows: the indices of the remaining rows, and their parts.
pub fn transpose_stored<T: Copy>(m: Csr<'_, T>) -> (Vec<i64>, CsrParts<T>) {
    let order = stable_order(m.indices);
    let mut row_of = memory::with_capacity(m.indices.len());
    (0..m.rows()).for_each(|r| row_of.resize(m.indptr[r + 1] as usize, r as i64));
    let (mut rows, mut indptr) = (Vec::new(), vec![0]);
    for column in order.chunk_by(|a, b| m.indices[*a] == m.indices[*b]) {
        rows.push(m.indices[column[0]]);
        indptr.push(indptr[rows.len() - 1] + column.len() as i64);
    }
    let indices = memory::collected(order.iter().map(|i| row_of[*i]));
    let values = memory::collected(order.iter().map(|i| m.data[*i]));
    (rows, (indptr, indices, values))
}
