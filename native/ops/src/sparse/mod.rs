//! Operators on sparse arrays, and the sparse forms of other operators.
//!
//! An operator declares its sparse form with `.sparse(rule, function)`: a storage rule, which returns the storage type of the outputs or
//! `None` for the dense fallback, and the function that computes them. Arithmetic runs the dense kernel on stored values that were aligned
//! to common indices. Only products and sums have sparse kernels.
//!
//! - `values` has the sparse forms of elementwise operators, `lazy` those of optimizer updates. Other families have a file `sparse` each.
//! - `cast` converts between storage types, and `csr_builder` builds csr matrices row by row.
//! - `storage_ops` and `graph` are operators that only exist for sparse arrays.

pub mod cast;
mod csr_builder;
mod graph;
mod lazy;
mod storage_ops;
mod values;

use ferromx_core::context::Context;
use ferromx_core::dtype::Element;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, SparseCall};
use ferromx_core::param_enum;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, Components, SparseArray, StorageType};
use ferromx_core::storage::In;
use ferromx_kernels::sparse::Csr;

use crate::axes::row_len;
use crate::rules::new_array;
use cast::{cast, to_dense};

pub(crate) use csr_builder::{CsrBuilder, append};
pub use lazy::add_rows;
pub(crate) use lazy::{all_row_sparse_rule, lazy_rule, lazy_update, lazy_update_rule};
pub use values::merged;
pub(crate) use values::{
    broadcast, broadcast_rule, each_stored, keeps_zero, merged_rows_rule, merged_rule, on_values, product,
    product_rule, scatter_rule, zeros, zeros_rule,
};

/// The operators on storage types and stored values.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[graph::OPS, storage_ops::OPS];

param_enum! {
    /// A storage type as a parameter.
    pub enum Storage { Csr = "csr", Default = "default", RowSparse = "row_sparse" }
}

impl Storage {
    /// The storage type of this name.
    pub(crate) fn storage_type(self) -> StorageType {
        match self {
            Storage::Csr => StorageType::Csr,
            Storage::Default => StorageType::Default,
            Storage::RowSparse => StorageType::RowSparse,
        }
    }
}

/// Runs `$body` with `$T` bound to the element type, which may be any: the code moves elements and does not compute with them.
macro_rules! dispatch_any {
    ($dtype:expr, $T:ident => $body:expr) => {
        ferromx_core::dispatch!(
            $dtype,
            $T in [f32, f64, half::f16, u8, i32, i8, i64, bool, half::bf16] => $body,
            d => Err(ferromx_core::error::Error::Internal(format!("no elements of type {d}")))
        )
    };
}
pub(crate) use dispatch_any;

/// Runs `$body` with `$T` bound to the element type, which must have arithmetic.
macro_rules! dispatch_numeric {
    ($call:expr, $dtype:expr, $T:ident => $body:expr) => {
        ferromx_core::dispatch!($dtype, $T in [f32, f64, half::f16, i32, i64, u8, i8] => $body, d => {
            use ferromx_core::dtype::DType;
            let accepted = [DType::F16, DType::F32, DType::F64, DType::U8, DType::I8, DType::I32, DType::I64];
            Err($call.ctx.unsupported(d, &accepted))
        })
    };
}
pub(crate) use dispatch_numeric;

/// Runs the dense form on dense copies of the inputs, and converts the results.
pub(crate) fn dense_fallback(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let dense = call.ins.iter().map(to_dense).collect::<Result<Vec<_>>>()?;
    (call.dense)(&dense)?.into_iter().map(|a| cast(&a.into(), call.storage_type)).collect()
}

/// The csr matrix of operands that hold row pointers, column indices and values.
pub(crate) fn csr_of<'a, T: Element>(ins: &[In<'a>]) -> Result<Csr<'a, T>> {
    Ok(Csr { indptr: ins[0].slice()?, indices: ins[1].slice()?, data: ins[2].slice()? })
}

/// The row pointers, column indices and values of a csr array, in the order of [`csr_of`].
pub(crate) fn csr_components(components: &Components) -> Result<[&NDArray; 3]> {
    match &components.indptr {
        Some(indptr) => Ok([indptr, &components.indices, &components.data]),
        None => Err(Error::Internal("a csr array was expected".into())),
    }
}

/// A new vector with these elements.
pub(crate) fn new_vector<T: Element>(items: &[T], context: Context) -> Result<NDArray> {
    new_array(items, &Shape::new(&[items.len() as i64]), context)
}

/// A new csr array with these row pointers, column indices and values.
pub(crate) fn new_csr<T: Element>(
    shape: &Shape,
    (indptr, indices, values): (Vec<i64>, Vec<i64>, Vec<T>),
    context: Context,
) -> Result<SparseArray> {
    let (indptr, indices) = (new_vector(&indptr, context)?, new_vector(&indices, context)?);
    SparseArray::csr(shape, new_vector(&values, context)?, indptr, indices)
}

/// The stored rows of an array.
pub(crate) struct StoredRows {
    /// Their values.
    pub values: NDArray,
    /// Their indices, or `None` if all rows are stored.
    pub indices: Option<NDArray>,
}

impl StoredRows {
    /// The number of elements in a row.
    pub(crate) fn row_len(&self) -> usize {
        row_len(self.values.shape(), 1)
    }
}

/// The rows that a row_sparse array stores, or all rows of a dense array, sharing memory, or of a csr array.
pub(crate) fn stored_rows(array: &Array) -> Result<StoredRows> {
    match array {
        Array::Sparse(a) if a.storage_type() == StorageType::RowSparse => {
            let components = a.components()?;
            let has_all_rows = components.indices.len() as i64 == a.shape().dim(0);
            Ok(StoredRows { values: components.data, indices: Some(components.indices).filter(|_| !has_all_rows) })
        }
        other => Ok(StoredRows { values: cast::to_dense(other)?, indices: None }),
    }
}

/// The shape with `rows` as its first dimension.
pub(crate) fn with_rows(shape: &Shape, rows: usize) -> Shape {
    let mut dims = shape.dims().to_vec();
    dims[0] = rows as i64;
    Shape::new(&dims)
}
