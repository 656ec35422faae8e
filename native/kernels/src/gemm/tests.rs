//! Products compared with sums in f64, for every instruction set that the processor has.

use super::batched::BatchedProduct;
use super::*;
use crate::par;
use crate::simd::Isa;
use crate::simd::microkernel::MicroKernel;
use num_traits::NumCast;

/// Numbers in [-1, 1) that depend on `seed` only.
fn noise<T: GemmElement>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..len).map(|_| T::from(next()).unwrap_or(T::zero())).collect()
}

fn value<T: NumCast>(x: T) -> f64 {
    x.to_f64().expect("a float")
}

/// The (i, j) element of a view.
fn at<T: GemmElement>(m: MatRef<'_, T>, i: usize, j: usize) -> f64 {
    value(m.data()[i * m.row_stride() + j * m.col_stride()])
}

/// alpha A B + beta C in f64, row-major; C is not read if beta is zero.
fn reference<T: GemmElement>(
    alpha: f64,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: f64,
    c: &[T],
    stride: usize,
) -> Vec<f64> {
    let mut out = Vec::with_capacity(a.rows() * b.cols());
    for i in 0..a.rows() {
        for j in 0..b.cols() {
            let sum: f64 = (0..a.cols()).map(|p| at(a, i, p) * at(b, p, j)).sum();
            let old = if beta == 0.0 { 0.0 } else { beta * value(c[i * stride + j]) };
            out.push(alpha * sum + old);
        }
    }
    out
}

/// Asserts that the (m, n) matrix `c` with the given row stride equals `expected`, up to the rounding error of a sum of `terms`
/// terms in [-1, 1), and that the elements between its rows still equal `before`.
fn check<T: GemmElement>(
    what: &str,
    c: &[T],
    before: &[T],
    (n, stride): (usize, usize),
    expected: &[f64],
    terms: usize,
) {
    let tolerance = value(T::epsilon()) * (4.0 + terms as f64);
    for (i, &got) in c.iter().enumerate() {
        let (row, col) = (i / stride, i % stride);
        if col < n {
            let want = expected[row * n + col];
            assert!((value(got) - want).abs() <= tolerance, "{what}: ({row}, {col}) is {}, not {want}", value(got));
        } else {
            assert!(got == before[i], "{what}: ({row}, {col}) is outside of C and was written");
        }
    }
}

/// A (rows, cols) view of `data`: row-major, column-major, or with gaps in both directions.
fn layout<T>(data: &[T], rows: usize, cols: usize, layout_kind: usize) -> MatRef<'_, T> {
    match layout_kind {
        0 => MatRef::new(data, rows, cols, cols + 3, 1),
        1 => MatRef::new(data, rows, cols, 1, rows + 5),
        _ => MatRef::new(data, rows, cols, 2 * cols + 1, 2),
    }
}

fn kernels<T: GemmElement>() -> impl Iterator<Item = &'static MicroKernel<T>> {
    Isa::available().map(T::microkernel_for)
}

/// A B by the given microkernel, followed by the epilogue.
fn product<'a, T: GemmElement>(
    kernel: &'static MicroKernel<T>,
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
    epilogue: &'a Epilogue<'a, T>,
) -> Product<'a, T> {
    let (a, b, threads) = (Lhs::View(a), Rhs::View(b), par::num_threads());
    Product { kernel, alpha: T::one(), a, b, beta: T::zero(), epilogue, threads }
}

fn one_shape<T: GemmElement>(m: usize, n: usize, k: usize, layouts: &[usize]) {
    let (a, b) = (noise::<T>((m + 8) * (2 * k + 8) + 8, 1), noise::<T>((2 * n + 8) * (k + 8) + 8, 2));
    let stride = n + 3;
    let old = noise::<T>(m * stride, 3);
    for &how_a in layouts {
        for &how_b in layouts {
            let (a, b) = (layout(&a, m, k, how_a), layout(&b, k, n, how_b));
            for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.75)] {
                let mut before = old.clone();
                if beta == 0.0 {
                    before.chunks_mut(stride).for_each(|row| row[..n].fill(T::nan()));
                }
                let expected = reference(alpha, a, b, beta, &before, stride);
                for kernel in kernels::<T>() {
                    let mut c = before.clone();
                    let (alpha, beta) = (T::from(alpha).expect("exact"), T::from(beta).expect("exact"));
                    let view = MatMut::new(&mut c, m, n, stride);
                    Product { alpha, beta, ..product(kernel, a, b, &Epilogue::default()) }.run(view);
                    let what = format!("{:?} {m}x{n}x{k} layouts {how_a} {how_b}", kernel.isa());
                    check(&what, &c, &before, (n, stride), &expected, k);
                }
            }
        }
    }
}

#[test]
fn small_shapes_in_every_layout() {
    for m in [0, 1, 2, 13, 16, 29] {
        for n in [0, 1, 2, 15, 17, 33] {
            for k in [0, 1, 2, 13, 17] {
                one_shape::<f32>(m, n, k, &[0, 1, 2]);
            }
        }
    }
}

#[test]
fn tile_edges() {
    for m in [13, 14, 15, 31] {
        for n in [7, 8, 9, 14, 16, 31, 32, 63, 65] {
            one_shape::<f32>(m, n, 33, &[0, 1]);
            one_shape::<f64>(m, n, 33, &[0, 1]);
        }
    }
}

#[test]
fn larger_than_the_blocks() {
    one_shape::<f32>(185, 47, 1100, &[0, 1]);
    one_shape::<f64>(30, 131, 530, &[0, 1]);
    one_shape::<f32>(5, 2100, 20, &[0]);
}

#[test]
fn vectors_few_rows_and_outer_products() {
    for (m, n, k) in
        [(1, 50, 70), (50, 1, 70), (5, 9, 33), (12, 6, 64), (20, 512, 140), (1, 1, 200), (3, 40, 100), (90, 4, 40)]
    {
        one_shape::<f32>(m, n, k, &[0, 1, 2]);
        one_shape::<f64>(m, n, k, &[0, 1, 2]);
    }
    for (m, n) in [(1, 7), (90, 700), (300, 40)] {
        one_shape::<f32>(m, n, 1, &[0, 1, 2]);
        one_shape::<f64>(m, n, 1, &[0, 1, 2]);
    }
}

#[test]
fn a_dense_column_gets_its_epilogue() {
    let (m, k) = (77, 130);
    let (a, x, bias) = (noise::<f32>(m * k, 1), noise::<f32>(k, 2), noise::<f32>(m, 3));
    let (a, x) = (MatRef::row_major(&a, m, k), MatRef::row_major(&x, k, 1));
    let expected: Vec<f64> = reference(1.0, a, x, 0.0, &[], 1)
        .iter()
        .zip(&bias)
        .map(|(sum, &bias)| (sum + 2.0 * value(bias)).max(0.0))
        .collect();
    let residual = Some(MatRef::row_major(&bias, m, 1));
    let epilogue =
        Epilogue { bias: Bias::PerRow(&bias), residual, activation: Activation::Relu, ..Epilogue::default() };
    for kernel in kernels::<f32>() {
        let mut c = vec![0.0; m];
        product(kernel, a, x, &epilogue).run(MatMut::row_major(&mut c, m, 1));
        check("column", &c, &[], (1, 1), &expected, k);
    }
}

#[test]
fn packed_operands_and_epilogue() {
    fn relu(x: f64) -> f64 {
        x.max(0.0)
    }
    fn half<T: GemmElement>(part: &mut [T]) {
        part.iter_mut().for_each(|x| *x = *x / (T::one() + T::one()));
    }
    fn gate<T: GemmElement>(part: &mut [T]) {
        part.iter_mut().for_each(|x| *x = if *x > T::zero() { T::one() } else { T::zero() });
    }
    let (m, n, k) = (37, 700, 600);
    let (a, b) = (noise::<f32>(m * k, 1), noise::<f32>(k * n, 2));
    let (rows, cols, shortcut) = (noise::<f32>(m, 3), noise::<f32>(n, 4), noise::<f32>(m * n, 5));
    let (a, b) = (MatRef::row_major(&a, m, k), MatRef::row_major(&b, n, k).t());
    let sums = reference(1.0, a, b, 0.0, &[], n);
    let added = |i: usize| sums[i] + value(shortcut[i]);
    let residual = Some(MatRef::row_major(&shortcut, m, n));
    let relu_expected: Vec<f64> = (0..m * n).map(|i| relu(added(i) + value(rows[i / n]))).collect();
    let half_expected: Vec<f64> = (0..m * n).map(|i| (added(i) + value(cols[i % n])) / 2.0).collect();
    let (by_row, by_col) = (noise::<f32>(m, 6), noise::<f32>(n, 7));
    let leaky = |x: f64| if x > 0.0 { x } else { 0.25 * x };
    let term = |i: usize, scale: f32, bias: f32| sums[i] * value(scale) + value(bias) + value(shortcut[i]);
    let leaky_expected: Vec<f64> = (0..m * n).map(|i| leaky(term(i, by_row[i / n], rows[i / n]))).collect();
    let scaled_expected: Vec<f64> = (0..m * n).map(|i| term(i, by_col[i % n], cols[i % n])).collect();
    let with = |scale, bias, activation| Epilogue { scale, bias, residual, activation };
    let with_relu = with(None, Bias::PerRow(&rows[..]), Activation::Relu);
    let with_half = with(None, Bias::PerCol(&cols), Activation::Map(half::<f32>));
    let with_leaky = with(Some(&by_row), Bias::PerRow(&rows), Activation::Leaky(0.25));
    let scaled = with(Some(&by_col), Bias::PerCol(&cols), Activation::Identity);
    let clamp_expected: Vec<f64> = scaled_expected.iter().map(|x| x.clamp(-0.5, 2.0)).collect();
    let with_clamp = with(Some(&by_col), Bias::PerCol(&cols), Activation::Clamp { low: -0.5, high: 2.0 });
    let hard = |x: f64| (0.25 * x + 0.5).clamp(0.0, 1.0);
    let hard_expected: Vec<f64> = scaled_expected.iter().map(|x| hard(*x)).collect();
    let with_hard = with(Some(&by_col), Bias::PerCol(&cols), Activation::HardSigmoid { alpha: 0.25, beta: 0.5 });
    let swish_expected: Vec<f64> = scaled_expected.iter().map(|x| x * hard(*x)).collect();
    let with_swish = with(Some(&by_col), Bias::PerCol(&cols), Activation::HardSwish { alpha: 0.25, beta: 0.5 });
    let gated_expected: Vec<f64> = scaled_expected.iter().map(|x| relu(*x)).collect();
    let with_gate = with(Some(&by_col), Bias::PerCol(&cols), Activation::Gated(gate::<f32>));
    for kernel in kernels::<f32>() {
        let (packed_a, packed_b) = (PackedA::with(kernel, a), PackedB::with(kernel, b));
        assert_eq!((packed_a.rows(), packed_a.cols(), packed_b.rows(), packed_b.cols()), (m, k, k, n));
        let cases = [
            (&with_relu, &relu_expected),
            (&with_half, &half_expected),
            (&with_leaky, &leaky_expected),
            (&scaled, &scaled_expected),
            (&with_clamp, &clamp_expected),
            (&with_hard, &hard_expected),
            (&with_swish, &swish_expected),
            (&with_gate, &gated_expected),
        ];
        for (epilogue, expected) in cases {
            for way in 0..3 {
                let mut c = vec![f32::NAN; m * n];
                let view = MatMut::row_major(&mut c, m, n);
                match way {
                    0 => product(kernel, a, b, epilogue).run(view),
                    1 => gemm_packed_a(1.0, &packed_a, b, 0.0, view, epilogue),
                    _ => gemm_packed_b(1.0, a, &packed_b, 0.0, view, epilogue),
                }
                check(&format!("{:?} way {way}", kernel.isa()), &c, &[], (n, n), expected, k);
            }
        }
    }
}

#[test]
fn packed_operands_of_any_size() {
    for (m, n, k) in [(1, 1, 1), (3, 9, 1100), (9, 40, 600), (14, 70, 513), (30, 8, 1500), (1, 300, 40), (200, 3, 530)]
    {
        let (a, b) = (noise::<f32>(m * k, 1), noise::<f32>(k * n, 2));
        let (a, b) = (MatRef::row_major(&a, m, k), MatRef::row_major(&b, k, n));
        let expected = reference(1.0, a, b, 0.0, &[], n);
        for kernel in kernels::<f32>() {
            let (mut by_a, mut by_b) = (vec![f32::NAN; m * n], vec![f32::NAN; m * n]);
            let none = Epilogue::default();
            gemm_packed_a(1.0, &PackedA::with(kernel, a), b, 0.0, MatMut::row_major(&mut by_a, m, n), &none);
            gemm_packed_b(1.0, a, &PackedB::with(kernel, b), 0.0, MatMut::row_major(&mut by_b, m, n), &none);
            let what = format!("{:?} {m}x{n}x{k}", kernel.isa());
            check(&what, &by_a, &[], (n, n), &expected, k);
            check(&what, &by_b, &[], (n, n), &expected, k);
        }
    }
}

#[test]
fn an_empty_depth_still_applies_the_epilogue() {
    let (rows, mut c) = ([1.0f32, -2.0], [4.0f32, 6.0, 8.0, 10.0]);
    let (a, b) = (MatRef::row_major(&[], 2, 0), MatRef::row_major(&[], 0, 2));
    let epilogue = Epilogue { bias: Bias::PerRow(&rows), ..Epilogue::default() };
    gemm_fused(1.0, a, b, 0.5, MatMut::row_major(&mut c, 2, 2), &epilogue);
    assert_eq!(c, [3.0, 4.0, 2.0, 3.0]);
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let run = |m: usize, n: usize, k: usize| {
        let (a, b) = (noise::<f32>(m * k, 1), noise::<f32>(k * n, 2));
        let mut c = vec![0.0f32; m * n];
        gemm(1.0, MatRef::row_major(&a, m, k), MatRef::row_major(&b, k, n), 0.0, MatMut::row_major(&mut c, m, n));
        c.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    for (m, n, k) in [(200, 300, 700), (3, 1000, 600), (1, 2000, 1500), (1000, 2, 900)] {
        let before = par::set_num_threads(1);
        let one = run(m, n, k);
        for threads in [2, 3, 5] {
            par::set_num_threads(threads);
            assert!(one == run(m, n, k), "{m}x{n}x{k} differs with {threads} threads");
        }
        par::set_num_threads(before);
    }
}

#[test]
fn batches() {
    for (count, m, n, k) in [
        (0, 2, 3, 4),
        (5, 4, 4, 4),
        (3, 1, 1, 8),
        (2, 2, 7, 3),
        (4, 3, 1, 5),
        (1, 5, 7, 9),
        (9, 4, 6, 33),
        (70, 33, 20, 15),
        (3, 170, 170, 170),
    ] {
        let (a, b, old) = (noise::<f32>(count * m * k, 1), noise::<f32>(k * n, 2), noise::<f32>(count * m * n, 3));
        let a_of = |i: usize| MatRef::row_major(&a[i * m * k..], k, m).t();
        let b_of = |_: usize| MatRef::row_major(&b, k, n);
        for kernel in kernels::<f32>() {
            let mut c = old.clone();
            BatchedProduct { kernel, alpha: -0.5, a: a_of, b: b_of, beta: 2.0, shape: (m, n) }.run(&mut c);
            for i in 0..count {
                let range = i * m * n..(i + 1) * m * n;
                let expected = reference(-0.5, a_of(i), b_of(i), 2.0, &old[range.clone()], n);
                check("batch", &c[range], &[], (n, n), &expected, k);
            }
        }
    }
}

#[test]
#[should_panic(expected = "7 elements are not a whole number of 2 x 3 matrices")]
fn batches_are_whole() {
    let operand = |rows, cols| move |_: usize| MatRef::row_major(&[0.0f32; 6], rows, cols);
    let mut c = [0.0; 7];
    gemm_batched(1.0, operand(2, 2), operand(2, 3), 0.0, &mut c, (2, 3));
}

fn reduced_type<H: ReducedPrecision + num_traits::Float>(unit: f64) {
    for (m, n, k) in [(5, 7, 9), (33, 40, 100), (1, 30, 64), (20, 0, 3)] {
        let narrow = |values: Vec<f32>| values.into_iter().map(|x| H::from(x).expect("a float")).collect::<Vec<H>>();
        let wide = |values: &[H]| values.iter().map(|x| x.to_f32().expect("a float")).collect::<Vec<f32>>();
        let (a, b) = (narrow(noise(m * k, 1)), narrow(noise(2 * n * k + 2 * n, 2)));
        let (old, bias) = (narrow(noise(m * (n + 1), 3)), noise::<f32>(m, 4));
        let (wide_a, wide_b, wide_old) = (wide(&a), wide(&b), wide(&old));
        for layout_kind in 0..3 {
            let (b, wide_b) = (layout_of(&b, k, n, layout_kind), layout_of(&wide_b, k, n, layout_kind));
            let sums = reference(1.0, MatRef::row_major(&wide_a, m, k), wide_b, 0.5, &wide_old, n + 1);
            let mut c = old.clone();
            let epilogue = Epilogue { bias: Bias::PerRow(&bias), ..Epilogue::default() };
            gemm_reduced_precision(
                1.0,
                MatRef::row_major(&a, m, k),
                b,
                0.5,
                MatMut::new(&mut c, m, n, n + 1),
                &epilogue,
            );
            for (i, row) in c.chunks(n + 1).enumerate() {
                assert!(row[n] == old[i * (n + 1) + n], "an element outside of C was written");
                for (j, &got) in row[..n].iter().enumerate() {
                    let want = sums[i * n + j] + value(bias[i]);
                    assert!(
                        (value(got) - want).abs() <= unit * want.abs() + 1e-4,
                        "({i}, {j}): {}, not {want}",
                        value(got)
                    );
                }
            }
        }
    }
}

/// Row-major, column-major, and every other element of rows.
fn layout_of<T>(data: &[T], rows: usize, cols: usize, layout_kind: usize) -> MatRef<'_, T> {
    match layout_kind {
        0 => MatRef::row_major(data, rows, cols),
        1 => MatRef::row_major(data, cols, rows).t(),
        _ => MatRef::new(data, rows, cols, 2 * cols, 2),
    }
}

#[test]
fn sixteen_bit_types() {
    reduced_type::<half::f16>(2f64.powi(-11));
    reduced_type::<half::bf16>(2f64.powi(-8));
}

#[test]
#[should_panic(expected = "shapes do not match: (2, 3) times (2, 2) into (2, 2)")]
fn shapes_are_checked() {
    let x = [0.0f32; 6];
    let mut c = [0.0f32; 4];
    gemm(1.0, MatRef::row_major(&x, 2, 3), MatRef::row_major(&x, 2, 2), 0.0, MatMut::row_major(&mut c, 2, 2));
}
