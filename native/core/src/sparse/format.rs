//! Checks of the components of sparse arrays, and sorting of their indices.

use super::{Components, StorageType};
use crate::dtype::{bf16, f16};
use crate::error::{Error, Result};
use crate::ndarray::NDArray;
use crate::shape::Shape;
use crate::{dispatch, ensure, memory, storage};

/// Checks that the lengths of the components are consistent.
pub(super) fn check_lengths(storage_type: StorageType, shape: &Shape, components: &Components) -> Result<()> {
    let stored = components.indices.len();
    let values = components.data.shape().dims().first().copied().unwrap_or(0) as usize;
    ensure!(
        values == stored,
        "a {storage_type} array of shape {shape} holds {values} values{} and {stored} indices: set the same number of both",
        if storage_type == StorageType::RowSparse { " (rows)" } else { "" }
    );
    let Some(indptr) = &components.indptr else { return Ok(()) };
    let rows = shape.dim(0);
    ensure!(
        indptr.len() as i64 == rows + 1,
        "the indptr of a csr array of shape {shape} has {} elements, but {} were expected",
        indptr.len(),
        rows + 1
    );
    Ok(())
}

/// Checks that the row pointers of a csr array ascend from 0 to the number of stored values.
pub(super) fn check_bounds(indptr: &NDArray, stored: usize) -> Result<()> {
    let bounds = indptr.to_vec::<i64>()?;
    let limits = (bounds.first().copied(), bounds.last().copied());
    ensure!(
        limits == (Some(0), Some(stored as i64)) && bounds.is_sorted(),
        "the indptr of a csr array must ascend from 0 to the number of values, {stored}"
    );
    Ok(())
}

/// Checks that the components are consistent, so that no kernel indexes out of bounds.
pub(super) fn check(storage_type: StorageType, shape: &Shape, components: &Components) -> Result<()> {
    check_lengths(storage_type, shape, components)?;
    if let Some(indptr) = &components.indptr {
        check_bounds(indptr, components.indices.len())?;
    }
    let (bounds, limit, axis_name) = match &components.indptr {
        Some(indptr) => (indptr.to_vec::<i64>()?, shape.dim(1), "column"),
        None => (vec![0, components.indices.len() as i64], shape.dim(0), "row"),
    };
    storage::read_slice(&components.indices, |indices: &[i64]| {
        bounds.windows(2).try_for_each(|w| check_indices(&indices[w[0] as usize..w[1] as usize], limit, axis_name))
    })?
}

/// Sorts the indices (within each row of a csr array), and the values with them.
pub(super) fn sort(components: &mut Components) -> Result<()> {
    let bounds = match &components.indptr {
        Some(indptr) => indptr.to_vec::<i64>()?,
        None => vec![0, components.indices.len() as i64],
    };
    let rows = || bounds.windows(2).map(|w| w[0] as usize..w[1] as usize);
    if storage::read_slice(&components.indices, |indices: &[i64]| rows().all(|row| indices[row].is_sorted()))? {
        return Ok(());
    }
    let indices = components.indices.to_vec::<i64>()?;
    let mut order = memory::collected(0..indices.len());
    // Equal indices keep their order. An unstable sort takes no memory.
    rows().for_each(|row| order[row].sort_unstable_by_key(|i| (indices[*i], *i)));
    let sorted = memory::collected(order.iter().map(|i| indices[*i]));
    let context = components.indices.context();
    components.indices = NDArray::from_slice(&sorted, components.indices.shape().dims())?.to_context(context)?;
    components.data = dispatch!(components.data.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let values = components.data.to_vec::<T>()?;
        let width = values.len() / indices.len();
        let mut sorted_values: Vec<T> = memory::with_capacity(values.len());
        order.iter().for_each(|i| sorted_values.extend_from_slice(&values[i * width..(i + 1) * width]));
        NDArray::from_slice(&sorted_values, components.data.shape().dims())?.to_context(context)?
    }, other => return Err(Error::Internal(format!("a sparse array of {other}"))));
    Ok(())
}

fn check_indices(indices: &[i64], bound: i64, axis_name: &str) -> Result<()> {
    let is_ascending = indices.windows(2).all(|w| w[0] < w[1]);
    ensure!(is_ascending, "the {axis_name} indices of a sparse array must ascend without repetition");
    if let (Some(first), Some(last)) = (indices.first(), indices.last()) {
        let invalid = if *first < 0 { first } else { last };
        ensure!(*first >= 0 && *last < bound, "{axis_name} index {invalid} is outside 0 to {} (exclusive)", bound);
    }
    Ok(())
}
