//! Partitions a graph like MXNet's oneDNN backend, which fuses a convolution or fully connected layer with its epilogue and, in quantized
//! graphs, with the requantization of its result. Here the new nodes expand to their subgraphs, and compiling a plan fuses these.

use std::collections::HashSet;
use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::params::Attrs;

use super::{PartitionGraph, Port, Replacement, Slot, first_output, operators};
use crate::symbol::{Node, NodeEntry, OpCall, Symbol};

const CONV: &str = "_sg_mkldnn_conv";
const DENSE: &str = "_sg_mkldnn_fully_connected";
const REQUANTIZE: &str = "_contrib_requantize";
const DEQUANTIZE: &str = "_contrib_dequantize";

/// The state of matching a convolution and its epilogue.
#[derive(PartialEq, Eq)]
enum MatchState {
    Convolution,
    Normalized,
    Summed,
    Done,
}

/// What a graph is partitioned for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Execution in floating point.
    Float,
    /// Quantization: only operators with a quantized version are fused, and in a quantized graph requantization with a calibrated range is
    /// folded into its layer.
    Quantization,
}

/// Partitions a graph.
pub(super) fn partition(symbol: &Symbol, purpose: Purpose) -> Result<Symbol> {
    let symbol = fuse_layers(symbol, &convolution_groups, &convolution_node, purpose)?;
    let symbol = fuse_layers(&symbol, &dense_groups, &dense_node, purpose)?;
    match purpose {
        Purpose::Float => Ok(symbol),
        Purpose::Quantization => fold_conversions(&symbol),
    }
}

type Groups = dyn Fn(&PartitionGraph, Purpose) -> Vec<Vec<usize>>;
type MakeNode = dyn Fn(Symbol, usize) -> Replacement;

/// Replaces each group by the node that `make_node` returns for its subgraph and index.
fn fuse_layers(symbol: &Symbol, groups: &Groups, make_node: &MakeNode, purpose: Purpose) -> Result<Symbol> {
    let mut graph = PartitionGraph::new(symbol);
    for (id, group) in groups(&graph, purpose).iter().enumerate() {
        graph.replace(group, |graph| Ok(Some(make_node(graph, id))))?;
    }
    Ok(graph.finish())
}

/// The reader of a node if it has exactly one.
fn only_reader(readers: &[Vec<Option<usize>>], node: usize) -> Option<usize> {
    match readers[node].as_slice() {
        [Some(reader)] => Some(*reader),
        _ => None,
    }
}

/// Whether `node` is an activation that reads `producer` and can be fused into a layer.
fn is_activation(graph: &PartitionGraph, node: usize, producer: usize, purpose: Purpose) -> bool {
    let is = |key: &str, values: &[&str]| graph.attr(node, key).is_some_and(|v| values.contains(&v.as_str()));
    let has_zero_minimum = || graph.attr(node, "a_min").and_then(|v| v.parse::<f32>().ok()) == Some(0.0);
    let functions: &[&str] = match purpose {
        Purpose::Float => &["relu", "sigmoid", "softrelu", "tanh"],
        Purpose::Quantization => &["relu"],
    };
    graph.nodes[node].inputs.first().is_some_and(|p| p.node == producer)
        && match graph.op(node) {
            "Activation" => is("act_type", functions),
            "LeakyReLU" => graph.attr(node, "act_type").is_none() || is("act_type", &["leaky", "gelu"]),
            "clip" => has_zero_minimum(),
            _ => false,
        }
}

/// Convolutions with the normalization, sum and activation that can be fused.
fn convolution_groups(graph: &PartitionGraph, purpose: Purpose) -> Vec<Vec<usize>> {
    let readers = graph.readers();
    let mut fused: HashSet<usize> = HashSet::new();
    let mut groups = Vec::new();
    let is_2d_or_3d = |node: usize| {
        let kernel = graph.attr(node, "kernel").unwrap_or_default();
        matches!(kernel.split(',').filter(|k| k.chars().any(|c| c.is_ascii_digit())).count(), 2 | 3)
    };
    for start in (0..graph.nodes.len()).filter(|n| graph.op(*n) == "Convolution" && is_2d_or_3d(*n)) {
        let mut group = vec![start];
        let mut state = MatchState::Convolution;
        let mut last = start;
        while let Some(next) = only_reader(&readers, last).filter(|n| !fused.contains(n) && state != MatchState::Done) {
            let reads_data = graph.nodes[next].inputs[0].node == last;
            let has_no_sum = matches!(state, MatchState::Convolution | MatchState::Normalized);
            let clips_sum = purpose == Purpose::Quantization && state == MatchState::Summed && graph.op(next) == "clip";
            state = match graph.op(next) {
                "BatchNorm" if state == MatchState::Convolution && reads_data => MatchState::Normalized,
                "elemwise_add" if has_no_sum => MatchState::Summed,
                _ if is_activation(graph, next, last, purpose) && !clips_sum => MatchState::Done,
                _ => break,
            };
            group.push(next);
            last = next;
        }
        fused.extend(&group);
        groups.push(group);
    }
    groups
}

/// Fully connected layers with the elementwise operator that can be fused.
fn dense_groups(graph: &PartitionGraph, purpose: Purpose) -> Vec<Vec<usize>> {
    let readers = graph.readers();
    let is_fusable = |node: usize, producer: usize| {
        let is_function = matches!(graph.op(node), "square" | "sqrt" | "exp") && purpose == Purpose::Float;
        let is_gelu = graph.op(node) != "LeakyReLU" || graph.attr(node, "act_type").as_deref() == Some("gelu");
        is_function || graph.op(node) == "abs" || (is_gelu && is_activation(graph, node, producer, purpose))
    };
    let starts = (0..graph.nodes.len()).filter(|n| graph.op(*n) == "FullyConnected");
    starts.map(|n| [n].into_iter().chain(only_reader(&readers, n).filter(|r| is_fusable(*r, n))).collect()).collect()
}

fn convolution_node(graph: Symbol, id: usize) -> Replacement {
    let mut graph = first_output(&graph);
    let (mut name, mut attrs) = (String::from("sg_mkldnn_"), Attrs::new());
    let mut rotation = 0;
    for node in operators(&graph) {
        let (word, key) = match node.op().map_or("", |op| op.def.name) {
            "Convolution" => ("conv_", None),
            "BatchNorm" => ("bn_", Some("with_bn")),
            "elemwise_add" => ("add_", Some("with_sum")),
            _ if attrs.contains_key("with_sum") => ("act_", Some("with_postsum_act")),
            _ => ("act_", Some("with_act")),
        };
        name += word;
        if key == Some("with_sum") && node.inputs[0].node.is_variable() {
            // As in MXNet, the summand is the last input of the fused node.
            rotation = 1;
            graph = with_swapped_sum(&graph);
        }
        attrs.extend(key.map(|key| (key.to_string(), "true".to_string())));
    }
    Replacement { name: format!("{name}{id}"), op: CONV, attrs, graph, has_one_output: true, rotation }
}

/// The graph with the operands of its sum swapped.
fn with_swapped_sum(graph: &Symbol) -> Symbol {
    let mut copies: Vec<(NodeEntry, NodeEntry)> = Vec::new();
    let find = |copies: &[(NodeEntry, NodeEntry)], e: &NodeEntry| {
        let copy = copies.iter().find(|(old, _)| Arc::ptr_eq(&old.node, &e.node));
        copy.map_or_else(|| e.clone(), |(_, new)| NodeEntry { node: new.node.clone(), index: e.index })
    };
    for node in operators(graph) {
        let mut inputs: Vec<NodeEntry> = node.inputs.iter().map(|e| find(&copies, e)).collect();
        if node.op().is_some_and(|op| op.def.name == "elemwise_add") {
            inputs.reverse();
        }
        let new = NodeEntry { node: node.with_inputs(inputs), index: 0 };
        copies.push((NodeEntry { node, index: 0 }, new));
    }
    Symbol::group(&graph.entries().iter().map(|e| Symbol::of_entry(find(&copies, e))).collect::<Vec<_>>())
}

fn dense_node(graph: Symbol, id: usize) -> Replacement {
    let graph = first_output(&graph);
    let (mut name, mut attrs) = (String::from("sg_mkldnn_fully_connected_"), Attrs::new());
    if operators(&graph).len() > 1 {
        name += "eltwise_";
        attrs.insert("with_eltwise".into(), "True".into());
    }
    Replacement { name: format!("{name}{id}"), op: DENSE, attrs, graph, has_one_output: true, rotation: 0 }
}

/// Folds requantization by a calibrated range, and dequantization where possible, into the layer before it.
fn fold_conversions(symbol: &Symbol) -> Result<Symbol> {
    let mut graph = PartitionGraph::new(symbol);
    let readers = graph.readers();
    for node in 0..graph.nodes.len() {
        let is_quantized = graph.attr(node, "quantized").is_some_and(|v| matches!(v.as_str(), "true" | "True" | "1"));
        let supports_float_output = match graph.op(node) {
            CONV if is_quantized => false,
            DENSE if is_quantized => true,
            "_contrib_quantized_elemwise_add" => false,
            "_contrib_quantized_elemwise_mul" => true,
            _ => continue,
        };
        let Some(requantize) = only_reader(&readers, node).filter(|n| graph.op(*n) == REQUANTIZE) else { continue };
        let range = (graph.attr(requantize, "min_calib_range"), graph.attr(requantize, "max_calib_range"));
        let (Some(min), Some(max)) = range else { continue };
        let dequantize =
            only_reader(&readers, requantize).filter(|n| graph.op(*n) == DEQUANTIZE && supports_float_output);
        let new_attrs = match dequantize {
            Some(_) => vec![("enable_float_output", "True".to_string())],
            None => vec![("min_calib_range", min), ("max_calib_range", max)],
        };
        set_attrs(&mut graph, node, &new_attrs)?;
        redirect(&mut graph, dequantize.unwrap_or(requantize), node);
    }
    Ok(graph.finish())
}

fn set_attrs(graph: &mut PartitionGraph, node: usize, new_attrs: &[(&str, String)]) -> Result<()> {
    let old = graph.nodes[node].node.clone();
    let mut attrs = old.attrs.read().clone();
    attrs.extend(new_attrs.iter().map(|(k, v)| (k.to_string(), v.clone())));
    let op = OpCall::new(graph.op(node), &attrs)?;
    graph.nodes[node].node = Node::new(old.name.as_str(), op, Vec::new(), old.graphs.clone(), attrs);
    Ok(())
}

/// Redirects all readers of `from` to `to`.
fn redirect(graph: &mut PartitionGraph, from: usize, to: usize) {
    let mut slots: Vec<Slot> = (0..graph.outputs.len()).map(Slot::Output).collect();
    for (node, item) in graph.nodes.iter().enumerate() {
        slots.extend((0..item.inputs.len()).map(|position| Slot::Input { node, position }));
    }
    for slot in slots {
        let port = graph.port(slot);
        if port.node == from {
            graph.set_port(slot, Port { node: to, index: port.index });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Purpose::{Float, Quantization};
    use super::*;

    fn var(name: &str) -> Symbol {
        Symbol::variable(name, Attrs::new())
    }

    fn conv(name: &str, x: Symbol) -> Symbol {
        let attrs = [("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("num_filter", "2"), ("no_bias", "True")];
        Symbol::op("Convolution", name, &[x], &attrs).unwrap()
    }

    fn act(x: Symbol, kind: &str) -> Symbol {
        Symbol::op("Activation", "a", &[x], &[("act_type", kind)]).unwrap()
    }

    fn names(symbol: &Symbol) -> Vec<String> {
        operators(symbol).iter().map(|n| n.name.to_string()).collect()
    }

    #[test]
    fn layers_are_fused_with_their_epilogue() {
        let x = var("x");
        let sum = |l: Symbol, r: Symbol| Symbol::op("elemwise_add", "s", &[l, r], &[]).unwrap();
        let fused = |s: Symbol, purpose| names(&partition(&s, purpose).unwrap());
        assert_eq!(fused(act(conv("c", x.clone()), "relu"), Quantization), ["sg_mkldnn_conv_act_0"]);
        assert_eq!(fused(act(conv("c", x.clone()), "tanh"), Quantization), ["sg_mkldnn_conv_0", "a"]);
        assert_eq!(fused(act(conv("c", x.clone()), "tanh"), Float), ["sg_mkldnn_conv_act_0"]);
        let other_first = act(sum(x.clone(), conv("c", x.clone())), "relu");
        let s = partition(&other_first, Quantization).unwrap();
        assert_eq!(names(&s), ["sg_mkldnn_conv_add_act_0"]);
        let node = &operators(&s)[0];
        assert_eq!(node.inputs.iter().map(|e| e.node.name.to_string()).collect::<Vec<_>>(), ["x", "c_weight", "x"]);
        assert_eq!(node.graphs[0].list_inputs(), ["x1", "c_weight0", "x0"]);
        let two = sum(conv("c", x.clone()), conv("d", x.clone()));
        assert_eq!(fused(two, Quantization), ["sg_mkldnn_conv_1", "sg_mkldnn_conv_add_0"]);
        // An entry that is an output of the graph is not fused away.
        let c = conv("c", x.clone());
        let head = Symbol::group(&[c.clone(), act(c, "relu")]);
        assert_eq!(fused(head, Quantization), ["sg_mkldnn_conv_0", "a"]);
        let fc = Symbol::op("FullyConnected", "f", &[x], &[("num_hidden", "2")]).unwrap();
        assert_eq!(fused(Symbol::op("exp", "e", &[fc], &[]).unwrap(), Float), ["sg_mkldnn_fully_connected_eltwise_0"]);
    }
}
