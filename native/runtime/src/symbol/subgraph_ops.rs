//! Nodes that hold a subgraph, as partitioning by a backend of MXNet creates them. Compiling a graph replaces such a node by its subgraph.

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpDef;
use ferromx_core::params::{Attrs, NoParams, Params};
use ferromx_ops::contrib::{FusedConvolutionParam, FusedFullyConnectedParam};
use ferromx_ops::registry;
use hashbrown::HashMap;

use super::node::{Node, NodeEntry, OpCall, is_cached_op};
use super::{DTYPE_ATTR, Symbol};

/// The 8-bit quantization of a subgraph.
struct QuantizedSubgraph {
    /// Indices of the subgraph's quantized inputs. Their ranges follow the inputs of the subgraph.
    quantized_inputs: Vec<usize>,
    /// Whether the output is floating-point instead of quantized.
    has_float_output: bool,
    /// The calibrated range of a quantized output.
    range: (Option<f32>, Option<f32>),
}

/// The call of a subgraph operator.
///
/// # Errors
/// No such operator, attributes that do not parse.
pub(crate) fn subgraph_call(name: &str, attrs: &Attrs) -> Result<OpCall> {
    let (name, def) = registry::find(name)?;
    // A cached operator has no parameters; its own parser rejects it without a graph.
    let params = if is_cached_op(def) { Params::new(NoParams {}) } else { def.parse(attrs)? };
    Ok(OpCall { name, def, params })
}

/// The quantization of a subgraph with `num_inputs` inputs, from the attributes of its node; `None` if the node is not quantized.
fn quantization_of(def: &OpDef, attrs: &Attrs, num_inputs: usize) -> Result<Option<QuantizedSubgraph>> {
    let params = def.parse(attrs)?;
    let (is_quantized, subgraph) = if let Some(p) = params.downcast::<FusedConvolutionParam>() {
        let sum = p.with_sum.then(|| num_inputs.saturating_sub(1));
        let quantized_inputs = std::iter::once(0).chain(sum).collect();
        let range = (p.min_calib_range, p.max_calib_range);
        (p.quantized, QuantizedSubgraph { quantized_inputs, has_float_output: p.enable_float_output, range })
    } else {
        let p = params.get::<FusedFullyConnectedParam>();
        let quantized_inputs = if p.channel_wise_quantize == Some(true) { vec![0] } else { (0..num_inputs).collect() };
        let range = (p.min_calib_range, p.max_calib_range);
        (p.quantized, QuantizedSubgraph { quantized_inputs, has_float_output: p.enable_float_output, range })
    };
    Ok(is_quantized.then_some(subgraph))
}

/// Expands a node of a subgraph operator to its subgraph, with the node's name and inputs.
///
/// # Errors
/// Not exactly one graph, attributes that do not parse, wrong number of inputs or ranges.
pub(super) fn expand(
    def: &OpDef,
    name: &str,
    attrs: &Attrs,
    inputs: &[NodeEntry],
    graphs: &[Symbol],
) -> Result<Symbol> {
    let [graph] = graphs else {
        return Err(Error::Value(format!(
            "{} needs one graph, its first argument, but there are {}: load the symbol file that has it, or compose it from a graph \
             and its inputs",
            def.name,
            graphs.len()
        )));
    };
    let num_graph_inputs = graph.list_inputs().len();
    let graph = &graph.expanded().unwrap_or_else(|| graph.clone());
    let quantized = if is_cached_op(def) { None } else { quantization_of(def, attrs, num_graph_inputs)? };
    let expected = num_graph_inputs + quantized.as_ref().map_or(0, |q| 2 * q.quantized_inputs.len());
    ensure!(
        inputs.len() == expected,
        "{} '{name}' has {} inputs, but its graph of {num_graph_inputs} and the ranges of integers need {expected}",
        def.name,
        inputs.len()
    );
    let mut inputs: Vec<Symbol> = inputs.iter().map(|e| Symbol::of_entry(e.clone())).collect();
    let ranges = inputs.split_off(num_graph_inputs);
    let Some(quantized) = quantized else {
        let subgraph = graph.substitute(&inputs, None)?;
        return if is_cached_op(def) { Ok(subgraph) } else { subgraph.renamed(name) };
    };
    for (i, range) in quantized.quantized_inputs.iter().zip(ranges.chunks_exact(2)) {
        let integers = [inputs[*i].clone(), range[0].clone(), range[1].clone()];
        let floats = Symbol::op("_contrib_dequantize", &format!("{name}_dequantize{i}"), &integers, &[])?;
        inputs[*i] =
            if inputs[*i].entries()[0].node.is_variable() { rescale_weights(&inputs[*i], &floats)? } else { floats };
    }
    if !quantized.quantized_inputs.contains(&1) && inputs.len() > 1 {
        inputs[1] = Symbol::op("_contrib_fake_quantize", &format!("{name}_weights"), &inputs[1..2], &[])?;
    }
    let result = graph.substitute(&inputs, None)?;
    if quantized.has_float_output { result.renamed(name) } else { quantize(&result, name, quantized.range) }
}

/// The replacement of a node: itself or a copy, or the outputs of its subgraph.
enum Replacement {
    Node(Arc<Node>),
    Outputs(Vec<NodeEntry>),
}

impl Symbol {
    /// The graph with all subgraph nodes expanded; `None` if there are none.
    pub fn expanded(&self) -> Option<Symbol> {
        let nodes = self.nodes();
        if !nodes.iter().any(|node| node.subgraph().is_some()) {
            return None;
        }
        let mut replacements: HashMap<*const Node, Replacement> = HashMap::new();
        let entry = |replacements: &HashMap<*const Node, Replacement>, e: &NodeEntry| match replacements
            .get(&Arc::as_ptr(&e.node))
        {
            Some(Replacement::Outputs(outputs)) => outputs.get(e.index as usize).unwrap_or(e).clone(),
            Some(Replacement::Node(node)) => NodeEntry { node: node.clone(), index: e.index },
            None => e.clone(),
        };
        for node in &nodes {
            let inputs: Vec<NodeEntry> = node.inputs.iter().map(|e| entry(&replacements, e)).collect();
            let attrs = node.attrs.read().clone();
            let subgraph = node.op().filter(|_| node.subgraph().is_some());
            // Creating the node already checked that it expands.
            let subgraph = subgraph.and_then(|op| expand(op.def, &node.name, &attrs, &inputs, &node.graphs).ok());
            let is_unchanged = inputs.iter().zip(&node.inputs).all(|(new, old)| new.is_same(old));
            let expanded = match subgraph {
                Some(subgraph) => Replacement::Outputs(subgraph.outputs),
                None if is_unchanged => Replacement::Node(node.clone()),
                None => Replacement::Node(node.with_inputs(inputs)),
            };
            replacements.insert(Arc::as_ptr(node), expanded);
        }
        Some(Symbol { outputs: self.outputs.iter().map(|e| entry(&replacements, e)).collect() })
    }
}

/// Corrects the scale of dequantized weights: `_contrib_quantize` maps their range to 127 levels, but `_contrib_dequantize` assumes 127.5,
/// as `_contrib_quantize_v2` uses.
fn rescale_weights(integers: &Symbol, floats: &Symbol) -> Result<Symbol> {
    if integers.attr(DTYPE_ATTR).is_none() {
        integers.set_attr(DTYPE_ATTR, &DType::I8.code().to_string())?;
    }
    let name = format!("{}_weights", floats.name().unwrap_or_default());
    Symbol::op("_mul_scalar", &name, std::slice::from_ref(floats), &[("scalar", &(127.5f64 / 127.0).to_string())])
}

/// Quantizes an output: to 8 bits if its range was calibrated, else to 32 bits for `_contrib_requantize`.
fn quantize(floats: &Symbol, name: &str, range: (Option<f32>, Option<f32>)) -> Result<Symbol> {
    let (Some(min), Some(max)) = range else { return quantize_to_32_bits(floats, name) };
    let (min, max) = (min.to_string(), max.to_string());
    let attrs = [("min_calib_range", min.as_str()), ("max_calib_range", &max), ("out_type", "auto")];
    Symbol::op("_contrib_quantize_v2", name, std::slice::from_ref(floats), &attrs)
}

/// The largest `f32` that fits `i32`; `i32::MAX` itself rounds up to 2^31, which does not.
const MAX_I32: f32 = 2_147_483_520.0;

/// Quantizes symmetrically to 32-bit integers: the largest absolute value maps to `MAX_I32`.
fn quantize_to_32_bits(floats: &Symbol, name: &str) -> Result<Symbol> {
    let op = |op: &str, suffix: &str, inputs: &[Symbol], attrs: &[(&str, &str)]| {
        Symbol::op(op, &format!("{name}_{suffix}"), inputs, attrs)
    };
    let magnitudes = op("abs", "sizes", std::slice::from_ref(floats), &[])?;
    let max = op("max", "max", &[magnitudes], &[])?;
    let min = op("negative", "min", std::slice::from_ref(&max), &[])?;
    let normalized = op("broadcast_div", "shares", &[floats.clone(), max.clone()], &[])?;
    let scaled = op("_mul_scalar", "scaled", &[normalized], &[("scalar", &MAX_I32.to_string())])?;
    let integers = Symbol::op("Cast", name, &[scaled], &[("dtype", "int32")])?;
    Ok(Symbol::group(&[integers, min, max]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Symbol {
        Symbol::variable(name, Attrs::new())
    }

    fn subgraph() -> Symbol {
        let c = [("kernel", "(1, 1)"), ("num_filter", "2"), ("no_bias", "True")];
        let c = Symbol::op("Convolution", "c", &[variable("data0"), variable("c_weight0")], &c).unwrap();
        Symbol::op("Activation", "a", &[c], &[("act_type", "relu")]).unwrap()
    }

    #[test]
    fn a_subgraph_node_expands_to_its_graph() {
        let s =
            Symbol::op("_sg_mkldnn_conv", "sg", &[subgraph(), variable("x"), variable("w")], &[("with_act", "true")])
                .unwrap();
        assert_eq!(s.list_inputs(), ["x", "w"]);
        assert_eq!(s.internals().list_outputs(), ["x", "w", "sg_output"]);
        assert_eq!(s.expanded().unwrap().internals().list_outputs(), ["x", "w", "c_output", "sg_output"]);
        let e =
            Symbol::op("_sg_mkldnn_conv", "sg", &[subgraph(), variable("x")], &[]).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("has 1 inputs, but its graph of 2"), "{e}");
        let e = Symbol::op("_sg_mkldnn_conv", "sg", &[], &[]).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("load the symbol file that has it"), "{e}");
    }

    #[test]
    fn inputs_are_dequantized_and_outputs_quantized() {
        let inputs = [subgraph(), variable("x"), variable("w"), variable("x_min"), variable("x_max")];
        let calibrated = [("quantized", "true"), ("min_calib_range", "-0.0"), ("max_calib_range", "2.5")];
        let s = Symbol::op("_sg_mkldnn_conv", "sg", &inputs, &calibrated).unwrap();
        assert_eq!(s.list_inputs(), ["x", "w", "x_min", "x_max"]);
        assert_eq!(s.expanded().unwrap().list_inputs(), ["x", "x_min", "x_max", "w"]);
        assert_eq!(s.num_outputs(), 3);
        let floats = [("quantized", "true"), ("enable_float_output", "true")];
        let s = Symbol::op("_sg_mkldnn_conv", "sg", &inputs, &floats).unwrap();
        assert_eq!(s.list_outputs(), ["sg_output"]);
        let s = Symbol::op("_sg_mkldnn_conv", "sg", &inputs, &floats[..1]).unwrap();
        assert_eq!(s.list_outputs(), ["sg_output", "sg_output_min", "sg_output_max"]);
        assert_eq!(s.expanded().unwrap().list_outputs(), ["sg_output", "sg_min_output", "sg_max_output"]);
    }
}
