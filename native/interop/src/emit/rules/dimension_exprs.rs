//! Rules for the export of expressions of dimensions, which become Shape, Gather and arithmetic operators.

use std::cell::RefCell;
use std::collections::HashMap;

use ferromx_core::params::ParamValue;
use ferromx_ops::onnx::{DimExprs, DimLeaf, DimOp};

use super::export_nodes::emit_onnx;
use super::rules;
use crate::emit::{OnnxOp, Scope, TensorId};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// For export: integers computed from dimensions of tensors, as a vector.
    fn dims_written(s, expressions: &str, tensors: Vec<TensorId>) -> Value {
        vector(s, expressions, &tensors, &|_| None)
    }

    /// For export: the begins of slices, as a vector; absent ones get the default.
    fn begins_written(s, begin: &str, step: &str, tensors: Vec<TensorId>) -> Value {
        let steps = steps(begin, step)?;
        vector(s, begin, &tensors, &|k| Some(if steps[k] > 0 { 0 } else { i64::MAX }))
    }

    /// For export: the ends of slices, as a vector; absent ones get the default.
    fn ends_written(s, end: &str, step: &str, tensors: Vec<TensorId>) -> Value {
        let steps = steps(end, step)?;
        vector(s, end, &tensors, &|k| Some(if steps[k] > 0 { i64::MAX } else { i64::MIN + 1 }))
    }

    /// For export: the steps of slices, as a vector.
    fn steps_written(s, begin: &str, step: &str) -> TensorId {
        let steps = steps(begin, step)?;
        s.integers("steps", &steps)
    }

    /// For export: an axis for each expression.
    fn axes_of(_, expressions: &str) -> Vec<i64> {
        Ok((0..parse(expressions)?.len() as i64).collect())
    }

    /// For export: Range with start, limit and step computed from dimensions.
    fn range_written(s, expressions: &str, tensors: Vec<TensorId>) -> Value {
        let numbers = elements(s, expressions, &tensors)?;
        let axes = s.integers("axes", &[0])?;
        let scalar = |n: Option<Value>| {
            let n = n.ok_or_else(|| Error::value("a range needs a start, a limit and a step"))?;
            emit_onnx(s, OnnxOp::Squeeze {}, vec![n, axes.into()])
        };
        let numbers = numbers.into_iter().map(scalar).collect::<Result<Vec<_>>>()?;
        emit_onnx(s, OnnxOp::Range {}, numbers)
    }
}

fn parse(expressions: &str) -> Result<DimExprs> {
    DimExprs::parse(expressions).map_err(Error::Value)
}

/// The constant steps of slices; 1 if absent.
fn steps(begin: &str, step: &str) -> Result<Vec<i64>> {
    let (n, mut steps) = (parse(begin)?.len(), Vec::new());
    for step in parse(step)?.values(&[])?.unwrap_or_default() {
        steps.push(step.unwrap_or(1));
    }
    steps.resize(n, 1);
    Ok(steps)
}

/// Emits each expression as a vector of one integer; `None` for absent ones.
fn elements(s: &mut Scope<'_, '_>, expressions: &str, tensors: &[TensorId]) -> Result<Vec<Option<Value>>> {
    let (mut shapes, mut dims) = (HashMap::new(), HashMap::new());
    let cell = RefCell::new(s);
    let mut leaf = |leaf: DimLeaf| {
        let mut scope = cell.borrow_mut();
        let s = &mut **scope;
        let (input, axis) = match leaf {
            DimLeaf::Number(n) => return s.integers("number", &[n]).map(Value::from),
            DimLeaf::Dim(input, axis) => (input, axis),
        };
        if let Some(known) = dims.get(&(input, axis)) {
            return Ok(Value::clone(known));
        }
        let missing = || Error::value(format!("there is no tensor {input} in {expressions}"));
        let tensor = *tensors.get(input).ok_or_else(missing)?;
        let shape = match shapes.get(&input) {
            Some(shape) => Value::clone(shape),
            None => emit_onnx(s, OnnxOp::Shape {}, vec![tensor.into()])?,
        };
        shapes.insert(input, shape.clone());
        let index = s.integers("axis", &[axis as i64])?;
        let dim = emit_onnx(s, OnnxOp::Gather {}, vec![shape, index.into()])?;
        dims.insert((input, axis), dim.clone());
        Ok(dim)
    };
    let mut combine = |op: DimOp, a: Value, b: Value| {
        let operator = match op {
            DimOp::Add => OnnxOp::Add {},
            DimOp::Sub => OnnxOp::Sub {},
            DimOp::Mul => OnnxOp::Mul {},
            DimOp::FloorDiv => OnnxOp::Div {},
            DimOp::Min => OnnxOp::Min {},
            DimOp::Max => OnnxOp::Max {},
        };
        let mut scope = cell.borrow_mut();
        emit_onnx(&mut scope, operator, vec![a, b])
    };
    parse(expressions)?.build(&mut leaf, &mut combine)
}

/// Emits all expressions as one vector; `default` gives the values of absent ones.
fn vector(
    s: &mut Scope<'_, '_>,
    expressions: &str,
    tensors: &[TensorId],
    default: &dyn Fn(usize) -> Option<i64>,
) -> Result<Value> {
    let mut scalars = Vec::new();
    for (k, scalar) in elements(s, expressions, tensors)?.into_iter().enumerate() {
        scalars.push(match (scalar, default(k)) {
            (Some(scalar), _) => scalar,
            (None, Some(n)) => s.integers("default", &[n])?.into(),
            (None, None) => return Err(Error::value(format!("a number is missing in {expressions}"))),
        });
    }
    match scalars.len() {
        0 => s.integers("shape", &[]).map(Value::from),
        1 => Ok(scalars.remove(0)),
        _ => emit_onnx(s, OnnxOp::Concat { axis: Value::Int(0) }, scalars),
    }
}
