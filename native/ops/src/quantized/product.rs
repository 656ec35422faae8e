//! Products and sums of 8-bit integers: `quantized_fully_connected`, `quantized_conv`, `quantized_elemwise_add`, `quantized_elemwise_mul`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::infer::same_shape;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, OpDef, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, params};
use ferromx_kernels::conv::ConvShape;
use ferromx_kernels::gemm::{MatMut, MatRef};
use ferromx_kernels::int8::{ConvWeights, Epilogue, Int8, Int8Weights, MatrixWeights, conv_int8, gemm_int8};
use ferromx_kernels::quantize::{self, Levels, Quantum};

use super::{
    BYTES, DATA, MAX_DATA, MIN_DATA, is_signed, max_abs, output_names, range_dtypes, range_max_abs, range_shapes,
    shape_like, with_packed, write_range,
};
use crate::nn::convolution::{CONVOLUTION, ConvolutionParam};
use crate::nn::fully_connected::{FULLY_CONNECTED, FullyConnectedParam, rows_and_features};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&FULLY_CONNECTED_INT8, &CONVOLUTION_INT8, &ADD, &MUL];

const WITH_BIAS: &[ArgDef] = &[
    DATA,
    arg("weight", "The weights, of type int8."),
    arg("bias", "The bias, of type int8; absent with no_bias=True."),
    MIN_DATA,
    MAX_DATA,
    arg("min_weight", "The lower end of the weights' range, of shape (1,)."),
    arg("max_weight", "The upper end of the weights' range, of shape (1,)."),
    arg("min_bias", "The lower end of the bias's range, of shape (1,); absent with no_bias=True."),
    arg("max_bias", "The upper end of the bias's range, of shape (1,); absent with no_bias=True."),
];

/// The names of the inputs of a layer with or without a bias.
fn input_names(no_bias: bool) -> Vec<String> {
    let is_absent = |a: &&ArgDef| no_bias && a.name.ends_with("bias");
    WITH_BIAS.iter().filter(|a| !is_absent(a)).map(|a| a.name.to_string()).collect()
}

/// The scales of the sums and of the bias of a layer.
struct Scales {
    /// The scale of the sums: data scale times weight scale.
    sum: f32,
    /// The scale of the bias divided by the scale of the sums.
    bias: f32,
}

impl Scales {
    fn new(ins: &[In<'_>], no_bias: bool) -> Result<Scales> {
        let first = if no_bias { 2 } else { 3 };
        let (data, weight) = (range_max_abs(ins, first)?, range_max_abs(ins, first + 2)?);
        let scale = |dtype: DType, max_abs: f32| max_abs / Levels::Whole.of(dtype);
        let bias = match no_bias {
            true => 0.0,
            false => {
                let inverse_scale = |dtype: DType, max_abs: f32| Levels::Half.of(dtype) / max_abs;
                let bias = range_max_abs(ins, first + 4)?;
                inverse_scale(ins[0].dtype(), data) * inverse_scale(DType::I8, weight) * bias
                    / Levels::Half.of(DType::I8)
            }
        };
        Ok(Scales { sum: scale(ins[0].dtype(), data) * scale(DType::I8, weight), bias })
    }

    /// Writes the range of the sums.
    fn write_range(&self, outs: &mut [Out<'_>]) -> Result<()> {
        let end = self.sum * i32::MAX as f32;
        write_range(outs, -end, end)
    }

    /// The bias in units of the scale of the sums; empty if there is none.
    fn bias(&self, ins: &[In<'_>], no_bias: bool) -> Result<Vec<i32>> {
        if no_bias {
            return Ok(Vec::new());
        }
        // MXNet truncates here, although it rounds elsewhere.
        Ok(ins[2].slice::<i8>()?.iter().map(|b| (f32::from(*b) * self.bias) as i32).collect())
    }
}

pub(super) static FULLY_CONNECTED_INT8: Operator<FullyConnectedParam> = Operator::new("_contrib_quantized_fully_connected")
    .doc(
        "FullyConnected on 8-bit integers: sums of products of data and weights as exact 32-bit integers, plus the bias rescaled to \
         the same scale.\n\n\
         Shapes are those of FullyConnected. Outputs: the sums, of type int32, and the ends of their range, of shape (1,): -e and e \
         with e = (2^31 - 1) * step of the data * step of the weights.",
    )
    .inputs(WITH_BIAS)
    .num_inputs_by(|p| if p.get::<FullyConnectedParam>().no_bias { 6 } else { 9 })
    .input_names_by(|p| input_names(p.get::<FullyConnectedParam>().no_bias))
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| layer_shape(&FULLY_CONNECTED, p, io, p.get::<FullyConnectedParam>().no_bias))
    .dtype(|p, io| {
        let num_data = if p.get::<FullyConnectedParam>().no_bias { 2 } else { 3 };
        (1..num_data).try_for_each(|i| io.assign_in(i, DType::I8))?;
        range_dtypes(io, num_data, Some(DType::I32))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<FullyConnectedParam>();
        let scales = Scales::new(ins, p.no_bias)?;
        if outs[0].wanted() {
            multiply(ctx, ins, &scales.bias(ins, p.no_bias)?, &mut outs[0])?;
        }
        scales.write_range(outs)
    });

fn layer_shape(def: &OpDef, p: &Params, io: &mut ShapeIo<'_>, no_bias: bool) -> Result<()> {
    let expected = input_names(no_bias);
    io.expect_inputs(&expected.iter().map(String::as_str).collect::<Vec<_>>())?;
    shape_like(def, p, io, if no_bias { 2 } else { 3 })
}

pub(super) static CONVOLUTION_INT8: Operator<ConvolutionParam> = Operator::new("_contrib_quantized_conv").names_outputs()
    .doc(
        "Convolution of 8-bit integers in two dimensions, channels first: sums of products of data and weights as exact 32-bit \
         integers, plus the bias rescaled to their range.\n\n\
         Shapes and parameters are those of Convolution. Outputs: the sums, of type int32, and the ends of their range, of shape \
         (1,): -e and e with e = (2^31 - 1) * step of the data * step of the weights.",
    )
    .inputs(WITH_BIAS)
    .num_inputs_by(|p| if p.get::<ConvolutionParam>().no_bias { 6 } else { 9 })
    .input_names_by(|p| input_names(p.get::<ConvolutionParam>().no_bias))
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| {
        let kernel = &p.get::<ConvolutionParam>().kernel;
        ensure!(kernel.dims().len() == 2, "quantized_conv needs two spatial dimensions, but kernel is {kernel}");
        layer_shape(&CONVOLUTION, p, io, p.get::<ConvolutionParam>().no_bias)
    })
    .dtype(|p, io| {
        let num_data = if p.get::<ConvolutionParam>().no_bias { 2 } else { 3 };
        (1..num_data).try_for_each(|i| io.assign_in(i, DType::I8))?;
        range_dtypes(io, num_data, Some(DType::I32))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<ConvolutionParam>();
        let scales = Scales::new(ins, p.no_bias)?;
        if outs[0].wanted() {
            convolve(ctx, ins, &scales.bias(ins, p.no_bias)?, &mut outs[0])?;
        }
        scales.write_range(outs)
    });

/// The data of a layer.
fn data<'a>(ctx: &OpCtx<'_>, ins: &[In<'a>]) -> Result<Int8<'a>> {
    let dtype = ins[0].dtype();
    if !BYTES.contains(&dtype) {
        return Err(ctx.unsupported(dtype, BYTES));
    }
    Ok(Int8 { bytes: ins[0].bytes()?, is_signed: is_signed(dtype), zero: 0 })
}

/// The weights of a layer.
fn weights<'a>(ins: &[In<'a>]) -> Result<Int8Weights<'a>> {
    Ok(Int8Weights { bytes: ins[1].bytes()?, is_signed: is_signed(ins[1].dtype()), zeros: &[0] })
}

fn multiply(ctx: &OpCtx<'_>, ins: &[In<'_>], bias: &[i32], out: &mut Out<'_>) -> Result<()> {
    let p = ctx.params::<FullyConnectedParam>();
    let ((m, k), n) = (rows_and_features(p, ins[0].shape()), p.num_hidden as usize);
    let (x, w) = (data(ctx, ins)?, weights(ins)?);
    let pack = || Ok((MatrixWeights::new(&w, MatRef::row_major(w.bytes, n, k).t()), Vec::new()));
    let out = MatMut::row_major(out.slice_mut::<i32>()?, m, n);
    with_packed(ctx, &ins[1], ([k, n, 1, k], (&[], &[])), pack, |weights, _| {
        gemm_int8(x, weights, &Epilogue { bias, ..Epilogue::SUMS }, out);
        Ok(())
    })
}

fn convolve(ctx: &OpCtx<'_>, ins: &[In<'_>], bias: &[i32], out: &mut Out<'_>) -> Result<()> {
    let shape = ctx.params::<ConvolutionParam>().computed(ins[0].shape())?;
    let (x, w, out) = (data(ctx, ins)?, weights(ins)?, out.slice_mut::<i32>()?);
    if out.is_empty() || x.bytes.is_empty() {
        return Ok(());
    }
    let pack = || Ok((ConvWeights::new(&shape, &w), Vec::new()));
    with_packed(ctx, &ins[1], (ConvShape { batch: 0, ..shape }, (&[], &[])), pack, |weights, _| {
        conv_int8(&shape, x, weights, &Epilogue { bias, ..Epilogue::SUMS }, out);
        Ok(())
    })
}

const BINARY_ARGS: &[ArgDef] = &[
    arg("lhs", "The first operand, of type int8 or uint8."),
    arg("rhs", "The second operand, of the same shape."),
    arg("lhs_min", "The lower end of the range of lhs, of shape (1,)."),
    arg("lhs_max", "The upper end of the range of lhs, of shape (1,)."),
    arg("rhs_min", "The lower end of the range of rhs, of shape (1,)."),
    arg("rhs_max", "The upper end of the range of rhs, of shape (1,)."),
];

fn binary_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    same_shape(p, &mut ShapeIo { ins: &mut io.ins[..2], outs: &mut io.outs[..1] })?;
    range_shapes(io, 2)
}

/// Writes the integers nearest to `f(lhs, rhs)`.
fn combine<Q: Quantum>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    out: &mut [Q],
    f: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<()> {
    dispatch!(ins[0].dtype(), A in [i8, u8] => {
        dispatch!(ins[1].dtype(), B in [i8, u8] => {
            quantize::combine(ins[0].slice::<A>()?, ins[1].slice::<B>()?, out, f);
            Ok(())
        }, other => Err(ctx.unsupported(other, BYTES)))
    }, other => Err(ctx.unsupported(other, BYTES)))
}

params! {
    /// Parameters of `quantized_elemwise_add`.
    pub struct AddParam {
        /// The calibrated minimum of the sums.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum of the sums; with a calibrated range the result has 8 bits, else 32.
        max_calib_range: Option<f32> = None;
    }
}

pub(super) static ADD: Operator<AddParam> = Operator::new("_contrib_quantized_elemwise_add")
    .doc(
        "Adds 8-bit integers of different ranges. With a calibrated range the result is of type int8 (uint8 if \
         both operands are), else of type int32, in the range of all possible sums. Outputs: the integers, in the shape of the \
         operands, and the ends of their range.",
    )
    .inputs(BINARY_ARGS)
    .arg_order(&["min_calib_range", "max_calib_range", "lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max"])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(binary_shape)
    .dtype(|p, io| {
        let p = p.get::<AddParam>();
        let out = match (p.min_calib_range, p.max_calib_range, io.ins[0], io.ins[1]) {
            (Some(_), Some(_), Some(DType::U8), Some(DType::U8)) => Some(DType::U8),
            (Some(_), Some(_), Some(_), Some(_)) => Some(DType::I8),
            (Some(_), Some(_), ..) => None,
            _ => Some(DType::I32),
        };
        range_dtypes(io, 2, out)
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<AddParam>();
        let (lhs_max_abs, rhs_max_abs, dtype) = (range_max_abs(ins, 2)?, range_max_abs(ins, 4)?, outs[0].dtype());
        let (levels, min, max) = match (p.min_calib_range, p.max_calib_range) {
            (Some(min), Some(max)) => (Levels::Whole, min, max),
            _ => (Levels::Half, -lhs_max_abs - rhs_max_abs, lhs_max_abs + rhs_max_abs),
        };
        if outs[0].wanted() {
            let scale = levels.of(dtype) / max_abs(min, max);
            let a = lhs_max_abs / levels.of(ins[0].dtype()) * scale;
            let b = rhs_max_abs / levels.of(ins[1].dtype()) * scale;
            dispatch!(dtype, Q in [i8, u8, i32] => combine(ctx, ins, outs[0].slice_mut::<Q>()?, |x, y| a * x + b * y)?,
                other => return Err(ctx.unsupported(other, &[DType::I8, DType::U8, DType::I32])));
        }
        write_range(outs, min, max)
    });

params! {
    /// Parameters of `quantized_elemwise_mul`.
    pub struct MulParam {
        /// The calibrated minimum of the products.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum of the products; with a calibrated range the result has 8 bits, else 32.
        max_calib_range: Option<f32> = None;
        /// Whether the result is float32, without a range.
        enable_float_output: bool = false;
    }
}

pub(super) static MUL: Operator<MulParam> = Operator::new("_contrib_quantized_elemwise_mul").names_outputs()
    .doc(
        "Multiplies 8-bit integers. With enable_float_output the result is dequantized to float32; with a calibrated range \
         it is of type int8; else it is the products of the integers, of type int32. Outputs: the integers, in the shape of the \
         operands, and, unless they are float32, the ends of their range.",
    )
    .inputs(BINARY_ARGS)
    .outputs(|p| if p.get::<MulParam>().enable_float_output { 1 } else { 3 })
    .output_names_by(|p| {
        let mut names = output_names(p);
        if p.get::<MulParam>().enable_float_output {
            names.truncate(1);
        }
        names
    })
    .shape(binary_shape)
    .dtype(|p, io| {
        let p = p.get::<MulParam>();
        let out = match (p.enable_float_output, p.min_calib_range, p.max_calib_range) {
            (true, ..) => DType::F32,
            (_, Some(_), Some(_)) => DType::I8,
            _ => DType::I32,
        };
        range_dtypes(io, 2, Some(out))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<MulParam>();
        let (lhs_max_abs, rhs_max_abs) = (range_max_abs(ins, 2)?, range_max_abs(ins, 4)?);
        let product_scale =
            |levels: Levels| lhs_max_abs / levels.of(ins[0].dtype()) * (rhs_max_abs / levels.of(ins[1].dtype()));
        if p.enable_float_output {
            let mut products = memory::filled(0i32, outs[0].len());
            combine(ctx, ins, &mut products, |x, y| x * y)?;
            quantize::dequantize(&products, product_scale(Levels::Half), outs[0].slice_mut()?);
            return Ok(());
        }
        let scale = match (p.min_calib_range, p.max_calib_range) {
            (Some(min), Some(max)) => {
                write_range(outs, min, max)?;
                product_scale(Levels::Half) * Levels::Half.of(DType::I8) / max_abs(min, max)
            }
            _ => {
                let end = product_scale(Levels::Whole) * i32::MAX as f32;
                write_range(outs, -end, end)?;
                1.0
            }
        };
        if outs[0].wanted() {
            dispatch!(outs[0].dtype(), Q in [i8, i32] => combine(ctx, ins, outs[0].slice_mut::<Q>()?, |x, y| x * y * scale)?,
                other => return Err(ctx.unsupported(other, &[DType::I8, DType::I32])));
        }
        Ok(())
    });
