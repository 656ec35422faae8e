//! Rules for export: framework operators with several outputs, lists of operators, and constants.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, ints, list, text};
use crate::emit::Scope;
use crate::emit::framework_node;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new("outputs", "(tensors) -> tensors", "For export: several outputs.", |_, a| Ok(a[0].clone())),
    Rule::new(
        "top",
        "(tensor, k, axis, largest) -> tensors",
        "For export: TopK with its two outputs, values and indices.",
        |s, a| {
            let k = s.operator_constant("k", &[int(a, 1)?])?;
            let attributes = vec![("axis", a[2].clone()), ("largest", Value::Int(i64::from(a[3].is_true())))];
            Ok(Value::List(framework_node(s, "TopK", vec![a[0].clone(), k], attributes, 2)?))
        },
    ),
    Rule::new(
        "channels",
        "(tensor, n, axis, squeeze) -> tensors",
        "For export: n equal sections of an axis, which is removed if they have length 1 and squeeze is set.",
        |s, a| {
            let (n, axis) = (int(a, 1)?, int(a, 2)?);
            let size = s.info(handle(a, 0)?).shape.clone();
            let axis = Shape::axis(axis, size.ndim().unwrap_or(0))?;
            let size = size.dim(axis);
            if n < 1 || size < 0 || size % n != 0 {
                return Err(Error::value(format!(
                    "an axis of {size} cannot be written as {n} parts: give the shapes of the inputs"
                )));
            }
            let sizes = s.operator_constant("sizes", &vec![size / n; n as usize])?;
            let at = vec![("axis", Value::Int(axis as i64))];
            let parts = framework_node(s, "Split", vec![a[0].clone(), sizes], at, n as usize)?;
            if !a[3].is_true() {
                return Ok(Value::List(parts));
            }
            let axes = s.operator_constant("axis", &[axis as i64])?;
            let each = parts.into_iter().map(|p| one(s, "Squeeze", vec![p, axes.clone()], vec![]));
            Ok(Value::List(each.collect::<Result<_>>()?))
        },
    ),
    Rule::new(
        "channels_of",
        "(tensor, n) -> tensors",
        "For export: n sections of length 1 of the last axis.",
        |s, a| {
            let n = usize::try_from(int(a, 1)?).ok().filter(|n| *n <= 64);
            let n = n.ok_or_else(|| Error::value("an axis has up to 64 parts"))?;
            let sizes = s.operator_constant("sizes", &vec![1; n])?;
            Ok(Value::List(framework_node(s, "Split", vec![a[0].clone(), sizes], vec![("axis", Value::Int(-1))], n)?))
        },
    ),
    Rule::new(
        "computed",
        "(op, tensors, parameters) -> tensor",
        "For export: the constant that an operator of ours makes, which depends on the shapes of its inputs only. Parameters are names \
         and values in turn.",
        computed,
    ),
    Rule::new(
        "expansion",
        "(rhs, rank, lhs_axes, rhs_axes) -> tensor",
        "For export: the shape that broadcast_like gives a tensor of this rank: some axes as long as axes of another \
         tensor, others as they are.",
        |s, a| {
            let (rank, ours, theirs) = (int(a, 1)?, ints(a, 2)?, ints(a, 3)?);
            let whole = one(s, "Shape", vec![a[0].clone()], vec![])?;
            let neutral = s.operator_constant("one", &[1])?;
            let mut parts = vec![neutral; rank.clamp(0, 64) as usize];
            for (our, their) in ours.iter().zip(&theirs) {
                let at = s.operator_constant("axis", &[*their])?;
                let our = Shape::axis(*our, parts.len())?;
                parts[our] = one(s, "Gather", vec![whole.clone(), at], vec![])?;
            }
            one(s, "Concat", parts, vec![("axis", Value::Int(0))])
        },
    ),
    Rule::new(
        "repeated_indices",
        "(size, repeats) -> list",
        "The numbers below size, each repeated a given number of times.",
        |_, a| {
            let (size, repeats) = (int(a, 0)?, int(a, 1)?);
            let count = size.checked_mul(repeats).filter(|n| (0..1 << 24).contains(n));
            count.ok_or_else(|| Error::value(format!("{size} places cannot be written {repeats} times")))?;
            Ok((0..size).flat_map(|i| std::iter::repeat_n(i, repeats as usize)).collect::<Vec<_>>().into())
        },
    ),
    Rule::new(
        "fill_long",
        "(value, n) -> list",
        "A list with n copies of the value, without the limit of `fill`.",
        |_, a| {
            let n = usize::try_from(int(a, 1)?).ok().filter(|n| *n <= 1 << 24);
            let n = n.ok_or_else(|| Error::value("the length is not known, or too large"))?;
            Ok(Value::List(vec![a[0].clone(); n]))
        },
    ),
    Rule::new("in_pairs", "(list) -> list", "Groups neighbours in pairs.", |_, a| {
        Ok(Value::List(list(a, 0)?.chunks(2).map(|pair| Value::List(pair.to_vec())).collect()))
    }),
    Rule::new(
        "axes_sizes",
        "(rank, axes, sizes) -> list",
        "A list of ones, one per axis, with other sizes for some axes.",
        |_, a| {
            let mut all = vec![1; int(a, 0)?.clamp(0, 64) as usize];
            for (axis, size) in ints(a, 1)?.into_iter().zip(ints(a, 2)?) {
                let axis = Shape::axis(axis, all.len())?;
                all[axis] = size;
            }
            Ok(all.into())
        },
    ),
    Rule::new("other_axes", "(axes, rank) -> list", "The axes that are not in a list.", |_, a| {
        let rank = int(a, 1)?.clamp(0, 64);
        let axes = ints(a, 0)?;
        Ok((0..rank).filter(|x| !axes.contains(x) && !axes.contains(&(x - rank))).collect::<Vec<_>>().into())
    }),
    Rule::new(
        "interpolation_matrix",
        "(taps, weights, n) -> tensor",
        "The matrix of n rows with the weights of each column at its tap indices.",
        interpolation_matrix,
    ),
    Rule::new(
        "bin_averages",
        "(n, bins, dtype) -> tensor",
        "The matrix of n rows whose columns average the bins of adaptive pooling: bin i begins at i n / bins, rounded down, and ends at \
         (i + 1) n / bins, rounded up.",
        |s, a| {
            let (n, bins) = (int(a, 0)?, int(a, 1)?);
            if n < 1 || bins < 1 || n.saturating_mul(bins) > 1 << 24 {
                return Err(Error::value(format!("an axis of {n} cannot be pooled to {bins} bins")));
            }
            let mut items = vec![0.0; (n * bins) as usize];
            for bin in 0..bins {
                let (begin, end) = (bin * n / bins, ((bin + 1) * n + bins - 1) / bins);
                (begin..end).for_each(|i| items[(i * bins + bin) as usize] = 1.0 / (end - begin) as f64);
            }
            constant(s, &[n, bins], items, text(a, 2)?.parse().map_err(Error::Value)?)
        },
    ),
    Rule::new(
        "recurrent_nodes",
        "(data, parameters, states, mode, layers, bidirectional, hidden) -> tensors",
        "For export: the layers of RNN as operators of the framework, with the outputs of RNN. The parameters are one tensor or those that \
         are joined to it; states are the first states, and the first cells of an LSTM.",
        super::recurrent::recurrent_nodes,
    ),
];

/// One operator of the framework with one output.
pub(super) fn one(
    s: &mut Scope<'_, '_>,
    op: &str,
    inputs: Vec<Value>,
    attributes: Vec<(&str, Value)>,
) -> Result<Value> {
    Ok(framework_node(s, op, inputs, attributes, 1)?.swap_remove(0))
}

fn constant(s: &mut Scope<'_, '_>, dims: &[i64], items: Vec<f64>, dtype: DType) -> Result<Value> {
    let array = NDArray::zeros(&Shape::new(dims), dtype, Context::default())?;
    write_converted(&array, items.into_iter())?;
    let name = s.name.clone();
    Ok(Value::Handle(s.builder().constant(&name, array)))
}

fn computed(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let op = text(args, 0)?;
    let mut inputs = Vec::new();
    for tensor in list(args, 1)? {
        let info = s.info(handle(std::slice::from_ref(tensor), 0)?);
        let (shape, dtype) = (info.shape.clone(), info.dtype.unwrap_or(DType::F32));
        if !shape.is_known() {
            return Err(Error::NeedsValue(format!("{op} depends on the shape {shape}: give the shapes of the inputs")));
        }
        let array = NDArray::zeros(&shape, dtype, Context::default())?;
        inputs.push(Value::Handle(s.builder().constant("shape", array)));
    }
    let given = list(args, 2)?;
    let mut params = Vec::new();
    for pair in given.chunks_exact(2) {
        params.push((text(pair, 0)?, pair[1].clone()));
    }
    let made = s.operator(op, inputs, params, false)?;
    match &made {
        Value::Handle(h) if s.info(*h).value.is_some() => Ok(made),
        _ => Err(Error::unsupported(format!("{op} makes a constant that is too large"))),
    }
}

fn interpolation_matrix(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let known = |i: usize| -> Result<NDArray> {
        let info = s.info(handle(args, i)?);
        let why = || Error::unsupported("places and weights can be written only where they are constant");
        info.value.clone().ok_or_else(why)
    };
    let (places, weights, n) = (known(0)?, known(1)?, int(args, 2)?);
    let (rows, taps) = (places.shape().dim(0), places.shape().dim(1));
    if n < 1 || n.saturating_mul(rows) > 1 << 26 {
        return Err(Error::unsupported(format!("a matrix of {n} times {rows} numbers is too large")));
    }
    let mut items = vec![0.0; (n * rows) as usize];
    for (k, (place, weight)) in places.to_vec_as::<i64>()?.into_iter().zip(weights.to_vec_as::<f64>()?).enumerate() {
        items[(place * rows + k as i64 / taps.max(1)) as usize] += weight;
    }
    constant(s, &[n, rows], items, weights.dtype())
}
