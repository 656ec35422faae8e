//! Rules for NNEF, which broadcasts shapes aligned at the first axis, and specifies windows for all axes.

use ferromx_ops::definitions::PoolType;

use super::elements::padded;
use super::windows::window_pads;
use super::{constant_len, rules};
use crate::emit::{Scope, SymInts, TensorId, op};
use crate::error::Error;
use crate::ir::Value;

rules! {
    /// Appends axes of length 1, up to the rank of the other tensor.
    fn match_rank(s, tensor: TensorId, other: TensorId) -> TensorId {
        let rank = s.rank(other)? as i64;
        to_rank(s, tensor, rank)
    }

    /// Appends axes of length 1, up to rank n.
    fn to_rank(s, tensor: TensorId, n: i64) -> TensorId {
        let own = s.rank(tensor)? as i64;
        // A scalar broadcasts to any rank, and keeping it a scalar lets operators with a scalar parameter match.
        let more = if own == 0 { 0 } else { (n - own).clamp(0, 32) };
        (0..more).try_fold(tensor, |t, _| s.emit(op!(EXPAND_DIMS(t), axis: -1)))
    }

    /// A tensor of shape (1, n), or with a single element, as a vector of length n; none for none.
    fn per_channel(s, tensor: Option<Value>, n: i64) -> Value {
        let Some(tensor) = tensor else { return Ok(Value::None) };
        let flat = s.emit(op!(RESHAPE(tensor), newshape: vec![-1]))?;
        match s.info(flat).shape.dims() {
            [1] => s.emit(op!(BROADCAST_TO(flat), shape: vec![n])).map(Value::from),
            _ => Ok(flat.into()),
        }
    }

    /// The mode of Pad for a border of NNEF.
    fn border_mode(_, border: &str) -> &'static str {
        match border {
            "constant" => Ok("constant"),
            "replicate" => Ok("edge"),
            "reflect" => Ok("reflect"),
            other => {
                let text = format!("border '{other}' is not supported; use constant, replicate or reflect");
                Err(Error::unsupported(text))
            }
        }
    }

    /// True if windows, specified for all axes, have length 1 along batch and channels.
    fn in_images(_, size: &[Value], stride: &[Value], dilation: &[Value], padding: &[Value]) -> bool {
        let ones = |list: &[Value]| list.iter().take(2).all(|v| *v == Value::Int(1));
        let is_unpadded = padding.iter().take(2).all(|v| v.ints().is_some_and(|p| p == [0, 0]));
        Ok(ones(size) && ones(stride) && ones(dilation) && is_unpadded)
    }

    /// The mean of each window of images. Padding counts unless the border is 'ignore'.
    fn window_means(
        s, tensor: TensorId, size: Vec<i64>, stride: Vec<i64>, dilation: Vec<i64>, padding: &[Value], border: &str,
    ) -> TensorId {
        let kernel = spatial(size);
        let n = kernel.len();
        let inner = |list: Vec<i64>| if list.is_empty() { vec![1; n] } else { spatial(list) };
        let (strides, dilations) = (inner(stride), inner(dilation));
        if dilations.iter().any(|d| *d != 1) {
            return Err(Error::unsupported("average pooling with dilation is not supported"));
        }
        let pairs = padding.get(2..).unwrap_or(&[]).iter().filter_map(Value::ints);
        let (begin, end): (Vec<i64>, Vec<i64>) = pairs.map(|p| (p[0], p[1])).unzip();
        let auto_pad = if begin.is_empty() { "SAME_UPPER" } else { "NOTSET" };
        let given = Some([begin, end].concat());
        let pads = window_pads(s, auto_pad, given, kernel.clone(), strides.clone(), dilations, tensor)?;
        let (before, after) = pads.split_at(n);
        let pooled = |s: &mut Scope<'_, '_>, x: TensorId, pad: Option<&[i64]>| {
            s.emit_named(op!(
                POOLING(x), pool_type: PoolType::Avg, kernel: kernel.clone(), stride: strides.clone(),
                pad: pad.map_or(vec![0; n], <[i64]>::to_vec), count_include_pad: pad.is_none() || border == "constant"
            ))
        };
        let framed = |s: &mut Scope<'_, '_>, x: TensorId, mode: &str| {
            let axes = (2..n as i64 + 2).collect();
            padded(s, x, SymInts(pads.clone()), Some(axes), mode, Value::Float(0.0))
        };
        let mode = if border == "ignore" { "constant" } else { border_mode(s, border)? };
        if mode == "constant" && before == after {
            return pooled(s, tensor, Some(before));
        }
        let outside = framed(s, tensor, mode)?;
        let means = pooled(s, outside, None)?;
        if border != "ignore" {
            return Ok(means);
        }
        // The fraction of each window that lies inside the image.
        let mut dims = s.info(tensor).shape.dims().to_vec();
        dims.iter_mut().take(2).for_each(|d| *d = 1);
        constant_len(&dims)?;
        let ones = s.emit(op!(FULL(), shape: dims, value: 1.0))?;
        let inside = framed(s, ones, "constant")?;
        let fractions = pooled(s, inside, None)?;
        s.emit_named(op!(BROADCAST_DIV(means, fractions)))
    }
}

/// The numbers of the spatial axes, without batch and channels.
fn spatial(list: Vec<i64>) -> Vec<i64> {
    list.get(2..).unwrap_or(&[]).to_vec()
}
