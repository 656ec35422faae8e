use super::*;
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::set_num_threads;
use crate::test_data::{close, random};
use ferromx_core::dtype::f16;

fn wide<T: FloatElement>(v: &[T]) -> Vec<f64> {
    v.iter().map(|x| x.to_f64()).collect()
}

fn narrow<T: FloatElement>(v: &[f64]) -> Vec<T> {
    v.iter().map(|x| T::from_f64(*x)).collect()
}

fn shapes() -> Vec<AxisShape> {
    [
        (4, 3, 5),
        (70, 67, 1),
        (3, 130, 2),
        (1, 2, 5000),
        (2, 5, 130),
        (9, 1, 1),
        (3, 4, 33),
        (1, 300, 1),
        (130, 10, 1),
        (70, 1, 1),
        (66, 32, 1),
    ]
    .map(|(outer, axis, inner)| AxisShape { outer, axis, inner })
    .to_vec()
}

/// Mean and biased variance of the elements at the given offsets.
fn stats(x: &[f64], at: &[usize]) -> (f64, f64) {
    let mean = at.iter().map(|&i| x[i]).sum::<f64>() / at.len() as f64;
    (mean, at.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / at.len() as f64)
}

/// For each channel, the offsets of its elements.
fn channels(s: AxisShape) -> Vec<Vec<usize>> {
    (0..s.axis).map(|c| (0..s.len()).filter(|i| i / s.inner % s.axis == c).collect()).collect()
}

/// For each row along the axis, the offsets of its elements.
fn rows(s: AxisShape) -> Vec<Vec<usize>> {
    let row = |r: usize| (0..s.axis).map(|a| (r / s.inner * s.axis + a) * s.inner + r % s.inner).collect();
    (0..s.outer * s.inner).map(row).collect()
}

/// The gradient of sum(y * head) with respect to the elements of `set`, given y = f(x), by central differences.
fn slope(mut f: impl FnMut(f64) -> Vec<f64>, head: &[f64]) -> f64 {
    let total = |y: Vec<f64>| y.iter().zip(head).map(|(y, h)| y * h).sum::<f64>();
    (total(f(1e-5)) - total(f(-1e-5))) / 2e-5
}

fn batch_reference(s: AxisShape, x: &[f64], gamma: &[f64], beta: &[f64], eps: f64) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for (c, at) in channels(s).iter().enumerate() {
        let (mean, variance) = stats(x, at);
        at.iter().for_each(|&i| y[i] = (x[i] - mean) / (variance + eps).sqrt() * gamma[c] + beta[c]);
    }
    y
}

fn batch_forward<T: FloatElement>(tolerance: f64) {
    for s in shapes() {
        let x: Vec<T> = narrow(&random(s.len(), 1).iter().map(|x| x + 3.0).collect::<Vec<_>>());
        let (gamma, beta) = (random(s.axis, 2), random(s.axis, 3));
        let (g, b): (Vec<T::Acc>, Vec<T::Acc>) = (narrow(&gamma), narrow(&beta));
        let mut y = vec![T::default(); s.len()];
        let (mut mean, mut variance) = (vec![T::Acc::default(); s.axis], vec![T::Acc::default(); s.axis]);
        let params = BatchNormParams { gamma: Some(&g), beta: &b, eps: 0.01 };
        batch_norm_training(s, &params, &x, &mut y, &mut mean, &mut variance);
        let want = batch_reference(s, &wide(&x), &gamma, &beta, 0.01);
        close(&wide(&y), &want, tolerance, &format!("{s:?}"));
        let own: Vec<(f64, f64)> = channels(s).iter().map(|at| stats(&wide(&x), at)).collect();
        close(&wide(&mean), &own.iter().map(|s| s.0).collect::<Vec<_>>(), 1e-6, "mean");
        close(&wide(&variance), &own.iter().map(|s| s.1).collect::<Vec<_>>(), 1e-5, "variance");
        let mut again = vec![T::default(); s.len()];
        batch_norm_inference(s, &params, &mean, &variance, &x, &mut again);
        close(&wide(&again), &wide(&y), tolerance, "inference with the same statistics");
        let fixed = BatchNormParams { gamma: None, ..params };
        batch_norm_training(s, &fixed, &x, &mut y, &mut mean, &mut variance);
        let want = batch_reference(s, &wide(&x), &vec![1.0; s.axis], &beta, 0.01);
        close(&wide(&y), &want, tolerance, "fixed gamma");
    }
}

#[test]
fn batch_norm_equals_the_definition() {
    batch_forward::<f32>(1e-5);
    batch_forward::<f64>(1e-11);
    batch_forward::<f16>(4e-3);
}

#[test]
fn batch_norm_gradients() {
    for s in shapes() {
        let (x, head) = (random(s.len(), 1), random(s.len(), 4));
        let (gamma, beta) = (random(s.axis, 2), random(s.axis, 3));
        let params = BatchNormParams { gamma: Some(&gamma), beta: &beta, eps: 0.1 };
        let (mut y, mut mean, mut variance) = (vec![0.0; s.len()], vec![0.0; s.axis], vec![0.0; s.axis]);
        batch_norm_training(s, &params, &x, &mut y, &mut mean, &mut variance);
        let (mut xg, mut gg, mut bg) = (vec![9.0; s.len()], vec![9.0; s.axis], vec![9.0; s.axis]);
        for own in [true, false] {
            let grads = BatchNormGrads { x: &mut xg, gamma: &mut gg, beta: &mut bg };
            batch_norm_backward(s, &params, (&mean, &variance, own), &x, &head, grads);
            let forward = |x: &[f64], gamma: &[f64], beta: &[f64]| {
                let mut y = vec![0.0; x.len()];
                if own {
                    return batch_reference(s, x, gamma, beta, 0.1);
                }
                let params = BatchNormParams { gamma: Some(gamma), beta, eps: 0.1 };
                batch_norm_inference(s, &params, &mean, &variance, x, &mut y);
                y
            };
            let moved = |v: &[f64], i: usize, by: f64| {
                let mut v = v.to_vec();
                v[i] += by;
                v
            };
            for i in (0..s.len()).step_by(s.len() / 7 + 1) {
                close(
                    &[xg[i]],
                    &[slope(|d| forward(&moved(&x, i, d), &gamma, &beta), &head)],
                    1e-6,
                    &format!("x {i} {s:?}"),
                );
            }
            for c in (0..s.axis).step_by(s.axis / 5 + 1) {
                close(&[gg[c]], &[slope(|d| forward(&x, &moved(&gamma, c, d), &beta), &head)], 1e-6, "gamma");
                close(&[bg[c]], &[slope(|d| forward(&x, &gamma, &moved(&beta, c, d)), &head)], 1e-6, "beta");
            }
        }
    }
}

#[test]
fn a_large_mean_keeps_the_accuracy() {
    let s = AxisShape { outer: 40, axis: 2, inner: 3000 };
    let x: Vec<f32> = random(s.len(), 5).iter().map(|x| 10_000.0 + f32::of(*x)).collect();
    let (mut y, mut mean, mut variance) = (vec![0.0; s.len()], [0.0; 2], [0.0; 2]);
    let params = BatchNormParams { gamma: None, beta: &[0.0; 2], eps: 0.0 };
    batch_norm_training(s, &params, &x, &mut y, &mut mean, &mut variance);
    for (at, variance) in channels(s).iter().zip(variance) {
        let want = stats(&wide(&x), at).1;
        assert!((f64::from(variance) / want - 1.0).abs() < 1e-5, "{variance} {want}");
    }
}

fn affine_of<'a, A>(per_row: bool, gamma: &'a [A], beta: &'a [A]) -> Affine<'a, A> {
    if per_row { Affine::PerRow(gamma, beta) } else { Affine::PerElement(gamma, beta) }
}

fn row_reference(s: AxisShape, per_row: bool, x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for (r, at) in rows(s).iter().enumerate() {
        let (mean, variance) = stats(x, at);
        for (a, &i) in at.iter().enumerate() {
            let p = if per_row { r % gamma.len() } else { a };
            y[i] = (x[i] - mean) / (variance + 0.1).sqrt() * gamma[p] + beta[p];
        }
    }
    y
}

fn row_norms<T: FloatElement>(tolerance: f64, differences: bool) {
    for (s, per_row) in shapes().into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let params = if per_row { s.inner } else { s.axis };
        let (x, head): (Vec<T>, Vec<T>) = (narrow(&random(s.len(), 1)), narrow(&random(s.len(), 4)));
        let (gamma, beta) = (random(params, 2), random(params, 3));
        let (g, b): (Vec<T::Acc>, Vec<T::Acc>) = (narrow(&gamma), narrow(&beta));
        let rows_len = s.outer * s.inner;
        let (mut y, mut mean, mut dev) =
            (vec![T::default(); s.len()], vec![T::Acc::default(); rows_len], vec![T::Acc::default(); rows_len]);
        row_norm_forward(s, affine_of(per_row, &g, &b), 0.1, &x, &mut y, (&mut mean, &mut dev));
        let what = format!("{s:?} {per_row}");
        close(&wide(&y), &row_reference(s, per_row, &wide(&x), &gamma, &beta), tolerance, &what);
        let own: Vec<(f64, f64)> = rows(s).iter().map(|at| stats(&wide(&x), at)).collect();
        close(&wide(&mean), &own.iter().map(|s| s.0).collect::<Vec<_>>(), 1e-6, "mean");
        close(&wide(&dev), &own.iter().map(|s| (s.1 + 0.1).sqrt()).collect::<Vec<_>>(), 1e-6, "deviation");
        let (mut xg, mut gg, mut bg) =
            (vec![T::default(); s.len()], vec![T::Acc::default(); params], vec![T::Acc::default(); params]);
        let grads = RowNormGrads { x: &mut xg, gamma: &mut gg, beta: &mut bg };
        row_norm_backward(s, affine_of(per_row, &g, &b), (&mean, &dev), &x, &head, grads);
        if !differences {
            continue;
        }
        let (x, head) = (wide(&x), wide(&head));
        let moved = |v: &[f64], i: usize, by: f64| {
            let mut v = v.to_vec();
            v[i] += by;
            v
        };
        for i in (0..s.len()).step_by(s.len() / 7 + 1) {
            let want = slope(|d| row_reference(s, per_row, &moved(&x, i, d), &gamma, &beta), &head);
            close(&[xg[i].to_f64()], &[want], 1e-6, &what);
        }
        for i in (0..params).step_by(params / 5 + 1) {
            let want = slope(|d| row_reference(s, per_row, &x, &moved(&gamma, i, d), &beta), &head);
            close(&[gg[i].wide()], &[want], 1e-6, &format!("gamma {what}"));
            let want = slope(|d| row_reference(s, per_row, &x, &gamma, &moved(&beta, i, d)), &head);
            close(&[bg[i].wide()], &[want], 1e-6, &format!("beta {what}"));
        }
    }
}

#[test]
fn row_norm_equals_the_definition() {
    row_norms::<f64>(1e-12, true);
    row_norms::<f32>(1e-5, false);
    row_norms::<f16>(4e-3, false);
}

#[test]
fn l2_norm() {
    for s in shapes() {
        let (x, head) = (random(s.len(), 1), random(s.len(), 4));
        let reference = |x: &[f64]| {
            let mut y = vec![0.0; x.len()];
            for at in rows(s) {
                let norm = (at.iter().map(|&i| x[i] * x[i]).sum::<f64>() + 0.1).sqrt();
                at.iter().for_each(|&i| y[i] = x[i] / norm);
            }
            y
        };
        let (mut y, mut norm, mut xg) = (vec![9.0; s.len()], vec![0.0; s.outer * s.inner], vec![9.0; s.len()]);
        l2_norm_forward(s, 0.1, &x, &mut y, &mut norm);
        close(&y, &reference(&x), 1e-13, &format!("{s:?}"));
        l2_norm_backward(s, &y, &norm, &head, &mut xg);
        for i in (0..s.len()).step_by(s.len() / 7 + 1) {
            let mut moved = x.clone();
            let want = slope(
                |d| {
                    moved[i] = x[i] + d;
                    reference(&moved)
                },
                &head,
            );
            close(&[xg[i]], &[want], 1e-6, &format!("{s:?} {i}"));
        }
    }
}

#[test]
fn threads_do_not_change_bits() {
    for s in [AxisShape { outer: 40, axis: 70, inner: 30 }, AxisShape { outer: 700, axis: 200, inner: 1 }] {
        let (x, head): (Vec<f32>, Vec<f32>) = (narrow(&random(s.len(), 1)), narrow(&random(s.len(), 2)));
        let run = |threads| {
            let before = set_num_threads(threads);
            let (gamma, beta) = (vec![1.5; s.axis], vec![0.5; s.axis]);
            let params = BatchNormParams { gamma: Some(&gamma), beta: &beta, eps: 1e-3 };
            let (mut y, mut mean, mut variance) = (vec![0.0; s.len()], vec![0.0; s.axis], vec![0.0; s.axis]);
            batch_norm_training(s, &params, &x, &mut y, &mut mean, &mut variance);
            let (mut xg, mut gg, mut bg) = (vec![0.0; s.len()], vec![0.0; s.axis], vec![0.0; s.axis]);
            let grads = BatchNormGrads { x: &mut xg, gamma: &mut gg, beta: &mut bg };
            let is_training = true;
            batch_norm_backward(s, &params, (&mean, &variance, is_training), &x, &head, grads);
            let rows = s.outer * s.inner;
            let (mut y2, mut mean2, mut dev) = (vec![0.0; s.len()], vec![0.0; rows], vec![0.0; rows]);
            let affine = Affine::PerElement(&gamma, &beta);
            row_norm_forward(s, affine, 1e-5, &x, &mut y2, (&mut mean2, &mut dev));
            let (mut xg2, mut gg2, mut bg2) = (vec![0.0; s.len()], vec![0.0; s.axis], vec![0.0; s.axis]);
            let grads = RowNormGrads { x: &mut xg2, gamma: &mut gg2, beta: &mut bg2 };
            row_norm_backward(s, affine, (&mean2, &dev), &x, &head, grads);
            set_num_threads(before);
            ([y, mean, variance, xg, gg], [bg, y2, mean2, dev, xg2], [gg2, bg2])
        };
        assert!(run(1) == run(2), "{s:?}");
    }
}
