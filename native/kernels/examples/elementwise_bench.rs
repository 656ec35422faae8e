//! Times the elementwise, reduction, softmax, movement and sorting kernels:
//! `cargo run --release -p ferromx-kernels --example elementwise_bench`.
//! `OMP_NUM_THREADS` sets the number of threads.

use ferromx_kernels::map::{Src, map};
use ferromx_kernels::reduce::{Sum, reduce};
use ferromx_kernels::rng::Philox;
use ferromx_kernels::softmax::{Softmax, softmax_forward};
use ferromx_kernels::sort::{Order, argsort, sort, topk};
use ferromx_kernels::{AxisShape, broadcast, lane_fn, math, movement, par, zip};
use std::io::Write;
use std::time::Instant;

/// The median time of a call in milliseconds, over about a third of a second.
fn time(name: &str, mut f: impl FnMut()) -> std::io::Result<()> {
    f();
    let start = Instant::now();
    let mut times = vec![];
    while start.elapsed().as_secs_f64() < 0.35 || times.len() < 5 {
        let t = Instant::now();
        f();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    writeln!(std::io::stdout(), "{name:<40} {:9.4} ms, best {:9.4}", times[times.len() / 2], times[0])
}

fn random(stream: u64, n: usize) -> Vec<f32> {
    let mut x = vec![0.0; n];
    Philox::new(1, stream).fill_uniform(-1.0, 1.0, &mut x);
    x
}

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{} threads", par::num_threads())?;
    let n = 4 << 20;
    let x: Vec<Vec<f32>> = (0..4).map(|k| random(k, n)).collect();
    let mut y = vec![0f32; n];
    time("gelu, 4M", || map(Src::from(&x[0]), &mut y, lane_fn!(|x: f32| -> f32 { math::gelu(x) })))?;
    time("sin, 4M", || map(Src::from(&x[0]), &mut y, lane_fn!(|x: f32| -> f32 { math::sin(x) })))?;
    time("log, 4M", || map(Src::from(&x[0]), &mut y, lane_fn!(|x: f32| -> f32 { math::log(x) })))?;

    time("x^y, 4M", || {
        zip::zip(Src::from(&x[0]), Src::from(&x[1]), &mut y, lane_fn!(|x: f32, y: f32| -> f32 { math::pow(x, y) }));
    })?;
    time("tan(x)*erf(x), 4M", || {
        map(Src::from(&x[0]), &mut y, lane_fn!(|x: f32| -> f32 { math::tan(x) * math::erf(x) }));
    })?;

    let m = 1024 * 1024;
    let add = lane_fn!(|a: f32, b: f32| -> f32 { a + b });
    time("broadcast_add (1024,1024)+(1,1024)", || {
        let (a, b) = (Src::Slice(&x[0][..m]), Src::Slice(&x[1][..1024]));
        broadcast::broadcast((a, &[1024, 1024]), (b, &[1, 1024]), (&mut y[..m], &[1024, 1024]), add);
    })?;
    time("broadcast_add (1024,1024)+(1024,1)", || {
        let (a, b) = (Src::Slice(&x[0][..m]), Src::Slice(&x[1][..1024]));
        broadcast::broadcast((a, &[1024, 1024]), (b, &[1024, 1]), (&mut y[..m], &[1024, 1024]), add);
    })?;
    let mut one = [0f32];
    time("add of one element", || zip::zip(Src::Slice(&x[0][..1]), Src::Slice(&x[1][..1]), &mut one, add))?;
    let mut sums = vec![0f32; 4096];
    time("sum (4096,1024) axis 0", || {
        reduce::<Sum, f32, f32, f32>(&x[0], &[4096, 1024], &[0], &mut sums[..1024]);
    })?;
    time("sum (4096,1024) axis 1", || reduce::<Sum, f32, f32, f32>(&x[0], &[4096, 1024], &[1], &mut sums))?;
    time("transpose (1024,1024)", || movement::transpose(&x[0][..m], &[1024, 1024], &[1, 0], &mut y[..m]))?;

    for axis in [1000, 64] {
        let (shape, len) = (AxisShape { outer: 4096, axis, inner: 1 }, 4096 * axis);
        let name = format!("softmax (4096,{axis})");
        time(&name, || softmax_forward(shape, Softmax::PLAIN, &x[0][..len], &mut y[..len]))?;
    }

    let million = &x[0][..1_000_000];
    let mut indices = vec![0f32; 1_000_000];
    time("sort 1M", || sort(million, 1_000_000, Order::Ascending, &mut y[..1_000_000]))?;
    time("argsort 1M", || argsort(million, 1_000_000, Order::Ascending, &mut indices))?;
    time("top-100 of 1M", || topk(million, 1_000_000, 100, Order::Descending, &mut indices[..100]))?;
    let g = Philox::new(3, 3);
    time("uniform 4M", || g.fill_uniform(0.0, 1.0, &mut y))?;
    time("normal 4M", || g.fill_normal(0.0, 1.0, &mut y))
}
