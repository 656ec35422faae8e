//! Loops and branches over graphs: `_foreach`, `_while_loop`, `_cond`. They run their graphs as executors do, planned once for the
//! arrays that the operator has.

mod branch;
mod foreach;
mod frame;
mod while_loop;

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::host::Subgraph;
use ferromx_core::op::{ArgDef, OpDef};
use ferromx_core::params::Tuple;
use ferromx_core::shape::Shape;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&foreach::FOREACH, &while_loop::WHILE_LOOP, &branch::COND];

/// An argument that is a graph.
const fn graph(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "Symbol" }
}

/// A graph of an operator, once the operator has it.
fn attached(graph: Option<&Arc<dyn Subgraph>>) -> Result<&dyn Subgraph> {
    graph
        .map(|g| &**g)
        .ok_or_else(|| Error::value("the operator has no graph: it is made by compose, not called on arrays"))
}

/// Positions among `n` things, checked.
fn positions(locs: &Tuple<i64>, n: usize, name: &str) -> Result<Vec<usize>> {
    let check = |loc: &i64| {
        usize::try_from(*loc)
            .ok()
            .filter(|i| *i < n)
            .ok_or_else(|| Error::Value(format!("{name} has the position {loc}, but there are {n} inputs")))
    };
    locs.0.iter().map(check).collect()
}

/// A number of things from a parameter.
fn count(n: i32, name: &str) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::Value(format!("{name} is {n}: it must be at least 0")))
}

/// Checks that a graph has as many inputs as there are positions for them.
fn check_inputs(graph: &dyn Subgraph, locs: usize, name: &str) -> Result<()> {
    ensure!(graph.inputs() == locs, "the graph has {} inputs, but {name} gives {locs} positions", graph.inputs());
    Ok(())
}

/// Takes over what is known, and complains where it contradicts.
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
        "Type inconsistent, inferred type={dtype} for {what}, which has another type already"
    );
    *into = Some(dtype);
    Ok(())
}

/// Completes shapes through a graph whose inputs are inputs of the operator.
fn infer_shapes(graph: &dyn Subgraph, locs: &[usize], ins: &mut [Shape], outs: &mut [Shape]) -> Result<()> {
    let mut inner: Vec<Shape> = locs.iter().map(|i| ins[*i].clone()).collect();
    graph.infer_shape(&mut inner, outs)?;
    locs.iter().zip(&inner).try_for_each(|(i, shape)| merge(&mut ins[*i], shape, "an input of the graph"))
}

/// [`infer_shapes`] for element types.
fn infer_dtypes(
    graph: &dyn Subgraph,
    locs: &[usize],
    ins: &mut [Option<DType>],
    outs: &mut [Option<DType>],
) -> Result<()> {
    let mut inner: Vec<Option<DType>> = locs.iter().map(|i| ins[*i]).collect();
    graph.infer_dtype(&mut inner, outs)?;
    locs.iter().zip(&inner).try_for_each(|(i, dtype)| merge_type(&mut ins[*i], *dtype, "an input of the graph"))
}

/// Inputs of the operator that graphs change.
fn mutated(graphs: &[(&dyn Subgraph, &[usize])]) -> Vec<usize> {
    let mut all: Vec<usize> =
        graphs.iter().flat_map(|(graph, locs)| graph.states().iter().filter_map(|i| locs.get(*i)).copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
