//! The nodes of the framework that an export emits.

use std::collections::{HashMap, HashSet};

use ferromx_core::shape::Shape;
use indexmap::IndexMap;

use super::{Builder, Names, Naming, OnnxOp, Scope};
use crate::error::{Error, Position, Result};
use crate::ir::{Arity, AttributeKind, Node, OpDescriptor, Value};
use crate::mapping::ast::{Call, Expr};

/// The nodes and names that an export has emitted so far.
#[derive(Default)]
pub struct Sink {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The names of tensors in the model, by index: tensors of the MXNet graph and those that nodes of the framework added.
    pub names: HashMap<usize, String>,
    /// All names in use.
    pub used: HashSet<String>,
}

impl Sink {
    /// An unused name: `base`, with a number appended if it is taken.
    pub fn unique(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut n = 0;
        while !self.used.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    }

    /// A new tensor of this name.
    pub fn tensor(&mut self, builder: &mut Builder, name: &str) -> usize {
        let tensor_id = builder.input(name, Shape::unknown(), None, None);
        self.names.insert(tensor_id, name.to_string());
        tensor_id
    }

    /// The name of a tensor in the model. A constant gets its name at the first use.
    ///
    /// # Errors
    /// A value that is not a tensor.
    pub fn name_of(&mut self, builder: &Builder, value: &Value) -> Result<String> {
        let tensor_id = match value {
            Value::None => return Ok(String::new()),
            Value::TensorId(id) => *id,
            other => return Err(Error::value(format!("an input would be a {}", other.kind()))),
        };
        if let Some(name) = self.names.get(&tensor_id) {
            return Ok(name.clone());
        }
        let name = self.unique(&format!("{}/constant", builder.info(tensor_id).name));
        self.names.insert(tensor_id, name.clone());
        Ok(name)
    }
}

/// The error for an export rule in an import.
fn no_sink() -> Error {
    Error::value("no node is being written")
}

/// Adds an ONNX operator and returns the tensors of its first `num_outputs` outputs.
///
/// # Errors
/// See [`framework_call`].
pub(crate) fn framework_node(
    scope: &mut Scope<'_, '_>,
    operator: OnnxOp,
    inputs: Vec<Value>,
    num_outputs: usize,
) -> Result<Vec<Value>> {
    let op = operator.name();
    let named = operator.attributes().into_iter().map(|(key, value)| (key.to_string(), Expr::Literal(value))).collect();
    let args = inputs.into_iter().map(Expr::Literal).collect();
    let call = Call { name: op.into(), args, named, position: Position::default() };
    let base_name = format!("{}/{op}", scope.name);
    let (sink, builder) = scope.context.sink().ok_or_else(no_sink)?;
    let names: Vec<String> = (0..num_outputs).map(|_| sink.unique(&base_name)).collect();
    let outputs = names.iter().map(|name| Value::TensorId(sink.tensor(builder, name))).collect();
    let outer_name = std::mem::replace(&mut scope.name, names.first().cloned().unwrap_or_default());
    let result = framework_call(scope, &call, &Names::new(), Some(&names));
    scope.name = outer_name;
    result.map(|_| outputs)
}

/// Adds an ONNX operator without attributes and returns the tensor of its first output.
///
/// # Errors
/// See [`framework_call`].
pub(crate) fn framework_operator(scope: &mut Scope<'_, '_>, operator: OnnxOp, inputs: &[Value]) -> Result<Value> {
    let args = inputs.iter().cloned().map(Expr::Literal).collect();
    let call = Call { name: operator.name().into(), args, named: Vec::new(), position: Position::default() };
    framework_call(scope, &call, &Names::new(), None)
}

/// Adds an operator of the framework, after the operators that its inputs call. With `outputs`, the operator gets the name of the scope and
/// produces these values; otherwise it gets new names, and the tensor of its first output is returned.
///
/// # Errors
/// Inputs and attributes that the operator does not accept.
pub(crate) fn framework_call(
    scope: &mut Scope<'_, '_>,
    call: &Call,
    names: &Names<'_>,
    outputs: Option<&[String]>,
) -> Result<Value> {
    let inputs = evaluated_inputs(scope, call, names)?;
    let (sink, builder) = scope.context.sink().ok_or_else(no_sink)?;
    let inputs = inputs.iter().map(|v| sink.name_of(builder, v)).collect::<Result<Vec<_>>>()?;
    let probe = Node { op: call.name.clone(), domain: scope.domain_of(&call.name), ..Node::default() };
    let descriptor = scope.context.emitter().descriptor(&probe)?;
    // An operator with given outputs takes attributes that the call does not name from the scope.
    let attributes = match outputs {
        Some(_) => evaluated_attributes(scope, call, descriptor, names, names)?,
        None => evaluated_attributes(scope, call, descriptor, names, &Names::new())?,
    };
    let base_name = format!("{}/{}", scope.name, call.name);
    let given_name = scope.name.clone();
    let (sink, builder) = scope.context.sink().ok_or_else(no_sink)?;
    let (name, outputs, tensor_id) = match outputs {
        Some(outputs) => (given_name, outputs.to_vec(), Value::None),
        None => {
            let name = sink.unique(&base_name);
            let tensor_id = sink.tensor(builder, &name);
            (name.clone(), vec![name], Value::TensorId(tensor_id))
        }
    };
    let is_variadic = descriptor.outputs.last().is_some_and(|o| o.arity == Arity::Many);
    let num_outputs = if is_variadic { outputs.len() } else { descriptor.outputs.len().min(outputs.len()) };
    sink.nodes.push(Node {
        name,
        domain: probe.domain,
        op: call.name.clone(),
        inputs,
        outputs: outputs.into_iter().take(num_outputs).collect(),
        attributes,
        ..Node::default()
    });
    Ok(tensor_id)
}

/// The inputs of a call, without omitted ones at the end. An argument that is a list stands for several inputs.
fn evaluated_inputs(scope: &mut Scope<'_, '_>, call: &Call, names: &Names<'_>) -> Result<Vec<Value>> {
    let mut inputs = Vec::new();
    for e in &call.args {
        match scope.eval(e, names, Naming::Operator)? {
            Value::List(items) => inputs.extend(items),
            other => inputs.push(other),
        }
    }
    while let Some(Value::None) = inputs.last() {
        inputs.pop();
    }
    Ok(inputs)
}

/// The attributes of a call that differ from the operator's defaults. Those that the call does not name are in `unnamed`, or omitted.
fn evaluated_attributes(
    scope: &mut Scope<'_, '_>,
    call: &Call,
    descriptor: &OpDescriptor,
    names: &Names<'_>,
    unnamed: &Names<'_>,
) -> Result<IndexMap<String, Value>> {
    let mut attributes = IndexMap::new();
    for a in &descriptor.attributes {
        let value = match call.named.iter().find(|(key, _)| *key == a.name) {
            Some((_, e)) => scope.eval(e, names, Naming::Operator)?,
            None => unnamed.get(a.name.as_str()).cloned().unwrap_or_default(),
        };
        // ONNX has no Boolean attributes, and the mapping may give an integer for a float.
        let value = match (a.kind, value) {
            (AttributeKind::Int, Value::Bool(b)) => Value::Int(i64::from(b)),
            (AttributeKind::Float, v) if v.number().is_some() => Value::Float(v.number().unwrap_or_default()),
            (_, v) => v,
        };
        let is_empty = matches!(&value, Value::List(items) if items.is_empty());
        if value == Value::None || value == a.default || (is_empty && !a.is_required) {
            continue;
        }
        if !a.kind.takes(&value) {
            return Err(Error::value(format!("the attribute {} of {} would be {value}", a.name, call.name)));
        }
        attributes.insert(a.name.clone(), value);
    }
    Ok(attributes)
}
