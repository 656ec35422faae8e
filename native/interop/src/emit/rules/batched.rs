//! Scan of operator set 8, which has a batch axis: a scan over the batch whose body scans one sequence. Past the end of a sequence, the
//! states no longer change and the outputs are zero.

use std::collections::HashMap;
use std::sync::Arc;

use super::control::{Directions, MAX_UNROLLED, scan};
use super::rules;
use crate::emit::{Scope, TensorId};
use crate::error::{Error, Result};
use crate::ir::{Graph, Node, Value, ValueInfo};

rules! {
    /// ONNX's Scan of version 8: axis 0 is the batch, axis 1 the sequence. `inputs` is the number of scanned inputs.
    fn scanned_batches(
        s, lengths: Option<TensorId>, values: Vec<TensorId>, body: Arc<Graph>, inputs: i64, directions: Option<Vec<i64>>,
    ) -> Vec<TensorId> {
        let mut values = values;
        let scans = usize::try_from(inputs).ok().filter(|n| *n >= 1 && *n <= values.len());
        let scans = scans.ok_or_else(|| Error::format("num_scan_inputs does not match the inputs"))?;
        let states = values.len() - scans;
        if body.inputs.len() != values.len() || body.outputs.len() < states {
            let (inputs, outputs) = (body.inputs.len(), body.outputs.len());
            return Err(Error::format(format!(
                "its body has {inputs} inputs and {outputs} outputs, where {states} states and {scans} rows need {} inputs and \
                 at least {states} outputs",
                values.len()
            )));
        }
        let mut directions = directions.unwrap_or_default();
        directions.resize(scans, 0);
        if let Some(lengths) = lengths {
            check_lengths(s, lengths, values[states])?;
            for (value, direction) in values[states..].iter_mut().zip(&mut directions) {
                if std::mem::take(direction) == 1 {
                    *value = reversed(s, *value, lengths)?;
                }
            }
            values.push(lengths);
        }
        let batch_body = batch_body(&s.name, &body, states, directions, lengths.is_some());
        let limit = if total_length(s, values[states])? <= MAX_UNROLLED { MAX_UNROLLED } else { 0 };
        let scans = values.len();
        scan(s, &values, &batch_body, scans, &Directions::default(), limit)
    }
}

/// The total length of all sequences; `i64::MAX` if it is unknown.
fn total_length(s: &Scope<'_, '_>, rows: TensorId) -> Result<i64> {
    match s.info(rows).shape.dims() {
        [batch, length, ..] if *batch >= 0 && *length >= 0 => Ok(batch.saturating_mul(*length)),
        [_] => Err(Error::value("a scanned input needs a batch axis and a sequence axis, but has one dimension")),
        _ => Ok(i64::MAX),
    }
}

/// Rejects lengths that are known and exceed the sequences.
fn check_lengths(s: &Scope<'_, '_>, lengths: TensorId, rows: TensorId) -> Result<()> {
    let max_length = s.info(rows).shape.dims().get(1).copied().filter(|n| *n >= 0).unwrap_or(i64::MAX);
    let Some(known) = &s.info(lengths).value else { return Ok(()) };
    match known.to_vec_as::<f64>()?.iter().find(|n| **n < 0.0 || **n > max_length as f64) {
        Some(wrong) => {
            Err(Error::value(format!("sequence_lens has {wrong}, but sequences have at most {max_length} elements")))
        }
        None => Ok(()),
    }
}

/// Reverses the first `lengths` elements of each sequence.
fn reversed(s: &mut Scope<'_, '_>, rows: TensorId, lengths: TensorId) -> Result<TensorId> {
    let axes = [("time_axis", Value::Int(1)), ("batch_axis", Value::Int(0))];
    let name = format!("{}/reversed", s.name);
    let graph = Graph {
        nodes: vec![node("ReverseSequence", 10, &["rows", "lengths"], &[&name], &axes)],
        inputs: vec![untyped("rows"), untyped("lengths")],
        outputs: vec![untyped(&name)],
        ..Graph::default()
    };
    let inputs = [("rows", rows), ("lengths", lengths)].map(|(name, tensor)| (name.to_string(), tensor.into()));
    match s.context.graph(&graph, HashMap::from(inputs))?.pop() {
        Some(Value::TensorId(reversed)) => Ok(TensorId(reversed)),
        _ => Err(Error::format("nothing was reversed")),
    }
}

fn untyped(name: &str) -> ValueInfo {
    ValueInfo { name: name.into(), element: None, dims: None, non_tensor_kind: None }
}

fn node(op: &str, version: i64, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> Node {
    let texts = |items: &[&str]| items.iter().map(|t| t.to_string()).collect();
    Node {
        name: outputs[0].into(),
        op: op.into(),
        inputs: texts(inputs),
        outputs: texts(outputs),
        attributes: attributes.iter().map(|(k, v)| (k.to_string(), v.clone())).collect(),
        version: Some(version),
        ..Node::default()
    }
}

/// The body of the scan over the batch. Its inputs are states, sequences and, if `lengths` is true, the length of the sequences.
fn batch_body(prefix: &str, body: &Arc<Graph>, states: usize, directions: Vec<i64>, lengths: bool) -> Graph {
    let name = |what: &str, i: usize| format!("{prefix}/{what}{i}");
    let inputs: Vec<String> = (0..body.inputs.len()).map(|i| name("sequence", i)).collect();
    let outputs: Vec<String> = (0..body.outputs.len()).map(|i| name("made", i)).collect();
    let (mut scan_inputs, mut scan_outputs) = (inputs.clone(), outputs.clone());
    let mut batch_body = Graph::default();
    let mut body_step = body.clone();
    batch_body.inputs.extend(inputs.iter().map(|n| untyped(n)));
    if lengths {
        let (length, start, end) = (name("length", 0), name("start", 0), name("end", 0));
        body_step = Arc::new(masked_body(prefix, body, states, &length));
        batch_body.inputs.push(untyped(&length));
        batch_body.nodes.push(node("Constant", 13, &[], &[&start], &[("value_int", Value::Int(0))]));
        scan_inputs.insert(0, start);
        scan_outputs.insert(0, end);
    }
    let attributes = [
        ("body", Value::Graph(body_step)),
        ("num_scan_inputs", Value::Int((inputs.len() - states) as i64)),
        ("scan_input_directions", directions.into()),
    ];
    let (scan_inputs, scan_outputs): (Vec<_>, Vec<_>) =
        (scan_inputs.iter().map(String::as_str).collect(), scan_outputs.iter().map(String::as_str).collect());
    batch_body.nodes.push(node("Scan", 9, &scan_inputs, &scan_outputs, &attributes));
    batch_body.outputs = outputs.iter().map(|n| untyped(n)).collect();
    batch_body
}

/// A body that counts its iterations. From iteration `length` on, it leaves the states unchanged and outputs zeros.
fn masked_body(prefix: &str, body: &Graph, states: usize, length: &str) -> Graph {
    let name = |what: &str, i: usize| format!("{prefix}/{what}{i}");
    let (round, next, one, goes_on, nothing) =
        (name("round", 0), name("round", 1), name("one", 0), name("goes_on", 0), name("nothing", 0));
    let mut body_step = body.clone();
    body_step.inputs.insert(0, untyped(&round));
    body_step.nodes.push(node("Less", 9, &[&round, length], &[&goes_on], &[]));
    body_step.nodes.push(node("Constant", 13, &[], &[&one], &[("value_int", Value::Int(1))]));
    body_step.nodes.push(node("Add", 7, &[&round, &one], &[&next], &[]));
    body_step.nodes.push(node("Constant", 13, &[], &[&nothing], &[("value_float", Value::Float(0.0))]));
    let mut ends = vec![untyped(&next)];
    for (i, output) in body.outputs.iter().enumerate() {
        let end = name("end", i + 1);
        let otherwise = match body.inputs.get(i).filter(|_| i < states) {
            Some(state) => state.name.clone(),
            None => {
                let zero = name("zero", i);
                body_step.nodes.push(node("CastLike", 15, &[&nothing, &output.name], &[&zero], &[]));
                zero
            }
        };
        body_step.nodes.push(node("Where", 9, &[&goes_on, &output.name, &otherwise], &[&end], &[]));
        ends.push(ValueInfo { name: end, ..output.clone() });
    }
    body_step.outputs = ends;
    body_step
}
