//! Branches and loops that are decided when the model runs.

use std::cell::RefCell;

use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;

use crate::emit::{Body, Operands, Scope};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

/// The tensor of a value.
fn tensor(value: &Value) -> Result<usize> {
    match value {
        Value::Handle(h) => Ok(*h),
        other => Err(Error::value(format!("a {} was given where a tensor was expected", other.kind()))),
    }
}

/// Adds an operator with one output to the graph.
fn apply(s: &mut Scope<'_, '_>, op: &str, inputs: &[Value], params: &[(&str, Value)]) -> Result<Value> {
    let name = s.name.clone();
    Ok(Value::Handle(s.builder().apply(op, &name, inputs, params)?[0]))
}

fn list(places: Vec<i64>) -> Value {
    Value::from(places)
}

fn handles(made: Vec<usize>) -> Value {
    Value::List(made.into_iter().map(Value::Handle).collect())
}

/// A variable for an input of a body, with the shape and type of an outer tensor.
fn like(s: &mut Scope<'_, '_>, value: &Value, what: &str) -> Result<usize> {
    let given = tensor(value)?;
    let info = s.info(given);
    let (shape, dtype) = (info.shape.clone(), info.dtype);
    let name = format!("{}/{what}", s.name);
    Ok(s.builder().body_input(&name, shape, dtype, given))
}

/// Makes the outputs of a body depend on unused inputs without changing their values, by a `where` that always selects the output. `of`
/// gives the output with the shape of each input.
fn keep(s: &mut Scope<'_, '_>, values: &mut [Value], inputs: &[usize], of: impl Fn(usize) -> usize) -> Result<()> {
    let name = s.name.clone();
    for (i, input) in inputs.iter().enumerate() {
        let (out, input) = (of(i), Value::Handle(*input));
        let made = values[out].clone();
        // Other runtimes lack Where for Booleans.
        values[out] = if s.info(tensor(&made)?).dtype == Some(DType::Bool) {
            let never = s.builder().scalar(&format!("{name}/never"), false)?;
            let nothing = apply(s, "_npi_bitwise_and", &[input, never], &[])?;
            apply(s, "_npi_bitwise_or", &[made, nothing], &[])?
        } else {
            let always = s.builder().scalar(&format!("{name}/always"), true)?;
            apply(s, "_npi_where", &[always, made, input], &[])?
        };
    }
    Ok(())
}

/// True if a body does not use some of the tensors.
fn unused(body: &Body, inputs: &[usize]) -> bool {
    inputs.iter().any(|i| !body.inputs().contains(i))
}

/// A body that uses all of these inputs. If the plain body does not, it is created again with [`keep`].
fn using(
    s: &mut Scope<'_, '_>,
    inputs: &[usize],
    of: impl Fn(usize) -> usize + Copy,
    make: impl Fn(&mut Scope<'_, '_>) -> Result<Vec<Value>>,
) -> Result<(Body, Vec<usize>)> {
    let whole = |s: &mut Scope<'_, '_>, all: bool| {
        let mut values = make(s)?;
        if all {
            keep(s, &mut values, inputs, of)?;
        }
        Ok(values)
    };
    let made = s.body(|s| whole(s, false))?;
    if unused(&made.0, inputs) { s.body(|s| whole(s, true)) } else { Ok(made) }
}

/// `If` with an unknown condition: `_cond`.
pub(super) fn branch(s: &mut Scope<'_, '_>, condition: &Value, graphs: [&Graph; 2]) -> Result<Value> {
    let mut bodies = Vec::new();
    let mut shapes = Vec::new();
    for graph in graphs {
        let (body, outputs) = s.body(|s| s.context.graph(graph, Default::default()))?;
        shapes.push(outputs.iter().map(|o| s.info(*o).shape.clone()).collect::<Vec<_>>());
        bodies.push(body);
    }
    let same = |(a, b): (&Shape, &Shape)| a.clone().assign(b);
    if shapes[0].len() != shapes[1].len() || !shapes[0].iter().zip(&shapes[1]).all(same) {
        return Err(Error::NeedsValue(
            "the branches make outputs of different shapes, and which one runs is known only when the model runs"
                .into(),
        ));
    }
    let asked = like(s, condition, "condition")?;
    let (test, _) = s.body(|_| Ok(vec![Value::Handle(asked)]))?;
    let mut operands = Operands::default();
    let index = operands.index_of(tensor(condition)?);
    let mut locs = |body: &Body| list(body.inputs().iter().map(|t| operands.index_of(*t)).collect());
    let (then, otherwise) = (locs(&bodies[0]), locs(&bodies[1]));
    let params = [
        ("num_outputs", Value::Int(shapes[0].len() as i64)),
        ("cond_input_locs", list(vec![index])),
        ("then_input_locs", then),
        ("else_input_locs", otherwise),
    ];
    Ok(handles(s.with_bodies("_cond", &[&test, &bodies[0], &bodies[1]], &operands.values(), &params)?))
}

/// `Loop` with an unknown number of rounds: `_while_loop`. `most` is the constant maximum of rounds, if there is one.
pub(super) fn looped(
    s: &mut Scope<'_, '_>,
    trips: &Value,
    condition: &Value,
    carried: &[Value],
    body: &Graph,
    most: Option<i64>,
) -> Result<Value> {
    let rows = body.outputs.len().saturating_sub(carried.len() + 1);
    let start = s.builder().scalar("start", 0i64)?;
    let goes_on = match condition {
        Value::None => s.builder().scalar("condition", true)?,
        given => given.clone(),
    };
    let first: Vec<Value> = [start, goes_on].into_iter().chain(carried.iter().cloned()).collect();
    let mut variables = Vec::new();
    for (i, value) in first.iter().enumerate() {
        variables.push(like(s, value, &format!("variable{i}"))?);
    }
    let conditional = *condition != Value::None;
    let (round, outputs) = using(
        s,
        &variables,
        |i| rows + i,
        |s| {
            let given = variables.iter().map(|v| Value::Handle(*v)).collect();
            let mut made = super::control::round(s, body, given)?;
            let mut last = made.split_off(1 + carried.len());
            let next = apply(s, "_plus_scalar", &[Value::Handle(variables[0])], &[("scalar", Value::Int(1))])?;
            // An absent condition is always true.
            let on = if conditional { made[0].clone() } else { Value::Handle(variables[1]) };
            last.extend([next, on]);
            last.extend(made.drain(1..));
            Ok(last)
        },
    )?;
    for (v, out) in variables.iter().zip(&outputs[rows..]) {
        let builder = &s.context.emitter().builder;
        if !builder.info(*v).shape.clone().assign(&builder.info(*out).shape) {
            return Err(Error::NeedsValue("a value that a loop carries changes its shape from round to round".into()));
        }
    }
    let always = !conditional || s.info(outputs[rows + 1]).value.is_some();
    if rows > 0 && !(always && most.is_some()) {
        return Err(Error::NeedsValue(
            "how many rounds a loop makes is known only when the model runs, and so is the length of what it collects"
                .into(),
        ));
    }
    let (test, _) = s.body(|s| {
        let on = Value::Handle(variables[1]);
        let before = match trips {
            Value::None => return Ok(vec![on]),
            trips => apply(s, "_npi_less", &[Value::Handle(variables[0]), trips.clone()], &[])?,
        };
        Ok(vec![apply(s, "_npi_bitwise_and", &[on, before], &[])?])
    })?;
    while_loop(s, &first, &variables, rows, [&test, &round], most)
}

/// Adds `_while_loop`; its variables begin with the counter and the condition.
fn while_loop(
    s: &mut Scope<'_, '_>,
    first: &[Value],
    variables: &[usize],
    rows: usize,
    [test, round]: [&Body; 2],
    most: Option<i64>,
) -> Result<Value> {
    // The variables come first; each has its own index, even if two start as the same tensor.
    let mut inputs = first.to_vec();
    let mut operands = Operands::default();
    let mut index = |t: &usize| match variables.iter().position(|v| v == t) {
        Some(i) => i as i64,
        None => variables.len() as i64 + operands.index_of(*t),
    };
    let test_locs = list(test.inputs().iter().map(&mut index).collect());
    let round_locs = list(round.inputs().iter().map(&mut index).collect());
    let of = |v: &usize| round.inputs().iter().position(|t| t == v).map_or(0, |i| i as i64);
    inputs.extend(operands.values());
    let most = most.unwrap_or(i64::MAX).clamp(0, i64::from(i32::MAX));
    let params = [
        ("num_outputs", Value::Int((rows + variables.len()) as i64)),
        ("num_out_data", Value::Int(rows as i64)),
        ("max_iterations", Value::Int(most)),
        ("cond_input_locs", test_locs),
        ("func_input_locs", round_locs),
        ("func_var_locs", list(variables.iter().map(of).collect())),
    ];
    let made = s.with_bodies("_while_loop", &[test, round], &inputs, &params)?;
    let (collected, last) = made.split_at(rows);
    Ok(handles(last[2..].iter().chain(collected).copied().collect()))
}

/// The operands of a scan.
pub(super) struct Scanned<'a> {
    /// The initial states.
    pub states: &'a [Value],
    /// The scanned tensors, each with the scanned axis and true for reverse.
    pub sequences: Vec<(Value, i64, bool)>,
    /// For each stacked output the new axis, and true for reverse.
    pub outputs: Vec<(i64, bool)>,
}

/// `Scan` of an unknown length, or too long to be unrolled: `_foreach`.
pub(super) fn scanned(s: &mut Scope<'_, '_>, scan: &Scanned<'_>, body: &Graph) -> Result<Value> {
    let mut data = Vec::new();
    let mut rows = Vec::new();
    for (i, (sequence, axis, reverse)) in scan.sequences.iter().enumerate() {
        let mut value = sequence.clone();
        if *axis != 0 {
            let params = [("source", list(vec![*axis])), ("destination", list(vec![0]))];
            value = apply(s, "_np_moveaxis", &[value], &params)?;
        }
        if *reverse {
            value = apply(s, "_npi_flip", &[value], &[("axis", list(vec![0]))])?;
        }
        let given = tensor(&value)?;
        let info = s.info(given);
        let (rest, dtype) = (info.shape.dims().get(1..).unwrap_or(&[]).to_vec(), info.dtype);
        // A row of a vector has the shape (1,).
        let shape = Shape::new(if rest.is_empty() { &[1] } else { &rest });
        let name = format!("{}/row{i}", s.name);
        rows.push((s.builder().body_input(&name, shape, dtype, given), rest.is_empty()));
        data.push(value);
    }
    let mut states = Vec::new();
    for (i, state) in scan.states.iter().enumerate() {
        states.push(like(s, state, &format!("state{i}"))?);
    }
    let count = scan.outputs.len();
    let scalars = RefCell::new(Vec::new());
    let make = |s: &mut Scope<'_, '_>| -> Result<Vec<Value>> {
        let mut given: Vec<Value> = states.iter().map(|h| Value::Handle(*h)).collect();
        for (row, scalar) in &rows {
            let row = Value::Handle(*row);
            given.push(if *scalar { apply(s, "_np_reshape", &[row], &[("newshape", list(vec![]))])? } else { row });
        }
        let mut made = super::control::round(s, body, given)?;
        let collected = made.split_off(states.len());
        scalars.borrow_mut().clear();
        let mut outs = Vec::new();
        for value in collected {
            let scalar = s.info(tensor(&value)?).shape.ndim() == Some(0);
            scalars.borrow_mut().push(scalar);
            outs.push(if scalar { apply(s, "_np_reshape", &[value], &[("newshape", list(vec![1]))])? } else { value });
        }
        outs.extend(made);
        Ok(outs)
    };
    let (step, _) = using(s, &states, |i| count + i, make)?;
    let used: Vec<usize> = (0..rows.len()).filter(|i| step.inputs().contains(&rows[*i].0)).collect();
    if used.is_empty() {
        return Err(Error::NeedsValue("the body of a scan does not use what is scanned".into()));
    }
    let index = |t: usize| step.inputs().iter().position(|i| *i == t).map_or(0, |i| i as i64);
    let known = |t: &usize| states.contains(t) || rows.iter().any(|(row, _)| row == t);
    let rest: Vec<usize> = step.inputs().iter().copied().filter(|t| !known(t)).collect();
    let mut inputs: Vec<Value> = used.iter().map(|i| data[*i].clone()).collect();
    inputs.extend(scan.states.iter().cloned().chain(rest.iter().map(|t| Value::Handle(*t))));
    let params = [
        ("num_outputs", Value::Int((count + states.len()) as i64)),
        ("num_out_data", Value::Int(count as i64)),
        ("in_data_locs", list(used.iter().map(|i| index(rows[*i].0)).collect())),
        ("in_state_locs", list(states.iter().map(|t| index(*t)).collect())),
        ("remain_locs", list(rest.iter().map(|t| index(*t)).collect())),
    ];
    let made = s.with_bodies("_foreach", &[&step], &inputs, &params)?;
    let mut values: Vec<Value> = made[count..].iter().map(|h| Value::Handle(*h)).collect();
    for (k, (axis, reverse)) in scan.outputs.iter().enumerate() {
        values.push(collected(s, made[k], scalars.borrow()[k], *axis, *reverse)?);
    }
    Ok(Value::List(values))
}

/// The stacked output of a scan in ONNX's layout. `scalar` means that each step gives a scalar, which has the shape (1,) here.
fn collected(s: &mut Scope<'_, '_>, made: usize, scalar: bool, axis: i64, reverse: bool) -> Result<Value> {
    let mut value = Value::Handle(made);
    if scalar {
        value = apply(s, "_np_squeeze", &[value], &[("axis", list(vec![1]))])?;
    }
    if reverse {
        value = apply(s, "_npi_flip", &[value], &[("axis", list(vec![0]))])?;
    }
    if axis != 0 {
        value = apply(s, "_np_moveaxis", &[value], &[("source", list(vec![0])), ("destination", list(vec![axis]))])?;
    }
    Ok(value)
}
