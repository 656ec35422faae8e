//! Control flow that is decided when the model runs: branches become `_cond`, loops `_while_loop` and `_foreach`.
//!
//! A body is mapped with variables as its inputs. Its operators are marked, so that the subgraph can be cut out of the outer graph; outer
//! values that it reads become inputs of the operator.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{NodeEntry, Symbol};

use super::{Builder, Scope};
use crate::error::{Error, Result};
use crate::ir::Value;

/// A subgraph.
pub struct Body {
    symbol: Symbol,
    /// The tensor of each variable: an input of the body or a value of the outer graph.
    inputs: Vec<usize>,
}

/// The distinct inputs of a control flow operator.
#[derive(Default)]
pub struct Operands(Vec<usize>);

impl Operands {
    /// The index of a tensor among the inputs; adds it if it is new.
    pub fn index_of(&mut self, tensor: usize) -> i64 {
        let known = self.0.iter().position(|t| *t == tensor);
        known.unwrap_or_else(|| {
            self.0.push(tensor);
            self.0.len() - 1
        }) as i64
    }

    /// The inputs.
    pub fn values(&self) -> Vec<Value> {
        self.0.iter().map(|t| Value::Handle(*t)).collect()
    }
}

impl Body {
    /// The tensors of its variables, in order.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }
}

impl Builder {
    /// A variable for an input of a body that receives this tensor or slices of it.
    pub fn body_input(&mut self, name: &str, shape: Shape, dtype: Option<DType>, given: usize) -> usize {
        match self.info(given).is_from_placeholder {
            true => self.placeholder(name, shape, dtype),
            false => self.input(name, shape, dtype, None),
        }
    }

    /// A constant Boolean or integer.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scalar<T: ferromx_core::dtype::Element>(&mut self, name: &str, x: T) -> Result<Value> {
        Ok(Value::Handle(self.constant(name, NDArray::from_slice(&[x], &[])?)))
    }
}

impl Scope<'_, '_> {
    /// Creates a body's operators by `make` and cuts them out of the graph. Also returns the outputs as tensors.
    ///
    /// # Errors
    /// Those of `make`; an output that is no tensor.
    pub fn body(&mut self, make: impl FnOnce(&mut Self) -> Result<Vec<Value>>) -> Result<(Body, Vec<usize>)> {
        let name = self.name.clone();
        let level = self.builder().enter(&name);
        let made = make(self).and_then(|values| self.ends(&name, values));
        self.builder().leave(level);
        let (made, outputs) = made?;
        let builder = self.builder();
        let symbols: Vec<Symbol> = outputs.iter().map(|h| builder.symbol(*h)).collect();
        let (symbol, cut) = Symbol::group(&symbols).cut();
        let outside: HashMap<String, NodeEntry> =
            cut.iter().filter_map(|s| Some((s.list_outputs().pop()?, s.entries().first()?.clone()))).collect();
        let mut inputs = Vec::new();
        for variable in symbol.list_inputs() {
            let found = match outside.get(&variable) {
                Some(entry) => builder.handle_of(entry),
                None => builder.variable(&variable),
            };
            let unknown = || Error::value(format!("the input '{variable}' of an inner graph is not known"));
            inputs.push(found.ok_or_else(unknown)?);
        }
        Ok((Body { symbol, inputs }, made))
    }

    /// The outputs of a body as tensors, and as entries that are each produced by a separate inner operator.
    fn ends(&mut self, name: &str, values: Vec<Value>) -> Result<(Vec<usize>, Vec<usize>)> {
        let (mut made, mut outputs) = (Vec::new(), Vec::new());
        for value in values {
            let Value::Handle(h) = value else {
                return Err(Error::format("an output of an inner graph is no tensor"));
            };
            made.push(h);
            outputs.push(self.builder().copy(&format!("{name}/output"), h)?);
        }
        Ok((made, outputs))
    }

    /// Adds a control flow operator to the graph and returns its outputs.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn with_bodies(
        &mut self,
        op: &str,
        bodies: &[&Body],
        inputs: &[Value],
        params: &[(&str, Value)],
    ) -> Result<Vec<usize>> {
        let attrs: Attrs = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let graphs: Vec<Symbol> = bodies.iter().map(|b| b.symbol.clone()).collect();
        let name = self.name.clone();
        self.builder().apply_with(op, &name, inputs, attrs, &graphs)
    }
}
