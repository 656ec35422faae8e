//! Dense arrays: a shape and a type over a contiguous range of a chunk of memory.
//!
//! Slicing along axis 0 and reshaping share memory, as in MXNet.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::chunk::Chunk;
use crate::context::Context;
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::semantics::is_numpy_shape;
use crate::shape::Shape;

/// A dense array. Cloning shares the memory.
#[derive(Clone)]
pub struct NDArray {
    chunk: Arc<Chunk>,
    offset: usize,
    len: usize,
    shape: Shape,
    dtype: DType,
    is_read_only: bool,
}

impl NDArray {
    /// An array with unspecified content.
    ///
    /// # Errors
    /// A shape that is not fully known or too large, or no memory.
    pub fn empty(shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
        let len = shape.checked_elements()?;
        let chunk = Chunk::new(len * dtype.size(), context)?;
        Ok(NDArray { chunk, offset: 0, len, shape: shape.clone(), dtype, is_read_only: false })
    }

    /// An array of zeros. Fresh pages take physical memory only once they are written.
    ///
    /// # Errors
    /// A shape that is not fully known or too large, or no memory.
    pub fn zeros(shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
        let len = shape.checked_elements()?;
        let chunk = Chunk::zeros(len * dtype.size(), context)?;
        Ok(NDArray { chunk, offset: 0, len, shape: shape.clone(), dtype, is_read_only: false })
    }

    /// A view of a range of a chunk; `offset` is in bytes.
    ///
    /// # Errors
    /// The range is not inside the chunk, or the offset is not a multiple of the element size.
    pub fn view(chunk: Arc<Chunk>, offset: usize, shape: Shape, dtype: DType) -> Result<NDArray> {
        let len = shape.checked_elements()?;
        let is_in_bounds = offset.checked_add(len * dtype.size()).is_some_and(|end| end <= chunk.bytes());
        if !is_in_bounds || !offset.is_multiple_of(dtype.size()) {
            return Err(Error::Internal(format!("a view of {shape} {dtype} at byte {offset} exceeds its chunk")));
        }
        Ok(NDArray { chunk, offset, len, shape, dtype, is_read_only: false })
    }

    /// A read-only view of the same memory; views of it are read-only too.
    pub fn read_only(&self) -> NDArray {
        NDArray { is_read_only: true, ..self.clone() }
    }

    /// True if writing to the array is an error.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns an error if the array is read-only.
    ///
    /// # Errors
    /// The array is read-only.
    pub fn check_writable(&self) -> Result<()> {
        ensure!(
            !self.is_read_only,
            "the array of shape {} is an input of a user-defined operator and cannot be written: write to the operator's outputs, or \
             to a copy",
            self.shape
        );
        Ok(())
    }

    /// The chunk of memory.
    pub fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// The byte range of the elements in the chunk.
    pub fn byte_range(&self) -> Range<usize> {
        self.offset..self.offset + self.len * self.dtype.size()
    }

    /// The first element.
    pub(super) fn start(&self) -> NonNull<u8> {
        let range = self.byte_range();
        debug_assert!(range.end <= self.chunk.bytes());
        // SAFETY: the constructors keep the byte range inside the chunk.
        unsafe { self.chunk.ptr.add(range.start) }
    }

    /// The shape, fully known.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device.
    pub fn context(&self) -> Context {
        self.chunk.context()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if both arrays are the same bytes of memory.
    pub fn is_same_memory(&self, other: &NDArray) -> bool {
        Arc::ptr_eq(&self.chunk, &other.chunk) && self.byte_range() == other.byte_range()
    }

    /// True if both arrays are the same memory with the same shape and type.
    pub fn is_same_view(&self, other: &NDArray) -> bool {
        self.is_same_memory(other) && self.shape == other.shape && self.dtype == other.dtype
    }

    /// Rows `begin..end` along axis 0, sharing memory.
    ///
    /// # Errors
    /// A scalar, or a range outside the axis.
    pub fn slice(&self, begin: usize, end: usize) -> Result<NDArray> {
        ensure!(!self.shape.dims().is_empty(), "a scalar cannot be sliced");
        let rows = self.shape.dim(0) as usize;
        ensure!(
            begin <= end && end <= rows,
            "slice {begin}..{end} is outside the first axis of {} with {rows} rows",
            self.shape
        );
        let row = self.len.checked_div(rows).unwrap_or(0);
        let mut shape = self.shape.clone();
        if let Some(d) = shape.dims_mut() {
            d[0] = (end - begin) as i64;
        }
        let offset = self.offset + begin * row * self.dtype.size();
        Ok(NDArray { offset, len: row * (end - begin), shape, ..self.clone() })
    }

    /// Row `i` along axis 0, without that axis, sharing memory. The row of a vector is a scalar in NumPy semantics and has shape (1,) in
    /// legacy semantics.
    ///
    /// # Errors
    /// The index is outside the axis.
    pub fn at(&self, i: usize) -> Result<NDArray> {
        let row = self.slice(i, i + 1)?;
        match self.shape.dims() {
            [_] if !is_numpy_shape() => Ok(row),
            dims => row.reshape(&Shape::new(&dims[1..])),
        }
    }

    /// A view of the same memory with another shape.
    ///
    /// # Errors
    /// The numbers of elements differ.
    pub fn reshape(&self, shape: &Shape) -> Result<NDArray> {
        let n = shape.checked_elements()?;
        ensure!(
            n == self.len,
            "cannot reshape {} with {} elements to {shape} with {n}: the numbers of elements must be equal",
            self.shape,
            self.len
        );
        Ok(NDArray { shape: shape.clone(), ..self.clone() })
    }
}

impl fmt::Debug for NDArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<NDArray {} {} @{}>", self.shape, self.dtype, self.context())
    }
}

/// True if two arrays share a byte.
pub fn overlap(a: &NDArray, b: &NDArray) -> bool {
    let (ra, rb) = (a.byte_range(), b.byte_range());
    Arc::ptr_eq(a.chunk(), b.chunk()) && ra.start < rb.end && rb.start < ra.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage;

    #[test]
    fn views_share_memory() {
        let a = NDArray::from_slice(&[1f32, 2., 3., 4., 5., 6.], &[3, 2]).unwrap();
        a.slice(1, 3).unwrap().copy_from_slice(&[7f32, 8., 9., 10.]).unwrap();
        assert_eq!(a.reshape(&Shape::new(&[6])).unwrap().to_vec::<f32>().unwrap(), [1., 2., 7., 8., 9., 10.]);
        assert_eq!(a.at(1).unwrap().shape(), &Shape::new(&[2]));
        assert!(a.slice(2, 4).is_err());
        assert!(a.reshape(&Shape::new(&[5])).is_err());
    }

    #[test]
    fn read_only_arrays_and_their_views_are_not_written() {
        let a = NDArray::from_slice(&[1f32, 2., 3., 4.], &[2, 2]).unwrap();
        let read_only = a.read_only();
        let views = [
            read_only.clone(),
            read_only.slice(0, 1).unwrap(),
            read_only.at(1).unwrap(),
            read_only.reshape(&Shape::new(&[4])).unwrap(),
        ];
        for view in &views {
            let error = view.copy_from_slice(&vec![0f32; view.len()]).unwrap_err().to_string();
            assert!(error.contains("cannot be written"), "{error}");
            assert!(view.copy_from(&NDArray::zeros(view.shape(), DType::F32, Context::default()).unwrap()).is_err());
            assert!(storage::write_slice(view, |to: &mut [f32]| to.fill(0.0)).is_err());
            assert!(storage::call_once(&[], &[(view, storage::Req::Write)], |_, _| Ok(())).is_err());
        }
        a.copy_from_slice(&[5f32; 4]).unwrap();
        assert_eq!(read_only.to_vec::<f32>().unwrap(), [5.0; 4]);
    }
}
