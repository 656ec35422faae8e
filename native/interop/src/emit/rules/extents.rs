//! Rules for the export of integers computed from dimensions: they become Shape, Gather and arithmetic.

use std::collections::HashMap;

use ferromx_core::params::ParamValue;
use ferromx_ops::onnx::{DimExprs, DimLeaf, DimOp};

use super::written::one;
use super::{Rule, handle, list, text};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "dims_written",
        "(expressions, tensors) -> tensor",
        "For export: integers computed from dimensions of tensors, as a vector.",
        |s, a| vector(s, text(a, 0)?, list(a, 1)?, &|_| None),
    ),
    Rule::new(
        "begins_written",
        "(begin, step, tensors) -> tensor",
        "For export: the begins of slices, as a vector; absent ones get the default.",
        |s, a| {
            let steps = steps(text(a, 0)?, text(a, 1)?)?;
            vector(s, text(a, 0)?, list(a, 2)?, &|k| Some(if steps[k] > 0 { 0 } else { i64::MAX }))
        },
    ),
    Rule::new(
        "ends_written",
        "(end, step, tensors) -> tensor",
        "For export: the ends of slices, as a vector; absent ones get the default.",
        |s, a| {
            let steps = steps(text(a, 0)?, text(a, 1)?)?;
            vector(s, text(a, 0)?, list(a, 2)?, &|k| Some(if steps[k] > 0 { i64::MAX } else { i64::MIN + 1 }))
        },
    ),
    Rule::new(
        "steps_written",
        "(begin, step, tensors) -> tensor",
        "For export: the steps of slices, as a vector.",
        |s, a| {
            let steps = steps(text(a, 0)?, text(a, 1)?)?;
            s.operator_constant("steps", &steps)
        },
    ),
    Rule::new("axes_of", "(expressions) -> list", "For export: an axis for each expression.", |_, a| {
        Ok((0..parsed(text(a, 0)?)?.len() as i64).collect::<Vec<_>>().into())
    }),
    Rule::new(
        "range_written",
        "(expressions, tensors) -> tensor",
        "For export: Range with start, limit and step computed from dimensions.",
        |s, a| {
            let numbers = each(s, text(a, 0)?, list(a, 1)?)?;
            let axes = s.operator_constant("axes", &[0])?;
            let scalar = |n: Option<Value>| {
                let n = n.ok_or_else(|| Error::value("a range has a start, a limit and a step"))?;
                one(s, "Squeeze", vec![n, axes.clone()], vec![])
            };
            let numbers = numbers.into_iter().map(scalar).collect::<Result<Vec<_>>>()?;
            one(s, "Range", numbers, vec![])
        },
    ),
];

fn parsed(expressions: &str) -> Result<DimExprs> {
    DimExprs::parse(expressions).map_err(Error::Value)
}

/// The constant steps of slices; 1 if absent.
fn steps(begin: &str, step: &str) -> Result<Vec<i64>> {
    let (n, mut steps) = (parsed(begin)?.len(), Vec::new());
    for step in parsed(step)?.values(&[])?.unwrap_or_default() {
        steps.push(step.unwrap_or(1));
    }
    steps.resize(n, 1);
    Ok(steps)
}

/// Vectors of one integer each.
fn each(s: &mut Scope<'_, '_>, expressions: &str, tensors: &[Value]) -> Result<Vec<Option<Value>>> {
    let (mut shapes, mut dims) = (HashMap::new(), HashMap::new());
    let cell = std::cell::RefCell::new(s);
    let mut leaf = |leaf: DimLeaf| {
        let mut scope = cell.borrow_mut();
        let s = &mut **scope;
        let (input, axis) = match leaf {
            DimLeaf::Number(n) => return s.operator_constant("number", &[n]),
            DimLeaf::Dim(input, axis) => (input, axis),
        };
        if let Some(known) = dims.get(&(input, axis)) {
            return Ok(Value::clone(known));
        }
        handle(tensors, input)?;
        let shape = match shapes.get(&input) {
            Some(shape) => Value::clone(shape),
            None => one(s, "Shape", vec![tensors[input].clone()], vec![])?,
        };
        shapes.insert(input, shape.clone());
        let at = s.operator_constant("axis", &[axis as i64])?;
        let dim = one(s, "Gather", vec![shape, at], vec![])?;
        dims.insert((input, axis), dim.clone());
        Ok(dim)
    };
    let mut combine = |op: DimOp, a: Value, b: Value| {
        let operator = match op {
            DimOp::Add => "Add",
            DimOp::Sub => "Sub",
            DimOp::Mul => "Mul",
            DimOp::FloorDiv => "Div",
            DimOp::Min => "Min",
            DimOp::Max => "Max",
        };
        let mut scope = cell.borrow_mut();
        one(&mut scope, operator, vec![a, b], vec![])
    };
    parsed(expressions)?.build(&mut leaf, &mut combine)
}

/// A vector of integers; `natural` gives the default of absent entries.
fn vector(
    s: &mut Scope<'_, '_>,
    expressions: &str,
    tensors: &[Value],
    natural: &dyn Fn(usize) -> Option<i64>,
) -> Result<Value> {
    let mut parts = Vec::new();
    for (k, part) in each(s, expressions, tensors)?.into_iter().enumerate() {
        parts.push(match (part, natural(k)) {
            (Some(part), _) => part,
            (None, Some(n)) => s.operator_constant("natural", &[n])?,
            (None, None) => return Err(Error::value(format!("a number is missing in {expressions}"))),
        });
    }
    match parts.len() {
        0 => s.operator_constant("shape", &[]),
        1 => Ok(parts.remove(0)),
        _ => one(s, "Concat", parts, vec![("axis", Value::Int(0))]),
    }
}
