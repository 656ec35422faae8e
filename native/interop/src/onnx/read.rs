//! Converts the messages of a file to the framework-neutral form.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::storage::as_bytes;
use indexmap::IndexMap;
use prost::Message;

use super::proto::{
    AttributeProto, AttributeType, DimensionValue, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
    TypeValue, ValueInfoProto,
};
use super::{functions, types, wire};
use crate::error::{Error, Problem, Result};
use crate::external::External;
use crate::ir::{Dim, ElementType, Framework, Graph, Model, Node, Tensor, Value, ValueInfo, WidenedInt};

/// Reads a model. Tensors share `bytes` if possible; `external` gives access to external data.
///
/// Initializers and attributes that cannot be read become problems of the model, which the import reports with its own.
///
/// # Errors
/// Bytes that are not an ONNX model.
pub fn model(bytes: Bytes, external: &External) -> Result<Model> {
    wire::check(&bytes)?;
    let proto = ModelProto::decode(bytes).map_err(|e| Error::format(format!("this is not an ONNX file: {e}")))?;
    let mut opsets = IndexMap::new();
    for set in &proto.opset_import {
        let domain = domain_name(&set.domain);
        if opsets.insert(domain.clone(), set.version).is_some_and(|earlier| earlier != set.version) {
            return Err(Error::format(format!("the model imports two versions of the operator set '{domain}'")));
        }
    }
    if opsets.is_empty() {
        return Err(Error::format("the model imports no operator set: opset_import is missing"));
    }
    let graph = proto.graph.ok_or_else(|| Error::format("the model has no graph"))?;
    let graph = functions::inline(graph, &proto.functions)?;
    let mut reader = Reader { external, problems: Vec::new() };
    let graph = reader.graph(graph);
    Ok(Model { framework: Framework::Onnx, graph, opsets, problems: reader.problems })
}

/// The canonical name of a domain: `ai.onnx` is the empty name.
pub(super) fn domain_name(domain: &str) -> String {
    if domain == "ai.onnx" { String::new() } else { domain.to_string() }
}

struct Reader<'a> {
    external: &'a External,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, location: String, e: Error) {
        self.problems.extend(e.at(location));
    }

    fn graph(&mut self, proto: GraphProto) -> Graph {
        let mut graph = Graph { name: proto.name, ..Graph::default() };
        for tensor in proto.initializer {
            let name = tensor.name.clone();
            let location = format!("initializer '{name}'");
            match self.tensor(tensor) {
                Err(e) => {
                    self.problem(location, e);
                    graph.unread_constants.push(name);
                }
                Ok(_) if name.is_empty() => self.problem(location, Error::format("it has no name")),
                Ok(value) => {
                    if graph.constants.insert(name, value).is_some() {
                        self.problem(location, Error::format("two initializers have this name"));
                    }
                }
            }
        }
        for sparse in proto.sparse_initializer {
            let name = sparse.values.as_ref().map(|v| v.name.clone()).unwrap_or_default();
            match self.sparse(sparse) {
                Err(e) => {
                    self.problem(format!("sparse initializer '{name}'"), e);
                    graph.unread_constants.push(name);
                }
                Ok(value) => drop(graph.constants.insert(name, value)),
            }
        }
        let mut seen = HashSet::new();
        for info in proto.input {
            if !seen.insert(info.name.clone()) || info.name.is_empty() {
                self.problem(format!("input '{}'", info.name), Error::format("it has no name, or two inputs have it"));
            }
            // Before IR version 4, every initializer was also an input.
            if !graph.constants.contains_key(&info.name) {
                graph.inputs.push(value_info(&info));
            }
        }
        graph.outputs = proto.output.iter().map(value_info).collect();
        graph.values = proto.value_info.iter().chain(&proto.output).map(|v| (v.name.clone(), value_info(v))).collect();
        graph.nodes = proto.node.into_iter().map(|n| self.node(n)).collect();
        graph
    }

    fn node(&mut self, proto: NodeProto) -> Node {
        let mut node = Node {
            name: proto.name,
            domain: domain_name(&proto.domain),
            op: proto.op_type,
            inputs: proto.input,
            outputs: proto.output,
            ..Node::default()
        };
        for attribute in proto.attribute {
            let name = attribute.name.clone();
            match self.attribute(attribute) {
                Err(e) => {
                    let location = format!("{}, attribute {name}", node.label());
                    self.problem(location, e);
                    node.has_unread_attribute = true;
                }
                Ok(value) => {
                    if node.attributes.insert(name.clone(), value).is_some() {
                        let location = format!("{}, attribute {name}", node.label());
                        self.problem(location, Error::format("it is given twice"));
                    }
                }
            }
        }
        node
    }

    fn attribute(&mut self, a: AttributeProto) -> Result<Value> {
        let absent = || Error::format("its value is missing");
        Ok(match AttributeType::try_from(a.r#type) {
            Ok(AttributeType::Float) => Value::Float(f64::from(a.f.unwrap_or_default())),
            Ok(AttributeType::Int) => Value::Int(a.i.unwrap_or_default()),
            Ok(AttributeType::String) => Value::Text(text(&a.s.unwrap_or_default())?),
            Ok(AttributeType::Tensor) => Value::Tensor(self.tensor(a.t.ok_or_else(absent)?)?),
            Ok(AttributeType::Graph) => Value::Graph(Arc::new(self.graph(a.g.ok_or_else(absent)?))),
            Ok(AttributeType::Floats) => {
                Value::List(a.floats.into_iter().map(|x| Value::Float(f64::from(x))).collect())
            }
            Ok(AttributeType::Ints) => Value::from(a.ints),
            Ok(AttributeType::Strings) => {
                Value::List(a.strings.iter().map(|s| text(s).map(Value::Text)).collect::<Result<_>>()?)
            }
            Ok(other) => return Err(Error::unsupported(format!("attributes of type {other:?} are not supported"))),
            Err(_) => return Err(Error::format(format!("its type has the unknown code {}", a.r#type))),
        })
    }

    fn tensor(&self, t: TensorProto) -> Result<Tensor> {
        let element = types::element_type(t.data_type.into());
        let dims = dims(&t.dims)?;
        let size = match &element {
            ElementType::DType(dtype) => dtype.size(),
            ElementType::Widened(int) => int.size(),
            ElementType::Unsupported(_) => return Ok(Tensor { element, dims, data: Bytes::new() }),
        };
        let count = (dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)))
            .filter(|n| n.checked_mul(size).is_some())
            .ok_or_else(|| Error::format(format!("a tensor of shape {dims:?} is larger than memory")))?;
        let data = match (t.data_location, &t.raw_data) {
            (1, _) => {
                let entry = |key: &str| t.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
                self.external.data(entry, count * size)?
            }
            (_, Some(raw)) => raw.clone(),
            (_, None) => typed_data(&element, &t),
        };
        if data.len() != count * size {
            return Err(Error::format(format!(
                "a tensor of shape {dims:?} and type {element} needs {} bytes, but {} are given",
                count * size,
                data.len()
            )));
        }
        if element == ElementType::DType(DType::Bool) && data.iter().any(|b| *b > 1) {
            return Err(Error::format("a tensor of type bool has bytes other than 0 and 1"));
        }
        let data = match &element {
            ElementType::Widened(int) => int.widen(&data).into(),
            _ => data,
        };
        Ok(Tensor { element, dims, data })
    }

    /// A sparse tensor, converted to a dense one.
    fn sparse(&self, s: SparseTensorProto) -> Result<Tensor> {
        let missing = || Error::format("a sparse tensor has no values or indices");
        let (values, indices) =
            (self.tensor(s.values.ok_or_else(missing)?)?, self.tensor(s.indices.ok_or_else(missing)?)?);
        let dims = dims(&s.dims)?;
        let size = values.element.dtype()?.size();
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= 1 << 28);
        let count = count.ok_or_else(|| Error::format(format!("a sparse tensor of shape {dims:?} is too large")))?;
        let stored = values.data.len() / size;
        // Indices are flat, or have one coordinate for each axis.
        let is_flat = indices.dims.len() == 1;
        let width = if is_flat { 1 } else { dims.len() };
        if indices.element != ElementType::DType(DType::I64) || indices.data.len() != stored * width * 8 {
            return Err(Error::format(
                "the indices of a sparse tensor have a wrong type or number: expected 64-bit integers",
            ));
        }
        let number = |i: usize| i64::from_le_bytes(std::array::from_fn(|k| indices.data[i * 8 + k]));
        let mut data = vec![0u8; count * size];
        for i in 0..stored {
            let index = if is_flat {
                usize::try_from(number(i)).ok()
            } else {
                (0..width).try_fold(0usize, |index, k| {
                    let coordinate = usize::try_from(number(i * width + k)).ok().filter(|x| *x < dims[k])?;
                    Some(index * dims[k] + coordinate)
                })
            };
            let index = index
                .filter(|index| *index < count)
                .ok_or_else(|| Error::format("an index of a sparse tensor is out of range"))?;
            data[index * size..(index + 1) * size].copy_from_slice(&values.data[i * size..(i + 1) * size]);
        }
        Ok(Tensor { element: values.element, dims, data: data.into() })
    }
}

fn dims(dims: &[i64]) -> Result<Vec<usize>> {
    let all: Option<Vec<usize>> = dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    all.filter(|d| d.len() <= 32).ok_or_else(|| Error::format(format!("{dims:?} is not a valid shape")))
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::format("a string is not UTF-8"))
}

/// The elements of a tensor in typed fields. Types of up to 32 bits share `int32_data`, uint32 and uint64 share `uint64_data`.
fn typed_data(element: &ElementType, t: &TensorProto) -> Bytes {
    fn bytes<T: Element>(items: &[T]) -> Bytes {
        Bytes::copy_from_slice(as_bytes(items))
    }
    fn narrowed<T: Element>(items: &[i32], f: impl Fn(i32) -> T) -> Bytes {
        bytes(&items.iter().map(|x| f(*x)).collect::<Vec<T>>())
    }
    let (ints, unsigned) = (&t.int32_data, &t.uint64_data);
    match element {
        ElementType::DType(DType::F32) => bytes(&t.float_data),
        ElementType::DType(DType::F64) => bytes(&t.double_data),
        ElementType::DType(DType::I64) => bytes(&t.int64_data),
        ElementType::DType(DType::I32) => bytes(ints),
        ElementType::DType(DType::U8) => narrowed(ints, |x| x as u8),
        ElementType::DType(DType::I8) => narrowed(ints, |x| x as i8),
        ElementType::DType(DType::Bool) => narrowed(ints, |x| x != 0),
        ElementType::DType(DType::F16) => narrowed(ints, |x| f16::from_bits(x as u16)),
        ElementType::DType(DType::BF16) => narrowed(ints, |x| bf16::from_bits(x as u16)),
        ElementType::Widened(WidenedInt::U16 | WidenedInt::I16) => {
            ints.iter().flat_map(|x| (*x as u16).to_le_bytes()).collect()
        }
        ElementType::Widened(WidenedInt::U32) => unsigned.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect(),
        ElementType::Widened(WidenedInt::U64) => unsigned.iter().flat_map(|x| x.to_le_bytes()).collect(),
        ElementType::Unsupported(_) => Bytes::new(),
    }
}

fn value_info(proto: &ValueInfoProto) -> ValueInfo {
    let mut info = ValueInfo { name: proto.name.clone(), element: None, dims: None, non_tensor_kind: None };
    match proto.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        None => {}
        Some(TypeValue::Sequence(_)) => info.non_tensor_kind = Some("sequence"),
        Some(TypeValue::Map(_)) => info.non_tensor_kind = Some("map"),
        Some(TypeValue::SparseTensor(_)) => info.non_tensor_kind = Some("sparse tensor"),
        Some(TypeValue::Optional(_)) => info.non_tensor_kind = Some("optional"),
        Some(TypeValue::Tensor(t)) => {
            if t.elem_type != 0 {
                info.element = Some(types::element_type(t.elem_type.into()));
            }
            info.dims = t.shape.as_ref().map(|shape| {
                let dim = |d: &super::proto::Dimension| match &d.value {
                    Some(DimensionValue::Value(n)) => usize::try_from(*n).map_or(Dim::Unknown, Dim::Known),
                    Some(DimensionValue::Param(name)) if !name.is_empty() => Dim::Named(name.clone()),
                    _ => Dim::Unknown,
                };
                shape.dim.iter().map(dim).collect()
            });
        }
    }
    info
}
