//! Rules for tensors of the graph: shapes, types, known elements, and operators by name.

use std::cmp::Ordering;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{array, needs_shapes, rules};
use crate::emit::{Naming, Scope, SymInt, SymInts, TensorId, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::{self, Value};

rules! {
    /// True if the elements of a tensor are known at import, or if it is absent.
    fn known(s, tensor: Value) -> bool {
        let known = match tensor {
            Value::TensorId(id) => s.info(TensorId(id)).value.is_some(),
            _ => true,
        };
        s.needs_value |= !known;
        Ok(known)
    }

    /// True if the rank is known.
    fn rank_known(s, tensor: TensorId) -> bool {
        let known = s.info(tensor).shape.ndim_is_known();
        s.needs_value |= !known;
        Ok(known)
    }

    /// True if all dimensions are known.
    fn shape_known(s, tensor: TensorId) -> bool {
        let known = s.info(tensor).shape.is_known();
        s.needs_value |= !known;
        Ok(known)
    }

    /// The rank.
    fn rank(s, tensor: TensorId) -> i64 {
        Ok(s.rank(tensor)? as i64)
    }

    /// The dimensions, which may include unknown ones.
    fn shape(s, tensor: TensorId) -> SymInts {
        s.dims(tensor).map(SymInts)
    }

    /// One dimension, which may be unknown.
    fn size(s, tensor: TensorId, axis: i64) -> SymInt {
        let dims = s.dims(tensor)?;
        Ok(SymInt(dims[Shape::axis(axis, dims.len())?]))
    }

    /// The name of the element type.
    fn dtype(s, tensor: TensorId) -> DType {
        s.dtype(tensor)
    }

    /// The name of the element type in the model, such as `uint16`, which int32 holds.
    fn element_name(s, tensor: TensorId) -> &'static str {
        match s.info(tensor).widened {
            Some(int) => Ok(int.name()),
            None => Ok(s.dtype(tensor)?.name()),
        }
    }

    /// The smallest finite number of the element type.
    fn lowest(s, tensor: TensorId) -> f64 {
        Ok(match s.dtype(tensor)? {
            DType::F16 => -65504.0,
            DType::F64 => f64::MIN,
            _ => f64::from(f32::MIN),
        })
    }

    /// True if the elements are floating-point numbers.
    fn is_float(s, tensor: TensorId) -> bool {
        Ok(s.dtype(tensor)?.is_float())
    }

    /// The element of a one-element tensor, which must be known or computed from dimensions.
    fn number(s, tensor: Value) -> Value {
        let Value::TensorId(id) = tensor else { return Ok(tensor) };
        match known_elements(s, TensorId(id))?.as_slice() {
            [one] => Ok(one.clone()),
            many => Err(Error::value(format!(
                "a tensor of {} elements was given where one number was expected",
                many.len()
            ))),
        }
    }

    /// The elements of a tensor, which must be known or computed from dimensions; lists are returned unchanged.
    fn numbers(s, tensor: Value) -> Value {
        match tensor {
            Value::TensorId(id) => known_elements(s, TensorId(id)).map(Value::List),
            other => Ok(other),
        }
    }

    /// True for a constant or an input of the graph. An operator can update such a tensor in place.
    fn is_stored(s, tensor: TensorId) -> bool {
        let info = s.info(tensor);
        let entries = info.symbol().map(|symbol| symbol.entries()).unwrap_or_default();
        Ok(info.value.is_some() || entries.first().is_some_and(|e| e.node.is_variable()))
    }

    /// A constant tensor of a number, or of a list of numbers.
    fn tensor(s, value: Value, dtype: DType) -> TensorId {
        let (items, dims) = match value {
            Value::List(items) => (items.clone(), vec![items.len() as i64]),
            one => (vec![one], vec![]),
        };
        let array = match items.iter().all(|v| matches!(v, Value::Int(_))) {
            true => self::array(&dims, dtype, items.iter().filter_map(Value::int).collect())?,
            false => self::array(&dims, dtype, items.iter().filter_map(Value::number).collect())?,
        };
        Ok(s.constant(array))
    }

    /// A constant of the model as a tensor of the graph.
    fn constant(s, tensor: &ir::Tensor) -> TensorId {
        let name = s.node.outputs.first().cloned().unwrap_or_default();
        let array = tensor.to_array()?;
        Ok(TensorId(s.builder().constant(&name, array)))
    }

    /// A tensor of the type of another one, filled with a value. A dimension may be written as [tensor, axis], even if it is unknown.
    fn filled_like(s, dims: &[Value], value: Value, tensor: TensorId) -> TensorId {
        let dtype = s.dtype(tensor)?;
        let (mut lengths, mut dynamic) = (Vec::new(), Vec::new());
        for (k, dim) in dims.iter().enumerate() {
            let (holder, axis) = match dim {
                Value::List(pair) => match pair.as_slice() {
                    [Value::TensorId(id), Value::Int(axis)] => (TensorId(*id), *axis),
                    _ => return Err(Error::value("a dimension is a number or [tensor, axis]")),
                },
                known => {
                    lengths.push(known.int().ok_or_else(|| Error::value("a dimension is a number or [tensor, axis]"))?);
                    continue;
                }
            };
            let axis = Shape::axis(axis, s.rank(holder)?)?;
            match s.info(holder).shape.dim(axis) {
                -1 => {
                    dynamic.push((k, holder, axis));
                    lengths.push(1);
                }
                n => lengths.push(n),
            }
        }
        let mut filled = s.emit(op!(FULL(), shape: lengths, value: value, dtype: dtype))?;
        for (k, holder, axis) in dynamic {
            filled = s.emit(op!(BROADCAST_LIKE(filled, holder), lhs_axes: vec![k as i64], rhs_axes: vec![axis as i64]))?;
        }
        Ok(filled)
    }

    /// A tensor of this shape, filled with the value of a one-element constant.
    fn filled(s, shape: SymInts, value: Value, dtype: DType) -> TensorId {
        let value = match value {
            Value::Tensor(t) => elements(&t.to_array()?)?.first().cloned().unwrap_or_default(),
            other => other,
        };
        let value = match value {
            Value::Bool(truth) => Value::Int(truth.into()),
            number => number,
        };
        s.emit_named(op!(FULL(), shape: shape.0, value: value, dtype: dtype))
    }

    /// The name of the element type of a constant of the model.
    fn tensor_type(_, tensor: &ir::Tensor) -> DType {
        tensor.element.dtype()
    }

    /// An operator of two inputs applied to all tensors from left to right.
    fn chain(s, op: &str, tensors: &[Value]) -> Value {
        let (first, rest) = tensors.split_first().ok_or_else(|| Error::value("the list of tensors is empty"))?;
        rest.iter().try_fold(first.clone(), |left, right| {
            s.operator(op, vec![left, right.clone()], vec![], Naming::Node)
        })
    }

    /// The dimensions start..end of a tensor as 64-bit integers.
    fn shape_tensor(s, tensor: TensorId, start: i64, end: Option<i64>) -> TensorId {
        let rank = s.rank(tensor)? as i64;
        let index = |x: i64| (if x < 0 { x + rank } else { x }).clamp(0, rank);
        let (start, end) = (index(start), end.map_or(rank, index));
        let name = s.name.clone();
        s.builder().shape_of(&name, tensor.0, start as usize, end.max(start) as usize).map(TensorId)
    }

    /// The target shape of Reshape: 0 copies a dimension (unless allowed as a length), -1 is inferred; dimensions that are not known are
    /// copied or inferred. The result is for _npx_reshape.
    fn new_shape(s, tensor: TensorId, shape: Value, allowzero: bool) -> SymInts {
        let target = match shape {
            Value::TensorId(id) => known_elements(s, TensorId(id))?.iter().filter_map(Value::int).collect(),
            list => list.ints().ok_or_else(|| Error::value(format!("the shape is a {}, not a list", list.kind())))?,
        };
        reshape_target(s, tensor, target, allowzero).map(SymInts)
    }

    /// True if some elements of an integer tensor are known or symbolic.
    fn partly_known(s, tensor: Value) -> bool {
        let Value::TensorId(id) = tensor else { return Ok(true) };
        let info = s.info(TensorId(id));
        let known = info.value.is_some() || info.symbolic_value.is_some();
        s.needs_value |= !known;
        Ok(known)
    }

    /// The number of outputs of the node.
    fn output_count(s) -> i64 {
        Ok(s.node.outputs.len() as i64)
    }

    /// A reduction over axes; without axes over all of them, or over none if noop is not 0.
    fn reduced(s, op: &str, tensor: TensorId, axes: Option<Vec<i64>>, keepdims: bool, noop: bool) -> Value {
        let axes = axes.unwrap_or_default();
        if axes.is_empty() && noop {
            return s.emit_named(op!(COPY(tensor))).map(Value::from);
        }
        if let Some(limit) = reduce_empty(s, op, tensor, &axes, keepdims)? {
            return Ok(limit.into());
        }
        let is_over_all = axes.is_empty() || s.info(tensor).shape.ndim() == Some(axes.len());
        let axis = if axes.is_empty() { Value::None } else { axes.into() };
        let params = vec![("axis", axis), ("keepdims", Value::Bool(keepdims))];
        let reduced = s.operator(op, vec![tensor.into()], params, Naming::Node)?;
        // MXNet's legacy operators have no zero-dimensional tensors: a reduction over all axes has the shape (1,).
        match is_over_all && !keepdims {
            true => s.emit_named(op!(RESHAPE(reduced), newshape: Vec::<i64>::new())).map(Value::from),
            false => Ok(reduced),
        }
    }

    /// Inserts axes of length 1 at these positions of the result.
    fn expanded(s, tensor: TensorId, axes: Vec<i64>) -> TensorId {
        let rank = (s.rank(tensor)? + axes.len()) as i64;
        let axes = super::lists::axes_from_start(s, axes, rank)?;
        if axes.is_empty() {
            return s.emit_named(op!(COPY(tensor)));
        }
        axes.into_iter().try_fold(tensor, |t, axis| s.emit_named(op!(EXPAND_DIMS(t), axis: axis)))
    }

    /// Appends n axes of length 1.
    fn trailing_axes(s, tensor: Value, n: i64) -> Value {
        (0..n.clamp(0, 32)).try_fold(tensor, |t, _| s.emit(op!(EXPAND_DIMS(t), axis: -1)).map(Value::from))
    }

    /// Moves one axis to another position.
    fn moved(s, tensor: Value, from: i64, to: i64) -> TensorId {
        s.emit_named(op!(MOVEAXIS(tensor), source: vec![from], destination: vec![to]))
    }

    /// ONNX's Slice: numbers beyond an axis mean its end, negative ones count from the end.
    fn sliced(
        s, tensor: TensorId, starts: SymInts, ends: SymInts, axes: Option<Vec<i64>>, steps: Option<Vec<i64>>,
    ) -> TensorId {
        let rank = s.rank(tensor)?;
        let (starts, ends) = (starts.0, ends.0);
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
            return Err(Error::value(format!("{starts:?}, {ends:?}, {axes:?} and {steps:?} differ in number")));
        }
        let dims = s.info(tensor).dims.clone();
        let (mut begin, mut end, mut step) =
            (vec![Value::None; rank], vec![Value::None; rank], vec![Value::Int(1); rank]);
        for (k, axis) in axes.iter().enumerate() {
            let axis = Shape::axis(*axis, rank)?;
            let n = dims.as_ref().map_or(UNKNOWN, |dims| dims[axis]);
            let (from, to, by) = slice_bounds(s, n, starts[k], ends[k], steps[k])?;
            (begin[axis], end[axis], step[axis]) = (from, to, Value::Int(by));
        }
        if begin.iter().chain(&end).all(|x| *x == Value::None) && step.iter().all(|x| *x == Value::Int(1)) {
            return s.emit_named(op!(COPY(tensor)));
        }
        s.emit_named(op!(SLICE(tensor), begin: begin, end: end, step: step))
    }

    /// The numbers from start to limit, exclusive, in steps of delta.
    fn range_of(s, start: Value, limit: Value, delta: Value, dtype: DType) -> TensorId {
        let numbers = if let (Value::Int(start), Value::Int(limit), Value::Int(step)) = (&start, &limit, &delta) {
            let n = count((*limit as f64 - *start as f64) / *step as f64)?;
            let items = (0..n as i64).map(|i| start.wrapping_add(i.wrapping_mul(*step))).collect();
            array::<i64>(&[n as i64], dtype, items)?
        } else {
            let number = |x: &Value| x.number().ok_or_else(|| Error::value("start, limit and delta are numbers"));
            let (start, limit, step) = (number(&start)?, number(&limit)?, number(&delta)?);
            let n = count((limit - start) / step)?;
            array::<f64>(&[n as i64], dtype, (0..n).map(|i| start + i as f64 * step).collect())?
        };
        Ok(s.constant(numbers))
    }

    /// The broadcast shape of a tensor and another shape.
    fn broadcast_shape(s, tensor: TensorId, shape: SymInts) -> SymInts {
        let (own, target) = (s.dims(tensor)?, shape.0);
        let n = target.len().max(own.len());
        let at = |dims: &[i64], k: usize| (k + dims.len()).checked_sub(n).map_or(1, |i| dims[i]);
        let mut joined = |k: usize| match (at(&own, k), at(&target, k)) {
            (1, d) | (d, 1) => Ok(d),
            (d, t) if d == t => Ok(d),
            // One of them is 1, or both are equal.
            (d, t) if is_symbolic(d) && is_symbolic(t) => {
                s.builder().max_dim(d, t).ok_or_else(|| needs_shapes("a dimension is unknown"))
            }
            (d, t) if is_symbolic(d) || is_symbolic(t) => Ok(if is_symbolic(d) { t } else { d }),
            (d, t) => Err(Error::value(format!("a dimension of {d} cannot be expanded to {t}"))),
        };
        (0..n).map(&mut joined).collect::<Result<_>>().map(SymInts)
    }
}

/// The elements of a constant, or the known and symbolic elements of an integer tensor.
fn known_elements(s: &Scope<'_, '_>, tensor: TensorId) -> Result<Vec<Value>> {
    let info = s.info(tensor);
    if let Some(array) = &info.symbolic_value {
        return elements(array);
    }
    let why = || {
        format!(
            "the value of '{}' determines the structure of the graph, but is known only when the model runs",
            info.name
        )
    };
    let value = info.value.as_ref().ok_or_else(|| Error::NeedsValue(why()))?;
    Ok(elements(value)?.into_iter().map(not_symbolic).collect())
}

/// Moves an integer of the model out of the range of symbolic dimensions. It still exceeds every axis.
fn not_symbolic(value: Value) -> Value {
    match value {
        Value::Int(i) if is_symbolic(i) => Value::Int(i64::MIN / 2),
        other => other,
    }
}

/// The elements as Booleans, integers or floating-point numbers.
fn elements(array: &NDArray) -> Result<Vec<Value>> {
    if array.dtype().is_float() {
        return Ok(array.to_vec_as::<f64>()?.into_iter().map(Value::Float).collect());
    }
    if array.dtype() == DType::Bool {
        return Ok(array.to_vec::<bool>()?.into_iter().map(Value::Bool).collect());
    }
    Ok(array.to_vec_as::<i64>()?.into_iter().map(Value::Int).collect())
}

/// The number of steps of a range.
fn count(steps: f64) -> Result<usize> {
    /// At most 256 MiB of elements of 64 bits.
    const MAX_STEPS: f64 = (1u64 << 25) as f64;
    match steps.is_finite() && steps <= MAX_STEPS {
        true => Ok(steps.ceil().max(0.0) as usize),
        false => Err(Error::value(format!("a range of {steps} steps exceeds the limit of {MAX_STEPS} for constants"))),
    }
}

/// A maximum or minimum over no elements, which is the limit of the type; `None` for other reductions.
fn reduce_empty(
    s: &mut Scope<'_, '_>,
    op: &str,
    tensor: TensorId,
    axes: &[i64],
    keepdims: bool,
) -> Result<Option<TensorId>> {
    let info = s.info(tensor);
    let (shape, dtype) = (info.shape.clone(), info.dtype.unwrap_or(DType::F32));
    if !matches!(op, "max" | "min") || !shape.is_known() || !shape.dims().contains(&0) {
        return Ok(None);
    }
    let rank = shape.dims().len();
    let over = axes.iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>, _>>()?;
    let is_reduced = |k: usize| over.is_empty() || over.contains(&k);
    let kept = (0..rank).filter(|k| keepdims || !is_reduced(*k));
    let dims: Vec<i64> = kept.map(|k| if is_reduced(k) { 1 } else { shape.dim(k) }).collect();
    let (lowest, highest) = match dtype {
        d if d.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
        DType::Bool => (0.0, 1.0),
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (i64::MIN as f64, i64::MAX as f64),
    };
    let limit = if op == "max" { lowest } else { highest };
    s.emit_named(op!(FULL(), shape: dims, value: limit, dtype: dtype)).map(Some)
}

/// A length that is unknown and has no symbolic dimension.
const UNKNOWN: i64 = i64::MIN;

/// Begin, end and step of MXNet's `slice` for a slice of ONNX along an axis of length `n`.
fn slice_bounds(s: &Scope<'_, '_>, n: i64, from: i64, to: i64, by: i64) -> Result<(Value, Value, i64)> {
    if by == 0 {
        return Err(Error::value("the step is 0"));
    }
    if [n, from, to].into_iter().any(is_symbolic) {
        // The length is not known: numbers beyond any axis mean its ends, and `slice` resolves the others when the model runs.
        let far = i64::from(i32::MAX);
        let is_end = |x: i64| !is_symbolic(x) && (x >= far || x <= -far);
        let compared = |x: i64| s.context.emitter().builder.compare(x, n);
        let passes = |x: i64| is_symbolic(x) && n != UNKNOWN && compared(x).is_some_and(Ordering::is_ge);
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
    let from_start = |x: i64| if x < 0 { x.saturating_add(n) } else { x };
    let (from, to) = (from_start(from), from_start(to));
    if by > 0 {
        let (from, to) = (from.clamp(0, n), to.clamp(0, n));
        return Ok((Value::Int(from), Value::Int(to.max(from)), by));
    }
    let (from, to) = (from.clamp(-1, n - 1), to.clamp(-1, n - 1));
    if to >= from {
        return Ok((Value::Int(0), Value::Int(0), 1));
    }
    // A reversed slice that includes element 0 has the end `None`: -1 would mean the last element.
    Ok((Value::Int(from.max(0)), if to < 0 { Value::None } else { Value::Int(to) }, by))
}

/// The target shape of `_npx_reshape` for a target shape of ONNX's Reshape.
fn reshape_target(s: &mut Scope<'_, '_>, tensor: TensorId, mut target: Vec<i64>, allow_zero: bool) -> Result<Vec<i64>> {
    let dims = s.info(tensor).dims.clone();
    let own = dims.clone().unwrap_or_default();
    let copied_dim = |k: usize, target: &[i64]| {
        let missing =
            || Error::value(format!("the shape {target:?} copies dimension {k}, which the tensor does not have"));
        own.get(k).copied().ok_or_else(missing)
    };
    if dims.is_some() && !allow_zero {
        for k in (0..target.len()).filter(|k| target[*k] == 0).collect::<Vec<_>>() {
            target[k] = copied_dim(k, &target)?;
        }
    }
    if let (Some(k), Some(all)) = (target.iter().position(|t| *t == -1), &dims) {
        // If the inferred dimension can be computed here, -1 is free for another one.
        let others: Vec<i64> = target.iter().copied().filter(|t| *t != -1).collect();
        if let (true, Some(n)) = (others.iter().any(|d| is_symbolic(*d)), s.builder().missing_dim(all, &others)) {
            target[k] = n;
        }
    }
    // A symbolic dimension is copied from the same axis (-2), or one is inferred (-1). If that does not suffice, the target stays symbolic.
    let mut has_inferred = target.contains(&-1);
    let mut simple = Vec::with_capacity(target.len());
    for (k, t) in target.iter().copied().enumerate() {
        simple.push(match t {
            0 if !allow_zero && dims.is_none() => -2,
            t if !is_symbolic(t) => t,
            t if own.get(k) == Some(&t) && simple.iter().all(|x| *x != -1 || k == 0) => -2,
            _ if !has_inferred => {
                has_inferred = true;
                -1
            }
            _ => return Ok(target),
        });
    }
    Ok(simple)
}
