//! Times the neural-network kernels at the sizes of the performance goals: `conv_bench [filter] [seconds per kernel]`.
//!
//! Prints the minimum and the median wall time in milliseconds. `OMP_NUM_THREADS` sets the number of threads.
#![allow(clippy::print_stdout)] // its purpose

use ferromx_kernels::AxisShape;
use ferromx_kernels::conv::{
    ConvEpilogue, ConvShape, PackedConvWeights, conv_backward_data, conv_backward_weights, conv_forward,
    conv_forward_packed,
};
use ferromx_kernels::norm::{
    Affine, BatchNormGrads, BatchNormParams, batch_norm_backward, batch_norm_training, row_norm_forward,
};
use ferromx_kernels::pool::{PoolConvention, PoolKind, PoolShape, pool_backward, pool_forward};
use ferromx_kernels::softmax::{Softmax, softmax_forward};
use std::time::{Duration, Instant};

struct Bench {
    filter: String,
    budget: Duration,
}

impl Bench {
    /// The minimum and the median time of a call.
    fn time(&self, name: &str, mut f: impl FnMut()) {
        if !name.contains(&self.filter) {
            return;
        }
        f();
        let (start, mut times) = (Instant::now(), vec![]);
        while times.len() < 5 || (start.elapsed() < self.budget && times.len() < 10_000) {
            let start = Instant::now();
            f();
            times.push(start.elapsed());
        }
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("{name:44} min {:9.4} median {:9.4} ms", ms(times[0]), ms(times[times.len() / 2]));
    }
}

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5).collect()
}

fn image(
    [batch, groups, in_channels, out_channels]: [usize; 4],
    size: usize,
    [kernel, stride, pad]: [usize; 3],
) -> ConvShape {
    ConvShape {
        batch,
        groups,
        in_channels,
        out_channels,
        input: [1, size, size],
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        pad: [0, pad, pad],
        dilate: [1; 3],
    }
}

fn conv(bench: &Bench, name: &str, shape: ConvShape) {
    if !name.contains(&bench.filter) && !bench.filter.starts_with(name) {
        return;
    }
    let (x, w) = (values(shape.input_len()), values(shape.weights_len()));
    let (mut y, mut dx, mut dw) = (vec![0.0; shape.output_len()], x.clone(), w.clone());
    let dy = values(shape.output_len());
    let packed = PackedConvWeights::new(&shape, &w);
    let epilogue = ConvEpilogue::default();
    bench.time(&format!("{name} forward"), || conv_forward(&shape, &x, &w, &epilogue, &mut y));
    bench.time(&format!("{name} forward, packed"), || conv_forward_packed(&shape, &x, &packed, &epilogue, &mut y));
    bench.time(&format!("{name} gradient of data"), || conv_backward_data(&shape, &dy, &w, &mut dx));
    bench.time(&format!("{name} gradient of weights"), || conv_backward_weights(&shape, &x, &dy, &mut dw));
}

fn others(bench: &Bench) {
    let s = PoolShape {
        planes: 32 * 64,
        input: [1, 56, 56],
        inner: 1,
        kernel: [1, 2, 2],
        stride: [1, 2, 2],
        pad: [0; 3],
        output: [1, 28, 28],
    };
    let (x, dy) = (values(s.input_len()), values(s.output_len()));
    let (mut y, mut dx) = (dy.clone(), x.clone());
    bench.time("max pooling 2x2 (32,64,56,56) forward", || pool_forward(&s, PoolKind::Max, &x, &mut y));
    bench.time("max pooling 2x2 (32,64,56,56) backward", || pool_backward(&s, PoolKind::Max, &x, &y, &dy, &mut dx));
    let size = |n, k, s| PoolConvention::Valid.output_size(n, k, s, 1).unwrap_or(0);
    let s = PoolShape { kernel: [1, 3, 3], pad: [0, 1, 1], output: [1, size(56, 3, 2), size(56, 3, 2)], ..s };
    bench.time("max pooling 3x3 s2 (32,64,56,56) forward", || pool_forward(&s, PoolKind::Max, &x, &mut y));
    bench.time("max pooling 3x3 s2 (32,64,56,56) backward", || pool_backward(&s, PoolKind::Max, &x, &y, &dy, &mut dx));

    for (outer, axis) in [(4096, 1000), (64, 1000), (1000, 64), (1000, 56)] {
        let s = AxisShape { outer, axis, inner: 1 };
        let (x, mut y) = (values(s.len()), values(s.len()));
        let name = format!("softmax ({outer},{axis})");
        bench.time(&name, || softmax_forward(s, Softmax::PLAIN, &x, &mut y));
    }

    let s = AxisShape { outer: 32, axis: 64, inner: 56 * 56 };
    let (x, dy) = (values(s.len()), values(s.len()));
    let (mut y, mut dx) = (x.clone(), x.clone());
    let (gamma, beta) = (vec![1.0; 64], vec![0.0; 64]);
    let (mut mean, mut variance) = (vec![0.0; 64], vec![0.0; 64]);
    let (mut dgamma, mut dbeta) = (vec![0.0; 64], vec![0.0; 64]);
    let params = BatchNormParams { gamma: Some(&gamma), beta: &beta, eps: 1e-3 };
    bench.time("batch norm (32,64,56,56) forward+backward", || {
        batch_norm_training(s, &params, &x, &mut y, &mut mean, &mut variance);
        let grads = BatchNormGrads { x: &mut dx, gamma: &mut dgamma, beta: &mut dbeta };
        batch_norm_backward(s, &params, (&mean, &variance, true), &x, &dy, grads);
    });

    let s = AxisShape { outer: 512, axis: 768, inner: 1 };
    let (x, mut y) = (values(s.len()), values(s.len()));
    let (gamma, beta) = (vec![1.0; 768], vec![0.0; 768]);
    let (mut mean, mut deviation) = (vec![0.0; 512], vec![0.0; 512]);
    let affine = Affine::PerElement(&gamma, &beta);
    bench.time("layer norm (512,768)", || row_norm_forward(s, affine, 1e-5, &x, &mut y, (&mut mean, &mut deviation)));
}

fn main() {
    let mut args = std::env::args().skip(1);
    let filter = args.next().unwrap_or_default();
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(0.3);
    let bench = Bench { filter, budget: Duration::from_secs_f64(seconds) };
    conv(&bench, "conv 3x3 (32,64,56,56)->64", image([32, 1, 64, 64], 56, [3, 1, 1]));
    conv(&bench, "conv 3x3 (32,256,14,14)->256", image([32, 1, 256, 256], 14, [3, 1, 1]));
    for (channels, size) in [(64, 56), (128, 28), (256, 14), (512, 7)] {
        let name = format!("conv 3x3 (8,{channels},{size},{size})->{channels}");
        conv(&bench, &name, image([8, 1, channels, channels], size, [3, 1, 1]));
    }
    conv(&bench, "conv 1x1 (32,64,56,56)->256", image([32, 1, 64, 256], 56, [1, 1, 0]));
    conv(&bench, "conv 7x7 s2 (1,3,224,224)->64", image([1, 1, 3, 64], 224, [7, 2, 3]));
    conv(&bench, "conv 3x3 s2 (32,128,28,28)->128", image([32, 1, 128, 128], 28, [3, 2, 1]));
    conv(&bench, "depthwise 3x3 (8,128,56,56)", image([8, 128, 128, 128], 56, [3, 1, 1]));
    for (channels, filters, size) in
        [(32, 64, 112), (64, 128, 56), (128, 128, 56), (256, 256, 28), (512, 512, 14), (1024, 1024, 7)]
    {
        let name = format!("conv 1x1 (8,{channels},{size},{size})->{filters}");
        conv(&bench, &name, image([8, 1, channels, filters], size, [1, 1, 0]));
    }
    for (channels, size) in [(64, 112), (128, 56), (256, 28), (512, 14)] {
        conv(
            &bench,
            &format!("depthwise 3x3 s2 (8,{channels},{size},{size})"),
            image([8, channels, channels, channels], size, [3, 2, 1]),
        );
    }
    for (channels, size, kernel, stride) in [
        (256, 28, 3, 1),
        (512, 14, 3, 1),
        (1024, 7, 3, 1),
        (512, 14, 3, 2),
        (120, 28, 5, 1),
        (672, 14, 5, 1),
        (960, 7, 5, 1),
        (72, 56, 5, 2),
        (96, 56, 7, 1),
        (384, 14, 7, 1),
        (384, 14, 13, 1),
        (64, 32, 31, 1),
    ] {
        conv(
            &bench,
            &format!("depthwise {kernel}x{kernel} s{stride} (1,{channels},{size},{size})"),
            image([1, channels, channels, channels], size, [kernel, stride, kernel / 2]),
        );
    }
    for (channels, filters, kernel, size) in [(24, 24, 2, 160), (1, 24, 2, 320), (64, 128, 4, 32)] {
        let shape = image([1, 1, channels, filters], size, [kernel, 2, (kernel - 2) / 2]);
        conv(&bench, &format!("conv {kernel}x{kernel} s2 (1,{channels},{size},{size})->{filters}"), shape);
    }
    conv(&bench, "conv 3x3 (32,1,8,8)->20", image([32, 1, 1, 20], 8, [3, 1, 0]));
    conv(&bench, "conv 3x3 (32,20,3,3)->50", image([32, 1, 20, 50], 3, [3, 1, 1]));
    others(&bench);
}
