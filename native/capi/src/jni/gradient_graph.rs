//! Gradients that user code composes of symbols. User code gets placeholder variables for the arrays of a node and returns symbols of the
//! gradients, whose operators are copied to the graph.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::grad::{Entry, GradGraph, GradNode, NodeCopy};
use ferromx_runtime::params::Attrs;
use ferromx_runtime::symbol::{Node, Symbol, topological};
use jni::sys::jlong;

use crate::handle::{self, insert_symbol, symbol};

/// Placeholder variables for the arrays of a node.
pub(super) struct Template {
    inputs: Vec<Symbol>,
    outputs: Vec<Symbol>,
    output_gradients: Vec<Symbol>,
}

fn handles(symbols: &[Symbol]) -> Vec<jlong> {
    symbols.iter().map(|s| insert_symbol(s.clone()) as jlong).collect()
}

impl Template {
    pub(super) fn new(inputs: &[String], outputs: &[String]) -> Template {
        let variables = |names: &[String], end: &str| -> Vec<Symbol> {
            names.iter().map(|name| Symbol::variable(&format!("{name}{end}"), Attrs::new())).collect()
        };
        Template {
            inputs: variables(inputs, ""),
            outputs: variables(outputs, ""),
            output_gradients: variables(outputs, "_grad"),
        }
    }

    /// New handles of the inputs, which the callee frees.
    pub(super) fn inputs(&self) -> Vec<jlong> {
        handles(&self.inputs)
    }

    /// New handles of the outputs, which the callee frees.
    pub(super) fn outputs(&self) -> Vec<jlong> {
        handles(&self.outputs)
    }

    /// New handles of the output gradients, which the callee frees.
    pub(super) fn output_gradients(&self) -> Vec<jlong> {
        handles(&self.output_gradients)
    }

    /// Copies the operators of `gradients` to the graph and replaces the placeholders by the entries of `node`.
    pub(super) fn instantiate(
        &self,
        graph: &mut dyn GradGraph,
        inputs: &[Entry],
        node: &GradNode<'_>,
        gradients: &[Option<Symbol>],
    ) -> Result<Vec<Option<Entry>>> {
        let mut copies: HashMap<*const Node, Vec<Entry>> = HashMap::new();
        let groups = [(&self.inputs, inputs), (&self.outputs, node.outputs), (&self.output_gradients, node.ograds)];
        for (variables, entries) in groups {
            let nodes = variables.iter().filter_map(|s| s.entries().first());
            copies.extend(nodes.zip(entries).map(|(e, entry)| (Arc::as_ptr(&e.node), vec![*entry])));
        }
        let outputs = || gradients.iter().flatten().flat_map(Symbol::entries);
        for node in topological(outputs()) {
            if copies.contains_key(&Arc::as_ptr(&node)) {
                continue;
            }
            let Some(op) = node.op() else {
                return Err(Error::Value(format!(
                    "the gradient uses the variable '{}', which does not belong to the operator: compose it of the \
                     operator's inputs and outputs and the gradients of the outputs",
                    node.name
                )));
            };
            let ins: Vec<Entry> = node.inputs.iter().map(|e| copies[&Arc::as_ptr(&e.node)][e.index as usize]).collect();
            let attrs = node.attrs.read().clone();
            let copy = NodeCopy { name: op.name, def: op.def, params: &op.params, attrs: &attrs };
            copies.insert(Arc::as_ptr(&node), graph.copy(&copy, &ins)?);
        }
        gradients
            .iter()
            .enumerate()
            .map(|(i, gradient)| match gradient.as_ref().map(Symbol::entries) {
                None => Ok(None),
                Some([e]) => Ok(Some(copies[&Arc::as_ptr(&e.node)][e.index as usize])),
                Some(many) => Err(Error::Value(format!(
                    "the gradient of input {i} is a symbol with {} outputs: choose one with get(index)",
                    many.len()
                ))),
            })
            .collect()
    }
}

/// Takes ownership of handles: returns their symbols and frees them. 0 means none.
pub(super) fn take_symbols(handles: &[jlong]) -> Result<Vec<Option<Symbol>>> {
    handles
        .iter()
        .map(|handle| match handle {
            0 => Ok(None),
            handle => {
                let symbol = self::symbol(*handle as u64)?;
                handle::free(*handle as u64, "Symbol")?;
                Ok(Some(symbol))
            }
        })
        .collect()
}
