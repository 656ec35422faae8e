//! Rules for indices and shapes: batch indices, crops, frames of a signal, shapes before pooling.

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{constant_len, needs_shapes, rules};
use crate::emit::{SymInts, TensorId, op};
use crate::error::Error;
use crate::ir::Value;

rules! {
    /// Prepends batch indices to coordinates. The first `axes` axes are the batch axes of both tensors.
    fn with_batch_indices(s, indices: TensorId, axes: i64) -> TensorId {
        let shape = s.info(indices).shape.clone();
        let axes = axes as usize;
        if !shape.is_known() || shape.dims().len() <= axes {
            return Err(needs_shapes(&format!("indices of shape {shape} have unknown batch axes")));
        }
        let leading = &shape.dims()[..shape.dims().len() - 1];
        let count = constant_len(leading)?;
        let mut items = Vec::with_capacity(count * axes);
        for p in 0..count as i64 {
            let mut rest = p;
            let mut coordinates: Vec<i64> = Vec::new();
            for n in leading.iter().rev() {
                coordinates.push(rest % n);
                rest /= n;
            }
            items.extend(coordinates.into_iter().rev().take(axes));
        }
        let dims: Vec<i64> = leading.iter().copied().chain([axes as i64]).collect();
        let batches = s.inner_constant("batches", NDArray::from_slice(&items, &dims)?);
        let whole = s.emit(op!(CAST(indices), dtype: DType::I64))?;
        s.emit(op!(CONCAT(batches, whole), dim: -1))
    }

    /// Crops or zero-pads axes to these sizes, equally at both ends; an odd element goes to the end.
    fn centered(s, tensor: TensorId, sizes: Vec<i64>, axes: Option<Vec<i64>>) -> TensorId {
        let rank = s.rank(tensor)?;
        let shape = s.info(tensor).shape.clone();
        let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
        if axes.len() != sizes.len() {
            return Err(Error::value(format!("the sizes {sizes:?} do not match the axes {axes:?}")));
        }
        let (mut begin, mut end) = (vec![0i64; rank], vec![0i64; rank]);
        for (axis, size) in axes.into_iter().zip(sizes) {
            let axis = Shape::axis(axis, rank)?;
            let n = shape.dim(axis);
            if n < 0 {
                return Err(needs_shapes(&format!("dimension {axis} is unknown")));
            }
            // Negative padding crops.
            let less = (size - n).abs() / 2;
            (begin[axis], end[axis]) = if size < n { (-less, size - n + less) } else { (less, size - n - less) };
        }
        begin.extend(end);
        super::elements::padded(s, tensor, SymInts(begin), None, "constant", Value::Float(0.0))
    }

    /// The input shape from which pooling with these windows gives `shape`.
    fn unpooled(_, shape: Vec<i64>, kernel: Vec<i64>, strides: Vec<i64>, pads: Vec<i64>) -> Vec<i64> {
        let mut shape = shape;
        let n = kernel.len();
        if shape.len() != n + 2 || strides.len() != n || pads.len() != 2 * n {
            return Err(Error::value(format!("a kernel {kernel:?} does not match the shape {shape:?}")));
        }
        for k in 0..n {
            shape[k + 2] = (shape[k + 2] - 1) * strides[k] + kernel[k] - pads[k] - pads[n + k];
        }
        Ok(shape)
    }

    /// The extent of dilated windows.
    fn dilated(_, kernel: Vec<i64>, dilations: Vec<i64>) -> Vec<i64> {
        Ok(kernel.iter().zip(dilations).map(|(k, d)| (k - 1) * d + 1).collect())
    }

    /// The sample indices of all complete frames of a signal: (frames, size).
    fn frames(s, length: i64, size: i64, step: i64) -> TensorId {
        if size < 1 || step < 1 || size > length {
            return Err(Error::value(format!("frames of {size} samples with step {step} do not fit in a signal of {length} samples")));
        }
        let count = (length - size) / step + 1;
        constant_len(&[count, size])?;
        let indices: Vec<i64> = (0..count).flat_map(|f| (0..size).map(move |i| f * step + i)).collect();
        Ok(s.inner_constant("frames", NDArray::from_slice(&indices, &[count, size])?))
    }
}
