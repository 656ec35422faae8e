//! Sums and maxima between dequantized operands and a quantized result, computed on the integers.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{KernelFn, OpCtx};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::pool::max_pool_bytes;
use ferromx_kernels::quantize::{self, Levels, Operand, Rounding};

use super::fused::{Output, Scheme, described, single};
use super::{is_signed, max_abs};
use crate::nn::pooling::PoolingParam;

/// A sum on integers. The inputs of the kernel are the operands, then those that describe the first operand, the second and the output.
pub struct IntegerSum {
    /// What the operands represent.
    pub operands: [Scheme; 2],
    /// The bounds of the result, as of ReLU.
    pub clamp: Option<[f32; 2]>,
    /// The result.
    pub output: Output,
}

/// The kernel of an [`IntegerSum`], which are its parameters.
pub static INTEGER_SUM: KernelFn = sum;

/// The kernel of max pooling of integers. Its parameters are those of `Pooling`.
pub static INTEGER_MAX_POOL: KernelFn = |ctx, ins, outs| {
    let shape = ctx.params::<PoolingParam>().shape(ins[0].shape())?;
    max_pool_bytes(&shape, is_signed(ins[0].dtype()), ins[0].bytes()?, outs[0].bytes_mut()?);
    Ok(())
};

/// An operand, described by two inputs.
fn operand<'a>(scheme: Scheme, x: &In<'a>, described_by: &[In<'_>]) -> Result<Operand<'a>> {
    let (scale, zero) = described(scheme, x.dtype(), described_by)?;
    let (scale, zero) = (single("scale of an operand", &scale)?, single("zero point of an operand", &zero)?);
    Ok(Operand { bytes: x.bytes()?, is_signed: is_signed(x.dtype()), scale, zero })
}

fn sum(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<IntegerSum>();
    p.output.put_range(outs)?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let (x, y) = (operand(p.operands[0], &ins[0], &ins[2..4])?, operand(p.operands[1], &ins[1], &ins[4..6])?);
    let dtype = outs[0].dtype();
    let (scale, zero) = match p.output {
        Output::Linear => {
            let (scale, zero) = described(Scheme::Linear, DType::F32, &ins[6..8])?;
            let scale = single("scale of the output", &scale)?;
            (quantize::Scale::Divisor(scale), single("zero point of the output", &zero)?)
        }
        Output::Range { min, max } => (quantize::Scale::Multiplier(Levels::Half.of(dtype) / max_abs(min, max)), 0),
        Output::Numbers => return Err(Error::Internal("a sum of integers has a quantized result".into())),
    };
    let clamp = p.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
    quantize::sum(x, y, &Rounding { clamp, scale, zero, is_signed: is_signed(dtype) }, outs[0].bytes_mut()?);
    Ok(())
}
