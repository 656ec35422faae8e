//! Loops and branches over graphs: `_foreach`, `_while_loop`, `_cond`. Their graphs are planned once for the operator's arrays and
//! run like executors.

mod bound;
pub(crate) mod branch;
pub(crate) mod foreach;
pub(crate) mod while_loop;

use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{ArgDef, OpDef};
use ferromx_core::params::Tuple;
use ferromx_core::shape::Shape;
use ferromx_core::subgraph::Subgraph;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&foreach::FOREACH, &while_loop::WHILE_LOOP, &branch::COND];

/// A graph (symbol) argument.
const fn graph(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "Symbol" }
}

/// The graph of an operator; an error if none was attached.
fn attached(graph: Option<&Arc<dyn Subgraph>>) -> Result<&dyn Subgraph> {
    graph.map(|g| &**g).ok_or_else(|| {
        Error::value("the operator has no graph: it must be composed into a symbol, and cannot be called on arrays")
    })
}

/// Checked indices into `n` inputs.
fn indices(locs: &Tuple<i64>, n: usize, name: &str) -> Result<Vec<usize>> {
    let check = |loc: &i64| {
        usize::try_from(*loc)
            .ok()
            .filter(|i| *i < n)
            .ok_or_else(|| Error::Value(format!("{name} has the index {loc}, but there are {n} inputs")))
    };
    locs.0.iter().map(check).collect()
}

/// A count from a parameter.
fn count(n: i32, name: &str) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::Value(format!("{name} is {n}: it must be at least 0")))
}

/// Checks that a graph has as many inputs as `name` lists.
fn check_inputs(graph: &dyn Subgraph, locs: usize, name: &str) -> Result<()> {
    ensure!(graph.inputs() == locs, "the graph has {} inputs, but {name} lists {locs}", graph.inputs());
    Ok(())
}

/// Completes the unknown dimensions of `into` from `from`; an error if they contradict.
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

/// Infers shapes through a graph whose inputs are inputs of the operator.
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

/// Indices of the operator's inputs that graphs mutate.
fn mutated(graphs: &[(&dyn Subgraph, &[usize])]) -> Vec<usize> {
    let mut all: Vec<usize> =
        graphs.iter().flat_map(|(graph, locs)| graph.states().iter().filter_map(|i| locs.get(*i)).copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
