//! Lazy optimizer updates: only the rows of weight and states that the gradient stores are updated.

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{DenseForm, SparseCall};
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{read_slice, write_slice};
use ferromx_kernels::sparse::{self as kernels, Positions};

use super::cast::assign;
use super::values::rows_at;
use super::{dispatch_any, new_vector, stored_rows, with_rows};
use crate::axes::row_len;
use StorageType::RowSparse;

/// Storage rule of lazy updates: the gradient is row_sparse, the weight dense or row_sparse, and the states are stored like the weight.
pub(crate) fn lazy_update_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let states = ins[2..].iter().all(|s| *s == ins[0]);
    (ins[1] == RowSparse && ins[0] != StorageType::Csr && states).then_some(ins[0])
}

/// Storage rule of lazy updates of row_sparse operands only.
pub(crate) fn all_row_sparse_rule(_: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    ins.iter().all(|s| *s == RowSparse).then_some(RowSparse)
}

/// Like [`lazy_update_rule`], if the parameter `lazy_update` of `$P` is set.
macro_rules! lazy_rule {
    ($P:ty) => {
        |p, ins, out| if p.get::<$P>().lazy_update { $crate::sparse::lazy_update_rule(p, ins, out) } else { None }
    };
}
pub(crate) use lazy_rule;

/// Runs the dense update on the rows that the gradient stores. Rows that a row_sparse weight or state does not store are added to it.
pub(crate) fn lazy_update(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let gradient = call.ins[1].sparse()?;
    let components = gradient.components()?;
    let rows = components.indices.to_vec::<i64>()?;
    let target = match call.outs.first() {
        Some(out) => out.clone(),
        None => call.ins[0].to_context(call.ins[0].context())?,
    };
    if !target.is_same_memory(&call.ins[0]) && !call.outs.is_empty() {
        assign(&target, call.ins[0].to_context(target.context())?)?;
    }
    if rows.is_empty() {
        return Ok(vec![target]);
    }
    if has_all_rows(&call.ins[0])? {
        call.ins[2..].iter().try_for_each(store_all_rows)?;
    }
    let mut operands = Vec::with_capacity(call.ins.len());
    for (i, array) in call.ins.iter().enumerate() {
        operands.push(if i == 1 { components.data.clone() } else { Rows::of(array, &rows)?.read()? });
    }
    let mut updated = (call.dense)(&operands)?;
    let weight = updated.pop().ok_or_else(|| Error::Internal("an optimizer update returned no weight".into()))?;
    Rows::of(&target, &rows)?.write(&weight)?;
    for (state, updated) in call.ins[2..].iter().zip(&operands[2..]) {
        Rows::of(state, &rows)?.write(updated)?;
    }
    Ok(vec![target])
}

/// Adds a row_sparse array to a dense one. `add` is the sum of two dense arrays.
///
/// # Errors
/// Different shapes or types.
pub fn add_rows(target: &NDArray, rows: &SparseArray, add: DenseForm<'_>) -> Result<()> {
    let components = rows.components()?;
    if components.data.is_empty() {
        return Ok(());
    }
    let target = Rows::of(&target.clone().into(), &components.indices.to_vec::<i64>()?)?;
    let sum = add(&[target.read()?, components.data])?.pop();
    target.write(&sum.ok_or_else(|| Error::Internal("a sum has no result".into()))?)
}

/// Whether an array stores all its rows.
fn has_all_rows(array: &Array) -> Result<bool> {
    Ok(stored_rows(array)?.indices.is_none())
}

/// Makes a row_sparse state without stored rows store all of them, as in MXNet, so that it need not grow with every update.
fn store_all_rows(state: &Array) -> Result<()> {
    let Array::Sparse(a) = state else { return Ok(()) };
    if !a.components()?.indices.is_empty() {
        return Ok(());
    }
    let indices: Vec<i64> = memory::collected(0..a.shape().dim(0));
    let values = NDArray::zeros(a.shape(), a.dtype(), a.context())?;
    a.take(SparseArray::row_sparse(a.shape(), values, new_vector(&indices, a.context())?)?)
}

/// A subset of an array's rows.
struct Rows {
    /// The array itself, or the stored rows of a row_sparse array.
    data: NDArray,
    /// Indices of the rows in `data`.
    indices: Vec<i64>,
}

impl Rows {
    /// The given rows, which a row_sparse array stores afterwards.
    fn of(array: &Array, rows: &[i64]) -> Result<Rows> {
        let a = match array {
            Array::Dense(a) => {
                ensure!(
                    rows.last().is_none_or(|last| *last < a.shape().dim(0)),
                    "the gradient has more rows than the array of shape {}",
                    a.shape()
                );
                return Ok(Rows { data: a.clone(), indices: rows.to_vec() });
            }
            Array::Sparse(a) => a,
        };
        let components = a.components()?;
        if components.indices.len() as i64 == a.shape().dim(0) {
            return Ok(Rows { data: components.data, indices: rows.to_vec() });
        }
        let indices = read_slice(&components.indices, |stored: &[i64]| {
            let positions = Positions::new(stored, a.shape().dim(0) as usize, rows.len());
            rows.iter().map(|row| positions.find(*row).map(|k| k as i64)).collect::<Option<Vec<i64>>>()
        })?;
        if let Some(indices) = indices {
            return Ok(Rows { data: components.data, indices });
        }
        let union = kernels::union_rows(&components.indices.to_vec::<i64>()?, rows);
        a.take(SparseArray::row_sparse(a.shape(), rows_at(a, &union)?, new_vector(&union, a.context())?)?)?;
        Ok(Rows { data: a.components()?.data, indices: kernels::positions(rows, &union) })
    }

    /// A copy of the rows.
    fn read(&self) -> Result<NDArray> {
        let (a, len) = (&self.data, row_len(self.data.shape(), 1));
        let out = NDArray::empty(&with_rows(a.shape(), self.indices.len()), a.dtype(), a.context())?;
        dispatch_any!(a.dtype(), T => read_slice(a, |from: &[T]| {
            write_slice(&out, |to: &mut [T]| kernels::gather_rows(from, &self.indices, len, to))
        })?)?;
        Ok(out)
    }

    /// Overwrites the rows.
    fn write(&self, rows: &NDArray) -> Result<()> {
        let len = row_len(self.data.shape(), 1);
        // Only this call uses the new rows, so holding their lock cannot deadlock.
        dispatch_any!(rows.dtype(), T => read_slice(rows, |from: &[T]| {
            write_slice(&self.data, |to: &mut [T]| kernels::scatter_rows(from, &self.indices, len, to))
        })?)
    }
}
