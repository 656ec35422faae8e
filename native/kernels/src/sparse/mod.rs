//! Sparse matrices: conversion, merging, transposition and products. Arithmetic on stored values is left to the dense kernels.
//!
//! A CSR matrix is a [`Csr`]: row pointers, column indices in ascending order, values. Callers have validated all indices.
//!
//! - `format`: conversion between dense and sparse formats.
//! - `merge`: unions of indices.
//! - `product`: products, transposes and sums.
//! - `select`: selections of stored rows and columns.
//! - `graph`: neighborhood sampling in graphs.

mod format;
mod graph;
mod merge;
mod product;
mod select;

pub use format::{dense_to_csr, gather, gather_found_rows, gather_rows, nonzero_rows, scatter_rows, to_dense};
pub use graph::{Sample, Sampling, between};
pub use merge::{expand, positions, union_csr, union_rows};
pub use product::{MulAdd, column_sums, dense_product, product, row_sums};
pub use select::{CsrParts, Positions, select_columns, select_rows, sorted_distinct, stable_order, transpose_stored};

/// Minimum number of stored elements per chunk.
const GRAIN: usize = 1 << 14;

/// A compressed sparse row (CSR) matrix: the values of row r, ascending by column, are `indptr[r]..indptr[r + 1]`.
#[derive(Clone, Copy)]
pub struct Csr<'a, T> {
    /// Row pointers: one more than there are rows.
    pub indptr: &'a [i64],
    /// Column of each value.
    pub indices: &'a [i64],
    /// The values.
    pub data: &'a [T],
}

impl<'a, T> Csr<'a, T> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Columns and values of a row.
    pub fn row(&self, r: usize) -> (&'a [i64], &'a [T]) {
        let range = self.indptr[r] as usize..self.indptr[r + 1] as usize;
        (&self.indices[range.clone()], &self.data[range])
    }

    /// Rows per chunk, if each stored element costs `work`.
    fn rows_per_chunk(&self, work: usize) -> usize {
        let rows = self.rows().max(1);
        let per_row = (self.indices.len() / rows + 1) * work.max(1);
        (GRAIN / per_row).max(1)
    }
}

/// Splits two slices of stored elements at the row pointers: chunk k holds the rows `k * grain..(k + 1) * grain`.
fn split_rows<'s, T, U>(
    indptr: &[i64],
    grain: usize,
    mut first: &'s mut [T],
    mut second: &'s mut [U],
) -> Vec<(&'s mut [T], &'s mut [U])> {
    let rows = indptr.len().saturating_sub(1);
    (0..rows)
        .step_by(grain.max(1))
        .map(|begin| {
            let end = (begin + grain.max(1)).min(rows);
            let n = (indptr[end] - indptr[begin]) as usize;
            let (a, b) = (std::mem::take(&mut first).split_at_mut(n), std::mem::take(&mut second).split_at_mut(n));
            (first, second) = (a.1, b.1);
            (a.0, b.0)
        })
        .collect()
}

#[cfg(test)]
mod tests;
