//! Sampling and subgraphs for graph neural networks, from DGL. A graph is a csr matrix of type int64. Row v holds the edges of vertex v:
//! the target vertices are the column indices, the ids of the edges the values.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, ArgDef, Operator, SparseCall, arg};
use ferromx_core::params;
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_kernels::rng::Philox;
use ferromx_kernels::sparse::{Csr as Matrix, Sample, Sampling, between};

use super::storage_ops::only_csr;
use super::{csr_components, new_csr, new_vector};
use StorageType::{Csr, Default as Dense};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&UNIFORM_SAMPLE, &NON_UNIFORM_SAMPLE, &SUBGRAPH, &ADJACENCY, &GRAPH_COMPACT];

const GRAPH: ArgDef = arg("csr_matrix", "The graph.");
const SEEDS: &str = "The seed vertices of each sampled subgraph: vectors of type int64.";

params! {
    /// Parameters of the neighbor sampling operators.
    pub struct SampleParam {
        /// The number of input arrays.
        num_args: i32 = required;
        /// The number of hops from the seeds.
        num_hops: i64 = 1;
        /// The number of neighbors that are sampled of each vertex, without replacement.
        num_neighbor: i64 = 2;
        /// The most vertices of a subgraph.
        max_num_vertices: i64 = 100;
    }
}

/// The probabilities with which neighbors are sampled.
#[derive(Clone, Copy, PartialEq)]
enum Probability {
    Uniform,
    /// Proportional to the weights in input 1.
    Weighted,
}

/// Number of inputs before the seeds: the graph, and the weights if there are any.
const fn num_leading(probability: Probability) -> usize {
    match probability {
        Probability::Uniform => 1,
        Probability::Weighted => 2,
    }
}

/// Number of subgraphs to sample.
fn num_subgraphs(p: &Params, probability: Probability) -> usize {
    (p.get::<SampleParam>().num_args as usize).saturating_sub(num_leading(probability))
}

/// The outputs are, each for all subgraphs: vertices, graph, weights if there are any, layers.
fn sample_shape(p: &Params, io: &mut ShapeIo<'_>, probability: Probability) -> Result<()> {
    let (n, max) = (num_subgraphs(p, probability), p.get::<SampleParam>().max_num_vertices);
    ensure!(n > 0, "no seeds were given: num_args counts the graph and the arrays of seeds");
    ensure!(max > 0, "max_num_vertices must be positive: {max} was given");
    let graph = io.ins[0].clone();
    ensure!(graph.ndim().is_none_or(|n| n == 2), "a graph is a matrix, not an array of shape {graph}");
    if probability == Probability::Weighted && graph.ndim().is_some() {
        io.assign_in(1, &Shape::new(&[graph.dim(1)]))?;
    }
    for k in 0..n {
        io.assign_out(k, &Shape::new(&[max + 1]))?;
        if graph.ndim().is_some() {
            io.assign_out(n + k, &Shape::new(&[max, graph.dim(1)]))?;
        }
        for kind in 2..2 + num_leading(probability) {
            io.assign_out(kind * n + k, &Shape::new(&[max]))?;
        }
    }
    Ok(())
}

/// Type rule: weights are float32, all other arrays int64.
fn sample_dtype(p: &Params, io: &mut DTypeIo<'_>, probability: Probability) -> Result<()> {
    let n = num_subgraphs(p, probability);
    let is_weights =
        |i: usize, range: std::ops::Range<usize>| probability == Probability::Weighted && range.contains(&i);
    for i in 0..io.ins.len() {
        io.assign_in(i, if is_weights(i, 1..2) { DType::F32 } else { DType::I64 })?;
    }
    for i in 0..io.outs.len() {
        io.assign_out(i, if is_weights(i, 2 * n..3 * n) { DType::F32 } else { DType::I64 })?;
    }
    Ok(())
}

/// Storage rule: the first input is csr, all others are dense.
fn sample_rule(ins: &[StorageType]) -> Option<StorageType> {
    (ins.first() == Some(&Csr) && ins[1..].iter().all(|t| *t == Dense)).then_some(Csr)
}

/// The elements of an array of vertices, which must be below `n`.
fn vertices(array: &Array, n: i64) -> Result<Vec<i64>> {
    let vertices = array.dense()?.to_vec::<i64>()?;
    match vertices.iter().find(|v| !(0..n).contains(*v)) {
        Some(v) => Err(Error::Value(format!("vertex {v} is out of range: the graph has {n} vertices"))),
        None => Ok(vertices),
    }
}

/// Calls `f` with the csr matrix of a graph.
fn with_graph<R>(array: &Array, f: impl FnOnce(Matrix<'_, i64>) -> R) -> Result<R> {
    let components = array.sparse()?.components()?;
    let [indptr, indices, data] = csr_components(&components)?;
    let (indptr, indices, data) = (indptr.to_vec::<i64>()?, indices.to_vec::<i64>()?, data.to_vec::<i64>()?);
    Ok(f(Matrix { indptr: &indptr, indices: &indices, data: &data }))
}

/// Samples a subgraph for each array of seeds.
fn sample(call: &SparseCall<'_>, probability: Probability) -> Result<Vec<Array>> {
    let p = call.ctx.params::<SampleParam>();
    let graph = &call.ins[0];
    let (rows, columns) = (graph.shape().dim(0), graph.shape().dim(1));
    ensure!(columns <= rows, "a graph of {rows} vertices has edges to {columns} vertices");
    let weights = match probability {
        Probability::Uniform => None,
        Probability::Weighted => Some(call.ins[1].dense()?.to_vec::<f32>()?),
    };
    let count = |name: &str, n: i64| usize::try_from(n).map_err(|_| Error::Value(format!("{name} is negative: {n}")));
    let sampling = Sampling {
        hops: count("num_hops", p.num_hops)?,
        neighbors: count("num_neighbor", p.num_neighbor)?,
        max_vertices: p.max_num_vertices as usize,
        weights: weights.as_deref(),
    };
    let seeds = call.ins[num_leading(probability)..].iter().map(|s| vertices(s, rows)).collect::<Result<Vec<_>>>()?;
    if let Some(seeds) = seeds.iter().find(|s| s.len() > sampling.max_vertices) {
        let (given, max) = (seeds.len(), p.max_num_vertices);
        return Err(Error::Value(format!("{given} seeds were given, but max_num_vertices is {max}: increase it")));
    }
    let key = call.ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    let samples: Vec<Sample> = with_graph(graph, |g| {
        seeds.iter().enumerate().map(|(k, s)| sampling.run(g, s, &mut random.draws(k as u64))).collect()
    })?;
    sample_outputs(call, &samples, sampling.max_vertices, weights.as_deref())
}

/// The outputs of sampling: the vertices, graph, weights if there are any, and layers of each sample, padded to `max` vertices.
fn sample_outputs(
    call: &SparseCall<'_>,
    samples: &[Sample],
    max: usize,
    weights: Option<&[f32]>,
) -> Result<Vec<Array>> {
    let context = call.ins[0].context();
    let padded = |items: &[i64], len: usize| {
        let mut padded = items.to_vec();
        padded.resize(len, 0);
        new_vector(&padded, context).map(Array::Dense)
    };
    let mut out = Vec::with_capacity(call.shapes.len());
    for s in samples {
        let mut vertices = s.vertices.clone();
        vertices.resize(max, 0);
        vertices.push(s.vertices.len() as i64);
        out.push(padded(&vertices, max + 1)?);
    }
    for (s, shape) in samples.iter().zip(&call.shapes[samples.len()..]) {
        let mut indptr = s.indptr.clone();
        indptr.resize(max + 1, s.columns.len() as i64);
        out.push(new_csr(shape, (indptr, s.columns.clone(), s.edges.clone()), context)?.into());
    }
    if let Some(weights) = weights {
        for s in samples {
            let mut weights: Vec<f32> = s.vertices.iter().map(|v| weights[*v as usize]).collect();
            weights.resize(max, 0.0);
            out.push(new_vector(&weights, context)?.into());
        }
    }
    for s in samples {
        out.push(padded(&s.layers, max)?);
    }
    Ok(out)
}

pub(super) static UNIFORM_SAMPLE: Operator<SampleParam> = Operator::new("_contrib_dgl_csr_neighbor_uniform_sample")
    .doc(
        "Samples a subgraph for each array of seeds: up to num_neighbor neighbors of every seed, all equally likely, then as many of \
         each of these, and so on for num_hops hops, until max_num_vertices vertices are found.\n\n\
         Outputs, each for all arrays of seeds: the vertices, ascending, then zeros and at the end their number, of shape \
         (max_num_vertices + 1,); a csr matrix of shape (max_num_vertices, vertices of the graph) whose row i has the sampled edges \
         of the i-th vertex; the hop at which each vertex was found, of shape (max_num_vertices,).",
    )
    .variadic("seed_arrays", SEEDS, "num_args")
    .leading(&[GRAPH])
    .outputs(|p| 3 * num_subgraphs(p, Probability::Uniform))
    .shape(|p, io| sample_shape(p, io, Probability::Uniform))
    .dtype(|p, io| sample_dtype(p, io, Probability::Uniform))
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(|_, ins, _| sample_rule(ins), |call| sample(call, Probability::Uniform))
    .random();

pub(super) static NON_UNIFORM_SAMPLE: Operator<SampleParam> = Operator::new("_contrib_dgl_csr_neighbor_non_uniform_sample")
    .doc(
        "As _contrib_dgl_csr_neighbor_uniform_sample, but neighbors are sampled with probabilities proportional to their weights. The \
         outputs before the hops are the weights of the sampled vertices, of shape (max_num_vertices,) and type float32.",
    )
    .variadic("seed_arrays", SEEDS, "num_args")
    .leading(&[GRAPH, arg("probability", "The nonnegative weight of each vertex, of type float32.")])
    .outputs(|p| 4 * num_subgraphs(p, Probability::Weighted))
    .shape(|p, io| sample_shape(p, io, Probability::Weighted))
    .dtype(|p, io| sample_dtype(p, io, Probability::Weighted))
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(|_, ins, _| sample_rule(ins), |call| sample(call, Probability::Weighted))
    .random();

params! {
    /// Parameters of `_contrib_dgl_subgraph`.
    pub struct SubgraphParam {
        /// The number of input arrays.
        num_args: i32 = required;
        /// Whether to also return the ids of the edges in the original graph.
        return_mapping: bool = required;
    }
}

/// Shape rule: square matrices for all subgraphs, and again for the original edge ids if they are returned.
fn subgraph_shapes(io: &mut ShapeIo<'_>, sizes: &[i64]) -> Result<()> {
    (0..io.outs.len()).try_for_each(|k| {
        let size = sizes[k % sizes.len()];
        io.assign_out(k, &Shape::new(&[size, size]))
    })
}

fn all_int64(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    (0..io.ins.len()).try_for_each(|i| io.assign_in(i, DType::I64))?;
    (0..io.outs.len()).try_for_each(|i| io.assign_out(i, DType::I64))
}

/// The csr matrix of a subgraph: row pointers, target vertices, edge ids.
type Edges = (Vec<i64>, Vec<i64>, Vec<i64>);

/// The subgraphs with renumbered edges. With `return_mapping`, those with the original edge ids follow.
fn renumber_edges(call: &SparseCall<'_>, subgraphs: Vec<Edges>, return_mapping: bool) -> Result<Vec<Array>> {
    let context = call.ins[0].context();
    let renumber = |(indptr, columns, edges): &Edges| {
        let ids = (0..edges.len() as i64).collect();
        (indptr.clone(), columns.clone(), ids)
    };
    let renumbered: Vec<Edges> = subgraphs.iter().map(renumber).collect();
    let all = renumbered.into_iter().chain(subgraphs.into_iter().filter(|_| return_mapping));
    all.zip(call.shapes).map(|(edges, shape)| Ok(new_csr(shape, edges, context)?.into())).collect()
}

pub(super) static SUBGRAPH: Operator<SubgraphParam> = Operator::new("_contrib_dgl_subgraph")
    .doc(
        "Induced subgraphs: for each array of n vertices a csr matrix of shape (n, n) with the edges among them, renumbered from 0 in \
         row-major order. With return_mapping, matrices of the same sparsity pattern follow that hold the edge ids of the original \
         graph.",
    )
    .variadic("data", "The vertices of each subgraph, ascending: vectors of type int64.", "num_args")
    .leading(&[arg("graph", "The graph.")])
    .outputs(|p| {
        let p = p.get::<SubgraphParam>();
        (p.num_args as usize).saturating_sub(1) * (1 + usize::from(p.return_mapping))
    })
    .shape(|_, io| {
        let sizes: Vec<i64> = io.ins[1..].iter().map(|s| if s.ndim() == Some(1) { s.dim(0) } else { -1 }).collect();
        ensure!(!sizes.is_empty(), "no vertices were given: num_args counts the graph and the arrays of vertices");
        subgraph_shapes(io, &sizes)
    })
    .dtype(all_int64)
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(|_, ins, _| sample_rule(ins), |call| {
        let rows = call.ins[0].shape().dim(0);
        let lists = call.ins[1..].iter().map(|v| vertices(v, rows)).collect::<Result<Vec<_>>>()?;
        for list in &lists {
            ensure!(list.is_sorted_by(|a, b| a < b), "the vertices of a subgraph must be given in ascending order, each once");
        }
        let subgraphs = with_graph(&call.ins[0], |g| {
            lists.iter().map(|list| between(g, list.iter().map(|v| *v as usize), list)).collect()
        })?;
        renumber_edges(call, subgraphs, call.ctx.params::<SubgraphParam>().return_mapping)
    });

pub(super) static ADJACENCY: Operator = Operator::new("_contrib_dgl_adjacency")
    .doc("The adjacency matrix of a graph: a csr matrix of type float32 with ones where the graph has edges.")
    .inputs(&[arg("data", "The graph, a csr matrix.")])
    .dtype(|_, io| io.assign_out(0, DType::F32))
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(
        |_, ins, _| sample_rule(ins),
        |call| {
            let graph = call.ins[0].sparse()?;
            let components = graph.components()?;
            let [indptr, indices, _] = csr_components(&components)?;
            let ones = vec![1f32; indices.len()];
            let edges = (indptr.to_vec::<i64>()?, indices.to_vec::<i64>()?, ones);
            Ok(vec![new_csr(graph.shape(), edges, graph.context())?.into()])
        },
    );

params! {
    /// Parameters of `_contrib_dgl_graph_compact`.
    pub struct CompactParam {
        /// The number of input arrays.
        num_args: i32 = required;
        /// Whether to also return the ids of the edges in the original graph.
        return_mapping: bool = required;
        /// The number of vertices of each subgraph.
        graph_sizes: Tuple<i64> = required;
    }
}

pub(super) static GRAPH_COMPACT: Operator<CompactParam> = Operator::new("_contrib_dgl_graph_compact")
    .doc(
        "Compacts the subgraphs of _contrib_dgl_csr_neighbor_uniform_sample: removes empty rows and renumbers the vertices from 0. For \
         each subgraph of n vertices, returns a csr matrix of shape (n, n) whose edges are renumbered from 0. With return_mapping, \
         matrices of the same sparsity pattern follow that hold the edge ids of the original graph.",
    )
    .variadic(
        "graph_data",
        "The csr matrices of all subgraphs, then the vertices of all subgraphs, ascending: vectors of type int64 of which the first \
         graph_sizes[i] elements are used.",
        "num_args",
    )
    .outputs(|p| {
        let p = p.get::<CompactParam>();
        p.num_args as usize / 2 * (1 + usize::from(p.return_mapping))
    })
    .shape(|p, io| {
        let sizes = &p.get::<CompactParam>().graph_sizes.0;
        let n = io.ins.len();
        ensure!(
            n % 2 == 0 && n / 2 == sizes.len() && n > 0,
            "{n} arrays and {} sizes were given: each subgraph needs a matrix, an array of vertices and a size",
            sizes.len()
        );
        subgraph_shapes(io, sizes)
    })
    .dtype(all_int64)
    .forward(only_csr)
    .grad(Grad::Zero)
    .sparse(
        |_, ins, _| {
            let (graphs, lists) = ins.split_at(ins.len() / 2);
            (graphs.iter().all(|t| *t == Csr) && lists.iter().all(|t| *t == Dense)).then_some(Csr)
        },
        |call| {
            let p = call.ctx.params::<CompactParam>();
            let (graphs, lists) = call.ins.split_at(call.ins.len() / 2);
            let mut subgraphs = Vec::new();
            for ((graph, list), size) in graphs.iter().zip(lists).zip(&p.graph_sizes.0) {
                subgraphs.push(compact(graph, list.dense()?, *size)?);
            }
            renumber_edges(call, subgraphs, p.return_mapping)
        },
    );

/// The edges between the first `size` vertices of `list`, which is the list of vertices of a sampled subgraph.
fn compact(graph: &Array, list: &NDArray, size: i64) -> Result<Edges> {
    let (rows, all) = (graph.shape().dim(0), list.to_vec::<i64>()?);
    let n = usize::try_from(size).ok().filter(|n| *n <= all.len() && size <= rows).ok_or_else(|| {
        Error::Value(format!("{size} vertices cannot be taken from {} of a graph of {rows} rows", all.len()))
    })?;
    let list = &all[..n];
    ensure!(list.is_sorted_by(|a, b| a < b), "the vertices of a subgraph must be given in ascending order, each once");
    let (edges, stored) = with_graph(graph, |g| (between(g, 0..n, list), g.indptr[n]))?;
    ensure!(
        edges.1.len() as i64 == stored,
        "{} of the subgraph's {stored} edges lead to vertices that are not listed",
        stored - edges.1.len() as i64
    );
    Ok(edges)
}
