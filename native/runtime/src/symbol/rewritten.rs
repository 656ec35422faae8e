//! Nodes that stand for a part of a graph, as MXNet's backends write them: when a graph is compiled, the part takes the node's place.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpDef;
use ferromx_core::params::{Attrs, NoParams, Params};
use ferromx_ops::contrib::{FusedConvolutionParam, FusedFullyConnectedParam};
use ferromx_ops::registry;

use parking_lot::RwLock;

use super::{Node, NodeEntry, OpCall, Symbol};
use crate::passes::infer::DTYPE_ATTR;

/// How a part computes with 8-bit integers.
struct Quantized {
    /// Positions of the inputs of the part that are integers. The ends of their ranges follow all inputs of the part.
    integers: Vec<usize>,
    /// Whether the result is of numbers, and not of integers.
    float_output: bool,
    /// The range of a result of integers.
    range: (Option<f32>, Option<f32>),
}

/// Whether the outputs of an operator's nodes are those of their graphs.
fn is_cached(def: &OpDef) -> bool {
    matches!(def.name, "_CachedOp" | "_CachedOpThreadSafe")
}

/// Whether nodes of an operator stand for graphs.
pub(super) fn stands_for_graph(def: &OpDef) -> bool {
    def.expands || is_cached(def)
}

/// The call of an operator whose nodes stand for graphs.
///
/// # Errors
/// No such operator, attributes that do not parse.
pub(crate) fn part_call(name: &str, attrs: &Attrs) -> Result<OpCall> {
    let (name, def) = registry::find(name)?;
    // A cached operator has no parameters besides its graph, without which its name is refused.
    let params = if is_cached(def) { Params::new(NoParams {}) } else { def.parse(attrs)? };
    Ok(OpCall { name, def, params })
}

/// Names of the outputs of a node that stands for a graph: those of the graph, or a result, which has the ends of its range where it is of
/// 8-bit integers.
pub(super) fn part_outputs(node: &Node) -> Option<Vec<String>> {
    let (part, op) = (node.part()?, node.op.as_ref()?);
    if is_cached(op.def) {
        return Some(part.list_outputs());
    }
    let convolution = op.params.downcast::<FusedConvolutionParam>().map(|p| p.quantized && !p.enable_float_output);
    let dense = op.params.downcast::<FusedFullyConnectedParam>().map(|p| p.quantized && !p.enable_float_output);
    let gives_integers = convolution.or(dense).unwrap_or(false);
    let names = ["output", "output_min", "output_max"];
    Some(names[..if gives_integers { 3 } else { 1 }].iter().map(|name| name.to_string()).collect())
}

/// What the attributes say about 8-bit integers, for a part with so many inputs.
fn quantized(def: &OpDef, attrs: &Attrs, inputs: usize) -> Result<Option<Quantized>> {
    let params = def.parse(attrs)?;
    if let Some(p) = params.downcast::<FusedConvolutionParam>() {
        let sum = p.with_sum.then(|| inputs.saturating_sub(1));
        let integers = std::iter::once(0).chain(sum).collect();
        let range = (p.min_calib_range, p.max_calib_range);
        return Ok(p.quantized.then_some(Quantized { integers, float_output: p.enable_float_output, range }));
    }
    let p = params.get::<FusedFullyConnectedParam>();
    let integers = if p.channel_wise_quantize == Some(true) { vec![0] } else { (0..inputs).collect() };
    let range = (p.min_calib_range, p.max_calib_range);
    Ok(p.quantized.then_some(Quantized { integers, float_output: p.enable_float_output, range }))
}

/// The part of a graph that a node of this operator stands for, with the node's name and inputs.
///
/// # Errors
/// No graph or several, attributes that do not parse, inputs that do not fit the graph, integers whose range is not known.
pub(super) fn expand(
    def: &OpDef,
    name: &str,
    attrs: &Attrs,
    inputs: &[NodeEntry],
    graphs: &[Symbol],
) -> Result<Symbol> {
    let [graph] = graphs else {
        return Err(Error::Value(format!(
            "{} stands for one graph, its first argument, but there are {}: load the symbol file that has it, or compose it of a graph \
             and its inputs",
            def.name,
            graphs.len()
        )));
    };
    let count = graph.list_inputs().len();
    let graph = &graph.expanded().unwrap_or_else(|| graph.clone());
    let quantized = if is_cached(def) { None } else { quantized(def, attrs, count)? };
    let expected = count + quantized.as_ref().map_or(0, |q| 2 * q.integers.len());
    ensure!(
        inputs.len() == expected,
        "{} '{name}' has {} inputs, but its graph of {count} and the ranges of integers need {expected}",
        def.name,
        inputs.len()
    );
    let mut inputs: Vec<Symbol> = inputs.iter().map(|e| Symbol::of_entry(e.clone())).collect();
    let ranges = inputs.split_off(count);
    let Some(quantized) = quantized else {
        let part = graph.substitute(&inputs, None)?;
        return if is_cached(def) { Ok(part) } else { part.renamed(name) };
    };
    for (i, range) in quantized.integers.iter().zip(ranges.chunks_exact(2)) {
        let integers = [inputs[*i].clone(), range[0].clone(), range[1].clone()];
        let numbers = Symbol::op("_contrib_dequantize", &format!("{name}_dequantize{i}"), &integers, &[])?;
        inputs[*i] = if inputs[*i].entries()[0].node.is_variable() { weights(&inputs[*i], &numbers)? } else { numbers };
    }
    let result = graph.substitute(&inputs, None)?;
    if quantized.float_output { result.renamed(name) } else { quantize(&result, name, quantized.range) }
}

/// What a node has become: itself or a copy, or the outputs of a part.
enum Expanded {
    Node(Arc<Node>),
    Outputs(Vec<NodeEntry>),
}

impl Symbol {
    /// The graph with parts in the places of the nodes that stand for them; `None` if there are no such nodes.
    pub fn expanded(&self) -> Option<Symbol> {
        let nodes = self.nodes();
        if !nodes.iter().any(|node| node.part().is_some()) {
            return None;
        }
        let mut made: HashMap<*const Node, Expanded> = HashMap::new();
        let entry = |made: &HashMap<*const Node, Expanded>, e: &NodeEntry| match made.get(&Arc::as_ptr(&e.node)) {
            Some(Expanded::Outputs(outputs)) => outputs.get(e.index as usize).unwrap_or(e).clone(),
            Some(Expanded::Node(node)) => NodeEntry { node: node.clone(), index: e.index },
            None => e.clone(),
        };
        for node in &nodes {
            let inputs: Vec<NodeEntry> = node.inputs.iter().map(|e| entry(&made, e)).collect();
            let attrs = node.attrs.read().clone();
            let part = node.op.as_ref().filter(|_| node.part().is_some());
            // A node whose part does not fit it is refused when it is made.
            let part = part.and_then(|op| expand(op.def, &node.name, &attrs, &inputs, &node.graphs).ok());
            let is_same =
                inputs.iter().zip(&node.inputs).all(|(a, b)| Arc::ptr_eq(&a.node, &b.node) && a.index == b.index);
            let expanded = match part {
                Some(part) => Expanded::Outputs(part.outputs),
                None if is_same => Expanded::Node(node.clone()),
                None => {
                    let (name, op, graphs) = (node.name.clone(), node.op.clone(), node.graphs.clone());
                    Expanded::Node(Arc::new(Node { name, op, inputs, graphs, attrs: RwLock::new(attrs) }))
                }
            };
            made.insert(Arc::as_ptr(node), expanded);
        }
        Some(Symbol { outputs: self.outputs.iter().map(|e| entry(&made, e)).collect() })
    }
}

/// The numbers that weights of 8-bit integers stand for. They were made of 127 levels on each side of zero, as `_contrib_quantize` makes
/// them, while `_contrib_dequantize` takes 127.5, as `_contrib_quantize_v2` does.
fn weights(integers: &Symbol, numbers: &Symbol) -> Result<Symbol> {
    if integers.attr(DTYPE_ATTR).is_none() {
        integers.set_attr(DTYPE_ATTR, &DType::I8.code().to_string())?;
    }
    let name = format!("{}_weights", numbers.name().unwrap_or_default());
    Symbol::op("_mul_scalar", &name, std::slice::from_ref(numbers), &[("scalar", &(127.5f64 / 127.0).to_string())])
}

/// The numbers of a part as integers with the ends of their range: of 8 bits if the range was calibrated, else of 32 bits, which
/// `_contrib_requantize` makes 8 of.
fn quantize(numbers: &Symbol, name: &str, range: (Option<f32>, Option<f32>)) -> Result<Symbol> {
    let (Some(min), Some(max)) = range else { return wide(numbers, name) };
    let (min, max) = (min.to_string(), max.to_string());
    let attrs = [("min_calib_range", min.as_str()), ("max_calib_range", &max), ("out_type", "auto")];
    Symbol::op("_contrib_quantize_v2", name, std::slice::from_ref(numbers), &attrs)
}

/// Numbers as 32-bit integers, of which the largest stands for the largest number.
fn wide(numbers: &Symbol, name: &str) -> Result<Symbol> {
    let op = |op: &str, what: &str, inputs: &[Symbol], attrs: &[(&str, &str)]| {
        Symbol::op(op, &format!("{name}_{what}"), inputs, attrs)
    };
    let sizes = op("abs", "sizes", std::slice::from_ref(numbers), &[])?;
    let max = op("max", "max", &[sizes], &[])?;
    let min = op("negative", "min", std::slice::from_ref(&max), &[])?;
    let shares = op("broadcast_div", "shares", &[numbers.clone(), max.clone()], &[])?;
    let scaled = op("_mul_scalar", "scaled", &[shares], &[("scalar", &i32::MAX.to_string())])?;
    let integers = Symbol::op("Cast", name, &[scaled], &[("dtype", "int32")])?;
    Ok(Symbol::group(&[integers, min, max]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Symbol {
        Symbol::variable(name, Attrs::new())
    }

    fn part() -> Symbol {
        let c = [("kernel", "(1, 1)"), ("num_filter", "2"), ("no_bias", "True")];
        let c = Symbol::op("Convolution", "c", &[variable("data0"), variable("c_weight0")], &c).unwrap();
        Symbol::op("Activation", "a", &[c], &[("act_type", "relu")]).unwrap()
    }

    #[test]
    fn a_node_made_of_a_graph_is_that_graph() {
        let s = Symbol::op("_sg_mkldnn_conv", "sg", &[part(), variable("x"), variable("w")], &[("with_act", "true")])
            .unwrap();
        assert_eq!(s.list_inputs(), ["x", "w"]);
        assert_eq!(s.internals().list_outputs(), ["x", "w", "sg_output"]);
        assert_eq!(s.expanded().unwrap().internals().list_outputs(), ["x", "w", "c_output", "sg_output"]);
        let e = Symbol::op("_sg_mkldnn_conv", "sg", &[part(), variable("x")], &[]).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("has 1 inputs, but its graph of 2"), "{e}");
        let e = Symbol::op("_sg_mkldnn_conv", "sg", &[], &[]).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("load the symbol file that has it"), "{e}");
    }

    #[test]
    fn integers_become_numbers_before_the_part_and_integers_behind_it() {
        let inputs = [part(), variable("x"), variable("w"), variable("x_min"), variable("x_max")];
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
