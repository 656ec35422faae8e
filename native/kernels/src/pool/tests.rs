use super::*;
use crate::float::{Accum, FloatElement};
use crate::par::set_num_threads;
use crate::test_data::{close, random};
use ferromx_core::dtype::f16;

const KINDS: [PoolKind; 7] = [
    PoolKind::Max,
    PoolKind::Average { count_include_pad: true },
    PoolKind::Average { count_include_pad: false },
    PoolKind::Sum,
    PoolKind::Power(PoolPower::One),
    PoolKind::Power(PoolPower::Two),
    PoolKind::Power(PoolPower::Three),
];

fn shape(
    planes: usize,
    input: [usize; 3],
    inner: usize,
    [kernel, stride, pad]: [[usize; 3]; 3],
    convention: PoolConvention,
) -> PoolShape {
    let output = std::array::from_fn(|i| {
        if i == 0 && kernel[0] == 1 && stride[0] == 1 && pad[0] == 0 {
            input[0]
        } else {
            convention.output_size(input[i], kernel[i], stride[i], pad[i]).unwrap()
        }
    });
    PoolShape { planes, input, inner, kernel, stride, pad, output }
}

fn shapes() -> Vec<PoolShape> {
    use PoolConvention::{Full, Same, Valid};
    vec![
        shape(3, [1, 8, 8], 1, [[1, 2, 2], [1, 2, 2], [0; 3]], Valid),
        shape(2, [1, 7, 9], 1, [[1, 2, 2], [1, 2, 2], [0; 3]], Valid),
        shape(2, [3, 5, 6], 1, [[1, 2, 2], [1, 2, 2], [0; 3]], Valid),
        shape(2, [1, 7, 9], 1, [[1, 2, 2], [1, 2, 2], [0; 3]], Full),
        shape(2, [1, 7, 5], 1, [[1, 3, 3], [1, 2, 2], [0, 1, 1]], Full),
        shape(2, [1, 7, 40], 1, [[1, 3, 2], [1, 1, 1], [0, 1, 0]], Valid),
        shape(1, [4, 5, 6], 2, [[2, 3, 1], [2, 1, 3], [1, 1, 0]], Valid),
        shape(2, [1, 1, 7], 1, [[1, 1, 2], [1, 1, 4], [0, 0, 1]], Full),
        shape(2, [1, 6, 5], 1, [[1, 3, 2], [1, 2, 2], [0; 3]], Same),
        shape(2, [1, 6, 7], 3, [[1, 3, 3], [1, 2, 2], [0, 1, 1]], Full),
        shape(2, [1, 4, 41], 1, [[1, 4, 41], [1, 1, 1], [0; 3]], Valid),
        shape(5, [3, 4, 7], 1, [[3, 4, 7], [1, 1, 1], [0; 3]], Valid),
        shape(2, [1, 4, 4], 5, [[1, 4, 4], [1, 1, 1], [0; 3]], Valid),
        shape(7, [1, 7, 7], 1, [[1, 7, 7], [1, 1, 1], [0; 3]], Valid),
        shape(3, [1, 5, 37], 1, [[1, 3, 3], [1, 1, 1], [0, 1, 1]], Valid),
        shape(2, [1, 9, 67], 1, [[1, 3, 3], [1, 2, 2], [0, 1, 1]], Valid),
        shape(2, [1, 1, 71], 1, [[1, 1, 2], [1, 1, 2], [0; 3]], Valid),
        shape(2, [1, 5, 71], 1, [[1, 1, 2], [1, 1, 2], [0; 3]], Valid),
        shape(2, [1, 9, 19], 1, [[1, 2, 3], [1, 4, 4], [0, 1, 1]], Valid),
        shape(2, [1, 6, 53], 1, [[1, 5, 7], [1, 1, 3], [0, 2, 3]], Full),
        shape(2, [2, 3, 50], 1, [[2, 2, 2], [2, 1, 5], [1, 0, 1]], Valid),
        shape(0, [1, 4, 4], 1, [[1, 2, 2], [1, 2, 2], [0; 3]], Valid),
    ]
}

/// The definition, element by element; also calls `visit(output, input, d output / d input)`.
fn reference(s: &PoolShape, kind: PoolKind, x: &[f64], mut visit: impl FnMut(usize, usize, f64)) -> Vec<f64> {
    let mut out = vec![];
    for i in 0..s.output_len() {
        let (rest, c) = (i / s.inner, i % s.inner);
        let (rest, w) = (rest / s.output[2], rest % s.output[2]);
        let (rest, h) = (rest / s.output[1], rest % s.output[1]);
        let (plane, d) = (rest / s.output[0], rest % s.output[0]);
        let (mut elements, mut padded) = (vec![], 0);
        for k in 0..s.kernel.iter().product() {
            let k = [k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1], k % s.kernel[2]];
            let at: [usize; 3] = std::array::from_fn(|i| [d, h, w][i] * s.stride[i] + k[i]);
            padded += usize::from((0..3).all(|i| at[i] < s.input[i] + 2 * s.pad[i]));
            if (0..3).all(|i| at[i] >= s.pad[i] && at[i] < s.input[i] + s.pad[i]) {
                let at: [usize; 3] = std::array::from_fn(|i| at[i] - s.pad[i]);
                elements.push((((plane * s.input[0] + at[0]) * s.input[1] + at[1]) * s.input[2] + at[2]) * s.inner + c);
            }
        }
        let total = |f: fn(f64) -> f64| elements.iter().map(|&e| f(x[e])).sum::<f64>();
        let y = match kind {
            PoolKind::Max => elements.iter().map(|&e| x[e]).fold(f64::NEG_INFINITY, f64::max),
            PoolKind::Sum | PoolKind::Power(PoolPower::One) => total(|x| x),
            PoolKind::Average { count_include_pad: true } => total(|x| x) / padded.max(1) as f64,
            PoolKind::Average { count_include_pad: false } => total(|x| x) / elements.len().max(1) as f64,
            PoolKind::Power(PoolPower::Two) => total(|x| x * x).sqrt(),
            PoolKind::Power(PoolPower::Three) => total(|x| x * x * x).cbrt(),
        };
        let first = elements.iter().copied().find(|&e| x[e] == y);
        for &e in &elements {
            visit(
                i,
                e,
                match kind {
                    PoolKind::Max => f64::from(first == Some(e)),
                    PoolKind::Sum | PoolKind::Power(PoolPower::One) => 1.0,
                    PoolKind::Average { count_include_pad: true } => 1.0 / padded as f64,
                    PoolKind::Average { count_include_pad: false } => 1.0 / elements.len() as f64,
                    PoolKind::Power(PoolPower::Two) => x[e] / y,
                    PoolKind::Power(PoolPower::Three) => (x[e] / y).powi(2),
                },
            );
        }
        out.push(y);
    }
    out
}

fn check<T: FloatElement>(tolerance: f64) {
    for s in shapes() {
        for kind in KINDS {
            // Few distinct values give tied maxima; positive values keep sums of powers away from zero.
            let x: Vec<T> =
                random(s.input_len(), 1).iter().map(|x| T::from_f64((x.abs() * 8.0).round() / 4.0 + 0.5)).collect();
            let grad: Vec<T> = random(s.output_len(), 2).iter().map(|x| T::from_f64(*x)).collect();
            let wide = |v: &[T]| v.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
            let (mut y, mut x_grad) = (vec![T::default(); s.output_len()], vec![T::from_f64(7.0); s.input_len()]);
            pool_forward(&s, kind, &x, &mut y);
            pool_backward(&s, kind, &x, &y, &grad, &mut x_grad);
            let mut want_grad = vec![0.0; s.input_len()];
            let want = reference(&s, kind, &wide(&x), |i, e, slope| want_grad[e] += grad[i].to_f64() * slope);
            close(&wide(&y), &want, tolerance, &format!("{kind:?} {s:?}"));
            close(&wide(&x_grad), &want_grad, tolerance, &format!("gradient of {kind:?} {s:?}"));
        }
    }
}

#[test]
fn equals_the_definition() {
    check::<f32>(1e-5);
    check::<f64>(1e-12);
    check::<f16>(4e-3);
}

#[test]
fn sizes_are_mxnets() {
    use PoolConvention::{Full, Same, Valid};
    let sizes = |input, kernel, stride, pad| [Valid, Full].map(|c| c.output_size(input, kernel, stride, pad));
    assert_eq!(sizes(8, 3, 2, 1), [Some(4), Some(5)]);
    assert_eq!(sizes(7, 3, 2, 1), [Some(4), Some(4)]);
    assert_eq!(sizes(7, 2, 4, 1), [Some(2), Some(3)]);
    assert_eq!(sizes(2, 3, 1, 0), [None, None]);
    assert_eq!(sizes(2, 0, 1, 0), [None, None]);
    assert_eq!([Same.output_size(7, 3, 2, 0), Same.output_size(7, 3, 2, 1)], [Some(4), None]);
}

#[test]
fn values_are_mxnets() {
    // 1 2 3 4 5 6 7 8 with kernel 3, stride 2, pad 1 and the "full" convention, computed by MXNet 1.9.1.
    let s = shape(1, [1, 1, 8], 1, [[1, 1, 3], [1, 1, 2], [0, 0, 1]], PoolConvention::Full);
    let x: Vec<f64> = (1..=8).map(f64::from).collect();
    let run = |kind| {
        let (mut y, mut x_grad) = ([0.0; 5], [0.0; 8]);
        pool_forward(&s, kind, &x, &mut y);
        pool_backward(&s, kind, &x, &y, &[1.0; 5], &mut x_grad);
        (y, x_grad.map(|g: f64| (g * 1e3).round() / 1e3))
    };
    let (y, grad) = run(PoolKind::Average { count_include_pad: true });
    assert_eq!((y, grad), ([1.0, 3.0, 5.0, 7.0, 4.0], [0.333, 0.667, 0.333, 0.667, 0.333, 0.667, 0.333, 0.833]));
    let (y, grad) = run(PoolKind::Average { count_include_pad: false });
    assert_eq!((y, grad), ([1.5, 3.0, 5.0, 7.0, 8.0], [0.5, 0.833, 0.333, 0.667, 0.333, 0.667, 0.333, 1.333]));
    let (y, grad) = run(PoolKind::Max);
    assert_eq!((y, grad), ([2.0, 4.0, 6.0, 8.0, 8.0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 2.0]));
    let (y, grad) = run(PoolKind::Power(PoolPower::Three));
    assert!((y[1] - 4.626).abs() < 1e-3);
    assert_eq!(grad, [0.231, 1.111, 0.421, 1.04, 0.457, 1.002, 0.468, 1.611]);
}

#[test]
fn empty_windows_and_nan() {
    let s = shape(1, [1, 1, 7], 1, [[1, 1, 2], [1, 1, 4], [0; 3]], PoolConvention::Full);
    let pool = |kind| {
        let (mut y, mut x_grad) = ([0.0f32; 3], [0.0f32; 7]);
        pool_forward(&s, kind, &[f32::NAN, 1.0, 0.0, 0.0, f32::NAN, f32::NAN, 5.0], &mut y);
        pool_backward(
            &s,
            PoolKind::Max,
            &[f32::NAN, 1.0, 0.0, 0.0, f32::NAN, f32::NAN, 5.0],
            &y,
            &[1.0; 3],
            &mut x_grad,
        );
        (y, x_grad)
    };
    let (y, x_grad) = pool(PoolKind::Max);
    assert_eq!(y, [1.0, f32::MIN, f32::MIN]);
    assert_eq!(x_grad, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    for kind in [PoolKind::Sum, PoolKind::Average { count_include_pad: true }, PoolKind::Power(PoolPower::Two)] {
        assert_eq!(pool(kind).0[2], 0.0);
    }
    // The gradient of a norm that is zero.
    let (mut y, mut x_grad) = ([1.0f32; 3], [1.0f32; 7]);
    pool_forward(&s, PoolKind::Power(PoolPower::Two), &[0.0; 7], &mut y);
    pool_backward(&s, PoolKind::Power(PoolPower::Two), &[0.0; 7], &y, &[1.0; 3], &mut x_grad);
    assert_eq!(x_grad, [0.0; 7]);
}

#[test]
fn threads_do_not_change_bits() {
    let s = shape(64, [1, 33, 35], 1, [[1, 3, 3], [1, 2, 2], [0, 1, 1]], PoolConvention::Full);
    let x: Vec<f32> = random(s.input_len(), 3).iter().map(|x| f32::of(*x)).collect();
    let grad: Vec<f32> = random(s.output_len(), 4).iter().map(|x| f32::of(*x)).collect();
    let run = |threads| {
        let before = set_num_threads(threads);
        let results = KINDS.map(|kind| {
            let (mut y, mut x_grad) = (vec![0.0; s.output_len()], vec![0.0; s.input_len()]);
            pool_forward(&s, kind, &x, &mut y);
            pool_backward(&s, kind, &x, &y, &grad, &mut x_grad);
            (y, x_grad)
        });
        set_num_threads(before);
        results
    };
    assert!(run(1) == run(2));
}

#[test]
fn strided_loops_reach_the_end() {
    let xs: Vec<usize> = (0..20).collect();
    for (stride, count) in [(1, 20), (2, 10), (2, 4), (3, 7), (5, 4)] {
        for len in (count - 1) * stride + 1..=20 {
            let mut got = vec![];
            each_strided(&xs[..len], stride, 0..count, |i, x, item| got.push((i, x, item)));
            let want: Vec<_> = (0..count).map(|i| (i, i * stride, i)).collect();
            assert_eq!(got, want, "stride {stride}, {len} elements");
        }
    }
}

#[test]
fn maxima_of_bytes_equal_those_of_numbers() {
    for s in shapes() {
        for (is_signed, lowest) in [(false, 0.0), (true, -128.0)] {
            let bytes: Vec<u8> = (0..s.input_len()).map(|i| (i * i * 89 + i * 7) as u8).collect();
            let number = |b: &u8| if is_signed { f32::from(b.cast_signed()) } else { f32::from(*b) };
            let numbers: Vec<f32> = bytes.iter().map(number).collect();
            let (mut want, mut maxima) = (vec![0f32; s.output_len()], vec![7u8; s.output_len()]);
            pool_forward(&s, PoolKind::Max, &numbers, &mut want);
            max_pool_bytes(&s, is_signed, &bytes, &mut maxima);
            assert!(maxima.iter().zip(want).all(|(max, want)| number(max) == want.max(lowest)), "{s:?} {is_signed}");
        }
    }
}
