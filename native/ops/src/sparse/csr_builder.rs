//! Builds csr matrices row by row.

use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::sparse::SparseArray;
use ferromx_core::storage::call_once;
use ferromx_kernels::sparse::Csr as Matrix;

use super::{csr_components, csr_of};

/// The rows of a csr matrix so far.
pub(crate) struct CsrBuilder<T> {
    indptr: Vec<i64>,
    indices: Vec<i64>,
    values: Vec<T>,
}

impl<T: Copy> CsrBuilder<T> {
    /// A matrix without rows.
    pub(crate) fn new() -> Self {
        CsrBuilder { indptr: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Appends the columns `begin..end` of row `r`, with column indices relative to `begin`.
    pub(crate) fn push_row(&mut self, m: Matrix<'_, T>, r: usize, (begin, end): (i64, i64)) {
        let (columns, values) = m.row(r);
        let (a, b) = (columns.partition_point(|c| *c < begin), columns.partition_point(|c| *c < end));
        self.indices.extend(columns[a..b].iter().map(|c| c - begin));
        self.values.extend_from_slice(&values[a..b]);
        self.indptr.push(self.indices.len() as i64);
    }

    /// The row pointers, column indices and values.
    pub(crate) fn components(self) -> (Vec<i64>, Vec<i64>, Vec<T>) {
        (self.indptr, self.indices, self.values)
    }
}

/// Calls `f` with the builder and the matrix of a csr array.
pub(crate) fn append<T: Element>(
    a: &SparseArray,
    builder: &mut CsrBuilder<T>,
    f: impl FnOnce(&mut CsrBuilder<T>, Matrix<'_, T>),
) -> Result<()> {
    call_once(&csr_components(&a.components()?)?, &[], |ins, _| {
        f(builder, csr_of::<T>(ins)?);
        Ok(())
    })
}
