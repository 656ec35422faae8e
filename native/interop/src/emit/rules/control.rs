//! Rules for operators with subgraphs. If the condition is known, branches are inlined and loops unrolled; otherwise they become
//! control flow operators, see [`loops`].

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{Rule, handle, int, list, loops};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "branch",
        "(condition, then, otherwise) -> tensors",
        "ONNX's If: the outputs of one of two graphs.",
        |s, a| {
            let (then, otherwise) = (graph(a, 1)?, graph(a, 2)?);
            let chosen = match truth(s, &a[0]) {
                Ok(condition) => {
                    if condition {
                        then
                    } else {
                        otherwise
                    }
                }
                Err(Error::NeedsValue(_)) => return loops::branch(s, &a[0], [&then, &otherwise]),
                Err(e) => return Err(e),
            };
            Ok(Value::List(s.context.graph(&chosen, HashMap::new())?))
        },
    ),
    Rule::new(
        "looped",
        "(trips, condition, values, body) -> tensors",
        "ONNX's Loop: the final values, then the scan outputs of all rounds, stacked along a new first axis.",
        looped,
    ),
    Rule::new(
        "scanned",
        "(values, body, inputs, how) -> tensors",
        "Scan of ONNX. `inputs` is the number of scanned inputs; `how` is a list: input axes, input directions, output axes, output \
         directions.",
        scanned,
    ),
];

/// Most rounds of a loop that is unrolled into a graph.
pub(super) const MAX_UNROLLED: i64 = 256;
/// Most rounds of a loop that is executed.
const MAX_EXECUTED: i64 = 100_000_000;

pub(super) fn graph(args: &[Value], i: usize) -> Result<std::sync::Arc<Graph>> {
    match args.get(i) {
        Some(Value::Graph(g)) => Ok(g.clone()),
        _ => Err(Error::value(format!("argument {} is no graph", i + 1))),
    }
}

fn known(s: &Scope<'_, '_>, value: &Value) -> Result<NDArray> {
    let Value::Handle(h) = value else { return Err(Error::value(format!("a {} decides what runs", value.kind()))) };
    s.info(*h).value.clone().ok_or_else(|| {
        Error::NeedsValue("what runs is decided by a tensor whose value is known only when the model runs".into())
    })
}

fn truth(s: &Scope<'_, '_>, value: &Value) -> Result<bool> {
    match known(s, value)?.to_vec_as::<f64>()?.as_slice() {
        [x] => Ok(*x != 0.0),
        many => Err(Error::value(format!("a condition has {} elements", many.len()))),
    }
}

fn constant<T: ferromx_core::dtype::Element>(s: &mut Scope<'_, '_>, x: T) -> Result<Value> {
    let name = s.name.clone();
    Ok(Value::Handle(s.builder().constant(&name, NDArray::from_slice(&[x], &[])?)))
}

/// Runs a body on values for its inputs.
pub(super) fn round(s: &mut Scope<'_, '_>, body: &Graph, values: Vec<Value>) -> Result<Vec<Value>> {
    if body.inputs.len() != values.len() {
        return Err(Error::format(format!("the body has {} inputs, but gets {}", body.inputs.len(), values.len())));
    }
    let names = body.inputs.iter().map(|i| i.name.clone());
    let before = s.context.problem_count();
    let made = s.context.graph(body, names.zip(values).collect());
    // A body that failed once is not mapped again. An error without problems means that they have been reported.
    if s.context.problem_count() > before { Err(Error::Model(Vec::new())) } else { made }
}

/// Stacks the outputs of all rounds along a new axis.
fn joined(s: &mut Scope<'_, '_>, parts: Vec<Value>, axis: i64, body: &Graph, output: usize) -> Result<Value> {
    if parts.is_empty() {
        // Without a round, only the body declares the shape and type of the empty result.
        let info = body.outputs.get(output);
        let dtype = info.and_then(|i| i.element.as_ref()).and_then(|e| e.ours().ok()).unwrap_or(DType::F32);
        let dims = info.map(|i| i.shape().dims().iter().map(|d| (*d).max(0)).collect::<Vec<_>>()).unwrap_or_default();
        let dims: Vec<i64> = [0].into_iter().chain(dims).collect();
        let name = s.name.clone();
        let empty = NDArray::zeros(&Shape::new(&dims), dtype, ferromx_core::context::Context::default())?;
        return Ok(Value::Handle(s.builder().constant(&name, empty)));
    }
    s.operator("stack", vec![Value::List(parts)], vec![("axis", Value::Int(axis))], true)
}

fn looped(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let body = graph(args, 3)?;
    let most = match &args[0] {
        Value::None => Ok(i64::MAX),
        value => known(s, value).and_then(|a| Ok(a.to_vec::<i64>()?.first().copied().unwrap_or_default())),
    };
    let unrolled = match &most {
        Ok(trips) => unrolled(s, args, &body, *trips),
        Err(e) => Err(e.clone()),
    };
    match unrolled {
        Err(Error::NeedsValue(_)) if !s.context.emitter().builder.is_executing() => {
            loops::looped(s, &args[0], &args[1], list(args, 2)?, &body, most.ok().filter(|_| args[0] != Value::None))
        }
        made => made,
    }
}

/// A loop of at most so many rounds, unrolled.
fn unrolled(s: &mut Scope<'_, '_>, args: &[Value], body: &Graph, trips: i64) -> Result<Value> {
    let mut condition = args[1].clone();
    let mut values = list(args, 2)?.to_vec();
    let carried = values.len();
    let scans = body.outputs.len().checked_sub(carried + 1);
    let scans = scans.ok_or_else(|| Error::format("the body of the loop has fewer outputs than values are carried"))?;
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let limit = if s.context.emitter().builder.is_executing() { MAX_EXECUTED } else { MAX_UNROLLED };
    let mut i = 0;
    while i < trips && (condition == Value::None || truth(s, &condition)?) {
        if i >= limit {
            return Err(Error::NeedsValue(format!("a loop runs for more than {limit} rounds")));
        }
        let given = if condition == Value::None { constant(s, true)? } else { condition.clone() };
        let counter = constant(s, i)?;
        let mut outputs = round(s, body, [counter, given].into_iter().chain(values).collect())?;
        let rest = outputs.split_off(1 + carried);
        made.iter_mut().zip(rest).for_each(|(m, v)| m.push(v));
        values = outputs.split_off(1);
        // An absent condition is always true.
        if args[1] != Value::None {
            condition = outputs.remove(0);
        }
        i += 1;
    }
    for (k, parts) in made.into_iter().enumerate() {
        values.push(joined(s, parts, 0, body, 1 + carried + k)?);
    }
    Ok(Value::List(values))
}

/// The axes and directions of a scan's inputs and outputs; entries that are left out are 0.
#[derive(Default)]
pub(super) struct How {
    /// The scanned axes of the inputs.
    pub axes: Vec<i64>,
    /// For each input, 1 if it is scanned in reverse.
    pub directions: Vec<i64>,
    /// The axes along which outputs are stacked.
    pub output_axes: Vec<i64>,
    /// For each output, 1 if it is stacked in reverse.
    pub output_directions: Vec<i64>,
}

fn scanned(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let all = list(args, 0)?;
    let body = graph(args, 1)?;
    let scans = usize::try_from(int(args, 2)?).ok().filter(|n| *n >= 1 && *n <= all.len());
    let scans = scans.ok_or_else(|| Error::format("num_scan_inputs does not fit the inputs"))?;
    let mut how = list(args, 3)?.iter().map(|v| v.ints().unwrap_or_default());
    let mut next = || how.next().unwrap_or_default();
    let how = How { axes: next(), directions: next(), output_axes: next(), output_directions: next() };
    scan(s, all, &body, scans, &how, MAX_UNROLLED)
}

/// A scan over the last `scans` values: unrolled up to `most` rounds, a `_foreach` operator beyond that.
pub(super) fn scan(
    s: &mut Scope<'_, '_>,
    all: &[Value],
    body: &Graph,
    scans: usize,
    how: &How,
    most: i64,
) -> Result<Value> {
    let (states, sequences) = all.split_at(all.len() - scans);
    let option = |list: &[i64], k: usize| list.get(k).copied().unwrap_or(0);
    let reversed = |list: &[i64], k: usize| option(list, k) == 1;
    let (axes, length) = scanned_axes(s, sequences, &how.axes)?;
    let outs = body.outputs.len().checked_sub(states.len());
    let outs = outs.ok_or_else(|| Error::format("the body of the scan has fewer outputs than states"))?;
    if length < 0 || length > if s.context.emitter().builder.is_executing() { MAX_EXECUTED } else { most } {
        let each = sequences.iter().enumerate();
        let sequences = each.map(|(k, v)| (v.clone(), axes[k], reversed(&how.directions, k))).collect();
        let outputs = (0..outs).map(|k| (option(&how.output_axes, k), reversed(&how.output_directions, k))).collect();
        return loops::scanned(s, &loops::Scanned { states, sequences, outputs }, body);
    }
    let mut values = states.to_vec();
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); outs];
    for i in 0..length {
        let mut given = values.clone();
        for (k, sequence) in sequences.iter().enumerate() {
            let at = if reversed(&how.directions, k) { length - 1 - i } else { i };
            let range = vec![("axis", Value::Int(axes[k])), ("begin", Value::Int(at)), ("end", Value::Int(at + 1))];
            let slice = s.operator("slice_axis", vec![sequence.clone()], range, false)?;
            given.push(s.operator("_np_squeeze", vec![slice], vec![("axis", vec![axes[k]].into())], false)?);
        }
        let mut outputs = round(s, body, given)?;
        let rest = outputs.split_off(values.len());
        values = outputs;
        made.iter_mut().zip(rest).for_each(|(m, v)| m.push(v));
    }
    let carried = values.len();
    for (k, mut parts) in made.into_iter().enumerate() {
        if reversed(&how.output_directions, k) {
            parts.reverse();
        }
        values.push(joined(s, parts, option(&how.output_axes, k), body, carried + k)?);
    }
    Ok(Value::List(values))
}

/// The scanned axes and their common length, -1 if it is not known.
fn scanned_axes(s: &Scope<'_, '_>, sequences: &[Value], wanted: &[i64]) -> Result<(Vec<i64>, i64)> {
    let (mut axes, mut length) = (Vec::new(), None);
    for (k, sequence) in sequences.iter().enumerate() {
        let shape = &s.info(handle(std::slice::from_ref(sequence), 0)?).shape;
        let rank = shape.ndim().ok_or_else(|| Error::NeedsValue("the rank of a scanned input is not known".into()))?;
        let axis = Shape::axis(wanted.get(k).copied().unwrap_or(0), rank)?;
        let n = shape.dim(axis);
        if n >= 0 && length.is_some_and(|l| l >= 0 && l != n) {
            return Err(Error::value("scanned inputs differ in length"));
        }
        length = length.max(Some(n));
        axes.push(axis as i64);
    }
    Ok((axes, length.unwrap_or_default()))
}
