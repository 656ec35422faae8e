//! Integer types that arrays do not support: tensors store them in wider types, and added operators make results wrap around.

use crate::emit::Builder;
use crate::error::Result;
use crate::ir::{ElementType, Node, Value, WidenedInt};
use crate::mxnet;

/// Operators whose results may overflow their type.
const OVERFLOWING: [&str; 19] = [
    "Abs",
    "Add",
    "BitShift",
    "BitwiseNot",
    "Cast",
    "CastLike",
    "CumSum",
    "Div",
    "Einsum",
    "Gemm",
    "MatMul",
    "Mul",
    "Neg",
    "Pow",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Sub",
    "Sum",
];

/// Operators, with the indices of the outputs whose type is int64 for inputs of any type.
const INT64_OUTPUTS: [(&str, std::ops::Range<usize>); 9] = [
    ("ArgMax", 0..1),
    ("ArgMin", 0..1),
    ("MaxPool", 1..2),
    ("NonMaxSuppression", 0..1),
    ("NonZero", 0..1),
    ("Shape", 0..1),
    ("Size", 0..1),
    ("TopK", 1..2),
    ("Unique", 1..4),
];

/// Attributes with the code of the outputs' element type; 0 means that it follows from the inputs.
const TYPE_CODES: [&str; 3] = ["to", "dtype", "output_dtype"];

/// The type of output `k` if the model does not declare it: that of an attribute, otherwise that of the inputs.
fn inferred(builder: &Builder, node: &Node, k: usize, inputs: &[Value]) -> Option<WidenedInt> {
    let attribute = TYPE_CODES.iter().find_map(|key| node.attributes.get(*key)?.int()).filter(|code| *code != 0);
    if let Some(code) = attribute {
        return widened(&crate::onnx::element_type(code));
    }
    if let Some(Value::Tensor(tensor)) = node.attributes.get("value") {
        return widened(&tensor.element);
    }
    if INT64_OUTPUTS.iter().any(|(op, outputs)| *op == node.op && outputs.contains(&k)) {
        return None;
    }
    let of = |value: &Value| if let Value::TensorId(id) = value { builder.info(*id).widened } else { None };
    inputs[if node.op == "CastLike" { 1.min(inputs.len()) } else { 0 }..].iter().find_map(of)
}

/// The code of an element type in a model.
///
/// # Errors
/// An unsupported element type.
pub(crate) fn type_code(element: &ElementType) -> Result<i64> {
    Ok(crate::onnx::code_of_element(element)?.into())
}

fn widened(element: &ElementType) -> Option<WidenedInt> {
    if let ElementType::Widened(int) = element { Some(*int) } else { None }
}

impl Builder {
    /// Records the declared element type of a tensor.
    pub fn record_element_type(&mut self, tensor_id: usize, element: Option<&ElementType>) {
        let Some(int) = element.and_then(widened) else { return };
        self.mark_widened(tensor_id, int);
        if let Some(symbol) = self.info(tensor_id).symbol()
            && let [entry] = symbol.entries()
        {
            entry.node.attrs.write().insert(mxnet::ELEMENT_TYPE.into(), int.name().into());
        }
    }

    /// Records the declared or inferred element types of a node's outputs, and makes results that overflow them wrap around.
    ///
    /// # Errors
    /// Errors of the operators.
    pub(crate) fn widen(
        &mut self,
        node: &Node,
        declared: impl Fn(&str) -> Option<ElementType>,
        inputs: &[Value],
        outputs: &mut [Value],
    ) -> Result<()> {
        for (k, (name, value)) in node.outputs.iter().zip(outputs).enumerate() {
            let Value::TensorId(id) = *value else { continue };
            let int = match declared(name) {
                Some(element) => widened(&element),
                None => inferred(self, node, k, inputs),
            };
            let Some(int) = int.filter(|int| self.info(id).dtype == Some(int.storage_dtype())) else { continue };
            let output = if OVERFLOWING.contains(&node.op.as_str()) { self.wrap(name, id, int)? } else { id };
            self.mark_widened(output, int);
            *value = Value::TensorId(output);
        }
        Ok(())
    }

    /// Wraps integers around to the range of their type.
    fn wrap(&mut self, name: &str, tensor_id: usize, int: WidenedInt) -> Result<usize> {
        let operators: &[(&str, i64)] = match int {
            WidenedInt::U16 => &[("_npi_bitwise_and_scalar", 0xffff)],
            WidenedInt::I16 => &[
                ("_npi_bitwise_and_scalar", 0xffff),
                ("_npi_bitwise_xor_scalar", 0x8000),
                ("_npi_subtract_scalar", 0x8000),
            ],
            WidenedInt::U32 => &[("_npi_bitwise_and_scalar", 0xffff_ffff)],
            WidenedInt::U64 => &[],
        };
        operators.iter().try_fold(tensor_id, |tensor_id, (op, scalar)| {
            Ok(self.apply(op, name, &[Value::TensorId(tensor_id)], &[("scalar", Value::Int(*scalar))])?[0])
        })
    }

    /// An output of the model. If its element type is widened, this is a copy whose node records the element type for an export.
    ///
    /// # Errors
    /// Errors of the copy.
    pub fn described_output(&mut self, name: &str, tensor_id: usize) -> Result<usize> {
        let Some(int) = self.info(tensor_id).widened else { return Ok(tensor_id) };
        let copy = self.apply("_copy", name, &[Value::TensorId(tensor_id)], &[])?[0];
        self.symbol(copy);
        self.record_element_type(copy, Some(&ElementType::Widened(int)));
        Ok(copy)
    }
}
