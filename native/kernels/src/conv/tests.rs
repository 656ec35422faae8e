use super::forward::Algorithm;
use super::*;
use crate::float::FloatElement;
use crate::gemm::Activation;
use crate::par::set_num_threads;
use crate::test_data::{close, random};
use ferromx_core::dtype::{bf16, f16};

/// A two-dimensional convolution: [batch, groups, in, out], and height and width of the other sizes.
fn plane(
    [batch, groups, in_channels, out_channels]: [usize; 4],
    [input, kernel, stride, pad, dilate]: [[usize; 2]; 5],
) -> ConvShape {
    let with = |first, [h, w]: [usize; 2]| [first, h, w];
    ConvShape {
        batch,
        groups,
        in_channels,
        out_channels,
        input: with(1, input),
        kernel: with(1, kernel),
        stride: with(1, stride),
        pad: with(0, pad),
        dilate: with(1, dilate),
    }
}

fn shapes() -> Vec<ConvShape> {
    let one = [1, 1];
    let mut shapes = vec![
        plane([2, 1, 3, 5], [[7, 9], [3, 3], one, one, one]),
        plane([1, 1, 1, 20], [[8, 8], [3, 3], one, [0, 0], one]),
        plane([5, 1, 20, 50], [[3, 3], [3, 3], one, one, one]),
        plane([2, 1, 4, 33], [[6, 37], [3, 2], one, [2, 1], one]),
        plane([3, 1, 70, 16], [[5, 6], [3, 3], one, one, one]),
        plane([2, 1, 9, 40], [[6, 7], one, one, [0, 0], one]),
        plane([2, 1, 9, 14], [[6, 7], one, [2, 3], [0, 0], one]),
        plane([2, 1, 9, 6], [[6, 7], one, one, [1, 2], one]),
        plane([1, 1, 3, 17], [[23, 40], [7, 7], [2, 2], [3, 3], one]),
        plane([2, 1, 5, 6], [[9, 11], [3, 3], [2, 2], one, one]),
        plane([3, 2, 6, 20], [[8, 14], [2, 2], [2, 2], [0, 0], one]),
        plane([2, 1, 5, 20], [[8, 7], [4, 1], [4, 1], [0, 0], one]),
        plane([3, 1, 3, 18], [[9, 96], [3, 3], [2, 2], one, one]),
        plane([2, 1, 5, 6], [[9, 10], [2, 3], [3, 4], one, one]),
        plane([2, 1, 5, 6], [[9, 10], [2, 2], [3, 5], [0, 1], one]),
        plane([2, 1, 3, 4], [[12, 13], [3, 2], [1, 2], [2, 3], [2, 3]]),
        plane([2, 1, 3, 4], [[12, 13], [3, 3], [2, 2], [4, 4], [2, 2]]),
        plane([2, 3, 6, 9], [[5, 7], [3, 3], [1, 2], one, one]),
        plane([2, 6, 6, 6], [[5, 7], [3, 3], one, one, one]),
        plane([2, 3, 3, 3], [[9, 21], [3, 3], one, one, one]),
        plane([2, 3, 3, 3], [[6, 40], [3, 3], [2, 2], one, one]),
        plane([1, 2, 2, 2], [[3, 33], [3, 3], one, [2, 0], one]),
        plane([1, 2, 2, 2], [[2, 34], [3, 3], [2, 2], [3, 5], one]),
        plane([1, 2, 2, 2], [[1, 1], [3, 3], one, one, one]),
        plane([1, 2, 2, 2], [[7, 18], [5, 5], one, [1, 2], one]),
        plane([2, 3, 3, 3], [[9, 11], [3, 3], [2, 2], one, one]),
        plane([2, 3, 3, 3], [[9, 8], [5, 2], [3, 2], [2, 1], [1, 2]]),
        plane([1, 2, 2, 2], [[9, 8], [2, 2], [3, 4], [0, 0], one]),
        plane([1, 2, 2, 2], [[5, 5], one, [2, 2], [3, 3], one]),
        plane([2, 4, 4, 8], [[6, 6], [3, 3], [2, 2], one, one]),
        plane([1, 1, 130, 60], [[4, 5], [3, 3], one, one, one]),
        plane([1, 1, 2, 3], [[2, 2], [3, 3], one, [0, 0], one]),
        plane([0, 1, 2, 3], [[4, 4], [3, 3], one, [0, 0], one]),
        plane([2, 1, 0, 3], [[4, 4], [3, 3], one, [0, 0], one]),
        plane([2, 1, 3, 2], [[4, 4], [2, 2], one, [3, 3], one]),
        plane([2, 1, 3, 2], [[1, 20], [1, 5], [1, 2], [0, 2], one]),
        plane([3, 2, 4, 6], [[9, 8], [9, 8], one, [0, 0], one]),
        plane([2, 2, 4, 6], [[12, 13], [10, 9], one, [0, 0], one]),
        plane([2, 1, 3, 4], [[20, 21], [15, 12], [2, 3], [0, 1], one]),
        plane([2, 1, 3, 4], [[20, 21], [9, 6], one, [1, 0], [2, 3]]),
        plane([2, 1, 3, 4], [[20, 21], [19, 21], one, [0, 1], one]),
        // Depthwise kernels that read the planes in place.
        plane([2, 6, 6, 6], [[9, 20], [5, 5], one, [2, 2], one]),
        plane([1, 5, 5, 5], [[14, 37], [5, 5], [2, 2], [2, 2], one]),
        plane([1, 4, 4, 4], [[6, 7], [5, 5], one, [0, 0], one]),
        plane([2, 3, 3, 3], [[3, 6], [5, 5], [2, 2], [3, 1], one]),
        // Large depthwise kernels.
        plane([2, 3, 3, 3], [[20, 19], [13, 13], one, [6, 6], one]),
        plane([1, 2, 2, 2], [[7, 33], [9, 4], one, [4, 0], one]),
        plane([1, 2, 2, 2], [[6, 5], [15, 9], one, [7, 4], one]),
        plane([1, 2, 2, 2], [[25, 18], [8, 8], one, [0, 3], one]),
        plane([1, 2, 2, 2], [[3, 0], [9, 3], one, [4, 2], one]),
        // Depthwise kernels that read the planes in place, large enough for pairs of rows.
        plane([1, 3, 3, 3], [[47, 53], [3, 3], one, one, one]),
        plane([1, 2, 2, 2], [[300, 10], [3, 3], one, [0, 0], one]),
        plane([1, 2, 2, 2], [[47, 60], [3, 3], one, [2, 4], one]),
        // One image, which is divided into bands of rows for the gradient of the input.
        plane([1, 1, 3, 4], [[40, 31], [3, 3], [2, 2], one, one]),
        plane([1, 2, 6, 4], [[37, 20], [4, 4], [3, 2], [1, 2], one]),
        // On two threads, the last band has no rows of the second phase, which no tap reads.
        plane([1, 1, 3, 4], [[37, 9], one, [2, 1], [0, 0], one]),
        // One output, and taps that read only padding.
        plane([5, 1, 6, 7], [[4, 5], [4, 5], one, [0, 0], one]),
        plane([5, 3, 6, 9], [[1, 1], [1, 1], one, [0, 0], one]),
        plane([3, 2, 4, 6], [[1, 1], [3, 3], one, one, one]),
        plane([2, 1, 3, 4], [[1, 6], [5, 3], one, [2, 1], one]),
        plane([2, 1, 3, 4], [[2, 2], [3, 3], one, [4, 4], [3, 4]]),
        plane([2, 1, 3, 4], [[2, 3], [7, 5], [2, 1], [3, 2], one]),
        // No pixels, with several blocks of outputs, which are padding only.
        plane([65, 1, 65, 65], [[5, 0], [3, 3], [2, 2], [2, 2], one]),
        // Strides beyond the extent of the kernel.
        plane([2, 1, 3, 4], [[40, 41], [3, 2], [13, 7], [2, 1], [2, 1]]),
        plane([3, 2, 4, 6], [[33, 34], one, [8, 5], [1, 0], one]),
        plane([1, 3, 3, 3], [[40, 41], [3, 3], [16, 9], one, one]),
        plane([2, 1, 5, 20], [[9, 300], [2, 3], [1, 128], [1, 2], one]),
        // Strides beyond the padded input, so long that a list of their residues does not fit into memory.
        plane([2, 1, 3, 4], [[5, 6], [3, 3], [1 << 40, 1 << 40], one, one]),
        plane([1, 3, 3, 3], [[5, 6], [3, 3], [1 << 40, 1], one, one]),
        plane([3, 2, 4, 6], [[5, 6], one, [1, 1 << 40], [1, 2], one]),
        plane([2, 1, 3, 20], [[5, 0], [3, 3], [1 << 40, 1 << 40], [2, 2], one]),
    ];
    let cube = ConvShape {
        batch: 2,
        groups: 1,
        in_channels: 3,
        out_channels: 4,
        input: [4, 5, 6],
        kernel: [3, 2, 3],
        stride: [1, 2, 1],
        pad: [1, 1, 0],
        dilate: [1, 1, 2],
    };
    shapes.extend([
        cube,
        ConvShape { stride: [2, 2, 3], dilate: [1; 3], groups: 1, ..cube },
        ConvShape { groups: 3, out_channels: 3, stride: [2, 1, 2], ..cube },
        ConvShape { input: [9, 10, 11], stride: [5, 7, 3], ..cube },
        // Disjoint windows that cover the input.
        ConvShape { input: [2, 6, 9], kernel: [2, 3, 3], stride: [2, 3, 3], pad: [0; 3], dilate: [1; 3], ..cube },
        // Each phase has one plane, but the image has two.
        ConvShape {
            batch: 1,
            input: [2, 31, 8],
            kernel: [2, 3, 3],
            stride: [2; 3],
            pad: [0, 1, 1],
            dilate: [1; 3],
            ..cube
        },
    ]);
    shapes
}

/// Calls `f(output, input, weight)` for every product of the definition, with indices into the three tensors.
fn products(s: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let out = s.output();
    let (rows, channels) = (s.out_channels / s.groups, s.in_channels / s.groups);
    let unravel = |i: usize, dims: [usize; 3]| [i / (dims[1] * dims[2]), i / dims[2] % dims[1], i % dims[2]];
    for (n, o) in (0..s.batch).flat_map(|n| (0..s.out_channels).map(move |o| (n, o))) {
        for p in 0..out.iter().product() {
            let output = unravel(p, out);
            for (c, t) in (0..channels).flat_map(|c| (0..s.taps()).map(move |t| (c, t))) {
                let tap = unravel(t, s.kernel);
                let at: [usize; 3] =
                    std::array::from_fn(|d| (output[d] * s.stride[d] + tap[d] * s.dilate[d]).wrapping_sub(s.pad[d]));
                if (0..3).all(|d| at[d] < s.input[d]) {
                    let channel = n * s.in_channels + o / rows * channels + c;
                    let pixel = (at[0] * s.input[1] + at[1]) * s.input[2] + at[2];
                    f(
                        (n * s.out_channels + o) * s.output_plane() + p,
                        channel * s.input_plane() + pixel,
                        (o * channels + c) * s.taps() + t,
                    );
                }
            }
        }
    }
}

struct Case<T> {
    input: Vec<T>,
    weights: Vec<T>,
    grad: Vec<T>,
}

fn case<T: FloatElement>(s: &ConvShape) -> Case<T> {
    let make = |len, seed| random(len, seed).iter().map(|x| T::from_f64(*x)).collect();
    Case { input: make(s.input_len(), 1), weights: make(s.weights_len(), 2), grad: make(s.output_len(), 3) }
}

fn wide<T: FloatElement>(v: &[T]) -> Vec<f64> {
    v.iter().map(|x| x.to_f64()).collect()
}

/// The output and the gradients of input and weights.
fn run<T: FloatElement>(s: &ConvShape, case: &Case<T>) -> [Vec<T>; 3] {
    let seven = T::from_f64(7.0);
    let mut results = [s.output_len(), s.input_len(), s.weights_len()].map(|len| vec![seven; len]);
    conv_forward(s, &case.input, &case.weights, &ConvEpilogue::default(), &mut results[0]);
    conv_backward_data(s, &case.grad, &case.weights, &mut results[1]);
    conv_backward_weights(s, &case.input, &case.grad, &mut results[2]);
    results
}

fn check<T: FloatElement>(tolerance: f64) {
    for s in shapes() {
        let case = case::<T>(&s);
        let (x, w, g) = (wide(&case.input), wide(&case.weights), wide(&case.grad));
        let mut want = [s.output_len(), s.input_len(), s.weights_len()].map(|len| vec![0.0; len]);
        products(&s, |o, i, t| {
            want[0][o] += x[i] * w[t];
            want[1][i] += g[o] * w[t];
            want[2][t] += g[o] * x[i];
        });
        let got = run(&s, &case);
        for (name, (got, want)) in ["output", "input gradient", "weight gradient"].iter().zip(got.iter().zip(&want)) {
            close(&wide(got), want, tolerance, &format!("{name} of {s:?}"));
        }
        let mut bias = vec![T::default(); s.out_channels];
        conv_backward_bias(s.batch, &case.grad, &mut bias);
        let plane = s.output_plane();
        let want: Vec<f64> = (0..s.out_channels)
            .map(|o| (0..s.batch).flat_map(|n| &g[(n * s.out_channels + o) * plane..][..plane]).sum())
            .collect();
        close(&wide(&bias), &want, tolerance, &format!("bias gradient of {s:?}"));
    }
}

#[test]
fn equals_the_definition() {
    check::<f64>(1e-12);
    check::<f32>(3e-5);
    check::<f16>(2e-2);
    check::<bf16>(1e-1);
}

#[test]
fn lanes_of_pixels_and_of_channels_agree() {
    let small = [
        plane([2, 1, 40, 70], [[7, 7], [3, 3], [1, 1], [1, 1], [1, 1]]),
        plane([1, 2, 600, 66], [[14, 14], [1, 1], [1, 1], [0, 0], [1, 1]]),
        plane([1, 1, 300, 9], [[29, 31], [3, 3], [1, 1], [1, 1], [1, 1]]),
        plane([3, 1, 20, 40], [[1, 1], [1, 1], [1, 1], [0, 0], [1, 1]]),
    ];
    for s in small.into_iter().chain(shapes()) {
        let case = case::<f32>(&s);
        let (x, w) = (wide(&case.input), wide(&case.weights));
        let mut want = vec![0.0; s.output_len()];
        products(&s, |o, i, t| want[o] += x[i] * w[t]);
        for algorithm in [Algorithm::Implicit, Algorithm::OutputChannels] {
            let packed = PackedConvWeights::packed_for(algorithm, &s, &case.weights);
            let results = [1, 2, 5, 16].map(|threads| {
                let before = set_num_threads(threads);
                let mut got = vec![7.0; s.output_len()];
                conv_forward_packed(&s, &case.input, &packed, &ConvEpilogue::default(), &mut got);
                set_num_threads(before);
                got
            });
            close(&wide(&results[0]), &want, 1e-4, &format!("{algorithm:?}, {s:?}"));
            assert!(results[1..].iter().all(|result| *result == results[0]), "{algorithm:?}, {s:?}");
        }
    }
}

/// Shapes for which Winograd's algorithm is used.
fn winograd_shapes() -> Vec<ConvShape> {
    let one = [1, 1];
    vec![
        plane([3, 1, 33, 40], [[14, 14], [3, 3], one, one, one]),
        plane([9, 1, 32, 45], [[15, 16], [3, 3], one, one, one]),
        plane([1, 1, 40, 170], [[27, 30], [3, 3], one, [0, 0], one]),
        plane([2, 2, 64, 70], [[26, 25], [3, 3], one, [2, 1], one]),
        plane([1, 1, 530, 32], [[16, 16], [3, 3], one, one, one]),
        // A last block with fewer images, and one with fewer rows of tiles.
        plane([11, 1, 32, 48], [[14, 14], [3, 3], one, one, one]),
        plane([2, 1, 34, 33], [[50, 52], [3, 3], one, [0, 2], one]),
    ]
}

#[test]
fn winograd_is_close_to_the_definition() {
    // Images whose tiles do not fill vectors.
    let small_images = plane([9, 1, 40, 36], [[7, 7], [3, 3], [1, 1], [1, 1], [1, 1]]);
    for s in winograd_shapes().into_iter().chain([small_images]) {
        assert!(winograd::is_profitable::<f32>(&s) || s == small_images, "{s:?}");
        assert!(winograd::is_profitable_for_weights::<f32>(&s) || s.batch == 1, "{s:?}");
        let case = case::<f32>(&s);
        let exact = Case { input: wide(&case.input), weights: wide(&case.weights), grad: wide(&case.grad) };
        let (got, want) = (run(&s, &case), run(&s, &exact));
        for (name, (got, want)) in ["output", "input gradient", "weight gradient"].iter().zip(got.iter().zip(&want)) {
            // The sums have a standard deviation of about 10 and cancel where they are small.
            close(&wide(got), want, 1e-3, &format!("{name} of {s:?}"));
        }
    }
}

#[test]
fn epilogue_and_packed_weights() {
    for s in shapes().into_iter().chain(winograd_shapes()) {
        let Case { input, weights, grad: residual } = case::<f32>(&s);
        let bias: Vec<f32> = random(s.out_channels, 4).iter().map(|x| *x as f32).collect();
        let mut want = vec![0.0; s.output_len()];
        conv_forward(&s, &input, &weights, &ConvEpilogue::default(), &mut want);
        let scale: Vec<f32> = random(s.out_channels, 5).iter().map(|x| *x as f32).collect();
        let clamp = Activation::Clamp { low: -0.25, high: 0.5 };
        for (residual, activation) in [(Some(&residual[..]), Activation::Relu), (None, Activation::Relu), (None, clamp)]
        {
            let mut want = want.clone();
            for (i, y) in want.iter_mut().enumerate() {
                let channel = i / s.output_plane() % s.out_channels;
                let sum = *y * scale[channel] + bias[channel] + residual.map_or(0.0, |residual| residual[i]);
                *y = match activation {
                    Activation::Relu => sum.max(0.0),
                    _ => sum.clamp(-0.25, 0.5),
                };
            }
            let epilogue = ConvEpilogue { scale: Some(&scale), bias: Some(&bias), residual, activation };
            let packed = PackedConvWeights::new(&s, &weights);
            let mut got = vec![7.0; s.output_len()];
            conv_forward_packed(&s, &input, &packed, &epilogue, &mut got);
            if !s.gives_same_bits_unpacked() {
                // Weights that are not packed are multiplied in another order.
                let want: Vec<f64> = want.iter().map(|y| f64::from(*y)).collect();
                close(&wide(&got), &want, 3e-5, &format!("packed weights of {s:?}"));
            } else {
                assert!(got == want, "{s:?}");
            }
            conv_forward(&s, &input, &weights, &epilogue, &mut got);
            assert!(got == want, "{s:?}, weights not packed");
        }
    }
}

#[test]
fn depthwise_keeps_nan() {
    let s = plane([1, 2, 2, 2], [[4, 20], [3, 3], [1, 1], [1, 1], [1, 1]]);
    let Case { mut input, weights, .. } = case::<f32>(&s);
    input[25] = f32::NAN;
    for activation in [Activation::Identity, Activation::Relu, Activation::Clamp { low: -1.0, high: 1.0 }] {
        let mut got = vec![7.0; s.output_len()];
        let epilogue = ConvEpilogue { bias: Some(&[0.5, 0.5]), activation, ..Default::default() };
        conv_forward(&s, &input, &weights, &epilogue, &mut got);
        let near = |i: usize| i / 20 <= 2 && (4..=6).contains(&(i % 20));
        assert!(got.iter().enumerate().all(|(i, y)| y.is_nan() == near(i)), "{got:?}");
    }
}

#[test]
fn depthwise_windows_in_the_padding_of_an_empty_image_are_zero() {
    let s = plane([1, 2, 2, 2], [[0, 3], [3, 3], [1, 1], [2, 1], [1, 1]]);
    let mut got = vec![7.0; s.output_len()];
    conv_forward(&s, &[], &vec![1.0f32; s.weights_len()], &ConvEpilogue::default(), &mut got);
    assert_eq!(got, vec![0.0; 2 * 2 * 3]);
}

#[test]
fn threads_do_not_change_bits() {
    let larger = [
        plane([1, 1, 40, 200], [[7, 7], [3, 3], [1, 1], [1, 1], [1, 1]]),
        plane([3, 1, 60, 64], [[28, 30], [3, 3], [1, 1], [1, 1], [1, 1]]),
        plane([17, 2, 16, 32], [[14, 15], [3, 3], [2, 2], [1, 1], [1, 1]]),
        // The inputs of so many channels are transformed a few images at a time.
        plane([6, 1, 640, 32], [[14, 14], [3, 3], [1, 1], [1, 1], [1, 1]]),
        // Rows of more tiles than a block has.
        plane([1, 1, 24, 30], [[11, 150], [3, 3], [1, 1], [1, 1], [1, 1]]),
    ];
    for s in larger.iter().chain(&shapes()).chain(&winograd_shapes()) {
        let case = case::<f32>(s);
        let results = [1, 2, 7, 16].map(|threads| {
            let before = set_num_threads(threads);
            let results = run(s, &case);
            set_num_threads(before);
            results
        });
        assert!(results[1..].iter().all(|result| *result == results[0]), "{s:?}");
    }
}

#[test]
#[should_panic(expected = "elements of the weights")]
fn lengths_are_checked() {
    let s = shapes()[0];
    let mut output = vec![0.0; s.output_len()];
    conv_forward(&s, &vec![0.0f32; s.input_len()], &[0.0; 3], &ConvEpilogue::default(), &mut output);
}

#[test]
fn bounded_strides_have_the_same_outputs() {
    for stride in [1, 2, 8, 9, 10, usize::MAX] {
        let shape = plane([1, 1, 2, 3], [[7, 8], [3, 2], [stride, 3], [1, 0], [2, 1]]);
        let bounded = shape.with_bounded_strides();
        assert_eq!((bounded.stride[1], bounded.stride[2]), (stride.min(9), 3));
        assert_eq!(bounded.output(), shape.output());
    }
    let unknown = plane([1, 1, 2, 3], [[0, 8], [3, 2], [5, 3], [1, 0], [1, 1]]);
    assert_eq!(unknown.with_bounded_strides().stride, unknown.stride);
}
