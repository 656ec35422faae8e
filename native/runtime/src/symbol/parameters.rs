//! Changes of the attributes of nodes, among them the parameters of operators.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::op::Inputs;
use ferromx_core::params::Attrs;

use super::attach;
use super::node::{Node, OpCall, is_hidden, is_subgraph_op};
use super::subgraph_ops::subgraph_call;

impl Node {
    /// Sets an attribute. `name` is the name of the node. If it is a parameter of the operator, the operator changes in all symbols that
    /// have the node.
    ///
    /// # Errors
    /// A parameter that the operator does not accept, or that changes the number of its inputs or outputs.
    pub(super) fn set_attr(&self, key: &str, value: &str) -> Result<()> {
        if key == "name" {
            self.name.replace(value.into());
            return Ok(());
        }
        let mut attrs = self.attrs.write();
        if let Some(op) = self.op().filter(|_| !is_hidden(key)) {
            let mut changed = attrs.clone();
            changed.insert(key.into(), value.into());
            let call = self.with_params(op, &changed).map_err(|e| e.in_operator(op.name, &self.name))?;
            self.op.replace(Some(call));
        }
        attrs.insert(key.into(), value.into());
        Ok(())
    }

    /// The node's operator with other parameters.
    fn with_params(&self, op: &OpCall, attrs: &Attrs) -> Result<OpCall> {
        if is_subgraph_op(op.def) {
            return subgraph_call(op.name, attrs);
        }
        let params = attach(op.def, op.def.parse(attrs)?, &self.graphs)?;
        let count = self.graphs.len() + self.inputs.len();
        let inputs = match op.def.signature.inputs {
            Inputs::Variadic { count: key, .. } => attrs.get(key).and_then(|n| n.trim().parse().ok()).unwrap_or(count),
            _ if self.graphs.is_empty() => op.def.num_inputs(&params).unwrap_or(count),
            _ => count,
        };
        ensure!(
            inputs == count && op.def.num_outputs(&params) == self.num_outputs(),
            "the parameter would change the numbers of inputs and outputs of the node, which are {} and {}: create a new symbol",
            self.inputs.len(),
            self.num_outputs()
        );
        Ok(OpCall { params, ..op.clone() })
    }
}
