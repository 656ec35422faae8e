//! Compares every format and product with the dense matrix.

use super::*;
use crate::rng::Philox;

/// 3 x 4 with an empty row and an empty column.
const DENSE: [f32; 12] = [0.0, 1.5, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 4.0];
const OTHER: [f32; 12] = [1.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0, -4.0];

fn parts(dense: &[f32], rows: usize) -> (Vec<i64>, Vec<i64>, Vec<f32>) {
    dense_to_csr(dense, rows, dense.len() / rows)
}

fn view<T>(parts: &(Vec<i64>, Vec<i64>, Vec<T>)) -> Csr<'_, T> {
    Csr { indptr: &parts.0, indices: &parts.1, data: &parts.2 }
}

fn dense_of(parts: &(Vec<i64>, Vec<i64>, Vec<f32>), columns: usize) -> Vec<f32> {
    let mut out = vec![9.0; (parts.0.len() - 1) * columns];
    to_dense(view(parts), columns, &mut out);
    out
}

#[test]
fn conversion_round_trips() {
    let csr = parts(&DENSE, 3);
    assert_eq!((&csr.0[..], &csr.1[..]), (&[0, 2, 2, 4][..], &[1, 3, 0, 3][..]));
    assert_eq!(dense_of(&csr, 4), DENSE);
    let rows = nonzero_rows(&DENSE, 3, 4);
    assert_eq!(rows, [0, 2]);
    let mut stored = vec![0.0; 8];
    gather_rows(&DENSE, &rows, 4, &mut stored);
    let mut out = vec![0.0; 12];
    scatter_rows(&stored, &rows, 4, &mut out);
    assert_eq!(out, DENSE);
    let mut at = vec![0.0; 4];
    gather(view(&csr), &OTHER, 4, &mut at);
    assert_eq!(at, [1.5, 0.0, 0.0, -4.0]);
}

#[test]
fn large_matrices_are_split_into_chunks() {
    let dense: Vec<f32> = (0..300 * 200).map(|i| if i % 3 == 0 { i as f32 } else { 0.0 }).collect();
    let csr = parts(&dense, 300);
    assert_eq!(dense_of(&csr, 200), dense);
    let mut at = vec![0.0; csr.1.len()];
    gather(view(&csr), &dense, 200, &mut at);
    assert_eq!(at, csr.2);
}

/// A complete graph, with edges numbered from 0.
fn complete(n: i64) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let columns: Vec<i64> = (0..n).flat_map(|u| (0..n).filter(move |v| *v != u)).collect();
    ((0..=n).map(|u| u * (n - 1)).collect(), columns.clone(), (0..columns.len() as i64).collect())
}

#[test]
fn neighbors_are_drawn_without_replacement_uniformly_or_by_weight() {
    let (indptr, indices, data) = complete(6);
    let graph = Csr { indptr: &indptr, indices: &indices, data: &data };
    let weights = [0.0, 0.0, 1.0, 1.0, 2.0, 4.0];
    for weights in [None, Some(&weights[..])] {
        let sampling = Sampling { hops: 1, neighbors: 2, max_vertices: 6, weights };
        let mut drawn = [0; 6];
        for k in 0..4000 {
            let sample = sampling.run(graph, &[1], &mut Philox::new(5, 0).draws(k));
            assert_eq!((sample.vertices.len(), sample.columns.len()), (3, 2));
            assert!(sample.vertices.is_sorted() && sample.columns[0] < sample.columns[1]);
            for (column, edge) in sample.columns.iter().zip(&sample.edges) {
                drawn[*column as usize] += 1;
                assert_eq!(*edge, 5 + column - i64::from(*column > 1), "the edge from 1 to {column}");
            }
            let hops: Vec<i64> = sample.vertices.iter().map(|v| i64::from(*v != 1)).collect();
            assert_eq!(sample.layers, hops);
        }
        // Without weights, each of five vertices is in 2/5 of the drawn pairs; with weights 1, 1, 2, 4 the expected probability
        // is that of being drawn first or second.
        let first = |w: f64| w / 8.0 + [1.0, 1.0, 2.0, 4.0].iter().map(|o| o / 8.0 * w / (8.0 - o)).sum::<f64>();
        let own = |w: f64| first(w) - w / 8.0 * w / (8.0 - w);
        let expected = match weights {
            None => [0.4, 0.0, 0.4, 0.4, 0.4, 0.4],
            Some(_) => [0.0, 0.0, own(1.0), own(1.0), own(2.0), own(4.0)],
        };
        for (drawn, part) in drawn.iter().zip(expected) {
            assert!((f64::from(*drawn) / 4000.0 - part).abs() < 0.04, "{drawn} of 4000 instead of {part}");
        }
    }
}

#[test]
fn a_sample_respects_the_maximum_number_of_vertices() {
    let (indptr, indices, data) = complete(6);
    let graph = Csr { indptr: &indptr, indices: &indices, data: &data };
    let sampling = Sampling { hops: 3, neighbors: 9, max_vertices: 4, weights: None };
    let sample = sampling.run(graph, &[2, 2, 5], &mut Philox::new(1, 0).draws(0));
    assert_eq!((sample.vertices, sample.layers), (vec![0, 1, 2, 5], vec![1, 1, 0, 0]));
    assert_eq!((sample.indptr, sample.columns), (vec![0, 0, 0, 5, 5], vec![0, 1, 3, 4, 5]));
    assert_eq!(between(graph, [2usize, 5].into_iter(), &[2, 5]), (vec![0, 1, 2], vec![1, 0], vec![14, 27]));
}

#[test]
fn unions_hold_the_positions_of_both() {
    let (a, b) = (parts(&DENSE, 3), parts(&OTHER, 3));
    let (indptr, indices) = union_csr(view(&a), view(&b));
    assert_eq!((&indptr[..], &indices[..]), (&[0, 3, 4, 6][..], &[0, 1, 3, 3, 0, 3][..]));
    let sum: Vec<f32> = expand(view(&a), &indptr, &indices)
        .iter()
        .zip(expand(view(&b), &indptr, &indices))
        .map(|(a, b)| a + b)
        .collect();
    let expected: Vec<f32> = DENSE.iter().zip(OTHER).map(|(a, b)| a + b).collect();
    assert_eq!(dense_of(&(indptr, indices, sum), 4), expected);
    assert_eq!(union_rows(&[1, 4], &[0, 4, 7]), [0, 1, 4, 7]);
    assert_eq!(positions(&[1, 7], &[0, 1, 4, 7]), [1, 3]);
}

#[test]
fn products_and_sums() {
    let csr = parts(&DENSE, 3);
    let right: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let mut out = vec![0.0; 6];
    product(view(&csr), &right, 2, &mut out, |r| r);
    assert_eq!(out, [-9.0, -9.5, 0.0, 0.0, 24.0, 31.0]);
    let mut out = vec![0.0; 8];
    dense_product(&[1.0, 2.0, 3.0, 0.0, 1.0, 0.5], view(&csr), 4, &mut out);
    assert_eq!(out, [9.0, 1.5, 0.0, 10.0, 1.5, 0.0, 0.0, 2.0]);
    let (mut rows, mut columns) = ([0.0; 3], [0.0; 4]);
    row_sums(view(&csr), &mut rows);
    column_sums(view(&csr), &mut columns);
    assert_eq!((rows, columns), ([-0.5, 0.0, 7.0], [3.0, 1.5, 0.0, 2.0]));
}

#[test]
fn the_order_of_keys_is_ascending_and_stable() {
    let mut draws = Philox::new(3, 0).draws(0);
    for n in [0, 1, 10, 5000] {
        let keys: Vec<i64> = (0..n).map(|_| draws.below(3000) as i64 * 700_000).collect();
        let mut expected: Vec<usize> = (0..keys.len()).collect();
        expected.sort_by_key(|i| keys[*i]);
        assert_eq!(stable_order(&keys), expected);
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(sorted_distinct(&keys), distinct);
    }
}

#[test]
fn positions_are_found_with_and_without_a_table() {
    let list = [1, 4, 7, 1000];
    for (bound, num_lookups) in [(1001, 1001), (1001, 1), (usize::MAX, 1)] {
        let positions = Positions::new(&list, bound, num_lookups);
        assert_eq!([1, 4, 7, 1000].map(|x| positions.find(x)), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([0, 5, 999].map(|x| positions.find(x)), [None; 3]);
    }
}

#[test]
fn rows_and_columns_are_selected() {
    let csr = parts(&DENSE, 3);
    assert_eq!(dense_of(&select_rows(view(&csr), &[2, 1]), 4), [3.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(dense_of(&select_columns(view(&csr), &[2, 3], 4), 2), [0.0, -2.0, 0.0, 0.0, 0.0, 4.0]);
    let (rows, stored) = transpose_stored(view(&csr));
    assert_eq!(rows, [0, 1, 3]);
    assert_eq!(dense_of(&stored, 3), [0.0, 0.0, 3.0, 1.5, 0.0, 0.0, -2.0, 0.0, 4.0]);
}

#[test]
fn chunks_of_rows_are_scattered() {
    let rows: Vec<i64> = (0..40_000).map(|i| i * 3 + 1).collect();
    let source: Vec<f32> = (0..80_000).map(|i| i as f32).collect();
    let mut out = vec![-1.0; 240_006];
    scatter_rows(&source, &rows, 2, &mut out);
    for (r, row) in out.chunks(2).enumerate() {
        let expected =
            if r % 3 == 1 && r / 3 < 40_000 { [2 * (r / 3), 2 * (r / 3) + 1].map(|x| x as f32) } else { [-1.0; 2] };
        assert_eq!(row, expected, "row {r}");
    }
}
