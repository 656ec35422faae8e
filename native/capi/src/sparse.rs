//! The index arrays and values of sparse arrays, for both interfaces.

use std::sync::Arc;

use ferromx_runtime::dtype::DType;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::{Tensor, copy, copy_dense};
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::sparse::{Array, FormatCheck};

/// Checks the requested element type of an index array.
///
/// # Errors
/// The type is not int64.
pub(crate) fn check_index_type(dtype: DType) -> Result<()> {
    ensure!(dtype == DType::I64, "index arrays are of type int64, not {dtype}");
    Ok(())
}

/// A copy of index array `i`, in the order of the C API.
///
/// # Errors
/// A dense array; no such index array.
pub(crate) fn index_array(tensor: &Arc<Tensor>, i: i64) -> Result<NDArray> {
    let stored = tensor.stored()?;
    let array = stored.sparse()?;
    let i = usize::try_from(i).map_err(|_| Error::Value(format!("there is no index array {i}")))?;
    array.check_aux_index(i)?;
    array.stored_indices()[i].to_context(array.context())
}

/// A copy of the stored values.
///
/// # Errors
/// A dense array.
pub(crate) fn values(tensor: &Arc<Tensor>) -> Result<NDArray> {
    let stored = tensor.stored()?;
    let array = stored.sparse()?;
    array.stored_values().to_context(array.context())
}

/// Copies an array to a dense array, or to a component of a sparse array: index array `i`, or the values (-1). Its elements are converted:
/// MXNet's Python functions accept index arrays of any type, such as the default float32.
///
/// # Errors
/// Incompatible arrays; no such component.
pub(crate) fn copy_component(target: &Arc<Tensor>, source: &Arc<Tensor>, i: i32) -> Result<()> {
    match (target.stored()?, source.stored()?) {
        (to @ Array::Sparse(_), from @ Array::Sparse(_)) if i == -1 => copy(&from, &to),
        (Array::Sparse(to), from) => {
            let from = from.dense()?;
            if i == -1 {
                to.set_values(&converted(from, to.dtype())?)
            } else {
                to.set_indices(usize::try_from(i).unwrap_or(usize::MAX), &converted(from, DType::I64)?)
            }
        }
        (Array::Dense(to), from) => {
            ensure!(i == -1, "i is {i}, but dense arrays have no index arrays: use -1");
            copy_dense(from.dense()?, &to)
        }
    }
}

/// The array with elements of a type; shares memory if they have it already.
fn converted(array: &NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let converted = NDArray::empty(array.shape(), dtype, array.context())?;
    copy_dense(array, &converted)?;
    Ok(converted)
}

/// Checks the components of a sparse array; dense arrays are always consistent.
///
/// # Errors
/// Inconsistent components.
pub(crate) fn check_format(tensor: &Arc<Tensor>, scope: FormatCheck) -> Result<()> {
    match tensor.stored()? {
        Array::Sparse(a) => a.check_format(scope),
        Array::Dense(_) => Ok(()),
    }
}
