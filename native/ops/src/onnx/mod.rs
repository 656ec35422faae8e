//! Operators of ONNX that MXNet does not have, with ONNX's own attributes. The ONNX interpreter maps them one to one.

mod maximum;
mod ngrams;
mod recurrent;
mod running;
mod sampling;
mod scatter;
mod selection;

use ferromx_core::op::OpDef;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
    &maximum::MAX_POOL,
    &ngrams::TF_IDF,
    &recurrent::GRU,
    &recurrent::LSTM,
    &recurrent::VANILLA,
    &running::CUM_PROD,
    &sampling::GRID_SAMPLE,
    &sampling::INTERPOLATE,
    &scatter::SCATTER_ELEMENTS,
    &scatter::SCATTER_ND,
    &selection::NON_MAX_SUPPRESSION,
];
