//! Operators of ONNX that MXNet lacks, with ONNX's own attributes. The ONNX importer maps them one to one.
//!
//! - `attention`, `recurrent`, `max_pool` and `gelu` are layers; `quantize` has the operators on 8-bit integers.
//! - `symbolic_shape` has operators whose parameters are expressions over dimensions, which `dim_expr` parses and evaluates.
//! - `resize` computes the taps of `Resize`; `sampling` interpolates with given taps, and samples grids.
//! - `scatter`, `cum_prod`, `tf_idf` and `non_max_suppression` are named like their operators.

mod attention;
mod cum_prod;
mod dim_expr;
mod gelu;
mod max_pool;
mod non_max_suppression;
pub(crate) mod quantize;
mod recurrent;
pub(crate) mod resize;
pub(crate) mod sampling;
mod scatter;
pub(crate) mod symbolic_shape;
mod tf_idf;

pub use dim_expr::{DimExprs, DimLeaf, DimOp};
pub use quantize::DequantizeLinearParam;
pub use resize::{Coordinates, NearestMode, Neighbors, ResizeMode, ResizedAxis, Resizing, scaled_len};

use ferromx_core::dispatch;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::AnyOperator;
use ferromx_core::storage::In;
use ferromx_kernels::map::Load;

/// The operators of this family.
pub(crate) static OPS: &[&dyn AnyOperator] = &[
    &attention::ATTENTION,
    &gelu::GELU_TANH,
    &max_pool::MAX_POOL,
    &tf_idf::TF_IDF,
    &symbolic_shape::EXPAND,
    &symbolic_shape::FULL,
    &symbolic_shape::RANGE,
    &symbolic_shape::RESHAPE,
    &symbolic_shape::SLICE,
    &recurrent::GRU,
    &recurrent::LSTM,
    &recurrent::VANILLA,
    &cum_prod::CUM_PROD,
    &resize::RESIZE,
    &sampling::GRID_SAMPLE,
    &sampling::INTERPOLATE,
    &scatter::GATHER_ELEMENTS,
    &scatter::SCATTER_ELEMENTS,
    &scatter::SCATTER_ND,
    &non_max_suppression::NON_MAX_SUPPRESSION,
    &quantize::QUANTIZE_LINEAR,
    &quantize::DEQUANTIZE_LINEAR,
    &quantize::MATMUL_INTEGER,
    &quantize::CONV_INTEGER,
];

/// The elements of an integer array. `name` is the name of the input in errors.
fn integers(name: &str, x: &In<'_>) -> Result<Vec<i64>> {
    dispatch!(x.dtype(), I in [i64, i32, u8, i8] => Ok(x.slice::<I>()?.iter().map(|i| Load::<i64>::lane(*i)).collect()),
        other => Err(Error::Value(format!("{name} has the type {other}, expected int64, int32, uint8 or int8"))))
}
