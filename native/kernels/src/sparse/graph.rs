//! Graphs as CSR matrices: row v holds the edges of vertex v, with the neighbors as columns and the edge ids as values.

use std::collections::{BTreeSet, HashSet};

use super::Csr;
use crate::rng::Draws;

/// The parameters of neighborhood sampling.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// Number of hops from a seed.
    pub hops: usize,
    /// Maximum number of neighbors drawn per vertex, without replacement.
    pub neighbors: usize,
    /// Maximum number of vertices to collect.
    pub max_vertices: usize,
    /// Non-negative sampling weights of all vertices; uniform if absent.
    pub weights: Option<&'a [f32]>,
}

/// A randomly sampled subgraph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Vertex ids, ascending.
    pub vertices: Vec<i64>,
    /// The number of hops to each vertex.
    pub layers: Vec<i64>,
    /// Row pointers: the start of the edges of each vertex, and the end of the last ones.
    pub indptr: Vec<i64>,
    /// The neighbors along the drawn edges, ascending for each vertex. Some of them are not among the vertices if the maximum
    /// number of vertices was reached.
    pub columns: Vec<i64>,
    /// Ids of the drawn edges.
    pub edges: Vec<i64>,
}

impl Sampling<'_> {
    /// Samples neighbors of the seeds, then neighbors of those, and so on, in order of discovery.
    pub fn run(&self, graph: Csr<'_, i64>, seeds: &[i64], draws: &mut Draws) -> Sample {
        let mut visited = HashSet::new();
        let mut queue: Vec<(i64, i64)> = seeds.iter().filter(|s| visited.insert(**s)).map(|s| (*s, 0)).collect();
        let mut drawn: Vec<Vec<usize>> = Vec::new();
        while drawn.len() < queue.len() && visited.len() < self.max_vertices {
            let (vertex, layer) = queue[drawn.len()];
            if layer as usize >= self.hops {
                break; // The rest of the queue is at least as many hops away.
            }
            let (columns, _) = graph.row(vertex as usize);
            let positions = self.pick(columns, draws);
            for column in positions.iter().map(|p| columns[*p]) {
                if visited.len() < self.max_vertices && visited.insert(column) {
                    queue.push((column, layer + 1));
                }
            }
            drawn.push(positions);
        }
        self.sorted_sample(graph, &queue, drawn)
    }

    /// Positions of the drawn neighbors in a row, ascending.
    fn pick(&self, columns: &[i64], draws: &mut Draws) -> Vec<usize> {
        let (n, k) = (columns.len(), self.neighbors);
        if n <= k {
            return (0..n).collect();
        }
        let Some(weights) = self.weights else {
            // Floyd's algorithm (Bentley and Floyd, 1987): every set of k positions is equally likely.
            let mut positions = BTreeSet::new();
            for last in n - k..n {
                let position = draws.below(last + 1);
                if !positions.insert(position) {
                    positions.insert(last);
                }
            }
            return positions.into_iter().collect();
        };
        // The k smallest of independent exponential times with these rates (Efraimidis and Spirakis, 2006).
        let mut times: Vec<(f64, usize)> = columns
            .iter()
            .enumerate()
            .map(|(p, c)| (draws.exponential() / f64::from(weights[*c as usize]), p))
            .collect();
        if k > 0 {
            times.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0));
        }
        let mut positions: Vec<usize> = times[..k].iter().map(|t| t.1).collect();
        positions.sort_unstable();
        positions
    }

    fn sorted_sample(&self, graph: Csr<'_, i64>, queue: &[(i64, i64)], drawn: Vec<Vec<usize>>) -> Sample {
        let mut order: Vec<usize> = (0..queue.len()).collect();
        order.sort_unstable_by_key(|i| queue[*i].0);
        let mut sample = Sample { indptr: vec![0], ..Sample::default() };
        for i in order {
            let (vertex, layer) = queue[i];
            sample.vertices.push(vertex);
            sample.layers.push(layer);
            if let Some(positions) = drawn.get(i) {
                let (columns, edges) = graph.row(vertex as usize);
                sample.columns.extend(positions.iter().map(|p| columns[*p]));
                sample.edges.extend(positions.iter().map(|p| edges[*p]));
            }
            sample.indptr.push(sample.columns.len() as i64);
        }
        sample
    }
}

/// The edges from some rows to the vertices of an ascending list, as row pointers, columns (positions in the list) and edge ids.
pub fn between(
    graph: Csr<'_, i64>,
    rows: impl Iterator<Item = usize>,
    vertices: &[i64],
) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let (mut indptr, mut columns, mut edges) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let (neighbors, edge_ids) = graph.row(row);
        for (neighbor, edge_id) in neighbors.iter().zip(edge_ids) {
            if let Ok(position) = vertices.binary_search(neighbor) {
                columns.push(position as i64);
                edges.push(*edge_id);
            }
        }
        indptr.push(columns.len() as i64);
    }
    (indptr, columns, edges)
}
