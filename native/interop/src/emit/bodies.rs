//! Dynamic control flow: branches become `_cond`, loops `_while_loop` and `_foreach`.
//!
//! A body is mapped in the outer graph with variables as its inputs. Its operators carry the name of the subgraph, by which it is cut out
//! of the outer graph; outer values that it reads become inputs of the control flow operator.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{NodeEntry, Symbol};

use super::{Builder, Operation, Scope, TensorId};
use crate::error::{Error, Result};

/// The body of a control flow operator.
pub struct Body {
    symbol: Symbol,
    /// The tensor of each variable: a body input or a value of the outer graph.
    inputs: Vec<TensorId>,
}

/// The distinct inputs of a control flow operator.
#[derive(Default)]
pub(crate) struct Operands(Vec<TensorId>);

impl Operands {
    /// The index of a tensor among the inputs; adds it if it is new.
    pub(crate) fn index_of(&mut self, tensor: TensorId) -> i64 {
        let known = self.0.iter().position(|t| *t == tensor);
        known.unwrap_or_else(|| {
            self.0.push(tensor);
            self.0.len() - 1
        }) as i64
    }

    /// The inputs.
    pub(crate) fn values(&self) -> Vec<TensorId> {
        self.0.clone()
    }
}

impl Body {
    /// The tensors of its variables, in order.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }
}

impl Builder {
    /// A variable for a body input that receives `source` or its slices.
    pub fn body_input(&mut self, name: &str, shape: Shape, dtype: Option<DType>, source: TensorId) -> TensorId {
        TensorId(match self.info(source.0).is_from_placeholder {
            true => self.placeholder(name, shape, dtype),
            false => self.input(name, shape, dtype, None),
        })
    }

    /// A symbol with these outputs.
    pub fn group(&mut self, outputs: &[TensorId]) -> Symbol {
        let symbols: Vec<Symbol> = outputs.iter().map(|id| self.symbol(id.0)).collect();
        Symbol::group(&symbols)
    }

    /// A constant Boolean or integer.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scalar<T: ferromx_core::dtype::Element>(&mut self, name: &str, x: T) -> Result<TensorId> {
        Ok(TensorId(self.constant(name, NDArray::from_slice(&[x], &[])?)))
    }
}

impl Scope<'_, '_> {
    /// Calls `make` to emit the operators of a body, and cuts the body out of the graph. Also returns the tensors that `make` returned.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn body(&mut self, make: impl FnOnce(&mut Self) -> Result<Vec<TensorId>>) -> Result<(Body, Vec<TensorId>)> {
        let name = self.name.clone();
        let level = self.builder().begin_subgraph(&name);
        let built =
            make(self).and_then(|results| Ok((self.builder().copies(&format!("{name}/output"), &results)?, results)));
        self.builder().end_subgraph(level);
        let (outputs, results) = built?;
        let builder = self.builder();
        let (symbol, cut) = builder.group(&outputs).cut();
        let outside: HashMap<String, NodeEntry> =
            cut.iter().filter_map(|s| Some((s.list_outputs().pop()?, s.entries().first()?.clone()))).collect();
        let mut inputs = Vec::new();
        for variable in symbol.list_inputs() {
            let tensor_id = match outside.get(&variable) {
                Some(entry) => builder.tensor_id_of(entry),
                None => builder.variable(&variable),
            };
            let unknown = || Error::value(format!("the input '{variable}' of a subgraph is unknown"));
            inputs.push(TensorId(tensor_id.ok_or_else(unknown)?));
        }
        Ok((Body { symbol, inputs }, results))
    }

    /// Adds a control flow operator with its bodies to the graph and returns its outputs.
    ///
    /// # Errors
    /// The operator's errors.
    pub(crate) fn emit_with_bodies(&mut self, operation: Operation, bodies: &[&Body]) -> Result<Vec<TensorId>> {
        let attrs: Attrs = operation.params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let graphs: Vec<Symbol> = bodies.iter().map(|b| b.symbol.clone()).collect();
        let name = self.name.clone();
        let outputs = self.builder().apply_with(operation.def.name, &name, &operation.inputs, attrs, &graphs)?;
        Ok(outputs.into_iter().map(TensorId).collect())
    }
}
