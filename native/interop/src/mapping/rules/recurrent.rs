//! Rules for recurrent networks: ONNX keeps weights by gate, our operator `RNN` takes all of them as one vector with the gates in
//! another order.

use super::{Rule, handle, ints, list};
use crate::error::{Error, Result};
use crate::import::Scope;
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "recurrent_params",
        "(W, R, B, order) -> tensor",
        "The vector of parameters of RNN from the weights of ONNX, with the gates in this order: for each direction the weights of the \
         input and of the state, then for each direction their biases.",
        recurrent_params,
    ),
    Rule::new("in_turn", "(list, pattern) -> bool", "Whether a list is absent or repeats a pattern.", |_, a| {
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
        let shape = s.importer.builder.info(handle(args, i)?).shape.clone();
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
                let dtype =
                    Value::from(s.importer.builder.info(handle(args, 0)?).dtype.map_or("float32", |d| d.name()));
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
