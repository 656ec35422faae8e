//! The state of a process that is applied to a node, and the operators that it adds.

use std::collections::HashMap;

use ferromx_core::ndarray::NDArray;

use super::{Builder, NodeContext, Operation, TensorId, TensorInfo};
use crate::error::Result;
use crate::ir::{Node, Value};
use crate::mapping::ast::Process;

/// The values to which a pattern bound the names of a process, or the arguments of a rule.
pub(crate) type Names<'p> = HashMap<&'p str, Value>;

/// How an operator is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// After the mapped node.
    Node,
    /// After the mapped node and the operator: `node/operator`.
    Operator,
}

/// A process that is applied to a node: evaluates expressions and adds operators. Rules get it as their first argument.
pub struct Scope<'a, 't> {
    /// The import or export.
    pub context: &'a mut (dyn NodeContext<'t> + 'a),
    /// The node that is mapped.
    pub node: &'a Node,
    /// The name for the operator that replaces the node.
    pub name: String,
    /// True if a rule needed the value of a tensor that the caller could supply.
    pub needs_value: bool,
    /// The process that is applied.
    pub(super) process: &'a Process,
    /// The `let` definitions evaluated so far.
    pub(super) definitions: HashMap<&'a str, Value>,
}

impl<'a, 't> Scope<'a, 't> {
    /// The scope of a process applied to a node.
    pub fn new(
        context: &'a mut (dyn NodeContext<'t> + 'a),
        node: &'a Node,
        name: String,
        process: &'a Process,
    ) -> Scope<'a, 't> {
        Scope { context, node, name, needs_value: false, process, definitions: HashMap::new() }
    }

    /// The graph under construction.
    pub fn builder(&mut self) -> &mut Builder {
        &mut self.context.emitter_mut().builder
    }

    /// The known facts about a tensor.
    pub fn info(&self, tensor: TensorId) -> &TensorInfo {
        self.context.emitter().builder.info(tensor.0)
    }

    /// True if all operators are computed immediately.
    pub fn is_executing(&self) -> bool {
        self.context.emitter().builder.is_executing()
    }

    /// The domain of a framework's operator that the process emits.
    pub fn domain_of(&self, op: &str) -> String {
        self.context.emitter().schema.domain_of(&self.process.domain, op).to_string()
    }

    /// The name of an operator.
    fn operator_name(&self, op: &str, naming: Naming) -> String {
        match naming {
            Naming::Node => self.name.clone(),
            Naming::Operator => format!("{}/{}", self.name, op.trim_start_matches('_').to_lowercase()),
        }
    }

    /// Adds an MXNet operator that a mapping file names. A single output is not wrapped in a list.
    ///
    /// # Errors
    /// The operator's errors.
    pub fn operator(
        &mut self,
        op: &str,
        mut args: Vec<Value>,
        params: Vec<(&str, Value)>,
        naming: Naming,
    ) -> Result<Value> {
        let (_, def) = ferromx_ops::registry::find(op)?;
        // Inputs may also be passed by name.
        let mut attrs = Vec::new();
        for (key, value) in params {
            let index = match def.signature.inputs {
                ferromx_core::op::Inputs::Fixed(inputs) => inputs.iter().position(|a| a.name == key),
                ferromx_core::op::Inputs::Variadic { .. } => None,
            };
            match index {
                Some(i) => {
                    args.resize(args.len().max(i + 1), Value::None);
                    args[i] = value;
                }
                None => attrs.push((key, value)),
            }
        }
        let name = self.operator_name(op, naming);
        let outs = self.builder().apply(op, &name, &args, &attrs)?;
        let mut values: Vec<Value> = outs.into_iter().map(Value::TensorId).collect();
        Ok(if values.len() == 1 { values.remove(0) } else { Value::List(values) })
    }

    /// Adds an operator, named after the node and the operator.
    ///
    /// # Errors
    /// The operator's errors.
    pub(crate) fn emit(&mut self, operation: Operation) -> Result<TensorId> {
        let name = self.operator_name(operation.def.name, Naming::Operator);
        self.builder().emit(&name, operation)
    }

    /// Adds the operator that replaces the node, with the node's name.
    ///
    /// # Errors
    /// The operator's errors.
    pub(crate) fn emit_named(&mut self, operation: Operation) -> Result<TensorId> {
        let name = self.name.clone();
        self.builder().emit(&name, operation)
    }

    /// Adds an operator, named after the node with a suffix.
    ///
    /// # Errors
    /// The operator's errors.
    pub(crate) fn emit_as(&mut self, suffix: &str, operation: Operation) -> Result<TensorId> {
        let name = format!("{}/{suffix}", self.name);
        self.builder().emit(&name, operation)
    }

    /// A constant, named after the node.
    pub fn constant(&mut self, array: NDArray) -> TensorId {
        let name = self.name.clone();
        TensorId(self.builder().constant(&name, array))
    }

    /// A constant, named after the node with a suffix.
    pub fn inner_constant(&mut self, suffix: &str, array: NDArray) -> TensorId {
        let name = format!("{}/{suffix}", self.name);
        TensorId(self.builder().constant(&name, array))
    }

    /// A constant vector of 64-bit integers, named after the node with a suffix.
    ///
    /// # Errors
    /// Out of memory.
    pub fn integers(&mut self, suffix: &str, items: &[i64]) -> Result<TensorId> {
        let array = NDArray::from_slice(items, &[items.len() as i64])?;
        Ok(self.inner_constant(suffix, array))
    }
}
