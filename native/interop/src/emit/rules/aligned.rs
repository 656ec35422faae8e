//! Rules for NNEF, which broadcasts from the first axis on and gives windows for all axes.

use super::elements::padded;
use super::windows::window_pads;
use super::{Rule, handle, int, ints, list, made_elements, text};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;
use ferromx_core::shape::Shape;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "beside",
        "(tensor, other) -> tensor",
        "Appends axes of length 1, up to the rank of the other tensor.",
        |s, a| {
            let other = rank(s, a, 1)?;
            of_rank(s, a, other)
        },
    ),
    Rule::new("of_rank", "(tensor, n) -> tensor", "Appends axes of length 1, up to rank n.", |s, a| {
        let n = int(a, 1)?;
        of_rank(s, a, n)
    }),
    Rule::new("largest", "(list) -> int", "The maximum of integers.", |_, a| {
        let found = ints(a, 0)?.into_iter().max();
        found.map(Value::Int).ok_or_else(|| Error::value("there are no numbers"))
    }),
    Rule::new(
        "per_channel",
        "(tensor, n) -> tensor",
        "A tensor of shape (1, n), or with a single element, as a vector of length n; none for none.",
        |s, a| {
            if a[0] == Value::None {
                return Ok(Value::None);
            }
            let whole = vec![("newshape", Value::from(vec![-1]))];
            let flat = s.operator("_np_reshape", vec![a[0].clone()], whole, false)?;
            let shape = s.info(handle(std::slice::from_ref(&flat), 0)?).shape.clone();
            match shape.dims() {
                [1] => s.operator("_npi_broadcast_to", vec![flat], vec![("shape", vec![int(a, 1)?].into())], false),
                _ => Ok(flat),
            }
        },
    ),
    Rule::new("border_mode", "(border) -> text", "The mode of Pad for a border of NNEF.", |_, a| {
        Ok(border_mode(text(a, 0)?)?.into())
    }),
    Rule::new(
        "in_images",
        "(size, stride, dilation, padding) -> bool",
        "True if windows, given for all axes, have length 1 along batch and channels.",
        |_, a| {
            let ones = |i: usize| Ok::<_, Error>(list(a, i)?.iter().take(2).all(|v| *v == Value::Int(1)));
            let unpadded = list(a, 3)?.iter().take(2).all(|v| v.ints().is_some_and(|p| p == [0, 0]));
            Ok(Value::Bool(ones(0)? && ones(1)? && ones(2)? && unpadded))
        },
    ),
    Rule::new(
        "window_means",
        "(tensor, size, stride, dilation, padding, border) -> tensor",
        "The mean of each window of images. Padding counts unless the border is 'ignore'.",
        window_means,
    ),
    Rule::new("shares", "(size, ratios) -> list", "Splits a size in these ratios.", |_, a| {
        let (size, ratios) = (int(a, 0)?, ints(a, 1)?);
        let sum = ratios.iter().try_fold(0i64, |sum, r| sum.checked_add(*r).filter(|_| *r >= 0));
        match sum.filter(|sum| *sum > 0 && size % sum == 0) {
            Some(sum) => Ok(ratios.into_iter().map(|r| size / sum * r).collect::<Vec<_>>().into()),
            None => Err(Error::value(format!("{size} cannot be divided in the ratios {ratios:?}"))),
        }
    }),
];

fn border_mode(border: &str) -> Result<&'static str> {
    match border {
        "constant" => Ok("constant"),
        "replicate" => Ok("edge"),
        "reflect" => Ok("reflect"),
        other => {
            Err(Error::unsupported(format!("border '{other}' has no process; constant, replicate and reflect have")))
        }
    }
}

fn rank(s: &Scope<'_, '_>, args: &[Value], i: usize) -> Result<i64> {
    let rank = s.info(handle(args, i)?).shape.ndim();
    let unknown = || Error::NeedsValue("the number of dimensions is not known: give the shapes of the inputs".into());
    rank.map(|r| r as i64).ok_or_else(unknown)
}

/// The first argument with `n` axes.
fn of_rank(s: &mut Scope<'_, '_>, args: &[Value], n: i64) -> Result<Value> {
    let own = rank(s, args, 0)?;
    // A scalar broadcasts to any rank, and keeping it a scalar lets operators with a scalar parameter match.
    let more = if own == 0 { 0 } else { (n - own).clamp(0, 32) };
    (0..more)
        .try_fold(args[0].clone(), |t, _| s.operator("expand_dims", vec![t], vec![("axis", Value::Int(-1))], false))
}

fn window_means(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let kernel = ints(args, 1)?.split_off(2);
    let n = kernel.len();
    let inner =
        |i: usize| Ok::<_, Error>(if list(args, i)?.is_empty() { vec![1; n] } else { ints(args, i)?.split_off(2) });
    let (strides, dilations, border) = (inner(2)?, inner(3)?, text(args, 5)?);
    if dilations.iter().any(|d| *d != 1) {
        return Err(Error::unsupported("the mean of windows with gaps (dilation) has no process"));
    }
    let pairs = list(args, 4)?.get(2..).unwrap_or(&[]).iter().filter_map(Value::ints);
    let (begin, end): (Vec<i64>, Vec<i64>) = pairs.map(|p| (p[0], p[1])).unzip();
    let how = Value::from(if begin.is_empty() { "SAME_UPPER" } else { "NOTSET" });
    let given = [begin, end].concat();
    let window = [how, given.into(), kernel.clone().into(), strides.clone().into(), dilations.into(), args[0].clone()];
    let Value::List(pads) = window_pads(s, &window)? else { return Ok(Value::None) };
    let (before, after) = pads.split_at(n);
    let pooled = |s: &mut Scope<'_, '_>, x: Value, pad: &[Value], count: bool| {
        let mut params = vec![("pool_type", "avg".into()), ("kernel", kernel.clone().into())];
        params.extend([("stride", strides.clone().into()), ("pad", Value::List(pad.to_vec()))]);
        params.push(("count_include_pad", Value::Bool(count)));
        s.operator("Pooling", vec![x], params, true)
    };
    let framed = |s: &mut Scope<'_, '_>, x: Value, mode: &str| {
        let axes = Value::from((2..n as i64 + 2).collect::<Vec<_>>());
        padded(s, &[x, Value::List(pads.clone()), axes, mode.into(), Value::Float(0.0)])
    };
    let none = vec![Value::Int(0); n];
    let mode = if border == "ignore" { "constant" } else { border_mode(border)? };
    if mode == "constant" && before == after {
        return pooled(s, args[0].clone(), before, border == "constant");
    }
    let outside = framed(s, args[0].clone(), mode)?;
    let means = pooled(s, outside, &none, true)?;
    if border != "ignore" {
        return Ok(means);
    }
    // The fraction of each window that lies inside the image.
    let mut dims = s.info(handle(args, 0)?).shape.dims().to_vec();
    dims.iter_mut().take(2).for_each(|d| *d = 1);
    made_elements(&Shape::new(&dims))?;
    let params = vec![("shape", dims.into()), ("value", Value::Float(1.0))];
    let ones = s.operator("_full", vec![], params, false)?;
    let inside = framed(s, ones, "constant")?;
    let shares = pooled(s, inside, &none, true)?;
    s.operator("broadcast_div", vec![means, shares], vec![], true)
}
