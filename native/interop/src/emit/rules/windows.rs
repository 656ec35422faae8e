//! Rules for the windows of convolution and pooling: kernels, strides, padding.

use super::{Rule, handle, ints, text};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "window_pads",
        "(auto_pad, pads, kernel, strides, dilations, data) -> list",
        "The padding of a window: that which is given, or that which makes the output as large as the input divided by the stride. \
         First at the beginning of each axis, then at the end of each.",
        window_pads,
    ),
    Rule::new(
        "pads_to_the_end",
        "(pads, kernel, strides, data) -> list",
        "Padding that is so much larger at the end that the last window, which sticks out, is whole (ceil_mode); a window that would lie \
         only in the padding is left out.",
        pads_to_the_end,
    ),
    Rule::new(
        "transposed_pads",
        "(auto_pad, pads, kernel, strides, dilations, output_shape, output_padding, data) -> list",
        "The padding of a transposed convolution: the given one, or the one that gives the requested output shape.",
        transposed_pads,
    ),
    Rule::new(
        "cropped",
        "(tensor, pads) -> tensor",
        "Crops this number of pixels at the beginning and end of each axis.",
        cropped,
    ),
    Rule::new("symmetric", "(pads) -> bool", "True if the padding is equal at both ends of each axis.", |_, a| {
        let pads = ints(a, 0)?;
        let (begin, end) = halves(&pads)?;
        Ok(Value::Bool(begin == end))
    }),
    Rule::new("both_sides", "(pads) -> list", "Symmetric padding, once for each axis.", |_, a| {
        let pads = ints(a, 0)?;
        let (begin, end) = halves(&pads)?;
        match begin == end {
            true => Ok(begin.to_vec().into()),
            false => Err(Error::value(format!("the padding {pads:?} is not symmetric"))),
        }
    })
    .reversed(|made, _| match made {
        Value::List(items) => Some(Value::List(items.iter().chain(items).cloned().collect())),
        _ => None,
    }),
    Rule::new(
        "pad_pairs",
        "(pads, before) -> list",
        "Padding as one pair for each axis, after `before` axes without padding.",
        |_, a| {
            let pads = ints(a, 0)?;
            let (begin, end) = halves(&pads)?;
            let before = super::int(a, 1)?.clamp(0, 32) as usize;
            let none = std::iter::repeat_n([0, 0], before);
            let pairs = none.chain(begin.iter().zip(end).map(|(b, e)| [*b, *e]));
            Ok(Value::List(pairs.map(|p| p.to_vec().into()).collect()))
        },
    ),
];

/// Limit of a kernel, stride, dilation or padding, so that its product with another, or with a dimension, cannot overflow.
const MAX_WINDOW: i64 = 1 << 24;

/// Rejects windows larger than any image.
fn check_windows(lists: &[&[i64]]) -> Result<()> {
    match lists.iter().copied().flatten().find(|x| !(-MAX_WINDOW..=MAX_WINDOW).contains(*x)) {
        Some(x) => Err(Error::value(format!("a window with the number {x} is larger than any image"))),
        None => Ok(()),
    }
}

fn pads_to_the_end(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (mut pads, kernel, strides) = (ints(args, 0)?, ints(args, 1)?, ints(args, 2)?);
    check_windows(&[&pads, &kernel, &strides])?;
    let shape = s.info(handle(args, 3)?).shape.clone();
    let n = kernel.len();
    let known = shape.dims().len() == n + 2 && !shape.dims()[2..].contains(&-1);
    if !known || pads.len() != 2 * n || strides.len() != n {
        return Err(Error::NeedsValue(
            "the last window depends on the size of the input: give the shapes of the inputs".into(),
        ));
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
    Ok(pads.into())
}

/// Padding and output padding of a transposed convolution: as given, or for the requested output shape.
fn transposed_pads(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (kernel, strides, dilations) = (ints(args, 2)?, ints(args, 3)?, ints(args, 4)?);
    let n = kernel.len();
    let extra = if args[6] == Value::None { vec![0; n] } else { ints(args, 6)? };
    let given = if args[1] == Value::None { vec![0; 2 * n] } else { ints(args, 1)? };
    check_windows(&[&kernel, &strides, &dilations, &extra, &given])?;
    if [strides.len(), dilations.len(), extra.len(), given.len() / 2] != [n; 4] {
        return Err(Error::value(format!("strides, dilations, pads or output_padding do not fit a kernel {kernel:?}")));
    }
    let same = match text(args, 0)? {
        "NOTSET" | "" => None,
        "VALID" => return Ok(vec![0; 2 * n].into()),
        "SAME_UPPER" => Some(true),
        "SAME_LOWER" => Some(false),
        other => return Err(Error::value(format!("there is no padding '{other}'"))),
    };
    if same.is_none() && args[5] == Value::None {
        return Ok(given.into());
    }
    let shape = s.info(handle(args, 7)?).shape.clone();
    if shape.dims().len() != n + 2 || shape.dims()[2..].contains(&-1) {
        return Err(Error::NeedsValue(
            "the padding depends on the size of the input: give the shapes of the inputs".into(),
        ));
    }
    let size = |k: usize| shape.dim(k + 2);
    let wanted = if args[5] == Value::None { (0..n).map(|k| size(k) * strides[k]).collect() } else { ints(args, 5)? };
    // Shapes may be given with or without batch and channels.
    let wanted = &wanted[wanted.len().saturating_sub(n)..];
    let (mut begin, mut end) = (vec![0; n], vec![0; n]);
    for k in 0..n.min(wanted.len()) {
        let made = strides[k] * (size(k) - 1) + extra[k] + (kernel[k] - 1) * dilations[k] + 1;
        let total = made.saturating_sub(wanted[k]);
        (begin[k], end[k]) = match same {
            // A requested output larger than the computed one is extended at its end.
            _ if total < 0 => (0, total),
            Some(true) => (total / 2, total - total / 2),
            _ => (total - total / 2, total / 2),
        };
    }
    begin.extend(end);
    Ok(begin.into())
}

/// Crops the output of a transposed convolution without padding; negative numbers extend it by zeros.
fn cropped(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let pads = ints(args, 1)?;
    let (begin, end) = halves(&pads)?;
    let mut value = args[0].clone();
    if pads.iter().any(|p| *p < 0) {
        let none = std::iter::repeat_n([0i64, 0], 2);
        let pairs = none.chain(begin.iter().zip(end).map(|(b, e)| [(-b).max(0), (-e).max(0)]));
        let pairs = Value::List(pairs.map(|p| p.to_vec().into()).collect());
        value =
            s.operator("_npi_pad", vec![value], vec![("pad_width", pairs), ("mode", Value::from("constant"))], true)?;
    }
    if pads.iter().all(|p| *p <= 0) {
        return Ok(value);
    }
    let side = |x: &i64| if *x > 0 { Value::Int(*x) } else { Value::None };
    let none = || std::iter::repeat_n(Value::None, 2);
    let starts = none().chain(begin.iter().map(side)).collect();
    let ends = none().chain(end.iter().map(|x| if *x > 0 { Value::Int(-x) } else { Value::None })).collect();
    s.operator("slice", vec![value], vec![("begin", Value::List(starts)), ("end", Value::List(ends))], true)
}

fn halves(pads: &[i64]) -> Result<(&[i64], &[i64])> {
    match pads.len().is_multiple_of(2) {
        true => Ok(pads.split_at(pads.len() / 2)),
        false => Err(Error::value(format!("padding {pads:?} has no pair for each axis"))),
    }
}

pub(super) fn window_pads(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (kernel, strides, dilations) = (ints(args, 2)?, ints(args, 3)?, ints(args, 4)?);
    check_windows(&[&kernel, &strides, &dilations])?;
    let n = kernel.len();
    if strides.len() != n || dilations.len() != n {
        return Err(Error::value(format!(
            "strides {strides:?} and dilations {dilations:?} do not fit a kernel {kernel:?}"
        )));
    }
    let same_upper = match text(args, 0)? {
        "NOTSET" | "" => {
            let pads = if args[1] == Value::None { vec![0; 2 * n] } else { ints(args, 1)? };
            return match pads.len() == 2 * n && pads.iter().all(|p| *p >= 0) {
                true => Ok(pads.into()),
                false => Err(Error::value(format!("padding {pads:?} does not fit a kernel {kernel:?}"))),
            };
        }
        "VALID" => return Ok(vec![0; 2 * n].into()),
        "SAME_UPPER" => true,
        "SAME_LOWER" => false,
        other => return Err(Error::value(format!("there is no padding '{other}'"))),
    };
    let shape = s.info(handle(args, 5)?).shape.clone();
    if shape.dims().len() != n + 2 {
        return Err(Error::NeedsValue(format!(
            "a kernel {kernel:?} meets the shape {shape}: give the shapes of the inputs"
        )));
    }
    let (mut begin, mut end) = (vec![0; n], vec![0; n]);
    for k in 0..n {
        let (size, window) = (shape.dim(k + 2), (kernel[k] - 1) * dilations[k] + 1);
        // With a stride of 1 the size does not matter.
        if size < 0 && strides[k] != 1 {
            return Err(Error::NeedsValue(format!(
                "the padding depends on dimension {}: give the shapes of the inputs",
                k + 2
            )));
        }
        if strides[k] < 1 {
            return Err(Error::value(format!("strides {strides:?} are not positive")));
        }
        let outputs = size.max(1).div_euclid(strides[k]) + i64::from(size.max(1).rem_euclid(strides[k]) != 0);
        let total = match strides[k] {
            1 => window - 1,
            stride => ((outputs - 1) * stride + window - size).max(0),
        };
        (begin[k], end[k]) = if same_upper { (total / 2, total - total / 2) } else { (total - total / 2, total / 2) };
    }
    begin.extend(end);
    Ok(begin.into())
}
