//! Layers on 8-bit integers, quantization and dequantization.
//!
//! A quantized array comes with the range of the numbers it represents, as two arrays of one element. With r the largest absolute value of
//! the range, an integer q represents q * r / 127 (int8), q * r / 255 (uint8) or q * r / (2^31 - 1) (int32); the operators that MXNet runs
//! through oneDNN use 127.5 and 255.5.
//!
//! - `convert` quantizes, dequantizes, requantizes and calibrates.
//! - `layers` has MXNet's quantized layers that move or look up integers: ReLU, flatten, pooling, concatenation, embedding; and batch
//!   normalization.
//! - `product` has its quantized products: dense layer, convolution, elementwise addition and multiplication.
//! - `rnn` is the LSTM on 8-bit data.
//! - `integer_product` and `integer_sum` are the kernels into which dequantization, an operator and quantization are fused.

mod convert;
mod integer_product;
mod integer_sum;
mod layers;
mod product;
mod rnn;
#[cfg(test)]
mod tests;

pub use convert::{ByteType, QuantizeV2Param};
pub use integer_product::{INTEGER_PRODUCT, IntegerProduct, Output, Scheme, Weights};
pub use integer_sum::{INTEGER_MAX_POOL, INTEGER_SUM, IntegerSum};

pub(crate) use integer_product::{is_signed, with_packed, zero_points};

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, ArgDef, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[convert::OPS, layers::OPS, product::OPS, rnn::OPS];

const BYTES: &[DType] = &[DType::I8, DType::U8];
const DATA: ArgDef = arg("data", "The input, of type int8 or uint8.");
const MIN_DATA: ArgDef = arg("min_data", "The lower end of the input's range, of shape (1,).");
const MAX_DATA: ArgDef = arg("max_data", "The upper end of the input's range, of shape (1,).");

/// The largest absolute value of a range.
fn max_abs(min: f32, max: f32) -> f32 {
    min.abs().max(max.abs())
}

/// One end of a range, from an input of one element.
fn range_end(input: &In<'_>) -> Result<f32> {
    Ok(input.slice::<f32>()?.first().copied().unwrap_or(0.0))
}

/// The largest absolute value of the range in the inputs `i` and `i + 1`.
fn range_max_abs(ins: &[In<'_>], i: usize) -> Result<f32> {
    Ok(max_abs(range_end(&ins[i])?, range_end(&ins[i + 1])?))
}

/// Writes the range of the first output to the second and third outputs.
fn write_range(outs: &mut [Out<'_>], min: f32, max: f32) -> Result<()> {
    for (out, value) in outs.iter_mut().skip(1).zip([min, max]) {
        if out.wanted() {
            out.slice_mut::<f32>()?.fill(value);
        }
    }
    Ok(())
}

/// Copies the range in the inputs `i` and `i + 1` to the outputs.
fn copy_range(ins: &[In<'_>], i: usize, outs: &mut [Out<'_>]) -> Result<()> {
    write_range(outs, range_end(&ins[i])?, range_end(&ins[i + 1])?)
}

/// Shape rule of a layer whose first `num_data` inputs and first output follow the rule of another operator. The other operands are ends of
/// ranges.
fn shape_like(def: &OpDef, p: &Params, io: &mut ShapeIo<'_>, num_data: usize) -> Result<()> {
    (def.inference.shape)(p, &mut ShapeIo { ins: &mut io.ins[..num_data], outs: &mut io.outs[..1] })?;
    range_shapes(io, num_data)
}

/// Shape rule of the ends of ranges: the inputs after the first `num_data` and the outputs after the first have shape (1,).
fn range_shapes(io: &mut ShapeIo<'_>, num_data: usize) -> Result<()> {
    (num_data..io.ins.len()).try_for_each(|i| io.assign_in(i, &Shape::new(&[1])))?;
    (1..io.outs.len()).try_for_each(|i| io.assign_out(i, &Shape::new(&[1])))
}

/// Type rule: the ends of ranges, as in [`range_shapes`], are of type float32, and the first output is of type `out`.
fn range_dtypes(io: &mut DTypeIo<'_>, num_data: usize, out: Option<DType>) -> Result<()> {
    (num_data..io.ins.len()).try_for_each(|i| io.assign_in(i, DType::F32))?;
    (1..io.outs.len()).try_for_each(|i| io.assign_out(i, DType::F32))?;
    match out {
        Some(dtype) => io.assign_out(0, dtype),
        None => Ok(()),
    }
}

/// The names of an output and the ends of its range.
fn output_names(_: &Params) -> Vec<String> {
    ["output", "min_output", "max_output"].map(String::from).to_vec()
}
