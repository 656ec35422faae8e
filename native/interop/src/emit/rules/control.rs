//! Rules for operators with subgraphs. If the condition is known, a branch is inlined and a loop unrolled; otherwise they become control
//! flow operators, see [`loops`].

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::subgraphs::{map_graph, map_iteration, tensors};
use super::{loops, rules};
use crate::emit::{Scope, TensorId, op};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

rules! {
    /// ONNX's If: the outputs of one of two graphs.
    fn branch(s, condition: TensorId, then: Arc<Graph>, otherwise: Arc<Graph>) -> Vec<Value> {
        match condition_value(s, condition) {
            Ok(holds) => map_graph(s, if holds { &then } else { &otherwise }, &[]),
            Err(Error::NeedsValue(_)) => loops::dynamic_branch(s, condition, [&then, &otherwise]).map(values),
            Err(e) => Err(e),
        }
    }

    /// ONNX's Loop: the final values, then the scan outputs of all iterations, stacked along a new first axis.
    fn looped(
        s, trips: Option<TensorId>, condition: Option<TensorId>, initial: &[Value], body: Arc<Graph>,
    ) -> Vec<Value> {
        let trip_count = match trips {
            None => Ok(i64::MAX),
            Some(trips) => known(s, trips).and_then(|a| Ok(a.to_vec::<i64>()?.first().copied().unwrap_or_default())),
        };
        let unrolled = match &trip_count {
            Ok(trip_count) => {
                let start = s.context.emitter().unrolling.num_mapped;
                let outer = s.context.emitter_mut().unrolling.begin();
                let unrolled = unroll(s, condition, initial, &body, *trip_count);
                s.context.emitter_mut().unrolling.end(start, outer, unrolled.is_ok());
                unrolled
            }
            Err(e) => Err(e.clone()),
        };
        match unrolled {
            Err(Error::NeedsValue(_)) if !s.is_executing() => {
                let max_trip_count = trip_count.ok().filter(|_| trips.is_some());
                let carried = tensors(initial.to_vec())?;
                let outputs = loops::dynamic_loop(s, &loops::Loop { trips, condition, carried: &carried, max_trip_count }, &body);
                outputs.map(values)
            }
            result => result,
        }
    }

    /// Scan of ONNX. `inputs` is the number of scanned inputs; `how` is a list: input axes, input directions, output axes, output
    /// directions.
    fn scanned(s, values: Vec<TensorId>, body: Arc<Graph>, inputs: i64, how: &[Value]) -> Vec<TensorId> {
        let num_scans = usize::try_from(inputs).ok().filter(|n| *n >= 1 && *n <= values.len());
        let num_scans = num_scans.ok_or_else(|| Error::format("num_scan_inputs does not match the inputs"))?;
        let mut how = how.iter().map(|v| v.ints().unwrap_or_default());
        let mut next = || how.next().unwrap_or_default();
        let directions =
            Directions { axes: next(), directions: next(), output_axes: next(), output_directions: next() };
        scan(s, &values, &body, num_scans, &directions, MAX_UNROLLED)
    }
}

/// Maximum number of iterations of a loop that is unrolled into a graph.
pub(super) const MAX_UNROLLED: i64 = 256;
/// Maximum number of iterations of a loop when a model is executed.
const MAX_EXECUTED: i64 = 100_000_000;

fn values(tensors: Vec<TensorId>) -> Vec<Value> {
    tensors.into_iter().map(Value::from).collect()
}

/// The value of a condition or trip count.
fn known(s: &Scope<'_, '_>, tensor: TensorId) -> Result<NDArray> {
    s.info(tensor).value.clone().ok_or_else(|| {
        Error::NeedsValue("the branch or loop depends on a tensor whose value is known only when the model runs".into())
    })
}

fn condition_value(s: &Scope<'_, '_>, tensor: TensorId) -> Result<bool> {
    match known(s, tensor)?.to_vec_as::<f64>()?.as_slice() {
        [x] => Ok(*x != 0.0),
        many => Err(Error::value(format!("a condition has {} elements", many.len()))),
    }
}

/// Stacks one output of all iterations along a new axis. `output` is its index among the outputs of the body.
fn stack(s: &mut Scope<'_, '_>, iterations: Vec<TensorId>, axis: i64, body: &Graph, output: usize) -> Result<TensorId> {
    if iterations.is_empty() {
        // Without iterations, only the body declares the shape and type of the empty result.
        let info = body.outputs.get(output);
        let dtype = info.and_then(|i| i.element.as_ref()).and_then(|e| e.dtype().ok()).unwrap_or(DType::F32);
        let dims = info.map(|i| i.shape().dims().iter().map(|d| (*d).max(0)).collect::<Vec<_>>()).unwrap_or_default();
        let dims: Vec<i64> = [0].into_iter().chain(dims).collect();
        let empty = NDArray::zeros(&Shape::new(&dims), dtype, Context::default())?;
        return Ok(s.constant(empty));
    }
    s.emit_named(op!(STACK(iterations), axis: axis))
}

/// Unrolls a loop with a known maximum number of iterations.
fn unroll(
    s: &mut Scope<'_, '_>,
    condition: Option<TensorId>,
    carried: &[Value],
    body: &Graph,
    trips: i64,
) -> Result<Vec<Value>> {
    let mut keep_going = condition;
    let mut values = carried.to_vec();
    let num_scans = body.outputs.len().checked_sub(carried.len() + 1);
    let num_scans =
        num_scans.ok_or_else(|| Error::format("the body of the loop has fewer outputs than loop-carried values"))?;
    let mut scan_outputs: Vec<Vec<TensorId>> = vec![Vec::new(); num_scans];
    let limit = if s.is_executing() { MAX_EXECUTED } else { MAX_UNROLLED };
    let too_long = || Error::NeedsValue(format!("a loop runs for more than {limit} iterations"));
    if condition.is_none() && trips > limit {
        return Err(too_long());
    }
    let mut i = 0;
    while i < trips && keep_going.map_or(Ok(true), |keep_going| condition_value(s, keep_going))? {
        if i >= limit {
            return Err(too_long());
        }
        if s.context.emitter().unrolling.is_exhausted() {
            return Err(Error::NeedsValue("nested loops are too long to be unrolled".into()));
        }
        let condition_in = match keep_going {
            Some(tensor) => tensor,
            None => s.constant(NDArray::from_slice(&[true], &[])?),
        };
        let counter = s.constant(NDArray::from_slice(&[i], &[])?);
        let inputs: Vec<Value> = [counter, condition_in].map(Value::from).into_iter().chain(values).collect();
        let mut outputs = map_iteration(s, body, &inputs)?;
        let scanned = outputs.split_off(1 + carried.len());
        scan_outputs.iter_mut().zip(tensors(scanned)?).for_each(|(all, output)| all.push(output));
        values = outputs.split_off(1);
        // Without a condition, the body's condition output is ignored.
        if condition.is_some() {
            keep_going = tensors(outputs)?.pop();
        }
        i += 1;
    }
    for (k, iterations) in scan_outputs.into_iter().enumerate() {
        values.push(stack(s, iterations, 0, body, 1 + carried.len() + k)?.into());
    }
    Ok(values)
}

/// The axes and directions of a Scan's inputs and outputs, as in its attributes. Missing entries are 0.
#[derive(Default)]
pub(super) struct Directions {
    /// The scanned axes of the inputs.
    pub axes: Vec<i64>,
    /// For each input, 1 if it is scanned in reverse.
    pub directions: Vec<i64>,
    /// The axes along which outputs are stacked.
    pub output_axes: Vec<i64>,
    /// For each output, 1 if it is stacked in reverse.
    pub output_directions: Vec<i64>,
}

/// A scan over the last `num_scans` values; the others are states. It is unrolled for up to `max_unrolled` iterations, and a `_foreach`
/// operator otherwise.
pub(super) fn scan(
    s: &mut Scope<'_, '_>,
    values: &[TensorId],
    body: &Graph,
    num_scans: usize,
    how: &Directions,
    max_unrolled: i64,
) -> Result<Vec<TensorId>> {
    let (states, sequences) = values.split_at(values.len() - num_scans);
    let option = |list: &[i64], k: usize| list.get(k).copied().unwrap_or(0);
    let is_reversed = |list: &[i64], k: usize| option(list, k) == 1;
    let (axes, length) = scanned_axes(s, sequences, &how.axes)?;
    let num_outputs = body.outputs.len().checked_sub(states.len());
    let num_outputs = num_outputs.ok_or_else(|| Error::format("the body of the scan has fewer outputs than states"))?;
    if length < 0 || length > if s.is_executing() { MAX_EXECUTED } else { max_unrolled } {
        let sequence = |(k, tensor): (usize, &TensorId)| loops::Sequence {
            tensor: *tensor,
            axis: axes[k],
            is_reversed: is_reversed(&how.directions, k),
        };
        let sequences = sequences.iter().enumerate().map(sequence).collect();
        let output = |k: usize| loops::Stacking {
            axis: option(&how.output_axes, k),
            is_reversed: is_reversed(&how.output_directions, k),
        };
        let outputs = (0..num_outputs).map(output).collect();
        return loops::dynamic_scan(s, &loops::Scan { states, sequences, outputs }, body);
    }
    let mut values = states.to_vec();
    let mut scan_outputs: Vec<Vec<TensorId>> = vec![Vec::new(); num_outputs];
    for i in 0..length {
        let mut inputs = values.clone();
        for (k, sequence) in sequences.iter().enumerate() {
            let index = if is_reversed(&how.directions, k) { length - 1 - i } else { i };
            let slice = s.emit(op!(SLICE_AXIS(*sequence), axis: axes[k], begin: index, end: index + 1))?;
            inputs.push(s.emit(op!(SQUEEZE(slice), axis: vec![axes[k]]))?);
        }
        let inputs: Vec<Value> = inputs.into_iter().map(Value::from).collect();
        let mut outputs = tensors(map_iteration(s, body, &inputs)?)?;
        let scanned = outputs.split_off(values.len());
        values = outputs;
        scan_outputs.iter_mut().zip(scanned).for_each(|(all, output)| all.push(output));
    }
    let num_states = values.len();
    for (k, mut iterations) in scan_outputs.into_iter().enumerate() {
        if is_reversed(&how.output_directions, k) {
            iterations.reverse();
        }
        values.push(stack(s, iterations, option(&how.output_axes, k), body, num_states + k)?);
    }
    Ok(values)
}

/// The scanned axes and their common length, -1 if it is not known.
fn scanned_axes(s: &Scope<'_, '_>, sequences: &[TensorId], wanted: &[i64]) -> Result<(Vec<i64>, i64)> {
    let (mut axes, mut length) = (Vec::new(), None);
    for (k, sequence) in sequences.iter().enumerate() {
        let shape = &s.info(*sequence).shape;
        let rank = shape.ndim().ok_or_else(|| Error::NeedsValue("the rank of a scanned input is unknown".into()))?;
        let axis = Shape::axis(wanted.get(k).copied().unwrap_or(0), rank)?;
        let n = shape.dim(axis);
        if n >= 0 && length.is_some_and(|l| l >= 0 && l != n) {
            return Err(Error::value("the scanned inputs have different lengths"));
        }
        length = length.max(Some(n));
        axes.push(axis as i64);
    }
    Ok((axes, length.unwrap_or_default()))
}
