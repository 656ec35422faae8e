//! Layers on 8-bit integers, quantization and dequantization.
//!
//! A quantized array comes with the range of the numbers it represents, as two arrays of one element. With r the largest absolute value of
//! the range, an integer q represents q * r / 127 (int8), q * r / 255 (uint8) or q * r / (2^31 - 1) (int32); the operators that MXNet runs
//! through oneDNN use 127.5 and 255.5.

mod between;
mod convert;
mod fused;
mod layers;
mod product;
mod rnn;
#[cfg(test)]
mod tests;

pub use between::{INTEGER_MAX_POOL, INTEGER_SUM, IntegerSum};
pub use convert::QuantizeV2Param;
pub use fused::{INTEGER_PRODUCT, IntegerProduct, Output, Scheme, Weights};

pub(crate) use fused::{is_signed, with_packed, zero_points};

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};

/// The operators of this family.
pub static OPS: &[&[&OpDef]] = &[
    // Conversions.
    convert::OPS,
    // Layers that keep the range of their input, or get a calibrated one for their output.
    layers::OPS,
    // Sums and products.
    product::OPS,
    // Recurrent networks.
    rnn::OPS,
];

const BYTES: &[DType] = &[DType::I8, DType::U8];
const DATA: ArgDef = arg("data", "The input, of type int8 or uint8.");
const MIN_DATA: ArgDef = arg("min_data", "The lower end of the input's range, of shape (1,).");
const MAX_DATA: ArgDef = arg("max_data", "The upper end of the input's range, of shape (1,).");

/// The largest absolute value of a range.
fn max_abs(min: f32, max: f32) -> f32 {
    min.abs().max(max.abs())
}

/// One end of a range.
fn end(input: &In<'_>) -> Result<f32> {
    Ok(input.slice::<f32>()?.first().copied().unwrap_or(0.0))
}

/// The largest absolute value of the range in the inputs `i` and `i + 1`.
fn max_abs_at(ins: &[In<'_>], i: usize) -> Result<f32> {
    Ok(max_abs(end(&ins[i])?, end(&ins[i + 1])?))
}

/// Writes the range of the first output to the second and third outputs.
fn put_range(outs: &mut [Out<'_>], min: f32, max: f32) -> Result<()> {
    for (out, value) in outs.iter_mut().skip(1).zip([min, max]) {
        if out.wanted() {
            out.slice_mut::<f32>()?.fill(value);
        }
    }
    Ok(())
}

/// Copies the range in the inputs `i` and `i + 1` to the outputs.
fn pass_range(ins: &[In<'_>], i: usize, outs: &mut [Out<'_>]) -> Result<()> {
    put_range(outs, end(&ins[i])?, end(&ins[i + 1])?)
}

/// Shape rule of a layer whose first `data` inputs and first output follow the rule of another operator; the other operands
/// are ends of ranges.
fn shape_like(def: &OpDef, p: &Params, io: &mut ShapeIo<'_>, data: usize) -> Result<()> {
    (def.infer_shape)(p, &mut ShapeIo { ins: &mut io.ins[..data], outs: &mut io.outs[..1] })?;
    range_shapes(io, data)
}

/// The inputs from `data` on and the outputs from the second on are ends of ranges.
fn range_shapes(io: &mut ShapeIo<'_>, data: usize) -> Result<()> {
    (data..io.ins.len()).try_for_each(|i| io.assign_in(i, &Shape::new(&[1])))?;
    (1..io.outs.len()).try_for_each(|i| io.assign_out(i, &Shape::new(&[1])))
}

/// The inputs from `data` on and the outputs from the second on are of type float32, the first output is of type `out`.
fn range_dtypes(io: &mut DTypeIo<'_>, data: usize, out: Option<DType>) -> Result<()> {
    (data..io.ins.len()).try_for_each(|i| io.assign_in(i, DType::F32))?;
    (1..io.outs.len()).try_for_each(|i| io.assign_out(i, DType::F32))?;
    match out {
        Some(dtype) => io.assign_out(0, dtype),
        None => Ok(()),
    }
}

/// Names of an output and its range.
fn with_range(_: &Params) -> Vec<String> {
    ["output", "min_output", "max_output"].map(String::from).to_vec()
}
