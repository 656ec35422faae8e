#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
use ferromx_core::storage::Req;
use std::time::Instant;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_runtime::graph::op_call;
use ferromx_runtime::imperative::invoke::invoke;

fn time(name: &str, n: usize, mut f: impl FnMut()) {
    f(); f(); f();
    let mut best: Vec<f64> = (0..9).map(|_| { let t = Instant::now(); for _ in 0..n { f() } t.elapsed().as_secs_f64() / n as f64 * 1e6 }).collect();
    best.sort_by(f64::total_cmp);
    println!("{name}: median {:.2} us, least {:.2} us", best[4], best[0]);
}
fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    if what.is_empty() || what == "chain" {
        let net = elementwise_chain();
        let e = bind(&net, &[("a", &[4 << 20])], vec![Req::Null; 4], 5);
        time("chain fused", 5, || e.forward(false).unwrap());
        e.set_monitor(Some(std::sync::Arc::new(|_, _| {})), false);
        time("chain unfused+copies", 2, || e.forward(false).unwrap());
    }
    for (name, net, shape) in [("lenet", lenet("relu"), vec![32i64, 1, 8, 8]), ("mlp", dense(variable("data"), &["128", "64", "10"], "relu"), vec![32, 64])] {
        if !(what.is_empty() || what == name) { continue }
        let mut reqs = writes(&net); reqs[0] = Req::Null;
        let last = reqs.len() - 1; reqs[last] = Req::Null;
        let e = bind(&net, &[("data", &shape)], reqs, 7);
        let attrs: Attrs = [("lr", "0.05"), ("momentum", "0.9")].iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let update = op_call("sgd_mom_update", &attrs).unwrap();
        let moms: Vec<NDArray> = e.args().iter().map(|a| NDArray::zeros(a.shape(), a.dtype(), a.context()).unwrap()).collect();
        let n = if name == "lenet" { 50 } else { 500 };
        time(&format!("{name} forward"), n, || e.forward(true).unwrap());
        time(&format!("{name} forward+backward"), n, || { e.forward(true).unwrap(); e.backward(&[], true).unwrap() });
        time(&format!("{name} updates"), n, || {
            for ((w, g), m) in e.args().iter().zip(e.grads()).zip(&moms) {
                if let Some(g) = g { invoke(&update, None, &[w.clone(), g.clone(), m.clone()], &[w.clone()], false).unwrap(); }
            }
        });
        time(&format!("{name} inference"), n, || e.forward(false).unwrap());
        if what == name { print!("{}", e.debug_string()); }
    }
}
