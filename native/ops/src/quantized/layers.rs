//! Layers on 8-bit integers that need no products: `quantized_act`, `quantized_flatten`, `quantized_pooling`, `quantized_concat`,
//! `quantized_embedding`, `quantized_batch_norm`.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory};
use ferromx_kernels::index::{self, Bounds};
use ferromx_kernels::movement;
use ferromx_kernels::pool::{PoolShape, max_pool_bytes, pool_forward};
use ferromx_kernels::quantize::{self, Levels, Quantum};

use super::{
    BYTES, DATA, MAX_DATA, MIN_DATA, copy_range, is_signed, max_abs, output_names, range_dtypes, range_end,
    range_max_abs, range_shapes, shape_like, write_range,
};
use crate::axes::outer_len_inner;
use crate::index::take::{EMBEDDING, EmbeddingParam};
use crate::nn::activation::{ActType, ActivationParam};
use crate::nn::batch_norm::{BATCH_NORM, BatchNormParam, channel_axis};
use crate::nn::pooling::{POOLING, PoolType, PoolingParam};
use crate::shape::join::{CONCAT, ConcatParam};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&ACT, &FLATTEN, &POOL, &CONCATENATE, &EMBED, &NORM];

pub(super) static ACT: Operator<ActivationParam> = Operator::new("_contrib_quantized_act")
    .doc(
        "ReLU, max(data, 0), of 8-bit integers; the range is unchanged. Other activations are errors. Outputs: the \
         integers, in the shape of data, and the ends of their range.",
    )
    .inputs(&[DATA, MIN_DATA, MAX_DATA])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| {
        let kind = p.get::<ActivationParam>().act_type;
        ensure!(
            kind == ActType::Relu,
            "_contrib_quantized_act only supports act_type=relu, not {kind:?}: dequantize first"
        );
        io.tie(0, 0)?;
        range_shapes(io, 1)
    })
    .dtype(|_, io| range_dtypes(io, 1, io.ins[0]))
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        if outs[0].wanted() {
            dispatch!(ins[0].dtype(), Q in [i8, u8] => {
                let zero = Q::default();
                let (x, y) = (ins[0].slice::<Q>()?, outs[0].slice_mut::<Q>()?);
                y.iter_mut().zip(x).for_each(|(y, x)| *y = (*x).max(zero));
            }, other => return Err(ctx.unsupported(other, BYTES)));
        }
        copy_range(ins, 1, outs)
    });

pub(super) static FLATTEN: Operator = Operator::new("_contrib_quantized_flatten").names_outputs()
    .doc(
        "Reshapes 8-bit integers of shape (d1, d2, ..., dk) to (d1, d2*...*dk); the range is unchanged. Outputs: the integers and \
         the ends of their range.",
    )
    .inputs(&[DATA, MIN_DATA, MAX_DATA])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|_, io| {
        if io.ins[0].ndim().is_some_and(|n| n >= 1) {
            let shape = Shape::new(&[io.ins[0].dim(0), io.ins[0].product(1..)]);
            io.assign_out(0, &shape)?;
        }
        range_shapes(io, 1)
    })
    .dtype(|_, io| range_dtypes(io, 1, io.ins[0]))
    .grad(Grad::Zero)
    .forward(|_, ins, outs| {
        if outs[0].wanted() {
            outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        }
        copy_range(ins, 1, outs)
    });

pub(super) static POOL: Operator<PoolingParam> = Operator::new("_contrib_quantized_pooling").names_outputs()
    .doc(
        "The maximum or the average (rounded to the nearest integer) of sliding windows of 8-bit integers; the range is unchanged. \
         Shapes and parameters are those of Pooling; pool types sum and lp are errors. Outputs: the integers and \
         the ends of their range.",
    )
    .inputs(&[DATA, MIN_DATA, MAX_DATA])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| {
        let kind = p.get::<PoolingParam>().pool_type;
        let is_supported = matches!(kind, PoolType::Max | PoolType::Avg);
        ensure!(is_supported, "QuantizedPoolingOp only supports pool_type=max/avg, not {kind:?}");
        shape_like(&POOLING, p, io, 1)
    })
    .dtype(|_, io| range_dtypes(io, 1, io.ins[0]))
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        if outs[0].wanted() {
            let p = ctx.params::<PoolingParam>();
            let shape = p.shape(ins[0].shape())?;
            dispatch!(ins[0].dtype(), Q in [i8, u8] => pool::<Q>(p, &shape, &ins[0], &mut outs[0])?,
                other => return Err(ctx.unsupported(other, BYTES)));
        }
        copy_range(ins, 1, outs)
    });

fn pool<Q: Quantum>(p: &PoolingParam, shape: &PoolShape, input: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    if p.pool_type == PoolType::Max {
        max_pool_bytes(shape, is_signed(input.dtype()), input.bytes()?, out.bytes_mut()?);
        return Ok(());
    }
    // Sums of up to 2^16 8-bit integers are exact in single precision.
    let x: Vec<f32> = input.slice::<Q>()?.iter().map(|x| x.to_f32()).collect();
    let mut pooled = memory::filled(0.0, out.len());
    pool_forward(shape, p.kind()?, &x, &mut pooled);
    out.slice_mut::<Q>()?.iter_mut().zip(pooled).for_each(|(q, x)| *q = Q::nearest(x));
    Ok(())
}

pub(super) static CONCATENATE: Operator<ConcatParam> = Operator::new("_contrib_quantized_concat")
    .doc(
        "Concatenates arrays of 8-bit integers along an axis. The range covers those of all inputs, and inputs of narrower ranges are \
         rescaled. The result is of type int8 if one of the inputs is.\n\n\
         Inputs: num_args arrays, then the smallest and the largest number of the first, of the second and so on. Outputs: the \
         integers and the ends of their range.",
    )
    .variadic("data", "The arrays, then the ends of their ranges, pair by pair.", "num_args")
    .num_inputs_by(|p| 3 * num_arrays(p))
    .input_names_by(|p| {
        let ranges = (0..num_arrays(p)).flat_map(|i| [format!("arg{i}_min"), format!("arg{i}_max")]);
        (0..num_arrays(p)).map(|i| format!("arg{i}")).chain(ranges).collect()
    })
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| {
        let n = num_arrays(p);
        ensure!(io.ins.len() == 3 * n, "{n} arrays with two ends of a range each were expected, but {} inputs were given", io.ins.len());
        shape_like(&CONCAT, p, io, n)
    })
    .dtype(|p, io| {
        let n = num_arrays(p).min(io.ins.len());
        let all_known = io.ins[..n].iter().all(Option::is_some);
        let has_int8 = io.ins[..n].contains(&Some(DType::I8));
        range_dtypes(io, n, all_known.then_some(if has_int8 { DType::I8 } else { DType::U8 }))
    })
    .grad(Grad::Zero)
    .forward(concatenate);

fn num_arrays(p: &Params) -> usize {
    p.get::<ConcatParam>().num_args.max(0) as usize
}

fn concatenate(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<ConcatParam>();
    let n = ins.len() / 3;
    let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
    for pair in ins[n..].chunks_exact(2) {
        (min, max) = (min.min(range_end(&pair[0])?), max.max(range_end(&pair[1])?));
    }
    let (dtype, max_abs) = (outs[0].dtype(), max_abs(min, max));
    if outs[0].wanted() {
        let axis = Shape::axis(p.dim.into(), ins[0].shape().dims().len())?;
        dispatch!(dtype, Q in [i8, u8] => {
            let mut arrays = Vec::new();
            for (i, input) in ins[..n].iter().enumerate() {
                let scale = range_max_abs(ins, n + 2 * i)? / max_abs * (Levels::Whole.of(dtype) / Levels::Whole.of(input.dtype()));
                let mut rescaled = memory::filled(Q::default(), input.len());
                dispatch!(input.dtype(), P in [i8, u8] => quantize::quantize(input.slice::<P>()?, scale, 0.0, &mut rescaled),
                    other => return Err(ctx.unsupported(other, BYTES)));
                let (_, len, inner) = outer_len_inner(&input.shape().to_usize(), axis);
                arrays.push((rescaled, len * inner));
            }
            let arrays: Vec<(&[Q], usize)> = arrays.iter().map(|(array, row_len)| (&array[..], *row_len)).collect();
            movement::concat(&arrays, outs[0].slice_mut()?);
        }, other => return Err(ctx.unsupported(other, BYTES)));
    }
    write_range(outs, min, max)
}

pub(super) static EMBED: Operator<EmbeddingParam> = Operator::new("_contrib_quantized_embedding").names_outputs()
    .doc(
        "Looks up rows of a table of 8-bit integers, as Embedding does; the range is that of the table. Outputs: the integers and \
         the ends of their range.",
    )
    .inputs(&[
        arg("data", "The indices, of any shape."),
        arg("weight", "The table, of shape (input_dim, output_dim) and type int8."),
        arg("min_weight", "The lower end of the table's range, of shape (1,)."),
        arg("max_weight", "The upper end of the table's range, of shape (1,)."),
    ])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(|p, io| shape_like(&EMBEDDING, p, io, 2))
    .dtype(|_, io| {
        io.assign_in(1, DType::I8)?;
        range_dtypes(io, 2, Some(DType::I8))
    })
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        if outs[0].wanted() {
            let dims = ins[1].shape().to_usize();
            let rows = crate::index::row_indices(ctx, &ins[0], dims[0], Bounds::Clip)?;
            index::gather(ins[1].slice::<i8>()?, (1, dims[0], dims[1]), &rows, outs[0].slice_mut()?);
        }
        copy_range(ins, 2, outs)
    });

pub(super) static NORM: Operator<BatchNormParam> = Operator::new("_contrib_quantized_batch_norm")
    .doc(
        "Normalizes each channel of 8-bit integers with the moving mean and variance, as BatchNorm does in inference, and gives \
         integers of type int8 in the calibrated range, which is required. Outputs: the integers, in the shape of data, and \
         the ends of their range.",
    )
    .inputs(&[
        DATA,
        arg("gamma", "The scale of each channel; 1 with fix_gamma."),
        arg("beta", "The offset of each channel."),
        arg("moving_mean", "The moving mean of each channel."),
        arg("moving_var", "The moving variance of each channel."),
        MIN_DATA,
        MAX_DATA,
    ])
    .mutates(&[3, 4])
    .outputs(|_| 3)
    .output_names_by(output_names)
    .shape(norm_shape)
    .dtype(|_, io| range_dtypes(io, 1, Some(DType::I8)))
    .grad(Grad::Zero)
    .forward(norm);

fn norm_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let mut outs = [io.outs[0].clone(), Shape::unknown(), Shape::unknown()];
    (BATCH_NORM.inference.shape)(p, &mut ShapeIo { ins: &mut io.ins[..5], outs: &mut outs })?;
    io.assign_out(0, &outs[0])?;
    range_shapes(io, 5)
}

fn norm(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<BatchNormParam>();
    let (Some(min), Some(max)) = (p.min_calib_range, p.max_calib_range) else {
        return Err(Error::value(
            "quantized_batch_norm needs min_calib_range and max_calib_range: calibrate the network first",
        ));
    };
    let dims = ins[0].shape().to_usize();
    let (_, channels, inner) = outer_len_inner(&dims, channel_axis(p.axis, dims.len())?);
    let (gamma, beta) = (ins[1].slice::<f32>()?, ins[2].slice::<f32>()?);
    let (mean, var) = (outs[3].slice_mut::<f32>()?.to_vec(), outs[4].slice_mut::<f32>()?.to_vec());
    let (in_scale, out_scale) =
        (range_max_abs(ins, 5)? / Levels::Half.of(ins[0].dtype()), max_abs(min, max) / Levels::Half.of(DType::I8));
    if outs[0].wanted() && inner > 0 {
        let out = outs[0].slice_mut::<i8>()?;
        dispatch!(ins[0].dtype(), Q in [i8, u8] => {
            let planes = ins[0].slice::<Q>()?.chunks_exact(inner).zip(out.chunks_exact_mut(inner));
            for (i, (x, y)) in planes.enumerate() {
                let c = i % channels;
                let scale = if p.fix_gamma { 1.0 } else { gamma[c] } / (f64::from(var[c]) + p.eps).sqrt() as f32;
                quantize::quantize(x, in_scale * scale / out_scale, (beta[c] - mean[c] * scale) / out_scale, y);
            }
        }, other => return Err(ctx.unsupported(other, BYTES)));
    }
    write_range(&mut outs[..3], min, max)
}
