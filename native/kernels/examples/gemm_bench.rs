//! Times matrix products against the `matrixmultiply` crate (one thread), in a few seconds.
//!
//! `cargo run --release -p ferromx-kernels --example gemm_bench [filter]`; `MXNET_CPU_WORKER_NTHREADS` and `FERROMX_ISA` choose
//! threads and instructions. Each figure is the best of many runs; the two libraries alternate.
#![allow(unsafe_code)]

use ferromx_kernels::gemm::{Epilogue, MatMut, MatRef, PackedB, gemm, gemm_packed_b};
use ferromx_kernels::{par, simd::Isa};
use std::io::Write;
use std::time::{Duration, Instant};

/// Seconds spent on a shape.
const BUDGET: f64 = 0.25;

/// Which operands are stored transposed.
#[derive(Clone, Copy, PartialEq)]
enum Operands {
    RowMajor,
    /// A, as in the gradient of a layer's weights.
    LeftTransposed,
    /// B, as in the forward pass of a fully connected layer.
    RightTransposed,
}
use Operands::{LeftTransposed, RightTransposed, RowMajor};

/// Name, rows, columns, depth, how the operands are stored.
const SHAPES: [(&str, usize, usize, usize, Operands); 21] = [
    ("square", 256, 256, 256, RowMajor),
    ("square", 1024, 1024, 1024, RowMajor),
    ("square", 2048, 2048, 2048, RowMajor),
    ("square, B transposed", 1024, 1024, 1024, RightTransposed),
    ("FullyConnected", 128, 1024, 1024, RightTransposed),
    ("FullyConnected", 32, 1024, 1024, RightTransposed),
    ("FullyConnected", 8, 1024, 1024, RightTransposed),
    ("FullyConnected", 1, 1024, 1024, RightTransposed),
    ("row vector", 1, 1024, 1024, RowMajor),
    ("column vector", 1024, 1, 1024, RowMajor),
    ("MLP", 32, 128, 784, RightTransposed),
    ("MLP", 32, 64, 128, RightTransposed),
    ("MLP", 32, 10, 64, RightTransposed),
    ("MLP", 32, 10, 128, RightTransposed),
    ("MLP backward", 32, 128, 64, RowMajor),
    ("MLP backward", 32, 128, 10, RowMajor),
    ("tiny", 4, 4, 4, RowMajor),
    ("FullyConnected, gradient of weights", 1024, 1024, 128, LeftTransposed),
    ("LSTM, step backward", 64, 256, 1024, RowMajor),
    ("LSTM, gradient of input", 2048, 256, 1024, RowMajor),
    ("LSTM, gradient of weights", 1024, 256, 2048, LeftTransposed),
];

fn time(best: &mut f64, repeat: usize, mut f: impl FnMut()) {
    let start = Instant::now();
    (0..repeat).for_each(|_| f());
    *best = best.min(start.elapsed().as_secs_f64() / repeat as f64);
}

fn main() -> std::io::Result<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut out = std::io::stdout();
    writeln!(out, "{:?}, {} threads; microseconds (GFLOP/s)", Isa::current(), par::num_threads())?;
    writeln!(out, "{:40} {:>18} {:>18} {:>18} {:>6}", "", "gemm", "prepacked", "matrixmultiply", "ratio")?;
    for (name, m, n, k, stored) in SHAPES {
        let title = format!("{name} {m}x{k} * {k}x{n}");
        if !title.contains(&filter) {
            continue;
        }
        let a: Vec<f32> = (0..m * k).map(|i| (i % 17) as f32 - 8.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 13) as f32 - 6.0).collect();
        let mut c = vec![0.0f32; m * n];
        let left = if stored == LeftTransposed { MatRef::row_major(&a, k, m).t() } else { MatRef::row_major(&a, m, k) };
        let right =
            if stored == RightTransposed { MatRef::row_major(&b, n, k).t() } else { MatRef::row_major(&b, k, n) };
        let packed = PackedB::new(right);
        let epilogue = Epilogue::default();
        let repeat = (4e7 / (2.0 * (m * n * k) as f64)).clamp(1.0, 2000.0) as usize;
        let mut best = [f64::INFINITY; 3];
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs_f64(BUDGET) {
            time(&mut best[0], repeat, || gemm(1.0, left, right, 0.0, MatMut::row_major(&mut c, m, n)));
            time(&mut best[1], repeat, || {
                gemm_packed_b(1.0, left, &packed, 0.0, MatMut::row_major(&mut c, m, n), &epilogue);
            });
            time(&mut best[2], repeat, || {
                let (left_row, left_col) = (left.row_stride() as isize, left.col_stride() as isize);
                let (row_stride, col_stride) = (right.row_stride() as isize, right.col_stride() as isize);
                // SAFETY: the three matrices have the sizes and strides that are passed.
                unsafe {
                    matrixmultiply::sgemm(
                        m,
                        k,
                        n,
                        1.0,
                        a.as_ptr(),
                        left_row,
                        left_col,
                        b.as_ptr(),
                        row_stride,
                        col_stride,
                        0.0,
                        c.as_mut_ptr(),
                        n as isize,
                        1,
                    );
                }
            });
        }
        let show = |t: f64| format!("{:.2} ({:.1})", t * 1e6, 2e-9 * (m * n * k) as f64 / t);
        let [own, prepacked, other] = best.map(show);
        writeln!(out, "{title:40} {own:>18} {prepacked:>18} {other:>18} {:>6.2}", best[2] / best[0])?;
    }
    Ok(())
}
