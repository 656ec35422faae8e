//! Every format and product agrees with the dense matrix.

use super::*;

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
fn conversion_there_and_back() {
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
fn large_matrices_are_cut_into_chunks() {
    let dense: Vec<f32> = (0..300 * 200).map(|i| if i % 3 == 0 { i as f32 } else { 0.0 }).collect();
    let csr = parts(&dense, 300);
    assert_eq!(dense_of(&csr, 200), dense);
    let mut at = vec![0.0; csr.1.len()];
    gather(view(&csr), &dense, 200, &mut at);
    assert_eq!(at, csr.2);
}

#[test]
fn unions_hold_the_places_of_both() {
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
    let transposed = transpose(view(&csr), 4);
    assert_eq!(dense_of(&transposed, 3), [0.0, 0.0, 3.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0, 4.0]);
    let mut out = vec![0.0; 8];
    dense_product(&[1.0, 2.0, 3.0, 0.0, 1.0, 0.5], view(&csr), 4, &mut out);
    assert_eq!(out, [9.0, 1.5, 0.0, 10.0, 1.5, 0.0, 0.0, 2.0]);
    let (mut rows, mut columns) = ([0.0; 3], [0.0; 4]);
    row_sums(view(&csr), &mut rows);
    column_sums(view(&csr), &mut columns);
    assert_eq!((rows, columns), ([-0.5, 0.0, 7.0], [3.0, 1.5, 0.0, 2.0]));
}
