//! Times an LSTM over sequences: `cargo run --release -p ferromx-kernels --example rnn_bench [THREADS]`. Prints milliseconds of the
//! forward pass, and of both passes, the best of several.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use ferromx_kernels::par::set_num_threads;
use ferromx_kernels::rnn::{Cell, Geometry, Gradients, Inputs, Outputs, backward, forward};

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 10_090.0 - 0.05).collect()
}

fn best(mut f: impl FnMut()) -> f64 {
    let times = (0..30).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|t| t.parse().ok()).unwrap_or(1);
    set_num_threads(threads);
    for cell in [Cell::Lstm, Cell::Gru] {
        let g = Geometry {
            cell,
            layers: 1,
            bidirectional: false,
            steps: 32,
            batch: 64,
            input: 256,
            hidden: 256,
            projection: None,
            clip: None,
            dropout: 0.0,
            has_lengths: false,
        };
        let (x, parameters) = (numbers(32 * 64 * 256, 1), numbers(g.parameters(), 2));
        let (h0, c0) = (numbers(64 * 256, 3), numbers(64 * 256, 4));
        let ins = Inputs { x: &x, parameters: &parameters, h0: &h0, c0: &c0, lengths: None };
        let (mut y, mut reserve) = (vec![0.0; 32 * 64 * 256], vec![0.0; g.reserve()]);
        let (mut dx, mut dp) = (vec![0.0; x.len()], vec![0.0; parameters.len()]);
        let dy = numbers(y.len(), 5);
        let inference = best(|| forward(&g, &ins, Outputs { y: &mut y, h: None, c: None, reserve: None }, None));
        let both = best(|| {
            forward(&g, &ins, Outputs { y: &mut y, h: None, c: None, reserve: Some(&mut reserve) }, None);
            let (x, parameters) = (Some(&mut dx[..]), Some(&mut dp[..]));
            let grads = Gradients { dy: &dy, dh: None, dc: None, x, parameters, h0: None, c0: None };
            backward(&g, &ins, &y, &reserve, grads);
        });
        println!("{cell:?}, {threads} threads: forward {inference:.2} ms, both {both:.2} ms");
    }
}
