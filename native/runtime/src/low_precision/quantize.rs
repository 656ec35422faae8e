//! Quantization: replaces operators by their quantized versions, and inserts quantization and dequantization between them and the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::Attrs;

use crate::symbol::{Node, NodeEntry, OpCall, Symbol};

/// The selection of operators to quantize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All that have a quantized version.
    Full,
    /// Layers with weights, and operators between two of them.
    Smart,
}

impl std::str::FromStr for Mode {
    type Err = Error;

    fn from_str(s: &str) -> Result<Mode> {
        match s {
            "full" => Ok(Mode::Full),
            "smart" => Ok(Mode::Smart),
            _ => Err(Error::Value(format!("unrecognized quantize mode: {s}; use full or smart"))),
        }
    }
}

/// The rules of a quantization.
pub struct Quantization {
    /// Names of nodes not to quantize.
    pub excluded_nodes: HashSet<String>,
    /// Operators not to quantize.
    pub excluded_ops: HashSet<String>,
    /// Parameters that are quantized offline; the graph gets variables for the results.
    pub offline_params: HashSet<String>,
    /// The quantized type: `int8`, `uint8` or `auto`.
    pub dtype: String,
    /// The selection of operators to quantize.
    pub mode: Mode,
    /// Whether fused fully connected layers have a range per output channel; their weights then stay floating-point.
    pub is_channel_wise: bool,
}

/// An operator and its quantized version.
struct QuantizedOp {
    op: &'static str,
    quantized: &'static str,
    /// Whether this is a layer with weights, around which [`Mode::Smart`] quantizes.
    is_layer: bool,
    /// Whether its output is 32-bit and must be requantized.
    needs_requantization: bool,
    /// Whether input `i` of a node stays floating-point.
    is_float_input: fn(&Node, usize) -> bool,
    /// Whether the quantized version supports these parameters.
    is_supported: fn(&Attrs) -> bool,
    /// Whether the range of its output is calibrated.
    is_calibrated: bool,
    /// Whether it reads integers with scale and shift instead of a range, and has floating-point outputs.
    is_asymmetric: bool,
    /// Additional parameters of the quantized version.
    extra_attrs: &'static [(&'static str, &'static str)],
}

const fn quantized_op(op: &'static str, quantized: &'static str) -> QuantizedOp {
    QuantizedOp {
        op,
        quantized,
        is_layer: false,
        needs_requantization: false,
        is_float_input: |_, _| false,
        is_supported: |_| true,
        is_calibrated: false,
        is_asymmetric: false,
        extra_attrs: &[],
    }
}

/// Whether the attribute `key` has one of the values.
fn attr_is(attrs: &Attrs, key: &str, values: &[&str]) -> bool {
    attrs.get(key).is_some_and(|v| values.contains(&v.as_str()))
}

const TRUE: &[&str] = &["true", "True", "1"];

/// The operators that have a quantized version.
static QUANTIZED_OPS: [QuantizedOp; 13] = [
    QuantizedOp {
        is_layer: true,
        needs_requantization: true,
        is_float_input: |node, i| {
            i > 0 && !(attr_is(&node.attrs.read(), "with_sum", TRUE) && i + 1 == node.inputs.len())
        },
        extra_attrs: &[("quantized", "true")],
        ..quantized_op("_sg_mkldnn_conv", "_sg_mkldnn_conv")
    },
    QuantizedOp {
        is_layer: true,
        needs_requantization: true,
        extra_attrs: &[("quantized", "True")],
        ..quantized_op("_sg_mkldnn_fully_connected", "_sg_mkldnn_fully_connected")
    },
    QuantizedOp {
        is_layer: true,
        needs_requantization: true,
        ..quantized_op("Convolution", "_contrib_quantized_conv")
    },
    QuantizedOp {
        is_layer: true,
        needs_requantization: true,
        ..quantized_op("FullyConnected", "_contrib_quantized_fully_connected")
    },
    QuantizedOp {
        is_supported: |attrs| attr_is(attrs, "act_type", &["relu"]),
        ..quantized_op("Activation", "_contrib_quantized_act")
    },
    QuantizedOp {
        is_supported: |attrs| !attrs.contains_key("pool_type") || attr_is(attrs, "pool_type", &["max", "avg"]),
        ..quantized_op("Pooling", "_contrib_quantized_pooling")
    },
    QuantizedOp {
        is_float_input: |_, i| i > 0,
        is_calibrated: true,
        ..quantized_op("BatchNorm", "_contrib_quantized_batch_norm")
    },
    QuantizedOp { is_float_input: |_, i| i == 0, ..quantized_op("Embedding", "_contrib_quantized_embedding") },
    QuantizedOp { needs_requantization: true, ..quantized_op("elemwise_add", "_contrib_quantized_elemwise_add") },
    QuantizedOp { needs_requantization: true, ..quantized_op("elemwise_mul", "_contrib_quantized_elemwise_mul") },
    QuantizedOp {
        is_layer: true,
        is_float_input: |_, i| i > 0,
        is_supported: |attrs| attr_is(attrs, "mode", &["lstm"]),
        is_asymmetric: true,
        extra_attrs: &[("quantized", "true")],
        ..quantized_op("RNN", "_contrib_quantized_rnn")
    },
    QuantizedOp {
        // As in MXNet. The default axis is 1.
        is_supported: |attrs| attrs.get("dim").is_none_or(|dim| dim.trim().parse().is_ok_and(|axis: i64| axis > 0)),
        ..quantized_op("Concat", "_contrib_quantized_concat")
    },
    quantized_op("Flatten", "_contrib_quantized_flatten"),
];

const QUANTIZE: &str = "_contrib_quantize_v2";
const QUANTIZE_ASYMMETRIC: &str = "_contrib_quantize_asym";
const REQUANTIZE: &str = "_contrib_requantize";
const DEQUANTIZE: &str = "_contrib_dequantize";
const PREFIX: &str = "quantized_";

impl Quantization {
    /// The quantized version of a node, unless the rules exclude it.
    fn quantized_op_of(&self, node: &Node) -> Option<&'static QuantizedOp> {
        let op = node.op()?.def.name;
        let is_listed = |name: &String| self.excluded_nodes.contains(name);
        let is_inside =
            node.subgraph().is_some_and(|graph| graph.nodes().iter().any(|n| !n.is_variable() && is_listed(&n.name)));
        let is_excluded = is_listed(&node.name) || is_inside || self.excluded_ops.contains(op);
        let quantized_op = QUANTIZED_OPS.iter().find(|f| f.op == op)?;
        (!is_excluded && (quantized_op.is_supported)(&node.attrs.read())).then_some(quantized_op)
    }

    /// Selects the nodes to quantize.
    fn select(&self, nodes: &[Arc<Node>]) -> HashMap<*const Node, &'static QuantizedOp> {
        let mut quantized_ops: HashMap<*const Node, &'static QuantizedOp> =
            nodes.iter().filter_map(|n| Some((Arc::as_ptr(n), self.quantized_op_of(n)?))).collect();
        if self.mode == Mode::Full {
            return quantized_ops;
        }
        // Quantize other nodes between layers: those on a path of quantizable nodes from one layer to another.
        let is_layer = |n: &Arc<Node>| quantized_ops.get(&Arc::as_ptr(n)).is_some_and(|f| f.is_layer);
        let is_quantizable = |n: &Arc<Node>| quantized_ops.contains_key(&Arc::as_ptr(n));
        let (mut before_layer, mut after_layer) = (HashSet::new(), HashSet::new());
        for node in nodes.iter().rev() {
            if is_layer(node) || (is_quantizable(node) && before_layer.contains(&Arc::as_ptr(node))) {
                before_layer.extend(node.inputs.iter().map(|e| Arc::as_ptr(&e.node)));
            }
        }
        for node in nodes {
            let reads = |e: &NodeEntry| {
                is_layer(&e.node) || (is_quantizable(&e.node) && after_layer.contains(&Arc::as_ptr(&e.node)))
            };
            if node.inputs.iter().any(reads) {
                after_layer.insert(Arc::as_ptr(node));
            }
        }
        quantized_ops.retain(|node, quantized_op| {
            quantized_op.is_layer || (before_layer.contains(node) && after_layer.contains(node))
        });
        quantized_ops
    }
}

fn out_type(dtype: &str) -> Attrs {
    [("out_type".to_string(), dtype.to_string())].into_iter().collect()
}

fn output(node: &Arc<Node>, index: usize) -> NodeEntry {
    NodeEntry { node: node.clone(), index: index as u32 }
}

type Key = (*const Node, u32);

fn key(e: &NodeEntry) -> Key {
    (Arc::as_ptr(&e.node), e.index)
}

/// Rebuilds the graph with quantized operators.
struct Pass<'q> {
    rules: &'q Quantization,
    quantized_ops: HashMap<*const Node, &'static QuantizedOp>,
    /// The new nodes by their originals.
    copies: HashMap<*const Node, Arc<Node>>,
    /// Quantization nodes, by the entry that they read and whether they are asymmetric.
    quantized: HashMap<(Key, bool), Arc<Node>>,
    /// Dequantization nodes, by the entry that they read.
    dequantized: HashMap<Key, Arc<Node>>,
    /// The original nodes by the new nodes.
    originals: HashMap<*const Node, Arc<Node>>,
}

impl Pass<'_> {
    fn copy_of(&self, node: &Arc<Node>) -> Result<Arc<Node>> {
        let copy = self.copies.get(&Arc::as_ptr(node)).cloned();
        copy.ok_or_else(|| Error::Internal(format!("'{}' was not visited before the nodes that use it", node.name)))
    }

    /// Whether the new node for a node has quantized outputs with a range.
    fn has_quantized_outputs(&self, node: &Arc<Node>) -> bool {
        self.quantized_ops.get(&Arc::as_ptr(node)).is_some_and(|quantized_op| !quantized_op.is_asymmetric)
    }

    /// An entry of a quantized node: 8-bit integers with minimum and maximum.
    fn quantized_output(&self, e: &NodeEntry) -> Result<[NodeEntry; 3]> {
        let copy = self.copy_of(&e.node)?;
        let range = e.node.num_visible() + 2 * e.index as usize;
        Ok([output(&copy, e.index as usize), output(&copy, range), output(&copy, range + 1)])
    }

    /// An entry as 8-bit integers, with minimum and maximum or with scale and shift.
    fn as_integers(&mut self, e: &NodeEntry, is_asymmetric: bool) -> Result<[NodeEntry; 3]> {
        if self.has_quantized_outputs(&e.node) && !is_asymmetric {
            return self.quantized_output(e);
        }
        let key = (key(e), is_asymmetric);
        if !self.quantized.contains_key(&key) {
            let name = format!("{}_quantize", e.node.output_name(e.index as usize));
            let inputs = vec![self.as_floats(e)?];
            let node = match is_asymmetric {
                true => Node::operator(QUANTIZE_ASYMMETRIC, name, inputs, Attrs::new())?,
                false => Node::operator(QUANTIZE, name, inputs, out_type(&self.rules.dtype))?,
            };
            self.quantized.insert(key, node);
        }
        let node = &self.quantized[&key];
        Ok([output(node, 0), output(node, 1), output(node, 2)])
    }

    /// An entry in floating point.
    fn as_floats(&mut self, e: &NodeEntry) -> Result<NodeEntry> {
        if !self.has_quantized_outputs(&e.node) {
            return Ok(NodeEntry { node: self.copy_of(&e.node)?, index: e.index });
        }
        if !self.dequantized.contains_key(&key(e)) {
            let inputs = self.quantized_output(e)?.to_vec();
            let name = format!("{}_dequantize", e.node.name);
            self.dequantized.insert(key(e), Node::operator(DEQUANTIZE, name, inputs, Attrs::new())?);
        }
        Ok(output(&self.dequantized[&key(e)], 0))
    }

    fn quantize(&mut self, node: &Arc<Node>, quantized_op: &QuantizedOp) -> Result<Arc<Node>> {
        let (mut inputs, mut ranges) = (Vec::new(), Vec::new());
        for (i, e) in node.inputs.iter().enumerate() {
            let is_weight = self.rules.is_channel_wise && quantized_op.op == "_sg_mkldnn_fully_connected" && i > 0;
            if is_weight || (quantized_op.is_float_input)(node, i) {
                inputs.push(self.as_floats(e)?);
            } else {
                let [data, min, max] = self.as_integers(e, quantized_op.is_asymmetric)?;
                inputs.push(data);
                ranges.extend([min, max]);
            }
        }
        inputs.extend(ranges);
        let mut attrs = node.attrs.read().clone();
        attrs.extend(quantized_op.extra_attrs.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        if self.rules.is_channel_wise && quantized_op.op == "_sg_mkldnn_fully_connected" {
            attrs.insert("channel_wise_quantize".into(), "True".into());
        }
        let op = OpCall::new(quantized_op.quantized, &attrs)?;
        let quantized = Node::new(format!("{PREFIX}{}", node.name), op, inputs, node.graphs.clone(), attrs);
        self.originals.insert(Arc::as_ptr(&quantized), node.clone());
        if !quantized_op.needs_requantization {
            return Ok(quantized);
        }
        let inputs = (0..3).map(|i| output(&quantized, i)).collect();
        Node::operator(REQUANTIZE, format!("requantize_{}", node.name), inputs, out_type(&self.rules.dtype))
    }

    fn copy(&mut self, node: &Arc<Node>) -> Result<Arc<Node>> {
        let inputs = node.inputs.iter().map(|e| self.as_floats(e)).collect::<Result<_>>()?;
        Ok(node.with_inputs(inputs))
    }
}

impl Symbol {
    /// Quantizes the graph. Also returns the outputs of the original graph whose ranges are to be calibrated.
    ///
    /// # Errors
    /// Parameters that the quantized version of an operator does not accept.
    pub fn quantized(&self, rules: &Quantization) -> Result<(Symbol, Vec<String>)> {
        let nodes = self.nodes();
        let mut pass = Pass {
            rules,
            quantized_ops: rules.select(&nodes),
            copies: HashMap::new(),
            quantized: HashMap::new(),
            dequantized: HashMap::new(),
            originals: HashMap::new(),
        };
        for node in &nodes {
            let new_node = match pass.quantized_ops.get(&Arc::as_ptr(node)).copied() {
                Some(quantized_op) => pass.quantize(node, quantized_op)?,
                None => pass.copy(node)?,
            };
            pass.originals.entry(Arc::as_ptr(&new_node)).or_insert_with(|| node.clone());
            pass.copies.insert(Arc::as_ptr(node), new_node);
        }
        let outputs = self.outputs.iter().map(|e| pass.as_floats(e)).collect::<Result<_>>()?;
        let online = Symbol { outputs };
        let calibrated = pass.calibrated(&online);
        Ok((online.with_offline(&rules.offline_params), calibrated))
    }

    /// Replaces the quantization of `params` by variables `NAME_quantize`, `NAME_quantize_min` and `NAME_quantize_max`.
    fn with_offline(&self, params: &HashSet<String>) -> Symbol {
        const SUFFIXES: [&str; 3] = ["", "_min", "_max"];
        let is_offline = |e: &NodeEntry| {
            e.node.op().is_some_and(|op| op.def.name == QUANTIZE)
                && e.node.inputs.iter().all(|i| i.node.is_variable() && params.contains(i.node.name.as_str()))
        };
        let mut variables: HashMap<Key, Arc<Node>> = HashMap::new();
        self.replacing_inputs(|e| {
            let suffix = SUFFIXES.get(e.index as usize).filter(|_| is_offline(e))?;
            let variable = variables
                .entry(key(e))
                .or_insert_with(|| Node::variable(&format!("{}{suffix}", e.node.name), Attrs::new()));
            Some(NodeEntry { node: variable.clone(), index: 0 })
        })
    }

    /// A copy of the graph in which `replace` may substitute the inputs of nodes.
    fn replacing_inputs(&self, mut replace: impl FnMut(&NodeEntry) -> Option<NodeEntry>) -> Symbol {
        let mut copies: HashMap<*const Node, Arc<Node>> = HashMap::new();
        let copied = |copies: &HashMap<*const Node, Arc<Node>>, e: &NodeEntry| {
            let node = copies.get(&Arc::as_ptr(&e.node)).unwrap_or(&e.node).clone();
            NodeEntry { node, index: e.index }
        };
        for node in self.nodes() {
            let inputs = node.inputs.iter().map(|e| replace(e).unwrap_or_else(|| copied(&copies, e))).collect();
            copies.insert(Arc::as_ptr(&node), node.with_inputs(inputs));
        }
        Symbol { outputs: self.outputs.iter().map(|e| copied(&copies, e)).collect() }
    }

    /// Sets calibrated ranges in a quantized graph. `table` has them by the names that [`Symbol::quantized`] returned.
    ///
    /// # Errors
    /// Ranges that an operator does not accept.
    pub fn calibrated(&self, table: &HashMap<String, (f32, f32)>) -> Result<Symbol> {
        let mut copies: HashMap<*const Node, Arc<Node>> = HashMap::new();
        for node in self.nodes() {
            let mut attrs = node.attrs.read().clone();
            let mut op = node.op().cloned();
            let calibrated_output = calibrated_output(&node).map(|e| e.node.output_name(e.index as usize));
            let range = calibrated_output.and_then(|name| table.get(name.strip_prefix(PREFIX).unwrap_or(&name)));
            if let (Some((min, max)), Some(call)) = (range, &mut op) {
                attrs.insert("min_calib_range".into(), format!("{min:.6}"));
                attrs.insert("max_calib_range".into(), format!("{max:.6}"));
                call.params = OpCall::new(call.name, &attrs)?.params;
            }
            let entry = |e: &NodeEntry| NodeEntry { node: copies[&Arc::as_ptr(&e.node)].clone(), index: e.index };
            let inputs = node.inputs.iter().map(entry).collect();
            let copy = Node::new(node.name.as_str(), op, inputs, node.graphs.clone(), attrs);
            copies.insert(Arc::as_ptr(&node), copy);
        }
        let entry = |e: &NodeEntry| NodeEntry { node: copies[&Arc::as_ptr(&e.node)].clone(), index: e.index };
        Ok(Symbol { outputs: self.outputs.iter().map(entry).collect() })
    }
}

/// The output whose calibrated range is a parameter of the node: its own, or that of its first input.
fn calibrated_output(node: &Arc<Node>) -> Option<NodeEntry> {
    match node.op()?.def.name {
        QUANTIZE | QUANTIZE_ASYMMETRIC | REQUANTIZE => node.inputs.first().cloned(),
        name => QUANTIZED_OPS.iter().any(|f| f.is_calibrated && f.quantized == name).then(|| output(node, 0)),
    }
}

impl Pass<'_> {
    /// The outputs of the original graph whose calibrated ranges the new graph uses.
    fn calibrated(&self, graph: &Symbol) -> Vec<String> {
        let name = |e: NodeEntry| {
            let source = self.originals.get(&Arc::as_ptr(&e.node)).unwrap_or(&e.node);
            source.output_name(e.index as usize)
        };
        let is_offline = |node: &Node| {
            let input = &node.inputs[0].node;
            input.is_variable() && self.rules.offline_params.contains(input.name.as_str())
        };
        let is_quantize = |node: &Node| node.op().is_some_and(|op| op.def.name == QUANTIZE);
        let nodes = graph.nodes();
        let online = nodes.iter().filter(|n| !(is_quantize(n) && is_offline(n)));
        online.filter_map(calibrated_output).map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(mode: Mode, excluded: &[&str], offline: &[&str]) -> Quantization {
        let set = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        Quantization {
            excluded_nodes: set(excluded),
            excluded_ops: HashSet::new(),
            offline_params: set(offline),
            dtype: "int8".into(),
            mode,
            is_channel_wise: false,
        }
    }

    fn network() -> Symbol {
        let x = Symbol::variable("x", Attrs::new());
        let conv =
            Symbol::op("Convolution", "c", &[x], &[("kernel", "(3, 3)"), ("num_filter", "2"), ("no_bias", "True")]);
        let act = Symbol::op("Activation", "a", &[conv.unwrap()], &[("act_type", "relu")]).unwrap();
        let flat = Symbol::op("Flatten", "f", &[act], &[]).unwrap();
        let fc = Symbol::op("FullyConnected", "fc", &[flat], &[("num_hidden", "2"), ("no_bias", "True")]).unwrap();
        Symbol::op("Activation", "last", &[fc], &[("act_type", "relu")]).unwrap()
    }

    fn names(symbol: &Symbol) -> Vec<String> {
        symbol.nodes().iter().filter(|n| !n.is_variable()).map(|n| n.name.to_string()).collect()
    }

    #[test]
    fn concatenations_along_positive_axes_are_quantized() {
        let quantized = |attrs: &[(&str, &str)]| {
            let inputs = ["x", "y"].map(|name| Symbol::variable(name, Attrs::new()));
            let concat = Symbol::op("Concat", "c", &inputs, &[attrs, &[("num_args", "2")]].concat()).unwrap();
            names(&concat.quantized(&rules(Mode::Full, &[], &[])).unwrap().0).contains(&"quantized_c".into())
        };
        assert!(quantized(&[]) && quantized(&[("dim", "2")]));
        assert!(!quantized(&[("dim", "0")]) && !quantized(&[("dim", "-1")]));
    }

    #[test]
    fn operators_are_replaced_and_conversions_inserted() {
        let (full, calibrated) = network().quantized(&rules(Mode::Full, &[], &["c_weight", "fc_weight"])).unwrap();
        let middle = [
            "x_quantize",
            "quantized_c",
            "requantize_c",
            "quantized_a",
            "quantized_f",
            "quantized_fc",
            "requantize_fc",
        ];
        assert_eq!(names(&full), [&middle[..], &["quantized_last", "last_dequantize"]].concat());
        assert_eq!(calibrated, ["x", "c_output", "fc_output"]);
        let arguments =
            ["x", "c_weight_quantize", "c_weight_quantize_min", "c_weight_quantize_max", "fc_weight_quantize"];
        assert_eq!(full.list_arguments()[..5], arguments);
        let (smart, _) = network().quantized(&rules(Mode::Smart, &[], &["c_weight", "fc_weight"])).unwrap();
        assert_eq!(names(&smart), [&middle[..], &["fc_dequantize", "last"]].concat());
        let (excluded, calibrated) = network().quantized(&rules(Mode::Smart, &["fc"], &["c_weight"])).unwrap();
        assert_eq!(
            names(&excluded),
            ["x_quantize", "quantized_c", "requantize_c", "c_dequantize", "a", "f", "fc", "last"]
        );
        assert_eq!(calibrated, ["x", "c_output"]);
        assert!("some".parse::<Mode>().unwrap_err().to_string().contains("unrecognized quantize mode"));
    }

    #[test]
    fn calibration_sets_ranges() {
        let (graph, _) = network().quantized(&rules(Mode::Full, &[], &["c_weight", "fc_weight"])).unwrap();
        let table = [("x".to_string(), (-1.0, 2.0)), ("c_output".to_string(), (-3.5, 1e-7))].into_iter().collect();
        let calibrated = graph.calibrated(&table).unwrap();
        let attr = |name: &str, key: &str| {
            let node = calibrated.nodes().into_iter().find(|n| *n.name == name).unwrap();
            node.attrs.read().get(key).cloned()
        };
        assert_eq!(attr("x_quantize", "max_calib_range").as_deref(), Some("2.000000"));
        assert_eq!(attr("requantize_c", "min_calib_range").as_deref(), Some("-3.500000"));
        assert_eq!(attr("requantize_c", "max_calib_range").as_deref(), Some("0.000000"));
        assert_eq!(attr("requantize_fc", "min_calib_range"), None);
    }
}
