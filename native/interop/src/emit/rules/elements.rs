//! Rules for single elements, activations, quantization and padding.

use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{ByteType, LeakyReluType, PadMode};

use super::{array, constant_len, needs_shapes, rules};
use crate::emit::{Scope, SymInts, TensorId, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::Value;

/// The zero point, or a zero of the type.
fn zero_or(s: &mut Scope<'_, '_>, zero_point: Option<TensorId>, dtype: DType) -> Result<TensorId> {
    zero_point.map_or_else(|| s.emit(op!(CAST(0.0), dtype: dtype)), Ok)
}

/// Dequantizes integers with scales along an axis; `None` for types and shapes that `DEQUANTIZE_LINEAR` does not take.
fn dequantize(
    s: &mut Scope<'_, '_>,
    tensor: TensorId,
    scale: TensorId,
    zero_point: Option<TensorId>,
    axis: i64,
) -> Result<Option<TensorId>> {
    let dtype = s.info(tensor).dtype.filter(|dtype| [DType::I8, DType::U8, DType::I32].contains(dtype));
    let is_vector = s.info(scale).shape.ndim().is_some_and(|rank| rank <= 1);
    let Some(dtype) = dtype.filter(|_| is_vector && s.info(scale).dtype == Some(DType::F32)) else { return Ok(None) };
    let zero = zero_or(s, zero_point, dtype)?;
    s.emit(op!(DEQUANTIZE_LINEAR(tensor, scale, zero), axis: axis)).map(Some)
}

rules! {
    /// One element of a vector, as a zero-dimensional tensor.
    fn element_of(s, tensor: Value, n: i64) -> TensorId {
        let one = s.emit(op!(SLICE_AXIS(tensor), axis: 0, begin: n, end: n + 1))?;
        s.emit(op!(RESHAPE(one), newshape: Vec::<i64>::new()))
    }

    /// Applies the activation of this ONNX name, or none if the name is absent. The parameters are the ONNX attributes of the activation.
    fn function_of(s, name: Option<&str>, tensor: TensorId, parameters: Value) -> TensorId {
        let given = if let Value::List(items) = &parameters { items.as_slice() } else { &[] };
        let number = |k: usize, default: f64| given.get(k).and_then(Value::number).unwrap_or(default);
        match name.unwrap_or_default() {
            "" => Ok(tensor),
            "Relu" => s.emit_named(op!(RELU(tensor))),
            "Tanh" => s.emit_named(op!(TANH(tensor))),
            "Sigmoid" => s.emit_named(op!(SIGMOID(tensor))),
            "LeakyRelu" => {
                let slope = number(0, 0.01);
                s.emit_named(op!(LEAKY_RELU(tensor), act_type: LeakyReluType::Leaky, slope: slope))
            }
            "HardSigmoid" => s.emit_named(op!(HARD_SIGMOID(tensor), alpha: number(0, 0.2), beta: number(1, 0.5))),
            "Clip" => {
                let (low, high) = (number(0, f64::from(f32::MIN)), number(1, f64::from(f32::MAX)));
                s.emit_named(op!(CLIP(tensor), a_min: low, a_max: high))
            }
            other => Err(Error::unsupported(format!("the activation {other} is not supported"))),
        }
    }

    /// Dequantizes 8-bit integers with one scale and one zero point for the tensor, or for each index of its last axis.
    fn real_of(s, tensor: TensorId, scale: TensorId, zero_point: Option<TensorId>) -> TensorId {
        if let Some(real) = dequantize(s, tensor, scale, zero_point, -1)? {
            return Ok(real);
        }
        let mut x = s.emit(op!(CAST(tensor), dtype: DType::F32))?;
        if let Some(zero) = zero_point {
            let zero = s.emit(op!(CAST(zero), dtype: DType::F32))?;
            x = s.emit(op!(SUBTRACT(x, zero)))?;
        }
        s.emit(op!(MULTIPLY(x, scale)))
    }

    /// Dequantizes 8-bit integers with one scale and one zero point for the tensor, or for each index of its first axis.
    fn real_rows_of(s, tensor: TensorId, scale: TensorId, zero_point: Option<TensorId>) -> TensorId {
        let unknown = || Error::unsupported("scales per row need 8-bit integers and one float32 scale per row");
        dequantize(s, tensor, scale, zero_point, 0)?.ok_or_else(unknown)
    }

    /// Dequantizes 8-bit tensors in a list that has each with its scale and zero point.
    fn real_triples(s, tensors: &[Value]) -> Vec<TensorId> {
        if !tensors.len().is_multiple_of(3) {
            let count = tensors.len();
            return Err(Error::value(format!("{count} inputs cannot be divided into triples of tensor, scale and zero point")));
        }
        let triples = tensors.chunks_exact(3);
        triples
            .map(|t| {
                let tensor_id = |value: &Value| match value {
                    Value::TensorId(tensor_id) => Ok(TensorId(*tensor_id)),
                    other => Err(Error::value(format!("a tensor, its scale or its zero point is {}", other.kind()))),
                };
                let zero_point = Some(&t[2]).filter(|zero| **zero != Value::None).map(tensor_id).transpose()?;
                real_of(s, tensor_id(&t[0])?, tensor_id(&t[1])?, zero_point)
            })
            .collect()
    }

    /// Quantizes to 8-bit integers: divides by the scale, rounds, adds the zero point and clips to the type.
    fn rounded_to(s, tensor: TensorId, scale: TensorId, zero_point: Option<TensorId>, dtype: DType) -> TensorId {
        let (low, out_type) = match dtype {
            DType::U8 => (0.0, ByteType::Uint8),
            DType::I8 => (-128.0, ByteType::Int8),
            other => {
                let text = format!("integers of type {other} are not supported; use int8 or uint8");
                return Err(Error::unsupported(text));
            }
        };
        let is_float = |x: TensorId| s.info(x).dtype == Some(DType::F32);
        if is_float(tensor) && is_float(scale) && s.info(scale).shape.ndim().is_some_and(|rank| rank <= 1) {
            let zero = zero_or(s, zero_point, dtype)?;
            return s.emit_named(op!(QUANTIZE_LINEAR(tensor, scale, zero), axis: -1, out_type: out_type));
        }
        let mut x = s.emit(op!(TRUE_DIVIDE(tensor, scale)))?;
        x = s.emit(op!(AROUND(x)))?;
        if let Some(zero) = zero_point {
            let zero = s.emit(op!(CAST(zero), dtype: DType::F32))?;
            x = s.emit(op!(ADD(x, zero)))?;
        }
        let clipped = s.emit(op!(CLIP(x), a_min: low, a_max: low + 255.0))?;
        s.emit_named(op!(CAST(clipped), dtype: dtype))
    }

    /// A matrix whose columns are quantized in blocks, as a floating-point constant of shape (K, N). `format` is the list N, K, block size,
    /// bits.
    fn block_weights(s, packed: TensorId, scales: TensorId, zero_points: Option<TensorId>, format: Vec<i64>) -> TensorId {
        let weights = BlockWeights::read(s, packed, scales, zero_points, &format)?;
        let (n, k, dtype) = (weights.num_columns, weights.len, s.dtype(scales)?);
        let items = (0..n * k).map(|i| weights.element(i % n, i / n)).collect::<Option<Vec<f64>>>();
        let items = items.ok_or_else(|| Error::value("the weights, scales or zero points have too few elements"))?;
        Ok(s.inner_constant("weights", array::<f64>(&[k as i64, n as i64], dtype, items)?))
    }

    /// True if the tensor is a constant of one element.
    fn single(s, tensor: TensorId) -> bool {
        Ok(s.info(tensor).value.as_ref().is_some_and(|v| v.len() == 1))
    }

    /// ONNX's Pad: the pads at the beginning of each axis, then those at the end. Negative pads crop.
    fn padded(s, tensor: TensorId, pads: SymInts, axes: Option<Vec<i64>>, mode: &str, value: Value) -> TensorId {
        let (rank, pads) = (s.rank(tensor)?, pads.0);
        let axes: Vec<usize> = match axes {
            None => (0..rank).collect(),
            Some(axes) => axes.into_iter().map(|x| Shape::axis(x, rank)).collect::<Result<_, _>>()?,
        };
        if pads.len() != 2 * axes.len() {
            return Err(Error::value(format!("padding {pads:?} must have one pair for each of {} axes", axes.len())));
        }
        let mut pairs = vec![[0i64, 0]; rank];
        for (k, axis) in axes.iter().enumerate() {
            pairs[*axis] = [pads[k], pads[k + axes.len()]];
        }
        let mut data = tensor;
        if pads.iter().any(|p| is_symbolic(*p)) {
            if mode != "constant" {
                return Err(needs_shapes("the padding depends on an unknown dimension"));
            }
            data = pad_dynamic(s, tensor, &mut pairs, &value)?;
        }
        let is_cropped = pads.iter().any(|p| *p < 0 && !is_symbolic(*p));
        if is_cropped {
            let bound = |pad: i64, index: i64| if pad < 0 { Value::Int(index) } else { Value::None };
            let begin: Vec<Value> = pairs.iter().map(|p| bound(p[0], -p[0])).collect();
            let end: Vec<Value> = pairs.iter().map(|p| bound(p[1], p[1])).collect();
            data = s.emit_named(op!(SLICE(data), begin: begin, end: end))?;
        }
        pairs.iter_mut().flatten().for_each(|p| *p = (*p).max(0));
        if pairs.iter().all(|p| *p == [0, 0]) {
            return if data != tensor { Ok(data) } else { s.emit_named(op!(COPY(data))) };
        }
        let mode = match mode {
            "wrap" => return pad_wrap(s, data, &pairs),
            other => <PadMode as ferromx_core::params::ParamValue>::parse(other).map_err(Error::Unsupported)?,
        };
        let value = Some(value).filter(|_| mode == PadMode::Constant);
        s.emit_named(op!(PAD(data), pad_width: pairs, mode: mode, constant_value: value))
    }
}

/// Columns of a matrix that are quantized in blocks. Each row of `packed` and of `zero_points` has the elements of a column, the first ones
/// in the low bits of a byte.
struct BlockWeights {
    num_columns: usize,
    len: usize,
    block_len: usize,
    bits: usize,
    packed: Vec<u8>,
    scales: Vec<f64>,
    zero_points: ZeroPoints,
}

enum ZeroPoints {
    /// Half of the range.
    Middle,
    /// Packed like the weights.
    Packed(Vec<u8>),
    /// One number per block.
    Numbers(Vec<f64>),
}

impl BlockWeights {
    fn read(
        s: &Scope<'_, '_>,
        packed: TensorId,
        scales: TensorId,
        zero_points: Option<TensorId>,
        format: &[i64],
    ) -> Result<BlockWeights> {
        let known = |tensor: TensorId| {
            let unknown = || Error::NeedsValue("the quantized weights are known only when the model runs".into());
            s.info(tensor).value.clone().ok_or_else(unknown)
        };
        let sizes: Option<Vec<usize>> = format.iter().map(|n| usize::try_from(*n).ok().filter(|n| *n > 0)).collect();
        let Some([num_columns, len, block_len, bits @ (2 | 4 | 8)]) = sizes.as_deref() else {
            return Err(Error::unsupported(format!(
                "N, K, block_size and bits are {format:?}; bits must be 2, 4 or 8"
            )));
        };
        let (num_columns, len, block_len, bits) = (*num_columns, *len, *block_len, *bits);
        constant_len(&[num_columns as i64, len as i64])?;
        let zero_points = match zero_points.map(known).transpose()? {
            None => ZeroPoints::Middle,
            Some(array) if array.dtype() == DType::U8 => ZeroPoints::Packed(array.to_vec::<u8>()?),
            Some(array) => ZeroPoints::Numbers(array.to_vec_as::<f64>()?),
        };
        let packed = known(packed)?;
        if packed.dtype() != DType::U8 {
            return Err(Error::unsupported(format!("packed weights must be uint8, not {}", packed.dtype())));
        }
        let (packed, scales) = (packed.to_vec::<u8>()?, known(scales)?.to_vec_as::<f64>()?);
        Ok(BlockWeights { num_columns, len, block_len, bits, packed, scales, zero_points })
    }

    fn num_blocks(&self) -> usize {
        self.len.div_ceil(self.block_len)
    }

    /// Element `index` of row `row` of packed integers.
    fn unpacked(&self, packed: &[u8], row: usize, row_len: usize, index: usize) -> Option<f64> {
        let per_byte = 8 / self.bits;
        let byte = packed.get(row * row_len.div_ceil(per_byte) + index / per_byte)?;
        let shifted = u32::from(*byte) >> (index % per_byte * self.bits);
        Some(f64::from(shifted & ((1 << self.bits) - 1)))
    }

    /// Element `index` of a column; `None` if an array is too short.
    fn element(&self, column: usize, index: usize) -> Option<f64> {
        let (num_blocks, block) = (self.num_blocks(), index / self.block_len);
        let quantized = self.unpacked(&self.packed, column, num_blocks * self.block_len, index)?;
        let zero = match &self.zero_points {
            ZeroPoints::Middle => f64::from(1 << (self.bits - 1)),
            ZeroPoints::Packed(packed) => self.unpacked(packed, column, num_blocks, block)?,
            ZeroPoints::Numbers(numbers) => *numbers.get(column * num_blocks + block)?,
        };
        Some((quantized - zero) * self.scales.get(column * num_blocks + block)?)
    }
}

/// Pads axes with a constant by the lengths in `pairs` that are computed from dimensions, and sets these to 0. They must not be negative
/// when the model runs.
fn pad_dynamic(s: &mut Scope<'_, '_>, mut tensor: TensorId, pairs: &mut [[i64; 2]], value: &Value) -> Result<TensorId> {
    let dtype = s.dtype(tensor)?;
    for (axis, pair) in pairs.iter_mut().enumerate().filter(|(_, p)| p.iter().any(|p| is_symbolic(*p))) {
        let mut joined = Vec::new();
        for (k, pad) in std::mem::take(pair).into_iter().enumerate() {
            if k == 1 {
                joined.push(tensor);
            }
            if pad != 0 {
                let mut dims = s.dims(tensor)?;
                dims[axis] = pad;
                joined.push(s.emit(op!(FULL(), shape: dims, value: value.number().unwrap_or(0.0), dtype: dtype))?);
            }
        }
        tensor = s.emit_named(op!(CONCAT(joined), dim: axis))?;
    }
    Ok(tensor)
}

/// Pads an axis of unknown length with the elements from the opposite end. The padding must not exceed the length.
fn wrap_dynamic(s: &mut Scope<'_, '_>, tensor: TensorId, axis: usize, [begin, end]: [i64; 2]) -> Result<TensorId> {
    let mut joined = Vec::new();
    if begin > 0 {
        let all = vec![Value::None; s.rank(tensor)?];
        let mut begins = all.clone();
        begins[axis] = Value::Int(-begin);
        joined.push(s.emit(op!(SLICE(tensor), begin: begins, end: all))?);
    }
    joined.push(tensor);
    if end > 0 {
        joined.push(s.emit(op!(SLICE_AXIS(tensor), axis: axis, begin: 0, end: end))?);
    }
    s.emit_named(op!(CONCAT(joined), dim: axis))
}

/// Pads with the elements from the opposite end of each axis.
fn pad_wrap(s: &mut Scope<'_, '_>, mut tensor: TensorId, pairs: &[[i64; 2]]) -> Result<TensorId> {
    for (axis, pair) in pairs.iter().enumerate().filter(|(_, p)| **p != [0, 0]) {
        let n = s.dims(tensor)?[axis];
        if is_symbolic(n) {
            tensor = wrap_dynamic(s, tensor, axis, *pair)?;
            continue;
        }
        if n == 0 {
            return Err(Error::value("an empty axis cannot be reversed"));
        }
        let indices: Vec<i64> = (-pair[0]..n + pair[1]).map(|i| i.rem_euclid(n)).collect();
        let indices = s.integers("indices", &indices)?;
        tensor = s.emit_named(op!(TAKE(tensor, indices), axis: axis))?;
    }
    Ok(tensor)
}
