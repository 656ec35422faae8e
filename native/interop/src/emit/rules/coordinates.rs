//! Rules for coordinates: batch indices, crops, frames, the shapes that undo pooling.

use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{Rule, handle, int, ints, made_elements};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "with_batch_indices",
        "(indices, axes) -> tensor",
        "Prepends batch indices to coordinates. The first `axes` axes are the batch axes of both tensors.",
        with_batch_indices,
    ),
    Rule::new(
        "centered",
        "(tensor, sizes, axes) -> tensor",
        "Crops or zero-pads axes to these sizes, equally at both ends; an odd element goes to the end.",
        centered,
    ),
    Rule::new(
        "unpooled",
        "(shape, kernel, strides, pads) -> list",
        "The input shape from which pooling with these windows gives `shape`.",
        |_, a| {
            let (mut shape, kernel, strides, pads) = (ints(a, 0)?, ints(a, 1)?, ints(a, 2)?, ints(a, 3)?);
            let n = kernel.len();
            if shape.len() != n + 2 || strides.len() != n || pads.len() != 2 * n {
                return Err(Error::value(format!("windows {kernel:?} do not fit the shape {shape:?}")));
            }
            for k in 0..n {
                shape[k + 2] = (shape[k + 2] - 1) * strides[k] + kernel[k] - pads[k] - pads[n + k];
            }
            Ok(shape.into())
        },
    ),
    Rule::new("dilated", "(kernel, dilations) -> list", "The extent of dilated windows.", |_, a| {
        let (kernel, dilations) = (ints(a, 0)?, ints(a, 1)?);
        Ok(kernel.iter().zip(dilations).map(|(k, d)| (k - 1) * d + 1).collect::<Vec<_>>().into())
    }),
    Rule::new("plus", "(list, list) -> list", "The elementwise sums of two lists of integers.", |_, a| {
        let (x, y) = (ints(a, 0)?, ints(a, 1)?);
        Ok(x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<_>>().into())
    }),
    Rule::new(
        "frames",
        "(length, size, step) -> tensor",
        "The sample indices of all complete frames of a signal: (frames, size).",
        |s, a| {
            let (length, size, step) = (int(a, 0)?, int(a, 1)?, int(a, 2)?);
            if size < 1 || step < 1 || size > length {
                return Err(Error::value(format!("frames of {size} every {step} do not fit a signal of {length}")));
            }
            let count = (length - size) / step + 1;
            made_elements(&Shape::new(&[count, size]))?;
            let indices: Vec<i64> = (0..count).flat_map(|f| (0..size).map(move |i| f * step + i)).collect();
            let name = format!("{}/frames", s.name);
            let array = NDArray::from_slice(&indices, &[count, size])?;
            Ok(Value::Handle(s.builder().constant(&name, array)))
        },
    ),
];

fn with_batch_indices(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let shape = s.info(handle(args, 0)?).shape.clone();
    let axes = int(args, 1)? as usize;
    if !shape.is_known() || shape.dims().len() <= axes {
        return Err(Error::NeedsValue(format!(
            "indices of shape {shape} do not say all batches: give the shapes of the inputs"
        )));
    }
    let leading = &shape.dims()[..shape.dims().len() - 1];
    let count = made_elements(&Shape::new(leading))?;
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
    let name = format!("{}/batches", s.name);
    let batches = Value::Handle(s.builder().constant(&name, NDArray::from_slice(&items, &dims)?));
    let whole = s.operator("Cast", vec![args[0].clone()], vec![("dtype", "int64".into())], false)?;
    s.operator("Concat", vec![batches, whole], vec![("dim", Value::Int(-1))], false)
}

fn centered(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let shape = s.info(handle(args, 0)?).shape.clone();
    let rank =
        shape.ndim().ok_or_else(|| Error::NeedsValue("the rank is not known: give the shapes of the inputs".into()))?;
    let sizes = ints(args, 1)?;
    let axes = if args[2] == Value::None { (0..rank as i64).collect() } else { ints(args, 2)? };
    if axes.len() != sizes.len() {
        return Err(Error::value(format!("the sizes {sizes:?} do not fit the axes {axes:?}")));
    }
    let (mut begin, mut end) = (vec![0i64; rank], vec![0i64; rank]);
    for (axis, size) in axes.into_iter().zip(sizes) {
        let axis = Shape::axis(axis, rank)?;
        let n = shape.dim(axis);
        if n < 0 {
            return Err(Error::NeedsValue(format!("dimension {axis} is not known: give the shapes of the inputs")));
        }
        // Negative padding crops.
        let less = (size - n).abs() / 2;
        (begin[axis], end[axis]) = if size < n { (-less, size - n + less) } else { (less, size - n - less) };
    }
    begin.extend(end);
    let pads = vec![args[0].clone(), begin.into(), Value::None, "constant".into(), Value::Float(0.0)];
    super::elements::padded(s, &pads)
}
