//! Access to the elements of arrays, under the locks of their chunks.

use super::ndarray::NDArray;
use super::operands::check_type;
use super::region::Locks;
use crate::context::Context;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::{dispatch, ensure, memory};

impl NDArray {
    /// An array on `cpu(0)` with a copy of the elements.
    ///
    /// # Errors
    /// The numbers of elements of the shape and the slice differ.
    pub fn from_slice<T: Element>(items: &[T], dims: &[i64]) -> Result<NDArray> {
        let a = NDArray::empty(&Shape::new(dims), T::DTYPE, Context::default())?;
        a.copy_from_slice(items)?;
        Ok(a)
    }

    /// A copy of the elements.
    ///
    /// # Errors
    /// `T` is not the array's element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        read_slice(self, memory::copied)
    }

    /// A copy of the elements, converted to `T` by way of double precision; exact if `T` is the element type.
    pub fn to_vec_as<T: Element>(&self) -> Result<Vec<T>> {
        if self.dtype() == T::DTYPE {
            return self.to_vec();
        }
        dispatch!(self.dtype(), S in [f32, f64, half::f16, u8, i32, i8, i64, bool, half::bf16] => {
            read_slice(self, |items: &[S]| memory::collected(items.iter().map(|x| T::from_f64(x.to_f64()))))
        }, other => Err(Error::Internal(format!("no elements of type {other}"))))
    }

    /// Overwrites all elements.
    ///
    /// # Errors
    /// `T` is not the array's element type, or the lengths differ.
    pub fn copy_from_slice<T: Element>(&self, items: &[T]) -> Result<()> {
        self.check_type::<T>()?;
        self.check_writable()?;
        self.check_len(items.len())?;
        write_bytes(self, |b| b.copy_from_slice(as_bytes(items)));
        Ok(())
    }

    /// Overwrites all elements with values of any type, converted by way of double precision; exact if `T` is the element type.
    ///
    /// # Errors
    /// The lengths differ; the array is read-only.
    pub fn copy_from_slice_as<T: Element>(&self, items: &[T]) -> Result<()> {
        if self.dtype() == T::DTYPE {
            return self.copy_from_slice(items);
        }
        self.check_len(items.len())?;
        dispatch!(self.dtype(), U in [f32, f64, half::f16, u8, i32, i8, i64, bool, half::bf16] => {
            write_slice(self, |to: &mut [U]| to.iter_mut().zip(items).for_each(|(to, x)| *to = U::from_f64(x.to_f64())))
        }, other => Err(Error::Internal(format!("no elements of type {other}"))))
    }

    /// A copy on a device.
    pub fn to_context(&self, context: Context) -> Result<NDArray> {
        let out = NDArray::empty(self.shape(), self.dtype(), context)?;
        out.copy_from(self)?;
        Ok(out)
    }

    /// Overwrites the elements with those of an array of the same type and number of elements.
    pub fn copy_from(&self, source: &NDArray) -> Result<()> {
        self.copy_from_with(source, |from, to| to.copy_from_slice(from))
    }

    /// [`Self::copy_from`] by a function that copies bytes, for example on several threads. Arrays that overlap are copied without it.
    pub fn copy_from_with(&self, source: &NDArray, copy_bytes: impl FnOnce(&[u8], &mut [u8])) -> Result<()> {
        ensure!(
            self.dtype() == source.dtype() && self.len() == source.len(),
            "cannot copy {} {} into {} {}: type and number of elements must be equal",
            source.shape(),
            source.dtype(),
            self.shape(),
            self.dtype()
        );
        copy_with(source, self, copy_bytes)
    }

    fn check_len(&self, given: usize) -> Result<()> {
        ensure!(
            given == self.len(),
            "{given} elements were given for an array of shape {} with {} elements",
            self.shape(),
            self.len()
        );
        Ok(())
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        ensure!(
            T::DTYPE == self.dtype(),
            "the array holds {}, not {}: convert it with Cast first",
            self.dtype(),
            T::DTYPE
        );
        Ok(())
    }
}

/// Runs `f` on the array's bytes, locked for reading.
pub fn read_bytes<R>(array: &NDArray, f: impl FnOnce(&[u8]) -> R) -> R {
    let _locks = Locks::acquire([array], []);
    // SAFETY: locked for reading while `f` runs; in bounds and initialized.
    f(unsafe { std::slice::from_raw_parts(array.start().as_ptr(), array.byte_range().len()) })
}

/// Runs `f` on the array's bytes, locked for writing. Elements of type bool must stay 0 or 1.
pub fn write_bytes<R>(array: &NDArray, f: impl FnOnce(&mut [u8]) -> R) -> R {
    let _locks = Locks::acquire([], [array]);
    // SAFETY: locked for writing while `f` runs; in bounds and initialized.
    f(unsafe { std::slice::from_raw_parts_mut(array.start().as_ptr(), array.byte_range().len()) })
}

/// Runs `f` on the array's elements, locked for reading.
///
/// # Errors
/// `T` is not the array's element type.
pub fn read_slice<T: Element, R>(array: &NDArray, f: impl FnOnce(&[T]) -> R) -> Result<R> {
    check_type(array.dtype(), T::DTYPE)?;
    let _locks = Locks::acquire([array], []);
    // SAFETY: locked for reading while `f` runs; in bounds, aligned, initialized, of this type.
    Ok(f(unsafe { std::slice::from_raw_parts(array.start().as_ptr().cast(), array.len()) }))
}

/// Runs `f` on the array's elements, locked for writing.
///
/// # Errors
/// `T` is not the array's element type; the array is read-only.
pub fn write_slice<T: Element, R>(array: &NDArray, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    check_type(array.dtype(), T::DTYPE)?;
    array.check_writable()?;
    let _locks = Locks::acquire([], [array]);
    // SAFETY: locked for writing while `f` runs; in bounds, aligned, initialized, of this type.
    Ok(f(unsafe { std::slice::from_raw_parts_mut(array.start().as_ptr().cast(), array.len()) }))
}

/// Copies the bytes of an array to another of the same size; they may overlap.
///
/// # Errors
/// Different sizes; a read-only target.
pub fn copy(source: &NDArray, target: &NDArray) -> Result<()> {
    copy_with(source, target, |from, to| to.copy_from_slice(from))
}

/// [`copy`] by a function that copies bytes of arrays that do not overlap.
fn copy_with(source: &NDArray, target: &NDArray, copy_bytes: impl FnOnce(&[u8], &mut [u8])) -> Result<()> {
    target.check_writable()?;
    let bytes = source.byte_range().len();
    if bytes != target.byte_range().len() {
        return Err(Error::Internal("a copy between arrays of different sizes".into()));
    }
    let _locks = Locks::acquire([source], [target]);
    let (from, to) = (source.start().as_ptr(), target.start().as_ptr());
    // SAFETY: both are locked, in bounds and initialized; `ptr::copy` allows overlap, and slices are made of disjoint memory only.
    unsafe {
        if from.addr().abs_diff(to.addr()) < bytes {
            std::ptr::copy(from, to, bytes);
        } else {
            copy_bytes(std::slice::from_raw_parts(from, bytes), std::slice::from_raw_parts_mut(to, bytes));
        }
    }
    Ok(())
}

/// The bytes of a slice of elements.
pub fn as_bytes<T: Element>(items: &[T]) -> &[u8] {
    // SAFETY: every `Element` is a scalar without padding bytes.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), std::mem::size_of_val(items)) }
}

/// The bytes as elements.
///
/// # Errors
/// The bytes are not aligned, or not a multiple of the element size; elements of type bool.
pub fn from_bytes<T: Element>(bytes: &[u8]) -> Result<&[T]> {
    let size = std::mem::size_of::<T>();
    if !bytes.len().is_multiple_of(size) || !bytes.as_ptr().cast::<T>().is_aligned() || T::DTYPE == DType::Bool {
        return Err(Error::Internal(format!("{} bytes are not an aligned array of {}", bytes.len(), T::DTYPE)));
    }
    // SAFETY: aligned, a whole number of elements, initialized, and every bit pattern is valid (bool was refused).
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_to_vec_as_converts() {
        let a = NDArray::from_slice(&[1.5f32, -2.0], &[2]).unwrap();
        assert!(a.to_vec::<f64>().is_err());
        assert_eq!(a.to_vec_as::<i32>().unwrap(), [1, -2]);
        let b = a.to_context(Context::cpu(1)).unwrap();
        assert_eq!(b.context(), Context::cpu(1));
        assert_eq!(b.to_vec::<f32>().unwrap(), [1.5, -2.0]);
    }

    #[test]
    fn copy_from_slice_as_converts_and_keeps_large_integers() {
        let a = NDArray::zeros(&[2].into(), DType::I64, Context::default()).unwrap();
        a.copy_from_slice_as(&[i64::MAX, -1]).unwrap();
        assert_eq!(a.to_vec::<i64>().unwrap(), [i64::MAX, -1]);
        a.copy_from_slice_as(&[2.75f32, -2.75]).unwrap();
        assert_eq!(a.to_vec::<i64>().unwrap(), [2, -2]);
        let error = a.copy_from_slice_as(&[1f32]).unwrap_err().to_string();
        assert!(error.contains("1 elements were given for an array of shape"), "{error}");
        assert!(a.read_only().copy_from_slice_as(&[1u8, 2]).is_err());
    }

    #[test]
    fn copying_onto_an_overlapping_view_is_a_move() {
        let a = NDArray::from_slice(&[1f32, 2., 3., 4.], &[4]).unwrap();
        a.slice(1, 4).unwrap().copy_from(&a.slice(0, 3).unwrap()).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap(), [1., 1., 2., 3.]);
    }
}
