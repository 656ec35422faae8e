//! Folds calls with constant inputs. A call that dequantizes weights can be repeated as a node of the graph.

use ferromx_core::context::Context;
use ferromx_core::infer::ShapeIo;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Forward, OpDef};
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::DEQUANTIZE_LINEAR;
use ferromx_runtime::imperative::{self, Arrays};
use ferromx_runtime::symbol::OpCall;

use super::Builder;
use crate::error::Result;

/// Maximum number of elements of a folded constant that is larger than its inputs, such as a tensor of zeros.
const MAX_EXPANDED: usize = 1 << 24;
/// Constants of up to this many bytes are folded regardless of the budget.
const SMALL_CONSTANT_BYTES: usize = 1 << 12;

/// True if the outputs depend only on the inputs, so that a call can be folded.
pub(super) fn is_pure(def: &OpDef) -> bool {
    !def.kernels.is_random && !matches!(def.kernels.forward, Forward::Foreign(_)) && def.name != "Custom"
}

/// Operators that plans compute on 8-bit integers if both operands are dequantized.
pub(super) const INTEGER_PRODUCTS: [&str; 3] = ["Convolution", "FullyConnected", "_npi_matmul"];

/// A call whose result was folded.
#[derive(Clone)]
pub(super) struct Folded {
    pub call: OpCall,
    pub attrs: Attrs,
    pub name: String,
    pub ins: Vec<usize>,
}

impl Builder {
    /// True if `DequantizeLinear` computes the tensor when the graph runs.
    pub(super) fn is_dequantized(&self, tensor_id: usize) -> bool {
        let symbol = self.tensors[tensor_id].symbol.as_ref();
        let node = symbol.and_then(|symbol| symbol.entries().first()).map(|e| &e.node);
        node.and_then(|node| node.op()).is_some_and(|op| op.def.name == DEQUANTIZE_LINEAR.name())
    }

    /// Repeats the folded call that dequantized these weights as a node of the graph, so that a plan finds the integers; `None` if
    /// `tensor_id` is not the result of such a call.
    pub(super) fn unfolded(&mut self, tensor_id: usize) -> Result<Option<usize>> {
        if let Some(output) = self.unfolded.get(&tensor_id) {
            return Ok(Some(*output));
        }
        let Some(Folded { call, attrs, name, mut ins }) = self.dequantized.get(&tensor_id).cloned() else {
            return Ok(None);
        };
        ins[0] = self.unfolded(ins[0])?.unwrap_or(ins[0]);
        let output = self.add(&call, &attrs, &name, &ins, &[])?[0];
        self.unfolded.insert(tensor_id, output);
        Ok(Some(output))
    }

    /// Folds an operator with constant inputs. `None` if the result is much larger than the inputs or exceeds the budget.
    pub(super) fn fold(&mut self, call: &OpCall, name: &str, values: Vec<NDArray>) -> Result<Option<Vec<usize>>> {
        let num_in: usize = values.iter().map(NDArray::len).sum();
        if !self.is_executing() && !matches!(call.def.kernels.forward, Forward::Dynamic(_)) {
            let mut ins: Vec<Shape> = values.iter().map(|v| v.shape().clone()).collect();
            let mut outs = vec![Shape::unknown(); call.def.num_outputs(&call.params)];
            (call.def.inference.shape)(&call.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })
                .map_err(|e| call.locate(e, name, values.len()))?;
            let num_out = outs.iter().filter_map(|s| s.checked_elements().ok()).max().unwrap_or(0);
            let size = values.iter().map(|v| v.dtype().size()).max().unwrap_or(size_of::<f64>());
            let bytes = num_out.saturating_mul(size);
            let is_expanded = num_out > MAX_EXPANDED.max(num_in.saturating_mul(2));
            if is_expanded || (bytes > SMALL_CONSTANT_BYTES && bytes > self.fold_budget) {
                return Ok(None);
            }
        }
        let mut outs = Arrays::new();
        imperative::invoke(call, Some(Context::default()), &values, &mut outs)?;
        let bytes: usize = outs.iter().map(|a| a.len() * a.dtype().size()).sum();
        if !self.is_executing() && bytes > SMALL_CONSTANT_BYTES {
            self.fold_budget = self.fold_budget.saturating_sub(bytes);
        }
        let visible = call.def.num_visible(&call.params);
        let named = |k: usize| if visible == 1 { name.to_string() } else { format!("{name}_{k}") };
        Ok(Some(outs.into_iter().take(visible).enumerate().map(|(k, a)| self.constant(&named(k), a)).collect()))
    }
}
