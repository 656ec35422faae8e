//! A backward pass reads large gradients of outputs in place and copies the others. Results must not depend on it.
#![allow(clippy::unwrap_used)] // Tests may panic.

mod common;

use std::sync::Arc;

use common::{Numbers, bind, gradients, op, variable};
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::Executor;
use ferromx_runtime::symbol::Symbol;

const ROWS: i64 = 1100;
const COLUMNS: i64 = 64;

/// Two outputs of 280 kB: a layer whose gradient reads the head gradient through a reshaped view, and a chain of elementwise operators.
fn network() -> Symbol {
    let data = variable("data");
    let layer = op(
        "FullyConnected",
        "layer",
        &[data.clone(), variable("weight")],
        &[("num_hidden", "64"), ("no_bias", "True")],
    );
    let flat = op("Reshape", "flat", &[layer], &[("shape", "(-1,)")]);
    let chain = op("tanh", "tanh", &[op("_mul_scalar", "twice", &[data], &[("scalar", "2")])], &[]);
    Symbol::group(&[flat, chain])
}

fn bound(req: Req) -> Executor {
    bind(&network(), &[("data", &[ROWS, COLUMNS])], vec![req; 2], 1)
}

fn shapes() -> [Shape; 2] {
    [Shape::new(&[ROWS * COLUMNS]), Shape::new(&[ROWS, COLUMNS])]
}

fn heads(seed: u64) -> Vec<NDArray> {
    let mut numbers = Numbers(seed);
    shapes()
        .iter()
        .map(|shape| {
            let array = NDArray::empty(shape, DType::F32, Context::default()).unwrap();
            numbers.fill(&array);
            array
        })
        .collect()
}

fn to_f64(arrays: &[NDArray]) -> Vec<NDArray> {
    let convert = |array: &NDArray| {
        let values: Vec<f64> = array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
        NDArray::from_slice(&values, array.shape().dims()).unwrap()
    };
    arrays.iter().map(convert).collect()
}

/// The gradients of a new executor for the values of `heads`, which it converts and therefore copies.
fn expected(heads: &[NDArray], req: Req) -> Vec<Vec<f32>> {
    let executor = bound(req);
    executor.forward(Mode::Training).unwrap();
    executor.backward(&to_f64(heads), Mode::Training).unwrap();
    gradients(&executor)
}

fn backward(executor: &Executor, heads: &[NDArray]) -> Vec<Vec<f32>> {
    executor.forward(Mode::Training).unwrap();
    executor.backward(heads, Mode::Training).unwrap();
    gradients(executor)
}

fn is_shared(array: &NDArray) -> bool {
    Arc::strong_count(array.chunk()) > 1
}

#[test]
fn large_arrays_are_read_in_place_until_others_are_given() {
    for req in [Req::Write, Req::Add] {
        let first = heads(7);
        assert_eq!(backward(&bound(req), &first), expected(&first, req), "{req:?}");
    }
    let (executor, first, second) = (bound(Req::Write), heads(7), heads(8));
    assert_eq!(backward(&executor, &first), expected(&first, Req::Write));
    assert!(first.iter().all(is_shared));
    heads(9).iter().zip(&first).for_each(|(new, head)| head.copy_from(new).unwrap());
    assert_eq!(backward(&executor, &first), expected(&heads(9), Req::Write), "new contents");
    assert_eq!(backward(&executor, &second), expected(&second, Req::Write));
    assert!(!first.iter().any(is_shared));
    let expected_of_first = expected(&first, Req::Write);
    assert_eq!(
        backward(&executor, &to_f64(&first)),
        expected_of_first,
        "an array of another type after one that was read in place"
    );
    assert_eq!(
        second[0].to_vec::<f32>().unwrap(),
        heads(8)[0].to_vec::<f32>().unwrap(),
        "the old array is not written"
    );
    assert!(!second.iter().any(is_shared));
}

#[test]
fn views_are_read_at_their_offset() {
    let (all, head) = (heads(5)[1].clone(), heads(6)[0].clone());
    let twice = NDArray::empty(&Shape::new(&[2 * ROWS, COLUMNS]), DType::F32, Context::default()).unwrap();
    let view = twice.slice(ROWS as usize, 2 * ROWS as usize).unwrap();
    view.copy_from(&all).unwrap();
    assert_eq!(backward(&bound(Req::Write), &[head.clone(), view]), expected(&[head, all], Req::Write));
}

#[test]
fn arrays_that_are_bound_as_something_else_are_copied() {
    let executor = bound(Req::Write);
    executor.forward(Mode::Training).unwrap();
    let outputs = executor.outputs().to_vec();
    let copies: Vec<NDArray> =
        outputs.iter().map(|y| NDArray::from_slice(&y.to_vec::<f32>().unwrap(), y.shape().dims()).unwrap()).collect();
    assert_eq!(backward(&executor, &outputs), expected(&copies, Req::Write), "the outputs");

    let (gradient, other) = (executor.grads()[0].clone().unwrap(), heads(3)[0].clone());
    let copy = NDArray::from_slice(&gradient.to_vec::<f32>().unwrap(), gradient.shape().dims()).unwrap();
    let given = [other.clone(), gradient];
    assert_eq!(backward(&executor, &given), expected(&[other, copy], Req::Write), "a gradient");

    let shared = heads(4)[1].clone();
    let both = [shared.reshape(&shapes()[0]).unwrap(), shared.clone()];
    for _ in 0..2 {
        assert_eq!(backward(&executor, &both), expected(&both, Req::Write), "one array for both outputs");
    }
}

#[test]
fn monitored_passes_read_the_same_arrays() {
    let (executor, first, second) = (bound(Req::Write), heads(7), heads(8));
    backward(&executor, &first);
    executor.set_monitor(Some(Arc::new(|_, _| {})), true);
    assert_eq!(backward(&executor, &first), expected(&first, Req::Write));
    assert_eq!(backward(&executor, &second), expected(&second, Req::Write));
    executor.set_monitor(None, false);
    assert_eq!(backward(&executor, &second), expected(&second, Req::Write));
}
