//! Compares 8-bit and single precision convolutions and products: `int8_bench [seconds per kernel]`.
//!
//! Prints minimum wall times in milliseconds. `OMP_NUM_THREADS` sets the number of threads, `FERROMX_ISA` the instruction set.
#![allow(clippy::print_stdout)] // its purpose

use ferromx_core::dtype::DType;
use ferromx_kernels::conv::{ConvEpilogue, ConvShape, PackedConvWeights, conv_forward_packed};
use ferromx_kernels::gemm::{Epilogue as FloatEpilogue, PackedB, gemm_packed_b};
use ferromx_kernels::int8::{ConvWeights, Epilogue, Int8, Int8Weights, Limits, MatrixWeights, conv_int8, gemm_int8};
use ferromx_kernels::par::{MatMut, MatRef};
use std::time::Instant;

fn time(seconds: f64, mut f: impl FnMut()) -> f64 {
    f();
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    best
}

/// An epilogue with non-negative 8-bit results.
fn epilogue(scale: &[f32]) -> Epilogue<'_> {
    Epilogue { bias: &[], scale, shift: &[], limits: Limits::of(DType::U8, 0, [0.0, f32::INFINITY]) }
}

/// Prints the times in milliseconds of `gmacs` billion multiply-adds.
fn report(what: &str, gmacs: f64, int8: f64, float: f64) {
    println!(
        "{what}: int8 {int8:.4} ms ({:.0} GMAC/s), float {float:.4} ms, {:.2} times",
        gmacs * 1e3 / int8,
        float / int8
    );
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0.3);
    for (groups, channels, size, filters, kernel, stride, pad) in [
        (1, 64, 56, 64, 3, 1, 1),
        (1, 64, 56, 256, 1, 1, 0),
        (1, 256, 56, 64, 1, 1, 0),
        (1, 128, 28, 128, 3, 1, 1),
        (1, 256, 14, 256, 3, 1, 1),
        (1, 512, 7, 512, 3, 1, 1),
        (1, 512, 7, 2048, 1, 1, 0),
        (1, 2048, 7, 512, 1, 1, 0),
        (1, 512, 28, 1024, 1, 2, 0),
        (1, 3, 224, 64, 7, 2, 3),
        (128, 128, 56, 128, 3, 1, 1),
    ] {
        let shape = ConvShape {
            batch: 1,
            groups,
            in_channels: channels,
            out_channels: filters,
            input: [1, size, size],
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            pad: [0, pad, pad],
            dilate: [1; 3],
        };
        let x: Vec<u8> = (0..shape.input_len()).map(|i| (i * 37) as u8).collect();
        let w: Vec<u8> = (0..shape.weights_len()).map(|i| (i * 91) as u8).collect();
        let (xf, wf): (Vec<f32>, Vec<f32>) =
            (x.iter().map(|x| f32::from(*x)).collect(), w.iter().map(|x| f32::from(*x)).collect());
        let weights = ConvWeights::new(&shape, &Int8Weights { bytes: &w, is_signed: true, zeros: &[0] });
        let floats = PackedConvWeights::new(&shape, &wf);
        let (mut y, mut yf) = (vec![0u8; shape.output_len()], vec![0f32; shape.output_len()]);
        let x = Int8 { bytes: &x, is_signed: false, zero: 0 };
        let scale = vec![1e-4; filters];
        let int8 = time(seconds, || conv_int8(&shape, x, &weights, &epilogue(&scale), &mut y));
        let float = time(seconds, || conv_forward_packed(&shape, &xf, &floats, &ConvEpilogue::default(), &mut yf));
        let gmacs = shape.output_len() as f64 * (channels / groups * kernel * kernel) as f64 / 1e9;
        report(
            &format!("conv {groups}x{channels}x{size} to {filters}, {kernel}x{kernel}/{stride}"),
            gmacs,
            int8,
            float,
        );
    }
    for (m, k, n) in [(1, 2048, 1000), (128, 768, 768), (128, 768, 3072), (1024, 1024, 1024)] {
        let x: Vec<u8> = (0..m * k).map(|i| (i * 37) as u8).collect();
        let w: Vec<u8> = (0..n * k).map(|i| (i * 91) as u8).collect();
        let (xf, wf): (Vec<f32>, Vec<f32>) =
            (x.iter().map(|x| f32::from(*x)).collect(), w.iter().map(|x| f32::from(*x)).collect());
        let weights = Int8Weights { bytes: &w, is_signed: true, zeros: &[0] };
        let weights = MatrixWeights::new(&weights, MatRef::new(&w, k, n, 1, k));
        let floats = PackedB::new(MatRef::new(&wf, k, n, 1, k));
        let (mut y, mut yf) = (vec![0u8; m * n], vec![0f32; m * n]);
        let scale = vec![1e-4; n];
        let x = Int8 { bytes: &x, is_signed: false, zero: 0 };
        let int8 = time(seconds, || gemm_int8(x, &weights, &epilogue(&scale), MatMut::row_major(&mut y, m, n)));
        let float = time(seconds, || {
            let (a, c) = (MatRef::row_major(&xf, m, k), MatMut::row_major(&mut yf, m, n));
            gemm_packed_b(1.0, a, &floats, 0.0, c, &FloatEpilogue::default());
        });
        report(&format!("gemm {m}x{k}x{n}"), (m * k * n) as f64 / 1e9, int8, float);
    }
}
