use super::*;
use crate::gemm::{MatMut, MatRef, gemm};

/// Pseudo-random numbers in [-1, 1).
fn matrix(rows: usize, cols: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * cols];
    crate::rng::Philox::new(1, (rows * 1000 + cols) as u64).fill_uniform(-1.0, 1.0, &mut out);
    out
}

fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Vec<f64> {
    let (m, n) = (a.rows(), b.cols());
    let mut c = vec![0.0; m * n];
    gemm(1.0, a, b, 0.0, MatMut::row_major(&mut c, m, n));
    c
}

fn square(a: &[f64], n: usize) -> MatRef<'_, f64> {
    MatRef::row_major(a, n, n)
}

#[track_caller]
fn near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance, "element {i}: {a}, expected {b}");
    }
}

#[track_caller]
fn identity(a: &[f64], n: usize, tolerance: f64) {
    let mut one = vec![0.0; n * n];
    (0..n).for_each(|i| one[i * n + i] = 1.0);
    near(a, &one, tolerance);
}

const SIZES: [usize; 6] = [1, 2, 5, 64, 65, 150];

/// A symmetric matrix, positive definite if `shift` is large.
fn symmetric(n: usize, shift: f64) -> Vec<f64> {
    let a = matrix(n, n);
    let mut s = product(square(&a, n), square(&a, n).t());
    (0..n).for_each(|i| s[i * n + i] += shift);
    s
}

#[test]
fn cholesky_factors_multiply_to_the_matrix() {
    for n in SIZES {
        let a = symmetric(n, 1.0);
        let mut l = a.clone();
        // The upper triangle is not read.
        (0..n).for_each(|i| l[i * n + i + 1..(i + 1) * n].fill(f64::NAN));
        cholesky(&mut l, n).unwrap();
        near(&product(square(&l, n), square(&l, n).t()), &a, 1e-10);
        let mut bad = a.clone();
        bad[(n - 1) * (n + 1)] = -1.0;
        assert_eq!(cholesky(&mut bad, n), Err(n - 1));
    }
}

#[test]
fn triangular_solutions() {
    for (n, m) in [(1, 1), (5, 3), (70, 9), (130, 65)] {
        let mut a = matrix(n, n);
        a.iter_mut().for_each(|x| *x /= n as f64);
        (0..n).for_each(|i| a[i * n + i] = 2.0 + i as f64 / n as f64);
        for (lower, transposed, unit) in
            [(true, false, false), (true, true, false), (false, false, false), (false, true, true), (true, false, true)]
        {
            let triangle = Triangle { lower, transposed, unit };
            let mut t = vec![0.0; n * n];
            copy_triangle(&a, n, lower, &mut t);
            if unit {
                (0..n).for_each(|i| t[i * n + i] = 1.0);
            }
            let op = if transposed { square(&t, n).t() } else { square(&t, n) };
            let b = matrix(n, m);
            let mut x = b.clone();
            solve_left(&a, n, triangle, &mut x, m);
            near(&product(op, MatRef::row_major(&x, n, m)), &b, 1e-11);
            let mut x = b.clone();
            solve_right(&a, n, triangle, &mut x, m);
            near(&product(MatRef::row_major(&x, m, n), op), &b, 1e-11);
        }
    }
}

#[test]
fn inverses() {
    for n in SIZES {
        let a = matrix(n, n);
        let mut inverse = vec![0.0; n * n];
        invert(&mut a.clone(), n, &mut inverse).unwrap();
        identity(&product(square(&a, n), square(&inverse, n)), n, 1e-8);
    }
    assert_eq!(invert(&mut [1.0, 1.0, 1.0, 1.0], 2, &mut [0.0; 4]), Err(1));
    let mut pivots = [0; 2];
    let mut exchanged = [0.0, 1.0, 1.0, 0.0];
    assert!(lu(&mut exchanged, 2, &mut pivots));
    assert_eq!((exchanged, pivots), ([1.0, 0.0, 0.0, 1.0], [1, 1]));
}

#[test]
fn orthogonal_factors() {
    for (m, n) in [(1, 1), (1, 4), (3, 3), (5, 70), (66, 66)] {
        let a = matrix(m, n);
        let (mut q, mut l) = (a.clone(), vec![0.0; m * m]);
        lq_batch(&mut q, (m, n), &mut l);
        let rows = MatRef::row_major(&q, m, n);
        identity(&product(rows, rows.t()), m, 1e-11);
        near(&product(square(&l, m), rows), &a, 1e-11);
    }
}

#[test]
fn eigenvectors_diagonalise() {
    for n in SIZES {
        let mut a = symmetric(n, -1.0);
        if n == 5 {
            // Equal eigenvalues.
            a.fill(0.0);
            (0..5).for_each(|i| a[i * 6] = 3.0);
        }
        let (mut u, mut values) = (a.clone(), vec![0.0; n]);
        symmetric_eigen(&mut u, n, &mut values).unwrap();
        let rows = square(&u, n);
        identity(&product(rows, rows.t()), n, 1e-11);
        assert!(values.is_sorted());
        let scaled: Vec<f64> = u.iter().enumerate().map(|(i, x)| x * values[i / n]).collect();
        near(&product(rows.t(), square(&scaled, n)), &a, 1e-10);
    }
    assert!(symmetric_eigen(&mut [1.0, 0.0, f64::NAN, 1.0], 2, &mut [0.0; 2]).is_err());
}

/// Matrices of rank 1 to 5, whose other eigenvalues are rounding errors, graded matrices, and matrices of equal elements.
fn nearly_singular(n: usize) -> Vec<Vec<f64>> {
    let mut matrices: Vec<Vec<f64>> = (1..=5)
        .map(|rank| {
            let factor: Vec<f64> = matrix(n, rank).iter().map(|x| x.abs() + 0.1).collect();
            let factor = MatRef::row_major(&factor, n, rank);
            product(factor, factor.t())
        })
        .collect();
    let graded = |i: usize| 10f64.powf(-0.5 * (i / n + i % n) as f64);
    matrices.push(matrices[4].iter().enumerate().map(|(i, x)| x * graded(i)).collect());
    matrices.push(matrices[4].iter().enumerate().map(|(i, x)| x * graded(n * n - 1 - i)).collect());
    matrices.push((0..n * n).map(|i| matrices[4][(i / n / 2) * n + i % n / 2]).collect());
    matrices.push(vec![1.0; n * n]);
    matrices.push(vec![0.0; n * n]);
    matrices
}

#[test]
fn eigenvalues_of_nearly_singular_matrices_converge() {
    for n in [2, 5, 30, 80, 150] {
        for a in nearly_singular(n) {
            let largest = a.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
            let (mut u, mut values) = (a.clone(), vec![0.0; n]);
            symmetric_eigen(&mut u, n, &mut values).unwrap();
            let rows = square(&u, n);
            identity(&product(rows, rows.t()), n, 1e-11);
            let scaled: Vec<f64> = u.iter().enumerate().map(|(i, x)| x * values[i / n]).collect();
            near(&product(rows.t(), square(&scaled, n)), &a, 1e-12 * largest * n as f64);

            let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
            general_eigen(&mut a.clone(), n, &mut re, &mut im, &mut []).unwrap();
            assert!(im.iter().all(|im| *im == 0.0));
            re.sort_by(f64::total_cmp);
            near(&re, &values, 1e-12 * largest * n as f64);
        }
        for a in nearly_singular(n) {
            let a: Vec<f32> = a.iter().map(|x| *x as f32).collect();
            symmetric_eigen(&mut a.clone(), n, &mut vec![0.0; n]).unwrap();
            general_eigen(&mut a.clone(), n, &mut vec![0.0; n], &mut vec![0.0; n], &mut []).unwrap();
        }
    }
}

#[test]
fn small_eigenvalues_next_to_large_ones_are_accurate() {
    // Blocks that do not interact keep their own precision.
    let mut a = [1e10, 0.0, 0.0, 0.0, 2e-10, 1e-10, 0.0, 1e-10, 2e-10];
    let mut values = [0.0; 3];
    symmetric_eigen(&mut a, 3, &mut values).unwrap();
    near(&values.map(|x| x * 1e10), &[1.0, 3.0, 1e20], 1e-14);
}

#[test]
fn very_large_and_small_matrices() {
    let n = 8;
    let a: Vec<f32> = matrix(n, n).iter().map(|x| *x as f32).collect();
    // The magnitudes of the eigenvalues, the singular values, and the magnitudes on the diagonal of L, each sorted.
    let sizes = |a: &[f32], scale: f64| {
        let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
        general_eigen(&mut a.to_vec(), n, &mut re, &mut im, &mut []).unwrap();
        let eigenvalues = re.iter().zip(&im).map(|(re, im): (&f32, &f32)| f64::from(*re).hypot((*im).into()));
        let (mut u, mut s, mut v) = (vec![0.0; n * n], vec![0.0; n], vec![0.0; n * n]);
        svd(a, n, n, &mut u, &mut s, &mut v).unwrap();
        let (mut q, mut l) = (a.to_vec(), vec![0.0; n * n]);
        lq_batch(&mut q, (n, n), &mut l);
        let mut all = [eigenvalues.collect::<Vec<_>>(), s.iter().map(|x| f64::from(*x)).collect(), Vec::new()];
        all[2].extend(l.iter().step_by(n + 1).map(|x| f64::from(x.abs())));
        all.iter_mut().for_each(|sizes| sizes.sort_by(f64::total_cmp));
        all.concat().iter().map(|x| x / scale).collect::<Vec<f64>>()
    };
    for scale in [1e-30, 1e-22, 1e-18, 1e18, 1e22, 1e30] {
        let scaled: Vec<f32> = a.iter().map(|x| x * scale as f32).collect();
        near(&sizes(&scaled, scale), &sizes(&a, 1.0), 1e-4);
    }
}

#[test]
fn singular_values_and_vectors() {
    for (m, n) in [(1, 1), (3, 3), (4, 9), (9, 4), (40, 33), (2, 70)] {
        for rank in [m.min(n), 1] {
            let k = m.min(n);
            let a = product(MatRef::row_major(&matrix(m, rank), m, rank), MatRef::row_major(&matrix(rank, n), rank, n));
            let (mut u, mut s, mut v) = (vec![0.0; m * k], vec![0.0; k], vec![0.0; k * n]);
            svd(&a, m, n, &mut u, &mut s, &mut v).unwrap();
            let (left, right) = (MatRef::row_major(&u, m, k), MatRef::row_major(&v, k, n));
            identity(&product(right, right.t()), k, 1e-11);
            if rank == k {
                identity(&product(left.t(), left), k, 1e-11);
            }
            assert!(s.is_sorted_by(|a, b| a >= b) && s[k - 1] >= 0.0);
            let scaled: Vec<f64> = v.iter().enumerate().map(|(i, x)| x * s[i / n]).collect();
            near(&product(left, MatRef::row_major(&scaled, k, n)), &a, 1e-11);
        }
    }
}

#[test]
fn the_first_failing_matrix_is_reported() {
    let mut data = vec![0.0; 4 * 1000];
    let fail = |i: usize, _: &mut [f64]| if i % 400 == 399 { Err(i) } else { Ok(()) };
    assert_eq!(for_each_matrix(&mut data, 4, fail), Err(399));
}

#[test]
fn eigenvectors_of_general_matrices() {
    for n in SIZES {
        // Q diag Q^-1 with well separated real values.
        let (mut q, mut inverse) = (matrix(n, n), vec![0.0; n * n]);
        (0..n).for_each(|i| q[i * n + i] += 4.0 * (n as f64).sqrt());
        invert(&mut q.clone(), n, &mut inverse).unwrap();
        let scaled: Vec<f64> = q.iter().enumerate().map(|(i, x)| x * (1.0 + (i % n) as f64)).collect();
        let a = product(square(&scaled, n), square(&inverse, n));
        let (mut re, mut im, mut v) = (vec![0.0; n], vec![0.0; n], vec![0.0; n * n]);
        general_eigen(&mut a.clone(), n, &mut re, &mut im, &mut v).unwrap();
        let moved: Vec<f64> = v.iter().enumerate().map(|(i, x)| x * re[i % n]).collect();
        near(&product(square(&a, n), square(&v, n)), &moved, 1e-8);
        re.sort_by(f64::total_cmp);
        near(&re, &(0..n).map(|i| 1.0 + i as f64).collect::<Vec<_>>(), 1e-8);
    }
}

#[test]
fn complex_eigenvalues_come_in_pairs() {
    for n in [2, 3, 8, 65] {
        let a = matrix(n, n);
        let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
        general_eigen(&mut a.clone(), n, &mut re, &mut im, &mut []).unwrap();
        // The sums of powers of the eigenvalues are the traces of powers of the matrix.
        let trace = |a: &[f64]| (0..n).map(|i| a[i * n + i]).sum::<f64>();
        let powers = [re.iter().sum::<f64>(), re.iter().zip(&im).map(|(re, im)| re * re - im * im).sum()];
        near(&powers, &[trace(&a), trace(&product(square(&a, n), square(&a, n)))], 1e-9);
        assert!(im.iter().sum::<f64>().abs() < 1e-12);
    }
    let mut rotation = [0.0, -1.0, 1.0, 0.0];
    assert_eq!(
        general_eigen(&mut rotation, 2, &mut [0.0; 2], &mut [0.0; 2], &mut [0.0; 4]),
        Err(EigenError::Complex(0))
    );
    let bad = general_eigen(&mut [f64::NAN], 1, &mut [0.0], &mut [0.0], &mut []);
    assert_eq!(bad, Err(EigenError::NotConverged(0)));
}
