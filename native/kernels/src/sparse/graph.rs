//! Graphs as matrices of compressed sparse rows: row v holds the edges of vertex v, their ends as columns and their numbers as
//! values.

use std::collections::{BTreeSet, HashSet};

use super::Csr;
use crate::rng::Draws;

/// How [`Sampling::run`] walks from vertex to vertex.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// Edges that are followed one after the other from a seed.
    pub hops: usize,
    /// Neighbours drawn of each vertex, without repetition; all of them where there are no more.
    pub neighbors: usize,
    /// No further vertices are collected once there are so many.
    pub max_vertices: usize,
    /// Weights of all vertices with which they are drawn, not negative; without them all are alike.
    pub weights: Option<&'a [f32]>,
}

/// A part of a graph that was drawn at random.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The vertices, ascending.
    pub vertices: Vec<i64>,
    /// The number of hops after which each of them was found.
    pub layers: Vec<i64>,
    /// Where the edges of each of them begin, and the end of the last.
    pub indptr: Vec<i64>,
    /// The ends of the drawn edges, ascending for each vertex; some may be missing among the vertices if there were too many.
    pub columns: Vec<i64>,
    /// The numbers of the drawn edges.
    pub edges: Vec<i64>,
}

impl Sampling<'_> {
    /// Draws neighbours of the seeds, of these neighbours, and so on, in order of their discovery.
    pub fn run(&self, graph: Csr<'_, i64>, seeds: &[i64], draws: &mut Draws) -> Sample {
        let mut known = HashSet::new();
        let mut queue: Vec<(i64, i64)> = seeds.iter().filter(|s| known.insert(**s)).map(|s| (*s, 0)).collect();
        let mut drawn: Vec<Vec<usize>> = Vec::new();
        while drawn.len() < queue.len() && known.len() < self.max_vertices {
            let (vertex, layer) = queue[drawn.len()];
            if layer as usize >= self.hops {
                break; // those that follow were found as late
            }
            let (columns, _) = graph.row(vertex as usize);
            let places = self.pick(columns, draws);
            for column in places.iter().map(|p| columns[*p]) {
                if known.len() < self.max_vertices && known.insert(column) {
                    queue.push((column, layer + 1));
                }
            }
            drawn.push(places);
        }
        self.sorted(graph, &queue, drawn)
    }

    /// Places of the drawn neighbours in a row, ascending.
    fn pick(&self, columns: &[i64], draws: &mut Draws) -> Vec<usize> {
        let (n, k) = (columns.len(), self.neighbors);
        if n <= k {
            return (0..n).collect();
        }
        let Some(weights) = self.weights else {
            // Floyd's algorithm (Bentley and Floyd 1987): every set of k places is equally likely.
            let mut places = BTreeSet::new();
            for last in n - k..n {
                let place = draws.below(last + 1);
                if !places.insert(place) {
                    places.insert(last);
                }
            }
            return places.into_iter().collect();
        };
        // The first k of independent exponential times with these rates (Efraimidis and Spirakis 2006).
        let mut times: Vec<(f64, usize)> = columns
            .iter()
            .enumerate()
            .map(|(p, c)| (draws.exponential() / f64::from(weights[*c as usize]), p))
            .collect();
        if k > 0 {
            times.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0));
        }
        let mut places: Vec<usize> = times[..k].iter().map(|t| t.1).collect();
        places.sort_unstable();
        places
    }

    fn sorted(&self, graph: Csr<'_, i64>, queue: &[(i64, i64)], drawn: Vec<Vec<usize>>) -> Sample {
        let mut order: Vec<usize> = (0..queue.len()).collect();
        order.sort_unstable_by_key(|i| queue[*i].0);
        let mut sample = Sample { indptr: vec![0], ..Sample::default() };
        for i in order {
            let (vertex, layer) = queue[i];
            sample.vertices.push(vertex);
            sample.layers.push(layer);
            if let Some(places) = drawn.get(i) {
                let (columns, edges) = graph.row(vertex as usize);
                sample.columns.extend(places.iter().map(|p| columns[*p]));
                sample.edges.extend(places.iter().map(|p| edges[*p]));
            }
            sample.indptr.push(sample.columns.len() as i64);
        }
        sample
    }
}

/// The edges from some rows to the vertices of an ascending list, by their places in the list: row pointers, columns, values.
pub fn between(
    graph: Csr<'_, i64>,
    rows: impl Iterator<Item = usize>,
    vertices: &[i64],
) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let (mut indptr, mut columns, mut edges) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let (ends, numbers) = graph.row(row);
        for (end, number) in ends.iter().zip(numbers) {
            if let Ok(place) = vertices.binary_search(end) {
                columns.push(place as i64);
                edges.push(*number);
            }
        }
        indptr.push(columns.len() as i64);
    }
    (indptr, columns, edges)
}
