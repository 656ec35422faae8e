//! Operators of ONNX that MXNet does not have, with ONNX's own attributes. The ONNX interpreter maps them one to one.

mod attention;
mod extents;
mod gelu;
mod maximum;
mod ngrams;
mod open;
mod recurrent;
mod resize;
mod running;
mod sampling;
mod scatter;
mod selection;

pub use extents::{Extents, Function, Leaf};
pub use resize::{Coordinates, NearestMode, Neighbours, ResizeMode, ResizedAxis, Resizing};

use ferromx_core::dispatch;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpDef;
use ferromx_core::storage::In;
use ferromx_kernels::map::Load;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
    &attention::ATTENTION,
    &gelu::GELU_TANH,
    &maximum::MAX_POOL,
    &ngrams::TF_IDF,
    &open::EXPAND,
    &open::FULL,
    &open::RANGE,
    &open::RESHAPE,
    &open::SLICE,
    &recurrent::GRU,
    &recurrent::LSTM,
    &recurrent::VANILLA,
    &running::CUM_PROD,
    &resize::RESIZE,
    &sampling::GRID_SAMPLE,
    &sampling::INTERPOLATE,
    &scatter::GATHER_ELEMENTS,
    &scatter::SCATTER_ELEMENTS,
    &scatter::SCATTER_ND,
    &selection::NON_MAX_SUPPRESSION,
];

/// The elements of an array of whole numbers.
fn integers(what: &str, x: &In<'_>) -> Result<Vec<i64>> {
    dispatch!(x.dtype(), I in [i64, i32, u8, i8] => Ok(x.slice::<I>()?.iter().map(|i| Load::<i64>::lane(*i)).collect()),
        other => Err(Error::Value(format!("{what} has the type {other}, expected int64 or int32"))))
}
