//! Converts the statements of a graph to the framework-neutral form.

use std::collections::HashSet;

use bytes::Bytes;
use ferromx_core::dtype::DType;
use ferromx_core::storage::as_bytes;
use indexmap::IndexMap;

use super::parse::{self, Argument, Statement};
use crate::error::{Error, Result};
use crate::ir::{
    Arity, AttributeKind, Dim, ElementType, Framework, Graph, Model, Node, OpDescriptor, Tensor, Value, ValueInfo,
};
use crate::mapping::Schema;

/// The format version, which is also the operator set version.
const VERSION: i64 = 1;
/// Maximum number of elements of a constant in the text.
const MAX_ELEMENTS: usize = 1 << 24;

/// Reads the text of a graph. `variable` loads the tensor of a variable by its label; `file` is the name for messages.
///
/// # Errors
/// A text that is not a flat graph of version 1.0, with the line; errors of `variable`.
pub fn graph(file: &str, text: &str, variable: &dyn Fn(&str) -> Result<Tensor>) -> Result<Model> {
    let parsed = parse::graph(file, text)?;
    let mut reader =
        Reader { schema: Framework::Nnef.schema()?, variable, graph: Graph::default(), names: HashSet::new() };
    reader.names.extend(parsed.statements.iter().flat_map(|s| s.results.iter().cloned()));
    for statement in &parsed.statements {
        reader.statement(statement).map_err(|e| {
            let line = Error::Mapping { file: file.into(), position: statement.position, message: e.to_string() };
            if matches!(e, Error::Mapping { .. }) { e } else { line }
        })?;
    }
    let mut graph = reader.graph;
    graph.name = parsed.name;
    // The graph declaration determines the order of inputs.
    let position = |name: &String| parsed.inputs.iter().position(|i| i == name);
    if let Some(stray) = graph.inputs.iter().find(|i| position(&i.name).is_none()) {
        return Err(Error::format(format!("{file}: '{}' is external, but not an input of the graph", stray.name)));
    }
    if let Some(name) = parsed.inputs.iter().find(|n| !graph.inputs.iter().any(|i| i.name == **n)) {
        return Err(Error::format(format!("{file}: the input '{name}' of the graph is not external")));
    }
    graph.inputs.sort_by_key(|i| position(&i.name));
    let value = |name: &String| ValueInfo { name: name.clone(), element: None, dims: None, non_tensor_kind: None };
    graph.outputs = parsed.outputs.iter().map(value).collect();
    Ok(Model {
        framework: Framework::Nnef,
        graph,
        opsets: [(String::new(), VERSION)].into_iter().collect(),
        ..Model::default()
    })
}

struct Reader<'a> {
    schema: &'a Schema,
    variable: &'a dyn Fn(&str) -> Result<Tensor>,
    graph: Graph,
    /// Names in use.
    names: HashSet<String>,
}

/// The type of the elements of `external`, `variable` and `constant`.
fn element(statement: &Statement) -> Result<DType> {
    match statement.element.as_deref() {
        None | Some("scalar") => Ok(DType::F32),
        Some("integer") => Ok(DType::I64),
        Some("logical") => Ok(DType::Bool),
        Some(other) => Err(Error::format(format!("unknown element type '{other}'"))),
    }
}

/// The value of an argument that must not name a tensor.
fn plain(argument: &Argument) -> Result<Value> {
    match argument {
        Argument::Value(value) => Ok(value.clone()),
        Argument::List(items) => Ok(Value::List(items.iter().map(plain).collect::<Result<_>>()?)),
        Argument::Name(name) => Err(Error::format(format!("the tensor '{name}' was given where a value was expected"))),
    }
}

/// A constant tensor of numbers or Booleans; a scalar if `dims` is empty.
fn tensor(items: &[Value], dims: Vec<usize>, dtype: DType) -> Result<Tensor> {
    let wrong_type = || Error::format(format!("elements of type {dtype} were expected"));
    let data = match dtype {
        DType::I64 => {
            let items = items.iter().map(Value::int).collect::<Option<Vec<i64>>>().ok_or_else(wrong_type)?;
            Bytes::copy_from_slice(as_bytes(&items))
        }
        DType::Bool => {
            let truth = |v: &Value| v.int().filter(|i| (0..=1).contains(i)).map(|i| i as u8);
            items.iter().map(truth).collect::<Option<Vec<u8>>>().ok_or_else(wrong_type)?.into()
        }
        _ => {
            let number = |v: &Value| v.number().map(|x| x as f32);
            let items = items.iter().map(number).collect::<Option<Vec<f32>>>().ok_or_else(wrong_type)?;
            Bytes::copy_from_slice(as_bytes(&items))
        }
    };
    Ok(Tensor::new(dtype, dims, data))
}

/// The value of an argument, given by name or by position.
fn given(statement: &Statement, name: &str, index: usize) -> Result<Value> {
    let named = statement.arguments.iter().find(|(n, _)| n.as_deref() == Some(name));
    let found = named.or_else(|| statement.arguments.get(index).filter(|(n, _)| n.is_none()));
    match found {
        Some((_, argument)) => plain(argument),
        None => Err(Error::format(format!("{} needs '{name}'", statement.op))),
    }
}

/// The argument `shape`.
fn shape(statement: &Statement) -> Result<Vec<usize>> {
    let value = given(statement, "shape", 0)?;
    let dims: Option<Vec<usize>> =
        value.ints().and_then(|dims| dims.into_iter().map(|d| usize::try_from(d).ok()).collect());
    dims.filter(|d| d.len() <= 32).ok_or_else(|| Error::format(format!("{value} is not a shape")))
}

impl Reader<'_> {
    fn statement(&mut self, statement: &Statement) -> Result<()> {
        let single = || match statement.results.as_slice() {
            [name] => Ok(name.clone()),
            many => Err(Error::format(format!("{} has one result, not {}", statement.op, many.len()))),
        };
        match statement.op.as_str() {
            "external" => {
                let (name, dtype) = (single()?, element(statement)?);
                let dims = shape(statement)?.into_iter().map(|d| if d == 0 { Dim::Unknown } else { Dim::Known(d) });
                let (dims, element) = (Some(dims.collect()), Some(ElementType::DType(dtype)));
                self.graph.inputs.push(ValueInfo { name, element, dims, non_tensor_kind: None });
            }
            "variable" => {
                let (name, dims, label) = (single()?, shape(statement)?, given(statement, "label", 1)?);
                let Value::Text(label) = label else { return Err(Error::format("a label must be a string")) };
                let tensor = (self.variable)(&label)?;
                if tensor.dims != dims {
                    return Err(Error::format(format!(
                        "the variable '{name}' has the shape {dims:?}, but '{label}.dat' has {:?}",
                        tensor.dims
                    )));
                }
                if self.graph.constants.insert(name.clone(), tensor).is_some() {
                    return Err(Error::format(format!("'{name}' is defined twice")));
                }
            }
            "constant" => {
                let (name, dims) = (single()?, shape(statement)?);
                let value = given(statement, "value", 1)?;
                let mut items = if let Value::List(items) = value { items } else { vec![value] };
                let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_ELEMENTS);
                let count = count.ok_or_else(|| Error::format(format!("a constant of shape {dims:?} is too large")))?;
                if let [one] = items.as_slice() {
                    items = vec![one.clone(); count];
                }
                if items.len() != count {
                    return Err(Error::format(format!("{} values do not match the shape {dims:?}", items.len())));
                }
                self.constant(&name, tensor(&items, dims, element(statement)?)?);
            }
            _ => {
                let node = self.node(statement)?;
                self.graph.nodes.push(node);
            }
        }
        Ok(())
    }

    /// Adds a constant as a node, not as an initializer, which would be a trainable parameter.
    fn constant(&mut self, name: &str, tensor: Tensor) {
        self.graph.nodes.push(Node {
            name: name.into(),
            op: "constant".into(),
            outputs: vec![name.into()],
            attributes: [("value".to_string(), Value::Tensor(tensor))].into_iter().collect(),
            ..Node::default()
        });
    }

    /// A node. Arguments without names are positional. The import reports unknown operators; their identifiers are read as inputs and
    /// their literals as attributes.
    fn node(&mut self, statement: &Statement) -> Result<Node> {
        let descriptor = self.schema.find("", &statement.op, VERSION);
        let mut node = Node {
            name: statement.results.first().cloned().unwrap_or_default(),
            op: statement.op.clone(),
            outputs: statement.results.clone(),
            ..Node::default()
        };
        let mut tensors: IndexMap<usize, Vec<String>> = IndexMap::new();
        for (k, (name, argument)) in statement.arguments.iter().enumerate() {
            let input = descriptor.and_then(|d| match name {
                Some(name) => d.inputs.iter().position(|a| a.name == *name),
                None => (k < d.inputs.len()).then_some(k),
            });
            match (input, name) {
                (Some(index), _) => {
                    let names = self.inputs(&node.name, descriptor, index, argument)?;
                    if tensors.insert(index, names).is_some() {
                        return Err(Error::format(format!("the argument {} is given twice", k + 1)));
                    }
                }
                (None, None) if descriptor.is_none() && matches!(argument, Argument::Name(_)) => {
                    tensors.insert(k, self.inputs(&node.name, None, k, argument)?);
                }
                (None, _) => {
                    let attribute = descriptor.and_then(|d| d.attributes.get(k.checked_sub(d.inputs.len())?));
                    let key = name.clone().or_else(|| attribute.map(|a| a.name.clone()));
                    let key = key.unwrap_or_else(|| format!("argument {}", k + 1));
                    let value = match (plain(argument)?, descriptor.and_then(|d| d.attribute(&key)).map(|a| a.kind)) {
                        // A number may be written without a decimal point.
                        (Value::Int(i), Some(AttributeKind::Float)) => Value::Float(i as f64),
                        (value, _) => value,
                    };
                    if node.attributes.insert(key.clone(), value).is_some() {
                        return Err(Error::format(format!("the argument {key} is given twice")));
                    }
                }
            }
        }
        if let Some(element) = &statement.element {
            node.attributes.insert("element".into(), Value::Text(element.clone()));
        }
        let num_inputs = tensors.keys().max().map_or(0, |k| k + 1);
        for index in 0..num_inputs {
            match tensors.get(&index) {
                Some(names) => node.inputs.extend(names.iter().cloned()),
                None => node.inputs.push(String::new()),
            }
        }
        Ok(node)
    }

    /// The tensors of an operator's input: a name, several names for a variadic input, or a literal as a constant.
    fn inputs(
        &mut self,
        node: &str,
        descriptor: Option<&OpDescriptor>,
        index: usize,
        argument: &Argument,
    ) -> Result<Vec<String>> {
        let is_variadic = descriptor.and_then(|d| d.inputs.get(index)).is_some_and(|a| a.arity == Arity::Many);
        match argument {
            Argument::Name(name) => Ok(vec![name.clone()]),
            Argument::List(items) if is_variadic => {
                let one = |item: &Argument| self.inputs(node, None, index, item);
                Ok(items.iter().map(one).collect::<Result<Vec<_>>>()?.concat())
            }
            Argument::Value(value) => {
                let dtype = match value {
                    Value::Float(_) => DType::F32,
                    Value::Int(_) => DType::I64,
                    Value::Bool(_) => DType::Bool,
                    other => {
                        return Err(Error::format(format!("a {} was given where a tensor was expected", other.kind())));
                    }
                };
                let mut name = format!("{node}/{}", index + 1);
                while !self.names.insert(name.clone()) {
                    name.push('_');
                }
                self.constant(&name, tensor(std::slice::from_ref(value), Vec::new(), dtype)?);
                Ok(vec![name])
            }
            Argument::List(_) => Err(Error::format("a list was given where a tensor was expected")),
        }
    }
}
