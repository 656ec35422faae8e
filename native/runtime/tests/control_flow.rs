//! Loops and branches: outputs and gradients of executors in float64, compared with finite differences.
#![allow(clippy::unwrap_used)] // Tests may panic.

mod common;

use common::{op, variable};
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::{Bound, Executor};
use ferromx_runtime::symbol::Symbol;

fn array(values: &[f64], dims: &[i64]) -> NDArray {
    NDArray::from_slice(values, dims).unwrap()
}

/// `while i < 3: (out = x * w, x = x * w + i, i = i + 1)`, with the inputs i, x, w.
fn while_loop() -> Symbol {
    let (i, x, w) = (variable("i"), variable("x"), variable("w"));
    let cond = op("_lesser_scalar", "cond", std::slice::from_ref(&i), &[("scalar", "3")]);
    let product = op("elemwise_mul", "product", &[x, w], &[]);
    let sum = op("broadcast_add", "sum", &[product.clone(), i.clone()], &[]);
    let next = op("_plus_scalar", "next", &[i], &[("scalar", "1")]);
    let body = Symbol::group(&[op("_copy", "out", &[product], &[]), next, sum]);
    assert_eq!(body.list_inputs(), ["x", "w", "i"]);
    let attrs = [
        ("num_outputs", "3"),
        ("num_out_data", "1"),
        ("max_iterations", "5"),
        ("cond_input_locs", "(0,)"),
        ("func_input_locs", "(1, 2, 0)"),
        ("func_var_locs", "(2, 0)"),
    ];
    op("_while_loop", "loop", &[cond, body, variable("count"), variable("start"), variable("weight")], &attrs)
}

/// The sum of all outputs, with a different weight for each element.
fn loss(executor: &Executor) -> f64 {
    let weigh = |k: usize, a: &NDArray| -> f64 {
        a.to_vec_as::<f64>().unwrap().iter().enumerate().map(|(i, x)| x * head(k, i)).sum()
    };
    executor.outputs().iter().enumerate().map(|(k, a)| weigh(k, a)).sum()
}

fn head(output: usize, element: usize) -> f64 {
    1.0 + output as f64 + 0.25 * element as f64
}

fn bind(symbol: &Symbol, args: &[NDArray], req: Req) -> Executor {
    let grads = args.iter().map(|a| Some(NDArray::zeros(a.shape(), a.dtype(), a.context()).unwrap())).collect();
    let bound = Bound { args: args.to_vec(), grads, reqs: vec![req; args.len()], aux: vec![] };
    Executor::bind(symbol, Context::default(), bound, None).unwrap()
}

/// Compares gradients with finite differences; training and inference give the same outputs.
fn check_gradients(symbol: &Symbol, args: &[NDArray], differentiable: &[usize]) {
    let executor = bind(symbol, args, Req::Write);
    let heads: Vec<NDArray> = executor
        .outputs()
        .iter()
        .enumerate()
        .map(|(k, a)| array(&(0..a.len()).map(|i| head(k, i)).collect::<Vec<_>>(), a.shape().dims()))
        .collect();
    executor.forward(Mode::Inference).unwrap();
    let inferred = loss(&executor);
    executor.forward(Mode::Training).unwrap();
    assert_eq!(loss(&executor), inferred);
    // Runs twice, to detect state left by the first pass, and once after an inference pass.
    for mode in [Mode::Training, Mode::Training, Mode::Inference] {
        executor.forward(mode).unwrap();
        executor.backward(&heads, Mode::Training).unwrap();
        for &k in differentiable {
            let grad = executor.grads()[k].as_ref().unwrap().to_vec::<f64>().unwrap();
            let values = args[k].to_vec::<f64>().unwrap();
            for i in 0..values.len() {
                let at = |d: f64| {
                    let mut moved = values.clone();
                    moved[i] += d;
                    args[k].copy_from_slice(&moved).unwrap();
                    executor.forward(Mode::Inference).unwrap();
                    loss(&executor)
                };
                let want = (at(1e-6) - at(-1e-6)) / 2e-6;
                args[k].copy_from_slice(&values).unwrap();
                assert!((grad[i] - want).abs() < 1e-5 * want.abs().max(1.0), "input {k}[{i}]: {} and {want}", grad[i]);
            }
        }
    }
}

#[test]
fn while_loops_compute_and_differentiate() {
    let args = [array(&[0.0], &[1]), array(&[1.0, 2.0], &[2]), array(&[0.5, -1.5], &[2])];
    let executor = bind(&while_loop(), &args, Req::Null);
    executor.forward(Mode::Inference).unwrap();
    let out = executor.outputs()[0].to_vec::<f64>().unwrap();
    // x is (1, 2), (0.5, -3) and (1.25, 5.5) in the three iterations. The last two of the five rows are not filled.
    assert_eq!(out, [0.5, -3.0, 0.25, 4.5, 0.625, -8.25, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(executor.outputs()[1].to_vec::<f64>().unwrap(), [3.0]);
    assert_eq!(executor.outputs()[2].to_vec::<f64>().unwrap(), [2.625, -6.25]);
    check_gradients(&while_loop(), &args, &[1, 2]);
}

#[test]
fn variables_may_be_swapped_in_long_loops() {
    // (a, b) = (b, a + 1) while a < 1000: the first output of an iteration is one of its variables.
    let cond = op("_lesser_scalar", "less", &[variable("a")], &[("scalar", "1000")]);
    let next = op("_plus_scalar", "next", &[variable("a")], &[("scalar", "1")]);
    let body = Symbol::group(&[variable("b"), next]);
    assert_eq!(body.list_inputs(), ["b", "a"]);
    let attrs = [
        ("num_outputs", "2"),
        ("num_out_data", "0"),
        ("max_iterations", "5000"),
        ("cond_input_locs", "(0,)"),
        ("func_input_locs", "(1, 0)"),
        ("func_var_locs", "(1, 0)"),
    ];
    let symbol = op("_while_loop", "loop", &[cond, body, variable("x"), variable("y")], &attrs);
    let executor = bind(&symbol, &[array(&[0.0], &[1]), array(&[0.0], &[1])], Req::Null);
    for mode in [Mode::Inference, Mode::Training, Mode::Inference] {
        executor.forward(mode).unwrap();
        let outs: Vec<f64> = executor.outputs().iter().flat_map(|o| o.to_vec::<f64>().unwrap()).collect();
        assert_eq!(outs, [1000.0, 1000.0]);
    }
}

#[test]
fn the_taken_branch_is_differentiated() {
    let (a, b) = (variable("a"), variable("b"));
    let pred = op("_copy", "pred", &[variable("p")], &[]);
    let product = op("elemwise_mul", "product", &[a.clone(), b.clone()], &[]);
    let square = op("square", "square", &[b], &[]);
    let attrs =
        [("num_outputs", "1"), ("cond_input_locs", "(0,)"), ("then_input_locs", "(1, 2)"), ("else_input_locs", "(2,)")];
    let symbol = op("_cond", "cond", &[pred, product, square, variable("p"), variable("x"), variable("y")], &attrs);
    let again = Symbol::from_json(&symbol.to_json()).unwrap();
    assert_eq!(again.to_json(), symbol.to_json());
    for p in [1.0, 0.0] {
        let args = [array(&[p], &[1]), array(&[1.0, -2.0], &[2]), array(&[3.0, 0.5], &[2])];
        check_gradients(&again, &args, &[1, 2]);
    }
}

#[test]
fn nested_loops_over_rows_differentiate() {
    let cell = op("broadcast_mul", "cell", &[variable("c"), variable("w")], &[]);
    let sum = op("broadcast_add", "sum", &[cell, variable("s")], &[]);
    let inner = Symbol::group(&[op("tanh", "out", std::slice::from_ref(&sum), &[]), op("_copy", "state", &[sum], &[])]);
    assert_eq!(inner.list_inputs(), ["c", "w", "s"]);
    let attrs = [
        ("num_outputs", "2"),
        ("num_out_data", "1"),
        ("in_data_locs", "(0,)"),
        ("in_state_locs", "(2,)"),
        ("remain_locs", "(1,)"),
    ];
    let loop_over = |graph: &Symbol, name: &str, data: &str, state: &str, weight: &str| {
        op("_foreach", name, &[graph.clone(), variable(data), variable(state), variable(weight)], &attrs)
    };
    let middle = loop_over(&inner, "inner", "c", "s", "w");
    assert_eq!(middle.list_inputs(), ["c", "s", "w"]);
    let attrs = [&attrs[..3], &[("in_state_locs", "(1,)"), ("remain_locs", "(2,)")]].concat();
    let outer = op("_foreach", "outer", &[middle, variable("data"), variable("begin"), variable("weight")], &attrs);
    let values: Vec<f64> = (0..12).map(|i| 0.1 * f64::from(i) - 0.5).collect();
    let args = [array(&values, &[2, 3, 2]), array(&[0.25, -0.5], &[2]), array(&[0.5, 1.5], &[2])];
    check_gradients(&outer, &args, &[0, 1, 2]);
    // Gradients accumulate with the request `Add`.
    let executor = bind(&outer, &args, Req::Add);
    let heads: Vec<NDArray> =
        executor.outputs().iter().map(|a| NDArray::zeros(a.shape(), DType::F64, a.context()).unwrap()).collect();
    heads[1].copy_from_slice(&[1.0, 1.0]).unwrap();
    for _ in 0..2 {
        executor.forward(Mode::Training).unwrap();
        executor.backward(&heads, Mode::Training).unwrap();
    }
    assert_eq!(executor.grads()[1].as_ref().unwrap().to_vec::<f64>().unwrap(), [2.0, 2.0]);
}

#[test]
fn incompatible_graphs_are_errors() {
    let body = op("relu", "body", &[variable("x")], &[]);
    let error = |locs: &str, inputs: &[Symbol]| {
        let attrs = [
            ("num_outputs", "1"),
            ("num_out_data", "1"),
            ("in_data_locs", locs),
            ("in_state_locs", "()"),
            ("remain_locs", "()"),
        ];
        Symbol::op("_foreach", "loop", inputs, &attrs).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(error("(0,)", &[body.clone(), variable("data")]), "");
    assert!(error("(0, 1)", &[body.clone(), variable("data"), variable("more")]).contains("the graph has 1 inputs"));
    assert!(error("(3,)", &[body, variable("data")]).contains("index 3"));
    assert!(error("(0,)", &[]).contains("for Parameter num_args"));
}
