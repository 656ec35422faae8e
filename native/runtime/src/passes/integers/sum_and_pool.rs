//! Sums and max pooling of dequantized operands that are quantized again.

use ferromx_core::fusion::{Elementwise, Role};
use ferromx_core::grad::Entry;
use ferromx_core::op::KernelFn;
use ferromx_core::params::Params;
use ferromx_ops::nn::{PoolType, PoolingParam};
use ferromx_ops::quantized::{INTEGER_MAX_POOL, INTEGER_SUM, IntegerSum, Output};

use super::{Matcher, Quantized, operator};
use crate::graph::{Graph, entry};
use crate::passes::epilogue::ADDITIONS;
use crate::symbol::OpCall;

/// The fused node that replaces a quantization.
pub(super) struct Replacement {
    pub op: OpCall,
    pub kernel: KernelFn,
    pub params: Params,
    pub inputs: Vec<Entry>,
}

impl Matcher<'_> {
    /// The fused node for node `i`, if it quantizes a sum or max pooling of dequantized operands.
    pub(super) fn sum_or_pool(&self, graph: &Graph, i: usize) -> Option<Replacement> {
        let (op, inputs) = operator(graph, entry(i, 0))?;
        let output = self.quantization(op, inputs)?;
        let mut source = inputs[0];
        let mut clamp = None;
        let (mut inner, mut operands) = self.only_read_by(graph, source, i)?;
        if let Role::Function(function) = inner.def.fusion.role {
            clamp = Some(match function(&inner.params)? {
                Elementwise::Relu => [0.0, f32::INFINITY],
                Elementwise::Clamp { low, high } => [low as f32, high as f32],
                _ => return None,
            });
            let reader = source.node as usize;
            source = operands[0];
            (inner, operands) = self.only_read_by(graph, source, reader)?;
        }
        if let Some(pooling) = inner.params.downcast::<PoolingParam>() {
            let data = self.dequantized(graph, operands[0])?;
            let has_same_params = output == Output::Linear && data.quant_params == inputs[1..];
            let is_maximum = pooling.pool_type == PoolType::Max && inner.def.name == "Pooling" && clamp.is_none();
            return (has_same_params && is_maximum && self.has_one_scale(&data)).then(|| Replacement {
                op: inner.clone(),
                kernel: INTEGER_MAX_POOL,
                params: inner.params.clone(),
                inputs: vec![data.data],
            });
        }
        if !ADDITIONS.contains(&inner.def.name) {
            return None;
        }
        let is_supported = |x: &Quantized| self.has_one_scale(x) && self.dims(x.data) == self.dims(source);
        let [lhs, rhs] = [operands[0], operands[1]].map(|e| self.dequantized(graph, e).filter(is_supported));
        let (lhs, rhs) = (lhs?, rhs?);
        let params = Params::new(IntegerSum { operands: [lhs.scheme, rhs.scheme], clamp, output });
        let quant_params = [lhs.quant_params, rhs.quant_params].concat();
        let inputs = [&[lhs.data, rhs.data][..], &quant_params, &inputs[1..]].concat();
        Some(Replacement { op: inner.clone(), kernel: INTEGER_SUM, params, inputs })
    }

    /// The operator whose first output is `e`, if `reader` is the only node that reads it.
    fn only_read_by<'g>(&self, graph: &'g Graph, e: Entry, reader: usize) -> Option<(&'g OpCall, &'g [Entry])> {
        let is_inner =
            self.readers.get(&e).is_some_and(|readers| *readers == [reader]) && !self.args.live_out.contains(&e);
        operator(graph, e).filter(|_| is_inner)
    }
}
