use super::*;
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::set_num_threads;
use crate::test_data::{close, random};
use ferromx_core::dtype::{bf16, f16};

const KINDS: [SoftmaxKind; 3] = [SoftmaxKind::Softmax, SoftmaxKind::LogSoftmax, SoftmaxKind::Softmin];

fn shapes() -> Vec<AxisShape> {
    [
        (1, 1, 1),
        (3, 10, 1),
        (2, 16, 1),
        (5, 131, 1),
        (2, 3, 4),
        (1, 7, 130),
        (4, 5, 64),
        (130, 7, 1),
        (70, 1, 1),
        (65, 32, 1),
        (66, 33, 1),
        (0, 4, 3),
        (3, 0, 2),
    ]
    .map(|(outer, axis, inner)| AxisShape { outer, axis, inner })
    .to_vec()
}

/// The indices of the elements within the length of each row.
fn rows(s: AxisShape, lengths: Option<&[i32]>) -> Vec<Vec<usize>> {
    let row = |r: usize| {
        let len = lengths.map_or(s.axis, |l| (l[r].max(0) as usize).min(s.axis));
        (0..len).map(|a| (r / s.inner * s.axis + a) * s.inner + r % s.inner).collect()
    };
    (0..s.outer * s.inner).map(row).collect()
}

fn reference(s: AxisShape, kind: SoftmaxKind, temperature: f64, lengths: Option<&[i32]>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    let slope = if kind == SoftmaxKind::Softmin { -1.0 } else { 1.0 } / temperature;
    for row in rows(s, lengths) {
        let sum: f64 = row.iter().map(|&i| (x[i] * slope).exp()).sum();
        for i in row {
            y[i] = (x[i] * slope).exp() / sum;
            if kind == SoftmaxKind::LogSoftmax {
                y[i] = y[i].ln();
            }
        }
    }
    y
}

/// The gradient computed from the explicit Jacobian.
fn reference_grad(
    s: AxisShape,
    kind: SoftmaxKind,
    temperature: f64,
    lengths: Option<&[i32]>,
    y: &[f64],
    g: &[f64],
) -> Vec<f64> {
    let mut grad = vec![0.0; y.len()];
    let slope = if kind == SoftmaxKind::Softmin { -1.0 } else { 1.0 } / temperature;
    for row in rows(s, lengths) {
        for &j in &row {
            for &i in &row {
                let same = f64::from(i == j);
                let d = if kind == SoftmaxKind::LogSoftmax { same - y[j].exp() } else { y[i] * (same - y[j]) };
                grad[j] += slope * d * g[i];
            }
        }
    }
    grad
}

fn check<T: FloatElement>(tolerance: f64) {
    let wide = |v: &[T]| v.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    for s in shapes() {
        let x: Vec<T> = random(s.len(), 1).iter().map(|x| T::from_f64(x * 4.0)).collect();
        let g: Vec<T> = random(s.len(), 2).iter().map(|x| T::from_f64(*x)).collect();
        let lengths: Vec<i32> = (0..s.outer * s.inner).map(|i| (i * 5 % (s.axis + 3)) as i32 - 1).collect();
        let longs: Vec<i64> = lengths.iter().map(|&l| i64::from(l)).collect();
        let settings = |k: &SoftmaxKind| [(*k, None, 1.0), (*k, Some(&lengths[..]), 2.5), (*k, None, -2.5)];
        for (kind, lengths, temperature) in KINDS.iter().flat_map(settings) {
            let what = format!("{kind:?} of {s:?} with {lengths:?}");
            let given = lengths.map(|l| if s.axis % 2 == 0 { Lengths::I32(l) } else { Lengths::I64(&longs) });
            let (mut y, mut x_grad) = (vec![T::from_f64(9.0); s.len()], vec![T::from_f64(9.0); s.len()]);
            softmax_forward(s, Softmax { kind, temperature, lengths: given }, &x, &mut y);
            close(&wide(&y), &reference(s, kind, temperature, lengths, &wide(&x)), tolerance, &what);
            softmax_backward(s, Softmax { kind, temperature, lengths: given }, &y, &g, &mut x_grad);
            let want = reference_grad(s, kind, temperature, lengths, &wide(&y), &wide(&g));
            close(&wide(&x_grad), &want, tolerance, &format!("gradient of {what}"));
        }
    }
}

#[test]
fn equals_the_definition() {
    check::<f32>(3e-6);
    check::<f64>(1e-13);
    check::<f16>(4e-3);
    check::<bf16>(3e-2);
}

#[test]
fn special_values() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for inner in [1, 2] {
        let s = AxisShape { outer: 1, axis: 3, inner };
        let run = |kind, row: [f32; 3]| {
            let x: Vec<f32> = row.iter().flat_map(|x| std::iter::repeat_n(*x, inner)).collect();
            let mut y = vec![0.0f32; 3 * inner];
            softmax_forward(s, Softmax { kind, ..Softmax::PLAIN }, &x, &mut y);
            [y[0], y[inner], y[2 * inner]]
        };
        for row in [[nan, 1.0, 2.0], [1.0, nan, 2.0], [inf, 1.0, 2.0], [-inf; 3]] {
            assert!(run(SoftmaxKind::Softmax, row).iter().all(|y| y.is_nan()), "{row:?}");
            assert!(run(SoftmaxKind::LogSoftmax, row).iter().all(|y| y.is_nan()), "{row:?}");
        }
        let y = run(SoftmaxKind::Softmax, [-inf, 1.0, 2.0]);
        assert!(y[0] == 0.0 && (y[1] - 0.268_941_43).abs() < 1e-6 && (y[2] - 0.731_058_54).abs() < 1e-6);
        assert_eq!(run(SoftmaxKind::LogSoftmax, [-inf, 1.0, 2.0])[0], -inf);
        assert_eq!(run(SoftmaxKind::Softmin, [inf, inf, 1.0]), [0.0, 0.0, 1.0]);
        assert_eq!(run(SoftmaxKind::Softmax, [1e38, -1e38, 0.0]), [1.0, 0.0, 0.0]);
    }
}

#[test]
fn narrow_data_with_a_wide_result() {
    let s = AxisShape { outer: 2, axis: 5, inner: 1 };
    let x: Vec<f16> = random(10, 5).iter().map(|x| f64::store(*x)).collect();
    let mut y = [0.0f32; 10];
    softmax_forward(s, Softmax::PLAIN, &x, &mut y);
    let x: Vec<f64> = x.iter().map(|x| x.to_f64()).collect();
    close(&y.map(f64::from), &reference(s, SoftmaxKind::Softmax, 1.0, None, &x), 1e-6, "softmax of f16 in f32");
}

#[test]
fn output_gradient() {
    let shape = AxisShape { outer: 2, axis: 3, inner: 2 };
    let p = [0.2, 0.5, 0.3, 0.25, 0.5, 0.25, 0.1, 0.6, 0.7, 0.2, 0.2, 0.2f64];
    let labels = [0.0, 2.0, 1.6, 7.0];
    let run = |ignore_label, smooth_alpha, head: Option<&[f64]>| {
        let mut grad = [9.0; 12];
        let target = SoftmaxTarget { shape, ignore_label, smooth_alpha, scale: 2.0 };
        softmax_output_backward(&target, &p, &labels, head, &mut grad);
        grad
    };
    // Softmax rows are the columns of (axis, inner); the labels are 0, 2, 1, and one out of range.
    let one_hot = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    let want: Vec<f64> = p.iter().zip(one_hot).map(|(p, t)| (p - t) * 2.0).collect();
    close(&run(None, 0.0, None), &want, 1e-15, "plain");
    let ignored = [0.0, want[1], 0.0, want[3], 0.0, want[5]];
    close(&run(Some(0.0), 0.0, None)[..6], &ignored, 1e-15, "ignored label");
    let head: Vec<f64> = (0..12).map(f64::from).collect();
    let scaled: Vec<f64> = want.iter().zip(&head).map(|(w, h)| w * h).collect();
    close(&run(None, 0.0, Some(&head)), &scaled, 1e-15, "with a head gradient");
    let smooth: Vec<f64> = p.iter().zip(one_hot).map(|(p, t)| (p - if t == 1.0 { 0.9 } else { 0.05 }) * 2.0).collect();
    close(&run(None, 0.1, None), &smooth, 1e-15, "smoothed");
    assert_eq!(valid_labels(&labels, 2.0), 3);
    let mut grad = [0.0; 12];
    softmax_output_backward_dense(2.0, &p, &one_hot, Some(&head), &mut grad);
    close(&grad, &scaled, 1e-15, "dense labels");
}

#[test]
fn cross_entropy() {
    let (rows, classes) = (150, 4);
    let x = random(rows * classes, 7);
    let labels: Vec<f64> = (0..rows).map(|i| (i % classes) as f64).collect();
    let s = AxisShape { outer: rows, axis: classes, inner: 1 };
    let p = reference(s, SoftmaxKind::Softmax, 1.0, None, &x);
    let want: f64 = (0..rows).map(|i| -p[i * classes + i % classes].ln()).sum();
    close(&[cross_entropy_forward(classes, &x, &labels)], &[want], 1e-12, "loss");
    let mut grad = vec![0.0; x.len()];
    cross_entropy_backward(classes, &p, &labels, 3.0, &mut grad);
    for i in (0..x.len()).step_by(37) {
        let mut moved = x.clone();
        moved[i] += 1e-6;
        let slope = (cross_entropy_forward(classes, &moved, &labels) - want) / 1e-6;
        assert!((grad[i] - 3.0 * slope).abs() < 1e-4, "element {i}: {} and {slope}", grad[i]);
    }
}

#[test]
fn threads_do_not_change_bits() {
    for s in [AxisShape { outer: 500, axis: 100, inner: 1 }, AxisShape { outer: 4, axis: 50, inner: 300 }] {
        let x: Vec<f32> = random(s.len(), 3).iter().map(|x| x.store()).collect();
        let labels: Vec<f32> = (0..s.outer * s.inner).map(|i| (i % s.axis) as f32).collect();
        let run = |threads| {
            let before = set_num_threads(threads);
            let (mut y, mut grad) = (vec![0.0f32; s.len()], vec![0.0f32; s.len()]);
            softmax_forward(s, Softmax::PLAIN, &x, &mut y);
            softmax_backward(s, Softmax::PLAIN, &y, &x, &mut grad);
            let loss = cross_entropy_forward(s.axis, &x, &labels);
            set_num_threads(before);
            (y, grad, loss)
        };
        assert!(run(1) == run(2));
    }
}

#[test]
fn negative_temperatures_do_not_overflow() {
    let x = [-100.0f32, 0.0, 100.0];
    for (outer, inner) in [(1, 1), (1, 3)] {
        let s = AxisShape { outer, axis: 3, inner };
        let x: Vec<f32> = x.iter().flat_map(|x| vec![*x; inner]).collect();
        let want = |one: usize| (0..3 * inner).map(|i| f32::from(u8::from(i / inner == one))).collect::<Vec<_>>();
        let mut y = vec![9.0f32; x.len()];
        softmax_forward(s, Softmax { kind: SoftmaxKind::Softmax, temperature: -0.5, lengths: None }, &x, &mut y);
        assert_eq!(y, want(0));
        softmax_forward(s, Softmax { kind: SoftmaxKind::Softmin, temperature: -0.5, lengths: None }, &x, &mut y);
        assert_eq!(y, want(2));
    }
}
