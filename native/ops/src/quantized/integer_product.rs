//! Convolutions and matrix products computed on 8-bit integers. They replace dequantization, the operator with a following normalization
//! and activation, and quantization of the result.

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
use ferromx_kernels::quantize::{self, Levels, Operand, Quantum};

use super::{max_abs, range_max_abs, write_range};
use crate::nn::batch_norm::{BatchNormParam, scale_and_shift};
use crate::nn::convolution::ConvolutionParam;
use crate::packed::Packed;

/// How the integers of an operand are converted to numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// `(q - zero) * scale`. The quantization parameters are scale and zero point.
    Linear,
    /// `q * r * multiplier / 127.5` for int8 or `q * r * multiplier / 255.5` for uint8, with r the largest absolute value of a range. The
    /// quantization parameters are the ends of the range.
    Range {
        /// A constant that multiplies the scale.
        multiplier: f32,
    },
}

/// The weights of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// 8-bit integers.
    Integers(Scheme),
    /// Floating-point weights, which the kernel quantizes as `_contrib_fake_quantize` does. They have no quantization parameters.
    Float,
}

/// The result of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// Type float32, without quantization parameters.
    Float,
    /// Integers `q` that represent `(q - zero) * scale`. The quantization parameters are scale and zero point.
    Linear,
    /// Integers of a calibrated range, without quantization parameters. The ends of the range are the second and the third output.
    Range {
        /// The minimum.
        min: f32,
        /// The maximum.
        max: f32,
    },
}

impl Output {
    /// Writes the calibrated range, if there is one. The range of int8 is symmetric.
    pub(super) fn write_range(self, outs: &mut [Out<'_>]) -> Result<()> {
        let Output::Range { min, max } = self else { return Ok(()) };
        let end = max_abs(min, max);
        let [low, high] = if outs[0].dtype() == DType::U8 { [min, max] } else { [-end, end] };
        write_range(outs, low, high)
    }
}

/// A product of integers with its epilogue. The inputs of the kernel are data, weights, bias, the parameters of the normalization, then the
/// quantization parameters of the data, the weights and the output, as their [`Scheme`], [`Weights`] and [`Output`] say.
#[derive(Clone)]
pub struct IntegerProduct {
    /// The parameters of the operator, `Convolution` or `FullyConnected`; `None` for a product of matrices.
    pub params: Option<Params>,
    /// Whether the matrix of weights has shape (N, K) instead of (K, N).
    pub is_transposed: bool,
    /// How the integers of the data are converted to numbers.
    pub data: Scheme,
    /// The weights.
    pub weights: Weights,
    /// Whether there is a bias, of type float32.
    pub has_bias: bool,
    /// The parameters of a batch normalization in inference.
    pub normalization: Option<Params>,
    /// The bounds of the result before quantization, such as those of ReLU.
    pub clamp: Option<[f32; 2]>,
    /// The result.
    pub output: Output,
}

/// The kernel of integer products. Its parameters are an [`IntegerProduct`].
pub static INTEGER_PRODUCT: KernelFn = run;

/// What determines packed weights besides their source: the layout of the caller, the type, the zero points and the bits of the scales.
type WeightLayout<L> = (L, DType, Vec<i32>, Vec<u32>);

/// Packed weights, and one scale per channel.
type WeightsAndScales<W> = (W, Vec<f32>);

/// Weights as 8-bit integers. Zero points and scales are one for all channels, or one per channel.
struct WeightBytes<'a> {
    bytes: std::borrow::Cow<'a, [u8]>,
    is_signed: bool,
    zeros: Vec<i32>,
    scales: Vec<f32>,
}

/// The inputs of a kernel that have not been taken yet.
struct RemainingInputs<'i, 'a>(&'i [In<'a>]);

impl<'i, 'a> RemainingInputs<'i, 'a> {
    /// Takes the next `count` inputs.
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

/// The scales and zero points of integers of type `dtype`, given their quantization parameters.
pub(super) fn scales_and_zeros(scheme: Scheme, dtype: DType, ins: &[In<'_>]) -> Result<(Vec<f32>, Vec<i32>)> {
    match scheme {
        Scheme::Linear => Ok((ins[0].slice::<f32>()?.to_vec(), zero_points(&ins[1])?)),
        Scheme::Range { multiplier } => {
            Ok((vec![range_max_abs(ins, 0)? / Levels::Half.of(dtype) * multiplier], vec![0]))
        }
    }
}

/// The single element of a scale or zero point of a whole array. More elements are an error.
pub(super) fn only_element<T: Copy>(name: &str, values: &[T]) -> Result<T> {
    match values {
        [value] => Ok(*value),
        _ => Err(Error::Value(format!("the {name} has {} elements, expected 1", values.len()))),
    }
}

impl<'a> WeightBytes<'a> {
    /// Reads the weights, or quantizes them if they are floating-point. `ins` are their quantization parameters.
    fn new(weights: Weights, w: &In<'a>, channels: usize, ins: &[In<'_>]) -> Result<WeightBytes<'a>> {
        let Weights::Integers(scheme) = weights else {
            let (bytes, scales) = quantize::quantize_rows(w.slice()?, channels);
            return Ok(WeightBytes { bytes: bytes.into(), is_signed: true, zeros: vec![0], scales });
        };
        let (scales, zeros) = scales_and_zeros(scheme, w.dtype(), ins)?;
        let is_valid = |len: usize| len == 1 || len == channels;
        ensure!(
            is_valid(scales.len()) && is_valid(zeros.len()),
            "the weights have {channels} channels, but {} scales and {} zero points",
            scales.len(),
            zeros.len()
        );
        Ok(WeightBytes { bytes: w.bytes()?.into(), is_signed: is_signed(w.dtype()), zeros, scales })
    }
}

/// Calls `f` with packed weights and their scales. `pack` makes both from the weights, `layout` and the `(zero points, scales)` in `key`.
/// The node keeps them until one of these changes.
pub(crate) fn with_packed<L: PartialEq + Clone + Send + 'static, W: Send + Sync + 'static, R>(
    ctx: &OpCtx<'_>,
    w: &In<'_>,
    (layout, key): (L, (&[i32], &[f32])),
    pack: impl FnOnce() -> Result<WeightsAndScales<W>>,
    f: impl FnOnce(&W, &[f32]) -> Result<R>,
) -> Result<R> {
    let (Some(cache), Some(version)) = (ctx.cache, w.version()) else {
        let (weights, scales) = pack()?;
        return f(&weights, &scales);
    };
    let layout = (layout, w.dtype(), key.0.to_vec(), key.1.iter().map(|s| s.to_bits()).collect());
    let packed = cache.with(|node: &mut Packed<WeightLayout<L>, WeightsAndScales<W>>| {
        node.get(version, layout, |old| {
            drop(old);
            pack()
        })
    })?;
    f(&packed.0, &packed.1)
}

fn run(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<IntegerProduct>();
    let mut remaining = RemainingInputs(ins);
    let (operands, bias) = (remaining.take(2)?, remaining.take(usize::from(p.has_bias))?);
    let normalization = remaining.take(if p.normalization.is_some() { 4 } else { 0 })?;
    let data = remaining.take(2)?;
    let weights = remaining.take(if p.weights == Weights::Float { 0 } else { 2 })?;
    let output = remaining.take(if p.output == Output::Linear { 2 } else { 0 })?;
    p.output.write_range(outs)?;
    if !outs[0].wanted() || outs[0].is_empty() {
        return Ok(());
    }
    let dtype = outs[0].dtype();
    let call = Call { ctx, p, dtype, operands, bias: bias.first(), normalization, data, weights, output };
    match dtype {
        DType::F32 => call.run(outs[0].slice_mut::<f32>()?),
        _ => call.run(outs[0].bytes_mut()?),
    }
}

/// The bias in units of the scales of the sums, which is added to the integers exactly. `None` unless each element is a multiple of its
/// scale, which holds for a dequantized bias, and sums of `depth` products cannot overflow.
fn integer_bias(bias: &[f32], scales: &[f32], depth: usize) -> Option<Vec<i32>> {
    let limit = f64::from(i32::MAX) - 255.0 * 255.0 * depth as f64;
    let multiple = |(b, scale): (&f32, &f32)| {
        let whole = (b / scale).round_ties_even();
        let is_near = (whole * scale - b).abs() <= 2.0 * f32::EPSILON * b.abs();
        (is_near && f64::from(whole.abs()) <= limit).then_some(whole as i32)
    };
    bias.iter().zip(scales).map(multiple).collect()
}

/// A call of the kernel, with its inputs by role.
struct Call<'c, 'i, 'a> {
    ctx: &'c OpCtx<'c>,
    p: &'c IntegerProduct,
    /// The type of the result.
    dtype: DType,
    /// The data and the weights.
    operands: &'i [In<'a>],
    bias: Option<&'i In<'a>>,
    /// The parameters of the normalization.
    normalization: &'i [In<'a>],
    /// The quantization parameters of the data.
    data: &'i [In<'a>],
    /// The quantization parameters of the weights.
    weights: &'i [In<'a>],
    /// The quantization parameters of the output.
    output: &'i [In<'a>],
}

impl Call<'_, '_, '_> {
    fn run<T: OutputElement>(&self, out: &mut [T]) -> Result<()> {
        let [x, w] = self.operands else { return Err(Error::Internal("an integer product has two operands".into())) };
        let (scales, zeros) = scales_and_zeros(self.p.data, x.dtype(), self.data)?;
        let scale = only_element("scale of the data", &scales)?;
        let zero = only_element("zero point of the data", &zeros)?;
        let data = Operand { integers: Int8 { bytes: x.bytes()?, is_signed: is_signed(x.dtype()), zero }, scale };
        match self.p.params.as_ref().and_then(|params| params.downcast::<ConvolutionParam>()) {
            Some(p) => self.convolve(&p.computed(x.shape())?, data, w, out),
            None => self.multiply(data, w, out),
        }
    }

    fn convolve<T: OutputElement>(&self, shape: &ConvShape, x: Operand<'_>, w: &In<'_>, out: &mut [T]) -> Result<()> {
        self.with_weights(
            w,
            shape.out_channels,
            ConvShape { batch: 0, ..*shape },
            |bytes| ConvWeights::new(shape, bytes),
            |weights, w_scales| {
                let depth = shape.weights_len() / shape.out_channels.max(1);
                self.with_epilogue([shape.out_channels, depth], x.scale, w_scales, |epilogue| {
                    conv_int8(shape, x.integers, weights, epilogue, out);
                })
            },
        )
    }

    fn multiply<T: OutputElement>(&self, x: Operand<'_>, w: &In<'_>, out: &mut [T]) -> Result<()> {
        let (dims, transposed) = (w.shape().dims(), self.p.is_transposed);
        let (n, k) = (dims[usize::from(!transposed)] as usize, dims[usize::from(transposed)] as usize);
        let m = out.len() / n.max(1);
        let strides = if transposed { [1, k] } else { [n, 1] };
        self.with_weights(
            w,
            n,
            [k, n, strides[0], strides[1]],
            |weights| MatrixWeights::new(weights, MatRef::new(weights.bytes, k, n, strides[0], strides[1])),
            |weights, w_scales| {
                self.with_epilogue([n, k], x.scale, w_scales, |epilogue| {
                    gemm_int8(x.integers, weights, epilogue, MatMut::row_major(out, m, n));
                })
            },
        )
    }

    /// Calls `f` with the packed weights and the scale of each channel.
    fn with_weights<L: PartialEq + Clone + Send + 'static, W: Send + Sync + 'static>(
        &self,
        w: &In<'_>,
        channels: usize,
        layout: L,
        pack: impl FnOnce(&Int8Weights<'_>) -> W,
        f: impl FnOnce(&W, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let (scales, zeros) = match self.p.weights {
            Weights::Integers(scheme) => scales_and_zeros(scheme, w.dtype(), self.weights)?,
            Weights::Float => (vec![], vec![]),
        };
        let pack_all = || {
            let bytes = WeightBytes::new(self.p.weights, w, channels, self.weights)?;
            let weights = Int8Weights { bytes: &bytes.bytes, is_signed: bytes.is_signed, zeros: &bytes.zeros };
            let scales = (0..channels).map(|i| bytes.scales[i.min(bytes.scales.len() - 1)]).collect();
            Ok((pack(&weights), scales))
        };
        let has_float_weights = self.p.weights == Weights::Float;
        with_packed(self.ctx, w, ((layout, has_float_weights), (&zeros, &scales)), pack_all, f)
    }

    /// Calls `f` with the epilogue of sums of `depth` products. `w_scales` has the scale of the weights of each channel.
    fn with_epilogue(
        &self,
        [channels, depth]: [usize; 2],
        x_scale: f32,
        w_scales: &[f32],
        f: impl FnOnce(&Epilogue<'_>),
    ) -> Result<()> {
        let [low, high] = self.p.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
        let limits = |scale: f32, zero: i32| Limits::of(self.dtype, zero, [low / scale, high / scale]);
        let (out_scale, limits) = match self.p.output {
            Output::Float => (1.0, Limits { low, high, zero: 0 }),
            Output::Linear => {
                let (scale, zero) = scales_and_zeros(Scheme::Linear, DType::F32, self.output)?;
                let zero = only_element("zero point of the output", &zero)?;
                let scale = only_element("scale of the output", &scale)?;
                (scale, limits(scale, zero))
            }
            Output::Range { min, max } => {
                let scale = max_abs(min, max) / Levels::Half.of(self.dtype);
                (scale, limits(scale, 0))
            }
        };
        let mut scales: Vec<f32> = w_scales.iter().map(|w_scale| x_scale * w_scale).collect();
        let mut shift = match self.bias {
            Some(bias) => bias.slice::<f32>()?.to_vec(),
            None => Vec::new(),
        };
        let mut bias = Vec::new();
        if let Some(params) = &self.p.normalization {
            shift.resize(channels, 0.0);
            let mut channel_scales = vec![1.0; channels];
            scale_and_shift(params.get::<BatchNormParam>(), self.normalization, &mut channel_scales, &mut shift)?;
            scales.iter_mut().zip(&channel_scales).for_each(|(scale, channel_scale)| *scale *= channel_scale);
        } else if let Some(integers) = integer_bias(&shift, &scales, depth) {
            (bias, shift) = (integers, Vec::new());
        }
        if self.p.output != Output::Float {
            scales.iter_mut().for_each(|scale| *scale /= out_scale);
            shift.iter_mut().for_each(|shift| *shift /= out_scale);
        }
        f(&Epilogue { bias: &bias, scale: &scales, shift: &shift, limits });
        Ok(())
    }
}
