//! What both faces do with the parts of sparse arrays.

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::sparse::Array;
use ferromx_runtime::imperative::Tensor;

/// Checks the element type that index arrays are asked to have.
///
/// # Errors
/// Anything but int64.
pub fn check_index_type(dtype: DType) -> Result<()> {
    ensure!(dtype == DType::I64, "index arrays are of type int64, not {dtype}");
    Ok(())
}

/// A copy of an index array, in the order of the C API.
///
/// # Errors
/// A dense array; no such index array.
pub fn index_array(tensor: &Arc<Tensor>, i: i64) -> Result<NDArray> {
    let stored = tensor.stored()?;
    let array = stored.sparse()?;
    let i = usize::try_from(i).map_err(|_| Error::Value(format!("there is no index array number {i}")))?;
    array.check_part(i)?;
    array.stored_indices()[i].to_context(array.context())
}

/// A copy of the stored values.
///
/// # Errors
/// A dense array.
pub fn values(tensor: &Arc<Tensor>) -> Result<NDArray> {
    let stored = tensor.stored()?;
    let array = stored.sparse()?;
    array.stored_values().to_context(array.context())
}

/// Copies an array over another one, or over a part of it: index array `i`, or the values (-1).
///
/// # Errors
/// Arrays that do not fit; no such part.
pub fn copy_part(target: &Arc<Tensor>, source: &Arc<Tensor>, i: i32) -> Result<()> {
    match (target.stored()?, source.stored()?) {
        (Array::Sparse(to), Array::Sparse(from)) if i == -1 => to.copy_from(&from),
        (Array::Sparse(to), from) => {
            let from = from.dense()?;
            if i == -1 { to.set_values(from) } else { to.set_indices(usize::try_from(i).unwrap_or(usize::MAX), from) }
        }
        (Array::Dense(to), from) => {
            ensure!(i == -1, "part {i} was asked for, but dense arrays have one part: use -1");
            to.copy_from(from.dense()?)
        }
    }
}

/// Checks the parts of a sparse array.
///
/// # Errors
/// Parts that do not fit together.
pub fn check_format(tensor: &Arc<Tensor>) -> Result<()> {
    match tensor.stored()? {
        Array::Sparse(a) => a.check_format(),
        Array::Dense(_) => Ok(()),
    }
}
