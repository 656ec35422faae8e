//! Convolutions and matrix products between dequantized operands and a quantized result, computed on the integers.

use std::any::Any;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{KernelFn, OpCtx};
use ferromx_core::params::Params;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};
use ferromx_kernels::conv::ConvShape;
use ferromx_kernels::gemm::MatMut;
use ferromx_kernels::int8::{
    ConvWeights, Epilogue, Int8, Int8Weights, Limits, MatrixWeights, OutputElement, conv_int8, gemm_int8,
};
use ferromx_kernels::par::MatRef;
use ferromx_kernels::quantize::{self, Levels, Quantum};

use super::{max_abs, max_abs_at, put_range};
use crate::nn::batch_norm::{BatchNormParam, scale_and_shift};
use crate::nn::convolution::ConvolutionParam;

/// What integers represent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// `(q - zero) * scale`. Two inputs: scale and zero point.
    Linear,
    /// `q * r * multiplier / 127.5` or `/ 255.5`, with r the largest absolute value of a range. Two inputs: the ends of the range.
    Range {
        /// The multiplier.
        multiplier: f32,
    },
}

/// The weights of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// Integers, with the inputs of their scheme.
    Integers(Scheme),
    /// Numbers, which are quantized as `_contrib_fake_quantize` does.
    Numbers,
}

/// The result of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// Numbers of type float32.
    Numbers,
    /// Integers `q` that represent `(q - zero) * scale`. Two inputs: scale and zero point.
    Linear,
    /// Integers of a calibrated range; the ends of the range are the second and the third output.
    Range {
        /// The minimum.
        min: f32,
        /// The maximum.
        max: f32,
    },
}

impl Output {
    /// Writes the calibrated range, if there is one: `uint8` starts at 0, `int8` is symmetric.
    pub(super) fn put_range(self, outs: &mut [Out<'_>]) -> Result<()> {
        let Output::Range { min, max } = self else { return Ok(()) };
        let end = max_abs(min, max);
        let [low, high] = if outs[0].dtype() == DType::U8 { [min, max] } else { [-end, end] };
        put_range(outs, low, high)
    }
}

/// A product on integers and what follows it. The inputs of the kernel are data, weights, bias, the other inputs of the normalisation, then
/// those that describe the data, the weights and the output.
#[derive(Clone)]
pub struct IntegerProduct {
    /// The parameters of the operator, `Convolution` or `FullyConnected`; `None` for a product of matrices.
    pub params: Option<Params>,
    /// Whether the matrix of weights has (N, K) elements, else (K, N).
    pub is_transposed: bool,
    /// What the data represents.
    pub data: Scheme,
    /// The weights.
    pub weights: Weights,
    /// Whether there is a bias, of type float32.
    pub has_bias: bool,
    /// The parameters of a batch normalization in inference.
    pub normalisation: Option<Params>,
    /// The bounds of the result, as of ReLU.
    pub clamp: Option<[f32; 2]>,
    /// The result.
    pub output: Output,
}

/// The kernel of an [`IntegerProduct`], which are its parameters.
pub static INTEGER_PRODUCT: KernelFn = run;

/// Packed weights, kept until their arrays change.
struct Kept<W> {
    key: Option<Key>,
    weights: Option<Packed<W>>,
}

/// The version of the weights, their zero points and scales.
type Key = ((u64, u64, usize), Vec<i32>, Vec<u32>);

struct Packed<W> {
    weights: W,
    /// One scale per channel.
    scales: Vec<f32>,
}

impl<W> Default for Kept<W> {
    fn default() -> Self {
        Kept { key: None, weights: None }
    }
}

/// Weights as bytes.
struct WeightBytes<'a> {
    bytes: std::borrow::Cow<'a, [u8]>,
    is_signed: bool,
    zeros: Vec<i32>,
    scales: Vec<f32>,
}

/// The inputs that are left.
struct Rest<'i, 'a>(&'i [In<'a>]);

impl<'i, 'a> Rest<'i, 'a> {
    fn take(&mut self, count: usize) -> Result<&'i [In<'a>]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            Error::Internal(format!("an integer product needs {count} more inputs, but {} are left", self.0.len()))
        })?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Whether integers of this type are signed.
pub(crate) fn is_signed(dtype: DType) -> bool {
    dtype == DType::I8
}

/// The zero points in an array of integers.
pub(crate) fn zero_points(x: &In<'_>) -> Result<Vec<i32>> {
    dispatch!(x.dtype(), Q in [i8, u8, i32] => Ok(x.slice::<Q>()?.iter().map(|q| q.wide()).collect()),
        other => Err(Error::Value(format!("the zero point has the type {other}, expected int8, uint8 or int32"))))
}

/// Scales and zero points of integers of a type.
pub(super) fn described(scheme: Scheme, dtype: DType, ins: &[In<'_>]) -> Result<(Vec<f32>, Vec<i32>)> {
    match scheme {
        Scheme::Linear => Ok((ins[0].slice::<f32>()?.to_vec(), zero_points(&ins[1])?)),
        Scheme::Range { multiplier } => Ok((vec![max_abs_at(ins, 0)? / Levels::Half.of(dtype) * multiplier], vec![0])),
    }
}

/// The only element of a scale or zero point of the data or the result.
pub(super) fn single<T: Copy>(name: &str, values: &[T]) -> Result<T> {
    match values {
        [value] => Ok(*value),
        _ => Err(Error::Value(format!("the {name} has {} elements, expected 1", values.len()))),
    }
}

impl<'a> WeightBytes<'a> {
    fn new(weights: Weights, w: &In<'a>, channels: usize, ins: &[In<'_>]) -> Result<WeightBytes<'a>> {
        let Weights::Integers(scheme) = weights else {
            let (bytes, scales) = quantize::quantize_rows(w.slice()?, channels);
            return Ok(WeightBytes { bytes: bytes.into(), is_signed: true, zeros: vec![0], scales });
        };
        let (scales, zeros) = described(scheme, w.dtype(), ins)?;
        let fits = |len: usize| len == 1 || len == channels;
        ensure!(
            fits(scales.len()) && fits(zeros.len()),
            "the weights have {channels} channels, but {} scales and {} zero points",
            scales.len(),
            zeros.len()
        );
        Ok(WeightBytes { bytes: w.bytes()?.into(), is_signed: is_signed(w.dtype()), zeros, scales })
    }
}

/// Calls `f` with packed weights, which the node keeps until they change.
pub(crate) fn with_packed<W: Any + Send, R>(
    ctx: &OpCtx<'_>,
    w: &In<'_>,
    key: (&[i32], &[f32]),
    make: impl FnOnce() -> Result<(W, Vec<f32>)>,
    f: impl FnOnce(&W, &[f32]) -> Result<R>,
) -> Result<R> {
    let (Some(cache), Some(version)) = (ctx.cache, w.version()) else {
        let (weights, scales) = make()?;
        return f(&weights, &scales);
    };
    let key: Key = (version, key.0.to_vec(), key.1.iter().map(|s| s.to_bits()).collect());
    cache.with(|kept: &mut Kept<W>| {
        if kept.key.as_ref() != Some(&key) {
            *kept = Kept::default();
        }
        if kept.weights.is_none() {
            let (weights, scales) = make()?;
            kept.weights = Some(Packed { weights, scales });
            kept.key = Some(key);
        }
        match &kept.weights {
            Some(packed) => f(&packed.weights, &packed.scales),
            None => Err(Error::Internal("packed weights are missing".into())),
        }
    })
}

fn run(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<IntegerProduct>();
    let mut rest = Rest(ins);
    let (operands, bias) = (rest.take(2)?, rest.take(usize::from(p.has_bias))?);
    let normalisation = rest.take(if p.normalisation.is_some() { 4 } else { 0 })?;
    let data = rest.take(2)?;
    let weights = rest.take(if p.weights == Weights::Numbers { 0 } else { 2 })?;
    let output = rest.take(if p.output == Output::Linear { 2 } else { 0 })?;
    p.output.put_range(outs)?;
    if !outs[0].wanted() || outs[0].is_empty() {
        return Ok(());
    }
    let dtype = outs[0].dtype();
    let call = Call { ctx, p, dtype, operands, bias: bias.first(), normalisation, data, weights, output };
    match dtype {
        DType::F32 => call.run(outs[0].slice_mut::<f32>()?),
        _ => call.run(outs[0].bytes_mut()?),
    }
}

/// A bias as multiples of the scales of the sums, if it was dequantized from such: added as integers they are exact. `None` if sums of
/// `depth` products could overflow.
fn multiples(bias: &[f32], scales: &[f32], depth: usize) -> Option<Vec<i32>> {
    let most = f64::from(i32::MAX) - 255.0 * 255.0 * depth as f64;
    let multiple = |(b, scale): (&f32, &f32)| {
        let whole = (b / scale).round_ties_even();
        let is_near = (whole * scale - b).abs() <= 2.0 * f32::EPSILON * b.abs();
        (is_near && f64::from(whole.abs()) <= most).then_some(whole as i32)
    };
    bias.iter().zip(scales).map(multiple).collect()
}

/// A call of the kernel.
struct Call<'c, 'i, 'a> {
    ctx: &'c OpCtx<'c>,
    p: &'c IntegerProduct,
    /// The type of the result.
    dtype: DType,
    operands: &'i [In<'a>],
    bias: Option<&'i In<'a>>,
    normalisation: &'i [In<'a>],
    data: &'i [In<'a>],
    weights: &'i [In<'a>],
    output: &'i [In<'a>],
}

impl Call<'_, '_, '_> {
    fn run<T: OutputElement>(&self, out: &mut [T]) -> Result<()> {
        let [x, w] = self.operands else { return Err(Error::Internal("an integer product has two operands".into())) };
        let (x_scale, x_zero) = described(self.p.data, x.dtype(), self.data)?;
        let (x_scale, zero) = (single("scale of the data", &x_scale)?, single("zero point of the data", &x_zero)?);
        let x = Int8 { bytes: x.bytes()?, is_signed: is_signed(x.dtype()), zero };
        match &self.p.params {
            Some(params) if params.downcast::<ConvolutionParam>().is_some() => {
                let p = params.get::<ConvolutionParam>();
                let shape = p.computed(self.operands[0].shape())?;
                self.convolve(&shape, x, x_scale, w, out)
            }
            _ => {
                let dims = w.shape().dims();
                let transposed = self.p.is_transposed;
                let (n, k) = (dims[usize::from(!transposed)] as usize, dims[usize::from(transposed)] as usize);
                self.multiply([out.len() / n.max(1), n, k], transposed, x, x_scale, w, out)
            }
        }
    }

    fn convolve<T: OutputElement>(
        &self,
        shape: &ConvShape,
        x: Int8<'_>,
        x_scale: f32,
        w: &In<'_>,
        out: &mut [T],
    ) -> Result<()> {
        self.with_weights(
            w,
            shape.out_channels,
            |bytes| ConvWeights::new(shape, bytes),
            |weights, scales| {
                let depth = shape.weights_len() / shape.out_channels.max(1);
                self.with_epilogue([shape.out_channels, depth], x_scale, scales, |epilogue| {
                    conv_int8(shape, x, weights, epilogue, out);
                })
            },
        )
    }

    fn multiply<T: OutputElement>(
        &self,
        [m, n, k]: [usize; 3],
        transposed: bool,
        x: Int8<'_>,
        x_scale: f32,
        w: &In<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let strides = if transposed { [1, k] } else { [n, 1] };
        self.with_weights(
            w,
            n,
            |weights| MatrixWeights::new(weights, MatRef::new(weights.bytes, k, n, strides[0], strides[1])),
            |weights, scales| {
                self.with_epilogue([n, k], x_scale, scales, |epilogue| {
                    gemm_int8(x, weights, epilogue, MatMut::row_major(out, m, n));
                })
            },
        )
    }

    fn with_weights<W: Any + Send>(
        &self,
        w: &In<'_>,
        channels: usize,
        pack: impl FnOnce(&Int8Weights<'_>) -> W,
        f: impl FnOnce(&W, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let (scales, zeros) = match self.p.weights {
            Weights::Integers(scheme) => described(scheme, w.dtype(), self.weights)?,
            Weights::Numbers => (vec![], vec![]),
        };
        let make = || {
            let bytes = WeightBytes::new(self.p.weights, w, channels, self.weights)?;
            let weights = Int8Weights { bytes: &bytes.bytes, is_signed: bytes.is_signed, zeros: &bytes.zeros };
            let scales = (0..channels).map(|i| bytes.scales[i.min(bytes.scales.len() - 1)]).collect();
            Ok((pack(&weights), scales))
        };
        with_packed(self.ctx, w, (&zeros, &scales), make, f)
    }

    /// Calls `f` with what happens to the sums of `depth` products; `scales` are those of the weights.
    fn with_epilogue(
        &self,
        [channels, depth]: [usize; 2],
        x_scale: f32,
        scales: &[f32],
        f: impl FnOnce(&Epilogue<'_>),
    ) -> Result<()> {
        let [low, high] = self.p.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
        let limits = |scale: f32, zero: i32| Limits::of(self.dtype, zero, [low / scale, high / scale]);
        let (out_scale, limits) = match self.p.output {
            Output::Numbers => (1.0, Limits { low, high, zero: 0 }),
            Output::Linear => {
                let (scale, zero) = described(Scheme::Linear, DType::F32, self.output)?;
                let zero = single("zero point of the output", &zero)?;
                let scale = single("scale of the output", &scale)?;
                (scale, limits(scale, zero))
            }
            Output::Range { min, max } => {
                let scale = max_abs(min, max) / Levels::Half.of(self.dtype);
                (scale, limits(scale, 0))
            }
        };
        let mut sums: Vec<f32> = scales.iter().map(|scale| x_scale * scale).collect();
        let mut shift = match self.bias {
            Some(bias) => bias.slice::<f32>()?.to_vec(),
            None => Vec::new(),
        };
        let mut bias = Vec::new();
        if let Some(params) = &self.p.normalisation {
            shift.resize(channels, 0.0);
            let mut scale = vec![1.0; channels];
            scale_and_shift(params.get::<BatchNormParam>(), self.normalisation, &mut scale, &mut shift)?;
            sums.iter_mut().zip(&scale).for_each(|(sum, scale)| *sum *= scale);
        } else if let Some(multiples) = multiples(&shift, &sums, depth) {
            (bias, shift) = (multiples, Vec::new());
        }
        if self.p.output != Output::Numbers {
            sums.iter_mut().for_each(|sum| *sum /= out_scale);
            shift.iter_mut().for_each(|shift| *shift /= out_scale);
        }
        f(&Epilogue { bias: &bias, scale: &sums, shift: &shift, limits });
        Ok(())
    }
}
