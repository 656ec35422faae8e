//! The framework-neutral form of a model: graphs, nodes, tensors, attributes, element types, operator descriptors.
//!
//! A front end (`onnx`, `nnef`, `mxnet`) converts files to this form and back; mapping processes convert a graph of
//! one framework into one of another without knowing the files.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage;
use indexmap::IndexMap;

use crate::error::{Error, Problem, Result};

/// A framework whose models are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framework {
    /// ONNX: `onnx` reads and writes it.
    #[default]
    Onnx,
    /// NNEF of the Khronos Group: `nnef` reads it.
    Nnef,
}

impl Framework {
    /// All frameworks.
    pub const ALL: [Framework; 2] = [Framework::Onnx, Framework::Nnef];

    /// The framework's name.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Onnx => "ONNX",
            Framework::Nnef => "NNEF",
        }
    }
}

/// An integer type that arrays do not support. Its elements are stored in a wider type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WidenedInt {
    /// `uint16`, stored as `int32`.
    U16,
    /// `int16`, stored as `int32`.
    I16,
    /// `uint32`, stored as `int64`.
    U32,
    /// `uint64`, stored as `int64`: integers above the largest `int64` wrap around.
    U64,
}

impl WidenedInt {
    /// All types.
    pub const ALL: [WidenedInt; 4] = [WidenedInt::U16, WidenedInt::I16, WidenedInt::U32, WidenedInt::U64];

    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            WidenedInt::U16 => "uint16",
            WidenedInt::I16 => "int16",
            WidenedInt::U32 => "uint32",
            WidenedInt::U64 => "uint64",
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<WidenedInt> {
        WidenedInt::ALL.into_iter().find(|int| int.name() == name)
    }

    /// The type of the arrays that store the elements.
    pub fn storage_dtype(self) -> DType {
        match self {
            WidenedInt::U16 | WidenedInt::I16 => DType::I32,
            WidenedInt::U32 | WidenedInt::U64 => DType::I64,
        }
    }

    /// The size of an element in a file, in bytes.
    pub fn size(self) -> usize {
        match self {
            WidenedInt::U16 | WidenedInt::I16 => 2,
            WidenedInt::U32 => 4,
            WidenedInt::U64 => 8,
        }
    }

    /// Converts little-endian elements to [`WidenedInt::storage_dtype`].
    pub fn widen(self, data: &[u8]) -> Vec<u8> {
        let mut widened = Vec::with_capacity(data.len() / self.size() * self.storage_dtype().size());
        for element in data.chunks_exact(self.size()) {
            let is_negative = self == WidenedInt::I16 && element[1] >= 0x80;
            widened.extend_from_slice(element);
            widened.extend((self.size()..self.storage_dtype().size()).map(|_| if is_negative { 0xff } else { 0 }));
        }
        widened
    }

    /// The inverse of [`WidenedInt::widen`]. Integers out of range wrap around.
    pub fn narrow(self, data: &[u8]) -> Vec<u8> {
        data.chunks_exact(self.storage_dtype().size()).flat_map(|element| &element[..self.size()]).copied().collect()
    }
}

/// The element type of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementType {
    /// A type that arrays support.
    DType(DType),
    /// An integer type that is stored in a wider one.
    Widened(WidenedInt),
    /// A type that arrays do not support, such as `string`, by its name in the framework.
    Unsupported(String),
}

impl ElementType {
    /// The type of the arrays that store the elements.
    ///
    /// # Errors
    /// The type is [`ElementType::Unsupported`].
    pub fn dtype(&self) -> Result<DType> {
        match self {
            ElementType::DType(dtype) => Ok(*dtype),
            ElementType::Widened(int) => Ok(int.storage_dtype()),
            ElementType::Unsupported(name) => Err(Error::unsupported(format!(
                "element type {name}: arrays hold {}; convert the model to one of them",
                DType::ALL.map(|d| d.name()).join(", ")
            ))),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementType::DType(dtype) => dtype.fmt(f),
            ElementType::Widened(int) => f.write_str(int.name()),
            ElementType::Unsupported(name) => f.write_str(name),
        }
    }
}

/// A constant tensor. Its elements are row-major, little-endian, and possibly in a memory-mapped file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub element: ElementType,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// The elements in row-major order, of the type [`ElementType::dtype`]; empty for unsupported types.
    pub data: Bytes,
}

impl Tensor {
    /// A tensor of a type that arrays support.
    pub fn new(dtype: DType, dims: Vec<usize>, data: Bytes) -> Tensor {
        Tensor { element: ElementType::DType(dtype), dims, data }
    }

    /// The content of an array.
    pub fn from_array(array: &NDArray) -> Tensor {
        let data = storage::read_bytes(array, Bytes::copy_from_slice);
        Tensor::new(array.dtype(), array.shape().to_usize().to_vec(), data)
    }

    /// An array with a copy of the elements.
    ///
    /// # Errors
    /// An unsupported element type, data whose length differs from that of the shape, out of memory.
    pub fn to_array(&self) -> Result<NDArray> {
        let array = NDArray::empty(&Shape::from_usize(&self.dims), self.element.dtype()?, Context::default())?;
        let expected = array.len() * array.dtype().size();
        if self.data.len() != expected {
            return Err(Error::format(format!("a tensor has {} bytes instead of {expected}", self.data.len())));
        }
        storage::write_bytes(&array, |to| to.copy_from_slice(&self.data));
        Ok(array)
    }
}

/// The value of an attribute, or of an expression in a mapping rule.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// An absent attribute or input.
    #[default]
    None,
    /// A Boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text, or the name of an element type.
    Text(String),
    /// Several values.
    List(Vec<Value>),
    /// A constant tensor.
    Tensor(Tensor),
    /// A graph: the body of a loop, a branch.
    Graph(Arc<Graph>),
    /// A tensor of the graph under construction, by its index.
    TensorId(usize),
}

impl PartialEq for Value {
    /// Numbers of different types are equal if they have the same value, in single precision; graphs are never equal.
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Tensor(a), Value::Tensor(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::TensorId(a), Value::TensorId(b)) => a == b,
            (a, b) => matches!((a.number(), b.number()), (Some(a), Some(b)) if a == b || a as f32 == b as f32),
        }
    }
}

impl Value {
    /// The value as a number; Booleans are 0 and 1.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            Value::Int(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// The value as an integer.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Bool(b) => Some(i64::from(*b)),
            Value::Int(i) => Some(*i),
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(*x as i64),
            _ => None,
        }
    }

    /// The value as a list of integers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        match self {
            Value::List(items) => items.iter().map(Value::int).collect(),
            _ => None,
        }
    }

    /// The value as a condition: false for `None`, false, 0 and the empty list.
    pub fn is_true(&self) -> bool {
        match self {
            Value::None | Value::Bool(false) | Value::Int(0) => false,
            Value::List(items) => !items.is_empty(),
            _ => true,
        }
    }

    /// True if numbers, or lists of numbers, are equal in single precision. Booleans count as 0 and 1; other values are compared by `==`.
    pub fn eq_as_f32(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.eq_as_f32(b)),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a as f32 == b as f32,
                _ => self == other,
            },
        }
    }

    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "nothing",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Tensor(_) => "tensor",
            Value::Graph(_) => "graph",
            Value::TensorId(_) => "tensor of the graph",
        }
    }
}

impl From<Vec<i64>> for Value {
    fn from(items: Vec<i64>) -> Value {
        Value::List(items.into_iter().map(Value::Int).collect())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl fmt::Display for Value {
    /// The text of an operator parameter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(b) => f.write_str(if *b { "True" } else { "False" }),
            Value::Int(i) => i.fmt(f),
            Value::Float(x) if *x == f64::from(*x as f32) => (*x as f32).fmt(f),
            Value::Float(x) => x.fmt(f),
            Value::Text(t) => f.write_str(t),
            Value::List(items) => {
                f.write_str("(")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Value::Tensor(t) => write!(f, "<tensor {} {:?}>", t.element, t.dims),
            Value::Graph(g) => write!(f, "<graph {}>", g.name),
            Value::TensorId(id) => write!(f, "<tensor {id} of the graph>"),
        }
    }
}

/// One dimension of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub enum Dim {
    /// A known length.
    Known(usize),
    /// A name; dimensions with the same name are equal.
    Named(String),
    /// Unknown.
    Unknown,
}

/// The declared type and shape of a value. Everything may be unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// Name.
    pub name: String,
    /// Element type.
    pub element: Option<ElementType>,
    /// Dimensions; `None` if the rank is unknown.
    pub dims: Option<Vec<Dim>>,
    /// The kind of a value that is not a tensor, such as `sequence`.
    pub non_tensor_kind: Option<&'static str>,
}

impl ValueInfo {
    /// The shape for inference, with -1 for unknown dimensions.
    pub fn shape(&self) -> Shape {
        match &self.dims {
            None => Shape::unknown(),
            Some(dims) => {
                let dims: Vec<i64> = dims.iter().map(|d| if let Dim::Known(n) = d { *n as i64 } else { -1 }).collect();
                Shape::new(&dims)
            }
        }
    }
}

/// A node: an operator applied to named values.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Name; may be empty and need not be unique.
    pub name: String,
    /// Domain of the operator, empty for the framework's own.
    pub domain: String,
    /// Operator.
    pub op: String,
    /// Names of the inputs; empty where an optional one is absent.
    pub inputs: Vec<String>,
    /// Names of the outputs; empty for unused ones.
    pub outputs: Vec<String>,
    /// Attributes.
    pub attributes: IndexMap<String, Value>,
    /// The operator set version of the node, if it differs from the model's.
    pub version: Option<i64>,
    /// True if an attribute could not be read; the model's problems say why.
    pub has_unread_attribute: bool,
}

impl Node {
    /// The node in messages: `Conv 'conv1'`.
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { self.outputs.iter().find(|o| !o.is_empty()) } else { Some(&self.name) };
        let domain = if self.domain.is_empty() { String::new() } else { format!("{}.", self.domain) };
        format!("{domain}{} '{}'", self.op, name.map_or("", String::as_str))
    }

    /// The names of outer values to which the subgraphs of the node refer.
    pub fn free_names(&self) -> HashSet<&str> {
        let mut free = HashSet::new();
        for value in self.attributes.values() {
            if let Value::Graph(graph) = value {
                free.extend(graph.free_names());
            }
        }
        free
    }
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name.
    pub name: String,
    /// Nodes, in any order.
    pub nodes: Vec<Node>,
    /// Inputs, except those with an initializer.
    pub inputs: Vec<ValueInfo>,
    /// Outputs.
    pub outputs: Vec<ValueInfo>,
    /// Initializers, which are usually trained parameters.
    pub constants: IndexMap<String, Tensor>,
    /// Declared types and shapes of intermediate values and outputs.
    pub values: IndexMap<String, ValueInfo>,
    /// Names of initializers that could not be read; the model's problems say why.
    pub unread_constants: Vec<String>,
}

impl Graph {
    /// The names of outer values to which the graph refers.
    fn free_names(&self) -> HashSet<&str> {
        let mut own: HashSet<&str> = self.inputs.iter().map(|i| i.name.as_str()).collect();
        own.extend(self.constants.keys().map(String::as_str));
        own.extend(self.nodes.iter().flat_map(|n| &n.outputs).map(String::as_str));
        let used = self.nodes.iter().flat_map(|n| n.inputs.iter().map(String::as_str).chain(n.free_names()));
        used.chain(self.outputs.iter().map(|o| o.name.as_str())).filter(|n| !n.is_empty() && !own.contains(n)).collect()
    }
}

/// A model: a graph and the operator sets that it uses.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The framework whose operators the graph is made of.
    pub framework: Framework,
    /// The graph.
    pub graph: Graph,
    /// The operator set version of each domain.
    pub opsets: IndexMap<String, i64>,
    /// Problems found while reading. A model with problems is not imported; the import reports them with its own.
    pub problems: Vec<Problem>,
}

/// The kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// An integer, which may encode a Boolean or an element type.
    Int,
    /// Integers.
    Ints,
    /// A floating-point number.
    Float,
    /// Numbers.
    Floats,
    /// Text.
    Text,
    /// Texts.
    Texts,
    /// A tensor.
    Tensor,
    /// A graph.
    Graph,
    /// A Boolean.
    Bool,
    /// Pairs of integers.
    Pairs,
    /// An unsupported kind: sparse tensors, types.
    Other,
}

impl AttributeKind {
    /// True if a value is of this kind.
    pub fn takes(self, value: &Value) -> bool {
        let all = |value: &Value, f: fn(&Value) -> bool| matches!(value, Value::List(items) if items.iter().all(f));
        match self {
            AttributeKind::Int => matches!(value, Value::Int(_)),
            AttributeKind::Float => matches!(value, Value::Float(_)),
            AttributeKind::Text => matches!(value, Value::Text(_)),
            AttributeKind::Tensor => matches!(value, Value::Tensor(_)),
            AttributeKind::Graph => matches!(value, Value::Graph(_)),
            AttributeKind::Ints => all(value, |v| matches!(v, Value::Int(_))),
            AttributeKind::Floats => all(value, |v| matches!(v, Value::Float(_))),
            AttributeKind::Texts => all(value, |v| matches!(v, Value::Text(_))),
            AttributeKind::Bool => matches!(value, Value::Bool(_)),
            AttributeKind::Pairs => all(value, |v| v.ints().is_some_and(|pair| pair.len() == 2)),
            AttributeKind::Other => false,
        }
    }
}

/// The number of values of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// One or none.
    Optional,
    /// Any number.
    Many,
}

/// An input or output of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgDescriptor {
    /// Name.
    pub name: String,
    /// Its number of values.
    pub arity: Arity,
}

/// An attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeDescriptor {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: AttributeKind,
    /// Default value; [`Value::None`] if there is none, or if the operator defines what absence means.
    pub default: Value,
    /// True if a node must have it.
    pub is_required: bool,
}

/// The descriptor of one version of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct OpDescriptor {
    /// Operator.
    pub name: String,
    /// First operator set version with this descriptor.
    pub since: i64,
    /// Inputs.
    pub inputs: Vec<ArgDescriptor>,
    /// Outputs.
    pub outputs: Vec<ArgDescriptor>,
    /// Attributes.
    pub attributes: Vec<AttributeDescriptor>,
}

impl OpDescriptor {
    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeDescriptor> {
        self.attributes.iter().find(|a| a.name == name)
    }

    /// Checks the inputs, outputs and attributes of a node of this operator.
    ///
    /// # Errors
    /// A list of all problems.
    pub fn check(&self, node: &Node) -> Result<()> {
        let mut problems = Vec::new();
        let is_variadic = self.inputs.last().is_some_and(|a| a.arity == Arity::Many);
        let num_inputs = node.inputs.len();
        if num_inputs > self.inputs.len() && !is_variadic {
            problems.push(format!("it has {num_inputs} inputs; {} takes at most {}", node.op, self.inputs.len()));
        }
        for (i, arg) in self.inputs.iter().enumerate() {
            if arg.arity == Arity::One && node.inputs.get(i).is_none_or(String::is_empty) {
                problems.push(format!("its input {} is missing", arg.name));
            }
        }
        let is_variadic = self.outputs.last().is_some_and(|a| a.arity == Arity::Many);
        if node.outputs.len() > self.outputs.len() && !is_variadic {
            let n = self.outputs.len();
            problems.push(format!("it has {} outputs; {} has at most {n}", node.outputs.len(), node.op));
        }
        for (name, value) in &node.attributes {
            match self.attribute(name) {
                None => {
                    let known: Vec<_> = self.attributes.iter().map(|a| a.name.as_str()).collect();
                    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                    problems
                        .push(format!("it has an attribute '{name}', which {} does not have; it has {known}", node.op));
                }
                Some(a) if !a.kind.takes(value) => {
                    problems.push(format!("its attribute {name} is a {} instead of {:?}", value.kind(), a.kind));
                }
                Some(_) => {}
            }
        }
        let missing = self.attributes.iter().filter(|a| a.is_required && !node.attributes.contains_key(&a.name));
        problems.extend(missing.map(|a| format!("its attribute {} is missing", a.name)));
        if problems.is_empty() { Ok(()) } else { Err(Error::format(problems.join("; "))) }
    }
}
