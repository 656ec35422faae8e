//! Rules for recurrent networks: ONNX has a weight tensor for each kind of weight, `RNN` takes one vector with another order of gates.

use super::{Rule, handle, ints, list};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "recurrent_params",
        "(W, R, B, order) -> tensor",
        "The vector of parameters of RNN from the weights of ONNX, with the gates in this order: for each direction the weights of the \
         input and of the state, then for each direction their biases.",
        recurrent_params,
    ),
    Rule::new("in_turn", "(list, pattern) -> bool", "True if a list is absent or repeats a pattern.", |_, a| {
        let pattern = list(a, 1)?;
        Ok(Value::Bool(match &a[0] {
            Value::None => true,
            Value::List(items) => {
                items.len().is_multiple_of(pattern.len().max(1))
                    && items.iter().zip(pattern.iter().cycle()).all(|(x, p)| x == p)
            }
            _ => false,
        }))
    }),
];

fn recurrent_params(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let order = ints(args, 3)?;
    let gates = order.len() as i64;
    let dims = |s: &Scope<'_, '_>, i: usize| {
        let shape = s.info(handle(args, i)?).shape.clone();
        match shape.is_known() && shape.dims().len() == 3 && shape.dim(1) % gates == 0 {
            true => Ok((shape.dim(0), shape.dim(1) / gates, shape.dim(2))),
            false => Err(Error::value(format!("weights of shape {shape} do not have {gates} gates"))),
        }
    };
    let (directions, hidden, inputs) = dims(s, 0)?;
    let order = s.operator_constant("gates", &order)?;
    // One direction of weights of shape (direction, gates * hidden, width), with the gates in our order, as a vector.
    let part = |s: &mut Scope<'_, '_>, tensor: &Value, direction: i64, groups: i64, width: i64| {
        let range = vec![("axis", Value::Int(0)), ("begin", Value::Int(direction)), ("end", Value::Int(direction + 1))];
        let one = s.operator("slice_axis", vec![tensor.clone()], range, false)?;
        let shape = vec![("newshape", Value::from(vec![groups, gates, hidden, width]))];
        let split = s.operator("_npx_reshape", vec![one], shape, false)?;
        let turned = s.operator("take", vec![split, order.clone()], vec![("axis", Value::Int(1))], false)?;
        s.operator("_npx_reshape", vec![turned], vec![("newshape", Value::from(vec![-1]))], false)
    };
    let mut parts = Vec::new();
    for direction in 0..directions {
        parts.push(part(s, &args[0], direction, 1, inputs)?);
        parts.push(part(s, &args[1], direction, 1, hidden)?);
    }
    for direction in 0..directions {
        // The biases of the input come first, then those of the state.
        parts.push(match &args[2] {
            Value::None => {
                let dtype = Value::from(s.info(handle(args, 0)?).dtype.map_or("float32", |d| d.name()));
                let params = vec![
                    ("shape", Value::from(vec![2 * gates * hidden])),
                    ("value", Value::Float(0.0)),
                    ("dtype", dtype),
                ];
                s.operator("_full", vec![], params, false)?
            }
            biases => part(s, biases, direction, 2, 1)?,
        });
    }
    s.operator("Concat", vec![Value::List(parts)], vec![("dim", Value::Int(0))], false)
}

/// The framework's operator for a mode, the order of its gates, and its attributes.
fn written_layer(mode: &str) -> Result<(&'static str, &'static [i64], Vec<(&'static str, Value)>)> {
    Ok(match mode {
        "lstm" => ("LSTM", &[0, 3, 1, 2], vec![]),
        "gru" => ("GRU", &[1, 0, 2], vec![("linear_before_reset", Value::Int(1))]),
        "rnn_tanh" => ("RNN", &[0], vec![]),
        "rnn_relu" => ("RNN", &[0], vec![("activations", Value::List(vec!["Relu".into()]))]),
        other => return Err(Error::unsupported(format!("the mode {other} has no form"))),
    })
}

/// Reads the parameter vector of RNN tensor by tensor.
struct Parts<'s, 'a, 't> {
    scope: &'s mut Scope<'a, 't>,
    vector: Value,
    at: i64,
}

impl Parts<'_, '_, '_> {
    /// The next weights as a tensor of shape (1, gates * hidden, width), with the gates in the framework's order.
    fn next(&mut self, order: &[i64], hidden: i64, width: i64) -> Result<Value> {
        let gates = order.len() as i64;
        let end = self.at + gates * hidden * width;
        let range = vec![("axis", Value::Int(0)), ("begin", Value::Int(self.at)), ("end", Value::Int(end))];
        self.at = end;
        let s = &mut *self.scope;
        let part = s.operator("slice_axis", vec![self.vector.clone()], range, false)?;
        let split = vec![("newshape", Value::from(vec![1, gates, hidden, width]))];
        let split = s.operator("_npx_reshape", vec![part], split, false)?;
        let order = s.operator_constant("gates", order)?;
        let turned = s.operator("take", vec![split, order], vec![("axis", Value::Int(1))], false)?;
        let flat = vec![("newshape", Value::from(vec![1, gates * hidden, width]))];
        s.operator("_npx_reshape", vec![turned], flat, false)
    }

    fn joined(&mut self, parts: Vec<Value>, axis: i64) -> Result<Value> {
        let at = vec![("dim", Value::Int(axis))];
        self.scope.operator("Concat", vec![Value::List(parts)], at, false)
    }
}

/// Weights (W, R, B) of each layer from the vector of RNN.
fn layers(
    s: &mut Scope<'_, '_>,
    vector: Value,
    order: &[i64],
    (layers, directions, hidden, inputs): (i64, i64, i64, i64),
) -> Result<Vec<[Value; 3]>> {
    let mut parts = Parts { scope: s, vector, at: 0 };
    let mut made = Vec::new();
    for layer in 0..layers {
        let width = if layer == 0 { inputs } else { directions * hidden };
        let (mut w, mut r) = (Vec::new(), Vec::new());
        for _ in 0..directions {
            w.push(parts.next(order, hidden, width)?);
            r.push(parts.next(order, hidden, hidden)?);
        }
        made.push([parts.joined(w, 0)?, parts.joined(r, 0)?, Value::None]);
    }
    for weights in &mut made {
        let mut each = Vec::new();
        for _ in 0..directions {
            let (x, h) = (parts.next(order, hidden, 1)?, parts.next(order, hidden, 1)?);
            each.push(parts.joined(vec![x, h], 1)?);
        }
        let all = parts.joined(each, 0)?;
        let flat = vec![("newshape", Value::from(vec![directions, -1]))];
        weights[2] = parts.scope.operator("_npx_reshape", vec![all], flat, false)?;
    }
    Ok(made)
}

/// The layers of RNN as operators of the framework.
pub(super) fn recurrent_nodes(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (mode, count, both, hidden) =
        (super::text(args, 3)?, super::int(args, 4)?, args[5].is_true(), super::int(args, 6)?);
    let inputs = s.info(handle(args, 0)?).shape.dim(2);
    if inputs < 0 || !(1..=256).contains(&count) {
        return Err(Error::NeedsValue("the size of the input is not known: give the shapes of the inputs".into()));
    }
    let (op, order, attributes) = written_layer(mode)?;
    let directions = if both { 2 } else { 1 };
    let vector = match &args[1] {
        Value::List(parts) => {
            s.operator("Concat", vec![Value::List(parts.clone())], vec![("dim", Value::Int(0))], false)?
        }
        one => one.clone(),
    };
    if s.info(handle(std::slice::from_ref(&vector), 0)?).value.is_none() {
        return Err(Error::unsupported("the parameters of RNN can be written only where they are given"));
    }
    let weights = layers(s, vector, order, (count, directions, hidden, inputs))?;
    let states: Vec<Value> = list(args, 2)?.iter().filter(|v| **v != Value::None).cloned().collect();
    let mut data = args[0].clone();
    let mut last: Vec<Vec<Value>> = vec![Vec::new(); states.len()];
    for (layer, [w, r, b]) in weights.into_iter().enumerate() {
        let mut ins = vec![data, w, r, b, Value::None];
        for state in &states {
            ins.push(rows(s, state, layer as i64 * directions, directions, count * directions)?);
        }
        let mut attributes = attributes.clone();
        attributes.push(("hidden_size", Value::Int(hidden)));
        if both {
            attributes.push(("direction", "bidirectional".into()));
            if mode == "rnn_relu" {
                attributes[0].1 = Value::List(vec!["Relu".into(), "Relu".into()]);
            }
        }
        let outs = crate::emit::framework_node(s, op, ins, attributes, 1 + states.len())?;
        for (last, out) in last.iter_mut().zip(&outs[1..]) {
            last.push(out.clone());
        }
        // (steps, directions, batch, hidden) becomes (steps, batch, directions * hidden).
        let perm = vec![("perm", Value::from(vec![0, 2, 1, 3]))];
        let turned = super::written::one(s, "Transpose", vec![outs[0].clone()], perm)?;
        let shape = s.operator_constant("shape", &[0, 0, directions * hidden])?;
        data = super::written::one(s, "Reshape", vec![turned, shape], vec![])?;
    }
    let mut made = vec![data];
    for states in last {
        let joined = vec![("axis", Value::Int(0))];
        made.push(if count == 1 { states[0].clone() } else { super::written::one(s, "Concat", states, joined)? });
    }
    Ok(Value::List(made))
}

/// The states of some layers, as rows of the states of all layers.
fn rows(s: &mut Scope<'_, '_>, states: &Value, from: i64, n: i64, all: i64) -> Result<Value> {
    if n == all {
        return Ok(states.clone());
    }
    let (begin, end) = (s.operator_constant("begin", &[from])?, s.operator_constant("end", &[from + n])?);
    let axis = s.operator_constant("axis", &[0])?;
    super::written::one(s, "Slice", vec![states.clone(), begin, end, axis], vec![])
}
