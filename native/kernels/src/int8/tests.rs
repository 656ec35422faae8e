use super::*;
use crate::conv::ConvShape;
use crate::par::{MatMut, MatRef};
use ferromx_core::dtype::DType;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    // Extreme values are frequent: they would overflow sums of 16 bits.
    (0..len).map(|i| [255, 0, 128, 127, (i * 37 + seed * 11) as u8, (i * i + seed) as u8][(i * 7 + seed) % 6]).collect()
}

fn wide(byte: u8, is_signed: bool) -> i64 {
    if is_signed { i64::from(byte.cast_signed()) } else { i64::from(byte) }
}

/// (zero point of the data, zero point of the weights, data are signed, weights are signed).
const TYPES: [(i32, i32, bool, bool); 6] = [
    (0, 0, false, true),
    (131, 0, false, true),
    (-5, 0, true, true),
    (3, 128, false, false),
    (7, 9, false, false),
    (-1, -3, true, true),
];

#[test]
fn matrix_products_are_exact() {
    for (m, n, k) in [(1, 1, 1), (1, 70, 64), (3, 5, 7), (9, 33, 66), (66, 130, 33), (2, 3, 0)] {
        for (x_zero, w_zero, x_signed, w_signed) in TYPES {
            let (x, w) = (bytes(m * k, 1), bytes(k * n, 2));
            let zeros: Vec<i32> = (0..n).map(|j| if w_zero == 9 { j as i32 % 200 } else { w_zero }).collect();
            let weights = Int8Weights { bytes: &w, is_signed: w_signed, zeros: &zeros };
            let packed = MatrixWeights::new(&weights, MatRef::new(&w, k, n, 1, k));
            let x_operand = Int8 { bytes: &x, is_signed: x_signed, zero: x_zero };
            let mut sums = vec![7i32; m * n];
            gemm_int8(x_operand, &packed, &Epilogue::SUMS, MatMut::row_major(&mut sums, m, n));
            for (at, sum) in sums.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let term = |p: usize| {
                    (wide(x[i * k + p], x_signed) - i64::from(x_zero))
                        * (wide(w[j * k + p], w_signed) - i64::from(zeros[j]))
                };
                assert_eq!(i64::from(*sum), (0..k).map(term).sum::<i64>(), "({m}, {n}, {k}) at ({i}, {j})");
            }
        }
    }
}

fn reference(shape: &ConvShape, x: Int8<'_>, w: &Int8Weights<'_>) -> Vec<i32> {
    let ([_, height, width], [_, rows, cols]) = (shape.input, shape.output());
    let (inputs, filters) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    let mut out = vec![];
    for (image, filter) in (0..shape.batch).flat_map(|i| (0..shape.out_channels).map(move |f| (i, f))) {
        for (y, column) in (0..rows).flat_map(|y| (0..cols).map(move |x| (y, x))) {
            let mut sum = 0;
            for c in 0..inputs {
                for (ky, kx) in (0..shape.kernel[1]).flat_map(|y| (0..shape.kernel[2]).map(move |x| (y, x))) {
                    let row = (y * shape.stride[1] + ky * shape.dilate[1]).wrapping_sub(shape.pad[1]);
                    let col = (column * shape.stride[2] + kx * shape.dilate[2]).wrapping_sub(shape.pad[2]);
                    if row < height && col < width {
                        let channel = image * shape.in_channels + filter / filters * inputs + c;
                        let x_value = wide(x.bytes[(channel * height + row) * width + col], x.is_signed);
                        let at = ((filter * inputs + c) * shape.kernel[1] + ky) * shape.kernel[2] + kx;
                        let w_value = wide(w.bytes[at], w.is_signed);
                        sum += (x_value - i64::from(x.zero)) * (w_value - i64::from(w.zero(filter)));
                    }
                }
            }
            out.push(sum as i32);
        }
    }
    out
}

fn shape(
    [batch, groups, in_channels, out_channels]: [usize; 4],
    input: [usize; 2],
    kernel: [usize; 2],
    [stride, pad, dilate]: [usize; 3],
) -> ConvShape {
    ConvShape {
        batch,
        groups,
        in_channels,
        out_channels,
        input: [1, input[0], input[1]],
        kernel: [1, kernel[0], kernel[1]],
        stride: [1, stride, stride],
        pad: [0, pad, pad],
        dilate: [1, dilate, dilate],
    }
}

#[test]
fn convolutions_are_exact() {
    let shapes = [
        shape([1, 1, 1, 1], [1, 1], [1, 1], [1, 0, 1]),
        shape([2, 1, 5, 11], [7, 7], [1, 1], [1, 0, 1]),
        shape([1, 1, 8, 9], [12, 9], [3, 3], [1, 1, 1]),
        shape([1, 1, 3, 20], [23, 25], [7, 7], [2, 3, 1]),
        shape([5, 2, 6, 4], [9, 11], [3, 2], [2, 1, 2]),
        shape([1, 1, 4, 3], [8, 8], [1, 1], [2, 0, 1]),
        shape([2, 3, 3, 3], [10, 13], [3, 3], [1, 1, 1]),
        shape([1, 4, 4, 4], [9, 9], [3, 5], [2, 2, 1]),
        shape([1, 2, 2, 6], [1, 40], [1, 3], [3, 1, 2]),
        shape([1, 1, 2, 2], [3, 3], [3, 3], [1, 5, 1]),
        shape([1, 2, 2, 2], [3, 3], [3, 3], [3, 5, 1]),
        shape([1, 9, 9, 9], [20, 19], [17, 18], [1, 1, 1]),
    ];
    for shape in shapes {
        let taps = shape.kernel[1] * shape.kernel[2];
        let (x, w) = (bytes(shape.input_len(), 3), bytes(shape.weights_len(), 4));
        assert_eq!(w.len() / taps * shape.groups, shape.out_channels * shape.in_channels);
        for (zero, w_zero, is_signed, w_signed) in TYPES {
            let x = Int8 { bytes: &x, is_signed, zero };
            let w = Int8Weights { bytes: &w, is_signed: w_signed, zeros: &[w_zero] };
            let packed = ConvWeights::new(&shape, &w);
            let mut sums = vec![7i32; shape.output_len()];
            conv_int8(&shape, x, &packed, &Epilogue::SUMS, &mut sums);
            assert_eq!(sums, reference(&shape, x, &w), "{shape:?}");
        }
    }
}

#[test]
fn results_are_converted_per_channel() {
    let shape = shape([1, 1, 2, 9], [2, 2], [1, 1], [1, 0, 1]);
    let x = [10, 20, 30, 40, 1, 2, 3, 4];
    let w: Vec<u8> = (0..18).map(|i| if i % 2 == 0 { (i / 2) as u8 } else { 255 }).collect();
    let packed = ConvWeights::new(&shape, &Int8Weights { bytes: &w, is_signed: true, zeros: &[0] });
    let (bias, scale, shift) = (vec![5; 9], (0..9).map(|i| 0.5 + i as f32).collect::<Vec<_>>(), vec![0.25; 9]);
    let x_operand = Int8 { bytes: &x, is_signed: false, zero: 0 };
    let real = |f: usize, p: usize| ((f as i32 * x[p] as i32 - x[4 + p] as i32 + 5) as f32) * scale[f] + 0.25;
    let mut floats = vec![0f32; 36];
    let epilogue = Epilogue { bias: &bias, scale: &scale, shift: &shift, limits: Limits::NONE };
    conv_int8(&shape, x_operand, &packed, &epilogue, &mut floats);
    assert!(floats.iter().enumerate().all(|(i, y)| *y == real(i / 4, i % 4)), "{floats:?}");
    let (all, relu) = ([f32::NEG_INFINITY, f32::INFINITY], [0.0, f32::INFINITY]);
    for (dtype, zero, clamp) in [
        (DType::U8, 3, all),
        (DType::U8, 100, relu),
        (DType::I8, -7, all),
        (DType::I8, 5, [-20.25, 6.5]),
        (DType::U8, 9, [300.0, 400.0]),
    ] {
        let mut integers = vec![0u8; 36];
        let epilogue = Epilogue { limits: Limits::of(dtype, zero, clamp), ..epilogue };
        conv_int8(&shape, x_operand, &packed, &epilogue, &mut integers);
        for (i, q) in integers.iter().enumerate() {
            let real = real(i / 4, i % 4).max(clamp[0]).min(clamp[1]);
            let (low, high) = if dtype == DType::I8 { (-128, 127) } else { (0, 255) };
            let want = (real.round_ties_even() as i32 + zero).clamp(low, high);
            assert_eq!(wide(*q, dtype == DType::I8), i64::from(want), "{dtype} at {i}");
        }
    }
}

/// Without a shift, a tile converts its sums itself if the processor supports it.
#[test]
fn tiles_round_to_bytes() {
    let all = [f32::NEG_INFINITY, f32::INFINITY];
    let ranges = [
        (DType::U8, 3, all),
        (DType::U8, 100, [0.0, f32::INFINITY]),
        (DType::I8, -7, all),
        (DType::I8, 5, [-20.25, 6.5]),
        (DType::I8, 0, [0.0, 90.0]),
        (DType::U8, 9, [300.0, 400.0]),
    ];
    let shapes = [
        shape([2, 1, 7, 19], [9, 14], [3, 3], [1, 1, 1]),
        shape([1, 1, 4, 33], [5, 40], [1, 1], [1, 0, 1]),
        shape([1, 6, 6, 6], [11, 37], [3, 3], [2, 1, 1]),
        shape([1, 3, 3, 3], [20, 9], [5, 6], [3, 2, 2]),
    ];
    for (case, (dtype, zero, clamp)) in ranges.into_iter().enumerate() {
        let limits = Limits::of(dtype, zero, clamp);
        for shape in shapes {
            let (x, w) = (bytes(shape.input_len(), case), bytes(shape.weights_len(), 4));
            let x = Int8 { bytes: &x, is_signed: case % 2 == 1, zero: 7 };
            let w = Int8Weights { bytes: &w, is_signed: true, zeros: &[0] };
            let bias: Vec<i32> = (0..shape.out_channels as i32).map(|f| f * 31 - 77).collect();
            // Large scales are converted after the tile.
            let step = if case == 2 { 1.5 } else { 1.0 / 400.0 };
            let scale: Vec<f32> = (0..shape.out_channels).map(|f| step / (1.0 + f as f32)).collect();
            let mut out = vec![0u8; shape.output_len()];
            let epilogue = Epilogue { bias: &bias, scale: &scale, shift: &[], limits };
            conv_int8(&shape, x, &ConvWeights::new(&shape, &w), &epilogue, &mut out);
            let pixels = shape.output()[1] * shape.output()[2];
            for (at, (q, sum)) in out.iter().zip(reference(&shape, x, &w)).enumerate() {
                let f = at / pixels % shape.out_channels;
                let real = ((sum + bias[f]) as f32 * scale[f]).max(limits.low).min(limits.high);
                assert_eq!(*q, (real.round_ties_even() as i32 + zero) as u8, "{shape:?} {dtype} at {at}");
            }
        }
    }
}
