//! `quantize`, `quantize_v2`, `quantize_asym`, `dequantize`, `requantize`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, arg};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::calibrate::best_threshold;
use ferromx_kernels::quantize::{self, Levels, extremes};

use super::{BYTES, max_abs, range_dtypes, range_end, range_max_abs, range_shapes, write_range};
use crate::compose::op;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&QUANTIZE, &QUANTIZE_V2, &QUANTIZE_ASYM, &DEQUANTIZE, &REQUANTIZE, &FAKE_QUANTIZE, &CALIBRATE_ENTROPY];

const MIN: ArgDef = arg("min_range", "The lower end of the range, of shape (1,).");
const MAX: ArgDef = arg("max_range", "The upper end of the range, of shape (1,).");

param_enum! {
    /// An 8-bit integer type.
    pub enum ByteType { Int8 = "int8", Uint8 = "uint8" }
}

impl ByteType {
    /// The element type.
    pub(crate) fn dtype(self) -> DType {
        match self {
            ByteType::Int8 => DType::I8,
            ByteType::Uint8 => DType::U8,
        }
    }
}

param_enum! {
    /// An 8-bit integer type; `auto` is uint8 if the range has no negative numbers.
    pub enum AutoType { Auto = "auto", Int8 = "int8", Uint8 = "uint8" }
}

impl AutoType {
    fn dtype(self, min: Option<f32>, max: Option<f32>) -> DType {
        match self {
            AutoType::Int8 => DType::I8,
            AutoType::Uint8 => DType::U8,
            AutoType::Auto if max.is_some() && min.is_some_and(|min| min >= 0.0) => DType::U8,
            AutoType::Auto => DType::I8,
        }
    }
}

/// The calibrated range, if both ends are given.
fn calibrated_range(min: Option<f32>, max: Option<f32>) -> Result<Option<(f32, f32)>> {
    let (Some(min), Some(max)) = (min, max) else { return Ok(None) };
    ensure!(min <= max, "min_calib_range {min} is above max_calib_range {max}");
    Ok(Some((min, max)))
}

/// Quantizes with a given range, and writes the integers and the range.
fn quantize_with_range(
    ctx: &OpCtx<'_>,
    x: &[f32],
    (min, max): (f32, f32),
    levels: Levels,
    outs: &mut [Out<'_>],
) -> Result<()> {
    let (dtype, max_abs) = (outs[0].dtype(), max_abs(min, max));
    if outs[0].wanted() {
        let scale = levels.of(dtype) / max_abs;
        dispatch!(dtype, Q in [i8, u8] => quantize::quantize(x, scale, 0.0, outs[0].slice_mut::<Q>()?),
            other => return Err(ctx.unsupported(other, BYTES)));
    }
    match dtype {
        DType::U8 => write_range(outs, min, max),
        _ => write_range(outs, -max_abs, max_abs),
    }
}

params! {
    /// Parameters of `quantize`.
    pub struct QuantizeParam {
        /// The type of the integers.
        out_type: ByteType = (ByteType::Uint8);
    }
}

pub(super) static QUANTIZE: Operator<QuantizeParam> = Operator::new("_contrib_quantize")
    .doc(
        "Quantizes to 8-bit integers: with r the larger of |min_range| and |max_range|, the integers nearest to data * 127 / r (int8) \
         or data * 255 / r (uint8), within their range.\n\n\
         Outputs: the integers, in the shape of data, and the ends of their range, of shape (1,): -r and r for int8, min_range and \
         max_range for uint8.",
    )
    .inputs(&[arg("data", "The numbers, of type float32."), MIN, MAX])
    .outputs(|_| 3)
    .shape(|_, io| {
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|p, io| {
        io.assign_in(0, DType::F32)?;
        range_dtypes(io, 1, Some(p.get::<QuantizeParam>().out_type.dtype()))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let range = (range_end(&ins[1])?, range_end(&ins[2])?);
        quantize_with_range(ctx, ins[0].slice()?, range, Levels::Whole, outs)
    });

params! {
    /// Parameters of `quantize_v2`.
    pub struct QuantizeV2Param {
        /// The type of the integers; `auto` is uint8 if the calibrated range has no negative numbers, else int8.
        out_type: AutoType = (AutoType::Int8);
        /// The calibrated minimum; with None the range is that of the data.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum.
        max_calib_range: Option<f32> = None;
    }
}

pub(super) static QUANTIZE_V2: Operator<QuantizeV2Param> = Operator::new("_contrib_quantize_v2").names_data()
    .doc(
        "Quantizes to 8-bit integers: with r the largest absolute value of the range, the integers nearest to \
         data * 127.5 / r (int8) or data * 255.5 / r (uint8), within their range. 8-bit integers are passed through; without \
         a calibrated range, they represent themselves.\n\n\
         Outputs: the integers, in the shape of data, and the ends of their range, of shape (1,).",
    )
    .inputs(&[arg("data", "The numbers, of type float32, int8 or uint8.")])
    .outputs(|_| 3)
    .shape(|_, io| {
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|p, io| {
        let p = p.get::<QuantizeV2Param>();
        range_dtypes(io, 1, Some(p.out_type.dtype(p.min_calib_range, p.max_calib_range)))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<QuantizeV2Param>();
        let range = calibrated_range(p.min_calib_range, p.max_calib_range)?;
        match ins[0].dtype() {
            DType::F32 => {
                let x = ins[0].slice::<f32>()?;
                quantize_with_range(ctx, x, range.unwrap_or_else(|| extremes(x)), Levels::Half, outs)
            }
            dtype if BYTES.contains(&dtype) => {
                let levels = Levels::Half.of(dtype);
                let (min, max) = range.unwrap_or((if dtype == DType::U8 { 0.0 } else { -levels }, levels));
                if outs[0].wanted() {
                    outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
                }
                write_range(outs, min, max)
            }
            other => Err(ctx.unsupported(other, &[DType::F32, DType::I8, DType::U8])),
        }
    });

params! {
    /// Parameters of `quantize_asym`.
    pub struct QuantizeAsymParam {
        /// The calibrated minimum; with None the range is that of the data.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum.
        max_calib_range: Option<f32> = None;
    }
}

pub(super) static QUANTIZE_ASYM: Operator<QuantizeAsymParam> = Operator::new("_contrib_quantize_asym")
    .doc(
        "Quantizes asymmetrically to unsigned 8-bit integers, which cover exactly the range of the data: the integers nearest to \
         data * scale + shift, with scale = 255 / (max - min) and shift = 255 - max * scale.\n\n\
         Outputs: the integers, in the shape of data, scale and shift, both of shape (1,).",
    )
    .inputs(&[arg("data", "The numbers, of type float32.")])
    .outputs(|_| 3)
    .output_names_by(|_| ["output", "scale", "shift"].map(String::from).to_vec())
    .shape(|_, io| {
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|_, io| {
        io.assign_in(0, DType::F32)?;
        range_dtypes(io, 1, Some(DType::U8))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<QuantizeAsymParam>();
        let x = ins[0].slice::<f32>()?;
        let (min, max) = calibrated_range(p.min_calib_range, p.max_calib_range)?.unwrap_or_else(|| extremes(x));
        let scale = 255.0 / (max - min);
        let shift = 255.0 - max * scale;
        if outs[0].wanted() {
            quantize::quantize(x, scale, shift, outs[0].slice_mut::<u8>()?);
        }
        write_range(outs, scale, shift)
    });

param_enum! {
    /// The type of the dequantized numbers.
    pub enum FloatType { Float32 = "float32" }
}

params! {
    /// Parameters of `dequantize`.
    pub struct DequantizeParam {
        /// The type of the numbers.
        out_type: FloatType = (FloatType::Float32);
    }
}

pub(super) static DEQUANTIZE: Operator<DequantizeParam> = Operator::new("_contrib_dequantize")
    .doc(
        "Dequantizes 8-bit integers: data * r / 127.5 (int8) or data * r / 255.5 (uint8), with r the larger of \
         |min_range| and |max_range|. The output has the shape of data.",
    )
    .inputs(&[arg("data", "The integers, of type int8 or uint8."), MIN, MAX])
    .shape(|_, io| {
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|_, io| range_dtypes(io, 1, Some(DType::F32)))
    .grad(Grad::Zero)
    .pointwise_before(1)
    .forward(|ctx, ins, outs| {
        let max_abs = range_max_abs(ins, 1)?;
        dispatch!(ins[0].dtype(), Q in [i8, u8] => {
            let scale = max_abs / Levels::Half.of(ins[0].dtype());
            quantize::dequantize(ins[0].slice::<Q>()?, scale, outs[0].slice_mut()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, BYTES)))
    });

params! {
    /// Parameters of `requantize`.
    pub struct RequantizeParam {
        /// The type of the integers; `auto` is uint8 if the calibrated range has no negative numbers, else int8.
        out_type: AutoType = (AutoType::Int8);
        /// The calibrated minimum; with None the range is that of the data.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum.
        max_calib_range: Option<f32> = None;
    }
}

pub(super) static REQUANTIZE: Operator<RequantizeParam> = Operator::new("_contrib_requantize")
    .doc(
        "Requantizes 32-bit integers to 8-bit ones: those nearest to data * s / (2^31 - 1) * 127 / r (int8) or * 255 / r (uint8), with s \
         and r the largest absolute values of the old and the new range.\n\n\
         Outputs: the integers, in the shape of data, and the ends of their range, of shape (1,): -r and r for int8, 0 and r for \
         uint8.",
    )
    .inputs(&[arg("data", "The integers, of type int32."), MIN, MAX])
    .outputs(|_| 3)
    .shape(|_, io| {
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|p, io| {
        let p = p.get::<RequantizeParam>();
        io.assign_in(0, DType::I32)?;
        range_dtypes(io, 1, Some(p.out_type.dtype(p.min_calib_range, p.max_calib_range)))
    })
    .grad(Grad::Zero)
    .forward(requantize);

fn requantize(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<RequantizeParam>();
    let (x, dtype) = (ins[0].slice::<i32>()?, outs[0].dtype());
    let in_scale = range_max_abs(ins, 1)? / Levels::Whole.of(DType::I32);
    let max_abs = match calibrated_range(p.min_calib_range, p.max_calib_range)? {
        Some((min, max)) => max_abs(min, max),
        None => {
            let (min, max) = extremes(x);
            max_abs(min, max) * in_scale
        }
    };
    if outs[0].wanted() {
        let scale = in_scale * (Levels::Whole.of(dtype) / max_abs);
        dispatch!(dtype, Q in [i8, u8] => quantize::quantize(x, scale, 0.0, outs[0].slice_mut::<Q>()?),
            other => return Err(ctx.unsupported(other, BYTES)));
    }
    write_range(outs, if dtype == DType::U8 { 0.0 } else { -max_abs }, max_abs)
}

pub(super) static FAKE_QUANTIZE: Operator = Operator::new("_contrib_fake_quantize")
    .doc(
        "Rounds each row along the first axis to the nearest multiples of r / 127, with r the largest absolute value of the row: the \
         numbers that its quantization to int8 represents. The gradient passes through. The output has the shape of data.",
    )
    .inputs(&[arg("data", "The numbers, of type float32.")])
    .shape(|_, io| {
        io.assign_out(0, &io.ins[0].clone())?;
        io.assign_in(0, &io.outs[0].clone())
    })
    .dtype(|_, io| io.assign_all(DType::F32))
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(elemwise::identity::COPY(n.ograds[0])))?)])))
    .forward(|_, ins, outs| {
        let x = ins[0].slice::<f32>()?;
        let num_rows = ins[0].shape().dims().first().map_or(1, |n| *n as usize);
        let (integers, scales) = quantize::quantize_rows(x, num_rows);
        let row_len = (x.len() / num_rows.max(1)).max(1);
        let out = outs[0].slice_mut::<f32>()?;
        for ((out, integers), scale) in out.chunks_mut(row_len).zip(integers.chunks(row_len)).zip(scales) {
            out.iter_mut().zip(integers).for_each(|(x, q)| *x = f32::from(q.cast_signed()) * scale);
        }
        Ok(())
    });

params! {
    /// Parameters of `_contrib_calibrate_entropy`.
    pub struct CalibrateParam {
        /// The number of bins that the counts are merged into, one for each integer.
        num_quantized_bins: i32 = 255, where 1..=i32::MAX;
    }
}

pub(super) static CALIBRATE_ENTROPY: Operator<CalibrateParam> = Operator::new("_contrib_calibrate_entropy").names_outputs()
    .doc(
        "The range for 8-bit integers that keeps the most information of data whose histogram is given: among the ranges around the \
         middle bin, that with the smallest Kullback-Leibler divergence between the clipped counts and the same merged into \
         num_quantized_bins bins. The outputs, of shape (1,), are the upper end of the range and the divergence (Migacz, 8-bit \
         inference with TensorRT, 2017).",
    )
    .inputs(&[
        arg("hist", "The counts, of shape (n,) and type float32."),
        arg("hist_edges", "The ends of the bins, ascending, of shape (n + 1,)."),
    ])
    .outputs(|_| 2)
    .output_names_by(|_| vec!["threshold".into(), "divergence".into()])
    .shape(|_, io| {
        let (hist, edges) = (io.ins[0].clone(), io.ins[1].clone());
        ensure!(
            !hist.is_known() || !edges.is_known() || hist.num_elements() + 1 == edges.num_elements(),
            "hist_edges must have one element more than hist, but their shapes are {edges} and {hist}"
        );
        (0..2).try_for_each(|k| io.assign_out(k, &[1].into()))
    })
    .dtype(|_, io| io.assign_all(DType::F32))
    .forward(|ctx, ins, outs| {
        let (hist, edges) = (ins[0].slice::<f32>()?, ins[1].slice::<f32>()?);
        let bins = ctx.params::<CalibrateParam>().num_quantized_bins;
        ensure!(bins as usize <= hist.len(), "num_quantized_bins={bins} is more than the {} bins of hist", hist.len());
        let (threshold, divergence) = best_threshold(hist, edges, bins as usize);
        for (out, value) in outs.iter_mut().zip([threshold, divergence]).filter(|(out, _)| out.wanted()) {
            out.slice_mut::<f32>()?[0] = value;
        }
        Ok(())
    });
