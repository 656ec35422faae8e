//! Graphs as CSR matrices: row v holds the edges of vertex v, with the neighbours as columns and the edge ids as values.

use std::collections::{BTreeSet, HashSet};

use super::Csr;
use crate::rng::Draws;

/// The parameters of neighbourhood sampling.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// Number of hops from a seed.
    pub hops: usize,
    /// Maximum number of neighbours drawn per vertex, without replacement.
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
    /// Row pointers: where the edges of each vertex begin, and the end of the last.
    pub indptr: Vec<i64>,
    /// The neighbours along the drawn edges, ascending for each vertex; not all of them are among the vertices if the maximum was
    /// reached.
    pub columns: Vec<i64>,
    /// Ids of the drawn edges.
    pub edges: Vec<i64>,
}

impl Sampling<'_> {
    /// Draws neighbours of the seeds, of these neighbours, and so on, in order of discovery.
    pub fn run(&self, graph: Csr<'_, i64>, seeds: &[i64], draws: &mut Draws) -> Sample {
        let mut known = HashSet::new();
        let mut queue: Vec<(i64, i64)> = seeds.iter().filter(|s| known.insert(**s)).map(|s| (*s, 0)).collect();
        let mut drawn: Vec<Vec<usize>> = Vec::new();
        while drawn.len() < queue.len() && known.len() < self.max_vertices {
            let (vertex, layer) = queue[drawn.len()];
            if layer as usize >= self.hops {
                break; // the rest of the queue is at least as many hops away
            }
            let (columns, _) = graph.row(vertex as usize);
            let positions = self.pick(columns, draws);
            for column in positions.iter().map(|p| columns[*p]) {
                if known.len() < self.max_vertices && known.insert(column) {
                    queue.push((column, layer + 1));
                }
            }
            drawn.push(positions);
        }
        self.sorted(graph, &queue, drawn)
    }

    /// Positions of the drawn neighbours in a row, ascending.
    fn pick(&self, columns: &[i64], draws: &mut Draws) -> Vec<usize> {
        let (n, k) = (columns.len(), self.neighbors);
        if n <= k {
            return (0..n).collect();
        }
        let Some(weights) = self.weights else {
            // Floyd's algorithm (Bentley and Floyd 1987): every set of k positions is equally likely.
            let mut positions = BTreeSet::new();
            for last in n - k..n {
                let position = draws.below(last + 1);
                if !positions.insert(position) {
                    positions.insert(last);
                }
            }
            return positions.into_iter().collect();
        };
        // The k smallest of independent exponential times with these rates (Efraimidis and Spirakis 2006).
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

    fn sorted(&self, graph: Csr<'_, i64>, queue: &[(i64, i64)], drawn: Vec<Vec<usize>>) -> Sample {
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

/// The edges between some rows and an ascending list of vertices, as row pointers, columns (positions in the list) and values.
pub fn between(
    graph: Csr<'_, i64>,
    rows: impl Iterator<Item = usize>,
    vertices: &[i64],
) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let (mut indptr, mut columns, mut edges) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let (ends, numbers) = graph.row(row);
        for (end, number) in ends.iter().zip(numbers) {
            if let Ok(position) = vertices.binary_search(end) {
                columns.push(position as i64);
                edges.push(*number);
            }
        }
        indptr.push(columns.len() as i64);
    }
    (indptr, columns, edges)
}
