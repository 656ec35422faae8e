//! Sparse arrays: stored rows (`row_sparse`), and matrices in compressed sparse row format (`csr`).
//!
//! The components are dense arrays, which users set one at a time. Therefore the format is checked when an operator reads the array, and
//! not again until a component is replaced; `format` has the checks.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::context::Context;
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::ndarray::NDArray;
use crate::shape::{Dims, Shape};

mod format;

use format::{check, check_bounds, check_lengths, sort};

/// The storage type of an array, with the codes of the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum StorageType {
    /// Dense: every element is stored.
    Default = 0,
    /// Nonzero rows (along axis 0) and their indices.
    RowSparse = 1,
    /// Compressed sparse rows: the nonzero elements of a matrix, row by row, with their column indices.
    Csr = 2,
}

impl StorageType {
    /// From the code of the C API.
    ///
    /// # Errors
    /// An unknown code.
    pub fn from_code(code: i32) -> Result<StorageType> {
        match code {
            0 => Ok(StorageType::Default),
            1 => Ok(StorageType::RowSparse),
            2 => Ok(StorageType::Csr),
            _ => {
                Err(Error::Value(format!("storage type {code} is unknown: use 0 (default), 1 (row_sparse) or 2 (csr)")))
            }
        }
    }

    /// MXNet's name, such as `row_sparse`.
    pub const fn name(self) -> &'static str {
        match self {
            StorageType::Default => "default",
            StorageType::RowSparse => "row_sparse",
            StorageType::Csr => "csr",
        }
    }

    /// Number of index arrays.
    pub const fn num_aux(self) -> usize {
        match self {
            StorageType::Default => 0,
            StorageType::RowSparse => 1,
            StorageType::Csr => 2,
        }
    }
}

impl fmt::Display for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The arrays that a sparse array consists of.
#[derive(Clone)]
pub struct Components {
    /// The stored values: one per entry for csr, one row per index for row_sparse.
    pub data: NDArray,
    /// Indices of the stored rows (row_sparse), or the column of each value (csr), ascending (within each row); 64-bit integers.
    pub indices: NDArray,
    /// The row pointers of csr: the start of each row's values, and the end of the last; 64-bit integers.
    pub indptr: Option<NDArray>,
}

/// What [`SparseArray::check_format`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatCheck {
    /// The lengths of the components.
    Lengths,
    /// Also the range and the order of the indices.
    Full,
}

struct State {
    components: Components,
    /// Whether the components are known to be consistent.
    is_checked: bool,
}

/// A sparse array. Cloning shares the memory.
#[derive(Clone)]
pub struct SparseArray {
    storage_type: StorageType,
    shape: Shape,
    dtype: DType,
    context: Context,
    state: Arc<RwLock<State>>,
}

/// The shape of the values of `n` stored rows of an array.
fn rows_shape(shape: &Shape, n: i64) -> Shape {
    let mut dims: Dims = shape.dims().into();
    dims[0] = n;
    Shape::from(dims)
}

fn index_array(n: usize, context: Context) -> Result<NDArray> {
    NDArray::zeros(&Shape::new(&[n as i64]), DType::I64, context)
}

impl SparseArray {
    /// An array without stored values: all its elements are zero.
    ///
    /// # Errors
    /// A shape that is not fully known; csr of a rank other than 2; row_sparse of rank 0; dense storage.
    pub fn zeros(storage_type: StorageType, shape: &Shape, dtype: DType, context: Context) -> Result<SparseArray> {
        shape.checked_elements()?;
        let n = shape.dims().len();
        let (data, indptr) = match storage_type {
            StorageType::Csr => {
                ensure!(n == 2, "csr arrays have 2 dimensions, but shape {shape} has {n}");
                (Shape::new(&[0]), Some(index_array(shape.dim(0) as usize + 1, context)?))
            }
            StorageType::RowSparse => {
                ensure!(n >= 1, "row_sparse arrays have at least 1 dimension");
                (rows_shape(shape, 0), None)
            }
            StorageType::Default => return Err(Error::Internal("a sparse array of default storage".into())),
        };
        let components =
            Components { data: NDArray::empty(&data, dtype, context)?, indices: index_array(0, context)?, indptr };
        Ok(SparseArray::from_state(storage_type, shape, State { components, is_checked: true }))
    }

    fn from_state(storage_type: StorageType, shape: &Shape, state: State) -> SparseArray {
        let (dtype, context) = (state.components.data.dtype(), state.components.data.context());
        let state = Arc::new(RwLock::new(state));
        SparseArray { storage_type, shape: shape.clone(), dtype, context, state }
    }

    /// A csr matrix from components that nothing else modifies.
    ///
    /// # Errors
    /// Inconsistent components.
    pub fn csr(shape: &Shape, data: NDArray, indptr: NDArray, indices: NDArray) -> Result<SparseArray> {
        ensure!(shape.dims().len() == 2, "csr arrays have 2 dimensions, not {shape}");
        let components = Components { data, indices, indptr: Some(indptr) };
        let array = SparseArray::from_state(StorageType::Csr, shape, State { components, is_checked: false });
        array.components()?;
        Ok(array)
    }

    /// A row_sparse array from components that nothing else modifies.
    ///
    /// # Errors
    /// Inconsistent components.
    pub fn row_sparse(shape: &Shape, data: NDArray, indices: NDArray) -> Result<SparseArray> {
        ensure!(!shape.dims().is_empty(), "row_sparse arrays have at least 1 dimension");
        let components = Components { data, indices, indptr: None };
        let array = SparseArray::from_state(StorageType::RowSparse, shape, State { components, is_checked: false });
        array.components()?;
        Ok(array)
    }

    /// An array of the same sparsity pattern with other values.
    ///
    /// # Errors
    /// Values of a different shape; inconsistent components.
    pub fn with_values(&self, data: NDArray) -> Result<SparseArray> {
        let components = self.components()?;
        if data.shape() != components.data.shape() {
            return Err(Error::Internal(format!("{data:?} cannot replace the values {:?}", components.data)));
        }
        Ok(SparseArray::from_state(
            self.storage_type,
            &self.shape,
            State { components: Components { data, ..components }, is_checked: true },
        ))
    }

    /// The storage type, never [`StorageType::Default`].
    pub fn storage_type(&self) -> StorageType {
        self.storage_type
    }

    /// Shape of the array.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Whether two arrays are clones that share their memory.
    pub fn is_same(&self, other: &SparseArray) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// The components, sharing memory, for reading. The first call checks them, and sorts their indices if necessary.
    ///
    /// # Errors
    /// Inconsistent components.
    pub fn components(&self) -> Result<Components> {
        {
            let state = self.state.read();
            if state.is_checked {
                return Ok(state.components.clone());
            }
        }
        let mut state = self.state.write();
        check_lengths(self.storage_type, &self.shape, &state.components)?;
        if let Some(indptr) = &state.components.indptr {
            check_bounds(indptr, state.components.indices.len())?;
        }
        sort(&mut state.components)?;
        check(self.storage_type, &self.shape, &state.components)?;
        state.is_checked = true;
        Ok(state.components.clone())
    }

    /// Checks that the lengths of the components are consistent and, in a full check, that the indices are in range and ascend. (Operators
    /// sort the indices of arrays they read.)
    ///
    /// # Errors
    /// Lengths that differ; indices out of range or order. The messages begin with MXNet's text.
    pub fn check_format(&self, scope: FormatCheck) -> Result<()> {
        let state = self.state.read();
        if state.is_checked {
            return Ok(());
        }
        let (kind, components) = (self.storage_type, &state.components);
        check_lengths(kind, &self.shape, components)
            .map_err(|e| Error::Value(format!("Shape mismatch of this {kind} NDArray: {e}")))?;
        if scope == FormatCheck::Lengths {
            return Ok(());
        }
        if let Some(indptr) = &components.indptr {
            check_bounds(indptr, components.indices.len()).map_err(|e| {
                Error::Value(format!(
                    "IndPtr of csr NDArray should be non-negative, in non-decreasing order, start with 0, and end with value equal with \
                     size of indices.: {e}"
                ))
            })?;
        }
        check(kind, &self.shape, components).map_err(|e| {
            let expected = match kind {
                StorageType::Csr => "in ascending order per row  and less than the number of columns.",
                _ => "less than the size of first dimension and in ascending order",
            };
            Error::Value(format!("Indices of {kind} NDArray should be non-negative, {expected}: {e}"))
        })
    }

    /// The values without any check, sharing memory.
    pub fn stored_values(&self) -> NDArray {
        self.state.read().components.data.clone()
    }

    /// The index arrays in the order of the C API (csr: row pointers, columns; row_sparse: rows) without any check, sharing memory.
    pub fn stored_indices(&self) -> Vec<NDArray> {
        let components = &self.state.read().components;
        components.indptr.iter().chain([&components.indices]).cloned().collect()
    }

    /// Replaces the values by a copy of an array; set the index arrays by [`SparseArray::set_indices`].
    ///
    /// # Errors
    /// A different element type; a shape that values cannot have.
    pub fn set_values(&self, source: &NDArray) -> Result<()> {
        let given = source.shape();
        ensure!(source.dtype() == self.dtype, "the values are {}, but {} was given", self.dtype, source.dtype());
        let is_valid_shape = match self.storage_type {
            StorageType::Csr => given.dims().len() == 1,
            _ => given.dims().len() == self.shape.dims().len() && given.dims()[1..] == self.shape.dims()[1..],
        };
        let expected = match self.storage_type {
            StorageType::Csr => "(number of values)".to_string(),
            _ => rows_shape(&self.shape, -1).to_string(),
        };
        ensure!(
            is_valid_shape,
            "the values of a {} array of shape {} have shape {expected}, not {given}",
            self.storage_type,
            self.shape
        );
        let copy = source.to_context(self.context)?;
        let mut state = self.state.write();
        state.components.data = copy;
        state.is_checked = false;
        Ok(())
    }

    /// Replaces index array `i`, in the order of the C API, by a copy of an array.
    ///
    /// # Errors
    /// No such index array; not a vector of 64-bit integers.
    pub fn set_indices(&self, i: usize, source: &NDArray) -> Result<()> {
        self.check_aux_index(i)?;
        ensure!(
            source.dtype() == DType::I64 && source.shape().dims().len() == 1,
            "index arrays are vectors of int64, not {} {}: convert with Cast first",
            source.shape(),
            source.dtype()
        );
        let copy = source.to_context(self.context)?;
        let mut state = self.state.write();
        match (self.storage_type, i) {
            (StorageType::Csr, 0) => state.components.indptr = Some(copy),
            _ => state.components.indices = copy,
        }
        state.is_checked = false;
        Ok(())
    }

    /// Checks that index array `i` exists.
    ///
    /// # Errors
    /// The array has no index array `i`.
    pub fn check_aux_index(&self, i: usize) -> Result<()> {
        let n = self.storage_type.num_aux();
        ensure!(i < n, "a {} array has {n} index arrays, so there is no index array {i}", self.storage_type);
        Ok(())
    }

    /// A copy on a device.
    ///
    /// # Errors
    /// Inconsistent components; no memory.
    pub fn to_context(&self, context: Context) -> Result<SparseArray> {
        let p = self.components()?;
        let components = Components {
            data: p.data.to_context(context)?,
            indices: p.indices.to_context(context)?,
            indptr: p.indptr.as_ref().map(|a| a.to_context(context)).transpose()?,
        };
        Ok(SparseArray::from_state(self.storage_type, &self.shape, State { components, is_checked: true }))
    }

    /// Overwrites this array with a copy of another of the same storage type, shape and element type.
    ///
    /// # Errors
    /// The arrays differ in storage type, shape or element type.
    pub fn copy_from(&self, source: &SparseArray) -> Result<()> {
        if self.is_same(source) {
            return Ok(());
        }
        self.take(source.to_context(self.context)?)
    }

    /// Overwrites this array with another, whose components it takes over.
    ///
    /// # Errors
    /// The arrays differ in storage type, shape or element type.
    pub fn take(&self, source: SparseArray) -> Result<()> {
        ensure!(
            self.storage_type == source.storage_type && self.shape == source.shape && self.dtype == source.dtype,
            "cannot copy {source:?} into {self:?}: storage, shape and type must be equal"
        );
        let components = source.components()?;
        *self.state.write() = State { components, is_checked: true };
        Ok(())
    }
}

impl fmt::Debug for SparseArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<SparseArray {} {} {} @{}>", self.shape, self.dtype, self.storage_type, self.context)
    }
}

/// A dense or a sparse array.
#[derive(Clone, Debug)]
pub enum Array {
    /// Every element is stored.
    Dense(NDArray),
    /// Only some elements are stored.
    Sparse(SparseArray),
}

impl From<NDArray> for Array {
    fn from(a: NDArray) -> Array {
        Array::Dense(a)
    }
}

impl From<SparseArray> for Array {
    fn from(a: SparseArray) -> Array {
        Array::Sparse(a)
    }
}

impl Array {
    /// The storage type.
    pub fn storage_type(&self) -> StorageType {
        match self {
            Array::Dense(_) => StorageType::Default,
            Array::Sparse(a) => a.storage_type(),
        }
    }

    /// The shape, fully known.
    pub fn shape(&self) -> &Shape {
        match self {
            Array::Dense(a) => a.shape(),
            Array::Sparse(a) => a.shape(),
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Array::Dense(a) => a.dtype(),
            Array::Sparse(a) => a.dtype(),
        }
    }

    /// The device.
    pub fn context(&self) -> Context {
        match self {
            Array::Dense(a) => a.context(),
            Array::Sparse(a) => a.context(),
        }
    }

    /// A copy on a device.
    ///
    /// # Errors
    /// Inconsistent components; no memory.
    pub fn to_context(&self, context: Context) -> Result<Array> {
        Ok(match self {
            Array::Dense(a) => a.to_context(context)?.into(),
            Array::Sparse(a) => a.to_context(context)?.into(),
        })
    }

    /// True if both are the same elements in memory.
    pub fn is_same_memory(&self, other: &Array) -> bool {
        match (self, other) {
            (Array::Dense(a), Array::Dense(b)) => a.is_same_memory(b),
            (Array::Sparse(a), Array::Sparse(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// The dense array, or an error for a sparse one.
    ///
    /// # Errors
    /// The array is sparse.
    pub fn dense(&self) -> Result<&NDArray> {
        match self {
            Array::Dense(a) => Ok(a),
            Array::Sparse(a) => Err(Error::Unsupported(format!(
                "a dense array was expected, but {a:?} was given: convert it with cast_storage(stype = 'default') first"
            ))),
        }
    }

    /// The sparse array, or an error for a dense one.
    ///
    /// # Errors
    /// The array is dense.
    pub fn sparse(&self) -> Result<&SparseArray> {
        match self {
            Array::Sparse(a) => Ok(a),
            Array::Dense(a) => Err(Error::Value(format!(
                "a row_sparse or csr array was expected, but {a:?} was given: convert it with cast_storage first"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector<T: crate::dtype::Element>(items: &[T]) -> NDArray {
        NDArray::from_slice(items, &[items.len() as i64]).unwrap()
    }

    fn csr(indptr: &[i64], indices: &[i64], values: &[f32]) -> Result<SparseArray> {
        SparseArray::csr(&Shape::new(&[2, 3]), vector(values), vector(indptr), vector(indices))
    }

    #[test]
    fn inconsistent_parts_are_errors() {
        assert!(csr(&[0, 1, 3], &[2, 0, 1], &[1.0, 2.0, 3.0]).is_ok());
        let message = |a: Result<SparseArray>| a.unwrap_err().to_string();
        assert!(
            message(csr(&[0, 1, 2], &[2, 0, 1], &[1.0, 2.0, 3.0])).contains("ascend from 0 to the number of values")
        );
        assert!(message(csr(&[0, 3], &[0, 1, 2], &[1.0, 2.0, 3.0])).contains("3 were expected"));
        assert!(message(csr(&[0, 1, 3], &[3, 0, 1], &[1.0, 2.0, 3.0])).contains("column index 3 is outside"));
        assert!(message(csr(&[0, 1, 3], &[0, 1, 1], &[1.0, 2.0, 3.0])).contains("without repetition"));
        assert!(message(csr(&[0, 1, 3], &[2, 0, 1], &[1.0, 2.0])).contains("2 values and 3 indices"));
    }

    #[test]
    fn operators_read_sorted_indices() {
        let a = csr(&[0, 2, 3], &[2, 0, 1], &[1.0, 2.0, 3.0]).unwrap().components().unwrap();
        assert_eq!(a.indices.to_vec::<i64>().unwrap(), [0, 2, 1]);
        assert_eq!(a.data.to_vec::<f32>().unwrap(), [2.0, 1.0, 3.0]);
        let rows = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let b = SparseArray::zeros(StorageType::RowSparse, &Shape::new(&[4, 2]), DType::F32, Context::default());
        let b = b.unwrap();
        b.set_values(&rows).unwrap();
        b.set_indices(0, &vector(&[3i64, 1])).unwrap();
        assert!(b.check_format(FormatCheck::Full).unwrap_err().to_string().contains("ascend"));
        assert_eq!(b.components().unwrap().data.to_vec::<f32>().unwrap(), [3.0, 4.0, 1.0, 2.0]);
    }

    #[test]
    fn parts_are_set_one_by_one_and_checked_when_read() {
        let a =
            SparseArray::zeros(StorageType::RowSparse, &Shape::new(&[4, 2]), DType::F32, Context::default()).unwrap();
        a.set_values(&NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap()).unwrap();
        assert!(a.check_format(FormatCheck::Full).is_err());
        a.set_indices(0, &vector(&[1i64, 3])).unwrap();
        assert!(a.check_format(FormatCheck::Full).is_ok());
        assert!(a.set_indices(1, &vector(&[1i64])).is_err());
        assert!(a.set_indices(0, &vector(&[1i32])).is_err());
        assert!(a.set_values(&vector(&[1f32])).is_err());
        let b = SparseArray::zeros(StorageType::RowSparse, a.shape(), DType::F32, Context::default()).unwrap();
        b.copy_from(&a).unwrap();
        assert_eq!(b.components().unwrap().indices.to_vec::<i64>().unwrap(), [1, 3]);
    }
}
