//! Operators on all gradients at once, for large-batch training and mixed precision: `multi_sum_sq`, `multi_lars`, `all_finite`,
//! `reset_arrays`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::infer::{DTypeIo, same_dtype};
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, arg, array_arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, params};
use ferromx_kernels::predicates::all_finite;
use ferromx_kernels::reduce::{SumSquares, reduce};

use super::multi_tensor::all_indices;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&MULTI_SUM_SQ, &MULTI_LARS, &ALL_FINITE, &MULTI_ALL_FINITE, &RESET_ARRAYS];

const ARRAYS: &[ArgDef] =
    &[ArgDef { name: "data", doc: "The arrays, of any shapes.", type_string: "NDArray-or-Symbol[]" }];

/// `array_0`, `array_1`, ...
fn array_names(n: i32) -> Vec<String> {
    (0..n).map(|i| format!("array_{i}")).collect()
}

params! {
    /// Parameters of `multi_sum_sq` and `reset_arrays`.
    pub struct ArraysParam {
        /// The number of arrays.
        num_arrays: i32 = required, where 1..=MAX_ARRAYS as i32;
    }
}

/// The maximum number of arrays in one call.
const MAX_ARRAYS: usize = 4096;

pub(super) static MULTI_SUM_SQ: Operator<ArraysParam> = Operator::new("multi_sum_sq")
    .doc("The sum of squares of each of several arrays of one floating-point type, as a vector of type float32.")
    .inputs(ARRAYS)
    .num_inputs_by(|p| p.get::<ArraysParam>().num_arrays as usize)
    .input_names_by(|p| array_names(p.get::<ArraysParam>().num_arrays))
    .shape(|_, io| io.assign_out(0, &Shape::new(&[io.ins.len() as i64])))
    .dtype(float32_output_dtype)
    .forward(|ctx, ins, outs| {
        let sums = outs[0].slice_mut::<f32>()?;
        dispatch!(ins[0].dtype(), T in [f32, half::f16] => {
            for (x, sum) in ins.iter().zip(sums.chunks_mut(1)) {
                reduce::<SumSquares, T, f32, f32>(x.slice()?, &[x.len()], &[0], sum);
            }
            Ok(())
        }, d => dispatch!(d, T in [f64] => {
            for (x, sum) in ins.iter().zip(sums.chunks_mut(1)) {
                reduce::<SumSquares, T, f32, f64>(x.slice()?, &[x.len()], &[0], sum);
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, DType::FLOATS))))
    });

/// Type rule: all inputs have one type, and the output is in single precision.
fn float32_output_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_out(0, DType::F32)?;
    same_dtype(p, &mut DTypeIo { ins: io.ins, outs: &mut [] })
}

params! {
    /// Parameters of `multi_lars`.
    pub struct LarsParam {
        /// The trust coefficient: the size of a step relative to the weight.
        eta: f32 = required;
        /// A small constant for numerical stability.
        eps: f32 = required;
        /// The scale by which the gradients will be multiplied.
        rescale_grad: f32 = 1.0;
    }
}

pub(super) static MULTI_LARS: Operator<LarsParam> = Operator::new("multi_lars")
    .doc(
        "Layer-wise learning rates: lr * eta * |w| / (rescale_grad * |g| + wd * |w| + eps) for each weight w with gradient g, and lr \
         itself if |w| or |g| is 0. All arrays are vectors of type float32 with an element for each weight (You et al., Large \
         Batch Training of Convolutional Networks, 2017).",
    )
    .inputs(&[
        arg("lrs", "The learning rates."),
        arg("weights_sum_sq", "The sums of squares of the weights, as multi_sum_sq returns them."),
        arg("grads_sum_sq", "The sums of squares of the gradients."),
        arg("wds", "The weight decays."),
    ])
    .forward(|ctx, ins, outs| {
        let LarsParam { eta, eps, rescale_grad } = *ctx.params::<LarsParam>();
        if ins[0].dtype() != DType::F32 {
            return Err(ctx.unsupported(ins[0].dtype(), &[DType::F32]));
        }
        let (lrs, weights) = (ins[0].slice::<f32>()?, ins[1].slice::<f32>()?);
        let (grads, wds) = (ins[2].slice::<f32>()?, ins[3].slice::<f32>()?);
        for (i, out) in outs[0].slice_mut::<f32>()?.iter_mut().enumerate() {
            let (w, g) = (weights[i].sqrt(), grads[i].sqrt());
            let ratio = eta * w / (g * rescale_grad + wds[i] * w + eps);
            *out = if w > 0.0 && g > 0.0 { lrs[i] * ratio } else { lrs[i] };
        }
        Ok(())
    });

params! {
    /// Parameters of `all_finite`.
    pub struct AllFiniteParam {
        /// Whether the output is initialized to 1; if not, an output of 0 stays 0.
        init_output: bool = true;
    }
}

params! {
    /// Parameters of `multi_all_finite`.
    pub struct MultiAllFiniteParam {
        /// The number of arrays.
        num_arrays: i32 = 1, where 1..=MAX_ARRAYS as i32;
        /// Whether the output is initialized to 1; if not, an output of 0 stays 0.
        init_output: bool = true;
    }
}

/// Writes 1 if all elements of all inputs are finite, else 0. Without `init_output`, the output stays 0 if it is 0.
fn write_all_finite(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>], init_output: bool) -> Result<()> {
    let out = outs[0].slice_mut::<f32>()?;
    let mut is_finite = init_output || out[0] != 0.0;
    for x in ins {
        is_finite &= dispatch!(x.dtype(), T in [f32, f64, half::f16] => {
            Ok(all_finite(x.slice::<T>()?))
        }, d => Err(ctx.unsupported(d, DType::FLOATS)))?;
    }
    out[0] = f32::from(u8::from(is_finite));
    Ok(())
}

pub(super) static ALL_FINITE: Operator<AllFiniteParam> = Operator::new("all_finite")
    .doc("1 if all elements of an array are finite, else 0, as one element of type float32.")
    .inputs(&[array_arg("data", "The array, of a floating-point type.")])
    .shape(|_, io| io.assign_out(0, &Shape::new(&[1])))
    .dtype(float32_output_dtype)
    .forward(|ctx, ins, outs| write_all_finite(ctx, ins, outs, ctx.params::<AllFiniteParam>().init_output));

pub(super) static MULTI_ALL_FINITE: Operator<MultiAllFiniteParam> = Operator::new("multi_all_finite")
    .doc("1 if all elements of several arrays are finite, else 0, as one element of type float32.")
    .inputs(ARRAYS)
    .num_inputs_by(|p| p.get::<MultiAllFiniteParam>().num_arrays as usize)
    .input_names_by(|p| array_names(p.get::<MultiAllFiniteParam>().num_arrays))
    .shape(|_, io| io.assign_out(0, &Shape::new(&[1])))
    .dtype(|_, io| io.assign_out(0, DType::F32))
    .forward(|ctx, ins, outs| write_all_finite(ctx, ins, outs, ctx.params::<MultiAllFiniteParam>().init_output));

pub(super) static RESET_ARRAYS: Operator<ArraysParam> = Operator::new("reset_arrays")
    .doc("Sets all elements of several arrays, of any types, to 0. There is no output.")
    .inputs(ARRAYS)
    .num_inputs_by(|p| p.get::<ArraysParam>().num_arrays as usize)
    .input_names_by(|p| array_names(p.get::<ArraysParam>().num_arrays))
    .outputs(|_| 0)
    .shape(|_, _| Ok(()))
    .dtype(|_, _| Ok(()))
    .mutates(&const { all_indices::<MAX_ARRAYS>() })
    .forward(|_, _, outs| {
        outs.iter_mut().try_for_each(|out| {
            out.bytes_mut()?.fill(0);
            Ok(())
        })
    });
