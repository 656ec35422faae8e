//! Rules for single elements, attention masks, activations, quantization and padding.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, ints, list, made_elements, text};
use crate::emit::{Scope, is_unknown};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::ast::Operator;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "element_of",
        "(tensor, n) -> tensor",
        "One element of a vector, as a zero-dimensional tensor.",
        |s, a| {
            let n = int(a, 1)?;
            let range = vec![("axis", Value::Int(0)), ("begin", Value::Int(n)), ("end", Value::Int(n + 1))];
            let one = s.operator("slice_axis", vec![a[0].clone()], range, false)?;
            s.operator("_np_reshape", vec![one], vec![("newshape", Value::List(Vec::new()))], false)
        },
    ),
    Rule::new(
        "each_unsqueezed",
        "(tensors, axis) -> tensors",
        "For export: inserts an axis of length 1 into every tensor.",
        |s, a| {
            let axis = s.operator_constant("axis", &[int(a, 1)?])?;
            let each =
                list(a, 0)?.iter().map(|t| crate::emit::framework_operator(s, "Unsqueeze", &[t.clone(), axis.clone()]));
            Ok(Value::List(each.collect::<Result<_>>()?))
        },
    ),
    Rule::new(
        "attention_mask",
        "(queries, keys, offset, causal, left, right, dtype) -> tensor",
        "An additive attention mask: 0 where a query attends to a key, minus infinity elsewhere. Query i has position i + offset. A causal \
         mask hides later keys; `left` and `right` limit the window around the query, -1 means no limit.",
        attention_mask,
    ),
    Rule::new(
        "key_length_mask",
        "(ends, queries, keys, causal, left, right, dtype) -> tensor",
        "As attention_mask, with a key length for each batch. The queries are the last positions before that length.",
        key_length_mask,
    ),
    Rule::new(
        "padding_mask",
        "(mask, keys, value, dtype) -> tensor",
        "An additive mask with `value` at padded keys. The valid keys are given as lengths (batch,), or as 1 and 0 in (batch, keys) or \
         (batch, queries, keys). Keys have the shape (batch, heads, keys, size).",
        padding_mask,
    ),
    Rule::new(
        "function_of",
        "(name, tensor, parameters) -> tensor",
        "Applies the activation of this ONNX name, or none if the name is absent. The parameters are the ONNX \
         attributes of the activation.",
        function_of,
    ),
    Rule::new(
        "real_of",
        "(tensor, scale, zero_point?) -> tensor",
        "Dequantizes 8-bit integers with one scale and one zero point for the tensor, or for each of its last axis.",
        real_of,
    ),
    Rule::new(
        "real_triples",
        "(tensors) -> tensors",
        "Dequantizes 8-bit integers that stand in a list with the scale and the zero point of each.",
        |s, a| {
            let all = list(a, 0)?;
            if all.len() % 3 != 0 {
                return Err(Error::value(format!(
                    "{} inputs are no triples of tensor, scale and zero point",
                    all.len()
                )));
            }
            let real = |triple: &[Value]| real_of(s, triple);
            Ok(Value::List(all.chunks_exact(3).map(real).collect::<Result<_>>()?))
        },
    ),
    Rule::new(
        "rounded_to",
        "(tensor, scale, zero_point?, dtype) -> tensor",
        "Quantizes to 8-bit integers: divides by the scale, rounds, adds the zero point and clips to the type.",
        |s, a| {
            let dtype = text(a, 3)?.to_string();
            let low = match dtype.as_str() {
                "uint8" => 0.0,
                "int8" => -128.0,
                other => {
                    return Err(Error::unsupported(format!(
                        "integers of type {other} have no process; int8 and uint8 have"
                    )));
                }
            };
            let mut x = s.operator("_npi_true_divide", vec![a[0].clone(), a[1].clone()], vec![], false)?;
            x = s.operator("_npi_around", vec![x], vec![], false)?;
            if a[2] != Value::None {
                let zero = s.operator("Cast", vec![a[2].clone()], vec![("dtype", "float32".into())], false)?;
                x = s.operator("_npi_add", vec![x, zero], vec![], false)?;
            }
            let ends = vec![("a_min", Value::Float(low)), ("a_max", Value::Float(low + 255.0))];
            let cut = s.operator("clip", vec![x], ends, false)?;
            s.operator("Cast", vec![cut], vec![("dtype", dtype.as_str().into())], true)
        },
    ),
    Rule::new("single", "(tensor) -> bool", "True if the tensor is a constant of one element.", |s, a| {
        Ok(Value::Bool(s.info(handle(a, 0)?).value.as_ref().is_some_and(|v| v.len() == 1)))
    }),
    Rule::new(
        "is_attention",
        "(query, keys, value, mask, in_rows?) -> bool",
        "True if these are the queries, keys, values and optional mask of an attention: float32 or float64, equal \
         leading dimensions, and a \
         mask over all keys that broadcasts to the scores. Keys are (..., size, keys) unless `in_rows` is true.",
        is_attention,
    ),
    Rule::new(
        "padded",
        "(tensor, pads, axes, mode, value) -> tensor",
        "ONNX's Pad: the pads at the beginning of each axis, then those at the end. Negative pads crop.",
        padded,
    ),
];

/// Dequantizes a tensor, given with its scale and zero point.
fn real_of(s: &mut Scope<'_, '_>, a: &[Value]) -> Result<Value> {
    let float = |s: &mut Scope<'_, '_>, x: &Value| {
        s.operator("Cast", vec![x.clone()], vec![("dtype", "float32".into())], false)
    };
    let mut x = float(s, &a[0])?;
    if let Some(zero) = a.get(2).filter(|z| **z != Value::None) {
        let zero = float(s, zero)?;
        x = s.operator("_npi_subtract", vec![x, zero], vec![], false)?;
    }
    s.operator("_npi_multiply", vec![x, a[1].clone()], vec![], false)
}

/// [`attention_mask`] with a length that is not known: compares positions when the model runs.
fn attention_mask_dynamic(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let lengths = args[..3].iter().map(|v| v.int().ok_or_else(|| Error::value("a length is no integer")));
    let lengths = lengths.collect::<Result<Vec<i64>>>()?;
    let (queries, keys, offset) = (lengths[0], lengths[1], lengths[2]);
    let (causal, left, right) = (int(args, 3)? != 0, int(args, 4)?, int(args, 5)?);
    let end = s.builder().combined(Operator::Plus, offset, queries)?;
    let positions = |s: &mut Scope<'_, '_>, from: Value, to: Value, axis: i64| {
        let range = super::symbolic::range(s, &[from, to, Value::Int(1), "int64".into()])?;
        s.operator("expand_dims", vec![range], vec![("axis", Value::Int(axis))], false)
    };
    let query = positions(s, Value::Int(offset), end, 1)?;
    let key = positions(s, Value::Int(0), Value::Int(keys), 0)?;
    let distance = s.operator("_npi_subtract", vec![query, key], vec![], false)?;
    let limits = [
        ("_npi_greater_equal", 0, causal),
        ("_npi_less_equal", left, left >= 0),
        ("_npi_greater_equal", -right, right >= 0),
    ];
    let mut visible = Value::None;
    for (compare, limit, _) in limits.into_iter().filter(|(_, _, holds)| *holds) {
        let within = s.operator(compare, vec![distance.clone(), Value::Int(limit)], vec![], false)?;
        visible = match visible {
            Value::None => within,
            earlier => s.operator("_npi_bitwise_and", vec![earlier, within], vec![], false)?,
        };
    }
    if visible == Value::None {
        visible = s.operator("_npi_equal", vec![distance.clone(), distance], vec![], false)?;
    }
    let params = vec![("x", Value::Float(0.0)), ("y", Value::Float(f64::NEG_INFINITY))];
    let mask = s.operator("_npi_where_scalar2", vec![visible], params, false)?;
    s.operator("Cast", vec![mask], vec![("dtype", args[6].clone())], false)
}

fn attention_mask(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    if args[..3].iter().any(|v| v.int().is_some_and(is_unknown)) {
        return attention_mask_dynamic(s, args);
    }
    let (queries, keys, offset) = (int(args, 0)?, int(args, 1)?, int(args, 2)?);
    let (causal, left, right) = (int(args, 3)? != 0, int(args, 4)?, int(args, 5)?);
    let dtype: DType = text(args, 6)?.parse().map_err(Error::Value)?;
    made_elements(&Shape::new(&[queries, keys]))?;
    let mask = NDArray::zeros(&Shape::new(&[queries, keys]), dtype, Context::default())?;
    let is_visible = |query: i64, key: i64| {
        let distance = query + offset - key;
        !(causal && distance < 0 || left >= 0 && distance > left || right >= 0 && -distance > right)
    };
    let one = |i: i64, j: i64| if is_visible(i, j) { 0.0 } else { f64::NEG_INFINITY };
    let all: Vec<f64> = (0..queries).flat_map(|i| (0..keys).map(move |j| (i, j))).map(|(i, j)| one(i, j)).collect();
    write_converted(&mask, all.into_iter())?;
    let name = format!("{}/mask", s.name);
    Ok(Value::Handle(s.builder().constant(&name, mask)))
}

fn key_length_mask(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (queries, keys) = (int(args, 1)?, int(args, 2)?);
    let (causal, left, right) = (int(args, 3)? != 0, int(args, 4)?, int(args, 5)?);
    made_elements(&Shape::new(&[queries.max(0), keys.max(0)]))?;
    let mut numbers = |what: &str, items: Vec<i64>, dims: &[i64]| -> Result<Value> {
        let name = format!("{}/{what}", s.name);
        Ok(Value::Handle(s.builder().constant(&name, NDArray::from_slice(&items, dims)?)))
    };
    let key = numbers("keys", (0..keys).collect(), &[1, 1, 1, keys])?;
    let query = numbers("queries", (0..queries).map(|i| i - queries).collect(), &[1, 1, queries, 1])?;
    let mut op = |op: &str, a: Value, b: Value| s.operator(op, vec![a, b], vec![], false);
    let mut visible = op("_npi_less", key.clone(), args[0].clone())?;
    let position = op("_npi_add", args[0].clone(), query)?;
    let distance = op("_npi_subtract", position, key)?;
    let limits = [
        ("_npi_greater_equal", 0, causal),
        ("_npi_less_equal", left, left >= 0),
        ("_npi_greater_equal", -right, right >= 0),
    ];
    for (compare, limit, _) in limits.into_iter().filter(|(_, _, holds)| *holds) {
        let within = op(compare, distance.clone(), Value::Int(limit))?;
        visible = op("_npi_bitwise_and", visible, within)?;
    }
    let params = vec![("x", Value::Float(0.0)), ("y", Value::Float(f64::NEG_INFINITY))];
    let mask = s.operator("_npi_where_scalar2", vec![visible], params, false)?;
    s.operator("Cast", vec![mask], vec![("dtype", args[6].clone())], false)
}

fn padding_mask(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let rank = s.info(handle(args, 0)?).shape.ndim();
    let axis = |at: i64| vec![("axis", Value::Int(at))];
    let one = || Value::Int(1);
    let counts = match rank {
        Some(1) => {
            let keys = s.info(handle(args, 1)?).shape.dim(2);
            if keys < 0 {
                return Err(Error::NeedsValue("the number of keys is not known: give the shapes of the inputs".into()));
            }
            let positions = s.operator_constant("keys", &(0..keys).collect::<Vec<_>>())?;
            let ends = s.operator("Cast", vec![args[0].clone()], vec![("dtype", "int64".into())], false)?;
            let ends = s.operator("expand_dims", vec![ends], axis(-1), false)?;
            s.operator("_npi_less", vec![positions, ends], vec![], false)?
        }
        Some(2 | 3) => s.operator("_npi_greater_equal", vec![args[0].clone(), one()], vec![], false)?,
        _ => return Err(Error::unsupported("only masks of one to three axes have a process")),
    };
    let counts = if rank == Some(3) { counts } else { s.operator("expand_dims", vec![counts], axis(1), false)? };
    let counts = s.operator("expand_dims", vec![counts], axis(1), false)?;
    let params = vec![("x", Value::Float(0.0)), ("y", args[2].clone())];
    let mask = s.operator("_npi_where_scalar2", vec![counts], params, false)?;
    s.operator("Cast", vec![mask], vec![("dtype", args[3].clone())], false)
}

fn function_of(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let given = if let Value::List(items) = &args[2] { items.as_slice() } else { &[] };
    let number = |k: usize, otherwise: f64| Value::Float(given.get(k).and_then(Value::number).unwrap_or(otherwise));
    let name = if args[0] == Value::None { "" } else { text(args, 0)? };
    let (op, params) = match name {
        "" => return Ok(args[1].clone()),
        "Relu" => ("relu", vec![]),
        "Tanh" => ("tanh", vec![]),
        "Sigmoid" => ("sigmoid", vec![]),
        "LeakyRelu" => ("LeakyReLU", vec![("act_type", "leaky".into()), ("slope", number(0, 0.01))]),
        "HardSigmoid" => ("hard_sigmoid", vec![("alpha", number(0, 0.2)), ("beta", number(1, 0.5))]),
        "Clip" => ("clip", vec![("a_min", number(0, f64::from(f32::MIN))), ("a_max", number(1, f64::from(f32::MAX)))]),
        other => return Err(Error::unsupported(format!("the activation {other} has no process"))),
    };
    s.operator(op, vec![args[1].clone()], params, true)
}

fn known_shape(s: &Scope<'_, '_>, h: usize) -> Result<Vec<i64>> {
    let shape = &s.info(h).shape;
    match shape.is_known() {
        true => Ok(shape.dims().to_vec()),
        false => Err(Error::NeedsValue(format!("the shape {shape} is not fully known: give the shapes of the inputs"))),
    }
}

fn is_attention(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let dims = |i: usize| {
        let info = s.info(handle(args, i)?);
        let plain = matches!(info.dtype, Some(DType::F32 | DType::F64));
        Ok::<_, Error>(info.dims.clone().filter(|dims| plain && dims.len() >= 2))
    };
    let (Some(query), Some(mut keys), Some(value)) = (dims(0)?, dims(1)?, dims(2)?) else {
        return Ok(Value::Bool(false));
    };
    let n = query.len();
    if args.get(4).is_some_and(Value::is_true) && keys.len() == n {
        keys.swap(n - 2, n - 1);
    }
    // Unknown dimensions are symbolic, so equal ones compare equal.
    let leading =
        keys.len() == n && value.len() == n && query[..n - 2] == keys[..n - 2] && query[..n - 2] == value[..n - 2];
    if !leading || query[n - 1] != keys[n - 2] || keys[n - 1] != value[n - 2] {
        return Ok(Value::Bool(false));
    }
    if args[3] == Value::None {
        return Ok(Value::Bool(true));
    }
    let products = query[..n - 1].iter().chain([&keys[n - 1]]).rev();
    let mask = s.info(handle(args, 3)?);
    let fits = mask.dims.as_ref().is_some_and(|mask| {
        mask.len() <= n && mask.last() == keys.last() && mask.iter().rev().zip(products).all(|(m, p)| *m == 1 || m == p)
    });
    Ok(Value::Bool(fits && mask.dtype == s.info(handle(args, 0)?).dtype))
}

pub(super) fn padded(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let pads = ints(args, 1)?;
    let h = handle(args, 0)?;
    let rank = s.info(h).shape.ndim();
    let rank = rank.ok_or_else(|| {
        Error::NeedsValue("the number of dimensions is not known: give the shapes of the inputs".into())
    })?;
    let axes: Vec<usize> = match &args[2] {
        Value::None => (0..rank).collect(),
        _ => ints(args, 2)?.into_iter().map(|x| Shape::axis(x, rank)).collect::<Result<_, _>>()?,
    };
    if pads.len() != 2 * axes.len() {
        return Err(Error::value(format!("padding {pads:?} has no pair for each of {} axes", axes.len())));
    }
    let mut pairs = vec![[0i64, 0]; rank];
    for (k, axis) in axes.iter().enumerate() {
        pairs[*axis] = [pads[k], pads[k + axes.len()]];
    }
    let mut value = args[0].clone();
    if pads.iter().any(|p| *p < 0) {
        let begin = pairs.iter().map(|p| if p[0] < 0 { Value::Int(-p[0]) } else { Value::None }).collect();
        let end = pairs.iter().map(|p| if p[1] < 0 { Value::Int(p[1]) } else { Value::None }).collect();
        value =
            s.operator("slice", vec![value], vec![("begin", Value::List(begin)), ("end", Value::List(end))], true)?;
    }
    pairs.iter_mut().flatten().for_each(|p| *p = (*p).max(0));
    if pairs.iter().all(|p| *p == [0, 0]) {
        return if value == args[0] { s.operator("_copy", vec![value], vec![], true) } else { Ok(value) };
    }
    let mode = text(args, 3)?;
    if mode == "wrap" {
        return wrapped(s, value, &pairs);
    }
    let pairs = Value::List(pairs.iter().map(|p| p.to_vec().into()).collect());
    let mut params = vec![("pad_width", pairs), ("mode", mode.into())];
    if mode == "constant" {
        params.push(("constant_value", args[4].clone()));
    }
    s.operator("_npi_pad", vec![value], params, true)
}

/// Pads with the elements at the opposite end of each axis.
fn wrapped(s: &mut Scope<'_, '_>, mut value: Value, pairs: &[[i64; 2]]) -> Result<Value> {
    for (axis, pair) in pairs.iter().enumerate().filter(|(_, p)| **p != [0, 0]) {
        let shape = known_shape(s, handle(std::slice::from_ref(&value), 0)?)?;
        let n = shape[axis];
        if n == 0 {
            return Err(Error::value("an empty axis has no other end"));
        }
        let indices: Vec<i64> = (-pair[0]..n + pair[1]).map(|i| i.rem_euclid(n)).collect();
        let indices = s.operator_constant("indices", &indices)?;
        value = s.operator("take", vec![value, indices], vec![("axis", Value::Int(axis as i64))], true)?;
    }
    Ok(value)
}
