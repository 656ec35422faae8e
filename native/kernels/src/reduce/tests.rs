use super::*;
use crate::par::set_num_threads;
use ferromx_core::dtype::f16;

/// The reduction in double precision by the definition.
fn naive(x: &[f64], shape: &[usize], axes: &[usize], start: f64, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let kept: Vec<usize> = (0..shape.len()).filter(|i| !axes.contains(i)).collect();
    let mut out = vec![start; kept.iter().map(|&i| shape[i]).product()];
    for (flat, &v) in x.iter().enumerate() {
        let (mut rest, mut index) = (flat, vec![0; shape.len()]);
        for k in (0..shape.len()).rev() {
            index[k] = rest % shape[k];
            rest /= shape[k];
        }
        let at = kept.iter().fold(0, |at, &k| at * shape[k] + index[k]);
        out[at] = f(out[at], v);
    }
    out
}

const CASES: &[(&[usize], &[usize])] = &[
    (&[1], &[0]),
    (&[7], &[0]),
    (&[100_003], &[0]),
    (&[5, 9], &[0]),
    (&[5, 9], &[1]),
    (&[5, 9], &[]),
    (&[3000, 3], &[0]),
    (&[3, 3000], &[1]),
    (&[300, 1100], &[0]),
    (&[300, 1100], &[1]),
    (&[2, 5000], &[0]),
    (&[20_000, 65], &[0]),
    (&[4, 3, 17, 19], &[0, 2, 3]),
    (&[4, 3, 17, 19], &[1, 3]),
    (&[4, 3, 17, 19], &[0, 2]),
    (&[4, 3, 17, 19], &[0, 1, 2, 3]),
    (&[2, 1, 3, 1], &[1, 2]),
    (&[0, 3], &[0]),
    (&[3, 0], &[0]),
];

#[test]
fn sums_and_extremes_over_any_axes() {
    for &(shape, axes) in CASES {
        let n: usize = shape.iter().product();
        let x: Vec<f32> = (0..n).map(|i| ((i * 7919) % 1009) as f32 * 0.01 - 4.0).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let want = naive(&wide, shape, axes, 0.0, |a, b| a + b);
        let size = naive(&wide, shape, axes, 0.0, |a, b| a + b.abs());
        let mut y = vec![9f32; want.len()];
        reduce::<Sum, f32, f32, f32>(&x, shape, axes, &mut y);
        for ((y, w), s) in y.iter().zip(&want).zip(&size) {
            assert!((f64::from(*y) - w).abs() <= 1e-6 * s, "{shape:?} {axes:?}: {y} {w}");
        }
        reduce::<Max, f32, f32, f32>(&x, shape, axes, &mut y);
        let want = naive(&wide, shape, axes, f64::NEG_INFINITY, f64::max);
        assert!(y.iter().zip(&want).all(|(y, w)| f64::from(*y) == *w), "{shape:?} {axes:?}");
        let i: Vec<i64> = (0..n).map(|i| (i as i64 * 7919) % 1009 - 400).collect();
        let wide: Vec<f64> = i.iter().map(|&i| i as f64).collect();
        let mut y = vec![0i64; want.len()];
        reduce::<Sum, i64, i64, i64>(&i, shape, axes, &mut y);
        let want = naive(&wide, shape, axes, 0.0, |a, b| a + b);
        assert!(y.iter().zip(&want).all(|(y, w)| *y as f64 == *w), "{shape:?} {axes:?}");
        let h: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
        let wide: Vec<f64> = h.iter().map(|&x| x.to_f64()).collect();
        let mut y = vec![f16::ZERO; want.len()];
        reduce::<SumSquares, f16, f16, f32>(&h, shape, axes, &mut y);
        let want = naive(&wide, shape, axes, 0.0, |a, b| a + b * b);
        assert!(y.iter().zip(&want).all(|(y, w)| (y.to_f64() - w).abs() <= 6e-4 * w || *w > 65_519.0), "{shape:?}");
    }
}

fn one<R: Reducer<f32>>(x: &[f32]) -> f32 {
    let mut y = [0.0];
    reduce::<R, f32, f32, f32>(x, &[x.len()], &[0], &mut y);
    y[0]
}

#[test]
fn every_reducer_has_its_value() {
    let x = [3.0, -4.0, 2.0];
    assert_eq!((one::<Sum>(&x), one::<Prod>(&x), one::<Max>(&x), one::<Min>(&x)), (1.0, -24.0, 3.0, -4.0));
    assert_eq!((one::<L1Norm>(&x), one::<SumSquares>(&x), one::<L2Norm>(&x[..2])), (9.0, 29.0, 5.0));
    assert_eq!(one::<Mean>(&[1.0, 2.0, 6.0]), 3.0);
    let nan = [f32::NAN, 2.0, 5.0];
    assert_eq!((one::<NanSum>(&nan), one::<NanProd>(&nan)), (7.0, 10.0));
    for at in [0, 1, 40, 99] {
        let mut x = [1.0; 100];
        x[at] = f32::NAN;
        assert!(one::<Max>(&x).is_nan() && one::<Min>(&x).is_nan() && one::<Sum>(&x).is_nan());
    }
    let mut y = [0u8];
    reduce::<Sum, u8, u8, i32>(&[100, 100, 100], &[3], &[0], &mut y);
    assert_eq!(y, [44]);
    let mut y = [0i8];
    reduce::<L2Norm, i8, i8, f32>(&[100, 100, 100], &[3], &[0], &mut y);
    assert_eq!(y, [-83]);
}

#[test]
fn large_sums_keep_their_digits() {
    let x = vec![0.1f32; 3_000_000];
    let want = 3_000_000.0 * f64::from(0.1f32);
    assert!((f64::from(one::<Sum>(&x)) - want).abs() < 1e-6 * want);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let x: Vec<f32> = (0..1_000_000u64).map(|i| ((i * 7919) % 100_003) as f32 * 1e-3).collect();
    let all = |shape: &[usize], axes: &[usize], out: usize| {
        let mut y = vec![0f32; out];
        reduce::<Sum, f32, f32, f32>(&x, shape, axes, &mut y);
        y
    };
    let run = || (all(&[1_000_000], &[0], 1), all(&[1000, 1000], &[0], 1000), all(&[10, 1000, 100], &[0, 2], 1000));
    let before = crate::par::num_threads();
    set_num_threads(1);
    let one = run();
    set_num_threads(2);
    assert_eq!(one, run());
    set_num_threads(before);
}

#[test]
fn positions_are_the_first_and_nan_wins() {
    let n = f32::NAN;
    let x = [1.0, n, 3.0, n, 2.0, 5.0, 4.0, 4.0, n];
    let mut y = [0f32; 3];
    argmax::<f32, f32, f32>(&x, (3, 3, 1), &mut y);
    assert_eq!(y, [1.0, 0.0, 2.0]);
    argmin::<f32, f32, f32>(&x, (1, 3, 3), &mut y);
    assert_eq!(y, [1.0, 0.0, 2.0]);
    let mut y = [0i32; 1];
    argmax::<f32, i32, f32>(&[f32::NEG_INFINITY; 5], (1, 5, 1), &mut y);
    assert_eq!(y, [0]);
    let x: Vec<i32> = (0..12_000).map(|i| (i * 37) % 101).collect();
    let mut y = vec![0i64; 600];
    argmax::<i32, i64, i32>(&x, (2, 20, 300), &mut y);
    for (k, &got) in y.iter().enumerate() {
        let column: Vec<i32> = (0..20).map(|r| x[k / 300 * 6000 + r * 300 + k % 300]).collect();
        let best = column.iter().max();
        assert_eq!(column.iter().position(|v| Some(v) == best), Some(got as usize));
    }
}

#[test]
fn gradients_of_broadcasting() {
    let x: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let mut y = [0f32; 3];
    reduce_to_shape::<f32, f32>(&x, &[2, 3, 4], &[3, 1], &mut y);
    assert_eq!(y, [60.0, 92.0, 124.0]);
}
