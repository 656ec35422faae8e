//! Array functions of the C API that are not operators: creation, views and conversion.

use ferromx_core::context::Context;
use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray};
use ferromx_core::storage::{self, Req};
use ferromx_ops::shape::reshape::target_shape;
pub use ferromx_ops::sparse::cast::to_dense;

use crate::semantics;

/// The element type of a C API code; -1 means `float32`.
///
/// # Errors
/// An unknown code.
pub fn dtype_of_code(code: i32) -> Result<DType> {
    if code == -1 {
        return Ok(DType::F32);
    }
    let codes = DType::ALL.map(|d| format!("{} ({d})", d.code())).join(", ");
    DType::from_code(code).ok_or_else(|| Error::Value(format!("type code {code} is unknown: use one of {codes}")))
}

/// Zeros of the shape, type, storage type and device of an array.
pub(crate) fn zeros_like(array: &Array) -> Result<Array> {
    Ok(match array {
        Array::Dense(a) => NDArray::zeros(a.shape(), a.dtype(), a.context())?.into(),
        Array::Sparse(a) => SparseArray::zeros(a.storage_type(), a.shape(), a.dtype(), a.context())?.into(),
    })
}

/// Sets every element of a floating-point array. An array that already holds the value keeps its version, so that caches derived from it
/// stay valid. A read-only array is not changed.
pub(crate) fn fill(array: &NDArray, value: f64) -> Result<()> {
    dispatch!(array.dtype(), T in [f32, f64, f16, bf16] => {
        let value = T::from_f64(value);
        let is_filled = storage::read_slice(array, |items: &[T]| items.iter().all(|x| *x == value))?;
        if is_filled || array.is_read_only() {
            return Ok(());
        }
        storage::call_once(&[], &[(array, Req::Write)], |_, outs| {
            outs[0].slice_mut::<T>()?.fill(value);
            Ok(())
        })
    }, _other => Ok(()))
}

/// An uninitialized array.
///
/// # Errors
/// An incomplete shape, an unknown type code, out of memory.
pub fn create(shape: &Shape, dtype: i32, context: Context) -> Result<NDArray> {
    NDArray::empty(shape, dtype_of_code(dtype)?, context)
}

fn row_index(x: i64, rows: i64, name: &str) -> Result<usize> {
    ensure!((0..=rows).contains(&x), "{name} {x} is outside the first axis, which has {rows} rows");
    Ok(x as usize)
}

/// Rows `begin..end`, sharing memory.
///
/// # Errors
/// Indices outside the first axis.
pub fn slice(array: &NDArray, begin: i64, end: i64) -> Result<NDArray> {
    let rows = array.shape().dims().first().copied().unwrap_or(0);
    array.slice(row_index(begin, rows, "begin")?, row_index(end, rows, "end")?)
}

/// Row `index`, sharing memory.
///
/// # Errors
/// An index outside the first axis.
pub fn at(array: &NDArray, index: i64) -> Result<NDArray> {
    let rows = array.shape().dims().first().copied().unwrap_or(0);
    ensure!((0..rows).contains(&index), "index {index} is outside the first axis, which has {rows} rows");
    array.at(index as usize)
}

/// A view with another shape, which may contain the special values 0, -1, -2, -3 and -4 of the operator `Reshape`. As in MXNet, a smaller
/// shape takes the first elements, unless NumPy shape semantics are on.
///
/// # Errors
/// More elements than the array has; those of `Reshape`.
pub fn reshape(array: &NDArray, dims: &[i64], reverse: bool) -> Result<NDArray> {
    let is_plain = dims.iter().all(|d| *d > 0);
    let target = if is_plain { Shape::new(dims) } else { target_shape(array.shape(), dims, reverse)? };
    let (len, target_len) = (array.len(), target.checked_elements()?);
    if target_len == len {
        return array.reshape(&target);
    }
    let check = match semantics::is_numpy_shape() {
        true => {
            format!("== shape.Size() ({len} vs. {target_len}) : target shape must have the same size as current shape.")
        }
        false if target_len < len => {
            return array.reshape(&Shape::new(&[len as i64]))?.slice(0, target_len)?.reshape(&target);
        }
        false => {
            format!(">= shape.Size() ({len} vs. {target_len}) : target shape size is larger than the current shape")
        }
    };
    Err(Error::Value(format!(
        "NDArray.Reshape: Check failed: shape_.Size() {check}: cannot reshape {} into {target}",
        array.shape()
    )))
}
