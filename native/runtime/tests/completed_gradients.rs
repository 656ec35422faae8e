//! A backward pass reports each gradient when it is complete, in an order that all workers of a job share.
#![allow(clippy::unwrap_used)] // Tests may panic.

mod common;

use std::sync::Arc;

use common::{bind, fill, gradients, op, variable};
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::{Bound, Executor};
use ferromx_runtime::symbol::Symbol;

/// Three layers with the arguments data, one_weight, one_bias, two_weight, two_bias, three_weight, three_bias, softmax_label.
fn network() -> Symbol {
    let mut x = variable("data");
    for (name, size) in [("one", "16"), ("two", "8"), ("three", "4")] {
        let inputs = [x, variable(&format!("{name}_weight")), variable(&format!("{name}_bias"))];
        x = op("FullyConnected", name, &inputs, &[("num_hidden", size)]);
        if name != "three" {
            x = op("Activation", &format!("{name}_act"), &[x], &[("act_type", "tanh")]);
        }
    }
    op("SoftmaxOutput", "softmax", &[x, variable("softmax_label")], &[])
}

const NUM_ARGS: usize = 8;
const ONE_WEIGHT: usize = 1;
const THREE_WEIGHT: usize = 5;

fn bound(batch: i64, req: Req) -> Executor {
    let mut reqs = vec![req; NUM_ARGS];
    (reqs[0], reqs[NUM_ARGS - 1]) = (Req::Null, Req::Null);
    bind(&network(), &[("data", &[batch, 6]), ("softmax_label", &[batch])], reqs, 1)
}

/// Runs both passes; returns the reported arguments, each with all gradients at the time of the report.
fn reports(executor: &Executor) -> Vec<(usize, Vec<Vec<f32>>)> {
    let mut reports = Vec::new();
    executor.forward(Mode::Training).unwrap();
    let mut report = |arg: usize| {
        reports.push((arg, gradients(executor)));
        Ok(())
    };
    executor.backward_stored(&[], Mode::Training, Some(&mut report)).unwrap();
    reports
}

fn order(executor: &Executor) -> Vec<usize> {
    reports(executor).into_iter().map(|(arg, _)| arg).collect()
}

#[test]
fn gradients_are_complete_when_reported_and_reported_before_the_end() {
    for req in [Req::Write, Req::Add] {
        let executor = bound(5, req);
        executor.forward(Mode::Training).unwrap();
        executor.backward(&[], Mode::Training).unwrap();
        let expected = gradients(&executor);
        fill(&executor, 1);
        let old = gradients(&executor);
        let reports = reports(&executor);
        let mut args: Vec<usize> = reports.iter().map(|(arg, _)| *arg).collect();
        for (arg, at_report) in &reports {
            assert_eq!(at_report[*arg], expected[*arg], "argument {arg}, {req:?}");
        }
        let (_, at_first) = &reports[0];
        assert_eq!(at_first[ONE_WEIGHT], old[ONE_WEIGHT], "the first layer's gradient is computed last, {req:?}");
        assert!(args[..2].contains(&THREE_WEIGHT), "{args:?}");
        args.sort();
        assert_eq!(args, [1, 2, 3, 4, 5, 6]);
        assert_eq!(gradients(&executor), expected);
    }
}

#[test]
fn the_order_depends_on_neither_the_batch_size_nor_a_monitor() {
    let expected = order(&bound(5, Req::Write));
    assert_eq!(order(&bound(64, Req::Write)), expected);
    let monitored = bound(5, Req::Write);
    monitored.set_monitor(Some(Arc::new(|_, _| ())), true);
    assert_eq!(order(&monitored), expected);
}

#[test]
fn gradients_that_share_an_array_are_reported_after_its_last_addition() {
    let original = bound(5, Req::Add);
    let executor = {
        let mut grads = original.grads().to_vec();
        // The gradient of the first bias lies in the array of the first weight's.
        let shared = grads[ONE_WEIGHT].as_ref().unwrap().reshape(&Shape::new(&[96])).unwrap().slice(0, 16).unwrap();
        grads[2] = Some(shared);
        let mut reqs = vec![Req::Add; NUM_ARGS];
        (reqs[0], reqs[NUM_ARGS - 1]) = (Req::Null, Req::Null);
        let bound = Bound { args: original.args().to_vec(), grads, reqs, aux: Vec::new() };
        Executor::bind(original.symbol(), original.context(), bound, None).unwrap()
    };
    let reports = reports(&executor);
    let last = gradients(&executor);
    for (arg, at_report) in &reports {
        assert_eq!(at_report[*arg], last[*arg], "argument {arg}");
    }
    assert_eq!(reports.len(), 6);
}

#[test]
fn an_argument_without_influence_is_reported() {
    let symbol = op("BlockGrad", "block", &[variable("a")], &[]);
    let symbol = op("elemwise_add", "sum", &[symbol, variable("b")], &[]);
    let executor = bind(&op("MakeLoss", "loss", &[symbol], &[]), &[("a", &[3]), ("b", &[3])], vec![Req::Write; 2], 1);
    let reports = reports(&executor);
    assert_eq!(reports.len(), 2);
    let (_, at_last) = &reports[1];
    assert_eq!(*at_last, [[0.0; 3], [1.0; 3]]);
}

#[test]
fn an_error_of_the_callback_ends_the_pass() {
    let executor = bound(5, Req::Write);
    executor.forward(Mode::Training).unwrap();
    let old = gradients(&executor);
    let mut num_calls = 0;
    let mut fail = |_: usize| {
        num_calls += 1;
        Err(ferromx_core::error::Error::Value("lost".into()))
    };
    let error = executor.backward_stored(&[], Mode::Training, Some(&mut fail)).unwrap_err().to_string();
    assert!(error.contains("lost"), "{error}");
    assert_eq!(num_calls, 1);
    assert_eq!(gradients(&executor)[ONE_WEIGHT], old[ONE_WEIGHT]);
}
