//! Inlines model-local functions.

use std::collections::HashMap;

use prost::Message;

use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use crate::error::{Error, Result};

/// Maximum nesting depth of calls; deeper nesting is treated as recursion.
const MAX_DEPTH: usize = 32;
/// Maximum encoded size of inlined nodes, in addition to [`MAX_GROWTH`] times the size of the model.
const MAX_BYTES: usize = 1 << 25;
/// Maximum bytes of inlined nodes for each byte of the model.
const MAX_GROWTH: usize = 8;

struct Inliner<'f> {
    functions: HashMap<(&'f str, &'f str, &'f str), &'f FunctionProto>,
    num_calls: usize,
    /// Remaining bytes for inlined nodes.
    budget: usize,
}

/// Inlines every call of a function.
///
/// # Errors
/// Recursive functions, functions defined twice, a graph that becomes too large.
pub(super) fn inline(graph: GraphProto, functions: &[FunctionProto]) -> Result<GraphProto> {
    if functions.is_empty() {
        return Ok(graph);
    }
    let mut by_name = HashMap::new();
    for f in functions {
        let key = (f.domain.as_str(), f.name.as_str(), f.overload.as_str());
        if by_name.insert(key, f).is_some() {
            return Err(Error::format(format!("the function {}.{} is defined twice", f.domain, f.name)));
        }
    }
    let bytes = functions.iter().map(FunctionProto::encoded_len).sum::<usize>() + graph.encoded_len();
    let budget = bytes.saturating_mul(MAX_GROWTH).saturating_add(MAX_BYTES);
    Inliner { functions: by_name, num_calls: 0, budget }.graph(graph, 0)
}

/// A call of a function: the substitutions for the names and attributes of its body.
struct Call<'a> {
    /// The caller's names of the function's inputs and outputs.
    names: HashMap<String, String>,
    /// The prefix of all other names.
    prefix: String,
    attributes: HashMap<&'a str, &'a AttributeProto>,
}

impl Call<'_> {
    fn name(&self, name: &str) -> String {
        match self.names.get(name) {
            Some(outer) => outer.clone(),
            None if name.is_empty() => String::new(),
            None => format!("{}/{name}", self.prefix),
        }
    }

    fn attributes(&self, attributes: Vec<AttributeProto>) -> Vec<AttributeProto> {
        let resolve = |mut a: AttributeProto| {
            if !a.ref_attr_name.is_empty() {
                // If the call gives no value and there is no default, the attribute is absent in the body, too.
                let given = self.attributes.get(a.ref_attr_name.as_str())?;
                return Some(AttributeProto { name: a.name, ref_attr_name: String::new(), ..(*given).clone() });
            }
            a.g = a.g.take().map(|g| self.graph(g));
            Some(a)
        };
        attributes.into_iter().filter_map(resolve).collect()
    }

    fn graph(&self, mut graph: GraphProto) -> GraphProto {
        for value in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
            value.name = self.name(&value.name);
        }
        graph.initializer.iter_mut().for_each(|t| t.name = self.name(&t.name));
        graph.node = graph.node.into_iter().map(|n| self.node(n)).collect();
        graph
    }

    fn node(&self, mut node: NodeProto) -> NodeProto {
        node.input.iter_mut().chain(&mut node.output).for_each(|n| *n = self.name(n));
        node.name = format!("{}/{}", self.prefix, node.name);
        node.attribute = self.attributes(node.attribute);
        node
    }
}

impl Inliner<'_> {
    fn graph(&mut self, mut graph: GraphProto, depth: usize) -> Result<GraphProto> {
        let mut nodes = Vec::with_capacity(graph.node.len());
        for node in std::mem::take(&mut graph.node) {
            self.node(node, depth, &mut nodes)?;
        }
        graph.node = nodes;
        Ok(graph)
    }

    fn node(&mut self, mut node: NodeProto, depth: usize, out: &mut Vec<NodeProto>) -> Result<()> {
        for attribute in &mut node.attribute {
            if let Some(graph) = attribute.g.take() {
                attribute.g = Some(self.graph(graph, depth)?);
            }
        }
        let key = (node.domain.as_str(), node.op_type.as_str(), node.overload.as_str());
        let Some(function) = self.functions.get(&key).copied() else {
            let bytes = if depth == 0 { 0 } else { node.encoded_len() };
            self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
                Error::format(format!(
                    "the model would become too large after inlining its functions: more than {MAX_BYTES} bytes and {MAX_GROWTH} \
                     times its own size"
                ))
            })?;
            out.push(node);
            return Ok(());
        };
        if depth >= MAX_DEPTH {
            return Err(Error::format(format!("the function {}.{} calls itself", function.domain, function.name)));
        }
        self.num_calls += 1;
        let prefix = format!("{}/{}", if node.name.is_empty() { &function.name } else { &node.name }, self.num_calls);
        let mut names = HashMap::new();
        for (k, inner) in function.input.iter().enumerate() {
            names.insert(inner.clone(), node.input.get(k).cloned().unwrap_or_default());
        }
        for (inner, outer) in function.output.iter().zip(&node.output).filter(|(_, outer)| !outer.is_empty()) {
            names.insert(inner.clone(), outer.clone());
        }
        let defaults = function.attribute_proto.iter().map(|a| (a.name.as_str(), a));
        let given = node.attribute.iter().map(|a| (a.name.as_str(), a));
        let call = Call { names, prefix, attributes: defaults.chain(given).collect() };
        for inner in &function.node {
            self.node(call.node(inner.clone()), depth + 1, out)?;
        }
        Ok(())
    }
}
