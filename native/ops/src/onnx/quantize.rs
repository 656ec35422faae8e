//! `QuantizeLinear`, `DequantizeLinear`, `MatMulInteger` and `ConvInteger`.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::conv::ConvShape;
use ferromx_kernels::gemm::{MatMut, MatRef};
use ferromx_kernels::int8::{ConvWeights, Epilogue, Int8, Int8Weights, MatrixWeights, conv_int8, gemm_int8};
use ferromx_kernels::quantize::{self, Channels};

use crate::nn::convolution::{CONVOLUTION, ConvolutionParam};
use crate::quantized::{ByteType, is_signed, with_packed, zero_points};

const SCALE: ArgDef = arg("scale", "The scale, of type float32: one, or one per index of the axis.");
const ZERO: ArgDef = arg("zero_point", "The zero point, of the type of the integers, in the shape of scale.");

params! {
    /// Parameters of `_onnx_QuantizeLinear`.
    pub struct QuantizeLinearParam {
        /// The axis of the scales, if there are several; negative ones count from the end.
        axis: i32 = 1;
        /// The type of the integers.
        out_type: ByteType = (ByteType::Uint8);
    }
}

params! {
    /// Parameters of `_onnx_DequantizeLinear`.
    pub struct DequantizeLinearParam {
        /// The axis of the scales, if there are several; negative ones count from the end.
        axis: i32 = 1;
    }
}

/// Shape rule: data and output have one shape.
fn same_as_data(io: &mut ShapeIo<'_>) -> Result<()> {
    io.assign_out(0, &io.ins[0].clone())?;
    io.assign_in(0, &io.outs[0].clone())
}

/// The scales and zero points of the inputs 1 and 2: one for all elements, or one for each index along `axis`.
fn channels(shape: &Shape, axis: i32, ins: &[In<'_>]) -> Result<Channels> {
    let (scales, zeros) = (ins[1].slice::<f32>()?.to_vec(), zero_points(&ins[2])?);
    ensure!(
        scales.len() == zeros.len() || zeros.len() == 1,
        "scale has {} elements, but zero_point has {}",
        scales.len(),
        zeros.len()
    );
    let zeros = if zeros.len() == scales.len() { zeros } else { vec![zeros[0]; scales.len()] };
    if scales.len() == 1 {
        return Ok(Channels { scales, zeros, inner: shape.num_elements().max(1) });
    }
    let rank = shape.dims().len() as i32;
    let axis_index = if axis < 0 { axis + rank } else { axis };
    ensure!((0..rank).contains(&axis_index), "axis {axis} is out of bounds for the shape {shape}");
    let size = shape.dim(axis_index as usize);
    ensure!(size == scales.len() as i64, "scale has {} elements, but axis {axis} of the data has {size}", scales.len());
    Ok(Channels { scales, zeros, inner: shape.product(axis_index as usize + 1..) as usize })
}

pub(crate) static QUANTIZE_LINEAR: Operator<QuantizeLinearParam> = Operator::new("_onnx_QuantizeLinear")
    .doc(
        "Quantizes to 8-bit integers: the integer nearest to data / scale, ties to even, plus zero_point, within the range of the type. \
         The output has the shape of data. Source: QuantizeLinear of ONNX.",
    )
    .inputs(&[arg("data", "The numbers, of type float32."), SCALE, ZERO])
    .shape(|_, io| same_as_data(io))
    .dtype(|p, io| {
        let dtype = p.get::<QuantizeLinearParam>().out_type.dtype();
        (0..2).try_for_each(|i| io.assign_in(i, DType::F32))?;
        io.assign_in(2, dtype)?;
        io.assign_out(0, dtype)
    })
    .grad(Grad::Zero)
    .pointwise_before(1)
    .forward(|ctx, ins, outs| {
        let channels = channels(ins[0].shape(), ctx.params::<QuantizeLinearParam>().axis, ins)?;
        let x = ins[0].slice::<f32>()?;
        let is_signed = is_signed(outs[0].dtype());
        quantize::quantize_linear(x, &channels, is_signed, outs[0].bytes_mut()?);
        Ok(())
    });

pub(crate) static DEQUANTIZE_LINEAR: Operator<DequantizeLinearParam> = Operator::new("_onnx_DequantizeLinear")
    .doc(
        "Dequantizes integers: (data - zero_point) * scale, of type float32, in the shape of data. A bound network computes convolutions \
         and matrix products of such numbers on the integers. Source: DequantizeLinear of ONNX.",
    )
    .inputs(&[arg("data", "The integers, of type int8, uint8 or int32."), SCALE, ZERO])
    .shape(|_, io| same_as_data(io))
    .dtype(|_, io| {
        io.assign_in(1, DType::F32)?;
        io.assign_out(0, DType::F32)?;
        match io.ins[0].or(io.ins[2]) {
            Some(dtype) => io.assign_in(0, dtype).and_then(|()| io.assign_in(2, dtype)),
            None => Ok(()),
        }
    })
    .grad(Grad::Zero)
    .pointwise_before(1)
    .forward(|ctx, ins, outs| {
        let channels = channels(ins[0].shape(), ctx.params::<DequantizeLinearParam>().axis, ins)?;
        let out = outs[0].slice_mut::<f32>()?;
        dispatch!(ins[0].dtype(), Q in [i8, u8, i32] => {
            quantize::dequantize_linear(ins[0].slice::<Q>()?, &channels, out);
            Ok(())
        }, other => Err(ctx.unsupported(other, &[DType::I8, DType::U8, DType::I32])))
    });

const OPERANDS: &[ArgDef] = &[
    arg("data", "Integers of type int8 or uint8."),
    arg("weight", "Integers of type int8 or uint8."),
    arg("data_zero_point", "The zero point of data, one element of its type."),
    arg("weight_zero_point", "The zero points of weight, of its type: one, or one per output channel."),
];

/// Type rule: each operand has the type of its zero point, and the result is int32.
fn integer_dtypes(io: &mut DTypeIo<'_>) -> Result<()> {
    for i in 0..2 {
        if let Some(dtype) = io.ins[i].or(io.ins[i + 2]) {
            io.assign_in(i, dtype)?;
            io.assign_in(i + 2, dtype)?;
        }
    }
    io.assign_out(0, DType::I32)
}

/// The operands of a product: `data`, and `weight` with one zero point or one per output channel.
fn operands<'a>(
    ctx: &OpCtx<'_>,
    ins: &[In<'a>],
    zeros: &'a [i32],
    channels: usize,
) -> Result<(Int8<'a>, Int8Weights<'a>)> {
    const TYPES: &[DType] = &[DType::I8, DType::U8];
    if let Some(other) = ins[..2].iter().map(In::dtype).find(|dtype| !TYPES.contains(dtype)) {
        return Err(ctx.unsupported(other, TYPES));
    }
    let zero = zero_points(&ins[2])?;
    let [zero] = zero[..] else {
        return Err(Error::Value(format!("data_zero_point has {} elements, expected 1", zero.len())));
    };
    ensure!(
        [1, channels].contains(&zeros.len()),
        "weight_zero_point has {} elements, expected 1 or {channels}",
        zeros.len()
    );
    let x = Int8 { bytes: ins[0].bytes()?, is_signed: is_signed(ins[0].dtype()), zero };
    Ok((x, Int8Weights { bytes: ins[1].bytes()?, is_signed: is_signed(ins[1].dtype()), zeros }))
}

pub(super) static MATMUL_INTEGER: Operator = Operator::new("_onnx_MatMulInteger")
    .doc(
        "The product of data - data_zero_point, of shape (..., K), and the matrix weight - weight_zero_point, of shape (K, N), as 32-bit \
         integers of shape (..., N). Source: MatMulInteger of ONNX.",
    )
    .inputs(OPERANDS)
    .shape(|_, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank >= 1, "the data of MatMulInteger is a scalar; give it at least one dimension");
        let (rows, columns) = (io.ins[0].dim(rank - 1), io.ins[1].dim(1));
        io.assign_in(1, &Shape::new(&[rows, columns]))?;
        let mut out: Dims = io.ins[0].dims()[..rank - 1].into();
        out.push(io.ins[1].dim(1));
        io.assign_out(0, &Shape::from(out))
    })
    .dtype(|_, io| integer_dtypes(io))
    .grad(Grad::Zero)
    .forward(|ctx, ins, outs| {
        let dims = ins[1].shape().to_usize();
        let (k, n) = (dims[0], dims[1]);
        let zeros = zero_points(&ins[3])?;
        let (x, w) = operands(ctx, ins, &zeros, n)?;
        let m = outs[0].len() / n.max(1);
        let out = MatMut::row_major(outs[0].slice_mut::<i32>()?, m, n);
        let pack = || Ok((MatrixWeights::new(&w, MatRef::row_major(w.bytes, k, n)), Vec::new()));
        with_packed(ctx, &ins[1], ([k, n, n, 1], (&zeros, &[])), pack, |weights, _| {
            gemm_int8(x, weights, &Epilogue::SUMS, out);
            Ok(())
        })
    });

pub(super) static CONV_INTEGER: Operator<ConvolutionParam> = Operator::new("_onnx_ConvInteger")
    .doc(
        "The convolution of data - data_zero_point with weight - weight_zero_point in one or two dimensions, as 32-bit integers. Shapes \
         and parameters are those of Convolution without a bias; padding is zero_point. Source: ConvInteger of ONNX.",
    )
    .inputs(OPERANDS)
    .shape(|p, io| {
        let p = p.get::<ConvolutionParam>();
        ensure!(p.no_bias, "ConvInteger has no bias: set no_bias=True");
        let kernel = &p.kernel;
        ensure!(kernel.dims().len() <= 2, "ConvInteger needs at most two spatial dimensions, but kernel is {kernel}");
        let params = Params::new(p.clone());
        (CONVOLUTION.inference.shape)(&params, &mut ShapeIo { ins: &mut io.ins[..2], outs: &mut io.outs[..1] })
    })
    .dtype(|_, io| integer_dtypes(io))
    .grad(Grad::Zero)
    .forward(convolve);

fn convolve(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = ctx.params::<ConvolutionParam>().computed(ins[0].shape())?;
    let zeros = zero_points(&ins[3])?;
    let (x, w) = operands(ctx, ins, &zeros, shape.out_channels)?;
    let out = outs[0].slice_mut::<i32>()?;
    if out.is_empty() || x.bytes.is_empty() {
        return Ok(());
    }
    let pack = || Ok((ConvWeights::new(&shape, &w), Vec::new()));
    with_packed(ctx, &ins[1], (ConvShape { batch: 0, ..shape }, (&zeros, &[])), pack, |weights, _| {
        conv_int8(&shape, x, weights, &Epilogue::SUMS, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn scales_apply_along_the_axis() {
        let x = array(&[0.75f32, -100.0, 6.0, f32::NAN, 1.25, 300.0], &[3, 2]);
        let (scale, zero) = (array(&[0.5f32, 2.0], &[2]), array(&[3i8, -4], &[2]));
        let case = Case::new(&QUANTIZE_LINEAR, &[("axis", "-1"), ("out_type", "int8")]);
        let q = case.run1(&[x, scale.clone(), zero.clone()]).unwrap();
        assert_eq!(q.to_vec::<i8>().unwrap(), [5, -54, 15, -4, 5, 127]);
        let back = Case::new(&DEQUANTIZE_LINEAR, &[("axis", "1")]).run1(&[q, scale.clone(), zero.clone()]).unwrap();
        assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, -100.0, 6.0, 0.0, 1.0, 262.0]);
        let other_axis =
            Case::new(&DEQUANTIZE_LINEAR, &[("axis", "0")]).run1(&[array(&[1i8; 6], &[3, 2]), scale, zero]);
        assert!(other_axis.unwrap_err().to_string().contains("scale has 2 elements, but axis 0 of the data has 3"));
    }

    #[test]
    fn one_scale_applies_to_all_elements() {
        let (scale, zero) = (array(&[0.5f32], &[]), array(&[100u8], &[]));
        let x = array(&[-60.0f32, -0.25, 0.25, 0.75, 80.0], &[5]);
        let q = Case::new(&QUANTIZE_LINEAR, &[]).run1(&[x, scale.clone(), zero.clone()]).unwrap();
        assert_eq!(q.to_vec::<u8>().unwrap(), [0, 100, 100, 102, 255]);
        let sums = array(&[7i32, -1_000_000], &[2]);
        let real = Case::new(&DEQUANTIZE_LINEAR, &[]).run1(&[sums, scale, array(&[0i32], &[])]).unwrap();
        assert_eq!(real.to_vec::<f32>().unwrap(), [3.5, -500_000.0]);
    }

    #[test]
    fn products_of_integers_are_exact() {
        let (a, b) = (array(&[250u8, 3, 7, 0, 255, 128], &[2, 3]), array(&[-128i8, 127, 5, -6, 0, 9], &[3, 2]));
        let (a_zero, b_zeros) = (array(&[128u8], &[]), array(&[1i8, -2], &[2]));
        let sums = Case::new(&MATMUL_INTEGER, &[]).run1(&[a.clone(), b, a_zero.clone(), b_zeros.clone()]).unwrap();
        let want =
            [122 * -129 - 125 * 4 + 121, 122 * 129 + 125 * 4 - 121 * 11, 128 * 129 + 127 * 4, -128 * 129 - 127 * 4];
        assert_eq!(sums.to_vec::<i32>().unwrap(), want);
        let image = a.reshape(&[1, 1, 2, 3].into()).unwrap();
        let kernel = array(&[2i8, -3], &[1, 1, 1, 2]);
        let attrs = [("kernel", "(1, 2)"), ("pad", "(0, 1)"), ("num_filter", "1"), ("no_bias", "True")];
        let sums = Case::new(&CONV_INTEGER, &attrs).run1(&[image, kernel, a_zero, array(&[1i8], &[])]).unwrap();
        let pairs = [[0, 122], [122, -125], [-125, -121], [-121, 0], [0, -128], [-128, 127], [127, 0], [0, 0]];
        let want: Vec<i32> = pairs.iter().map(|[left, right]| left - 4 * right).collect();
        assert_eq!(sums.to_vec::<i32>().unwrap(), want);
        let many = Case::new(&CONV_INTEGER, &attrs).run1(&[
            array(&[0u8; 6], &[1, 1, 2, 3]),
            array(&[0i8; 2], &[1, 1, 1, 2]),
            array(&[0u8; 2], &[2]),
            b_zeros,
        ]);
        assert!(many.unwrap_err().to_string().contains("data_zero_point has 2 elements, expected 1"));
    }
}
