//! Converts the framework-neutral form to the messages of a file.

use std::path::Path;

use bytes::Bytes;
use ferromx_core::file_format::write_atomically;
use prost::Message;

use super::proto::{
    AttributeProto, AttributeType, Dimension, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorType, TypeProto, TypeValue, ValueInfoProto,
};
use super::types;
use crate::error::{Error, Result};
use crate::ir::{AttributeKind, Dim, ElementType, Graph, Model, Node, Tensor, Value, ValueInfo};

/// Maximum length of a protocol buffer.
const MAX_BYTES: usize = i32::MAX as usize;

/// The bytes of a model.
///
/// # Errors
/// Element types that ONNX does not have, a model of 2 GiB or more.
pub fn to_bytes(model: &Model) -> Result<Vec<u8>> {
    let opset_import =
        model.opsets.iter().map(|(domain, version)| OperatorSetIdProto { domain: domain.clone(), version: *version });
    let newest = model.opsets.get("").copied().unwrap_or(1);
    let proto = ModelProto {
        ir_version: ir_version(newest),
        producer_name: "FerroMX".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(graph(&model.graph)?),
        opset_import: opset_import.collect(),
        functions: Vec::new(),
    };
    let n = proto.encoded_len();
    if n > MAX_BYTES {
        return Err(Error::unsupported(format!(
            "the model has {n} bytes; a file of this format has at most {MAX_BYTES}"
        )));
    }
    Ok(proto.encode_to_vec())
}

/// Writes a model to a file atomically.
///
/// # Errors
/// See [`to_bytes`]; I/O errors.
pub fn save(model: &Model, path: &Path) -> Result<()> {
    let bytes = to_bytes(model)?;
    Ok(write_atomically(&path.display().to_string(), |file| file.write_all(&bytes))?)
}

/// The IR version that belongs to a version of the operator set.
fn ir_version(opset: i64) -> i64 {
    match opset {
        ..=8 => 3,
        9..=10 => 5,
        11 => 6,
        12..=14 => 7,
        15..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        _ => 11,
    }
}

fn graph(graph: &Graph) -> Result<GraphProto> {
    let initializer = graph.constants.iter().map(|(name, t)| tensor(name, t)).collect::<Result<_>>()?;
    let values = |infos: &[ValueInfo]| infos.iter().map(value_info).collect::<Result<Vec<_>>>();
    Ok(GraphProto {
        node: graph.nodes.iter().map(node).collect::<Result<_>>()?,
        name: if graph.name.is_empty() { "graph".into() } else { graph.name.clone() },
        initializer,
        input: values(&graph.inputs)?,
        output: values(&graph.outputs)?,
        value_info: Vec::new(),
        sparse_initializer: Vec::new(),
    })
}

fn node(node: &Node) -> Result<NodeProto> {
    Ok(NodeProto {
        input: node.inputs.clone(),
        output: node.outputs.clone(),
        name: node.name.clone(),
        op_type: node.op.clone(),
        attribute: node.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Result<_>>()?,
        domain: node.domain.clone(),
        overload: String::new(),
    })
}

fn attribute(name: &str, value: &Value) -> Result<AttributeProto> {
    let mut a = AttributeProto { name: name.into(), ..AttributeProto::default() };
    let mut kind = AttributeType::Undefined;
    match value {
        Value::Int(i) => (kind, a.i) = (AttributeType::Int, Some(*i)),
        Value::Bool(b) => (kind, a.i) = (AttributeType::Int, Some(i64::from(*b))),
        Value::Float(x) => (kind, a.f) = (AttributeType::Float, Some(*x as f32)),
        Value::Text(t) => (kind, a.s) = (AttributeType::String, Some(Bytes::copy_from_slice(t.as_bytes()))),
        Value::Tensor(t) => (kind, a.t) = (AttributeType::Tensor, Some(tensor("", t)?)),
        Value::Graph(g) => (kind, a.g) = (AttributeType::Graph, Some(graph(g)?)),
        Value::List(_) if AttributeKind::Ints.takes(value) => {
            kind = AttributeType::Ints;
            a.ints = value.ints().unwrap_or_default();
        }
        Value::List(items) if AttributeKind::Floats.takes(value) => {
            kind = AttributeType::Floats;
            a.floats = items.iter().filter_map(|v| v.number().map(|x| x as f32)).collect();
        }
        Value::List(items) if AttributeKind::Texts.takes(value) => {
            kind = AttributeType::Strings;
            a.strings = items.iter().map(|v| Bytes::from(v.to_string())).collect();
        }
        _ => {}
    }
    if kind == AttributeType::Undefined {
        return Err(Error::unsupported(format!(
            "the attribute {name} is a {}, which cannot be exported",
            value.kind()
        )));
    }
    a.r#type = kind.into();
    Ok(a)
}

fn tensor(name: &str, t: &Tensor) -> Result<TensorProto> {
    Ok(TensorProto {
        dims: t.dims.iter().map(|d| *d as i64).collect(),
        data_type: types::code_of_element(&t.element)?,
        name: name.into(),
        raw_data: Some(match &t.element {
            ElementType::Widened(int) => int.narrow(&t.data).into(),
            _ => t.data.clone(),
        }),
        ..TensorProto::default()
    })
}

fn value_info(info: &ValueInfo) -> Result<ValueInfoProto> {
    let Some(element) = &info.element else {
        return Err(Error::value(format!("the element type of '{}' is unknown: specify it", info.name)));
    };
    let dim = |d: &Dim| Dimension {
        value: match d {
            Dim::Known(n) => Some(DimensionValue::Value(*n as i64)),
            Dim::Named(name) => Some(DimensionValue::Param(name.clone())),
            Dim::Unknown => None,
        },
    };
    let shape = info.dims.as_ref().map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = TensorType { elem_type: types::code_of_element(element)?, shape };
    Ok(ValueInfoProto { name: info.name.clone(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) })
}
