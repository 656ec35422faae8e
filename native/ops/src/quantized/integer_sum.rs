//! Sums and max pooling computed on 8-bit integers. They replace dequantization, the operator, and quantization of its result.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{KernelFn, OpCtx};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::int8::Int8;
use ferromx_kernels::pool::max_pool_bytes;
use ferromx_kernels::quantize::{self, Levels, Operand, Rounding};

use super::integer_product::{Output, Scheme, only_element, scales_and_zeros};
use super::{is_signed, max_abs};
use crate::nn::pooling::PoolingParam;

/// A sum of integers. The inputs of the kernel are the two operands, then the quantization parameters of the first operand, the second and
/// the output, as their [`Scheme`] and [`Output`] say.
pub struct IntegerSum {
    /// How the integers of the operands are converted to numbers.
    pub operands: [Scheme; 2],
    /// The bounds of the result before quantization, such as those of ReLU.
    pub clamp: Option<[f32; 2]>,
    /// How the result is converted to integers.
    pub output: Output,
}

/// The kernel of integer sums. Its parameters are an [`IntegerSum`].
pub static INTEGER_SUM: KernelFn = sum;

/// The kernel of max pooling of 8-bit integers. Its parameters are those of `Pooling`.
pub static INTEGER_MAX_POOL: KernelFn = |ctx, ins, outs| {
    let shape = ctx.params::<PoolingParam>().shape(ins[0].shape())?;
    max_pool_bytes(&shape, is_signed(ins[0].dtype()), ins[0].bytes()?, outs[0].bytes_mut()?);
    Ok(())
};

/// An operand with the scale and the zero point in its quantization parameters `ins`.
fn operand<'a>(scheme: Scheme, x: &In<'a>, ins: &[In<'_>]) -> Result<Operand<'a>> {
    let (scale, zero) = scales_and_zeros(scheme, x.dtype(), ins)?;
    let (scale, zero) =
        (only_element("scale of an operand", &scale)?, only_element("zero point of an operand", &zero)?);
    Ok(Operand { integers: Int8 { bytes: x.bytes()?, is_signed: is_signed(x.dtype()), zero }, scale })
}

fn sum(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<IntegerSum>();
    p.output.write_range(outs)?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let (x, y) = (operand(p.operands[0], &ins[0], &ins[2..4])?, operand(p.operands[1], &ins[1], &ins[4..6])?);
    let dtype = outs[0].dtype();
    let (scale, zero) = match p.output {
        Output::Linear => {
            let (scale, zero) = scales_and_zeros(Scheme::Linear, DType::F32, &ins[6..8])?;
            let scale = only_element("scale of the output", &scale)?;
            (quantize::Scale::Divisor(scale), only_element("zero point of the output", &zero)?)
        }
        Output::Range { min, max } => (quantize::Scale::Multiplier(Levels::Half.of(dtype) / max_abs(min, max)), 0),
        Output::Float => return Err(Error::Internal("a sum of integers has a quantized result".into())),
    };
    let clamp = p.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
    quantize::sum(x, y, &Rounding { clamp, scale, zero, is_signed: is_signed(dtype) }, outs[0].bytes_mut()?);
    Ok(())
}
