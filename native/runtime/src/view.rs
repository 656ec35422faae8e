//! Views of arrays for the crate `ndarray`, for Rust programs. They share the array's memory; nothing is copied.
//!
//! ```
//! use ferromx_runtime::{ndarray::NDArray, view};
//!
//! let x = NDArray::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
//! let columns = view::read(&x, |x: ndarray::ArrayViewD<'_, f32>| x.sum_axis(ndarray::Axis(0)))?;
//! assert_eq!(columns, ndarray::arr1(&[5.0, 7.0, 9.0]).into_dyn());
//! # Ok::<(), ferromx_runtime::error::Error>(())
//! ```

use ferromx_core::context::Context;
use ferromx_core::dtype::Element;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::storage;
use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension, IxDyn, ShapeError};

/// Calls `f` with a view of the elements in row-major order. They are locked for reading meanwhile.
///
/// # Errors
/// `T` is not the array's element type.
pub fn read<T: Element, R>(array: &NDArray, f: impl FnOnce(ArrayViewD<'_, T>) -> R) -> Result<R> {
    let dims = IxDyn(&array.shape().to_usize());
    storage::read_slice(array, |items: &[T]| ArrayViewD::from_shape(dims, items).map(f))?
        .map_err(|e| too_large(array, &e))
}

/// Calls `f` with a mutable view of the elements in row-major order. They are locked for writing meanwhile.
///
/// # Errors
/// `T` is not the array's element type; the array is read-only.
pub fn write<T: Element, R>(array: &NDArray, f: impl FnOnce(ArrayViewMutD<'_, T>) -> R) -> Result<R> {
    let dims = IxDyn(&array.shape().to_usize());
    storage::write_slice(array, |items: &mut [T]| ArrayViewMutD::from_shape(dims, items).map(f))?
        .map_err(|e| too_large(array, &e))
}

/// Copies an array of any memory order to a new array on a device.
///
/// # Errors
/// There is not enough memory.
pub fn copy<T: Element, D: Dimension>(array: &Array<T, D>, context: Context) -> Result<NDArray> {
    let dims: Vec<i64> = array.shape().iter().map(|n| *n as i64).collect();
    let rows = array.as_standard_layout();
    NDArray::from_slice(rows.as_slice().unwrap_or(&[]), &dims)?.to_context(context)
}

fn too_large(array: &NDArray, e: &ShapeError) -> Error {
    Error::Value(format!("an array of shape {} has no view: {e}", array.shape()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_share_the_memory() {
        let x = NDArray::from_slice(&[1i32, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
        assert_eq!(read(&x, |x: ArrayViewD<'_, i32>| (x[[1, 0]], x.ndim())).unwrap(), (4, 2));
        write(&x, |mut x: ArrayViewMutD<'_, i32>| x[[0, 2]] = 9).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [1, 2, 9, 4, 5, 6]);
        let error = read(&x, |x: ArrayViewD<'_, f32>| x.sum()).unwrap_err().to_string();
        assert!(error.contains("int32"), "{error}");
    }

    #[test]
    fn scalars_and_empty_arrays_have_views() {
        let scalar = NDArray::from_slice(&[2.5f64], &[]).unwrap();
        assert_eq!(read(&scalar, |x: ArrayViewD<'_, f64>| (x.ndim(), x.sum())).unwrap(), (0, 2.5));
        let empty = NDArray::from_slice::<u8>(&[], &[0, 3]).unwrap();
        assert_eq!(read(&empty, |x: ArrayViewD<'_, u8>| x.shape().to_vec()).unwrap(), [0, 3]);
    }

    #[test]
    fn a_transposed_array_is_copied_in_row_major_order() {
        let columns = ndarray::arr2(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).reversed_axes();
        let x = copy(&columns, Context::default()).unwrap();
        assert_eq!((x.shape().dims(), x.to_vec::<f32>().unwrap()), (&[3, 2][..], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    }
}
