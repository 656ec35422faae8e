//! Rules for export: ONNX operators with several outputs, lists of operators, and constants.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{array, needs_shapes, rules};
use crate::emit::{Naming, OnnxOp, Scope, TensorId, framework_node, framework_operator};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// For export: several outputs.
    fn outputs(_, tensors: Value) -> Value {
        Ok(tensors)
    }

    /// For export: TopK with its two outputs, values and indices.
    fn top(s, tensor: TensorId, k: i64, axis: Value, largest: bool) -> Vec<Value> {
        let k = s.integers("k", &[k])?;
        let operator = OnnxOp::TopK { axis, largest: Value::Int(i64::from(largest)) };
        framework_node(s, operator, vec![tensor.into(), k.into()], 2)
    }

    /// For export: Unique with its first output and those of the three others that are wanted.
    fn unique_elements(s, tensor: TensorId, axis: Value, wanted: &[Value]) -> Vec<Value> {
        let all = framework_node(s, OnnxOp::Unique { axis }, vec![tensor.into()], 4)?;
        let is_wanted = |k: usize| k == 0 || wanted.get(k - 1).is_some_and(Value::is_true);
        Ok(all.into_iter().enumerate().filter(|(k, _)| is_wanted(*k)).map(|(_, output)| output).collect())
    }

    /// For export: inserts an axis of length 1 into every tensor.
    fn each_unsqueezed(s, tensors: &[Value], axis: i64) -> Vec<Value> {
        let axis = s.integers("axis", &[axis])?;
        tensors.iter().map(|t| framework_operator(s, OnnxOp::Unsqueeze {}, &[t.clone(), axis.into()])).collect()
    }

    /// For export: n equal sections of an axis, which is removed if they have length 1 and squeeze is set.
    fn channels(s, tensor: TensorId, n: i64, axis: i64, squeeze: bool) -> Vec<Value> {
        let shape = s.info(tensor).shape.clone();
        let axis = Shape::axis(axis, shape.ndim().unwrap_or(0))?;
        let size = shape.dim(axis);
        if n < 1 || size < 0 || size % n != 0 {
            return Err(Error::value(format!(
                "an axis of {size} cannot be split into {n} parts: give the shapes of the inputs"
            )));
        }
        let sizes = s.integers("sizes", &vec![size / n; n as usize])?;
        let split = OnnxOp::Split { axis: Value::Int(axis as i64) };
        let sections = framework_node(s, split, vec![tensor.into(), sizes.into()], n as usize)?;
        if !squeeze {
            return Ok(sections);
        }
        let axes = s.integers("axis", &[axis as i64])?;
        sections.into_iter().map(|section| emit_onnx(s, OnnxOp::Squeeze {}, vec![section, axes.into()])).collect()
    }

    /// For export: n sections of length 1 of the last axis.
    fn channels_of(s, tensor: TensorId, n: i64) -> Vec<Value> {
        let n = usize::try_from(n).ok().filter(|n| *n <= 64);
        let n = n.ok_or_else(|| Error::value("an axis has up to 64 parts"))?;
        let sizes = s.integers("sizes", &vec![1; n])?;
        framework_node(s, OnnxOp::Split { axis: Value::Int(-1) }, vec![tensor.into(), sizes.into()], n)
    }

    /// For export: the result of an MXNet operator that depends only on the shapes of its inputs, as a constant. Parameters are alternating
    /// names and values.
    fn computed(s, op: &str, tensors: Vec<TensorId>, parameters: &[Value]) -> Value {
        let mut inputs = Vec::new();
        for tensor in tensors {
            let info = s.info(tensor);
            let (shape, dtype) = (info.shape.clone(), info.dtype.unwrap_or(DType::F32));
            if !shape.is_known() {
                return Err(needs_shapes(&format!("{op} depends on the shape {shape}")));
            }
            let zeros = NDArray::zeros(&shape, dtype, Context::default())?;
            inputs.push(Value::TensorId(s.builder().constant("shape", zeros)));
        }
        let mut params = Vec::new();
        for pair in parameters.chunks_exact(2) {
            match pair {
                [Value::Text(name), value] => params.push((name.as_str(), value.clone())),
                _ => return Err(Error::value("a parameter needs a name and a value")),
            }
        }
        let constant = s.operator(op, inputs, params, Naming::Operator)?;
        match &constant {
            Value::TensorId(id) if s.info(TensorId(*id)).value.is_some() => Ok(constant),
            _ => Err(Error::unsupported(format!("{op} creates a constant that is too large"))),
        }
    }

    /// For export: the result shape of broadcast_like for a tensor of this rank: some axes have the lengths of axes of another tensor,
    /// others are unchanged.
    fn expansion(s, rhs: TensorId, rank: i64, lhs_axes: Vec<i64>, rhs_axes: Vec<i64>) -> Value {
        let shape = emit_onnx(s, OnnxOp::Shape {}, vec![rhs.into()])?;
        let unchanged = s.integers("one", &[1])?;
        let mut lengths = vec![Value::from(unchanged); rank.clamp(0, 64) as usize];
        for (lhs_axis, rhs_axis) in lhs_axes.iter().zip(&rhs_axes) {
            let axis = s.integers("axis", &[*rhs_axis])?;
            let lhs_axis = Shape::axis(*lhs_axis, lengths.len())?;
            lengths[lhs_axis] = emit_onnx(s, OnnxOp::Gather {}, vec![shape.clone(), axis.into()])?;
        }
        emit_onnx(s, OnnxOp::Concat { axis: Value::Int(0) }, lengths)
    }

    /// The matrix of n rows with the weights of each column at its tap indices.
    fn interpolation_matrix(s, taps: TensorId, weights: TensorId, n: i64) -> TensorId {
        let known = |tensor: TensorId| {
            let unknown = || Error::unsupported("indices and weights must be constant");
            s.info(tensor).value.clone().ok_or_else(unknown)
        };
        let (indices, weights) = (known(taps)?, known(weights)?);
        let (rows, taps) = (indices.shape().dim(0), indices.shape().dim(1));
        if n < 1 || n.saturating_mul(rows) > 1 << 26 {
            return Err(Error::unsupported(format!("a matrix of {n} times {rows} numbers is too large")));
        }
        let mut items = vec![0.0; (n * rows) as usize];
        let pairs = indices.to_vec_as::<i64>()?.into_iter().zip(weights.to_vec_as::<f64>()?);
        for (k, (index, weight)) in pairs.enumerate() {
            items[(index * rows + k as i64 / taps.max(1)) as usize] += weight;
        }
        let matrix = array::<f64>(&[n, rows], weights.dtype(), items)?;
        Ok(s.constant(matrix))
    }

    /// The matrix of n rows whose columns average the bins of adaptive pooling: bin i begins at i n / bins, rounded down, and ends at
    /// (i + 1) n / bins, rounded up.
    fn bin_averages(s, n: i64, bins: i64, dtype: DType) -> TensorId {
        if n < 1 || bins < 1 || n.saturating_mul(bins) > 1 << 24 {
            return Err(Error::value(format!("an axis of {n} cannot be pooled to {bins} bins")));
        }
        let mut items = vec![0.0; (n * bins) as usize];
        for bin in 0..bins {
            let (begin, end) = (bin * n / bins, ((bin + 1) * n + bins - 1) / bins);
            (begin..end).for_each(|i| items[(i * bins + bin) as usize] = 1.0 / (end - begin) as f64);
        }
        let matrix = array::<f64>(&[n, bins], dtype, items)?;
        Ok(s.constant(matrix))
    }
}

/// Emits an ONNX operator and returns its first output.
pub(super) fn emit_onnx(s: &mut Scope<'_, '_>, operator: OnnxOp, inputs: Vec<Value>) -> Result<Value> {
    Ok(framework_node(s, operator, inputs, 1)?.swap_remove(0))
}
