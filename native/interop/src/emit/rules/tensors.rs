//! Rules for tensors of the graph: shapes, types, known elements, and chains of operators.

use std::cmp::Ordering;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, ints, list, open_ints, text};
use crate::emit::{Scope, is_unknown};
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "known",
        "(tensor) -> bool",
        "True if the elements of a tensor are known at import, or if it is absent.",
        |s, a| {
            let known = match &a[0] {
                Value::Handle(h) => s.info(*h).value.is_some(),
                _ => true,
            };
            s.wanted_value |= !known;
            Ok(Value::Bool(known))
        },
    ),
    Rule::new("rank_known", "(tensor) -> bool", "True if the rank is known.", |s, a| {
        let known = s.info(handle(a, 0)?).shape.ndim_is_known();
        s.wanted_value |= !known;
        Ok(Value::Bool(known))
    }),
    Rule::new("shape_known", "(tensor) -> bool", "True if all dimensions are known.", |s, a| {
        let known = s.info(handle(a, 0)?).shape.is_known();
        s.wanted_value |= !known;
        Ok(Value::Bool(known))
    }),
    Rule::new("rank", "(tensor) -> int", "The rank.", |s, a| Ok(Value::Int(rank(s, handle(a, 0)?)? as i64))),
    Rule::new("shape", "(tensor) -> list", "The dimensions, which may include unknown ones.", |s, a| {
        Ok(dims(s, handle(a, 0)?)?.into())
    }),
    Rule::new("size", "(tensor, axis) -> int", "One dimension, which may be unknown.", |s, a| {
        let dims = dims(s, handle(a, 0)?)?;
        Ok(Value::Int(dims[Shape::axis(int(a, 1)?, dims.len())?]))
    }),
    Rule::new("dtype", "(tensor) -> text", "The name of the element type.", |s, a| {
        Ok(dtype(s, handle(a, 0)?)?.name().into())
    }),
    Rule::new("lowest", "(tensor) -> float", "The smallest finite number of the element type.", |s, a| {
        Ok(Value::Float(match dtype(s, handle(a, 0)?)? {
            DType::F16 => -65504.0,
            DType::F64 => f64::MIN,
            _ => f64::from(f32::MIN),
        }))
    }),
    Rule::new("is_float", "(tensor) -> bool", "True if the elements are floating-point numbers.", |s, a| {
        Ok(Value::Bool(dtype(s, handle(a, 0)?)?.is_float()))
    }),
    Rule::new(
        "number",
        "(tensor) -> number",
        "The element of a one-element tensor, which must be known or computed from dimensions.",
        |s, a| {
            let Value::Handle(h) = a[0] else { return Ok(a[0].clone()) };
            match known_elements(s, h)?.as_slice() {
                [one] => Ok(one.clone()),
                many => Err(Error::value(format!(
                    "a tensor of {} elements was given where one number was expected",
                    many.len()
                ))),
            }
        },
    ),
    Rule::new(
        "numbers",
        "(tensor) -> list",
        "The elements of a tensor, which must be known or computed from dimensions; lists are returned unchanged.",
        |s, a| match &a[0] {
            Value::Handle(h) => Ok(Value::List(known_elements(s, *h)?)),
            other => Ok(other.clone()),
        },
    ),
    Rule::new(
        "tensor",
        "(value, dtype) -> tensor",
        "A constant tensor of a number, or of a list of numbers.",
        |s, a| {
            let dtype: DType = text(a, 1)?.parse().map_err(Error::Value)?;
            let (items, dims) = match &a[0] {
                Value::List(items) => (items.clone(), vec![items.len() as i64]),
                one => (vec![one.clone()], vec![]),
            };
            let name = s.name.clone();
            let array = NDArray::zeros(&Shape::new(&dims), dtype, Context::default())?;
            if items.iter().all(|v| matches!(v, Value::Int(_))) {
                write_converted(&array, items.iter().filter_map(Value::int).collect::<Vec<_>>().into_iter())?;
            } else {
                write_converted(&array, items.iter().filter_map(Value::number).collect::<Vec<_>>().into_iter())?;
            }
            Ok(Value::Handle(s.builder().constant(&name, array)))
        },
    ),
    Rule::new("constant", "(tensor) -> tensor", "A constant of the model as a tensor of the graph.", |s, a| {
        match &a[0] {
            Value::Tensor(t) => {
                let (array, name) = (t.to_array()?, s.node.outputs.first().cloned().unwrap_or_default());
                Ok(Value::Handle(s.builder().constant(&name, array)))
            }
            other => Err(Error::value(format!("argument 1 is a {}, not a tensor", other.kind()))),
        }
    }),
    Rule::new(
        "filled_like",
        "(dims, value, tensor) -> tensor",
        "A tensor of the type of another one with the value everywhere. A dimension may be written as [tensor, axis]: it is taken from \
         there, known or not.",
        filled_like,
    ),
    Rule::new(
        "filled",
        "(shape, value, dtype) -> tensor",
        "A tensor of this shape, filled with the value of a one-element constant.",
        |s, a| {
            let value = match &a[1] {
                Value::Tensor(t) => elements(&t.to_array()?)?.first().cloned().unwrap_or_default(),
                other => other.clone(),
            };
            let params = vec![("shape", a[0].clone()), ("value", value), ("dtype", a[2].clone())];
            s.operator("_full", vec![], params, true)
        },
    ),
    Rule::new("tensor_type", "(tensor) -> text", "The name of the element type of a constant of the model.", |_, a| {
        match &a[0] {
            Value::Tensor(t) => Ok(t.element.ours()?.name().into()),
            other => Err(Error::value(format!("argument 1 is a {}, not a tensor", other.kind()))),
        }
    }),
    Rule::new(
        "chain",
        "(op, tensors) -> tensor",
        "An operator of two inputs applied to all tensors from left to right.",
        |s, a| {
            let op = text(a, 0)?;
            let (first, rest) = list(a, 1)?.split_first().ok_or_else(|| Error::value("there are no tensors"))?;
            rest.iter().try_fold(first.clone(), |left, right| s.operator(op, vec![left, right.clone()], vec![], true))
        },
    ),
    Rule::new(
        "shape_tensor",
        "(tensor, start, end?) -> tensor",
        "The dimensions start..end of a tensor as 64-bit integers.",
        |s, a| {
            let h = handle(a, 0)?;
            let rank = rank(s, h)? as i64;
            let place = |x: i64| (if x < 0 { x + rank } else { x }).clamp(0, rank);
            let end = if matches!(a.get(2), None | Some(Value::None)) { rank } else { place(int(a, 2)?) };
            let start = place(int(a, 1)?);
            let name = s.name.clone();
            Ok(Value::Handle(s.builder().shape_of(&name, h, start as usize, end.max(start) as usize)?))
        },
    ),
    Rule::new(
        "new_shape",
        "(tensor, shape, allowzero) -> list",
        "The target shape of Reshape: 0 copies a dimension (unless allowed as a length), -1 is inferred; dimensions that are not \
         known are copied or inferred. The result is for _npx_reshape.",
        new_shape,
    ),
    Rule::new(
        "partly_known",
        "(tensor) -> bool",
        "True if some elements of an integer tensor are known or symbolic.",
        |s, a| {
            let Value::Handle(h) = a[0] else { return Ok(Value::Bool(true)) };
            let info = s.info(h);
            let known = info.value.is_some() || info.partly.is_some();
            s.wanted_value |= !known;
            Ok(Value::Bool(known))
        },
    ),
    Rule::new("output_count", "() -> int", "The number of outputs of the node.", |s, _| {
        Ok(Value::Int(s.node.outputs.len() as i64))
    }),
    Rule::new(
        "reduced",
        "(op, tensor, axes, keepdims, noop) -> tensor",
        "A reduction over axes; without axes over all of them, or over none if noop is not 0.",
        reduced,
    ),
    Rule::new(
        "expanded",
        "(tensor, axes) -> tensor",
        "Inserts axes of length 1 at these positions of the result.",
        |s, a| {
            let h = handle(a, 0)?;
            let mut axes = ints(a, 1)?;
            let rank = (rank(s, h)? + axes.len()) as i64;
            if axes.iter().any(|x| !(-rank..rank).contains(x)) {
                return Err(Error::value(format!("{axes:?} are no axes of a tensor of {rank} dimensions")));
            }
            axes.iter_mut().filter(|x| **x < 0).for_each(|x| *x += rank);
            axes.sort_unstable();
            if axes.windows(2).any(|w| w[0] == w[1]) {
                return Err(Error::value("an axis is named twice"));
            }
            if axes.is_empty() {
                return s.operator("_copy", vec![a[0].clone()], vec![], true);
            }
            axes.into_iter().try_fold(a[0].clone(), |t, axis| {
                s.operator("expand_dims", vec![t], vec![("axis", Value::Int(axis))], true)
            })
        },
    ),
    Rule::new("trailing_axes", "(tensor, n) -> tensor", "Appends n axes of length 1.", |s, a| {
        (0..int(a, 1)?.clamp(0, 32))
            .try_fold(a[0].clone(), |t, _| s.operator("expand_dims", vec![t], vec![("axis", Value::Int(-1))], false))
    }),
    Rule::new("moved", "(tensor, from, to) -> tensor", "Moves one axis to another position.", |s, a| {
        let params =
            vec![("source", Value::List(vec![a[1].clone()])), ("destination", Value::List(vec![a[2].clone()]))];
        s.operator("_np_moveaxis", vec![a[0].clone()], params, true)
    }),
    Rule::new(
        "sliced",
        "(tensor, starts, ends, axes, steps) -> tensor",
        "ONNX's Slice: numbers beyond an axis mean its end, negative ones count from the end.",
        sliced,
    ),
    Rule::new(
        "range_of",
        "(start, limit, delta, dtype) -> tensor",
        "The numbers from start to limit, exclusive, in steps of delta.",
        |s, a| {
            let dtype: DType = text(a, 3)?.parse().map_err(Error::Value)?;
            let name = s.name.clone();
            let array = if let (Value::Int(start), Value::Int(limit), Value::Int(step)) = (&a[0], &a[1], &a[2]) {
                let n = count((*limit as f64 - *start as f64) / *step as f64)?;
                let items: Vec<i64> = (0..n as i64).map(|i| start.wrapping_add(i.wrapping_mul(*step))).collect();
                let array = NDArray::zeros(&Shape::from_usize(&[n]), dtype, Context::default())?;
                write_converted(&array, items.into_iter())?;
                array
            } else {
                let number = |i: usize| a[i].number().ok_or_else(|| Error::value("start, limit and delta are numbers"));
                let (start, limit, step) = (number(0)?, number(1)?, number(2)?);
                let n = count((limit - start) / step)?;
                let array = NDArray::zeros(&Shape::from_usize(&[n]), dtype, Context::default())?;
                write_converted(&array, (0..n).map(|i| start + i as f64 * step).collect::<Vec<_>>().into_iter())?;
                array
            };
            Ok(Value::Handle(s.builder().constant(&name, array)))
        },
    ),
    Rule::new(
        "broadcast_shape",
        "(tensor, shape) -> list",
        "The broadcast shape of a tensor and another shape.",
        |s, a| {
            let (own, target) = (dims(s, handle(a, 0)?)?, open_ints(a, 1)?);
            let n = target.len().max(own.len());
            let at = |dims: &[i64], k: usize| (k + dims.len()).checked_sub(n).map_or(1, |i| dims[i]);
            let mut joined = |k: usize| match (at(&own, k), at(&target, k)) {
                (1, d) | (d, 1) => Ok(d),
                (d, t) if d == t => Ok(d),
                // One of them is 1, or both are equal.
                (d, t) if is_unknown(d) && is_unknown(t) => {
                    let larger = s.builder().larger(d, t);
                    larger.ok_or_else(|| {
                        Error::NeedsValue("a dimension is not known: give the shapes of the inputs".into())
                    })
                }
                (d, t) if is_unknown(d) || is_unknown(t) => Ok(if is_unknown(d) { t } else { d }),
                (d, t) => Err(Error::value(format!("a dimension of {d} cannot be expanded to {t}"))),
            };
            Ok((0..n).map(&mut joined).collect::<Result<Vec<_>>>()?.into())
        },
    ),
];

/// The dimensions of a tensor; unknown ones are symbolic.
fn dims(s: &Scope<'_, '_>, h: usize) -> Result<Vec<i64>> {
    rank(s, h)?;
    let info = s.info(h);
    let dims = info
        .dims
        .as_ref()
        .map(|dims| dims.to_vec())
        .or_else(|| info.shape.is_known().then(|| info.shape.dims().to_vec()));
    dims.ok_or_else(|| {
        Error::NeedsValue(format!("the shape {} is not fully known: give the shapes of the inputs", info.shape))
    })
}

/// The elements of a constant, or the known and symbolic elements of an integer tensor.
fn known_elements(s: &Scope<'_, '_>, h: usize) -> Result<Vec<Value>> {
    match &s.info(h).partly {
        Some(array) => elements(array),
        None => Ok(elements(&constant(s, h)?)?.into_iter().map(no_name).collect()),
    }
}

/// Moves a number out of the range that is reserved for symbolic dimensions. It stays beyond the end of every axis.
fn no_name(value: Value) -> Value {
    match value {
        Value::Int(i) if is_unknown(i) => Value::Int(i64::MIN / 2),
        other => other,
    }
}

fn rank(s: &Scope<'_, '_>, h: usize) -> Result<usize> {
    let shape = &s.info(h).shape;
    shape
        .ndim()
        .ok_or_else(|| Error::NeedsValue("the number of dimensions is not known: give the shapes of the inputs".into()))
}

fn dtype(s: &Scope<'_, '_>, h: usize) -> Result<DType> {
    let found = s.info(h).dtype;
    found.ok_or_else(|| {
        Error::value("the element type of a tensor is not known: the model does not say that of its input")
    })
}

fn constant(s: &Scope<'_, '_>, h: usize) -> Result<NDArray> {
    let info = s.info(h);
    let why =
        || format!("the value of '{}' decides the form of the graph, but is known only when the model runs", info.name);
    info.value.clone().ok_or_else(|| Error::NeedsValue(why()))
}

/// The elements as integers, truth values or numbers.
fn elements(array: &NDArray) -> Result<Vec<Value>> {
    if array.dtype().is_float() {
        return Ok(array.to_vec_as::<f64>()?.into_iter().map(Value::Float).collect());
    }
    if array.dtype() == DType::Bool {
        return Ok(array.to_vec::<bool>()?.into_iter().map(Value::Bool).collect());
    }
    Ok(array.to_vec_as::<i64>()?.into_iter().map(Value::Int).collect())
}

fn filled_like(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let dtype = dtype(s, handle(args, 2)?)?;
    opened(s, list(args, 0)?.to_vec(), args[1].clone(), dtype)
}

/// A tensor filled with one value; dimensions written as (tensor, axis) are read from that tensor.
fn opened(s: &mut Scope<'_, '_>, wanted: Vec<Value>, value: Value, dtype: DType) -> Result<Value> {
    let (mut dims, mut open) = (Vec::new(), Vec::new());
    for (k, dim) in wanted.into_iter().enumerate() {
        let Value::List(place) = dim else {
            dims.push(dim);
            continue;
        };
        let (h, axis) = (handle(&place, 0)?, int(&place, 1)?);
        let axis = Shape::axis(axis, rank(s, h)?)?;
        match s.info(h).shape.dim(axis) {
            -1 => {
                open.push((k, h, axis));
                dims.push(Value::Int(1));
            }
            n => dims.push(Value::Int(n)),
        }
    }
    let params = vec![("shape", Value::List(dims)), ("value", value), ("dtype", dtype.name().into())];
    let mut made = s.operator("_full", vec![], params, false)?;
    for (k, h, axis) in open {
        let axes = |x: usize| Value::from(vec![x as i64]);
        let params = vec![("lhs_axes", axes(k)), ("rhs_axes", axes(axis))];
        made = s.operator("broadcast_like", vec![made, Value::Handle(h)], params, false)?;
    }
    Ok(made)
}

/// The number of steps of a range.
fn count(steps: f64) -> Result<usize> {
    match steps.is_finite() && steps < (1u64 << 30) as f64 {
        true => Ok(steps.ceil().max(0.0) as usize),
        false => Err(Error::value(format!("a range of {steps} steps is no tensor"))),
    }
}

fn reduced(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let op = text(args, 0)?;
    let axes = if args[2] == Value::None { Vec::new() } else { ints(args, 2)? };
    if axes.is_empty() && int(args, 4)? != 0 {
        return s.operator("_copy", vec![args[1].clone()], vec![], true);
    }
    let keep = int(args, 3)? != 0;
    if let Some(made) = reduced_nothing(s, op, handle(args, 1)?, &axes, keep)? {
        return Ok(made);
    }
    let over_all = axes.is_empty() || s.info(handle(args, 1)?).shape.ndim() == Some(axes.len());
    let axis = if axes.is_empty() { Value::None } else { axes.into() };
    let params = vec![("axis", axis), ("keepdims", Value::Bool(keep))];
    let made = s.operator(op, vec![args[1].clone()], params, true)?;
    // Legacy MXNet operators have no zero-dimensional tensors: the sum of all elements has the shape (1,).
    match over_all && !keep {
        true => s.operator("_np_reshape", vec![made], vec![("newshape", Value::List(Vec::new()))], true),
        false => Ok(made),
    }
}

/// The maximum or minimum of no elements is the limit of the type.
fn reduced_nothing(s: &mut Scope<'_, '_>, op: &str, h: usize, axes: &[i64], keep: bool) -> Result<Option<Value>> {
    let info = s.info(h);
    let (shape, dtype) = (info.shape.clone(), info.dtype.unwrap_or(DType::F32));
    if !matches!(op, "max" | "min") || !shape.is_known() || !shape.dims().contains(&0) {
        return Ok(None);
    }
    let rank = shape.dims().len();
    let over = axes.iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>, _>>()?;
    let gone = |k: usize| over.is_empty() || over.contains(&k);
    let dims = (0..rank).filter(|k| keep || !gone(*k)).map(|k| if gone(k) { 1 } else { shape.dim(k) });
    let sign = if op == "max" { -1.0 } else { 1.0 };
    let end = match dtype {
        d if d.is_float() => sign * f64::INFINITY,
        DType::Bool => f64::from(u8::from(op == "min")),
        DType::U8 => {
            if op == "min" {
                255.0
            } else {
                0.0
            }
        }
        DType::I8 => {
            if op == "min" {
                127.0
            } else {
                -128.0
            }
        }
        DType::I32 => {
            if op == "min" {
                f64::from(i32::MAX)
            } else {
                f64::from(i32::MIN)
            }
        }
        _ => {
            if op == "min" {
                i64::MAX as f64
            } else {
                i64::MIN as f64
            }
        }
    };
    let params = vec![
        ("shape", dims.collect::<Vec<i64>>().into()),
        ("value", Value::Float(end)),
        ("dtype", dtype.name().into()),
    ];
    s.operator("_full", vec![], params, true).map(Some)
}

fn sliced(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let h = handle(args, 0)?;
    let rank = rank(s, h)?;
    let (starts, ends) = (open_ints(args, 1)?, open_ints(args, 2)?);
    let axes = if args[3] == Value::None { (0..starts.len() as i64).collect() } else { ints(args, 3)? };
    let steps = if args[4] == Value::None { vec![1; starts.len()] } else { ints(args, 4)? };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(Error::value(format!("{starts:?}, {ends:?}, {axes:?} and {steps:?} differ in number")));
    }
    let dims = s.info(h).dims.clone();
    let (mut begin, mut end, mut step) = (vec![Value::None; rank], vec![Value::None; rank], vec![Value::Int(1); rank]);
    for (k, axis) in axes.iter().enumerate() {
        let axis = Shape::axis(*axis, rank)?;
        let n = dims.as_ref().map_or(UNKNOWN, |dims| dims[axis]);
        let (from, to, by) = span(s, n, starts[k], ends[k], steps[k])?;
        (begin[axis], end[axis], step[axis]) = (from, to, Value::Int(by));
    }
    if begin.iter().chain(&end).all(|x| *x == Value::None) && step.iter().all(|x| *x == Value::Int(1)) {
        return s.operator("_copy", vec![args[0].clone()], vec![], true);
    }
    let params = vec![("begin", Value::List(begin)), ("end", Value::List(end)), ("step", Value::List(step))];
    s.operator("slice", vec![args[0].clone()], params, true)
}

/// An unknown length without a symbolic dimension.
const UNKNOWN: i64 = i64::MIN;

/// Begin, end and step of a slice along an axis of length `n`, as `slice` takes them.
fn span(s: &Scope<'_, '_>, n: i64, from: i64, to: i64, by: i64) -> Result<(Value, Value, i64)> {
    if by == 0 {
        return Err(Error::value("a step of 0 leads nowhere"));
    }
    if [n, from, to].into_iter().any(is_unknown) {
        // The length is not known: numbers beyond any axis mean its ends, and `slice` resolves the others.
        let far = i64::from(i32::MAX);
        let is_end = |x: i64| !is_unknown(x) && (x >= far || x <= -far);
        let passes = |x: i64| {
            is_unknown(x) && n != UNKNOWN && s.context.emitter().builder.compared(x, n).is_some_and(Ordering::is_ge)
        };
        let begin = match from {
            0 if by > 0 => Value::None,
            x if is_end(x) && (x < 0) == (by > 0) => Value::None,
            -1 if by < 0 => Value::None,
            x => Value::Int(x),
        };
        let end = match to {
            x if is_end(x) && (x > 0) == (by > 0) => Value::None,
            x if by > 0 && passes(x) => Value::None,
            x => Value::Int(x),
        };
        return Ok((begin, end, by));
    }
    let place = |x: i64| if x < 0 { x.saturating_add(n) } else { x };
    let (from, to) = (place(from), place(to));
    if by > 0 {
        let (from, to) = (from.clamp(0, n), to.clamp(0, n));
        return Ok((Value::Int(from), Value::Int(to.max(from)), by));
    }
    let (from, to) = (from.clamp(-1, n - 1), to.clamp(-1, n - 1));
    if to >= from {
        return Ok((Value::Int(0), Value::Int(0), 1));
    }
    // A reversed slice that includes element 0 has no integer end, so `None` stands for it.
    Ok((Value::Int(from.max(0)), if to < 0 { Value::None } else { Value::Int(to) }, by))
}

fn new_shape(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let data = handle(args, 0)?;
    let allow_zero = int(args, 2)? != 0;
    let mut target: Vec<i64> = match &args[1] {
        Value::Handle(h) => known_elements(s, *h)?.iter().filter_map(Value::int).collect(),
        _ => open_ints(args, 1)?,
    };
    let dims = s.info(data).dims.clone();
    let own = dims.clone().unwrap_or_default();
    let copied = |k: usize, target: &[i64]| {
        let missing =
            || Error::value(format!("the shape {target:?} copies dimension {k}, which the tensor does not have"));
        own.get(k).copied().ok_or_else(missing)
    };
    if dims.is_some() && !allow_zero {
        for k in (0..target.len()).filter(|k| target[*k] == 0).collect::<Vec<_>>() {
            target[k] = copied(k, &target)?;
        }
    }
    if let (Some(k), Some(all)) = (target.iter().position(|t| *t == -1), &dims) {
        // The dimension given as -1 may be known here, which leaves -1 free for another one.
        let others: Vec<i64> = target.iter().copied().filter(|t| *t != -1).collect();
        if let (true, Some(n)) = (others.iter().any(|d| is_unknown(*d)), s.builder().missing_dim(all, &others)) {
            target[k] = n;
        }
    }
    // One unknown dimension can be inferred and those of the input's axes copied; the others become expressions.
    let mut inferred = target.contains(&-1);
    let mut simple = Vec::with_capacity(target.len());
    for (k, t) in target.iter().copied().enumerate() {
        simple.push(match t {
            0 if !allow_zero && dims.is_none() => -2,
            t if !is_unknown(t) => t,
            t if own.get(k) == Some(&t) && simple.iter().all(|x| *x != -1 || k == 0) => -2,
            _ if !inferred => {
                inferred = true;
                -1
            }
            _ => return Ok(target.into()),
        });
    }
    Ok(simple.into())
}
