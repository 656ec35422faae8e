//! Loops and branches whose bodies are graphs. The graphs are planned once for the operator's arrays and run like executors.
//!
//! - `foreach` is the loop over the rows of the data, `_foreach`.
//! - `while_loop` is the loop while a condition holds, `_while_loop`.
//! - `branch` chooses one of two graphs, `_cond`.
//! - `bound` binds graphs to arrays and keeps them between calls.

mod bound;
pub(crate) mod branch;
pub(crate) mod foreach;
pub(crate) mod while_loop;

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{AnyOperator, ArgDef};
use ferromx_core::params::Tuple;
use ferromx_core::shape::Shape;
use ferromx_core::subgraph::Subgraph;

/// The operators of this family.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&foreach::FOREACH, &while_loop::WHILE_LOOP, &branch::COND];

/// A graph (symbol) argument.
const fn graph(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "Symbol" }
}

/// The graph that was attached to an operator; an error if there is none.
fn attached_graph(graph: Option<&Arc<dyn Subgraph>>) -> Result<&dyn Subgraph> {
    graph.map(|g| &**g).ok_or_else(|| {
        Error::value("the operator has no subgraph: compose it into a symbol instead of calling it imperatively")
    })
}

/// The items of the parameter `name` as indices of inputs, checked to be below `num_inputs`.
fn input_indices(locs: &Tuple<i64>, num_inputs: usize, name: &str) -> Result<Vec<usize>> {
    let check = |loc: &i64| {
        usize::try_from(*loc)
            .ok()
            .filter(|i| *i < num_inputs)
            .ok_or_else(|| Error::Value(format!("{name} has the index {loc}, but there are {num_inputs} inputs")))
    };
    locs.0.iter().map(check).collect()
}

/// The parameter `name` as a count; an error if it is negative.
fn to_count(n: i32, name: &str) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::Value(format!("{name} is {n}: it must be at least 0")))
}

/// Checks that a graph has as many inputs as the parameter `name` has items.
fn check_num_inputs(graph: &dyn Subgraph, num_locs: usize, name: &str) -> Result<()> {
    ensure!(graph.inputs() == num_locs, "the graph has {} inputs, but {name} lists {num_locs}", graph.inputs());
    Ok(())
}

/// Fills unknown dimensions of `into` from `from`; an error if known dimensions differ.
fn merge(into: &mut Shape, from: &Shape, what: &str) -> Result<()> {
    let before = into.clone();
    ensure!(into.assign(from), "Shape inconsistent, Provided={before}, inferred shape={from} for {what}");
    Ok(())
}

/// [`merge`] for element types.
fn merge_type(into: &mut Option<DType>, from: Option<DType>, what: &str) -> Result<()> {
    let Some(dtype) = from else { return Ok(()) };
    ensure!(
        into.is_none_or(|d| d == dtype),
        "Type inconsistent, inferred type={dtype} for {what}, which already has another type"
    );
    *into = Some(dtype);
    Ok(())
}

/// Infers shapes through a graph. Input i of the graph is input `locs[i]` of the operator.
fn infer_shapes(graph: &dyn Subgraph, locs: &[usize], ins: &mut [Shape], outs: &mut [Shape]) -> Result<()> {
    let mut graph_ins: Vec<Shape> = locs.iter().map(|i| ins[*i].clone()).collect();
    graph.infer_shape(&mut graph_ins, outs)?;
    locs.iter().zip(&graph_ins).try_for_each(|(i, shape)| merge(&mut ins[*i], shape, "an input of the graph"))
}

/// [`infer_shapes`] for element types.
fn infer_dtypes(
    graph: &dyn Subgraph,
    locs: &[usize],
    ins: &mut [Option<DType>],
    outs: &mut [Option<DType>],
) -> Result<()> {
    let mut graph_ins: Vec<Option<DType>> = locs.iter().map(|i| ins[*i]).collect();
    graph.infer_dtype(&mut graph_ins, outs)?;
    locs.iter().zip(&graph_ins).try_for_each(|(i, dtype)| merge_type(&mut ins[*i], *dtype, "an input of the graph"))
}

/// The indices of the operator's inputs that one of its graphs mutates, ascending.
fn mutated_inputs(graphs: &[(&dyn Subgraph, &[usize])]) -> Vec<usize> {
    let mut inputs: Vec<usize> =
        graphs.iter().flat_map(|(graph, locs)| graph.states().iter().filter_map(|i| locs.get(*i)).copied()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}
