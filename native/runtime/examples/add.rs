//! Measures an addition of one element, called from Rust: `add [additions per round]`.
//!
//! Prints microseconds per call, the best of seven rounds.
#![allow(clippy::print_stdout)] // its purpose

use std::sync::Arc;
use std::time::Instant;

use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_ops::registry;
use ferromx_runtime::imperative::{Tensor, call};

fn one() -> Result<Arc<Tensor>> {
    Ok(Arc::new(Tensor::new(NDArray::from_slice(&[1.0f32], &[1])?)))
}

fn best(additions: u32, mut add: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..additions {
            add()?;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(additions));
    }
    Ok(best)
}

fn main() -> Result<()> {
    let additions = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let inputs = [one()?, one()?];
    let output = [one()?];
    let none = std::iter::empty::<(&str, &str)>;
    let add = registry::find("elemwise_add")?.0;
    let add_scalar = registry::find("_plus_scalar")?.0;
    let new = best(additions, || call(add, none(), &inputs, &[]).map(drop))?;
    let given = best(additions, || call(add, none(), &inputs, &output).map(drop))?;
    let scalar = best(additions, || call(add_scalar, [("scalar", "1")].into_iter(), &inputs[..1], &[]).map(drop))?;
    println!("elemwise_add, new output:   {new:.3} us");
    println!("elemwise_add, given output: {given:.3} us");
    println!("_plus_scalar, new output:   {scalar:.3} us");
    Ok(())
}
