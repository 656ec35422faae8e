//! Branches and loops whose conditions are computed when the model runs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;

use super::subgraphs::{map_iteration, tensors};
use crate::emit::{Body, Operands, Scope, TensorId, op};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

/// A variable for a body input with the shape and type of an outer tensor.
fn variable_like(s: &mut Scope<'_, '_>, tensor: TensorId, suffix: &str) -> TensorId {
    let info = s.info(tensor);
    let (shape, dtype) = (info.shape.clone(), info.dtype);
    let name = format!("{}/{suffix}", s.name);
    s.builder().body_input(&name, shape, dtype, tensor)
}

/// Makes the outputs of a body depend on all of its inputs without changing their values, by a `where` that always selects the output.
/// `output_of` maps the index of each input to that of an output with the same shape.
fn use_inputs(
    s: &mut Scope<'_, '_>,
    values: &mut [TensorId],
    inputs: &[TensorId],
    output_of: impl Fn(usize) -> usize,
) -> Result<()> {
    let name = s.name.clone();
    for (i, input) in inputs.iter().enumerate() {
        let value = &mut values[output_of(i)];
        // An export writes `where` as Where, which other runtimes do not support for Boolean values.
        *value = if s.info(*value).dtype == Some(DType::Bool) {
            let never = s.builder().scalar(&format!("{name}/never"), false)?;
            let nothing = s.emit_named(op!(BITWISE_AND(*input, never)))?;
            s.emit_named(op!(BITWISE_OR(*value, nothing)))?
        } else {
            let always = s.builder().scalar(&format!("{name}/always"), true)?;
            s.emit_named(op!(WHERE(always, *value, *input)))?
        };
    }
    Ok(())
}

/// A body that uses all of these inputs, as the control flow operators require. If the outputs that `make` returns do not depend on all of
/// them, [`use_inputs`] is applied.
fn body_using(
    s: &mut Scope<'_, '_>,
    inputs: &[TensorId],
    output_of: impl Fn(usize) -> usize,
    make: impl FnOnce(&mut Scope<'_, '_>) -> Result<Vec<TensorId>>,
) -> Result<(Body, Vec<TensorId>)> {
    s.body(|s| {
        let mut values = make(s)?;
        let read: HashSet<String> = s.builder().group(&values).list_inputs().into_iter().collect();
        if inputs.iter().any(|input| !read.contains(&s.info(*input).name)) {
            use_inputs(s, &mut values, inputs, output_of)?;
        }
        Ok(values)
    })
}

/// Maps a loop body whose inputs and outputs are tensors.
fn map_tensors(s: &mut Scope<'_, '_>, body: &Graph, values: &[TensorId]) -> Result<Vec<TensorId>> {
    let values: Vec<Value> = values.iter().map(|id| Value::from(*id)).collect();
    tensors(map_iteration(s, body, &values)?)
}

/// The outputs of a graph without inputs.
fn outputs(s: &mut Scope<'_, '_>, graph: &Graph) -> Result<Vec<TensorId>> {
    tensors(s.context.graph(graph, HashMap::new())?)
}

/// `If` with an unknown condition: `_cond`.
pub(super) fn dynamic_branch(s: &mut Scope<'_, '_>, condition: TensorId, graphs: [&Graph; 2]) -> Result<Vec<TensorId>> {
    let mut bodies = Vec::new();
    let mut shapes = Vec::new();
    for graph in graphs {
        let (body, outputs) = s.body(|s| outputs(s, graph))?;
        shapes.push(outputs.iter().map(|o| s.info(*o).shape.clone()).collect::<Vec<_>>());
        bodies.push(body);
    }
    let is_compatible = |(a, b): (&Shape, &Shape)| a.clone().assign(b);
    if shapes[0].len() != shapes[1].len() || !shapes[0].iter().zip(&shapes[1]).all(is_compatible) {
        return Err(Error::NeedsValue(
            "the branches have outputs of different shapes, and which one runs is known only when the model runs"
                .into(),
        ));
    }
    let condition_variable = variable_like(s, condition, "condition");
    let (test, _) = s.body(|_| Ok(vec![condition_variable]))?;
    let mut operands = Operands::default();
    let index = operands.index_of(condition);
    let mut locs = |body: &Body| body.inputs().iter().map(|t| operands.index_of(*t)).collect::<Vec<_>>();
    let (then, otherwise) = (locs(&bodies[0]), locs(&bodies[1]));
    let cond = op!(
        COND(operands.values()), num_outputs: shapes[0].len(), cond_input_locs: vec![index], then_input_locs: then,
        else_input_locs: otherwise
    );
    s.emit_with_bodies(cond, &[&test, &bodies[0], &bodies[1]])
}

/// The operands of a loop.
pub(super) struct Loop<'a> {
    /// Maximum number of iterations, if there is a limit.
    pub trips: Option<TensorId>,
    /// The condition of the first iteration; absent if it is always true.
    pub condition: Option<TensorId>,
    /// The loop-carried values.
    pub carried: &'a [TensorId],
    /// The value of `trips`, if it is given and known.
    pub max_trip_count: Option<i64>,
}

/// `Loop` with an unknown number of iterations: `_while_loop`.
pub(super) fn dynamic_loop(s: &mut Scope<'_, '_>, operands: &Loop<'_>, body: &Graph) -> Result<Vec<TensorId>> {
    let Loop { trips, condition, carried, max_trip_count } = *operands;
    let num_scan_outputs = body.outputs.len().saturating_sub(carried.len() + 1);
    let start = s.builder().scalar("start", 0i64)?;
    let keep_going = match condition {
        None => s.builder().scalar("condition", true)?,
        Some(condition) => condition,
    };
    let initial: Vec<TensorId> = [start, keep_going].into_iter().chain(carried.iter().copied()).collect();
    let variables = initial.iter().enumerate();
    let variables: Vec<TensorId> =
        variables.map(|(i, value)| variable_like(s, *value, &format!("variable{i}"))).collect();
    let (round_body, outputs) = body_using(
        s,
        &variables,
        |i| num_scan_outputs + i,
        |s| {
            // The body returns condition, carried values and scan outputs; `_while_loop` expects scan outputs, counter, condition and
            // carried values.
            let mut values = map_tensors(s, body, &variables)?;
            let mut outputs = values.split_off(1 + carried.len());
            let next = s.emit_named(op!(PLUS_SCALAR(variables[0]), scalar: 1.0))?;
            let keep_going = if condition.is_some() { values[0] } else { variables[1] };
            outputs.extend([next, keep_going]);
            outputs.extend(values.drain(1..));
            Ok(outputs)
        },
    )?;
    for (v, out) in variables.iter().zip(&outputs[num_scan_outputs..]) {
        if !s.info(*v).shape.clone().assign(&s.info(*out).shape) {
            return Err(Error::NeedsValue("a loop-carried value changes its shape between iterations".into()));
        }
    }
    let has_constant_condition = condition.is_none() || s.info(outputs[num_scan_outputs + 1]).value.is_some();
    if num_scan_outputs > 0 && !(has_constant_condition && max_trip_count.is_some()) {
        return Err(Error::NeedsValue(
            "the number of iterations of a loop is known only when the model runs, and so is the length of its outputs"
                .into(),
        ));
    }
    let (test, _) = s.body(|s| {
        let Some(trips) = trips else { return Ok(vec![variables[1]]) };
        let before = s.emit_named(op!(LESS(variables[0], trips)))?;
        Ok(vec![s.emit_named(op!(BITWISE_AND(variables[1], before)))?])
    })?;
    while_loop(s, &initial, &variables, num_scan_outputs, [&test, &round_body], max_trip_count)
}

/// Adds `_while_loop` and returns the final carried values and the scan outputs. The variables begin with the counter and the condition.
fn while_loop(
    s: &mut Scope<'_, '_>,
    initial: &[TensorId],
    variables: &[TensorId],
    num_scan_outputs: usize,
    [test, round_body]: [&Body; 2],
    max_trip_count: Option<i64>,
) -> Result<Vec<TensorId>> {
    // The variables are the first operands. Each has an index of its own, even if two share an initial tensor.
    let mut operands = Operands::default();
    let mut index = |t: &TensorId| match variables.iter().position(|v| v == t) {
        Some(i) => i as i64,
        None => variables.len() as i64 + operands.index_of(*t),
    };
    let test_locs: Vec<i64> = test.inputs().iter().map(&mut index).collect();
    let round_locs: Vec<i64> = round_body.inputs().iter().map(&mut index).collect();
    let of = |v: &TensorId| round_body.inputs().iter().position(|t| t == v).map_or(0, |i| i as i64);
    let inputs = [initial.to_vec(), operands.values()].concat();
    let max_trip_count = max_trip_count.unwrap_or(i64::MAX).clamp(0, i64::from(i32::MAX));
    let while_loop = op!(
        WHILE_LOOP(inputs), num_outputs: num_scan_outputs + variables.len(), num_out_data: num_scan_outputs, max_iterations: max_trip_count,
        cond_input_locs: test_locs, func_input_locs: round_locs,
        func_var_locs: variables.iter().map(of).collect::<Vec<_>>()
    );
    let outputs = s.emit_with_bodies(while_loop, &[test, round_body])?;
    let (scan_outputs, final_values) = outputs.split_at(num_scan_outputs);
    Ok([&final_values[2..], scan_outputs].concat())
}

/// A scanned input.
pub(super) struct Sequence {
    /// The tensor.
    pub tensor: TensorId,
    /// The scanned axis.
    pub axis: i64,
    /// True if it is scanned from the end.
    pub is_reversed: bool,
}

/// How an output is stacked.
#[derive(Clone, Copy)]
pub(super) struct Stacking {
    /// The new axis.
    pub axis: i64,
    /// True if the output of the first iteration comes last.
    pub is_reversed: bool,
}

/// The operands of a scan.
pub(super) struct Scan<'a> {
    /// The initial states.
    pub states: &'a [TensorId],
    /// The scanned tensors.
    pub sequences: Vec<Sequence>,
    /// The stacked outputs.
    pub outputs: Vec<Stacking>,
}

/// A body input that receives the rows of a scanned input.
struct Row {
    variable: TensorId,
    /// True for the elements of a vector, which have the shape (1,) in `_foreach` and () in ONNX.
    is_scalar: bool,
}

/// `Scan` of an unknown length, or too long to be unrolled: `_foreach`.
pub(super) fn dynamic_scan(s: &mut Scope<'_, '_>, scan: &Scan<'_>, body: &Graph) -> Result<Vec<TensorId>> {
    let (mut data, mut rows) = (Vec::new(), Vec::new());
    for (i, sequence) in scan.sequences.iter().enumerate() {
        let (tensor, row) = scanned_rows(s, sequence, i)?;
        data.push(tensor);
        rows.push(row);
    }
    let states = scan.states.iter().enumerate();
    let states: Vec<TensorId> = states.map(|(i, state)| variable_like(s, *state, &format!("state{i}"))).collect();
    let num_outputs = scan.outputs.len();
    let scalars = RefCell::new(Vec::new());
    let make = |s: &mut Scope<'_, '_>| -> Result<Vec<TensorId>> {
        let mut inputs = states.clone();
        for Row { variable, is_scalar } in &rows {
            inputs.push(match is_scalar {
                true => s.emit_named(op!(RESHAPE(*variable), newshape: Vec::<i64>::new()))?,
                false => *variable,
            });
        }
        let mut final_states = map_tensors(s, body, &inputs)?;
        let scan_outputs = final_states.split_off(states.len());
        scalars.borrow_mut().clear();
        let mut outs = Vec::new();
        for value in scan_outputs {
            let is_scalar = s.info(value).shape.ndim() == Some(0);
            scalars.borrow_mut().push(is_scalar);
            outs.push(if is_scalar { s.emit_named(op!(RESHAPE(value), newshape: vec![1]))? } else { value });
        }
        outs.extend(final_states);
        Ok(outs)
    };
    let (step, _) = body_using(s, &states, |i| num_outputs + i, make)?;
    let used: Vec<usize> = (0..rows.len()).filter(|i| step.inputs().contains(&rows[*i].variable)).collect();
    if used.is_empty() {
        return Err(Error::NeedsValue("the body of a scan does not use its scanned inputs".into()));
    }
    let index = |t: &TensorId| step.inputs().iter().position(|i| i == t).map_or(0, |i| i as i64);
    let is_variable = |t: &TensorId| states.contains(t) || rows.iter().any(|row| row.variable == *t);
    let rest: Vec<TensorId> = step.inputs().iter().copied().filter(|t| !is_variable(t)).collect();
    let scanned: Vec<TensorId> = used.iter().map(|i| data[*i]).collect();
    let foreach = op!(
        FOREACH([&scanned, scan.states, &rest].concat()), num_outputs: num_outputs + states.len(), num_out_data: num_outputs,
        in_data_locs: used.iter().map(|i| index(&rows[*i].variable)).collect::<Vec<_>>(),
        in_state_locs: states.iter().map(index).collect::<Vec<_>>(),
        remain_locs: rest.iter().map(index).collect::<Vec<_>>()
    );
    let outputs = s.emit_with_bodies(foreach, &[&step])?;
    let mut values = outputs[num_outputs..].to_vec();
    for (k, stacking) in scan.outputs.iter().enumerate() {
        let is_scalar = scalars.borrow()[k];
        values.push(scan_output(s, outputs[k], is_scalar, *stacking)?);
    }
    Ok(values)
}

/// A scanned input as `_foreach` takes it, with the scanned axis first and in order of iterations, and the variable for its rows.
fn scanned_rows(s: &mut Scope<'_, '_>, sequence: &Sequence, index: usize) -> Result<(TensorId, Row)> {
    let mut tensor = sequence.tensor;
    if sequence.axis != 0 {
        tensor = s.emit_named(op!(MOVEAXIS(tensor), source: vec![sequence.axis], destination: vec![0]))?;
    }
    if sequence.is_reversed {
        tensor = s.emit_named(op!(FLIP(tensor), axis: vec![0]))?;
    }
    let info = s.info(tensor);
    let (rest, dtype) = (info.shape.dims().get(1..).unwrap_or(&[]).to_vec(), info.dtype);
    let is_scalar = rest.is_empty();
    let shape = Shape::new(if is_scalar { &[1] } else { &rest });
    let name = format!("{}/row{index}", s.name);
    let variable = s.builder().body_input(&name, shape, dtype, tensor);
    Ok((tensor, Row { variable, is_scalar }))
}

/// Converts an output of `_foreach` to a Scan output of ONNX. With `is_scalar`, rows of shape (1,) become scalars.
fn scan_output(s: &mut Scope<'_, '_>, mut output: TensorId, is_scalar: bool, stacking: Stacking) -> Result<TensorId> {
    if is_scalar {
        output = s.emit_named(op!(SQUEEZE(output), axis: vec![1]))?;
    }
    if stacking.is_reversed {
        output = s.emit_named(op!(FLIP(output), axis: vec![0]))?;
    }
    if stacking.axis != 0 {
        output = s.emit_named(op!(MOVEAXIS(output), source: vec![0], destination: vec![stacking.axis]))?;
    }
    Ok(output)
}
