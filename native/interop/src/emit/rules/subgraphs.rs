//! Maps the subgraphs of operators: branches and loop bodies.

use std::collections::HashMap;

use crate::emit::{Scope, TensorId};
use crate::error::{Error, Result};
use crate::ir::{Graph, Value};

/// Maps a subgraph with these tensors as its inputs.
pub(super) fn map_graph(s: &mut Scope<'_, '_>, graph: &Graph, inputs: &[TensorId]) -> Result<Vec<TensorId>> {
    let names = graph.inputs.iter().map(|i| i.name.clone());
    let inputs = names.zip(inputs.iter().map(|id| Value::from(*id))).collect::<HashMap<_, _>>();
    let outputs = s.context.graph(graph, inputs)?;
    let tensor_id = |value: Value| match value {
        Value::TensorId(id) => Ok(TensorId(id)),
        _ => Err(Error::format("an output of a subgraph is not a tensor")),
    };
    outputs.into_iter().map(tensor_id).collect()
}

/// Maps a loop body with these tensors as its inputs.
pub(super) fn map_iteration(s: &mut Scope<'_, '_>, body: &Graph, values: &[TensorId]) -> Result<Vec<TensorId>> {
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
