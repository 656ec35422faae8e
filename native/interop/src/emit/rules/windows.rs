//! Rules for the windows of convolution and pooling: kernels, strides, padding.

use ferromx_ops::definitions::PadMode;

use super::{needs_shapes, rules};
use crate::emit::{TensorId, op};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// The padding of a window: the given one, or the one for which the output size is the input size divided by the stride. The beginnings
    /// of all axes, then the ends.
    fn window_pads(
        s, auto_pad: &str, pads: Option<Vec<i64>>, kernel: Vec<i64>, strides: Vec<i64>, dilations: Vec<i64>,
        data: TensorId,
    ) -> Vec<i64> {
        check_windows(&[&kernel, &strides, &dilations])?;
        let n = kernel.len();
        if strides.len() != n || dilations.len() != n {
            return Err(Error::value(format!(
                "strides {strides:?} and dilations {dilations:?} do not match a kernel {kernel:?}"
            )));
        }
        let is_same_upper = match auto_pad {
            "NOTSET" | "" => {
                let pads = pads.unwrap_or_else(|| vec![0; 2 * n]);
                return match pads.len() == 2 * n && pads.iter().all(|p| *p >= 0) {
                    true => Ok(pads),
                    false => Err(Error::value(format!("padding {pads:?} does not match a kernel {kernel:?}"))),
                };
            }
            "VALID" => return Ok(vec![0; 2 * n]),
            "SAME_UPPER" => true,
            "SAME_LOWER" => false,
            other => return Err(Error::value(format!("unknown padding '{other}'"))),
        };
        let shape = s.info(data).shape.clone();
        if shape.dims().len() != n + 2 {
            return Err(needs_shapes(&format!("a kernel {kernel:?} does not match the shape {shape}")));
        }
        let (mut begin, mut end) = (vec![0; n], vec![0; n]);
        for k in 0..n {
            let (size, window) = (shape.dim(k + 2), (kernel[k] - 1) * dilations[k] + 1);
            // With a stride of 1, the padding does not depend on the size.
            if size < 0 && strides[k] != 1 {
                return Err(needs_shapes(&format!("the padding depends on dimension {}", k + 2)));
            }
            if strides[k] < 1 {
                return Err(Error::value(format!("strides {strides:?} are not positive")));
            }
            let outputs = size.max(1).div_euclid(strides[k]) + i64::from(size.max(1).rem_euclid(strides[k]) != 0);
            let total = match strides[k] {
                1 => window - 1,
                stride => ((outputs - 1) * stride + window - size).max(0),
            };
            let (less, more) = (total / 2, total - total / 2);
            (begin[k], end[k]) = if is_same_upper { (less, more) } else { (more, less) };
        }
        begin.extend(end);
        Ok(begin)
    }

    /// Padding for ceil_mode: enlarged at the end so that a last, incomplete window is whole. A window that would contain only padding is
    /// dropped.
    fn pads_to_the_end(s, pads: Vec<i64>, kernel: Vec<i64>, strides: Vec<i64>, data: TensorId) -> Vec<i64> {
        let mut pads = pads;
        check_windows(&[&pads, &kernel, &strides])?;
        let shape = s.info(data).shape.clone();
        let n = kernel.len();
        let known = shape.dims().len() == n + 2 && !shape.dims()[2..].contains(&-1);
        if !known || pads.len() != 2 * n || strides.len() != n {
            return Err(needs_shapes("the last window depends on the size of the input"));
        }
        for k in 0..n {
            let (size, stride) = (shape.dim(k + 2) + pads[k], strides[k].max(1));
            let room = size + pads[n + k] - kernel[k];
            let mut windows = room.div_euclid(stride) + i64::from(room.rem_euclid(stride) != 0) + 1;
            if (windows - 1) * stride >= size {
                windows -= 1;
            }
            pads[n + k] = (windows - 1) * stride + kernel[k] - size;
        }
        Ok(pads)
    }

    /// The padding of a transposed convolution: the given one, or the one that gives the requested output shape.
    fn transposed_pads(
        s, auto_pad: &str, pads: Option<Vec<i64>>, kernel: Vec<i64>, strides: Vec<i64>, dilations: Vec<i64>,
        output_shape: Option<Vec<i64>>, output_padding: Option<Vec<i64>>, data: TensorId,
    ) -> Vec<i64> {
        let n = kernel.len();
        let extra = output_padding.unwrap_or_else(|| vec![0; n]);
        let pads = pads.unwrap_or_else(|| vec![0; 2 * n]);
        check_windows(&[&kernel, &strides, &dilations, &extra, &pads])?;
        if [strides.len(), dilations.len(), extra.len(), pads.len() / 2] != [n; 4] {
            let text = format!("strides, dilations, pads or output_padding do not match a kernel {kernel:?}");
            return Err(Error::value(text));
        }
        let is_same_upper = match auto_pad {
            "NOTSET" | "" => None,
            "VALID" => return Ok(vec![0; 2 * n]),
            "SAME_UPPER" => Some(true),
            "SAME_LOWER" => Some(false),
            other => return Err(Error::value(format!("unknown padding '{other}'"))),
        };
        if is_same_upper.is_none() && output_shape.is_none() {
            return Ok(pads);
        }
        let shape = s.info(data).shape.clone();
        if shape.dims().len() != n + 2 || shape.dims()[2..].contains(&-1) {
            return Err(needs_shapes("the padding depends on the size of the input"));
        }
        let size = |k: usize| shape.dim(k + 2);
        let target = output_shape.unwrap_or_else(|| (0..n).map(|k| size(k) * strides[k]).collect());
        // Shapes may be given with or without batch and channels.
        let target = &target[target.len().saturating_sub(n)..];
        let (mut begin, mut end) = (vec![0; n], vec![0; n]);
        for k in 0..n.min(target.len()) {
            let unpadded = strides[k] * (size(k) - 1) + extra[k] + (kernel[k] - 1) * dilations[k] + 1;
            let total = unpadded.saturating_sub(target[k]);
            (begin[k], end[k]) = match is_same_upper {
                // A negative total extends the output at the end to the requested size.
                _ if total < 0 => (0, total),
                Some(true) => (total / 2, total - total / 2),
                _ => (total - total / 2, total / 2),
            };
        }
        begin.extend(end);
        Ok(begin)
    }

    /// Crops this number of pixels at the beginning and end of each axis of images; negative numbers extend them by zeros.
    fn cropped(s, tensor: TensorId, pads: Vec<i64>) -> TensorId {
        let (begin, end) = halves(&pads)?;
        let mut image = tensor;
        if pads.iter().any(|p| *p < 0) {
            let none = std::iter::repeat_n([0i64, 0], 2);
            let pairs = none.chain(begin.iter().zip(end).map(|(b, e)| [(-b).max(0), (-e).max(0)]));
            image = s.emit_named(op!(PAD(image), pad_width: pairs.collect::<Vec<_>>(), mode: PadMode::Constant))?;
        }
        if pads.iter().all(|p| *p <= 0) {
            return Ok(image);
        }
        let none = || std::iter::repeat_n(Value::None, 2);
        let positive = |x: i64, end: i64| if x > 0 { Value::Int(end) } else { Value::None };
        let begins: Vec<Value> = none().chain(begin.iter().map(|x| positive(*x, *x))).collect();
        let ends: Vec<Value> = none().chain(end.iter().map(|x| positive(*x, -x))).collect();
        s.emit_named(op!(SLICE(image), begin: begins, end: ends))
    }

    /// True if the padding is equal at both ends of each axis.
    fn symmetric(_, pads: Vec<i64>) -> bool {
        let (begin, end) = halves(&pads)?;
        Ok(begin == end)
    }

    /// Symmetric padding, once for each axis.
    fn both_sides(_, pads: Vec<i64>) -> Vec<i64> {
        let (begin, end) = halves(&pads)?;
        match begin == end {
            true => Ok(begin.to_vec()),
            false => Err(Error::value(format!("the padding {pads:?} is not symmetric"))),
        }
    } reversed |made, _| match made {
        Value::List(items) => Some(Value::List(items.iter().chain(items).cloned().collect())),
        _ => None,
    };

    /// Padding as one pair for each axis, after `before` axes without padding.
    fn pad_pairs(_, pads: Vec<i64>, before: i64) -> Vec<Value> {
        let (begin, end) = halves(&pads)?;
        let none = std::iter::repeat_n([0, 0], before.clamp(0, 32) as usize);
        let pairs = none.chain(begin.iter().zip(end).map(|(b, e)| [*b, *e]));
        Ok(pairs.map(|p| p.to_vec().into()).collect())
    }
}

/// Maximum kernel, stride, dilation or padding, so that products of two of them, or of one with a dimension, do not overflow.
const MAX_WINDOW: i64 = 1 << 24;

/// Rejects numbers beyond [`MAX_WINDOW`].
fn check_windows(lists: &[&[i64]]) -> Result<()> {
    match lists.iter().copied().flatten().find(|x| !(-MAX_WINDOW..=MAX_WINDOW).contains(*x)) {
        Some(x) => Err(Error::value(format!("a window with the number {x} is larger than any image"))),
        None => Ok(()),
    }
}

/// The padding at the beginning of each axis, and that at the end.
fn halves(pads: &[i64]) -> Result<(&[i64], &[i64])> {
    match pads.len().is_multiple_of(2) {
        true => Ok(pads.split_at(pads.len() / 2)),
        false => Err(Error::value(format!("padding {pads:?} must have one pair per axis"))),
    }
}
