//! Maps the subgraphs of operators: branches and loop bodies.

use crate::emit::{Scope, TensorId};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

/// Maps a subgraph with these tensors or sequences as its inputs.
pub(super) fn map_graph(s: &mut Scope<'_, '_>, graph: &Graph, inputs: &[Value]) -> Result<Vec<Value>> {
    let names = graph.inputs.iter().map(|i| i.name.clone());
    s.context.graph(graph, names.zip(inputs.iter().cloned()).collect())
}

/// Values that must be tensors.
pub(super) fn tensors(values: Vec<Value>) -> Result<Vec<TensorId>> {
    let tensor_id = |value: Value| match value {
        Value::TensorId(id) => Ok(TensorId(id)),
        Value::List(_) => Err(Error::NeedsValue(
            "a sequence is an output of a branch or loop that depends on values known only when the model runs".into(),
        )),
        _ => Err(Error::format("an output of a subgraph is not a tensor")),
    };
    values.into_iter().map(tensor_id).collect()
}

/// Maps a loop body with these tensors or sequences as its inputs.
pub(super) fn map_iteration(s: &mut Scope<'_, '_>, body: &Graph, values: &[Value]) -> Result<Vec<Value>> {
    if body.inputs.len() != values.len() {
        return Err(Error::format(format!(
            "the body has {} inputs, but {} were given",
            body.inputs.len(),
            values.len()
        )));
    }
    let before = s.context.problem_count();
    let outputs = map_graph(s, body, values);
    // The loop ends at the first iteration that has problems. They have been reported, so the error has none.
    if s.context.problem_count() > before { Err(Error::Model(Vec::new())) } else { outputs }
}
