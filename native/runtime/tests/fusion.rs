//! Fused and unfused plans give the same results. The reference is a plan with a monitor, which runs unfused.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use ferromx_core::op::Mode;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::Executor;
use ferromx_runtime::symbol::Symbol;

/// The values of arrays after one pass from fixed initial values.
#[derive(Debug, Default, PartialEq)]
struct Results {
    outputs: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    states: Vec<Vec<f32>>,
}

/// The passes that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    Forward,
    Both,
}

fn run(executor: &Executor, seed: u64, mode: Mode, passes: Passes) -> Results {
    fill(executor, seed);
    executor.forward(mode).unwrap();
    if passes == Passes::Both {
        let heads: Vec<_> = executor.outputs().to_vec();
        executor.backward(&heads, Mode::Training).unwrap();
    }
    Results { outputs: values(executor.outputs()), gradients: gradients(executor), states: values(executor.aux()) }
}

/// Runs fused and unfused.
fn both(executor: &Executor, seed: u64, mode: Mode, passes: Passes) -> (Results, Results) {
    let fused = run(executor, seed, mode, passes);
    executor.set_monitor(Some(Arc::new(|_, _| {})), false);
    let unfused = run(executor, seed, mode, passes);
    executor.set_monitor(None, false);
    (fused, unfused)
}

fn assert_close(a: &Results, b: &Results, tolerance: f32, what: &str) {
    for (a, b) in [(&a.outputs, &b.outputs), (&a.gradients, &b.gradients), (&a.states, &b.states)] {
        for (a, b) in a.iter().zip(b) {
            assert_eq!(a.len(), b.len());
            let scale = b.iter().fold(0f32, |m, x| m.max(x.abs())).max(1e-3);
            for (x, y) in a.iter().zip(b) {
                assert!((x - y).abs() <= tolerance * scale || x == y || (x.is_nan() && y.is_nan()), "{what}: {x} {y}");
            }
        }
    }
}

/// A random graph of elementwise operators on three variables with several outputs.
fn random_net(numbers: &mut Numbers) -> Symbol {
    let unary = ["sin", "exp", "tanh", "sigmoid", "square", "negative", "relu", "sqrt"];
    let binary = ["elemwise_add", "_npi_multiply", "broadcast_sub", "elemwise_div", "_maximum", "_npi_add"];
    let mut symbols = vec![variable("data"), variable("other"), variable("third")];
    for i in 0..3 + numbers.below(12) {
        let a = symbols[numbers.below(symbols.len())].clone();
        let b = symbols[numbers.below(symbols.len())].clone();
        let name = format!("n{i}");
        symbols.push(match numbers.below(8) {
            0..3 => op(unary[numbers.below(unary.len())], &name, &[a], &[]),
            3..6 => op(binary[numbers.below(binary.len())], &name, &[a, b], &[]),
            6 => op("_mul_scalar", &name, &[a], &[("scalar", "0.5")]),
            _ => op("_rminus_scalar", &name, &[a], &[("scalar", "1.5")]),
        });
    }
    let last = symbols[symbols.len() - 1].clone();
    let total = op("sum", "total", &[symbols[symbols.len() - 2].clone()], &[]);
    Symbol::group(&[last, symbols[numbers.below(symbols.len() - 3) + 3].clone(), total])
}

#[test]
fn random_elementwise_graphs_agree_bit_for_bit() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let net = random_net(&mut numbers);
        let reqs = net.list_arguments().iter().map(|_| [Req::Write, Req::Add, Req::Null][numbers.below(3)]).collect();
        // Lengths below and above the block size, including ones with a shorter last block.
        let n = [1, 37, 3000, 20_000][numbers.below(4)];
        let shapes: Vec<(String, [i64; 1])> = net.list_arguments().into_iter().map(|a| (a, [n])).collect();
        let shapes: Vec<(&str, &[i64])> = shapes.iter().map(|(a, s)| (a.as_str(), &s[..])).collect();
        let executor = bind(&net, &shapes, reqs, seed);
        let (fused, unfused) = both(&executor, seed, Mode::Training, Passes::Both);
        let same = |a: &[Vec<f32>], b: &[Vec<f32>]| {
            a.iter().flatten().map(|x| x.to_bits()).eq(b.iter().flatten().map(|x| x.to_bits()))
        };
        assert!(same(&fused.outputs, &unfused.outputs), "outputs of graph {seed}");
        assert!(same(&fused.gradients, &unfused.gradients), "gradients of graph {seed}");
    }
}

#[test]
fn lenet_agrees_in_training_and_inference() {
    for activation in ["relu", "tanh", "sigmoid"] {
        let net = lenet(activation);
        for req in [Req::Write, Req::Add] {
            let reqs = vec![req; net.list_arguments().len()];
            let executor = bind(&net, &[("data", &[4, 1, 8, 8])], reqs, 1);
            let (fused, unfused) = both(&executor, 1, Mode::Training, Passes::Both);
            assert_close(&fused, &unfused, 1e-6, activation);
            let (fused, unfused) = both(&executor, 2, Mode::Inference, Passes::Forward);
            assert_close(&fused, &unfused, 1e-6, activation);
        }
    }
}

/// A residual block: convolutions with batch normalization, a shortcut connection, and ReLU.
fn residual_block(stride: &str) -> Symbol {
    let conv = |x: &Symbol, name: &str, kernel: &str, pad: &str, stride: &str, no_bias: &str| {
        let attrs = [("kernel", kernel), ("pad", pad), ("stride", stride), ("num_filter", "8"), ("no_bias", no_bias)];
        op("Convolution", name, std::slice::from_ref(x), &attrs)
    };
    let norm = |x: Symbol, name: &str, fix: &str| op("BatchNorm", name, &[x], &[("fix_gamma", fix)]);
    let relu = |x: Symbol, name: &str| op("Activation", name, &[x], &[("act_type", "relu")]);
    let x = relu(norm(conv(&variable("data"), "stem", "(3, 3)", "(1, 1)", "(1, 1)", "False"), "bn0", "False"), "relu0");
    let y = relu(norm(conv(&x, "conv1", "(3, 3)", "(1, 1)", stride, "True"), "bn1", "True"), "relu1");
    let y = norm(conv(&y, "conv2", "(3, 3)", "(1, 1)", "(1, 1)", "True"), "bn2", "False");
    let shortcut = if stride == "(1, 1)" {
        x
    } else {
        let normalized = norm(conv(&x, "conv3", "(1, 1)", "(0, 0)", stride, "True"), "bn3", "False");
        op("clip", "clip", &[normalized], &[("a_min", "-0.5"), ("a_max", "1")])
    };
    let sum = op("elemwise_add", "sum", &[y, shortcut], &[]);
    let x = relu(sum, "relu2");
    let x = op("Pooling", "pool", &[x], &[("pool_type", "avg"), ("global_pool", "True"), ("kernel", "(1, 1)")]);
    let x = op("FullyConnected", "fc", &[x], &[("num_hidden", "6")]);
    let x = norm(x, "bn4", "False");
    op("LeakyReLU", "leaky", &[x], &[("slope", "0.1")])
}

#[test]
fn residual_blocks_agree_in_training_and_inference() {
    for stride in ["(1, 1)", "(2, 2)"] {
        let net = residual_block(stride);
        let executor = bind(&net, &[("data", &[2, 3, 9, 9])], writes(&net), 3);
        for seed in 3..6 {
            let (fused, unfused) = both(&executor, seed, Mode::Inference, Passes::Forward);
            assert_close(&fused, &unfused, 2e-6, "inference");
            let (fused, unfused) = both(&executor, seed, Mode::Training, Passes::Both);
            assert_close(&fused, &unfused, 1e-6, "training");
        }
    }
}

/// Convolutions and a dense layer with gated activations, x * f(x).
fn gated_layers() -> Symbol {
    let conv = |x: &Symbol, name: &str| {
        let attrs = [("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("num_filter", "8"), ("no_bias", "True")];
        let conv = op("Convolution", name, std::slice::from_ref(x), &attrs);
        op("BatchNorm", &format!("{name}_norm"), &[conv], &[("fix_gamma", "False")])
    };
    let hard = |x: &Symbol, name: &str| {
        op("hard_sigmoid", name, std::slice::from_ref(x), &[("alpha", "0.16666667"), ("beta", "0.5")])
    };
    let x = conv(&variable("data"), "swish");
    let x = op("elemwise_mul", "swished", &[x.clone(), hard(&x, "hard0")], &[]);
    let y = conv(&x, "silu");
    let logistic = op("sigmoid", "logistic", std::slice::from_ref(&y), &[]);
    let y = op("broadcast_mul", "gated", &[logistic, y], &[]);
    let x = op("elemwise_add", "sum", &[conv(&x, "residual"), y], &[]);
    let x = hard(&x, "hard1");
    let x = op("FullyConnected", "fc", &[x], &[("num_hidden", "300")]);
    op("_npi_multiply", "last", &[x.clone(), op("tanh", "tanh", &[x], &[])], &[])
}

#[test]
fn gated_layers_agree_in_training_and_inference_and_are_single_steps() {
    let net = gated_layers();
    let executor = bind(&net, &[("data", &[2, 3, 9, 9])], writes(&net), 3);
    for seed in 3..6 {
        let (fused, unfused) = both(&executor, seed, Mode::Inference, Passes::Forward);
        assert_close(&fused, &unfused, 2e-6, "inference");
        let (fused, unfused) = both(&executor, seed, Mode::Training, Passes::Both);
        assert_close(&fused, &unfused, 1e-6, "training");
    }
    let executor = bind(&net, &[("data", &[2, 3, 9, 9])], vec![Req::Null; net.list_arguments().len()], 3);
    executor.forward(Mode::Inference).unwrap();
    let text = executor.debug_string();
    assert!(text.contains("Plan: 4 forward and 0 gradient steps"), "{text}");
}

#[test]
fn changes_of_arrays_between_runs_take_effect() {
    let net = residual_block("(1, 1)");
    let executor = bind(&net, &[("data", &[2, 3, 9, 9])], vec![Req::Null; net.list_arguments().len()], 3);
    let first = run(&executor, 3, Mode::Inference, Passes::Forward);
    run(&executor, 3, Mode::Inference, Passes::Forward);
    for (arrays, name) in [(executor.args(), "argument"), (executor.aux(), "state")] {
        for array in arrays {
            run(&executor, 3, Mode::Inference, Passes::Forward);
            Numbers(77).fill(array);
            executor.forward(Mode::Inference).unwrap();
            let fused = Results { outputs: values(executor.outputs()), ..Results::default() };
            executor.set_monitor(Some(Arc::new(|_, _| {})), false);
            executor.forward(Mode::Inference).unwrap();
            executor.set_monitor(None, false);
            let unfused = Results { outputs: values(executor.outputs()), ..Results::default() };
            assert_close(&fused, &unfused, 2e-6, name);
        }
    }
    assert_eq!(run(&executor, 3, Mode::Inference, Passes::Forward).outputs, first.outputs);
}

#[test]
fn gradients_after_an_inference_pass_use_its_inputs() {
    let net = elementwise_chain();
    let shapes: [(&str, &[i64]); 1] = [("a", &[100])];
    let executor = bind(&net, &shapes, writes(&net), 5);
    let expected = run(&executor, 5, Mode::Training, Passes::Both);
    fill(&executor, 9);
    executor.forward(Mode::Training).unwrap();
    let got = run(&executor, 5, Mode::Inference, Passes::Both);
    assert_eq!((got.outputs, got.gradients), (expected.outputs, expected.gradients));
}

#[test]
fn a_monitor_gets_every_operator() {
    let net = residual_block("(2, 2)");
    let executor = bind(&net, &[("data", &[2, 3, 9, 9])], writes(&net), 3);
    let (seen, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (names, calls) = (seen.clone(), count.clone());
    let monitor = move |name: &str, array: ferromx_core::sparse::Array| {
        assert!(!array.dense().unwrap().is_empty());
        calls.fetch_add(1, Ordering::Relaxed);
        names.lock().unwrap().push(name.to_string());
    };
    executor.set_monitor(Some(Arc::new(monitor)), false);
    executor.forward(Mode::Inference).unwrap();
    let seen = seen.lock().unwrap().clone();
    for output in net.internals().list_outputs() {
        let variable = net.list_inputs().contains(&output);
        assert!(variable || seen.contains(&output), "{output} is not among {seen:?}");
    }
    let forward = count.load(Ordering::Relaxed);
    executor.backward(executor.outputs(), Mode::Training).unwrap();
    assert!(count.load(Ordering::Relaxed) > forward);
}

#[test]
fn chains_are_single_steps_without_intermediate_arrays() {
    let net = elementwise_chain();
    let executor = bind(&net, &[("a", &[100_000])], vec![Req::Null; 4], 5);
    let text = executor.debug_string();
    assert!(text.contains("Plan: 1 forward and 0 gradient steps"), "{text}");
    assert!(text.contains("Total 0 MB allocated"), "{text}");
}

#[test]
fn a_second_pass_backward_gives_the_same_gradients() {
    let hidden = op("tanh", "hidden", &[variable("data")], &[]);
    let normed = op(
        "BatchNorm",
        "normed",
        &[op("square", "squared", std::slice::from_ref(&hidden), &[])],
        &[("fix_gamma", "False")],
    );
    let dropped = op("Dropout", "dropped", &[op("elemwise_mul", "product", &[normed, hidden], &[])], &[]);
    let net = op(
        "log",
        "log",
        &[op("_plus_scalar", "above", &[op("square", "size", &[dropped], &[])], &[("scalar", "0.5")])],
        &[],
    );
    let executor = bind(&net, &[("data", &[6, 5])], writes(&net), 5);
    fill(&executor, 3);
    executor.forward(Mode::Training).unwrap();
    let heads: Vec<_> = executor.outputs().iter().map(|y| y.to_context(executor.context()).unwrap()).collect();
    let mut passes = (0..3).map(|_| {
        executor.backward(&heads, Mode::Training).unwrap();
        (gradients(&executor), values(executor.outputs()))
    });
    let first = passes.next().unwrap();
    assert!(first.0.iter().flatten().any(|x| *x != 0.0));
    assert!(passes.all(|pass| pass == first));
}
